# SPDX-License-Identifier: GPL-2.0
"""The same comparison some times over: which goals are met, and which only seem to be?

Two runs of one contender differ, by when its scan begins and by what kswapd has to do, so a
figure of one run says little about a goal that it misses by a tenth.  Here no tiering, NUMA
balancing, DAMON and tiershift run in turns on a scenario.  What is judged is tiershift's figure
divided by NUMA balancing's of the same turn: its mean, and twice the standard error of that, must
be on one side of the goal.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab import build, cache, metrics, scenario
from lab.errors import LabError
from lab.kept import Kept
from lab.results import finish, ledger, study
from lab.results.study import Column, Study

TIMES = 5
REPEATED = ("hotcold-4k", "zipf-4k", "uniform", "hotcold-4g")
MODES = ("none", "numab2", "damon", "tiershift")
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


def measure(name: str, args: argparse.Namespace) -> bool:
    """Run all turns of a scenario."""
    if args.times < 2:
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
    kept = Kept("repeats", resume=args.resume)
    began = time.time()
    turns: list[Turn] = []
    for number in range(1, args.times + 1):
        print(f"turn {number} of {args.times}", file=sys.stderr)
        parts = [name, json.dumps(dataclasses.asdict(spec)), str(number)]
        parts += [kernel.key for kernel in kernels.values()]
        turns.append(kept.get(parts, lambda: _turn(spec, [str(c) for c in chosen])))
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        resumed=kept.resumed,
        kernels=[kernel.describe() for kernel in kernels.values()],
        turns=turns,
    )
    mine = next(one for one in studies() if one.name == f"repeats-{name}")
    return finish.finish(mine, facts, runs(facts), whole=args.times >= TIMES)


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


# --- what is recorded --------------------------------------------------------------


def _goals(turns: Sequence[Turn]) -> list[ledger.Goal]:
    found = []
    for goal in GOALS:
        of_turns = ratio(turns, goal.key)
        if of_turns.mean is None or of_turns.error is None:
            continue
        found.append(
            ledger.Goal(
                name=goal.title,
                verdict=_seen(turns, goal, verdict(of_turns, goal.limit)),
                value=ledger.rounded(of_turns.mean),
                limit=ledger.rounded(goal.limit),
                text=f"of NUMA balancing's; standard error {of_turns.error:.3f}",
            )
        )
    return found


def _seen(turns: Sequence[Turn], goal: Goal, found: str) -> str:
    """The verdict of a goal, or that the instrument or the noise hides it.

    A time to 90 % is that of the ratio over SMOOTH_S, so no time is below that.
    """
    if goal.key == "t90_best_s":
        theirs = [turn[RIVAL][goal.key] for turn in turns]
        if any(time is not None and goal.limit * time < metrics.SMOOTH_S for time in theirs):
            return ledger.UNSEEN
    return {"met": ledger.MET, "MISSED": ledger.MISSED}.get(found, ledger.UNSEEN)


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each mode in each turn; the goals are those of all turns."""
    kernels = {kernel["flavour"]: kernel for kernel in facts["kernels"]}
    return [
        ledger.Run(
            cell=mode,
            turn=number,
            figures=turn[mode],
            kernel=kernels["tiershift" if mode == OURS else "base"],
            goals=_goals(facts["turns"]) if mode == OURS and number == 1 else (),
        )
        for number, turn in enumerate(facts["turns"], 1)
        for mode in MODES
    ]


def arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--times", type=int, default=TIMES)
    finish.add_resume(command)


def studies() -> Iterator[Study]:
    """One for each scenario that is repeated."""
    for name in REPEATED:
        item = scenario.load(name)
        yield Study(
            name=f"repeats-{name}",
            title=f"{name}, the same comparison {TIMES} times",
            what=f"{item.description}.  No tiering, NUMA balancing, DAMON and tiershift run in "
            "turns.  A goal is for tiershift's figure divided by NUMA balancing's of that turn.",
            columns=tuple(Column(key, title, form) for key, (title, form) in SHOWN.items()),
            minutes=TIMES * len(MODES) * item.measure.expected_s / 60,
            run=partial(measure, name),
            groups=study.KMMSCAND,
            arguments=arguments,
            notes=(
                f"A goal is met or missed if {ERRORS:g} standard errors lie between it and the "
                "mean.  Else it cannot be seen.",
                f"A time to 90 % is that of the ratio over the {metrics.SMOOTH_S:g} s before, so "
                f"none is below {metrics.SMOOTH_S:g} s.  While a page fault promotes a page its "
                "application does not access memory.",
                "Instructions are those beyond what the same operations take without tiering in "
                "the same turn.",
            ),
        )
