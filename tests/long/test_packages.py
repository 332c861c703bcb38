# SPDX-License-Identifier: GPL-2.0
"""The packages that operators install, on Debian 12 and 13: from install to purge."""

from __future__ import annotations

from pathlib import Path

import pytest
from packages import try_package

from lab import topology
from lab.deb import make, trial

# kvm is compiled from our tree.  That the switches of its aging exist tells it from Debian's.
MODULES = ("kvm", "kvm_amd", "kmem", "xfs", "nfs", "dm_mod")
STRESS_S = 60


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


def test_lab_package(tmp_path: Path) -> None:
    """From then on tests/boot/test_package.py has it, too."""
    wanted = make.plan(make.LAB)
    machine = topology.load("two-tier", fast_mb=512, slow_mb=512)
    tried = try_package(make.deb(wanted), wanted.release, "bookworm", machine, tmp_path)
    assert tried.tainted == 0
