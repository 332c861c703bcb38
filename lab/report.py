# SPDX-License-Identifier: GPL-2.0
"""Show a comparison: tables on the terminal, Markdown, JSON, and SVG plots.

Nothing is computed here: the figures come from lab/metrics.py, and a figure
that does not exist is shown as "-", never as zero.
"""

from __future__ import annotations

import math
import sys
from html import escape
from typing import Any, TextIO

from lab import damon, topology
from lab.metrics import (
    CLAIMED,
    KERNEL_INSN_NS,
    ROWS,
    SAME_RATIO,
    STEADY_ACCESSES,
    Row,
    against_numab2,
)

COLOURS = ("#666666", "#c44e1e", "#1e6fc4", "#2e8b3d", "#8b3d8b", "#b8860b")
# The kinds of lab/instruments.py and the places of metrics.overhead(), for readers.
KINDS = {
    "scan": "scanning and choosing",
    "fault": "page faults",
    "migration": "migration",
    "reclaim": "reclaim and demotion",
    "ipi": "cross-CPU interrupts",
    "other": "everything else",
}
PLACES = {
    "process app": "processes, app CPUs",
    "process other": "processes, other CPUs",
    "thread app": "kernel threads, app CPUs",
    "thread other": "kernel threads, other CPUs",
}
# What a sweep compares, with names that can stand alone.
SWEEP_ROWS = {
    "hit_ratio_end": "hit ratio at the end",
    "memory_kernel_time": "modelled memory and kernel time",
    "t90_best_s": "t90",
    "t90_again_s": "t90 after the move",
    "promoted": "promoted",
    "demoted": "demoted",
    "app_per_page": "app kernel insns per promoted page",
    "all_per_page": "all kernel insns per promoted page",
}
# The keys of metrics.against_numab2()
CLAIM_ROWS = {
    "overhead": "overhead: scanning and migration",
    "of_app": "  of that, by processes on app CPUs",
    "completion": "time to completion",
}
MEGA = 1e6
LEAST = 0.05  # million instructions; what rounds to nothing everywhere is not shown


def cell(row: Row, figures: dict[str, Any]) -> str:
    """One figure as text."""
    value = figures.get(row.key)
    if value is None:
        return "-"
    if row.kind == "ratio":
        noise = figures.get(row.key + "_noise")  # of a share of the baseline's
        if noise is not None and abs(value - 1) <= noise:
            return f"within noise ({noise:.1%})"
        return f"{value:.1%}"
    if row.kind == "points":
        return f"{value:.1f}"
    if row.kind == "seconds":
        return f"{value:.1f} s"
    if row.kind == "times":
        return f"{value:.2f}"
    if row.kind == "ns":
        return f"{value:.0f} ns"
    if row.kind == "per_op":
        return f"{value:,.1f}"
    if row.kind in ("per_page", "per_access"):
        digits = 0 if row.kind == "per_page" else 2
        noise = figures.get(row.key + "_noise")
        if noise is None:
            return f"{value:,.{digits}f} (?)"
        if abs(value) <= noise:
            return f"within noise ({noise:,.{digits}f})"
        return f"{value:,.{digits}f}"
    return f"{value:,.0f}"


def table(result: dict[str, Any]) -> list[list[str]]:
    """Header and rows; rows in which no contender has a figure are left out."""
    figures = result["metrics"]["figures"]
    names = [run["name"] for run in result["contenders"]]
    kernels = {run["name"]: run["kernel"]["flavour"] for run in result["contenders"]}
    rows = [["", *(f"{name}@{kernels[name]}" for name in names)]]
    for row in ROWS:
        if any(figures[name].get(row.key) is not None for name in names):
            rows.append([row.label, *(cell(row, figures[name]) for name in names)])
    return rows


def sweep_table(result: dict[str, Any]) -> list[list[str]]:
    """Header and a row per contender, the best variant of each rival marked; [] if no sweep."""
    metrics, best = result["metrics"], result["metrics"]["best"].values()
    shown = [
        row
        for row in ROWS
        if row.key in SWEEP_ROWS
        and any(figures.get(row.key) is not None for figures in metrics["figures"].values())
    ]
    rows = [["", *(SWEEP_ROWS[row.key] for row in shown)]]
    for name, figures in metrics["figures"].items():
        mark = " (best)" if name in best else ""
        rows.append([name + mark, *(cell(row, figures) for row in shown)])
    return rows if best else []


