# SPDX-License-Identifier: GPL-2.0
"""What kmmscand's scanner costs, over the size of the memory and the number of processes.

Each case is a boot of the tiershift kernel with the insn plugin.  In it
lab/workloads/scanload.c holds the memory, has it touched in some pattern, and measures
for some seconds.  The scanner is alone on its CPU (isolcpus, and pinned there), so what
that CPU executes in the kernel is the scanner's, less what it executes in the same time
with kmmscand disabled.  Not counted is waiting for another CPU, as in lab/metrics.py: its
length depends on how the host runs the vCPUs.

Nothing is promoted: part promote is off, so candidates wait until they are too old.
While many are found, windows are the shortest.

A pass is as many entries, read or skipped, as the memory has pages.  A visit reads an entry
up to three times, and each time counts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from lab import build, guest, instruments, metrics, programs, scenario, topology
from lab import cache as lab_cache
from lab.errors import LabError
from lab.instruments import InsnTable
from lab.results import finish, ledger, study
from lab.results.study import Column, Study

NAME = "scanner"

PER_ENTRY = 60.0  # target: instructions per page-table entry visited, at most
IDLE_SHARE = 0.10  # target: an idle pass costs less than this part of a full one

SIZES = (256, 1024, 4096, 8192)
IDLE_MB = 4096
SHARED_MB = 512
SHARED_PERIOD_MS = 500
PROCESSES = (1, 20, 200)
CPU_MB = 1024
CPUS = 3  # of the guest
LIMITS = {334: 6, 17: 20, 4: 30}  # scan/cpu_permille, of all CPUs: for so many seconds
SETTLE_S = 4  # until visits have the pace of what is touched
QUIET_S = 8  # the same, where they become seldom
TOUCHED_S = 8
QUIET_MEASURED_S = 16
SHARED_S = 20  # a sample finds one of 200 processes in turn

SCAN_CPU = 1  # 0 runs the processes, 2 everything else
REGION_PAGES = 512
SLICE_PAGES = 64 * REGION_PAGES  # what the scanner does before it looks at the clock
SLEEP_S = 0.020  # it sleeps when it owes so much (CPU_SLEEP_NS)
TICK_S = 0.004  # CPU time of a running thread is known by the tick

SETTINGS = (
    "set promote/enabled 0",
    "set scan/period_ms 100",
    # One CPU.  No sleeping between slices: with a smaller share it would be part of the cost,
    # and under emulation, where a slice takes long, a much larger one than elsewhere.
    f"set scan/cpu_permille {max(LIMITS)}",
)

WAIT_SYMBOLS = (
    *metrics.SPIN_SYMBOLS,
    "smp_call_function_many_cond",  # the acknowledgement of a TLB flush
    "lock_timer_base",  # a timer that just runs on another CPU
    "__timer_delete_sync",
)
# Functions of kmmscand that read page tables, in walk.c, table.c and ring.c
SCANNING = ("walk_", "table_", "ring_push", "mmu_age_")
# What they call in the rest of the kernel.
CALLED = frozenset(
    {
        "__pte_offset_map",
        "__pte_offset_map_lock",
        "__walk_page_range",
        "folio_activate",
        "pmdp_test_and_clear_young",
        "ptep_test_and_clear_young",
        "tier_group",
        "vm_normal_folio",
        "vm_normal_folio_pmd",
        "vm_normal_page",
    }
)

PATTERNS = {
    "touched": "every page touched",
    "read": "one page of each 2 MiB touched",
    "untouched": "not touched",
    "full": "1 % of the 2 MiB regions touched, and one page of each",
    "idle": "1 % of the 2 MiB regions touched",
}
LINES = {"touched": "all touched", "read": "one page in 512", "untouched": "not touched"}


@dataclass(frozen=True)
class Case:
    """One boot: the memory, and what scanload is to do."""

    name: str
    size_mb: int
    processes: int
    commands: tuple[str, ...]


def make_cases(
    sizes: Sequence[int] = SIZES,
    idle_mb: int = IDLE_MB,
    shared_mb: int = SHARED_MB,
    processes: Sequence[int] = PROCESSES,
    cpu_mb: int = CPU_MB,
) -> list[Case]:
    """All cases, in the order of the report."""
    touched = (*SETTINGS, "touch 100 0", "measure off 2", "on", f"wait {SETTLE_S}")
    measured, quiet = f"measure %s {TOUCHED_S}", f"measure %s {QUIET_MEASURED_S}"
    cases = [
        Case(
            f"size-{size}",
            size,
            1,
            (
                *touched,
                measured % "touched",
                *("touch 0 1", f"wait {SETTLE_S}", measured % "read"),
                *("touch 0 0", f"wait {QUIET_S}", quiet % "untouched"),
            ),
        )
        for size in sizes
    ]
    idle = (
        *touched,
        measured % "touched",
        *("touch 1 1", f"wait {QUIET_S}", quiet % "full"),
        *("touch 1 0", f"wait {QUIET_S}", quiet % "idle"),
    )
    cases.append(Case("idle", idle_mb, 1, idle))
    # Many take turns on the CPUs, and not all come to touch their pages in each short period.
    turns = (*touched, f"set scan/period_ms {SHARED_PERIOD_MS}", f"wait {SHARED_S}")
    cases += [
        Case(f"processes-{n}", shared_mb, n, (*turns, f"measure touched {SHARED_S}"))
        for n in processes
    ]
    limits = [*SETTINGS, "touch 100 0", "on"]
    for permille, seconds in LIMITS.items():
        limits += [f"set scan/cpu_permille {permille}", f"wait {SETTLE_S}"]
        limits.append(f"measure limit-{permille} {seconds}")
    cases.append(Case("cpu", cpu_mb, 1, tuple(limits)))
    return cases


# --- arithmetic -----------------------------------------------------------------


def is_scanning(symbol: str) -> bool:
    """Is it a function that reads page tables, or that is called for an entry?"""
    return symbol.startswith(SCANNING) or symbol in CALLED


def instructions(table: InsnTable, cpu: int = SCAN_CPU) -> dict[str, int]:
    """What the scanner's CPU executed in the kernel in one phase."""

    def total(names: Collection[str]) -> int:
        return sum(table.symbols[name].insn[cpu] for name in names if name in table.symbols)

    waiting = total(WAIT_SYMBOLS)
    return {
        "work": table.vcpus[cpu].kernel_busy - waiting,
        "waiting": waiting,
        "scanning": total([name for name in table.symbols if is_scanning(name)]),
    }


