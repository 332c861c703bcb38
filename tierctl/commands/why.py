# SPDX-License-Identifier: GPL-2.0
"""tierctl why node N: the distance, its source and its formula, and what would change it."""

from __future__ import annotations

import argparse
from dataclasses import astuple, dataclass
from typing import Any

from tierctl.core import text
from tierctl.core.errors import LACKING, TierctlError
from tierctl.core.parse import as_ranges
from tierctl.core.reply import Reply, show
from tierctl.core.source import Source
from tierctl.read import distance, mechanisms, nodes
from tierctl.read.distance import CHUNK_BITS, DAX, DRAM, Reference
from tierctl.read.nodes import Machine, Node

TARGETS = "dmesg | grep 'Demotion targets'"
HOW = {"kernel": "", "formula": ", computed here", "default": ", taken from the tier"}


@dataclass
class Why:
    """Why a node is in its tier."""

    node: Node
    reference: Node | None  # whose figures the kernel compares with
    result: int | None  # the distance that mt_perf_to_adistance() computes; None: it does not
    why_not: str | None
    fast_up_to: int | None  # tiers with this number or a smaller one are fast
    tiers: dict[int, list[int]] | None
    demotes: bool | None
    change: str  # what would put the node into another tier


def _why_not(node: Node, base: Reference) -> str:
    if node.access is None:
        return f"the firmware gives no figures of node {node.node}"
    if base.mismatch is not None:
        return (
            f"DRAM nodes {base.node} and {base.mismatch} differ by more than 10 %, so the kernel "
            "uses no figures"
        )
    if base.empty is not None and node.origin != "cdat":
        return f"DRAM node {base.empty} has no figures, so the kernel does not use those of HMAT"
    return "no node with CPUs has figures to compare with" if base.node is None else ""


def _change(machine: Machine, node: Node, why_not: str | None) -> str:
    top = machine.top
    if node.tier == "fast" and node.has_cpu and top is not None:
        if node.tier_number == top:
            return "Nothing: the slowest tier with CPUs is fast, and this tier has CPUs."
        return f"Nothing: tier {top} is slower and has CPUs, so all tiers up to it are fast."
    if node.tier == "fast":
        return (
            "The kernel must learn that the node is slow: by ACPI HMAT or CXL CDAT of the "
            "firmware, or by the driver kmem, which takes a default distance of "
            f"{DAX} (tier {distance.tier_of(DAX)}) for memory without figures."
        )
    if why_not:
        return f"Figures of the firmware: now there are none ({why_not})."
    return (
        "Other figures of the firmware: a new tier begins at each multiple of 128, and "
        f"distances below {((top or 0) + 1) << CHUNK_BITS} are fast."
    )


def answer(source: Source, wanted: int) -> Reply:
    """Why a node is in its tier."""
    machine = nodes.read(source)
    if not machine.nodes:
        note = machine.sources["nodes"]
        raise TierctlError(f"there are no nodes ({note.state})", note.todo or "-", LACKING)
    base = distance.fill(source, machine)
    node = machine.find(wanted)
    if node is None:
        known = as_ranges(one.node for one in machine.nodes)
        raise TierctlError(f"node {wanted} does not exist, or has no memory", f"nodes: {known}")
    working = mechanisms.read(source)
    first = machine.find(base.node) if base.node is not None else None
    why_not, result = _why_not(node, base), None
    if not why_not and node.access and first and first.access:
        result = distance.formula(node.access, first.access)
        why_not = "" if result is not None else "a latency or a bandwidth is 0"
    change = _change(machine, node, why_not)
    data = Why(
        node, first, result, why_not or None, machine.top, machine.tiers, working.demotes(), change
    )
    return Reply("why", data, machine.sources | working.sources)


def _origin(node: Node) -> str:
    words = {
        "cdat": "figures of the device (CXL CDAT)",
        "hmat": "figures of the firmware (ACPI HMAT)",
        "firmware": "figures of the firmware",
        "dram": "the default for memory of which the kernel knows nothing else: DRAM",
        "dax": f"the default of the driver kmem for {node.device or 'a dax device'}",
    }
    return words.get(node.origin or "", "an unknown source")


