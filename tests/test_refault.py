# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of `lab refault`, from made-up counters; nothing is booted."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from lab import refault, scenario
from lab.refault import Figures, Row

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
                    "kmmscand_pte_young": 0,
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


def test_page_shows_every_run_and_the_verdict() -> None:
    measured = rows((10_000, 10_100, 10_000), (20_000, 20_200, 20_000))
    facts: dict[str, Any] = {
        "command": "make refault",
        "date": "today",
        "seconds": 1.0,
        "host": {"qemu": "QEMU", "cpus": 2},
        "kernel": {"release": "6.12", "flavour": "tiershift", "key": "abc", "base_version": "1"},
        "lru": "mglru",
        "broken": False,
        "setup": dataclasses.asdict(refault.SETUP),
        "rows": measured,
        "result": refault.judge(measured, SLOW_PAGES),
    }
    page = refault.markdown("refault", facts)
    assert "| seed 2: off-again | 40,000 |" in page
    assert "| sum: on | 60,600 |" in page
    assert "Swap-ins: on against off +1.00% in sum; by seed +1.0%, +1.0%" in page
    assert "standard error of 0.00%" in page
    assert page.count("judged by the sum: within 2%") == 2
    assert "**PASS**" in page and "tiershift abc" in page
    facts["result"] = refault.judge(measured, 10**9)
    page = refault.markdown("refault", facts)
    assert "**FAIL**" in page and "Void: seed 1, on: kmmscand found only" in page


def drawn(plot: str) -> list[list[list[tuple[float, float]]]]:
    """Of each plot, of each run, the points by seed."""
    return [
        [
            [(float(x), float(y)) for x, _, y in (p.partition(",") for p in line.split())]
            for line in (item.attrib["points"] for item in part.iterfind("{*}polyline"))
        ]
        for part in ET.fromstring(plot).iterfind("{*}svg")
    ]


def test_plot_has_each_run_against_those_without_kmmscand() -> None:
    measured = rows((9_900, 10_000, 10_100), (20_000, 21_000, 20_000))
    refaults, swapins = drawn(refault.svg(measured))
    assert refaults == swapins  # half of the refaults are swap-ins
    off, on, again = refaults
    middle = 157  # no difference; 5 % are at 3/4 of three steps of 2 %, each 41 high
    assert [y for _, y in on] == pytest.approx([middle, middle - 102.5], abs=0.1)
    assert off[0][1] - middle == pytest.approx(middle - again[0][1]) == pytest.approx(20.5)
    assert [x for x, _ in off] == [x for x, _ in on] == [56, 744]
    text = refault.svg(measured)
    assert "Swap-ins, against the mean of off and off-again of the same seed" in text
    assert [f">{label} %<" in text for label in ("-6", "-2", "0", "+2", "+6", "+8")] == [
        *([True] * 5),
        False,
    ]


def test_plot_of_the_broken_one_is_against_the_intact_one() -> None:
    pair = [{"on": figures(10_000), "broken": figures(count)} for count in (12_000, 15_000)]
    text = refault.svg(pair)
    assert "Refaults, against on of the same seed" in text
    assert len(drawn(text)[0]) == 2
    assert ">+56 %<" in text and ">+14 %<" in text and ">+2 %<" not in text  # few lines


def test_one_seed_has_no_plot(tmp_path: Path) -> None:
    facts: dict[str, Any] = {
        "command": "make refault",
        "date": "today",
        "seconds": 1.0,
        "host": {"qemu": "QEMU", "cpus": 2},
        "kernel": {"release": "6.12", "flavour": "tiershift", "key": "abc", "base_version": "1"},
        "lru": "mglru",
        "broken": False,
        "setup": dataclasses.asdict(refault.SETUP),
    }
    for counts, files in (
        ([(9_900, 10_000, 10_100)] * 2, ["json", "md", "svg"]),
        ([(9_900, 10_000, 10_100)], ["json", "md"]),  # and the old plot is gone
    ):
        measured = rows(*counts)
        judged = refault.judge(measured, SLOW_PAGES)
        refault.write("refault", {**facts, "rows": measured, "result": judged}, tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"refault.{f}" for f in files]
        assert ("(refault.svg)" in (tmp_path / "refault.md").read_text()) is ("svg" in files)


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
            assert contender.settings[refault.TUNABLES + "promote_rate_mbps"] == "0"
