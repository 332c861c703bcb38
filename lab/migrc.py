# SPDX-License-Identifier: GPL-2.0
"""What MIGRC saves, how that grows, and what it costs where it cannot help.

Four measurements, each a page of its own in docs/results:

``migrc``         the scenario lookup: the same lookups on the unmodified kernel with each
                  promoter, and on ours with MIGRC off and on
``migrc-cpu``     the same on four CPUs, with the instruments that make a guest slow:
                  instructions, and a model of the TLB
``migrc-growth``  the same, smaller, with 2, 4, 8 and 16 CPUs, and with limits to the rate
                  of promotion
``migrc-cost``    jobs of which nothing can be deferred, moved to and fro: all pages writable,
                  one thread, huge pages, a migration that may not defer; what
                  restore_readonly costs or saves a job whose pages come and go; Redis that
                  saves its data by fork() while reclaim swaps and nothing is migrated; a
                  job that is swapped while its pages are promoted and demoted; and one that
                  writes pages that hint faults have left read-only

Every run is a boot of its own.  Flushes are all that were sent, those of MIGRC included
(lab/flushes.py).  Instructions leave out what an idle CPU executes, spinning on locks, and
smp_call_function_many_cond(), where a sender of interrupts waits for the others: how long
depends on when the host runs their vCPUs.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from lab import build, cache, flushes, kept, report, scenario
from lab.errors import LabError
from lab.refault import Difference, difference
from lab.scenario import Contender, Machine, Measure, Process, Scenario

SCHEMA = 1
PARTS = ("migrc", "migrc-cpu", "migrc-growth", "migrc-cost")
GOAL = 0.97  # of flushes and received interrupts saved under NUMA balancing
COMPARISONS = PARTS[:2]  # of contenders
LIMIT = 0.01  # of instructions more where MIGRC cannot help, and of flushes where it does nothing
RECLAIM_LIMIT = 0.05  # of reclaim more for each page demoted
SAME_WORK = 0.001  # operations: what moves a process has its stack and libraries move, too
STOLEN = ("pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged")
ON, OFF = {flushes.SWITCH: "1"}, {flushes.SWITCH: "0"}
SMALL = {"/sys/kernel/mm/transparent_hugepage/enabled": "never"}
# With NUMA balancing's default times hardly a page counts as hot where a sweep takes many
# seconds.
QUICK = {
    "/sys/kernel/debug/sched/numa_balancing/hot_threshold_ms": "20000",
    "/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms": "1000",
    "/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms": "1000",
}
# And kswapd frees a few thousand pages at a time, not some fifty.
EARLY = {"/proc/sys/vm/watermark_scale_factor": "200"}
BUSY = {**EARLY, **QUICK}
HUGE = {key: "always" for key in SMALL}
SYSCALLS = {"/sys/kernel/debug/migrc/defer_syscalls": "1", "/sys/kernel/debug/migrc/check": "0"}
RESTORE = flushes.MIGRC + "restore_readonly"
# Lookups that write, in percent
RESTORE_WRITES = {"restore_readonly without writes": 0, "restore_readonly with writes": 20}
RESTORE_GROUPS = tuple(RESTORE_WRITES)
RESTORED = 1000  # PTEs at least that were mapped read-only again, where nobody writes
RATE = "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"

VCPUS = (2, 4, 8, 16)
FEW_VCPUS = 4
RATES = (1, 2, 4)  # MiB per second; without a limit is among VCPUS
# Does the age count where few pages are migrated?  The default is 1000.
AGE_MS = 100
AGE = flushes.MIGRC + "max_age_ms"
AGED, AGED_NAME = {AGE: str(AGE_MS)}, "on-aged"
GROWTH_OPS = 2_000_000
CPU_OPS = 1_200_000
TURNOVER_OPS = 20_000_000  # kmmscand needs seconds for what the window has come to
TURNOVER_SWEEPS = 3
PLUGINS = ("insn", "tlb")

ROUNDS = 3
AB_ROUNDS = 2  # of the A/B, each of which takes a quarter of an hour
PRESSURE_TIMES = 2  # as many rounds of the job that is swapped, which differ by some 10 %
BASE = "numab2"  # what savings refer to

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One boot: what it is compared with, and what it is."""

    group: str
    spec: Scenario
    contender: Contender
    round: int = 1
    prepare: str = ""  # for a shell in the guest, before the agent

    @property
    def title(self) -> str:
        return f"{self.group}, {self.contender.name}"


# --- what is run ---------------------------------------------------------------


def _contender(
    name: str, mode: str, kernel: str, *settings: dict[str, str], args: Sequence[str] = ()
) -> Contender:
    merged = {key: value for some in settings for key, value in some.items()}
    return Contender(name, mode, kernel, settings=merged, args=[*args], rival=False)


def on_cpus(spec: Scenario, vcpus: int, *args: str, threads: int = 0) -> Scenario:
    """The scenario on a machine with so many CPUs, with other arguments for the workload.

    There is a thread on each CPU, if no number of ``threads`` is given.
    """
    cpus = list(range(vcpus))
    threads = threads or vcpus
    return replace(
        spec,
        topology=replace(spec.topology, sizes={**spec.topology.sizes, "fast_cpus": vcpus}),
        workload=replace(
            spec.workload,
            args=[*spec.workload.args, "--threads", str(threads), *args],
            cpus=cpus[:threads],
        ),
        measure=replace(spec.measure, app_cpus=cpus),
    )


def counting(spec: Scenario, *instruments: str) -> Scenario:
    """The scenario with other instruments; each of them makes the guest slower."""
    return replace(spec, measure=replace(spec.measure, instruments=[*instruments]))


def ab_runs(rounds: int = AB_ROUNDS) -> list[Run]:
    """The scenario lookup, as it is, in rounds.

    How many pages move for the same lookups differs by a factor of ten between equal runs.
    """
    spec = scenario.load("lookup")
    runs = [Run("lookup", spec, contender) for contender in spec.contender]
    again = [one for one in spec.contender if one.mode != "none"]
    return runs + [
        replace(run, round=run.round + 1) for run in _in_turn("lookup", spec, again, rounds - 1)
    ]


def cpu_runs() -> list[Run]:
    """The contenders of lookup on fewer CPUs, with instruments."""
    spec = counting(on_cpus(scenario.load("lookup"), FEW_VCPUS, "--ops", str(CPU_OPS)), *PLUGINS)
    return [Run("lookup", spec, contender) for contender in spec.contender]


