# SPDX-License-Identifier: GPL-2.0
"""Try a package from install to purge; for tests of several."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.deb import trial
from lab.deb.trial import Boot, Root
from lab.topology import Topology

# Links that Debian's scripts keep for the newest kernel
LINKS = {"vmlinuz": "boot/vmlinuz-{}", "initrd.img": "boot/initrd.img-{}"}


def _higher_version(deb: Path, tmp: Path) -> Path:
    """The same package, as an upgrade of itself."""
    tree, made = tmp / "tree", tmp / f"higher-{deb.name}"
    subprocess.run(["dpkg-deb", "--raw-extract", deb, tree], check=True)
    control = tree / "DEBIAN/control"
    text = re.sub(r"^(Version: .*)$", r"\1.1", control.read_text("utf-8"), flags=re.MULTILINE)
    control.write_text(text, encoding="utf-8")
    subprocess.run(["dpkg-deb", "-Znone", "--build", tree, made], check=True, capture_output=True)
    shutil.rmtree(tree)
    return made


def try_package(
    deb: Path,
    release: str,
    suite: str,
    machine: Topology,
    tmp: Path,
    *,
    modules: Sequence[str] = (),
    stress_s: int = 0,
    beside: Path | None = None,
) -> Boot:
    """Install, boot, upgrade, remove, install again, purge; ``beside`` is there all the time."""
    more = ["stress-ng"] if stress_s else []
    root = Root.unpack(trial.root_tar(suite, more), tmp / "root")
    name = deb.name.partition("_")[0]
    if beside:
        root.install(beside)
    before, before_links = root.names(), {link: root.link(link) for link in LINKS}
    root.install(deb)
    links = {link: target.format(release) for link, target in LINKS.items()}
    assert {link: root.link(link) for link in links} == links
    done = trial.boot(
        root, release, machine, tmp / "boot", modules=modules, stress_s=stress_s, timeout_s=900
    )
    assert done.failed() == []
    assert done.complaints == []
    prerm = (root.path / f"var/lib/dpkg/info/{name}.prerm").read_text("utf-8")
    assert f"version={release}\n" in prerm and "linux-check-removal $version" in prerm
    root.install(_higher_version(deb, tmp))
    assert {link: root.link(link) for link in links} == links
    root.run("apt-get", "-y", "remove", name)
    left = {path for path in root.names() - before if release in path}
    assert not [path for path in left if path.startswith("boot/")], left
    assert {link: root.link(link) for link in links} == before_links
    root.install(deb)
    assert {link: root.link(link) for link in links} == links
    root.run("apt-get", "-y", "purge", name)
    assert root.names() - before == set()
    assert before - root.names() == set()
    shutil.rmtree(root.path)
    return done
