# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of `lab repeats`, from made-up figures; nothing is booted."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from lab import cli, repeats
from lab.errors import LabError
from lab.repeats import Figures, Turn


def turns(key: str, ours: list[float | None], theirs: float = 100.0) -> list[Turn]:
    """Turns that differ in one figure; NUMA balancing has the same in all."""
    rest: Figures = dict.fromkeys(repeats.SHOWN, 1.0)
    return [
        {"none": rest, "numab2": {**rest, key: theirs}, "tiershift": {**rest, key: value}}
        for value in ours
    ]


def facts(made: list[Turn]) -> dict[str, Any]:
    return {
        "scenario": "hotcold-4k",
        "description": "made up",
        "command": "make repeats",
        "date": "today",
        "seconds": 1.0,
        "resumed": 0,
        "host": {"qemu": "none", "cpus": 2},
        "kernels": [],
        "turns": made,
    }


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
    rows = repeats.goal_table(turns("all_per_page", ours))
    title = next(goal.title for goal in repeats.GOALS if goal.key == "all_per_page")
    assert next(row for row in rows if row[0] == title)[4] == words


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


def test_page_and_plot(tmp_path: Path) -> None:
    made = turns("t90_best_s", [60.0, 40.0])
    repeats.write(facts(made), tmp_path)
    page = (tmp_path / "repeats-hotcold-4k.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| time to 90 % of the best"))
    assert "| 100.0 (100.0 to 100.0) | 50.0 (40.0 to 60.0) |" in row
    assert "not certain" in page
    plot = ET.parse(tmp_path / "repeats-hotcold-4k.svg").getroot()
    lines = [item for item in plot.iter() if item.tag.endswith("polyline")]
    assert len(lines) == len(repeats.GOALS)


def test_plot_without_a_figure() -> None:
    assert "svg" in repeats.svg(facts(turns("t90_best_s", [None, None])))


@pytest.mark.parametrize(
    ("name", "times", "words"),
    [("hotcold-4k", 1, "one turn tells nothing"), ("file-hot", 2, "does not compare")],
)
def test_bad_requests(name: str, times: int, words: str) -> None:
    with pytest.raises(LabError, match=words):
        repeats.repeats(name, times, None, resume=False)


def test_few_turns_leave_the_results_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved: list[Path | None] = []
    monkeypatch.setattr(repeats, "repeats", lambda name, times, save, resume: saved.append(save))
    assert cli.main(["repeats", "hotcold-4k", "--times", "2"]) == 0
    assert saved == [None]
    assert "left as it is" in capsys.readouterr().out
