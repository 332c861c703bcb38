# SPDX-License-Identifier: GPL-2.0
"""What `lab shares` makes of the selftest's output; nothing is booted."""

from __future__ import annotations

from typing import Any

import pytest

from lab import shares
from lab.shares import Log

WORDS = {
    "shares": "# 290 and 1210 pages were promoted",
    "colder": "# 400 and 1100 pages were promoted",
    "tree": "# 90, 660 and 750 pages were promoted",
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


def test_good_runs_pass_and_are_shown() -> None:
    made = logs()
    assert shares.check(made) == []
    assert shares.share_table(made)[1:4] == [
        ["weights 100 and 400", "", ""],
        ["a, 100", "20%", "19.3% (290)"],
        ["b, 400", "80%", "80.7% (1,210)"],
    ]
    assert ["q, 100", "50%", "50.0% (750)"] in shares.share_table(made)
    assert ["a limit of the group above", "1,536", "1,500"] in shares.limit_table(made)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shares": "# 750 and 750 pages were promoted"}, "a, 100 got 50.0% instead of 20%"),
        ({"shares": "# 20 and 80 pages were promoted"}, "100 pages were promoted"),
        ({"tree": "# 150, 600 and 750 pages were promoted"}, "p/a, 100 got 10.0% instead of 5%"),
        ({"tree": "# 0, 750 and 750 pages were promoted"}, "p/a, 100 got 0.0% instead of 5%"),
        ({"tree": "# 290 and 1210 pages were promoted"}, "tree, run 1: no numbers"),
        ({"max": "# 760 of at most 768 pages"}, "max, run 1: no numbers"),
        ({"max": "# 900 of at most 768 pages\n# 9 of at most 9 pages"}, "900 pages, but 768"),
    ],
)
def test_what_makes_figures_worthless(changes: dict[str, str], words: str) -> None:
    failures = shares.check(logs(**changes))
    assert any(words in failure for failure in failures), failures


def test_a_test_that_fails_or_is_skipped_is_no_figure() -> None:
    made = logs()
    made["colder"] = [shares.read("1..1\n# 290 and 1210 pages were promoted\nnot ok 1 x\n", 1)]
    made["max"] = [shares.read("1..0 # SKIP no memory control groups (v2)\n", 4)]
    failures = shares.check(made)
    assert "colder, run 1: fail (290 and 1210 pages were promoted)" in failures
    assert any("max, run 1: skip (no memory control groups" in line for line in failures)


def test_page() -> None:
    kernel = {"release": "6.12", "flavour": "tiershift", "key": "k", "base_version": "b"}
    facts: dict[str, Any] = {
        "date": "today",
        "command": "python -m lab shares",
        "seconds": 1,
        "host": {"qemu": "QEMU", "cpus": 2},
        "kernel": kernel,
        "logs": logs(),
        "failures": [],
    }
    page = shares.markdown(facts)
    assert "| p/b, 900 | 45% | 44.0% (660) |" in page
    assert "FAILED" not in page
