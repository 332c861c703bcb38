# SPDX-License-Identifier: GPL-2.0
"""Show a comparison: table on the terminal, Markdown, JSON, and an SVG plot.

Nothing is computed here: the figures come from lab/metrics.py, and a figure
that does not exist is shown as "-", never as zero.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any, TextIO

from lab import damon
from lab.metrics import ROWS, Row, ratio_series

COLOURS = ("#666666", "#c44e1e", "#1e6fc4", "#2e8b3d", "#8b3d8b", "#b8860b")


def cell(row: Row, figures: dict[str, Any]) -> str:
    """One figure as text."""
    value = figures.get(row.key)
    if value is None:
        return "-"
    if row.kind == "ratio":
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
    if row.kind == "per_page":
        noise = figures.get(row.key + "_noise")
        if noise is None:
            return f"{value:,.0f} (?)"
        return f"within noise ({noise:,.0f})" if abs(value) <= noise else f"{value:,.0f}"
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


def shift_times(result: dict[str, Any]) -> dict[str, float]:
    """When the hot set moved, of the contenders whose workload moved it."""
    times = {run["name"]: run["agent"]["workload"].get("shift_s") for run in result["contenders"]}
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
            "Hit ratio: loads and stores of user code on the app CPUs"
            + (
                f" that miss a model cache of {measure['cache_lines']} lines of 64 bytes"
                if measure["cache_lines"]
                else ""
            )
            + f"; 'at the end' is the last {measure['tail_s']:g} s or a quarter of the run."
        )
    shifts = shift_times(result)
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
    lines.append(
        "All contenders do the same operations; a scanner that works by the clock gets more "
        "rounds where the guest is slower. Emulated seconds are no measure of speed."
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
            + "."
        )
    return lines


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
    print_rows(table(result), stream)
    print(file=stream)
    for line in notes(result):
        print(f"  {line}", file=stream)
    for failure in result["failures"]:
        print(f"  FAILED CHECK: {failure}", file=stream)
    print(file=stream)


def markdown(result: dict[str, Any]) -> str:
    """The comparison as a page for docs/results."""
    name = result["scenario"]
    text = [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        f"# {name}",
        "",
        result["description"] + ".",
        "",
        f"Measured {result['date']} with `{result['command']}` in {result['seconds']:.0f} s.",
        "",
        *markdown_rows(table(result)),
        "",
        *(f"- {line}" for line in notes(result)),
        *(f"- **Failed check:** {failure}" for failure in result["failures"]),
        "",
    ]
    if any("access" in run for run in result["contenders"]):
        text += [f"![hit ratio over time]({name}.svg)", ""]
    return "\n".join(text)


def chart(
    title: str,
    lines: list[tuple[str, list[tuple[float, float]]]],
    x_ticks: list[tuple[float, str]],
    y_ticks: list[tuple[float, str]],
    *,
    last: float,
    first: float = 0.0,
    top_y: float = 1.0,
    marks: dict[str, float] | None = None,
) -> str:
    """An SVG plot of some lines; x goes from ``first`` to ``last``, y from 0 to ``top_y``.

    ``marks`` are places on the x axis, by the name of the line that they belong to.
    """
    width, height, left, right, top, bottom = 760, 340, 56, 16, 34, 60
    marks = marks or {}

    def x(value: float) -> float:
        return left + (width - left - right) * (value - first) / (last - first)

    def y(value: float) -> float:
        return height - bottom - (height - top - bottom) * value / top_y

    out = [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
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


def svg(result: dict[str, Any]) -> str:
    """The fast-tier hit ratio over time, one line per contender."""
    lines = [
        (run["name"], ratio_series(run["access"]))
        for run in result["contenders"]
        if "access" in run
    ]
    last = max((series[-1][0] for _, series in lines if series), default=1.0)
    step = next((s for s in (1, 2, 5, 10, 20, 30, 60, 120, 300) if last / s <= 8), 600)
    return chart(
        f"{result['scenario']}: share of accesses served by the fast tier",
        lines,
        [(tick, f"{tick} s") for tick in range(0, int(last) + 1, step)],
        [(tenth / 10, f"{tenth * 10} %") for tenth in range(0, 11, 2)],
        last=last,
        marks=shift_times(result),
    )


def write(result: dict[str, Any], directory: Path) -> None:
    """NAME.json, NAME.md and, where there is a series, NAME.svg."""
    directory.mkdir(parents=True, exist_ok=True)
    name = result["scenario"]
    (directory / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (directory / f"{name}.md").write_text(markdown(result), encoding="utf-8")
    if any("access" in run for run in result["contenders"]):
        (directory / f"{name}.svg").write_text(svg(result), encoding="utf-8")
