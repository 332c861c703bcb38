# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of the studies repeats, from made-up figures; nothing is booted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, parsed, verdicts, written

from lab import build, cache, metrics, repeats, scenario
from lab.errors import LabError
from lab.repeats import Figures, Turn
from lab.results import finish, ledger

STUDIES = {study.name: study for study in repeats.studies()}
STUDY = STUDIES["repeats-hotcold-4k"]


def turns(key: str, ours: list[float | None], theirs: float = 100.0) -> list[Turn]:
    """Turns that differ in one figure; NUMA balancing has the same in all."""
    rest: Figures = dict.fromkeys(repeats.SHOWN, 1.0)
    return [
        {
            "none": rest,
            "numab2": {**rest, key: theirs},
            "damon": rest,
            "tiershift": {**rest, key: value},
        }
        for value in ours
    ]


def facts(made: list[Turn]) -> dict[str, Any]:
    kernels = [{**KERNEL, "flavour": "base"}, KERNEL]
    return {**FACTS, "resumed": 0, "kernels": kernels, "turns": made}


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ([90.0, 91.0, 92.0], "met"),
        ([110.0, 111.0, 112.0], "MISSED"),
        ([80.0, 100.0, 105.0], "not certain"),
        ([95.0, 120.0, 100.0], "not certain"),
        ([-5.0, -6.0, 3.0], "met"),  # less than without tiering
        ([90.0, None, 92.0], "no figure"),
        ([None, None, None], "no figure"),
    ],
)
def test_verdict(ours: list[float | None], words: str) -> None:
    found = repeats.ratio(turns("all_per_page", ours), "all_per_page")
    assert repeats.verdict(found, 1.0) == words
    title = next(goal.title for goal in repeats.GOALS if goal.key == "all_per_page")
    runs = repeats.runs(facts(turns("all_per_page", ours)))
    told = [goal.verdict for run in runs for goal in run.goals if goal.name == title]
    words_of = {"met": [ledger.MET], "MISSED": [ledger.MISSED], "not certain": [ledger.UNSEEN]}
    assert told == words_of.get(words, [])


def test_ratio_is_of_the_same_turn() -> None:
    made = turns("all_per_page", [10.0, 40.0])
    made[1]["numab2"] = {**made[1]["numab2"], "all_per_page": 400.0}
    found = repeats.ratio(made, "all_per_page")
    assert found.each == [0.1, 0.1]
    assert found.error == 0.0


def test_nothing_to_compare_with_is_no_ratio() -> None:
    assert repeats.ratio(turns("all_per_page", [1.0, 1.0], 0.0), "all_per_page").mean is None


def test_early_accesses_begin_with_the_first_point() -> None:
    points = [[0.0, 5e6, 0.0], [1.0, 6e6, 0.0], [2.0, 9e6, 1e6], [3.0, 50e6, 0.0]]
    assert repeats.early(points) == 4.0
    assert repeats.early(points[:2]) is None


def test_lines_of_every_turn(tmp_path: Path) -> None:
    made = turns("t90_best_s", [60.0, 40.0])
    lines = written(STUDY, repeats.runs(facts(made)), tmp_path)
    assert {*lines} == {f"{mode}, {n}" for mode in repeats.MODES for n in (1, 2)}
    assert [lines[f"tiershift, {n}"].figures["t90_best_s"] for n in (1, 2)] == [60, 40]
    assert lines["numab2, 1"].kernel == "base k" and lines["tiershift, 1"].kernel == "tiershift k"
    # The goals are of all turns.
    assert [name for name, line in lines.items() if line.goals] == ["tiershift, 1"]
    line = lines["tiershift, 1"]
    assert [goal.name for goal in line.goals] == [goal.title for goal in repeats.GOALS]
    assert verdicts(line) == [ledger.UNSEEN, ledger.MISSED, ledger.MET, ledger.MET]
    assert (line.goals[0].value, line.goals[0].limit) == (0.5, 0.5)
    assert line.goals[0].text == "of NUMA balancing's; standard error 0.100"


def test_figure_that_a_turn_lacks_is_left_out(tmp_path: Path) -> None:
    runs = repeats.runs(facts(turns("t90_best_s", [None, None])))
    lines = written(STUDY, runs, tmp_path)
    assert "t90_best_s" not in lines["tiershift, 1"].figures
    assert repeats.GOALS[0].title not in [goal.name for goal in lines["tiershift, 1"].goals]


@pytest.mark.parametrize(("times", "verdict"), [(1.9, ledger.UNSEEN), (2.1, ledger.MET)])
def test_goal_below_the_smoothing_cannot_be_seen(times: float, verdict: str) -> None:
    """No time is below SMOOTH_S, so half of a rival's must be above it."""
    theirs = times * metrics.SMOOTH_S
    made = turns("t90_best_s", [theirs / 4] * 3, theirs)
    assert repeats.runs(facts(made))[3].goals[0].verdict == verdict


@pytest.mark.parametrize(
    ("name", "times", "words"),
    [("hotcold-4k", 1, "one turn tells nothing"), ("file-hot", 2, "does not compare")],
)
def test_bad_requests(name: str, times: int, words: str) -> None:
    args = parsed(STUDY, "--times", str(times))
    with pytest.raises(LabError, match=words):
        repeats.measure(name, args)


def test_few_turns_leave_the_results_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Kernel:
        key = "k"

        def __init__(self, flavour: str) -> None:
            self.flavour = flavour

        def describe(self) -> dict[str, str]:
            return {**KERNEL, "flavour": self.flavour}

    def one(_spec: scenario.Scenario, _contenders: list[str]) -> Turn:
        return turns("t90_best_s", [40.0])[0]

    recorded: list[int] = []
    monkeypatch.setattr(cache, "sub", lambda name: tmp_path / name)
    monkeypatch.setattr(build, "kernel", Kernel)
    monkeypatch.setattr(repeats, "_turn", one)
    monkeypatch.setattr(ledger, "record", lambda _n, _f, runs, _g: recorded.append(len(runs)))
    assert STUDY.run(parsed(STUDY, "--times", "2"))
    assert recorded == [] and finish.PART in capsys.readouterr().out
    assert STUDY.run(parsed(STUDY))
    assert recorded == [len(repeats.MODES) * repeats.TIMES]
