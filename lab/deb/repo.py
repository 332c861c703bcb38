# SPDX-License-Identifier: GPL-2.0
"""make repo: a directory that apt can use, for those who install on many machines.

It is flat: the packages, Packages, and Release; with a key also InRelease and the public key.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from email.utils import formatdate
from pathlib import Path

from lab import run
from lab.deb import tools
from lab.errors import LabError

INDEXES = ("Packages", "Packages.gz")


def write(out: Path, packages: Iterable[Path], key: str | None = None) -> None:
    """Add packages to the directory, and write its indexes anew.

    The signed index is moved in place last, when all that it names is there.
    """
    if out.exists() and any(out.iterdir()) and not (out / "Packages").exists():
        raise LabError(f"{out} is not empty and no repository", "name another directory: OUT=")
    if key:
        check_key(key)
    elif (out / "InRelease").exists():
        raise LabError(f"{out} is signed, and no key is given", "say KEY=, or name another OUT=")
    out.mkdir(parents=True, exist_ok=True)
    for path in packages:
        if not (out / path.name).exists():
            shutil.copyfile(path, out / f"{path.name}.new")
            (out / f"{path.name}.new").rename(out / path.name)
    index = run.output(["dpkg-scanpackages", "--multiversion", "."], cwd=out)
    with tempfile.TemporaryDirectory(dir=out, prefix=".new-") as name:
        new = Path(name)
        (new / "Packages").write_text(index, encoding="utf-8")
        (new / "Packages.gz").write_bytes(gzip.compress(index.encode(), mtime=0))
        (new / "Release").write_text(_release(new), encoding="utf-8")
        if key:
            gpg: list[str | Path] = ["gpg", "--batch", "--yes", "--armor"]
            sign = [*gpg, "--local-user", key, "-o", new / "InRelease", "--clearsign"]
            run.output([*sign, new / "Release"])
            run.output([*gpg, "-o", new / "tiershift.asc", "--export", key])
        for index_file in (*INDEXES, "tiershift.asc", "Release", "InRelease"):
            if (new / index_file).exists():
                (new / index_file).rename(out / index_file)


def check_key(key: str) -> None:
    """A LabError if gpg has no such secret key."""
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
    option = f"signed-by={tools.KEYRING_FILE}" if key else "trusted=yes"
    more = f"\nwith its tiershift.asc copied to {tools.KEYRING_FILE}" if key else ""
    return f"{out} is written; on a machine, in /etc/apt/sources.list.d/tiershift.list:\n" + (
        f"  deb [{option}] URL ./{more}"
    )
