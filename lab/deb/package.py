# SPDX-License-Identifier: GPL-2.0
"""A kernel package: the files of Debian's image package with our kernel, under our name.

Debian's maintainer scripts are kept; only the release that they name is ours.  So hooks,
initramfs, the links /vmlinuz and /initrd.img, and the question before the running kernel is
removed, are as with Debian's kernels.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import run
from lab.errors import LabError
from lab.tree import IDENTITY

SCRIPTS = ("preinst", "postinst", "prerm", "postrm")
KEPT = ("Pre-Depends", "Depends", "Recommends", "Suggests", "Breaks", "Architecture")
MODULE_LISTS = ("modules.builtin", "modules.builtin.modinfo")
MAINTAINER = f"{IDENTITY['GIT_AUTHOR_NAME']} <{IDENTITY['GIT_AUTHOR_EMAIL']}>"
EPOCH = "1767225600"  # of every file, as kbuild's time stamp
OVERRIDES = ("debian-revision-not-well-formed *", "package-has-long-file-name *")
DESCRIPTIONS = {
    "image": """Linux with tiered memory that applications do not feel
 Debian's kernel {identity.debian} with the patches of tiershift, all of them
 switched off after boot.  It is installed beside Debian's own kernels.""",
    "headers": """header files of Linux with tiered memory
 Debian's headers {identity.debian} with the patches of tiershift.  DKMS builds
 modules for linux-image-{identity.release} with them.""",
}


@dataclass(frozen=True)
class Identity:
    """What a package is called."""

    release: str  # of the kernel
    version: str  # of the package
    debian: str  # the version of Debian's package that it is built from
    kind: str = "image"  # or headers

    @property
    def name(self) -> str:
        return f"linux-{self.kind}-{self.release}"

    @property
    def file(self) -> str:
        return f"{self.name}_{self.version}_amd64.deb"


def fields(control: str) -> dict[str, str]:
    """Of a control file: values by field, continued lines joined as they are."""
    return dict(re.findall(r"^([\w-]+): *(.*(?:\n .*)*)$", control, re.MULTILINE))


def control(theirs: str, identity: Identity, size_kib: int) -> str:
    """Our control file, from that of Debian's image package."""
    known = fields(theirs)
    ours = {
        "Package": identity.name,
        "Source": "tiershift",
        "Version": identity.version,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(size_kib),
        "Section": "kernel",
        "Priority": "optional",
        **{name: known[name] for name in KEPT if name in known},
        "Description": DESCRIPTIONS[identity.kind].format(identity=identity),
    }
    return "".join(f"{name}: {value}\n" for name, value in ours.items())


def script(theirs: str, their_release: str, identity: Identity) -> str:
    """A maintainer script of Debian's for our kernel."""
    if f"version={their_release}\n" not in theirs:
        raise LabError(
            f"a maintainer script of Debian's does not say version={their_release}",
            "Debian has changed its scripts: look at lab/deb/package.py",
        )
    return theirs.replace(their_release, identity.release)


def lay_out(
    root: Path, theirs: Path, their_release: str, identity: Identity, boot: Mapping[str, Path]
) -> None:
    """Turn an unpacked image package of Debian's (``theirs``) into ours (``root``), but for
    modules and control.

    ``boot`` has our files by their names without the release.
    """
    shutil.rmtree(root, ignore_errors=True)
    (root / "boot").mkdir(parents=True)
    for name, path in boot.items():
        shutil.copyfile(path, root / "boot" / f"{name}-{identity.release}")
    (root / "DEBIAN").mkdir()
    for name in SCRIPTS:
        text = (theirs / "DEBIAN" / name).read_text("utf-8")
        path = root / "DEBIAN" / name
        path.write_text(script(text, their_release, identity), encoding="utf-8")
        path.chmod(0o755)
    add_documents(root, theirs, identity)


def add_documents(root: Path, theirs: Path, identity: Identity) -> None:
    """Debian's copyright, a changelog of our own, and what lintian need not say."""
    docs = root / "usr/share/doc" / identity.name
    docs.mkdir(parents=True)
    (copyright,) = theirs.glob("usr/share/doc/*/copyright")
    shutil.copyfile(copyright, docs / "copyright")
    change = (
        f"tiershift ({identity.version}) unstable; urgency=medium\n\n"
        f"  * Debian's {identity.debian} and the patches in series/.\n\n"
        f" -- {MAINTAINER}  Thu, 01 Jan 2026 00:00:00 +0000\n"
    )
    (docs / "changelog.Debian.gz").write_bytes(gzip.compress(change.encode(), mtime=0))
    overrides = root / "usr/share/lintian/overrides" / identity.name
    overrides.parent.mkdir(parents=True)
    tags = "".join(f"{identity.name}: {tag}\n" for tag in OVERRIDES)
    overrides.write_text(f"# The version names a kernel and its build.\n{tags}", encoding="utf-8")


def add_series(root: Path, identity: Identity, mails: Iterable[Path]) -> None:
    """The patches, which with Debian's source package are the source of this one."""
    docs = root / "usr/share/doc" / identity.name / "series"
    for mail in mails:
        target = docs / mail.parent.name / f"{mail.name}.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(mail.read_bytes(), mtime=0))


def build(root: Path, theirs: Path, identity: Identity, out: Path) -> None:
    """The .deb of a laid out tree."""
    files = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    files = [path for path in files if "DEBIAN" not in path.parts]
    sums = (f"{hashlib.md5(p.read_bytes()).hexdigest()}  {p.relative_to(root)}\n" for p in files)
    (root / "DEBIAN/md5sums").write_text("".join(sums), encoding="utf-8")
    size_kib = sum(-(-p.stat().st_size // 1024) for p in files)
    text = control((theirs / "DEBIAN/control").read_text("utf-8"), identity, size_kib)
    (root / "DEBIAN/control").write_text(text, encoding="utf-8")
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            executable = path.is_dir() or (path.parent.name == "DEBIAN" and path.name in SCRIPTS)
            path.chmod(0o755 if executable else 0o644)
            os.utime(path, (int(EPOCH), int(EPOCH)))
    env = dict(os.environ, SOURCE_DATE_EPOCH=EPOCH)
    # Modules and vmlinuz are compressed already.
    run.output(["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", root, out], env=env)
