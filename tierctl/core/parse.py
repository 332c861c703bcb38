# SPDX-License-Identifier: GPL-2.0
"""Small texts of the kernel as numbers.  What does not parse is None."""

from __future__ import annotations

import re
from collections.abc import Iterable

PAGE_SIZES = (4096, 16384, 65536)


def number(text: str | None, base: int = 10) -> int | None:
    """A number, also with a sign."""
    try:
        return int(text or "", base)
    except ValueError:
        return None


def real(text: str) -> float | None:
    """A number with a point."""
    try:
        return float(text)
    except ValueError:
        return None


def ranges(text: str | None) -> list[int] | None:
    """A list as "0-2,5"; an empty text is an empty list."""
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first and not dash:
            continue
        low, high = number(first), number(last if dash else first)
        if low is None or high is None or high - low > 1 << 20:
            return None
        found.extend(range(low, high + 1))
    return found


def as_ranges(numbers: Iterable[int]) -> str:
    """The reverse of ranges()."""
    parts: list[list[int]] = []
    for one in sorted(set(numbers)):
        if parts and parts[-1][1] == one - 1:
            parts[-1][1] = one
        else:
            parts.append([one, one])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def pairs(text: str | None) -> dict[str, int]:
    """Lines as "name 12": vmstat, memory.stat; other lines are left out."""
    found: dict[str, int] = {}
    for line in (text or "").splitlines():
        name, _, word = line.partition(" ")
        value = number(word) if word.isdecimal() else None
        if value is not None:
            found[name] = value
    return found


def labelled_kib(text: str | None) -> dict[str, int]:
    """Lines as "MemTotal:  12 kB", with "Node 0 " before or without, in bytes."""
    lines = re.findall(r"^(?:Node \d+ )?([\w()]+):\s+(\d{1,18}) kB$", text or "", re.MULTILINE)
    return {name: int(value) << 10 for name, value in lines}


def page_size(mem_total: int | None, managed: int | None) -> int:
    """The size of a base page: of all memory in bytes, and in pages; else 4 KiB."""
    if mem_total and managed:
        return min(PAGE_SIZES, key=lambda size: abs(mem_total - managed * size))
    return PAGE_SIZES[0]


def per_second(before: int | None, after: int | None, seconds: float) -> float | None:
    """How fast a counter grew; None if a value is unknown, or the counter began again."""
    if before is None or after is None or seconds <= 0 or after < before:
        return None
    return (after - before) / seconds
