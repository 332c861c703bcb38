# SPDX-License-Identifier: GPL-2.0
"""How a process is explained: its pages by kind, and what visits of workers have found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tierctl.core import text
from tierctl.core.errors import DENIED, USAGE, TierctlError, as_root
from tierctl.core.parse import as_ranges, number, ranges
from tierctl.core.paths import CGROUP, LIMIT, NODES, TIERS
from tierctl.core.reply import Note
from tierctl.core.source import ABSENT, MISSING, reason_of
from tierctl.core.source import DENIED as REFUSED
from tierctl.explain import obstacles, scene
from tierctl.explain.obstacles import Obstacle
from tierctl.explain.scene import Scene
from tierctl.explain.split import UNKNOWN, Explained, Reason, Split, stated
from tierctl.model.snapshot import found_hot
from tierctl.read import flags, groups, pages, trace
from tierctl.read.flags import BOTH, Area, Sampled
from tierctl.read.groups import Limit
from tierctl.read.mechanisms import PROMOTE

FULL_US = 250_000  # the window while nodes are full, if no more is hot than can move (policy.c)
DEEP = 1 << 30  # bytes; mappings of a larger process are walked with --deep only
POLICIES = "memory policies"
ADVICE = "madvise(2) (sr and rr in VmFlags of /proc/PID/smaps)"
HIDDEN = "which pages are mlocked or dirty is not known"
MAYBE = ("full", "limit", "observe")  # these hold, whether or not memory is hot


@dataclass
class Hot:
    """What workers have found hot, and how."""

    low: int
    high: int
    looks: int
    window: str
    least_us: int  # the shortest window
    proof: str
    whole: bool  # they have looked at all slow memory of the process


def facts(found: Scene) -> list[str]:
    """What the machine's settings are, in words."""
    mechanisms, fast = found.now.mechanisms, found.now.fast
    demotes = {True: "on", False: "off", None: "?"}[mechanisms.demotes()]
    words = [f"demotion {demotes}"]
    if mechanisms.tier:
        words.append(f"tiering {mechanisms.state or '?'}")
    mode = mechanisms.numa_balancing
    absent = mechanisms.sources["numa_balancing"].state.startswith(ABSENT)
    words.append("no NUMA balancing" if absent else f"NUMA balancing {text.count(mode)}")
    if len(found.promoters) > 1:
        words.append(f"{len(found.promoters)} promoters: {', '.join(sorted(found.promoters))}")
    if fast:
        free = scene.rooms(found, fast)
        words.append(f"room on {obstacles.names(fast)}: {mib(free)}")
    return words


def mib(size: int | None) -> str:
    """Bytes as MiB."""
    return "?" if size is None else f"{size >> 20} MiB"


def limit_words(limits: Sequence[Limit]) -> list[str]:
    """The limits of a group and of those above it, in words."""
    found = [f"memory.tier.max of {groups.title(one.path)} {mib(one.limit)}" for one in limits]
    return found or ["no limit"]


def no_slow_tier(answer: Explained, found: Scene) -> Explained:
    """The answer for a machine without slow nodes: one reason, of 0 bytes."""
    answer.reasons = [stated("no-slow-tier", TIERS)]
    answer.looked_at = facts(found)
    return answer


def waiting(found: Scene, node: int | None = None) -> int | None:
    """Bytes on a slow node, or on all, that workers have found hot and that wait.

    None if a node does not tell: that is not 0.
    """
    parts = found_hot(found.source, found.now.machine, found.now.mechanisms)
    if parts is None:
        return None
    return sum(one.bytes or 0 for at, one in parts.items() if node in (None, at))


def pools(found: Scene) -> str:
    """Where hugetlb pages are reserved on fast nodes."""
    return ", ".join(f"{NODES}/node{one}/hugepages" for one in found.now.fast)


# --- what could move -------------------------------------------------------------


def _window(values: Sequence[int]) -> str:
    """From the shortest window to the longest one, in ms."""
    low, high = round(min(values) / 1000), round(max(values) / 1000)
    return f"{low} ms" if low == high else f"{low} to {high} ms"


