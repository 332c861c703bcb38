# SPDX-License-Identifier: GPL-2.0
"""The study of batched migration: what is counted, its goals and its lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, verdicts, written

from lab import instruments, migrate
from lab.errors import LabError
from lab.results import ledger

KVM = """# RES batched=0 stride=1 moved=8192 requests=8192 forgotten=0
# RES batched=1 stride=1 moved=8192 requests=32 forgotten=0
# RES batched=1 stride=2 moved=4096 requests=16 forgotten=4080
"""
MOVED = {
    "pgmigrate_success": 1000,
    "pgmigrate_fail": 2,
    "nr_tlb_remote_flush": 4,
    "nr_tlb_remote_flush_received": 8,
}
VMSTAT = (
    "pgmigrate_success {}\npgpromote_success {}\npgdemote_kswapd {}\nnr_tlb_remote_flush {}\n"
    "tier_flush_promotion 0\ntier_flush_demotion {}\n"
)


def _table(**insn: int) -> instruments.InsnTable:
    return instruments.InsnTable(
        (),
        {
            name: instruments.SymbolCount(name, (n, 0), (n // 100, 0), (0, 0))
            for name, n in insn.items()
        },
    )


def _row(beside: float) -> migrate.Figures:
    figures = migrate.per_page(MOVED, _table(folio_mc_copy=100_000, try_to_migrate_one=0))
    return {**figures, "beside": beside}


def _facts(on: float, off: float, own: int) -> dict[str, Any]:
    rows = {name: _row(4000.0) for name in migrate.MOVED}
    alone = {**rows, "off": _row(off), "512": _row(on)}
    once = {name: _row(value) for name, value in (("base", 1000.0), ("off", off / 4), ("512", 350))}
    demotion = migrate.demoted(
        VMSTAT.format(0, 0, 0, 0, 0),
        VMSTAT.format(1000, 100, 900, 9, own),
        "moved_by_batch 800\nunmapped_in_run 600\n",
    )
    return {
        **FACTS,
        "kernels": {name: {**KERNEL, "flavour": name} for name in ("base", "tiershift", "torture")},
        "moves": {
            "4 KiB, 1 CPU": alone,
            "4 KiB, 8 CPUs": rows,
            "64 KiB, 1 CPU, moved once": once,
        },
        "waits": {name: {"wait": 1.0, "wait_most": 2.0} for name in migrate.WAITED},
        "kvm": migrate.kvm_rows(KVM),
        "demotion": dict.fromkeys(migrate.DEMOTE, demotion),
    }


def _missed(facts: dict[str, Any]) -> dict[str, float | None]:
    goals = [goal for run in migrate.runs(facts) for goal in run.goals]
    return {goal.name: goal.value for goal in goals if goal.verdict == ledger.MISSED}


def test_lines_of_the_study(tmp_path: Path) -> None:
    lines = written(migrate.STUDY, migrate.runs(_facts(3400, 4000, 5)), tmp_path)
    assert {verdict for line in lines.values() for verdict in verdicts(line)} == {ledger.MET}
    on = lines["move: 4 KiB, 1 CPU, ours, limit 512"]
    assert (on.figures["beside"], on.figures["sent"], on.figures["received"]) == (3400, 4, 8)
    assert [goal.name for goal in on.goals] == ["on", "off"]
    assert not lines["move: 4 KiB, 8 CPUs, ours, limit 512"].goals
    assert lines["wait: unmodified"].kernel == "base k"
    assert lines["kvm: 1 of 2 pages, on"].figures["forgotten"] == 4080
    assert lines["demotion: on"].figures["own"] == 5
    assert lines["demotion: on"].figures["in_run"] == 75
    assert len(lines["demotion: on"].goals) == 2 and not lines["demotion: off"].goals


def test_what_misses_a_goal_is_said() -> None:
    assert _missed(_facts(3500, 4100, 6)) == {
        "on": 0.875,
        "off": 1.025,
        "flushes by migration per 1,000 pages": 6,
    }


def test_the_copy_is_apart() -> None:
    found = migrate.per_page(MOVED, _table(folio_mc_copy=3000, copy_mc_fragile=1000, rmap_walk=500))
    assert (found["insn"], found["beside"], found["failed"]) == (4.5, 0.5, 2)
    with pytest.raises(LabError, match="no page was moved"):
        migrate.per_page({**MOVED, "pgmigrate_success": 0}, _table(rmap_walk=1))


def test_what_was_not_measured_is_an_error() -> None:
    with pytest.raises(LabError, match="kvm selftest"):
        migrate.kvm_rows(KVM.splitlines()[1])
    same = VMSTAT.format(1, 1, 1, 1, 1)
    with pytest.raises(LabError, match="nothing was moved"):
        migrate.demoted(same, same, "moved_by_batch 0\nunmapped_in_run 0\n")


def test_limits_are_set_before() -> None:
    assert migrate.MODES["off"].prepare == "true"
    folios, kb = (f"/sys/kernel/mm/tier/batch/max_{what}" for what in ("folios", "kb"))
    assert f"echo 1 > {folios}" in migrate.MODES["1"].prepare
    # 2 MiB, or 256
    assert f"echo 2048 > {kb}" in migrate.MODES["512"].prepare
    assert f"echo 262144 > {kb}" in migrate.MODES["4096"].prepare
