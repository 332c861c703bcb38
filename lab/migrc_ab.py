# SPDX-License-Identifier: GPL-2.0
"""What MIGRC saves: the same lookups with each promoter, with MIGRC off and on.

``migrc``      the scenario lookup as it is, in rounds that are judged as one
``migrc-cpu``  the same on four CPUs, with the instruments that make a guest slow: instructions,
               and a model of the TLB
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lab import migrc, scenario
from lab.migrc import SAVED, Boot, Row, find, pooled, savings, taken
from lab.results import finish, ledger, study
from lab.results.ledger import Goal
from lab.results.study import Study

GOAL = 0.97  # of flushes and received interrupts saved under NUMA balancing
RECLAIM_LIMIT = 0.05  # of reclaim more for each page demoted
ROUNDS = 2  # each of which takes a quarter of an hour
CPU_OPS = 1_200_000
PLUGINS = ("insn", "tlb")
BASE = "numab2"  # what savings refer to
JUDGED = "numab2-migrc"
ALL = ", all rounds"
OURS = ("kmmscand-migrc", "kmmscand-readonly")


# --- what is run ---------------------------------------------------------------


def boots(rounds: int = ROUNDS) -> list[Boot]:
    """The scenario lookup, as it is, in rounds.

    How many pages move for the same lookups differs by a factor of ten between equal runs.
    """
    spec = scenario.load("lookup")
    found = [Boot("lookup", spec, contender) for contender in spec.contender]
    again = [one for one in spec.contender if one.mode != "none"]
    return found + [
        replace(boot, round=boot.round + 1)
        for boot in migrc.in_turn("lookup", spec, again, rounds - 1)
    ]


def cpu_boots() -> list[Boot]:
    """The contenders of lookup on fewer CPUs, with instruments."""
    few = migrc.on_cpus(scenario.load("lookup"), migrc.FEW_VCPUS, "--ops", str(CPU_OPS))
    spec = migrc.counting(few, *PLUGINS)
    return [Boot("lookup", spec, contender) for contender in spec.contender]


# --- what is judged ------------------------------------------------------------

# What of savings() has the goal
WHAT = {
    "less_flushes_per_1000": "whole run: flushes sent for each page",
    "less_received_per_1000": "whole run: interrupts received for each page",
    "half_less_flushes_per_1000": "second half of the run: flushes sent for each page",
    "half_less_received_per_1000": "second half of the run: interrupts received for each page",
    "less_flushes": "flushes sent for the same lookups, whatever has moved:",
    "less_received": "interrupts received for the same lookups, whatever has moved:",
}


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _few(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def _each(rows: Sequence[Row], key: str) -> str:
    """The same saving by round, if there are several."""
    shares = []
    for number in sorted({row["round"] for row in rows}):
        own = [row for row in rows if row["round"] == number]
        base, on = find(own, BASE), find(own, JUDGED)
        if base and on:
            shares.append(_share(savings(on, base)[key]))
    return f" (by round {', '.join(shares)})" if len(shares) > 1 else ""


def judge(rows: Sequence[Row], *, beyond: bool = True) -> dict[str, list[Goal]]:
    """The goals by contender, with what was reached; without those whose runs are missing.

    All rounds count as one.  ``beyond``: with as many CPUs as GOAL is for.
    """
    goals: dict[str, list[Goal]] = {JUDGED: []}
    base, on = pooled(rows, BASE), pooled(rows, JUDGED)
    if base and on and beyond:
        goals[JUDGED] += [_saving(rows, key, savings(on, base)[key]) for key in SAVED]
    off = pooled(rows, "numab2-off") or base
    if on and off:
        goals[JUDGED] += judge_reclaim(on, off)
    for name in OURS:
        goals[name] = judge_ours(rows, name)
    return goals


def _saving(rows: Sequence[Row], key: str, share: float | None) -> Goal:
    return Goal(
        migrc.SAVINGS[key],
        finish.verdict(None if share is None else share > GOAL),
        share,
        GOAL,
        f"NUMA balancing, {WHAT[key]} less than on the unmodified kernel by {_share(share)}"
        f"{_each(rows, key)}, the goal is more than {GOAL:.0%}",
    )


def judge_ours(rows: Sequence[Row], name: str) -> list[Goal]:
    """kmmscand with MIGRC must send fewer than any promoter of the unmodified kernel."""
    bases = {
        row["contender"]
        for row in rows
        if row["kernel"]["flavour"] == "base" and row["mode"] != "none"
    }
    rivals = [one for base in sorted(bases) if (one := pooled(rows, base))]
    ours, without = pooled(rows, name), pooled(rows, "kmmscand-off")
    if not ours or not rivals:
        return []
    rounds = len({row["round"] for row in rows})
    many = f" in {rounds} rounds" if rounds > 1 else ""
    goals = []
    for key, what in (("flushes", "flushes sent"), ("received", "interrupts received")):
        least = min(rivals, key=lambda row: float(row["whole"][key]))
        also = f"; with MIGRC off {without['whole'][key]:,}" if without else ""
        count, limit = ours["whole"][key], least["whole"][key]
        goals.append(
            Goal(
                what,
                finish.verdict(count < limit),
                count,
                limit,
                f"{name}: {count:,} {what} for the same "
                f"lookups{many}, {_share(ours['whole']['deferred_share'])} of the pages "
                f"deferred, {_share(ours['whole']['eligible_share'])} of those for which a "
                f"flush was due{also}; the unmodified kernel at least "
                f"{limit:,} ({least['contender']}), the goal is fewer",
            )
        )
    return goals


RECLAIM: tuple[tuple[str, Callable[[Row], int]], ...] = (
    ("pages looked at by reclaim", lambda row: row["whole"]["scanned"]),
    ("pages swapped out", lambda row: row["whole"]["swapped"]),
)


def judge_reclaim(on: Row, off: Row) -> list[Goal]:
    """Under sustained pressure what is kept must not make reclaim do more.

    How many pages are promoted differs between runs, and reclaim makes room for each of them,
    but for what was free at first.  So what it has taken beyond that is compared.
    """
    without = f"without MIGRC ({off['contender']}@{off['kernel']['flavour']})"
    beyond, base = (taken(row) - row["whole"]["promoted"] for row in (on, off))
    limit = base + RECLAIM_LIMIT * taken(on)
    goals = [
        Goal(
            "pages taken by reclaim, less those promoted",
            finish.verdict(beyond <= limit if taken(on) else None),
            beyond,
            limit,
            f"NUMA balancing under pressure: pages taken by reclaim, less those promoted, "
            f"{beyond:,}, {without} {base:,}; the goal is no more but for {RECLAIM_LIMIT:.0%} of "
            f"what was taken: at most {limit:,.0f}",
        )
    ]
    for what, count in RECLAIM:
        here, there = (
            count(row) / row["whole"]["demoted"] if row["whole"]["demoted"] else None
            for row in (on, off)
        )
        most = there * (1 + RECLAIM_LIMIT) if there is not None else None
        more = None if here is None or not there else here / there - 1
        goals.append(
            Goal(
                f"{what} for each page demoted",
                finish.verdict(here <= most if here is not None and most is not None else None),
                here,
                most,
                f"NUMA balancing under pressure: {what} for each page demoted "
                f"{_few(here)}, {without} "
                f"{_few(there)}{'' if more is None else f' ({more:+.1%})'}, the goal is at "
                f"most {RECLAIM_LIMIT:.0%} more",
            )
        )
    return goals


# --- runs ----------------------------------------------------------------------


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """Every round, and all rounds of a contender as one where there are several."""
    rows: list[Row] = facts["rows"]
    goals = judge(rows, beyond=facts["name"] == "migrc")
    found, checks = [], [migrc.failures(row, rows) for row in rows]
    for name in dict.fromkeys(row["contender"] for row in rows):
        mine = [
            (row, why) for row, why in zip(rows, checks, strict=True) if row["contender"] == name
        ]
        judged = goals.get(name, [])
        several = len(mine) > 1
        for row, why in mine:
            base = find([one for one in rows if one["round"] == row["round"]], BASE)
            found.append(
                migrc.run_of(row, rows, _figures(row, base), why, [] if several else judged)
            )
        whole = pooled(rows, name)
        if several and whole:
            found.append(
                ledger.Run(
                    f"{migrc.cell(whole)}{ALL}",
                    _figures(whole, pooled(rows, BASE)),
                    whole["kernel"],
                    goals=judged,
                    checks=migrc.doubtful([why for _, why in mine]),
                    date=max(row["date"] for row, _ in mine),
                )
            )
    return found


def _figures(row: Row, base: Row | None) -> dict[str, float | None]:
    less = savings(row, base) if base and row["contender"] != BASE else {}
    return {**migrc.figures(row), **less}


EACH = (
    *("migrated", "deferred_share", "flushes", "flushes_per_1000", "half_flushes_per_1000"),
    *("received", "received_per_1000", "half_received_per_1000", "guest_s"),
)


def _run(name: str, make: Callable[[], list[Boot]], args: argparse.Namespace) -> bool:
    what = next(one for one in STUDIES if one.name == name)
    facts = migrc.measure(name, make(), args)
    found = runs(facts)
    return finish.finish(what, facts, found, whole=migrc.whole(args))


COLUMNS = migrc.columns((*migrc.COMMON, *SAVED))
GROUPS = tuple(dict.fromkeys(study.KMMSCAND + study.MIGRC))
NOTES = (
    "All flushes are counted that were sent: those of scanners, of faults, of deferred pages "
    "(drains), and those that a write has forced.",
    "Received is one for each flush and CPU. A CPU in lazy TLB mode is not interrupted.",
    "Deferred are pages whose source was kept, and which were flushed later with others. The "
    "share is that of all pages migrated.",
    "A flush is not due where a hint fault has found the entry inaccessible, which is how NUMA "
    "balancing promotes.",
    "At START the job's pages are on the slow node. The second half, by time, is nearer to a job "
    "that runs for hours.",
    "While a scan of NUMA balancing has not flushed yet, what is promoted is flushed page by "
    "page. MIGRC must not defer that, and leaves such pages to a worker.",
)

STUDIES = (
    Study(
        name="migrc",
        title="MIGRC: TLB flushes of migration for the same lookups",
        what="The scenario lookup runs with each promoter of the unmodified kernel, and on ours "
        "with MIGRC off and on. Flushes that were sent and interrupts that were received are "
        "counted, for each page that moved and in all.",
        columns=COLUMNS,
        minutes=28,
        run=partial(_run, "migrc", boots),
        groups=GROUPS,
        arguments=migrc.arguments,
        notes=(
            *NOTES,
            "How many pages move differs by a factor of ten between equal runs. So all rounds "
            "of a contender count as one run.",
        ),
    ),
    Study(
        name="migrc-cpu",
        title="MIGRC: instructions and TLB misses for the same lookups",
        what="The scenario lookup runs on four CPUs, as sixteen are too slow with the plugins. "
        "They count instructions, instructions that flush, and fills of a model TLB.",
        columns=COLUMNS,
        minutes=3,
        run=partial(_run, "migrc-cpu", cpu_boots),
        groups=GROUPS,
        arguments=migrc.arguments,
        notes=(
            *NOTES,
            "The model TLB has 1,024 entries for pages of 4 KiB, four ways, for each CPU. Loads "
            "and stores of user code fill it. It stands for dTLB misses; walks of page tables "
            "and instruction TLBs are not modelled.",
            "QEMU has no PCIDs, so a switch of address spaces flushes, too.",
            "Instructions leave out idle CPUs, spinning on locks, and waiting for other CPUs to "
            "acknowledge a flush.",
        ),
    ),
)
