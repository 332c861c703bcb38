# SPDX-License-Identifier: GPL-2.0
"""Memory nodes: tier, size, watermarks, and figures of the firmware."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tierctl.core.parse import labelled_kib, number, page_size, ranges
from tierctl.core.paths import NODES, TIERS, ZONEINFO
from tierctl.core.reply import Note, note_for
from tierctl.core.source import Source

MOST = 1024  # nodes, as in the kernel
RESERVE = 256  # the part promote leaves one page in so many free (mm/tier/kmmscand/period.c)
BATCH = 512  # base pages; less room than this takes no batch
SWAP = 64  # free base pages of swap, at least, with which reclaim swaps (MIN_LRU_BATCH)
MARK = re.compile(r"^ +(?:pages )?(free|high|spanned|managed) +(\d{1,18})$", re.MULTILINE)
KEPT = re.compile(r"protection: \((\d{1,18}(?:, \d{1,18})*)\)")
START = re.compile(r"^  start_pfn: +(\d{1,18})$", re.MULTILINE)
ZONE = re.compile(r"(\d{1,9}), zone +(\S+)")
FIGURES = ("read_latency", "write_latency", "read_bandwidth", "write_bandwidth")  # of Access


@dataclass(frozen=True)
class Access:
    """The best that the CPUs reach: ns, and MB/s (node*/access1/initiators)."""

    read_latency: int
    write_latency: int
    read_bandwidth: int
    write_bandwidth: int


@dataclass
class Zone:
    """A zone of /proc/zoneinfo, in base pages."""

    node: int
    name: str
    free: int
    managed: int
    spanned: int
    start: int
    high: int | None  # watermark
    kept: int = 0  # for allocations that can use no higher zone


@dataclass
class Node:
    """A node with memory; sizes in bytes, None for unknown."""

    node: int
    tier: str | None  # fast, slow
    tier_number: int | None  # of memory_tierN
    has_cpu: bool | None
    total: int | None
    free: int | None
    used: int | None
    movable: int | None  # bytes in the zone Movable
    access: Access | None
    distance: int | None = None
    distance_from: str | None = None  # kernel, formula, default
    origin: str | None = None  # cdat, hmat, firmware, dram, dax, unknown
    targets: list[int] | None = None
    hot: int | None = None  # bytes found hot that wait (our kernel)
    device: str | None = None  # of the driver kmem


@dataclass
class Machine:
    """All nodes with memory, and the zones that they have."""

    nodes: list[Node]
    tiers: dict[int, list[int]] | None  # nodes by number of the tier
    top: int | None  # the slowest tier that is fast
    page: int
    swap_free: int | None = None  # bytes
    zones: list[Zone] = field(default_factory=list, repr=False)
    sources: dict[str, Note] = field(default_factory=dict, repr=False)

    @property
    def known(self) -> bool:
        """Which nodes are fast and which are slow is known."""
        return self.tiers is not None and self.top is not None

    def of_tier(self, tier: str) -> list[Node]:
        return [one for one in self.nodes if one.tier == tier]

    def find(self, node: int) -> Node | None:
        return next((one for one in self.nodes if one.node == node), None)


def zones(text: str | None) -> list[Zone]:
    """The populated zones of /proc/zoneinfo, which has five lines for each CPU as well."""
    found = []
    for block in ("\n" + (text or "")).split("\nNode ")[1:]:
        head = ZONE.match(block)
        begin = block.find("\n  pages free")
        end = block.find("\n        protection:", begin)
        if not head or begin < 0 or end < 0:
            continue
        values = {name: int(one) for name, one in MARK.findall(block[begin:end])}
        start = START.search(block, end)
        kept = KEPT.search(block, end)
        if not values.get("managed") or "free" not in values or not start:
            continue
        found.append(
            Zone(
                node=int(head[1]),
                name=head[2],
                free=values["free"],
                managed=values["managed"],
                spanned=values.get("spanned", 0),
                start=int(start[1]),
                high=values.get("high"),
                kept=max(map(int, kept[1].split(", "))) if kept else 0,
            )
        )
    return found


def tiers(source: Source) -> dict[int, list[int]] | None:
    """The nodes of each memory tier, fastest tier first; None if the kernel has no tiers."""
    names = source.listing(TIERS)
    if names is None:
        return None
    found = {}
    for name in names:
        tier = number(name.removeprefix("memory_tier"))
        members = ranges(source.get(f"{TIERS}/{name}/nodelist")) if tier is not None else None
        if tier is not None and members is not None:
            found[tier] = members
    return dict(sorted(found.items()))


def hugetlb(source: Source, node: int) -> int | None:
    """Bytes of a node that its pools of hugetlb pages hold; None if that is unknown."""
    place = f"{NODES}/node{node}/hugepages"
    total = 0
    for name in source.listing(place) or []:
        size = number(name.removeprefix("hugepages-").removesuffix("kB"))
        count = number(source.get(f"{place}/{name}/nr_hugepages"))
        if size is None or count is None:
            return None
        total += count * size << 10
    return total if not source.why(place) else None


def _access(source: Source, node: int) -> Access | None:
    found = []
    for name in FIGURES:
        one = number(source.get(f"{NODES}/node{node}/access1/initiators/{name}"))
        if one is None:
            return None
        found.append(one)
    return Access(*found)


def _tier_of(node: int, machine: Machine) -> tuple[str | None, int | None]:
    if machine.tiers is None or machine.top is None:
        return None, None
    for tier, members in machine.tiers.items():
        if node in members:
            return ("fast" if tier <= machine.top else "slow"), tier
    return "fast", None  # node_is_toptier() says so of a node without a tier


def _node(source: Source, node: int, machine: Machine, with_cpu: list[int] | None) -> Node:
    info = labelled_kib(source.get(f"{NODES}/node{node}/meminfo"))
    total, free = info.get("MemTotal"), info.get("MemFree")
    tier, tier_number = _tier_of(node, machine)
    known = [zone for zone in machine.zones if zone.node == node]
    movable = sum(zone.managed for zone in known if zone.name == "Movable") * machine.page
    return Node(
        node=node,
        tier=tier,
        tier_number=tier_number,
        has_cpu=None if with_cpu is None else node in with_cpu,
        total=total,
        free=free,
        used=None if total is None or free is None else total - free,
        movable=movable if known else None,
        access=_access(source, node),
    )


def read(source: Source) -> Machine:
    """All nodes with memory; why a node is in its tier is left to why.explain()."""
    with_memory = ranges(source.get(f"{NODES}/has_memory"))
    with_cpu = ranges(source.get(f"{NODES}/has_cpu"))
    found = zones(source.get(ZONEINFO))
    info = labelled_kib(source.get("/proc/meminfo"))
    page = page_size(info.get("MemTotal"), sum(zone.managed for zone in found))
    known = tiers(source)
    # The slowest tier that has CPUs; it and all faster tiers are fast (mm/memory-tiers.c).
    having = [tier for tier, members in (known or {}).items() if {*members} & {*(with_cpu or ())}]
    top = max(having, default=None)
    machine = Machine([], known, top, page, info.get("SwapFree"), found)
    machine.sources["nodes"] = note_for(source, f"{NODES}/has_memory", "this kernel has no NUMA")
    todo = "kernels before 6.1, and kernels without NUMA, have no memory tiers"
    machine.sources["tiers"] = note_for(source, TIERS, todo)
    if known is not None and top is None:
        note = note_for(source, f"{NODES}/has_cpu")
        machine.sources["tiers"] = Note(None, "no tier has CPUs", "") if note.origin else note
    machine.sources["watermarks"] = note_for(source, ZONEINFO)
    machine.nodes = [_node(source, node, machine, with_cpu) for node in (with_memory or [])[:MOST]]
    if machine.nodes and all(one.access is None for one in machine.nodes):
        place = f"{NODES}/node{machine.nodes[0].node}/access1/initiators/read_latency"
        todo = "the firmware tells no latency (ACPI HMAT, CXL CDAT)"
        machine.sources["latency"] = note_for(source, place, todo)
    return machine


def blind(source: Source, machine: Machine, demotes: bool | None) -> set[int]:
    """Nodes whose anonymous pages reclaim can neither swap nor demote, and does not look at.

    What a bundle does not tell of swap is taken for good.
    """
    if number(source.get("/proc/sys/vm/swappiness")) == 0:
        return {one.node for one in machine.nodes}
    if machine.swap_free is None or machine.swap_free >= SWAP * machine.page:
        return set()
    last = max(machine.tiers or [], default=None) if demotes else None
    return {one.node for one in machine.nodes if last is None or one.tier_number in (None, last)}


def room(machine: Machine, node: int, reserve: bool, later: Sequence[Zone] = ()) -> int | None:
    """Bytes that a fast node takes above its high watermark (period_room()); None if unknown.

    ``later``: the zones at another time.
    """
    zones = [one for one in later or machine.zones if one.node == node]
    highs = [one.high for one in zones if one.high is not None]
    if not zones or len(highs) < len(zones):
        return None
    free = sum(max(0, one.free - high - one.kept) for one, high in zip(zones, highs, strict=True))
    if reserve:
        free -= min(free, sum(one.managed for one in zones) // RESERVE)
    return (free if free >= BATCH else 0) * machine.page
