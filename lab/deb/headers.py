# SPDX-License-Identifier: GPL-2.0
"""The package of headers, which DKMS builds modules with.

Debian has two: headers of all flavours, and what a build of one flavour makes.  Ours has both in
one directory.  In it headers that rooms add or patch replace Debian's, and what our build made
replaces what Debian's made.  Programs and scripts are those of Debian's linux-kbuild.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

from lab import kconfig, run
from lab.deb import debian, gate, package
from lab.deb.debian import Debian
from lab.deb.package import Identity
from lab.errors import LabError
from lab.rooms import Room, touched

ARCH = "arch/x86"
PUBLIC = ("include/", f"{ARCH}/include/")
CONFIG = "include/config"  # also an empty file for each option
CHANGED = "Debian has changed its headers packages: look at lab/deb/headers.py"
# What modules need BTF of, which is all of the file
BTF_ONLY = ("--only-section=.BTF", "--strip-all")
OVERRIDE = "statically-linked-binary [usr/src/*/vmlinux]"


def download(theirs: Debian) -> list[Path]:
    """The packages of Debian that are needed."""
    return [theirs.common, theirs.headers, theirs.kbuild]


def make(
    theirs: Debian,
    identity: Identity,
    src: Path,
    obj: Path,
    chosen: Iterable[Room],
    replaced: Collection[str] | None,
    into: Path,
) -> Path:
    """The package and Debian's linux-kbuild, in the directory ``into``.

    ``replaced`` are the modules that the image has from our build, by their paths; None is all.
    """
    ours = dataclasses.replace(identity, kind="headers")
    common, flavour, root = (into / f"headers-{name}" for name in ("common", "flavour", "root"))
    _unpack(theirs.common, theirs.version, common)
    _unpack(theirs.headers, theirs.version, flavour)
    top = root / "usr/src" / ours.name
    lay_out(top, _sources(common), _sources(flavour), obj, replaced)
    take_patched(top, src, chosen)
    variables = (_sources(flavour) / ".kernelvariables").read_text("utf-8")
    (top / ".kernelvariables").write_text(
        variables.replace(theirs.release, ours.release), encoding="utf-8"
    )
    links = root / "lib/modules" / ours.release
    links.mkdir(parents=True)
    for name in ("build", "source"):
        (links / name).symlink_to(f"/usr/src/{ours.name}")
    package.add_documents(root, flavour, ours)
    with open(root / "usr/share/lintian/overrides" / ours.name, "a", encoding="utf-8") as overrides:
        overrides.write(f"# It has only types (BTF).\n{ours.name}: {OVERRIDE}\n")
    (root / "DEBIAN").mkdir()
    script = package.script(
        (flavour / "DEBIAN/postinst").read_text("utf-8"), theirs.release, identity
    )
    (root / "DEBIAN/postinst").write_text(script, encoding="utf-8")
    control = flavour / "DEBIAN/control"
    text = control.read_text("utf-8")
    before = package.fields(text)["Depends"]
    control.write_text(text.replace(before, depends(before, theirs, identity)), encoding="utf-8")
    package.build(root, flavour, ours, into / ours.file)
    shutil.copy(theirs.kbuild, into)
    for path in (common, flavour, root):
        shutil.rmtree(path)
    return into / ours.file


def _unpack(deb: Path, version: str, directory: Path) -> None:
    debian.unpack(deb, directory)
    found = package.fields((directory / "DEBIAN/control").read_text("utf-8"))["Version"]
    if found != version:
        raise LabError(f"{deb} is of version {found}, the image of {version}", f"delete {deb}")


def _sources(unpacked: Path) -> Path:
    (found,) = unpacked.glob("usr/src/linux-headers-*")
    return found


def lay_out(
    top: Path, common: Path, flavour: Path, obj: Path, replaced: Collection[str] | None
) -> None:
    """Debian's headers of all flavours, and of each file that the flavour has ours, as ``top``."""
    shutil.copytree(common, top, symlinks=True)
    for path in (top / "arch").iterdir():
        if path.name != Path(ARCH).name:
            shutil.rmtree(path)
    for path in sorted(flavour.rglob("*")):
        name = str(path.relative_to(flavour))
        is_option = path.parent == flavour / CONFIG and not path.stat().st_size
        if path.is_dir() or is_option or os.path.lexists(top / name):
            continue
        if name == "Module.symvers":
            text = symvers((obj / name).read_text("utf-8"), path.read_text("utf-8"), replaced)
            (top / name).write_text(text, encoding="utf-8")
        elif name == "vmlinux":
            run.output(["objcopy", *BTF_ONLY, obj / name, top / name])
        elif name != ".kernelvariables":
            _copy(obj / _built_as(name), top / name)
    # The build's own directory keeps options of earlier configurations.
    for name in kconfig.options((obj / CONFIG / "auto.conf").read_text("utf-8")):
        (top / CONFIG / name.removeprefix("CONFIG_")).touch()


def _built_as(name: str) -> str:
    """Where a build has what Debian's package has elsewhere: its scripts/ is linux-kbuild's."""
    return "scripts/module.lds" if name == f"{ARCH}/module.lds" else name


def _copy(path: Path, target: Path) -> None:
    if not path.exists():
        raise LabError(f"Debian's headers have {target.name}, our build has no {path}", CHANGED)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def take_patched(top: Path, src: Path, chosen: Iterable[Room]) -> None:
    """The headers that rooms add, and the files of Debian's headers that rooms patch."""
    for room in chosen:
        patched = {name for hook in room.hooks for name in touched(hook)}
        for name in sorted({*room.files, *patched}):
            if name.startswith(PUBLIC) or os.path.lexists(top / name):
                _copy(src / name, top / name)


def symvers(ours: str, theirs: str, replaced: Collection[str] | None) -> str:
    """Module.symvers of the image: of our vmlinux and modules, and of Debian's other modules."""
    if replaced is None:
        return ours
    mine = {gate.VMLINUX, *replaced}
    known = {
        name: line
        for text, is_ours in ((theirs, False), (ours, True))
        for line in text.splitlines()
        for name, module in [line.split("\t")[1:3]]
        if (module in mine) == is_ours
    }
    return "".join(f"{line}\n" for line in known.values())


def depends(theirs: str, of: Debian, identity: Identity) -> str:
    """What Debian's headers depend on, with our image for Debian's; the common ones are in ours."""
    found = {clause.partition(" ")[0]: clause for clause in theirs.split(", ")}
    needed = {f"linux-headers-{of.abi}-common", f"linux-image-{of.release}"}
    if not {*needed, f"linux-kbuild-{of.abi}"} <= found.keys():
        raise LabError(f"Debian's headers depend on {theirs}", CHANGED)
    others = [clause for name, clause in found.items() if name not in needed]
    return ", ".join([f"{identity.name} (= {identity.version})", *others])
