# SPDX-License-Identifier: GPL-2.0
"""What MIGRC costs where it cannot help.

Jobs of which nothing can be deferred are moved to and fro: all pages writable, one thread, huge
pages, a migration that may not defer.  Others are run where it should do nothing, or no harm:
what restore_readonly costs or saves a job whose pages come and go; Redis that saves its data by
fork() while reclaim swaps and nothing is migrated; a job that is swapped while its pages are
promoted and demoted; and one that writes pages that hint faults have left read-only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lab import flushes, migrc, scenario
from lab.migrc import BUSY, EARLY, FEW_VCPUS, OFF, ON, SAME_WORK, SMALL, Boot, Row, contender
from lab.refault import Difference, difference
from lab.results import finish, ledger, study
from lab.results.ledger import Goal
from lab.results.study import Column, Study
from lab.scenario import Contender, Machine, Measure, Process, Scenario

NAME = "migrc-cost"
LIMIT = 0.01  # of instructions more where MIGRC cannot help, and of flushes where it does nothing
RECLAIM_LIMIT = 0.05  # of reclaim more where memory is short
HUGE = {key: "always" for key in SMALL}
SYSCALLS = {"/sys/kernel/debug/migrc/defer_syscalls": "1", "/sys/kernel/debug/migrc/check": "0"}
RESTORE = flushes.MIGRC + "restore_readonly"
# Lookups that write, in percent
RESTORE_WRITES = {"restore_readonly without writes": 0, "restore_readonly with writes": 20}
RESTORE_GROUPS = tuple(RESTORE_WRITES)
RESTORED = 1000  # PTEs at least that were mapped read-only again, where nobody writes
TURNOVER_OPS = 20_000_000  # kmmscand needs seconds for what the window has come to
TURNOVER_SWEEPS = 3
ROUNDS = 3
PRESSURE_TIMES = 2  # as many rounds of the job that is swapped, which differ by some 10 %

# --- what is run ---------------------------------------------------------------


def _four() -> tuple[Contender, ...]:
    """The unmodified kernel twice, whose difference is the noise, and ours off and on."""
    return (
        contender("base", "none", "base"),
        contender("base-again", "none", "base"),
        contender("off", "none", "tiershift", OFF),
        contender("on", "none", "tiershift", ON),
    )


def _deferring(*settings: dict[str, str]) -> tuple[Contender, ...]:
    """A kernel on which migrate_pages(2) may defer, off twice and on."""
    return tuple(
        contender(name, "none", "torture", *settings, SYSCALLS, switch)
        for name, switch in (("off", OFF), ("on", ON), ("off-again", OFF))
    )


def _restoring() -> tuple[Contender, ...]:
    """kmmscand with MIGRC, whose pages come back writable, read-only, and writable again."""
    return tuple(
        contender(name, "tiershift", "tiershift", SMALL, EARLY, ON, {RESTORE: value})
        for name, value in (("writable", "0"), ("readonly", "1"), ("writable-again", "0"))
    )


def moved(*args: str, readers: int = 1) -> Scenario:
    """A job that is moved to and fro as a whole: fixed work, with hardly any noise.

    All CPUs share one clock and one CPU of the host, so there are no more readers than it
    takes to have a TLB that has to be flushed.
    """
    spec = scenario.load("pingpong")
    fixed = ["--rounds", "2", "--readers", str(readers)]
    return replace(
        spec,
        workload=replace(spec.workload, args=[*spec.workload.args, *fixed, *args]),
        measure=replace(spec.measure, icount=True),
    )


def turnover(spec: Scenario, write_pct: int) -> Scenario:
    """Lookups for so long that kmmscand promotes what the window comes to, and the rest goes."""
    sweeps = ("--sweeps", str(TURNOVER_SWEEPS), "--write-pct", str(write_pct))
    return migrc.on_cpus(spec, FEW_VCPUS, "--ops", str(TURNOVER_OPS), *sweeps)


def groups() -> dict[str, tuple[Scenario, tuple[Contender, ...]]]:
    """Jobs for which MIGRC can do nothing, or next to nothing; and those of restore_readonly."""
    spec = migrc.counting(scenario.load("lookup"), "insn")
    return {
        # May not defer, whatever it moves
        "system call": (moved(), _four()),
        "all writable": (moved(), _deferring(SMALL)),
        "one thread": (moved(readers=0), _deferring(SMALL)),
        "huge pages": (moved("--pages", "thp"), _deferring(HUGE)),
        # What is written on the fast node takes a fault if it was restored read-only.
        **{group: (turnover(spec, pct), _restoring()) for group, pct in RESTORE_WRITES.items()},
    }


# The job may have less memory than it needs, so that it is swapped; what Redis stores does
# not compress, and zram needs as much again, outside of the job's limit.
SWAP = """
set -e
echo 0 > /proc/sys/vm/page-cluster
echo 1 > /proc/sys/vm/overcommit_memory
cat /sys/class/zram-control/hot_add > /dev/null
echo 512M > /sys/block/zram0/disksize
/sbin/mkswap /dev/zram0 > /dev/null
/sbin/swapon /dev/zram0
cd /sys/fs/cgroup
[ -e cgroup.procs ] || mount -t cgroup2 none .
cd /sys/fs/cgroup
echo +memory > cgroup.subtree_control
mkdir job
echo {limit_mb}M > job/memory.max
echo 0 > job/cgroup.procs
cd /
"""
SAVE_LIMIT_MB = 96
# Swap that takes none of the machine's own memory
DISK = """
set -e
echo 0 > /proc/sys/vm/page-cluster
/sbin/mkswap /dev/vda > /dev/null
/sbin/swapon /dev/vda
"""
DISK_MB = 512
# Less than the tables and what the kernel needs
SHORT_MB = {"fast_mb": 128, "slow_mb": 128}
SHORT_KEYS = ("--size-mb", "224", "--ops", "2000000", "--read-only", "1")
BGSAVE, PRESSURE, HINTED = "bgsave", "pressure", "hint faults"
HINTED_OPS = 2_000_000
HINTED_WRITES = 20  # percent of the lookups
SAVE_KEYS = ("--keys", "49152", "--size", "1024")


def bgsave_spec() -> Scenario:
    """Redis that saves every second, with less memory than it needs, on one tier.

    fork() makes all its pages read-only, its writes fault, and reclaim unmaps in batches;
    but nothing is migrated by anybody who may defer.
    """
    return Scenario(
        name="bgsave",
        description="Redis saves its data by fork() while it is written, and reclaim swaps",
        topology=Machine(
            "one-tier",
            {"fast_mb": 640, "fast_cpus": 4},
            system_cpus=[2],
            append="clearcpuid=erms,fsrm",
        ),
        service=Process(
            "redis-server",
            [
                *("--save", "1", "1", "--rdbcompression", "no", "--appendonly", "no"),
                *("--port", "0", "--unixsocket", "/tmp/r.sock", "--dir", "/tmp"),
            ],
            [0],
            ready="/tmp/r.sock",
        ),
        load=Process("respload", ["bulk", *SAVE_KEYS, "--pipeline", "128"], [1]),
        workload=Process(
            "respload",
            ["run", *SAVE_KEYS, "--ops", "400000", "--write-pct", "50", "--seed", "7"],
            [1],
        ),
        measure=Measure(
            instruments=["insn"],
            app_cpus=[0],
            timeout_s=600,
            expected_s=60,
            unit="command",
        ),
        contender=[
            contender("base", "none", "base"),
            contender("off", "none", "tiershift", OFF),
            contender("on", "none", "tiershift", ON),
            contender("base-again", "none", "base"),
        ],
    )


def boots(rounds: int = ROUNDS) -> list[Boot]:
    found = []
    for group, (spec, contenders) in groups().items():
        found += migrc.in_turn(group, spec, contenders, rounds)
    save, swap = bgsave_spec(), SWAP.format(limit_mb=SAVE_LIMIT_MB)
    found += migrc.in_turn(BGSAVE, save, save.contender, rounds, prepare=swap)
    return found + pressure_boots(rounds * PRESSURE_TIMES) + balanced_boots(rounds)


def balanced_boots(rounds: int) -> list[Boot]:
    """NUMA balancing moves a job's pages to and fro, and the job writes."""
    few = migrc.on_cpus(
        migrc.counting(scenario.load("lookup")), FEW_VCPUS, "--ops", str(HINTED_OPS)
    )
    writes = ["--write-pct", str(HINTED_WRITES)]
    writing = replace(
        migrc.counting(few, "insn"),
        workload=replace(few.workload, args=[*few.workload.args, *writes]),
    )
    three = [
        contender(name, "numab2", "tiershift", SMALL, BUSY, switch)
        for name, switch in (("off", OFF), ("on", ON), ("off-again", OFF))
    ]
    return migrc.in_turn(HINTED, writing, three, rounds)


