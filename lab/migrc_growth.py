# SPDX-License-Identifier: GPL-2.0
"""How what MIGRC saves grows: NUMA balancing with and without, by CPUs and by rate."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lab import flushes, migrc, scenario
from lab.migrc import BUSY, ON, SAVED, SMALL, Boot, Row, contender, find
from lab.results import finish, ledger, study
from lab.results.study import Study
from lab.scenario import Scenario

NAME = "migrc-growth"
VCPUS = (2, 4, 8, 16)
RATE = "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
RATES = (1, 2, 4)  # MiB per second; without a limit is among VCPUS
# Does the age count where few pages are migrated?  The default is 1000.
AGE_MS = 100
AGE = flushes.MIGRC + "max_age_ms"
AGED, AGED_NAME = {AGE: str(AGE_MS)}, "on-aged"
OPS = 2_000_000


def boots() -> list[Boot]:
    """NUMA balancing with and without MIGRC, by CPUs, by rate of promotion, and unplaced."""
    spec = migrc.counting(scenario.load("lookup"))
    ops = ("--ops", str(OPS))
    found = []
    groups: list[tuple[str, Scenario, dict[str, str]]] = [
        (f"{n} CPUs", migrc.on_cpus(spec, n, *ops), {}) for n in VCPUS
    ]
    few = migrc.on_cpus(spec, migrc.FEW_VCPUS, *ops)
    groups += [(f"{mbps} MB/s", few, {RATE: str(mbps)}) for mbps in RATES]
    # Where the first stores have put them: the fast node is full of writable pages.
    groups.append((f"{migrc.FEW_VCPUS} CPUs not placed", replace(few, placement=None), {}))
    for group, small, limit in groups:
        for one in (
            contender("base", "numab2", "base", SMALL, BUSY, limit),
            contender("on", "numab2", "tiershift", SMALL, BUSY, limit, ON),
        ):
            found.append(Boot(group, small, one))
            if one.name == "on" and limit == {RATE: str(RATES[0])}:
                aged = replace(one, name=AGED_NAME, settings={**one.settings, **AGED})
                found.append(Boot(group, small, aged))
    return found


# --- runs ----------------------------------------------------------------------

FIGURES = (
    *("migrated", "pages_per_s", "deferred", "deferred_share", "drains", "deferred_per_drain"),
    *("flushes", "flushes_per_1000", "received", "received_per_1000"),
)


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """Every run, what it saves of the unmodified kernel's, and how that grows with CPUs."""
    rows: list[Row] = facts["rows"]
    found = []
    for row in rows:
        base = find(rows, "base", row["group"])
        less = migrc.savings(row, base) if base and base is not row else {}
        figures = {**migrc.figures(row, FIGURES), **less}
        found.append(migrc.run_of(row, rows, figures, migrc.failures(row, rows)))
    return found + growth(rows)


def growth(rows: Sequence[Row]) -> list[ledger.Run]:
    """Flushes for 1,000 pages migrated, over CPUs."""
    found = []
    for key, what in (("flushes_per_1000", "sent"), ("received_per_1000", "received")):
        for name in ("base", "on"):
            own = [(n, find(rows, name, f"{n} CPUs")) for n in VCPUS]
            there = [(n, row) for n, row in own if row and row["whole"][key] is not None]
            if len(there) < 2:
                continue
            found.append(
                ledger.Run(
                    f"by CPUs, {what}, {name}",
                    {},
                    there[-1][1]["kernel"],
                    checks=migrc.doubtful([migrc.failures(row, rows) for _, row in there]),
                    curve=[(n, row["whole"][key]) for n, row in there],
                    date=max(row["date"] for _, row in there),
                )
            )
    return found


def _run(args: argparse.Namespace) -> bool:
    facts = migrc.measure(NAME, boots(), args)
    found = runs(facts)
    return finish.finish(STUDIES[0], facts, found, whole=migrc.whole(args))


STUDIES = (
    Study(
        name=NAME,
        title="MIGRC: what it saves, by number of CPUs and by rate of promotion",
        what="NUMA balancing runs fewer lookups of the scenario lookup, on the unmodified kernel "
        "(base) and with MIGRC (on), on 2 to 16 CPUs. On four CPUs it runs with limits to the "
        "rate of promotion as well.",
        columns=migrc.columns((*FIGURES, *SAVED)),
        minutes=10,
        run=_run,
        groups=study.MIGRC,
        arguments=migrc.arguments,
        notes=(
            "Less is compared with base of the same row.",
            f"{AGED_NAME}: max_age_ms is {AGE_MS}, not 1000.",
            "Not placed: the fast node holds the pages as the job has written them. Their "
            "entries are writable, and cannot be deferred until a hint fault has promoted them.",
        ),
        curve=("CPUs", "flushes per 1,000 pages migrated"),
    ),
)
