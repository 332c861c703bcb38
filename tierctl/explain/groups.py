# SPDX-License-Identifier: GPL-2.0
"""How a group and a node are explained: rows of memory.numa_stat and meminfo, and MGLRU.

Rows are exact, but for policies, which count memory once for each process that maps it.  How much
is hot or merged by KSM `tierctl explain PID` tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from tierctl.core import text
from tierctl.core.errors import LACKING, TierctlError
from tierctl.core.parse import as_ranges, labelled_kib, number, ranges
from tierctl.core.paths import CGROUP, LRU_GEN, NODES, STAT, TIER
from tierctl.explain import process, scene
from tierctl.explain.obstacles import Obstacle
from tierctl.explain.scene import ACT, FINE, UNKNOWN, Explained, Scene, Split, stated
from tierctl.read import flags, groups, lru, pages
from tierctl.read.flags import BOTH
from tierctl.read.groups import Limit
from tierctl.read.lru import Lruvec
from tierctl.read.mechanisms import PROMOTE
from tierctl.read.nodes import Node, hugetlb

CPUSET = "cpuset.mems.effective"
KERNEL = re.compile(
    r"^(?:kernel_stack|(?:sec_)?pagetables|slab_(?:un)?reclaimable) (.+)$", re.MULTILINE
)
LOCKED = re.compile(r"^unevictable (.+)$", re.MULTILINE)
UNWRITTEN = re.compile(r"^file_(?:dirty|writeback) (.+)$", re.MULTILINE)
PAGES = re.compile(r"^(?:anon|file) (.+)$", re.MULTILINE)
PROCESSES = 256  # of a group that are looked at
READING_S = 1.0  # is spent on their policies
ONLY_VISITS = "only visits of a process tell"
BY_PROCESS = "visits, KSM{}: tierctl explain PID"


def _by_age(
    split: Split,
    found: Scene,
    wanted: Sequence[int],
    lruvecs: Iterable[Lruvec],
    way: Obstacle | None,
    hot: int | None = None,
) -> None:
    """Divide what could move by what MGLRU has seen of it.

    ``hot``: bytes that workers have found hot, which are divided already; None if unknown.
    """
    now, lruvecs = found.now, list(lruvecs)
    page, note = now.machine.page, now.sources["cold_on_fast"]
    cold = lru.total(lru.idle(lruvecs, wanted, page).values())
    recent = lru.total(lru.used(lruvecs, wanted, page).values())
    if cold.bytes:
        looked = "?" if cold.looked_s is None else f"{cold.looked_s:.0f} s"
        split.take("cold-lru", cold.bytes, LRU_GEN, looked=looked)
    if found.promoters and PROMOTE not in found.promoters:
        process.by_fault(split, found, now.fast)
        return
    process.if_hot(split, way, ONLY_VISITS)
    why = "not looked at by MGLRU for 60 s"
    if now.lruvecs is None:
        why = f"MGLRU: {note.state}"
    elif recent.bytes and hot is not None:
        split.take("warm", recent.bytes - hot, LRU_GEN)
    elif recent.bytes:
        why = f"{text.size(recent.bytes)} was used or is new in the last 60 s"
    split.rest("unknown", note.origin or "", why=f"not known to be hot or cold: {why}")


# --- a group ---------------------------------------------------------------------


def _inside(found: Scene, path: str) -> list[Lruvec]:
    """The generations of a group with those below."""
    return [one for one in found.now.lruvecs or [] if f"{one.group}/".startswith(f"{path}/")]


def _cpuset(found: Scene, path: str) -> list[int]:
    """The nodes of a group if no fast one is among them, and if they are why it stays."""
    allowed = ranges(found.now.source.get(f"{CGROUP}{path}/{CPUSET}")) or []
    return [] if set(allowed) & set(found.now.fast) or not found.rules <= BOTH else allowed


def _policies(split: Split, found: Scene, pids: Sequence[int], deep: bool) -> str:
    """Take what memory policies keep; what to say of processes whose policies are not read."""
    if not found.rules <= BOTH:
        return ", policies"
    source, now, left = found.now.source, found.now, process.DEEP
    bound: dict[str, int] = {}
    unread, began = len(pids[PROCESSES:]), found.now.source.clock()
    for pid in pids[:PROCESSES]:
        # A page table has a page, and is of 512 pages.
        size = (number(pages.status(source, pid).get("VmPTE")) or 0) << 19
        reads = deep or (size <= left and source.clock() - began < READING_S)
        text = source.get(f"/proc/{pid}/numa_maps") if reads else None
        left -= size if text is not None else 0
        unread += text is None and size > 0
        for policy, kept in flags.bound(text or "", {*now.fast}, {*now.slow}, found.rules).items():
            bound[policy] = bound.get(policy, 0) + kept
    words = ", ".join(sorted(bound))
    split.take("policy", sum(bound.values()), "/proc/PID/numa_maps", True, policies=words)
    return f", policies of {unread} of {len(pids)} processes" if unread else ""


def _stays(
    split: Split, found: Scene, path: str, limits: Sequence[Limit], pids: Sequence[int]
) -> bool:
    """Give all that is left of a group a cause; False if there is none for all of it."""
    allowed = _cpuset(found, path)
    if allowed:
        split.rest("cpuset", f"{CGROUP}{path}/{CPUSET}", **scene.cpuset_words(found, allowed, path))
    elif not process.limit_zero(split, found, limits) and found.rules == {PROMOTE}:
        rows = [pages.status(found.now.source, pid) for pid in pids[:PROCESSES]]
        if rows and all(one.get("TierScan") == "0" for one in rows):
            split.rest("opt-out", "/proc/PID/status TierScan of all processes")
    return not split.left or process.nothing(split, found)


def group(found: Scene, name: str, deep: bool, seconds: float) -> Explained:
    source, slow = found.now.source, found.now.slow
    path = groups.named(source, name)
    found.now.need_tiers()
    place = f"{CGROUP}{path}/{STAT}"
    stat, usage = source.get(place), groups.usage(source, path)
    if stat is None or usage is None:
        todo = "add the memory controller to the group's parent (cgroup.subtree_control)"
        raise TierctlError(f"{path}/{STAT} cannot be read ({source.why(place)})", todo, LACKING)
    answer = Explained("group", groups.title(path), group=path, total=sum(usage.by_node.values()))
    size = sum(value for node, value in usage.by_node.items() if node in slow)
    answer.slow = answer.slow_low = answer.slow_high = size
    if not slow:
        return process.no_slow_tier(answer, found)
    limits = groups.limits_above(source, path, found.now.fast)
    scene.watch(found, seconds)
    split = Split(size, answer.reasons)
    split.take("kernel", scene.on_nodes(stat, KERNEL, slow), place)
    if found.rules == {PROMOTE}:
        split.take("mlock", scene.on_nodes(stat, LOCKED, slow), place)
    pids, unread = [], ", policies"
    with suppress(TierctlError):
        pids = groups.pids(source, path)
        unread = _policies(split, found, pids, deep)
    if found.rules <= BOTH:
        split.take("dirty", scene.on_nodes(stat, UNWRITTEN, slow), place)
    if split.left and not _stays(split, found, path, limits, pids):
        inside = _inside(found, path)
        _by_age(split, found, slow, inside, scene.obstacle(found, found.now.fast, limits))
    answer.looked_at = process.facts(found) + process.limit_words(limits)
    answer.not_looked_at.append(BY_PROCESS.format(unread))
    return answer


# --- a node ----------------------------------------------------------------------


def _groups_on(split: Split, found: Scene, node: int) -> int:
    """Memory of groups that a limit or a cpuset keeps where it is; topmost groups only.

    Bytes that were used in the last minute and that a limit keeps: workers do not look for these.
    """
    source, limited = found.now.source, 0
    done: list[str] = []
    for path in groups.every(source) or []:
        if any(path.startswith(f"{one}/") for one in done):
            continue
        allowed = _cpuset(found, path)
        limits = groups.limits_above(source, path, found.now.fast)[:1]
        limits = [one for one in limits if one.path == path]
        way = scene.limit(limits) if PROMOTE in found.promoters else None
        zero = found.rules == {PROMOTE} and any(not one.limit for one in limits)
        if not (allowed or zero or way):
            continue
        done.append(path)
        stat = source.get(f"{CGROUP}{path}/{STAT}") or ""
        size = scene.on_nodes(stat, PAGES, [node]) - scene.on_nodes(stat, LOCKED, [node])
        if allowed:
            words = scene.cpuset_words(found, allowed, path)
            split.take("cpuset", size, f"{CGROUP}{path}/{CPUSET}", **words)
        elif way:
            used = lru.used(_inside(found, path), [node], found.now.machine.page)[node].bytes
            before = split.left
            process.if_hot(split, way, ONLY_VISITS, size if used is None else used)
            limited += before - split.left
        else:
            process.limit_zero(split, found, limits, size)
    return limited


def _slow_node(answer: Explained, found: Scene, node: Node) -> None:
    place = f"{NODES}/node{node.node}/meminfo"
    info = labelled_kib(found.now.source.get(place))
    split = Split(answer.slow or 0, answer.reasons)
    kernel = ("Slab", "KernelStack", "PageTables", "SecPageTables")
    lists = sum(info.get(name, 0) for name in ("Active", "Inactive", "Unevictable"))
    split.take("kernel", sum(info.get(name, 0) for name in kernel), place)
    held = hugetlb(found.now.source, node.node) or 0
    split.take("hugetlb", held, place, places=process.pools(found))
    if "Active" in info:
        split.take("off-lru", split.left - lists, place)
    if found.rules == {PROMOTE}:
        split.take("mlock", info.get("Mlocked", 0), place)
        split.take("unevictable", info.get("Unevictable", 0) - info.get("Mlocked", 0), place)
    if found.rules <= BOTH:
        split.take("dirty", info.get("Dirty", 0) + info.get("Writeback", 0), place)
    limited = _groups_on(split, found, node.node)
    if not split.left or process.nothing(split, found):
        return
    way = scene.obstacle(found, found.now.fast, ())
    hot, proof = process.waiting(found, node.node), f"{TIER}/node{node.node}/hot"
    if way is not None:
        split.take(way.id, hot or 0, proof, **way.words)
    elif PROMOTE in found.promoters:
        split.take("queue", hot or 0, proof)
    known = None if hot is None else hot + limited
    _by_age(split, found, [node.node], found.now.lruvecs or [], way, known)


def _fast_node(answer: Explained, found: Scene, node: Node) -> None:
    """Nothing of a fast node is slow; but what waits for it?"""
    hot = process.waiting(found)
    way = scene.obstacle(found, [node.node], ()) if found.promoters else None
    if way is not None and way.id == "full":
        one = stated("full-node", way.proof, waits=text.size(hot), **way.words)
        one.verdict = ACT if hot else FINE if hot == 0 else UNKNOWN
        answer.reasons = [one]
    cold = found.now.cold.get(node.node)
    answer.looked_at += [
        f"free above the high watermark {process.mib(scene.rooms(found, [node.node]))}",
        f"cold on it (idle for 60 s when MGLRU looked) {text.size(cold.bytes if cold else None)}"
        + (f", {text.size(cold.unknown_bytes)} ?" if cold and cold.unknown_bytes else ""),
        f"found hot on slow nodes {process.mib(hot)}",
    ]


def node(found: Scene, number: int, seconds: float) -> Explained:
    """Why memory of a node is slow, or what waits for a fast node."""
    one = found.now.machine.find(number)
    if one is None:
        here = as_ranges(each.node for each in found.now.machine.nodes) or "none"
        raise TierctlError(f"there is no memory node {number}", f"nodes: {here}")
    found.now.need_tiers()
    slow = one.used if one.tier == "slow" else 0
    answer = Explained("node", f"node {number}", node=number, tier=one.tier, total=one.used)
    answer.slow = answer.slow_low = answer.slow_high = slow
    if not found.now.slow:
        return process.no_slow_tier(answer, found)
    scene.watch(found, seconds)
    if one.tier == "slow":
        _slow_node(answer, found, one)
        answer.not_looked_at.append(BY_PROCESS.format(", policies"))
    else:
        _fast_node(answer, found, one)
    answer.looked_at = [*process.facts(found), *answer.looked_at]
    return answer
