# SPDX-License-Identifier: GPL-2.0
"""The lab's package on Debian 12, as an operator has it: from install to purge.

Where the cache holds no part of such a build it is left to `make soak`, which has the real ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from packages import try_package

from lab import cache, topology
from lab.deb import make


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_lab_package(tmp_path: Path) -> None:
    wanted = make.plan(make.LAB)
    if not make.finished(wanted) and not (cache.root() / "obj/deb-lab-build/vmlinux").exists():
        pytest.skip("the lab's package has not been built here yet; `make soak` builds it")
    tried = try_package(
        make.deb(wanted),
        wanted.release,
        "bookworm",
        topology.load("two-tier", fast_mb=512, slow_mb=512),
        tmp_path,
        modules=["xfs", "autofs4", "kvm_amd"],
    )
    assert tried.tainted == 0
