# SPDX-License-Identifier: GPL-2.0
"""A process by address and tier, time after time; holes in its address space are cut out.

A place is the range of one page table.  A look reads at most PLACES of them, the same ones each
time: see read/pages.py for what that costs the process.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tierctl.core.errors import LACKING, TierctlError
from tierctl.core.source import Source
from tierctl.read import pages
from tierctl.read.nodes import Machine
from tierctl.read.pages import Frames, Runs

COLUMNS = 64
PLACES = 128  # page tables that a look reads at most


@dataclass
class Column:
    """Addresses of a column; holes inside are cut out."""

    begin: int
    end: int
    places: list[int] = field(repr=False, default_factory=list)  # page tables that are read


@dataclass
class Line:
    """A time, and a cell for each column: the share of slow pages; None: no page."""

    time_s: float
    cells: list[float | None]


@dataclass
class AddressMap:
    """A process by address."""

    pid: int
    name: str | None
    place_bytes: int
    places: int
    holes: int
    columns: list[Column]
    rows: list[Line]


def columns(runs: Runs, most: int, bits: int, seed: int) -> list[Column]:
    """At most ``most`` columns of about as many places each."""
    width = min(most, runs.total)
    chance, found = random.Random(seed), []
    for column in range(width):
        first, last = column * runs.total // width, (column + 1) * runs.total // width
        each = min(max(1, PLACES // width), last - first)
        chosen = sorted(chance.sample(range(first, last), each))
        ends = runs.nth(first) << bits, (runs.nth(last - 1) + 1) << bits
        found.append(Column(*ends, [runs.nth(one) for one in chosen]))
    return found


class Mapper:
    """Looks at a process again and again; ``map`` has its columns from the first look on."""

    def __init__(self, source: Source, pid: int, columns: int = COLUMNS) -> None:
        self.source, self.pid, self.most = source, pid, columns
        facts = pages.status(source, pid)
        if not facts:
            raise pages.missing(source, pid)
        self.name = facts.get("Name")
        self.map: AddressMap | None = None
        self._began = self._start()

    def _start(self) -> str | None:
        """When the process began, in the words of the kernel; a pid may be used again."""
        words = (self.source.get(f"/proc/{self.pid}/stat") or "").rpartition(")")[2].split()
        return words[19] if len(words) > 19 else None

    def _begin(self, machine: Machine) -> AddressMap:
        bits = pages.table_bits(machine.page)
        runs = Runs(pages.maps_of(self.source, self.pid), bits)
        if not runs.total:
            raise TierctlError(f"process {self.pid} has no memory of its own", "name another one")
        found = columns(runs, self.most, bits, self.pid)
        holes = len(runs.runs) - 1
        return AddressMap(self.pid, self.name, 1 << bits, runs.total, holes, found, [])

    def take(self, machine: Machine) -> list[float | None]:
        """The share of slow pages in each column now; None: no page."""
        if not machine.known:
            raise TierctlError("which nodes are slow is not known", "tierctl doctor", LACKING)
        if self.source.live and self._start() != self._began:
            raise TierctlError(f"process {self.pid} has ended", "name another one")
        if self.map is None:
            self.map = self._begin(machine)
        frames = Frames(machine.zones, machine.page)
        slow = {one.node for one in machine.of_tier("slow")}
        return [self._share(one.places, frames, slow) for one in self.map.columns]

    def _share(self, places: list[int], frames: Frames, slow: set[int]) -> float | None:
        counts = [pages.count(self.source, self.pid, one, frames, slow) for one in places]
        present = sum(one for _, one in counts)
        return sum(one for one, _ in counts) / present if present else None
