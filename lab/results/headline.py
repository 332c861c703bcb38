# SPDX-License-Identifier: GPL-2.0
"""What a reader sees first: a dozen figures of the ledger side by side."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab import report
from lab.errors import LabError
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
        "Redis: accesses that fast memory serves at the end",
        "redis",
        "hit_ratio_end",
        "{:.1%}",
        first=True,
    ),
    _scenario("Memcached: the same", "memcached", "hit_ratio_end", "{:.1%}"),
    _scenario("hotcold-4k: the same", "hotcold-4k", "hit_ratio_end", "{:.1%}"),
    _scenario(
        "hotcold-4k: seconds to 90 % of the best share",
        "repeats-hotcold-4k",
        "t90_best_s",
        "{:.1f}",
        first=True,
    ),
    _scenario("hotcold-4k: NUMA hint faults", "hotcold-4k", "hint_faults", "{:,.0f}"),
    _scenario(
        "hotcold-4k: kernel instructions on the application's CPUs per promoted page",
        "repeats-hotcold-4k",
        "app_per_page",
        "{:,.0f}",
        first=True,
    ),
    _scenario(
        "hotcold-4k: on all CPUs per promoted page",
        "repeats-hotcold-4k",
        "all_per_page",
        "{:,.0f}",
    ),
    _scenario(
        "zipf-4k: on all CPUs per promoted page",
        "repeats-zipf-4k",
        "all_per_page",
        "{:,.0f}",
        first=True,
    ),
    _scenario(
        "twice-zipf: promotions of the same page again", "twice-zipf", "again_share", "{:.1%}"
    ),
    Row(
        "16 CPUs: TLB flushes per 1,000 migrated pages under NUMA balancing, with MIGRC",
        "migrc",
        "flushes_per_1000",
        "{:,.1f}",
        {
            "tiershift": "lookup, numab2-migrc, all rounds",
            "NUMA balancing": "lookup, numab2, all rounds",
        },
        first=True,
    ),
    Row(
        "64 KiB folios that migrate again and again: instructions a page, beside the copy",
        "migrate",
        "beside",
        "{:,.0f}",
        {
            "no tiering": "move: 64 KiB, 1 CPU, unmodified",
            "tiershift": "move: 64 KiB, 1 CPU, ours, limit 512",
        },
        first=True,
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
    Row(
        "aging of a guest's idle memory: kernel instructions a page",
        "aging",
        "insn",
        "{:,.0f}",
        {
            "no tiering": "page: idle, TDP, unmodified",
            "tiershift": "page: idle, TDP, ours, both",
        },
        first=True,
    ),
)


def _values(lines: Sequence[ledger.Line], row: Row, column: str) -> list[float | int]:
    """The figure in each turn of the cell; [] where the ledger has none."""
    if column not in row.cells:
        return []
    key = row.figures[column] if row.figures else row.figure
    mine = [one for one in lines if (one.study, one.cell) == (row.study, row.cells[column])]
    return [line.figures[key] for line in mine if key in line.figures]


def _mean(values: Sequence[float | int], form: str) -> str:
    """A cost that is less than without tiering is none that can be seen."""
    if not values:
        return "-"
    mean = statistics.fmean(values)
    return form.format(mean) if mean >= 0 else "none"


def table(lines: Sequence[ledger.Line], *, first: bool = False) -> list[list[str]]:
    """Header and rows; means of all turns, "-" where the ledger has no figure."""
    rows = [["", *COLUMNS, "n"]]
    for row in ROWS:
        if first and not row.first:
            continue
        values = {column: _values(lines, row, column) for column in COLUMNS}
        rows.append(
            [
                row.label,
                *(_mean(values[column], row.form) for column in COLUMNS),
                f"{max(len(found) for found in values.values()) or '-'}",
            ]
        )
    return rows


# --- in the README ----------------------------------------------------------------------

BEGIN, END = "<!-- headline: `make report` -->", "<!-- end of headline -->"


def in_readme(text: str, lines: Sequence[ledger.Line]) -> str:
    """The README with the table as the ledger has it."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise LabError(f"README.md has no {BEGIN} and {END}", "restore these lines")
    rows = "\n".join(report.markdown_rows(table(lines, first=True)))
    return f"{before}{BEGIN}\n\n{rows}\n\n{END}{after}"
