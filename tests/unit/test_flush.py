# SPDX-License-Identifier: GPL-2.0
"""Study flush: flushes by cause, for each page and each operation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, verdicts, written

from lab import agent, cache, flush, flushes, instruments, manifest, metrics
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


BALANCED = {
    "pgmigrate_success": 4000,
    "pgpromote_success": 1990,
    "pgdemote_kswapd": 2000,
    "nr_tlb_remote_flush": 100,
    "nr_tlb_remote_flush_received": 700,
    "tier_flush_promotion": 20,
    "tier_flush_demotion": 8,
    "tier_flush_deferral": 12,
    "tier_defer_success": 500,
}


@pytest.mark.parametrize("job", flush.LOOKUPS)
def test_lookups_are_told_for_each_page_and_for_each_lookup(job: str) -> None:
    found = flush.figures(job, _text(), _text(**BALANCED), {"ops": 1_000_000})
    assert (found["units"], found["promoted"], found["demoted"]) == (4000, 1990, 2000)
    assert (found["all"], found["received"]) == (25, 175)
    assert [found[one] for one in flush.CAUSES] == [0, 5, 2, 0, 0, 3] and found["other"] == 15
    assert found["deferred"] == 25  # of what was demoted
    assert (found["per_op"], found["received_op"], found["units_op"]) == (100, 700, 4)


def test_kernels_without_deferral_have_the_other_causes() -> None:
    known = {name: n for name, n in BALANCED.items() if "defer" not in name}
    old = "".join(line + "\n" for line in _text().splitlines() if "deferral" not in line)
    new = "".join(line + "\n" for line in _text(**known).splitlines() if "deferral" not in line)
    found = flush.figures("lookup", old, new, {"ops": 10})
    assert (found["promotion"], found["deferral"], found["other"]) == (5, 0, 18)
    assert "deferred" not in found


def test_instructions_leave_waiting_out() -> None:
    """Idling is in no kernel_busy; the two CPUs spin 30 and 20, and wait 5 and 0 for answers."""
    counts = {"user_locked": 0, "user_rep": 0, "kernel": 999, "locked": 0, "rep": 0}
    vcpus = [
        instruments.VcpuCount(user=user, kernel_busy=busy, **counts)
        for user, busy in ((4000, 200), (2000, 155))
    ]
    names = {"copy_page": (60, 40), metrics.SPIN_SYMBOLS[0]: (30, 20), metrics.IPI_SYMBOL: (5, 0)}
    symbols = {
        name: instruments.SymbolCount(name, insn, (0, 0), (0, 0)) for name, insn in names.items()
    }
    table = instruments.InsnTable(tuple(vcpus), symbols)
    assert flush.instructions(table, 10) == {"user_op": 600, "kernel_op": 30}


def test_the_lab_knows_the_counters() -> None:
    kept = agent.counter_names(manifest.counters())
    names = ["tier_defer_pending", "tier_flush_deferral", flushes.DEFERRED, *ZERO]
    assert [name for name in names if not kept.match(name)] == []
    common = (cache.PROJECT / "linux/configs/common.config").read_text()
    assert "CONFIG_DEBUG_TLBFLUSH=y\n" in common


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


def test_only_lookups_on_four_cpus_have_instructions(tmp_path: Path) -> None:
    row = flush.figures("cpu", _text(), _text(**BALANCED), {"ops": 1000})
    counted = {**row, "user_op": 2700.0, "kernel_op": 380.0}
    jobs = {"seed": {"numab-both": [row]}, "cpu": {"numab-batch": [counted, counted]}}
    lines = written(flush.STUDY, flush.runs({**_facts([]), "jobs": jobs}), tmp_path)
    seed = lines["seed: NUMA balancing, batched migration and MIGRC"].figures
    assert seed["all"] == 25 and "kernel_op" not in seed
    cpu = lines["cpu: NUMA balancing, batched migration"].figures
    assert (cpu["user_op"], cpu["kernel_op"]) == (2700, 380)


def test_each_job_has_a_thread_on_each_cpu() -> None:
    for job, modes in flush.JOBS.items():
        script = flush._script(job, modes["base"])
        # The last one counts.
        assert script.rpartition("--threads ")[2].split()[0] == str(flush.CPUS[job]), job


def test_each_mode_prepares_its_kernel_only() -> None:
    assert set(flush.CPUS) == set(flush.JOBS)
    for job, modes in flush.JOBS.items():
        assert {mode.kernel for mode in modes.values()} == {"base", "tiershift"}
        base = modes["base"]
        assert base.kernel == "base", job
        assert not any("/sys/kernel/mm/" in line for line in base.prepare), job
