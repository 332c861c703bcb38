# SPDX-License-Identifier: GPL-2.0
"""What every study ends with: its table, its verdicts, and its lines in the ledger."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lab import report
from lab.errors import LabError
from lab.results import ledger, study

PART = "only a part of the study was run: results/ledger.ndjson stays as it is"


def finish(
    what: study.Study,
    facts: Mapping[str, Any],
    runs: Sequence[ledger.Run],
    *,
    whole: bool = True,
) -> bool:
    """Print what was found, and record it if the whole study was run; True if it counts.

    A goal that is met and has no text is not printed.
    """
    if not runs:  # then no line could hold a failed check, and recording would only delete
        raise LabError(f"{what.name} measured nothing", "; ".join(facts.get("failures", ())))
    lines = ledger.lines_of(what.name, facts, runs, what.groups, "")
    for title, rows in study.tables(what, lines):
        print(f"\n{title}" if title else "")
        report.print_rows(rows, sys.stdout)
    print()
    for line in lines:
        for goal in line.goals:
            if goal.text or goal.verdict != ledger.MET:
                print(f"  {goal.verdict}: {line.cell}: {goal.text or goal.name}")
    for text in failed(lines):
        print(f"  FAILED CHECK: {text}")
    if whole:
        ledger.record(what.name, facts, runs, what.groups)
    else:
        print(PART)
    return not any(line.checks for line in lines)


def failed(lines: Sequence[ledger.Line]) -> list[str]:
    """What did not hold, and where."""
    return [
        f"{line.cell}{f', {line.turn}' if line.turn else ''}: {check}"
        for line in lines
        for check in line.checks
    ]


def verdict(good: bool | None) -> str:
    """None: there is no figure that could tell."""
    if good is None:
        return ledger.UNSEEN
    return ledger.MET if good else ledger.MISSED


# --- options that several studies have ----------------------------------------------


def add_resume(parser: argparse.ArgumentParser) -> None:
    text = "go on with one that was broken off: what is done on the same kernel is not done again"
    parser.add_argument("--resume", action="store_true", help=text)


def numbers(text: str) -> list[int]:
    """For argparse: "32,128"."""
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list like 32,128")
    return found
