# SPDX-License-Identifier: GPL-2.0
"""The packages that hold no kernel: tierctl, its manual, and what leads to our kernel.

  tierctl                    the tool, for every kernel of Debian 12 and 13
  tiershift                  no files; depends on tierctl and on an image: only where there is one
  tiershift-headers          no files; depends on that image's headers: for machines with DKMS
  tiershift-doc              docs/ and what rooms have in Documentation/
  tiershift-archive-keyring  the repository's key: only where there is one

Debian's debhelper builds them of packaging/debian.  The same content gives the same bytes.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lab import cache, progress, run
from lab.deb.package import EPOCH, MAINTAINER
from lab.errors import LabError

PROJECT = cache.PROJECT
SOURCES = ("tierctl", "docs", "README.md")
MANUALS = "linux/*/files/Documentation"
DEBIAN = "packaging/debian"
KEYRING = "tiershift-archive-keyring"
KEYRING_FILE = f"/usr/share/keyrings/{KEYRING}.asc"
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
CHANGELOG = """\
tiershift ({version}) unstable; urgency=medium

  * The state of the project's tree.

 -- {maintainer}  Thu, 01 Jan 2026 00:00:00 +0000
"""


@dataclass(frozen=True)
class Image:
    """A kernel's package."""

    name: str
    version: str

    @classmethod
    def of(cls, deb: Path) -> Image:
        name, version, _ = deb.name.split("_")
        return cls(name, version)


def newest(debs: Iterable[Path]) -> Image:
    """The newest image; one for the cloud only if there is no other."""
    images = [Image.of(deb) for deb in debs if deb.name.startswith("linux-image-")]
    images = [one for one in images if "-cloud-" not in one.name] or images
    return max(images, key=functools.cmp_to_key(_compare))


def _compare(one: Image, other: Image) -> int:
    argv = ["dpkg", "--compare-versions"]
    try:
        run.output([*argv, one.version, "gt", other.version])
    except LabError:
        return -1
    return 1


def stage(into: Path, project: Path = PROJECT) -> None:
    """Lay out what the packages are built of; only ``into``/debian/changelog is missing."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    if not (project / "tierctl/__init__.py").exists():
        raise LabError(f"{project} has no tierctl/", "use a checkout that has it")
    manuals = [str(path.relative_to(project)) for path in project.glob(MANUALS)]
    for name in (*SOURCES, *manuals):
        if (project / name).is_dir():
            shutil.copytree(project / name, into / name, ignore=NOT_SOURCE)
        else:
            shutil.copyfile(project / name, into / name)
    shutil.copytree(project / DEBIAN, into / "debian", ignore=NOT_SOURCE)


def version(staged: Path, project: Path = PROJECT) -> str:
    """The tool's, the minute of the latest commit (newer ones are higher), and a content key."""
    found = re.search(r'^__version__ = "(.+)"$', (staged / "tierctl/__init__.py").read_text(), re.M)
    if not found:
        raise LabError("tierctl/__init__.py has no __version__", "add it")
    stamp = "0"
    if (project / ".git").exists():
        git: list[str | Path] = ["git", "-C", project]
        paths = [*SOURCES, MANUALS, DEBIAN, "lab/deb/tools.py"]
        seconds = int(run.output([*git, "log", "-1", "--format=%ct", "--", *paths]) or 0)
        stamp = time.strftime("%Y%m%d.%H%M", time.gmtime(seconds))
        if run.output([*git, "status", "--porcelain", "--", *paths]):
            stamp += "~dirty"
    return f"{found[1]}+{stamp}.{_content(staged)[:8]}"


def _content(staged: Path) -> str:
    return cache.key([*cache.tree_parts(staged), Path(__file__).read_bytes()])


def build(staged: Path, number: str, image: Image | None = None, key: bytes = b"") -> list[Path]:
    """The packages of a staged tree, beside it; ``key`` is public, in ASCII armour."""
    debian = staged / "debian"
    text = CHANGELOG.format(version=number, maintainer=MAINTAINER)
    (debian / "changelog").write_text(text, encoding="utf-8")
    profiles, more = [], {}
    if image:
        profiles.append("pkg.tiershift.image")
        more = {"IMAGE": image.name, "IMAGE_VERSION": image.version}
    if key:
        profiles.append("pkg.tiershift.keyring")
        (debian / f"{KEYRING}.asc").write_bytes(key)
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": EPOCH,
        "DEB_BUILD_PROFILES": " ".join(profiles),
        **more,
    }
    # debhelper wants to write no file that others may write.
    mask = os.umask(0o022)
    try:
        todo = "install what is missing: ./bootstrap.sh"
        argv = ["dpkg-buildpackage", "--build=binary", "--no-sign"]
        run.output(argv, cwd=staged, env=env, todo=todo)
    finally:
        os.umask(mask)
    return sorted(staged.parent.glob("*.deb"))


def make(
    image: Image | None = None, key: str | None = None, log: TextIO = sys.stderr
) -> list[Path]:
    """The packages of this checkout, built now if the cache does not hold them.

    ``key`` names a secret key of gpg.
    """
    public = b""
    if key:
        armour = ["gpg", "--batch", "--armor", "--export", key]
        public = run.output(armour, todo="install gnupg, and name a key that it has").encode()
    with cache.lock("tools"):
        partial = cache.sub("packages") / "tools.partial"
        shutil.rmtree(partial, ignore_errors=True)
        stage(partial / "tiershift")
        number = version(partial / "tiershift")
        parts: list[str | bytes] = [number, _content(partial / "tiershift"), str(image), public]
        done = cache.sub("packages") / f"tools-{cache.key(parts)}"
        facts = done / "tools.json"
        if not facts.exists():
            progress.say(log, "building the packages that hold no kernel", end=True)
            debs = build(partial / "tiershift", number, image, public)
            shutil.rmtree(done, ignore_errors=True)
            done.mkdir()
            for deb in debs:
                deb.rename(done / deb.name)
            facts.write_text(json.dumps([deb.name for deb in debs]) + "\n", encoding="utf-8")
        shutil.rmtree(partial)
        return [done / name for name in json.loads(facts.read_text("utf-8"))]