def pressure_boots(rounds: int) -> list[Boot]:
    """A job for which both nodes together are too small; nothing is promoted.

    What is read from swap goes to the fast node, mapped read-only, is demoted from there,
    deferred, and swapped out from the slow node.
    """
    few = migrc.on_cpus(migrc.counting(scenario.load("lookup")), FEW_VCPUS, *SHORT_KEYS)
    short = replace(
        few,
        topology=replace(few.topology, sizes={**few.topology.sizes, **SHORT_MB}, disk_mb=DISK_MB),
        placement=None,
    )
    three = [
        replace(contender(name, "none", "tiershift", SMALL, EARLY, switch), demotion=True)
        for name, switch in (("off", OFF), ("on", ON), ("off-again", OFF))
    ]
    return migrc.in_turn(PRESSURE, short, three, rounds, prepare=DISK)


# --- what is judged ------------------------------------------------------------

# Those that are moved, and what is to be refused of them
REFUSED = {"system call": None, "all writable": "write", "one thread": None, "huge pages": "large"}
HINT_FAULTS = "numa_hint_faults"
PER_OP = "instructions on app CPUs, user code and kernel, per operation"
PER_PAGE = "kernel instructions of all CPUs, per page migrated"

# What a job that lacks memory costs, for the same lookups
PRESSED: dict[str, tuple[str, ...]] = {
    "pages looked at by reclaim": ("pgscan_kswapd", "pgscan_direct"),
    "pages taken by reclaim": ("pgsteal_kswapd", "pgsteal_direct"),
    "pages demoted": ("pgdemote_kswapd", "pgdemote_direct"),
    "pages swapped out": ("pswpout",),
    "pages swapped in": ("pswpin",),
}

