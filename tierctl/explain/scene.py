# SPDX-License-Identifier: GPL-2.0
"""What `explain` answers, and what it knows of the machine: a snapshot, and what happened since.

A part of the slow memory has one cause, the first that is proven.  The rest is `unknown`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tierctl.core import texts
from tierctl.core.parse import as_ranges
from tierctl.core.paths import BALANCING, CGROUP, LIMIT, PROMOTE_RATE, VMSTAT, ZONEINFO
from tierctl.core.reply import note_for
from tierctl.core.source import Source
from tierctl.explain.obstacles import GENERAL, Obstacle, nothing_promotes
from tierctl.model.snapshot import Snapshot
from tierctl.read import counters, groups, nodes, spans, threads
from tierctl.read.groups import Limit
from tierctl.read.mechanisms import HINTS, PROMOTE
from tierctl.read.nodes import Zone
from tierctl.read.spans import Span

ACT, FINE, UNKNOWN = "act", "fine", "unknown"  # verdicts; others are "by design", "its policy"
COUNTERS_S = 1.0  # counters need no longer
IDLE_S = 5  # what did nothing for so long stands still: a process, or promotion
REFUSED = "tier_promote_fail_watermark"  # candidates that found no room


@dataclass
class Reason:
    """A part of the slow memory with one cause, in bytes."""

    id: str
    bytes: int
    at_most: bool
    verdict: str
    what: str
    todo: str | None
    proof: str  # the source


@dataclass
class Explained:
    """Why memory is slow; bytes.  The reasons add up to ``slow``."""

    target: str  # process, group, node
    name: str
    pid: int | None = None
    group: str | None = None
    node: int | None = None
    tier: str | None = None  # of a node
    total: int | None = None
    slow: int | None = None
    slow_low: int | None = None  # slow_low to slow_high holds 95 times of 100
    slow_high: int | None = None
    places: int | None = None  # page tables that were looked at
    all_places: int | None = None
    reasons: list[Reason] = field(default_factory=list)
    looked_at: list[str] = field(default_factory=list)  # what is no reason
    not_looked_at: list[str] = field(default_factory=list)

    @property
    def actions(self) -> bool:
        return any(one.verdict == ACT for one in self.reasons)


def stated(cause: str, proof: str, **words: object) -> Reason:
    """A cause that holds, and of which no memory is slow."""
    known = texts.cause(cause)
    what, todo = known["what"].format(**words), known["todo"].format(**words)
    return Reason(cause, 0, False, known["verdict"], what, todo or None, proof)


@dataclass
class Split:
    """Slow memory that is divided; the parts add up to ``total``."""

    total: int
    reasons: list[Reason] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Bytes without a cause so far."""
        return self.total - sum(one.bytes for one in self.reasons)

    def take(
        self, cause: str, size: float, proof: str, at_most: bool = False, /, **words: object
    ) -> None:
        """Give a part its cause; at most what is left, and nothing if that is nothing."""
        given = min(round(size), self.left)
        if given > 0:
            found = stated(cause, proof, **words)
            found.bytes, found.at_most = given, at_most
            self.reasons.append(found)

    def rest(self, cause: str, proof: str, at_most: bool = False, /, **words: object) -> None:
        """Give all that is left a cause."""
        self.take(cause, self.left, proof, at_most, **words)


@dataclass
class Scene:
    """The machine, and what it did while tierctl waited."""

    now: Snapshot
    seconds: float = 0.0
    hint_faults: float | None = None  # a second
    moved: dict[str, int] = field(default_factory=dict)  # growth of rows of /proc/vmstat
    later: list[Zone] = field(default_factory=list)  # after waiting
    visit: Span | None = None  # the last one of the process
    idle: bool = False  # the process used no CPU time

    @property
    def promoters(self) -> frozenset[str]:
        return self.now.mechanisms.promoters()

    @property
    def rules(self) -> frozenset[str]:
        """The promoters by whose rules pages stay; while none works, the one that is here."""
        return self.promoters or frozenset({PROMOTE if self.now.mechanisms.tier else HINTS})

    @property
    def hot(self) -> bool:
        """A visit while tierctl waited has found candidates."""
        visit = self.visit
        return visit is not None and visit.pushed > 0 and visit.age_ms < 1000 * self.seconds


def _ticks(source: Source, pid: int | None) -> dict[int, int]:
    name = source.get(f"/proc/{pid}/comm") if pid is not None else None
    return threads.ticks(source, {pid: name}) if pid is not None and name is not None else {}


def watch(scene: Scene, seconds: float, pid: int | None = None) -> None:
    """Wait, and see what moves, and the last visit of a process by a worker."""
    source, mechanisms = scene.now.source, scene.now.mechanisms
    visited = pid is not None and mechanisms.works("scan")
    faults = HINTS in scene.promoters and PROMOTE not in scene.promoters
    if seconds and (visited or faults):
        sample, ticks = counters.take(source, mechanisms), _ticks(source, pid)
        try:
            source.wait(seconds if visited else min(seconds, COUNTERS_S))
        except EOFError:
            pass  # a bundle with one sample
        else:
            _compare(scene, sample)
            scene.idle = bool(ticks) and ticks == _ticks(source, pid) and scene.seconds >= IDLE_S
    if visited and pid is not None:
        scene.visit = (spans.spans(source) or {}).get(pid)
        todo = "mount -t debugfs debugfs /sys/kernel/debug"
        scene.now.sources["visits"] = note_for(source, spans.SPANS, todo)


