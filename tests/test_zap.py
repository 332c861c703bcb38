# SPDX-License-Identifier: GPL-2.0
"""Batched unmapping: its selftest, that fails if something is lost, and the study's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from outcomes import report

from lab import instruments, selftests, topology, zap
from lab.build import KernelImage
from lab.errors import LabError
from lab.ktap import Case
from lab.selftests import Program

SWAP = """echo 128M > /sys/block/zram0/disksize
mkswap /dev/zram0 > /dev/null
swapon /dev/zram0"""
FAULTS = "/sys/kernel/debug/zap_batch"
TEST = Program(
    "zap_test",
    "-t bad_input -t all_kinds -t in_turn -t offline -t oom_reaper -t cpu_hotplug",
    timeout_s=400,
)
# What the debug kernel gets through in a minute
QUICK = Program("zap_test", "-t bad_input -t in_turn -t offline -t no_memory", timeout_s=200)
ALL = Program("zap_test", f"{TEST.args} -t no_memory", timeout_s=900)
# Code that is patched while it runs is where emulated CPUs race.
SWITCHING = Program("zap_test", "-t switching", timeout_s=200)
# Each gatherer loses what it has, and that is what the test has to say.
SAYS = {
    "stat": " bytes of anon;",
    "lru": " pages in generations;",
    "charge": " bytes are charged;",
    "free": "nr_free_pages: ",
}
BROKEN = tuple(
    Program(
        "zap_test",
        "-t all_kinds",
        timeout_s=200,
        before=f"echo 0 | tee {FAULTS}/fault_*; echo 1 > {FAULTS}/fault_{what}",
        label=what,
    )
    for what in SAYS
)


def _run(kernel: KernelImage, wanted: tuple[Program, ...], out_dir: Path) -> dict[str, list[Case]]:
    machine = topology.load("two-tier", fast_mb=768, slow_mb=512)
    built = selftests.programs(kernel, "zap_batch")
    return selftests.run_programs(kernel, built, wanted, machine, out_dir, prepare=SWAP)


def test_zap_selftest(
    torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    report(subtests, _run(torture_kernel, (TEST,), out_dir), may_skip=())


def test_some_on_the_debug_kernel(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    report(subtests, _run(debug_kernel, (QUICK,), out_dir), may_skip=())


@pytest.mark.long
def test_all_on_the_debug_kernel(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    report(subtests, _run(debug_kernel, (ALL,), out_dir), may_skip=())


@pytest.mark.long
def test_switching(torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests) -> None:
    """The switch is turned while memory is unmapped."""
    report(subtests, _run(torture_kernel, (SWITCHING,), out_dir), may_skip=())


def test_what_is_lost_is_noticed(torture_kernel: KernelImage, out_dir: Path) -> None:
    cases = _run(torture_kernel, BROKEN, out_dir)
    assert cases.keys() == SAYS.keys()
    for what, found in cases.items():
        assert [case.outcome for case in found] == ["fail"], cases
        assert SAYS[what] in found[0].reason


def _rows(on: float) -> zap.Rows:
    return {
        case.label: {"base": 100.0, "single": 200.0, "off": 100.0, "on": on} for case in zap.CASES
    }


def _counted(locked: float, statistics: float) -> dict[str, dict[str, float]]:
    base = {"insn": 900.0, "locked": 4.75, "statistics": 300.0}
    return {
        "base": base,
        "off": base,
        "on": {"insn": 450.0, "locked": locked, "statistics": statistics},
    }


def _waits(base: int, ours: int) -> zap.Row:
    keys = (*zap.LOCKS, zap.STRETCH)
    return {"base": dict.fromkeys(keys, base), "on": dict.fromkeys(keys, ours)}


def test_tables_of_the_study() -> None:
    waited = {"4 KiB": _waits(1000, 900)}
    facts: dict[str, Any] = {
        "date": "2026-01-01T00:00:00Z",
        "command": "python -m lab zap",
        "seconds": 60.0,
        "host": {"qemu": "7.2"},
        "kernels": {
            "tiershift": {
                "release": "6.12",
                "flavour": "ours",
                "key": "abc",
                "base_version": "6.12-1",
            }
        },
        "rows": _rows(50.0),
        "counted": _counted(3.5, 40.0),
        "waits": waited,
        "threads": {
            "8": {mode: {"locked": 4.0, **row} for mode, row in _waits(70, 60).items()},
        },
        "missed": zap.judge(_rows(50.0), _counted(3.5, 40.0), waited),
    }
    assert facts["missed"] == []
    page = zap.markdown(facts)
    row = "| munmap, 2048 KiB by PTEs, 1024 MiB | 100.00 | 200.00 | 100.00 | 50.00 | 0.500 | 1.01 |"
    assert row in page
    assert "| ours, on | 450 | 3.50 | 40 |" in page
    assert "| 4 KiB | 1000 / 900 |" in page
    assert "| 8 | 4.00 / 4.00 | 70 / 60 |" in page


def test_what_misses_a_goal_is_said() -> None:
    missed = zap.judge(_rows(101.5), _counted(4.0, 100.0), {"4 KiB": _waits(100, 111)})
    assert "munmap, 64 KiB: 1.015 of base, at most 1.01" in missed
    assert not any(text.startswith("nodes") for text in missed)
    assert "4 KiB, LRU: 111 instructions, base 100" in missed
    assert "4.00 locked operations, at most 3.75" in missed
    assert "statistics: 0.33 of base's, at most 0.2" in missed
    counted = _counted(3.5, 40.0)
    counted["off"] = {**counted["off"], "insn": 909.0}
    assert zap.judge(_rows(50.0), counted, {}) == ["off: 1.010 of base's insn"]


def test_waits_are_by_lock() -> None:
    found = instruments.HoldsResult(
        stretch=9,
        stretch_end="zap_batch_free",
        longest={"free_unref_run": 5, "free_unref_folios": 7, "__schedule": 100},
        mean={},
    )
    assert zap.waits(found) == {
        "page table": 0,
        "LRU": 0,
        "per-CPU lists": 7,
        "zone": 0,
        "stretch": 9,
    }


def test_what_was_not_measured_is_an_error() -> None:
    case = zap.Case("munmap", "4", 256, 1)
    line = 'RESULT {"case": "munmap", "folio": "4", "ms": 5.5, "ns_each": 84.0}'
    assert zap.times(f"noise\n{line}\n", (case,)) == [5.5]
    with pytest.raises(LabError, match="has not measured"):
        zap.times(line, (case, case))