Judged = tuple[dict[str, float | None], list[Goal]]  # figures of all rounds, and goals


def within(more: Difference, noise: float, limit: float = LIMIT) -> bool | None:
    """At most so much more; where equal runs differ by more than that, with the error added.

    A single round has no error: then it cannot be seen.
    """
    if noise <= limit:
        return more.total <= limit
    return None if more.error is None else more.mean + more.error <= limit


def _rounds(
    own: Sequence[Row], value: Callable[[Row], float | None], *needed: str
) -> list[dict[str, dict[str, float]]]:
    """A figure of each contender of a group, by round; without rounds in which one has none."""
    rounds = []
    for number in sorted({row["round"] for row in own}):
        values = {row["contender"]: value(row) for row in own if row["round"] == number}
        known = {name: {"it": n} for name, n in values.items() if n is not None}
        if known.keys() == values.keys() and known.keys() >= set(needed):
            rounds.append(known)
    return rounds


def _each(more: Difference) -> str:
    return ", ".join(f"{one:+.1%}" for one in more.each)


def judge_moved(own: Sequence[Row]) -> Judged:
    """A job that is moved: what MIGRC adds when it is on, and what when it is off.

    Noise is what two equal runs differ by.  Where a kernel is needed on which system calls may
    defer there is no unmodified one to compare with.
    """
    unmodified = any(row["contender"].startswith("base") for row in own)
    twice = ("base", "base-again") if unmodified else ("off", "off-again")
    rounds = _rounds(own, migrc.per_page, *twice, "off", "on")
    if not rounds:
        return {}, []  # nothing was migrated, or it was not all run
    noise = difference(rounds, "it", twice[1], twice[:1]).rms
    offs = tuple(name for name in ("off", "off-again") if name in rounds[0])
    on = difference(rounds, "it", "on", offs)
    error = "" if on.error is None else f", standard error {on.error:.2%}"
    goals = [
        Goal(
            "on costs no more",
            finish.verdict(within(on, noise)),
            on.total,
            LIMIT,
            f"{PER_PAGE} {on.total:+.2%} with MIGRC on{error}, equal runs differ by {noise:.2%}; "
            f"the goal is at most {LIMIT:.0%} more",
        )
    ]
    figures = {"more": on.total, "error": on.error, "noise": noise}
    if unmodified:
        off = difference(rounds, "it", "off", twice)
        # No instruction more: what equal runs differ by is all there may be.
        limit = max(noise, LIMIT / 10)
        text = f"{PER_PAGE} {off.total:+.2%} with MIGRC off, equal runs differ by {noise:.2%}; "
        text += f"the goal is no more than {'that' if limit == noise else f'{limit:.1%}'}"
        good = finish.verdict(off.total <= limit)
        goals.append(Goal("off costs nothing", good, off.total, limit, text))
        figures["off_more"] = off.total
    return figures, goals


