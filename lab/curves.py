# SPDX-License-Identifier: GPL-2.0
"""What kmmscand's scanner costs, over the size of the memory and the number of processes.

Each case is a boot of the tiershift kernel with the insn plugin.  In it
lab/workloads/scanload.c holds the memory, has it touched in some pattern, and measures
from one end of a pass to another.  The scanner is alone on its CPU (isolcpus, and pinned
there), so what that CPU executes in the kernel is the scanner's, less what it executes in
the same time with kmmscand disabled.  Not counted is waiting for another CPU, as in
lab/metrics.py: its length depends on how the host runs the vCPUs.

The promoter has nothing to do while costs are measured: a page needs the highest score,
and with the intervals that kmmscand chooses where nothing is hot no page gets it.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from lab import build, guest, instruments, metrics, programs, report, scenario, topology
from lab import cache as lab_cache
from lab.errors import LabError
from lab.instruments import InsnTable

SCHEMA = 1
NAME = "scanner"
DESCRIPTION = "Cost of kmmscand's scanner: instructions of the kernel, and its share of a CPU"

PER_ENTRY = 60.0  # target: instructions per page-table entry visited, at most
IDLE_SHARE = 0.10  # target: an idle pass costs less than this part of a full one

SIZES = (256, 1024, 4096, 8192)
IDLE_MB = 4096
SHARED_MB = 512
SHARED_PERIOD_MS = 500
PROCESSES = (1, 20, 200)
CPU_MB = 1024
LIMITS = {100: 6, 25: 15, 5: 20}  # percent: for so many seconds

SCAN_CPU = 1  # 0 runs the processes, 2 everything else
REGION_PAGES = 512
SLICE_PAGES = 64 * REGION_PAGES  # what the scanner does before it looks at the clock
SLEEP_S = 0.020  # it sleeps when it owes so much (KMMSCAND_SLEEP_NS)
TICK_S = 0.004  # CPU time of a running thread is known by the tick

SETTINGS = (
    "set hot_threshold 9",
    "set promote_rate_mbps 1",
    "set scan_period_ms 100",
    # No sleeping between slices: with a smaller share it would be part of the cost,
    # and under emulation, where a slice takes long, a much larger one than elsewhere.
    "set scan_cpu_pct 100",
)

WAIT_SYMBOLS = (
    *metrics.SPIN_SYMBOLS,
    "smp_call_function_many_cond",  # the acknowledgement of a TLB flush
    "lock_timer_base",  # a timer that just runs on another CPU
    "__timer_delete_sync",
)
# Functions of kmmscand that look for something to scan, or for the time to do it.
HOUSEKEEPING = frozenset(
    {
        "hotness_next_epoch",
        "kmmscand_cpu_pay",
        "kmmscand_epoch_ms",
        "kmmscand_get_nodes",
        "kmmscand_mm_get",
        "kmmscand_mms_drop",
        "kmmscand_next_shift",
        "kmmscand_procs_begin",
        "kmmscand_procs_end",
        "kmmscand_procs_next",
        "kmmscand_sleep",
        "kmmscand_thread",
    }
)
# What its scanning calls in the rest of the kernel.
CALLED = frozenset(
    {
        "__pte_offset_map",
        "__pte_offset_map_lock",
        "__walk_page_range",
        "folio_activate",
        "pmdp_test_and_clear_young",
        "ptep_test_and_clear_young",
        "vm_normal_folio",
        "vm_normal_folio_pmd",
        "vm_normal_page",
        "walk_page_range",
        "walk_page_test",
        "walk_pgd_range",
        "walk_pud_range",
        "xa_load",
        "xas_load",
        "xas_start",
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
    # The first pass only clears, the next ones come ever more seldom.
    touched = (*SETTINGS, "touch 100 0", "measure off seconds 2", "on", "passes 3")
    cases = [
        Case(
            f"size-{size}",
            size,
            1,
            (
                *touched,
                "measure touched passes 4",
                *("touch 0 1", "passes 2", "measure read passes 4"),
                # 16: each page table is read once in so many passes
                *("touch 0 0", "passes 2", "measure untouched passes 16"),
            ),
        )
        for size in sizes
    ]
    idle = (
        *touched,
        "measure touched passes 2",
        *("touch 1 1", "passes 2", "measure full passes 4"),
        *("touch 1 0", "passes 16", "measure idle passes 16"),
    )
    cases.append(Case("idle", idle_mb, 1, idle))
    # Many take turns on the CPUs, and not all come to touch their pages in each short period.
    turns = (*touched, f"set scan_period_ms {SHARED_PERIOD_MS}", "passes 2")
    cases += [
        Case(f"processes-{n}", shared_mb, n, (*turns, "measure touched passes 4"))
        for n in processes
    ]
    # All pages count as hot, so the scanner never has a pause of its own.
    limits = [*SETTINGS, "set hot_threshold 1", "touch 100 0", "on", "passes 2"]
    for percent, seconds in LIMITS.items():
        limits += [f"set scan_cpu_pct {percent}", "passes 1"]
        limits.append(f"measure limit-{percent} seconds {seconds}")
    cases.append(Case("cpu", cpu_mb, 1, tuple(limits)))
    return cases


# --- arithmetic -----------------------------------------------------------------


def is_scanning(symbol: str) -> bool:
    """Is it a function that reads page tables, or that is called for an entry?"""
    ours = symbol.startswith(("kmmscand_", "hotness_")) and symbol not in HOUSEKEEPING
    return ours or symbol in CALLED


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
    scanned, young = point["kmmscand_pte_scanned"], point["kmmscand_pte_young"]
    covered = scanned + REGION_PAGES * point["kmmscand_pmd_skipped"]
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


def cpu_share(point: dict[str, Any], percent: int, unlimited: float | None) -> dict[str, Any]:
    """The scanner's share of a CPU against its limit; ``unlimited`` is its share without one.

    Within the interval it can have used what it has not paid for yet: one slice, and what
    it may owe without sleeping; and the kernel's figure can be late by a tick.
    """
    limit = percent / 100
    share = point["cpu_s"] / point["seconds"]
    figures = {"limit": limit, "share": share, "tolerance": None, "verdict": None}
    if limit == 1:
        return figures
    scanned = point["kmmscand_pte_scanned"]
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
        free = points.get("limit-100")
        unlimited = free["cpu_s"] / free["seconds"] if free else None
        for name, point in points.items():
            if name.startswith("limit-"):
                percent = int(name.partition("-")[2])
                point["figures"] = cpu_share(point, percent, unlimited)
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


def missed(cases: Sequence[dict[str, Any]]) -> list[str]:
    """The targets that are missed."""
    found = []
    for case in cases:
        for name, point in case["points"].items():
            figures = point.get("figures", {})
            where = f"{case['name']}, {PATTERNS.get(name, name)}"
            if case["name"].startswith("size-") and name != "off":
                if not cheap_entry(figures["per_entry"]):
                    found.append(
                        f"{where}: {_figure(figures['per_entry'])} instructions per entry visited, "
                        f"the target is at most {PER_ENTRY:g}"
                    )
            elif name == "idle" and not cheap_idle(figures["share_of_full"]):
                found.append(
                    f"{where}: a pass costs {_share(figures['share_of_full'])} of a full one, "
                    f"the target is less than {IDLE_SHARE:.0%}"
                )
            elif figures.get("verdict") == "above":
                found.append(
                    f"{where}: {figures['share']:.2%} of a CPU, the limit is {figures['limit']:.0%}"
                )
    return found


def check(cases: Sequence[dict[str, Any]]) -> list[str]:
    """What makes a figure meaningless; empty if nothing does."""
    failures = []
    for case in cases:
        pages = case["size_mb"] * 256
        for name, point in case["points"].items():
            where = f"{case['name']}, {PATTERNS.get(name, name)}"
            figures, moved = point.get("figures", {}), point["pgpromote_success"]
            # Where the limit is measured all pages are hot, and 1 MiB per second may move.
            if moved > pages * (0.05 if "limit" in figures else 0.01):
                failures.append(f"{where}: {moved} of {pages} pages were promoted meanwhile")
            if figures.get("verdict") == "not needed":
                failures.append(f"{where}: the scanner uses no more without the limit")
            young = figures.get("young_share")
            # Many processes have many other pages, on the fast node.
            if name == "touched" and (young is None or young < 0.9):
                failures.append(f"{where}: only {_share(young)} of the entries were young")
            if name == "untouched" and young is not None and young > 0.01:
                failures.append(f"{where}: {_share(young)} of the entries were young")
            # They also have many other page tables, which are skipped.
            read = figures.get("read_share") if case["processes"] == 1 else 1.0
            if name in ("touched", "read", "full") and (read is None or read < 0.95):
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
        fast_cpus=3,
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
    return {
        "schema": SCHEMA,
        "scenario": NAME,
        "description": DESCRIPTION,
        "command": scenario.command_line(sys.argv),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "host": scenario.host_info(),
        "kernel": kernel.describe(),
        "targets": {"per_entry": PER_ENTRY, "idle_share": IDLE_SHARE},
        "cases": done,
        "missed": missed(done),
        "failures": check(done),
    }


# --- showing --------------------------------------------------------------------


def _figure(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _verdict(good: bool) -> str:
    return "met" if good else "MISSED"


def size_table(cases: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Instructions per entry, by size and pattern."""
    rows = [
        [
            "memory, how it is touched",
            "per entry visited",
            f"target: {PER_ENTRY:g}",
            "in scanning functions",
            "waiting, not counted",
            "per pass",
            "entries visited per pass",
            "of them young",
        ]
    ]
    for case in cases:
        if not case["name"].startswith("size-"):
            continue
        for name, point in case["points"].items():
            if name == "off":
                continue
            figures = point["figures"]
            rows.append(
                [
                    f"{case['size_mb']} MiB, {PATTERNS[name]}",
                    _figure(figures["per_entry"]),
                    _verdict(cheap_entry(figures["per_entry"])),
                    _figure(figures["scanning_per_entry"]),
                    _figure(figures["waiting_per_entry"]),
                    _figure(figures["per_pass"], 0),
                    _figure(figures["visited_per_pass"], 0),
                    _share(figures["young_share"]),
                ]
            )
    return rows


