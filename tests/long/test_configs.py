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


# Debian's cross compilers, and the option without which there is no KVM
ARCHITECTURES = {
    "arm64": ("aarch64-linux-gnu-", "KVM"),
    "powerpc": ("powerpc64le-linux-gnu-", "KVM_BOOK3S_64_HV"),
    "s390": ("s390x-linux-gnu-", "KVM"),
}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_other_architectures(arch: str, version: str) -> None:
    """What can be had there compiles without a warning, and so does all of KVM."""
    compiler, kvm = ARCHITECTURES[arch]
    assert shutil.which(f"{compiler}gcc"), "./bootstrap.sh lab/packages-soak.txt installs it"
    words = (f"ARCH={arch}", f"CROSS_COMPILE={compiler}")
    asked = {*(name for options in ROOMS.values() for name in options), "NUMA", "SWAP", kvm}
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
        # MIGRC counts on how x86 flushes its TLBs, and only x86's KVM ages without mmu_lock.
        for name in ("MIGRC", "KVM_AGING"):
            assert f"CONFIG_{name}" not in have
        for name in ("KMMSCAND", "MIGRATE_BATCH", "ZAP_BATCH", kvm):
            assert have.get(f"CONFIG_{name}") in ("y", "m"), name
        kbuild.make(src, obj, *words, "prepare")
        common = [
            name
            for name in kbuild.targets(have, rooms.series())
            if not name.startswith(("arch/", "virt/"))
        ]
        log = kbuild.make(src, obj, *words, *common, f"arch/{arch}/kvm/")
    assert [line for line in log.splitlines() if "warning:" in line] == []
