# SPDX-License-Identifier: GPL-2.0
"""What a study declares: how it is run, what its lines show, and on which code it depends."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lab.results import ledger

# Groups of objects (linux/ROOM/room.toml) whose code a study of a mechanism depends on
KMMSCAND = ("mm/tier/", "mm/demote.o", "mm/migrate.o", "mm/vmscan.o")
MIGRC = ("mm/migrc/", "mm/migrate.o", "mm/rmap.o", "mm/memory.o")
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

    @property
    def command(self) -> str:
        """How to measure it again."""
        return f"python -m lab study {self.name}"


def table(study: Study, lines: list[ledger.Line]) -> list[list[str]]:
    """Header and a row a run; columns that no run has are left out."""
    columns = [c for c in study.columns if any(c.key in line.figures for line in lines)]
    rows = [["", *(column.title for column in columns)]]
    turns = len({line.turn for line in lines}) > 1
    for line in lines:
        name = f"{line.cell}, {line.turn}" if turns else line.cell
        rows.append([name, *(column.cell(line.figures) for column in columns)])
    return rows
