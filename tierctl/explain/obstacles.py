# SPDX-License-Identifier: GPL-2.0
"""What keeps hot pages from moving, and why no mechanism finds any, as far as files prove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tierctl.core.paths import BALANCING, CGROUP, LIMIT, PROMOTE_RATE, TIER, VMSTAT, ZONEINFO
from tierctl.core.source import ABSENT
from tierctl.core.texts import advice
from tierctl.explain.scene import IDLE_S, Scene, rooms, shell_name
from tierctl.read.groups import Limit, title
from tierctl.read.mechanisms import HINTS, PROMOTE
from tierctl.read.trace import WATERMARK


@dataclass(frozen=True)
class Obstacle:
    """What keeps hot pages from moving, with the words of its cause."""

    id: str
    proof: str
    words: dict[str, str]


def names(wanted: Sequence[int]) -> str:
    """node 0, or nodes 0 and 1."""
    words = [str(one) for one in wanted]
    if len(words) < 2:
        return f"node {words[0]}" if words else "a fast node"
    return f"nodes {', '.join(words[:-1])} and {words[-1]}"


def _full(scene: Scene, allowed: Sequence[int]) -> Obstacle | None:
    free, heard, mechanisms = rooms(scene, allowed), scene.heard, scene.now.mechanisms
    skips = heard.skips if heard else []
    skipped = any(one.reason == WATERMARK and one.nid in allowed for one in skips)
    if not allowed or (free != 0 and not skipped):
        return None
    todo = "tierctl heat shows what is cold there; colder pages go down first"
    if mechanisms.demotes() is False:
        # The part demote works only while tier/enabled is 1.
        part = mechanisms.part("demote") is not None and mechanisms.enabled
        command = f"tierctl set {'demote.' if part else 'demotion_'}enabled 1"
        todo = f"demotion is off, so nothing makes room: {command}"
    proof = ZONEINFO if free == 0 else "tier_promote_skip watermark"
    return Obstacle("full", proof, {"nodes": names(allowed), "todo": todo})


def limit(found: Sequence[Limit]) -> Obstacle | None:
    """A limit below which no page, or no huge page, has room."""
    for one in found:
        if one.limit and one.reached:
            words = {"group": title(one.path), "name": shell_name(one.path)}
            words |= {"limit": f"{max(1, one.limit >> 20)}M", "more": f"{max(1, one.limit >> 19)}M"}
            return Obstacle("limit", f"{CGROUP}{one.path}/{LIMIT}", words)
    return None


def obstacle(scene: Scene, allowed: Sequence[int], found: Sequence[Limit]) -> Obstacle | None:
    """What keeps hot pages of a process or group from moving, as far as that is proven.

    ``allowed``: fast nodes.
    """
    if PROMOTE not in scene.promoters:
        part = scene.now.mechanisms.part("promote")
        state = part.state if part and part.state else "absent"
        return Obstacle("observe", f"{TIER}/promote/state", {"state": state})
    way = limit(found) or _full(scene, allowed)
    if way or scene.moved.get("tier_promote_success") != 0 or scene.seconds < IDLE_S:
        return way
    return Obstacle("stuck", VMSTAT, {"seconds": f"{scene.seconds:.0f}"})


def faults(scene: Scene, allowed: Sequence[int]) -> Obstacle:
    """What a page waits for while NUMA balancing or DAMON promotes, and not the part promote."""
    if HINTS not in scene.promoters:
        place = next((one.place for one in scene.now.mechanisms.movers("migrate_hot")), "")
        why = "DAMON promotes, and does not say which pages it found hot"
        return Obstacle("unknown", place, {"why": why})
    stuck = scene.moved.get("pgpromote_candidate") and not scene.moved.get("pgpromote_success")
    full = _full(scene, allowed) if stuck else None
    if full:
        return full
    rate = scene.hint_faults
    todo = "wait, or raise kernel.numa_balancing_promote_rate_limit_MBps"
    if scene.source.get(PROMOTE_RATE) == "0":
        todo = "raise kernel.numa_balancing_promote_rate_limit_MBps, which is 0"
    elif rate == 0:
        todo = "wait: NUMA balancing comes to the memory of a process within minutes"
    if scene.now.mechanisms.tier:
        todo = "tierctl profile apply general: workers find hot pages without faults"
    words = {"faults": "?" if rate is None else f"{rate:.0f}", "todo": todo}
    return Obstacle("hint-faults", BALANCING, words)


def nothing_promotes(scene: Scene) -> Obstacle | None:
    """Why no mechanism finds hot pages; None if one does."""
    found = scene.now.mechanisms
    if scene.promoters or scene.scans:
        return None
    note = found.unknown_promoter() or (found.sources["tier"] if found.tier is None else None)
    if note:
        why = f"not known what promotes: {note.state}"
        return Obstacle("unknown", note.origin or "", {"why": why})
    if found.state == "blocked":
        return Obstacle("blocked", f"{TIER}/state", {})
    if found.balances() and not found.works("scan"):
        todo = f"tierctl profile apply {'general' if found.tier else 'hint'}"
        return Obstacle("balancing", BALANCING, {"todo": todo})
    if not found.tier:
        todo = "tierctl profile apply hint"
        if found.sources["numa_balancing"].state.startswith(ABSENT):
            todo = "boot a tiershift kernel, or one with CONFIG_NUMA_BALANCING"
        return Obstacle("no-promoter", BALANCING, {"todo": todo})
    if not found.enabled:
        return Obstacle("tier-off", f"{TIER}/enabled", {})
    part = found.part("scan")
    if part is None:
        return Obstacle("unknown", TIER, {"why": "this kernel has no part scan"})
    todo = advice(part.reason) if part.reason else "tierctl set scan.enabled 1"
    words = {"state": part.state or "?", "reason": part.reason or "scan/enabled is 0"}
    return Obstacle("scan-waits", f"{TIER}/scan/state", words | {"todo": todo})
