# SPDX-License-Identifier: GPL-2.0
"""The same comparison some times over: which goals are met, and which only seem to be?

Two runs of one contender differ, by when its scan begins and by what kswapd has to do, so a
figure of one run says little about a goal that it misses by a tenth.  Here no tiering, NUMA
balancing and tiershift run in turns on a scenario.  What is judged is tiershift's figure divided
by NUMA balancing's of the same turn: its mean, and twice the standard error of that, must be on
one side of the goal.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import build, cache, metrics, report, scenario
from lab.errors import LabError
from lab.kept import Kept

TIMES = 5
MODES = ("none", "numab2", "tiershift")
OURS, RIVAL = "tiershift", "numab2"
EARLY_S = 2.0
ERRORS = 2.0  # as many standard errors must lie between a mean and the goal

Figures = dict[str, float | None]
Turn = dict[str, Figures]  # of one turn: by mode


@dataclass(frozen=True)
class Goal:
    """A figure, and how large it may be as a share of NUMA balancing's."""

    key: str
    title: str
    limit: float


GOALS = (
    Goal("t90_best_s", "time to 90 % of the best ratio", 0.5),
    Goal("app_per_page", "kernel instructions on app CPUs per promoted page", 1 / 20),
    Goal("all_per_page", "kernel instructions on all CPUs per promoted page", 1.0),
    Goal("all_per_fast", "kernel instructions on all CPUs per fast access gained", 1.0),
)
SHOWN = {
    "t90_best_s": ("time to 90 % of the best ratio, s", "{:.1f}"),
    "early": (f"million fast accesses in the first {EARLY_S:g} s", "{:,.2f}"),
    "hit_ratio": ("hit ratio, whole run", "{:.1%}"),
    "hit_ratio_end": ("hit ratio at the end", "{:.1%}"),
    "promoted": ("pages promoted", "{:,.0f}"),
    "demoted": ("pages demoted", "{:,.0f}"),
    "app_per_page": ("kernel instructions on app CPUs per page", "{:,.0f}"),
    "all_per_page": ("on all CPUs", "{:,.0f}"),
    "all_per_fast": ("on all CPUs per fast access gained", "{:.3f}"),
}


# --- arithmetic ---------------------------------------------------------------


def early(points: Sequence[Sequence[float]]) -> float | None:
    """Million accesses that the fast tier has served after EARLY_S; None of a shorter run."""
    at = next((p for p in points if p[metrics.TIME] >= EARLY_S - 1e-9), None)
    return (at[metrics.FAST] - points[0][metrics.FAST]) / 1e6 if at else None


def figures(result: dict[str, Any]) -> Turn:
    """What is shown, of one turn."""
    turn: Turn = {}
    for run in result["contenders"]:
        row = result["metrics"]["figures"][run["name"]]
        turn[run["mode"]] = {key: row.get(key) for key in SHOWN if key != "early"}
        turn[run["mode"]]["early"] = early(run["access"])
    return turn


@dataclass(frozen=True)
class Ratio:
    """Ours as a share of NUMA balancing's: by turn, their mean and its standard error."""

    each: list[float | None]
    mean: float | None  # None unless every turn has one
    error: float | None


def ratio(turns: Sequence[Turn], key: str) -> Ratio:
    """Of what both have in a turn."""
    each: list[float | None] = []
    for turn in turns:
        ours, theirs = turn[OURS][key], turn[RIVAL][key]
        each.append(ours / theirs if ours is not None and theirs and theirs > 0 else None)
    values = [value for value in each if value is not None]
    if len(values) < max(2, len(each)):
        return Ratio(each, None, None)
    return Ratio(each, statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values)))


def verdict(found: Ratio, limit: float) -> str:
    """Is a goal met?  "not certain" if the runs differ by too much to tell."""
    if found.mean is None or found.error is None:
        return "no figure"
    if found.mean + ERRORS * found.error <= limit:
        return "met"
    return "MISSED" if found.mean - ERRORS * found.error > limit else "not certain"


# --- running ------------------------------------------------------------------


def repeats(name: str, times: int, save: Path | None, *, resume: bool) -> None:
    """Run everything, print it, write it."""
    if times < 2:
        raise LabError("one turn tells nothing of how runs differ", "use --times 2 or more")
    spec = scenario.load(name)
    chosen = [
        next((c.name for c in spec.contender if c.mode == mode and not c.settings), None)
        for mode in MODES
    ]
    if None in chosen or "insn" not in spec.measure.instruments:
        raise LabError(
            f"scenario {name} does not compare {', '.join(MODES)} by instructions",
            "hotcold-4k does",
        )
    kernels = {flavour: build.kernel(flavour) for flavour in ("base", "tiershift")}
    kept = Kept("repeats", resume=resume)
    began = time.time()
    turns: list[Turn] = []
    for number in range(1, times + 1):
        print(f"turn {number} of {times}", file=sys.stderr)
        parts = [name, json.dumps(dataclasses.asdict(spec)), str(number)]
        parts += [kernel.key for kernel in kernels.values()]
        turns.append(kept.get(parts, lambda: _turn(spec, [str(c) for c in chosen])))
    facts: dict[str, Any] = {
        "schema": 1,
        "scenario": name,
        "description": spec.description,
        "command": scenario.command_line(sys.argv),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "resumed": kept.resumed,
        "host": scenario.host_info(),
        "kernels": [kernel.describe() for kernel in kernels.values()],
        "turns": turns,
    }
    report.print_rows(table(turns), sys.stdout)
    report.print_rows(goal_table(turns), sys.stdout)
    for directory in (cache.sub("runs") / "repeats", save):
        if directory:
            write(facts, directory)


