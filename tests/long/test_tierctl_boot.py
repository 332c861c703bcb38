# SPDX-License-Identifier: GPL-2.0
"""tierctl and its units under systemd, on Debian's own kernels: apply at boot, record, export.

On Debian 12 with Linux 6.1, and on Debian 13 with Linux 6.12.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab import topology
from lab.deb import tools, trial
from lab.deb.trial import Root

CHECK = Path(__file__).with_name("tierctl_boot.sh")
UNITS = ("tierctl-record.service", "tierctl-export.timer")
INCLUDED = ("python3", "python3-prometheus-client", "linux-image-amd64")


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_tierctl_booted_by_systemd_applies_records_and_exports(suite: str, tmp_path: Path) -> None:
    staged = tmp_path / "built/tiershift"
    staged.parent.mkdir()
    tools.stage(staged)
    debs = tools.build(staged, "0.1+20260101.0000.00000000", None, b"")
    root = Root.unpack(trial.root_tar(suite, INCLUDED), tmp_path / "root")
    root.install(next(deb for deb in debs if deb.name.startswith("tierctl_")))
    config = root.path / "etc/tierctl/tierctl.toml"
    config.parent.mkdir()
    config.write_text('profile = "hint"\n', encoding="utf-8")
    (root.path / "var/lib/prometheus/node-exporter").mkdir(parents=True)
    root.run("systemctl", "--quiet", "enable", *UNITS)
    machine = topology.load("two-tier", fast_mb=1024, slow_mb=512)
    booted = trial.boot(root, "", machine, tmp_path / "out", check=CHECK, append="", timeout_s=500)
    assert "\n".join(booted.failed()) == ""
    assert booted.tainted == 0