def growth_runs() -> list[Run]:
    """NUMA balancing with and without MIGRC, by CPUs, by rate of promotion, and unplaced."""
    spec = counting(scenario.load("lookup"))
    ops = ("--ops", str(GROWTH_OPS))
    runs = []
    groups: list[tuple[str, Scenario, dict[str, str]]] = [
        (f"{n} CPUs", on_cpus(spec, n, *ops), {}) for n in VCPUS
    ]
    few = on_cpus(spec, FEW_VCPUS, *ops)
    groups += [(f"{mbps} MB/s", few, {RATE: str(mbps)}) for mbps in RATES]
    # Where the first stores have put them: the fast node is full of writable pages.
    groups.append((f"{FEW_VCPUS} CPUs not placed", replace(few, placement=None), {}))
    for group, small, limit in groups:
        for contender in (
            _contender("base", "numab2", "base", SMALL, BUSY, limit),
            _contender("on", "numab2", "tiershift", SMALL, BUSY, limit, ON),
        ):
            runs.append(Run(group, small, contender))
            if contender.name == "on" and limit == {RATE: str(RATES[0])}:
                aged = replace(contender, name=AGED_NAME, settings={**contender.settings, **AGED})
                runs.append(Run(group, small, aged))
    return runs


def _four() -> tuple[Contender, ...]:
    """The unmodified kernel twice, whose difference is the noise, and ours off and on."""
    return (
        _contender("base", "none", "base"),
        _contender("base-again", "none", "base"),
        _contender("off", "none", "tiershift", OFF),
        _contender("on", "none", "tiershift", ON),
    )


def _deferring(*settings: dict[str, str]) -> tuple[Contender, ...]:
    """A kernel on which migrate_pages(2) may defer, off twice and on."""
    return tuple(
        _contender(name, "none", "torture", *settings, SYSCALLS, switch)
        for name, switch in (("off", OFF), ("on", ON), ("off-again", OFF))
    )


def _restoring() -> tuple[Contender, ...]:
    """kmmscand with MIGRC, whose pages come back writable, read-only, and writable again."""
    return tuple(
        _contender(name, "tiershift", "tiershift", SMALL, EARLY, ON, {RESTORE: value})
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
    return on_cpus(spec, FEW_VCPUS, "--ops", str(TURNOVER_OPS), *sweeps)


def cost_groups() -> dict[str, tuple[Scenario, tuple[Contender, ...]]]:
    """Jobs for which MIGRC can do nothing, or next to nothing; and those of restore_readonly."""
    spec = counting(scenario.load("lookup"), "insn")
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
PRESSURE, HINTED = "pressure", "hint faults"
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
            _contender("base", "none", "base"),
            _contender("off", "none", "tiershift", OFF),
            _contender("on", "none", "tiershift", ON),
            _contender("base-again", "none", "base"),
        ],
    )


def cost_runs(rounds: int = ROUNDS) -> list[Run]:
    runs = []
    for group, (spec, contenders) in cost_groups().items():
        runs += _in_turn(group, spec, contenders, rounds)
    save, swap = bgsave_spec(), SWAP.format(limit_mb=SAVE_LIMIT_MB)
    runs += _in_turn("bgsave", save, save.contender, rounds, prepare=swap)
    return runs + pressure_runs(rounds * PRESSURE_TIMES) + balanced_runs(rounds)


def _in_turn(
    group: str, spec: Scenario, contenders: Sequence[Contender], rounds: int, prepare: str = ""
) -> list[Run]:
    """Each round begins with another contender."""
    return [
        Run(group, spec, contenders[(first + turn) % len(contenders)], first + 1, prepare=prepare)
        for first in range(rounds)
        for turn in range(len(contenders))
    ]


def balanced_runs(rounds: int) -> list[Run]:
    """NUMA balancing moves a job's pages to and fro, and the job writes."""
    few = on_cpus(counting(scenario.load("lookup")), FEW_VCPUS, "--ops", str(GROWTH_OPS))
    writes = ["--write-pct", str(HINTED_WRITES)]
    writing = replace(
        counting(few, "insn"),
        workload=replace(few.workload, args=[*few.workload.args, *writes]),
    )
    three = [
        _contender(name, "numab2", "tiershift", SMALL, BUSY, switch)
        for name, switch in (("off", OFF), ("on", ON), ("off-again", OFF))
    ]
    return _in_turn(HINTED, writing, three, rounds)


def pressure_runs(rounds: int) -> list[Run]:
    """A job for which both nodes together are too small; nothing is promoted.

    What is read from swap goes to the fast node, mapped read-only, is demoted from there,
    deferred, and swapped out from the slow node.
    """
    few = on_cpus(counting(scenario.load("lookup")), FEW_VCPUS, *SHORT_KEYS)
    short = replace(
        few,
        topology=replace(few.topology, sizes={**few.topology.sizes, **SHORT_MB}, disk_mb=DISK_MB),
        placement=None,
    )
    three = [
        replace(_contender(name, "none", "tiershift", SMALL, EARLY, switch), demotion=True)
        for name, switch in (("off", OFF), ("on", ON), ("off-again", OFF))
    ]
    return _in_turn(PRESSURE, short, three, rounds, prepare=DISK)


# --- one run -------------------------------------------------------------------


def instructions(run: dict[str, Any], app_cpus: Sequence[int]) -> dict[str, int]:
    """Of the application's CPUs, user code and kernel; and of the kernel everywhere."""
    vcpus = run["insn"]["vcpus"]
    kernel = [vcpu["kernel_work"] - vcpu["kernel_ipi_wait"] for vcpu in vcpus]
    return {
        "user": sum(vcpus[cpu]["user"] for cpu in app_cpus),
        "app_kernel": sum(kernel[cpu] for cpu in app_cpus),
        "all_kernel": sum(kernel),
        "ipi_wait": sum(vcpu["kernel_ipi_wait"] for vcpu in vcpus),
    }


def reduce(found: dict[str, Any], spec: Scenario) -> Row:
    """What a page and its JSON need of a run (scenario.run_contender())."""
    agent = found["agent"]
    measured, work = agent["measured"], agent["workload"]
    half = flushes.second_half(measured)
    return {
        "contender": found["name"],
        "mode": found["mode"],
        "kernel": found["kernel"],
        "settings": found["settings"],
        "date": found["date"],
        "seconds": round(measured["seconds"], 1),
        "ops": work.get("ops"),
        "hash": work.get("hash"),
        "verified": work.get("verified", True),
        "whole": flushes.of(measured["delta"]),
        "half": flushes.of(half) if half else None,
        "insn": instructions(found, spec.measure.app_cpus) if "insn" in found else None,
        "tlb": found.get("tlb"),
        "gave_up": agent.get("gave_up"),
        "app_interrupts": sum(measured["tlb_interrupts"][cpu] for cpu in spec.measure.app_cpus),
        "counters": {name: n for name, n in measured["delta"].items() if n},
    }


