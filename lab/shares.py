# SPDX-License-Identifier: GPL-2.0
"""Which share of what is promoted do memory control groups get?

The selftest kmmscand_control_test runs groups that have more hot pages than promote_rate_mbps
affords, waits until some of all have been promoted, and counts what each gets of the next 1500
or so.  Here it runs some times, on the kernel that is measured, and what it prints becomes a
table: the share by memory.tier.weight, and the measured ones.  The same for memory.tier.max:
pages on the fast node, and how many may be there.
"""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import build, cache, ktap, report, scenario, selftests, topology
from lab.errors import LabError
from lab.selftests import Program

NAME = "shares"
PROGRAM = "kmmscand_control_test"
RUNS = 3
# As in the selftest, and for who gets little half of what is due, but not less than what half
# a round of 128 pages makes of 1500: it may be half done when the selftest looks.
TOLERANCE = 0.12
HALF_ROUND = 0.045
# What has to be promoted for it
LEAST = 1350
# Beyond the limit: what waits in the per-CPU batches of so many pages to be counted
BATCH = 31
CPUS = 2

_PROMOTED = re.compile(r"^# ([\d, and]+) pages were promoted$", re.MULTILINE)
_LIMITED = re.compile(r"^# (\d+) of at most (\d+) pages$", re.MULTILINE)

Log = dict[str, Any]  # of one run of one test: outcome, reason, pages, limits


@dataclass(frozen=True)
class Shares:
    """A test of the selftest, what it is about, and what its groups should get."""

    test: str
    title: str
    groups: dict[str, float]


SHARES = (
    Shares("shares", "weights 100 and 400", {"a, 100": 0.2, "b, 400": 0.8}),
    Shares("colder", "the same, b's pages are colder", {"a, 100": 0.2, "b, 400": 0.8}),
    Shares(
        "tree",
        "a tree: p and q 100 each",
        {"p/a, 100": 0.05, "p/b, 900": 0.45, "q, 100": 0.5},
    ),
)
LIMITS = {"max": "a limit of the group itself", "max_above": "a limit of the group above"}


def read(text: str, exit_code: int) -> Log:
    """What one run of one test has printed."""
    cases = ktap.parse(text, exit_code)
    promoted = _PROMOTED.search(text)
    return {
        "outcome": cases[0].outcome if len(cases) == 1 else "fail",
        "reason": "; ".join(case.reason for case in cases if case.reason),
        "pages": [int(nr) for nr in re.findall(r"\d+", promoted[1])] if promoted else [],
        "limits": [[int(nr) for nr in pair] for pair in _LIMITED.findall(text)],
    }


def _share(pages: list[int], place: int) -> float:
    return pages[place] / sum(pages) if sum(pages) else 0.0


def _tolerance(due: float) -> float:
    return min(TOLERANCE, max(due / 2, HALF_ROUND))


def check(logs: dict[str, list[Log]]) -> list[str]:
    """What does not hold; also where the selftest did not look."""
    failures = []
    for test, runs in logs.items():
        for number, log in enumerate(runs, 1):
            if log["outcome"] != "pass":
                why = f" ({log['reason']})" if log["reason"] else ""
                failures.append(f"{test}, run {number}: {log['outcome']}{why}")
    for shares in SHARES:
        for number, log in enumerate(logs[shares.test], 1):
            where, pages = f"{shares.test}, run {number}: ", log["pages"]
            if len(pages) != len(shares.groups):
                failures.append(where + "no numbers of pages")
                continue
            if sum(pages) < LEAST:
                failures.append(f"{where}{sum(pages)} pages were promoted")
            for place, (group, due) in enumerate(shares.groups.items()):
                share = _share(pages, place)
                if abs(share - due) > _tolerance(due):
                    failures.append(f"{where}{group} got {share:.1%} instead of {due:.0%}")
    for test in LIMITS:
        for number, log in enumerate(logs[test], 1):
            where = f"{test}, run {number}: "
            if len(log["limits"]) != 2:
                failures.append(where + "no numbers of pages")
            failures += [
                f"{where}{pages} pages, but {limit} are allowed"
                for pages, limit in log["limits"]
                if pages > limit + BATCH * CPUS
            ]
    return failures


def share_table(logs: dict[str, list[Log]]) -> list[list[str]]:
    """Groups, their shares by weight, and what they have got in each run."""
    runs = len(next(iter(logs.values())))
    rows = [["group, weight", "share by weight", *(f"run {nr}" for nr in range(1, runs + 1))]]
    for shares in SHARES:
        rows.append([shares.title, *[""] * (runs + 1)])
        for place, (group, due) in enumerate(shares.groups.items()):
            cells = []
            for log in logs[shares.test]:
                good = len(log["pages"]) == len(shares.groups)
                share = f"{_share(log['pages'], place):.1%}" if good else "-"
                cells.append(f"{share} ({log['pages'][place]:,})" if good else share)
            rows.append([group, f"{due:.0%}", *cells])
    return rows


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
    tests = [*(shares.test for shares in SHARES), *LIMITS]
    wanted = tuple(
        Program(PROGRAM, test, timeout_s=150, label=f"{test}-{number}")
        for number in range(1, runs + 1)
        for test in tests
    )
    out = cache.sub("runs") / NAME
    selftests.run_programs(
        kernel,
        selftests.programs(kernel, "tier"),
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
        for test in tests
    }
    facts: dict[str, Any] = {
        "schema": 1,
        "command": scenario.command_line(sys.argv),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "host": scenario.host_info(),
        "kernel": kernel.describe(),
        "logs": logs,
        "failures": check(logs),
    }
    report.print_rows(share_table(logs), sys.stdout)
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
            "What memory control groups get of what is promoted, of their pages and in percent.",
            "",
            f"Measured {facts['date']} with `{facts['command']}` in {facts['seconds']:.0f} s.",
            "",
            "## Shares by memory.tier.weight",
            "",
            *report.markdown_rows(share_table(logs)),
            "",
            "## Pages under memory.tier.max",
            "",
            *report.markdown_rows(limit_table(logs)),
            "",
            *(f"- FAILED CHECK: {failure}" for failure in facts["failures"]),
            f"- By `{PROGRAM}` of tools/testing/selftests/tier: each group has a process that "
            "keeps 12 MiB of slow memory hot (under limits 8 MiB); promote_rate_mbps 2, "
            "scan_period_ms 1000, scan_cpu_pct 100, hot_threshold 1.",
            "- Shares are of about 1,500 pages that are promoted after some of all groups have "
            "been; in the beginning, whom the scanner meets first gets all. A round of 128 pages "
            "may be half done when they are counted, which is up to 4 points.",
            f"- A limit may be exceeded by what waits in per-CPU batches: {BATCH * CPUS} pages.",
            f"- Emulated (TCG, {facts['host']['qemu']}), {facts['host']['cpus']} host CPUs.",
            f"- Kernel {kernel['release']} ({kernel['flavour']} {kernel['key']}) from "
            f"{kernel['base_version']}.",
            "",
        ]
    )
