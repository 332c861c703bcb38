# SPDX-License-Identifier: GPL-2.0
"""What `tierctl status` answers, and what a line of a record and the screen have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from tierctl.core.parse import real
from tierctl.model.snapshot import Snapshot
from tierctl.read import lru
from tierctl.read.counters import Flow
from tierctl.read.lru import Part
from tierctl.read.mechanisms import DAMON, HINTS, PROMOTE, Mechanisms
from tierctl.read.nodes import Node
from tierctl.read.threads import Cost


@dataclass(frozen=True)
class Finding:
    """Something that a person may want to change."""

    id: str
    severity: str
    what: str
    todo: str


@dataclass
class Verified:
    """The chosen profile, and whether the machine agrees with it."""

    profile: str | None = None
    verified: bool | None = None
    differs: int | None = None  # settings
    error: str | None = None


@dataclass
class Tiering:
    """What moves pages, in words and as settings."""

    on: bool | None  # a mechanism promotes
    by: list[str]
    state: str | None  # of /sys/kernel/mm/tier
    numa_balancing: int | None
    demotion: bool | None
    parts: dict[str, str | None]  # state by part


@dataclass
class Worth:
    """Bytes on the wrong tier."""

    hot_on_slow: Part
    hot_by: str | None  # found, mglru
    cold_on_fast: Part
    used_on_slow: int | None = None  # used or new in the last minute, as MGLRU estimates


@dataclass
class Status:
    """The screen of status."""

    tiering: Tiering
    profile: Verified
    uptime_s: float | None
    cpus: int | None
    page: int
    nodes: list[Node]
    worth: Worth
    flow: Flow | None
    cost: Cost | None
    findings: list[Finding]
    not_done: dict[str, str]
    kernel: str | None = field(default=None, repr=False)  # JSON has it outside


class Found(Protocol):
    """The findings of checks, and the checks that could not be made."""

    findings: list[Finding]
    not_done: dict[str, str]


def tiering(found: Mechanisms) -> Tiering:
    """What promotes now."""
    promoters = found.promoters()
    by = [one for one in (PROMOTE, HINTS, DAMON) if one in promoters]
    return Tiering(
        on=True if by else (None if found.unknown_promoter() else False),
        by=by,
        state=found.state,
        numa_balancing=found.numa_balancing,
        demotion=found.demotes(),
        parts={one.name: one.state for one in found.parts},
    )


def of(now: Snapshot, profile: Verified, report: Found) -> Status:
    """The status of a machine."""
    words = (now.source.get("/proc/uptime") or "").split()
    used = lru.total(lru.used(now.lruvecs or [], now.slow, now.machine.page).values()).bytes
    return Status(
        tiering=tiering(now.mechanisms),
        profile=profile,
        uptime_s=real(words[0]) if words else None,
        cpus=now.cpus,
        page=now.machine.page,
        nodes=now.machine.nodes,
        worth=Worth(now.hot_total(), now.hot_by, now.cold_total(), used),
        flow=now.flow,
        cost=now.cost,
        findings=report.findings,
        not_done=report.not_done,
        kernel=now.kernel,
    )
