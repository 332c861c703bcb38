# SPDX-License-Identifier: GPL-2.0
"""How a process is explained: its pages by kind, and what visits of workers have found."""

from __future__ import annotations

from collections.abc import Sequence

from tierctl.core import text
from tierctl.core.errors import TierctlError
from tierctl.core.parse import number, ranges
from tierctl.core.paths import CGROUP, LIMIT, NODES, TIERS
from tierctl.core.source import ABSENT
from tierctl.explain import scene
from tierctl.explain.obstacles import Obstacle, nothing_promotes
from tierctl.explain.scene import UNKNOWN, Explained, Scene, Split, stated
from tierctl.model.snapshot import found_hot
from tierctl.read import flags, groups, pages
from tierctl.read.flags import BOTH, Area, Sampled
from tierctl.read.groups import Limit
from tierctl.read.mechanisms import PROMOTE
from tierctl.read.spans import SEEN_MS, SPANS

FULL_US = 250_000  # the window while nodes are full, if no more is hot than can move (policy.c)
DEEP = 1 << 30  # bytes; mappings of a larger process are walked with --deep only
POLICIES = "memory policies"
ADVICE = "madvise(2) (sr and rr in VmFlags of /proc/PID/smaps)"
HIDDEN = "which pages are mlocked or dirty is not known"
MAYBE = ("full", "limit", "observe")  # these hold, whether or not memory is hot


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
        words.append(f"free above the high watermark on {scene.names(fast)}: {mib(free)}")
    return words


def mib(size: int | None) -> str:
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
    parts = found_hot(found.now.source, found.now.machine, found.now.mechanisms)
    if parts is None:
        return None
    return sum(one.bytes or 0 for at, one in parts.items() if node in (None, at))


def pools(found: Scene) -> str:
    """Where hugetlb pages are reserved on fast nodes."""
    return ", ".join(f"{NODES}/node{one}/hugepages" for one in found.now.fast)


# --- what could move -------------------------------------------------------------


def moving(split: Split, found: Scene, way: Obstacle | None) -> None:
    """Divide what could move: hot and kept, hot and on its way, cold, or unknown."""
    visit, note = found.visit, found.now.sources.get("visits")
    if visit is None:
        why = "no visit was seen" if not note or note.origin else f"no visits ({note.state})"
        if_hot(split, way, why)
        split.rest("unknown", SPANS, why=f"not known to be hot or cold: {why}")
        return
    hot = visit.found * found.now.machine.page
    age = visit.age_ms if visit.turn_age_ms is None else visit.turn_age_ms
    window = f"{round(visit.window_us / 1000)} ms, {age / 1000:.0f} s ago"
    if way is not None and way.id == "full" and visit.window_us < FULL_US:
        # While nothing can move, the kernel shortens windows until they find next to nothing.
        if hot:
            split.rest(way.id, way.proof, True, **way.words)
        if_hot(split, way, f"looks of {window} find the hottest only")
        return
    left = split.left
    if way is not None:
        split.take(way.id, hot, way.proof, **way.words)
    else:
        waits = waiting(found)
        split.take("queue", hot if waits is None else min(hot, waits), SPANS)
    if visit.turn_age_ms is None or age > SEEN_MS:
        why = f"not found in looks of {window}; no turn over all of its memory has ended"
        why += " since" if visit.turn_age_ms is not None else ""
        split.rest("unknown", SPANS, why=why)
    else:
        split.rest("cold", SPANS, split.left > left - hot, window=window)


def if_hot(split: Split, way: Obstacle | None, why: str, size: int | None = None) -> None:
    """Give all that is left, or a part of it, an obstacle that holds if it is hot."""
    size = min(split.left, split.left if size is None else size)
    if way is None or way.id not in MAYBE or size <= 0:
        return
    split.take(way.id, size, way.proof, True, **way.words)
    last = split.reasons[-1]
    what = last.what.removeprefix("hot").lstrip(",; ")
    last.what = f"if hot: {what}; how much is hot is not known: {why}"


def by_fault(split: Split, found: Scene, allowed: Sequence[int]) -> None:
    """What is left while NUMA balancing or DAMON promotes."""
    way = scene.faults(found, allowed)
    split.rest(way.id, way.proof, way.id != "unknown", **way.words)
    if split.reasons and not found.now.mechanisms.tier and way.id == "hint-faults":
        split.reasons[-1].verdict = UNKNOWN


# --- a process -------------------------------------------------------------------


def _areas(found: Scene, answer: Explained, maps: str, deep: bool) -> list[Area]:
    """The mappings, with policies if they may be read: numa_maps walks all pages."""
    mappings, path = flags.areas(maps), f"/proc/{answer.pid}/numa_maps"
    if (answer.total or 0) > DEEP and not deep:
        why = "more than 1 GiB: --deep walks all of it"
    else:
        policies = found.now.source.get(path)
        if policies is not None:
            flags.with_policies(mappings, policies, set(found.now.fast))
            return mappings
        why = f"{path}: {found.now.source.why(path)}"
    answer.not_looked_at.append(f"{POLICIES} ({why})")
    return mappings