def judge_restore(own: Sequence[Row]) -> Judged:
    """Is restore_readonly a net win on the application's CPUs?

    This is no duty: if it is one, it should be the default.
    """
    rounds = _rounds(own, migrc.FIGURES["app_per_op"].value, *(one.name for one in _restoring()))
    if not rounds:
        return {}, []
    more = difference(rounds, "it", "readonly", ("writable", "writable-again"))
    noise = difference(rounds, "it", "writable-again", ("writable",)).rms
    without, deferred = (
        flushes.of(migrc.summed([row for row in own if row["contender"] == name]))["deferred_share"]
        or 0.0
        for name in ("writable", "readonly")
    )
    # If hardly more is deferred, a difference is chance.
    win = (
        deferred - without > SAME_WORK
        and more.total < -noise
        and (more.error is None or more.mean + more.error < 0)
    )
    figures = {"app_more": more.total, "app_error": more.error, "app_noise": noise}
    return {**figures, "writable_share": without, "readonly_share": deferred, "net_win": win}, []


def judge_bgsave(own: Sequence[Row]) -> Judged:
    """Without deferrals MIGRC must flush nothing, and nobody else must flush more."""
    goals = []
    on = [row["whole"] for row in own if row["contender"] == "on"]
    for text, count in (
        ("pages deferred", sum(whole["deferred"] for whole in on)),
        ("flushes forced by a write or a system call", sum(sum(w["forced"].values()) for w in on)),
        ("flushes of deferred pages", sum(whole["drains"] for whole in on)),
    ):
        if on:
            good = finish.verdict(count == 0)
            goals.append(Goal(text, good, count, 0, f"Redis saving, MIGRC on: {count} {text}"))
    rounds = _rounds(own, _sent, "base", "off", "on", "base-again")
    if not rounds:
        return {}, goals
    noise = difference(rounds, "it", "base-again", ("base",)).rms
    limit = max(noise, LIMIT)
    for name in ("off", "on"):
        more = difference(rounds, "it", name, ("base", "base-again"))
        goals.append(
            Goal(
                f"{name} sends no more flushes",
                finish.verdict(more.total <= limit),
                more.total,
                limit,
                f"Redis saving, MIGRC {name}: {more.total:+.1%} flushes sent for the same "
                f"commands, by round {_each(more)}, of the unmodified kernel's, two runs of which "
                f"differ by {noise:.1%}; no extra flush, by that or {LIMIT:.0%}",
            )
        )
    return {}, goals


def _sent(row: Row) -> float:
    return float(row["whole"]["flushes"])


def judge_pressure(own: Sequence[Row]) -> Judged:
    """A job that has less memory than it needs must not cost more, for the same lookups, in all."""
    goals = []
    for what, names in PRESSED.items():
        rounds = _rounds(own, partial(_total, names=names), "off", "on", "off-again")
        if not rounds:
            continue
        noise = difference(rounds, "it", "off-again", ("off",)).rms
        more = difference(rounds, "it", "on", ("off", "off-again"))
        goals.append(
            Goal(
                what,
                finish.verdict(within(more, noise, RECLAIM_LIMIT)),
                more.total,
                RECLAIM_LIMIT,
                f"swapped job: {what} {more.total:+.1%} with MIGRC, for the same lookups, "
                f"by round {_each(more)}; equal runs differ by {noise:.1%}; the goal is at most "
                f"{RECLAIM_LIMIT:.0%} more",
            )
        )
    return {}, goals


def _total(row: Row, names: Sequence[str]) -> float:
    return float(flushes.total(row["counters"], names))


JUDGES: dict[str, Callable[[Sequence[Row]], Judged]] = {
    **{group: judge_moved for group in REFUSED},
    **{group: judge_restore for group in RESTORE_GROUPS},
    BGSAVE: judge_bgsave,
    PRESSURE: judge_pressure,
}


def failures(row: Row, rows: Sequence[Row]) -> list[str]:
    """Why a run does not count: what it is about did not happen."""
    found = migrc.failures(row, rows)
    group, whole, counters = row["group"], row["whole"], row["counters"]
    on = row["contender"] == "on"
    if group in REFUSED and on:
        # MIGRC has looked at what was moved; libraries have some read-only pages of their own.
        if (whole["deferred"] or 0) > SAME_WORK * whole["migrated"]:
            found.append(f"{whole['deferred']} pages were deferred")
        reason = REFUSED[group]
        if reason and not whole["skipped"][reason]:
            found.append(f"nothing was refused as {reason}")
    if group in RESTORE_GROUPS:
        if not whole["demoted"]:
            found.append("nothing was demoted")
        restored = counters.get("migrc_readonly", 0)
        if (group, row["contender"]) == (RESTORE_GROUPS[0], "readonly") and restored < RESTORED:
            found.append(f"only {restored} pages came back read-only")
    if group == BGSAVE:
        if not row["saves"]:
            found.append("Redis saved nothing")
        if not counters.get("pswpout"):
            found.append("nothing was swapped")
    if group == PRESSURE and not (whole["swapped"] and whole["demoted"]):
        found.append("nothing was swapped, or nothing demoted")
    if group == HINTED and not counters.get(HINT_FAULTS):
        found.append("there were no hint faults")
    if group in (PRESSURE, HINTED) and on and not whole["deferred"]:
        found.append("nothing was deferred")
    return found


