# SPDX-License-Identifier: GPL-2.0
"""A small scenario in a guest, from its file to its figures."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from lab import build, cache, report, scenario

SMALL = """
description = "small: a hot set that should be promoted"
[topology]
name = "TOPOLOGY"
sizes = { fast_mb = 192, slow_mb = 192, fast_cpus = 2 }
system_cpus = [1]
append = "clearcpuid=erms,fsrm"
[workload]
program = "hotset"
args = ["--size-mb", "32", "--pattern", "hotcold", "--seconds", "SECONDS", "--write-pct", "10"]
cpus = [0]
[placement]
process = "workload"
[measure]
instruments = ["access", "insn"]
app_cpus = [0]
cache_lines = 1024
timeout_s = 120
unit = "pick"
"""
CONTENDER = """
[[contender]]
name = "{0}"
mode = "{0}"
kernel = "{1}"
"""


def run_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> tuple[dict[str, object], str]:
    directory = tmp_path / "scenarios"
    directory.mkdir()
    (directory / "small.toml").write_text(text)
    monkeypatch.setattr(scenario, "DIRECTORY", directory)
    progress = io.StringIO()
    result = scenario.run_scenario(
        scenario.load("small"),
        kernels=build.kernel,
        out_dir=tmp_path / "out",
        cache=cache.root(),
        progress=progress,
    )
    shown = io.StringIO()
    report.print_table(result, shown)
    return result, progress.getvalue() + shown.getvalue()


def test_small_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SMALL.replace("TOPOLOGY", "two-tier").replace("SECONDS", "25")
    text += CONTENDER.format("none", "base") + CONTENDER.format("tiershift", "tiershift")
    text += "[check]\nrival_must_promote = true\n"
    result, shown = run_small(tmp_path, monkeypatch, text)
    assert result["failures"] == []
    figures = result["metrics"]["figures"]  # type: ignore[index]
    none, ours = figures["none"], figures["tiershift"]
    assert none["promoted"] == 0 and none["hit_ratio_end"] < 0.2
    assert ours["promoted"] > 0 and ours["hit_ratio_end"] > none["hit_ratio_end"] + 0.3
    assert ours["hot_on_fast"] > 0.5 > none["hot_on_fast"]
    assert ours["hint_faults"] == 0
    assert none["app_kernel"] > 0
    # Each instruction of the kernel is of one kind, and ours are not the application's.
    for run in result["contenders"]:  # type: ignore[attr-defined]
        kinds, cpu = run["insn"]["kinds"].values(), 0
        assert run["insn"]["unmatched"] < 0.0001
        assert sum(kind["process"][cpu] + kind["thread"][cpu] for kind in kinds) == pytest.approx(
            run["insn"]["vcpus"][cpu]["kernel_work"], rel=0.001
        )
    more = result["metrics"]["overhead"]["tiershift"]  # type: ignore[index]
    threads, processes = (
        {kind: n[f"{who} app"] + n[f"{who} other"] for kind, n in more.items()}
        for who in ("thread", "process")
    )
    assert threads["scan"] > 10 * abs(processes["scan"])
    assert threads["migration"] > 10 * abs(processes["migration"])
    times = result["contenders"][1]["agent"]["measured"]["thread_s"]  # type: ignore[index]
    assert times["kmmscand0"] > 0 and times["kpromoted1"] > 0
    assert "fast tier serves" in shown and "pages promoted" in shown


def test_rival_that_promotes_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without HMAT the slow node counts as top tier, and nothing is promoted."""
    text = SMALL.replace("TOPOLOGY", "two-tier-nohmat").replace("SECONDS", "5")
    text += CONTENDER.format("numab2", "base") + "[check]\nrival_must_promote = true\n"
    result, shown = run_small(tmp_path, monkeypatch, text)
    assert result["failures"] == ["numab2 promoted nothing: there is no comparison to make"]
    assert "FAILED CHECK" in shown
