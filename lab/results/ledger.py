# SPDX-License-Identifier: GPL-2.0
"""The ledger: one compact line for each run that was measured.

results/ledger.ndjson is in git.  Every study writes its lines through record(), and nothing else
writes there.  A study that is measured again replaces its lines.  What a run was reduced from
is kept in the cache by content (results/HASH.json.xz), and the line holds the hash.

A figure that does not exist is left out.  It is never zero.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import lzma
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lab import cache
from lab.errors import LabError
from lab.results import renamed

LEDGER = cache.PROJECT / "results" / "ledger.ndjson"
SPDX = '{"SPDX-License-Identifier":"GPL-2.0"}'
DIGITS = 5
MET, MISSED, UNSEEN = "met", "missed", "cannot be seen"
VERDICTS = (MET, MISSED, UNSEEN)
# Points of a curve in the ledger; the raw data have all.
POINTS = 40

Figures = Mapping[str, float | int | bool | None]


class Goal(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was to be reached, and whether it was."""

    name: str
    verdict: str
    value: float | int | None = None
    limit: float | int | None = None
    text: str = ""  # what a reader needs beside the numbers


def at_most(name: str, value: float, limit: float, text: str = "", noise: float = 0.0) -> Goal:
    """A goal that was met, missed, or hidden by what equal code differs by."""
    verdict = MET if value <= limit else MISSED
    if verdict == MISSED and abs(value - 1) <= noise:
        verdict = UNSEEN
    return Goal(name=name, verdict=verdict, value=rounded(value), limit=rounded(limit), text=text)


@dataclass(frozen=True)
class Run:
    """A run as a study has reduced it; ``kernel`` is what KernelImage.describe() says."""

    cell: str
    figures: Figures
    kernel: Mapping[str, str] | None = None
    turn: int = 0  # of runs that are repeated
    goals: Sequence[Goal] = ()
    checks: Sequence[str] = ()  # what did not hold; the figures do not count then
    curve: Sequence[tuple[float, float]] = ()
    seconds: float | None = None
    date: str = ""


class Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line of the ledger."""

    study: str
    cell: str
    date: str
    commit: str
    host: str
    command: str
    figures: dict[str, float | int]
    turn: int = 0
    kernel: str = ""  # flavour and key
    base: str = ""  # Debian's version of the source
    text: dict[str, str] = {}  # by group of objects: key of their code
    seconds: float | int | None = None
    goals: list[Goal] = []
    checks: list[str] = []
    curve: list[tuple[float | int, float | int]] = []
    raw: str = ""

    @property
    def dirty(self) -> bool:
        """Was it measured by a project with changes that are in no commit?"""
        return self.commit.endswith("-dirty")

    @property
    def order(self) -> tuple[str, str, int]:
        return self.study, self.cell, self.turn


# --- what is recorded ---------------------------------------------------------------


def rounded(value: float) -> float | int:
    """A figure with DIGITS digits; whole numbers as they are."""
    near = value if float(value).is_integer() else float(f"{value:.{DIGITS}g}")
    return int(near) if float(near).is_integer() else near


def thinned(curve: Sequence[tuple[float, float]]) -> list[tuple[float | int, float | int]]:
    """POINTS points of a curve at most, the last one among them."""
    step = max(1, math.ceil((len(curve) - 1) / (POINTS - 1)))
    kept = [*curve[:-1:step], *curve[-1:]]
    return [(rounded(x), rounded(y)) for x, y in kept]


def _figures(figures: Figures) -> dict[str, float | int]:
    return {
        key: rounded(value)
        for key, value in sorted(figures.items())
        if value is not None and math.isfinite(value)
    }


def first_line(*argv: str) -> str:
    """Of what a program prints; "unknown" if there is none."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cache.PROJECT)
    except OSError:
        return "unknown"
    return (done.stdout.splitlines() or ["unknown"])[0]


def host_info() -> dict[str, Any]:
    """What figures are measured on; no host name, no paths."""
    # What a measurement has just written does not make the next one's project another one,
    # nor does what is only read by people.
    status = ("git", "status", "--porcelain", "--", ".", ":!results", ":!docs", ":!README.md")
    dirty = "" if first_line(*status) == "unknown" else "-dirty"
    model = re.search(
        r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="ascii"), re.MULTILINE
    )
    return {
        "cpus": os.cpu_count(),
        "cpu_model": model[1] if model else "unknown",
        "arch": platform.machine(),
        "qemu": first_line("qemu-system-x86_64", "--version"),
        "accelerator": "TCG (emulation)",
        "project": first_line("git", "describe", "--always") + dirty,
    }


