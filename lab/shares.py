# SPDX-License-Identifier: GPL-2.0
"""How much of a memory control group is promoted, if that is limited?

The selftest kmmscand_control_test runs groups that have more hot pages than memory.tier.max
allows on fast nodes, waits until no more are promoted, and counts them.  Here it runs some
times, on the kernel that is measured. What counts is what it prints: pages on the fast node, and
how many may be there.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from typing import Any

from lab import build, cache, ktap, scenario, selftests, topology
from lab.results import finish, ledger, study
from lab.results.study import Column, Study
from lab.selftests import Program

NAME = "shares"
DIRECTORY = "kmmscand"  # below tools/testing/selftests
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


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each group that was limited, in each turn."""
    found: list[ledger.Run] = []
    for test, title in LIMITS.items():
        for turn, log in enumerate(facts["logs"][test], 1):
            for place, (pages, limit) in enumerate(log["limits"]):
                found.append(
                    ledger.Run(
                        cell=f"{test}, {title}, {place + 1}",
                        turn=turn,
                        figures={"pages": pages, "limit": limit},
                        kernel=facts["kernel"],
                        checks=facts["failures"] if not found else (),
                    )
                )
    return found


def measure(args: argparse.Namespace) -> bool:
    """Run everything; True if nothing failed."""
    began = time.time()
    kernel = build.kernel("tiershift")
    wanted = tuple(
        Program(PROGRAM, test, timeout_s=150, label=f"{test}-{number}")
        for number in range(1, args.runs + 1)
        for test in LIMITS
    )
    out = cache.sub("runs") / NAME
    selftests.run_programs(
        kernel,
        selftests.programs(kernel, DIRECTORY),
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
            for number in range(1, args.runs + 1)
        ]
        for test in LIMITS
    }
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernel=kernel.describe(),
        logs=logs,
        failures=check(logs),
    )
    return finish.finish(STUDY, facts, runs(facts), whole=args.runs >= RUNS)


def arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--runs", type=int, default=RUNS)


STUDY = Study(
    name=NAME,
    title="Pages of a group that are promoted under memory.tier.max",
    what="Each group has a process that keeps 8 MiB of slow memory hot.  Counted are the group's "
    "pages on the fast node when no more are promoted.",
    columns=(Column("pages", "pages on the fast node"), Column("limit", "at most")),
    minutes=2,
    run=measure,
    groups=study.KMMSCAND,
    arguments=arguments,
    notes=(
        "A limit may be exceeded by what the statistics do not know yet: "
        f"{LATE * CPUS} pages on {CPUS} CPUs.",
    ),
)
