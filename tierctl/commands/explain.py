# SPDX-License-Identifier: GPL-2.0
"""tierctl explain: why memory of a process, a group or a node is slow, and what to do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from tierctl.core import text
from tierctl.core.errors import FINDING, WELL, TierctlError
from tierctl.core.reply import Note, Reply, show, unknown
from tierctl.core.source import Source
from tierctl.explain import groups as explained_groups
from tierctl.explain import process
from tierctl.explain.scene import ACT, FINE, Explained, Reason, Scene
from tierctl.model.snapshot import Sampler
from tierctl.read import groups

TODO = "tierctl explain PID, tierctl explain GROUP, or tierctl explain node N"
MARK = 12  # characters for the number of what there is to do, or for a verdict
MOST_S = 10  # the longest wait for a visit, in seconds
NOTES = ("tiers", "visits", "cold")


def answer(
    source: Source, words: Sequence[str], deep: bool = False, seconds: float = MOST_S
) -> Reply:
    """The answer to a target: a pid, a group, or the words node and N."""
    first, *more = words
    number = " ".join(more) if first == "node" and more else None
    if number is not None and not (number.isascii() and number.isdigit() and len(number) < 6):
        raise TierctlError(f"{number} is no number of a node", TODO)
    if more and number is None:
        raise TierctlError(f"{len(words)} targets were given", TODO)
    found = Scene(Sampler(source).take())
    if number is not None:
        data = explained_groups.node(found, int(number), seconds)
    elif first.isascii() and first.isdigit() and len(first) < 10:
        data = process.process(found, int(first), deep, seconds)
    else:
        data = explained_groups.group(found, first, deep, seconds)
    notes = found.now.sources
    sources = {name: notes[name] for name in NOTES if name in notes}
    if data.target == "process":
        sources["slow"] = Note("/proc/PID/pagemap", estimate=data.places != data.all_places)
    elif data.slow or data.tier == "fast":
        sources["cold"] = notes["cold_on_fast"]
    return Reply("explain", data, sources, FINDING if data.actions else WELL)


def _span(data: Explained) -> str:
    """The interval of what is slow: +- 0.4G, 1.0G to 2.1G, or nothing."""
    low, size, high = data.slow_low or 0, data.slow or 0, data.slow_high or 0
    if low == high:
        return ""
    if abs(size - low - (high - size)) <= max(size - low, high - size) // 8:
        return f"+- {text.size(high - size)} "
    return f"({text.size(low)} to {text.size(high)}) "


def headline(data: Explained) -> list[str]:
    """What is explained, how large it is, and how much of it is slow."""
    if data.target == "process":
        group = f" ({groups.title(data.group)})" if data.group else ""
        name = f"{data.name} {data.pid}{group}"
    else:
        name = data.name if data.target == "group" else f"{data.name} ({data.tier or '?'})"
    used = " used" if data.target == "node" else ""
    line = f"{name}: {text.size(data.total)}{used}"
    if data.target == "node" and data.tier == "fast":
        return text.wrap(f"{line}, none of it slow")
    line += f", {text.size(data.slow)} {_span(data)}slow"
    if data.places is not None and data.places != data.all_places:
        line += f" ({text.count(data.places)} of {text.count(data.all_places)} places)"
    return text.wrap(line)


def _todo(reasons: Sequence[Reason]) -> dict[str, int]:
    """Numbers of what there is to do, things that help most first; what is fine needs nothing."""
    order = sorted(reasons, key=lambda one: (one.verdict != ACT, -one.bytes))
    todo = dict.fromkeys(one.todo for one in order if one.todo and one.verdict != FINE)
    return {words: number for number, words in enumerate(todo, 1)}


def draw(reply: Reply, style: text.Style) -> list[str]:
    data: Explained = reply.data
    head = headline(data)
    lines = [style.paint("head", head[0]), *head[1:]]
    todo = _todo(data.reasons)
    for one in sorted(data.reasons, key=lambda one: -one.bytes):
        size = text.size(one.bytes) if one.bytes else ""
        front = f"  {size:>7} {'at most' if one.at_most else '':<7} "
        number = todo.get(one.todo or "")
        what = one.what if number or not one.todo else f"{one.what} ({one.todo})"
        mark = str(number or one.verdict)
        width = text.WIDTH - MARK
        body = text.wrap(what, " " * len(front), front, width)
        colour = "warn" if one.verdict == ACT else "dim"
        body[0] = body[0].ljust(width) + " " * (MARK - len(mark)) + style.paint(colour, mark)
        lines += body
    if not data.reasons:
        lines.append("  Nothing of it is slow." if not data.slow else "  No reason is known.")
    for words, number in todo.items():
        lines += text.wrap(words, "   ", f"{number}  ")
    lines += text.wrap(f"Also looked at: {', '.join(data.looked_at)}.", "  ")
    for left in data.not_looked_at:
        lines += text.wrap(f"? not looked at: {left}", "  ")
    lines += unknown(reply, NOTES)
    return lines


def command(args: argparse.Namespace, source: Source) -> int:
    waits = source.live and args.seconds and args.target[0].isdigit()
    if waits and sys.stderr.isatty():
        print(f"Watches for at most {args.seconds} s ...", file=sys.stderr)
    reply = answer(source, args.target, args.deep, args.seconds)
    return show(reply, source, args, draw)


def add_commands(commands: Any) -> None:
    one = commands.add_parser(
        "explain",
        help="why memory is slow, in bytes by reason, and what to do",
        usage="tierctl explain [--seconds N] [--deep] PID | GROUP | node N",
        description="Says of a process, a group or a node why its memory lies on slow nodes.  "
        "Watches the visits of a process for at most 10 s.  Exit status 1: a setting of the "
        "machine keeps memory slow; a policy of the program does not count.",
    )
    one.add_argument("target", nargs="+", metavar="PID | GROUP | node N")
    one.add_argument(
        "--seconds",
        type=text.number_from(0, MOST_S),
        default=MOST_S,
        metavar="N",
        help="watch for so long (10)",
    )
    one.add_argument(
        "--deep",
        action="store_true",
        help="also read numa_maps of more than 1 GiB of memory, for memory policies; "
        "stops a process meanwhile for tens of ms a GiB",
    )
    one.set_defaults(func=command)