def _mega(value: float) -> str:
    return f"{round(value, 1) or 0:,.1f}"  # no -0.0


def overhead_table(result: dict[str, Any]) -> list[list[str]]:
    """Header and rows: million kernel instructions beyond the baseline's; [] without any."""
    found = result["metrics"]["overhead"]
    rows = [["million kernel instructions more than without tiering", *found]]
    for kind, kind_label in KINDS.items():
        for place, place_label in PLACES.items():
            values = [counts[kind][place] / MEGA for counts in found.values()]
            if any(abs(value) >= LEAST for value in values):
                rows.append([f"{kind_label}: {place_label}", *map(_mega, values)])
    for place, place_label in PLACES.items():
        sums = [sum(count[place] for count in kinds.values()) for kinds in found.values()]
        rows.append([f"all kinds: {place_label}", *(_mega(n / MEGA) for n in sums)])
    return rows if found else []


def time_table(result: dict[str, Any]) -> list[list[str]]:
    """Header and rows: CPU seconds of the application and of kernel threads."""
    runs = [run for run in result["contenders"] if "thread_s" in run["agent"]["measured"]]
    rows = [["CPU time (emulated)", *(run["name"] for run in runs)]]
    found = [run["agent"]["measured"] for run in runs]
    for what in ("user", "system"):
        times = [f"{measured['process_s'][what]:.2f} s" for measured in found]
        rows.append([f"application, {what}", *times])
    for name in sorted({name for measured in found for name in measured["thread_s"]}):
        times = [measured["thread_s"].get(name) for measured in found]
        rows.append([name, *("-" if t is None else f"{t:.2f} s" for t in times)])
    return rows if runs else []


def claim_table(result: dict[str, Any]) -> list[list[str]]:
    """Header and rows: what kmmscand's post claims beside what is found here; [] without any."""
    ours = against_numab2(result)
    if not ours:
        return []
    rows = [["tiershift against NUMA balancing mode 2", "claim, 8 GB", "claim, 32 GB", "here"]]
    for key, label in CLAIM_ROWS.items():
        values = [*CLAIMED[result["scenario"]].get(key, (None, None)), ours[key]]
        rows.append([label, *("-" if value is None else f"{value:+.1%}" for value in values)])
    return rows


def claim_notes() -> list[str]:
    """What a reader must know to use the table of claims."""
    return [
        "Claim: what the RFC that kmmscand was first posted with (2024-12-01) says of its own code "
        "and its own hardware (AMD EPYC, 512 CPUs, 64 threads on 8 and 32 GB of CXL memory). It "
        "has not been measured here, and is no measure of this code.",
        "The claim is in seconds. Here overhead is kernel instructions more than without tiering "
        "for scanning, page faults and migration, whoever executes them, and completion is "
        "modelled memory time with the kernel instructions on app CPUs.",
    ]


def times_of(result: dict[str, Any], key: str) -> dict[str, float]:
    """When the hot set moved ("shift_s") or the processes did ("swap_s"), where they did."""
    times = {run["name"]: run["agent"]["workload"].get(key) for run in result["contenders"]}
    return {name: float(t) for name, t in times.items() if t}


def tunables(run: dict[str, Any]) -> list[str]:
    """What of a contender is not at its default."""
    values = dict(run["settings"])
    if run.get("args"):
        values["arguments"] = " ".join(run["args"])
    default = damon.Tunables()
    for name, value in (run.get("damon") or {}).items():
        if value != getattr(default, name, None):
            values[f"damon.{name}"] = value
    return [f"{name} = {value}" for name, value in values.items()]


