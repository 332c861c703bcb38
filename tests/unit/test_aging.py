# SPDX-License-Identifier: GPL-2.0
"""The study of aging: what is counted, its goals and its lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, verdicts, written

from lab import aging, instruments
from lab.errors import LabError
from lab.results import ledger

PAGES = 1000


def _table(**insn: tuple[int, int]) -> instruments.InsnTable:
    """Instructions and locked operations of symbols, all on CPU 1."""
    busy = sum(n for n, _ in insn.values())
    cpus = tuple(instruments.VcpuCount(0, 0, 0, n, n, 0, 0) for n in (100, busy))
    return instruments.InsnTable(
        cpus,
        {
            name: instruments.SymbolCount(name, (0, n), (0, locked), (0, 0))
            for name, (n, locked) in insn.items()
        },
    )


def _aged(case: str, insn: int, locked: int, mmu_lock: int, calls: int) -> aging.Figures:
    words = {"pages": PAGES, "young": 0, "old": 0, "log": "", **{_found(case): PAGES - 5}}
    table = _table(
        walk_pte_range=(insn * PAGES, locked),
        inc_max_seq=(31 * PAGES, 0),
        _raw_write_lock=(0, mmu_lock),
        __srcu_read_lock=(16 * calls, 0),
    )
    return aging.per_page(case, words, table)


def _found(case: str) -> str:
    return "young" if case == "young" else "old"


def _rows(case: str, insn: int, locked: int, mmu_lock: int) -> dict[str, aging.Figures]:
    base = _aged(case, 784, 0, PAGES, PAGES)
    ours = _aged(case, insn, locked, mmu_lock, 2)
    return aging.with_locks({"base": base, "off": base, "both": ours})


def _facts(insn: int, locked: int, mmu_lock: int, vcpu: float) -> dict[str, Any]:
    def row(vcpu: float) -> aging.Figures:
        return {"vcpu": vcpu, "waiting": 0.0, "passes": 3, "pass_ms": 1.0, "pass_insn": 5}

    words = {"hot": [90, 10], "cold": [5, 95], "rounds": 7, "pages": 200}
    log = {"log": "FLUSHES 3\nx\nFLUSHES 103\n"}
    return {
        **FACTS,
        "kernels": {name: {**KERNEL, "flavour": name} for name in ("base", "tiershift")},
        "aged": {f"{case}, TDP": _rows(case, insn, locked, mmu_lock) for case in aging.CASES},
        "faulted": {
            "TDP, 2": {
                "not aged": row(1000),
                "not aged again": row(1001),
                "ours, not aged": row(1000),
                "base": row(1100),
                "both": row(vcpu),
            },
            "shadow MMU, 1": {
                "not aged": row(1000),
                "not aged again": row(1000),
                "ours, not aged": row(vcpu - 17),
            },
        },
        "promoted": dict.fromkeys(aging.PROMOTERS, aging.promoted({**words, **log}, _table())),
    }


def _missed(facts: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (run.cell, goal.name)
        for run in aging.runs(facts)
        for goal in run.goals
        if goal.verdict == ledger.MISSED
    ]


def test_lines_of_the_study(tmp_path: Path) -> None:
    lines = written(aging.STUDY, aging.runs(_facts(80, 10, 0, 1020)), tmp_path)
    assert {verdict for line in lines.values() for verdict in verdicts(line)} == {ledger.MET}
    idle = lines["page: idle, TDP, ours, both"]
    assert (idle.figures["insn"], idle.figures["all"]) == (80.032, 111.03)
    assert (idle.figures["mmu_lock"], idle.figures["srcu"]) == (0, 0.004)
    assert lines["page: idle, TDP, unmodified"].figures["srcu"] == 2
    assert len(idle.goals) == 3 and len(lines["page: young, TDP, ours, both"].goals) == 2
    assert lines["fault: TDP, 2 vCPUs, ours, both"].goals[0].value == 1.02
    assert not lines["fault: TDP, 2 vCPUs, unmodified"].goals
    figures = lines["promotion: NUMA balancing"].figures
    assert (figures["hot"], figures["cold"], figures["flushes"]) == (0.9, 0.05, 100)


def test_table_of_the_seed_series_has_ours_beside(tmp_path: Path) -> None:
    lines = written(aging.STUDY, aging.runs(_facts(80, 10, 0, 1020)), tmp_path)
    head, *rows = aging.beside([*lines.values()])
    assert [row[0] for row in rows] == [f"{vcpus}" for vcpus in aging.SEED]
    assert {len(row) for row in rows} == {len(head)}
    assert rows[1][1:] == [
        "0.985", "1.058", "1.038", "0.018", "0.014", "1,000", "1,100", "1,020", "5", "5"
    ]  # fmt: skip
    assert rows[-1][6:] == ["-"] * 5


def test_lock_bit_of_rmaps_has_a_limit(tmp_path: Path) -> None:
    cell = "fault: shadow MMU, 1 vCPUs, ours, not aged"
    line = written(aging.STUDY, aging.runs(_facts(80, 10, 0, 1020)), tmp_path)[cell]
    assert [(goal.name, goal.value) for goal in line.goals] == [("lock bit of rmaps", 1.003)]


def test_evicted_pages_are_counted() -> None:
    words = {"pages": PAGES, "evicted": 200, "log": ""}
    found = aging.per_page("evict", words, _table(folio_referenced=(2000, 10), inc_max_seq=(1, 0)))
    assert (found["insn"], found["locked"]) == (10, 0.05)


def test_row_of_huge_pages_is_of_2_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"pages": 1024, "old": 1024, "young": 0, "log": ""}
    seen: list[tuple[str, str, str]] = []

    def boot(
        label: str, _mode: object, _machine: object, commands: list[str], *, append: str
    ) -> tuple[dict[str, Any], Path]:
        seen.append((label, commands[-1], append))
        return words, Path()

    monkeypatch.setattr(aging, "_boot", boot)
    monkeypatch.setattr(aging, "_vm", lambda case, **options: f"{case} {options}")
    monkeypatch.setattr(aging, "_counts", lambda _out: _table(tdp_age_root=(2600, 4)))
    found = aging._aged("idle, shadow MMU, huge", "both")
    assert (found["insn"], found["locked"]) == (1300, 2)
    assert aging._aged("idle, TDP", "off")["insn"] == 2600 / 1024
    assert [append for *_, append in seen] == ["kvm.tdp_mmu=0", ""]
    assert f"'size_mb': {aging.HUGE_MB}" in seen[0][1] and "'thp': 1" in seen[0][1]
    assert f"'size_mb': {aging.SIZE_MB}" in seen[1][1] and "'thp': 0" in seen[1][1]


def test_what_misses_a_goal_is_said() -> None:
    assert _missed(_facts(120, 2300, 1, 1040)) == [
        ("page: idle, TDP, ours, both", "acquisitions of mmu_lock"),
        ("page: idle, TDP, ours, both", "on"),
        ("page: idle, TDP, ours, both", "locked operations"),
        ("page: young, TDP, ours, both", "acquisitions of mmu_lock"),
        ("page: young, TDP, ours, both", "locked operations"),
        ("fault: TDP, 2 vCPUs, ours, both", "vCPUs"),
        ("fault: shadow MMU, 1 vCPUs, ours, not aged", "lock bit of rmaps"),
    ]


def test_only_cpus_of_vcpus_count() -> None:
    words = {"pages": 10, "vcpus": 1, "pinned": True, "passes": 4, "pass_ms_mean": 2.0}
    table = _table(
        queued_read_lock_slowpath=(30, 1), **{"inc_max_seq.constprop.0": (20, 0), "x": (50, 0)}
    )
    found = aging.on_vcpus(words, table)
    assert (found["vcpu"], found["waiting"], found["pass_insn"]) == (10, 3, 25)
    with pytest.raises(LabError, match="share CPUs"):
        aging.on_vcpus({**words, "pinned": False}, table)


def test_what_was_not_measured_is_an_error() -> None:
    words = {"pages": PAGES, "young": 0, "old": 900, "log": "l"}
    with pytest.raises(LabError, match="900 of 1000 pages were idle"):
        aging.per_page("idle", words, _table())
    with pytest.raises(LabError, match="flush requests"):
        aging.promoted({"log": "FLUSHES 1\n"}, _table())


def test_parameters_are_set_before() -> None:
    assert aging.MODES["base"].prepare == "true"
    assert aging.MODES["both"].prepare == "echo 1 > /sys/kernel/mm/tier/age/enabled"
    assert aging.MODES["off"].prepare == "echo 0 > /sys/kernel/mm/tier/age/enabled"
