# SPDX-License-Identifier: GPL-2.0
"""Try a package from install to purge; for tests of several."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.deb import trial
from lab.deb.trial import Boot, Root
from lab.topology import Topology

# Links that Debian's scripts keep for the newest kernel
LINKS = {"vmlinuz": "boot/vmlinuz-{}", "initrd.img": "boot/initrd.img-{}"}


def try_package(
    deb: Path,
    release: str,
    suite: str,
    machine: Topology,
    tmp: Path,
    *,
    modules: Sequence[str] = (),
    stress_s: int = 0,
) -> Boot:
    """Install, boot, remove, install again, purge."""
    more = ["stress-ng"] if stress_s else []
    root = Root.unpack(trial.root_tar(suite, more), tmp / "root")
    name = deb.name.partition("_")[0]
    before = root.names()
    root.install(deb)
    links = {link: target.format(release) for link, target in LINKS.items()}
    assert {link: root.link(link) for link in links} == links
    done = trial.boot(
        root, release, machine, tmp / "boot", modules=modules, stress_s=stress_s, timeout_s=900
    )
    assert done.failed() == []
    assert done.complaints == []
    root.run("apt-get", "-y", "remove", name)
    left = {path for path in root.names() - before if release in path}
    assert not [path for path in left if path.startswith("boot/")], left
    assert {link: root.link(link) for link in links} == dict.fromkeys(links, "")
    root.install(deb)
    assert {link: root.link(link) for link in links} == links
    root.run("apt-get", "-y", "purge", name)
    assert root.names() - before == set()
    assert before - root.names() == set()
    subprocess.run(["rm", "-rf", root.path], check=True)
    return done