def hot_of(found: Scene, pid: int, ends: tuple[int, int] | None) -> Hot | None:
    """What visits have found hot of a process; None without a visit.

    The parts of a large address space are visited one after the other, and a page that does not
    move is found again: so the truth lies between the largest visit and the sum of all visits.
    All of it was visited if two visits have ended a turn, if one was a turn, or if the last visit
    was at all slow pages (debugfs tier/spans has its addresses).  ``ends``: their addresses.
    """
    visits, span, page = found.visits(pid), found.span, found.now.machine.page
    whole = bool(span and ends and span.begin <= ends[0] and ends[1] < span.end)
    if visits and found.heard:
        # Events do not tell a look that was cut short; the file leaves out the visit.
        seen = span is None or span.age_ms <= 1000 * found.seconds
        own = [one for one in found.heard.visits if one.pid == pid]
        # Looks for change come between turns only (visit_due() in mm/tier/kmmscand/visit.c).
        alone = any(before.change and one.done for before, one in itertools.pairwise(own))
        turn = seen and not found.heard.lost and (alone or sum(one.done for one in visits) > 1)
        pushed = [one.pushed * page for one in visits]
        windows = [one.window_us for one in visits]
        proof = (found.sources.get("visits") or Note(None)).origin or ""
        low, high, looks = max(pushed), sum(pushed), 2 * len(visits)
        return Hot(low, high, looks, _window(windows), min(windows), proof, whole or turn)
    if span is None:
        return None
    size = span.pushed * page
    window = f"{_window([span.window_us])}, {span.age_ms / 1000:.0f} s ago"
    return Hot(size, size, 2, window, span.window_us, trace.SPANS, whole)


def moving(split: Split, found: Scene, hot: Hot | None, way: Obstacle | None) -> None:
    """Divide what could move: hot and kept, hot and on its way, cold, or unknown."""
    if hot is None:
        note = found.sources.get("visits") or Note(None)
        why = "no visit was seen" if note.origin else f"visits were not seen ({note.state})"
        if_hot(split, way, why)
        split.rest("unknown", note.origin or "", 0, why=f"not known to be hot or cold: {why}")
        return
    if way is not None and way.id == "full" and hot.least_us < FULL_US:
        # While nothing can move, the kernel shortens windows until they find next to nothing.
        if hot.high:
            split.rest(way.id, way.proof, hot.low, **way.words)
        if_hot(split, way, f"looks of {hot.window} find the hottest only")
        return
    left = split.left
    high = min(hot.high, left) if hot.whole else left
    if way is not None and hot.high:
        split.take(way.id, hot.low, way.proof, hot.low, high, **way.words)
    elif hot.high:
        waits = waiting(found)
        now = hot.low if waits is None else min(hot.low, waits)
        split.take("queue", now, hot.proof, 0, high)
    if hot.whole:
        split.rest("cold", hot.proof, left - high, looks=hot.looks, window=hot.window)
    else:
        what = f"not found in the last {hot.looks} looks of {hot.window}"
        split.rest("unknown", hot.proof, 0, why=f"{what}; they may not have reached all of it")


def if_hot(split: Split, way: Obstacle | None, why: str, size: int | None = None) -> None:
    """Give all that is left, or a part of it, an obstacle that holds if it is hot."""
    size = min(split.left, split.left if size is None else size)
    if way is None or way.id not in MAYBE or size <= 0:
        return
    split.take(way.id, size, way.proof, 0, None, **way.words)
    last = split.reasons[-1]
    what = last.what.removeprefix("hot").lstrip(",; ")
    last.what = f"if hot: {what}; how much is hot is not known: {why}"


def by_fault(split: Split, found: Scene, allowed: Sequence[int]) -> None:
    """What is left while NUMA balancing or DAMON promotes."""
    way = obstacles.faults(found, allowed)
    split.rest(way.id, way.proof, 0, **way.words)
    if split.reasons and not found.now.mechanisms.tier and way.id == "hint-faults":
        split.reasons[-1].verdict = UNKNOWN


# --- a process -------------------------------------------------------------------


def _areas(found: Scene, answer: Explained, maps: str, deep: bool) -> list[Area]:
    """The mappings, with policies if they may be read: numa_maps walks all pages."""
    mappings, path = flags.areas(maps), f"/proc/{answer.pid}/numa_maps"
    if (answer.total or 0) > DEEP and not deep:
        why = "more than 1 GiB: --deep walks all of it"
    else:
        policies = found.source.get(path)
        if policies is not None:
            flags.with_policies(mappings, policies, set(found.now.fast))
            return mappings
        why = f"{path}: {found.source.why(path)}"
    answer.not_looked_at.append(f"{POLICIES} ({why})")
    return mappings


