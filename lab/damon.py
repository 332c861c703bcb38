# SPDX-License-Identifier: GPL-2.0
"""DAMON as a tiering scheme: DAMOS migrate_hot and migrate_cold, driven by sysfs.

Each node is watched by a kdamond of its own, by physical address: a slow node's
moves what is hot to a fast node, a fast node's what is cold to a slow one.  One
kdamond cannot do both: in Linux 6.12 it has one context, and a context of physical
addresses has one target, whose regions all schemes see.

A scenario's [contender.damon] is checked with this on the host; lab/agent.py uses
the rest in the guest.  Standard library only.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADMIN = Path("/sys/kernel/mm/damon/admin/kdamonds")
HOT, COLD = "migrate_hot", "migrate_cold"
STATS = ("nr_tried", "sz_tried", "nr_applied", "sz_applied", "qt_exceeds")
ANY_SIZE, ANY_COUNT = str(2**64 - 1), str(2**32 - 1)

Range = tuple[int, int]
Write = Callable[[str, str], None]


@dataclass(frozen=True)
class Tunables:
    """[contender.damon].

    Sampling, aggregation and regions are DAMON's own defaults.  One access as hot,
    the filter that looks at each page again, and a second between two applications
    are those of its upstream sample for tiering (samples/damon/mtier.c of later
    kernels).  The sample also tunes a quota by how full the nodes are, which 6.12
    cannot: here there is no quota, and cold is what was idle for cold_min_age.
    """

    sample_us: int = 5_000
    aggr_us: int = 100_000
    update_us: int = 1_000_000
    min_regions: int = 10
    max_regions: int = 1_000
    apply_us: int = 1_000_000
    hot_min_accesses: int = 1  # samples of an aggregation that found an access
    hot_min_age: int = 0  # aggregations
    cold_max_accesses: int = 0
    cold_min_age: int = 30
    young_filter: bool = True  # of a hot region only young pages move, of a cold one only old
    quota_ms: int = 0  # of work in quota_reset_ms; 0: no limit
    quota_bytes: int = 0
    quota_reset_ms: int = 1_000

    def problem(self) -> str:
        """Why DAMON would refuse these, or do nothing; empty if it would not."""
        negative = [name for name, value in dataclasses.asdict(self).items() if value < 0]
        if negative:
            return f"{negative[0]} is negative"
        if not 0 < self.sample_us <= self.aggr_us:
            return "sample_us must be positive and not above aggr_us"
        if not 3 <= self.min_regions <= self.max_regions:
            return "min_regions must be at least 3 and not above max_regions"
        if self.hot_min_accesses > self.aggr_us // self.sample_us:
            return "hot_min_accesses is more than an aggregation has samples"
        if (self.quota_ms or self.quota_bytes) and not self.quota_reset_ms:
            return "a quota needs quota_reset_ms"
        return ""


def memory(zoneinfo: str) -> dict[int, list[Range]]:
    """The physical addresses of each node, from the text of /proc/zoneinfo.

    Not from the memory blocks of sysfs: they are 128 MiB, and the one in which two
    nodes meet belongs to both.
    """
    found: dict[int, list[Range]] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    node = spanned = 0
    for line in zoneinfo.splitlines():
        words = line.split()
        if line.startswith("Node "):
            node, spanned = int(words[1].rstrip(",")), 0
        elif words[:1] == ["spanned"]:
            spanned = int(words[1])
        elif words[:1] == ["start_pfn:"] and spanned:
            start = int(words[1]) * page
            found.setdefault(node, []).append((start, start + spanned * page))
    return {node: _joined(sorted(ranges)) for node, ranges in found.items()}


def _joined(ranges: list[Range]) -> list[Range]:
    """Zones that touch become one range."""
    done: list[Range] = []
    for start, end in ranges:
        if done and start <= done[-1][1]:
            done[-1] = (done[-1][0], max(end, done[-1][1]))
        else:
            done.append((start, end))
    return done


def plan(job: dict[str, Any], nodes: dict[int, list[Range]]) -> list[tuple[str, str]]:
    """(path, value) of all that is written before the kdamonds are switched on."""
    tunables, flows = Tunables(**job["tunables"]), job["flows"]
    spans = sorted(span for flow in flows for span in nodes.get(flow["node"], []))
    for before, after in itertools.pairwise(spans):
        if after[0] < before[1]:
            raise ValueError("two nodes' physical addresses overlap: DAMON cannot tell them apart")
    writes = [(str(ADMIN / "nr_kdamonds"), str(len(flows)))]
    for number, flow in enumerate(flows):
        if not nodes.get(flow["node"]):
            raise ValueError(f"node {flow['node']} has no memory in /proc/zoneinfo")
        context = ADMIN / str(number) / "contexts"
        inside = _context(flow, tunables, nodes[flow["node"]])
        writes.append((str(context / "nr_contexts"), "1"))
        writes += [(str(context / "0" / path), value) for path, value in inside]
    return writes


def _context(
    flow: dict[str, Any], tunables: Tunables, ranges: list[Range]
) -> list[tuple[str, str]]:
    """One kdamond's context; the nr_ files come first, they make the directories."""
    regions, scheme = "targets/0/regions", "schemes/0"
    values: dict[str, int | str] = {
        "operations": "paddr",
        "monitoring_attrs/intervals/sample_us": tunables.sample_us,
        "monitoring_attrs/intervals/aggr_us": tunables.aggr_us,
        "monitoring_attrs/intervals/update_us": tunables.update_us,
        "monitoring_attrs/nr_regions/min": tunables.min_regions,
        "monitoring_attrs/nr_regions/max": tunables.max_regions,
        "targets/nr_targets": 1,
        f"{regions}/nr_regions": len(ranges),
    }
    for number, (start, end) in enumerate(ranges):
        values[f"{regions}/{number}/start"] = start
        values[f"{regions}/{number}/end"] = end
    hot = flow["action"] == HOT
    values |= {
        "schemes/nr_schemes": 1,
        f"{scheme}/action": flow["action"],
        f"{scheme}/target_nid": flow["target"],
        f"{scheme}/apply_interval_us": tunables.apply_us,
        # What is not written stays 0, also a maximum: then nothing matches.
        f"{scheme}/access_pattern/sz/max": ANY_SIZE,
        f"{scheme}/access_pattern/nr_accesses/min": tunables.hot_min_accesses if hot else 0,
        f"{scheme}/access_pattern/nr_accesses/max": (
            ANY_COUNT if hot else tunables.cold_max_accesses
        ),
        f"{scheme}/access_pattern/age/min": (
            tunables.hot_min_age if hot else tunables.cold_min_age
        ),
        f"{scheme}/access_pattern/age/max": ANY_COUNT,
        f"{scheme}/quotas/ms": tunables.quota_ms,
        f"{scheme}/quotas/bytes": tunables.quota_bytes,
        f"{scheme}/quotas/reset_interval_ms": tunables.quota_reset_ms,
        # With a quota: what goes first, as in mtier.  The size does not matter.
        f"{scheme}/quotas/weights/nr_accesses_permil": 100,
        f"{scheme}/quotas/weights/age_permil": 100,
    }
    if tunables.young_filter:
        values |= {
            f"{scheme}/filters/nr_filters": 1,
            f"{scheme}/filters/0/type": "young",
            # A filter of 6.12 takes away what matches: Y all young pages, N all others.
            f"{scheme}/filters/0/matching": "N" if hot else "Y",
        }
    return [(path, str(value)) for path, value in values.items()]


def switch(job: dict[str, Any], state: str, write: Write) -> None:
    """Write "on", "off" or another command to every kdamond."""
    for number in range(len(job["flows"])):
        write(str(ADMIN / str(number) / "state"), state)


def stop(job: dict[str, Any], write: Write) -> dict[str, dict[str, int]]:
    """Switch off; returns each action's statistics, "pages" being what it moved.

    Only a running kdamond tells its statistics, and only when asked.
    """
    switch(job, "update_schemes_stats", write)
    found: dict[str, dict[str, int]] = {}
    for number, flow in enumerate(job["flows"]):
        stats = ADMIN / str(number) / "contexts/0/schemes/0/stats"
        sums = found.setdefault(flow["action"], dict.fromkeys((*STATS, "pages"), 0))
        for name in STATS:
            sums[name] += int((stats / name).read_text())
        sums["pages"] = sums["sz_applied"] // os.sysconf("SC_PAGE_SIZE")
    switch(job, "off", write)
    return found