def _measure(run: Run, number: str, progress: TextIO) -> Row:
    out = cache.sub("runs") / "migrc" / f"{run.group}-{run.contender.name}".replace(" ", "-")
    kernel = build.kernel(run.contender.kernel)
    with scenario.Live(
        progress,
        f"[{number}] {run.title}",
        run.spec.measure.expected_s,
        run.spec.measure.app_cpus,
    ) as live:
        found = scenario.run_contender(
            run.spec,
            run.contender,
            kernel,
            out=out,
            cache=cache.root(),
            external={},
            live=live,
            prepare=run.prepare,
        )
    row = {"group": run.group, "round": run.round, **reduce(found, run.spec)}
    if run.spec.service:
        log = (out / "service.log").read_text(encoding="utf-8", errors="replace")
        row["saves"] = log.count("Background saving terminated with success")
    return row


# --- arithmetic ----------------------------------------------------------------


def per_op(row: Row, *keys: str) -> float:
    """Instructions of some sorts for each operation."""
    return float(sum(row["insn"][key] for key in keys)) / float(row["ops"])


def per_page(row: Row) -> float | None:
    """Kernel instructions of all CPUs for each page migrated."""
    pages = row["whole"]["migrated"]
    return row["insn"]["all_kernel"] / pages if pages and row["insn"] else None


HALVES = ("whole", "half")  # of a run, by time: all of it, and the second half


def savings(row: Row, base: Row) -> dict[str, float | None]:
    """How much less than the base: for each page, and in all, which is of the same work."""
    found = {}
    for part in HALVES:
        for key in ("flushes_per_1000", "received_per_1000", "flushes", "received"):
            values = [(one[part] or {}).get(key) for one in (row, base)]
            found[f"{part} {key}"] = flushes.less(*values)
    return found


def _first(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["round"] == 1]


def pooled(rows: Sequence[Row], contender: str) -> Row | None:
    """All rounds of a contender as one run; of the second halves only what is told of them."""
    own = [row for row in rows if row["contender"] == contender]
    if len(own) < 2:
        return own[0] if own else None
    counters = _sum(own, contender)
    half = None
    if all(row["half"] for row in own):
        half = {
            key: sum(row["half"][key] for row in own) for key in ("migrated", "flushes", "received")
        }
        for key in ("flushes", "received"):
            pages = half["migrated"]
            half[f"{key}_per_1000"] = 1000 * half[key] / pages if pages else None
    return {**own[0], "counters": counters, "whole": flushes.of(counters), "half": half}


def check_same_work(rows: Sequence[Row]) -> list[str]:
    """Equal lookups must find equal values, whatever moved meanwhile."""
    failures = []
    for group in dict.fromkeys(row["group"] for row in rows):
        own = [row for row in rows if row["group"] == group]
        most, least = (pick(row["ops"] for row in own) for pick in (max, min))
        if most > least * (1 + SAME_WORK) or len({row["hash"] for row in own}) > 1:
            failures.append(f"{group}: the runs did not do the same work, or found other values")
        failures += [
            f"{group}, {row['contender']}: the job did not verify its data"
            for row in own
            if not row["verified"]
        ]
    return failures


def check_switch(rows: Sequence[Row]) -> list[str]:
    """Where MIGRC is off nothing may be deferred; on, a kernel without it says nothing."""
    failures = []
    for row in rows:
        where = f"{row['group']}, {row['contender']}"
        deferred = row["whole"]["deferred"]
        if row["settings"].get(flushes.SWITCH) != "1" and deferred:
            failures.append(f"{where}: {deferred} pages were deferred")
        if row["settings"].get(flushes.SWITCH) == "1" and deferred is None:
            failures.append(f"{where}: this kernel does not count deferrals")
    return failures


def _find(rows: Sequence[Row], name: str, group: str | None = None) -> Row | None:
    found = (row for row in rows if row["contender"] == name)
    return next((row for row in found if group in (None, row["group"])), None)


# What of savings() has the goal: for each page that moves, and in all, which is the same work
SAVED = {
    "whole flushes_per_1000": "whole run: flushes sent for each page",
    "whole received_per_1000": "whole run: interrupts received for each page",
    "half flushes_per_1000": "second half of the run: flushes sent for each page",
    "half received_per_1000": "second half of the run: interrupts received for each page",
    "whole flushes": "flushes sent for the same lookups, whatever has moved:",
    "whole received": "interrupts received for the same lookups, whatever has moved:",
}


def _each(rows: Sequence[Row], key: str) -> str:
    """The same saving by round, if there are several."""
    shares = []
    for number in sorted({row["round"] for row in rows}):
        own = [row for row in rows if row["round"] == number]
        base, on = _find(own, BASE), _find(own, "numab2-migrc")
        if base and on:
            shares.append(_share(savings(on, base)[key]))
    return f" (by round {', '.join(shares)})" if len(shares) > 1 else ""


def judge_ab(rows: Sequence[Row], *, beyond: bool = True) -> list[dict[str, Any]]:
    """The goals of the A/B, with what was reached; those whose runs are missing are left out.

    All rounds count as one.  ``beyond``: with as many CPUs as GOAL is for.
    """
    goals = []
    base, on = pooled(rows, BASE), pooled(rows, "numab2-migrc")
    if base and on and beyond:
        for key, what in SAVED.items():
            share = savings(on, base)[key]
            goals.append(
                {
                    "text": f"NUMA balancing, {what} less than on the unmodified kernel by "
                    f"{_share(share)}{_each(rows, key)}, the goal is more than {GOAL:.0%}",
                    "met": share is not None and share > GOAL,
                }
            )
    rivals = [
        one
        for row in _first(rows)
        if row["kernel"]["flavour"] == "base" and row["mode"] != "none"
        if (one := pooled(rows, row["contender"]))
    ]
    without = pooled(rows, "kmmscand-off")
    rounds = len({row["round"] for row in rows})
    for name in ("kmmscand-migrc", "kmmscand-readonly"):
        ours = pooled(rows, name)
        for key, what in (("flushes", "flushes sent"), ("received", "interrupts received")):
            if not ours or not rivals:
                continue
            least = min(rivals, key=lambda row: float(row["whole"][key]))
            also = f"; with MIGRC off {without['whole'][key]:,}" if without else ""
            many = f" in {rounds} rounds" if rounds > 1 else ""
            goals.append(
                {
                    "text": f"{name}: {ours['whole'][key]:,} {what} for the same "
                    f"lookups{many}, {_share(ours['whole']['deferred_share'])} of the pages "
                    f"deferred, {_share(ours['whole']['eligible_share'])} of those for which a "
                    f"flush was due{also}; the unmodified kernel at least "
                    f"{least['whole'][key]:,} ({least['contender']}), the goal is fewer",
                    "met": ours["whole"][key] < least["whole"][key],
                }
            )
    off = pooled(rows, "numab2-off") or base
    return goals + (judge_reclaim(on, off) if on and off else [])


RECLAIM: tuple[tuple[str, Callable[[Row], int]], ...] = (
    ("pages looked at by reclaim", lambda row: row["whole"]["scanned"]),
    ("pages swapped out", lambda row: row["whole"]["swapped"]),
)


def taken(row: Row) -> int:
    """Pages that reclaim has taken, demoted ones and others."""
    return flushes.total(row["counters"], STOLEN)


