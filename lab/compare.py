# SPDX-License-Identifier: GPL-2.0
"""Studies that compare contenders: every scenario, and its rivals with other tunables.

A scenario is a study of its name; sweep-NAME is one with the variants of lab/sweep.toml.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab import build, cache, metrics, report, scenario
from lab.errors import LabError
from lab.results import finish, ledger, study
from lab.results.study import Column, Study

FORMS = {
    "ratio": "{:.1%}",
    "points": "{:.1f}",
    "seconds": "{:.1f} s",
    "times": "{:.2f}",
    "ns": "{:.0f} ns",
    "per_op": "{:,.1f}",
    "per_access": "{:,.2f}",
}
COLUMNS = (
    *(Column(row.key, row.label.strip(), FORMS.get(row.kind, "{:,.0f}")) for row in metrics.ROWS),
    *(
        Column(f"work_{kind}", f"{label}, M insn", "{:,.1f}")
        for kind, label in report.KINDS.items()
    ),
    Column("best", "best variant of its kind"),
)
MOVED = ("pingpong",)  # by migrate_pages(2)
ELSEWHERE = ("external",)  # needs a program that is not here
SWEPT = ("hotcold-4k", "zipf-4k", "twice-uniform", "twice-zipf")


def figures(result: dict[str, Any], name: str) -> dict[str, float | None]:
    """What the tables show of a contender, its noise, and the kernel's work by kind."""
    row = result["metrics"]["figures"][name]
    shown = {column.key for column in COLUMNS}
    found = {key: row[key] for key in row if key.removesuffix("_noise") in shown}
    work = result["metrics"]["overhead"].get(name, {})
    for kind, places in work.items():
        found[f"work_{kind}"] = sum(places.values()) / report.MEGA
    return found


def runs(result: dict[str, Any]) -> list[ledger.Run]:
    """A run for each contender."""
    first = next(
        (run["name"] for run in result["contenders"] if run["mode"] == "tiershift"),
        result["contenders"][0]["name"],
    )
    best = result["metrics"]["best"].values()
    return [
        ledger.Run(
            cell=run["name"],
            figures={**figures(result, run["name"]), "best": 1 if run["name"] in best else None},
            kernel=run["kernel"],
            checks=result["failures"] if run["name"] == first else (),
            curve=metrics.ratio_series(run["access"]) if "access" in run else (),
            seconds=run.get("seconds_total"),
            date=run.get("date", ""),
        )
        for run in result["contenders"]
    ]


def external(pairs: Sequence[str]) -> dict[str, Path]:
    """--external NAME=PATH."""
    programs: dict[str, Path] = {}
    for pair in pairs:
        name, separator, path = pair.partition("=")
        if not separator or not name:
            raise LabError(f"--external {pair!r} is not NAME=PATH")
        if not os.access(path, os.X_OK):
            raise LabError(f"--external {name}: {path} is not an executable file")
        programs[name] = Path(path).resolve()
    return programs


def arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--external", action="append", default=[], metavar="NAME=PATH")
    command.add_argument(
        "--contender", action="append", default=[], metavar="NAME", help="only these"
    )
    command.add_argument(
        "--again",
        action="append",
        default=[],
        metavar="NAME",
        help="run only this contender, and keep the others as they were recorded",
    )


def _earlier(name: str) -> dict[str, Any]:
    """The result that the ledger's lines of a study were made of."""
    names = {line.raw for line in ledger.read() if line.study == name}
    found = ledger.raw(names.pop()) if len(names) == 1 else None
    if found is None:
        raise LabError(f"this machine has no raw data of {name}", "run all contenders")
    return found


def compare(item: scenario.Scenario, args: argparse.Namespace) -> bool:
    """Run, print and record a comparison; False if a check has failed."""
    out_dir = cache.sub("runs") / item.name
    result = scenario.run_scenario(
        item,
        kernels=build.kernel,
        out_dir=out_dir,
        cache=cache.root(),
        external=external(args.external),
        contenders=[*args.again] or args.contender or None,
        earlier=_earlier(item.name) if args.again else None,
        progress=sys.stderr,
    )
    report.print_table(result)
    if args.contender and not args.again:
        print(finish.PART)
    else:
        ledger.record(item.name, result, runs(result), groups(item.name))
    return not result["failures"]


def groups(name: str) -> tuple[str, ...]:
    """The code that a scenario's results depend on."""
    return study.MIGRATE if name in MOVED else study.KMMSCAND


def _minutes(item: scenario.Scenario) -> float:
    return len(item.contender) * item.measure.expected_s / 60


def _study(
    name: str, item: scenario.Scenario, title: str, load: Callable[[], scenario.Scenario]
) -> Study:
    return Study(
        name=name,
        title=title,
        what=item.description + ".",
        columns=COLUMNS,
        minutes=_minutes(item),
        run=lambda args: compare(load(), args),
        groups=groups(name),
        arguments=arguments,
        pivot=len(item.contender) <= len(metrics.ROWS) // 4,
        curve=("seconds", "share of accesses that the fast tier serves")
        if "access" in item.measure.instruments
        else ("", ""),
    )


def studies() -> Iterator[Study]:
    """One for each scenario, and for those that are swept."""
    for name in scenario.names():
        if name in ELSEWHERE:
            continue
        item = scenario.load(name)
        yield _study(name, item, name, partial(scenario.load, name))
    for name in SWEPT:
        item = scenario.load_sweep(name)
        title = f"{name}, rivals with other tunables"
        yield _study(item.name, item, title, partial(scenario.load_sweep, name))
