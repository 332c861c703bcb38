# SPDX-License-Identifier: GPL-2.0
"""The soak's scripts and its lines; the runs themselves are `make soak`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, parsed, verdicts, written

from lab import build, cache, kconfig, manifest, soak, topology
from lab.errors import LabError
from lab.results import finish, ledger


def test_machines_have_as_much_memory() -> None:
    machines = [topology.load(name, **sizes) for name, sizes in soak.MACHINES.items()]
    for cpus in (True, False):
        sizes = {
            sum(node.size_mb for node in one.nodes if bool(node.cpus) == cpus) for one in machines
        }
        assert len(sizes) == 1


@pytest.mark.parametrize(
    ("name", "fast", "slow", "permille"),
    [("two-tier", "0", "1", 500), ("two-sockets", "0,1", "2,3", 250)],
)
def test_scripts_know_the_nodes_and_the_cpus(
    name: str, fast: str, slow: str, permille: int
) -> None:
    machine = topology.load(name, **soak.MACHINES[name])
    for torture in soak.TORTURES:
        text = soak.script(torture, machine, 60)
        assert not re.search("@[A-Z]+@", text)
        assert f"migratepages $pid {fast} {slow} " in text and "--timeout 60s" in text
        assert f"\necho {permille} > scan/cpu_permille\n" in text
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


ROW = {"torture": "fork", "machine": "two-sockets", "stress-ng": "--vm 3", "promoted": 54}
ROW |= {"deferred": 7, "beside": 0, "seconds": 82, "result": "ok"}
KERNEL_FACTS = {**FACTS, "kernel": {**KERNEL, "flavour": "debug"}, "seconds_each": 30}


def test_lines_of_the_soak(tmp_path: Path) -> None:
    bad = {**ROW, "torture": "vm", "result": "failed: nothing was promoted", "beside": 3}
    facts = {**KERNEL_FACTS, "rows": [ROW, bad]}
    lines = written(soak.STUDIES[0], soak.runs(facts), tmp_path)
    good, failed = lines["fork, two-sockets"], lines["vm, two-sockets"]
    assert good.figures == {"promoted": 54, "deferred": 7, "guest_s": 60, "wall_s": 82}
    assert (verdicts(good), good.checks, good.kernel) == ([ledger.MET], [], "debug k")
    assert (verdicts(failed), failed.checks) == ([ledger.MISSED], [bad["result"]])
    assert (failed.figures["guest_s"], failed.figures["beside"]) == (30, 3)


def test_only_all_of_the_soak_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Kernel:
        key = "k"

        def describe(self) -> dict[str, str]:
            return KERNEL

    def one(_kernel: Kernel, torture: soak.Torture, machine: str, _seconds: int) -> dict[str, Any]:
        return {**ROW, "torture": torture.name, "machine": machine}

    recorded: list[int] = []
    monkeypatch.setattr(cache, "sub", lambda name: tmp_path / name)
    monkeypatch.setattr(build, "kernel", lambda _flavour: Kernel())
    monkeypatch.setattr(soak, "_one", one)
    monkeypatch.setattr(ledger, "record", lambda _n, _f, runs, _g: recorded.append(len(runs)))
    study = soak.STUDIES[0]
    assert study.run(parsed(study))
    assert recorded == [2 * len(soak.TORTURES)]
    for argv in (["--seconds", "29"], ["--machine", "two-tier"], ["vm"]):
        assert study.run(parsed(study, *argv))
        assert finish.PART in capsys.readouterr().out
    assert len(recorded) == 1
    with pytest.raises(LabError, match="no torture 'vn'"):
        study.run(parsed(study, "vn"))
