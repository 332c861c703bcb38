# SPDX-License-Identifier: GPL-2.0
"""What `profile`, `set` and `group set` answer: rows of a plan, as JSON and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tierctl.change.plan import ABSENT, Row
from tierctl.change.settings import Kind
from tierctl.core import text


@dataclass
class Answer:
    """Settings, now and as they are wanted, and what the next boot finds."""

    profile: str | None
    settings: list[Row]
    verified: bool | None = None  # None: not asked, or not known
    kept: list[str] = field(default_factory=list)  # files in /etc that keep this
    removed: dict[str, str] = field(default_factory=dict)  # the content by file
    still_configured: str | None = None  # a file that revert leaves

    def of(self, *statuses: str) -> list[Row]:
        """The rows that have one of these."""
        return [row for row in self.settings if row.status in statuses]


def shown(row: Row, value: str | None) -> str:
    """A value for people; - stands for none."""
    if value is None:
        return "-"
    if row.kind is Kind.LIMIT and value.isdecimal() and len(value) < 20:
        return text.exact(int(value))
    # A damaged file may have any text.
    return text.clip(" ".join(value.split()) or '""', 24)


def table(found: Sequence[Row], now: str = "NOW", then: str = "THEN") -> list[str]:
    """SETTING, NOW, THEN, FILE; a file that does not fit has a line of its own."""
    cells = [["SETTING", now, then]]
    cells += [[row.key, shown(row, row.now), shown(row, row.then)] for row in found]
    places = ["FILE"]
    for row in found:
        at = "n/a:" if row.status == ABSENT else row.file
        places.append(f"{at}  {row.reason}" if row.reason else at)
    columns = text.table(cells, "<<<")
    width = max(map(len, columns))
    lines = []
    for line, place in zip(columns, places, strict=True):
        lines.append(line)
        if width + 2 + len(place) <= text.WIDTH:
            lines[-1] = f"{line.ljust(width)}  {place}"
        else:
            lines += text.wrap(place, indent="    ")
    return lines