def idle_table(cases: Sequence[dict[str, Any]]) -> list[list[str]]:
    """An idle pass against full ones."""
    rows = [
        [
            "memory, how it is touched",
            "instructions per pass",
            "entries visited",
            "an idle pass is of it",
            f"target: under {IDLE_SHARE:.0%}",
        ]
    ]
    for case in cases:
        if "idle" not in case["points"]:
            continue
        for name in ("idle", "full", "touched"):
            figures = case["points"][name]["figures"]
            share = case["points"]["idle"]["figures"].get(f"share_of_{name}")
            rows.append(
                [
                    f"{case['size_mb']} MiB, {PATTERNS[name]}",
                    _figure(figures["per_pass"], 0),
                    _share(figures["read_share"]),
                    _share(share),
                    _verdict(cheap_idle(share)) if name == "full" else "-",
                ]
            )
    return rows


def process_table(cases: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The same memory in few and in many processes."""
    rows = [
        [
            "processes",
            "memory of all",
            "instructions per round over all",
            "per process",
            "per entry visited",
            "in scanning functions",
            "waiting, not counted",
        ]
    ]
    for case in cases:
        if not case["name"].startswith("processes-"):
            continue
        point = case["points"]["touched"]
        figures = point["figures"]
        rows.append(
            [
                str(case["processes"]),
                f"{case['size_mb']} MiB",
                _figure(figures["per_pass"], 0),
                _figure(figures["per_process"], 0),
                _figure(figures["per_entry"]),
                _figure(figures["scanning_per_entry"]),
                _figure(figures["waiting_per_entry"]),
            ]
        )
    return rows


def cpu_table(cases: Sequence[dict[str, Any]]) -> list[list[str]]:
    """CPU time of the scanner against its limit."""
    verdicts = {"within": "met", "above": "MISSED", "not needed": "says nothing", None: "-"}
    rows = [["scan_cpu_pct", "share of a CPU", "tolerance, points", "guest seconds", "target"]]
    for case in cases:
        for point in case["points"].values():
            figures = point.get("figures", {})
            if "limit" not in figures:
                continue
            rows.append(
                [
                    f"{100 * figures['limit']:.0f}",
                    f"{figures['share']:.2%}",
                    "-" if figures["tolerance"] is None else f"{100 * figures['tolerance']:.2f}",
                    f"{point['seconds']:.1f}",
                    verdicts[figures["verdict"]],
                ]
            )
    return rows


TABLES = (
    (
        "Instructions per page-table entry",
        size_table,
        (
            "Instructions of the kernel on the scanner's CPU, on which nothing else runs, less "
            "those in the same time with kmmscand disabled. Where every page is touched, an entry "
            "visited is one of kmmscand_pte_young; elsewhere one of kmmscand_pte_scanned, and "
            "the few of the guest's init and shell, on the fast node, are among them.",
            "Looking for processes and page tables that are skipped are part of the cost. Where "
            "nothing is touched, 15 of 16 page tables are skipped, so there are few entries that "
            "it can be divided by.",
            "In scanning functions: those that read page tables, and what they call for an entry.",
            "Waiting: for the acknowledgement of TLB flushes, for locks and for timers that run "
            "on another CPU. How long depends on how the host schedules vCPUs.",
        ),
    ),
    (
        "Mostly idle memory",
        idle_table,
        (
            "Idle: after 16 passes with this pattern, over 16 more. The target is for the share "
            "of a full pass over the same memory, with the same entries young and one more in each "
            "page table, so that none can be skipped. The other full pass finds all entries young.",
        ),
    ),
    (
        "Processes",
        process_table,
        (
            "Every page is touched. A round goes over the memory of all processes; the rounds "
            "between in which none is due are part of its cost. The scan period is "
            f"{SHARED_PERIOD_MS} ms here, so that each process comes to touch its pages.",
        ),
    ),
    (
        "Share of a CPU",
        cpu_table,
        (
            "Run time of the thread by the scheduler (se.sum_exec_runtime; the kernel has no "
            "schedstat) over the guest's time; 100 is no limit and shows what it would use. After "
            "a round it sleeps to the end of the epoch, so the limit is not always used up.",
            "Tolerance: what it can have used and not yet paid for by sleeping, one slice of 64 "
            "page tables and what it owes below 20 ms, and a tick by which the figure can be late.",
        ),
    ),
)


def notes(result: dict[str, Any]) -> list[str]:
    """What a reader must know to use the tables."""
    host, kernel = result["host"], result["kernel"]
    moved = sum(
        point["pgpromote_success"]
        for case in result["cases"]
        for name, point in case["points"].items()
        if not name.startswith("limit-")
    )
    tuned = [" = ".join(line.split()[1:]) for line in SETTINGS]
    return [
        f"Emulated (TCG, {host['qemu']}), {host['cpus']} host CPUs. Instructions are "
        "counted; they are no seconds of hardware, where cache misses decide. Iterations of rep "
        "instructions are left out.",
        f"Kernel {kernel['release']} ({kernel['flavour']} {kernel['key']}) from "
        f"{kernel['base_version']}.",
        f"Tuned: {', '.join(tuned)}. No page can reach that score with the intervals "
        f"that kmmscand chooses here: {moved} pages were promoted while costs were measured.",
        "For the share of a CPU hot_threshold = 1, so that there is always something to scan; "
        "1 MiB per second may be promoted meanwhile.",
    ]


def markdown(result: dict[str, Any]) -> str:
    """The page for docs/results."""
    text = [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        f"# {result['scenario']}",
        "",
        result["description"] + ".",
        "",
        f"Measured {result['date']} with `{result['command']}` in {result['seconds']:.0f} s.",
        "",
        *(f"- **Target missed:** {line}." for line in result["missed"]),
        *(f"- **Failed check:** {line}." for line in result["failures"]),
        *(
            []
            if result["missed"] or result["failures"]
            else ["- All targets of these cases are met."]
        ),
        "",
    ]
    for title, table, remarks in TABLES:
        rows = table(result["cases"])
        if len(rows) > 1:
            text += [f"## {title}", "", *report.markdown_rows(rows), ""]
            text += [*(f"- {line}" for line in remarks), ""]
        name, words, plot = PLOTS[table]
        if plot(result["cases"]):
            text += [f"![{words}]({name}.svg)", ""]
    text += ["## How it was measured", "", *(f"- {line}" for line in notes(result)), ""]
    return "\n".join(text)


def size_svg(cases: Sequence[dict[str, Any]]) -> str:
    """Instructions per entry visited over the size; empty where there is one size only."""
    sized = [case for case in cases if case["name"].startswith("size-")]
    sizes = sorted({case["size_mb"] for case in sized})
    if len(sizes) < 2:
        return ""
    lines = []
    for name, label in LINES.items():
        values = [
            (math.log2(case["size_mb"]), case["points"][name]["figures"]["per_entry"])
            for case in sized
        ]
        lines.append((label, sorted(value for value in values if value[1] is not None)))
    ends = (math.log2(sizes[0]), math.log2(sizes[-1]))
    lines.append((f"target {PER_ENTRY:g}", [(end, PER_ENTRY) for end in ends]))
    highest = max(value for _, line in lines for _, value in line)
    step = next((s for s in (10, 20, 50, 100, 200) if highest / s <= 8), 500)
    top = step * math.ceil(highest / step)
    return report.chart(
        "scanner: kernel instructions per page-table entry visited",
        lines,
        [(math.log2(size), f"{size} MiB") for size in sizes],
        [(value, f"{value:g}") for value in range(0, top + 1, step)],
        first=ends[0],
        last=ends[1],
        top_y=top,
    )


def idle_svg(cases: Sequence[dict[str, Any]]) -> str:
    """Instructions of an idle pass and of full ones; empty without the case."""
    labels = {
        "idle": "1 % touched",
        "full": "1 %, and a page of each 2 MiB",
        "touched": "all touched",
    }
    found = [
        (label, [per_pass / 1e6])
        for case in cases
        if "idle" in case["points"]
        for name, label in labels.items()
        if (per_pass := case["points"][name]["figures"]["per_pass"]) is not None
    ]
    if not found:
        return ""
    title = "scanner: an idle pass and full ones over the same memory"
    return report.bars(title, ["million kernel instructions per pass"], found)


def process_svg(cases: Sequence[dict[str, Any]]) -> str:
    """Instructions per round and per process; empty where there is one number of them only."""
    several = sorted(
        (case["processes"], case["points"]["touched"]["figures"])
        for case in cases
        if case["name"].startswith("processes-")
    )
    lines = [
        (label, [(math.log2(n), row[key] / 1e6) for n, row in several if row[key] is not None])
        for key, label in (("per_pass", "round over all"), ("per_process", "per process"))
    ]
    highest = max((value for _, line in lines for _, value in line), default=0.0)
    if len(several) < 2 or highest <= 0:
        return ""
    step = report.round_step(highest)
    top = math.ceil(highest / step)
    return report.chart(
        "scanner: million kernel instructions for the same memory, over the number of processes",
        lines,
        [(math.log2(n), f"{n}") for n, _ in several],
        [(n * step, f"{n * step:g}") for n in range(top + 1)],
        first=math.log2(several[0][0]),
        last=math.log2(several[-1][0]),
        top_y=top * step,
    )


def cpu_svg(cases: Sequence[dict[str, Any]]) -> str:
    """The scanner's share of a CPU over its limit; empty where there is one limit only."""
    shares = sorted(
        (figures["limit"], figures["share"])
        for case in cases
        for point in case["points"].values()
        if "limit" in (figures := point.get("figures", {}))
    )
    if len(shares) < 2:
        return ""
    ends = (shares[0][0], shares[-1][0])
    top = max(value for pair in shares for value in pair)
    return report.chart(
        "scanner: share of a CPU over scan_cpu_pct",
        [("share of a CPU", shares), ("limit", [(end, end) for end in ends])],
        [(limit, f"{100 * limit:g} %") for limit, _ in shares],
        [(n / 5, f"{20 * n} %") for n in range(math.floor(5 * top) + 1)],
        first=ends[0],
        last=ends[1],
        top_y=top,
    )


# Of each table: the plot's file, what it is, and who draws it.
PLOTS = {
    size_table: (NAME, "instructions per entry over size", size_svg),
    idle_table: (f"{NAME}-idle", "instructions of an idle pass and of full ones", idle_svg),
    process_table: (f"{NAME}-processes", "instructions over the number of processes", process_svg),
    cpu_table: (f"{NAME}-cpu", "share of a CPU over its limit", cpu_svg),
}


def show(result: dict[str, Any], stream: TextIO = sys.stdout) -> None:
    """The tables as plain text."""
    for title, table, _ in TABLES:
        rows = table(result["cases"])
        if len(rows) > 1:
            print(f"\n{title}\n", file=stream)
            report.print_rows(rows, stream)
    print(file=stream)
    for line in result["missed"]:
        print(f"  TARGET MISSED: {line}", file=stream)
    for line in result["failures"]:
        print(f"  FAILED CHECK: {line}", file=stream)


def write(result: dict[str, Any], directory: Path) -> None:
    """scanner.json, scanner.md and a plot of each kind of case that has something to draw."""
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1) + "\n"
    (directory / f"{NAME}.json").write_text(text, encoding="utf-8")
    (directory / f"{NAME}.md").write_text(markdown(result), encoding="utf-8")
    for name, _, draw in PLOTS.values():
        plot, path = draw(result["cases"]), directory / f"{name}.svg"
        path.unlink(missing_ok=True)
        if plot:
            path.write_text(plot, encoding="utf-8")
