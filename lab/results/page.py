# SPDX-License-Identifier: GPL-2.0
"""docs/results.md: the ledger on one page.  Nothing is measured for it."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab import cache, report
from lab.results import headline, ledger
from lab.results.status import CURRENT, DIRTY, MISSING, STALE
from lab.results.study import Study, goal_text

PAGE = cache.PROJECT / "docs" / "results.md"
MOST = 150  # lines


def goals_of(lines: Sequence[ledger.Line]) -> list[ledger.Goal]:
    """All goals of some lines."""
    return [goal for line in lines for goal in line.goals]


def matrix(
    studies: Sequence[Study], lines: Sequence[ledger.Line], marks: Mapping[str, str]
) -> list[list[str]]:
    """Header and a row for each study that has lines: how many goals are met."""
    rows = [["study", "state", *ledger.VERDICTS, "failed checks", "runs", "kernel", "measured"]]
    for one in studies:
        mine = [line for line in lines if line.study == one.name]
        if not mine:
            continue
        verdicts = collections.Counter(goal.verdict for goal in goals_of(mine))
        kernels = sorted({line.kernel for line in mine if line.kernel[:4] not in ("", "base")})
        rows.append(
            [
                one.name,
                marks[one.name],
                *(f"{verdicts[verdict] or '-'}" for verdict in ledger.VERDICTS),
                f"{sum(len(line.checks) for line in mine) or '-'}",
                f"{len(mine)}",
                ", ".join(f"`{kernel}`" for kernel in kernels) or "-",
                max(line.date for line in mine)[:10],
            ]
        )
    return rows


def _missed(studies: Sequence[Study], lines: Sequence[ledger.Line]) -> list[str]:
    """A line for each study: the goals that it misses."""
    found = []
    for one in studies:
        mine = [line for line in lines if line.study == one.name]
        texts = [
            f"{line.cell}: {goal_text(goal)}"
            for line in mine
            for goal in line.goals
            if goal.verdict == ledger.MISSED
        ]
        texts += [f"check: {text}" for line in mine for text in line.checks]
        if texts:
            found.append(f"- **{one.name}**: " + "; ".join(texts))
    return found


def _beside(studies: Sequence[Study], lines: Sequence[ledger.Line]) -> list[str]:
    """Tables of what others have measured, beside ours."""
    found = []
    for one in studies:
        mine = [line for line in lines if line.study == one.name]
        if one.beside and mine:
            title, rows = one.beside
            found += [f"## {title}", "", *report.markdown_rows(rows(mine)), ""]
    return found


def _states(marks: Mapping[str, str]) -> list[str]:
    """How many studies are in each state, what the state means, and which have no results."""
    count = collections.Counter(marks.values())
    missing = [name for name, mark in marks.items() if mark == MISSING]
    return [
        f"Of {len(marks)} studies, {count[CURRENT]} are current, {count[STALE]} stale, "
        f"{count[DIRTY]} dirty and {count[MISSING]} missing.",
        "",
        "- **current**: the kernel of `results/kernels.json` has the code that was measured.",
        "- **stale**: that kernel has other code, or the ledger does not say which code was "
        "measured.",
        "- **dirty**: the measured checkout had changes that are in no commit.",
        "- **missing**: the ledger has no line"
        + (": " + ", ".join(f"`{name}`" for name in missing) if missing else "")
        + ".",
        "",
        "`lab status` compares with the kernel of the checkout and gives reasons.  `make report` "
        "renews `results/kernels.json`.",
    ]


def markdown(
    studies: Sequence[Study], lines: Sequence[ledger.Line], marks: Mapping[str, str]
) -> str:
    """The page; ``marks`` has the state of each study."""
    return "\n".join(
        [
            "<!-- SPDX-License-Identifier: GPL-2.0 -->",
            "# Results",
            "",
            "`lab report` writes this page from `results/ledger.ndjson`, and with it an HTML file "
            "with every table, curve and state.  Do not edit this page.",
            "",
            "Guests are emulated (QEMU TCG).  Counts are exact.  Times are emulated; they do not "
            "predict hardware.  A single run has no verdict; goals need repeated runs or exact "
            "counts.",
            "",
            "[flushes.md](flushes.md) tells TLB flushes by source, and what became of the goals.",
            "",
            "## Scenarios",
            "",
            "The [README](../README.md) has the main figures and the losses.",
            "",
            *report.markdown_rows(headline.table(lines, marks)),
            "",
            "## Studies and goals",
            "",
            *_states(marks),
            "",
            *report.markdown_rows(matrix(studies, lines, marks)),
            "",
            *_beside(studies, lines),
            "## Missed",
            "",
            *_missed(studies, lines),
            "",
        ]
    )


def write(
    studies: Sequence[Study],
    lines: Sequence[ledger.Line],
    marks: Mapping[str, str],
    path: Path = PAGE,
) -> None:
    """Write the page."""
    path.write_text(markdown(studies, lines, marks), encoding="utf-8")
