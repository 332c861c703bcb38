# SPDX-License-Identifier: GPL-2.0
"""tierctl top: groups by tier, or with -p the processes of a group."""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tierctl.core import text
from tierctl.core.errors import LACKING, TierctlError
from tierctl.core.parse import per_second
from tierctl.core.paths import CGROUP, LIMIT, STAT
from tierctl.core.reply import NO_SLOW, Note, Reply, note_for, show, unknown
from tierctl.core.source import Source
from tierctl.model.snapshot import ALONE, LOOK, SOON, Sampler, Snapshot
from tierctl.read import groups, lru, nodes, pages
from tierctl.read.groups import Group, Usage
from tierctl.read.pages import Process

ROWS = 20
PROCESSES = 10
BAR = 20
NAME = 20
NAMED = 3  # groups with the most cold memory
STALE = "of most memory of a group (? or >) the last use is not known"


@dataclass
class Top:
    """Groups, largest first."""

    group: str | None  # whose children these are
    interval_s: float | None
    groups: list[Group]
    others: int  # groups that are not shown


@dataclass
class Processes:
    """Processes, largest first."""

    group: str | None
    processes: list[Process]
    others: int


@dataclass
class Seen:
    """What groups had at a time: rates begin there."""

    time: float
    usage: dict[str, Usage] = field(default_factory=dict)


# --- groups ----------------------------------------------------------------------


def chosen(source: Source, name: str | None) -> tuple[str | None, list[str]]:
    """The group, and the paths of the groups to show."""
    if name is None:
        groups.need(source)
        return None, groups.units(source)
    path = groups.named(source, name)
    return path, [path, *groups.units(source, path)]


def look(source: Source, paths: Sequence[str]) -> Seen:
    """What groups have now; one that cannot be read is left out."""
    found = {path: groups.usage(source, path) for path in paths}
    return Seen(source.clock(), {path: one for path, one in found.items() if one is not None})


def _ages(now: Snapshot, found: Sequence[Group]) -> dict[str, Note]:
    """Fill in hot on slow and cold on fast of each group with those below, as MGLRU tells."""
    note = now.sources["cold_on_fast"]
    notes = {"cold_on_fast": note, "hot_on_slow": note}
    if now.lruvecs is None or not now.machine.known:
        return notes
    own: dict[str, list[lru.Lruvec]] = {group.path: [] for group in found}
    for one in now.lruvecs:
        path = one.group
        while path:
            if path in own:
                own[path].append(one)
            path = path.rpartition("/")[0]
    for group in found:
        hot = lru.total(lru.used(own[group.path], now.slow, now.machine.page).values())
        group.hot_on_slow = hot.bytes or (None if hot.unknown_bytes else hot.bytes)
        group.hot_unknown = hot.unknown_bytes
        cold = lru.idle(own[group.path], now.fast, now.machine.page).values()
        group.cold_on_fast = lru.total(cold).bytes
    notes["hot_on_slow"] = Note(note.origin, estimate=True)
    if not now.slow:
        notes["hot_on_slow"] = Note(None, NO_SLOW)
    elif any(one.hot_on_slow is None or one.hot_unknown > one.hot_on_slow for one in found):
        why = now.unseen(now.slow, STALE)
        notes["hot_on_slow"] = Note(note.origin, why, LOOK, estimate=True)
    return notes


def _rates(data: Top, before: Seen, after: Seen, page: int) -> Note:
    """Fill in what groups have moved between two looks."""
    seconds = after.time - before.time
    data.interval_s = seconds
    for one in data.groups:
        first, last = before.usage.get(one.path), after.usage.get(one.path)
        if first is None or last is None:
            continue
        up = per_second(first.promoted, last.promoted, seconds)
        down = per_second(first.demoted, last.demoted, seconds)
        one.up_bytes_per_s = None if up is None else up * page
        one.down_bytes_per_s = None if down is None else down * page
    if all(one.up_bytes_per_s is None for one in data.groups):
        todo = "Linux 6.12 of Debian counts it by group"
        return Note(None, f"no pgpromote_success in {STAT}", todo)
    return Note(f"{CGROUP}/*/{STAT}")


def build(
    now: Snapshot,
    group: str | None,
    rows: int,
    before: Seen | None,
    paths: Sequence[str],
    known: Mapping[str, Usage] | None = None,
) -> tuple[Reply, Seen]:
    """The largest of some groups, and what they have now.

    ``known``: what other groups had some time ago.
    """
    source, machine = now.source, now.machine
    after = look(source, paths)
    if paths and not after.usage and not known:
        note = note_for(source, f"{CGROUP}{paths[0]}/{STAT}", "boot Linux 6.1 or later with NUMA")
        raise TierctlError(f"{STAT}: {note.state}", note.todo or "-", LACKING)
    usage = {**(known or {}), **after.usage}
    largest = heapq.nlargest(rows, usage, key=lambda path: sum(usage[path].by_node.values()))
    found = [groups.group(path, usage[path], machine) for path in largest]
    sources = {
        "groups": Note(f"{CGROUP}/*/{STAT}"),
        "tiers": machine.sources["tiers"],
        **_ages(now, found),
    }
    for one in found:
        one.limit, one.limited = groups.limit(source, one.path)
    data = Top(group, None, found, len(usage) - len(found))
    if before is None:
        sources["rates"] = SOON if source.live else ALONE
    else:
        note = _rates(data, before, after, machine.page)
        if note.origin is None:
            sources["rates"] = note
    if now.mechanisms.part("promote") is None:
        sources["limit"] = Note(None, f"absent: {LIMIT}", "needs a tiershift kernel")
    if now.mechanisms.movers("migrate_hot") or now.mechanisms.damon is None:
        sources["damon"] = Note(None, "groups do not count what DAMON moves", "")
        for one in found if now.mechanisms.damon else ():
            one.up_bytes_per_s = None
    return Reply("top", data, sources), after