def _distance(node: Node) -> str:
    if node.distance is not None:
        return (
            f"Distance {node.distance}{HOW[node.distance_from or 'kernel']}, from {_origin(node)}; "
            f"{node.distance} / 128 = tier {distance.tier_of(node.distance)}."
        )
    span = "nothing"
    if node.tier_number is not None:
        span = f"{node.tier_number << CHUNK_BITS} to {((node.tier_number + 1) << CHUNK_BITS) - 1}"
    return f"Its distance is not known; the number of the tier says {span}."


def _formula(data: Why) -> list[str]:
    first, node = data.reference, data.node
    if data.result is None or not node.access or not first or not first.access:
        return text.wrap(f"The formula is not used: {data.why_not}.", "  ")
    rows = [["", "read", "write", "read", "write"]]
    sums = []
    for label, figures in (
        (f"node {node.node}", astuple(node.access)),
        (f"node {first.node} (reference)", astuple(first.access)),
    ):
        units = ("ns", "ns", "MB/s", "MB/s")
        rows.append([label, *(f"{n} {unit}" for n, unit in zip(figures, units, strict=True))])
        sums.append((sum(figures[:2]), sum(figures[2:])))
    (latency, bandwidth), (base_latency, base_bandwidth) = sums
    return [
        *(f"  {line}" for line in text.table(rows, "<>>>>")),
        f"  {DRAM} x {latency} / {base_latency} x {base_bandwidth} / {bandwidth} = {data.result}"
        "   (each division drops the rest)",
    ]


def _fast(data: Why) -> str:
    node = data.node
    if node.tier is None or data.fast_up_to is None:
        return "Which tiers are fast is not known."
    cpus = "has CPUs" if node.has_cpu else "has no CPU"
    if node.tier_number is None:
        return f"Node {node.node} {cpus}, and is in no tier; the kernel takes it as fast."
    return (
        f"Node {node.node} {cpus}.  Tier {data.fast_up_to} is the slowest one with CPUs: tiers up "
        f"to it are fast, and tier {node.tier_number} is {node.tier}."
    )


def _targets(data: Why) -> str:
    node = data.node
    slowest = data.tiers and node.tier_number == max(data.tiers)
    if slowest or (node.targets is not None and not node.targets):
        return "No slower node: reclaim swaps or drops its pages."
    state = {True: "", False: " (demotion is off now)", None: " (whether demotion is on: ?)"}
    if node.targets is None:
        return f"Only the kernel log tells where reclaim demotes to{state[data.demotes]}: {TARGETS}"
    return f"Reclaim demotes its pages to node {as_ranges(node.targets)}{state[data.demotes]}."


def draw(reply: Reply, style: text.Style) -> list[str]:
    """The screen."""
    data: Why = reply.data
    node = data.node
    tier = "?" if node.tier_number is None else node.tier_number
    head = f"node {node.node}: {node.tier or '?'}, tier {tier}, {text.size(node.total)}"
    lines = [style.paint("head", head), *text.wrap(_distance(node), "  ", "  "), *_formula(data)]
    for words in (_fast(data), _targets(data)):
        lines += text.wrap(words, "  ", "  ")
    lines.append(style.paint("head", "WHAT WOULD CHANGE IT"))
    return lines + text.wrap(data.change, "  ", "  ")


def command(args: argparse.Namespace, source: Source) -> int:
    if args.what != "node":
        raise TierctlError(f"why {args.what} is unknown", "try: tierctl why node 0")
    return show(answer(source, args.number), source, args, draw)


def add_commands(commands: Any) -> None:
    one = commands.add_parser("why", help="why a node is in its tier, and what would change it")
    one.add_argument("what", metavar="node")
    one.add_argument("number", type=int, metavar="N")
    one.set_defaults(func=command)