def _sampled(found: Scene, pid: int, maps: str, mappings: Sequence[Area]) -> Sampled:
    try:
        return flags.process(found.source, pid, maps, found.now.machine, mappings, found.rules)
    except pages.Refused as error:
        what, _, todo = str(error).partition("; ")
        raise TierctlError(f"process {pid}: {what}", todo or "-", DENIED) from error
    except OSError as error:
        why = reason_of(error)
        known = {ABSENT: "it has ended", MISSING: f"capture again with --explain {pid}"}
        code = DENIED if why == REFUSED else USAGE
        what = f"/proc/{pid}/pagemap cannot be read ({why})"
        raise TierctlError(what, known.get(why, as_root(found.source.live)), code) from error


def _estimate(
    sampled: Sampled, counts: Sequence[float], all_places: int, total: int
) -> tuple[float, float]:
    """Bytes, and half of the interval, from the pages that were counted in each place."""
    share = pages.interval([*zip(counts, sampled.present, strict=True)], all_places)
    return (share[0] * total, min(1.0, share[1]) * total) if share else (0.0, 0.0)


def _by_kind(sampled: Sampled, total: int) -> dict[str, tuple[float, float]]:
    """Bytes of slow memory by kind, and half of the interval."""
    # Where a part of the pages of a place was looked at, all places are no whole.
    whole = sampled.all_places if sampled.exact else 1 << 60
    names = {name for one in sampled.counts for name in one}
    return {
        name: _estimate(sampled, [one.get(name, 0.0) for one in sampled.counts], whole, total)
        for name in (*flags.LEFT, flags.ORDINARY, flags.NO_FLAGS)
        if name in names
    }


def _whole(split: Split, found: Scene, pid: int, status: dict[str, str]) -> bool:
    """A cause for all that is left; False if there is none."""
    allowed = ranges(status.get("Mems_allowed_list"))
    group = scene.group_of(found.source, pid)
    rules, proof = found.rules, f"/proc/{pid}/status"
    if allowed and not set(allowed) & set(found.now.fast) and rules <= BOTH:
        words = scene.cpuset_words(found, allowed, group or "/GROUP")
        split.rest("cpuset", f"{proof} Mems_allowed_list", None, **words)
        return True
    if status.get("TierScan") == "0" and rules == {PROMOTE}:
        split.rest("opt-out", f"{proof} TierScan")
        return True
    return False


def limit_zero(split: Split, found: Scene, limits: Sequence[Limit]) -> bool:
    """All that is left stays if a limit is 0."""
    zero = next((one for one in limits if not one.limit), None)
    if zero is None or found.rules != {PROMOTE}:
        return False
    words = {"group": groups.title(zero.path), "name": scene.shell_name(zero.path)}
    split.rest("limit-zero", f"{CGROUP}{zero.path}/{LIMIT}", None, **words)
    return True


def nothing(split: Split, found: Scene) -> bool:
    """All that is left stays if no mechanism finds hot pages."""
    way = obstacles.nothing_promotes(found)
    if way:
        split.rest(way.id, way.proof, None, **way.words)
    return way is not None


def _idle(split: Split, found: Scene, pid: int) -> bool:
    if not found.idle or any(one.pushed for one in found.visits(pid)):
        return False
    split.rest("idle", f"/proc/{pid}/stat", None, seconds=f"{found.seconds:.0f}")
    return True


