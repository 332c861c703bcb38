# SPDX-License-Identifier: GPL-2.0
"""What is made of the ledger: docs/results.md, the README's table, and report.html."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, HOST, KERNEL

from lab import cache, cli, rooms, studies
from lab.errors import LabError
from lab.results import headline, html, ledger, page, status
from lab.results.ledger import Goal, Line, Run
from lab.results.status import CURRENT, DIRTY, MISSING, STALE, Kernel, State
from lab.results.study import Column, Study

UPDATE = "run `make report` and commit what it has changed"


@pytest.fixture(scope="module")
def known() -> list[Study]:
    return [*studies.every()]


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return ledger.read()


@pytest.fixture(scope="module")
def marks(known: list[Study], lines: list[Line]) -> dict[str, str]:
    """As the committed pages have them: no kernel tree is needed."""
    return status.marks(known, lines, status.recorded())


X = {"x": CURRENT}


def made(study: str, *runs: Run, **more: Any) -> list[Line]:
    return ledger.lines_of(study, {**FACTS, **more}, runs, (), "raw")


STUDY = Study(
    "x",
    "About <x> & y",
    "It is <b>made</b> up.",
    (Column("n", "count <n>"),),
    7,
    run=lambda _: True,
    notes=("A <note>.",),
    curve=("seconds", "share"),
)
LINES = made(
    "x",
    Run(
        "a <cell>",
        {"n": 12},
        KERNEL,
        goals=[
            Goal("met <goal>", ledger.MET, 1, 2),
            Goal('missed "goal"', ledger.MISSED, 3, 2, "<far> off"),
            Goal("hidden", ledger.UNSEEN),
        ],
        checks=["lost <page>"],
        curve=[(0.0, 0.1), (1.0, 0.5)],
    ),
)


# --- docs/results.md ----------------------------------------------------------------------


def test_page_is_that_of_the_ledger(
    known: list[Study], lines: list[Line], marks: dict[str, str]
) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.markdown(known, lines, marks) == text, f"docs/results.md is out of date: {UPDATE}"


def test_table_of_the_readme_is_that_of_the_ledger(
    lines: list[Line], marks: dict[str, str]
) -> None:
    text = cli.README.read_text(encoding="utf-8")
    assert headline.in_readme(text, lines, marks) == text, f"README.md is out of date: {UPDATE}"


def test_page_is_short(known: list[Study], lines: list[Line], marks: dict[str, str]) -> None:
    assert len(page.markdown(known, lines, marks).splitlines()) <= page.MOST == 150
    # Every study has lines, and misses a goal.
    every = [
        line
        for one in known
        for line in made(one.name, Run("a", {}, KERNEL, goals=[Goal("g", ledger.MISSED)]))
    ]
    assert len(page.markdown(known, every, marks).splitlines()) <= page.MOST


def test_page_of_a_study(tmp_path: Path) -> None:
    page.write([STUDY], LINES, X, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert text.startswith("<!-- SPDX-License-Identifier: GPL-2.0 -->\n")
    assert "| x | current | 1 | 1 | 1 | 1 | 1 | `tiershift k` | today |" in text
    assert '- **x**: a <cell>: missed "goal": 3, limit 2 (<far> off); check: lost <page>' in text
    assert "met <goal>" not in text


def test_study_without_lines_or_misses_is_not_on_the_page() -> None:
    good = made("x", Run("a", {"n": 1}, {**KERNEL, "flavour": "base"}))
    text = page.markdown([STUDY], good, X)
    assert "**x**" not in text
    assert (
        "| x | current | - | - | - | - | 1 | - | today |" in text
    )  # the unmodified kernel is not ours
    assert "| x |" not in page.markdown([STUDY], made("y", Run("a", {"n": 1})), X)


# --- the headline -------------------------------------------------------------------------


def test_missing_figure_is_no_zero() -> None:
    rows = headline.table([], {})
    assert rows[0] == ["", *headline.COLUMNS, "runs"]
    assert {cell for row in rows[1:] for cell in row[1:]} == {"-", "n = 0"}
    for part in headline.PARTS:
        for row in headline.pairs(part, [], {})[1:]:
            assert row[-3:] == ["-", "-", "n = 0"]


def test_figures_by_column_and_by_turn() -> None:
    found = made("redis", Run("tiershift", {"slow_per_op": 4.25}), Run("none", {"n": 1}))
    found += made("zap", Run(headline.ZAP, {"base": 20.0, "on": 10.4, "off": 30}))
    for turn, value in enumerate((10.0, 30.0), 1):
        figures = {"app_per_page": value, "all_per_page": -value}
        found += made("repeats-hotcold-4k", Run("tiershift", figures, turn=turn))
    marks = {"zap": STALE, "redis": DIRTY, "repeats-hotcold-4k": CURRENT}
    tables = [headline.table(found, marks)]
    tables += [headline.pairs(part, found, marks) for part in headline.PARTS]
    table = {" ".join(row[:2]): row for rows in tables for row in rows}

    def row(words: str) -> list[str]:
        return next(cells for label, cells in table.items() if words in label)

    assert row("Redis")[1:] == ["4.2", "-", "-", "-", "n = 1, dirty"]
    assert row("munmap")[2:] == ["20.0", "10.4", "n = 1, stale"]
    assert row("192 MiB, hot and cold: kernel instructions per promoted page, app")[1:] == [
        *("20", "-", "-", "-", "n = 2")
    ]
    # Less than the base kernel's is no cost.
    assert row("192 MiB, hot and cold: kernel instructions per promoted page, all")[1] == (
        "0 (below the noise)"
    )


def test_figures_of_the_headline_are_those_of_studies(
    known: list[Study], lines: list[Line]
) -> None:
    columns = {one.name: {column.key for column in one.columns} for one in known}
    cells = {(line.study, line.cell) for line in lines}
    for row in headline.ROWS:
        assert row.figure in columns[row.study], row.label
    for part in headline.PARTS:
        for pair in part.pairs:
            for cell, figure in (pair.other, pair.ours):
                assert figure in columns[pair.study], pair.label
                assert (pair.study, cell) in cells, pair.label


def test_page_marks_stale_dirty_and_missing_studies() -> None:
    names = ("same", "other", "uncommitted", "absent")
    some = [
        Study(name, name, "", (Column("n", "n"),), 1, lambda _: True, ("mm/x.o",)) for name in names
    ]
    found = made("same", Run("a", {"n": 1}, KERNEL))
    found += made("other", Run("a", {"n": 1}, {**KERNEL, "key": "older"}))
    unclean = {**HOST, "project": "abc-dirty"}
    found += made("uncommitted", Run("a", {"n": 1}, KERNEL), host=unclean)
    marks = status.marks(some, found, {"tiershift": Kernel("k", {})})
    assert marks == dict(zip(names, (CURRENT, STALE, DIRTY, MISSING), strict=True))
    text = page.markdown(some, found, marks)
    assert "1 are current, 1 stale, 1 dirty and 1 missing" in text
    assert "no line: `absent`." in text
    for name, mark in marks.items():
        assert (f"| {name} | {mark} |" in text) == (mark != MISSING)


def test_recorded_kernel_is_the_same_with_and_without_a_build(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    some = [Study("x", "x", "", (), 1, lambda _: True, ("a.o", "b.o"))]
    built = status.record({"tiershift": Kernel("k", {"a.o": "1", "c.o": "2"})}, some, [], path)
    assert built == status.recorded(path) == {"tiershift": Kernel("k", {"a.o": "1"})}
    assert status.record({"tiershift": Kernel("k", {})}, some, [], path) == built
    assert status.record({"tiershift": Kernel("l", {})}, some, [], path) == {
        "tiershift": Kernel("l", {})
    }


def test_readme_without_its_marks_is_an_error() -> None:
    text = f"a\n{headline.BEGIN}\nwritten before\n{headline.END}\nb\n"
    new = headline.in_readme(text, [], {})
    assert new.startswith("a\n") and new.endswith("\nb\n") and "before" not in new
    assert headline.in_readme(new, [], {}) == new
    for mark in (headline.BEGIN, headline.END):
        with pytest.raises(LabError, match=r"README\.md has no"):
            headline.in_readme(text.replace(mark, ""), [], {})


# --- report.html --------------------------------------------------------------------------


class Tags(HTMLParser):
    """Reads a document, whose tags must be closed in order."""

    OPEN = frozenset({"meta", "rect", "line", "polyline", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in self.OPEN:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.OPEN:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def document(known: Sequence[Study], found: Sequence[Line], word: str = CURRENT) -> str:
    return html.document(known, found, {one.name: State(word) for one in known})


@pytest.fixture(scope="module")
def whole(known: list[Study], lines: list[Line]) -> str:
    return document(known, lines)


def test_report_is_one_file_that_needs_no_network(whole: str) -> None:
    assert whole.startswith("<!-- SPDX-License-Identifier: GPL-2.0 -->")
    tags = Tags(whole)
    for tag, name, value in tags.attributes:
        assert name not in ("src", "srcset", "data", "action"), tag
        if name == "href":
            assert value.startswith("#") and value[1:] in tags.ids
        if name != "xmlns":  # a name, which nothing is fetched from
            assert not re.search(r"https?:|//", value), (tag, name, value)
    assert not {tag for tag, *_ in tags.attributes} & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?://", tags.words)
    assert "@import" not in whole and "url(" not in whole


def test_every_study_that_has_lines_has_a_section(
    whole: str, known: list[Study], lines: list[Line]
) -> None:
    there = {line.study for line in lines}
    ids = Tags(whole).ids
    assert sorted(ids) == sorted(one.name for one in known if one.name in there)
    assert len(ids) > 30
    for line in lines:
        for goal in line.goals:
            assert escape(goal.name) in whole, line.cell


def test_texts_are_texts() -> None:
    text = document([STUDY], LINES)
    tags = Tags(text)
    assert "<b>" not in text and "<cell>" not in text and "<page>" not in text
    for words in ("About <x> & y", "<b>made</b>", "a <cell>", "count <n>", "A <note>.", "<far>"):
        assert words in tags.words
    assert "lost <page>" in tags.words and 'missed "goal": 3, limit 2' in tags.words
    chips = [value for tag, name, value in tags.attributes if (tag, name) == ("span", "title")]
    assert 'missed "goal": 3, limit 2 (<far> off)' in chips


def test_section_of_a_study() -> None:
    text = document([STUDY], LINES, STALE)
    assert text.count('class="chip stale"') == 2  # in the matrix and in the section
    assert text.count("<polyline") == 1
    assert "1 stale" in text and "python -m lab study x" in text and "tiershift k from v" in text
    assert "raw: not on this machine" in text
    flat = made("x", Run("a", {"n": 1}, curve=[(0.0, 0.1)]))
    assert "<polyline" not in document([STUDY], flat)  # one point is no curve


def test_study_without_lines_is_in_the_matrix_only() -> None:
    text = document([STUDY], [])
    assert "<td>x</td>" in text and 'id="x"' not in text


def test_many_goals_are_counted() -> None:
    goals = [Goal(f"g{n}", ledger.MET if n else ledger.MISSED) for n in range(25)]
    text = document([STUDY], made("x", Run("a", {"n": 1}, goals=goals)))
    matrix = text[: text.index('id="x"')]
    assert ">24 met<" in matrix and ">1 missed<" in matrix


def test_long_tables_are_folded() -> None:
    runs = [Run(f"a{n}", {"n": n}) for n in range(30)]
    assert "<summary>30 rows</summary>" in document([STUDY], made("x", *runs))
    assert "<summary>" not in document([STUDY], made("x", *runs[:20]))


def test_make_report_writes_all_of_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    known: list[Study],
) -> None:
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    readme = project / "README.md"
    readme.write_text(f"a\n{headline.BEGIN}\nwritten before\n{headline.END}\n")
    monkeypatch.setattr(cache, "PROJECT", project)
    monkeypatch.setattr(cli, "README", readme)
    write: Callable[..., None] = page.write
    written = project / "docs" / "results.md"
    monkeypatch.setattr(page, "PAGE", written)
    monkeypatch.setattr(page, "write", lambda *args: write(*args, written))
    states = {one.name: State(CURRENT) for one in known}
    monkeypatch.setattr(status, "kernels_of_today", lambda _: {"tiershift": Kernel("k", {})})
    record: Callable[..., Any] = status.record
    kept = tmp_path / "kernels.json"
    monkeypatch.setattr(status, "record", lambda *args: record(*args, kept))
    monkeypatch.setattr(status, "states", lambda *_: states)
    out = tmp_path / "report.html"
    assert cli.main(["report", "--out", str(out)]) == 0
    assert "docs/results.md is written" in capsys.readouterr().out
    assert "# Results" in written.read_text() and kept.exists()
    assert "| batched unmapping" in readme.read_text()
    assert Tags(out.read_text()).ids


def _unknown_studies(text: str, known: set[str]) -> list[str]:
    """Studies that a page says its numbers are of, and that have no lines."""
    named = [name for one in re.findall(r"<!-- ledger: ([^>]*) -->", text) for name in one.split()]
    return [name for name in named if name not in known]


def test_numbers_of_covers_are_of_studies_in_the_ledger() -> None:
    known = {line.study for line in ledger.read()}
    covers = [room.path / "cover.md" for room in rooms.series()]
    texts = [path.read_text(encoding="utf-8") for path in covers]
    assert sum("<!-- ledger: " in text for text in texts) >= 4
    assert [name for text in texts for name in _unknown_studies(text, known)] == []
    assert _unknown_studies("<!-- ledger: zap nothing -->", known) == ["nothing"]
