# SPDX-License-Identifier: GPL-2.0
"""Checks of `tierctl doctor`: what finds and moves pages, and its cost."""

from __future__ import annotations

from tierctl.checks.check import INFO, WARNING, Check, Found, need, not_known
from tierctl.core.paths import DEMOTION, MGLRU, ONLINE, TIER
from tierctl.core.source import ABSENT
from tierctl.core.texts import advice
from tierctl.model.snapshot import Snapshot
from tierctl.read.mechanisms import DAMON, HINTS, PROMOTE, TIERING, Mechanisms, Part

MOST_AGAIN = 0.1  # of promotions
MOST_FORCED = 1 / 16  # of pages without a flush
MANY = 10_000  # events, below which a share says little
NEAR = 0.9  # of a limit
NAMES = {
    PROMOTE: "the part promote",
    HINTS: "NUMA balancing (mode 2)",
    DAMON: "DAMON (migrate_hot)",
}
NOTHING = "No mechanism of the kernel promotes: hot pages stay on slow nodes."
GENERAL = "tierctl profile apply general"


def _two_tiers(now: Snapshot) -> bool:
    now.need_tiers()
    return bool(now.slow)


def balance(found: Mechanisms, mode: int) -> str:
    """The command that sets the mode of NUMA balancing."""
    own = found.part("promote") is not None
    return f"tierctl set numa_balancing {mode}" if own else f"sysctl kernel.numa_balancing={mode}"


def waits(part: Part) -> str:
    """The state of a part, and the reason for it."""
    return f"the part {part.name} is {part.state}: {part.reason or 'no reason is given'}"


def nothing_promotes(now: Snapshot) -> Found:
    """Slow memory, and no mechanism that moves hot pages up."""
    found = now.mechanisms
    if not _two_tiers(now) or found.promoters():
        return
    unknown = found.unknown_promoter()
    if unknown:
        raise not_known(unknown)
    need(found.tier, f"{TIER} cannot be read")
    if found.state == "blocked":
        yield (
            WARNING,
            "No mechanism promotes: the machine was booted with tier=off.",
            "Take tier=off out of /etc/default/grub, call update-grub, and reboot.",
        )
    elif found.tier:
        yield from _part_stands_still(found)
    elif found.sources[HINTS].state.startswith(ABSENT):
        todo = "Boot a kernel with NUMA balancing, or start DAMON with the action migrate_hot."
        yield WARNING, NOTHING, todo
    else:
        yield WARNING, NOTHING, balance(found, TIERING)


def _part_stands_still(found: Mechanisms) -> Found:
    """Why the parts scan and promote of this kernel promote nothing."""
    parts = [one for name in ("scan", "promote") if (one := found.part(name))]
    off = [one.name for one in parts if one.enabled is False]
    waiting = [one for one in parts if one.state in ("waiting", "unsupported")]
    if found.enabled and off == ["promote"]:
        yield (
            INFO,
            "promote/enabled is 0: hot pages are counted, and stay on slow nodes.",
            "If they shall move:\ntierctl set promote.enabled 1",
        )
    elif found.enabled and off == ["scan"]:
        what = "No mechanism promotes: scan/enabled is 0, so no page is found hot."
        yield WARNING, what, "tierctl set scan.enabled 1"
    elif found.enabled and waiting and not off:
        todo = advice(waiting[0].reason)
        yield WARNING, f"No mechanism promotes: {waits(waiting[0])}.", todo[0].upper() + todo[1:]
    else:
        yield WARNING, NOTHING, GENERAL


def demotion_off(now: Snapshot) -> Found:
    """Reclaim drops or swaps pages of fast nodes, although slow nodes have room."""
    found = now.mechanisms
    if not _two_tiers(now):
        return
    need(found.demotes(), f"{DEMOTION} cannot be read")
    if found.demotes() is False:
        part = found.part("demote")
        own = found.enabled and part is not None and part.enabled is False
        yield (
            WARNING,
            "Demotion is off: reclaim swaps or drops pages of fast nodes.",
            "tierctl set demote.enabled 1" if own else f"echo 1 > {DEMOTION}",
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
            todo = f"Leave one of them on, for example without hint faults:\n{balance(found, mode)}"
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
    yield WARNING, what, balance(found, 0)


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
    Check("hint-faults", hint_faults, True),
    Check("mglru-off", mglru_off, True),
    Check("bounces", bounces, True),
    Check("forced-flushes", forced, True),
    Check("cpu-limit", at_limit, True),
]
