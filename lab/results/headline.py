# SPDX-License-Identifier: GPL-2.0
"""What a reader sees first: a dozen figures of the ledger side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.results import ledger

COLUMNS = ("tiershift", "NUMA balancing", "DAMON", "no tiering")
SCENARIO = dict(zip(COLUMNS, ("tiershift", "numab2", "damon", "none"), strict=True))


@dataclass(frozen=True)
class Row:
    """A figure of a study, in one cell (or one figure of a cell) for each column."""

    label: str
    study: str
    figure: str
    form: str
    cells: Mapping[str, str]  # by column
    figures: Mapping[str, str] | None = None  # where columns are figures of one cell
    first: bool = False  # also in the README


def _scenario(label: str, study: str, figure: str, form: str, *, first: bool = False) -> Row:
    return Row(label, study, figure, form, SCENARIO, first=first)


ZAP = "time: munmap, 4 KiB, 1024 MiB"
ROWS = (
    _scenario(
        "Redis, accesses served by fast memory at the end",
        "redis",
        "hit_ratio_end",
        "{:.1%}",
        first=True,
    ),
    _scenario("Memcached, the same", "memcached", "hit_ratio_end", "{:.1%}"),
    _scenario("hotcold-4k, the same", "hotcold-4k", "hit_ratio_end", "{:.1%}"),
    _scenario(
        "hotcold-4k, seconds to 90 % of the best", "hotcold-4k", "t90_best_s", "{:.1f}", first=True
    ),
    _scenario("hotcold-4k, NUMA hint faults", "hotcold-4k", "hint_faults", "{:,.0f}", first=True),
    _scenario(
        "hotcold-4k, kernel instructions on the application's CPUs per promoted page",
        "hotcold-4k",
        "app_per_page",
        "{:,.0f}",
        first=True,
    ),
    _scenario("hotcold-4k, on all CPUs", "hotcold-4k", "all_per_page", "{:,.0f}", first=True),
    _scenario("zipf-4k, on all CPUs", "zipf-4k", "all_per_page", "{:,.0f}"),
    _scenario(
        "twice-zipf, promoted pages that had been promoted before",
        "twice-zipf",
        "again_share",
        "{:.1%}",
    ),
    Row(
        "munmap of 1 GiB of 4 KiB pages, virtual ms",
        "zap",
        "",
        "{:,.1f}",
        {"no tiering": ZAP, "tiershift": ZAP},
        {"no tiering": "base", "tiershift": "on"},
        first=True,
    ),
)


def table(lines: Sequence[ledger.Line], *, first: bool = False) -> list[list[str]]:
    """Header and rows; "-" where the ledger has no figure."""
    known = {(line.study, line.cell): line for line in reversed(lines)}
    rows = [["", *COLUMNS]]
    for row in ROWS:
        if first and not row.first:
            continue
        cells = []
        for column in COLUMNS:
            line = known.get((row.study, row.cells.get(column, "")))
            key = row.figures[column] if row.figures and line else row.figure
            value = line.figures.get(key) if line else None
            noise = line.figures.get(f"{key}_noise") if line else None
            if value is not None and noise is not None and abs(value) <= noise:
                cells.append(f"within noise ({row.form.format(noise)})")
            else:
                cells.append("-" if value is None else row.form.format(value))
        rows.append([row.label, *cells])
    return rows