def notes(result: dict[str, Any]) -> list[str]:
    """What a reader must know to use the table."""
    setup, machine = result["setup"], result["machine"]
    measure, noise = setup["measure"], result["metrics"]["noise"]
    nodes = ", ".join(
        f"{node['name']} {node['size_mb']} MiB"
        + (f" with {node['cpus']} CPUs" if node["cpus"] else " without CPUs")
        for node in machine["nodes"]
    )
    cpus = ", ".join(str(cpu) for cpu in measure["app_cpus"])
    lines = [
        f"Machine: {nodes}; emulated (TCG, {result['host']['qemu']}), "
        f"{result['host']['cpus']} host CPUs.",
        f"App CPUs: {cpus}. One operation is one {measure['unit']}.",
    ]
    if "access" in measure["instruments"]:
        lines.append(
            "Hit ratio: "
            + (
                "what read(2) copies from page cache, by loads of the kernel's copying routine"
                if measure.get("accesses") == "read"
                else "loads and stores of user code"
            )
            + " on the app CPUs"
            + (
                f" that miss a model cache of {measure['cache_lines']} lines of 64 bytes"
                if measure["cache_lines"]
                else ""
            )
            + f"; 'at the end' is the last {measure['tail_s']:g} s or a quarter of the run."
        )
    if any("local_ratio" in figures for figures in result["metrics"]["figures"].values()):
        home = topology.from_dict(machine)
        lines.append(
            "Read latencies of HMAT, for the CPUs of node 0: "
            + ", ".join(
                f"{node.name} {home.latency_ns(0, n)} ns" for n, node in enumerate(home.nodes)
            )
            + ". Local: served by the fast node of the CPU's own socket. The own node of a "
            "process is the fast one of the socket on which it ends."
        )
    swaps = times_of(result, "swap_s")
    if swaps:
        lines.append(
            "The processes change sockets once, after "
            + ", ".join(f"{t:.1f} s ({name})" for name, t in swaps.items())
            + "."
        )
    shifts = times_of(result, "shift_s")
    if shifts:
        lines.append(
            "The hot set moves once, after "
            + ", ".join(f"{t:.1f} s ({name})" for name, t in shifts.items())
            + "; before and after are two parts, each with its own end and its own 90 %."
        )
    if "insn" in measure["instruments"]:
        lines.append(
            "Kernel instructions: without the idle loop, without spinning on a lock (its "
            "length depends on how the host schedules vCPUs), without rep iterations."
        )
    if result["metrics"]["baseline"] and "insn" in measure["instruments"]:
        lines.append(
            f"Per promoted page: difference to '{result['metrics']['baseline']}' over the same "
            "operations, divided by the pages promoted; noise between two equal runs: "
            + (
                f"{noise['app']:.1f} (app) and {noise['all']:.1f} (all) instructions per "
                f"operation, {noise['source']}."
                if noise["app"]
                else "not measured, hence the (?)."
            )
        )
    figures = result["metrics"]["figures"].values()
    if any("memory_time" in row for row in figures):
        lines.append(
            "Modelled time per access: the mean over all counted accesses of the read latency "
            "that HMAT states for their node, relative to the run without tiering. It assumes "
            "that each of them misses all caches and that none overlaps with another. The second "
            "model takes as many accesses per operation as there were without tiering, and adds "
            f"{KERNEL_INSN_NS:g} ns (assumed) for each kernel instruction on the app CPUs, and "
            "nothing for other CPUs."
            + (
                ""
                if any("memory_kernel_time" in row for row in figures)
                or not any("app_kernel" in row for row in figures)
                else " It is left out: the accesses counted per operation differ by more than "
                f"{STEADY_ACCESSES:.0%}, so there is no saying what the kernel's part weighs."
            )
        )
    if any("app_per_fast" in row for row in figures):
        lines.append(
            "Per fast-tier access gained: the same difference of kernel instructions, divided by "
            "how many more accesses the fast tier served than without tiering."
        )
    lines.append(
        "All contenders do the same operations; a scanner that works by the clock gets more "
        "rounds where the guest is slower. Emulated seconds are no measure of speed."
    )
    if result["metrics"]["best"]:
        lines.append(
            "Best: of each rival's variants the one with the highest hit ratio at the end; if "
            f"several are within {100 * SAME_RATIO:g} points of it, the one with the least t90, "
            "the time to 90 % of the ratio of the best scheme in this table. tiershift has its "
            "defaults."
        )
    if any(run["mode"] == "damon" for run in result["contenders"]):
        lines.append(
            "DAMON's moves are no promotions to the kernel (pgpromote_success); its pages "
            "promoted are what migrate_hot moved by the statistics of DAMOS, its pages demoted "
            "what migrate_cold and reclaim moved."
        )
    for run in result["contenders"]:
        tuned = ", ".join(tunables(run))
        place = run["agent"].get("placement")
        hot = run["agent"]["workload"].get("placed_hot")
        lines.append(
            f"{run['name']}: kernel {run['kernel']['release']} ({run['kernel']['flavour']} "
            f"{run['kernel']['key']}) from {run['kernel']['base_version']}, "
            f"demotion {'on' if run['demotion'] else 'off'}, "
            + (f"{place['share']:.1%} on the slow node at START, " if place and not hot else "")
            + (f"{hot} pages that are picked most on the fast node at START, " if hot else "")
            + (f"tuned: {tuned}" if tuned else "default parameters")
            + (f", measured {run['date']}" if "date" in run else "")
            + "."
        )
    return lines


