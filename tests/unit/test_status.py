# SPDX-License-Identifier: GPL-2.0
"""Is a result still of the code as it is?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, HOST, KERNEL

from lab import build, cache
from lab.results import ledger, status
from lab.results.status import CURRENT, MISSING, STALE, Kernel
from lab.results.study import Study

GROUPS = ("mm/tier/", "mm/migrate.o")
TEXT = {"mm/tier/": "1", "mm/migrate.o": "2", "mm/other.o": "3"}
STUDY = Study("x", "X", "It is made up.", (), 7, run=lambda _: True, groups=GROUPS)


def line(
    cell: str = "a",
    *,
    key: str = "k",
    text: Mapping[str, str] | None = None,
    flavour: str = "tiershift",
    commit: str = "abc",
) -> ledger.Line:
    facts = {**FACTS, "date": "2026-01-02T03:04:05Z", "host": {**HOST, "project": commit}}
    run = ledger.Run(cell, {}, {**KERNEL, "flavour": flavour, "key": key})
    (made,) = ledger.lines_of("x", facts, [run], (), "")
    fields: dict[str, Any] = {name: getattr(made, name) for name in made.__struct_fields__}
    return ledger.Line(**fields | {"text": dict(text or {})})


def known(**changes: str) -> dict[str, str]:
    names = {"tier": "mm/tier/", "migrate": "mm/migrate.o", "other": "mm/other.o"}
    return TEXT | {names[name]: value for name, value in changes.items()}


OF_GROUPS = {group: TEXT[group] for group in GROUPS}


def test_what_was_not_measured_is_missing() -> None:
    assert status.state(STUDY, [], Kernel("k", TEXT)).text == MISSING


def test_the_same_kernel_is_current() -> None:
    """Also if nobody knows the keys of its code."""
    found = status.state(STUDY, [line()], Kernel("k", {}))
    assert (found.word, found.text, found.date) == (CURRENT, CURRENT, "2026-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("today", "word", "why"),
    [
        (known(), CURRENT, ""),
        (known(other="9"), CURRENT, ""),  # on which the study does not depend
        (known(tier="9"), STALE, "mm/tier/"),
        (known(tier="9", migrate="9"), STALE, "mm/migrate.o, mm/tier/"),
        ({"mm/tier/": "1"}, STALE, "mm/migrate.o"),
        ({}, STALE, "of another kernel; today's is not built"),
    ],
)
def test_another_kernel_with_the_same_code_is_current(
    today: dict[str, str], word: str, why: str
) -> None:
    found = status.state(STUDY, [line(text=OF_GROUPS)], Kernel("later", today))
    assert (found.word, found.why) == (word, why)
    if why:
        assert found.text == f"stale since 2026-01-02: {why}"


def test_each_line_counts() -> None:
    older = line("b", key="older", text={**OF_GROUPS, "mm/tier/": "0"})
    found = status.state(STUDY, [line(text=OF_GROUPS), older], Kernel("k", TEXT))
    assert (found.word, found.why) == (STALE, "mm/tier/")


def test_lines_without_keys_are_compared_by_the_kernel() -> None:
    found = status.state(STUDY, [line(text=OF_GROUPS), line("b")], Kernel("later", TEXT))
    assert (found.word, found.why) == (STALE, "of another kernel")


def test_lines_of_other_flavours_do_not_count() -> None:
    """The unmodified kernel is what is compared with."""
    lines = [line(), line("b", key="older", flavour="base")]
    assert status.state(STUDY, lines, Kernel("k", TEXT)).word == CURRENT
    assert status.state(STUDY, lines[1:], Kernel("k", TEXT)).word == CURRENT


def test_changes_without_a_commit_are_stale() -> None:
    lines = [line(), line("b", commit="abc-dirty")]
    found = status.state(STUDY, lines, Kernel("k", TEXT))
    assert (found.word, found.why) == (STALE, "measured with changes that are in no commit")
    assert status.state(STUDY, lines, None).word == STALE


def test_study_without_a_kernel_is_current() -> None:
    assert status.state(STUDY, [line(key="older")], None).word == CURRENT


def test_kernel_of_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "key_of", lambda flavour: f"{flavour[0]}1")
    assert status.today("debug") == Kernel("d1", {})
    (cache.sub("kernels") / "debug-d1").mkdir()
    (cache.sub("kernels") / "debug-d1" / "text.json").write_text(json.dumps(TEXT))
    assert status.today("debug") == Kernel("d1", TEXT)


def test_table_says_what_measures_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def today(flavour: str) -> Kernel:
        asked.append(flavour)
        return Kernel("k", TEXT)

    monkeypatch.setattr(status, "today", today)
    alone = Study("y", "Y", "It needs no kernel.", (), 90, run=lambda _: True, flavour="debug")
    rows = status.table([STUDY, alone], [line()])
    assert rows[1:] == [
        ["x", "current", "7", "python -m lab study x"],
        ["y", "missing", "90", "python -m lab study y"],
    ]
    assert asked == ["tiershift"]
