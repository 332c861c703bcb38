# SPDX-License-Identifier: GPL-2.0
"""The figures that a reader sees first, for README.md and docs/results.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab import report
from lab.errors import LabError
from lab.results import ledger
from lab.results.status import CURRENT

COLUMNS = ("tiershift", "NUMA balancing", "DAMON", "base kernel")
SCENARIO = dict(zip(COLUMNS, ("tiershift", "numab2", "damon", "none"), strict=True))


@dataclass(frozen=True)
class Row:
    """A figure of a study, in one cell for each column."""

    label: str
    study: str
    figure: str
    form: str


@dataclass(frozen=True)
class Pair:
    """A figure without and with a mechanism, or of two mechanisms."""

    label: str
    study: str
    form: str
    other: tuple[str, str]  # cell, figure
    ours: tuple[str, str]
    name: str = ""  # of the mechanism, or of what tiershift is compared with


@dataclass(frozen=True)
class Part:
    """A table of pairs."""

    header: tuple[str, ...]  # without the last column; three columns, or four with names
    pairs: tuple[Pair, ...]
    title: str = ""


ROWS = (
    Row("Redis: slow accesses per operation at the end", "redis", "slow_per_op", "{:.1f}"),
    Row("Memcached: accesses to fast memory at the end", "memcached", "hit_ratio_end", "{:.1%}"),
    Row(
        "192 MiB, hot and cold: accesses to fast memory at the end",
        "hotcold-4k",
        "hit_ratio_end",
        "{:.1%}",
    ),
    Row("192 MiB, hot and cold: NUMA hint faults", "hotcold-4k", "hint_faults", "{:,.0f}"),
    Row(
        "192 MiB, hot and cold: kernel instructions per promoted page, application's CPUs",
        "repeats-hotcold-4k",
        "app_per_page",
        "{:,.0f}",
    ),
    Row(
        "192 MiB, hot and cold: kernel instructions per promoted page, all CPUs",
        "repeats-hotcold-4k",
        "all_per_page",
        "{:,.0f}",
    ),
    Row("twice-zipf: promotions of the same page again", "twice-zipf", "again_share", "{:.1%}"),
)


def _tiering(label: str, study: str, figure: str, form: str, other: str = "NUMA balancing") -> Pair:
    return Pair(label, study, form, (SCENARIO[other], figure), ("tiershift", figure), other)


BIG = "repeats-hotcold-4g"
PER_PAGE = "kernel instructions per promoted page"
AT_THE_END = "accesses served by fast memory at the end"
POSTPONED = "lookup: NUMA balancing, batched migration, flushing promotions postponed"
ZAP = "time: munmap, 4 KiB, 1024 MiB"
PARTS = (
    Part(
        ("emulated", "NUMA balancing", "tiershift"),
        (
            *(
                _tiering(f"4 GiB, 10 % of it hot: {label}", BIG, figure, form)
                for label, figure, form in (
                    ("seconds until 90 % of the best fast-memory share", "t90_best_s", "{:.1f}"),
                    (f"{PER_PAGE}, application's CPUs", "app_per_page", "{:,.0f}"),
                    (f"{PER_PAGE}, all CPUs", "all_per_page", "{:,.0f}"),
                    (AT_THE_END, "hit_ratio_end", "{:.1%}"),
                )
            ),
            *(
                _tiering(f"Redis, a virtual machine beside it: {label}", "together", figure, form)
                for label, figure, form in (
                    ("kernel instructions per operation, Redis's CPU", "kernel_per_op", "{:,.0f}"),
                    ("TLB interrupts per 1,000 operations, Redis's CPU", "interrupts", "{:,.2f}"),
                    ("longest stretch of kernel instructions, Redis's CPU", "stretch", "{:,.0f}"),
                    (AT_THE_END, "hit_ratio_end", "{:.1%}"),
                )
            ),
        ),
    ),
    Part(
        ("mechanism", "measured", "without", "with"),
        (
            Pair(
                "KVM flush requests for 32 MiB of a guest",
                "migrate",
                "{:,.0f}",
                ("kvm: 1 of 1 pages, off", "requests"),
                ("kvm: 1 of 1 pages, on", "requests"),
                "batched migration",
            ),
            Pair(
                "TLB flushes per 1,000 pages swapped out; 8 threads",
                "flush",
                "{:,.1f}",
                ("swap: unmodified", "all"),
                ("swap: batched migration", "all"),
                "batched migration",
            ),
            Pair(
                "TLB flushes per 1,000 moved pages; NUMA balancing promotes; 8 threads",
                "flush",
                "{:,.1f}",
                ("lookup: NUMA balancing, unmodified", "all"),
                (POSTPONED, "all"),
                "batched migration, flushing promotions postponed",
            ),
            Pair(
                "munmap of 1 GiB in 4 KiB pages, ms on one emulated CPU",
                "zap",
                "{:,.1f}",
                (ZAP, "base"),
                (ZAP, "on"),
                "batched unmapping",
            ),
            Pair(
                "kernel instructions per idle 4 KiB page",
                "aging",
                "{:,.0f}",
                ("page: idle, TDP, unmodified", "insn"),
                ("page: idle, TDP, ours, both", "insn"),
                "aging of KVM guest memory",
            ),
        ),
        "Four more mechanisms are parts of `/sys/kernel/mm/tier/`, each with a switch.  "
        '"Without" is the base kernel; for KVM\'s flush requests it is the switched-off mechanism:',
    ),
    Part(
        ("**tiershift loses**", "compared with", "the other", "tiershift"),
        (
            _tiering(
                "Zipf-skewed access, 192 MiB: seconds until 90 % of the best fast-memory share",
                "repeats-zipf-4k",
                "t90_best_s",
                "{:.1f}",
            ),
            _tiering(
                "192 MiB in huge pages: accesses served by fast memory at the end",
                "hotcold-thp",
                "hit_ratio_end",
                "{:.1%}",
            ),
            _tiering(
                "Redis: accesses to slow memory per operation at the end",
                "redis",
                "slow_per_op",
                "{:.1f}",
            ),
            _tiering(
                "equally hot pages, twice as many as fit: accesses served by fast memory",
                "twice-uniform",
                "hit_ratio_end",
                "{:.1%}",
                "DAMON",
            ),
            Pair(
                "read(2) of 4 KiB of slow page cache: instructions per call",
                "readcost",
                "{:,.0f}",
                ("4 KiB, base", "per_read"),
                ("4 KiB, on-slow", "per_read"),
                "base kernel",
            ),
            Pair(
                "TLB flushes per 1,000 moved pages; NUMA balancing promotes; 16 threads, MIGRC on",
                "flush",
                "{:,.1f}",
                ("seed: NUMA balancing, batched migration", "all"),
                ("seed: NUMA balancing, batched migration and MIGRC", "all"),
                "MIGRC off",
            ),
            Pair(
                "group at its limit: longest of 1,000 pauses beside swap-out, us",
                "flush",
                "{:,.0f}",
                ("swap: unmodified", "pause_most"),
                ("swap: batched migration", "pause_most"),
                "base kernel",
            ),
        ),
    ),
)


def _values(lines: Sequence[ledger.Line], study: str, cell: str, figure: str) -> list[float | int]:
    """The figure in each turn of the cell; [] where the ledger has none."""
    mine = [one for one in lines if (one.study, one.cell) == (study, cell)]
    return [line.figures[figure] for line in mine if figure in line.figures]


def _mean(values: Sequence[float | int], form: str) -> str:
    """A cost below that of the base kernel is below the noise."""
    if not values:
        return "-"
    mean = statistics.fmean(values)
    return form.format(mean) if mean >= 0 else "0 (below the noise)"


def _source(study: str, count: int, marks: Mapping[str, str]) -> str:
    """Turns, and the study's state unless the study is current."""
    mark = marks.get(study, CURRENT)
    return f"n = {count}" + ("" if mark == CURRENT else f", {mark}")


