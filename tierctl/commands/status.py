# SPDX-License-Identifier: GPL-2.0
"""tierctl status: is the hot memory on the fast tier, and what does that cost?"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tierctl.change.current import current
from tierctl.checks.all import QUICK
from tierctl.checks.check import ERROR, INFO, run
from tierctl.commands import doctor
from tierctl.core import text
from tierctl.core.errors import FINDING, WELL
from tierctl.core.pace import Pace, cpu_s, say
from tierctl.core.reply import Reply, show, unknown
from tierctl.core.source import Source
from tierctl.model.snapshot import FOUND, Sampler, Snapshot, twice
from tierctl.model.status import Status, Tiering, Verified, Worth, of
from tierctl.read.counters import Flow, Move
from tierctl.read.distance import DRAM
from tierctl.read.lru import Part
from tierctl.read.nodes import Node
from tierctl.read.threads import Cost

ORIGINS = {
    "cdat": "CXL (CDAT)",
    "hmat": "HMAT",
    "firmware": "firmware",
    "dram": "default DRAM",
    "dax": "dax default",
    "unknown": "unknown",
}
BY = {
    "promote": "kpromoted",
    "numa_balancing": "NUMA balancing",
    "damon": "DAMON",
    "kswapd": "kswapd",
    "direct": "direct",
    "khugepaged": "khugepaged",
}
FINDINGS_SHOWN = 4
LRU_EVERY_S = 10.0  # with -w, as its text is long
SHARE = 0.05  # of a CPU, at most, with -w
USUAL_S = 2.0
CLEAR = "\x1b[H\x1b[J"
# Figures of the screen, in its order
EXPLAINED = (
    "tiers",
    "watermarks",
    "hot_on_slow",
    "cold_on_fast",
    "flow",
    "damon",
    "cost",
)


def answer(now: Snapshot) -> Reply:
    """The answer of status; 1 if the quick checks find an error."""
    report = run(QUICK, now)
    code = FINDING if any(one.severity == ERROR for one in report.findings) else WELL
    return Reply("status", of(now, current(now.source), report), now.sources, code)


def collect(source: Source, interval: float) -> Reply:
    """The same from two samples."""
    return answer(twice(source, interval))


# --- text ------------------------------------------------------------------------


def headline(found: Tiering, nodes: list[Node]) -> str:
    """Which mechanism tiers, in some words."""
    if nodes and all(one.tier == "fast" for one in nodes):
        return "No slow memory"
    if found.state == "blocked":
        return "Tiering BLOCKED (tier=off)"
    names = {"promote": "ON", "numa_balancing": "by NUMA balancing 2", "damon": "by DAMON"}
    if found.by:
        words = [names[one] for one in found.by]
        if found.state in ("waiting", "partly"):
            words[0] += f" ({found.state})"
        return "Tiering " + " and ".join(words)
    if found.on is None:
        return "Tiering ?"
    if found.state in ("waiting", "partly", "on"):
        return f"Tiering {found.state.upper()}, no promotion"
    return "Tiering OFF (NUMA balancing 1)" if found.numa_balancing == 1 else "Tiering OFF"


def profile_words(found: Verified) -> str:
    """The profile, and whether it is in force."""
    if found.error:
        return "profile ?"
    if not found.profile:
        return "no profile"
    state = {True: "verified", False: f"{found.differs} differ", None: "not verified"}
    return f"profile {found.profile}, {state[found.verified]}"


def why(node: Node) -> str:
    """Why a node is in its tier, in some words."""
    if node.tier_number is None:
        return "in no tier" if node.tier else text.UNKNOWN
    origin = ORIGINS.get(node.origin or "", text.UNKNOWN)
    if node.distance is None:
        return f"tier {node.tier_number}, distance {text.UNKNOWN}"
    number = f"{node.distance}" if node.distance_from == "kernel" else f"~{node.distance}"
    tail = f", tier {node.tier_number}" if node.distance != DRAM else ""
    return f"{origin}: distance {number}{tail}"


def node_rows(nodes: list[Node]) -> list[list[str]]:
    """The table of nodes."""
    rows = [["TIER", "NODE", "SIZE", "USED", "FREE", "LATENCY", "WHY IT IS IN THIS TIER"]]
    order = {"fast": 0, "slow": 1, None: 2}
    for one in sorted(nodes, key=lambda each: (order[each.tier], each.tier_number or 0, each.node)):
        latency = f"{one.access.read_latency} ns" if one.access else text.UNKNOWN
        rows.append(
            [
                one.tier or text.UNKNOWN,
                str(one.node),
                text.size(one.total),
                text.share(one.used, one.total),
                text.size(one.free),
                latency,
                why(one),
            ]
        )
    return rows


def _hot(found: Worth, nodes: list[Node]) -> str:
    part = found.hot_on_slow
    if nodes and all(one.tier == "fast" for one in nodes):
        return "hot on slow - (no slow node)"
    if part.bytes is None:
        return f"hot on slow {text.UNKNOWN}"
    if found.hot_by == FOUND:
        words = f"hot on slow {text.size(part.bytes)} (found, waits)"
        more = (found.used_on_slow or 0) > part.bytes
        return f"{words}, ~{text.size(found.used_on_slow)} used or new in 60 s" if more else words
    words = f"hot on slow ~{text.size(part.bytes)} (used or new in 60 s)"
    if part.unknown_bytes:
        words += f", {text.size(part.unknown_bytes)} {text.UNKNOWN}"
    return words


def _cold(part: Part) -> str:
    if part.bytes is None:
        return f"cold on fast {text.UNKNOWN}"
    words = f"cold on fast {text.size(part.bytes)} (idle > 60 s"
    if part.looked_s is not None and part.looked_s >= 10:
        words += f", seen {text.seconds(part.looked_s)} ago"
    words += ")"
    if part.unknown_bytes:
        words += f", {text.size(part.unknown_bytes)} {text.UNKNOWN}"
    return words


def _moves(word: str, moves: list[Move], total: float | None) -> str:
    known = [one for one in moves if one.bytes_per_s]
    names = [BY[one.by] for one in known]
    unknown = [BY[one.by] for one in moves if one.bytes_per_s is None]
    if total is None:
        part = sum(one.bytes_per_s or 0 for one in known)
        head = f"{text.rate(part)} + " if known else ""
        return f"{word} {head}{text.UNKNOWN} ({', '.join(unknown) or 'not counted'})"
    tail = f" ({', '.join(names)})" if names else ""
    return f"{word} {text.rate(total)}{tail}"


def flow_words(found: Flow | None) -> str:
    """The line FLOW."""
    if found is None:
        return f"up {text.UNKNOWN}   down {text.UNKNOWN}"
    words = [
        _moves("up", found.up, found.up_bytes_per_s),
        _moves("down", found.down, found.down_bytes_per_s),
    ]
    if found.again_share is not None:
        words.append(f"back and forth {100 * found.again_share:.1f} %")
    return "   ".join(words)


def cost_words(cost: Cost | None, flow: Flow | None) -> str:
    """The line COST, in CPUs."""
    if cost is None:
        words = [f"kswapd {text.UNKNOWN}"]
    else:
        words = [
            f"{name} {text.fraction(cost.cpu[name])}"
            for name in ("scan", "promote", "kswapd", "damon")
            if name == "kswapd" or cost.threads[name] or cost.cpu[name] is None
        ]
    faults = flow.hint_faults_per_s if flow else None
    return f"{'   '.join(words)} CPU   hint faults {text.count(faults)}/s"


def head_lines(data: Status, style: text.Style, width: int = text.WIDTH) -> list[str]:
    """The first line, or two: tiering, profile, kernel."""
    good = "good" if data.tiering.on else "warn"
    head = [
        headline(data.tiering, data.nodes),
        profile_words(data.profile),
        data.kernel or text.UNKNOWN,
    ]
    if data.uptime_s is not None:
        head.append(f"up {text.seconds(data.uptime_s)}")
    plain = "   ".join(head)
    if len(plain) <= width:
        return [plain.replace(head[0], style.paint(good, head[0]), 1)]
    return [style.paint(good, head[0]) + "   " + head[1], "   ".join(head[2:])]


def table_lines(rows: list[list[str]], align: str, style: text.Style) -> list[str]:
    """The table of nodes."""
    found = text.table(rows, align) if rows[1:] else ["No NUMA node."]
    return [style.paint("head", found[0]), *(text.clip(row, text.WIDTH) for row in found[1:])]


def figure_lines(data: Status, style: text.Style, width: int = text.WIDTH) -> list[str]:
    """WORTH, FLOW and COST."""
    lines = []
    for label, words in (
        ("WORTH", [_hot(data.worth, data.nodes), _cold(data.worth.cold_on_fast)]),
        ("FLOW", [flow_words(data.flow)]),
        ("COST", [cost_words(data.cost, data.flow)]),
    ):
        solid = "   ".join(words)
        if width >= text.WIDTH:  # break between figures only
            solid = solid.replace(" ", "\0").replace("\0\0\0", "   ")
        body = text.wrap(solid, " " * 7, width=width)
        lines += [line.replace("\0", " ") for line in _labelled(label, body, style)]
    return lines


def draw(reply: Reply, style: text.Style) -> list[str]:
    """The screen."""
    data: Status = reply.data
    lines = head_lines(data, style)
    lines += table_lines(node_rows(data.nodes), "<>>>>><", style)
    lines += figure_lines(data, style)
    shown = [one for one in data.findings if one.severity != INFO][:FINDINGS_SHOWN]
    for one in shown:
        lines += doctor.draw_finding(one, style)
    more = len(data.findings) - len(shown)
    if more:
        lines.append(f"{more} more finding{'s' if more > 1 else ''}: tierctl doctor")
    lines += unknown(reply, EXPLAINED)
    return lines


def _labelled(label: str, body: list[str], style: text.Style) -> list[str]:
    return [style.paint("head", label.ljust(7)) + body[0][7:], *body[1:]] if body else []


# --- command ---------------------------------------------------------------------


def _follow(args: argparse.Namespace, source: Source) -> int:
    """Print the screen again and again, from the second sample on, until a bundle ends."""
    sampler = Sampler(source, LRU_EVERY_S if source.live else 0.0)
    pace = Pace(args.watch or args.interval or USUAL_S, SHARE)
    slower: list[str] = []
    code, first = WELL, True

    def drawn(reply: Reply, style: text.Style) -> list[str]:
        return draw(reply, style) + slower

    while True:
        began = cpu_s()
        reply = answer(sampler.take())
        if not first:
            if sys.stdout.isatty() and not args.json:
                print(CLEAR, end="")
            code = show(reply, source, args, drawn)
            sys.stdout.flush()
        if pace.spent(cpu_s() - began):
            slower = [f"A sample costs more than 5 % of a CPU: each {pace.interval:g} s now."]
            if args.json:
                say(slower[0])
        try:
            source.wait(min(pace.interval, 1.0) if first else pace.interval)
        except EOFError:
            return show(reply, source, args, drawn) if first else code
        first = False


def command(args: argparse.Namespace, source: Source) -> int:
    """Print the screen once, or again and again."""
    if args.watch is not None:
        return _follow(args, source)
    return show(collect(source, args.interval or 1.0), source, args, draw)


SCHEMAS = {"status": Status}  # by kind of answer


def add_commands(commands: Any) -> None:
    """The sub-command status."""
    one = commands.add_parser(
        "status",
        help="tiers, what is hot or cold on the wrong one, flow, cost, findings",
        description="Exit status 1: a check has found an error.",
    )
    one.add_argument(
        "-w",
        "--watch",
        nargs="?",
        type=text.interval,
        const=0.0,
        metavar="SECONDS",
        help="again and again, each 2 s or so many seconds, until Ctrl-C",
    )
    one.add_argument("--interval", type=text.interval, metavar="SECONDS")
    one.set_defaults(func=command)