def limit_zero(
    split: Split, found: Scene, limits: Sequence[Limit], size: int | None = None
) -> bool:
    """All that is left, or a part of it, stays if a limit is 0."""
    zero = next((one for one in limits if not one.limit), None)
    if zero is None or found.rules != {PROMOTE}:
        return False
    words = {"group": groups.title(zero.path), "name": scene.shell_name(zero.path)}
    size = split.left if size is None else size
    split.take("limit-zero", size, f"{CGROUP}{zero.path}/{LIMIT}", **words)
    return True


def nothing(split: Split, found: Scene) -> bool:
    """All that is left stays if no mechanism finds hot pages."""
    working = found.now.mechanisms.works("scan")
    way = None if working else nothing_promotes(found.now.mechanisms)
    if way:
        split.rest(way.id, way.proof, **way.words)
    return way is not None


def _stays(
    split: Split,
    found: Scene,
    answer: Explained,
    status: dict[str, str],
    limits: Sequence[Limit],
) -> bool:
    """Give all that is left a cause; False if there is none for all of it."""
    allowed, rules = ranges(status.get("Mems_allowed_list")), found.rules
    proof = f"/proc/{answer.pid}/status"
    if allowed and not set(allowed) & set(found.now.fast) and rules <= BOTH:
        words = scene.cpuset_words(found, allowed, answer.group or "/GROUP")
        split.rest("cpuset", f"{proof} Mems_allowed_list", **words)
    elif status.get("TierScan") == "0" and rules == {PROMOTE}:
        split.rest("opt-out", f"{proof} TierScan")
    elif limit_zero(split, found, limits) or nothing(split, found):
        pass
    elif found.idle and not found.hot:
        # Others may use the memory of a process.
        split.rest("idle", f"/proc/{answer.pid}/stat", seconds=f"{found.seconds:.0f}")
    return not split.left


def process(found: Scene, pid: int, deep: bool, seconds: float) -> Explained:
    source = found.now.source
    status = pages.status(source, pid)
    rss = number(status.get("VmRSS"))
    if not status:
        raise pages.missing(source, pid)
    if rss is None:
        raise TierctlError(f"process {pid} has no memory of its own", "name another one")
    found.now.need_tiers()
    answer = Explained("process", status.get("Name", "?"), pid, scene.group_of(source, pid))
    answer.total = (rss + (number(status.get("HugetlbPages")) or 0)) << 10
    answer.slow = answer.slow_low = answer.slow_high = 0
    if not found.now.slow:
        return no_slow_tier(answer, found)
    maps = pages.maps_of(source, pid)
    mappings = _areas(found, answer, maps, deep)
    sampled = flags.process(source, pid, maps, found.now.machine, mappings, found.rules)
    answer.places, answer.all_places = sampled.places, sampled.all_places
    answer.not_looked_at.append(ADVICE)
    limits = groups.limits_above(source, answer.group, found.now.fast) if answer.group else []
    scene.watch(found, seconds, pid)
    _divide(answer, found, sampled, status, limits)
    if any(one.startswith(POLICIES) for one in answer.not_looked_at):
        for one in answer.reasons:
            one.what += "; a part may be bound by a policy" if one.id == "cold" else ""
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
    places = zip(sampled.counts, sampled.present, strict=True)
    counts = [(sum(one.values()), present) for one, present in places]
    slow, error = pages.interval(counts, sampled.all_places) or (0.0, 0.0)
    answer.slow, answer.slow_low = round(slow * total), max(0, round((slow - error) * total))
    answer.slow_high = min(total, round((slow + error) * total))
    split = Split(answer.slow, answer.reasons)
    policies = ", ".join(sorted(sampled.policies)) or "?"
    words = {"policies": policies, "places": pools(found)}
    proofs = {"policy": "numa_maps", "executable": "maps", "read-only": "maps"}
    for name in flags.LEFT:
        size = sum(one.get(name, 0.0) for one in sampled.counts) * total
        proof = f"/proc/{pid}/{proofs[name]}" if name in proofs else flags.FLAGS
        split.take(name, size / sum(sampled.present) if size else 0, proof, **words)
    ordinary = any(one.keys() - flags.LEFT.keys() for one in sampled.counts)
    if split.reasons and not ordinary:
        split.reasons[-1].bytes += split.left  # of rounding
    if sampled.flags_why:
        answer.not_looked_at.append(f"flags of pages ({sampled.flags_why}): {HIDDEN}")
    _merged(split, found, answer)
    allowed = ranges(status.get("Mems_allowed_list")) or found.now.fast
    allowed = [one for one in found.now.fast if one in allowed]
    if not split.left or _stays(split, found, answer, status, limits):
        return
    if PROMOTE in found.promoters or not found.promoters:
        moving(split, found, scene.obstacle(found, allowed, limits))
    else:
        by_fault(split, found, allowed)


def _merged(split: Split, found: Scene, answer: Explained) -> None:
    """Take what KSM has merged for certain.

    The kernel counts merged pages of a process, and does not tell on which nodes they are.
    """
    path = f"/proc/{answer.pid}/ksm_merging_pages"
    count = number(found.now.source.get(path))
    if count is None and found.now.source.why(path) != ABSENT:
        answer.not_looked_at.append(f"KSM ({path}: {found.now.source.why(path)})")
    if count and found.rules <= BOTH:
        merged, fast = count * found.now.machine.page, (answer.total or 0) - (answer.slow or 0)
        answer.looked_at.append(f"KSM has merged {text.size(merged)}")
        split.take("ksm", merged - fast, path, merged=text.size(merged))
