# SPDX-License-Identifier: GPL-2.0
"""tierctl why node N: the distance, its source and its formula, and what would change it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from tierctl.core import text
from tierctl.core.errors import FINDING, LACKING, USAGE, TierctlError
from tierctl.core.parse import as_ranges
from tierctl.core.reply import Note, Reply, show
from tierctl.core.source import Source
from tierctl.read import distance, mechanisms, nodes
from tierctl.read.distance import DAX, DRAM, Reference
from tierctl.read.nodes import Access, Machine, Node

TARGETS = "dmesg | grep 'Demotion targets'"


@dataclass
class Formula:
    """How mt_perf_to_adistance() computes the distance; None: it does not."""

    applies: bool
    node: Access | None
    reference_node: int | None
    reference: Access | None
    result: int | None
    why_not: str | None


@dataclass
class Why:
    """Why a node is in its tier."""

    node: Node
    formula: Formula
    agrees: bool | None  # the kernel's distance is the formula's, or the default
    fast_up_to: int | None  # tiers with this number or a smaller one are fast
    tiers: dict[int, list[int]] | None
    demotes: bool | None
    changes: list[str]


def _why_not(node: Node, base: Reference) -> str | None:
    if node.access is None:
        return f"the firmware gives no figures of node {node.node}"
    if base.mismatch is not None:
        return (
            f"DRAM nodes {base.node} and {base.mismatch} differ by more than 10 %, so the kernel "
            "uses no figures"
        )
    if base.empty is not None and node.origin != "cdat":
        return f"DRAM node {base.empty} has no figures, so the kernel does not use those of HMAT"
    if base.node is None:
        return "no node with CPUs has figures to compare with"
    return None


def formula(machine: Machine, node: Node, base: Reference) -> Formula:
    """The formula with the figures of this machine."""
    first = machine.find(base.node) if base.node is not None else None
    reason = _why_not(node, base)
    reference = first.access if first else None
    result = None
    if reason is None and node.access and reference:
        result = distance.formula(node.access, reference)
        reason = None if result is not None else "a latency or a bandwidth is 0"
    return Formula(result is not None, node.access, base.node, reference, result, reason)


def _agrees(node: Node, found: Formula) -> bool | None:
    if node.distance is None or node.distance_from != "kernel":
        return None
    if found.result is not None and node.origin in ("hmat", "cdat", "firmware"):
        return node.distance == found.result
    defaults = {"dram": DRAM, "dax": DAX}
    return node.distance == defaults[node.origin] if node.origin in defaults else None


def changes(machine: Machine, node: Node, found: Formula) -> list[str]:
    """What would put the node into another tier."""
    lines = []
    if machine.top is not None and node.tier == "fast" and node.has_cpu:
        lines.append(
            "Nothing: the slowest tier with CPUs is fast, and this tier has CPUs."
            if node.tier_number == machine.top
            else f"Nothing: tier {machine.top} is slower and has CPUs, so all tiers up to it are "
            "fast."
        )
    elif node.tier == "fast":
        lines.append(
            "The kernel must learn that the node is slow: by ACPI HMAT or CXL CDAT of the "
            "firmware, or by the driver kmem, which takes a default distance of "
            f"{DAX} (tier {distance.tier_of(DAX)}) for memory without figures."
        )
    elif found.applies:
        lines.append(
            "Other figures of the firmware: a new tier begins at each multiple of 128, and "
            f"distances below {((machine.top or 0) + 1) << distance.CHUNK_BITS} are fast."
        )
    else:
        lines.append(f"Figures of the firmware: now there are none ({found.why_not}).")
    return lines


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
    found = formula(machine, node, base)
    agrees = _agrees(node, found)
    data = Why(
        node,
        found,
        agrees,
        machine.top,
        machine.tiers,
        working.demotes(),
        changes(machine, node, found),
    )
    sources = machine.sources | {"demotes": working.sources["demotion_enabled"]}
    if node.targets is None:
        sources["targets"] = Note(None, "only the kernel log has it", TARGETS)
    return Reply("why", data, sources, FINDING if agrees is False else 0)


# --- text ------------------------------------------------------------------------


def _origin(node: Node) -> str:
    words = {
        "cdat": "figures of the device (CXL CDAT)",
        "hmat": "figures of the firmware (ACPI HMAT)",
        "firmware": "figures of the firmware",
        "dram": "the default for memory of which the kernel knows nothing else: DRAM",
        "dax": f"the default of the driver kmem for {node.device or 'a dax device'}",
    }
    return words.get(node.origin or "", "an unknown source")


def _figures(label: str, found: Access) -> list[str]:
    return [
        label,
        f"{found.read_latency} ns",
        f"{found.write_latency} ns",
        f"{found.read_bandwidth} MB/s",
        f"{found.write_bandwidth} MB/s",
    ]


def _formula(data: Why) -> list[str]:
    found, node = data.formula, data.node
    if not found.applies or not found.node or not found.reference:
        return text.wrap(f"The formula is not used: {found.why_not}.", "  ")
    rows = [
        ["", "read", "write", "read", "write"],
        _figures(f"node {node.node}", found.node),
        _figures(f"node {found.reference_node} (reference)", found.reference),
    ]
    latency = found.node.read_latency + found.node.write_latency
    bandwidth = found.node.read_bandwidth + found.node.write_bandwidth
    base_latency = found.reference.read_latency + found.reference.write_latency
    base_bandwidth = found.reference.read_bandwidth + found.reference.write_bandwidth
    lines = [f"  {line}" for line in text.table(rows, "<>>>>")]
    lines.append(
        f"  {DRAM} x {latency} / {base_latency} x {base_bandwidth} / {bandwidth} = {found.result}"
        "   (each division drops the rest)"
    )
    if data.agrees is False:
        lines += text.wrap(
            f"! The kernel has {node.distance}: it has read other figures than access1 shows now.",
            "  ",
        )
    return lines


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
    lines = [style.paint("head", head)]
    if node.distance is None:
        words = f"Its distance is not known; the number of the tier says {_span(node)}."
        lines += text.wrap(words, "  ", "  ")
    else:
        how = {"kernel": "", "formula": ", computed here", "default": ", taken from the tier"}
        words = (
            f"Distance {node.distance}{how[node.distance_from or 'kernel']}, from {_origin(node)}; "
            f"{node.distance} / 128 = tier {distance.tier_of(node.distance)}."
        )
        lines += text.wrap(words, "  ", "  ")
    lines += _formula(data)
    lines += text.wrap(_fast(data), "  ", "  ")
    lines += text.wrap(_targets(data), "  ", "  ")
    lines.append(style.paint("head", "WHAT WOULD CHANGE IT"))
    for one in data.changes:
        lines += text.wrap(one, "  ", "  ")
    return lines


def _span(node: Node) -> str:
    if node.tier_number is None:
        return "nothing"
    low = node.tier_number << distance.CHUNK_BITS
    return f"{low} to {low + (1 << distance.CHUNK_BITS) - 1}"


def command(args: argparse.Namespace, source: Source) -> int:
    """Print why; 1 if the kernel's distance is not what its formula gives."""
    if args.what != "node":
        raise TierctlError(f"why {args.what} is unknown", "try: tierctl why node 0", USAGE)
    return show(answer(source, args.number), source, args, draw)


SCHEMAS = {"why": Why}  # by kind of answer


def add_commands(commands: Any) -> None:
    """The sub-command why."""
    one = commands.add_parser("why", help="why a node is in its tier, and what would change it")
    one.add_argument("what", metavar="node")
    one.add_argument("number", type=int, metavar="N")
    one.set_defaults(func=command)
