# SPDX-License-Identifier: GPL-2.0
"""Who flushes TLBs, for each page that moves: by promoter, by demotion on request, by swap-out.

``lookup``  the tables of lab/workloads/lookup.c on a fast node that is too small, with promotion
            and demotion; 8 threads, 150 seconds
``file``    a mapped file is read by 8 threads, and memory.reclaim demotes it ten times
``swap``    8 threads read and write more memory than the limit of their group; zram

A flush is one that interrupts other CPUs.  All are counted (nr_tlb_remote_flush); the rows
tier_flush_* of /proc/vmstat tell for what, on our kernels.  What they leave over is NUMA
balancing's scanner, faults, and everything else.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab import boots, build, cache, flushes, manifest, programs, scenario
from lab import topology as topologies
from lab.errors import LabError
from lab.migrate import LOOKUP, LOOKUP_S, SYSFS
from lab.results import finish, ledger, study
from lab.results.study import Column, Study

NAME = "flush"
ROUNDS = 2
CAUSES = ("scan", "promotion", "demotion", "swapout", "free")
GROUP = "/sys/fs/cgroup/job"
FILE_MB, RECLAIM_MB, RECLAIMS = 192, 16, 10
SWAP_MB, LIMIT_MB, SWAP_OPS = 96, 48, 40_000
# What seed series 000 was posted with: time limits that fit a machine on which a sweep is slow
NUMAB = (
    "echo 20000 > /sys/kernel/debug/sched/numa_balancing/hot_threshold_ms",
    "echo 1000 > /sys/kernel/debug/sched/numa_balancing/scan_period_min_ms",
    "echo 1000 > /sys/kernel/debug/sched/numa_balancing/scan_period_max_ms",
    "echo 2 > /proc/sys/kernel/numa_balancing",
)
BATCH = f"echo 1 > {SYSFS}/enabled"
MIGRC = f"echo 1 > {flushes.SWITCH}"
# Reclaim has to do the same work for the same pages.
RECLAIM = ("pgscan_direct", "pgsteal_direct", "workingset_refault_anon", "workingset_refault_file")
# Per 1,000: flushes of the causes that the row is about
GOALS = {("file", "batch"): 4.0, ("swap", "batch"): 40.0}
MOST_WORSE = 1.0

Figures = dict[str, float]


@dataclass(frozen=True)
class Mode:
    """A kernel and what is switched on before."""

    kernel: str
    label: str
    prepare: tuple[str, ...] = ()


def _promoter() -> tuple[str, ...]:
    return tuple(f"echo {one.on} > {one.file}" for one in manifest.switches("kmmscand"))


JOBS: dict[str, dict[str, Mode]] = {
    "lookup": {
        "base": Mode("base", "NUMA balancing, unmodified", NUMAB),
        "numab-batch": Mode("tiershift", "NUMA balancing, batched migration", (*NUMAB, BATCH)),
        "numab-worker": Mode(
            "tiershift",
            "NUMA balancing, batched migration, MIGRC's worker alone",
            (*NUMAB, BATCH, MIGRC, f"echo 1 > {flushes.MIGRC}max_pages"),
        ),
        "numab-defer": Mode(
            "torture",
            "NUMA balancing, batched migration, deferral alone",
            (*NUMAB, BATCH, MIGRC, "echo 1 > /sys/kernel/debug/migrc/fault_at_once"),
        ),
        "numab-both": Mode(
            "tiershift", "NUMA balancing, batched migration and deferral", (*NUMAB, BATCH, MIGRC)
        ),
        "promoter": Mode("tiershift", "our promoter, batched migration", (*_promoter(), BATCH)),
    },
    "file": {
        "base": Mode("base", "unmodified"),
        "off": Mode("tiershift", "ours, off"),
        "batch": Mode("tiershift", "batched migration", (BATCH,)),
        "both": Mode("tiershift", "batched migration and deferral", (BATCH, MIGRC)),
    },
    "swap": {
        "base": Mode("base", "unmodified"),
        "off": Mode("tiershift", "ours, off"),
        "batch": Mode("tiershift", "batched migration", (BATCH,)),
    },
}


def _script(job: str, mode: Mode) -> str:
    """What runs in the guest."""
    built = programs.build_programs(cache.root() / "programs")
    press = shlex.quote(str(built["press"]))
    common = (
        "echo never > /sys/kernel/mm/transparent_hugepage/enabled",
        "mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup",
        "echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
        f"mkdir -p {GROUP}",
    )
    if job == "lookup":
        before: tuple[str, ...] = (
            "echo 200 > /proc/sys/vm/watermark_scale_factor",
            "echo 1 > /sys/kernel/mm/numa/demotion_enabled",
        )
        run: tuple[str, ...] = (
            f"timeout {LOOKUP_S} {built['lookup']} {LOOKUP} < /dev/null | grep ^RESULT",
        )
    elif job == "file":
        before = (
            "echo 1 > /sys/kernel/mm/numa/demotion_enabled",
            f"echo {FILE_MB + 32}M > /sys/block/zram0/disksize",
            "mkfs.ext2 -q /dev/zram0 && mkdir -p /tmp/file && mount /dev/zram0 /tmp/file || exit 4",
            f"dd if=/dev/zero of=/tmp/file/data bs=1M count={FILE_MB} 2> /dev/null",
            "sync; echo 3 > /proc/sys/vm/drop_caches",
            f"(echo 0 > {GROUP}/cgroup.procs; exec {press} --file /tmp/file/data "
            f"--size-mb {FILE_MB} --threads 8 --ops 1000000000 < /dev/null > /tmp/said) & job=$!",
            "sleep 15",
        )
        run = (
            f"for i in $(seq {RECLAIMS}); do echo {RECLAIM_MB}M > {GROUP}/memory.reclaim; "
            "sleep 0.5; done",
        )
    else:
        before = (
            f"echo {SWAP_MB * 2}M > /sys/block/zram0/disksize",
            "mkswap /dev/zram0 > /dev/null && swapon /dev/zram0 || exit 4",
            f"echo {LIMIT_MB}M > {GROUP}/memory.max",
        )
        run = (
            f"(echo 0 > {GROUP}/cgroup.procs; exec {press} --size-mb {SWAP_MB} --threads 8 "
            f"--ops {SWAP_OPS} < /dev/null) | grep ^RESULT",
        )
    after = ("kill $job; wait $job; grep ^RESULT /tmp/said",) if job == "file" else ()
    return "\n".join(
        (
            *common,
            *before,
            *mode.prepare,
            "echo BEFORE; cat /proc/vmstat; echo MIDDLE",
            *run,
            "echo AFTER; cat /proc/vmstat; echo END",
            *after,
        )
    )


def figures(job: str, before: str, after: str, words: Mapping[str, Any]) -> Figures:
    """Flushes per 1,000 of what the job is about, by cause, and per operation of the job."""

    def read(text: str) -> dict[str, int]:
        return {name: int(n) for name, n in (line.rsplit(" ", 1) for line in text.splitlines())}

    old, new = read(before), read(after)
    delta = {name: new[name] - old.get(name, 0) for name in new}
    units = {
        "lookup": delta[flushes.MIGRATED],
        "file": flushes.total(delta, flushes.DEMOTED),
        "swap": delta["pswpout"],
    }[job]
    if not units:
        raise LabError(f"{job}: nothing was moved", "see the log of the guest")
    found: Figures = {
        "units": units,
        "promoted": flushes.total(delta, flushes.PROMOTED),
        "demoted": flushes.total(delta, flushes.DEMOTED),
        "swapped": delta["pswpout"],
        "ops": words["ops"],
        "flushes": delta[flushes.SENT],
        "all": 1000 * delta[flushes.SENT] / units,
        "received": 1000 * delta[flushes.RECEIVED] / units,
        "per_op": 1e6 * delta[flushes.SENT] / words["ops"],
        "received_op": 1e6 * delta[flushes.RECEIVED] / words["ops"],
        "units_op": 1000 * units / words["ops"],
    }
    if "tier_flush_scan" in delta:
        found |= {one: 1000 * delta[f"tier_flush_{one}"] / units for one in CAUSES}
        found["other"] = found["all"] - sum(found[one] for one in CAUSES)
    if "migrc_deferred" in delta:
        found["deferred"] = 100 * delta["migrc_deferred"] / units
    if "pause_most_us" in words:
        found |= {"pause": words["pause_us"], "pause_most": words["pause_most_us"]}
        found |= {name: 1000 * delta.get(name, 0) / units for name in RECLAIM}
    return found


def _measure(job: str, mode: Mode, number: int) -> Figures:
    fast = {"lookup": 128, "file": 256, "swap": 768}[job]
    machine = topologies.load("two-tier", fast_mb=fast, slow_mb=384, fast_cpus=8)
    log, _ = boots.boot(
        NAME,
        f"{job} {mode.label} {number}",
        build.kernel(mode.kernel),
        machine,
        _script(job, mode),
        append="clearcpuid=erms,fsrm",
        expected_s=LOOKUP_S + 40 if job == "lookup" else 60,
    )
    parts = re.search(
        r"^BEFORE\n(.*)^MIDDLE\n(?:.*)^AFTER\n(.*)^END$", log, re.DOTALL | re.MULTILINE
    )
    if not parts:
        raise LabError("the guest has not printed its counters", log[-500:])
    return figures(job, parts[1], parts[2], boots.said(log, "the job"))


def _mean(rounds: list[Figures]) -> Figures:
    """Of all rounds; the longest pause is the longest of all."""
    mean = {name: sum(one[name] for one in rounds) / len(rounds) for name in rounds[0]}
    if "pause_most" in mean:
        mean["pause_most"] = max(one["pause_most"] for one in rounds)
    if len(rounds) > 1:
        mean["all_each"] = max(one["all"] for one in rounds) - min(one["all"] for one in rounds)
    return mean


def _goals(job: str, name: str, row: Figures, base: Figures | None) -> list[ledger.Goal]:
    goals = []
    if (job, name) in GOALS:
        goals.append(
            ledger.at_most("TLB flushes of all kinds per 1,000", row["all"], GOALS[job, name])
        )
    if job == "swap" and name == "batch" and base:
        for key, what in (
            ("units_op", "pages swapped out per operation, as a share of the unmodified kernel's"),
            ("pause_most", "longest pause beside it, as a share of the unmodified kernel's"),
        ):
            goals.append(ledger.at_most(what, row[key] / base[key], MOST_WORSE))
    return goals


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each job and mode."""
    found = []
    for job, rows in facts["jobs"].items():
        for name, rounds in rows.items():
            row = _mean(rounds)
            base = _mean(rows["base"]) if "base" in rows else None
            found.append(
                ledger.Run(
                    cell=f"{job}: {JOBS[job][name].label}",
                    figures=row,
                    kernel=facts["kernels"][JOBS[job][name].kernel],
                    goals=_goals(job, name, row, base),
                )
            )
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    """Jobs and modes by name; all of them if none is named."""
    parser.add_argument("--job", choices=list(JOBS), help="only this one")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")


