# SPDX-License-Identifier: GPL-2.0
"""tierctl heat: memory by last use and tier, by MGLRU's generations; with --map a process by
address.

A page of one of the two youngest generations was used, or is new, since the generation began.  A
page is cold if it was idle for 60 s when MGLRU looked; whether programs have used it since is not
known.  See read/lru.py.  --look lets MGLRU look; without it nothing is changed.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tierctl.change import journal
from tierctl.core import text
from tierctl.core.errors import DENIED, LACKING, TierctlError, failed
from tierctl.core.paths import CGROUP, LOOKED, LRU_GEN, STAT
from tierctl.core.reply import Note, Reply, show, unknown
from tierctl.core.source import Source
from tierctl.model.addressmap import AddressMap, Line, Mapper
from tierctl.model.snapshot import FOUND, LOOK, Sampler, Snapshot
from tierctl.read import groups, lru, nodes
from tierctl.read.lru import CLASSES, COLD, UNCLEAR

BAR = 22
OTHER = "other"
USED = [name for name, _, _ in CLASSES]
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
    looked_s: float | None  # since MGLRU's last look at each group, at most
    waiting: int | None  # bytes that workers have found hot on slow nodes and that wait


# --- by last use -----------------------------------------------------------------


def _used(now: Snapshot, path: str | None, wanted: Collection[int]) -> int | None:
    if path is not None:
        usage = groups.usage(now.source, path)
        return None if usage is None else sum(usage.by_node.get(node, 0) for node in wanted)
    sizes = [one.used for one in now.machine.nodes if one.node in wanted]
    known = [one for one in sizes if one is not None]
    return sum(known) if len(known) == len(sizes) else None


def look(source: Source, group: str | None, seconds: float) -> None:
    """Let MGLRU look twice at the memory of all, or of a group."""
    if not source.live:
        raise TierctlError("MGLRU cannot look at what was captured", "leave out --look")
    path = groups.named(source, group) if group is not None else None
    try:
        looked = lru.look(source, path, seconds)
    except OSError as error:
        todo = "MGLRU needs debugfs, and refuses writes under Secure Boot"
        raise failed(error, f"{LRU_GEN} cannot be used", todo) from None
    with contextlib.suppress(OSError):
        journal.put(journal.live(source), LOOKED, looked)


def histogram(now: Snapshot, group: str | None) -> Reply:
    """Memory by last use and tier, of all or of a group with those below."""
    path = groups.named(now.source, group) if group is not None else None
    now.need_tiers()
    lruvecs = now.lruvecs
    if lruvecs is None:
        note = now.sources["cold_on_fast"]
        code = DENIED if note.state.startswith("denied") else LACKING
        raise TierctlError(f"the age of pages is not known ({note.state})", note.todo, code)
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
    looked = lru.looked_s(lruvecs, {*now.fast, *now.slow})
    waiting = now.hot_total().bytes if now.hot_by == FOUND and path is None else None
    return Reply("heat", Heat(path, used[0], used[1], rows, looked, waiting), sources)


def scale(most: int, width: int) -> int:
    """Bytes of a character, so that ``most`` bytes take at most ``width`` characters."""
    units = (step << shift for shift in range(0, 60, 10) for step in STEPS)
    return next((unit for unit in units if unit * width >= most), most)


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
        use = "used" if row.use in USED else row.use
        left = f"{use:<8}{row.last_used:<10}{text.size(row.fast):>8}"
        lines.append(f"{left} {fast:>{BAR}}|{slow:<{BAR}} {text.size(row.slow):>7}")
    return f"1 character = {text.size(unit)}", lines


def draw(reply: Reply, style: text.Style) -> list[str]:
    data: Heat = reply.data
    of = f"{groups.title(data.group)}, " if data.group else ""
    unit, lines = picture(data, style)
    lines = [of + unit, *lines]
    if data.looked_s is not None:
        lines.append(f"Last look of MGLRU: {text.seconds(data.looked_s)} ago, at most.")
    if data.waiting is not None:
        lines += text.wrap(f"Found hot on slow by workers, waits: {text.size(data.waiting)}.")
    lines += text.wrap("no age: on no list of MGLRU (mlocked, hugetlb, of the kernel).")
    if any(row.use == UNCLEAR and (row.fast or row.slow) for row in data.rows):
        lines += text.wrap(f"not known: no two looks of MGLRU tell when; 60 s later: {LOOK}")
    return lines + unknown(reply)


# --- by address ------------------------------------------------------------------


def by_address(source: Source, pid: int, rows: int, interval: float) -> Reply:
    """The map of a process; Ctrl-C ends it early."""
    machine = nodes.read(source)
    mapper = Mapper(source, pid)
    origin = f"/proc/{pid}/pagemap"
    sources = {"cells": Note(origin, estimate=True)}
    lines: list[Line] = []
    began = source.clock()
    try:
        for at in range(rows):
            if at:
                source.wait(interval)
            lines.append(Line(source.clock() - began, mapper.take(machine)))
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
    mapper.map.rows = lines
    return Reply("heat-map", mapper.map, sources)


def _cell(share: float | None) -> str:
    if share is None:
        return " "
    return "." if share >= MOSTLY else "#" if share <= 1 - MOSTLY else "+"


def draw_map(reply: Reply, style: text.Style) -> list[str]:
    data: AddressMap = reply.data
    each = data.places * data.place_bytes / max(1, len(data.columns))
    holes = f"{text.plural(data.holes, 'hole')} cut out"
    lines = [
        style.paint("head", f"{data.name or '?'} {data.pid}: time against address"),
        f"1 character = {text.size(each)} of addresses; {holes}",
        "# fast  . slow  + both  blank: no page in the samples",
    ]
    for row in data.rows:
        lines.append(f"{row.time_s:8.1f} s  |{''.join(_cell(one) for one in row.cells)}|")
    width = len(data.columns)
    at = sorted({0, width // 3, 2 * width // 3}) if width >= 48 else [0]
    marks = "".join("^" if one in at else " " for one in range(width))
    labels = ""
    for one in at:
        labels = labels.ljust(one) + f"{data.columns[one].begin:x} "
    lines += [f"{'':12}{marks}", f"{'address':<12}{labels.rstrip()}"]
    lines.append(f"{'':12}to {data.columns[-1].end:x}")
    return lines + unknown(reply)


# --- command ---------------------------------------------------------------------


def command(args: argparse.Namespace, source: Source) -> int:
    if args.map is None:
        if args.rows is not None or (args.interval is not None and not args.look):
            raise TierctlError("--rows and --interval belong to --map", "add --map PID")
        if args.look:
            look(source, args.group, args.interval or LOOK_S)
        return show(histogram(Sampler(source).take(), args.group), source, args, draw)
    if args.group is not None or args.look:
        raise TierctlError("a map is of one process", "leave out GROUP and --look")
    rows, interval = args.rows or ROWS, args.interval or INTERVAL
    return show(by_address(source, args.map, rows, interval), source, args, draw_map)


def add_commands(commands: Any) -> None:
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