def judge_reclaim(on: Row, off: Row) -> list[dict[str, Any]]:
    """Under sustained pressure what is kept must not make reclaim do more.

    How many pages are promoted differs between runs, and reclaim makes room for each of them,
    but for what was free at first.  So what it has taken beyond that is compared.
    """
    without = f"without MIGRC ({off['contender']}@{off['kernel']['flavour']})"
    beyond, base = (taken(row) - row["whole"]["promoted"] for row in (on, off))
    limit = base + RECLAIM_LIMIT * taken(on)
    goals = [
        {
            "text": f"NUMA balancing under pressure: pages taken by reclaim, less those promoted, "
            f"{beyond:,}, {without} {base:,}; the goal is no more but for {RECLAIM_LIMIT:.0%} of "
            f"what was taken: at most {limit:,.0f}",
            "met": bool(taken(on)) and beyond <= limit,
        }
    ]
    for what, count in RECLAIM:
        here, there = (
            count(row) / row["whole"]["demoted"] if row["whole"]["demoted"] else None
            for row in (on, off)
        )
        more = None if here is None or not there else here / there - 1
        goals.append(
            {
                "text": f"NUMA balancing under pressure: {what} for each page demoted "
                f"{_few(here)}, {without} "
                f"{_few(there)}{'' if more is None else f' ({more:+.1%})'}, the goal is at "
                f"most {RECLAIM_LIMIT:.0%} more",
                "met": here is not None
                and there is not None
                and here <= there * (1 + RECLAIM_LIMIT),
            }
        )
    return goals


HINT_FAULTS = "numa_hint_faults"

# What a job that lacks memory costs, for the same lookups
PRESSED: dict[str, tuple[str, ...]] = {
    "pages looked at by reclaim": ("pgscan_kswapd", "pgscan_direct"),
    "pages taken by reclaim": ("pgsteal_kswapd", "pgsteal_direct"),
    "pages demoted": ("pgdemote_kswapd", "pgdemote_direct"),
    "pages swapped out": ("pswpout",),
    "pages swapped in": ("pswpin",),
}


