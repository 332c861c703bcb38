# SPDX-License-Identifier: GPL-2.0
"""Mechanisms: the parts of /sys/kernel/mm/tier, NUMA balancing, demotion, MGLRU, DAMON."""

from __future__ import annotations

from dataclasses import dataclass, field

from tierctl.core.errors import as_root
from tierctl.core.parse import number
from tierctl.core.paths import BALANCING, DEMOTION, KDAMONDS, MGLRU, TIER
from tierctl.core.reply import Note, note_for
from tierctl.core.source import ABSENT, Source

PROMOTE, HINTS, DAMON = "promote", "numa_balancing", "damon"  # mechanisms that promote
OWN = ("enabled", "state", "reason")  # of a part; all other files are knobs
MOVERS = ("migrate_hot", "migrate_cold")  # actions of DAMON that move pages between nodes
MOST = 64  # contexts, or schemes of one
FLAGS = {"1": True, "0": False, "true": True, "false": False, "Y": True, "N": False}
TIERING = 2  # bit NUMA_BALANCING_MEMORY_TIERING


@dataclass
class Part:
    """A directory of /sys/kernel/mm/tier; None: the file could not be read."""

    name: str
    enabled: bool | None
    state: str | None
    reason: str | None
    knobs: dict[str, int | None]


@dataclass
class Scheme:
    """A DAMON scheme of a kdamond."""

    place: str
    action: str
    running: bool | None


@dataclass
class Mechanisms:
    """What may move pages between tiers."""

    tier: bool | None  # the kernel has /sys/kernel/mm/tier
    enabled: bool | None
    state: str | None
    parts: list[Part]
    numa_balancing: int | None
    demotion_enabled: bool | None
    mglru: int | None  # bits
    damon: list[Scheme] | None
    sources: dict[str, Note] = field(default_factory=dict, repr=False)

    def part(self, name: str) -> Part | None:
        return next((one for one in self.parts if one.name == name), None)

    def works(self, name: str) -> bool:
        found = self.part(name)
        return found is not None and found.state == "on"

    def hints_promote(self) -> bool:
        return bool((self.numa_balancing or 0) & TIERING)

    def balances(self) -> bool:
        """NUMA balancing moves pages to the node of the thread that uses them, hot or not."""
        return self.numa_balancing == 1

    def promoters(self) -> frozenset[str]:
        """The mechanisms that promote now: promote, numa_balancing, damon.

        The part promote moves what the part scan has found, so both must be on.
        """
        found = {PROMOTE} if self.works("promote") and self.works("scan") else set()
        found |= {HINTS} if self.hints_promote() else set()
        found |= {DAMON} if any(one.running for one in self.movers("migrate_hot")) else set()
        return frozenset(found)

    def unknown_promoter(self) -> Note | None:
        """Why it is not known whether another mechanism promotes; None if it is known."""
        if self.damon is None:
            return self.sources["damon"]
        if any(one.running is None for one in self.movers("migrate_hot")):
            return Note(None, "the state of a kdamond cannot be read", as_root())
        note = self.sources["numa_balancing"]
        if self.numa_balancing is None and not note.state.startswith(ABSENT):
            return note
        return None

    @property
    def mglru_on(self) -> bool | None:
        """MGLRU keeps generations: bit 0, the others say how it looks; None if unknown."""
        return None if self.mglru is None else bool(self.mglru & 1)

    def demotes(self) -> bool | None:
        """Reclaim demotes; None if unknown."""
        if self.demotion_enabled or self.works("demote"):
            return True
        absent = self.sources["demotion_enabled"].state.startswith(ABSENT)
        return None if self.demotion_enabled is None and not absent else False

    def movers(self, action: str) -> list[Scheme]:
        """The DAMON schemes with an action that run, or may run."""
        return [
            one for one in self.damon or [] if one.action == action and one.running is not False
        ]


def flag(text: str | None) -> bool | None:
    return FLAGS.get(text or "")


def _part(source: Source, name: str) -> Part:
    place = f"{TIER}/{name}"
    files = source.listing(place) or []
    return Part(
        name,
        flag(source.get(f"{place}/enabled")),
        source.get(f"{place}/state"),
        source.get(f"{place}/reason") or None,
        {one: number(source.get(f"{place}/{one}")) for one in files if one not in OWN},
    )


def _count(source: Source, path: str) -> int:
    return min(number(source.get(path)) or 0, MOST)


def schemes(source: Source) -> list[Scheme] | None:
    """The schemes of DAMON; None if they are not to be read."""
    names = source.listing(KDAMONDS)
    if names is None:
        return [] if source.why(KDAMONDS) == ABSENT else None
    kdamonds = [name for name in names if name.isdecimal()]
    # Any user may list the directory, and only root may read the files.
    if kdamonds and source.get(f"{KDAMONDS}/nr_kdamonds") is None:
        return None
    found = []
    for kdamond in kdamonds:
        state = source.get(f"{KDAMONDS}/{kdamond}/state")
        running = None if state is None else state == "on"
        contexts = f"{KDAMONDS}/{kdamond}/contexts"
        for context in range(_count(source, f"{contexts}/nr_contexts")):
            base = f"{contexts}/{context}/schemes"
            for one in range(_count(source, f"{base}/nr_schemes")):
                action = source.get(f"{base}/{one}/action")
                found.append(Scheme(f"{base}/{one}", action or "?", running))
    return found


def read(source: Source) -> Mechanisms:
    names = source.listing(TIER)
    why = source.why(TIER)
    below = source.dirs(TIER) if names is not None else []
    found = Mechanisms(
        tier=True if names is not None else (False if why == ABSENT else None),
        enabled=flag(source.get(f"{TIER}/enabled")) if names is not None else None,
        state=source.get(f"{TIER}/state") if names is not None else None,
        parts=[_part(source, one) for one in below if not one.removeprefix("node").isdecimal()],
        numa_balancing=number(source.get(BALANCING)),
        demotion_enabled=flag(source.get(DEMOTION)),
        mglru=number(source.get(MGLRU), 16),
        damon=schemes(source),
    )
    absent = {
        "tier": (TIER, "needs a tiershift kernel"),
        "numa_balancing": (BALANCING, "this kernel has no NUMA balancing"),
        "demotion_enabled": (DEMOTION, "this kernel cannot demote"),
        "mglru": (MGLRU, "this kernel has no MGLRU"),
        "damon": (f"{KDAMONDS}/nr_kdamonds", ""),
    }
    for name, (path, todo) in absent.items():
        found.sources[name] = note_for(source, path, todo if source.why(path) == ABSENT else "")
    return found
