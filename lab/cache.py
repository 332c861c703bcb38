# SPDX-License-Identifier: GPL-2.0
"""Where the lab keeps what it can make again: sources, builds, results.

Everything is below one directory outside the checkout:

  debs/      the linux-source packages that the archive offers
  linux/     the kernel tree (``make tree``): a git repository
  src/       one work tree per kind of source (base, tiershift) for building
  obj/       kbuild's output directories; make continues there after a stop
  kernels/   finished kernels, one directory per content key, never changed
  models/    searches of models that ended as they must, by content key
  programs/  guest programs and QEMU plugins, by content key
  runs/      output of the latest runs (console logs, results)
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from lab.errors import LabError

PROJECT = Path(__file__).resolve().parent.parent


def root() -> Path:
    """The cache directory (TIERSHIFT_CACHE, else the XDG cache); made on first use."""
    named = os.environ.get("TIERSHIFT_CACHE")
    xdg = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = (Path(named) if named else Path(xdg) / "tiershift").absolute()
    if path.is_relative_to(PROJECT):
        raise LabError(
            f"the cache {path} lies inside the checkout",
            "set TIERSHIFT_CACHE to a directory outside it",
        )
    path.mkdir(parents=True, exist_ok=True)
    return path


def sub(name: str) -> Path:
    """A directory of the cache by name."""
    path = root() / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def key(parts: Iterable[str | bytes]) -> str:
    """A content key: 16 hexadecimal digits over all parts, order included."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]


def tree_parts(top: Path) -> Iterator[str | bytes]:
    """Names, run bits and contents of every file below ``top``, sorted."""
    for path in sorted(p for p in top.rglob("*") if p.is_file()):
        yield str(path.relative_to(top))
        yield "x" if path.stat().st_mode & 0o100 else "-"
        yield path.read_bytes()


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """One process at a time in a part of the cache; others wait."""
    with open(sub("locks") / name, "w", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def need_space(gib: float, what: str) -> None:
    """Fail early and clearly when the disk cannot hold what comes."""
    free = shutil.disk_usage(root()).free / 2**30
    if free < gib:
        raise LabError(
            f"{what} needs {gib:g} GiB of disk below {root()}, {free:.1f} GiB are free",
            "free some space, or point TIERSHIFT_CACHE at a larger disk",
        )
