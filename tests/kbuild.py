# SPDX-License-Identifier: GPL-2.0
"""kbuild on parts of the kernel: the objects that rooms add or change."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lab import manifest
from lab.rooms import Room

# Options that are not a room's, and without which an object is not built
OPTIONAL = {
    "mm/memcontrol.o": "MEMCG",
    "mm/memory-failure.o": "MEMORY_FAILURE",
    "mm/memory_hotplug.o": "MEMORY_HOTPLUG",
    "mm/mmu_age.o": "MMU_AGE",
    "mm/page_ext.o": "PAGE_EXTENSION",
    "mm/page_table_check.o": "PAGE_TABLE_CHECK",
}


def make(src: Path, obj: Path, *argv: str) -> str:
    """What make prints; it must succeed."""
    done = subprocess.run(
        ["make", "-C", str(src), f"O={obj}", f"-j{os.cpu_count()}", *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout + done.stderr


def _has(have: Mapping[str, str], name: str) -> bool:
    return name not in OPTIONAL or have.get(f"CONFIG_{OPTIONAL[name]}") == "y"


def targets(have: Mapping[str, str], chosen: Sequence[Room]) -> list[str]:
    """The objects of rooms that a configuration has."""
    found: set[str] = set()
    for room in chosen:
        about = manifest.read(room)
        own = set(manifest.own_objects(room))
        on = all(have.get(name) == value for name, value in about.options(["kconfig"]).items())
        found |= {name for name in about.objects if (on or name not in own) and _has(have, name)}
    return sorted(found)


def complaints(log: str, names: Iterable[str]) -> list[str]:
    """Warnings and errors about some files."""
    return [
        line
        for line in log.splitlines()
        if ("warning:" in line or "error:" in line)
        and any(re.search(rf"(?:^|/){re.escape(name)}:", line) for name in names)
    ]
