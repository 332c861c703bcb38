# SPDX-License-Identifier: GPL-2.0
"""Large folios before and after promotion, by size: what two selftests print, as a table.

kmmscand_test "huge" counts huge mappings in smaps, some hot and some cold; kmmscand_edge_test
"mthp" folios of every other size, by page map and page flags, while the fast node is full,
fragmented, and idle.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from typing import Any

from lab import build, cache, scenario, selftests, topology
from lab.results import finish, ledger, study
from lab.results.study import Column, Study
from lab.selftests import Program

NAME = "thp"
PROGRAMS = (
    Program("kmmscand_test", "huge", timeout_s=150),
    Program("kmmscand_edge_test", "mthp", timeout_s=300),
)
HUGE_KB = 2048
DIRECTORY = "kmmscand"  # below tools/testing/selftests

_HUGE = re.compile(
    r"^# huge: (\d+) of (\d+) hot and (\d+) of (\d+) cold pages promoted.*\n"
    r"# huge: hot (\d+) -> (\d+) kB, cold (\d+) -> (\d+) kB$",
    re.MULTILINE,
)
_MTHP = re.compile(
    r"^# (\w+): (\d+) KiB: (\d+) folios of (\d+), (\d+) of (\d+) pages promoted$", re.MULTILINE
)
COUNTS = ("before", "after", "promoted", "pages")

Row = dict[str, Any]


def _row(size_kb: int, node: str, heat: str, *counts: int) -> Row:
    return {"size_kb": size_kb, "node": node, "heat": heat} | dict(zip(COUNTS, counts, strict=True))


def rows_of(log: str) -> list[Row]:
    """What the selftests have counted, in the order in which they did."""
    rows = [
        _row(int(size), node, "hot", int(before), int(after), int(moved), int(pages))
        for node, size, after, before, moved, pages in _MTHP.findall(log)
    ]
    for found in _HUGE.findall(log):
        hot, nr_hot, cold, nr_cold, *kb = map(int, found)
        huge = [size // HUGE_KB for size in kb]
        rows.append(_row(HUGE_KB, "idle", "hot", huge[0], huge[1], hot, nr_hot))
        rows.append(_row(HUGE_KB, "idle", "cold", huge[2], huge[3], cold, nr_cold))
    return sorted(rows, key=lambda row: int(row["size_kb"]))


def check(rows: list[Row], cases: dict[str, list[Any]]) -> list[str]:
    """What does not hold."""
    every = [case for found in cases.values() for case in found]
    failures = [f"{case.name}: {case.reason}" for case in every if case.outcome != "pass"]
    sizes = {row["size_kb"] for row in rows if row["before"]}
    if HUGE_KB not in sizes or len(sizes) < 2:
        failures.append(f"folios of {sorted(sizes)} KiB only: the selftests were not understood")
    for row in rows:
        if row["after"] != row["before"]:
            failures.append(f"{row['size_kb']} KiB, {row['node']}: not as many folios as before")
    return failures


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each size, state of the fast node, and heat."""
    return [
        ledger.Run(
            cell=f"{row['size_kb']} KiB, {row['node']}, {row['heat']}",
            figures={key: row[key] for key in COUNTS},
            kernel=facts["kernel"],
            checks=facts["failures"] if number == 0 else (),
        )
        for number, row in enumerate(facts["rows"])
    ]


def measure(_args: argparse.Namespace) -> bool:
    """Run both selftests; True if no folio was split."""
    began = time.time()
    kernel = build.kernel("tiershift")
    out = cache.sub("runs") / NAME
    built = selftests.programs(kernel, DIRECTORY)
    machine = topology.load("two-tier", fast_mb=512, slow_mb=512)
    cases = selftests.run_programs(kernel, built, PROGRAMS, machine, out, prepare="true")
    logs = [(out / f"{program.key}.log").read_text(errors="replace") for program in PROGRAMS]
    rows = rows_of("\n".join(logs))
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernel=kernel.describe(),
        rows=rows,
        failures=check(rows, cases),
    )
    return finish.finish(STUDY, facts, runs(facts))


STUDY = Study(
    name=NAME,
    title="Large folios before and after promotion",
    what="Folios of each size are made hot on the slow node.  The fast node is full, then "
    "fragmented, then idle.  Counted are folios before and after, and base pages promoted.",
    columns=(
        Column("before", "folios before"),
        Column("after", "folios after"),
        Column("promoted", "pages promoted"),
        Column("pages", "of pages"),
    ),
    minutes=1,
    run=measure,
    groups=study.KMMSCAND,
    notes=("Counted by the selftests kmmscand_test (huge) and kmmscand_edge_test (mthp).",),
)