def by_group(source: Source, name: str | None, rows: int, interval: float) -> Reply:
    group, paths = chosen(source, name)
    before: Seen | None = look(source, paths)
    try:
        source.wait(interval)
    except EOFError:
        before = None
    return build(Sampler(source).take(), group, rows, before, paths)[0]


def bar(fast: int | None, total: int | None) -> str:
    """Fast as #, slow as dots."""
    if fast is None or not total:
        return text.UNKNOWN if total else ""
    return text.bar([(fast / total, "#"), (1 - fast / total, ".")], BAR)


def draw(reply: Reply, style: text.Style) -> list[str]:
    data: Top = reply.data
    rows = [["GROUP", "TOTAL", "FAST", "fast #   slow .", "HOT-SLOW", "UP/s", "LIMIT"]]
    note = reply.sources["hot_on_slow"]
    for one in data.groups:
        hot = "-" if note.state == NO_SLOW else text.size(one.hot_on_slow)
        if note.estimate and one.hot_on_slow is not None:
            hot = f"{'>' if one.hot_unknown > one.hot_on_slow else '~'}{hot}"
        rows.append(
            [
                text.clip(one.name, NAME),
                text.size(one.total),
                text.share(one.fast, one.total) if one.total else "-",
                bar(one.fast, one.total),
                hot,
                text.size(one.up_bytes_per_s),
                {None: text.UNKNOWN, False: "-"}.get(one.limited) or text.size(one.limit),
            ]
        )
    if "limit" in reply.sources:
        rows = [row[:-1] for row in rows]
    lines = text.headed(rows, "<>><>>>"[: len(rows[0])], style, "No group.")
    if data.others:
        more = text.plural(data.others, "more group")
        lines.append(f"{more}: -n {data.others + len(data.groups)}")
    cold = sorted((one.cold_on_fast or 0, one.name) for one in data.groups)[: -NAMED - 1 : -1]
    words = ", ".join(f"{name} {text.size(size)}" for size, name in cold if size)
    lines += text.wrap(f"Cold on fast: {words}." if words else "")
    return lines + unknown(reply, sorted({*reply.sources} - {"limit"}))


# --- processes -------------------------------------------------------------------


def pids_of(source: Source, path: str | None) -> list[int]:
    """The processes of a group with those below, or all; an error if they are not known."""
    if path is not None:
        return groups.pids(source, path)
    names = source.listing("/proc")
    if names is None:
        raise groups.unknown_pids(source, "/proc")
    return [int(one) for one in names if one.isdecimal()]


def by_process(source: Source, name: str | None, rows: int, places: int = pages.PLACES) -> Reply:
    machine = nodes.read(source)
    path = groups.named(source, name) if name is not None else None
    pids = pids_of(source, path)
    largest = pages.resident(source, pids, rows)
    found = [pages.process(source, pid, machine, places) for pid in largest]
    sources = {
        "tiers": machine.sources["tiers"],
        "processes": Note("/proc/PID/pagemap", estimate=True),
    }
    refused = [one.why for one in found if one.why]
    if refused and len(refused) == len(found):
        sources["processes"] = Note(None, refused[0], "")
    return Reply("top-processes", Processes(path, found, len(pids) - len(found)), sources)


def draw_processes(reply: Reply, style: text.Style) -> list[str]:
    data: Processes = reply.data
    rows = [["PID", "NAME", "TOTAL", "FAST", "fast #   slow .", "SLOW", "+-", "SCAN"]]
    for one in data.processes:
        scan = text.UNKNOWN if one.tier_scan is None else str(one.tier_scan)
        rows.append(
            [
                str(one.pid),
                text.clip(one.name or text.UNKNOWN, NAME),
                text.size(one.total),
                text.share(one.fast, one.total),
                bar(one.fast, one.total),
                text.size(one.slow),
                text.size(one.error),
                {"0": "off"}.get(scan, scan),
            ]
        )
    if all(one.tier_scan is None for one in data.processes):  # this kernel has no TierScan
        rows = [row[:-1] for row in rows]
    lines = text.headed(rows, "><>><>>>"[: len(rows[0])], style, "No process.")
    if reply.sources["processes"].state == "ok":
        reasons = {f"? {one.pid}: {one.why}" for one in data.processes if one.why}
        lines += [text.clip(line, text.WIDTH) for line in sorted(reasons)]
    return lines + unknown(reply)


# --- command ---------------------------------------------------------------------


def command(args: argparse.Namespace, source: Source) -> int:
    if args.processes:
        if not source.live:
            todo = "capture with --explain PID, then: tierctl --from FILE explain PID"
            raise TierctlError("top -p needs a live machine", todo)
        reply = by_process(source, args.group, args.rows or PROCESSES)
        return show(reply, source, args, draw_processes)
    reply = by_group(source, args.group, args.rows or ROWS, args.interval or 1.0)
    return show(reply, source, args, draw)


def add_commands(commands: Any) -> None:
    one = commands.add_parser(
        "top",
        help="groups, or processes of a group, by tier",
        description="Control groups by tier, largest first; with -p processes, estimated from "
        "random page tables (95 % intervals).",
    )
    one.add_argument("group", nargs="?", metavar="GROUP", help="with the groups below")
    one.add_argument("-p", "--processes", action="store_true", help="processes (root)")
    one.add_argument("-n", dest="rows", type=text.number_from(1, 20_000), metavar="ROWS")
    one.add_argument("--interval", type=text.interval, metavar="SECONDS")
    one.set_defaults(func=command)
