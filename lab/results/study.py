# SPDX-License-Identifier: GPL-2.0
"""What a study declares: how it is run, what its lines show, and on which code it depends."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lab.results import ledger

# Groups of objects (linux/ROOM/room.toml) whose code a study of a mechanism depends on
KMMSCAND = ("mm/tier/", "mm/demote.o", "mm/migrate.o", "mm/vmscan.o")
MIGRC = ("mm/migrc/", "mm/migrate.o", "mm/rmap.o", "mm/memory.o", "mm/vmscan.o")
MIGRATE = ("mm/migrate_batch.o", "mm/migrate_copy.o", "mm/migrate.o", "mm/rmap.o", "mm/vmscan.o")
AGING = (
    *("mm/mmu_age.o", "mm/mmu_notifier.o", "mm/vmscan.o", "mm/tier/"),
    *("virt/kvm/kvm_main.o", "arch/x86/kvm/mmu/age.o", "arch/x86/kvm/mmu/mmu.o"),
)
ZAP = ("mm/zap_batch.o", "mm/memory.o", "mm/mmu_gather.o", "mm/page_alloc.o", "mm/memcontrol.o")


@dataclass(frozen=True)
class Column:
    """A figure of a run: its key, its title, and how it is written."""

    key: str
    title: str
    form: str = "{:,.0f}"

    def cell(self, figures: Mapping[str, float | int]) -> str:
        """The figure as text; "-" if there is none."""
        value = figures.get(self.key)
        if value is None:
            return "-"
        noise = figures.get(f"{self.key}_noise")
        if noise is not None and abs(value) <= noise:
            return f"within noise ({self.form.format(noise)})"
        return self.form.format(value)


@dataclass(frozen=True)
class Study:
    """A measurement that has a name, and what its lines in the ledger mean."""

    name: str
    title: str
    what: str  # a sentence or two: what is run, and what is counted
    columns: tuple[Column, ...]
    minutes: float  # on two cores, kernels built
    run: Callable[[argparse.Namespace], bool]
    groups: tuple[str, ...] = ()
    arguments: Callable[[argparse.ArgumentParser], None] | None = None
    notes: tuple[str, ...] = ()
    curve: tuple[str, str] = ("", "")  # what x and y of a run's curve are
    flavour: str = "tiershift"  # the kernel that the lines are of
    pivot: bool = False  # a column for each run instead of a row
    # Tables of their own: title, and how the names of their runs begin
    parts: tuple[tuple[str, str], ...] = ()
    # A table of what others have measured and of these runs: title, and rows
    beside: tuple[str, Callable[[Sequence[ledger.Line]], list[list[str]]]] | None = None

    @property
    def command(self) -> str:
        """How to measure it again."""
        return f"python -m lab study {self.name}"


def _table(study: Study, lines: Sequence[ledger.Line], prefix: str) -> list[list[str]]:
    columns = [c for c in study.columns if any(c.key in line.figures for line in lines)]
    rows = [["", *(column.title for column in columns)]]
    for line in lines:
        name = line.cell.removeprefix(prefix).removeprefix(", ") or "all"
        cells = [column.cell(line.figures) for column in columns]
        rows.append([f"{name}, {line.turn}" if line.turn else name, *cells])
    return rows


def _natural(line: ledger.Line) -> list[tuple[int, str]]:
    """To sort names with numbers in them: 2 CPUs come before 16."""
    parts = re.split(r"(\d+)", line.cell)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def tables(study: Study, lines: Sequence[ledger.Line]) -> list[tuple[str, list[list[str]]]]:
    """Title, and header and rows, of each part; figures that no run has are left out.

    Runs that are one of several turns have a table of their own.
    """
    found = []
    for title, prefix in study.parts or (("", ""),):
        part = [line for line in lines if line.figures and line.cell.startswith(prefix)]
        part = sorted(part, key=_natural)
        once = [line for line in part if not line.turn]
        each = [line for line in part if line.turn]
        if once:
            rows = _table(study, once, prefix)
            if study.pivot:
                rows = [list(row) for row in zip(*rows, strict=True)]
            found.append((title, rows))
        if each:
            found.append(
                (
                    f"{title}, each run".removeprefix(", ") if once else title,
                    _table(study, each, prefix),
                )
            )
    return found


def goal_text(goal: ledger.Goal) -> str:
    """A goal in a line."""
    numbers = ""
    if goal.value is not None and goal.limit is not None:
        numbers = f": {goal.value:.4g}, limit {goal.limit:.4g}"
    return f"{goal.name}{numbers}" + (f" ({goal.text})" if goal.text else "")
