# SPDX-License-Identifier: GPL-2.0
"""Checks of `tierctl doctor`: what finds and moves pages, and its cost."""

from __future__ import annotations

from tierctl.checks.check import INFO, WARNING, Check, Found, NotDone, need, not_known
from tierctl.core import text
from tierctl.core.paths import DEMOTION, MGLRU, ONLINE, ZONEINFO
from tierctl.core.source import ABSENT
from tierctl.core.texts import cause as cause_of
from tierctl.explain import obstacles
from tierctl.model.snapshot import Snapshot
from tierctl.read.lru import total, used
from tierctl.read.mechanisms import DAMON, HINTS, PROMOTE, TIERING
from tierctl.read.nodes import room

MOST_AGAIN = 0.1  # of promotions
MOST_FORCED = 1 / 16  # of pages without a flush
MOST_WAITING = 1 / 100  # of the fast tier
MANY = 10_000  # events, below which a share says little
NEAR = 0.9  # of a limit
NAMES = {
    PROMOTE: "the part promote",
    HINTS: "NUMA balancing (mode 2)",
    DAMON: "DAMON (migrate_hot)",
}


def _two_tiers(now: Snapshot) -> bool:
    now.need_tiers()
    return bool(now.slow)


def nothing_promotes(now: Snapshot) -> Found:
    """Slow memory, and no mechanism that moves hot pages up."""
    way = obstacles.nothing_promotes(now.mechanisms) if _two_tiers(now) else None
    if way is None:
        return
    if way.id == "unknown":
        raise NotDone("; ".join(one for one in (way.words["why"], way.words["todo"]) if one))
    cause, part = cause_of(way.id), now.mechanisms.part("promote")
    what = cause["what"].format(**way.words).removeprefix("hot; ")
    todo = cause["todo"].format(**way.words)
    if not todo.startswith("tierctl "):
        todo = todo[0].upper() + todo[1:] + ("" if "\n" in todo else ".")
    chosen = way.id == "observe" and part is not None and part.enabled is False
    yield INFO if chosen else WARNING, f"No mechanism promotes: {what}.", todo


def demotion_off(now: Snapshot) -> Found:
    """Reclaim drops or swaps pages of fast nodes, although slow nodes have room."""
    found = now.mechanisms
    if not _two_tiers(now):
        return
    need(found.demotes(), f"{DEMOTION} cannot be read")
    if found.demotes() is False:
        part = found.part("demote")
        own = found.enabled and part is not None and part.enabled is False
        promote = found.part("promote")
        observes = own and promote is not None and promote.enabled is False
        yield (
            INFO if observes else WARNING,
            "Demotion is off: reclaim swaps or drops pages of fast nodes.",
            f"tierctl set {'demote.' if own else 'demotion_'}enabled 1",
        )


def two_promoters(now: Snapshot) -> Found:
    """Mechanisms that promote the same pages."""
    found = now.mechanisms
    promoters = found.promoters()
    names = [name for one, name in NAMES.items() if one in promoters]
    unknown = found.unknown_promoter()
    if len(names) > 1:
        todo = "Leave one of them on."
        if HINTS in promoters:
            mode = 1 if len(now.fast) > 1 else 0
            todo += f"  Without hint faults:\ntierctl set numa_balancing {mode}"
        yield WARNING, f"{len(names)} mechanisms promote: {', '.join(names)}.", todo
    elif names and unknown:
        raise not_known(unknown)


def hint_faults(now: Snapshot) -> Found:
    """NUMA balancing stops programs for faults that nothing needs."""
    found = now.mechanisms
    mode = found.numa_balancing
    if PROMOTE not in found.promoters() or not mode or mode & TIERING or len(now.fast) != 1:
        return
    rate = now.flow.hint_faults_per_s if now.flow else None
    seen = f"{rate:.0f} faults/s" if rate is not None else "an unknown number of faults"
    what = f"NUMA balancing costs hint faults ({seen}), and there is one fast node only."
    yield WARNING, what, "tierctl set numa_balancing 0"


def mglru_off(now: Snapshot) -> Found:
    """Without generations demotion cannot tell how cold a page is."""
    on, note = now.mechanisms.mglru_on, now.mechanisms.sources["mglru"]
    if on is False:
        yield WARNING, "MGLRU is off: the age of pages is not known.", f"echo y > {MGLRU}"
    elif on is None and note.state.startswith(ABSENT):
        yield INFO, "This kernel has no MGLRU: the age of pages is not known.", "Nothing."
    elif on is None:
        raise not_known(note)


