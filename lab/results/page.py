# SPDX-License-Identifier: GPL-2.0
"""docs/results.md: the ledger on one page.  Nothing is measured for it."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from pathlib import Path

from lab import cache, report
from lab.results import headline, ledger
from lab.results.study import Study, goal_text

PAGE = cache.PROJECT / "docs" / "results.md"
MOST = 150  # lines


def goals_of(lines: Sequence[ledger.Line]) -> list[ledger.Goal]:
    """All goals of some lines."""
    return [goal for line in lines for goal in line.goals]


def matrix(studies: Sequence[Study], lines: Sequence[ledger.Line]) -> list[list[str]]:
    """Header and a row for each study that has lines: how many goals are met."""
    rows = [["study", *ledger.VERDICTS, "failed checks", "runs", "kernel", "measured"]]
    for one in studies:
        mine = [line for line in lines if line.study == one.name]
        if not mine:
            continue
        verdicts = collections.Counter(goal.verdict for goal in goals_of(mine))
        kernels = sorted({line.kernel for line in mine if line.kernel[:4] not in ("", "base")})
        rows.append(
            [
                one.name,
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


def markdown(studies: Sequence[Study], lines: Sequence[ledger.Line]) -> str:
    """The page."""
    return "\n".join(
        [
            "<!-- SPDX-License-Identifier: GPL-2.0 -->",
            "# Results",
            "",
            "`lab report` writes this page from `results/ledger.ndjson`, and with it an HTML file "
            "that has every table, curve and state.  Nothing here is written by hand.",
            "",
            "Guests are emulated (QEMU TCG).  Counts are exact.  Seconds are no speed of "
            "hardware.  A single run has no verdict; goals are of repeated or exact measurements.",
            "",
            "## Headline",
            "",
            *report.markdown_rows(headline.table(lines)),
            "",
            "## Studies and goals",
            "",
            *report.markdown_rows(matrix(studies, lines)),
            "",
            *_beside(studies, lines),
            "## Missed",
            "",
            *_missed(studies, lines),
            "",
        ]
    )


def write(studies: Sequence[Study], lines: Sequence[ledger.Line], path: Path = PAGE) -> None:
    """Write the page."""
    path.write_text(markdown(studies, lines), encoding="utf-8")
