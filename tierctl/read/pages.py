# SPDX-License-Identifier: GPL-2.0
"""The memory of a process by tier, estimated from random places of its page tables.

A place is the range of one page table (512 pages of 4 KiB).  Each read of /proc/PID/pagemap is
for one place, so the kernel holds the mmap_lock for one page table.  A frame number tells the
node, by the zones of /proc/zoneinfo.  The same process with the same maps has the same places, so
that a bundle has what a later command asks for.
"""

from __future__ import annotations

import bisect
import random
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from tierctl.core.errors import DENIED, LACKING, USAGE, TierctlError, as_root
from tierctl.core.parse import number
from tierctl.core.source import ABSENT, MISSING, Source, reason_of
from tierctl.core.source import DENIED as REFUSED
from tierctl.read.nodes import Machine, Zone

MIXED = -1
PLACES = 128  # are read at most, unless the caller wants more
FRAME = (1 << 55) - 1
PRESENT = 1 << 63
NORMAL = 1.96  # 95 %
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)$", re.MULTILINE)
NO_MEMORY = ("[vsyscall]", "[vvar]", "[vvar_vclock]", "[vdso]")
STATUS = re.compile(
    r"^(Name|VmRSS|VmPTE|HugetlbPages|TierScan|Mems_allowed_list):\s+(.*?)(?: kB)?$", re.MULTILINE
)


@dataclass
class Process:
    """A process on the screen: bytes, None for unknown."""

    pid: int
    name: str | None
    total: int | None  # resident, with hugetlb pages
    fast: int | None
    slow: int | None
    error: int | None  # half the width of the interval, for fast and slow
    samples: int  # pages that were looked at
    places: int
    all_places: int
    tier_scan: int | None
    why: str | None  # why fast and slow are unknown


class Frames:
    """The node of a frame."""

    def __init__(self, zones: Sequence[Zone], page: int) -> None:
        self.page = page
        spans = sorted((one.start, one.start + one.spanned, one.node) for one in zones)
        self._starts = [start for start, _, _ in spans]
        self._spans = spans
        self._mixed = [False] * len(spans)
        for at, (start, _, node) in enumerate(spans):
            for before in range(at):
                if spans[before][1] > start and spans[before][2] != node:
                    # Two nodes share a range of frames: which one has a frame is not known.
                    self._mixed[at] = self._mixed[before] = True

    def node(self, frame: int) -> int | None:
        """The node of a frame; None: device memory; MIXED: one of two nodes."""
        at = bisect.bisect_right(self._starts, frame) - 1
        while at >= 0:
            start, end, node = self._spans[at]
            if start <= frame < end:
                return MIXED if self._mixed[at] else node
            at -= 1
        return None


class Runs:
    """The places that a process has mapped, as runs: the first place, and how many."""

    def __init__(self, maps: str, bits: int) -> None:
        self.runs: list[tuple[int, int]] = []
        self._ends: list[int] = []  # places up to the end of each run
        self.total = 0
        for low, high, flags, name in MAPPING.findall(maps):
            if not flags.startswith("---") and name not in NO_MEMORY:
                self._add(int(low, 16) >> bits, ((int(high, 16) - 1) >> bits) + 1)

    def _add(self, first: int, end: int) -> None:
        """Places from ``first`` on, which follow those before or overlap the last one."""
        before = sum(self.runs[-1]) if self.runs else -1
        first = max(first, before)
        if end <= first:
            return
        self.total += end - first
        if first == before:
            first = self.runs.pop()[0]
            self._ends.pop()
        self.runs.append((first, end - first))
        self._ends.append(self.total)

    def nth(self, index: int) -> int:
        """The place with a number from 0 to total - 1, in the order of addresses."""
        at = bisect.bisect_right(self._ends, index)
        first, count = self.runs[at]
        return first + index - (self._ends[at] - count)

    def choose(self, most: int, seed: int) -> list[int]:
        """At most ``most`` places, in the order of addresses; the same ones for the same seed."""
        if self.total <= most:
            return [self.nth(index) for index in range(self.total)]
        chosen = random.Random(seed).sample(range(self.total), most)
        return [self.nth(index) for index in sorted(chosen)]


def student(freedom: int) -> float:
    """Half of the 95 % interval of Student's distribution, by its series."""
    z, n = NORMAL, freedom
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)


def interval(counts: Sequence[tuple[float, int]], total: int) -> tuple[float, float] | None:
    """The share of the first count in the second one, and half of its interval (ratio estimate)."""
    n = len(counts)
    seen = sum(present for _, present in counts)
    if not seen:
        return None
    share = sum(slow for slow, _ in counts) / seen
    if n >= total:
        return share, 0.0
    if n < 2:
        return share, 1.0
    mean = seen / n
    if share in (0, 1):  # all pages that were seen agree: the rule of three, by places
        return share, min(1.0, 3 / sum(present > 0 for _, present in counts))
    spread = sum((slow - share * present) ** 2 for slow, present in counts) / (n - 1)
    return share, student(n - 1) * float((1 - n / total) * spread / n) ** 0.5 / mean


