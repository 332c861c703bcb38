# SPDX-License-Identifier: GPL-2.0
"""Pictures as SVG: a line over time, and cells by time and address.

Each picture has axes with units, a title and a description; its colours are classes of report.css.
"""

from __future__ import annotations

import html
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 720, 104, 24, 10, 40
INNER = WIDTH - LEFT - RIGHT
DAY_S = 86400
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
BUCKETS = 360
GAP = 3.0  # times the usual distance of two points: a hole in the data
SHADES = 5  # of the share of memory on fast nodes
LABELS = 20  # addresses with a label

Dot = tuple[float, float | None]  # time, value; None: unknown


@dataclass
class Axis:
    """Values of an axis."""

    low: float
    high: float
    ticks: list[float]
    label: Callable[[float], str]
    title: str


def nice(high: float, most: int = 5) -> list[float]:
    """Ticks from 0 to a value or a little above it, in steps of 1, 2 or 5."""
    if high < 1:
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


def time_axis(first: float, last: float) -> Axis:
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


class Plot:
    """A picture with times from left to right, and values of another axis upwards."""

    def __init__(self, across: Axis, up: Axis, height: float) -> None:
        self.across, self.up, self.height = across, up, height
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        return LEFT + INNER * (value - self.across.low) / (self.across.high - self.across.low)

    def y(self, value: float) -> float:
        share = (value - self.up.low) / (self.up.high - self.up.low)
        return TOP + (self.height - TOP - BOTTOM) * (1 - share)

    def text(self, x: float, y: float, content: str, kind: str, anchor: str) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}"'
        self.parts.append(f"<text {place}>{html.escape(content)}</text>")

    def line(self, dots: Sequence[Dot]) -> None:
        """Draw a line; it ends where nothing is known."""
        for run in runs(dots):
            places = "L".join(f"{self.x(at):.1f} {self.y(value):.1f}" for at, value in run)
            self.parts.append(f'<path class="line" d="M{places}{"h.1" if len(run) == 1 else ""}"/>')

    def svg(self, name: str, title: str, about: str) -> str:
        """The picture with its axes, a title, and words for those who do not see it."""
        bottom = self.height - BOTTOM
        for one in self.up.ticks:
            self.parts.insert(0, f'<path class="grid" d="M{LEFT} {self.y(one):.1f}h{INNER}"/>')
            self.text(LEFT - 6, self.y(one) + 4, self.up.label(one), "", "end")
        for one in self.across.ticks:
            self.parts.append(f'<path class="axis" d="M{self.x(one):.1f} {bottom}v4"/>')
            self.text(self.x(one), bottom + 17, self.across.label(one), "", "middle")
        self.parts.append(f'<path class="axis" d="M{LEFT} {bottom}h{INNER}"/>')
        self.text(LEFT + INNER / 2, bottom + 34, self.across.title, "unit", "middle")
        self.text(LEFT - 6, bottom + 34, self.up.title, "unit", "end")
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" '
            f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{html.escape(title)}</title>'
            f'<desc id="{name}-d">{html.escape(about)}</desc>' + "\n".join(self.parts) + "</svg>"
        )


def cells(begins: Sequence[int], rows: Sequence[tuple[float, Sequence[float | None]]]) -> Plot:
    """Time from left to right, addresses upwards; a cell is a share of slow memory."""
    times = [at for at, _ in rows]
    distance, count = usual(times), len(begins)
    ticks = [float(one) for one in range(0, count, -(-count // LABELS))]
    up = Axis(0.0, count, ticks, lambda one: f"{begins[int(one)]:x}", "address")
    plot = Plot(time_axis(times[0], times[-1] + distance), up, 360)
    tall, paths = plot.y(0) - plot.y(1), [""] * SHADES
    for (at, row), after in zip(rows, [*times[1:], times[-1] + distance], strict=True):
        x, end = plot.x(at), plot.x(min(after, at + GAP * distance))
        # Neighbours overlap a little, so that no background shows between them
        shape = f"h{max(1.0, end - x) + 0.7:.1f}v{tall + 0.7:.1f}H{x:.1f}z"
        for number, slow in enumerate(row):
            if slow is not None:
                shade = min(SHADES - 1, max(0, int(SHADES * (1 - slow))))
                paths[shade] += f"M{x:.1f} {plot.y(number + 1):.1f}{shape}"
    plot.parts += [f'<path class="share{at}" d="{path}"/>' for at, path in enumerate(paths) if path]
    return plot
