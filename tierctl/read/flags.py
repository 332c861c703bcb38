# SPDX-License-Identifier: GPL-2.0
"""Of which kind slow pages are: /proc/kpageflags, and what the mappings of a process say.

Which kinds a promoter leaves where they are: mm/tier/promote.c and mm/tier/kmmscand/walk.c for
the part promote, change_pte_range() and task_numa_work() for NUMA balancing.
"""

from __future__ import annotations

import bisect
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tierctl.core.parse import ranges
from tierctl.core.source import Source
from tierctl.read import pages
from tierctl.read.mechanisms import DAMON, HINTS, PROMOTE
from tierctl.read.nodes import Machine
from tierctl.read.pages import FRAME, PRESENT, Frames

FLAGS = "/proc/kpageflags"
# include/uapi/linux/kernel-page-flags.h.  6.12 sets KSM for each anonymous page: it tells nothing.
DIRTY, LRU, WRITEBACK, ANON, SWAPBACKED = 1 << 4, 1 << 5, 1 << 8, 1 << 12, 1 << 14
TAIL, HUGE, UNEVICTABLE, MLOCKED = 1 << 16, 1 << 17, 1 << 18, 1 << 33
TOLD = DIRTY | LRU | WRITEBACK | ANON | SWAPBACKED | TAIL | HUGE | UNEVICTABLE | MLOCKED
PLACES = 512  # of a process that are looked at
RUNS = 32  # preads of kpageflags for a place at most
GAP = 16  # frames between two that one pread reads
ALL = frozenset({PROMOTE, HINTS, DAMON})
BOTH = frozenset({PROMOTE, HINTS})
# Kinds of pages by the promoters that leave them where they are; the first that fits counts
LEFT: dict[str, frozenset[str]] = {
    "hugetlb": ALL,
    "mlock": frozenset({PROMOTE}),
    "unevictable": frozenset({PROMOTE}),
    "policy": BOTH,
    "dirty": BOTH,
    "executable": frozenset({PROMOTE}),
    "read-only": frozenset({HINTS}),
    "off-lru": ALL,
}
ORDINARY, NO_FLAGS = "ordinary", "no-flags"

MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ (\d+)", re.MULTILINE)
POLICY = re.compile(
    r"^([0-9a-f]+) (default|local|bind|prefer \(many\)|prefer|interleave|weighted interleave)"
    r"(?:=([a-z|]+))?(?::([0-9,-]+))?(?: |$)",
    re.MULTILINE,
)
ON_NODE, PAGE_KIB = re.compile(r" N(\d+)=(\d+)"), re.compile(r" kernelpagesize_kB=(\d+)")


@dataclass
class Area:
    """A mapping of a process."""

    start: int
    end: int
    executable: bool = False  # of a file
    read_only: bool = False  # of a file
    policy: str = ""  # "": default, or not read
    keeps: frozenset[str] = frozenset()  # promoters that the policy keeps from it


def areas(maps: str) -> list[Area]:
    found = []
    for low, high, flags, inode in MAPPING.findall(maps):
        file = inode != "0"
        executable, read_only = file and "x" in flags, file and flags.startswith("r-")
        found.append(Area(int(low, 16), int(high, 16), executable, read_only))
    return found


def keeps(mode: str, flags: str, mask: Iterable[int], fast: set[int]) -> frozenset[str]:
    """The promoters that a memory policy keeps from its memory (mm/tier/allow.c)."""
    if mode == "default":
        return frozenset()
    found = set()
    if mode != "local" and (mode.endswith("interleave") or not set(mask) & fast):
        found.add(PROMOTE)
    if "balancing" not in flags:
        found.add(HINTS)
    return frozenset(found)


def with_policies(found: list[Area], numa_maps: str, fast: set[int]) -> None:
    """Add the memory policies of /proc/PID/numa_maps."""
    known = {one.start: one for one in found}
    for start, mode, flags, mask in POLICY.findall(numa_maps):
        area = known.get(int(start, 16))
        if area is not None and mode != "default":
            area.keeps = keeps(mode, flags, ranges(mask) or [], fast)
            area.policy = f"{mode}:{mask}" if mask else mode


def bound(
    numa_maps: str, fast: set[int], slow: set[int], promoters: frozenset[str]
) -> dict[str, int]:
    """Bytes on slow nodes that policies keep from all these promoters, by policy."""
    mappings = [Area(int(start, 16), 0) for start, *_ in POLICY.findall(numa_maps)]
    with_policies(mappings, numa_maps, fast)
    kept = {one.start: one.policy for one in mappings if one.policy and promoters <= one.keeps}
    found: dict[str, int] = {}
    for line in numa_maps.splitlines() if kept else ():
        policy, size = kept.get(int(line.partition(" ")[0], 16)), PAGE_KIB.search(line)
        if policy and size and " huge " not in f"{line} ":  # hugetlb pages are no memory of a group
            count = sum(int(count) for node, count in ON_NODE.findall(line) if int(node) in slow)
            found[policy] = found.get(policy, 0) + (count * int(size[1]) << 10)
    return found


