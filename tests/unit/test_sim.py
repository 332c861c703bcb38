# SPDX-License-Identifier: GPL-2.0
"""The simulator of the promoter: its jobs reach their limits, and miss them without a rule."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab import cache

SIM = cache.PROJECT / "tests/sim"
SEEDS = 2
# A rule, and a job that needs it
NEEDED = (
    ("turns", "twice-uniform"),
    ("window", "zipf-4k"),
    ("idle", "hotcold-4k"),
    ("wait", "twice-uniform"),
    ("again", "long-bursts"),
    ("change", "shifting"),
    ("enough", "small-queue"),
)


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sim") / "sim"
    subprocess.run(["make", "-s", "-C", SIM, f"OUT={out}"], check=True)
    return out


def _run(sim: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sim, *args], capture_output=True, text=True, check=False)


def test_sim_with_all_rules_reaches_all_limits(sim: Path) -> None:
    done = _run(sim, "-n", str(SEEDS))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("rule", "job"), NEEDED)
def test_sim_without_a_rule_misses_a_limit(sim: Path, rule: str, job: str) -> None:
    """With all of them it reaches its limits: see above."""
    done = _run(sim, "-w", rule, job)
    assert done.returncode == 1, done.stdout
    assert "MISSED" in done.stdout


def test_sim_has_a_job_for_each_rule(sim: Path) -> None:
    """What is not a rule is refused, with the names of the rules."""
    done = _run(sim, "-w", "no such rule")
    assert done.returncode == 2
    assert set(re.split(r"there are:", done.stderr)[1].split()) == {rule for rule, _ in NEEDED}


def test_sim_with_an_unknown_job_is_refused(sim: Path) -> None:
    done = _run(sim, "no-such-job")
    assert done.returncode == 2
    assert "zipf-4k" in done.stderr
