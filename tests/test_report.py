# SPDX-License-Identifier: GPL-2.0
"""Figures and reports, from a made-up result with known answers."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from lab import metrics, report, scenario

OPS = 100_000


def contender(name: str, mode: str, app: int, promoted: int, rise: float | None) -> dict[str, Any]:
    """100 accesses in each of 60 seconds; from second ``rise`` on 80 % are fast, before 10 %."""
    points = [[0.0, 0, 0]]
    for second in range(1, 61):
        fast = 80 if rise is not None and second > rise else 10
        points.append([float(second), points[-1][1] + fast, points[-1][2] + 100 - fast])
    return {
        "name": name,
        "mode": mode,
        "rival": mode == "numab2",
        "settings": {},
        "demotion": True,
        "kernel": {
            "flavour": "base",
            "release": "6.12.1",
            "key": "abc",
            "base_version": "6.12.1-1",
        },
        "agent": {
            "placement": {"share": 0.99, "pages": {"1": 1000}},
            "workload": {"ops": OPS, "seconds": 60.0, "verified": True},
            "measured": {
                "seconds": 60.0,
                "delta": {"pgpromote_success": promoted, "pgdemote_kswapd": 3},
                "tlb_interrupts": [5, 7],
                "progress": [{"t": float(t), "ops": t * OPS // 60} for t in range(1, 61)],
            },
        },
        "access": points,
        "insn": {
            "vcpus": [
                {"kernel_work": app, "kernel_spin": 1, "locked": 2},
                {"kernel_work": 1_000_000, "kernel_spin": 0, "locked": 0},
            ]
        },
    }


def result(*runs: dict[str, Any], **rules: Any) -> dict[str, Any]:
    node = {"name": "fast", "size_mb": 256, "cpus": 2, "latency_ns": 100}
    slow = {"name": "slow", "size_mb": 512, "cpus": 0, "latency_ns": 250}
    check = {
        "rival_must_promote": True,
        "max_promoted_share": 0.0,
        "same_huge_pages": False,
        "min_hit_ratio": 0.0,
        **rules,
    }
    made: dict[str, Any] = {
        "schema": scenario.SCHEMA,
        "scenario": "made-up",
        "description": "made <up>",
        "command": "lab run",
        "date": "2026-01-01T00:00:00Z",
        "seconds": 1,
        "host": {"qemu": "7.2", "cpus": 2},
        "setup": {
            "measure": {
                "app_cpus": [0],
                "tail_s": 8.0,
                "unit": "GET",
                "instruments": ["access", "insn"],
                "cache_lines": 64,
                "noise_app_per_op": 0.0,
                "noise_all_per_op": 0.0,
            },
            "check": check,
        },
        "machine": {"nodes": [node, slow]},
        "contenders": list(runs),
    }
    made["metrics"] = metrics.derive(made)
    made["failures"] = metrics.check(made)
    return made


def test_known_figures() -> None:
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        contender("ours", "tiershift", 10_400_000, 200, 30.0),
    )
    none, ours = made["metrics"]["figures"]["none"], made["metrics"]["figures"]["ours"]
    assert none["hit_ratio_end"] == pytest.approx(0.1)
    assert ours["hit_ratio_end"] == pytest.approx(0.8)
    assert ours["access_ns"] == pytest.approx(0.8 * 100 + 0.2 * 250)
    # The ratio of the last two seconds is 0.8 first at 32 s.
    assert ours["t90_s"] == pytest.approx(32)
    assert ours["t90_ops"] == pytest.approx(32 / 60 * OPS, rel=0.001)
    assert "t90_s" not in none and none["t90_best_s"] is None
    assert ours["app_per_page"] == pytest.approx(400_000 / 200)
    assert (ours["shootdowns_app"], ours["demoted"]) == (5, 3)
    assert ours["shootdowns_sent"] is None  # the kernel did not tell
    assert made["failures"] == []


def test_noise_is_measured_by_twins_and_shown() -> None:
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        contender("again", "none", 10_500_000, 0, None),
        contender("ours", "tiershift", 10_400_000, 200, 30.0),
    )
    ours = made["metrics"]["figures"]["ours"]
    assert made["metrics"]["noise"]["app"] == pytest.approx(5.0)
    assert ours["app_per_page_noise"] == pytest.approx(2500)
    row = next(row for row in metrics.ROWS if row.key == "app_per_page")
    assert report.cell(row, ours) == "within noise (2,500)"


@pytest.mark.parametrize(
    ("run", "rules", "words"),
    [
        (contender("n2", "numab2", 1, 0, None), {}, "n2 promoted nothing"),
        (contender("off", "none", 1, 5, None), {}, "without tiering"),
        (contender("ours", "tiershift", 1, 200, None), {"max_promoted_share": 0.1}, "more than"),
        (contender("ours", "tiershift", 1, 9, None), {"min_hit_ratio": 0.5}, "below"),
    ],
)
def test_checks_that_fail(run: dict[str, Any], rules: dict[str, Any], words: str) -> None:
    assert any(words in failure for failure in result(run, **rules)["failures"])


def test_split_huge_page_fails_the_check() -> None:
    run = contender("ours", "tiershift", 1, 9, 30.0)
    run["agent"]["measured"]["delta"]["thp_split_page"] = 1
    assert result(run, same_huge_pages=True)["failures"]
    run["agent"]["measured"]["delta"]["thp_split_page"] = 0
    assert not result(run, same_huge_pages=True)["failures"]


def test_all_forms_are_written(tmp_path: Path) -> None:
    made = result(
        contender("none", "none", 10_000_000, 0, None),
        contender("n2", "numab2", 12_000_000, 100, 20.0),
    )
    shown = io.StringIO()
    report.print_table(made, shown)
    lines = shown.getvalue().splitlines()
    assert any("pages promoted" in line and line.endswith("100") for line in lines)
    assert any("per promoted page" in line and "20,000 (?)" in line for line in lines)
    report.write(made, tmp_path)
    assert json.loads((tmp_path / "made-up.json").read_text())["schema"] == scenario.SCHEMA
    text = (tmp_path / "made-up.md").read_text()
    assert "| pages promoted | 0 | 100 |" in text
    plot = ET.fromstring((tmp_path / "made-up.svg").read_text())
    drawn = [item for item in plot.iter() if item.tag.endswith("polyline")]
    assert len(drawn) == 2
