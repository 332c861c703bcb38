# SPDX-License-Identifier: GPL-2.0
"""What the measurements of MIGRC share: how a run is made, and what its counters say.

lab/migrc_ab.py compares contenders, lab/migrc_growth.py numbers of CPUs, and lab/migrc_cost.py
tells what MIGRC costs where it cannot help.  All of them, and lab/migrc_curve.py, run variants of
the scenario lookup.

Every run is a boot of its own.  Flushes are all that were sent, those of MIGRC included
(lab/flushes.py).  Instructions leave out what an idle CPU executes, spinning on locks, and
smp_call_function_many_cond(), where a sender of interrupts waits for the others: how long
depends on when the host runs their vCPUs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TextIO

from lab import build, cache, flushes, kept, scenario
from lab.errors import LabError
from lab.results import finish, ledger
from lab.results.study import Column
from lab.scenario import Contender, Scenario

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
FEW_VCPUS = 4

Row = dict[str, Any]


@dataclass(frozen=True)
class Boot:
    """One run: what it is compared with, and what it is."""

    group: str
    spec: Scenario
    contender: Contender
    round: int = 1
    prepare: str = ""  # for a shell in the guest, before the agent

    @property
    def title(self) -> str:
        return f"{self.group}, {self.contender.name}"


# --- what is run ---------------------------------------------------------------


def contender(
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


def in_turn(
    group: str, spec: Scenario, contenders: Sequence[Contender], rounds: int, prepare: str = ""
) -> list[Boot]:
    """Each round begins with another contender."""
    return [
        Boot(group, spec, contenders[(first + turn) % len(contenders)], first + 1, prepare=prepare)
        for first in range(rounds)
        for turn in range(len(contenders))
    ]


def choose(boots: Sequence[Boot], groups: Sequence[str], contenders: Sequence[str]) -> list[Boot]:
    """Those of the groups and contenders that are named, all if none is."""
    for kind, wanted, known in (
        ("group", groups, [boot.group for boot in boots]),
        ("contender", contenders, [boot.contender.name for boot in boots]),
    ):
        for name in wanted:
            if name not in known:
                raise LabError(
                    f"no {kind} {name!r}", "there are: " + ", ".join(dict.fromkeys(known))
                )
    return [
        boot
        for boot in boots
        if (not groups or boot.group in groups)
        and (not contenders or boot.contender.name in contenders)
    ]


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
    """What is kept of a run (scenario.run_contender())."""
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


def _measure(boot: Boot, number: str, progress: TextIO) -> Row:
    out = cache.sub("runs") / "migrc" / f"{boot.group}-{boot.contender.name}".replace(" ", "-")
    kernel = build.kernel(boot.contender.kernel)
    with scenario.Live(
        progress,
        f"[{number}] {boot.title}",
        boot.spec.measure.expected_s,
        boot.spec.measure.app_cpus,
    ) as live:
        found = scenario.run_contender(
            boot.spec,
            boot.contender,
            kernel,
            out=out,
            cache=cache.root(),
            external={},
            live=live,
            prepare=boot.prepare,
        )
    row = {"group": boot.group, "round": boot.round, **reduce(found, boot.spec)}
    if boot.spec.service:
        log = (out / "service.log").read_text(encoding="utf-8", errors="replace")
        row["saves"] = log.count("Background saving terminated with success")
    return row


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which of the runs, and whether to go on."""
    for option, text in (("--group", "of runs"), ("--contender", "in each group")):
        parser.add_argument(
            option,
            action="append",
            default=[],
            metavar="NAME",
            help=f"only this one {text}: nothing is recorded",
        )
    finish.add_resume(parser)


def whole(args: argparse.Namespace) -> bool:
    return not (args.group or args.contender)


def measure(
    name: str, boots: Sequence[Boot], args: argparse.Namespace, progress: TextIO = sys.stderr
) -> dict[str, Any]:
    """Raw data of the runs that are asked for.

    With --resume those count that were done already on the same kernel.
    """
    chosen = choose(boots, args.group, args.contender)
    began = time.time()
    done = kept.Kept(name, resume=args.resume)
    rows = []
    for number, boot in enumerate(chosen, 1):
        measured = partial(_measure, boot, f"{number}/{len(chosen)}", progress)
        rows.append(done.get([build.kernel(boot.contender.kernel).key, repr(boot)], measured))
    command = scenario.command_line(sys.argv)
    return ledger.facts_of(began, command, resumed=done.resumed, name=name, rows=rows)


# --- arithmetic ----------------------------------------------------------------


def per_op(row: Row, *keys: str) -> float:
    """Instructions of some sorts for each operation."""
    return float(sum(row["insn"][key] for key in keys)) / float(row["ops"])


def per_page(row: Row) -> float | None:
    """Kernel instructions of all CPUs for each page migrated."""
    pages = row["whole"]["migrated"]
    return row["insn"]["all_kernel"] / pages if pages and row["insn"] else None


