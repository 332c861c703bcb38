# SPDX-License-Identifier: GPL-2.0
"""In the guest: copies of the files that tierctl reads, and looks of MGLRU.

tierctl is slow under emulation, so that a guest copies files only (lab/agent.py), and tierctl works
on the host (lab/seen.py).  Each copy is a line of JSON.

A look makes MGLRU begin a generation of each group on each node.  It clears Accessed bits.

Standard library only.
"""

from __future__ import annotations

import glob
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

FILE = "seen.jsonl"
CGROUP = "/sys/fs/cgroup"
LRU_GEN = "/sys/kernel/debug/lru_gen"
NODE = "/sys/devices/system/node"
CHILDREN = "/proc/2/task/2/children"
PATTERNS = (
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/tainted",
    "/proc/uptime",
    "/proc/vmstat",
    "/proc/zoneinfo",
    CHILDREN,
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/memory/memory*/state",
    f"{NODE}/has_cpu",
    f"{NODE}/has_memory",
    f"{NODE}/node*/meminfo",
    f"{NODE}/node*/distance",
    f"{NODE}/node*/access[01]/initiators/*_*",
    f"{NODE}/node*/hugepages/*/nr_hugepages",
    f"{NODE}/node*/memory*/state",
    "/sys/devices/virtual/memory_tiering/memory_tier*/nodelist",
    f"{CGROUP}/cgroup.controllers",
    f"{CGROUP}/*.slice/memory.numa_stat",
    f"{CGROUP}/*.slice/memory.tier.max",
    f"{CGROUP}/*.slice/*/memory.numa_stat",
    f"{CGROUP}/*.slice/*/memory.tier.max",
    LRU_GEN,
    "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
    "/sys/kernel/mm/lru_gen/enabled",
    "/sys/kernel/mm/numa/demotion_enabled",
    "/sys/kernel/mm/tier/*",
    "/sys/kernel/mm/tier/*/*",
)
THREADS = re.compile(r"(kmmscand|kpromoted|kswapd|kdamond\.)\d")


def commands(text: str) -> list[str]:
    """What is written to lru_gen for a look at all groups and nodes, from its text."""
    found: dict[tuple[str, str], str] = {}  # the last generation of a group and node
    group = node = ""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["memcg"]:
            group = words[1]
        elif words[:1] == ["node"]:
            node = words[1]
        elif words:
            found[group, node] = words[0]
    return [f"+ {group} {node} {last} 1 1" for (group, node), last in found.items()]


class Looks:
    """The copies of one job."""

    def __init__(self, job: dict[str, Any], out: Path) -> None:
        self.client: list[str] = job["client"]
        self.file = out / FILE
        self._paths: list[str] = []
        self._names: dict[str, str] = {}  # of the kernel's threads

    def _threads(self) -> list[str]:
        pids = Path(CHILDREN).read_text(encoding="ascii").split()
        names = self._names
        for pid in pids:
            if pid not in names:
                names[pid] = _read(f"/proc/{pid}/comm") or ""
        return [f"/proc/{pid}/stat" for pid in pids if THREADS.match(names[pid])]

    def take(self, label: str) -> None:
        """Copy all files."""
        self._paths = self._paths or [path for one in PATTERNS for path in sorted(glob.glob(one))]
        wanted = [*self._paths, *self._threads()]
        texts = {path: _read(path) for path in wanted}
        files = {path: text for path, text in texts.items() if text is not None}
        files |= {f"/proc/{pid}/comm": name for pid, name in self._names.items() if name}
        line = json.dumps({"time": time.time(), "label": label, "files": files})
        with self.file.open("a", encoding="utf-8") as out:
            out.write(line + "\n")

    def look(self) -> None:
        """Let MGLRU look at all memory."""
        for command in commands(Path(LRU_GEN).read_text(encoding="utf-8")):
            Path(LRU_GEN).write_text(command, encoding="ascii")

    def before(self) -> None:
        """A copy before START, after a client has used memory."""
        self.look()
        subprocess.run(self.client, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        self.look()
        self.take("before")

    def during(self) -> None:
        """A copy while the workload runs: what was used since the copy before is in it."""
        self.look()
        self.take("run")


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="backslashreplace")
    except OSError:  # a directory, a file that has vanished, or one that cannot be read
        return None
