# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of the study readcost, from made-up counters; nothing is booted."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, verdicts, written

from lab import readcost
from lab.readcost import Figures
from lab.results import ledger

PAGES = readcost.FILE_MB * 256


def run(per_read: float, **changes: int) -> Figures:
    """A run of 1000 reads."""
    return {
        "reads": 1000,
        "instructions": int(1000 * per_read),
        "touched": 0,
        "promoted": 0,
        **changes,
    }


def row(**changes: Figures) -> dict[int, dict[str, Figures]]:
    return {
        4: {
            "base": run(400),
            "base-again": run(400.4),
            "off": run(401),
            "cache-off": run(401.5),
            "on-fast": run(410),
            "on-slow": run(480, touched=PAGES),
            **{name.replace("_", "-"): figures for name, figures in changes.items()},
        }
    }


def facts(rows: dict[int, dict[str, Figures]]) -> dict[str, Any]:
    return {
        **FACTS,
        "kernels": {"base": {**KERNEL, "flavour": "base"}, "tiershift": KERNEL},
        "contenders": [dataclasses.asdict(one) for one in readcost.CONTENDERS],
        "rows": rows,
        "failures": readcost.check(rows),
    }


def test_good_runs_pass_and_are_recorded(tmp_path: Path) -> None:
    assert readcost.check(row()) == []
    lines = written(readcost.STUDY, readcost.runs(facts(row())), tmp_path)
    assert {
        name: (line.figures["per_read"], line.figures.get("more")) for name, line in lines.items()
    } == {
        "4 KiB, base": (400, None),
        "4 KiB, base-again": (400.4, 0.001),
        "4 KiB, off": (401, 0.0025),
        "4 KiB, cache-off": (401.5, 0.00375),
        "4 KiB, on-fast": (410, 0.025),
        "4 KiB, on-slow": (480, 0.2),
    }
    assert lines["4 KiB, on-slow"].figures["touched"] == PAGES
    assert lines["4 KiB, base-again"].kernel == "base k"
    # What is switched off has a goal, and what is on has none.
    assert {name: verdicts(line) for name, line in lines.items() if line.goals} == {
        "4 KiB, off": [ledger.MET],
        "4 KiB, cache-off": [ledger.MET],
    }
    goal = lines["4 KiB, off"].goals[0]
    assert (goal.name, goal.value, goal.limit) == (
        "read(2) of 4 KiB, kmmscand disabled",
        0.0025,
        0.005,
    )


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"off": run(402)}, ledger.MET),
        ({"off": run(403)}, ledger.MISSED),
        ({"off": run(397)}, ledger.MISSED),
        ({"off": run(404), "base_again": run(405)}, ledger.MET),
    ],
)
def test_verdict_is_that_of_the_check(
    changes: dict[str, Figures], verdict: str, tmp_path: Path
) -> None:
    made = facts(row(**changes))
    lines = written(readcost.STUDY, readcost.runs(made), tmp_path)
    assert verdicts(lines["4 KiB, off"]) == [verdict]
    assert bool(made["failures"]) == (verdict == ledger.MISSED)
    assert lines["4 KiB, base"].checks == made["failures"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"off": run(403)}, "off differs"),
        ({"off": run(397)}, "off differs"),
        ({"cache_off": run(403)}, "cache-off differs"),
        ({"cache_off": run(401, touched=PAGES)}, "cache-off: 16384 folios"),
        ({"on_slow": run(480)}, "on-slow: 0 folios were recorded"),
        ({"on_fast": run(410, touched=PAGES)}, "on-fast: 16384 folios"),
        ({"on_slow": run(480, touched=PAGES, promoted=1)}, "1 pages were promoted"),
        ({"on_fast": {**run(410), "reads": 999}}, "not do the same work"),
    ],
)
def test_what_makes_figures_worthless(changes: dict[str, Figures], words: str) -> None:
    failures = readcost.check(row(**changes))
    assert any(words in failure for failure in failures), failures


def test_noise_counts_for_off() -> None:
    """Where two runs of the unmodified kernel differ more, that is the limit."""
    assert readcost.check(row(off=run(404), base_again=run(405))) == []
