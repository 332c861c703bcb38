# SPDX-License-Identifier: GPL-2.0
"""Tables of a study, and what it prints when it ends."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import FACTS

from lab import studies
from lab.errors import LabError
from lab.results import finish, ledger, study
from lab.results.ledger import Goal, Line, Run
from lab.results.study import Column, Study

COLUMNS = (
    Column("n", "count"),
    Column("share", "share", "{:.1%}"),
    Column("cost", "cost", "{:,.1f}"),
)


def make(**more: Any) -> Study:
    about = {"name": "x", "title": "X", "what": "It is made up.", "columns": COLUMNS}
    return Study(**{**about, "minutes": 1, "run": lambda _: True, **more})


def lines(*runs: tuple[str, dict[str, float]], turn: int = 0) -> list[Line]:
    return ledger.lines_of("x", FACTS, [Run(cell, row, turn=turn) for cell, row in runs], (), "")


def test_row_for_each_run_and_column_for_each_figure() -> None:
    made = lines(("a", {"n": 1234, "share": 0.5}), ("b", {"n": 0}))
    assert study.tables(make(), made) == [
        ("", [["", "count", "share"], ["a", "1,234", "50.0%"], ["b", "0", "-"]])
    ]


def test_figure_that_no_run_has_is_left_out_and_others_are_not_shown() -> None:
    made = lines(("a", {"n": 1, "other": 7}))
    assert study.tables(make(), made) == [("", [["", "count"], ["a", "1"]])]
    assert study.tables(make(), lines(("a", {}))) == []


@pytest.mark.parametrize(
    ("cost", "noise", "shown"),
    [
        (5.0, 6.0, "within noise (6.0)"),
        (-6.0, 6.0, "within noise (6.0)"),
        (6.1, 6.0, "6.1"),
        (-6.1, 6.0, "-6.1"),
        (5.0, None, "5.0"),
    ],
)
def test_what_is_within_the_noise_is_not_told(cost: float, noise: float | None, shown: str) -> None:
    figures = {"cost": cost} | ({} if noise is None else {"cost_noise": noise})
    assert COLUMNS[2].cell(figures) == shown


def test_names_with_numbers_are_in_the_order_of_these() -> None:
    names = ["16 CPUs, on", "2 CPUs, on", "2 CPUs, off", "10 CPUs", "base"]
    (_, rows), *_ = study.tables(make(), lines(*((name, {"n": 1.0}) for name in names)))
    assert [row[0] for row in rows[1:]] == [
        *("2 CPUs, off", "2 CPUs, on", "10 CPUs", "16 CPUs, on", "base"),
    ]


def test_pivot_has_a_column_for_each_run() -> None:
    made = lines(("a", {"n": 1, "cost": 2}), ("b", {"n": 3}))
    assert study.tables(make(pivot=True), made) == [
        ("", [["", "a", "b"], ["count", "1", "3"], ["cost", "2.0", "-"]])
    ]


def test_parts_are_tables_of_their_own() -> None:
    parts = (("Time", "time: "), ("Count", "count: "), ("Nothing", "none: "))
    made = lines(("time: a", {"cost": 1}), ("count: a", {"n": 2}), ("count:", {"n": 3}))
    assert study.tables(make(parts=parts), made) == [
        ("Time", [["", "cost"], ["a", "1.0"]]),
        ("Count", [["", "count"], ["a", "2"]]),
    ]


def test_run_that_is_named_as_its_part_is_all_of_it() -> None:
    parts = (("Group", "group"),)
    made = lines(("group, off", {"n": 1}), ("group", {"n": 2}))
    (_, rows), *_ = study.tables(make(parts=parts), made)
    assert [row[0] for row in rows[1:]] == ["all", "off"]


def test_turns_have_a_table_of_their_own() -> None:
    each = lines(("a", {"n": 1}), turn=1) + lines(("a", {"n": 2}), turn=2)
    assert study.tables(make(), each) == [("", [["", "count"], ["a, 1", "1"], ["a, 2", "2"]])]
    both = study.tables(make(), lines(("a", {"n": 3})) + each)
    assert [title for title, _ in both] == ["", "each run"]
    assert both[0][1][1:] == [["a", "3"]] and len(both[1][1]) == 3
    titled = study.tables(make(parts=(("Part", ""),)), lines(("a", {"n": 3})) + each)
    assert [title for title, _ in titled] == ["Part", "Part, each run"]


@pytest.mark.parametrize(
    ("goal", "text"),
    [
        (Goal("g", ledger.MET), "g"),
        (Goal("g", ledger.MET, 1.23456, 2), "g: 1.235, limit 2"),
        (Goal("g", ledger.MET, None, 2, "no figure"), "g (no figure)"),
        (Goal("g", ledger.MET, 0.5, 1, "of all"), "g: 0.5, limit 1 (of all)"),
    ],
)
def test_a_goal_in_a_line(goal: Goal, text: str) -> None:
    assert study.goal_text(goal) == text


# --- all of them ------------------------------------------------------------------------


def test_every_study_is_told_apart_and_says_what_it_is() -> None:
    every = [*studies.every()]
    assert len({one.name for one in every}) == len(every) > 30
    for one in every:
        assert one.title and one.what.endswith("."), one.name
        assert one.minutes > 0 and one.columns, one.name
        keys = [column.key for column in one.columns]
        assert len(set(keys)) == len(keys), one.name


def test_every_line_of_the_ledger_is_of_a_study_and_shown() -> None:
    known = {one.name: one for one in studies.every()}
    read = ledger.read()
    assert {line.study for line in read} <= set(known)
    for name, one in known.items():
        mine = [line for line in read if line.study == name]
        columns = {column.key for column in one.columns}
        found = {key for line in mine for key in line.figures}
        assert {
            key for key in found - columns if key.removesuffix("_noise") not in columns
        } == set()
        shown = [cell for _, rows in study.tables(one, mine) for row in rows for cell in row]
        for line in mine:
            if line.figures and not one.parts:
                assert (f"{line.cell}, {line.turn}" if line.turn else line.cell) in shown


def test_an_unknown_study_is_named_with_those_that_there_are() -> None:
    with pytest.raises(LabError, match="no study 'curve'") as error:
        studies.named("curve")
    assert "scanner" in error.value.todo and "zap" in error.value.todo


# --- what a study ends with ---------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(ledger, "record", lambda name, *_: names.append(name))
    return names


def test_end_of_a_study(recorded: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    goals = [
        Goal("good", ledger.MET),
        Goal("told", ledger.MET, 1, 2, "why"),
        Goal("bad", ledger.MISSED),
        Goal("hidden", ledger.UNSEEN),
    ]
    made = [Run("a", {"n": 1}, goals=goals), Run("b", {"n": 2}, turn=2)]
    assert finish.finish(make(), FACTS, made)
    said = capsys.readouterr().out
    assert "  met: a: why" in said and "  missed: a: bad" in said
    assert "  cannot be seen: a: hidden" in said and "good" not in said
    assert recorded == ["x"] and finish.PART not in said


def test_failed_check_is_recorded_and_the_study_does_not_count(
    recorded: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = [Run("a", {"n": 1}, turn=2, checks=["it was lost"])]
    assert not finish.finish(make(), FACTS, made)
    assert "FAILED CHECK: a, 2: it was lost" in capsys.readouterr().out and recorded == ["x"]


def test_part_of_a_study_is_not_recorded(
    recorded: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert finish.finish(make(), FACTS, [Run("a", {"n": 1})], whole=False)
    assert finish.PART in capsys.readouterr().out and recorded == []


def test_what_measured_nothing_is_an_error_and_deletes_nothing(recorded: list[str]) -> None:
    """Without a run there is no line that could hold a failed check."""
    with pytest.raises(LabError, match="x measured nothing") as error:
        finish.finish(make(), {**FACTS, "failures": ["not understood"]}, [])
    assert error.value.todo == "not understood" and recorded == []


@pytest.mark.parametrize(
    ("good", "word"), [(True, ledger.MET), (False, ledger.MISSED), (None, ledger.UNSEEN)]
)
def test_verdict_of_a_condition(good: bool | None, word: str) -> None:
    assert finish.verdict(good) == word