def top_symbols(table: InsnTable, cpu: int = SCAN_CPU, keep: int = 25) -> list[tuple[str, int]]:
    """The functions in which the scanner's CPU executed most."""
    return [(name, own) for name, own, _ in metrics.top_symbols(table, [cpu], keep)]


def cost(
    point: dict[str, Any], pages: int, processes: int, background: float, touched: bool
) -> dict[str, float | None]:
    """Figures of one measured interval; ``background`` is instructions per second.

    Where all the memory is ``touched``, its entries are those that are found young, and what
    else is scanned belongs to other processes.  Else they cannot be told apart.
    """
    scanned, young = point["tier_scan_pte"], point["tier_scan_young"]
    covered = scanned + REGION_PAGES * point["tier_scan_skip_pmd"]
    visited = young if touched else scanned
    passes = (visited if touched else covered) / pages
    thread = point["insn"]["work"] - background * point["seconds"]

    def per(what: float, by: float) -> float | None:
        return what / by if by else None

    return {
        "passes": passes,
        "thread": thread,
        "per_entry": per(thread, visited),
        "scanning_per_entry": per(point["insn"]["scanning"], visited),
        "waiting_per_entry": per(point["insn"]["waiting"], visited),
        "per_pass": per(thread, passes),
        "per_process": per(thread, passes * processes),
        "visited_per_pass": per(visited, passes),
        "read_share": per(scanned, covered),
        "young_share": per(young, scanned),
    }


