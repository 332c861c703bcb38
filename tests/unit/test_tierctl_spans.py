# SPDX-License-Identifier: GPL-2.0
"""The last visit and turn of each address space: debugfs tier/spans."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tierctl_process import PID, machine, spans

from tierctl.read.spans import SPANS, Span
from tierctl.read.spans import spans as read

LINUX = Path(__file__).parents[2] / "linux"


def test_spans_of_the_kernel_are_read_by_the_names_of_columns(tmp_path: Path) -> None:
    found = machine(tmp_path)
    found.tree.put(SPANS[1:], spans(pushed=77, age_ms=1200))
    wanted = Span(PID, 250_000, 77, 1200, 77, 1200)
    assert read(found) == {PID: wanted}  # pid 0 has no owner
    names, *lines = spans(pushed=77).splitlines()
    more = "\n".join([f"new {names}", *(f"9 {line}" for line in lines), "cut 1 2"])
    found.tree.put(SPANS[1:], more)
    assert read(found) == {PID: wanted}


@pytest.mark.parametrize("text", ["", "pid cgroup begin", "\n\n"])
def test_spans_of_another_format_are_unknown(tmp_path: Path, text: str) -> None:
    found = machine(tmp_path)
    found.tree.put(SPANS[1:], text)
    assert read(found) is None
    found.denied = (SPANS,)
    assert read(found) is None


def test_columns_that_are_read_are_those_of_the_kernel() -> None:
    code = (LINUX / "kmmscand/files/mm/tier/kmmscand/spans.c").read_text()
    names = "".join(re.findall(r'seq_puts\(m, "([a-z].*?)(?:\\n)?"\);', code))
    assert set(Span._fields) <= set(names.split())


def test_spans_before_the_first_turn_tell_of_the_visit(tmp_path: Path) -> None:
    found = machine(tmp_path)
    found.tree.put(SPANS[1:], spans(pushed=77, turn="- -"))
    got = (read(found) or {})[PID]
    assert (got.turn_pushed, got.turn_age_ms, got.found) == (None, None, 77)


@pytest.mark.parametrize(("turn", "pages"), [("99 1200", 99), ("99 9000", 99), ("9 9000", 77)])
def test_spans_of_a_turn_and_a_later_visit_tell_of_the_one_with_more(
    tmp_path: Path, turn: str, pages: int
) -> None:
    found = machine(tmp_path)
    found.tree.put(SPANS[1:], spans(pushed=77, turn=turn))
    assert (read(found) or {})[PID].found == pages
