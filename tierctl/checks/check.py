# SPDX-License-Identifier: GPL-2.0
"""What a check of `tierctl doctor` is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tierctl.core.errors import TierctlError
from tierctl.core.reply import Note
from tierctl.model.snapshot import Snapshot
from tierctl.model.status import Finding

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)
Found = Iterator[tuple[str, str, str]]


class NotDone(Exception):
    """A check lacks a figure; the text says which, and what to do."""


@dataclass(frozen=True)
class Check:
    """``look`` returns (severity, what, what to do), several of them, or nothing.

    What to do is a sentence, or a command without a period that stands alone on its line.
    Quick checks read nothing beyond the snapshot, so `status` makes them as well.
    """

    id: str
    look: Callable[[Snapshot], Iterable[tuple[str, str, str]]]
    quick: bool = False


@dataclass
class Report:
    """The findings of checks, and the checks that could not be made."""

    done: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_done: dict[str, str] = field(default_factory=dict)


def run(checks: Iterable[Check], now: Snapshot) -> Report:
    """Make checks; the worst findings come first."""
    report = Report()
    for check in checks:
        try:
            found = [Finding(check.id, *one) for one in check.look(now)]
        except (NotDone, TierctlError) as error:
            report.not_done[check.id] = str(error)
        else:
            report.done.append(check.id)
            report.findings += found
    report.findings.sort(key=lambda one: SEVERITIES.index(one.severity))
    return report


def need(value: object, what: str) -> None:
    """End a check whose figure is unknown."""
    if value is None:
        raise NotDone(what)


def not_known(note: Note) -> NotDone:
    """The end of a check whose figure is unknown for the reason in a note."""
    return NotDone("; ".join(one for one in (note.state, note.todo) if one))
