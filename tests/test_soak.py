# SPDX-License-Identifier: GPL-2.0
"""The soak's scripts and its page; the runs themselves are `make soak`."""

from __future__ import annotations

import re
import subprocess

import pytest

from lab import kconfig, manifest, soak, topology


def test_machines_have_as_much_memory() -> None:
    machines = [topology.load(name, **sizes) for name, sizes in soak.MACHINES.items()]
    for cpus in (True, False):
        sizes = {
            sum(node.size_mb for node in one.nodes if bool(node.cpus) == cpus) for one in machines
        }
        assert len(sizes) == 1


@pytest.mark.parametrize(
    ("name", "fast", "slow"), [("two-tier", "0", "1"), ("two-sockets", "0,1", "2,3")]
)
def test_scripts_know_the_nodes(name: str, fast: str, slow: str) -> None:
    machine = topology.load(name, **soak.MACHINES[name])
    for torture in soak.TORTURES:
        text = soak.script(torture, machine, 60)
        assert not re.search("@[A-Z]+@", text)
        assert f"migratepages $pid {fast} {slow} " in text and "--timeout 60s" in text
        subprocess.run(["sh", "-n"], input=text, text=True, check=True)
        blocks = re.findall(r"/node/node(\d)/memory\*", text)
        assert ",".join(blocks) == (slow if torture.beside == soak.HOTPLUG else "")


def test_contents_are_verified() -> None:
    said = subprocess.run(["stress-ng", "--verifiable"], capture_output=True, text=True, check=True)
    always, _, asked_for = said.stdout.partition("enabled by --verify")
    for torture in soak.TORTURES:
        used = set(re.findall(r"--([a-z]+) \d", torture.args))
        assert used & set(asked_for.split()), "nothing would be verified"
        text = soak.script(torture, topology.load("two-tier"), 60)
        assert f"stress-ng --temp-path /tmp --verify {torture.args} " in text
    # The others check always, but for madvise and memthrash, which check nothing.
    names = set(re.findall(r"--([a-z]+) \d", " ".join(t.args for t in soak.TORTURES)))
    assert names - set(asked_for.split()) - set(always.split()) == {"madvise", "memthrash"}


@pytest.mark.parametrize("switch", manifest.switches(), ids=lambda switch: switch.file)
def test_every_switch_is_on(switch: manifest.Switch) -> None:
    text = soak.script(soak.TORTURES[0], topology.load("two-tier"), 60)
    on, off = f"echo {switch.on} > {switch.file}\n", f"echo {switch.off} > {switch.file}\n"
    assert text.count(on) == text.count(off) == 1 + switch.toggle


def test_kernel_has_migrc() -> None:
    text = "".join(kconfig.fragments("debug").values())
    assert {"CONFIG_MIGRC", "CONFIG_MIGRC_DEBUG"} <= {
        name for name, value in kconfig.options(text).items() if value == "y"
    }


def test_page_of_the_soak() -> None:
    row = {"torture": "vm", "machine": "two-sockets", "stress-ng": "--vm 3", "promoted": 54}
    row |= {"deferred": 7, "beside": 0, "seconds": 82, "result": "ok"}
    last = soak.markdown({"command": "make soak"}, [row]).splitlines()[-1]
    assert last == "| vm | two-sockets | `--vm 3` | 54 | 7 | - | 82 | ok |"
    resumed = soak.markdown({"command": "make soak", "resumed": 3}, [row])
    assert resumed.endswith("\n\n3 of the rows are of a soak that was broken off.\n")