def bounces(now: Snapshot) -> Found:
    """Pages that go up again soon after they went down."""
    again = now.vmstat.get("tier_promote_again")
    success = now.vmstat.get("tier_promote_success")
    if again is None or success is None or success < MANY or again <= MOST_AGAIN * success:
        return
    part = now.mechanisms.part("promote")
    rate = part.knobs.get("rate_mbps") if part else None
    lower = f", or promote less:\ntierctl set promote.rate_mbps {rate // 2}" if rate else "."
    yield (
        WARNING,
        f"{100 * again / success:.0f} % of the promotions since boot came within 64 s after "
        "the demotion of the page: more is hot than fits into fast memory.",
        f"Add fast memory{lower}",
    )


def hot_waits(now: Snapshot) -> Found:
    """What was used lately and stays slow because no fast node has room."""
    promoters = now.mechanisms.promoters()
    if not promoters or not _two_tiers(now):
        return
    rooms = [room(now.machine, one, PROMOTE in promoters) for one in now.fast]
    need(None if None in rooms else rooms, f"{ZONEINFO} cannot be read")
    parts = [now.hot_total()]
    if now.lruvecs is not None:
        parts.append(total(used(now.lruvecs, now.slow, now.machine.page).values()))
    hot = max((one.bytes for one in parts if one.bytes is not None), default=0)
    size = sum(one.total or 0 for one in now.machine.of_tier("fast"))
    if hot <= MOST_WAITING * size:
        return
    waiting = f"{text.size(hot)} on slow nodes was used, or is new, in 60 s"
    if not any(rooms):
        full = "The fast node is full" if len(rooms) == 1 else "All fast nodes are full"
        todo = "Reclaim demotes cold pages: tierctl heat --look tells how many, top whose."
        if PROMOTE in promoters:
            todo = f"tierctl explain node {now.fast[0]}"
        yield INFO, f"{full}; {waiting}.", todo
    elif promoters == {HINTS}:
        what = f"{waiting}, although fast memory has room: NUMA balancing comes back to a process "
        what += "after a minute of its CPU time or more."
        yield INFO, what, "Wait; tierctl top tells whose it is, tierctl explain GROUP why it waits."


def forced(now: Snapshot) -> Found:
    """Deferred flushes that do not pay."""
    count, kept = now.vmstat.get("tier_defer_forced"), now.vmstat.get("tier_defer_success")
    if count is None or kept is None or not now.mechanisms.works("defer"):
        return
    if count + kept >= MANY and count > MOST_FORCED * kept:
        yield (
            WARNING,
            f"The part defer flushed {count:,} times for a write, and kept {kept:,} pages.",
            "tierctl set defer.enabled 0",
        )


def at_limit(now: Snapshot) -> Found:
    """Scanning or promotion takes all CPU time that it may take."""
    names = [name for name in ("scan", "promote") if now.mechanisms.works(name)]
    if not names:
        return
    if now.cost is None or now.cpus is None:
        need(now.cost, "it needs two samples")
        need(now.cpus, f"{ONLINE} cannot be read")
        return
    for name in names:
        part, used = now.mechanisms.part(name), now.cost.cpu[name]
        share = part.knobs.get("cpu_permille") if part else None
        need(used, f"the threads of the part {name} were not found")
        need(share, f"{name}/cpu_permille cannot be read")
        limit = (share or 0) * now.cpus / 1000
        if share and used is not None and used >= NEAR * limit:
            more = min(2 * share, 1000)
            yield (
                WARNING,
                f"The part {name} used {used:.2f} CPUs of the {limit:.2f} that it may use.",
                f"If CPUs are idle (the limit is {share} now):\n"
                f"tierctl set {name}.cpu_permille {more}",
            )


CHECKS = [
    Check("nothing-promotes", nothing_promotes, True),
    Check("demotion-off", demotion_off, True),
    Check("two-promoters", two_promoters, True),
    Check("hot-waits", hot_waits, True),
    Check("hint-faults", hint_faults, True),
    Check("mglru-off", mglru_off, True),
    Check("bounces", bounces, True),
    Check("forced-flushes", forced, True),
    Check("cpu-limit", at_limit, True),
]
