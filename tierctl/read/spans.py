# SPDX-License-Identifier: GPL-2.0
"""The last visit and the last turn of each address space by workers: debugfs tier/spans."""

from __future__ import annotations

from typing import NamedTuple

from tierctl.core.source import Source

SPANS = "/sys/kernel/debug/tier/spans"
SEEN_MS = 60_000  # since a visit or turn, at most: an older one does not tell what is hot now


class Span(NamedTuple):
    """A visit, two looks at a range of an address space; a turn is of visits of all of it."""

    pid: int
    window_us: int
    pushed: int  # candidates, in base pages
    age_ms: int
    turn_pushed: int | None  # None before the end of the first turn
    turn_age_ms: int | None

    @property
    def found(self) -> int:
        """Candidates of the last visit, or of the last turn if that is not old: the greater."""
        old = self.turn_age_ms is None or self.turn_age_ms > SEEN_MS
        return max(self.pushed, 0 if old else self.turn_pushed or 0)


def spans(source: Source) -> dict[int, Span] | None:
    """The last visits, by the pid of the owner of the address space; None: no such file.

    The first line has the names of the columns.  The kernel does not tell the owner (pid 0) of an
    address space that its owner has left.
    """
    head, *lines = (source.get(SPANS) or "").split("\n")
    names = head.split()
    if not set(Span._fields) <= set(names):
        return None
    found = {}
    for line in lines:
        words = dict(zip(names, line.split(), strict=False))
        try:
            one = Span(*(_value(name, words[name]) for name in Span._fields))  # type: ignore
        except (KeyError, ValueError):
            continue
        if one.pid:
            found[one.pid] = one
    return found


def _value(name: str, word: str) -> int | None:
    return None if word == "-" and name.startswith("turn_") else int(word)
