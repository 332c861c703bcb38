# SPDX-License-Identifier: GPL-2.0
"""What the study shares makes of the selftest's output; nothing is booted."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import FACTS, KERNEL, written

from lab import shares
from lab.shares import Log

WORDS = {
    "max": "# 760 of at most 768 pages\n# 1540 of at most 1536 pages",
    "max_above": "# 768 of at most 768 pages\n# 1500 of at most 1536 pages",
}


def logs(**changes: str) -> dict[str, list[Log]]:
    """Of one run of each test."""
    words = WORDS | changes
    return {
        test: [shares.read(f"TAP version 13\n1..1\n{text}\nok 1 what it is about\n", 0)]
        for test, text in words.items()
    }


def test_good_runs_pass_and_are_recorded(tmp_path: Path) -> None:
    made = logs()
    assert shares.check(made) == []
    facts = {**FACTS, "kernel": KERNEL, "logs": made, "failures": []}
    lines = written(shares.STUDY, shares.runs(facts), tmp_path)
    assert {
        name: (line.figures["pages"], line.figures["limit"]) for name, line in lines.items()
    } == {
        "max, a limit of the group itself, 1, 1": (760, 768),
        "max, a limit of the group itself, 2, 1": (1540, 1536),
        "max_above, a limit of the group above, 1, 1": (768, 768),
        "max_above, a limit of the group above, 2, 1": (1500, 1536),
    }
    assert not any(line.checks for line in lines.values())
    facts["failures"] = ["too many pages"]
    lines = written(shares.STUDY, shares.runs(facts), tmp_path)
    assert [line.checks for line in lines.values() if line.checks] == [["too many pages"]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max": "# 760 of at most 768 pages"}, "max, run 1: no numbers"),
        ({"max": "no page was promoted"}, "max, run 1: no numbers"),
        ({"max": "# 959 of at most 768 pages\n# 9 of at most 9 pages"}, "959 pages, but 768"),
    ],
)
def test_what_makes_figures_worthless(changes: dict[str, str], words: str) -> None:
    failures = shares.check(logs(**changes))
    assert any(words in failure for failure in failures), failures


def test_a_test_that_fails_or_is_skipped_is_no_figure() -> None:
    made = logs()
    text = WORDS["max_above"]
    made["max_above"] = [shares.read(f"1..1\n{text}\nnot ok 1 x\n", 1)]
    made["max"] = [shares.read("1..0 # SKIP no memory control groups (v2)\n", 4)]
    failures = shares.check(made)
    assert any("max_above, run 1: fail (" in line for line in failures)
    assert any("max, run 1: skip (no memory control groups" in line for line in failures)
