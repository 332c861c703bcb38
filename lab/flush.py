# SPDX-License-Identifier: GPL-2.0
"""What flushes TLBs, for each page that moves: by promoter, by demotion on request, by swap-out.

``lookup``  the tables of lab/workloads/lookup.c on a fast node that is too small, with promotion
            and demotion; 8 threads, 150 seconds
``seed``    the same with 16 threads, as many as the seed of MIGRC was measured with
``cpu``     the same with 4 threads; instructions are counted by the insn plugin
``file``    a mapped file is read by 4 threads, and memory.reclaim demotes it ten times
``cold``    the same with pages that are read once in ten seconds and less
``swap``    8 threads read and write more memory than the limit of their group; zram

A flush is one that interrupts other CPUs.  All are counted (nr_tlb_remote_flush); the rows
tier_flush_* of /proc/vmstat tell for what, on our kernels.  What they leave over is NUMA
balancing's scanner and everything else.
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

from lab import (
    boots,
    build,
    cache,
    flushes,
    instruments,
    manifest,
    metrics,
    programs,
    scenario,
    tier,
)
from lab import topology as topologies
from lab.errors import LabError
from lab.migrate import LOOKUP, LOOKUP_S
from lab.results import finish, ledger, study
from lab.results.study import Column, Study

NAME = "flush"
ROUNDS = 2
CAUSES = ("scan", "promotion", "demotion", "swapout", "free", "deferral")
LOOKUPS = ("lookup", "seed", "cpu")
CPUS = {"lookup": 8, "seed": 16, "cpu": 4, "file": 4, "cold": 4, "swap": 8}  # as many threads
FAST_MB = {"file": 256, "cold": 256, "swap": 768}  # others: 128
GROUP = "/sys/fs/cgroup/job"
FILE_MB, RECLAIM_MB, RECLAIMS = 192, 16, 10
# Of a thread, in microseconds, after 64 accesses
PAUSE_US = {"file": 0, "cold": 100_000}
SWAP_MB, LIMIT_MB, SWAP_OPS = 96, 48, 40_000
# What seed series 000 was posted with: time limits that fit a machine on which a sweep is slow
NUMAB = (
    "echo 20000 > /sys/kernel/debug/sched/numa_balancing/hot_threshold_ms",
    "echo 1000 > /sys/kernel/debug/sched/numa_balancing/scan_period_min_ms",
    "echo 1000 > /sys/kernel/debug/sched/numa_balancing/scan_period_max_ms",
    "echo 2 > /proc/sys/kernel/numa_balancing",
)
BATCH = f"echo 1 > {tier.enabled('batch')}"
LATER = f"echo 1 > {tier.enabled('postpone')}"
MIGRC = f"echo 1 > {flushes.SWITCH}"
APPEND = "clearcpuid=erms,fsrm"
# 16 vCPUs do not all get a turn in time while the guest boots.
CROWDED = f"{APPEND} rcupdate.rcu_cpu_stall_timeout=120"
# Reclaim has to do the same work for the same pages.
RECLAIM = ("pgscan_direct", "pgsteal_direct", "workingset_refault_anon", "workingset_refault_file")
# Per 1,000: flushes of the causes that the row is about
GOALS = {("file", "batch"): 4.0, ("cold", "batch"): 4.0, ("swap", "batch"): 40.0}
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


BALANCED = {
    "base": Mode("base", "NUMA balancing, unmodified", NUMAB),
    "numab-batch": Mode("tiershift", "NUMA balancing, batched migration", (*NUMAB, BATCH)),
    "numab-both": Mode(
        "tiershift", "NUMA balancing, batched migration and MIGRC", (*NUMAB, BATCH, MIGRC)
    ),
}
RECLAIMED = {
    "base": Mode("base", "unmodified"),
    "off": Mode("tiershift", "ours, off"),
    "batch": Mode("tiershift", "batched migration", (BATCH,)),
}
JOBS: dict[str, dict[str, Mode]] = {
    "lookup": {
        **BALANCED,
        "numab-later": Mode(
            "tiershift",
            "NUMA balancing, batched migration, flushing promotions postponed",
            (*NUMAB, BATCH, LATER),
        ),
        "promoter": Mode("tiershift", "our promoter, batched migration", (*_promoter(), BATCH)),
        "promoter-both": Mode(
            "tiershift",
            "our promoter, batched migration and MIGRC",
            (*_promoter(), BATCH, MIGRC),
        ),
    },
    "seed": BALANCED,
    "cpu": BALANCED,
    "file": RECLAIMED,
    "cold": RECLAIMED,
    "swap": RECLAIMED,
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
    if job in LOOKUPS:
        before: tuple[str, ...] = (
            "echo 200 > /proc/sys/vm/watermark_scale_factor",
            "echo 1 > /sys/kernel/mm/numa/demotion_enabled",
        )
        run: tuple[str, ...] = (
            f"timeout {LOOKUP_S} {built['lookup']} {LOOKUP} --threads {CPUS[job]} < /dev/null "
            "| grep ^RESULT",
        )
    elif job in PAUSE_US:
        before = (
            "echo 1 > /sys/kernel/mm/numa/demotion_enabled",
            f"echo {FILE_MB + 32}M > /sys/block/zram0/disksize",
            "mkfs.ext2 -q /dev/zram0 && mkdir -p /tmp/file && mount /dev/zram0 /tmp/file || exit 4",
            f"dd if=/dev/zero of=/tmp/file/data bs=1M count={FILE_MB} 2> /dev/null",
            "sync; echo 3 > /proc/sys/vm/drop_caches",
            # The shell that reclaims shares two CPUs of the host with the readers.
            f"(echo 0 > {GROUP}/cgroup.procs; exec nice -n 19 {press} --file /tmp/file/data "
            f"--size-mb {FILE_MB} --threads {CPUS[job]} --pause-us {PAUSE_US[job]} "
            "--ops 1000000000 < /dev/null > /tmp/said) "
            "& job=$!",
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
            f"(echo 0 > {GROUP}/cgroup.procs; exec {press} --size-mb {SWAP_MB} "
            f"--threads {CPUS[job]} --ops {SWAP_OPS} < /dev/null) | grep ^RESULT",
        )
    after = ("kill $job; wait $job; grep ^RESULT /tmp/said",) if job in PAUSE_US else ()
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
    demoted = flushes.total(delta, flushes.DEMOTED)
    moved = {"file": demoted, "cold": demoted, "swap": delta["pswpout"]}
    units = moved.get(job, delta[flushes.MIGRATED])
    if not units:
        raise LabError(f"{job}: nothing was moved", "see the log of the guest")
    found: Figures = {
        "units": units,
        "promoted": flushes.total(delta, flushes.PROMOTED),
        "demoted": demoted,
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
        found |= {one: 1000 * delta.get(f"tier_flush_{one}", 0) / units for one in CAUSES}
        found["other"] = found["all"] - sum(found[one] for one in CAUSES)
    if flushes.DEFERRED in delta:
        found["deferred"] = 100 * delta[flushes.DEFERRED] / max(1, demoted)
    if "pause_most_us" in words:
        found |= {"pause": words["pause_us"], "pause_most": words["pause_most_us"]}
        found |= {name: 1000 * delta.get(name, 0) / units for name in RECLAIM}
    return found


def instructions(table: instruments.InsnTable, ops: int) -> Figures:
    """For each operation, of all CPUs: user code, and what the kernel did.

    How long a CPU idles, spins on a lock, or waits for others to answer an interrupt depends on
    when the host runs its vCPUs.
    """
    waiting = {*metrics.SPIN_SYMBOLS, metrics.IPI_SYMBOL}
    kernel = sum(vcpu.kernel_busy for vcpu in table.vcpus)
    kernel -= sum(sum(one.insn) for one in table.symbols.values() if one.name in waiting)
    return {"user_op": sum(vcpu.user for vcpu in table.vcpus) / ops, "kernel_op": kernel / ops}


def _measure(job: str, mode: Mode, number: int) -> Figures:
    machine = topologies.load(
        "two-tier", fast_mb=FAST_MB.get(job, 128), slow_mb=384, fast_cpus=CPUS[job]
    )
    log, out = boots.boot(
        NAME,
        f"{job} {mode.label} {number}",
        build.kernel(mode.kernel),
        machine,
        _script(job, mode),
        plugins=boots.insn if job == "cpu" else None,
        append=CROWDED if job == "seed" else APPEND,
        expected_s=LOOKUP_S + 40 if job in LOOKUPS else 60,
    )
    parts = re.search(
        r"^BEFORE\n(.*)^MIDDLE\n(?:.*)^AFTER\n(.*)^END$", log, re.DOTALL | re.MULTILINE
    )
    if not parts:
        raise LabError("the guest has not printed its counters", log[-500:])
    words = boots.said(log, "the job")
    found = figures(job, parts[1], parts[2], words)
    if job == "cpu":
        table = instruments.read_insn(out / "insn.json", kinds=False).total
        found |= instructions(table, words["ops"])
    return found


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
        kernels={one: build.kernel(one).describe() for one in ("base", "tiershift")},
    )
    whole = not args.job and args.rounds >= ROUNDS
    return finish.finish(STUDY, facts, runs(facts), whole=whole)


STUDY = Study(
    name=NAME,
    title="TLB flushes by cause",
    what=f"Tables are looked up on a fast node that is too small ({LOOKUP_S} s); memory.reclaim "
    f"demotes {RECLAIM_MB} MiB of a mapped file {RECLAIMS} times; a group swaps to zram.  Each CPU "
    f"has one thread.  Figures are means of {ROUNDS} runs.",
    columns=(
        Column("units", "pages that count"),
        Column("flushes", "TLB flushes"),
        Column("all", "TLB flushes per 1,000 pages", "{:,.1f}"),
        Column("all_each", "runs differ by", "{:,.1f}"),
        *(Column(one, f"for {one}", "{:,.1f}") for one in CAUSES),
        Column("other", "other", "{:,.1f}"),
        Column("deferred", "deferred, % of demoted", "{:.1f}"),
        Column("received", "interrupts of CPUs per 1,000 pages", "{:,.0f}"),
        Column("per_op", "flushes per million operations", "{:,.0f}"),
        Column("received_op", "interrupts per million operations", "{:,.0f}"),
        Column("units_op", "pages per 1,000 operations", "{:,.2f}"),
        Column("user_op", "instructions of user code per operation", "{:,.1f}"),
        Column("kernel_op", "kernel instructions per operation", "{:,.1f}"),
        Column("ops", "operations"),
        Column("promoted", "promoted"),
        Column("demoted", "demoted"),
        Column("swapped", "swapped out"),
        Column("pause", "pause of a bystander, us"),
        Column("pause_most", "longest of 1,000 windows, us"),
        *(Column(one, f"{one} per 1,000", "{:,.0f}") for one in RECLAIM),
    ),
    minutes=85,
    run=measure,
    groups=tuple(dict.fromkeys(study.MIGRATE + study.MIGRC)),
    arguments=arguments,
    parts=(
        ("Lookups, 8 threads; pages that move", "lookup: "),
        ("Lookups, 16 threads; pages that move", "seed: "),
        ("Lookups, 4 threads, instructions counted; pages that move", "cpu: "),
        ("memory.reclaim of a mapped file; pages demoted", "file: "),
        ("memory.reclaim of a mapped file whose pages are cold; pages demoted", "cold: "),
        ("A group at its limit; pages swapped out", "swap: "),
    ),
    notes=(
        "Pages that count are all that move, those demoted, and those swapped out.",
        "Other is everything that tier_flush_* does not count: NUMA balancing's scanner, faults, "
        "exits, mprotect(2).",
        "For deferral are the flushes of what MIGRC kept, and those before a write.",
        "Instructions are those of all CPUs.  They leave out idling, spinning on locks, and "
        "waiting for other CPUs to answer an interrupt.",
        "An operation is a lookup, or an access to a page.  Pauses are real microseconds of the "
        "emulator, in which eight CPUs share two.",
    ),
)
