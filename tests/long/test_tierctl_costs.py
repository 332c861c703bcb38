# SPDX-License-Identifier: GPL-2.0
"""What tierctl costs beside 10,000 idle processes.

The processes and what /proc tells of them are real.  Nodes and 1,000 groups, which hold the
processes, are made up.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_trees import FAST, OURS, SLOW, build

PROCESSES = 10_000
GROUPS = 1000
# Its children end with it, also if the test is killed: then its input ends.
FORKER = f"""
import os, signal, sys
try:
    for _ in range({PROCESSES}):
        if not (pid := os.fork()):
            signal.pause()
        print(pid)
    print("all", flush=True)
    sys.stdin.read()
finally:
    os.killpg(0, signal.SIGKILL)
"""
# The parent's memory counts as the child's in getrusage(), but not in VmHWM.
MEASURED = """
import re, sys, time
from tierctl import cli
from tierctl.commands import status
began = time.process_time()
assert cli.main(sys.argv[1:]) in (0, 1)
size = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
ended = time.process_time()
print(ended - began, ended, size[1], file=sys.stderr)
"""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A machine of 4 TiB and 512 CPUs, whose groups hold real processes."""
    place = tmp_path_factory.mktemp("machine")
    nodes = (replace(FAST, gib=1024), replace(FAST, gib=1024), replace(SLOW, gib=2048))
    build(place, replace(OURS, nodes=nodes, groups=GROUPS, cpus=512, processes=0))
    forker = subprocess.Popen(
        [sys.executable, "-S", "-c", FORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert forker.stdout
        pids = list(iter(forker.stdout.readline, "all\n"))
        groups = sorted(place.glob("sys/fs/cgroup/*.slice/*/cgroup.procs"))
        assert len(pids) == PROCESSES and len(groups) >= GROUPS / 2
        for pid in map(str.strip, pids):
            if not (place / "proc" / pid).exists():  # a made-up kernel thread may
                (place / "proc" / pid).symlink_to(f"/proc/{pid}")
        for number, procs in enumerate(groups):
            procs.write_text("".join(pids[number :: len(groups)]))
        yield place
    finally:
        os.killpg(forker.pid, signal.SIGKILL)
        forker.wait()


def costs(*words: str) -> tuple[float, float, int]:
    """CPU time of a command, the same with Python's start, and its largest size: the best of 3."""
    found = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *words], capture_output=True, text=True, check=True
        )
        cpu, whole, size = done.stderr.split()
        found.append((float(cpu), float(whole), int(size) * 1024))
    return min(found)


def test_status_beside_idle_processes_costs_at_most_50_ms(root: Path) -> None:
    cost, _, _ = costs("--root", str(root), "status", "--interval", "0.05")
    print(f"{1000 * cost:.0f} ms")
    assert cost < 0.05


def test_export_beside_idle_processes_costs_1_percent_and_30_mb(root: Path) -> None:
    _, cost, size = costs("--root", str(root), "export")
    print(f"{100 * cost / 15:.2f} % of a CPU, {size / 1e6:.0f} MB")
    assert cost / 15 < 0.01
    assert size < 30e6


def test_watch_beside_idle_processes_costs_5_percent(root: Path) -> None:
    """Each 2 s; `watch` shows what `top` tells."""
    pid, screen = pty.fork()
    if not pid:
        environ = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        words = ["-m", "tierctl", "--root", str(root), "watch"]
        os.execve(sys.executable, [sys.executable, *words], environ)
    seen = b""
    used = []
    ends = time.monotonic() + 3
    for seconds in (0, 20):
        ends += seconds
        while time.monotonic() < ends:
            seen += os.read(screen, 65536)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used.append((int(fields[11]) + int(fields[12])) * TICK_S)
    os.write(screen, b"q")
    os.waitpid(pid, 0)
    print(f"{100 * (used[1] - used[0]) / 20:.1f} % of a CPU")
    assert (used[1] - used[0]) / 20 < 0.05
    assert b"HOT-SLOW" in seen
