# SPDX-License-Identifier: GPL-2.0
"""tierctl heat: memory by last use and tier, by MGLRU's generations; with --map a process by
address.

A page of one of the two youngest generations was used, or is new, since the generation began.  A
page is cold if it was idle for 60 s when MGLRU looked; whether programs have used it since is not
known.  See read/lru.py.  --look lets MGLRU look; without it nothing is changed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tierctl.core import text
from tierctl.core.errors import DENIED, LACKING, USAGE, TierctlError, failed
from tierctl.core.paths import CGROUP, LRU_GEN, STAT
from tierctl.core.reply import Note, Reply, show, unknown
from tierctl.core.source import Source
from tierctl.model.addressmap import AddressMap, Line, Mapper
from tierctl.model.snapshot import FOUND, OFF, Sampler, Snapshot
from tierctl.read import groups, lru
from tierctl.read import trace as listen
from tierctl.read.lru import CLASSES, COLD, UNCLEAR, Looks

BAR = 22
OTHER = "other"
LABELS = {COLD: "> 60 s", UNCLEAR: "not known", OTHER: "no age"}
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
ROWS = 10  # lines of a map
INTERVAL = 1.0
LOOK_S = 8.0
MOSTLY = 7 / 8  # of the pages of a cell


@dataclass
class Row:
    """Bytes of a class of use; None: no look of MGLRU tells."""

    use: str  # hot, warm, cool, cold, unclear, other
    last_used: str
    fast: int | None
    slow: int | None


@dataclass
class Heat:
    """Memory by last use and tier.  The rows of a tier add up to what is used of it."""

    group: str | None
    fast: int | None
    slow: int | None
    rows: list[Row]
    looks_fast: Looks
    looks_slow: Looks
    waiting: int | None  # bytes that workers have found hot on slow nodes and that wait


@dataclass
class Found:
    """The last visit of a worker (debugfs tier/spans)."""

    begin: int
    end: int
    window_us: int
    first: int
    last: int
    pushed: int
    age_ms: int


@dataclass
class Map(AddressMap):
    """A process by address, and what a worker found there."""

    visit: Found | None


# --- by last use -----------------------------------------------------------------


def _used(now: Snapshot, path: str | None, wanted: Iterable[int]) -> int | None:
    """Bytes in use of some nodes, by all or by a group."""
    if path is not None:
        usage = groups.usage(now.source, path)
        return None if usage is None else sum(usage.by_node.get(node, 0) for node in wanted)
    sizes = [one.used for one in now.machine.nodes if one.node in set(wanted)]
    known = [one for one in sizes if one is not None]
    return sum(known) if len(known) == len(sizes) else None


def _no_age(now: Snapshot) -> TierctlError:
    """Why no page has an age."""
    if now.mechanisms.mglru_on is False:
        return TierctlError(f"{OFF.state}, so the age of pages is not known", OFF.todo, LACKING)
    note = now.sources["cold_on_fast"]
    code = DENIED if note.state.startswith("denied") else LACKING
    return TierctlError(f"the age of pages is not known ({note.state})", note.todo, code)


def look(source: Source, group: str | None, seconds: float) -> None:
    """Let MGLRU look twice at the memory of all, or of a group."""
    if not source.live:
        raise TierctlError("MGLRU cannot look at what was captured", "leave out --look", USAGE)
    path = groups.named(source, group) if group is not None else None
    try:
        lru.look(source, path, seconds)
    except OSError as error:
        todo = "MGLRU needs debugfs, and refuses writes under Secure Boot"
        raise failed(error, f"{LRU_GEN} cannot be used", todo) from None


def histogram(now: Snapshot, group: str | None) -> Reply:
    """Memory by last use and tier, of all or of a group with those below."""
    path = groups.named(now.source, group) if group is not None else None
    now.need_tiers()
    lruvecs = now.lruvecs
    if lruvecs is None:
        raise _no_age(now)
    if path is not None:
        lruvecs = [one for one in lruvecs if f"{one.group}/".startswith(f"{path}/")]
    sources = {
        "last_use": Note(now.sources["cold_on_fast"].origin),
        "tiers": now.machine.sources["tiers"],
    }
    sides: list[dict[str, int | None]] = []
    used: list[int | None] = []
    for wanted in (now.fast, now.slow):
        side = lru.by_use(lruvecs, set(wanted), now.machine.page)
        listed = sum(size or 0 for size in side.values())
        size = _used(now, path, wanted)
        # Both were read one after the other.
        used.append(None if size is None else max(size, listed))
        side[OTHER] = None if size is None else max(0, size - listed)
        sides.append(side)
    if path is not None and None in used:
        why = now.source.why(f"{CGROUP}{path}/{STAT}") or "unknown"
        sources["used"] = Note(None, why, "")
    names = [*((name, label) for name, label, _ in CLASSES), *LABELS.items()]
    rows = [Row(name, label, sides[0][name], sides[1][name]) for name, label in names]
    looks = [lru.looks(lruvecs, set(wanted)) for wanted in (now.fast, now.slow)]
    waiting = now.hot_total().bytes if now.hot_by == FOUND and path is None else None
    return Reply("heat", Heat(path, used[0], used[1], rows, looks[0], looks[1], waiting), sources)


def scale(most: int, width: int) -> int:
    """Bytes of a character, so that ``most`` bytes take at most ``width`` characters."""
    for unit in (1, 1 << 10, 1 << 20, 1 << 30, 1 << 40, 1 << 50):
        for step in STEPS:
            if step * unit * width >= most:
                return step * unit
    return most


def cells(value: int | None, unit: int) -> int:
    """How many characters; a part that is not 0 has one."""
    return max(1, round(value / unit)) if value else 0


def picture(data: Heat, style: text.Style) -> tuple[str, list[str]]:
    """What a character stands for, and the picture: fast to the left, slow to the right."""
    most = max((one or 0 for row in data.rows for one in (row.fast, row.slow)), default=0)
    unit = scale(max(most, 1), BAR)
    head = f"{'LAST USED':<18}{'ON FAST':>8} {text.size(data.fast):<{BAR}} "
    lines = [style.paint("head", f"{head}ON SLOW {text.size(data.slow)}")]
    for row in data.rows:
        fast, slow = "#" * cells(row.fast, unit), "." * cells(row.slow, unit)
        left = f"{row.use:<8}{row.last_used:<10}{text.size(row.fast):>8}"
        lines.append(f"{left} {fast:>{BAR}}|{slow:<{BAR}} {text.size(row.slow):>7}")
    return f"1 character = {text.size(unit)}", lines


def draw(reply: Reply, style: text.Style) -> list[str]:
    """The picture, and what it goes by."""
    data: Heat = reply.data
    of = f"{groups.title(data.group)}, " if data.group else ""
    unit, lines = picture(data, style)
    lines = [of + unit, *lines]
    lines += text.wrap(f"Last look of MGLRU: {_look_words(data)}.")
    if data.waiting is not None:
        lines += text.wrap(f"Found hot on slow by workers, waits: {text.size(data.waiting)}.")
    lines += text.wrap("no age: on no list of MGLRU (mlocked, hugetlb, of the kernel).")
    if any(row.use == UNCLEAR and (row.fast or row.slow) for row in data.rows):
        lines += text.wrap("not known: used before the looks of MGLRU began; tierctl heat --look")
    return lines + unknown(reply)


def _look_words(data: Heat) -> str:
    found = []
    for tier, one in (("fast", data.looks_fast), ("slow", data.looks_slow)):
        if tier == "slow" and data.slow == 0:
            continue
        low, high = text.seconds(one.newest_s), text.seconds(one.oldest_s)
        found.append(f"{tier} {low if low == high else f'{low} to {high}'} ago")
    return ", ".join(found).replace("? ago", "?")


# --- by address ------------------------------------------------------------------


def by_address(source: Source, pid: int, rows: int, interval: float) -> Reply:
    """The map of a process; Ctrl-C ends it early."""
    now = Sampler(source).take(quick=True)
    mapper = Mapper(source, pid)
    now.need_tiers()
    origin = f"/proc/{pid}/pagemap"
    sources = {"cells": Note(origin, estimate=True)}
    lines: list[Line] = []
    began = source.time()
    try:
        for at in range(rows):
            if at:
                source.wait(interval)
            cells_ = mapper.take(now.machine)
            lines.append(Line(source.time() - began, cells_))
    except EOFError:
        pass  # the bundle has no further sample
    except KeyboardInterrupt:
        if not lines:
            raise
    except TierctlError as error:
        if not lines:
            raise
        sources["cells"] = Note(origin, error.what, estimate=True)
    assert mapper.map
    span = (listen.spans(source) or {}).get(pid)
    visit = None
    if span is not None:
        counts = span.first, span.last, span.pushed
        visit = Found(span.begin, span.end, span.window_us, *counts, span.age_ms)
    found = mapper.map
    data = Map(**vars(found) | {"rows": lines, "visit": visit})
    return Reply("heat-map", data, sources)


def _cell(share: float | None) -> str:
    if share is None:
        return " "
    return "." if share >= MOSTLY else "#" if share <= 1 - MOSTLY else "+"


def draw_map(reply: Reply, style: text.Style) -> list[str]:
    """The map, with its axes and its scale."""
    data: Map = reply.data
    each = data.places * data.place_bytes / max(1, len(data.columns))
    holes = f"{data.holes} hole{'s' if data.holes != 1 else ''} cut out"
    lines = [
        style.paint("head", f"{data.name or '?'} {data.pid}: time against address"),
        f"1 character = {text.size(each)} of addresses; {holes}",
        "# fast  . slow  + both  blank: no page in the samples",
    ]
    for row in data.rows:
        lines.append(f"{row.time_s:8.1f} s  |{''.join(_cell(one) for one in row.cells)}|")
    lines += _axis(data)
    if data.visit is not None:
        lines += _visit(data, data.visit)
    return lines + unknown(reply)


def _axis(data: Map) -> list[str]:
    width = len(data.columns)
    at = sorted({0, width // 3, 2 * width // 3}) if width >= 48 else [0]
    marks = [" "] * width
    labels = ""
    for one in at:
        marks[one] = "^"
        labels = labels.ljust(one) + f"{data.columns[one].begin:x} "
    last = f"to {data.columns[-1].end:x}"
    return [f"{'':12}{''.join(marks)}", f"{'address':<12}{labels.rstrip()}", f"{'':12}{last}"]


def _visit(data: Map, found: Found) -> list[str]:
    inside = [
        "=" if one.begin < found.end and one.end > found.begin else " " for one in data.columns
    ]
    lines = [f"{'last visit':<11} {''.join(inside)}".rstrip()]
    what = (
        f"Last visit of a worker ({text.seconds(found.age_ms / 1000)} ago, window "
        f"{found.window_us / 1000:.0f} ms): {text.count(found.first)} slow pages found accessed, "
        f"{text.count(found.last)} twice, {text.count(found.pushed)} pages to be promoted."
    )
    return lines + text.wrap(what)


# --- command ---------------------------------------------------------------------


def command(args: argparse.Namespace, source: Source) -> int:
    """Print the histogram, or the map of a process."""
    if args.map is None:
        if args.rows is not None or (args.interval is not None and not args.look):
            raise TierctlError("--rows and --interval belong to --map", "add --map PID", USAGE)
        if args.look:
            look(source, args.group, args.interval or LOOK_S)
        return show(histogram(Sampler(source).take(), args.group), source, args, draw)
    if args.group is not None or args.look:
        raise TierctlError("a map is of one process", "leave out GROUP and --look", USAGE)
    rows, interval = args.rows or ROWS, args.interval or INTERVAL
    return show(by_address(source, args.map, rows, interval), source, args, draw_map)


SCHEMAS = {"heat": Heat, "heat-map": Map}  # by kind of answer


def add_commands(commands: Any) -> None:
    """The sub-command heat."""
    one = commands.add_parser(
        "heat",
        help="memory by last use and tier; time against address of a process",
        description="Bytes by last use and tier, as MGLRU's generations tell (root).  With --map, "
        "the address space of a process: each line a time, each character a range of addresses.",
    )
    one.add_argument("group", nargs="?", metavar="GROUP", help="with the groups below")
    looks = one.add_argument("--look", action="store_true")
    looks.help = "let MGLRU look twice at what programs use: it reads their page tables"
    one.add_argument("--map", type=text.number_from(1, 1 << 30), metavar="PID")
    rows = one.add_argument("--rows", type=text.number_from(1, 1000), metavar="N")
    rows.help = f"lines of the map ({ROWS})"
    between = one.add_argument("--interval", type=text.interval, metavar="SECONDS")
    between.help = f"between lines ({INTERVAL:.0f}), or looks ({LOOK_S:.0f})"
    one.set_defaults(func=command)