def overhead_notes() -> list[str]:
    """What a reader must know to use the overhead tables."""
    return [
        "Exact counts of instructions, without the idle loop and spinning on locks. What is "
        "called from a kind of work belongs to it (the innermost kind counts), shared helpers "
        "included.",
        "Processes: in the context of any process, of the application on its CPUs; an interrupt "
        "counts where it came. Kernel threads include idle CPUs.",
        "Scanning and choosing: task_numa_work(), kmmscand, kpromoted but for its migrations, "
        "kdamond but for its migrations. Page faults: all of exc_page_fault(), mostly hint faults "
        "once a workload has its memory. Migration: migrate_misplaced_folio(), tier_promote() "
        "with its checks and isolation, DAMON's both ways; others demote in 'reclaim'. "
        "Cross-CPU interrupts: TLB shootdowns and some wake-ups, on the CPU that receives them; "
        "what the sender does belongs to the work that it does it for.",
        "CPU time: exact to the scheduler for kernel threads, by clock ticks for the "
        "application; seconds of an emulated CPU, good for shares within a column only.",
    ]


def _tables(result: dict[str, Any]) -> list[list[list[str]]]:
    if swept := sweep_table(result):
        return [swept]
    return [table(result), overhead_table(result), time_table(result), claim_table(result)]


