# SPDX-License-Identifier: GPL-2.0
"""Pages that move up and down, by mechanism: rates between two samples.

pgpromote_success counts promotions of NUMA balancing, and with our kernel those of kpromoted as
well; it counts none of DAMON.  In mode 1 NUMA balancing counts numa_pages_migrated only, whichever
node the page comes from.  pgdemote_direct has what kpromoted demotes (tier_demote_success).
"""

from __future__ import annotations

from dataclasses import dataclass

from tierctl.core.parse import number, pairs, per_second
from tierctl.core.paths import VMSTAT
from tierctl.core.reply import Note, note_for
from tierctl.core.source import Source
from tierctl.read.mechanisms import MOVERS, Mechanisms

LAG = 0.02  # a smaller difference between two counters of the same pages is none
DAMON_TODO = "DAMON counts only on request: echo update_schemes_stats > {}/state"


@dataclass
class Sample:
    """Counters at one time."""

    time: float
    vmstat: dict[str, int]
    damon: dict[str, int | None]  # bytes that a scheme has moved, by place


Moves = dict[str, float | None]  # bytes a second by mechanism


@dataclass
class Flow:
    """Movement between two samples; totals are None if a mechanism's share is unknown."""

    interval_s: float
    up: Moves
    down: Moves
    up_bytes_per_s: float | None
    down_bytes_per_s: float | None
    again_share: float | None  # of what kpromoted promotes: demoted less than 64 s before
    hint_faults_per_s: float | None
    up_bytes: int | None  # since boot; unknown if DAMON moves pages
    down_bytes: int | None


def take(source: Source, mechanisms: Mechanisms) -> Sample:
    schemes = (one for action in MOVERS for one in mechanisms.movers(action))
    moved = {one.place: number(source.get(f"{one.place}/stats/sz_applied")) for one in schemes}
    return Sample(source.clock(), pairs(source.get(VMSTAT)), moved)


class _Rates:
    def __init__(self, before: Sample, after: Sample, page: int) -> None:
        self.before, self.after, self.page = before, after, page
        self.seconds = after.time - before.time

    def events(self, name: str) -> float | None:
        """Of a row of /proc/vmstat; None without the row."""
        return per_second(self.before.vmstat.get(name), self.after.vmstat.get(name), self.seconds)

    def pages(self, name: str) -> float | None:
        found = self.events(name)
        return None if found is None else found * self.page

    def rest(self, name: str, part: float | None) -> float | None:
        """A row without a part that is known.

        Rows of nodes lag behind those of tier_*, as each CPU keeps some pages back for a second.
        """
        found = self.pages(name)
        if found is None or part is None:
            return found
        return found - part if found - part > LAG * part else 0.0

    def damon(self, places: list[str]) -> float | None:
        """Bytes that schemes move; None if DAMON has not counted in between."""
        total = 0.0
        for place in places:
            first, last = self.before.damon.get(place), self.after.damon.get(place)
            found = per_second(first, last, self.seconds)
            if not found:  # the figure stands still until DAMON is asked
                return None
            total += found
        return total


def _total(moves: Moves) -> float | None:
    known = [one for one in moves.values() if one is not None]
    return sum(known) if known and len(known) == len(moves) else None


def between(before: Sample, after: Sample, mechanisms: Mechanisms, page: int, alone: bool) -> Flow:
    """The flow from one sample to the next; ``alone``: one fast node is where all threads run."""
    rates, rows = _Rates(before, after, page), after.vmstat
    again, ours = rates.events("tier_promote_again"), rates.pages("tier_promote_success")
    up: Moves = {"promote": ours} if mechanisms.part("promote") else {}
    hints = rates.rest("pgpromote_success", ours)
    risen, moved = rows.get("pgpromote_success"), rows.get("numa_pages_migrated")
    own = rows.get("tier_promote_success", 0)
    if alone and moved is not None:  # in any mode
        risen = moved + own
    elif moved and moved > (1 + LAG) * ((risen or 0) - own):
        risen = None  # moves in mode 1, of which some went up
    # NUMA balancing counts promotions in mode 2 only, and kpromoted counts in any mode.
    if mechanisms.balances() and not mechanisms.works("promote"):
        hints = rates.pages("numa_pages_migrated")
        up["numa_balancing"] = hints if alone or not hints else None
    elif mechanisms.hints_promote() or (hints is not None and not up):
        up["numa_balancing"] = hints
    demoted = rates.pages("tier_demote_success")
    down: Moves = {"promote": demoted} if mechanisms.part("promote") else {}
    down["kswapd"] = rates.pages("pgdemote_kswapd")
    down["direct"] = rates.rest("pgdemote_direct", demoted)
    if "pgdemote_khugepaged" in rows:
        down["khugepaged"] = rates.pages("pgdemote_khugepaged")
    for moves, action in ((up, "migrate_hot"), (down, "migrate_cold")):
        schemes = [one.place for one in mechanisms.movers(action)]
        if schemes or mechanisms.damon is None:
            moves["damon"] = rates.damon(schemes) if schemes else None
    sunk = [value for name, value in rows.items() if name.startswith("pgdemote_")]
    return Flow(
        interval_s=rates.seconds,
        up=up,
        down=down,
        up_bytes_per_s=_total(up),
        down_bytes_per_s=_total(down),
        again_share=again * page / ours if again is not None and ours else None,
        hint_faults_per_s=rates.events("numa_hint_faults"),
        up_bytes=None if risen is None or "damon" in up else risen * page,
        down_bytes=sum(sunk) * page if sunk and "damon" not in down else None,
    )


def notes(source: Source, flow: Flow, mechanisms: Mechanisms) -> dict[str, Note]:
    found = {"flow": note_for(source, VMSTAT)}
    if found["flow"].state == "ok" and flow.up_bytes_per_s is None and not flow.up:
        todo = "a kernel with NUMA balancing counts pgpromote_success"
        found["flow"] = Note(None, f"no row of promotions in {VMSTAT}", todo)
    if flow.up.get("numa_balancing", 0) is None:
        what = "NUMA balancing 1 counts moves up and between fast nodes together"
        found["flow"] = Note(None, what) if mechanisms.balances() else found["flow"]
    if mechanisms.damon and None in (flow.up.get("damon", 0), flow.down.get("damon", 0)):
        first = next(one for action in MOVERS for one in mechanisms.movers(action))
        todo = DAMON_TODO.format(first.place.partition("/contexts")[0])
        found["damon"] = Note(None, "not counted since the last sample", todo)
    if mechanisms.damon is None:
        found["damon"] = mechanisms.sources["damon"]
    return found