def taken(row: Row) -> int:
    """Pages that reclaim has taken, demoted ones and others."""
    return flushes.total(row["counters"], STOLEN)


# What is saved, by figure: for each page that moves, in all and in the second half by time, and
# in all, which is of the same work
SAVED = {
    f"{half}less_{key}": (part, key)
    for part, half in (("whole", ""), ("half", "half_"))
    for key in ("flushes_per_1000", "received_per_1000")
} | {f"less_{key}": ("whole", key) for key in ("flushes", "received")}


def savings(row: Row, base: Row) -> dict[str, float | None]:
    """How much less than the base."""
    return {
        name: flushes.less(*((one[part] or {}).get(key) for one in (row, base)))
        for name, (part, key) in SAVED.items()
    }


def pooled(rows: Sequence[Row], contender: str) -> Row | None:
    """All rounds of a contender as one run; of the second halves only what is told of them."""
    own = [row for row in rows if row["contender"] == contender]
    if len(own) < 2:
        return own[0] if own else None
    counters = summed(own)
    half = None
    if all(row["half"] for row in own):
        half = {
            key: sum(row["half"][key] for row in own) for key in ("migrated", "flushes", "received")
        }
        for key in ("flushes", "received"):
            pages = half["migrated"]
            half[f"{key}_per_1000"] = 1000 * half[key] / pages if pages else None
    more = {key: sum(row[key] for row in own) for key in ("seconds", "ops")}
    none = {"insn": None, "tlb": None, "gave_up": None, "half": half}
    return {**own[0], **more, **none, "counters": counters, "whole": flushes.of(counters)}


def summed(rows: Sequence[Row]) -> flushes.Counts:
    """The counters of some runs of the same kernel; one that none of them has did not move."""
    names = {flushes.SENT, flushes.RECEIVED}.union(*(row["counters"] for row in rows))
    for key, name in (
        ("deferred", flushes.DEFERRED),
        ("drains", "migrc_flush"),
        ("later", "migrc_promote_later"),
    ):
        if all(row["whole"][key] is not None for row in rows):
            names.add(name)
    return {name: sum(row["counters"].get(name, 0) for row in rows) for name in sorted(names)}


def find(rows: Sequence[Row], name: str, group: str | None = None) -> Row | None:
    found = (row for row in rows if row["contender"] == name)
    return next((row for row in found if group in (None, row["group"])), None)


# --- figures -------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A figure of a row, and its column."""

    title: str
    value: Callable[[Row], float | None]
    form: str = "{:,.0f}"


SHARE, FEW = "{:.1%}", "{:,.2f}"


def _of(part: str, key: str) -> Callable[[Row], Any]:
    return lambda row: (row[part] or {}).get(key)


def _ratio(key: str, by: str) -> Callable[[Row], float | None]:
    def ratio(row: Row) -> float | None:
        value, base = (row["whole"].get(name) for name in (key, by))
        return None if value is None or not base else float(value / base)

    return ratio


def _all(key: str) -> Callable[[Row], int | None]:
    """Of MIGRC's counts by reason; a kernel without it has none."""
    return lambda row: None if row["whole"]["deferred"] is None else sum(row["whole"][key].values())


def _tlb(key: str) -> Callable[[Row], float | None]:
    return lambda row: row["tlb"][key] if row["tlb"] else None


def _gave_up(row: Row) -> int | None:
    return len(row["gave_up"]["after"]) if row.get("gave_up") else None


