# SPDX-License-Identifier: GPL-2.0
"""The sections of `tierctl report`, in the order in which people look at them.

Before and after by hotness and tier; hot on slow over time; which threads pay; processes by time
and address.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tierctl.core import text
from tierctl.model.history import Look, Point
from tierctl.read.threads import KINDS
from tierctl.report import chart
from tierctl.report.page import Section, bars, figure, table

LOOKS = 120  # of a process, in a picture
NO_SLOW = "This machine has no slow node."
USES = {
    "hot": "hot, < 1 s",
    "warm": "warm, < 10 s",
    "cool": "cool, < 60 s",
    "cold": "cold",
    "none": "not known",
    "free": "free",
}
KNOWN = list(USES)[:4]  # classes of last use
BY = {
    "found": "pages that the part scan has found hot and that wait for promotion",
    "mglru": "an estimate of MGLRU (~): slow memory used or new in 60 s",
}
SHADES = ("all on slow nodes", "about 30 % on fast", "half", "about 70 %", "all on fast nodes")


@dataclass
class Window:
    """A part of a record, or one of two records."""

    name: str
    points: list[Point]


def mean(values: Iterable[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None


def moment(value: float, seconds: bool = False) -> str:
    form = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.gmtime(value))


def by(points: Sequence[Point]) -> str | None:
    """What "hot" is, if it is one thing all the time."""
    known = {one.hot_by for one in points} - {None}
    return known.pop() if len(known) == 1 else None


def hot_name(points: Sequence[Point]) -> str:
    """How the figure is called; an estimate has a ~."""
    return "~hot on slow" if by(points) == "mglru" else "hot on slow"


def no_slow(points: Sequence[Point]) -> bool:
    """All nodes are fast, all the time."""
    return all([*one.tiers] == ["fast"] for one in points)


def uses(points: Sequence[Point], tier: str) -> dict[str, float | None]:
    """Means of the known figures of a tier, by class."""
    found: dict[str, float | None] = {}
    samples = [one.use[tier] for one in points if any(one.use.get(tier, {}).values())]
    for kind in KNOWN:
        known = [one[kind] for one in samples if one.get(kind) is not None]
        # What a sample does not know of a class is in its grey part
        found[kind] = sum(value or 0 for value in known) / len(samples) if known else None
    used, free = (
        mean(one.tiers.get(tier, {}).get(name) for one in points) for name in ("used", "free")
    )
    classes = sum(value or 0.0 for value in found.values())
    if used is not None and classes > used:  # MGLRU's counts are a little older
        found = {kind: value and value * used / classes for kind, value in found.items()}
    return found | {"none": None if used is None else max(0.0, used - classes), "free": free}


def before_after(windows: Sequence[Window]) -> Section:
    words = "The record does not tell which nodes are fast and which are slow."
    sides = {
        f"{window.name} {tier}".strip(): uses(window.points, tier)
        for window in windows
        for tier in ("fast", "slow")
        if any(tier in one.tiers for one in window.points)
    }
    if not sides:
        return Section("Before and after, by hotness and tier", words)
    words = (
        "Means of the samples in each time.  Memory was used, or is new, since so long a time, "
        "by MGLRU's looks; the grey part has memory whose age no look proves, and memory of the "
        "kernel."
    )
    most = max(sum(value or 0 for value in found.values()) for found in sides.values()) or 1.0
    rows = []
    for name, found in sides.items():
        known = None not in (found["none"], found["free"])
        parts = [(k, 100 * (v or 0) / most, text.size(v)) for k, v in found.items()]
        rows.append((name, parts if known else None))
    figures = [[name, *map(text.size, found.values())] for name, found in sides.items()]
    times = [
        f"{one.name}: {moment(one.points[0].time, True)} to {moment(one.points[-1].time, True)} UTC"
        for one in windows
        if one.name
    ]
    body = bars(rows) + table([["tier", *USES.values()], *figures])
    section = figure(body, "Bytes.  " + ".  ".join(times), list(USES.items()))
    return Section("Before and after, by hotness and tier", words, [section])


def hot_over_time(points: Sequence[Point]) -> Section:
    section = Section("Hot on slow over time", NO_SLOW)
    dots = chart.means([(one.time, one.hot) for one in points])
    known = [value for _, value in dots if value is not None]
    if not known:
        if not no_slow(points):
            section.words = (
                "Unknown.  It needs a tiershift kernel whose part scan works, or MGLRU and "
                "a record that root has made."
            )
        return section
    meaning = by(points)
    several = "The figure changed its meaning in this time: " + ", or ".join(BY.values())
    section.words = f"Hot on slow: {BY[meaning]}." if meaning in BY else f"{several}."
    axis = chart.bytes_axis(max(known))
    plot = chart.Plot(chart.time_axis(dots[0][0], dots[-1][0]), axis, 240)
    plot.line(dots)
    about = f"{hot_name(points)}: from {text.size(min(known))} to {text.size(max(known))}"
    caption = f"Vertical axis: {axis.title}.  Horizontal axis: {plot.across.title}."
    section.figures.append(figure(plot.svg("hot", "Hot on slow", about), caption))
    return section


def payers(windows: Sequence[Window]) -> Section:
    rows = [["thread", *(f"{one.name} CPUs".strip() for one in windows)]]
    for name, kind in KINDS.items():
        found = [mean(each.cpu.get(kind) for each in one.points) for one in windows]
        rows.append([name, *("?" if one is None else f"{one:.3f}" for one in found)])
    faults = [mean(each.faults for each in one.points) for one in windows]
    rows.append(["hint faults a second", *map(text.count, faults)])
    words = (
        "CPU time of the kernel threads that find and move pages, and of kswapd, which reclaims "
        "for other reasons, too.  Hint faults stop programs themselves."
    )
    caption = "Means, in CPUs: 0.010 is 1 % of one CPU.  ?: unknown."
    return Section("Which threads pay, and hint faults", words, [figure(table(rows), caption)])


def addresses(points: Sequence[Point]) -> Section:
    """The last section, if a record has processes."""
    section = Section(
        "Time against address",
        "Where the memory of a process lies, by samples of its page tables.",
    )
    looks: dict[tuple[int, str, tuple[int, ...]], list[tuple[float, Look]]] = {}
    for one in points:
        if one.map and one.map.begins:
            process = one.map.pid, one.map.name or "?", tuple(one.map.begins)
            looks.setdefault(process, []).append((one.time, one.map))
    key = [(f"share{at}", words) for at, words in reversed(list(enumerate(SHADES)))]
    for number, ((pid, name, begins), maps) in enumerate(looks.items()):
        rows = [(at, one.cells) for at, one in maps[:: -(-len(maps) // LOOKS)]]
        slow = [mean(row) for _, row in (rows[0], rows[-1])]
        ends = [text.share(None if one is None else 1 - one, 1) for one in slow]
        about = f"share on fast nodes: {ends[0]} at first, {ends[1]} at last"
        look = maps[0][1]
        caption = (
            f"{name} {pid}.  Vertical axis: {text.size(look.bytes)} of addresses, {look.holes} "
            f"holes cut out.  Horizontal axis: time (UTC).  S{about[1:]}."
        )
        picture = chart.cells(begins, rows).svg(f"map{number}", f"{name} {pid}", about)
        section.figures.append(figure(picture, caption, key))
    return section