def _turn(spec: scenario.Scenario, contenders: list[str]) -> Turn:
    result = scenario.run_scenario(
        spec,
        kernels=build.kernel,
        out_dir=cache.sub("runs") / "repeats" / spec.name,
        cache=cache.root(),
        contenders=contenders,
    )
    if result["failures"]:
        raise LabError(f"{spec.name}: " + "; ".join(result["failures"]))
    return figures(result)


# --- showing ------------------------------------------------------------------


def _cell(values: Sequence[float | None], form: str) -> str:
    """Mean, and the lowest and the highest value."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    low, high = form.format(min(known)), form.format(max(known))
    some = "" if len(known) == len(values) else f", of {len(known)}"
    return f"{form.format(statistics.fmean(known))} ({low} to {high}{some})"


def table(turns: Sequence[Turn]) -> list[list[str]]:
    """Each figure of both: mean, lowest and highest."""
    rows = [["mean (lowest to highest)", RIVAL, OURS]]
    for key, (title, form) in SHOWN.items():
        rows.append(
            [title, *(_cell([turn[mode][key] for turn in turns], form) for mode in (RIVAL, OURS))]
        )
    return rows


def goal_table(turns: Sequence[Turn]) -> list[list[str]]:
    """Ours as a share of NUMA balancing's, and what that means."""
    rows = [[f"{OURS} / {RIVAL}", "mean", "standard error", "goal: at most", "", "by turn"]]
    for goal in GOALS:
        found = ratio(turns, goal.key)
        rows.append(
            [
                goal.title,
                *("-" if v is None else f"{v:.3f}" for v in (found.mean, found.error)),
                f"{goal.limit:g}",
                verdict(found, goal.limit),
                " ".join("-" if v is None else f"{v:.3f}" for v in found.each),
            ]
        )
    return rows


def markdown(facts: dict[str, Any]) -> str:
    """The page for docs/results."""
    turns, name = facts["turns"], f"repeats-{facts['scenario']}"
    return "\n".join(
        [
            "<!-- SPDX-License-Identifier: GPL-2.0 -->",
            f"# {name}",
            "",
            f"{facts['description']}: {len(turns)} turns of no tiering, NUMA balancing and "
            "tiershift.",
            "",
            f"Measured {facts['date']} with `{facts['command']}` in {facts['seconds']:.0f} s"
            + (f", {facts['resumed']} turns before." if facts["resumed"] else "."),
            "",
            *report.markdown_rows(table(turns)),
            "",
            *report.markdown_rows(goal_table(turns)),
            "",
            f"- A goal is met or missed if {ERRORS:g} standard errors lie between it and the mean "
            "of all turns; else it is not certain.",
            f"- A time to 90 % is that of the ratio over the {metrics.SMOOTH_S:g} s before, so "
            f"none is below {metrics.SMOOTH_S:g} s. While a page fault promotes a page its "
            "application does not access memory: a ratio that rises at once may be one of few "
            "accesses, which the second row shows.",
            "- Instructions are those beyond what the same operations take without tiering in the "
            "same turn. Emulated: they are no seconds of hardware, and times depend on how the "
            "host schedules vCPUs.",
            f"- Emulated (TCG, {facts['host']['qemu']}), {facts['host']['cpus']} host CPUs.",
            *(
                f"- Kernel {kernel['release']} ({kernel['flavour']} {kernel['key']}) from "
                f"{kernel['base_version']}."
                for kernel in facts["kernels"]
            ),
            "",
            f"![ratios by turn]({name}.svg)",
            "",
        ]
    )


def svg(facts: dict[str, Any]) -> str:
    """What each turn gives, as a share of what the goal allows."""
    turns = facts["turns"]
    lines = []
    for goal in GOALS:
        each = ratio(turns, goal.key).each
        points = [(float(n), v / goal.limit) for n, v in enumerate(each, 1) if v is not None]
        lines.append((goal.key, points))
    values = [v for _, line in lines for _, v in line]
    step = report.round_step(max([1.0, *values]))
    top = step * math.ceil(max([1.0, *values]) / step)
    low = step * math.floor(min([0.0, *values]) / step)
    ticks = range(round(low / step), round(top / step) + 1)
    return report.chart(
        f"{facts['scenario']}: {OURS} / {RIVAL}, as a share of what the goal allows, by turn",
        lines,
        [(float(n), f"{n}") for n in range(1, len(turns) + 1)],
        [(n * step, f"{n * step:g}") for n in ticks],
        first=1.0,
        last=float(len(turns)),
        top_y=top,
        low_y=low,
    )


def write(facts: dict[str, Any], directory: Path) -> None:
    """repeats-SCENARIO.json, .md and .svg."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind, text in (
        ("json", json.dumps(facts, indent=1) + "\n"),
        ("md", markdown(facts)),
        ("svg", svg(facts)),
    ):
        path = directory / f"repeats-{facts['scenario']}.{kind}"
        path.write_text(text, encoding="utf-8")