def process(found: Scene, pid: int, deep: bool, seconds: float) -> Explained:
    """Why memory of a process is slow."""
    source = found.source
    status = pages.status(source, pid)
    rss = number(status.get("VmRSS"))
    if not status:
        raise pages.missing(source, pid)
    if rss is None:
        raise TierctlError(f"process {pid} has no memory of its own", "name another one", USAGE)
    found.now.need_tiers()
    answer = Explained("process", status.get("Name", "?"), pid, scene.group_of(source, pid))
    answer.total = (rss + (number(status.get("HugetlbPages")) or 0)) << 10
    answer.slow = answer.slow_low = answer.slow_high = 0
    if not found.now.slow:
        return no_slow_tier(answer, found)
    maps = source.get(f"/proc/{pid}/maps")
    if maps is None:
        what = f"/proc/{pid}/maps cannot be read ({source.why(f'/proc/{pid}/maps')})"
        raise TierctlError(what, as_root(source.live), DENIED)
    sampled = _sampled(found, pid, maps, _areas(found, answer, maps, deep))
    answer.places, answer.all_places = sampled.places, sampled.all_places
    answer.not_looked_at.append(ADVICE)
    limits = groups.limits_above(source, answer.group, found.now.fast) if answer.group else []
    scene.watch(found, seconds, pid)
    _divide(answer, found, sampled, status, limits)
    if any(one.startswith(POLICIES) for one in answer.not_looked_at):
        for one in answer.reasons:
            one.what += "; a part may be bound by a policy" if one.id == "cold" else ""
    answer.seconds = found.seconds
    if found.heard:
        answer.visits, answer.lost = len(found.visits(pid)), found.heard.lost
    answer.looked_at += facts(found)
    answer.looked_at += [f"TierScan {status['TierScan']}"] if "TierScan" in status else []
    answer.looked_at += limit_words(limits)
    answer.looked_at.append(f"cpuset {status.get('Mems_allowed_list', '?')}")
    return answer


def _divide(
    answer: Explained,
    found: Scene,
    sampled: Sampled,
    status: dict[str, str],
    limits: Sequence[Limit],
) -> None:
    pid, total = answer.pid or 0, answer.total or 0
    counts = [sum(one.values()) for one in sampled.counts]
    slow, error = _estimate(sampled, counts, sampled.all_places, total)
    answer.slow, answer.slow_low = round(slow), max(0, round(slow - error))
    answer.slow_high = min(total, round(slow + error))
    split = Split(answer.slow)
    answer.reasons = split.reasons
    kinds = _by_kind(sampled, total)
    ordinary = [kinds.pop(one) for one in (flags.ORDINARY, flags.NO_FLAGS) if one in kinds]
    policies = ", ".join(sorted(sampled.policies)) or "?"
    words = {"policies": policies, "places": pools(found), "fast": as_ranges(found.now.fast)}
    proofs = {"policy": "numa_maps", "executable": "maps", "read-only": "maps"}
    for name, (size, wide) in kinds.items():
        proof = f"/proc/{pid}/{proofs[name]}" if name in proofs else flags.FLAGS
        split.take(name, size, proof, size - wide, size + wide, **words)
    if split.reasons and not ordinary:
        last = split.reasons[-1]
        last.bytes += split.left  # of rounding
        last.high = max(last.high, last.bytes)
    if sampled.flags_why:
        answer.not_looked_at.append(f"flags of pages ({sampled.flags_why}): {HIDDEN}")
    slack, at = _merged(split, found, answer), len(split.reasons)
    allowed = ranges(status.get("Mems_allowed_list")) or found.now.fast
    allowed = [one for one in found.now.fast if one in allowed]
    if split.left and not (
        _whole(split, found, pid, status)
        or limit_zero(split, found, limits)
        or nothing(split, found)
        or _idle(split, found, pid)
    ):
        if PROMOTE in found.promoters or not found.promoters:
            way = obstacles.obstacle(found, allowed, limits)
            moving(split, found, hot_of(found, pid, sampled.ends), way)
        else:
            by_fault(split, found, allowed)
    _widen(split.reasons[at:], sum(wide for _, wide in ordinary), slack)


def _merged(split: Split, found: Scene, answer: Explained) -> int:
    """Take what KSM has merged for certain; bytes that it may have merged beyond that.

    The kernel counts merged pages of a process, and does not tell on which nodes they are.
    """
    path = f"/proc/{answer.pid}/ksm_merging_pages"
    count = number(found.source.get(path))
    if count is None and found.source.why(path) != ABSENT:
        answer.not_looked_at.append(f"KSM ({path}: {found.source.why(path)})")
    if not count or not found.rules <= BOTH:
        return 0
    merged, slow = count * found.now.machine.page, answer.slow or 0
    low, high = merged - ((answer.total or 0) - slow), min(merged, split.left)
    before = split.left
    split.take("ksm", max(0, low), path, low, high, merged=text.size(merged))
    return high - (before - split.left)


def _widen(reasons: Sequence[Reason], error: float, slack: int) -> None:
    """What was sampled is as wide as the sample tells; ``slack`` bytes may be no part of it."""
    for one in reasons:
        if one.bytes and one.low == one.high == one.bytes:
            one.low, one.high = max(0, round(one.bytes - error)), round(one.bytes + error)
        one.low = max(0, one.low - slack)
