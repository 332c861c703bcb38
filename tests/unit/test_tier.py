# SPDX-License-Identifier: GPL-2.0
"""The directory of memory tiering: what guests begin with, and what is switched on alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab import cache, manifest, tier
from lab.errors import LabError

# As after boot: the whole is off, and some parts are wished.
BOOTED = {"": "0", **{part: "1" if wish else "0" for part, wish in tier.PARTS.items()}}
OFF = dict.fromkeys(tier.PARTS, "0")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A made-up /sys/kernel/mm/tier."""
    path = tmp_path / "tier"
    for part, value in BOOTED.items():
        (path / part).mkdir(parents=True, exist_ok=True)
        (path / part / "enabled").write_text(f"{value}\n")
    (path / "node0").mkdir()  # has no switch
    return path


def _shell(text: str, directory: Path, cmdline: str = "") -> str:
    """Run it there; what it has printed."""
    given = directory.parent / "cmdline"
    given.write_text(f"{cmdline}\n")
    here = text.replace(tier.DIRECTORY, str(directory)).replace("/proc/cmdline", str(given))
    done = subprocess.run(["sh", "-c", here], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def _switches(directory: Path) -> dict[str, str]:
    return {part: (directory / part / "enabled").read_text().strip() for part in BOOTED}


@pytest.mark.parametrize("cmdline", ["", "nokaslr kvm.tier=on", "numa=tier", "frontier=off"])
def test_guest_begins_with_parts_off_that_one_write_switches_on(
    directory: Path, cmdline: str
) -> None:
    assert _shell(tier.BEGIN, directory, cmdline) == ""
    assert _switches(directory) == {"": "1", **OFF}


@pytest.mark.parametrize("cmdline", ["tier=on", "nokaslr tier=off", "a tier=on b"])
def test_boot_parameter_is_left_alone(directory: Path, cmdline: str) -> None:
    assert _shell(tier.BEGIN, directory, cmdline) == ""
    assert _switches(directory) == BOOTED


def test_other_kernels_have_nothing_to_prepare(tmp_path: Path) -> None:
    assert _shell(tier.BEGIN, tmp_path / "tier") == ""
    assert not (tmp_path / "tier").exists()


def test_parts_are_switched_on_alone(directory: Path) -> None:
    _shell(f"set -e\n{tier.alone('scan', 'promote')}", directory)
    assert _switches(directory) == {"": "1", **OFF, "scan": "1", "promote": "1"}
    _shell(tier.alone("zap"), directory)
    assert _switches(directory) == {"": "1", **OFF, "zap": "1"}
    _shell(tier.alone(), directory)
    assert _switches(directory) == {"": "1", **OFF}


def test_part_is_on_before_the_whole_is() -> None:
    lines = tier.alone("demote", "age").splitlines()
    assert lines[1:] == [
        "echo 1 > /sys/kernel/mm/tier/demote/enabled",
        "echo 1 > /sys/kernel/mm/tier/age/enabled",
        "echo 1 > /sys/kernel/mm/tier/enabled",
    ]


def test_paths() -> None:
    assert tier.file("batch", "max_kb") == "/sys/kernel/mm/tier/batch/max_kb"
    assert tier.enabled("defer") == "/sys/kernel/mm/tier/defer/enabled"
    assert tier.fault("zap_lru") == "/sys/kernel/debug/tier/faults/zap_lru"


@pytest.mark.parametrize("part", ["migrc", "", "enabled", "node0"])
def test_unknown_part_is_refused(part: str) -> None:
    for call in (tier.enabled, tier.alone, lambda name: tier.file(name, "state")):
        with pytest.raises(LabError, match="has no part"):
            call(part)


def test_parts_are_those_of_the_kernel() -> None:
    """With what each of them wishes after boot."""
    found = {}
    for path in (cache.PROJECT / "linux").glob("*/files/**/*.c"):
        for body in re.findall(
            r"^static struct tier_part \w+ = \{\n(.*?)^\};", path.read_text(), re.M | re.S
        ):
            name = re.search(r'\.name\s*= "(\w+)"', body)
            assert name, path
            found[name[1]] = bool(re.search(r"\.wish\s*= true", body))
    assert found == tier.PARTS


def test_each_part_is_a_switch_of_a_room() -> None:
    switches = manifest.switches()
    wishes = {tier.enabled(part): wish for part, wish in tier.PARTS.items()}
    assert {one.file: one.wish for one in switches} == wishes
    assert len(switches) == len(tier.PARTS)
    assert {(one.on, one.off) for one in switches} == {("1", "0")}