def of_flags(flags: int) -> str:
    """The kind that the flags of a page tell."""
    if flags & HUGE:
        return "hugetlb"
    if flags & MLOCKED:
        return "mlock"
    if flags & UNEVICTABLE:
        return "unevictable"
    if flags & WRITEBACK or (flags & DIRTY and not flags & (SWAPBACKED | ANON)):
        return "dirty"
    # Before 6.11 the flags of a tail page are its own ones.
    return ORDINARY if flags & LRU or flags & TAIL else "off-lru"


def kind(flags: int | None, area: Area | None, promoters: frozenset[str]) -> str:
    """Why all these promoters leave a page, or ORDINARY."""
    area = area or Area(0, 0)
    fits = {"policy": area.keeps, "executable": area.executable, "read-only": area.read_only}
    by_flags = ORDINARY if flags is None else of_flags(flags)
    for name, leave in (LEFT | {"policy": area.keeps}).items():
        if (fits.get(name) or name == by_flags) and promoters <= leave:
            return name
    return ORDINARY if flags is not None else NO_FLAGS


# --- a process -------------------------------------------------------------------


@dataclass
class Sampled:
    """Pages of a process, by place."""

    counts: list[dict[str, float]] = field(default_factory=list)  # slow pages by kind
    present: list[int] = field(default_factory=list)
    policies: set[str] = field(default_factory=set)
    places: int = 0
    all_places: int = 0
    flags_why: str = ""  # why flags are unknown


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last frames of runs; a pread reads one."""
    found: list[tuple[int, int]] = []
    for one in sorted(numbers):
        if found and one - found[-1][1] <= GAP:
            found[-1] = (found[-1][0], one)
        else:
            found.append((one, one))
    return found


def flags_of(source: Source, numbers: Sequence[int]) -> dict[int, int]:
    """The flags of frames, or of a part of them if they lie far apart."""
    runs = _runs(numbers)
    if len(runs) > RUNS:
        runs = [runs[at * len(runs) // RUNS] for at in range(RUNS)]
    wanted = set(numbers)
    found: dict[int, int] = {}
    for first, last in runs:
        data = source.pread(FLAGS, 8 * (last - first + 1), 8 * first)
        words = array("Q", data[: len(data) // 8 * 8])
        found |= {first + at: one for at, one in enumerate(words) if first + at in wanted}
    return found


class _Process:
    """Looks at one place of a process after the other."""

    def __init__(
        self,
        source: Source,
        pid: int,
        machine: Machine,
        mappings: Sequence[Area],
        promoters: frozenset[str],
    ) -> None:
        self.source, self.pid, self.mappings, self.promoters = source, pid, mappings, promoters
        self.frames = Frames(machine.zones, machine.page)
        self.slow = {one.node for one in machine.of_tier("slow")}
        self.starts = [one.start for one in mappings]
        self.found = Sampled()
        self._kinds: dict[tuple[int, int], str] = {}  # by flags and mapping

    def _flags(self, numbers: Sequence[int]) -> dict[int, int]:
        if not numbers or self.found.flags_why:
            return {}
        try:
            return flags_of(self.source, numbers)
        except OSError as error:
            self.found.flags_why = f"{FLAGS}: {error.strerror}"
            return {}

    def _kind(self, flags: int | None, address: int) -> str:
        index = bisect.bisect_right(self.starts, address) - 1
        inside = index >= 0 and address < self.mappings[index].end
        key = (-1 if flags is None else flags & TOLD, index if inside else -1)
        if key not in self._kinds:
            area = self.mappings[index] if inside else None
            name = self._kinds[key] = kind(flags, area, self.promoters)
            if name == "policy" and area is not None:
                self.found.policies.add(area.policy)
        return self._kinds[key]

    def look(self, place: int) -> None:
        """Count the slow pages of a place by kind."""
        found, page = self.found, self.frames.page
        base = place << pages.table_bits(page)
        table = pages.entries(self.source, self.pid, place, self.frames)
        here = [(base + at * page, one & FRAME) for at, one in enumerate(table) if one & PRESENT]
        nodes = pages.nodes_of([frame for _, frame in here], self.frames)
        slow = [one for one, node in zip(here, nodes, strict=True) if node in self.slow]
        known = self._flags([frame for _, frame in slow])
        looked = [one for one in slow if one[1] in known] if known else slow
        counts: dict[str, float] = {}
        for address, frame in slow:
            name = self._kind(known.get(frame), address)
            if not known or frame in known:
                counts[name] = counts.get(name, 0.0) + len(slow) / len(looked)
        found.counts.append(counts)
        found.present.append(sum(node is not None for node in nodes))


def process(
    source: Source,
    pid: int,
    maps: str,
    machine: Machine,
    mappings: Sequence[Area],
    promoters: frozenset[str],
) -> Sampled:
    """Slow pages of a process by kind; raises TierctlError."""
    look = _Process(source, pid, machine, mappings, promoters)
    runs = pages.Runs(maps, pages.table_bits(machine.page))
    places = runs.choose(PLACES, pid)
    for place in places:
        look.look(place)
    look.found.places, look.found.all_places = len(places), runs.total
    return look.found
