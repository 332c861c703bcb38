# SPDX-License-Identifier: GPL-2.0
"""Why no mechanism promotes, as far as files prove it; `tierctl doctor` says the same."""

from __future__ import annotations

from dataclasses import dataclass

from tierctl.core.paths import BALANCING, TIER
from tierctl.core.source import ABSENT
from tierctl.core.texts import advice
from tierctl.read.mechanisms import Mechanisms

GENERAL = "tierctl profile apply general"
STOCK = "tierctl profile apply hint"  # kernels without parts


@dataclass(frozen=True)
class Obstacle:
    """What keeps hot pages from moving, with the words of its cause in texts.json."""

    id: str
    proof: str
    words: dict[str, str]


def nothing_promotes(found: Mechanisms) -> Obstacle | None:
    """Why no mechanism promotes; None if one does.  "observe": workers find hot pages."""
    if found.promoters():
        return None
    note = found.unknown_promoter() or (found.sources["tier"] if found.tier is None else None)
    if note:
        why = f"not known what promotes: {note.state}"
        return Obstacle("unknown", note.origin or "", {"why": why, "todo": note.todo})
    scan, promote = found.part("scan"), found.part("promote")
    if found.state == "blocked":
        return Obstacle("blocked", f"{TIER}/state", {})
    if found.works("scan"):
        words = {"state": "absent", "todo": GENERAL}
        if promote is not None:
            words = {"state": promote.state or "?", "todo": "tierctl set promote.enabled 1"}
        if promote is not None and promote.enabled and promote.reason:
            words = {"state": f"{promote.state}: {promote.reason}", "todo": advice(promote.reason)}
        return Obstacle("observe", f"{TIER}/promote/state", words)
    if found.balances():
        return Obstacle("balancing", BALANCING, {"todo": GENERAL if found.tier else STOCK})
    if not found.tier:
        todo = STOCK
        if found.sources["numa_balancing"].state.startswith(ABSENT):
            todo = "boot a tiershift kernel, or one with CONFIG_NUMA_BALANCING"
        return Obstacle("no-promoter", BALANCING, {"todo": todo})
    if not found.enabled:
        return Obstacle("tier-off", f"{TIER}/enabled", {})
    if scan is None:
        return Obstacle("unknown", TIER, {"why": "this kernel has no part scan", "todo": GENERAL})
    todo = advice(scan.reason) if scan.reason else "tierctl set scan.enabled 1"
    if not scan.reason and promote is not None and promote.enabled is False:
        todo = GENERAL
    words = {"state": scan.state or "?", "reason": scan.reason or "scan/enabled is 0", "todo": todo}
    return Obstacle("scan-waits", f"{TIER}/scan/state", words)
