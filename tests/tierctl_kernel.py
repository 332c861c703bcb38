# SPDX-License-Identifier: GPL-2.0
"""A made-up machine for the tests of tierctl's settings and profiles; there is no test here."""

from __future__ import annotations

import argparse
import functools
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tierctl.change import config
from tierctl.commands import profile
from tierctl.commands import set as settings
from tierctl.core.paths import STATE, TIER
from tierctl.core.source import Live

BOOT = "/proc/sys/kernel/random/boot_id"
BACKUP = "/sys/fs/cgroup/system.slice/backup.service/memory.tier.max"
AFTER_BOOT = {
    f"{TIER}/enabled": "0",
    f"{TIER}/scan/period_ms": "500",
    f"{TIER}/scan/cpu_permille": "62",
    f"{TIER}/scan/page_cache": "1",
    f"{TIER}/promote/rate_mbps": "2048",
    f"{TIER}/promote/cpu_permille": "200",
    f"{TIER}/batch/max_folios": "512",
    f"{TIER}/batch/max_kb": "2048",
    **{
        f"{TIER}/{part}/enabled": "1"
        for part in ("scan", "promote", "demote", "batch", "zap", "age")
    },
    f"{TIER}/defer/enabled": "0",
    f"{TIER}/postpone/enabled": "0",
    "/proc/sys/kernel/numa_balancing": "2",
    BACKUP: "max",
}
AROUND = {
    BOOT: "11111111-2222",
    f"{TIER}/state": "off",
    "/sys/devices/system/cpu/online": "0-3",
    "/sys/devices/system/node/has_cpu": "0",
    "/sys/devices/system/node/has_memory": "0-1",
    "/sys/devices/virtual/memory_tiering/memory_tier4/nodelist": "0",
    "/sys/devices/virtual/memory_tiering/memory_tier43/nodelist": "1",
    "/sys/fs/cgroup/cgroup.controllers": "cpu memory",
}


class Kernel(Live):
    """A tree of files that refuses some writes, and notes all."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.refused: dict[str, int] = {}  # errno by file
        self.half: set[str] = set()  # files that a refused write changes all the same
        self.writes: list[tuple[str, str]] = []

    def write(self, path: str, text: str) -> None:
        self.writes.append((path, text.strip()))
        if path in self.refused and path not in self.half:
            raise OSError(self.refused[path], os.strerror(self.refused[path]))
        super().write(path, text)
        if path in self.refused:
            code = self.refused.pop(path)
            raise OSError(code, os.strerror(code))

    def put(self, path: str, text: str) -> None:
        """Another program writes."""
        place = self.place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + "\n", encoding="utf-8")

    def values(self) -> dict[str, str]:
        """All that tierctl may write."""
        return {path: self.read(path) for path in AFTER_BOOT if self.place(path).exists()}

    def lay(self, files: dict[str, str]) -> None:
        """Put many files."""
        for path, text in files.items():
            self.put(path, text)


def memory() -> Iterator[Path]:
    """A directory in memory: thousands of small files are slow on a disk under load."""
    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as found:
        yield Path(found)


def fresh(patch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Our kernel after boot, on a disk that needs no time: fixtures yield from here.

    test_tierctl_profile_kill.py looks at the order of fsync().
    """
    patch.setattr(os, "fsync", lambda file: None)
    for root in memory():
        yield machine(root)


def machine(root: Path) -> Kernel:
    """Our kernel after boot, with NUMA balancing 2, 4 CPUs, a fast and a slow node."""
    found = Kernel(root)
    found.lay(AFTER_BOOT | AROUND)
    return found


@functools.cache
def parser() -> argparse.ArgumentParser:
    """The command line of these commands."""
    found = argparse.ArgumentParser(exit_on_error=False)
    found.add_argument("--json", action="store_true")
    found.add_argument("--no-color", action="store_true")
    commands = found.add_subparsers()
    profile.add_commands(commands)
    settings.add_commands(commands)
    return found


def arguments(*words: str) -> argparse.Namespace:
    """What the command line makes of words."""
    return parser().parse_args(words)


def run(kernel: Live, *words: str) -> int:
    """A command; its exit status."""
    args = arguments(*words)
    return int(args.func(args, kernel))


def answer(kernel: Live, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The data of a command with --json."""
    capsys.readouterr()
    run(kernel, "--json", *words)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["data"]
    return found


def files(kernel: Live) -> set[str]:
    """The files below /etc and /var, without the lock."""
    root = kernel.place("/")
    found = {f"/{path.relative_to(root)}" for top in ("etc", "var") for path in _under(root / top)}
    return found - {f"{STATE}/lock"}


def _under(top: Path) -> list[Path]:
    return [path for path in top.rglob("*") if path.is_file()]


def own(kernel: Kernel, text: str, name: str = "mine") -> None:
    """A profile of the administrator."""
    kernel.put(f"{config.OWN}/{name}.toml", text)
