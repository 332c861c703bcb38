# SPDX-License-Identifier: GPL-2.0
"""make repo: a directory that apt can use, for those who install on many machines.

It is flat: the packages, Packages, and Release; with a key also InRelease and the public key.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Iterable
from email.utils import formatdate
from pathlib import Path

from lab import run
from lab.errors import LabError

INDEXES = ("Packages", "Packages.gz")


def write(out: Path, packages: Iterable[Path], key: str | None = None) -> None:
    """Add packages to the directory, and write its indexes anew."""
    if out.exists() and any(out.iterdir()) and not (out / "Packages").exists():
        raise LabError(f"{out} is not empty and no repository", "name another directory: OUT=")
    if key:
        _check_key(key)
    out.mkdir(parents=True, exist_ok=True)
    for path in packages:
        shutil.copyfile(path, out / path.name)
    index = run.output(["dpkg-scanpackages", "--multiversion", "."], cwd=out)
    (out / "Packages").write_text(index, encoding="utf-8")
    (out / "Packages.gz").write_bytes(gzip.compress(index.encode(), mtime=0))
    (out / "Release").write_text(_release(out), encoding="utf-8")
    for name in ("InRelease", "tiershift.asc"):
        (out / name).unlink(missing_ok=True)
    if key:
        sign = ["gpg", "--batch", "--local-user", key]
        run.output([*sign, "--clearsign", "-o", out / "InRelease", out / "Release"])
        run.output(["gpg", "--batch", "--armor", "-o", out / "tiershift.asc", "--export", key])


def _check_key(key: str) -> None:
    todo = "install gnupg, and name a key that `gpg --list-secret-keys` shows"
    try:
        run.output(["gpg", "--batch", "--list-secret-keys", key])
    except LabError as error:
        raise LabError(f"there is no secret key {key!r}", todo) from error


def _release(out: Path) -> str:
    lines = ["Origin: tiershift", "Label: tiershift", "Suite: stable", "Architectures: amd64"]
    lines += [f"Date: {formatdate(usegmt=True)}", "SHA256:"]
    for name in INDEXES:
        data = (out / name).read_bytes()
        lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}")
    return "\n".join(lines) + "\n"


def advice(out: Path, key: str | None) -> str:
    """What a machine needs that is to use it, when it is served as URL."""
    option = "signed-by=/etc/apt/keyrings/tiershift.asc" if key else "trusted=yes"
    more = "\nwith its tiershift.asc copied to /etc/apt/keyrings/" if key else ""
    return f"{out} is written; on a machine, in /etc/apt/sources.list.d/tiershift.list:\n" + (
        f"  deb [{option}] URL ./{more}"
    )
