# SPDX-License-Identifier: GPL-2.0
"""What the rooms declare is what a kernel shows: in one boot of the debug kernel.

A program in the guest writes down what it finds.  Here it is compared with room.toml, so that a
name that only one of both has is found.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from lab import guest, manifest, tier, topology
from lab.build import KernelImage
from lab.manifest import Knob

MACHINE = topology.load("two-tier")
# A value that the kernel does not know leaves all as it is without one: so does the lab, then.
APPEND = "tier=neither"
OWN = {"enabled", "state", "reason"}
OF_NODES = {"distance", "source", "targets", "hot"}
BAD = ("0x10", "", "abc", "1 2")
LOOK = r"""
import errno, json, os, re, sys

directory, faults, asked, out = json.loads(sys.argv[1])
events = "/sys/kernel/tracing/events/tier"

def read(path):
    with open(path) as file:
        return file.read().strip()

def write(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, (text + "\n").encode())
        return ""
    except OSError as error:
        return errno.errorcode[error.errno]
    finally:
        os.close(fd)

def names(path, what):
    return sorted(entry.name for entry in os.scandir(path) if what(entry))

def tried(path, values):
    first = read(path)
    said = [(value, write(path, value), read(path)) for value in values]
    write(path, first)
    return {"first": first, "said": said}

if not os.path.exists(events):
    os.system("mount -t tracefs none /sys/kernel/tracing")
parts = names(directory, os.DirEntry.is_dir)
found = {
    "top": names(directory, os.DirEntry.is_file),
    "files": {part: names(f"{directory}/{part}", os.DirEntry.is_file) for part in parts},
    "own": {
        f"{part}/{name}": read(f"{directory}/{part}/{name}")
        for part in [".", *parts] for name in ("enabled", "state", "reason")
        if os.path.exists(f"{directory}/{part}/{name}")
    },
    "tried": {file: tried(f"{directory}/{file}", values) for file, values in asked.items()},
    "rows": re.findall(r"^(tier_\w+) \d+$", read("/proc/vmstat"), re.M),
    "events": {
        event: re.findall(r"field:[^;]*?(\w+)(?:\[\w*\])?;", read(f"{events}/{event}/format"))
        for event in names(events, os.DirEntry.is_dir)
    },
    "faults": {
        name: tried(f"{faults}/{name}", ["1", "0", "Y", "N", "2"])
        for name in names(faults, os.DirEntry.is_file)
    },
}
with open(out, "w") as file:
    json.dump(found, file)
"""


def _values(knob: Knob) -> list[str]:
    """Both ends, and what is no value."""
    return [str(n) for n in (knob.min, knob.max, knob.min - 1, knob.max + 1)] + list(BAD)


@pytest.fixture(scope="module")
def found(debug_kernel: KernelImage, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out_dir = tmp_path_factory.mktemp("interface")
    look, facts = out_dir / "look.py", out_dir / "out/facts.json"
    look.write_text(LOOK, encoding="utf-8")
    asked = {knob.file: _values(knob) for knob in manifest.knobs()}
    asked |= {f"{part}/enabled": ["2", *BAD] for part in tier.PARTS}
    given = json.dumps([tier.DIRECTORY, f"{tier.DEBUG}/faults", asked, str(facts)])
    result = guest.run(
        debug_kernel.image,
        MACHINE,
        shlex.join([sys.executable, str(look), given]),
        out_dir=out_dir / "out",
        timeout_s=300,
        append=f"{APPEND} kunit.enable=0",
    )
    assert result.exit_code == 0, (out_dir / "out/output.log").read_text()
    assert f"{APPEND} is neither on nor off" in result.console
    return json.loads(facts.read_text())


@pytest.mark.xdist_group("interface")
@pytest.mark.parametrize("knob", manifest.knobs(), ids=lambda knob: knob.file)
def test_knob_has_its_default_and_its_range(knob: Knob, found: Any) -> None:
    tried = found["tried"][knob.file]
    assert tried["first"] == str(knob.at_boot(MACHINE.vcpus))
    low, high, *bad = (tuple(one) for one in tried["said"])
    assert [low, high] == [(str(n), "", str(n)) for n in (knob.min, knob.max)]
    # What is refused changes nothing.
    assert bad == [(value, "EINVAL", str(knob.max)) for value in _values(knob)[2:]]


@pytest.mark.xdist_group("interface")
@pytest.mark.parametrize("part", tier.PARTS)
def test_switch_has_its_wish_and_no_other_value(part: str, found: Any) -> None:
    wish = str(int(tier.PARTS[part]))
    tried = found["tried"][f"{part}/enabled"]
    assert tried["first"] == wish
    assert [tuple(one) for one in tried["said"]] == [
        (value, "EINVAL", wish) for value in ("2", *BAD)
    ]
    assert (found["own"][f"{part}/state"], found["own"][f"{part}/reason"]) == ("off", "")


@pytest.mark.xdist_group("interface")
def test_files_are_those_that_are_declared(found: Any) -> None:
    assert found["top"] == ["enabled", "state"]
    assert (found["own"]["./enabled"], found["own"]["./state"]) == ("0", "off")
    wanted = {part: set(OWN) for part in tier.PARTS}
    for knob in manifest.knobs():
        part, _, name = knob.file.partition("/")
        wanted[part].add(name)
    wanted |= {f"node{number}": OF_NODES for number in range(len(MACHINE.nodes))}
    assert {part: set(names) for part, names in found["files"].items()} == wanted


@pytest.mark.xdist_group("interface")
def test_rows_of_vmstat_are_those_that_are_declared(found: Any) -> None:
    declared = [one.name for room in manifest.load().values() for one in room.counters]
    assert sorted(found["rows"]) == sorted(declared)


@pytest.mark.xdist_group("interface")
def test_events_are_those_that_are_declared(found: Any) -> None:
    declared = {event.name: list(event.fields) for event in manifest.events()}
    shown = {
        name: [field for field in fields if not field.startswith("common_")]
        for name, fields in found["events"].items()
    }
    assert shown == declared


@pytest.mark.xdist_group("interface")
def test_faults_are_those_that_are_declared(found: Any) -> None:
    assert found["faults"].keys() == {fault.name for fault in manifest.faults()}
    for name, tried in found["faults"].items():
        assert tried["first"] == "N", name
        *good, bad = (tuple(one) for one in tried["said"])
        assert good == [("1", "", "Y"), ("0", "", "N"), ("Y", "", "Y"), ("N", "", "N")], name
        assert bad[2] == "N", name  # debugfs has no error for it


@pytest.mark.xdist_group("interface")
def test_a_wrong_declaration_would_be_noticed(found: Any) -> None:
    """A range that is one too long, at either end."""
    knob = manifest.knobs()[0]
    wrong = [
        Knob(knob.file, knob.default, *ends, "text")
        for ends in ((knob.min, knob.max - 1), (knob.min + 1, knob.max))
    ]
    for one in wrong:
        with pytest.raises(AssertionError):
            test_knob_has_its_default_and_its_range(one, found)


def test_program_of_the_guest_runs(tmp_path: Path) -> None:
    compile(LOOK, "look.py", "exec")
