# SPDX-License-Identifier: GPL-2.0
"""Figures for people: sizes, rates, tables, bars, 80 columns.  Unknown is "?", and never 0."""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Callable, Sequence
from typing import TextIO

WIDTH = 80
UNKNOWN = "?"
UNITS = ("", "K", "M", "G", "T", "P")  # powers of 1,024
COLOURS = {"good": "32", "bad": "31", "warn": "33", "head": "1", "dim": "2"}


class Style:
    """Colour, or none."""

    def __init__(self, colour: bool = False) -> None:
        self.colour = colour

    def paint(self, kind: str, text: str) -> str:
        return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m" if self.colour and text else text


def style_for(stream: TextIO, no_color: bool) -> Style:
    """Colour on a terminal only, unless NO_COLOR or --no-color forbids it."""
    wanted = not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(wanted and stream.isatty())


def _scaled(value: float) -> str:
    """At most five characters, and a unit."""
    scaled, unit = float(value), 0
    while scaled >= 1023.95 and unit < len(UNITS) - 1:
        scaled /= 1024
        unit += 1
    if unit == 0:
        return f"{scaled:.0f}"
    return f"{scaled:.1f}{UNITS[unit]}"


def size(value: float | None) -> str:
    """Bytes: 503.6G, 0, ?."""
    return UNKNOWN if value is None else _scaled(value)


def rate(value: float | None) -> str:
    """Bytes a second: 212.0M/s."""
    return UNKNOWN if value is None else f"{_scaled(value)}/s"


def count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def share(part: float | None, whole: float | None) -> str:
    """A percentage without decimals: 97%."""
    if part is None or not whole:
        return UNKNOWN
    return f"{100 * part / whole:.0f}%"


def fraction(value: float | None) -> str:
    """CPUs: 0.14."""
    return UNKNOWN if value is None else f"{value:.2f}"


def seconds(value: float | None) -> str:
    """A time: 0.5 s, 28 s, 3 min, 4 h, 2 d."""
    if value is None:
        return UNKNOWN
    if value < 10:
        return f"{value:.1f} s"
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if value < limit:
            return f"{value / divisor:.0f} {unit}"
    return f"{value / 86400:.0f} d"


def bar(parts: Sequence[tuple[float, str]], width: int) -> str:
    """Shares of 1 as characters, in this order; a part that is not 0 has one at least."""
    cells = [max(1, round(part * width)) if part > 0 else 0 for part, _ in parts]
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    return "".join(char * cell for cell, (_, char) in zip(cells, parts, strict=True))


def clip(text: str, width: int) -> str:
    """A text of at most ``width`` characters; "~" stands for a part that is left out."""
    return text if len(text) <= width else text[: width - 1] + "~"


def table(rows: Sequence[Sequence[str]], align: str) -> list[str]:
    """Rows with columns of one width; ``align`` has < or > for each column."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(align))]
    lines = []
    for row in rows:
        columns = zip(row, align, widths, strict=True)
        lines.append("  ".join(f"{cell:{side}{width}}" for cell, side, width in columns).rstrip())
    return lines


def headed(rows: Sequence[Sequence[str]], align: str, style: Style, none: str = "") -> list[str]:
    """A table of 80 columns with its head; ``none`` if it has no row."""
    head, *body = table(rows, align) if rows[1:] else [none]
    return [style.paint("head", head), *(clip(row, WIDTH) for row in body)]


def plural(value: int, word: str) -> str:
    """1 group, 2 groups."""
    return f"{value:,} {word}{'s' if value != 1 else ''}"


def wrap(text: str, indent: str = "", first: str | None = None, width: int = WIDTH) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def exact(value: int) -> str:
    """Bytes with the largest unit that loses nothing."""
    for shift, unit in ((40, "T"), (30, "G"), (20, "M"), (10, "K")):
        if value and value % (1 << shift) == 0:
            return f"{value >> shift}{unit}"
    return str(value)


def interval(word: str) -> float:
    """The time between two samples, for argparse."""
    found = float(word)
    if not 0.05 <= found <= 3600:
        raise argparse.ArgumentTypeError(f"{word} is not from 0.05 to 3600 seconds")
    return found


def number_from(least: int, most: int) -> Callable[[str], int]:
    """The type of an option that takes a number, for argparse."""

    def parse(word: str) -> int:
        if not (word.isascii() and word.isdecimal() and least <= int(word) <= most):
            raise argparse.ArgumentTypeError(f"{word} is not from {least} to {most}")
        return int(word)

    return parse
