# SPDX-License-Identifier: GPL-2.0
"""tierctl status: is the hot memory on the fast tier, and what does that cost?"""

from __future__ import annotations

import argparse
from typing import Any

from tierctl.change.current import current
from tierctl.checks import QUICK
from tierctl.checks.check import ERROR, INFO, run
from tierctl.commands import doctor
from tierctl.core import text
from tierctl.core.errors import FINDING, WELL
from tierctl.core.reply import Reply, show, unknown
from tierctl.core.source import Source
from tierctl.model.snapshot import FOUND, Snapshot, twice
from tierctl.model.status import Status, Tiering, Verified, Worth, of
from tierctl.read.counters import Flow, Moves
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
# Figures of the screen, in its order
EXPLAINED = ("tiers", "hot_on_slow", "cold_on_fast", "flow", "damon", "cost")


def answer(now: Snapshot) -> Reply:
    """The answer of status; 1 if the quick checks find an error."""
    report = run(QUICK, now)
    code = FINDING if any(one.severity == ERROR for one in report.findings) else WELL
    return Reply("status", of(now, current(now.source), report.findings), now.sources, code)


# --- text ------------------------------------------------------------------------


def headline(found: Tiering, nodes: list[Node]) -> str:
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
    if found.error:
        return "profile ?"
    if not found.profile:
        return "no profile"
    state = {True: "verified", False: f"{found.differs} differ", None: "not verified"}
    return f"profile {found.profile}, {state[found.verified]}"


def why(node: Node) -> str:
    if node.tier_number is None:
        return "in no tier" if node.tier else text.UNKNOWN
    origin = ORIGINS.get(node.origin or "", text.UNKNOWN)
    if node.distance is None:
        return f"tier {node.tier_number}, distance {text.UNKNOWN}"
    number = f"{node.distance}" if node.distance_from == "kernel" else f"~{node.distance}"
    tail = f", tier {node.tier_number}" if node.distance != DRAM else ""
    return f"{origin}: distance {number}{tail}"


def node_lines(nodes: list[Node], style: text.Style) -> list[str]:
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
    return text.headed(rows, "<>>>>><", style, "No NUMA node.")


def _hot(found: Worth, nodes: list[Node]) -> str:
    part = found.hot_on_slow
    if nodes and all(one.tier == "fast" for one in nodes):
        return "hot on slow - (no slow node)"
    if part.bytes is None:
        return f"hot on slow {text.UNKNOWN}"
    if found.hot_by == FOUND:
        return f"hot on slow {text.size(part.bytes)} (found, waits)"
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


def _moves(word: str, moves: Moves, total: float | None) -> str:
    names = [BY[by] for by, value in moves.items() if value]
    if total is None:
        unknown = [BY[by] for by, value in moves.items() if value is None]
        part = sum(value or 0 for value in moves.values())
        head = f"{text.rate(part)} + " if part else ""
        return f"{word} {head}{text.UNKNOWN} ({', '.join(unknown) or 'not counted'})"
    tail = f" ({', '.join(names)})" if names else ""
    return f"{word} {text.rate(total)}{tail}"


def flow_words(found: Flow | None) -> str:
    if found is None:
        return f"up {text.UNKNOWN}   down {text.UNKNOWN}"
    words = [
        _moves("up", found.up, found.up_bytes_per_s),
        _moves("down", found.down, found.down_bytes_per_s),
    ]
    if found.again_share is not None:
        words.append(f"back and forth {100 * found.again_share:.1f} %")
    if found.up_bytes is not None or found.down_bytes is not None:
        sizes = text.size(found.up_bytes), text.size(found.down_bytes)
        words.append("since boot {} up, {} down".format(*sizes))
    return "   ".join(words)


def cost_words(cost: Cost | None, flow: Flow | None) -> str:
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


def figure_lines(data: Status, style: text.Style, width: int = text.WIDTH) -> list[str]:
    lines = []
    for label, words in (
        ("WORTH", [_hot(data.worth, data.nodes), _cold(data.worth.cold_on_fast)]),
        ("FLOW", [flow_words(data.flow)]),
        ("COST", [cost_words(data.cost, data.flow)]),
    ):
        solid = "   ".join(words)
        if width >= text.WIDTH:  # break between figures only
            solid = solid.replace(" ", "\0").replace("\0\0\0", "   ")
        first, *rest = text.wrap(solid, " " * 7, width=width)
        body = [style.paint("head", label.ljust(7)) + first[7:], *rest]
        lines += [line.replace("\0", " ") for line in body]
    return lines


def draw(reply: Reply, style: text.Style) -> list[str]:
    data: Status = reply.data
    lines = head_lines(data, style)
    lines += node_lines(data.nodes, style)
    lines += figure_lines(data, style)
    shown = [one for one in data.findings if one.severity != INFO][:FINDINGS_SHOWN]
    for one in shown:
        lines += doctor.draw_finding(one, style)
    more = len(data.findings) - len(shown)
    if more:
        lines.append(f"{text.plural(more, 'more finding')}: tierctl doctor")
    lines += unknown(reply, EXPLAINED)
    return lines


# --- command ---------------------------------------------------------------------


def command(args: argparse.Namespace, source: Source) -> int:
    return show(answer(twice(source, args.interval or 1.0)), source, args, draw)


def add_commands(commands: Any) -> None:
    one = commands.add_parser(
        "status",
        help="tiers, what is hot or cold on the wrong one, flow, cost, findings",
        description="Exit status 1: a check has found an error.",
    )
    one.add_argument("--interval", type=text.interval, metavar="SECONDS")
    one.set_defaults(func=command)
