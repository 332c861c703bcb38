# SPDX-License-Identifier: GPL-2.0
"""The scanner's costs: arithmetic and lines, from made-up points with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, parsed, written

from lab import cli, curves, topology
from lab.instruments import InsnTable, SymbolCount, VcpuCount
from lab.results import finish, ledger, study

MIB = 256  # pages


def symbol(name: str, on_scanner: int) -> tuple[str, SymbolCount]:
    return name, SymbolCount(name, (7, on_scanner, 9), (0, 0, 0), (0, 0, 0))


def table(busy: int, **symbols: int) -> InsnTable:
    other = VcpuCount(0, 0, 0, 10**9, 10**9, 0, 0)
    mine = VcpuCount(0, 0, 0, busy + 1000, busy, 0, 0)  # 1000 in the idle loop
    return InsnTable((other, mine, other), dict(symbol(*item) for item in symbols.items()))


def point(work: int, scanned: int, skipped: int = 0, young: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "phase": 1,
        "seconds": 2.0,
        "cpu_s": 0.5,
        "tier_scan_mm": 1,
        "tier_scan_pte": scanned,
        "tier_scan_young": young,
        "tier_scan_skip_pmd": skipped,
        "pgpromote_success": 0,
        "insn": {"work": work, "waiting": scanned, "scanning": work // 2},
        **more,
    }


def case(name: str, size_mb: int, processes: int = 1, **points: Any) -> dict[str, Any]:
    return {"name": name, "size_mb": size_mb, "processes": processes, "points": points}


def sized(size_mb: int, per_entry: int) -> dict[str, Any]:
    """Two passes that touched all, two that read all, and 16 of which each read a 16th."""
    pages = size_mb * MIB
    regions = pages // 512
    return case(
        f"size-{size_mb}",
        size_mb,
        off=point(2000, 0),
        # ... and 500 entries of other processes
        touched=point(2 * pages * per_entry + 2000, 2 * pages + 500, young=2 * pages),
        read=point(2 * pages * 10 + 2000, 2 * pages, young=2 * regions),
        untouched=point(pages * 40 + 2000, pages, skipped=15 * regions),
    )


def idle_case(per_pass: int) -> dict[str, Any]:
    pages = 64 * MIB
    return case(
        "idle",
        64,
        off=point(0, 0),
        touched=point(pages * 40, pages, young=pages),
        full=point(pages * 10, pages),
        idle=point(per_pass, pages // 16, skipped=30),
    )


def cpu_case(cpu_s: float, permille: int = 80, unlimited: float = 0.5) -> dict[str, Any]:
    # 20 s; 32768 entries, one slice, in each hundredth of the time used.
    limit = point(1, 100 * 32768, seconds=20.0, cpu_s=cpu_s)
    free = point(1, 100 * 32768, seconds=5.0, cpu_s=unlimited * 5)
    return {**case("cpu", 1024), "points": {"limit-334": free, f"limit-{permille}": limit}}


def result(*cases: dict[str, Any]) -> dict[str, Any]:
    curves.derive(cases)
    return {**FACTS, "kernel": KERNEL, "cases": cases, "failures": curves.check(cases)}


def goals(made: dict[str, Any], verdict: str) -> list[ledger.Goal]:
    """Those of all runs that have this verdict."""
    return [goal for run in curves.runs(made) for goal in run.goals if goal.verdict == verdict]


def test_instructions_are_those_of_the_scanner() -> None:
    found = curves.instructions(
        table(
            5000,
            table_read=1000,
            ring_push=200,
            ptep_test_and_clear_young=30,
            visit_thread=400,  # housekeeping
            schedule=500,
            queued_spin_lock_slowpath=70,
            smp_call_function_many_cond=8,
        )
    )
    assert found == {"work": 5000 - 78, "waiting": 78, "scanning": 1230}


def test_functions_of_a_later_kmmscand_count_as_scanning() -> None:
    assert curves.is_scanning("walk_something_new")
    for name in ("kpromoted_work", "space_take", "kmmscand_cpu_pay", "policy_turn"):
        assert not curves.is_scanning(name)
    assert not any(curves.is_scanning(name) for name in curves.WAIT_SYMBOLS)


def test_cost_of_a_pass() -> None:
    # 512 + 3 * 512 entries of 1024: two passes; 100 per second are not the scanner's.
    figures = curves.cost(point(10_440, 512, skipped=3, young=128), 1024, 5, 100.0, False)
    assert figures == {
        "passes": 2.0,
        "thread": 10_240,
        "per_entry": 20.0,
        "scanning_per_entry": pytest.approx(5220 / 512),
        "waiting_per_entry": 1.0,
        "per_pass": 5120.0,
        "per_process": 1024.0,
        "visited_per_pass": 256.0,
        "read_share": 0.25,
        "young_share": 0.25,
    }


def test_only_what_is_touched_counts_where_all_of_it_is() -> None:
    # 100 more entries and a page table are somebody else's.
    figures = curves.cost(point(20_480, 2148, skipped=1, young=2048), 1024, 1, 0.0, True)
    assert (figures["passes"], figures["per_entry"]) == (2.0, 10.0)
    assert figures["visited_per_pass"] == 1024.0


def test_nothing_visited_has_no_cost() -> None:
    figures = curves.cost(point(1000, 0), 1024, 1, 0.0, False)
    assert figures["per_entry"] is figures["per_pass"] is figures["young_share"] is None


def test_target_per_entry() -> None:
    made = result(sized(256, 60), sized(1024, 61))
    assert made["cases"][0]["points"]["touched"]["figures"]["per_entry"] == pytest.approx(60)
    (missed,) = goals(made, ledger.MISSED)
    assert missed.name == "size-1024, every page touched: instructions per entry visited"
    assert (missed.value, missed.limit) == (61, 60)
    assert made["failures"] == []
    # What was not visited was not shown to be cheap.
    nothing = case("size-1", 1, off=point(0, 0), read=point(0, 0))
    (missed,) = goals(result(nothing), ledger.MISSED)
    assert missed.value is None


@pytest.mark.parametrize(("per_pass", "good"), [(16_383, True), (16_384, False)])
def test_idle_target(per_pass: int, good: bool) -> None:
    # A full pass is 16384 entries of 10 instructions; the idle point is one pass, too.
    made = result(idle_case(per_pass))
    figures = made["cases"][0]["points"]["idle"]["figures"]
    assert figures["passes"] == pytest.approx(1)
    assert figures["share_of_full"] == pytest.approx(0.1, rel=0.001)
    assert figures["share_of_touched"] == pytest.approx(0.025, rel=0.001)
    assert (goals(made, ledger.MISSED) == []) == good
    assert len(goals(made, ledger.MET)) == good
    assert made["failures"] == []


@pytest.mark.parametrize(
    ("cpu_s", "permille", "unlimited", "verdict"),
    [
        # Tolerance at 24 %: a slice of 48 ms, 20 ms * 24 / 76, 4 ms, in 20 s.
        (4.85, 80, 0.5, "within"),
        (4.87, 80, 0.5, "above"),
        (3.0, 80, 0.5, "within"),
        (3.0, 80, 0.24, "not needed"),
        (1.04, 17, 0.5, "above"),
        (1.03, 17, 0.5, "within"),
    ],
)
def test_share_of_a_cpu(cpu_s: float, permille: int, unlimited: float, verdict: str) -> None:
    made = result(cpu_case(cpu_s, permille, unlimited))
    figures = made["cases"][0]["points"][f"limit-{permille}"]["figures"]
    assert figures["share"] == pytest.approx(cpu_s / 20)
    assert figures["limit"] == pytest.approx(permille * 3 / 1000)
    assert figures["verdict"] == verdict
    assert len(goals(made, ledger.MISSED)) == (verdict == "above")
    assert len(goals(made, ledger.MET)) == (verdict == "within")
    assert bool(made["failures"]) == (verdict == "not needed")
    assert made["cases"][0]["points"]["limit-334"]["figures"]["verdict"] is None


def test_without_the_unlimited_share_the_limit_says_nothing() -> None:
    made = cpu_case(4.0)
    del made["points"]["limit-334"]
    assert len(result(made)["failures"]) == 1


def test_tolerance_is_what_is_not_paid_yet() -> None:
    figures = curves.cpu_share(cpu_case(5.0)["points"]["limit-80"], 80, 0.5)
    assert figures["tolerance"] == pytest.approx((0.05 + 0.02 * 0.24 / 0.76 + 0.004) / 20)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        # 45 % of 131,572 entries are 59,207.
        ("touched", {"tier_scan_young": 59_000}, "of the entries were young"),
        ("untouched", {"tier_scan_young": 10_000}, "of the entries were young"),
        ("read", {"tier_scan_skip_pmd": 64}, "of the entries were read"),
        ("touched", {"pgpromote_success": 700}, "700 of 65536 pages were promoted"),
    ],
)
def test_what_was_not_as_meant_fails(name: str, change: dict[str, int], words: str) -> None:
    made = sized(256, 50)
    assert result(made)["failures"] == []
    made["points"][name] |= change
    failures = result(made)["failures"]
    assert len(failures) == 1 and words in failures[0]


@pytest.mark.parametrize(("young", "good"), [(16_384, True), (16_383, False)])
def test_pages_of_many_processes_are_all_found(young: int, good: bool) -> None:
    """Of the entries that are read, most are those of other pages."""
    made = many(20)
    made["points"]["touched"] |= {"tier_scan_pte": 100_000, "tier_scan_young": young}
    assert (result(made)["failures"] == []) == good


def test_points_are_read_by_name() -> None:
    lines = ["READY", "DO on", 'POINT {"name":"off","phase":1,"seconds":2.0}', "DONE"]
    assert curves.parse_points(lines) == {"off": {"phase": 1, "seconds": 2.0}}


def test_cases_measure_what_the_report_shows() -> None:
    cases = {made.name: made for made in curves.make_cases([64], 32, 16, [1, 3], 8)}
    assert list(cases) == ["size-64", "idle", "processes-1", "processes-3", "cpu"]
    assert (cases["processes-3"].size_mb, cases["processes-3"].processes) == (16, 3)
    measured = [line.split()[1] for line in cases["size-64"].commands if "measure" in line]
    assert measured == ["off", *curves.LINES]
    # After some time with this pattern
    settle = cases["size-64"].commands[-3:]
    assert settle == ("touch 0 0", "wait 8", "measure untouched 16")
    settle = cases["idle"].commands[-3:]
    assert settle == ("touch 1 0", "wait 8", "measure idle 16")
    # The full pass that it is compared with finds the same entries young.
    assert "touch 1 1" in cases["idle"].commands
    for permille, seconds in curves.LIMITS.items():
        at = cases["cpu"].commands.index(f"measure limit-{permille} {seconds}")
        assert cases["cpu"].commands[at - 2] == f"set scan/cpu_permille {permille}"


def test_limits_are_shares_of_the_cpus_of_the_guest() -> None:
    """100, 5 and 1 percent of one CPU"""
    guest = topology.load("two-tier", fast_cpus=curves.CPUS)
    assert [*curves.LIMITS] == [guest.permille(percent) for percent in (100, 5, 1)]


def test_cases_promote_nothing() -> None:
    assert all("set promote/enabled 0" in made.commands for made in curves.make_cases())


def many(processes: int, per_entry: int = 300) -> dict[str, Any]:
    """One pass over memory that all of it is touched."""
    touched = point(16384 * per_entry, 16384, young=16384)
    return case(f"processes-{processes}", 64, processes, off=point(0, 0), touched=touched)


def test_lines_have_figures_and_goals(tmp_path: Path) -> None:
    made = result(sized(256, 300), sized(1024, 50), idle_case(20_000), many(20), cpu_case(6.0))
    lines = written(curves.STUDY, curves.runs(made), tmp_path)
    assert len(lines) == 2 * 3 + 3 + 1 + 2  # what was measured with kmmscand off has no line
    assert [(goal.name, goal.value) for goal in goals(made, ledger.MISSED)] == [
        ("size-256, every page touched: instructions per entry visited", 300),
        ("idle, 1 % of the 2 MiB regions touched: share of a full pass", 0.12207),
        ("cpu, limit-80: share of a CPU", 0.3),
    ]
    # The three patterns of two sizes, but for one of these
    assert len(goals(made, ledger.MET)) == 5
    entry = lines["size-1024: every page touched"]
    assert entry.figures["per_entry"] == 50 and entry.goals[0].verdict == ledger.MET
    idle = lines["idle: 1 % of the 2 MiB regions touched"]
    assert (idle.figures["per_pass"], idle.figures["share_of_full"]) == (20_000, 0.12207)
    assert idle.figures["visited_per_pass"] == 1024
    full = lines["idle: 1 % of the 2 MiB regions touched, and one page of each"]
    assert (full.figures["per_pass"], full.goals) == (163_840, [])
    assert lines["idle: every page touched"].figures["per_pass"] == 655_360
    turns = lines["processes-20: every page touched"].figures
    assert (turns["per_pass"], turns["per_process"]) == (4_915_200, 245_760)
    limit = lines["cpu: limit-80"]
    assert (limit.figures["share"], limit.figures["limit"]) == (0.3, 0.24)
    # 60 ms of a slice, 20 ms * 24 / 76, and a tick
    tolerance = (0.06 + 0.02 * 0.24 / 0.76 + 0.004) / 20
    assert limit.figures["tolerance"] == pytest.approx(tolerance, rel=1e-4)
    assert limit.seconds == 20
    assert "tolerance" not in lines["cpu: limit-334"].figures


def test_tables_of_the_study() -> None:
    made = result(sized(256, 50), idle_case(10_000), many(4), many(1), many(16), cpu_case(4.0))
    lines = ledger.lines_of(curves.NAME, made, curves.runs(made), (), "")
    shown = dict(study.tables(curves.STUDY, lines))
    assert list(shown) == [title for title, _ in curves.STUDY.parts]
    processes = shown["By number of processes"]
    assert [row[0].partition(":")[0] for row in processes[1:]] == ["1", "4", "16"]
    at = processes[0].index("per process")
    assert [row[at] for row in processes[1:]] == ["4,915,200", "1,228,800", "307,200"]
    at = shown["Mostly idle memory"][0].index("of a full pass")
    assert "6.1%" in [row[at] for row in shown["Mostly idle memory"]]
    assert "of a full pass" not in processes[0]


def test_a_failed_check_is_in_one_line(tmp_path: Path) -> None:
    made = sized(256, 50)
    made["points"]["touched"]["pgpromote_success"] = 700
    facts = result(made, many(1))
    lines = written(curves.STUDY, curves.runs(facts), tmp_path)
    assert len(facts["failures"]) == 1
    assert [line.checks for line in lines.values() if line.checks] == [facts["failures"]]


def test_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["study", "scanner", "size-12"]) == 1
    assert "no case 'size-12'" in capsys.readouterr().err


def test_only_a_whole_run_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path / "cache"))
    recorded: list[str] = []
    monkeypatch.setattr(ledger, "record", lambda name, *_: recorded.append(name))
    made = result(sized(256, 50))
    monkeypatch.setattr(curves, "measure", lambda *_: made)
    for argv in (["idle"], ["--sizes", "256"]):
        assert curves.STUDY.run(parsed(curves.STUDY, *argv))
        assert finish.PART in capsys.readouterr().out
    assert recorded == []
    assert curves.STUDY.run(parsed(curves.STUDY))
    assert recorded == ["scanner"]
    # What does not count is recorded with its failed check, and is an error.
    made["failures"].append("nothing was touched")
    assert not curves.STUDY.run(parsed(curves.STUDY))
    assert "FAILED CHECK" in capsys.readouterr().out
    assert cli.main(["study", "scanner"]) == 1