def host_label(host: Mapping[str, Any]) -> str:
    """host_info() in a few words."""
    qemu = re.search(r"version (\S+)", str(host["qemu"]))
    return f"{host['cpus']} CPUs ({host['cpu_model']}), QEMU {qemu[1] if qemu else '?'}, TCG"


def utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def facts_of(began: float, command: str, **more: Any) -> dict[str, Any]:
    """What every study's raw data begin with."""
    return {
        "command": command,
        "date": utc(began),
        "seconds": round(time.time() - began, 1),
        "host": host_info(),
        **more,
    }


def keep_raw(facts: Mapping[str, Any]) -> str:
    """Keep raw data in the cache; the hash that finds them."""
    data = json.dumps(facts, sort_keys=True, default=dataclasses.asdict).encode()
    name = cache.key([data])
    path = cache.sub("results") / f"{name}.json.xz"
    if not path.exists():
        partial = path.with_suffix(".partial")
        partial.write_bytes(lzma.compress(data))
        partial.rename(path)
    return name


def raw(name: str) -> dict[str, Any] | None:
    """Raw data by their hash, with today's names; None where this machine does not have them."""
    path = cache.sub("results") / f"{name}.json.xz"
    if not path.exists():
        return None
    found: dict[str, Any] = renamed.today(json.loads(lzma.decompress(path.read_bytes())))
    return found


def text_of(kernel: Mapping[str, str] | None, groups: Iterable[str]) -> dict[str, str]:
    """Keys of the code of a kernel's groups of objects; {} for kernels without."""
    if not kernel:
        return {}
    path = cache.sub("kernels") / f"{kernel['flavour']}-{kernel['key']}" / "text.json"
    if not path.exists():
        return {}
    known: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return {group: known[group] for group in groups if group in known}


def lines_of(
    study: str, facts: Mapping[str, Any], runs: Sequence[Run], groups: Iterable[str], raw_name: str
) -> list[Line]:
    """Lines of the runs that a study has made of its raw data."""
    groups = list(groups)
    return [
        Line(
            study=study,
            cell=run.cell,
            turn=run.turn,
            kernel=f"{run.kernel['flavour']} {run.kernel['key']}" if run.kernel else "",
            base=run.kernel["base_version"] if run.kernel else "",
            text=text_of(run.kernel, groups),
            commit=facts["host"]["project"],
            host=host_label(facts["host"]),
            command=facts["command"],
            date=run.date or facts["date"],
            seconds=None if run.seconds is None else rounded(run.seconds),
            figures=_figures(run.figures),
            goals=list(run.goals),
            checks=list(run.checks),
            curve=thinned(run.curve),
            raw=raw_name,
        )
        for run in runs
    ]


# --- the file -------------------------------------------------------------------------


def read(path: Path = LEDGER) -> list[Line]:
    """All lines."""
    found = []
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        if line == SPDX:
            continue
        try:
            found.append(msgspec.json.decode(line, type=Line))
        except msgspec.MsgspecError as error:
            raise LabError(
                f"{path.name}, line {number}: {error}", "measure that study again, or restore it"
            ) from error
    return found


def write(lines: Iterable[Line], path: Path = LEDGER) -> None:
    """All lines, sorted: a study that is measured again is a small difference."""
    ordered = sorted(lines, key=lambda line: line.order)
    for before, after in itertools.pairwise(ordered):
        if before.order == after.order:
            raise LabError(f"two runs of {after.study} are called {after.cell!r}, {after.turn}")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    text = [SPDX, *(msgspec.json.encode(line).decode() for line in ordered)]
    partial.write_text("\n".join(text) + "\n", encoding="utf-8")
    partial.rename(path)


def record(
    study: str,
    facts: Mapping[str, Any],
    runs: Sequence[Run],
    groups: Iterable[str] = (),
    *,
    path: Path = LEDGER,
) -> list[Line]:
    """A study's runs replace its lines."""
    lines = lines_of(study, facts, runs, groups, keep_raw(facts))
    write([line for line in read(path) if line.study != study] + lines, path)
    print(f"recorded: {len(lines)} runs of {study}", file=sys.stderr)
    return lines
