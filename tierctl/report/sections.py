# SPDX-License-Identifier: GPL-2.0
"""The sections of `tierctl report`, in the order in which people look at them.

Before and after by hotness and tier; hot on slow over time; which threads pay; processes by time
and address.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tierctl.core import text
from tierctl.model.addressmap import AddressMap
from tierctl.model.history import Point
from tierctl.read.threads import KINDS
from tierctl.report import chart
from tierctl.report.chart import Dot, Plot, bytes_axis, count_axis, time_axis
from tierctl.report.page import Figure, Section

TIERS = ("fast", "slow")
HEIGHT = 240
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
KNOWN = 4  # classes of last use
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
    """The mean of known values."""
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None


def moment(value: float, seconds: bool = False) -> str:
    """A time for people."""
    form = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.gmtime(value))


def hot(point: Point) -> int | None:
    """Hot memory on slow nodes."""
    return point.status.worth.hot_on_slow.bytes


def by(points: Sequence[Point]) -> str | None:
    """What "hot" is, if it is one thing all the time."""
    known = {one.status.worth.hot_by for one in points} - {None}
    return known.pop() if len(known) == 1 else None


def hot_name(points: Sequence[Point]) -> str:
    """How the figure is called; an estimate has a ~."""
    return "~hot on slow" if by(points) == "mglru" else "hot on slow"


def _tiers(points: Sequence[Point]) -> set[str | None]:
    return {node.tier for one in points for node in one.status.nodes}


def no_slow(points: Sequence[Point]) -> bool:
    """All nodes are fast, all the time."""
    return _tiers(points) == {"fast"}


# --- before and after ------------------------------------------------------------


def _sum(point: Point, tier: str, name: str) -> int | None:
    """A figure of the nodes of a tier; None if one of them is unknown."""
    values = [getattr(one, name) for one in point.status.nodes if one.tier == tier]
    return None if not values or None in values else sum(values)


def uses(points: Sequence[Point], tier: str) -> dict[str, float | None]:
    """Means of the known figures of a tier, by class."""
    found: dict[str, float | None] = {}
    samples = [one.use[tier] for one in points if any(one.use.get(tier, {}).values())]
    for kind in list(USES)[:KNOWN]:
        known = [one[kind] for one in samples if one.get(kind) is not None]
        # What a sample does not know of a class is in its grey part
        found[kind] = sum(value or 0 for value in known) / len(samples) if known else None
    used, found["free"] = (
        mean(_sum(one, tier, name) for one in points) for name in ("used", "free")
    )
    classes = sum(found[kind] or 0.0 for kind in list(USES)[:KNOWN])
    if used is not None and classes > used:  # MGLRU's counts are a little older
        for kind in list(USES)[:KNOWN]:
            value = found[kind]
            found[kind] = None if value is None else value * used / classes
    found["none"] = None if used is None else max(0.0, used - classes)
    return {kind: found[kind] for kind in USES}


def before_after(windows: Sequence[Window]) -> Section:
    """The first picture."""
    rows: list[tuple[str, dict[str, float] | None]] = []
    table = [["tier", *USES.values()]]
    for window in windows:
        for tier in TIERS:
            if tier in _tiers(window.points):
                name = f"{window.name} {tier}".strip()
                found = uses(window.points, tier)
                whole = found["none"] is not None and found["free"] is not None
                rows.append((name, {k: v or 0.0 for k, v in found.items()} if whole else None))
                table.append([name, *(text.size(value) for value in found.values())])
    section = Section("Before and after, by hotness and tier", "")
    if not rows:
        section.words = "The record does not tell which nodes are fast and which are slow."
        return section
    section.words = (
        "Means of the samples in each time.  Memory was used, or is new, since so long a time, "
        "by MGLRU's looks; the grey part has memory whose age no look proves, and memory of the "
        "kernel."
    )
    about = "; ".join(
        f"{row[0]}: " + ", ".join(f"{w} {c}" for w, c in zip(table[0][1:], row[1:], strict=True))
        for row in table[1:]
    )
    times = [
        f"{one.name}: {moment(one.points[0].time, True)} to {moment(one.points[-1].time, True)} UTC"
        for one in windows
        if one.name
    ]
    picture = chart.bars("use", "Memory by tier and last use", about, rows)
    caption = "Horizontal axis: bytes.  " + ".  ".join(times)
    key = [(f"bar {kind}", words) for kind, words in USES.items()]
    section.figures.append(Figure(picture, caption, key, table))
    return section


# --- over time -------------------------------------------------------------------


def _dots(points: Sequence[Point], value: Callable[[Point], float | None]) -> list[Dot]:
    return chart.means([(one.time, value(one)) for one in points])


def _known(dots: Sequence[Dot]) -> list[float]:
    return [value for _, value in dots if value is not None]


def _range(name: str, dots: Sequence[Dot], draw: Callable[[float], str]) -> str:
    known = _known(dots)
    return f"{name}: from {draw(min(known))} to {draw(max(known))}"


def hot_over_time(points: Sequence[Point]) -> Section:
    """The second picture."""
    section = Section("Hot on slow over time", NO_SLOW)
    dots = _dots(points, hot)
    if not _known(dots):
        if not no_slow(points):
            section.words = (
                "Unknown.  It needs a tiershift kernel whose part scan works, or MGLRU and "
                "a record that root has made."
            )
        return section
    meaning = by(points)
    several = "The figure changed its meaning in this time: " + ", or ".join(BY.values())
    section.words = f"Hot on slow: {BY[meaning]}." if meaning in BY else f"{several}."
    axis = bytes_axis(max(_known(dots)))
    plot = Plot(time_axis(dots[0][0], dots[-1][0]), HEIGHT)
    plot.up(axis)
    plot.line(dots, axis, "hot")
    about = _range(hot_name(points), dots, text.size)
    caption = f"Vertical axis: {axis.title}.  Horizontal axis: {plot.across.title}."
    section.figures.append(Figure(plot.svg("hot", "Hot on slow", about), caption))
    return section


def payers(points: Sequence[Point]) -> Section:
    """The third picture: CPUs at the left, hint faults at the right."""
    words = (
        "CPU time of the kernel threads that find and move pages, and of kswapd, which reclaims "
        "for other reasons, too.  Hint faults stop programs themselves."
    )
    section = Section("Which threads pay, and hint faults", words)

    def hint_faults(one: Point) -> float | None:
        return one.status.flow.hint_faults_per_s if one.status.flow else None

    def cpu(kind: str) -> Callable[[Point], float | None]:
        return lambda one: one.status.cost.cpu.get(kind) if one.status.cost else None

    lines = {name: (kind, _dots(points, cpu(kind))) for name, kind in KINDS.items()}
    faults = _dots(points, hint_faults)
    drawn = {name: found for name, found in lines.items() if any(_known(found[1]))}
    about = [_range(name, dots, "{:.3f} CPUs".format) for name, (_, dots) in drawn.items()]
    idle = [name for name, (_, dots) in lines.items() if _known(dots) and name not in drawn]
    unknown = [name for name, (_, dots) in lines.items() if not _known(dots)]
    (idle if _known(faults) else unknown).append("hint faults")
    plot = Plot(time_axis(points[0].time, points[-1].time), HEIGHT)
    key = []
    if drawn:
        axis = count_axis(max(max(_known(dots)) for _, dots in drawn.values()), "CPUs")
        plot.up(axis)
        for name, (kind, dots) in drawn.items():
            plot.line(dots, axis, kind)
            key.append((f"line {kind}", f"{name}, CPUs"))
    if any(_known(faults)):
        idle.remove("hint faults")
        axis = count_axis(max(_known(faults)), "hint faults/s")
        plot.up(axis, right=True)
        plot.line(faults, axis, "faults")
        key.append(("line faults", "hint faults a second"))
        about.append(_range("hint faults a second", faults, text.count))
    section.words += f"  None at all: {', '.join(idle)}." if idle else ""
    section.words += f"  Unknown: {', '.join(unknown)}." if unknown else ""
    if key:
        picture = plot.svg("cost", "CPU time of kernel threads, and hint faults", "; ".join(about))
        caption = "Vertical axes: CPUs at the left, hint faults a second at the right.  "
        section.figures.append(Figure(picture, f"{caption}Horizontal axis: time (UTC).", key))
    return section


def addresses(points: Sequence[Point]) -> Section:
    """The last pictures, if a record has processes."""
    section = Section(
        "Time against address",
        "Where the memory of a process lies, by samples of its page tables.",
    )
    looks: dict[tuple[int, str, tuple[int, ...]], list[AddressMap]] = {}
    for one in points:
        if one.map and one.map.rows and one.map.columns:
            begins = tuple(column.begin for column in one.map.columns)
            looks.setdefault((one.map.pid, one.map.name or "?", begins), []).append(one.map)
    key = [(f"cell share{at}", words) for at, words in reversed(list(enumerate(SHADES)))]
    for number, ((pid, name, begins), maps) in enumerate(looks.items()):
        step = -(-len(maps) // LOOKS)
        rows = [(one.rows[0].time_s, one.rows[0].cells) for one in maps[::step]]
        slow = [mean(cells) for _, cells in (rows[0], rows[-1])]
        ends = [text.share(None if one is None else 1 - one, 1) for one in slow]
        about = f"share on fast nodes: {ends[0]} at first, {ends[1]} at last"
        size = text.size(maps[0].places * maps[0].place_bytes)
        caption = (
            f"{name} {pid}.  Vertical axis: {size} of addresses, {maps[0].holes} holes cut out.  "
        )
        caption += f"Horizontal axis: time (UTC).  S{about[1:]}."
        picture = chart.cells(f"map{number}", f"{name} {pid}", about, begins, rows)
        section.figures.append(Figure(picture, caption, key))
    return section