# --- runs ----------------------------------------------------------------------

FIGURES = (
    *("migrated", "promoted", "demoted", "deferred", "flushes", "received", "forced"),
    *("app_per_op", "all_kernel_per_page"),
)


def figures(row: Row) -> dict[str, float | None]:
    """Of one run; page faults only where NUMA balancing makes some."""
    counters = row["counters"]
    found = {
        **migrc.figures(row, FIGURES),
        "swapped_out": counters.get("pswpout"),
        "swapped_in": counters.get("pswpin"),
        "saves": row.get("saves"),
    }
    hints, promoted = counters.get(HINT_FAULTS, 0), row["whole"]["promoted"]
    if hints and promoted:
        # Those that write read-only pages are among the others.
        others = counters.get("pgfault", 0) - hints
        found |= {"hint_faults": hints, "other_faults": others}
        found["other_per_1000_promoted"] = 1000 * others / promoted
        found["other_per_1000_hints"] = 1000 * others / hints
    return found


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """Every run, and for each job that is judged a line about all of its rounds."""
    rows: list[Row] = facts["rows"]
    checks = [failures(row, rows) for row in rows]
    found = [
        migrc.run_of(row, rows, figures(row), why) for row, why in zip(rows, checks, strict=True)
    ]
    for group, judge in JUDGES.items():
        own = [row for row in rows if row["group"] == group]
        judged, goals = judge(own)
        if not judged and not goals:
            continue
        why = [why for row, why in zip(rows, checks, strict=True) if row["group"] == group]
        ours = next(row for row in own if row["kernel"]["flavour"] != "base")
        found.append(
            ledger.Run(
                group,
                judged,
                ours["kernel"],
                goals=goals,
                checks=migrc.doubtful(why),
                date=max(row["date"] for row in own),
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
        title="MIGRC: what it costs where it cannot help",
        what="Jobs of which nothing can be deferred are moved by migrate_pages(2), and the kernel "
        "instructions for each page are counted. Other jobs swap, save by fork(), or write what "
        "has come back read-only.",
        columns=(
            Column("more", "on against off", "{:+.2%}"),
            Column("error", "standard error", "{:.2%}"),
            Column("off_more", "off against base", "{:+.2%}"),
            Column("noise", "equal runs differ by", "{:.2%}"),
            Column("app_more", "app instructions, read-only against writable", "{:+.2%}"),
            Column("app_error", "standard error", "{:.2%}"),
            Column("app_noise", "equal runs differ by", "{:.2%}"),
            Column("writable_share", "deferred, writable", "{:.1%}"),
            Column("readonly_share", "deferred, read-only", "{:.1%}"),
            Column("net_win", "net win beyond noise"),
            *migrc.columns(FIGURES),
            Column("swapped_out", "swapped out"),
            Column("swapped_in", "swapped in"),
            Column("saves", "saves"),
            Column("hint_faults", "hint faults"),
            Column("other_faults", "other faults"),
            Column("other_per_1000_promoted", "other faults, per 1,000 pages promoted"),
            Column("other_per_1000_hints", "other faults, per 1,000 hint faults"),
        ),
        minutes=65,
        run=_run,
        groups=tuple(dict.fromkeys(study.KMMSCAND + study.MIGRC)),
        arguments=migrc.arguments,
        notes=(
            "Jobs that migrate_pages(2) moves do the same work in each run. Their time is the "
            "number of instructions (QEMU's icount), one CPU after the other.",
            "So that the system call may defer, all but the job 'system call' run on the kernel "
            "with switches for tests, off and on. What these switches cost is in both.",
            "restore_readonly is judged by instructions on the application's CPUs. A net win is "
            "no duty: it decides the default.",
            "A page that a hint fault has promoted is mapped read-only, by the unmodified kernel "
            "as well, and its first write faults. With MIGRC a hint fault that only reads leaves "
            f"a slow page read-only, too. In 'hint faults' {HINTED_WRITES} % of the lookups write.",
        ),
    ),
)
