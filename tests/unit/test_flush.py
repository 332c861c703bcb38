# SPDX-License-Identifier: GPL-2.0
"""Study flush: flushes by cause, for each page and each operation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, verdicts, written

from lab import flush
from lab.errors import LabError
from lab.results import ledger

SWAP = {"ops": 100_000, "pause_us": 10.0, "pause_most_us": 900.0}
ZERO = {
    "pgmigrate_success": 0,
    "pgpromote_success": 0,
    "pgdemote_direct": 0,
    "pswpout": 0,
    "nr_tlb_remote_flush": 0,
    "nr_tlb_remote_flush_received": 0,
    "pgscan_direct": 0,
    **{f"tier_flush_{cause}": 0 for cause in flush.CAUSES},
}


def _text(**counts: int) -> str:
    return "".join(f"{name} {n}\n" for name, n in {**ZERO, **counts}.items())


def _swap(sent: int, pause: float = 900.0, pages: int = 2000) -> flush.Figures:
    after = _text(
        pswpout=pages,
        nr_tlb_remote_flush=sent,
        nr_tlb_remote_flush_received=7 * sent,
        tier_flush_swapout=sent // 2,
        pgscan_direct=2 * pages,
    )
    return flush.figures("swap", _text(), after, {**SWAP, "pause_most_us": pause})


def test_flushes_by_cause_and_the_rest() -> None:
    found = _swap(60)
    assert (found["units"], found["all"], found["received"]) == (2000, 30, 210)
    assert (found["swapout"], found["demotion"], found["other"]) == (15, 0, 15)
    assert (found["per_op"], found["units_op"], found["pgscan_direct"]) == (600, 20, 2000)


def test_an_unmodified_kernel_tells_no_causes() -> None:
    old = "".join(line + "\n" for line in _text().splitlines() if "tier" not in line)
    found = flush.figures("swap", old, old + "pswpout 1000\n", SWAP)
    assert found["all"] == 0 and "swapout" not in found and "deferred" not in found


def test_nothing_moved_is_an_error() -> None:
    with pytest.raises(LabError, match="lookup: nothing was moved"):
        flush.figures("lookup", _text(), _text(pswpout=9), SWAP)


def _facts(batch: list[flush.Figures]) -> dict[str, Any]:
    return {
        **FACTS,
        "jobs": {"swap": {"base": [_swap(2000)] * 2, "off": [_swap(2000)] * 2, "batch": batch}},
        "kernels": {name: {**KERNEL, "flavour": name} for name in ("base", "tiershift")},
    }


def test_limits_of_swap_out(tmp_path: Path) -> None:
    lines = written(flush.STUDY, flush.runs(_facts([_swap(60), _swap(100)])), tmp_path)
    batch = lines["swap: batched migration"]
    assert (batch.figures["all"], batch.figures["all_each"]) == (40, 20)
    assert verdicts(batch) == [ledger.MET] * 3
    assert not lines["swap: ours, off"].goals


def test_worse_than_base_is_missed() -> None:
    runs = flush.runs(_facts([_swap(60), _swap(102, pause=1000.0)]))
    goals = {goal.name: goal.verdict for run in runs for goal in run.goals}
    assert list(goals.values()) == [ledger.MISSED, ledger.MET, ledger.MISSED]


def test_each_mode_prepares_its_kernel_only() -> None:
    for job, modes in flush.JOBS.items():
        base = modes["base"]
        assert base.kernel == "base", job
        assert not any("/sys/kernel/mm/" in line for line in base.prepare), job
