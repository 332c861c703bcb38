# SPDX-License-Identifier: GPL-2.0
"""make repo: a directory that apt can use, for those who install on many machines.

It is flat: the packages, Packages, and Release; with a key also InRelease and the public key.
Indexes are there by their checksums, too, so that apt never finds one that is newer than Release.
A kernel's package stays as it was published: another build of that kernel has the next number.
"""

from __future__ import annotations

import filecmp
import gzip
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from email.utils import formatdate
from pathlib import Path

from lab import run
from lab.deb import make, tools
from lab.errors import LabError

INDEXES = ("Packages", "Packages.gz")
BY_HASH = "by-hash/SHA256"
VALID_DAYS = 90  # of a signed index: apt refuses an older one, which an attacker may have kept


def write(out: Path, packages: Sequence[Path], key: str | None = None) -> None:
    """Add packages to the directory, and write its indexes anew.

    The signed index is moved in place last, when all that it names is there.
    """
    if out.exists() and any(out.iterdir()) and not (out / "Packages").exists():
        raise LabError(f"{out} is not empty and no repository", "name another directory: OUT=")
    if key:
        check_key(key)
    elif (out / "InRelease").exists():
        raise LabError(f"{out} is signed, and no key is given", "say KEY=, or name another OUT=")
    check_numbers(out, packages)
    (out / BY_HASH).mkdir(parents=True, exist_ok=True)
    for path in packages:
        if not (out / path.name).exists():
            shutil.copyfile(path, out / f"{path.name}.new")
            (out / f"{path.name}.new").rename(out / path.name)
    index = run.output(["dpkg-scanpackages", "--multiversion", "."], cwd=out)
    with tempfile.TemporaryDirectory(dir=out, prefix=".new-") as directory:
        new = Path(directory)
        (new / "Packages").write_text(index, encoding="utf-8")
        (new / "Packages.gz").write_bytes(gzip.compress(index.encode(), mtime=0))
        (new / "Release").write_text(_release(new, bool(key)), encoding="utf-8")
        for name in INDEXES:
            shutil.copyfile(new / name, out / BY_HASH / _checksum(new / name))
        if key:
            gpg: list[str | Path] = ["gpg", "--batch", "--yes", "--armor"]
            sign = [*gpg, "--local-user", key, "-o", new / "InRelease", "--clearsign"]
            run.output([*sign, new / "Release"])
            run.output([*gpg, "-o", new / "tiershift.asc", "--export", key])
        for index_file in (*INDEXES, "tiershift.asc", "Release", "InRelease"):
            if (new / index_file).exists():
                (new / index_file).rename(out / index_file)


def check_numbers(out: Path, packages: Iterable[Path]) -> None:
    """A LabError if the directory has other contents under a name with our kernel's release."""
    for path in packages:
        name = path.name.partition("_")[0]
        for there in out.glob(f"{name}_*.deb") if "-tiershift" in name else ():
            if there.name != path.name or not filecmp.cmp(there, path, shallow=False):
                raise LabError(
                    f"{out} has another build of {name}: {there.name}",
                    f"raise the number in {make.NUMBER.relative_to(make.PACKAGING.parent)} by "
                    "one, commit it, and run `make deb` again",
                )


def check_key(key: str) -> None:
    """A LabError if gpg has no such secret key."""
    todo = "install gnupg, and name a key that `gpg --list-secret-keys` shows"
    try:
        run.output(["gpg", "--batch", "--list-secret-keys", key])
    except LabError as error:
        raise LabError(f"there is no secret key {key!r}", todo) from error


def _release(out: Path, signed: bool) -> str:
    now = time.time()
    lines = ["Origin: tiershift", "Label: tiershift", "Suite: stable", "Codename: tiershift"]
    lines += ["Architectures: amd64", "Acquire-By-Hash: yes"]
    lines.append(f"Date: {formatdate(now, usegmt=True)}")
    if signed:
        lines.append(f"Valid-Until: {formatdate(now + VALID_DAYS * 86400, usegmt=True)}")
    lines.append("SHA256:")
    for name in INDEXES:
        lines.append(f" {_checksum(out / name)} {(out / name).stat().st_size} {name}")
    return "\n".join(lines) + "\n"


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def advice(out: Path, key: str | None) -> str:
    """What a machine needs that is to use it, when it is served as URL."""
    trust = f"Signed-By: {tools.KEYRING_FILE}" if key else "Trusted: yes"
    more = f"\nwith its tiershift.asc copied to {tools.KEYRING_FILE}" if key else ""
    return (
        f"{out} is written; on a machine, in /etc/apt/sources.list.d/tiershift.sources:\n"
        f"  Types: deb\n  URIs: URL\n  Suites: ./\n  {trust}{more}"
    )
