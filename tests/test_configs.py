# SPDX-License-Identifier: GPL-2.0
"""Configurations that no flavour has: what we change compiles without a warning in each.

They share an object directory, so that only what an option touches is compiled again.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from lab import build, cache, kconfig, rooms, tree

pytestmark = pytest.mark.long

# Options that are taken away from the flavour tiershift
WITHOUT = {
    "no-migrc": ("MIGRC",),
    "no-kmmscand": ("KMMSCAND",),
    "no-rooms": ("MIGRC", "KMMSCAND", "TIER_PROMOTE", "ZAP_BATCH"),
    "no-numa-balancing": ("NUMA_BALANCING",),
    "no-memcg": ("MEMCG",),
    "no-thp": ("TRANSPARENT_HUGEPAGE",),
    "no-swap": ("SWAP",),
}
# Objects of files that we change, and the option without which they are not built
OPTIONAL = {
    "mm/memcontrol.o": "MEMCG",
    "mm/memory-failure.o": "MEMORY_FAILURE",
    "mm/memory_hotplug.o": "MEMORY_HOTPLUG",
    "mm/page_ext.o": "PAGE_EXTENSION",
    "mm/page_table_check.o": "PAGE_TABLE_CHECK",
    "mm/zap_batch.o": "ZAP_BATCH",
}
OURS = {"MIGRC": "mm/migrc/", "KMMSCAND": "mm/tier/kmmscand/", "TIER_PROMOTE": "mm/tier/"}


def _make(src: Path, obj: Path, *argv: str) -> str:
    done = subprocess.run(
        ["make", "-C", str(src), f"O={obj}", f"-j{os.cpu_count()}", *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout + done.stderr


def _changed_objects() -> set[str]:
    """Of the C files that hooks change, and of new ones beside those, that x86 has."""
    paths = {
        path
        for room in rooms.series()
        for hook in room.hooks
        for path in re.findall(r"^\+\+\+ b/(\S+)$", hook.read_text("utf-8"), re.MULTILINE)
    }
    paths |= {path for room in rooms.series() for path in room.files}
    names = {
        path.removesuffix(".c")
        for path in paths
        if path.endswith(".c") and not path.startswith(("tools/", "mm/tier/", "mm/migrc/"))
    }
    assert {"mm/migrate", "mm/rmap", "mm/memory", "kernel/fork", "mm/demote"} <= names
    return {f"{name}.o" for name in names}


@pytest.mark.parametrize("variant", WITHOUT)
def test_compiles_without(variant: str, version: str) -> None:
    without = WITHOUT[variant]
    with cache.lock("build"):
        src = build.source_directory(tree.compose(version))
        obj = cache.sub("obj") / "variants"
        kconfig.configure(src, obj, "tiershift")
        off = [word for name in without for word in ("-d", name)]
        subprocess.run(
            [str(src / "scripts/config"), "--file", str(obj / ".config"), *off], check=True
        )
        _make(src, obj, "-s", "olddefconfig")
        have = kconfig.options((obj / ".config").read_text("utf-8"))
        assert [name for name in without if have.get(f"CONFIG_{name}", "n") != "n"] == []
        targets = {
            name
            for name in _changed_objects()
            if name not in OPTIONAL or have.get(f"CONFIG_{OPTIONAL[name]}") == "y"
        }
        targets |= {path for name, path in OURS.items() if have.get(f"CONFIG_{name}") == "y"}
        _make(src, obj, "prepare")
        log = _make(src, obj, *sorted(targets))
    assert [line for line in log.splitlines() if "warning:" in line] == []


def test_arm64_has_no_migrc(version: str) -> None:
    """Asked for, it is not there; kmmscand is."""
    with cache.lock("build"):
        src = build.source_directory(tree.compose(version))
        obj = cache.sub("obj") / "arm64"
        _make(src, obj, "-s", "ARCH=arm64", "defconfig")
        on = ["-e", "NUMA", "-e", "TIER_PROMOTE", "-e", "KMMSCAND", "-e", "MIGRC"]
        subprocess.run(
            [str(src / "scripts/config"), "--file", str(obj / ".config"), *on], check=True
        )
        _make(src, obj, "-s", "ARCH=arm64", "olddefconfig")
        text = (obj / ".config").read_text("utf-8")
    assert "MIGRC" not in text
    have = kconfig.options(text)
    assert [have.get(f"CONFIG_{name}") for name in ("ARM64", "KMMSCAND")] == ["y", "y"]