def status(source: Source, pid: int) -> dict[str, str]:
    """The rows of /proc/PID/status that STATUS has, by name."""
    return dict(STATUS.findall(source.get(f"/proc/{pid}/status") or ""))


def _unreadable(source: Source, pid: int, file: str, why: str) -> TierctlError:
    known = {ABSENT: "it has ended", MISSING: f"capture again with --explain {pid}"}
    what, todo = f"/proc/{pid}/{file} cannot be read ({why})", as_root(source.live)
    return TierctlError(what, known.get(why, todo), DENIED if why == REFUSED else USAGE)


def maps_of(source: Source, pid: int) -> str:
    """The text of /proc/PID/maps; raises TierctlError."""
    found = source.get(f"/proc/{pid}/maps")
    if found is None:
        raise _unreadable(source, pid, "maps", source.why(f"/proc/{pid}/maps"))
    return found


def entries(source: Source, pid: int, place: int, frames: Frames) -> array[int]:
    """The entries of a place in /proc/PID/pagemap; raises TierctlError."""
    size = frames.page  # of a page table, with 8 bytes for each page
    try:
        data = source.pread(f"/proc/{pid}/pagemap", size, place * size)
    except OSError as error:
        raise _unreadable(source, pid, "pagemap", reason_of(error)) from error
    return array("Q", data[: len(data) // 8 * 8])


def nodes_of(numbers: Sequence[int], frames: Frames) -> list[int | None]:
    """The nodes of the frames of a place; None: device memory."""
    if numbers and not any(numbers):
        raise TierctlError("the kernel hides frame numbers", "run as root", DENIED)
    found = [frames.node(one) for one in numbers]
    if MIXED in found:
        what = "two nodes share a range of frame numbers, so frames do not tell the node"
        raise TierctlError(what, "see groups: tierctl top", LACKING)
    return found


def missing(source: Source, pid: int) -> TierctlError:
    """The error for a process that does not exist, or that a bundle lacks."""
    if source.live:
        return TierctlError(f"there is no process {pid}", "see: tierctl top -p")
    return TierctlError(f"the bundle has no process {pid}", f"capture again with --explain {pid}")


def count(source: Source, pid: int, place: int, frames: Frames, slow: set[int]) -> tuple[int, int]:
    """Slow pages and all pages of a place."""
    table = entries(source, pid, place, frames)
    found = nodes_of([entry & FRAME for entry in table if entry & PRESENT], frames)
    known = [one for one in found if one is not None]
    return sum(one in slow for one in known), len(known)


def table_bits(page: int) -> int:
    """The addresses of a place, as a power of two: 21 for pages of 4 KiB."""
    return (page * page // 8).bit_length() - 1


def process(source: Source, pid: int, machine: Machine, places: int = PLACES) -> Process:
    """A process by tier, from so many places at most."""
    facts = status(source, pid)
    rss, scan = number(facts.get("VmRSS")), number(facts.get("TierScan"))
    found = Process(pid, facts.get("Name"), None, None, None, None, 0, 0, 0, scan, None)
    if rss is None:
        found.why = "it has no memory of its own" if facts else "it has ended"
        return found
    found.total = total = (rss + (number(facts.get("HugetlbPages")) or 0)) << 10
    if not machine.known:
        found.why = "which nodes are slow is not known"
        return found
    slow = {one.node for one in machine.of_tier("slow")}
    try:
        runs = Runs(maps_of(source, pid), table_bits(machine.page))
        frames, found.all_places = Frames(machine.zones, machine.page), runs.total
        chosen = runs.choose(places, pid)
        counts = [count(source, pid, place, frames, slow) for place in chosen]
    except TierctlError as error:
        found.why = str(error)
        return found
    found.places, found.samples = len(counts), sum(present for _, present in counts)
    estimate = interval(counts, found.all_places)
    if estimate is None:
        found.why = "no page was found in the places that were read"
        return found
    found.slow = round(estimate[0] * total)
    found.fast = total - found.slow
    found.error = round(min(1.0, estimate[1]) * total)
    return found


def resident(source: Source, pids: Sequence[int], most: int) -> list[int]:
    """The pids with most memory, largest first."""
    sizes = []
    for pid in pids:
        words = (source.get(f"/proc/{pid}/statm") or "").split()
        pages = number(words[1]) if len(words) > 1 else None
        if pages:
            sizes.append((pages, -pid))
    return [-pid for _, pid in sorted(sizes, reverse=True)[:most]]
