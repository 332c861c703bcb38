# SPDX-License-Identifier: GPL-2.0
"""The state of a machine at one time, and how it moved since the time before.

All that commands say of hot and cold memory, of rates and of cost comes from a Snapshot.  Unknown
is None, and ``sources`` says why.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from tierctl.core import paths
from tierctl.core.errors import LACKING, TierctlError
from tierctl.core.parse import number, ranges, real
from tierctl.core.reply import NO_SLOW, Note
from tierctl.core.source import Source
from tierctl.read import counters, distance, lru, mechanisms, nodes, threads
from tierctl.read.counters import Flow, Sample
from tierctl.read.distance import Reference
from tierctl.read.lru import Lruvec, Part
from tierctl.read.mechanisms import Mechanisms
from tierctl.read.nodes import Machine
from tierctl.read.threads import Cost

FOUND, MGLRU = "found", "mglru"  # what tells which memory is hot
THREADS_EVERY_S = 60.0  # a part that is switched on later has new threads
OFF = Note(None, "MGLRU is off", f"echo y > {paths.MGLRU}")
SOON = Note(None, "known with the next sample")
ALONE = Note(None, "the bundle has one sample", "capture two: tierctl capture FILE")
NOT_COLD = "MGLRU has not looked twice, 60 s apart"
NOT_HOT = "MGLRU has not looked at slow memory for 60 s"
LOOK = "tierctl heat --look"
BLIND = "MGLRU does not look at memory that it can neither swap nor demote"


@dataclass
class Snapshot:
    """The machine at one time; rates are from the sample before to this one."""

    source: Source
    time: float
    host: str | None
    kernel: str | None
    cpus: int | None  # online
    uptime_s: float | None
    machine: Machine
    base: Reference  # of the formula of distances
    mechanisms: Mechanisms
    counters: Sample
    threads: dict[int, str] | None  # names of ours by pid
    ticks: dict[int, int]  # CPU time by pid
    lruvecs: list[Lruvec] | None = None
    blind: set[int] = field(default_factory=set)  # nodes; see nodes.blind()
    hot: dict[int, Part] = field(default_factory=dict)  # by slow node; hot_by tells how it is known
    cold: dict[int, Part] = field(default_factory=dict)  # by fast node
    hot_by: str | None = None  # found: it waits for promotion; mglru: an estimate
    flow: Flow | None = None
    cost: Cost | None = None
    sources: dict[str, Note] = field(default_factory=dict)

    @property
    def vmstat(self) -> dict[str, int]:
        return self.counters.vmstat

    @property
    def fast(self) -> list[int]:
        return [one.node for one in self.machine.of_tier("fast")]

    @property
    def slow(self) -> list[int]:
        return [one.node for one in self.machine.of_tier("slow")]

    @cached_property
    def use(self) -> dict[str, dict[str, int | None]]:
        """Bytes by class of last use, by tier; empty without generations."""
        if self.lruvecs is None or not self.machine.known:
            return {}
        tiers = {"fast": set(self.fast), "slow": set(self.slow)}
        return {
            tier: lru.by_use(self.lruvecs, which, self.machine.page)
            for tier, which in tiers.items()
            if which
        }

    @property
    def looked_s(self) -> float | None:
        """The longest time since a look of MGLRU by which memory is hot or cold."""
        return lru.total((*self.hot.values(), *self.cold.values())).looked_s

    def hot_total(self) -> Part:
        return lru.total(self.hot.values())

    def cold_total(self) -> Part:
        return lru.total(self.cold.values())

    def unseen(self, wanted: Collection[int], why: str) -> str:
        """Why the age of memory of nodes is not known: BLIND, or else ``why``."""
        blind = self.blind & {*wanted}
        return BLIND if any(one.unaged and one.node in blind for one in self.lruvecs or []) else why

    def need_tiers(self) -> None:
        """Raise an error if it is not known which nodes are slow."""
        if not self.machine.known:
            note = self.machine.sources["tiers"]
            what = f"which nodes are slow is not known ({note.state})"
            raise TierctlError(what, note.todo or "tierctl doctor", LACKING)


def found_hot(source: Source, machine: Machine, found: Mechanisms) -> dict[int, Part] | None:
    """Bytes by slow node that the part scan has found hot and that wait.

    None if the part does not work, or if a node does not tell: that is not 0.
    """
    if not found.works("scan"):
        return None
    parts = {}
    for node in machine.of_tier("slow"):
        pages = number(source.get(f"{paths.TIER}/node{node.node}/hot"))
        if pages is None:
            return None
        node.hot = pages * machine.page
        parts[node.node] = Part(node.hot, 0, None)
    return parts


@dataclass
class _Mark:
    """What rates begin at."""

    counters: Sample
    ticks: dict[int, int]


class Sampler:
    """Takes one snapshot after the other.

    It knows the threads of the kernel from the sample before, and reads the long text of MGLRU at
    most once in ``lru_every`` seconds.
    """

    def __init__(self, source: Source, lru_every: float = 0.0) -> None:
        self.source, self.lru_every = source, lru_every
        self._mark: _Mark | None = None
        self._threads: dict[int, str] | None = None
        self._searched: float | None = None  # when
        self._lru: tuple[float, list[Lruvec] | None, Note] | None = None  # when, what, from where

    def mark(self) -> None:
        """Begin rates here, at little cost."""
        count = len(ranges(self.source.get(f"{paths.NODES}/has_memory")) or [])
        self._mark = self._now(mechanisms.read(self.source), count)

    def _now(self, found: Mechanisms, count: int) -> _Mark:
        ticks = self._cpu(count)
        return _Mark(counters.take(self.source, found), ticks)

    def _cpu(self, count: int) -> dict[int, int]:
        """CPU time of the threads, of which ``count`` nodes have at least one each."""
        now = self.source.clock()
        if self._threads is not None and self._searched is not None:
            ticks = threads.ticks(self.source, self._threads)
            late = not 0 <= now - self._searched < THREADS_EVERY_S
            if len(ticks) == len(self._threads) and not late:
                return ticks
        self._threads, self._searched = threads.find(self.source, count), now
        return threads.ticks(self.source, self._threads or {})

    def take(self) -> Snapshot:
        """The machine now, with rates since the snapshot or the mark before."""
        source = self.source
        machine = nodes.read(source)
        base = distance.fill(source, machine)
        found = mechanisms.read(source)
        now = self._now(found, len(machine.nodes))
        cpus = ranges(source.get(paths.ONLINE))
        uptime = (source.get("/proc/uptime") or "").partition(" ")[0]
        snapshot = Snapshot(
            source=source,
            time=source.time(),
            host=source.get(paths.HOSTNAME),
            kernel=source.get(paths.RELEASE),
            cpus=len(cpus) if cpus else None,
            uptime_s=real(uptime),
            machine=machine,
            base=base,
            mechanisms=found,
            counters=now.counters,
            threads=self._threads,
            ticks=now.ticks,
            sources=dict(machine.sources | found.sources),
        )
        self._rates(snapshot, now)
        self._worth(snapshot)
        return snapshot

    def _rates(self, found: Snapshot, now: _Mark) -> None:
        before, self._mark = self._mark, now
        found.sources["cost"] = threads.note(self.source, found.threads)
        if before is None or now.counters.time < before.counters.time:
            note = SOON if self.source.live else ALONE
            found.sources |= {"flow": note, "cost": note}
            return
        page, working = found.machine.page, found.mechanisms
        alone = len(found.fast) == 1
        found.flow = counters.between(before.counters, now.counters, working, page, alone)
        found.sources |= counters.notes(self.source, found.flow, working)
        seconds = now.counters.time - before.counters.time
        found.cost = threads.between(found.threads, before.ticks, now.ticks, seconds)
        for part in ("scan", "promote"):
            if working.works(part) and not found.cost.threads[part]:
                found.cost.cpu[part] = None  # its threads were not found

    def _generations(self, found: Snapshot) -> tuple[Note, float]:
        """Fill in the generations; where they come from, and how long ago they were read."""
        read, now = self._lru, found.counters.time
        found.blind = nodes.blind(self.source, found.machine, found.mechanisms.demotes())
        if read is None or not 0 <= now - read[0] < self.lru_every:
            off = found.mechanisms.mglru_on is False
            lruvecs, note = (None, OFF) if off else lru.read(self.source)
            if lruvecs is not None:
                lruvecs = lru.sound(self.source, lruvecs, found.blind, found.uptime_s)
            read = self._lru = now, lruvecs, note
        found.lruvecs = read[1]
        return read[2], now - read[0]

    def _worth(self, found: Snapshot) -> None:
        """Hot and cold memory on the wrong tier, by node."""
        machine, unknown = found.machine, Part(None, 0, None)
        fast, slow = found.fast, found.slow
        note, ago = self._generations(found)
        found.cold = dict.fromkeys(fast, unknown)
        found.hot = dict.fromkeys(slow, unknown)
        note = note if machine.known else machine.sources["tiers"]
        found.sources |= {"hot_on_slow": note, "cold_on_fast": note}
        if not machine.known:
            return
        if found.lruvecs is not None:
            found.cold = lru.idle(found.lruvecs, fast, machine.page)
            _say(found, "cold_on_fast", found.cold, note, ago, NOT_COLD)
        waits = found_hot(self.source, machine, found.mechanisms) if slow else None
        if not slow:
            found.sources["hot_on_slow"] = Note(None, NO_SLOW)
        elif waits is not None:
            found.hot, found.hot_by = waits, FOUND
            found.sources["hot_on_slow"] = Note(f"{paths.TIER}/node*/hot")
        elif found.lruvecs is not None:
            found.hot, found.hot_by = lru.used(found.lruvecs, slow, machine.page), MGLRU
            _say(found, "hot_on_slow", found.hot, note, ago, NOT_HOT, True)


def _say(
    found: Snapshot,
    name: str,
    parts: dict[int, Part],
    note: Note,
    ago: float,
    why: str,
    estimate: bool = False,
) -> None:
    """Note where the figures of nodes come from, and which are unknown."""
    for part in parts.values():
        part.looked_s = None if part.looked_s is None else part.looked_s + ago
    whole = lru.total(parts.values())
    why = found.unseen(parts, why)
    if whole.bytes is not None and (why != BLIND or whole.bytes >= whole.unknown_bytes):
        why = "ok"
    todo = "" if why == "ok" else LOOK
    found.sources[name] = Note(note.origin, why, todo, whole.looked_s, estimate)


def twice(source: Source, seconds: float) -> Snapshot:
    """The machine after ``seconds``, with rates; a bundle with one sample has none."""
    sampler = Sampler(source)
    sampler.mark()
    try:
        source.wait(seconds)
    except EOFError:
        sampler = Sampler(source)  # no rates from a sample to itself
    return sampler.take()