def measure(args: argparse.Namespace) -> bool:
    """Run everything; True if no check has failed."""
    began = time.time()
    wanted = [args.job] if args.job else list(JOBS)
    jobs = {
        job: {
            name: [_measure(job, mode, number) for number in range(args.rounds)]
            for name, mode in JOBS[job].items()
        }
        for job in wanted
    }
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        jobs=jobs,
        kernels={one: build.kernel(one).describe() for one in ("base", "tiershift", "torture")},
    )
    whole = not args.job and args.rounds >= ROUNDS
    return finish.finish(STUDY, facts, runs(facts), whole=whole)


STUDY = Study(
    name=NAME,
    title="TLB flushes by cause",
    what=f"Tables are looked up on a fast node that is too small (150 s); memory.reclaim demotes "
    f"{RECLAIM_MB} MiB of a mapped file {RECLAIMS} times; a group swaps to zram.  8 threads on 8 "
    f"CPUs each, means of {ROUNDS} runs.",
    columns=(
        Column("units", "pages that count"),
        Column("flushes", "TLB flushes"),
        Column("all", "TLB flushes per 1,000 pages", "{:,.1f}"),
        Column("all_each", "runs differ by", "{:,.1f}"),
        *(Column(one, f"for {one}", "{:,.1f}") for one in CAUSES),
        Column("other", "other", "{:,.1f}"),
        Column("deferred", "deferred, %", "{:.1f}"),
        Column("received", "interrupts of CPUs per 1,000 pages", "{:,.0f}"),
        Column("per_op", "flushes per million operations", "{:,.0f}"),
        Column("received_op", "interrupts per million operations", "{:,.0f}"),
        Column("units_op", "pages per 1,000 operations", "{:,.2f}"),
        Column("ops", "operations"),
        Column("promoted", "promoted"),
        Column("demoted", "demoted"),
        Column("swapped", "swapped out"),
        Column("pause", "pause of a bystander, us"),
        Column("pause_most", "longest of 1,000 windows, us"),
        *(Column(one, f"{one} per 1,000", "{:,.0f}") for one in RECLAIM),
    ),
    minutes=60,
    run=measure,
    groups=study.MIGRATE,
    arguments=arguments,
    parts=(
        ("Lookups; pages that move", "lookup: "),
        ("memory.reclaim of a mapped file; pages demoted", "file: "),
        ("A group at its limit; pages swapped out", "swap: "),
    ),
    notes=(
        "Pages that count are all that move, those demoted, and those swapped out.",
        "Other is everything that tier_flush_* does not count: NUMA balancing's scanner, faults, "
        "deferred pages (drains), exits, mprotect(2).",
        "An operation is a lookup, or an access to a page.  Pauses are real microseconds of the "
        "emulator, in which eight CPUs share two.",
    ),
)
