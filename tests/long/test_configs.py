# SPDX-License-Identifier: GPL-2.0
"""Configurations that no flavour has: what we change compiles without a warning in each.

They share an object directory, so that only what an option touches is compiled again.
"""

from __future__ import annotations

import subprocess

import kbuild
import pytest

from lab import build, cache, kconfig, manifest, rooms, tree


def _options(about: manifest.Manifest) -> tuple[str, ...]:
    return tuple(name.removeprefix("CONFIG_") for name in about.options(["kconfig"]))


# Options of each room that has any
ROOMS = {name: _options(about) for name, about in manifest.load().items() if about.kconfig}
# What is taken away from the flavour tiershift
WITHOUT = {
    **{f"no-{name}": options for name, options in ROOMS.items()},
    "no-rooms": tuple(option for options in ROOMS.values() for option in options),
    "no-numa-balancing": ("NUMA_BALANCING",),
    "no-memcg": ("MEMCG",),
    "no-thp": ("TRANSPARENT_HUGEPAGE",),
    "no-swap": ("SWAP",),
}


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
        kbuild.make(src, obj, "-s", "olddefconfig")
        have = kconfig.options((obj / ".config").read_text("utf-8"))
        assert [name for name in without if have.get(f"CONFIG_{name}", "n") != "n"] == []
        kbuild.make(src, obj, "prepare")
        log = kbuild.make(src, obj, *kbuild.targets(have, rooms.series()))
    assert [line for line in log.splitlines() if "warning:" in line] == []


def test_arm64_has_no_migrc(version: str) -> None:
    """Asked for, it is not there; kmmscand is."""
    with cache.lock("build"):
        src = build.source_directory(tree.compose(version))
        obj = cache.sub("obj") / "arm64"
        kbuild.make(src, obj, "-s", "ARCH=arm64", "defconfig")
        on = ["-e", "NUMA", "-e", "TIER_PROMOTE", "-e", "KMMSCAND", "-e", "MIGRC"]
        subprocess.run(
            [str(src / "scripts/config"), "--file", str(obj / ".config"), *on], check=True
        )
        kbuild.make(src, obj, "-s", "ARCH=arm64", "olddefconfig")
        text = (obj / ".config").read_text("utf-8")
    assert "MIGRC" not in text
    have = kconfig.options(text)
    assert [have.get(f"CONFIG_{name}") for name in ("ARM64", "KMMSCAND")] == ["y", "y"]
