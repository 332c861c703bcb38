# SPDX-License-Identifier: GPL-2.0
"""Debian's kernel packages of one version: configuration, image, checksums of symbols."""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab import run, source
from lab.errors import LabError

CONFIG = "linux-config-6.12"
FLAVOURS = {"amd64": "amd64", "cloud": "cloud-amd64"}  # ours, Debian's


@dataclass(frozen=True)
class Debian:
    """One version and flavour."""

    version: str  # of the package, as 6.12.117-1~deb12u1
    flavour: str  # Debian's name of it, as cloud-amd64
    release: str  # as 6.12.117+deb12-cloud-amd64

    @property
    def upstream(self) -> str:
        """6.12.117"""
        return self.version.partition("-")[0]

    @property
    def abi(self) -> str:
        """6.12.117+deb12, of packages for all flavours"""
        return self.release.removesuffix(f"-{self.flavour}")

    @property
    def image(self) -> Path:
        return source.fetch(f"linux-image-{self.release}-unsigned", self.version)

    @property
    def headers(self) -> Path:
        """The headers of the flavour."""
        return source.fetch(f"linux-headers-{self.release}", self.version)

    @property
    def common(self) -> Path:
        """The headers that all flavours have."""
        return source.fetch(f"linux-headers-{self.abi}-common", self.version)

    @property
    def kbuild(self) -> Path:
        """The programs and scripts that build modules."""
        return source.fetch(f"linux-kbuild-{self.abi}", self.version)

    def config(self) -> str:
        """The configuration that Debian's kernel was built with."""
        name = f"./usr/src/{CONFIG}/config.amd64_none_{self.flavour}.xz"
        return lzma.decompress(_member(source.fetch(CONFIG, self.version), name)).decode()

    def symvers(self) -> str:
        """Module.symvers: checksums of all symbols that modules can use."""
        name = f"./usr/src/linux-headers-{self.release}/Module.symvers"
        return _member(self.headers, name).decode()

    def sign_file(self, directory: Path) -> Path:
        """The program that signs modules, unpacked below a directory.

        It reads a private key, and the cache is not safe as apt's index is: of one copy the
        checksum is compared, and that copy is unpacked.
        """
        directory.mkdir(exist_ok=True)
        copy = Path(shutil.copy(self.kbuild, directory))
        name = f"linux-kbuild-{self.abi}={self.version}"
        known = run.output(["apt-cache", "show", name], todo=source.UPDATE)
        found = hashlib.sha256(copy.read_bytes()).hexdigest()
        if found not in re.findall(r"^SHA256: (\w+)$", known, re.MULTILINE):
            raise LabError(f"{self.kbuild} is not what apt's index has as {name}", "delete it")
        run.output(["dpkg-deb", "--extract", copy, directory])
        return directory / f"usr/lib/linux-kbuild-{self.abi}/scripts/sign-file"

    def unpack(self, directory: Path) -> None:
        """The image package: its files, and its control files in DEBIAN/."""
        unpack(self.image, directory)


def unpack(package: Path, directory: Path) -> None:
    """A package: its files, and its control files in DEBIAN/."""
    shutil.rmtree(directory, ignore_errors=True)
    run.output(["dpkg-deb", "--raw-extract", package, directory])


def _member(package: Path, name: str) -> bytes:
    script = 'dpkg-deb --fsys-tarfile "$1" | tar -xO "$2"'
    text = run.output(["sh", "-c", script, "sh", package, name], todo=f"delete {package}")
    return text.encode(errors="surrogateescape")


def releases(names: str, flavour: str) -> list[str]:
    """Of names of packages, one a line, the releases that the image packages of a flavour have."""
    pattern = rf"^linux-image-(6\.12\.[^-\n]+-{re.escape(flavour)})-unsigned$"
    return re.findall(pattern, names, re.MULTILINE)


def find(flavour: str, version: str | None = None) -> Debian:
    """Debian's kernel of a version (the newest by default); ``flavour`` is ours."""
    if flavour not in FLAVOURS:
        what = f"there is no package flavour {flavour!r}"
        raise LabError(what, "say FLAVOUR= one of " + ", ".join(FLAVOURS))
    offered = source.offered()
    version = version or offered[0]
    if version not in offered:
        raise LabError(
            f"the package archive offers no {source.PACKAGE} {version}",
            f"say VERSION= one of {', '.join(offered)}, or {source.UPDATE}",
        )
    theirs = FLAVOURS[flavour]
    for release in releases(run.output(["apt-cache", "pkgnames", "linux-image-6.12."]), theirs):
        table = run.output(["apt-cache", "madison", f"linux-image-{release}-unsigned"])
        if any(line.split("|")[1].strip() == version for line in table.splitlines()):
            return Debian(version, theirs, release)
    raise LabError(
        f"the package archive has the source of {version}, but no image of flavour {theirs} of it",
        f"wait until both are there, or say VERSION= one of {', '.join(offered[1:])}",
    )