FIGURES = {
    "migrated": Figure("pages migrated", _of("whole", "migrated")),
    "pages_per_s": Figure("per second", lambda row: row["whole"]["migrated"] / row["seconds"]),
    "promoted": Figure("promoted", _of("whole", "promoted")),
    "demoted": Figure("demoted", _of("whole", "demoted")),
    "deferred": Figure("deferred", _of("whole", "deferred")),
    "deferred_share": Figure("share deferred", _of("whole", "deferred_share"), SHARE),
    "half_deferred_share": Figure(
        "share deferred, second half", _of("half", "deferred_share"), SHARE
    ),
    "eligible_share": Figure(
        "of those for which a flush was due", _of("whole", "eligible_share"), SHARE
    ),
    "half_eligible_share": Figure("of those, second half", _of("half", "eligible_share"), SHARE),
    "scanned": Figure("looked at by reclaim", _of("whole", "scanned")),
    "scanned_per_demoted": Figure("for each page demoted", _ratio("scanned", "demoted"), FEW),
    "taken": Figure("taken by reclaim", taken),
    "stalls": Figure("allocations that had to reclaim", _of("whole", "stalls")),
    "swapped": Figure("swapped out", _of("whole", "swapped")),
    "gave_up": Figure("nodes whose kswapd had given up", _gave_up),
    "flushes": Figure("flushes sent", _of("whole", "flushes")),
    "flushes_per_1000": Figure("flushes per 1,000 pages", _of("whole", "flushes_per_1000"), FEW),
    "half_flushes_per_1000": Figure(
        "flushes per 1,000 pages, second half", _of("half", "flushes_per_1000"), FEW
    ),
    "received": Figure("interrupts received", _of("whole", "received")),
    "received_per_1000": Figure("received per 1,000 pages", _of("whole", "received_per_1000"), FEW),
    "half_received_per_1000": Figure(
        "received per 1,000 pages, second half", _of("half", "received_per_1000"), FEW
    ),
    "drains": Figure("drains", _of("whole", "drains")),
    "deferred_per_drain": Figure("deferred pages for each", _ratio("deferred", "drains")),
    "forced": Figure("flushes forced", _all("forced")),
    "refused": Figure("pages not deferred", _all("skipped")),
    "later": Figure("hint faults left to a worker", _of("whole", "later")),
    "tlb_flushes": Figure("whole TLB flushed, app CPUs", _tlb("flushes")),
    "tlb_switches": Figure("to switch address spaces", _tlb("switches")),
    "tlb_pages": Figure("single pages flushed, app CPUs", _tlb("pages")),
    "tlb_fills": Figure("fills of the model TLB, app CPUs", _tlb("fills")),
    "app_kernel_per_op": Figure(
        "kernel instructions, app CPUs, per operation",
        lambda row: per_op(row, "app_kernel") if row["insn"] else None,
    ),
    "app_per_op": Figure(
        "instructions, app CPUs, per operation",
        lambda row: per_op(row, "user", "app_kernel") if row["insn"] else None,
        "{:,.1f}",
    ),
    "all_kernel_per_page": Figure("kernel instructions, all CPUs, per page migrated", per_page),
    "ops": Figure("operations", lambda row: row["ops"]),
    "guest_s": Figure("guest seconds (no speed)", lambda row: row["seconds"], "{:.1f}"),
}
# All but those that only one of the studies shows
COMMON = tuple(key for key in FIGURES if key not in ("pages_per_s", "deferred_per_drain"))
SAVINGS = {
    "less_flushes_per_1000": "flushes per page: less",
    "less_received_per_1000": "received per page: less",
    "half_less_flushes_per_1000": "flushes per page, second half: less",
    "half_less_received_per_1000": "received per page, second half: less",
    "less_flushes": "flushes in all: less",
    "less_received": "received in all: less",
}


def figures(row: Row, keys: Sequence[str] = COMMON) -> dict[str, float | None]:
    return {key: FIGURES[key].value(row) for key in keys}


def columns(keys: Sequence[str] = COMMON) -> tuple[Column, ...]:
    """Columns of figures(), and of savings()."""
    known = {key: Column(key, one.title, one.form) for key, one in FIGURES.items()}
    known |= {key: Column(key, title, SHARE) for key, title in SAVINGS.items()}
    return tuple(known[key] for key in keys)


# --- runs ----------------------------------------------------------------------


def failures(row: Row, rows: Sequence[Row]) -> list[str]:
    """Why the figures of a row do not count.

    Equal lookups must find equal values, whatever moved meanwhile.  Where MIGRC is off nothing
    may be deferred; on, a kernel without it says nothing.
    """
    found = []
    own = [one for one in rows if one["group"] == row["group"]]
    most, least = (pick(one["ops"] for one in own) for pick in (max, min))
    if most > least * (1 + SAME_WORK) or len({one["hash"] for one in own}) > 1:
        found.append("the runs of this group did not do the same work, or found other values")
    if not row["verified"]:
        found.append("the job did not verify its data")
    deferred, on = row["whole"]["deferred"], row["settings"].get(flushes.SWITCH) == "1"
    if deferred and not on:
        found.append(f"{deferred} pages were deferred")
    if deferred is None and on:
        found.append("this kernel does not count deferrals")
    return found


def cell(row: Row) -> str:
    return f"{row['group']}, {row['contender']}"


def run_of(
    row: Row,
    rows: Sequence[Row],
    found: ledger.Figures,
    checks: Sequence[str],
    goals: Sequence[ledger.Goal] = (),
) -> ledger.Run:
    """A row as a line of the ledger; rounds are told where there are several."""
    several = len({one["round"] for one in rows if cell(one) == cell(row)}) > 1
    return ledger.Run(
        cell(row),
        found,
        row["kernel"],
        turn=row["round"] if several else 0,
        goals=goals,
        checks=checks,
        date=row["date"],
    )


def doubtful(checks: Sequence[Sequence[str]]) -> list[str]:
    """The check of a line that is made of several runs."""
    bad = sum(bool(one) for one in checks)
    return [f"{bad} of its {len(checks)} runs do not count"] if bad else []