def judge_pressure(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The same for a job that has less memory than it needs: for the same lookups, in all."""
    own = [row for row in rows if row["group"] == PRESSURE]
    goals = []
    for what, names in PRESSED.items():
        rounds = _rounds(own, what, partial(_total, names=names))
        rounds = [one for one in rounds if {"off", "on", "off-again"} <= one.keys()]
        if not rounds:
            continue
        noise = difference(rounds, what, "off-again", ("off",)).rms
        more = difference(rounds, what, "on", ("off", "off-again"))
        each = ", ".join(f"{one:+.1%}" for one in more.each)
        goals.append(
            {
                "text": f"swapped job: {what} {more.total:+.1%} with MIGRC, for the same lookups, "
                f"by round {each}; equal runs differ by {noise:.1%}; the goal is at most "
                f"{RECLAIM_LIMIT:.0%} more",
                "met": within(more, noise, RECLAIM_LIMIT),
            }
        )
    return goals


def _total(row: Row, names: Sequence[str]) -> float:
    return float(flushes.total(row["counters"], names))


def check_pressure(rows: Sequence[Row]) -> list[str]:
    """Was there pressure, and was something deferred meanwhile?"""
    failures = []
    for row in rows:
        if row["group"] != PRESSURE:
            continue
        where, whole = f"{PRESSURE}, {row['contender']}", row["whole"]
        if not whole["swapped"] or not whole["demoted"]:
            failures.append(f"{where}: nothing was swapped, or nothing demoted")
        if row["contender"] == "on" and not whole["deferred"]:
            failures.append(f"{where}: nothing was deferred")
    return failures


def check_hinted(rows: Sequence[Row]) -> list[str]:
    """Were there hint faults, and was something deferred meanwhile?"""
    failures = []
    for row in rows:
        if row["group"] != HINTED:
            continue
        where = f"{HINTED}, {row['contender']}"
        if not row["counters"].get(HINT_FAULTS):
            failures.append(f"{where}: there were none")
        if row["contender"] == "on" and not row["whole"]["deferred"]:
            failures.append(f"{where}: nothing was deferred")
    return failures


def within(more: Difference, noise: float, limit: float = LIMIT) -> bool:
    """At most so much more; where equal runs differ by more than that, with the error added."""
    if noise <= limit:
        return more.total <= limit
    return more.error is not None and more.mean + more.error <= limit


COSTS: dict[str, tuple[str, Callable[[Row], float | None]]] = {
    "app": (
        "instructions on app CPUs, user code and kernel, per operation",
        lambda row: per_op(row, "user", "app_kernel") if row["insn"] else None,
    ),
    "page": ("kernel instructions of all CPUs, per page migrated", per_page),
}
# Those that are moved, and what is to be refused of them
REFUSED = {"system call": None, "all writable": "write", "one thread": None, "huge pages": "large"}


def _sent(row: Row) -> float:
    return float(row["whole"]["flushes"])


def _rounds(
    own: Sequence[Row], key: str, value: Callable[[Row], float | None] | None = None
) -> list[dict[str, dict[str, float]]]:
    """A figure of each contender of a group, by round; without rounds in which one has none."""
    rounds, value = [], value or COSTS[key][1]
    for number in sorted({row["round"] for row in own}):
        values = {row["contender"]: value(row) for row in own if row["round"] == number}
        known = {name: n for name, n in values.items() if n is not None}
        if len(known) == len(values):
            rounds.append({name: {key: n} for name, n in known.items()})
    return rounds


def judge_cost(rows: Sequence[Row]) -> dict[str, Any]:
    """For each job that is moved: what MIGRC adds when it is on, and what when it is off.

    Noise is what two equal runs differ by.  Where a kernel is needed on which system calls may
    defer there is no unmodified one to compare with.
    """
    found: dict[str, Any] = {}
    for group in REFUSED:
        own = [row for row in rows if row["group"] == group]
        rounds = _rounds(own, "page")
        if not rounds:
            continue  # nothing was migrated, or it was not run
        twice = ("base", "base-again") if "base" in rounds[0] else ("off", "off-again")
        noise = difference(rounds, "page", twice[1], twice[:1]).rms
        offs = tuple(name for name in ("off", "off-again") if name in rounds[0])
        on = difference(rounds, "page", "on", offs)
        found[group] = {
            "noise": noise,
            "on": dataclasses.asdict(on),
            "on_passed": within(on, noise),
        }
        if twice[0] == "base":
            off = difference(rounds, "page", "off", twice)
            found[group] |= {
                "off": dataclasses.asdict(off),
                # No instruction more: what equal runs differ by is all there may be.
                "off_passed": off.total <= max(noise, LIMIT / 10),
            }
    return found


def check_refused(rows: Sequence[Row]) -> list[str]:
    """Has MIGRC looked at what was moved, and deferred nothing?

    Libraries have some pages of their own that are mapped read-only.
    """
    failures = []
    for row in rows:
        if row["group"] not in REFUSED or row["contender"] != "on":
            continue
        where = f"{row['group']}, {row['contender']}"
        whole, reason = row["whole"], REFUSED[row["group"]]
        if whole["deferred"] > SAME_WORK * whole["migrated"]:
            failures.append(f"{where}: {whole['deferred']} pages were deferred")
        if reason and not whole["skipped"][reason]:
            failures.append(f"{where}: nothing was refused as {reason}")
    return failures


def judge_restore(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Is restore_readonly a net win on the application's CPUs?  If so, it should be the default."""
    goals = []
    for group in RESTORE_GROUPS:
        own = [row for row in rows if row["group"] == group]
        if {row["contender"] for row in own} != {one.name for one in _restoring()}:
            continue
        rounds = _rounds(own, "app")
        more = difference(rounds, "app", "readonly", ("writable", "writable-again"))
        noise = difference(rounds, "app", "writable-again", ("writable",)).rms
        without, deferred = (
            flushes.of(_sum(own, name))["deferred_share"] or 0.0
            for name in ("writable", "readonly")
        )
        # If hardly more is deferred, a difference is chance.
        win = (
            deferred - without > SAME_WORK
            and more.total < -noise
            and (more.error is None or more.mean + more.error < 0)
        )
        error = "" if more.error is None else f", standard error {more.error:.2%}"
        goals.append(
            {
                "text": f"{group}: {COSTS['app'][0]} {more.total:+.2%}{error}, equal runs "
                f"differ by {noise:.2%}, and {deferred:.1%} of the pages deferred instead of "
                f"{without:.1%}: {'a' if win else 'no'} net win beyond noise (not a duty: it "
                "decides the default)",
                "met": win,
            }
        )
    return goals


def _sum(rows: Sequence[Row], contender: str) -> flushes.Counts:
    """The counters of all rounds of a contender."""
    rounds = [row["counters"] for row in rows if row["contender"] == contender]
    names = {flushes.SENT, flushes.RECEIVED}.union(*rounds)
    return {name: sum(one.get(name, 0) for one in rounds) for name in names}


def check_restored(rows: Sequence[Row]) -> list[str]:
    """Have pages gone down and come back, and were some of them left read-only?"""
    failures = []
    for row in rows:
        if row["group"] not in RESTORE_GROUPS:
            continue
        where = f"{row['group']}, {row['contender']}"
        if not row["whole"]["demoted"]:
            failures.append(f"{where}: nothing was demoted")
        restored = row["counters"].get("migrc_readonly", 0)
        if (row["group"], row["contender"]) == (
            RESTORE_GROUPS[0],
            "readonly",
        ) and restored < RESTORED:
            failures.append(f"{where}: only {restored} pages came back read-only")
    return failures


def judge_bgsave(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Without deferrals MIGRC must flush nothing, and nobody else must flush more."""
    own = [row for row in rows if row["group"] == "bgsave"]
    goals = []
    on = [row["whole"] for row in own if row["contender"] == "on"]
    for text, count in (
        ("pages deferred", sum(whole["deferred"] for whole in on)),
        ("flushes forced by a write or a system call", sum(sum(w["forced"].values()) for w in on)),
        ("flushes of deferred pages", sum(whole["drains"] for whole in on)),
    ):
        if on:
            goals.append({"text": f"Redis saving, MIGRC on: {count} {text}", "met": count == 0})
    all_four = {"base", "off", "on", "base-again"}
    rounds = [one for one in _rounds(own, "sent", _sent) if all_four <= one.keys()]
    if not rounds:
        return goals
    noise = difference(rounds, "sent", "base-again", ("base",)).rms
    limit = max(noise, LIMIT)
    for name in ("off", "on"):
        more = difference(rounds, "sent", name, ("base", "base-again"))
        each = ", ".join(f"{one:+.1%}" for one in more.each)
        goals.append(
            {
                "text": f"Redis saving, MIGRC {name}: {more.total:+.1%} flushes sent for the same "
                f"commands, by round {each}, of the unmodified kernel's, two runs of which differ "
                f"by {noise:.1%}; no extra flush, by that or {LIMIT:.0%}",
                "met": more.total <= limit,
            }
        )
    return goals


def check_bgsave(rows: Sequence[Row]) -> list[str]:
    """Were there forks, and did reclaim have to swap?"""
    failures = []
    for row in rows:
        if row["group"] != "bgsave":
            continue
        if not row["saves"]:
            failures.append(f"bgsave, {row['contender']}: Redis saved nothing")
        if not row["counters"].get("pswpout"):
            failures.append(f"bgsave, {row['contender']}: nothing was swapped")
    return failures


# --- showing -------------------------------------------------------------------


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items() if n) or "-"


def _of(part: str, key: str) -> Callable[[Row], Any]:
    return lambda row: (row[part] or {}).get(key)


def _few(value: float | None) -> str:
    return _number(value, 2)


def _ratio(row: Row, key: str, by: str) -> float | None:
    whole = row["whole"]
    return whole[key] / whole[by] if whole.get(by) and key in whole else None


def _tlb(row: Row, key: str) -> float | None:
    return row["tlb"][key] if row["tlb"] else None


LINES: tuple[tuple[str, Callable[[Row], Any], Callable[[Any], str]], ...] = (
    ("pages migrated", _of("whole", "migrated"), _number),
    ("  promoted", _of("whole", "promoted"), _number),
    ("  demoted", _of("whole", "demoted"), _number),
    ("  migrated without a flush of their own (deferred)", _of("whole", "deferred"), _number),
    ("  share of those", _of("whole", "deferred_share"), _share),
    ("  share of those, second half", _of("half", "deferred_share"), _share),
    ("  share of those for which a flush was due", _of("whole", "eligible_share"), _share),
    ("    second half", _of("half", "eligible_share"), _share),
    ("pages looked at by reclaim", _of("whole", "scanned"), _number),
    ("  of that for each page demoted", lambda row: _ratio(row, "scanned", "demoted"), _few),
    ("pages taken by reclaim", taken, _number),
    ("allocations that had to reclaim", _of("whole", "stalls"), _number),
    ("pages swapped out", _of("whole", "swapped"), _number),
    (
        "nodes whose kswapd had given up at the end",
        lambda row: (row.get("gave_up") or {}).get("after"),
        lambda nodes: ", ".join(map(str, nodes)) or "none",
    ),
    ("flushes sent", _of("whole", "flushes"), _number),
    ("  per 1,000 pages migrated", _of("whole", "flushes_per_1000"), lambda n: _number(n, 2)),
    ("  second half", _of("half", "flushes_per_1000"), lambda n: _number(n, 2)),
    ("interrupts received", _of("whole", "received"), _number),
    ("  per 1,000 pages migrated", _of("whole", "received_per_1000"), lambda n: _number(n, 2)),
    ("  second half", _of("half", "received_per_1000"), lambda n: _number(n, 2)),
    ("flushes of deferred pages (drains)", _of("whole", "drains"), _number),
    ("  pages by reason", _of("whole", "drained"), _reasons),
    ("flushes forced, by place", _of("whole", "forced"), _reasons),
    ("not deferred, by reason", _of("whole", "skipped"), _reasons),
    ("hint faults left to a worker", _of("whole", "later"), _number),
    ("whole TLB flushed, app CPUs", lambda row: _tlb(row, "flushes"), _number),
    ("  to switch address spaces", lambda row: _tlb(row, "switches"), _number),
    ("single pages flushed, app CPUs", lambda row: _tlb(row, "pages"), _number),
    ("fills of the model TLB, app CPUs", lambda row: _tlb(row, "fills"), _number),
    (
        "kernel instructions, app CPUs, per operation",
        lambda row: row["insn"] and per_op(row, "app_kernel"),
        _number,
    ),
    (
        "  with user code",
        lambda row: row["insn"] and per_op(row, "user", "app_kernel"),
        _number,
    ),
    ("kernel instructions, all CPUs, per page migrated", per_page, _number),
    ("operations", lambda row: row["ops"], _number),
    ("guest seconds (emulated, not a speed)", lambda row: row["seconds"], lambda n: f"{n:.1f} s"),
)


def ab_table(rows: Sequence[Row]) -> list[list[str]]:
    """A column for each contender; lines in which none has a figure are left out."""
    rows = _first(rows)
    lines = [["", *(f"{row['contender']}@{row['kernel']['flavour']}" for row in rows)]]
    for label, value, show in LINES:
        values = [value(row) for row in rows]
        if any(one not in (None, {}) for one in values):
            lines.append([label, *("-" if one in (None, {}) else show(one) for one in values)])
    base = _find(rows, BASE)
    if base:
        found = [savings(row, base) for row in rows]
        for part, words in (("whole", ""), ("half", ", second half")):
            for key, what in (("flushes", "flushes"), ("received", "interrupts received")):
                shares = [_share(one[f"{part} {key}_per_1000"]) for one in found]
                lines.append([f"less {what} per page than {BASE}@base{words}", *shares])
        for key, what in (("flushes", "flushes"), ("received", "interrupts received")):
            shares = [_share(one[f"whole {key}"]) for one in found]
            lines.append([f"less {what} in all than {BASE}@base", *shares])
    return lines


def round_table(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each round of each contender that has several."""
    lines = [
        [
            "run",
            *("pages migrated", "deferred", "flushes sent", "per 1,000 pages", "second half"),
            *("received", "per 1,000 pages", "second half", "guest seconds"),
        ]
    ]
    for first in _first(rows):
        own = [row for row in rows if row["contender"] == first["contender"]]
        for row in own if len(own) > 1 else []:
            line = [f"{row['contender']}@{row['kernel']['flavour']}, round {row['round']}"]
            line += [_number(row["whole"]["migrated"]), _share(row["whole"]["deferred_share"])]
            for key in ("flushes", "received"):
                line.append(_number(row["whole"][key]))
                line += [_number((row[part] or {}).get(f"{key}_per_1000"), 2) for part in HALVES]
            lines.append([*line, f"{row['seconds']:.1f} s"])
    return lines


def growth_table(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each number of CPUs and each limit."""
    lines = [
        [
            "NUMA balancing",
            *("pages migrated, base", "with MIGRC", "pages per second, base", "with MIGRC"),
            *("deferred", "flushes per 1,000 pages, base", "with MIGRC", "less"),
            *("received per 1,000 pages, base", "with MIGRC", "less"),
            *("flushes in all, base", "with MIGRC", "less"),
            *("per 1,000 pages in the second half: less flushes", "received"),
        ]
    ]
    for group in dict.fromkeys(row["group"] for row in rows):
        base, on = _find(rows, "base", group), _find(rows, "on", group)
        if not base or not on:
            continue
        found = savings(on, base)
        line = [group, *(_number(row["whole"]["migrated"]) for row in (base, on))]
        line += [_number(row["whole"]["migrated"] / row["seconds"]) for row in (base, on)]
        line.append(_share(on["whole"]["deferred_share"]))
        for key in ("flushes_per_1000", "received_per_1000"):
            line += [_number(row["whole"][key], 2) for row in (base, on)]
            line.append(_share(found[f"whole {key}"]))
        line += [_number(row["whole"]["flushes"]) for row in (base, on)]
        line += [
            _share(found[key])
            for key in ("whole flushes", "half flushes_per_1000", "half received_per_1000")
        ]
        lines.append(line)
    return lines


def age_table(rows: Sequence[Row]) -> list[list[str]]:
    """What the age does to drains where few pages are migrated."""
    lines = [
        [
            "run",
            *("max_age_ms", "pages migrated", "deferred", "drains", "deferred pages for each"),
            *("flushes sent", "per 1,000 pages", "received per 1,000 pages"),
        ]
    ]
    groups = [row["group"] for row in rows if row["contender"] == AGED_NAME]
    for group in groups:
        for name in ("on", AGED_NAME):
            row = _find(rows, name, group)
            if not row:
                continue
            whole = row["whole"]
            each = whole["deferred"] / whole["drains"] if whole["drains"] else None
            lines.append(
                [
                    f"{group}, MIGRC on",
                    row["settings"].get(AGE, "default"),
                    *(_number(whole[key]) for key in ("migrated", "deferred", "drains")),
                    *(_number(each), _number(whole["flushes"])),
                    *(_number(whole[f"{key}_per_1000"], 2) for key in ("flushes", "received")),
                ]
            )
    return lines


def cost_table(judged: dict[str, Any]) -> list[list[str]]:
    """A line for each job."""
    lines = [
        [
            COSTS["page"][0],
            *("on against off", "standard error", f"at most {LIMIT:.0%} more"),
            *("off against base", "no more", "noise"),
        ]
    ]
    for group, found in judged.items():
        line = [group]
        for one in ("on", "off"):
            more, error = found.get(one), found.get(one, {}).get("error")
            line.append(f"{more['total']:+.2%}" if more else "-")
            if one == "on":
                line.append("-" if error is None else f"{error:.2%}")
            line.append(("met" if found[f"{one}_passed"] else "NOT MET") if more else "-")
        lines.append([*line, f"{found['noise']:.2%}"])
    return lines


def run_table(rows: Sequence[Row]) -> list[list[str]]:
    """Each run of the cost page."""
    lines = [
        [
            "run",
            *("pages migrated", "deferred", "flushes sent", "received", "forced"),
            *("demoted", "swapped out", "in", "saves", *(words for words, _ in COSTS.values())),
        ]
    ]
    for row in rows:
        whole = row["whole"]
        lines.append(
            [
                f"{row['group']}, round {row['round']}: {row['contender']}",
                *(_number(whole[key]) for key in ("migrated", "deferred", "flushes", "received")),
                _reasons(whole["forced"]),
                _number(whole["demoted"]),
                _number(row["counters"].get("pswpout")),
                _number(row["counters"].get("pswpin")),
                _number(row.get("saves")),
                *(_number(value(row), 1) for _, value in COSTS.values()),
            ]
        )
    return lines


def fault_table(rows: Sequence[Row]) -> list[list[str]]:
    """Page faults of the jobs under NUMA balancing; those that write read-only pages are others."""
    lines = [
        [
            "page faults",
            *("pages promoted", "hint faults", "other faults"),
            *("other, per 1,000 pages promoted", "other, per 1,000 hint faults"),
        ]
    ]
    for row in rows:
        hints, promoted = row["counters"].get(HINT_FAULTS, 0), row["whole"]["promoted"]
        if not hints or not promoted:
            continue
        others = row["counters"].get("pgfault", 0) - hints
        lines.append(
            [
                f"{row['group']}, round {row['round']}: {row['contender']}",
                *(_number(promoted), _number(hints), _number(others)),
                *(_number(1000 * others / count) for count in (promoted, hints)),
            ]
        )
    return lines


NOTES = (
    "Flushes sent are all of nr_tlb_remote_flush, also those of scanners, of faults, of deferred "
    "pages (drains) and those that a write has forced; received is one per CPU and flush "
    "(nr_tlb_remote_flush_received). A CPU that runs in lazy TLB mode is not interrupted.",
    "Deferred: pages whose source was kept and whose flush came later with others'. Its share is "
    "of all pages migrated, sideways ones and huge ones included. A flush is not due where a hint "
    "fault has found the entry inaccessible, which is how NUMA balancing promotes; of the other "
    "pages some were deferred and the rest refused, for the reasons that are counted.",
    "At START the job's pages are on the slow node. Not placed: the fast node holds them as the "
    "job has written them; their entries are writable, and cannot be deferred until they have "
    "been promoted by a hint fault. The second half, by time, is nearer to a job that runs for "
    "hours.",
    "While a pass of NUMA balancing's scanner over an address space has not flushed yet, entries "
    "that it has made inaccessible count as accessible (pte_accessible()): what is promoted just "
    "then is flushed, page by page. MIGRC must not defer it, because the entry may have been "
    "writable (pending); it leaves such pages to a worker.",
    "Whole TLB flushed: instructions that do so, counted by a plugin on the job's CPUs. TCG has no "
    "PCIDs, so a switch of address spaces flushes, too. The model TLB has {entries} entries for "
    "pages of 4 KiB, four ways, per vCPU; it is filled by the loads and stores of user code only. "
    "It stands for dTLB misses, which an emulator does not have; what a walk of page tables "
    "costs, and instruction TLBs, are not modelled.",
    "Instructions leave out idle CPUs, spinning on locks, iterations of rep instructions, and the "
    "function in which a sender waits for other CPUs to acknowledge a flush (sending is in that "
    "function, too).",
    "Guest seconds say nothing of the run time on hardware; it cannot be had here.",
)

COST_NOTES = (
    "The jobs of the first table are moved by migrate_pages(2), so that the work is the same in "
    "each run; time is the number of instructions there (QEMU's icount), one CPU after the other. "
    "So that the system call may defer, all but the first run on the kernel with the switches for "
    "tests, off and on: what these cost is in both. MIGRC's checks are off.",
    "A page that a hint fault has promoted is mapped read-only, also by the unmodified kernel, "
    "and its first write faults. With MIGRC a hint fault that only reads leaves a slow page "
    "read-only as well, so that it can be deferred when it moves. Where hint faults were measured "
    f"{HINTED_WRITES} % of the lookups write.",
)


def _kernels(rows: Sequence[Row]) -> list[str]:
    seen = {row["kernel"]["flavour"]: row["kernel"] for row in rows}
    return [
        f"Kernel {kernel['release']} ({flavour} {kernel['key']}) from {kernel['base_version']}."
        for flavour, kernel in seen.items()
    ]


def _notes(facts: dict[str, Any]) -> list[str]:
    rows = facts["rows"]
    entries = next((row["tlb"]["entries"] for row in rows if row["tlb"]), 0)
    return [
        *(COST_NOTES if facts["name"] == "migrc-cost" else ()),
        *(note.format(entries=entries) for note in NOTES if entries or "{entries}" not in note),
        f"Emulated (TCG, {facts['host']['qemu']}), {facts['host']['cpus']} host CPUs.",
        *_kernels(rows),
        *(
            f"{name}: " + ", ".join(f"{key} = {value}" for key, value in settings.items())
            for name, settings in {
                row["contender"]: row["settings"] for row in rows if facts["name"] in COMPARISONS
            }.items()
            if settings
        ),
    ]


TITLES = {
    "migrc-cpu": "The same on four CPUs: instructions, and a model of the TLB",
    "migrc": "TLB flushes of migration, with MIGRC and without, for the same lookups",
    "migrc-growth": "The same by number of CPUs, and by rate of promotion",
    "migrc-cost": "What MIGRC costs where it cannot help",
}


def tables(facts: dict[str, Any]) -> list[tuple[str, list[list[str]]]]:
    """What is shown of a measurement, with headings."""
    rows = facts["rows"]
    if facts["name"] in COMPARISONS:
        rounds = [("Each round", round_table(rows))] if len(_first(rows)) < len(rows) else []
        return [("", ab_table(rows)), *rounds]
    if facts["name"] == "migrc-growth":
        return [("", growth_table(rows)), ("By age", age_table(rows))]
    return [
        ("", cost_table(facts["judged"])),
        ("Each run", run_table(rows)),
        ("Faults under NUMA balancing", fault_table(rows)),
    ]


def _resumed(facts: dict[str, Any]) -> str:
    """Which of the runs had been done before this command began?"""
    if not facts.get("resumed"):
        return ""
    first = min(row["date"] for row in facts["rows"])
    return (
        f"  {facts['resumed']} of the {len(facts['rows'])} runs are of a measurement that was "
        f"broken off, from {first} on."
    )


def markdown(facts: dict[str, Any]) -> str:
    """The page for docs/results."""
    text = [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        f"# {facts['name']}",
        "",
        TITLES[facts["name"]] + ".",
        "",
        f"Measured {facts['date']} with `{facts['command']}` in {facts['seconds']:.0f} s."
        + _resumed(facts),
        "",
        *(f"- **Failed check:** {failure}." for failure in facts["failures"]),
        *(
            f"- {'Met' if goal['met'] else '**Not met**'}: {goal['text']}."
            for goal in facts["goals"]
        ),
        "",
    ]
    for title, rows in tables(facts):
        text += [*([f"## {title}", ""] if title else []), *report.markdown_rows(rows), ""]
    text += [*(f"- {line}" for line in _notes(facts)), ""]
    if svg(facts):
        text += [f"![{TITLES[facts['name']]}]({facts['name']}.svg)", ""]
    return "\n".join(text)


def svg(facts: dict[str, Any]) -> str:
    """Bars for the A/B, lines for the growth; empty where there is nothing to draw."""
    rows = facts["rows"]
    if facts["name"] in COMPARISONS:
        bars = [
            (
                f"{row['contender']}@{row['kernel']['flavour']}",
                [row["whole"]["flushes_per_1000"] or 0.0, row["whole"]["received_per_1000"] or 0.0],
            )
            for row in (pooled(rows, one["contender"]) or one for one in _first(rows))
            if row["whole"]["migrated"]
        ]
        return report.bars(
            f"{facts['name']}: per 1,000 pages migrated",
            ["flushes sent", "interrupts received"],
            bars,
        )
    if facts["name"] != "migrc-growth":
        return ""
    lines = []
    for name, words in (("base", "unmodified"), ("on", "MIGRC")):
        for key, what in (("flushes_per_1000", "sent"), ("received_per_1000", "received")):
            points = [
                (math.log2(vcpus), row["whole"][key])
                for vcpus in VCPUS
                if (row := _find(rows, name, f"{vcpus} CPUs")) and row["whole"][key] is not None
            ]
            lines.append((f"{what}, {words}", points))
    highest = max((value for _, points in lines for _, value in points), default=0.0)
    if not highest:
        return ""
    step = report.round_step(highest)
    return report.chart(
        "migrc: flushes sent and received per 1,000 pages migrated",
        lines,
        [(math.log2(vcpus), f"{vcpus} CPUs") for vcpus in VCPUS],
        [(n * step, f"{n * step:g}") for n in range(math.ceil(highest / step) + 1)],
        first=math.log2(VCPUS[0]),
        last=math.log2(VCPUS[-1]),
        top_y=step * math.ceil(highest / step),
    )


# --- all together --------------------------------------------------------------


def check(rows: Sequence[Row]) -> list[str]:
    """Why the figures do not count."""
    return [
        *check_same_work(rows),
        *check_switch(rows),
        *check_refused(rows),
        *check_restored(rows),
        *check_bgsave(rows),
        *check_pressure(rows),
        *check_hinted(rows),
    ]


def derive(name: str, rows: list[Row]) -> dict[str, Any]:
    """What the rows of a measurement say."""
    found: dict[str, Any] = {
        "name": name,
        "rows": rows,
        "failures": check(rows),
        "goals": [],
    }
    if name in COMPARISONS:
        found["goals"] = judge_ab(rows, beyond=name == "migrc")
    if name == "migrc-cost":
        found["judged"] = judge_cost(rows)
        found["goals"] = [*judge_restore(rows), *judge_bgsave(rows), *judge_pressure(rows)]
    return found


RUNS: dict[str, Callable[[], list[Run]]] = {
    "migrc": ab_runs,
    "migrc-cpu": cpu_runs,
    "migrc-growth": growth_runs,
    "migrc-cost": cost_runs,
}


def choose(runs: Sequence[Run], groups: Sequence[str], contenders: Sequence[str]) -> list[Run]:
    """Those runs of the groups and contenders that are named, all if none is."""
    for kind, wanted, known in (
        ("group", groups, [run.group for run in runs]),
        ("contender", contenders, [run.contender.name for run in runs]),
    ):
        for name in wanted:
            if name not in known:
                raise LabError(
                    f"no {kind} {name!r}", "there are: " + ", ".join(dict.fromkeys(known))
                )
    return [
        run
        for run in runs
        if (not groups or run.group in groups)
        and (not contenders or run.contender.name in contenders)
    ]


def write(facts: dict[str, Any], directory: Path) -> None:
    """NAME.json, NAME.md and, where there is something to draw, NAME.svg."""
    directory.mkdir(parents=True, exist_ok=True)
    name = facts["name"]
    text = json.dumps(facts, indent=1) + "\n"
    (directory / f"{name}.json").write_text(text, encoding="utf-8")
    (directory / f"{name}.md").write_text(markdown(facts), encoding="utf-8")
    plot, path = svg(facts), directory / f"{name}.svg"
    path.unlink(missing_ok=True)
    if plot:
        path.write_text(plot, encoding="utf-8")


def measure(
    name: str,
    save: Path | None,
    *,
    groups: Sequence[str] = (),
    contenders: Sequence[str] = (),
    resume: bool = False,
    progress: TextIO = sys.stderr,
) -> bool:
    """One of the measurements; True if nothing failed.

    With ``groups`` or ``contenders`` only those are run, and ``save`` is left as it is.
    ``resume`` takes runs that were done already on the same kernel.
    """
    runs = choose(RUNS[name](), groups, contenders)
    some = bool(groups or contenders)
    began = time.time()
    done = kept.Kept(name, resume=resume)
    rows = []
    for number, run in enumerate(runs, 1):
        measured = partial(_measure, run, f"{number}/{len(runs)}", progress)
        rows.append(done.get([build.kernel(run.contender.kernel).key, repr(run)], measured))
    # A part of the contenders cannot be judged.
    facts = {
        "schema": SCHEMA,
        "command": scenario.command_line(sys.argv),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "resumed": done.resumed,
        "host": scenario.host_info(),
        **(derive(name, rows) if not contenders else unjudged(name, rows)),
    }
    for title, table in tables(facts):
        print(f"\n{title or TITLES[name]}\n")
        report.print_rows(table, sys.stdout)
    print()
    for goal in facts["goals"]:
        print(f"  {'met' if goal['met'] else 'NOT MET'}: {goal['text']}")
    for failure in facts["failures"]:
        print(f"  FAILED CHECK: {failure}")
    write(facts, cache.sub("runs") / "migrc")
    print(f"JSON, Markdown and plot: {cache.sub('runs') / 'migrc'}")
    if some:
        print("some of the runs: docs/results is left as it is")
    elif save:
        write(facts, save)
    return not facts["failures"]


def unjudged(name: str, rows: list[Row]) -> dict[str, Any]:
    """Rows without the judgements for which others are needed."""
    return {
        "name": name,
        "rows": rows,
        "failures": check(rows),
        "goals": judge_ab(rows, beyond=name == "migrc")
        if name in COMPARISONS
        else [*judge_restore(rows), *judge_bgsave(rows), *judge_pressure(rows)],
        "judged": {},
    }


def migrc(
    parts: Sequence[str],
    groups: Sequence[str],
    contenders: Sequence[str],
    save: Path,
    *,
    resume: bool = False,
) -> bool:
    """The measurements that are named, all if none is."""
    for name in parts:
        if name not in PARTS:
            raise LabError(f"migrc has no part {name!r}", "there are: " + ", ".join(PARTS))
    good = [
        measure(name, save, groups=groups, contenders=contenders, resume=resume)
        for name in parts or PARTS
    ]
    if not all(good):
        raise LabError("these figures do not count", "the FAILED CHECK lines above say why")
    return True
