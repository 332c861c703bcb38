# SPDX-License-Identifier: GPL-2.0
"""The packages that operators install, on Debian 12 and 13: from install to purge."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from packages import try_package

from lab import manifest, run, topology
from lab.deb import make, trial
from lab.manifest import Manifest
from lab.rooms import Room

MODULES = ("kvm", "kvm_amd", "kmem", "xfs", "nfs", "dm_mod")
STRESS_S = 60
KVM = ("kvm", "kvm-amd", "kvm-intel")


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
@pytest.mark.parametrize("flavour", ["cloud", "amd64"])
def test_package(flavour: str, suite: str, tmp_path: Path) -> None:
    wanted = make.plan(flavour)
    tried = try_package(
        make.deb(wanted),
        wanted.release,
        suite,
        topology.load("two-tier", fast_mb=1024, slow_mb=1024),
        tmp_path,
        modules=MODULES,
        stress_s=STRESS_S,
        beside=wanted.debian.image,
    )
    # Debian's modules are not signed by a key that our vmlinux has.
    assert tried.tainted == trial.UNSIGNED


def test_modules_that_a_room_patches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """KVM's are compiled from our tree, take the places of Debian's, and load."""
    load = manifest.load

    def with_kvm(chosen: Sequence[Room] | None = None) -> dict[str, Manifest]:
        known = load(chosen)
        patched = {name: msgspec.structs.replace(one, modules=KVM) for name, one in known.items()}
        return {**known, **{name: patched[name] for name in known if name == "migrc"}}

    monkeypatch.setattr(manifest, "load", with_kvm)
    wanted = make.plan("cloud")
    deb = make.deb(wanted)
    machine = topology.load("two-tier", fast_mb=1024, slow_mb=1024)
    try_package(deb, wanted.release, "bookworm", machine, tmp_path, modules=MODULES)
    listed = run.output(["dpkg-deb", "--contents", deb])
    shutil.rmtree(deb.parent)  # nobody is to install it
    sizes = {Path(line.split()[-1]).name: int(line.split()[2]) for line in listed.splitlines()}
    theirs = run.output(["dpkg-deb", "--contents", wanted.debian.image])
    for name in KVM:
        assert f"/{name}.ko.xz" in theirs and sizes[f"{name}.ko.xz"] > 0


def test_lab_package(tmp_path: Path) -> None:
    """From then on tests/boot/test_package.py has it, too."""
    wanted = make.plan(make.LAB)
    machine = topology.load("two-tier", fast_mb=512, slow_mb=512)
    tried = try_package(make.deb(wanted), wanted.release, "bookworm", machine, tmp_path)
    assert tried.tainted == 0
