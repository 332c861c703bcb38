# SPDX-License-Identifier: GPL-2.0
"""Rows of a plan as JSON, and as tables for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tierctl.change.plan import ABSENT, Row
from tierctl.change.settings import Kind
from tierctl.core import text

AMOUNT = re.compile(r"[0-9]{1,19}")


def _value(value: str | None) -> int | str | None:
    return int(value) if value is not None and AMOUNT.fullmatch(value) else value


def document(row: Row) -> dict[str, Any]:
    """A row as JSON; numbers are integers, and unknown is null."""
    return {
        "setting": row.key,
        "file": row.file or None,
        "now": _value(row.now),
        "then": _value(row.then),
        "status": row.status,
        "reason": row.reason or None,
        "from": row.origin or None,
        "bytes": row.kind is Kind.LIMIT,
    }


def shown(row: dict[str, Any], name: str) -> str:
    """A value for people; - stands for none."""
    value = row[name]
    if value is None:
        return "-"
    exact = row["bytes"] and isinstance(value, int)
    # A damaged file may have any text.
    return text.exact(value) if exact else text.clip(" ".join(str(value).split()) or '""', 24)


def _place(row: dict[str, Any]) -> str:
    if row["status"] == ABSENT:
        return f"n/a: {row['reason']}"
    return f"{row['file']}  {row['reason']}" if row["reason"] else str(row["file"])


def table(found: Sequence[dict[str, Any]], now: str = "NOW", then: str = "THEN") -> list[str]:
    """SETTING, NOW, THEN, FILE; a file that does not fit has a line of its own."""
    cells = [["SETTING", now, then]]
    cells += [[row["setting"], shown(row, "now"), shown(row, "then")] for row in found]
    places = ["FILE", *(_place(row) for row in found)]
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