def print_rows(rows: list[list[str]], stream: TextIO) -> None:
    """Header and rows as aligned plain text."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        text = "  ".join(
            item.ljust(width) if i == 0 else item.rjust(width)
            for i, (item, width) in enumerate(zip(row, widths, strict=True))
        )
        print(text.rstrip(), file=stream)
        if not number:
            print("-" * len(text), file=stream)


def markdown_rows(rows: list[list[str]]) -> list[str]:
    """Header and rows as lines of a Markdown table; indentation stays visible."""
    shown = [
        [item.strip() if i else item.replace("  ", "&nbsp;&nbsp;") for i, item in enumerate(row)]
        for row in rows
    ]
    return [
        "| " + " | ".join(shown[0]) + " |",
        "|---|" + "---:|" * (len(shown[0]) - 1),
        *("| " + " | ".join(row) + " |" for row in shown[1:]),
    ]


def print_table(result: dict[str, Any], stream: TextIO = sys.stdout) -> None:
    """The comparison as aligned plain text."""
    print(f"\n{result['scenario']}: {result['description']}\n", file=stream)
    for rows in _tables(result):
        if rows:
            print_rows(rows, stream)
    for line in notes(result):
        print(f"  {line}", file=stream)
    for failure in result["failures"]:
        print(f"  FAILED CHECK: {failure}", file=stream)
    print(file=stream)


VERDICT = (
    "hit_ratio_end",
    "t90_best_s",
    "promoted",
    "hint_faults",
    "app_per_page",
    "all_per_page",
    "app_kernel_per_op",
    "ops",
)


def verdict(result: dict[str, Any]) -> str:
    """What the comparison says, in a sentence."""
    figures = {
        run["mode"]: result["metrics"]["figures"][run["name"]]
        for run in reversed(result["contenders"])
    }
    parts = []
    ours, theirs = figures.get("tiershift", {}), figures.get("numab2", {})
    mine, other = ours.get("hit_ratio_end"), theirs.get("hit_ratio_end")
    if mine is not None and other is not None:
        parts.append(
            f"the fast tier serves {mine:.1%} of the accesses at the end with tiershift and "
            f"{other:.1%} with NUMA balancing"
        )
    faults = ours.get("hint_faults"), theirs.get("hint_faults")
    if None not in faults:
        parts.append(f"applications take {faults[0]:,} hint faults instead of {faults[1]:,}")
    known = any(f"{key}_noise" in ours for key in ("app_per_page", "all_per_page"))
    noise = (
        "" if known else "  Equal runs were not compared here, so small differences mean nothing."
    )
    return ("In this run " + ", and ".join(parts) + "." if parts else "Nothing to compare.") + noise


def print_verdict(result: dict[str, Any], most: int, stream: TextIO = sys.stdout) -> None:
    """At most so many rows, and a sentence."""
    figures = result["metrics"]["figures"]
    names = [run["name"] for run in result["contenders"]]
    rows = [["", *names]]
    above = ""
    for row in ROWS:
        # An indented label goes on with the one above it, which may be left out here.
        label = f"{above}:{row.label[1:]}" if row.label.startswith(" ") else row.label
        above = above if row.label.startswith(" ") else row.label
        if row.key in VERDICT and any(figures[name].get(row.key) is not None for name in names):
            rows.append([label, *(cell(row, figures[name]) for name in names)])
    print(f"\n{result['scenario']}: {result['description']}\n", file=stream)
    print_rows(rows[: most + 1], stream)
    print(f"\n{verdict(result)}", file=stream)
    for failure in result["failures"]:
        print(f"FAILED CHECK: {failure}", file=stream)


def _svg_head(width: int, height: int) -> list[str]:
    return [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]


def chart(
    title: str,
    lines: list[tuple[str, list[tuple[float, float]]]],
    x_ticks: list[tuple[float, str]],
    y_ticks: list[tuple[float, str]],
    *,
    last: float,
    first: float = 0.0,
    top_y: float = 1.0,
    low_y: float = 0.0,
    marks: dict[str, float] | None = None,
) -> str:
    """An SVG plot of some lines; x from ``first`` to ``last``, y from ``low_y`` to ``top_y``.

    ``marks`` are places on the x axis, by the name of the line that they belong to.
    """
    width, height, left, right, top, bottom = 760, 340, 56, 16, 34, 60
    marks = marks or {}

    def x(value: float) -> float:
        return left + (width - left - right) * (value - first) / (last - first)

    def y(value: float) -> float:
        return height - bottom - (height - top - bottom) * (value - low_y) / (top_y - low_y)

    out = [
        *_svg_head(width, height),
        f'<text x="{left}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for value, label in y_ticks:
        at = y(value)
        out.append(
            f'<line x1="{left}" x2="{width - right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{escape(label)}</text>'
        )
    for value, label in x_ticks:
        out.append(
            f'<text x="{x(value):.1f}" y="{height - bottom + 18}" text-anchor="middle">'
            f"{escape(label)}</text>"
        )
    for number, (name, series) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in series)
        at = left + number * min(150, (width - left - right) // len(lines))
        if name in marks:
            out.append(
                f'<line x1="{x(marks[name]):.1f}" x2="{x(marks[name]):.1f}" y1="{top}" '
                f'y2="{height - bottom}" stroke="{colour}" stroke-dasharray="2 4"/>'
            )
        out.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<rect x="{at}" y="{height - 24}" width="14" height="4" fill="{colour}"/>'
            f'<text x="{at + 20}" y="{height - 18}">{escape(name)}</text>'
        )
    return "\n".join([*out, "</svg>", ""])


def round_step(highest: float, most: int = 8) -> float:
    """A step of 1, 2 or 5 times a power of ten, of which ``most`` at most reach the highest."""
    power = 10.0 ** math.floor(math.log10(highest / most)) if highest > 0 else 1.0
    return next(power * n for n in (1, 2, 5, 10) if highest <= most * power * n)