def _compare(scene: Scene, before: counters.Sample) -> None:
    mechanisms, page = scene.now.mechanisms, scene.now.machine.page
    after = counters.take(scene.now.source, mechanisms)
    scene.seconds = after.time - before.time
    flow = counters.between(before, after, mechanisms, page, len(scene.now.fast) == 1)
    scene.hint_faults = flow.hint_faults_per_s
    scene.moved = {name: now - before.vmstat.get(name, now) for name, now in after.vmstat.items()}
    scene.later = nodes.zones(scene.now.source.get(ZONEINFO))


def rooms(scene: Scene, wanted: Sequence[int]) -> int | None:
    """Room for promotion on nodes together, at the time when there was less."""
    found = [
        [nodes.room(scene.now.machine, one, PROMOTE in scene.rules, later) for one in wanted]
        for later in ((), scene.later)
    ]
    if any(None in one for one in found):
        return None
    return min(sum(size or 0 for size in one) for one in found)


def on_nodes(text: str, pattern: re.Pattern[str], wanted: Iterable[int]) -> int:
    """The sum of rows of memory.numa_stat on nodes."""
    numbers = set(wanted)
    cells = (cell for row in pattern.findall(text) for cell in groups.CELL.findall(row))
    return sum(int(value) for node, value in cells if int(node) in numbers)


def shell_name(path: str) -> str:
    return shlex.quote(path.strip("/"))


def cpuset_words(scene: Scene, allowed: Sequence[int], path: str) -> dict[str, str]:
    every = as_ranges([*scene.now.fast, *scene.now.slow])
    file = shlex.quote(f"{CGROUP}{path}/cpuset.mems")
    return {"allowed": as_ranges(allowed), "all": every, "file": file}


def group_of(source: Source, pid: int) -> str | None:
    """The path of the group (v2) of a process, "" for the root."""
    for line in (source.get(f"/proc/{pid}/cgroup") or "").splitlines():
        if line.startswith("0::/") and ".." not in line.split("/"):
            return line.removeprefix("0::").rstrip("/")
    return None


def names(wanted: Sequence[int]) -> str:
    """node 0, or nodes 0 and 1."""
    words = [str(one) for one in wanted]
    if len(words) < 2:
        return f"node {words[0]}" if words else "a fast node"
    return f"nodes {', '.join(words[:-1])} and {words[-1]}"


def _full(scene: Scene, allowed: Sequence[int]) -> Obstacle | None:
    free, mechanisms = rooms(scene, allowed), scene.now.mechanisms
    # The counter does not tell which node had no room.
    refused = scene.moved.get(REFUSED) and set(allowed) == set(scene.now.fast)
    if not allowed or (free != 0 and not refused):
        return None
    todo = "tierctl heat shows what is cold there; colder pages go down first"
    if mechanisms.demotes() is False:
        # The part demote works only while tier/enabled is 1.
        part = mechanisms.part("demote") is not None and mechanisms.enabled
        command = f"tierctl set {'demote.' if part else 'demotion_'}enabled 1"
        todo = f"demotion is off, so nothing frees memory: {command}"
    proof = ZONEINFO if free == 0 else f"{VMSTAT} {REFUSED}"
    return Obstacle("full", proof, {"nodes": names(allowed), "todo": todo})


def limit(found: Sequence[Limit]) -> Obstacle | None:
    """A limit below which no page, or no huge page, has room."""
    for one in found:
        if one.limit and one.reached:
            words = {"group": groups.title(one.path), "name": shell_name(one.path)}
            words |= {"limit": f"{max(1, one.limit >> 20)}M", "more": f"{max(1, one.limit >> 19)}M"}
            return Obstacle("limit", f"{CGROUP}{one.path}/{LIMIT}", words)
    return None


def obstacle(scene: Scene, allowed: Sequence[int], found: Sequence[Limit]) -> Obstacle | None:
    """What keeps hot pages of a process or group from moving, as far as that is proven.

    ``allowed``: fast nodes.
    """
    if PROMOTE not in scene.promoters:
        return nothing_promotes(scene.now.mechanisms)
    way = limit(found) or _full(scene, allowed)
    if way or scene.moved.get("tier_promote_success") != 0 or scene.seconds < IDLE_S:
        return way
    return Obstacle("stuck", VMSTAT, {"seconds": f"{scene.seconds:.0f}"})


def faults(scene: Scene, allowed: Sequence[int]) -> Obstacle:
    """What a page waits for while NUMA balancing or DAMON promotes, and not the part promote."""
    mechanisms, rate = scene.now.mechanisms, scene.hint_faults
    if HINTS not in scene.promoters:
        place = next((one.place for one in mechanisms.movers("migrate_hot")), "")
        why = "DAMON promotes, and does not say which pages it found hot"
        return Obstacle("unknown", place, {"why": why})
    stuck = scene.moved.get("pgpromote_candidate") and not scene.moved.get("pgpromote_success")
    full = _full(scene, allowed) if stuck else None
    if full:
        return full
    todo = "wait, or raise kernel.numa_balancing_promote_rate_limit_MBps"
    if mechanisms.tier:
        todo = f"{GENERAL}: workers find hot pages without faults"
    elif scene.now.source.get(PROMOTE_RATE) == "0":
        todo = "raise kernel.numa_balancing_promote_rate_limit_MBps, which is 0"
    elif rate == 0:
        todo = (
            "wait: NUMA balancing comes back to a process after a minute of its CPU time or more, "
            "and moves what then has room"
        )
    words = {"faults": "?" if rate is None else f"{rate:.0f}", "todo": todo}
    return Obstacle("hint-faults", BALANCING, words)
