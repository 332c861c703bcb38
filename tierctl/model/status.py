# SPDX-License-Identifier: GPL-2.0
"""What `tierctl status` answers, and what a line of a record and the screen have."""

from __future__ import annotations

from dataclasses import dataclass, field

from tierctl.model.snapshot import Snapshot
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
    kernel: str | None = field(default=None, repr=False)  # JSON has it outside


def tiering(found: Mechanisms) -> Tiering:
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


def of(now: Snapshot, profile: Verified, findings: list[Finding]) -> Status:
    return Status(
        tiering=tiering(now.mechanisms),
        profile=profile,
        uptime_s=now.uptime_s,
        cpus=now.cpus,
        page=now.machine.page,
        nodes=now.machine.nodes,
        worth=Worth(now.hot_total(), now.hot_by, now.cold_total()),
        flow=now.flow,
        cost=now.cost,
        findings=findings,
        kernel=now.kernel,
    )
