# SPDX-License-Identifier: GPL-2.0
"""The abstract distance of a node, computed as the kernel computes it.

mm/memory-tiers.c, drivers/acpi/numa/hmat.c, drivers/cxl/core/region.c, drivers/dax/kmem.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tierctl.core.parse import number, ranges
from tierctl.core.paths import TIER
from tierctl.core.reply import Note, note_for
from tierctl.core.source import Source
from tierctl.read.nodes import FIGURES, Access, Machine, Node

CHUNK_BITS = 7  # MEMTIER_CHUNK_BITS
DRAM = (4 << CHUNK_BITS) + (1 << CHUNK_BITS >> 1)  # MEMTIER_ADISTANCE_DRAM
DAX = 5 * DRAM  # MEMTIER_DEFAULT_DAX_ADISTANCE
DAXES = "/sys/bus/dax/devices"
KMEM = "/sys/bus/dax/drivers/kmem"
CXL = "/sys/bus/cxl/devices"


@dataclass(frozen=True)
class Reference:
    """What mt_set_default_dram_perf() makes of the DRAM nodes."""

    node: int | None  # whose figures are the base
    mismatch: int | None = None  # a DRAM node that differs by more than 10 %: no formula at all
    empty: int | None = None  # a DRAM node without figures: HMAT registers no formula


def _usable(access: Access) -> bool:
    latency = access.read_latency + access.write_latency
    return latency > 0 and access.read_bandwidth + access.write_bandwidth > 0


def reference(nodes: Sequence[Node]) -> Reference:
    """The base of the formula: the first node with memory, CPUs and figures."""
    base: Node | None = None
    for one in nodes:
        if not one.has_cpu or one.access is None:
            continue
        if not _usable(one.access):
            return Reference(base.node if base else None, empty=one.node)
        if base is None or base.access is None:
            base = one
            continue
        for name in FIGURES:
            first = getattr(base.access, name)
            if abs(getattr(one.access, name) - first) * 10 > first:
                return Reference(base.node, mismatch=one.node)
    return Reference(base.node if base else None)


def formula(access: Access, base: Access) -> int | None:
    """mt_perf_to_adistance(): each division drops the remainder; None if it gives an error."""
    if not _usable(access) or not _usable(base):
        return None
    latency = DRAM * (access.read_latency + access.write_latency)
    scaled = latency // (base.read_latency + base.write_latency)
    scaled *= base.read_bandwidth + base.write_bandwidth
    return scaled // (access.read_bandwidth + access.write_bandwidth)


def tier_of(distance: int) -> int:
    return distance >> CHUNK_BITS


def devices(source: Source) -> dict[int, str]:
    """Devices of the driver kmem by node: the memory of the node comes from them."""
    found: dict[int, str] = {}
    for name in source.listing(KMEM) or []:
        node = number(source.get(f"{DAXES}/{name}/target_node"))
        if name.startswith("dax") and node is not None:
            found.setdefault(node, name)
    return found


def cxl_nodes(source: Source) -> set[int]:
    places = [CXL]
    for kind in ("region", "dax_region", "dax"):
        names = [(place, name) for place in places for name in source.listing(place) or []]
        places = [f"{place}/{name}" for place, name in names if name.startswith(kind)]
    found = [number(source.get(f"{place}/target_node")) for place in places]
    return {node for node in found if node is not None}


def _kernel(source: Source, node: Node) -> bool:
    place = f"{TIER}/node{node.node}"
    node.distance = number(source.get(f"{place}/distance"))
    if node.distance is None:
        return False
    if node.distance == 0:  # memory_tier_describe() says so of a node without a memory type
        node.distance, node.origin = None, "unknown"
        return True
    node.distance_from = "kernel"
    node.origin = source.get(f"{place}/source")
    node.targets = ranges(source.get(f"{place}/targets"))
    return True


def _guess(node: Node, base: Reference, machine: Machine) -> None:
    """Distance and origin where the kernel does not tell them, if the tier agrees."""
    first = machine.find(base.node) if base.node is not None else None
    found: int | None = None
    if first and first.access and node.access and base.mismatch is None:
        found = formula(node.access, first.access)
    guesses = [
        (found, "formula", "firmware"),
        (DAX if node.device else DRAM, "default", "dax" if node.device else "dram"),
    ]
    for value, how, origin in guesses:
        if value is not None and tier_of(value) == node.tier_number:
            node.distance, node.distance_from, node.origin = value, how, origin
            return
    node.origin = "unknown"


def fill(source: Source, machine: Machine) -> Reference:
    """Distance, origin and device of all nodes, on our kernel targets; the base of the formula."""
    base = reference(machine.nodes)
    bound, regions = devices(source), cxl_nodes(source)
    ours = bool(machine.nodes)
    for node in machine.nodes:
        node.device = bound.get(node.node)
        if not _kernel(source, node):
            ours = False
            _guess(node, base, machine)
        if node.origin == "firmware":
            node.origin = "cdat" if node.node in regions else "hmat"
    if ours:
        machine.sources["distance"] = Note(f"{TIER}/node*/distance")
    elif machine.nodes:
        note = note_for(source, f"{TIER}/node{machine.nodes[0].node}/distance")
        how = "computed from node*/access1, where the number of the tier agrees"
        machine.sources["distance"] = Note(how, note.state, estimate=True)
    return base
