# SPDX-License-Identifier: GPL-2.0
"""Figures, tables and lines of a comparison, from a made-up result with known answers."""

from __future__ import annotations

import dataclasses
import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from recorded import HOST as RECORDED_HOST
from recorded import written

from lab import compare, damon, instruments, metrics, report, scenario, topology
from lab.results import study

OPS = 100_000


@pytest.fixture(autouse=True)
def smooth(monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples made up here are a second apart."""
    monkeypatch.setattr(metrics, "SMOOTH_S", 2.0)


def contender(name: str, mode: str, app: int, promoted: int, rise: float | None) -> dict[str, Any]:
    """100 accesses in each of 60 seconds; from second ``rise`` on 80 % are fast, before 10 %."""
    points = [[0.0, 0, 0]]
    for second in range(1, 61):
        fast = 80 if rise is not None and second > rise else 10
        points.append([float(second), points[-1][1] + fast, points[-1][2] + 100 - fast])
    return {
        "name": name,
        "mode": mode,
        "rival": mode == "numab2",
        "settings": {},
        "demotion": True,
        "kernel": {
            "flavour": "base",
            "release": "6.12.1",
            "key": "abc",
            "base_version": "6.12.1-1",
        },
        "agent": {
            "placement": {"share": 0.99, "pages": {"1": 1000}},
            "workload": {"ops": OPS, "seconds": 60.0, "verified": True},
            "measured": {
                "seconds": 60.0,
                "delta": {"pgpromote_success": promoted, "pgdemote_kswapd": 3},
                "tlb_interrupts": [5, 7],
                "progress": [{"t": float(t), "ops": t * OPS // 60} for t in range(1, 61)],
            },
        },
        "access": points,
        "insn": {
            "vcpus": [
                {"kernel_work": app, "kernel_spin": 1, "locked": 2},
                {"kernel_work": 1_000_000, "kernel_spin": 0, "locked": 0},
            ]
        },
    }


def with_kinds(run: dict[str, Any], **counts: tuple[int, int, int, int]) -> dict[str, Any]:
    """Kernel instructions by kind: of processes on CPU 0 and 1, of threads on CPU 0 and 1."""
    run["insn"]["kinds"] = {
        kind: {
            "process": list(counts.get(kind, (0, 0, 0, 0))[:2]),
            "thread": list(counts.get(kind, (0, 0, 0, 0))[2:]),
        }
        for kind in instruments.KINDS
    }
    run["agent"]["measured"] |= {
        "process_s": {"user": 9.0, "system": 1.5},
        "thread_s": {"kswapd0": 0.25},
    }
    return run


def result(
    *runs: dict[str, Any], machine: dict[str, Any] | None = None, **rules: Any
) -> dict[str, Any]:
    node = {"name": "fast", "size_mb": 256, "cpus": 2, "latency_ns": 100}
    slow = {"name": "slow", "size_mb": 512, "cpus": 0, "latency_ns": 250}
    check = dataclasses.asdict(scenario.Check(**{"rival_must_promote": True, **rules}))
    made: dict[str, Any] = {
        "schema": scenario.SCHEMA,
        "scenario": "made-up",
        "description": "made <up>",
        "command": "lab run",
        "date": "2026-01-01T00:00:00Z",
        "seconds": 1,
        "host": {"qemu": "7.2", "cpus": 2},
        "setup": {
            "measure": {
                "app_cpus": [0],
                "tail_s": 8.0,
                "unit": "GET",
                "instruments": ["access", "insn"],
                "cache_lines": 64,
                "noise_app_per_op": 0.0,
                "noise_all_per_op": 0.0,
            },
            "check": check,
        },
        "machine": machine or {"nodes": [node, slow]},
        "contenders": list(runs),
    }
    made["metrics"] = metrics.derive(made)
    made["failures"] = metrics.check(made)
    return made


def test_known_figures() -> None:
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        contender("ours", "tiershift", 10_400_000, 200, 30.0),
    )
    none, ours = made["metrics"]["figures"]["none"], made["metrics"]["figures"]["ours"]
    assert none["hit_ratio_end"] == pytest.approx(0.1)
    assert ours["hit_ratio_end"] == pytest.approx(0.8)
    assert ours["access_ns"] == pytest.approx(0.8 * 100 + 0.2 * 250)
    # The ratio of the last two seconds is 0.8 first at 32 s.
    assert ours["t90_s"] == pytest.approx(32)
    assert ours["t90_ops"] == pytest.approx(32 / 60 * OPS, rel=0.001)
    assert "t90_s" not in none and none["t90_best_s"] is None
    assert ours["app_per_page"] == pytest.approx(400_000 / 200)
    assert (ours["shootdowns_app"], ours["demoted"]) == (5, 3)
    assert ours["shootdowns_sent"] is None  # the kernel did not tell
    assert made["failures"] == []


def test_free_memory_is_that_of_fast_nodes_in_the_second_half() -> None:
    run = contender("ours", "tiershift", 10_400_000, 200, 30.0)
    run["agent"]["measured"]["series"] = [
        {"t": t, "free_kb": {"node0": free, "node1": 10**6}}
        for t, free in enumerate((90_000, 80_000, 3000, 4001))
    ]
    made = result(contender("none", "none", 10_000_000, 0, None), run)
    assert made["metrics"]["figures"]["ours"]["fast_free_kb"] == 3500
    assert "fast_free_kb" not in made["metrics"]["figures"]["none"]


@pytest.mark.parametrize(("kb", "words"), [(159_000, ""), (158_000, "158000 KiB for ours")])
def test_contenders_have_the_same_memory(kb: int, words: str) -> None:
    runs = (
        contender("none", "none", 10_000_000, 0, None),
        contender("ours", "tiershift", 10_400_000, 200, 30.0),
    )
    for run, total in zip(runs, (160_000, kb), strict=True):
        run["agent"]["environment"] = {"nodes": {"node0": {"total_kb": total, "free_kb": 1}}}
    failures = result(*runs)["failures"]
    assert len(failures) == bool(words) and all(words in failure for failure in failures)


def test_pages_that_damon_moved_count() -> None:
    run = contender("damon", "damon", 10_400_000, 0, 30.0)
    stats = {"migrate_hot": {"pages": 200}, "migrate_cold": {"pages": 50}}
    run["agent"]["damon"] = stats
    run["damon"] = dataclasses.asdict(damon.Tunables(cold_min_age=9))
    made = result(contender("none", "none", 10_000_000, 0, None), run)
    figures = made["metrics"]["figures"]["damon"]
    assert (figures["promoted"], figures["demoted"]) == (200, 53)
    assert figures["app_per_page"] == pytest.approx(400_000 / 200)
    assert made["failures"] == []
    lines = report.notes(made)
    assert any("migrate_hot moved by the statistics of DAMOS" in line for line in lines)
    assert lines[-1].endswith("tuned: damon.cold_min_age = 9.")
    run["agent"]["damon"]["migrate_hot"]["pages"] = 0
    assert result(run)["failures"] == ["damon promoted nothing: there is no comparison to make"]


def test_oracle_is_what_others_are_compared_with() -> None:
    oracle = contender("oracle", "oracle", 10_000_000, 0, 0.0)
    oracle["agent"]["workload"] |= {"placed_hot": 1000, "placed_hot_after": 995}
    oracle["args"] = ["--place-mb", "4"]
    none, ours = (
        contender("none", "none", 10_000_000, 0, None),
        contender("ours", "tiershift", 10_400_000, 200, 30.0),
    )
    ours["access"][-1][1] -= 8  # 1 % of the last eight seconds
    ours["access"][-1][2] += 8
    made = result(none, ours, oracle)
    figures = made["metrics"]["figures"]
    assert figures["none"]["below_oracle"] == pytest.approx(70)
    assert figures["ours"]["below_oracle"] == pytest.approx(1)
    assert "below_oracle" not in figures["oracle"] and "t90_best_s" not in figures["oracle"]
    # The oracle is no scheme: the best one is still ours.
    assert figures["ours"]["t90_best_s"] == pytest.approx(32)
    assert made["failures"] == []
    shown = {row[0].strip(): row[1:] for row in report.table(made)}
    assert shown["below the oracle's, in points"] == ["70.0", "1.0", "-"]
    note = report.notes(made)[-1]
    assert "1000 pages that are picked most on the fast node at START" in note
    assert "slow node" not in note and "arguments = --place-mb 4" in note
    assert "below_oracle" not in result(none, ours)["metrics"]["figures"]["ours"]


def test_oracle_whose_pages_leave_fails() -> None:
    run = contender("oracle", "oracle", 1, 0, 0.0)
    run["agent"]["workload"] |= {"placed_hot": 1000, "placed_hot_after": 989}
    assert result(run)["failures"] == ["oracle: only 989 of 1000 placed pages stayed"]
    run["agent"]["workload"]["placed_hot_after"] = 1000
    run["agent"]["measured"]["delta"]["pgpromote_success"] = 5
    assert result(run)["failures"] == ["oracle: 5 pages promoted without tiering"]


def shifted(name: str, again: float | None) -> dict[str, Any]:
    """The hot set moves at 30 s; the ratio is high from 10 s on, and again from ``again`` on."""
    run = contender(name, "tiershift", 1, 9, 10.0)
    run["agent"]["workload"]["shift_s"] = 30.2
    for second in range(31, 61):
        fast = 80 if again is not None and second > again else 10
        before = run["access"][second - 1]
        run["access"][second] = [float(second), before[1] + fast, before[2] + 100 - fast]
    return run


def test_convergence_after_the_hot_set_moves() -> None:
    made = result(shifted("ours", 40.0), shifted("never", None))
    ours, never = (made["metrics"]["figures"][name] for name in ("ours", "never"))
    assert ours["ratio_before_shift"] == never["ratio_before_shift"] == pytest.approx(0.8)
    # The ratio of two seconds is 0.8 first two seconds after the change.
    assert ours["t90_first_s"] == never["t90_first_s"] == pytest.approx(12)
    assert ours["t90_again_s"] == pytest.approx(42 - 30.2)
    assert ours["t90_again_times"] == pytest.approx((42 - 30.2) / 12)
    assert ours["hit_ratio_end"] == pytest.approx(0.8)
    # What does not rise again has no time, rather than one of the first part.
    assert never["hit_ratio_end"] == pytest.approx(0.1)
    assert never["t90_again_s"] is None and "t90_again_times" not in never
    assert not {"t90_s", "t90_ops", "t90_best_s"} & ours.keys()
    shown = {row[0].strip(): row[1:] for row in report.table(made)}
    assert shown["this in multiples of the first time"] == ["0.98", "-"]
    assert any("moves once, after 30.2 s (ours)" in line for line in report.notes(made))


@pytest.mark.parametrize(
    ("again", "words"),
    [
        (40.0, None),  # 0.98 times the first
        (51.0, "ours: second convergence 1.90 times as long as the first, allowed 1.5 times"),
        (None, "ours: second convergence unknown, allowed 1.5 times"),
    ],
)
def test_slow_second_convergence_fails_the_check(again: float | None, words: str | None) -> None:
    made = result(shifted("ours", again), max_again_times=1.5)
    assert made["failures"] == ([words] if words else [])
    shown = io.StringIO()
    report.print_table(made, shown)
    assert shown.getvalue().count("FAILED CHECK: ours: second") == (words is not None)
    assert compare.runs(made)[0].checks == ([words] if words else [])
    # It is ours to keep, and what a scenario does not ask for is not judged.
    rival = {**shifted("n2", again), "mode": "numab2"}
    assert not result(rival, max_again_times=1.5)["failures"]
    assert not result(shifted("ours", again))["failures"]


def test_shifting_asks_for_a_quick_second_convergence() -> None:
    rules = [scenario.load("shifting").check, scenario.load_sweep("shifting").check]
    assert [rule.max_again_times for rule in rules] == [2.0, 2.0]


def test_shift_too_late_to_measure_anything_after_it() -> None:
    run = contender("ours", "tiershift", 1, 9, 10.0)
    run["agent"]["workload"]["shift_s"] = 59.5
    figures = result(run)["metrics"]["figures"]["ours"]
    assert figures["hit_ratio_end"] is None and figures["t90_again_s"] is None
    assert figures["t90_first_s"] == pytest.approx(12)


def on_sockets(
    name: str, mode: str, local: int, swap_s: float | None = None, **work: Any
) -> dict[str, Any]:
    """80 of 100 accesses a second are fast, ``local`` of them local; for ten seconds after
    the processes have changed sockets none is.  Slow ones go to the own socket's node.
    """
    run = contender(name, mode, 10_000_000, 0, 0.0)
    local_sum = waited = 0
    for point in run["access"]:
        if point[0]:
            near = 0 if swap_s and 0 < point[0] - swap_s <= 10 else local
            local_sum += near
            waited += 100 * near + 180 * (80 - near) + 250 * 20
        point += [local_sum, waited]
    run["agent"]["workload"] |= {
        "procs": [{"cpus": [0], "hot": [90, 0, 10]}, {"cpus": [2, 3], "hot": [20, 70, 5, 5]}],
        "pages_before": [0, 0, 500, 500],
        "pages_after": [200, 100, 400, 300],
        **work,
    }
    if swap_s:
        run["agent"]["workload"]["swap_s"] = swap_s
    run["agent"]["measured"]["delta"] = {
        "pgpromote_success": 350 if mode == "tiershift" else 0,
        "pgdemote_kswapd": 40,
        "pgmigrate_success": 400,
    }
    return run


TWO_SOCKETS = dataclasses.asdict(topology.load("two-sockets"))


def test_accesses_of_several_sockets() -> None:
    made = result(
        on_sockets("none", "none", 0), on_sockets("ours", "tiershift", 60), machine=TWO_SOCKETS
    )
    none, ours = made["metrics"]["figures"]["none"], made["metrics"]["figures"]["ours"]
    assert none["hit_ratio_end"] == ours["hit_ratio_end"] == pytest.approx(0.8)
    assert (none["local_ratio_end"], none["local_ratio"]) == (0, 0)
    assert ours["local_ratio_end"] == ours["local_ratio"] == pytest.approx(0.75)
    assert none["access_ns"] == pytest.approx(0.8 * 180 + 0.2 * 250)
    assert ours["access_ns"] == pytest.approx(0.6 * 100 + 0.2 * 180 + 0.2 * 250)
    assert none["memory_ns"] == 60 * (80 * 180 + 20 * 250)
    assert ours["memory_time"] == pytest.approx(ours["access_ns"] / none["access_ns"])
    assert "local_before_swap" not in ours and "t90_local_s" not in ours
    lines = report.notes(made)
    assert any("fast0 100 ns, fast1 180 ns, slow0 250 ns, slow1 330 ns" in line for line in lines)


def test_hot_pages_by_socket() -> None:
    ours = result(on_sockets("ours", "tiershift", 60), machine=TWO_SOCKETS)
    figures = ours["metrics"]["figures"]["ours"]
    assert figures["hot_on_fast"] == pytest.approx((90 + 20 + 70) / 200)
    assert figures["hot_on_own"] == pytest.approx((90 + 70) / 200)
    assert figures["hot_on_own_least"] == pytest.approx(0.7)
    # 350 promotions for 300 pages more on the fast tier; 10 migrations were neither.
    assert (figures["in_vain"], figures["sideways"]) == (50, 10)
    shown = {row[0].strip(): row[1] for row in report.table(ours)}
    assert shown["of the process that has least there"] == "70.0%"
    # Threads on both sockets have no node of their own.
    shared = [{"cpus": [0, 2], "hot": [60, 30, 10]}]
    both = result(on_sockets("ours", "tiershift", 60, procs=shared), machine=TWO_SOCKETS)
    figures = both["metrics"]["figures"]["ours"]
    assert figures["hot_on_fast"] == pytest.approx(0.9) and "hot_on_own" not in figures


def test_processes_that_change_sockets() -> None:
    made = result(on_sockets("ours", "tiershift", 60, swap_s=30.0), machine=TWO_SOCKETS)
    figures = made["metrics"]["figures"]["ours"]
    assert figures["local_before_swap"] == figures["local_ratio_end"] == pytest.approx(0.75)
    assert figures["local_ratio"] == pytest.approx(0.75 * 50 / 60)
    # The share of two seconds is what it was again two seconds after the ten.
    assert figures["t90_local_s"] == pytest.approx(12)
    assert any("change sockets once, after 30.0 s (ours)" in line for line in report.notes(made))


def test_one_socket_has_no_figures_of_several() -> None:
    run = contender("ours", "tiershift", 10_400_000, 200, 30.0)
    run["agent"]["workload"] |= {"procs": [{"cpus": [0], "hot": [9, 1]}], "hot_on_fast": 0.5}
    run["agent"]["workload"] |= {"pages_before": [0, 9], "pages_after": [9, 0]}
    run["agent"]["measured"]["delta"]["pgmigrate_success"] = 300
    figures = result(run)["metrics"]["figures"]["ours"]
    assert figures["hot_on_fast"] == 0.5
    assert not {"local_ratio", "hot_on_own", "in_vain", "sideways", "pages"} & figures.keys()


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"min_hot_on_own": 0.7, "min_hot_on_fast": 0.9}, None),
        ({"min_hot_on_own": 0.95}, "70.0% of a process's hot set on its own fast node"),
        ({"min_hot_on_fast": 0.95}, "90.0% of the hot set on fast nodes, wanted 95%"),
        ({"max_in_vain_share": 0.05, "max_sideways_share": 0.01}, None),
        ({"max_in_vain_share": 0.04}, "50 of 1000 pages promoted in vain, allowed 4%"),
        ({"max_sideways_share": 0.005}, "10 of 1000 pages migrated sideways"),
    ],
)
def test_checks_for_several_sockets(rules: dict[str, Any], words: str | None) -> None:
    made = result(on_sockets("ours", "tiershift", 60), machine=TWO_SOCKETS, **rules)
    assert len(made["failures"]) == (words is not None)
    assert not words or words in made["failures"][0]
    # They are ours to keep.
    rival = on_sockets("n2", "numab2", 60)
    rival["agent"]["measured"]["delta"]["pgpromote_success"] = 350
    assert result(rival, machine=TWO_SOCKETS, **rules)["failures"] == []


def test_check_without_its_figure_fails() -> None:
    rules: dict[str, Any] = {"min_hot_on_own": 0.95, "max_sideways_share": 0.05}
    run = contender("ours", "tiershift", 1, 9, 1.0)
    failures = result(run, **rules)["failures"]
    assert len(failures) == 2 and all("unknown" in failure for failure in failures)


def test_legend_of_many_lines_stays_in_the_plot() -> None:
    lines = [(f"c{n}", [(0.0, 0.0), (1.0, 1.0)]) for n in range(6)]
    plot = ET.fromstring(report.chart("t", lines, [(0, "0")], [(0, "0")], last=1))
    assert sum(item.tag.endswith("polyline") for item in plot.iter()) == 6
    texts = [item for item in plot.iter() if item.tag.endswith("text") and item.text == "c5"]
    assert float(texts[0].attrib["x"]) < 700


def test_noise_is_measured_by_twins_and_shown() -> None:
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        contender("again", "none", 10_500_000, 0, None),
        contender("ours", "tiershift", 10_400_000, 200, 30.0),
    )
    ours = made["metrics"]["figures"]["ours"]
    assert made["metrics"]["noise"]["app"] == pytest.approx(5.0)
    assert ours["app_per_page_noise"] == pytest.approx(2500)
    row = next(row for row in metrics.ROWS if row.key == "app_per_page")
    assert report.cell(row, ours) == "within noise (2,500)"


@pytest.mark.parametrize(
    ("run", "rules", "words"),
    [
        (contender("n2", "numab2", 1, 0, None), {}, "n2 promoted nothing"),
        (contender("off", "none", 1, 5, None), {}, "without tiering"),
        (contender("ours", "tiershift", 1, 200, None), {"max_promoted_share": 0.1}, "more than"),
        (contender("ours", "tiershift", 1, 9, None), {"min_hit_ratio": 0.5}, "below"),
    ],
)
def test_checks_that_fail(run: dict[str, Any], rules: dict[str, Any], words: str) -> None:
    assert any(words in failure for failure in result(run, **rules)["failures"])


def watched(promotions: int, again: int) -> dict[str, Any]:
    run = contender("ours", "tiershift", 1, 200, None)
    run["agent"]["watch"] = {"promotions": promotions, "promoted_again": again}
    return run


def test_pages_promoted_again_fail_the_check() -> None:
    few, many = (result(watched(1000, n), max_promoted_again=0.1) for n in (100, 101))
    assert not few["failures"]
    assert "10.1% of what was promoted" in many["failures"][0]
    assert few["metrics"]["figures"]["ours"]["again_share"] == 0.1
    assert not result(watched(0, 0), max_promoted_again=0.1)["failures"]
    blind = result(contender("ours", "tiershift", 1, 200, None), max_promoted_again=0.1)
    assert "an unknown share" in blind["failures"][0]


def test_what_is_as_good_when_off_fails_the_check() -> None:
    off, ours = (contender(name, "tiershift", 1, 200, 5) for name in ("off", "ours"))
    worse = contender("off", "tiershift", 1, 200, None)
    assert not result(worse, ours, min_over_off=0.5)["failures"]
    assert len(result(off, ours, min_over_off=0.5)["failures"]) == 1
    assert "None with it off" in result(ours, min_over_off=0.5)["failures"][0]


def test_a_better_rival_fails_the_check() -> None:
    ours, worse = (contender("ours", "tiershift", 1, 200, rise) for rise in (5, None))
    rival = contender("n2", "numab2", 1, 200, 5)
    assert not result(rival, ours, no_rival_better=True)["failures"]
    failures = result(rival, worse, no_rival_better=True)["failures"]
    assert failures == ["ours: hit ratio 10.0% is below that of n2"]


@pytest.mark.parametrize(("pages", "failures"), [(100, 1), (10_000, 0)])
def test_pages_of_a_file_count_as_placed(pages: int, failures: int) -> None:
    run = contender("ours", "tiershift", 1, 9, None)
    run["agent"]["placement"] = None
    run["agent"]["workload"]["file_pages"] = pages
    assert len(result(run, max_promoted_share=0.01)["failures"]) == failures


def test_split_huge_page_fails_the_check() -> None:
    run = contender("ours", "tiershift", 1, 9, 30.0)
    run["agent"]["measured"]["delta"]["thp_split_page"] = 1
    assert result(run, same_huge_pages=True)["failures"]
    run["agent"]["measured"]["delta"]["thp_split_page"] = 0
    assert not result(run, same_huge_pages=True)["failures"]


def test_memory_time_is_accesses_weighted_by_latency() -> None:
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        contender("ours", "tiershift", 10_400_000, 200, 30.0),
    )
    none, ours = made["metrics"]["figures"]["none"], made["metrics"]["figures"]["ours"]
    # Of 6000 accesses 10 % are fast; from second 30 on 80 %.
    assert none["memory_ns"] == 600 * 100 + 5400 * 250
    assert ours["memory_ns"] == 2700 * 100 + 3300 * 250
    assert none["memory_time"] == none["memory_kernel_time"] == 1.0
    assert ours["memory_time"] == pytest.approx(1_095_000 / 1_410_000)
    assert ours["memory_kernel_time"] == pytest.approx(
        (1_095_000 + 10_400_000) / (1_410_000 + 10_000_000)
    )
    assert ours["app_per_fast"] == pytest.approx(400_000 / (2700 - 600))
    assert "app_per_fast" not in none
    note = next(line for line in report.notes(made) if "each of them misses all caches" in line)
    assert "left out" not in note
    assert "memory_time_noise" not in ours  # nothing to measure it by


def missing(run: dict[str, Any], times: float) -> dict[str, Any]:
    """The same run with more misses of the model cache, and none of them elsewhere."""
    run["access"] = [[t, times * fast, times * slow] for t, fast, slow in run["access"]]
    return run


def test_slow_accesses_per_operation_with_more_fast_misses_stay() -> None:
    run = contender("ours", "tiershift", 1, 9, 30.0)
    usual = result(run)["metrics"]["figures"]["ours"]
    # From second 30 on 20 a second
    assert usual["slow_per_op"] == pytest.approx(20 * 60 / OPS, rel=1e-3)
    run["access"] = [[t, fast + 100 * t, slow] for t, fast, slow in run["access"]]
    more = result(run)["metrics"]["figures"]["ours"]
    assert more["hit_ratio_end"] == pytest.approx(0.9) and usual["hit_ratio_end"] == 0.8
    assert more["slow_per_op"] == usual["slow_per_op"]


@pytest.mark.parametrize("told", [0, 30])
def test_slow_accesses_per_operation_without_progress_are_unknown(told: int) -> None:
    run = contender("ours", "tiershift", 1, 9, 30.0)
    run["agent"]["measured"]["progress"] = run["agent"]["measured"]["progress"][:told]
    assert result(run)["metrics"]["figures"]["ours"]["slow_per_op"] is None


def test_chance_misses_of_the_model_cache_change_no_modelled_time() -> None:
    none, ours = (
        contender("none", "none", 10_000_000, 0, None),
        contender("ours", "tiershift", 10_400_000, 200, 30.0),
    )
    usual, many = result(none, ours), result(none, missing(ours, 5.0))
    few = result(none, missing(ours, 1.04 / 5))
    for made in (usual, many, few):
        row = made["metrics"]["figures"]["ours"]
        assert row["memory_time"] == pytest.approx(1_095_000 / 1_410_000)
    assert many["metrics"]["figures"]["ours"]["accesses_per_op"] == pytest.approx(0.3)
    # How much more the kernel's part weighs is unknown then.
    key = "memory_kernel_time"
    assert not any(key in row for row in many["metrics"]["figures"].values())
    assert any("left out: the accesses counted" in line for line in report.notes(many))
    assert few["metrics"]["figures"]["ours"][key] == pytest.approx(
        usual["metrics"]["figures"]["ours"][key]
    )
    assert not any("left out" in line for line in report.notes(few))


def test_modelled_time_within_what_twins_differ_by() -> None:
    again = contender("again", "none", 10_000_000, 0, 58.0)  # two seconds of 60 are fast
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        again,
        contender("n2", "numab2", 10_000_000, 1, 59.0),
        contender("ours", "tiershift", 10_000_000, 200, 30.0),
    )
    figures = made["metrics"]["figures"]
    differ = 140 * 150 / 1_410_000
    assert figures["again"]["memory_time"] == pytest.approx(1 - differ)
    assert figures["ours"]["memory_time_noise"] == pytest.approx(differ)
    shown = {row[0].strip(): row[1:] for row in report.table(made)}
    assert shown["modelled time per access, whole run, of that without tiering"] == [
        *("100.0%", "98.5%", "within noise (1.5%)", "77.7%"),
    ]


def test_memory_time_is_per_operation() -> None:
    half = contender("half", "tiershift", 5_000_000, 200, None)
    half["agent"]["workload"]["ops"] = OPS // 2
    half["access"] = [[t, fast / 2, slow / 2] for t, fast, slow in half["access"]]
    made = result(contender("none", "none", 10_000_000, 0, None), half)
    row = made["metrics"]["figures"]["half"]
    assert row["memory_time"] == row["memory_kernel_time"] == pytest.approx(1.0)
    assert "app_per_fast" not in row  # it gained nothing


def test_overhead_by_kind_and_place() -> None:
    none = with_kinds(contender("none", "none", 1, 0, None), fault=(1_000_000, 0, 0, 0))
    none["agent"]["workload"]["ops"] = 2 * OPS
    rival = with_kinds(
        contender("n2", "numab2", 1, 9, 20.0),
        fault=(3_500_000, 0, 0, 0),
        scan=(200_000, 0, 0, 400_000),
        reclaim=(0, 0, 1_000, 0),
        other=(0, -20_000, 0, 0),
    )
    made = result(none, rival)
    found = made["metrics"]["overhead"]
    assert list(found) == ["n2"]
    # The baseline did twice the operations.
    assert found["n2"]["fault"]["process app"] == 3_000_000
    assert found["n2"]["scan"] == {
        "process app": 200_000,
        "process other": 0,
        "thread app": 0,
        "thread other": 400_000,
    }
    table = report.overhead_table(made)
    assert table[1:4] == [
        ["scanning and choosing: processes, app CPUs", "0.2"],
        ["scanning and choosing: kernel threads, other CPUs", "0.4"],
        ["page faults: processes, app CPUs", "3.0"],  # reclaim rounds to nothing
    ]
    assert table[4:] == [
        ["all kinds: processes, app CPUs", "3.2"],
        ["all kinds: processes, other CPUs", "0.0"],
        ["all kinds: kernel threads, app CPUs", "0.0"],
        ["all kinds: kernel threads, other CPUs", "0.4"],
    ]
    assert report.time_table(made)[1:] == [
        ["application, user", "9.00 s", "9.00 s"],
        ["application, system", "1.50 s", "1.50 s"],
        ["kswapd0", "0.25 s", "0.25 s"],
    ]


def test_claim_of_the_post_is_beside_what_was_found() -> None:
    none = with_kinds(contender("none", "none", 1_000_000, 0, None))
    rival = with_kinds(
        contender("n2", "numab2", 5_000_000, 9, 20.0),
        scan=(200_000, 0, 0, 0),
        fault=(300_000, 0, 0, 0),
        migration=(1_500_000, 0, 0, 0),
        reclaim=(0, 0, 0, 7_000_000),
    )
    ours = with_kinds(
        contender("ours", "tiershift", 1_000_000, 9, 20.0),
        scan=(0, 0, 0, 300_000),
        fault=(200_000, 0, 0, 0),
        migration=(0, 0, 0, 1_000_000),
    )
    made = result(none, rival, ours)
    # Another job than the post's
    assert metrics.against_numab2(made) == {} and report.claim_table(made) == []
    shown = io.StringIO()
    report.print_table(made, shown)
    assert "claim, 8 GB" not in shown.getvalue()
    made["scenario"] = "uniform"
    found = metrics.against_numab2(made)
    assert found["overhead"] == pytest.approx(-0.25)
    assert found["of_app"] == pytest.approx(-0.9)
    figures = made["metrics"]["figures"]
    assert found["completion"] == pytest.approx(
        figures["ours"]["memory_kernel_time"] / figures["n2"]["memory_kernel_time"] - 1
    )
    assert report.claim_table(made)[1:3] == [
        ["overhead: scanning and migration", "-78.8%", "-14.2%", "-25.0%"],
        ["  of that, by processes on app CPUs", "-", "-", "-90.0%"],
    ]
    report.print_table(made, shown)
    assert "claim, 8 GB" in shown.getvalue()
    # What has not been measured is not zero.
    made["metrics"]["overhead"] = {}
    assert report.claim_table(made)[1] == [
        "overhead: scanning and migration",
        "-78.8%",
        "-14.2%",
        "-",
    ]
    made["contenders"].remove(rival)
    assert report.claim_table(made) == []


def test_no_overhead_without_a_baseline_or_counts() -> None:
    alone = result(with_kinds(contender("n2", "numab2", 1, 9, 20.0)))
    assert alone["metrics"]["overhead"] == {}
    old = result(contender("none", "none", 1, 0, None), contender("n2", "numab2", 1, 9, 20.0))
    assert report.overhead_table(old) == report.time_table(old) == []
    assert not any(key.startswith("work_") for run in compare.runs(old) for key in run.figures)


def test_best_variant_by_ratio_then_by_time() -> None:
    slow, quick, low = (
        contender(name, "numab2", 12_000_000, 100, rise)
        for name, rise in (("slow", 30.0), ("quick", 20.0), ("low", 5.0))
    )
    slow["access"][-1][1] += 1  # 0.1 points more, which is no difference
    slow["access"][-1][2] -= 1
    low["access"] = [[t, fast * 0.9, slow + fast * 0.1] for t, fast, slow in low["access"]]
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        contender("ours", "tiershift", 10_400_000, 200, 1.0),
        slow,
        quick,
        low,
        contender("damon", "damon", 1, 9, 20.0),
    )
    assert made["metrics"]["best"] == {"numab2": "quick"}
    slow["access"][-1][1] += 7
    slow["access"][-1][2] -= 7
    assert metrics.derive(made)["best"] == {"numab2": "slow"}
    table = report.sweep_table(made)
    assert [row[0] for row in table] == [
        *("", "none", "ours", "slow", "quick (best)", "low", "damon"),
    ]
    shown = dict(zip(table[0], table[4], strict=True))
    assert (shown["hit ratio at the end"], shown["t90"]) == ("80.0%", "22.0 s")
    assert (shown["promoted"], shown["demoted"]) == ("100", "3")
    assert shown["app kernel insns per promoted page"] == "20,000 (?)"
    best = {run.cell: run.figures["best"] for run in compare.runs(made)}
    assert [name for name, mark in best.items() if mark] == ["quick"]


def test_table_on_the_terminal() -> None:
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        contender("n2", "numab2", 12_000_000, 100, 20.0),
    )
    shown = io.StringIO()
    report.print_table(made, shown)
    lines = shown.getvalue().splitlines()
    assert any("pages promoted" in line and line.endswith("100") for line in lines)
    assert any("per promoted page" in line and "20,000 (?)" in line for line in lines)


def test_lines_of_a_comparison(tmp_path: Path) -> None:
    none = with_kinds(contender("none", "none", 1_000_000, 0, None), fault=(1_000_000, 0, 0, 0))
    ours = with_kinds(
        contender("ours", "tiershift", 1_400_000, 200, 30.0),
        fault=(500_000, 0, 0, 0),
        scan=(0, 0, 300_000, 600_000),
    )
    made = result(none, ours, max_promoted_share=0.1)
    made["host"] = RECORDED_HOST
    item = next(one for one in compare.studies() if one.name == "hotcold-4k")
    lines = written(item, compare.runs(made), tmp_path, facts=made)
    assert list(lines) == ["none", "ours"]
    figures = lines["ours"].figures
    assert figures["hit_ratio_end"] == 0.8 and figures["app_per_page"] == 2000
    assert (figures["work_scan"], figures["work_fault"]) == (0.9, -0.5)
    assert not any(key.startswith("work_") for key in lines["none"].figures)
    # Without twins the noise is not known.
    assert "app_per_page_noise" not in figures
    # The check is told once, of ours; a curve begins after the first second.
    assert lines["ours"].checks == made["failures"] != [] and not lines["none"].checks
    assert lines["ours"].kernel == "base abc" and len(lines["ours"].curve) <= 41
    assert lines["ours"].curve[-1] == (60, 0.8)
    shown = {row[0]: row[1:] for _, rows in study.tables(item, [*lines.values()]) for row in rows}
    assert shown["pages promoted"] == ["0", "200"]


def test_noise_of_twins_is_in_the_lines(tmp_path: Path) -> None:
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        contender("again", "none", 10_500_000, 0, None),
        contender("ours", "tiershift", 10_400_000, 200, 30.0),
    )
    run = next(run for run in compare.runs(made) if run.cell == "ours")
    assert run.figures["app_per_page_noise"] == pytest.approx(2500)
    column = next(one for one in compare.COLUMNS if one.key == "app_per_page")
    assert column.cell({"app_per_page": 2000, "app_per_page_noise": 2500}) == "within noise (2,500)"


def compared(ours: dict[str, Any], rival: dict[str, Any], twin: bool = False) -> str:
    """The sentence about tiershift and NUMA balancing."""
    runs = [contender("none", "none", 1_000_000, 0, None)]
    if twin:
        runs.append(contender("again", "none", 1_000_500, 0, None))
    ours["agent"]["measured"]["delta"] |= {"numa_hint_faults": 0}
    rival["agent"]["measured"]["delta"] |= {"numa_hint_faults": 70_000}
    return report.verdict(result(*runs, rival, ours))


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        (30.0, None, "80.0% of the accesses at the end with tiershift and 10.0% with NUMA"),
        (None, 30.0, "10.0% of the accesses at the end with tiershift and 80.0% with NUMA"),
    ],
)
def test_verdict_says_who_is_better(ours: float | None, theirs: float | None, words: str) -> None:
    said = compared(
        contender("tiershift", "tiershift", 1_400_000, 200, ours),
        contender("numab2", "numab2", 2_000_000, 200, theirs),
    )
    assert words in said
    assert "take 0 hint faults instead of 70,000" in said
    assert said.endswith("small differences mean nothing.")


def test_verdict_where_equal_runs_were_compared() -> None:
    said = compared(
        contender("tiershift", "tiershift", 1_400_000, 200, 30.0),
        contender("numab2", "numab2", 2_000_000, 200, None),
        twin=True,
    )
    assert said.endswith("instead of 70,000.")


def test_verdict_without_a_rival_compares_nothing() -> None:
    made = result(contender("none", "none", 1_000_000, 0, None))
    assert report.verdict(made).startswith("Nothing to compare.")


def test_few_rows_and_the_sentence() -> None:
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        contender("n2", "numab2", 12_000_000, 100, 20.0),
        contender("ours", "tiershift", 10_400_000, 200, None),
        min_hit_ratio=0.5,
    )
    shown = io.StringIO()
    report.print_verdict(made, 2, shown)
    text = shown.getvalue()
    head = text.splitlines().index(next(line for line in text.splitlines() if "n2" in line))
    assert text.splitlines()[head + 4] == ""  # a ruler and two rows
    assert report.verdict(made) in text
    assert text.count("FAILED CHECK: ") == len(made["failures"]) == 1
    shown = io.StringIO()
    report.print_verdict(made, 8, shown)
    labels = [re.split("  +", line)[0] for line in shown.getvalue().splitlines() if "  " in line]
    assert len(labels) == len(set(labels))
    assert "kernel instructions, all CPUs: more than without tiering, per promoted page" in labels


@pytest.mark.parametrize(
    ("highest", "step"), [(8.0, 1), (8.1, 2), (40, 5), (41, 10), (0.08, 0.01), (0.0, 1)]
)
def test_ticks_are_round(highest: float, step: float) -> None:
    assert report.round_step(highest) == pytest.approx(step)


def test_model_of_the_tlb_is_told_where_it_was_counted() -> None:
    run = contender("none", "none", 1_000_000, 0, None)
    made = result(run)
    without = metrics.of_contender(run, made["setup"], made["machine"])
    found = metrics.of_contender(
        {**run, "tlb": {"flushes": 3, "fills": 4}}, made["setup"], made["machine"]
    )
    assert (found["tlb_flushes"], found["tlb_fills"]) == (3, 4) and "tlb_fills" not in without
