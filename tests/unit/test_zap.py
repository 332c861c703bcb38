# SPDX-License-Identifier: GPL-2.0
"""The study of batched unmapping: what is counted, its goals and its lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, verdicts, written

from lab import instruments, zap
from lab.errors import LabError
from lab.results import ledger


def _rows(on: float) -> zap.Rows:
    return {case.label: {"base": 100.0, "off": 100.0, "on": on} for case in zap.CASES}


def _counted(locked: float, statistics: float) -> dict[str, dict[str, float]]:
    base = {"insn": 900.0, "steady": 800.0, "locked": 4.75, "statistics": 300.0}
    return {
        "base": base,
        "off": base,
        "on": {"insn": 450.0, "steady": 400.0, "locked": locked, "statistics": statistics},
    }


def _waits(base: int, ours: int) -> zap.Row:
    keys = (*zap.LOCKS, zap.STRETCH)
    return {"base": dict.fromkeys(keys, base), "on": dict.fromkeys(keys, ours)}


def _facts(
    rows: zap.Rows, counted: dict[str, dict[str, float]], waited: dict[str, zap.Row]
) -> dict[str, Any]:
    return {
        **FACTS,
        "kernels": {name: {**KERNEL, "flavour": name} for name in ("base", "tiershift")},
        "rows": rows,
        "counted": counted,
        "waits": waited,
        "threads": {"8": {mode: {"locked": 4.0, **row} for mode, row in _waits(70, 60).items()}},
    }


def test_lines_of_the_study(tmp_path: Path) -> None:
    facts = _facts(_rows(34.0), _counted(3.5, 40.0), {"4 KiB": _waits(1000, 900)})
    lines = written(zap.STUDY, zap.runs(facts), tmp_path)
    assert len(lines) == len(zap.CASES) + 3 + 1 + 1
    assert {verdict for line in lines.values() for verdict in verdicts(line)} == {ledger.MET}
    huge = lines["time: munmap, 2048 KiB by PTEs, 1024 MiB"]
    assert huge.figures == {"base": 100, "off": 100, "on": 34, "of_base": 0.34}
    assert (huge.goals[0].value, huge.goals[0].limit) == (0.34, 1.01)
    on = lines["counted: ours, on"]
    assert on.figures == {"insn": 450, "steady": 400, "locked": 3.5, "statistics": 40}
    assert len(on.goals) == 4 and not lines["counted: ours, off"].goals
    assert lines["counted: unmodified"].kernel == "base k"
    waited = lines["longest: 4 KiB"]
    assert (waited.figures["LRU, base"], waited.figures["LRU, on"]) == (1000, 900)
    assert len(waited.goals) == len(zap.LOCKS) + 1
    threads = lines["threads: 8"]
    assert (threads.figures["locked, base"], threads.figures["zone, on"]) == (4, 60)
    assert not threads.goals


def _missed(facts: dict[str, Any]) -> dict[str, float | None]:
    """Goals that are missed, and their figures."""
    goals = [goal for run in zap.runs(facts) for goal in run.goals]
    return {goal.name: goal.value for goal in goals if goal.verdict == ledger.MISSED}


def test_what_misses_a_goal_is_said() -> None:
    rows, waited = _rows(101.5), {"4 KiB": _waits(100, 111)}
    of_both = waited["4 KiB"]
    waited["64 KiB"] = {**of_both, "on": {**of_both["on"], "per-CPU lists": 1}}
    missed = _missed(_facts(rows, _counted(4.0, 100.0), waited))
    assert missed["munmap, 64 KiB"] == 1.015
    assert not any(name.startswith("nodes") for name in missed)
    assert missed["4 KiB, longest hold, LRU"] == 1.11
    assert missed["64 KiB, longest stretch"] == 1.11
    assert missed["on, locked operations a page"] == 4
    assert missed["on, statistics"] == 0.33333
    counted = _counted(3.5, 40.0)
    counted["off"] = {**counted["off"], "insn": 990.0}  # by the buddy allocator
    waited = {"4 KiB": _waits(100, 90)}
    assert _missed(_facts(_rows(34.0), counted, waited)) == {}
    counted["off"] = {**counted["off"], "steady": 808.0}
    assert _missed(_facts(_rows(34.0), counted, waited)) == {"off, steady a page": 1.01}


def test_what_equal_code_differs_by_hides_a_miss() -> None:
    rows = _rows(101.5)
    rows["munmap, 16 KiB"]["off"] = 92.0
    rows["munmap, 32 KiB"]["off"] = 99.0
    goals = {
        goal.name: goal.verdict
        for run in zap.runs(_facts(rows, _counted(3.5, 40.0), {"4 KiB": _waits(100, 90)}))
        for goal in run.goals
    }
    assert goals["munmap, 16 KiB"] == ledger.UNSEEN
    assert goals["munmap, 32 KiB"] == ledger.MISSED


def test_each_row_has_a_limit_for_each_lock() -> None:
    """A short hold of one row is not hidden by a longer one of another row."""
    waited = {"4 KiB": _waits(100, 90), "64 KiB": _waits(20, 20)}
    waited["64 KiB"] = {**waited["64 KiB"], "on": {**waited["64 KiB"]["on"], "zone": 40}}
    assert _missed(_facts(_rows(34.0), _counted(3.5, 40.0), waited)) == {
        "64 KiB, longest hold, zone": 2
    }


def test_new_rows_have_the_limits_that_were_asked() -> None:
    limits = {case.label: case.most for case in zap.CASES}
    assert limits["munmap, 4 KiB, 256 MiB"] == 0.35
    assert limits["munmap, 16 KiB, 256 MiB"] == limits["munmap, 32 KiB"] == 1.01
    assert len(limits) == len(zap.CASES)


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
