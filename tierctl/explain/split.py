# SPDX-License-Identifier: GPL-2.0
"""What `explain` answers: slow memory by cause, with words and what to do.

A part of the slow memory has one cause, the first that is proven.  The rest is
`unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tierctl.core import texts

ACT, FINE, UNKNOWN = "act", "fine", "unknown"  # verdicts; others are "by design", "its policy"


@dataclass
class Reason:
    """A part of the slow memory with one cause, in bytes; ``low`` to ``high`` holds 95 times of
    100."""

    id: str
    bytes: int
    low: int
    high: int
    verdict: str
    what: str
    todo: str | None
    proof: str  # the source


@dataclass
class Explained:
    """Why memory is slow; bytes.  The reasons add up to ``slow``."""

    target: str  # process, group, node
    name: str
    pid: int | None = None
    group: str | None = None
    node: int | None = None
    tier: str | None = None  # of a node
    total: int | None = None
    slow: int | None = None
    slow_low: int | None = None
    slow_high: int | None = None
    places: int | None = None  # page tables that were looked at
    all_places: int | None = None
    seconds: float = 0.0  # how long tierctl listened
    visits: int | None = None  # of the target that it has heard of
    lost: int = 0  # events that it has missed
    reasons: list[Reason] = field(default_factory=list)
    looked_at: list[str] = field(default_factory=list)  # what is no reason
    not_looked_at: list[str] = field(default_factory=list)

    @property
    def actions(self) -> bool:
        """A reason asks for something to be done."""
        return any(one.verdict == ACT and one.high for one in self.reasons)


def stated(cause: str, proof: str, **words: object) -> Reason:
    """A cause that holds, and of which no memory is slow."""
    known = texts.cause(cause)
    what, todo = known.what.format(**words), known.todo.format(**words)
    return Reason(cause, 0, 0, 0, known.verdict, what, todo or None, proof)


@dataclass
class Split:
    """Slow memory that is divided; the parts add up to ``total``."""

    total: int
    reasons: list[Reason] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Bytes without a cause so far."""
        return self.total - sum(one.bytes for one in self.reasons)

    def take(
        self,
        cause: str,
        size: float,
        proof: str,
        low: float | None = None,
        high: float | None = None,
        **words: object,
    ) -> None:
        """Give a part its cause; at most what is left, and nothing if that is nothing."""
        given = max(0, min(round(size), self.left))
        most = min(self.total, round(given if high is None else high))
        if given <= 0 and most <= 0:
            return
        found = stated(cause, proof, **words)
        least = given if low is None else max(0, round(low))
        found.bytes, found.low, found.high = given, min(least, given), max(most, given)
        self.reasons.append(found)

    def rest(self, cause: str, proof: str, low: float | None = None, **words: object) -> None:
        """Give all that is left a cause."""
        self.take(cause, self.left, proof, low, None, **words)
