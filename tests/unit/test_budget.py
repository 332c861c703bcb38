# SPDX-License-Identifier: GPL-2.0
"""Tests that take too long are an error; a loaded machine and a part of the tests are none."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import budget
import pytest
from budget import Session, Spent

from lab import cache, manifest

TESTS = cache.PROJECT / "tests"
ROOM = "boot/test_zap_selftest.py"


def session(unit: Spent, boot: Spent | None = None, **more: Any) -> Session:
    files = {"unit/test_a.py": unit, "boot/test_b.py": boot or Spent()}
    made = Session(files, 100.0, budget.TIERS, warm=True, workers=2, cpus=2)
    return dataclasses.replace(made, **more)


def judged(made: Session) -> dict[str, bool]:
    return {one.part: one.error for one in budget.judge(made)}


@pytest.mark.parametrize(
    ("seconds", "cpu_s", "found"),
    [
        (179.0, 179.0, {}),  # of two workers, so 89.5
        (181.0, 181.0, {"tests/unit": False}),
        (359.0, 359.0, {"tests/unit": False}),
        (361.0, 361.0, {"tests/unit": True}),
        # Eight seconds for each that it needs: the machine has other things to do.
        (361.0, 179.0, {"tests/unit": False}),
        (900.0, 179.0, {"tests/unit": False}),
    ],
)
def test_unit_tests(seconds: float, cpu_s: float, found: dict[str, bool]) -> None:
    assert judged(session(Spent(seconds, cpu_s))) == found
    assert judged(session(Spent(seconds, cpu_s), tiers=["unit"])) == found
    assert judged(session(Spent(seconds, cpu_s), tiers=["boot"])) == {}
    assert judged(session(Spent(seconds, cpu_s), tiers=[])) == {}


@pytest.mark.parametrize(
    ("warm", "seconds", "cpu_s", "error"),
    [
        (True, 899, 9999, None),
        (True, 901, 9999, False),
        (True, 1801, 1801, True),
        (True, 1801, 1799, False),
        (False, 1801, 9999, None),
        (False, 2521, 9999, False),
        (False, 5041, 9999, True),
    ],
)
def test_whole_run(warm: bool, seconds: float, cpu_s: float, error: bool | None) -> None:
    made = session(Spent(), Spent(1.0, cpu_s), warm=warm, seconds=seconds)
    kind = "kernels built" if warm else "from nothing"
    name = f"tests/unit and tests/boot, {kind},"
    assert judged(made) == ({} if error is None else {name: error})
    assert judged(dataclasses.replace(made, tiers=["unit"])) == {}


@pytest.mark.parametrize(("seconds", "error"), [(119.0, None), (121.0, False), (241.0, True)])
def test_room_has_its_own_limit(seconds: float, error: bool | None) -> None:
    made = session(Spent(), files={ROOM: Spent(seconds, seconds)})
    assert judged(made) == ({} if error is None else {"room zap-batch": error})
    # What is built is not the room's.
    assert judged(dataclasses.replace(made, warm=False)) == {}


@pytest.mark.parametrize(
    ("whole", "error"), [(900.0, True), (1790.0, True), (1810.0, False), (2600.0, False)]
)
def test_slow_machine_is_no_error_of_a_room(whole: float, error: bool) -> None:
    made = session(Spent(), files={ROOM: Spent(478.0, 478.0)}, seconds=whole)
    assert judged(made)["room zap-batch"] is error
    unit = session(Spent(718.0, 718.0), seconds=whole)
    assert judged(unit)["tests/unit"] is error


def test_limits_are_those_that_are_told() -> None:
    assert (budget.WARM_S, budget.COLD_S, budget.UNIT_S, budget.ROOM_S) == (900, 2520, 90, 60)
    for room, files in budget.ROOMS.items():
        assert room in manifest.load()
        assert all((TESTS / name).is_file() for name in files)
    assert set(budget.ROOM_LIMITS) <= set(budget.ROOMS)
    assert {path.name for path in TESTS.iterdir() if [*path.glob("test_*.py")]} == {
        *budget.TIERS,
        "long",
    }


@pytest.mark.parametrize(
    ("args", "tiers"),
    [
        (["tests"], ["unit", "boot"]),
        (["."], ["unit", "boot"]),
        ([str(TESTS)], ["unit", "boot"]),
        (["tests/unit", "tests/boot"], ["unit", "boot"]),
        (["tests/unit"], ["unit"]),
        (["tests/unit", "tests/boot/test_guest.py"], ["unit"]),
        (["tests/unit/test_page.py"], []),
        (["tests/unit/test_page.py::test_page_is_short"], []),
        (["tests/long"], []),
    ],
)
def test_only_what_is_run_whole_is_judged(args: list[str], tiers: list[str]) -> None:
    assert budget.whole(args, TESTS, cache.PROJECT, narrowed=False) == tiers
    assert budget.whole(args, TESTS, cache.PROJECT, narrowed=True) == []


# --- by pytest ----------------------------------------------------------------------------

SLOW = """
import time
def test_slow():
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass
def test_quick():
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Tests of half a second of CPU, where a twentieth is allowed."""
    for tier in budget.TIERS:
        (tmp_path / "tests" / tier).mkdir(parents=True)
    (tmp_path / "tests/conftest.py").write_text((TESTS / "conftest.py").read_text())
    text = (TESTS / "budget.py").read_text()
    assert "UNIT_S = 90" in text
    (tmp_path / "tests/budget.py").write_text(text.replace("UNIT_S = 90", "UNIT_S = 0.05"))
    (tmp_path / "tests/unit/test_slow.py").write_text(SLOW)
    (tmp_path / "tests/boot/test_boot.py").write_text("def test_it():\n    pass\n")
    (tmp_path / "pyproject.toml").write_text((cache.PROJECT / "pyproject.toml").read_text())
    return tmp_path


def run(project: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = dict(os.environ, PYTHONPATH=str(cache.PROJECT), TIERSHIFT_CACHE=str(project / "cache"))
    for name in [name for name in env if name.startswith("PYTEST_")]:
        del env[name]
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *argv)
    return subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_run_that_takes_too_long_fails(project: Path, workers: str) -> None:
    done = run(project, "-n", workers, "tests")
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert "error: tests/unit took" in done.stdout and "the budget is 0 s" in done.stdout
    assert budget.ADVICE in done.stdout and done.returncode == 1
    # Who sees only the end of the output is told, too.
    assert done.stdout.rstrip().splitlines()[-2] == budget.ADVICE
    # It is kept all the same, to see what was slow.
    kept = json.loads((project / "cache/tests.json").read_text())
    assert kept["warm"] and kept["workers"] == max(1, int(workers))
    assert next(iter(kept["files"])) == "unit/test_slow.py"
    assert kept["files"]["unit/test_slow.py"]["cpu_s"] >= 0.4


@pytest.mark.parametrize(
    "argv",
    [
        ("-k", "slow", "tests"),
        ("tests/unit/test_slow.py",),
        ("--deselect", "tests/unit/test_slow.py::test_quick", "tests"),
    ],
)
def test_part_of_the_tests_is_not_judged(project: Path, argv: tuple[str, ...]) -> None:
    done = run(project, *argv)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the budget" not in done.stdout and not (project / "cache/tests.json").exists()


def test_what_shares_a_work_tree_runs_on_one_worker(project: Path) -> None:
    (project / "tests/boot/test_rooms.py").write_text(
        "import os, time, pytest\n"
        "@pytest.mark.parametrize('one', range(4))\n"
        "def test_it(one):\n"
        "    worker = os.environ['PYTEST_XDIST_WORKER']\n"
        "    with open('workers', 'a') as kept:\n"
        "        kept.write(worker + chr(10))\n"
        "    time.sleep(0.2)\n"
    )
    makefile = (cache.PROJECT / "Makefile").read_text()
    (options,) = re.findall(r"-m pytest (.*)", makefile)
    done = run(project, *shlex.split(options), "tests")
    assert "7 passed" in done.stdout, done.stdout + done.stderr
    workers = (project / "workers").read_text().split()
    assert len(workers) == 4 and len(set(workers)) == 1, workers


def test_run_that_fails_is_not_judged(project: Path) -> None:
    (project / "tests/boot/test_boot.py").write_text("def test_it():\n    assert False\n")
    done = run(project, "tests")
    assert done.returncode == 1 and "the budget" not in done.stdout


def test_quick_run_is_good(project: Path) -> None:
    (project / "tests/budget.py").write_text((TESTS / "budget.py").read_text())
    done = run(project, "tests")
    assert done.returncode == 0 and "the budget" not in done.stdout, done.stdout
    kept = json.loads((project / "cache/tests.json").read_text())
    assert set(kept["files"]) == {"unit/test_slow.py", "boot/test_boot.py"}


def test_run_that_builds_a_kernel_is_not_warm(project: Path) -> None:
    (project / "tests/boot/test_boot.py").write_text(
        "from lab import build\n"
        "def test_it(monkeypatch):\n"
        "    monkeypatch.setattr(build.run, 'output', lambda *a, **k: 1 / 0)\n"
        "    try:\n"
        "        build._build('base', *[None] * 6)\n"
        "    except Exception:\n"
        "        pass\n"
    )
    for workers in ("0", "2"):
        run(project, "-n", workers, "tests")
        assert not json.loads((project / "cache/tests.json").read_text())["warm"]
