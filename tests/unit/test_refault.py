# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of the studies refault, from made-up counters; nothing is booted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, parsed, verdicts, written

from lab import build, refault, scenario
from lab.refault import Figures, Row
from lab.results import finish, ledger

STUDIES = {study.name: study for study in refault.studies()}

SLOW_PAGES = 50_000


def figures(count: int, **changes: int) -> Figures:
    """A run with ``count`` swap-ins and as many refaults of the file."""
    found = refault.figures(
        {
            "workload": {"ops": 1000, "majfaults": 2 * count + 11, "first": 11},
            "measured": {
                "delta": {
                    "workingset_refault_anon": count - 1,
                    "workingset_refault_file": count + 1,
                    "pswpin": count,
                    "pgscan_kswapd": 5 * count,
                    "pgscan_direct": 6,
                    "pgsteal_kswapd": 6 * count,
                    "pgsteal_direct": 7,
                    "pgdemote_kswapd": 8,
                    "pgdemote_direct": 9,
                    "pgpromote_success": 0,
                    "tier_scan_young": 0,
                }
            },
        }
    )
    return {**found, **changes}


def rows(*counts: tuple[int, int, int], **changes: int) -> list[Row]:
    """Seeds with these counts for off, on and off-again; ``changes`` are of on."""
    return [
        {
            "off": figures(off),
            "on": figures(on, **{"young": 60_000, **changes}),
            "off-again": figures(again),
        }
        for off, on, again in counts
    ]


def judge(*counts: tuple[int, int, int], **changes: int) -> dict[str, Any]:
    return refault.judge(rows(*counts, **changes), SLOW_PAGES)


def test_figures_are_sums_of_the_right_counters() -> None:
    run = figures(10_000)
    assert (run["refaults"], run["swapins"], run["workingset"]) == (20_000, 10_000, 20_000)
    assert (run["scanned"], run["reclaimed"], run["demoted"]) == (50_006, 60_007, 17)


def test_difference_is_of_the_sums_and_of_each_seed() -> None:
    found = refault.difference(
        rows((10_000, 12_000, 10_000), (30_000, 30_000, 30_000)), "swapins", "on", ("off",)
    )
    assert found.total == pytest.approx(0.05)
    assert found.each == pytest.approx([0.2, 0.0])
    assert found.mean == pytest.approx(0.1)
    assert found.error == pytest.approx(0.1)  # stdev 0.1414, two seeds
    assert found.rms == pytest.approx(0.1414, rel=1e-3)


def test_off_is_the_mean_of_both_runs_without_kmmscand() -> None:
    found = refault.difference(
        rows((10_000, 12_000, 14_000)), "swapins", "on", ("off", "off-again")
    )
    assert found.total == 0.0
    assert found.error is None


@pytest.mark.parametrize(
    ("on", "passed"), [(10_190, True), (9_810, True), (10_210, False), (9_790, False)]
)
def test_criterion_has_two_sides(on: int, passed: bool) -> None:
    result = judge(*[(10_000, on, 10_000)] * 5)
    assert result["passed"] is passed
    assert not result["void"]
    assert [d["passed"] for d in result["differences"].values()] == [passed] * 3


@pytest.mark.parametrize(
    ("key", "passed"), [("refaults", False), ("swapins", False), ("workingset", True)]
)
def test_each_judged_figure_can_fail_alone(key: str, passed: bool) -> None:
    result = judge(*[(20_000, 20_000, 20_000)] * 5, **{key: 30_000})
    assert [k for k, d in result["differences"].items() if not d["passed"]] == [key]
    assert result["passed"] is passed


def test_one_bad_seed_is_weighed_against_the_others() -> None:
    assert judge(*[(10_000, 10_000, 10_000)] * 4, (10_000, 10_900, 10_000))["passed"]
    assert not judge(*[(10_000, 10_000, 10_000)] * 4, (10_000, 11_100, 10_000))["passed"]


def test_noise_does_not_help_to_pass() -> None:
    """Two runs without kmmscand differ by 10 %: then the mean and its error decide."""
    quiet = judge(*[(10_000, 10_500, 11_000)] * 5)
    assert quiet["differences"]["swapins"]["by_mean"]
    assert quiet["differences"]["swapins"]["noise"] == pytest.approx(0.1)
    assert quiet["passed"]  # always in the middle of the two
    wild = judge((10_000, 9_500, 11_000), (10_000, 11_500, 11_000))
    assert wild["differences"]["swapins"]["total"] == pytest.approx(0.0)
    assert not wild["passed"]
    assert not judge((10_000, 10_500, 11_000))["passed"]  # one seed has no error


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"young": 49_999}, "found only 49999"),
        ({"promoted": 1}, "1 pages were promoted"),
        ({"ops": 999}, "same work"),
        ({"first": 10}, "same work"),
        ({"swapins": 4_999}, "only 4999 swap-ins"),
        ({"refaults": 14_999}, "only 4999 refaults of the file"),
    ],
)
def test_void_runs_fail(changes: dict[str, int], words: str) -> None:
    result = judge(*[(10_000, 10_000, 10_000)] * 5, **changes)
    assert not result["passed"]
    assert len(result["void"]) == 5
    assert words in result["void"][0]


def test_off_must_be_off() -> None:
    bad = rows((10_000, 10_000, 10_000))
    bad[0]["off-again"]["young"] = 1
    assert refault.void(bad, SLOW_PAGES) == ["seed 1, off-again: kmmscand was not off"]