def table(lines: Sequence[ledger.Line], marks: Mapping[str, str]) -> list[list[str]]:
    """Header and rows of the scenarios; means of all turns, "-" where the ledger has no figure."""
    rows = [["", *COLUMNS, "runs"]]
    for row in ROWS:
        values = [_values(lines, row.study, SCENARIO[one], row.figure) for one in COLUMNS]
        count = max(len(found) for found in values)
        rows.append(
            [row.label, *(_mean(one, row.form) for one in values), _source(row.study, count, marks)]
        )
    return rows


def pairs(part: Part, lines: Sequence[ledger.Line], marks: Mapping[str, str]) -> list[list[str]]:
    """Header and rows of a part."""
    rows = [[*part.header, "runs"]]
    for one in part.pairs:
        other = _values(lines, one.study, *one.other)
        ours = _values(lines, one.study, *one.ours)
        named = {"mechanism": [one.name, one.label]}.get(part.header[0], [one.label, one.name])
        rows.append(
            [
                *named[: len(part.header) - 2],
                _mean(other, one.form),
                _mean(ours, one.form),
                _source(one.study, max(len(other), len(ours)), marks),
            ]
        )
    return rows


def tables(lines: Sequence[ledger.Line], marks: Mapping[str, str]) -> list[str]:
    """The parts as lines of Markdown."""
    found = []
    for part in PARTS:
        found += [part.title, ""] if part.title else []
        found += [*report.markdown_rows(pairs(part, lines, marks)), ""]
    return found


# --- in the README ----------------------------------------------------------------------

BEGIN, END = "<!-- headline: `make report` -->", "<!-- end of headline -->"


def in_readme(text: str, lines: Sequence[ledger.Line], marks: Mapping[str, str]) -> str:
    """The README with the tables as the ledger has them."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise LabError(f"README.md has no {BEGIN} and {END}", "restore these lines")
    rows = "\n".join(tables(lines, marks))
    return f"{before}{BEGIN}\n\n{rows}\n{END}{after}"
