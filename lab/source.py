# SPDX-License-Identifier: GPL-2.0
"""The base: Debian's linux-source-6.12, every version that the archive offers.

Packages are only downloaded and unpacked below the cache, never installed,
so that any version can be had side by side and without root.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab import cache, run
from lab.errors import LabError

PACKAGE = "linux-source-6.12"
TARBALL = f"./usr/src/{PACKAGE}.tar.xz"
TOP = PACKAGE
UPDATE = "check the network and run `apt-get update` as root"


def offered() -> list[str]:
    """The versions in the archive, newest first."""
    text = run.output(["apt-cache", "madison", PACKAGE], todo="this lab needs a Debian system")
    versions = {
        fields[1].strip() for line in text.splitlines() if len(fields := line.split("|")) > 2
    }
    if not versions:
        raise LabError(f"the package archive offers no {PACKAGE}", UPDATE)
    return sorted(versions, key=_sort_key, reverse=True)


def _sort_key(version: str) -> tuple[int, ...]:
    """6.12.117-1~deb12u1 -> (6, 12, 117, 1, 12, 1): enough for one package's versions."""
    digits = "".join(c if c.isdigit() else " " for c in version)
    return tuple(int(word) for word in digits.split())


def newest() -> str:
    """The version to build."""
    return offered()[0]


def fetch(name: str, version: str) -> Path:
    """A .deb of the archive, downloaded when it is not in the cache yet."""
    directory = cache.sub("debs")
    found = sorted(directory.glob(f"{name}_{version}_*.deb"))
    if found:
        return found[0]
    cache.need_space(1, f"downloading {name} {version}")
    work = directory / f".{name}_{version}"
    work.mkdir(exist_ok=True)
    # apt's helper drops its rights for a download; a private directory below
    # a root-only home would only make it print a notice.
    run.output(
        ["apt-get", "-o", "APT::Sandbox::User=root", "download", f"{name}={version}"],
        cwd=work,
        todo=UPDATE,
    )
    left = list(work.glob("*.deb"))
    if len(left) != 1:
        raise LabError(f"apt-get download of {name} {version} left no package", UPDATE)
    # apt writes the colon of an epoch as %3a
    path = directory / f"{name}_{version}_{left[0].stem.rpartition('_')[2]}.deb"
    left[0].rename(path)
    work.rmdir()
    return path


def package(version: str) -> Path:
    """The .deb with the source of a version."""
    return fetch(PACKAGE, version)


def unpack(version: str, directory: Path, members: Iterable[str] = ()) -> None:
    """Unpack the source, or only ``members`` of it, into ``directory``.

    A named member that this version does not have is left out silently: the
    caller sees that the file is not there.
    """
    cache.need_space(3, f"unpacking {PACKAGE} {version}")
    partial = directory.with_name(directory.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    wanted = [f"{TOP}/{member}" for member in members]
    pipe = [
        ["dpkg-deb", "--fsys-tarfile", str(package(version))],
        ["tar", "-xO", TARBALL],
        ["tar", "-xJ", "--strip-components=1", "-C", str(partial), *wanted],
    ]
    processes: list[subprocess.Popen[bytes]] = []
    for argv in pipe:
        stdin = processes[-1].stdout if processes else subprocess.DEVNULL
        last = argv is pipe[-1]
        processes.append(
            subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=None if last else subprocess.PIPE,
                stderr=subprocess.DEVNULL if wanted else None,
            )
        )
    for process in processes[:-1]:
        assert process.stdout
        process.stdout.close()
    codes = [process.wait() for process in processes]
    # tar reports a missing member as failure; a broken archive leaves nothing.
    if (codes[-1] and not wanted) or not any(partial.iterdir()):
        raise LabError(
            f"unpacking {package(version)} failed",
            "delete that file (it will be downloaded again) and check the disk",
        )
    shutil.rmtree(directory, ignore_errors=True)
    partial.rename(directory)
