# SPDX-License-Identifier: GPL-2.0
"""One page about all results: by scenario, what tiershift does against its rivals and its goals.

Nothing is measured here.  The figures are those of the JSON files in docs/results, so the page
cannot say anything else than they do, and it tells of which kernel each of them is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lab import repeats, report
from lab.errors import LabError

NAME = "summary"
RIVAL, OURS = repeats.RIVAL, repeats.OURS
# Those of the contenders that are in most scenarios, in this order
SHOWN = ("none", RIVAL, "damon", OURS, "oracle")
HEADS = {
    "t90_best_s": "time to 90 % of the best ratio, s",
    "app_per_page": "app CPUs, per promoted page",
    "all_per_page": "all CPUs, per promoted page",
    "all_per_fast": "all CPUs, per fast access gained",
}
# With fewer, what scanning costs is divided by next to nothing.
LEAST_PAGES = 1000
FORMS = {"t90_best_s": "{:.1f}", "all_per_fast": "{:.2f}"}


# --- what there is ------------------------------------------------------------


def read(directory: Path) -> dict[str, dict[str, Any]]:
    """All results, by the name of their file."""
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(directory.glob("*.json"))
    }
    if not found:
        raise LabError(f"there are no results in {directory}", "make bench writes some")
    return found


def _by_mode(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The first contender of each mode without settings of its own: its run and figures."""
    first: dict[str, dict[str, Any]] = {}
    for run in result["contenders"]:
        if run["mode"] in first or (run["settings"] and run["mode"] == OURS):
            continue
        first[run["mode"]] = run
    return {
        mode: {"run": run, "figures": result["metrics"]["figures"][run["name"]]}
        for mode, run in first.items()
    }


