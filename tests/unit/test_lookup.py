# SPDX-License-Identifier: GPL-2.0
"""The job that looks up values in tables, natively."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab import cache, programs


@pytest.fixture(scope="module")
def lookup() -> Path:
    return programs.build_programs(cache.sub("programs"))["lookup"]


def run_lookup(lookup: Path, *args: str) -> dict[str, Any]:
    done = subprocess.run(
        [lookup, "--size-mb", "8", *args],
        input="GO\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    line = next(text for text in done.stdout.splitlines() if text.startswith("RESULT "))
    result: dict[str, Any] = json.loads(line[7:])
    return result


def test_lookup_finds_the_same_whoever_looks(lookup: Path) -> None:
    one = run_lookup(lookup, "--ops", "30000", "--threads", "1")
    assert (one["ops"], one["again"], one["verified"]) == (30000, 256, True)
    assert sum(one["pages_before"]) == pytest.approx(8 * 256, abs=4)
    for other in (
        run_lookup(lookup, "--ops", "30000", "--threads", "7"),
        run_lookup(lookup, "--ops", "30000", "--threads", "2", "--write-pct", "100"),
    ):
        assert (other["ops"], other["hash"]) == (30000, one["hash"])
    for args in (("--seed", "2"), ("--nuclides", "65"), ("--ops", "30001")):
        assert run_lookup(lookup, "--ops", "30000", *args)["hash"] != one["hash"]


def test_lookup_in_a_window(lookup: Path) -> None:
    """What is drawn differs, and what is found is still right."""
    everywhere = run_lookup(lookup, "--ops", "30000")
    for args in (
        ("--sweeps", "3"),
        ("--sweeps", "3", "--threads", "7"),
        ("--sweeps", "3", "--window-pct", "5"),
        ("--sweep-ops", "7000"),
    ):
        found = run_lookup(lookup, "--ops", "30000", *args)
        assert found["verified"] and found["hash"] != everywhere["hash"]
        assert run_lookup(lookup, "--ops", "30000", *args)["hash"] == found["hash"]
    # A sweep in three of 30000 is one in 10000.
    one, other = (
        run_lookup(lookup, "--ops", "30000", "--threads", "1", *args)["hash"]
        for args in (("--sweeps", "3"), ("--sweep-ops", "10000"))
    )
    assert one == other
    assert run_lookup(lookup, "--seconds", "0.2", "--sweep-ops", "1000")["verified"]


def test_lookup_ends_when_told(lookup: Path) -> None:
    with subprocess.Popen(
        [lookup, "--seconds", "50"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdin and job.stdout
        assert job.stdout.readline() == "READY\n"
        job.stdin.write("GO\n")
        job.stdin.flush()
        assert job.stdout.readline().startswith("PROGRESS")
        job.send_signal(signal.SIGTERM)
        rest = job.stdout.read()
    assert job.returncode == 0 and '"verified":true' in rest


@pytest.mark.parametrize("place", [0.02, 0.5, 0.9, 0.99])
def test_lookup_notices_a_changed_word(lookup: Path, place: float) -> None:
    """Energies, index and points: whatever changes behind its back is noticed."""
    with subprocess.Popen(
        [lookup, "--size-mb", "8", "--ops", "20000"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        assert job.stdin and job.stdout and job.stderr
        assert job.stdout.readline() == "READY\n"
        maps = Path(f"/proc/{job.pid}/maps").read_text().splitlines()
        ranges = [tuple(int(n, 16) for n in line.split()[0].split("-")) for line in maps]
        # Stacks of threads that have ended can be neighbours of the same size; all are zero.
        start, end = max(ranges, key=lambda one: one[1] - one[0])
        with open(f"/proc/{job.pid}/mem", "r+b", buffering=0) as memory:
            at = start
            for line, (low, high) in zip(maps, ranges, strict=True):
                if high - low >= 8 << 20 and "rw-p" in line:
                    memory.seek(low + 64)
                    if any(memory.read(64)):
                        at, end = low, high
            where = at + int((end - at) * place) // 8 * 8
            memory.seek(where)
            old = int.from_bytes(memory.read(8), "little")
            memory.seek(where)
            memory.write((old ^ 1).to_bytes(8, "little"))
        job.stdin.write("GO\n")
        job.stdin.flush()
        errors = job.stderr.read()
    assert job.returncode == 1 and "CORRUPTION" in errors


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "either --ops or --seconds"),
        (("--ops", "1", "--seconds", "1"), "either --ops or --seconds"),
        (("--ops", "1", "--nuclides", "7"), "--nuclides"),
        (("--ops", "1", "--nuclides", "512", "--size-mb", "1"), "does not fit"),
        (("--ops", "1", "--threads", "65"), "--threads"),
        (("--ops", "1", "--write-pct", "101"), "--write-pct"),
        (("--ops", "1", "--pages", "1g"), "--pages must"),
        (("--seconds", "1", "--sweeps", "2"), "--sweeps needs --ops"),
        (("--ops", "9", "--sweeps", "2", "--sweep-ops", "9"), "no --sweep-ops"),
        (("--ops", "9", "--sweep-ops", "1"), "--sweep-ops must"),
        (("--ops", "9", "--window-pct", "0"), "--window-pct"),
    ],
)
def test_lookup_refuses_nonsense(lookup: Path, args: tuple[str, ...], words: str) -> None:
    done = subprocess.run(
        [lookup, "--size-mb", "8", *args], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and words in done.stderr
