# SPDX-License-Identifier: GPL-2.0
"""What `explain` knows of the machine: a snapshot, and what was heard while tierctl listened."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from tierctl.core.parse import as_ranges
from tierctl.core.paths import CGROUP, ZONEINFO
from tierctl.core.reply import Note
from tierctl.core.source import Source
from tierctl.model.snapshot import ALONE, Sampler, Snapshot
from tierctl.read import counters, groups, nodes, threads, trace
from tierctl.read.mechanisms import HINTS, PROMOTE
from tierctl.read.nodes import Zone
from tierctl.read.trace import Heard, Span, Visit

COUNTERS_S = 1.0  # counters need no longer
IDLE_S = 5  # what did nothing for so long stands still: a process, or promotion


@dataclass
class Scene:
    """The machine, and what it did while tierctl listened."""

    now: Snapshot
    listening: Note | None = None  # the caller has an instance of tracefs
    seconds: float = 0.0
    hint_faults: float | None = None  # a second
    moved: dict[str, int] = field(default_factory=dict)  # growth of rows of /proc/vmstat
    heard: Heard | None = None
    later: list[Zone] = field(default_factory=list)  # after listening
    span: Span | None = None  # the last visit of the process
    idle: bool = False  # the process used no CPU time

    @property
    def source(self) -> Source:
        """What is read."""
        return self.now.source

    @property
    def sources(self) -> dict[str, Note]:
        """Where figures come from."""
        return self.now.sources

    @property
    def promoters(self) -> frozenset[str]:
        """The mechanisms that promote."""
        return self.now.mechanisms.promoters()

    @property
    def rules(self) -> frozenset[str]:
        """The promoters by whose rules pages stay; while none works, the one that is here."""
        return self.promoters or frozenset({PROMOTE if self.now.mechanisms.tier else HINTS})

    @property
    def scans(self) -> bool:
        """Workers visit address spaces."""
        return self.now.mechanisms.works("scan")

    def visits(self, pid: int) -> list[Visit]:
        """The visits of a process that looked for candidates."""
        heard = self.heard.visits if self.heard else []
        return [one for one in heard if one.pid == pid and not one.change]


def begin(source: Source, listening: Note | None = None, quick: bool = True) -> Scene:
    """The machine now; ``listening``: the note of the caller's trace.instance()."""
    return Scene(Sampler(source).take(quick), listening)


def _ticks(source: Source, pid: int | None) -> dict[int, int]:
    name = source.get(f"/proc/{pid}/comm") if pid is not None else None
    return threads.ticks(source, {pid: name}) if pid is not None and name is not None else {}


def _listen(scene: Scene, seconds: float) -> None:
    source, own = scene.source, scene.listening
    with nullcontext(own) if own else trace.instance(source) as note:
        source.wait(seconds if note.origin else min(seconds, COUNTERS_S))
        scene.heard = trace.heard(source, note)
    if note.origin and scene.heard is None:
        note = Note(None, "no trace was captured", "capture with --explain")
    scene.sources["visits"] = note


def watch(scene: Scene, seconds: float, pid: int | None = None) -> None:
    """Listen to visits and skips of a process, or see how fast hint faults come."""
    source, listens = scene.source, scene.scans and pid is not None
    faults = HINTS in scene.promoters and PROMOTE not in scene.promoters
    if listens and not seconds:
        scene.sources["visits"] = Note(None, "not listened", "--seconds 10")
    if seconds and (listens or faults):
        before, ticks = counters.take(source, scene.now.mechanisms), _ticks(source, pid)
        try:
            if listens:
                _listen(scene, seconds)
            else:
                source.wait(min(seconds, COUNTERS_S))
        except EOFError:
            scene.sources.update({"flow": ALONE} | ({"visits": ALONE} if listens else {}))
        else:
            _compare(scene, before)
            after = _ticks(source, pid)
            scene.idle = bool(ticks) and ticks == after and scene.seconds >= IDLE_S
    if listens and pid is not None:
        scene.span = (trace.spans(source) or {}).get(pid)


def _compare(scene: Scene, before: counters.Sample) -> None:
    mechanisms, page = scene.now.mechanisms, scene.now.machine.page
    after = counters.take(scene.source, mechanisms)
    scene.seconds = after.time - before.time
    flow = counters.between(before, after, mechanisms, page, len(scene.now.fast) == 1)
    scene.hint_faults = flow.hint_faults_per_s
    scene.moved = {name: now - before.vmstat.get(name, now) for name, now in after.vmstat.items()}
    scene.later = nodes.zones(scene.source.get(ZONEINFO))


def rooms(scene: Scene, wanted: Sequence[int]) -> int | None:
    """The same for several nodes together, at the time when there was less."""
    sums = []
    for later in ((), scene.later):
        found = [
            nodes.room(scene.now.machine, one, PROMOTE in scene.rules, later) for one in wanted
        ]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        sums.append(sum(known))
    return min(sums)


def on_nodes(text: str, pattern: re.Pattern[str], wanted: Iterable[int]) -> int:
    """The sum of rows of memory.numa_stat on nodes."""
    numbers = set(wanted)
    cells = (cell for row in pattern.findall(text) for cell in groups.CELL.findall(row))
    return sum(int(value) for node, value in cells if int(node) in numbers)


def shell_name(path: str) -> str:
    """A group in a command."""
    return shlex.quote(path.strip("/"))


def cpuset_words(scene: Scene, allowed: Sequence[int], path: str) -> dict[str, str]:
    """The words of the cause cpuset."""
    every = as_ranges([*scene.now.fast, *scene.now.slow])
    file = shlex.quote(f"{CGROUP}{path}/cpuset.mems")
    return {"allowed": as_ranges(allowed), "all": every, "file": file}


def group_of(source: Source, pid: int) -> str | None:
    """The path of the group (v2) of a process, "" for the root."""
    for line in (source.get(f"/proc/{pid}/cgroup") or "").splitlines():
        if line.startswith("0::/") and ".." not in line.split("/"):
            return line.removeprefix("0::").rstrip("/")
    return None