def cpu_share(point: dict[str, Any], permille: int, unlimited: float | None) -> dict[str, Any]:
    """The scanner's share of a CPU against its limit; ``unlimited`` is its share without one.

    Within the interval it can have used what it has not paid for yet: one slice, and what
    it may owe without sleeping; and the kernel's figure can be late by a tick.
    """
    limit = min(1.0, permille * CPUS / 1000)
    share = point["cpu_s"] / point["seconds"]
    figures = {"limit": limit, "share": share, "tolerance": None, "verdict": None}
    if limit == 1:
        return figures
    scanned = point["tier_scan_pte"]
    part = point["cpu_s"] * SLICE_PAGES / scanned if scanned else 0.0
    unpaid = part + SLEEP_S * limit / (1 - limit) + TICK_S
    figures["tolerance"] = unpaid / point["seconds"]
    if share > limit + figures["tolerance"]:
        figures["verdict"] = "above"
    elif unlimited is None or unlimited <= limit + figures["tolerance"]:
        figures["verdict"] = "not needed"
    else:
        figures["verdict"] = "within"
    return figures


def derive(cases: Sequence[dict[str, Any]]) -> None:
    """Add figures to each measured point."""
    for case in cases:
        points = case["points"]
        pages = case["size_mb"] * 256
        off = points.get("off")
        background = off["insn"]["work"] / off["seconds"] if off else 0.0
        free = points.get(f"limit-{max(LIMITS)}")
        unlimited = free["cpu_s"] / free["seconds"] if free else None
        for name, point in points.items():
            if name.startswith("limit-"):
                permille = int(name.partition("-")[2])
                point["figures"] = cpu_share(point, permille, unlimited)
            elif name != "off":
                point["figures"] = cost(
                    point, pages, case["processes"], background, name == "touched"
                )
        if "idle" in points:
            idle = points["idle"]["figures"]
            for full in ("full", "touched"):
                by = points[full]["figures"]["per_pass"]
                share = idle["per_pass"] / by if by and idle["per_pass"] is not None else None
                idle[f"share_of_{full}"] = share


def cheap_entry(per_entry: float | None) -> bool:
    """Is the cost of an entry known, and does it meet its target?"""
    return per_entry is not None and per_entry <= PER_ENTRY


def cheap_idle(share: float | None) -> bool:
    """Is the cost of an idle pass known, and does it meet its target?"""
    return share is not None and share < IDLE_SHARE


def check(cases: Sequence[dict[str, Any]]) -> list[str]:
    """What makes a figure meaningless; empty if nothing does."""
    failures = []
    for case in cases:
        pages = case["size_mb"] * 256
        for name, point in case["points"].items():
            where = f"{case['name']}, {PATTERNS.get(name, name)}"
            figures, moved = point.get("figures", {}), point["pgpromote_success"]
            if moved > pages * 0.01:
                failures.append(f"{where}: {moved} of {pages} pages were promoted meanwhile")
            if figures.get("verdict") == "not needed":
                failures.append(f"{where}: the scanner uses no more without the limit")
            young = figures.get("young_share")
            # The walk that clears finds all of them young.  A window can be too short for the
            # processes to touch them all again.  The first look then reads as many old entries.
            alone = case["processes"] == 1
            if name == "touched" and alone and (young is None or young < 0.45):
                failures.append(f"{where}: only {_share(young)} of the entries were young")
            # Many processes have many other pages, on the fast node.
            if name == "touched" and not alone and figures["passes"] < 1:
                failures.append(f"{where}: not all pages were found accessed")
            if name == "untouched" and young is not None and young > 0.01:
                failures.append(f"{where}: {_share(young)} of the entries were young")
            # They also have many other page tables, which are skipped.
            read = figures.get("read_share") if alone else 1.0
            # A short window after a look not all page tables have been walked again.
            if name in ("read", "full") and (read is None or read < 0.95):
                failures.append(f"{where}: only {_share(read)} of the entries were read")
    return failures


# --- measuring ------------------------------------------------------------------


