# SPDX-License-Identifier: GPL-2.0
"""`apt install tiershift` from the directory that `make repo` writes, then a boot of that kernel.

On Debian 12 and 13: the operator's way from an empty system to a profile, and back.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lab import topology
from lab.deb import make, repo, tools, trial
from lab.deb.tools import Image
from lab.deb.trial import Root

CHECK = Path(__file__).with_name("repository_boot.sh")


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_tiershift_installed_by_apt_boots_applies_and_reverts(suite: str, tmp_path: Path) -> None:
    wanted = make.plan("amd64")
    image = make.deb(wanted)
    name = Image.of(image).name
    root = Root.unpack(trial.root_tar(suite, ["python3"]), tmp_path / "root")
    before = root.names()
    served = root.path / "srv/repo"
    repo.write(served, [image, *tools.make(Image.of(image))])
    sources = root.path / "etc/apt/sources.list"
    sources.write_text("deb [trusted=yes] file:/srv/repo ./\n", encoding="utf-8")
    root.run("apt-get", "update")
    root.run("apt-get", "-y", "install", "tiershift")
    config = root.path / "etc/tierctl/tierctl.toml"
    config.parent.mkdir()
    config.write_text('profile = "general"\n', encoding="utf-8")

    machine = topology.load("two-tier", fast_mb=768, slow_mb=1024)
    # Without tier=on: the profile alone switches tiering on.
    booted = trial.boot(
        root, wanted.release, machine, tmp_path / "out", check=CHECK, append="", timeout_s=600
    )
    assert "\n".join(booted.failed()) == ""
    assert booted.complaints == []
    assert booted.tainted & ~trial.UNSIGNED == 0

    root.run("apt-get", "-y", "purge", "tiershift", "tierctl", name)
    root.run("apt-get", "-y", "autoremove", "--purge")
    sources.write_text("", encoding="utf-8")
    shutil.rmtree(served)
    assert root.names() - before == set()
    assert before - root.names() == set()
