# SPDX-License-Identifier: GPL-2.0
"""Large folios before and after promotion, by size: what two selftests print, as a table.

kmmscand_test "huge" counts huge mappings in smaps, some hot and some cold; kmmscand_edge_test
"mthp" folios of every other size, by page map and page flags, while the fast node is full,
fragmented, and idle.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from lab import build, cache, report, scenario, selftests, topology
from lab.errors import LabError
from lab.selftests import Program

NAME = "thp"
PROGRAMS = (
    Program("kmmscand_test", "huge", timeout_s=150),
    Program("kmmscand_edge_test", "mthp", timeout_s=300),
)
HUGE_KB = 2048
HEADER = ["folio size", "fast node", "pages", "folios before", "after", "promoted", "of pages"]

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


def table(rows: list[Row]) -> list[list[str]]:
    """Header and a row for each size and state of the fast node."""
    lines = [HEADER]
    for row in rows:
        counts = [f"{row[key]:,}" for key in COUNTS]
        lines.append([f"{row['size_kb']} KiB", row["node"], row["heat"], *counts])
    return lines


def markdown(facts: dict[str, Any]) -> str:
    """The page for docs/results."""
    kernel = facts["kernel"]
    lines = [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        "# Huge mappings and large folios",
        "",
        "Folios of each size before and after kmmscand has promoted what is hot. None may be "
        "split, whether the fast node is idle, full, or has room but no large blocks.",
        "",
        f"Measured {facts['date']} with `{facts['command']}` in {facts['seconds']:.0f} s.",
        "",
        *report.markdown_rows(table(facts["rows"])),
        "",
        *(f"- FAILED CHECK: {failure}" for failure in facts["failures"]),
        "- Promoted: pages on the fast node at that moment. Up to 1 MiB the same folios are hot "
        "in each state, one after the other: full, fragmented, idle.",
        "- Counted by the selftests `kmmscand_test` (huge) and `kmmscand_edge_test` (mthp).",
        f"- Kernel {kernel['release']} ({kernel['flavour']} {kernel['key']}) from "
        f"{kernel['base_version']}; emulated (TCG, {facts['host']['qemu']}).",
    ]
    return "\n".join([*lines, ""])


def thp(save: Path) -> bool:
    """Run both selftests, write save/thp.json and thp.md; True if no folio was split."""
    began = time.time()
    kernel = build.kernel("tiershift")
    out = cache.sub("runs") / NAME
    built = selftests.programs(kernel, *selftests.TIER)
    machine = topology.load("two-tier", fast_mb=512, slow_mb=512)
    cases = selftests.run_programs(kernel, built, PROGRAMS, machine, out, prepare="true")
    logs = [(out / f"{program.key}.log").read_text(errors="replace") for program in PROGRAMS]
    rows = rows_of("\n".join(logs))
    facts: dict[str, Any] = {
        "schema": 1,
        "command": scenario.command_line(sys.argv),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "host": scenario.host_info(),
        "kernel": kernel.describe(),
        "rows": rows,
        "failures": check(rows, cases),
    }
    report.print_rows(table(rows), sys.stdout)
    (save / f"{NAME}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    (save / f"{NAME}.md").write_text(markdown(facts), encoding="utf-8")
    if facts["failures"]:
        raise LabError("folios changed, or were not counted", "; ".join(facts["failures"]))
    return True
