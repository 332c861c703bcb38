# SPDX-License-Identifier: GPL-2.0
"""Configurations that no flavour has: what we change compiles without a warning in each.

They share an object directory, so that only what an option touches is compiled again.
"""

from __future__ import annotations

import shutil
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


# Debian's cross compilers, the option without which there is no KVM, and what else can be had.
# Only x86 has the TLB flushes and the runs of PTEs that are counted on; s390 gathers no pages, and
# its KVM has no notifier that walks memslots.
ARCHITECTURES = {
    "arm64": ("aarch64-linux-gnu-", "KVM", ("KMMSCAND", "KVM_AGING", "TIER_PROMOTE", "ZAP_BATCH")),
    "powerpc": (
        "powerpc64le-linux-gnu-",
        "KVM_BOOK3S_64_HV",
        ("KVM_AGING", "TIER_PROMOTE", "ZAP_BATCH"),
    ),
    "s390": ("s390x-linux-gnu-", "KVM", ("TIER_PROMOTE",)),
}
OF_ROOMS = {"KMMSCAND", "KVM_AGING", "MIGRATE_BATCH", "MIGRC", "TIER_PROMOTE", "ZAP_BATCH"}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_other_architectures(arch: str, version: str) -> None:
    """What can be had there compiles without a warning, and so does all of KVM."""
    compiler, kvm, expected = ARCHITECTURES[arch]
    assert shutil.which(f"{compiler}gcc"), "./bootstrap.sh lab/packages-soak.txt installs it"
    words = (f"ARCH={arch}", f"CROSS_COMPILE={compiler}")
    asked = {*(name for options in ROOMS.values() for name in options), "NUMA", "LRU_GEN", kvm}
    with cache.lock("build"):
        src = build.source_directory(tree.compose(version))
        obj = cache.sub("obj") / arch
        kbuild.make(src, obj, "-s", *words, "defconfig")
        on = [word for name in sorted(asked) for word in ("-e", name)]
        subprocess.run(
            [str(src / "scripts/config"), "--file", str(obj / ".config"), *on], check=True
        )
        kbuild.make(src, obj, "-s", *words, "olddefconfig")
        have = kconfig.options((obj / ".config").read_text("utf-8"))
        got = {
            name
            for name in (*OF_ROOMS, "LRU_GEN", kvm)
            if have.get(f"CONFIG_{name}", "n") in ("y", "m")
        }
        assert got == {*expected, "LRU_GEN", kvm}
        kbuild.make(src, obj, *words, "prepare")
        common = [
            name
            for name in kbuild.targets(have, rooms.series())
            if not name.startswith(("arch/", "virt/"))
        ]
        log = kbuild.make(src, obj, *words, *common, f"arch/{arch}/kvm/")
    assert [line for line in log.splitlines() if "warning:" in line] == []
