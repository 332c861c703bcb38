# SPDX-License-Identifier: GPL-2.0
"""Pictures as SVG: bars, lines, and cells by time and address.

Each picture has axes with units, a title and a description; its colours are classes of report.css.
"""

from __future__ import annotations

import html
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tierctl.core import text

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 720, 76, 64, 10, 40
INNER = WIDTH - LEFT - RIGHT
DAY_S = 86400
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
BUCKETS = 360
GAP = 3.0  # times the usual distance of two points: a hole in the data
SHADES = 5  # of the share of memory on fast nodes
LABEL = 14  # pixels between two addresses

Dot = tuple[float, float | None]  # time, value; None: unknown


@dataclass
class Axis:
    """Values of an axis."""

    low: float
    high: float
    ticks: list[float]
    label: Callable[[float], str]
    title: str

    def share(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def nice(high: float, most: int = 5) -> list[float]:
    """Ticks from 0 to a value or a little above it, in steps of 1, 2 or 5."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1, 2, 5, 10) if one * power >= rough * 0.999)
    return [step * i for i in range(math.ceil(high / step - 1e-9) + 1)]


def bytes_axis(high: float) -> Axis:
    """Bytes, with ticks that are round in their unit."""
    power = min(5, max(0, int(math.log2(high) // 10))) if high >= 1 else 0
    unit = 1 << 10 * power
    name = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")[power]
    ticks = [one * unit for one in nice(high / unit)]
    return Axis(0.0, ticks[-1], ticks, lambda value: f"{value / unit:g}", name)


def count_axis(high: float, title: str) -> Axis:
    """A number."""
    ticks = nice(high)
    return Axis(0.0, ticks[-1], ticks, lambda value: f"{value:,.10g}", title)


def time_axis(first: float, last: float) -> Axis:
    """Times in UTC."""
    last = max(last, first + 1)
    span = last - first
    step = next((one for one in STEPS if span / one <= 7), DAY_S * math.ceil(span / DAY_S / 7))
    begin = math.ceil(first / step) * step
    ticks = [float(begin + step * i) for i in range(int((last - begin) / step + 1e-9) + 1)]
    form = "%H:%M:%S" if step < 60 else "%H:%M" if span < 1.5 * DAY_S else "%d %b %H:%M"
    form = "%d %b" if step >= DAY_S else form
    return Axis(first, last, ticks, lambda one: time.strftime(form, time.gmtime(one)), "time (UTC)")


def usual(times: Sequence[float]) -> float:
    """The median distance of two points."""
    found = sorted(b - a for a, b in itertools.pairwise(times) if b > a)
    return found[len(found) // 2] if found else 1.0


def means(dots: Sequence[Dot], most: int = BUCKETS) -> list[Dot]:
    """At most so many dots: each is the mean of those in a time of one length."""
    if len(dots) <= most:
        return list(dots)
    first, length = dots[0][0], (dots[-1][0] - dots[0][0]) / most or 1.0
    inside: dict[int, list[Dot]] = {}
    for dot in dots:
        inside.setdefault(min(most - 1, int((dot[0] - first) / length)), []).append(dot)
    found: list[Dot] = []
    for some in inside.values():
        known = [value for _, value in some if value is not None]
        middle = sum(at for at, _ in some) / len(some)
        found.append((middle, sum(known) / len(known) if known else None))
    return found


def runs(dots: Sequence[Dot]) -> list[list[tuple[float, float]]]:
    """Known dots, without a hole between those of a run."""
    distance = usual([at for at, _ in dots])
    result: list[list[tuple[float, float]]] = []
    last: float | None = None
    for at, value in dots:
        if value is None:
            last = None
            continue
        if last is None or at - last > GAP * distance:
            result.append([])
        result[-1].append((at, value))
        last = at
    return result


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _words(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    """A text in a picture."""
    name = f' class="{kind}"' if kind else ""
    place = f'x="{_number(x)}" y="{_number(y)}" text-anchor="{anchor}"'
    return f"<text {place}{name}>{html.escape(content)}</text>"


class Plot:
    """A picture with a horizontal axis, and vertical ones at the left and the right."""

    def __init__(self, across: Axis, height: float) -> None:
        self.across, self.height = across, height
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        """The place of a value of the horizontal axis."""
        return LEFT + INNER * self.across.share(value)

    def y(self, share: float) -> float:
        """The place of a share of the vertical axis."""
        return TOP + (self.height - TOP - BOTTOM) * (1 - share)

    def up(self, axis: Axis, right: bool = False) -> None:
        """Draw a vertical axis."""
        for one in axis.ticks:
            y = self.y(axis.share(one))
            if right:
                self.parts.append(_words(WIDTH - RIGHT + 6, y + 4, axis.label(one)))
            else:
                self.parts.append(f'<path class="grid" d="M{LEFT} {_number(y)}h{INNER}"/>')
                self.parts.append(_words(LEFT - 6, y + 4, axis.label(one), "", "end"))
        turned = f"translate({WIDTH - 6 if right else 14} {_number(self.y(0.5))}) rotate(-90)"
        title = html.escape(axis.title)
        words = f'<text class="unit" text-anchor="middle" transform="{turned}">{title}</text>'
        self.parts.append(words)

    def line(self, dots: Sequence[Dot], axis: Axis, kind: str) -> None:
        """Draw a line; it ends where nothing is known."""
        for run in runs(dots):
            places = (f"{_number(self.x(at))} {_number(self.y(axis.share(v)))}" for at, v in run)
            end = "h.1" if len(run) == 1 else ""
            self.parts.append(f'<path class="line {kind}" d="M{"L".join(places)}{end}"/>')

    def svg(self, name: str, title: str, about: str) -> str:
        """The picture with its horizontal axis, a title, and words for those who do not see it."""
        bottom = self.height - BOTTOM
        self.parts.append(f'<path class="axis" d="M{LEFT} {_number(bottom)}h{INNER}"/>')
        for one in self.across.ticks:
            x = self.x(one)
            self.parts.append(f'<path class="axis" d="M{_number(x)} {_number(bottom)}v4"/>')
            self.parts.append(_words(x, bottom + 17, self.across.label(one), "", "middle"))
        middle = LEFT + INNER / 2
        self.parts.append(_words(middle, bottom + 34, self.across.title, "unit", "middle"))
        return (
            f'<svg viewBox="0 0 {WIDTH} {_number(self.height)}" role="img" '
            f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{html.escape(title)}</title>'
            f'<desc id="{name}-d">{html.escape(about)}</desc>' + "\n".join(self.parts) + "</svg>"
        )


def bars(
    name: str, title: str, about: str, rows: Sequence[tuple[str, dict[str, float] | None]]
) -> str:
    """Horizontal bars of segments by class, in bytes; None: unknown."""
    axis = bytes_axis(max((sum(row.values()) for _, row in rows if row), default=0.0))
    pitch, thick = 34, 24
    plot = Plot(axis, TOP + pitch * len(rows) + BOTTOM)
    for at, (label, row) in enumerate(rows):
        y = TOP + pitch * at
        plot.parts.append(_words(LEFT - 6, y + 16, label, "", "end"))
        if row is None:
            plot.parts.append(_words(LEFT + 4, y + 16, "unknown", "unit"))
        done = 0.0
        for kind, value in (row or {}).items():
            x, end = plot.x(done), plot.x(done + value)
            done += value
            if end - x < 0.3:
                continue
            box = f'x="{_number(x)}" y="{y}" width="{_number(end - x)}" height="{thick}"'
            plot.parts.append(f'<rect class="bar {kind}" {box}/>')
            content = text.size(value)
            if end - x > 7.5 * len(content) + 4:
                plot.parts.append(_words((x + end) / 2, y + 16, content, f"on-{kind}", "middle"))
    return plot.svg(name, title, about)


def shade(fast: float) -> int:
    """The class of a cell by its share on fast nodes: 0 is all slow, SHADES - 1 all fast."""
    return min(SHADES - 1, int(SHADES * fast))


def cells(
    name: str,
    title: str,
    about: str,
    begins: Sequence[int],
    rows: Sequence[tuple[float, Sequence[float | None]]],
) -> str:
    """Time from left to right, addresses upwards; cells are shares of slow memory."""
    times = [at for at, _ in rows]
    distance = usual(times)
    plot = Plot(time_axis(times[0], times[-1] + distance), 360)
    paths: list[list[str]] = [[] for _ in range(SHADES)]
    for (at, row), after in zip(rows, [*times[1:], times[-1] + distance], strict=True):
        x, end = plot.x(at), plot.x(min(after, at + GAP * distance))
        for number, slow in enumerate(row):
            if slow is not None:
                y, low = (plot.y((number + more) / len(begins)) for more in (1, 0))
                # Neighbours overlap a little, so that no background shows between them
                wide, tall = max(1.0, end - x) + 0.7, low - y + 0.7
                box = f"M{x:.1f} {y:.1f}h{wide:.1f}v{tall:.1f}h-{wide:.1f}z"
                paths[shade(1 - slow)].append(box)
    for at_shade, found in enumerate(paths):
        if found:
            plot.parts.append(f'<path class="cell share{at_shade}" d="{"".join(found)}"/>')
    last = plot.height
    for number, begin in enumerate(begins):
        y = plot.y(number / len(begins))
        if last - y >= LABEL:
            plot.parts.append(_words(LEFT - 4, y, f"{begin:x}", "small", "end"))
            last = y
    plot.parts.append(_words(LEFT - 6, plot.height - BOTTOM + 17, "address", "unit", "end"))
    return plot.svg(name, title, about)
