# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of `lab readcost`, from made-up counters; nothing is booted."""

from __future__ import annotations

import pytest

from lab import readcost
from lab.readcost import Figures

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


def test_good_runs_pass_and_are_shown() -> None:
    assert readcost.check(row()) == []
    lines = {line[0]: line[1] for line in readcost.table(row())[1:]}
    assert lines == {
        "unmodified kernel": "400.0",
        "the same again": "400.4 (+0.10%)",
        "kmmscand disabled": "401.0 (+0.25%)",
        "on, but page_cache 0": "401.5 (+0.37%)",
        "on, the file is on the fast node": "410.0 (+2.50%)",
        "on, the file is on the slow node": "480.0 (+20.00%)",
    }


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