@pytest.mark.parametrize(("count", "passed"), [(10_300, True), (10_100, False), (9_000, False)])
def test_theft_must_be_noticed(count: int, passed: bool) -> None:
    pair = [{"on": figures(10_000, young=60_000), "broken": figures(count, young=60_000)}]
    assert refault.judge_broken(pair, SLOW_PAGES)["passed"] is passed
    assert not refault.judge_broken(pair, 70_000)["passed"]  # void


def facts(measured: list[Row], slow_pages: int = SLOW_PAGES) -> dict[str, Any]:
    judged = refault.judge(measured, slow_pages)
    known = {**FACTS, "kernel": KERNEL, "lru": "mglru", "broken": False}
    return {**known, "rows": measured, "result": judged}


def test_lines_of_every_run_and_the_verdicts(tmp_path: Path) -> None:
    measured = rows((10_000, 10_100, 10_000), (20_000, 20_200, 20_000))
    lines = written(STUDIES["refault"], refault.runs(facts(measured)), tmp_path)
    assert [*lines] == [f"{name}, {n}" for name in ("off", "off-again", "on") for n in (1, 2)]
    again = lines["off-again, 2"]
    assert (again.figures["refaults"], again.figures["swapins"]) == (40_000, 20_000)
    assert (again.figures["workingset"], again.figures["young"]) == (40_000, 0)
    assert lines["on, 2"].figures["young"] == 60_000
    # The goals are of all seeds, and the kernel's own count has none.
    assert [name for name, line in lines.items() if line.goals] == ["off, 1"]
    goals = lines["off, 1"].goals
    assert [goal.name for goal in goals] == ["refaults", "swap-ins"]
    assert [(goal.value, goal.limit) for goal in goals] == [(0.01, 0.02)] * 2
    assert verdicts(lines["off, 1"]) == [ledger.MET] * 2
    assert "equal runs differ by 0.00%" in goals[0].text
    assert not any(line.checks for line in lines.values())
    worse = rows((10_000, 10_300, 10_000), (20_000, 20_600, 20_000))
    lines = written(STUDIES["refault"], refault.runs(facts(worse)), tmp_path)
    assert verdicts(lines["off, 1"]) == [ledger.MISSED] * 2


def test_void_runs_are_failed_checks(tmp_path: Path) -> None:
    measured = rows((10_000, 10_100, 10_000))
    lines = written(STUDIES["refault"], refault.runs(facts(measured, 10**9)), tmp_path)
    (check,) = lines["off, 1"].checks
    assert check.startswith("seed 1, on: kmmscand found only")
    assert not lines["on, 1"].checks


@pytest.mark.parametrize(("count", "verdict"), [(12_000, ledger.MET), (10_100, ledger.MISSED)])
def test_lines_of_the_broken_one(count: int, verdict: str, tmp_path: Path) -> None:
    pair = [{"on": figures(10_000, young=60_000), "broken": figures(count, young=60_000)}]
    judged = refault.judge_broken(pair, SLOW_PAGES)
    known = {**FACTS, "kernel": KERNEL, "lru": "mglru", "broken": True}
    made = refault.runs({**known, "rows": pair, "result": judged})
    lines = written(STUDIES["refault-broken"], made, tmp_path)
    assert verdicts(lines["on, 1"]) == [verdict] * 2
    assert lines["broken, 1"].figures["swapins"] == count


def test_fewer_seeds_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Kernel:
        def describe(self) -> dict[str, str]:
            return KERNEL

    def one(_setup: Any, contender: scenario.Contender, *_: Any) -> Figures:
        slow = refault.SETUP.slow_mb * refault.PAGES_PER_MB
        return figures(10_000, young=slow if contender.name == "on" else 0)

    recorded: list[tuple[str, int]] = []
    monkeypatch.setattr(build, "kernel", lambda _flavour: Kernel())
    monkeypatch.setattr(refault, "_one", one)
    monkeypatch.setattr(
        ledger, "record", lambda name, _f, runs, _g: recorded.append((name, len(runs)))
    )
    for name in ("refault", "refault-classic"):
        assert STUDIES[name].run(parsed(STUDIES[name], "--seeds", "2"))
        assert finish.PART in capsys.readouterr().out and recorded == []
    assert STUDIES["refault"].run(parsed(STUDIES["refault"]))
    assert recorded == [("refault", 3 * refault.SETUP.seeds)]


@pytest.mark.parametrize("setup", [refault.SETUP, refault.BROKEN])
def test_the_job_does_not_fit_into_the_machine(setup: refault.Setup, tmp_path: Path) -> None:
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\n")
    spec = setup.scenario(setup.contenders[0])
    assert spec.topology.load().memory_mb == setup.fast_mb + setup.slow_mb
    programs = {"refault": fake, "labmark": fake}
    argv = scenario.make_job(spec, spec.contender[0], tmp_path, programs, {})["workload"]["argv"]
    mapped = sum(int(argv[argv.index(name) + 1]) for name in ("--anon-mb", "--file-mb"))
    # The kernel keeps some for itself, the debug kernel more than half.
    assert mapped > (1.4 if setup is refault.SETUP else 0.5) * (setup.fast_mb + setup.slow_mb)
    for contender in setup.contenders:
        if contender.mode == "tiershift":
            assert contender.settings["/sys/kernel/mm/tier/promote/enabled"] == "0"
            share = contender.settings["/sys/kernel/mm/tier/scan/cpu_permille"]
            assert share == str(spec.topology.load().permille(50))