def scenarios(results: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Those that compare us with NUMA balancing; sweeps have pages of their own."""
    for name, result in results.items():
        if "metrics" in result and not name.startswith("sweep-"):
            modes = _by_mode(result)
            if OURS in modes and RIVAL in modes:
                yield name, modes


# --- arithmetic ---------------------------------------------------------------


def share(modes: dict[str, dict[str, Any]], key: str) -> float | None:
    """Our figure divided by NUMA balancing's; None where one of them is missing."""
    ours, theirs = (modes[mode]["figures"].get(key) for mode in (OURS, RIVAL))
    return ours / theirs if ours is not None and theirs is not None and theirs > 0 else None


def below_oracle(modes: dict[str, dict[str, Any]]) -> float | None:
    """By how many points our hit ratio at the end is below that of the known hot set."""
    oracle = modes.get("oracle", {}).get("figures", {}).get("hit_ratio_end")
    ours = modes[OURS]["figures"].get("hit_ratio_end")
    return None if oracle is None or ours is None else 100 * (oracle - ours)


# --- showing ------------------------------------------------------------------


def ratios(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Hit ratio at the end, of each scheme."""
    rows = [["scenario", *SHOWN, "below the oracle, in points", "over the whole run", RIVAL]]
    for name, modes in scenarios(results):
        figures = {mode: entry["figures"] for mode, entry in modes.items()}
        if figures[OURS].get("hit_ratio_end") is None:
            continue
        below = below_oracle(modes)
        rows.append(
            [
                f"[{name}]({name}.md)",
                *(_percent(figures.get(mode, {}).get("hit_ratio_end")) for mode in SHOWN),
                "-" if below is None else f"{below:.1f}",
                *(_percent(figures[mode].get("hit_ratio")) for mode in (OURS, RIVAL)),
            ]
        )
    return rows


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def against(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Ours, NUMA balancing's, and the first divided by the second: one run each."""
    rows = [["scenario", *(f"{HEADS[g.key]} ({g.limit:g})" for g in repeats.GOALS)]]
    for name, modes in scenarios(results):
        cells = [_pair(modes, goal) for goal in repeats.GOALS]
        if any(cell != "-" for cell in cells):
            rows.append([f"[{name}]({name}.md)", *cells])
    return rows


def _pair(modes: dict[str, dict[str, Any]], goal: repeats.Goal) -> str:
    form = FORMS.get(goal.key, "{:,.0f}")
    values = [modes[mode]["figures"].get(goal.key) for mode in (OURS, RIVAL)]
    if None in values:
        return "-"
    if goal.key.endswith("_per_page") and modes[OURS]["figures"]["promoted"] < LEAST_PAGES:
        return "hardly any promoted"
    noise = modes[OURS]["figures"].get(f"{goal.key}_noise")
    if noise is not None and abs(values[0]) <= noise:
        return f"within noise ({form.format(noise)}) to {form.format(values[1])}"
    text = " to ".join(form.format(value) for value in values)
    part = share(modes, goal.key)
    if part is None:
        return text
    return f"{text}: {part:.2f}" if part <= goal.limit else f"{text}: **{part:.2f}**"


def repeated(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Means of several turns, with what the difference between turns allows to say."""
    rows = [["scenario", "turns", *(f"{HEADS[g.key]} ({g.limit:g})" for g in repeats.GOALS)]]
    for name, result in results.items():
        if not name.startswith("repeats-"):
            continue
        cells = []
        for goal in repeats.GOALS:
            found = repeats.ratio(result["turns"], goal.key)
            if found.mean is None or found.error is None:
                cells.append("-")
                continue
            said = repeats.verdict(found, goal.limit)
            cells.append(f"{found.mean:.3f} ± {found.error:.3f} {said}")
        rows.append([f"[{result['scenario']}]({name}.md)", f"{len(result['turns'])}", *cells])
    return rows


def _kernel(result: dict[str, Any]) -> tuple[str, str] | None:
    """The kernel of ours that a result is of, and when it was measured."""
    kernels = [result.get("kernel"), *(result.get("kernels") or [])]
    date = result.get("date", "")
    for run in result.get("contenders", []):
        if isinstance(run, dict) and run.get("mode") == OURS and "kernel" in run:
            kernels.append(run["kernel"])
            date = run.get("date", date)
    for kernel in kernels:
        if isinstance(kernel, dict) and kernel.get("flavour") not in (None, "base"):
            return f"{kernel['flavour']} {kernel['key']}", date
    return None


def kernels(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    """By kernel, newest measurement first: what is of it."""
    by: dict[str, list[tuple[str, str]]] = {}
    for name, result in results.items():
        found = _kernel(result)
        if found:
            by.setdefault(found[0], []).append((found[1], name))
    rows = [["kernel", "measured last", "results"]]
    for key, entries in sorted(by.items(), key=lambda item: max(item[1]), reverse=True):
        names = ", ".join(f"[{name}]({name}.md)" for _, name in sorted(entries, key=_second))
        rows.append([f"`{key}`", max(entries)[0], names])
    return rows


def _second(entry: tuple[str, str]) -> str:
    return entry[1]


def failed(results: dict[str, dict[str, Any]]) -> list[str]:
    """What the results themselves call missed or failed."""
    found = []
    for name, result in results.items():
        for kind in ("missed", "failures"):
            found += [f"[{name}]({name}.md): {text}" for text in _texts(result.get(kind))]
    return found


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def markdown(results: dict[str, dict[str, Any]]) -> str:
    """The page for docs/results."""
    table: Callable[[list[list[str]]], list[str]] = report.markdown_rows
    return "\n".join(
        [
            "<!-- SPDX-License-Identifier: GPL-2.0 -->",
            "# All results of kmmscand at a glance",
            "",
            "Written by `python -m lab summary` from the JSON files beside it.",
            "",
            "## Goals, means of several turns",
            "",
            f"{OURS}'s figure divided by NUMA balancing's of the same turn, its standard error, "
            f"and whether {repeats.ERRORS:g} of these lie between it and the goal (in brackets).  "
            "The time is a goal for the skewed hot sets, all CPUs one for uniform.",
            "",
            *table(repeated(results)),
            "",
            "## The same, single runs",
            "",
            f"{OURS}'s figure, NUMA balancing's, and the first divided by the second; bold is "
            "above the goal.  Kernel instructions are those beyond a run without tiering.  Single "
            "runs differ by a tenth and more, and times to 90 % by 0.5 s.",
            "",
            *table(against(results)),
            "",
            "## Fast-tier hit ratio at the end",
            "",
            *table(ratios(results)),
            "",
            "## What the results call missed or failed",
            "",
            *(f"- {text}" for text in failed(results)),
            "",
            "## Of which kernel they are",
            "",
            "A kernel's key is made of all that it is built from.",
            "",
            *table(kernels(results)),
            "",
        ]
    )


def write(directory: Path) -> Path:
    """docs/results/summary.md; returns where it is."""
    path = directory / f"{NAME}.md"
    path.write_text(markdown(read(directory)), encoding="utf-8")
    return path
