# SPDX-License-Identifier: GPL-2.0
"""The metrics of `tierctl export`: names, labels, and the figures that they show.

A counter that Prometheus sees shrink counts as begun again, with its whole value as growth.  So
each point of a counter is one row of the kernel, or a sum of rows whose difference stands still:
pgpromote_success lags behind tier_promote_success, and the difference of the two goes up and down
while the part promote works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import exposition
from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.openmetrics import exposition as modern
from prometheus_client.registry import Collector

from tierctl.core import texts
from tierctl.core.source import Source
from tierctl.model.snapshot import Sampler, Snapshot
from tierctl.model.status import Verified
from tierctl.read import groups, threads

STATES = ("off", "blocked", "waiting", "on", "partly")
FAILED = "tier_promote_fail_"
REASONS = {
    "tier_promote_skip": "not_eligible",
    "tier_promote_skip_max": "limit",
    "tier_scan_skip_memcg": "limit_0",
}
ROWS_DOWN = {"pgdemote_kswapd": "kswapd", "pgdemote_khugepaged": "khugepaged"}
DAMON = {"migrate_hot": "up", "migrate_cold": "down"}


class Families:
    """All metrics by name."""

    def __init__(self) -> None:
        self.all = {
            name: Metric(name, words, kind, unit)
            for name, kind, unit, words in texts.load()["metrics"]
        }

    def add(self, name: str, value: float | None, **labels: str) -> None:
        """Add a point, unless the value is unknown."""
        if value is not None:
            found = self.all[name]
            sample = f"{name}_total" if found.type == "counter" else name
            found.add_sample(sample, labels, round(value, 6))


def _nodes(found: Families, now: Snapshot) -> None:
    machine = now.machine
    for one in machine.nodes:
        where = {"node": str(one.node)} | ({"tier": one.tier} if one.tier else {})
        found.add("tier_node_bytes", one.used, **where, state="used")
        found.add("tier_node_bytes", one.free, **where, state="free")
    if machine.known:
        for tier in ("fast", "slow"):
            found.add("tier_nodes", len(machine.of_tier(tier)), tier=tier)
    for node, value in now.hot.items():
        found.add("tier_hot_on_slow_bytes", value.bytes, node=str(node), by=now.hot_by or "")
    for node, value in now.cold.items():
        found.add("tier_cold_on_fast_bytes", value.bytes, node=str(node))
    found.add("tier_source_age_seconds", now.looked_s, source="mglru")


def moved(now: Snapshot) -> Iterator[tuple[str, str, int]]:
    """Direction, mechanism, and pages that moved since boot; none counts twice."""
    rows, mechanisms = now.vmstat, now.mechanisms
    part = mechanisms.part("promote")
    working = part is not None and part.state in ("on", None)  # a state that is unknown may be on
    for direction, row, own, other in (
        ("up", "pgpromote_success", "tier_promote_success", "numa_balancing"),
        ("down", "pgdemote_direct", "tier_demote_success", "direct"),
    ):
        total, ours = rows.get(row), rows.get(own)
        if working and ours is not None and direction == "up" and not mechanisms.hints_promote():
            yield direction, "promote", ours
        elif working and total is not None:
            yield direction, f"promote_or_{other}", total
        else:
            if ours is not None:
                yield direction, "promote", ours
            if total is not None:
                yield direction, other, max(0, total - (ours or 0))
    for row, by in ROWS_DOWN.items():
        if row in rows:
            yield "down", by, rows[row]


def _moves(found: Families, now: Snapshot) -> None:
    rows, page = now.vmstat, now.machine.page
    for direction, by, pages in moved(now):
        found.add("tier_moved_bytes", pages * page, direction=direction, by=by)
    for action, direction in DAMON.items():
        schemes = now.mechanisms.movers(action)
        # A sum would shrink when a scheme goes; and 0 is what DAMON shows until it is asked.
        counted = now.counters.damon.get(schemes[0].place) if len(schemes) == 1 else None
        found.add("tier_moved_bytes", counted or None, direction=direction, by="damon")
    for name, row in (
        ("tier_bounced_bytes", "tier_promote_again"),
        ("tier_promoted_bytes", "tier_promote_success"),
    ):
        if row in rows:
            found.add(name, rows[row] * page)
    for row, value in rows.items():
        reason = row.removeprefix(FAILED) if row.startswith(FAILED) else REASONS.get(row)
        if reason:
            found.add("tier_not_promoted_pages", value, reason=reason)
    found.add("tier_hint_faults", rows.get("numa_hint_faults"))


def _cost(found: Families, now: Snapshot) -> None:
    ticks: dict[str, int] = {}
    for pid, value in now.ticks.items():
        name = (now.threads or {}).get(pid, "")
        ticks[name] = ticks.get(name, 0) + value  # kdamonds may share a name
    for name, value in sorted(ticks.items()):
        found.add("tier_cpu_seconds", value / threads.TICKS, thread=name)
    for name in ("scan", "promote"):
        part = now.mechanisms.part(name)
        share = part.knobs.get("cpu_permille") if part else None
        if share is not None and now.cpus:
            found.add("tier_cpu_limit_cpus", share * now.cpus / 1000, part=name)


def _switches(found: Families, now: Snapshot) -> None:
    mechanisms = now.mechanisms
    if mechanisms.state in STATES:
        for state in STATES:
            found.add("tier_state", int(mechanisms.state == state), state=state)
    for part in mechanisms.parts:
        if part.state is not None:
            found.add("tier_part_on", int(part.state == "on"), part=part.name)
    found.add("tier_numa_balancing_mode", mechanisms.numa_balancing)


class Exporter(Collector):
    """Reads a machine again and again, and makes metrics."""

    def __init__(
        self,
        source: Source,
        patterns: Sequence[str],
        profile: Callable[[Source], Verified],
        lru_every: float = 0.0,
    ) -> None:
        self.source, self.patterns, self.profile = source, patterns, profile
        self.sampler = Sampler(source, lru_every)

    def collect(self) -> list[Metric]:
        now, found = self.sampler.take(), Families()
        _nodes(found, now)
        _moves(found, now)
        _cost(found, now)
        _switches(found, now)
        available = groups.available(self.source)
        paths = groups.chosen(self.source, self.patterns) if available else []
        for path, label in groups.labels(paths).items():
            used = groups.usage(self.source, path)
            if used is not None:  # else it has ended, or has no memory controller
                one = groups.group(path, used, now.machine)
                found.add("tier_group_bytes", one.fast, group=label, tier="fast")
                found.add("tier_group_bytes", one.slow, group=label, tier="slow")
        agrees = self.profile(self.source).verified
        found.add("tier_profile_verified", None if agrees is None else int(agrees))
        return [one for one in found.all.values() if one.samples]


def registry(metrics: Collector) -> CollectorRegistry:
    """A registry with these metrics, and none of the Python process."""
    found = CollectorRegistry(auto_describe=False)
    found.register(metrics)
    return found


def render(metrics: Collector, openmetrics: bool = True) -> str:
    """OpenMetrics, or the older format, which the textfile collector of node_exporter reads."""
    made = modern.generate_latest if openmetrics else exposition.generate_latest
    return made(registry(metrics)).decode("utf-8", "backslashreplace")