def parse_points(lines: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What scanload printed, by the name of the measurement."""
    points = [json.loads(line[6:]) for line in lines if line.startswith("POINT ")]
    return {point.pop("name"): point for point in points}


def run_case(case: Case, kernel: scenario.Kernel, out: Path, progress: TextIO) -> dict[str, Any]:
    """Boot one case; its points with the instructions of their phases."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    cached = lab_cache.sub("programs")
    program = out / "scanload"
    shutil.copy2(programs.build_programs(cached)["scanload"], program)
    (out / "commands").write_text("\n".join([*case.commands, "off", ""]), encoding="utf-8")
    machine = topology.load(
        # Room for page tables, the memory map and watermarks
        "two-tier",
        fast_mb=512,
        fast_cpus=CPUS,
        slow_mb=case.size_mb + case.size_mb // 8 + 128,
    )

    def on_line(line: str) -> None:
        if line.startswith("DO measure "):
            print(f"  {line[11:]}", file=progress, flush=True)

    result = guest.run(
        kernel.image,
        machine,
        f"exec {program} --size-mb {case.size_mb} --procs {case.processes} "
        f"--scan-cpu {SCAN_CPU} < {out / 'commands'}",
        out_dir=out,
        timeout_s=600,
        plugins=[
            instruments.insn_plugin(
                kernel.system_map,
                out / "insn.json",
                plugins=instruments.build_plugins(cached),
            )
        ],
        # Without erms pages are cleared by fewer iterations, each of which QEMU executes.
        append=f"clearcpuid=erms,fsrm isolcpus={SCAN_CPU}",
        on_line=on_line,
    )
    lines = (out / "output.log").read_text(encoding="utf-8", errors="replace").splitlines()
    if result.exit_code or "DONE" not in lines:
        raise LabError(
            f"curves, {case.name}: " + (lines[-1] if lines else "scanload printed nothing"),
            f"the logs are in {out}",
        )
    phases = instruments.read_insn(out / "insn.json").phases
    points = parse_points(lines)
    for point in points.values():
        table = phases[point["phase"]]
        point["insn"] = instructions(table)
        point["top_symbols"] = top_symbols(table)
    program.unlink()
    return {
        "name": case.name,
        "size_mb": case.size_mb,
        "processes": case.processes,
        "commands": list(case.commands),
        "seconds_total": round(result.seconds, 1),
        "points": points,
    }


def measure(cases: Sequence[Case], out: Path, progress: TextIO = sys.stderr) -> dict[str, Any]:
    """Run the cases one after the other."""
    kernel = build.kernel("tiershift")
    began = time.time()
    done = []
    for number, case in enumerate(cases, 1):
        print(
            f"[{number}/{len(cases)}] {case.name}: {case.size_mb} MiB of "
            f"{case.processes} process(es)",
            file=progress,
            flush=True,
        )
        done.append(run_case(case, kernel, out / case.name, progress))
        print(f"  done in {done[-1]['seconds_total']:.0f} s", file=progress, flush=True)
    derive(done)
    return ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernel=kernel.describe(),
        cases=done,
        failures=check(done),
    )


# --- what is recorded --------------------------------------------------------------


