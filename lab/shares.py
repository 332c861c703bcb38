# SPDX-License-Identifier: GPL-2.0
"""How much of a memory control group is promoted, if that is limited?

The selftest kmmscand_control_test runs groups that have more hot pages than memory.tier.max
allows on fast nodes, waits until no more are promoted, and counts them.  Here it runs some
times, on the kernel that is measured, and what it prints becomes a table: pages on the fast
node, and how many may be there.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from lab import build, cache, ktap, report, scenario, selftests, topology
from lab.errors import LabError
from lab.selftests import Program

NAME = "shares"
PROGRAM = "kmmscand_control_test"
RUNS = 3
# Beyond the limit, for each CPU: pages that wait in batches to be put on a list, and updates
# of the statistics that are too few to be added up
LATE = 31 + 64
CPUS = 2

_LIMITED = re.compile(r"^# (\d+) of at most (\d+) pages$", re.MULTILINE)

Log = dict[str, Any]  # of one run of one test: outcome, reason, limits

LIMITS = {"max": "a limit of the group itself", "max_above": "a limit of the group above"}


def read(text: str, exit_code: int) -> Log:
    """What one run of one test has printed."""
    cases = ktap.parse(text, exit_code)
    return {
        "outcome": cases[0].outcome if len(cases) == 1 else "fail",
        "reason": "; ".join(case.reason for case in cases if case.reason),
        "limits": [[int(nr) for nr in pair] for pair in _LIMITED.findall(text)],
    }


def check(logs: dict[str, list[Log]]) -> list[str]:
    """What does not hold; also where the selftest did not look."""
    failures = []
    for test, runs in logs.items():
        for number, log in enumerate(runs, 1):
            if log["outcome"] != "pass":
                why = f" ({log['reason']})" if log["reason"] else ""
                failures.append(f"{test}, run {number}: {log['outcome']}{why}")
    for test in LIMITS:
        for number, log in enumerate(logs[test], 1):
            where = f"{test}, run {number}: "
            if len(log["limits"]) != 2:
                failures.append(where + "no numbers of pages")
            failures += [
                f"{where}{pages} pages, but {limit} are allowed"
                for pages, limit in log["limits"]
                if pages > limit + LATE * CPUS
            ]
    return failures


def limit_table(logs: dict[str, list[Log]]) -> list[list[str]]:
    """Limits, and how many pages have been promoted under them in each run."""
    runs = len(next(iter(logs.values())))
    rows = [["", "at most", *(f"run {nr}" for nr in range(1, runs + 1))]]
    for test, title in LIMITS.items():
        limits: list[list[int]] = next((log["limits"] for log in logs[test] if log["limits"]), [])
        for place, (_pages, limit) in enumerate(limits):
            cells = [
                f"{log['limits'][place][0]:,}" if place < len(log["limits"]) else "-"
                for log in logs[test]
            ]
            rows.append([title, f"{limit:,}", *cells])
    return rows


def measure(runs: int, save: Path | None) -> bool:
    """Run everything, print it, write it; True if nothing failed."""
    began = time.time()
    kernel = build.kernel("tiershift")
    wanted = tuple(
        Program(PROGRAM, test, timeout_s=150, label=f"{test}-{number}")
        for number in range(1, runs + 1)
        for test in LIMITS
    )
    out = cache.sub("runs") / NAME
    selftests.run_programs(
        kernel,
        selftests.programs(kernel, *selftests.TIER),
        wanted,
        topology.load("two-tier", fast_mb=512, slow_mb=512),
        out,
        prepare="true",
    )
    logs: dict[str, list[Log]] = {
        test: [
            read(
                (out / f"{test}-{number}.log").read_text(errors="replace"),
                int((out / f"{test}-{number}.code").read_text()),
            )
            for number in range(1, runs + 1)
        ]
        for test in LIMITS
    }
    facts: dict[str, Any] = {
        "schema": 2,
        "command": scenario.command_line(sys.argv),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "host": scenario.host_info(),
        "kernel": kernel.describe(),
        "logs": logs,
        "failures": check(logs),
    }
    report.print_rows(limit_table(logs), sys.stdout)
    for failure in facts["failures"]:
        print("FAILED CHECK: " + failure)
    for directory in (out, save):
        if directory:
            text = json.dumps(facts, indent=1) + "\n"
            (directory / f"{NAME}.json").write_text(text, encoding="utf-8")
            (directory / f"{NAME}.md").write_text(markdown(facts), encoding="utf-8")
    if facts["failures"]:
        raise LabError("these figures do not count", "the FAILED CHECK lines above say why")
    return True


def markdown(facts: dict[str, Any]) -> str:
    """The page for docs/results."""
    kernel, logs = facts["kernel"], facts["logs"]
    return "\n".join(
        [
            "<!-- SPDX-License-Identifier: GPL-2.0 -->",
            f"# {NAME}",
            "",
            "How many pages of a memory control group are promoted under memory.tier.max.",
            "",
            f"Measured {facts['date']} with `{facts['command']}` in {facts['seconds']:.0f} s.",
            "",
            *report.markdown_rows(limit_table(logs)),
            "",
            *(f"- FAILED CHECK: {failure}" for failure in facts["failures"]),
            f"- By `{PROGRAM}` of tools/testing/selftests/kmmscand: each group has a process "
            "that keeps 8 MiB of slow memory hot.",
            "- A limit may be exceeded by what the statistics do not know yet: "
            f"{LATE * CPUS} pages.",
            f"- Emulated (TCG, {facts['host']['qemu']}), {facts['host']['cpus']} host CPUs.",
            f"- Kernel {kernel['release']} ({kernel['flavour']} {kernel['key']}) from "
            f"{kernel['base_version']}.",
            "",
        ]
    )