def _figure(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _goals(case: dict[str, Any], name: str, figures: dict[str, Any]) -> list[ledger.Goal]:
    def goal(key: str, met: bool, limit: float, title: str) -> ledger.Goal:
        return ledger.Goal(
            name=f"{case['name']}, {PATTERNS.get(name, name)}: {title}",
            verdict=ledger.MET if met else ledger.MISSED,
            value=None if figures[key] is None else ledger.rounded(figures[key]),
            limit=limit,
        )

    if case["name"].startswith("size-") and name != "off":
        met = cheap_entry(figures["per_entry"])
        return [goal("per_entry", met, PER_ENTRY, "instructions per entry visited")]
    if name == "idle":
        met = cheap_idle(figures["share_of_full"])
        return [goal("share_of_full", met, IDLE_SHARE, "share of a full pass")]
    if figures.get("verdict") in ("within", "above"):
        met = figures["verdict"] == "within"
        return [goal("share", met, figures["limit"], "share of a CPU")]
    return []


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each interval that was measured."""
    found: list[ledger.Run] = []
    for case in facts["cases"]:
        for name, point in case["points"].items():
            figures = point.get("figures")
            if not figures:
                continue
            found.append(
                ledger.Run(
                    cell=f"{case['name']}: {PATTERNS.get(name, name)}",
                    figures={
                        key: value
                        for key, value in figures.items()
                        if key in FIGURES and not isinstance(value, str)
                    },
                    kernel=facts["kernel"],
                    goals=_goals(case, name, figures),
                    checks=() if found else facts["failures"],
                    seconds=point["seconds"],
                )
            )
    return found


def arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("cases", nargs="*", metavar="CASE", help="default: all")
    for option, default, text in (
        ("--sizes", SIZES, "memory of the cases size-N, in MiB"),
        ("--processes", PROCESSES, "of the cases processes-N"),
    ):
        command.add_argument(option, type=finish.numbers, default=default, metavar="N,N", help=text)
    for option, mb, text in (
        ("--shared-mb", SHARED_MB, "memory of all these processes"),
        ("--idle-mb", IDLE_MB, "memory of the case idle"),
        ("--cpu-mb", CPU_MB, "memory of the case cpu"),
    ):
        command.add_argument(option, type=int, default=mb, metavar="MIB", help=text)


def run(args: argparse.Namespace) -> bool:
    """Run the cases; True if the figures count."""
    every = make_cases()
    cases = make_cases(args.sizes, args.idle_mb, args.shared_mb, args.processes, args.cpu_mb)
    known = [case.name for case in cases]
    for name in args.cases:
        if name not in known:
            raise LabError(f"{NAME} has no case {name!r}", "there are: " + ", ".join(known))
    chosen = [case for case in cases if not args.cases or case.name in args.cases]
    facts = measure(chosen, lab_cache.sub("runs") / NAME)
    return finish.finish(STUDY, facts, runs(facts), whole=chosen == every)


FIGURES = {
    "per_entry": ("instructions per entry visited", "{:,.1f}"),
    "scanning_per_entry": ("in scanning functions", "{:,.1f}"),
    "waiting_per_entry": ("waiting, not counted", "{:,.1f}"),
    "per_pass": ("per pass", "{:,.0f}"),
    "per_process": ("per process", "{:,.0f}"),
    "visited_per_pass": ("entries visited per pass", "{:,.0f}"),
    "read_share": ("of the entries read", "{:.1%}"),
    "young_share": ("of these young", "{:.1%}"),
    "share_of_full": ("of a full pass", "{:.1%}"),
    "share_of_touched": ("of a pass over touched memory", "{:.1%}"),
    "share": ("share of a CPU", "{:.2%}"),
    "limit": ("of a CPU at most", "{:.1%}"),
    "tolerance": ("tolerance", "{:.2%}"),
}
STUDY = Study(
    name=NAME,
    title="What the scanner costs",
    what="Processes hold memory on the slow node and touch it in patterns.  The scanner is alone "
    "on its CPU.  Counted are its kernel instructions, less those with kmmscand disabled.",
    columns=tuple(Column(key, title, form) for key, (title, form) in FIGURES.items()),
    minutes=8,
    run=run,
    groups=study.KMMSCAND,
    arguments=arguments,
    parts=(
        ("By size: page-table entries", "size-"),
        ("Mostly idle memory", "idle: "),
        ("By number of processes", "processes-"),
        ("Share of a CPU", "cpu: "),
    ),
    notes=(
        "Where every page is touched, an entry visited is one of tier_scan_young; elsewhere one "
        "of tier_scan_pte.  Where nothing is touched, 63 of 64 page tables are skipped, so "
        "there are few entries to divide by.",
        "A pass is as many entries, read or skipped, as the memory has pages.  A visit reads an "
        "entry up to three times.",
        "Waiting is for the acknowledgement of TLB flushes, for locks and for timers on another "
        "CPU.  Its length depends on how the host schedules vCPUs.",
        "A full pass has the same entries young as an idle one, and one more in each page table, "
        "so that none can be skipped.",
        f"Processes: the scan period is {SHARED_PERIOD_MS} ms, so that each comes to touch its "
        "pages.",
        f"Share of a CPU: run time by the scheduler.  scan/cpu_permille is of {CPUS} CPUs.  "
        "Tolerance: one slice of 64 page tables, what is owed below 20 ms, and a tick.",
    ),
)
