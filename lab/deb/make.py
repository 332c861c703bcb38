# SPDX-License-Identifier: GPL-2.0
"""make deb: a package by content; a second call with the same content builds nothing.

An interrupted build goes on where it was: kbuild keeps its objects, and a package appears in
the cache as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lab import build, cache, kconfig, manifest, progress, rooms, run, tree
from lab.deb import debian, gate, headers, modules, package, sign
from lab.deb.debian import Debian
from lab.deb.package import Identity
from lab.errors import LabError

PACKAGING = cache.PROJECT / "packaging"
NUMBER = PACKAGING / "build-number"  # in the packages' names: the next one is installed beside it
LAB = "lab"  # a flavour for tests: the lab's configuration, all modules built
FROM_DEBIAN, BUILT = "debian", "build"  # MODULES=
# Free GiB needed; seconds and output lines of a build on two cores, until measured here
NEEDS_GIB = {(LAB, BUILT): 6, ("cloud", FROM_DEBIAN): 8, ("amd64", FROM_DEBIAN): 8}
MOST_GIB = 40
GUESS = {(LAB, BUILT): (690, 3400), ("cloud", FROM_DEBIAN): (1000, 3395)}
LONGEST = (1200, 3500)


def number() -> int:
    """N of -tiershiftN: how many builds of a kernel have been published, and this one."""
    *_, said = NUMBER.read_text("utf-8").splitlines() or [""]
    if not re.fullmatch(r"[1-9]\d*", said):
        raise LabError(f"{NUMBER} ends in {said!r}", "its last line is a number from 1 on")
    return int(said)


def _recipe() -> list[Path]:
    """The code that a package depends on."""
    found = sorted(Path(__file__).parent.glob("*.py"))
    return [path for path in found if path.name not in ("repo.py", "tools.py", "trial.py")]


@dataclass(frozen=True)
class Plan:
    """What is to be made."""

    flavour: str  # ours
    modules: str
    debian: Debian
    keys: sign.Keys | None = None

    @property
    def suffix(self) -> str:
        """Of the release: LOCALVERSION."""
        kind = "lab-amd64" if self.flavour == LAB else self.debian.flavour
        return f"-tiershift{number()}-{kind}"

    @property
    def release(self) -> str:
        return self.debian.upstream + self.suffix

    def fragments(self) -> dict[str, str]:
        """On top of start()."""
        if self.flavour == LAB:
            lab = (PACKAGING / "lab.config").read_text("utf-8")
            return {**kconfig.fragments("tiershift"), "package": lab}
        wanted = manifest.options(["kconfig"])
        return {
            kconfig.ROOMS: "".join(f"{name}={value}\n" for name, value in wanted.items()),
            "package": (PACKAGING / "tiershift.config").read_text("utf-8"),
            **({"signed": sign.OPTION} if self.keys else {}),
        }

    def start(self) -> str:
        """Debian's configuration; the lab's begins with nothing."""
        return "" if self.flavour == LAB else self.debian.config()

    def key(self) -> str:
        """The content key; nothing is built."""
        parts: list[str | bytes] = [
            *(self.flavour, self.modules, self.suffix, self.debian.version, self.start()),
            *self.fragments().values(),
            *(path.read_bytes() for path in _recipe()),
            *(name for room in manifest.load().values() for name in room.modules),
            run.output(["pahole", "--version"]),
            *(self.keys.parts() if self.keys else ()),
        ]
        return cache.key([*build.inputs(tree.compose(self.debian.version)), *parts])


def plan(
    flavour: str,
    version: str | None = None,
    kind: str = FROM_DEBIAN,
    keys: sign.Keys | None = None,
) -> Plan:
    """Check what is asked for."""
    if kind not in (FROM_DEBIAN, BUILT):
        raise LabError(f"MODULES={kind}", f"say MODULES={FROM_DEBIAN} or MODULES={BUILT}")
    if flavour == LAB:
        return Plan(LAB, BUILT, debian.find("cloud", version))
    found = debian.find(flavour, version)
    if keys:
        sign.check(keys, found)
    return Plan(flavour, kind, found, keys)


def finished(wanted: Plan) -> Path | None:
    """The package, if it is in the cache."""
    facts = _directory(wanted) / "package.json"
    if not facts.exists():
        return None
    facts.touch()  # every() takes what was asked for last
    return facts.parent / str(json.loads(facts.read_text("utf-8"))["file"])


def every() -> list[Path]:
    """All packages in the cache for operators that have the tree's number; of a kernel the latest.

    With an image are its headers, and Debian's linux-kbuild that these need: Debian 13 has none.
    """
    made = sorted(cache.sub("packages").glob("*/package.json"), key=lambda p: p.stat().st_mtime)
    images = (str(json.loads(facts.read_text("utf-8"))["file"]).partition("_")[0] for facts in made)
    latest = {name: facts.parent for name, facts in zip(images, made, strict=True)}
    debs = (
        deb
        for name, directory in latest.items()
        if f"-tiershift{number()}-" in name and not directory.name.startswith(f"{LAB}-")
        for deb in sorted(directory.glob("*.deb"))
    )
    found = [*{path.name: path for path in debs}.values()]
    if not found:
        raise LabError(f"there is no package yet of number {number()}", "run `make deb` first")
    return found


def _directory(wanted: Plan) -> Path:
    return cache.sub("packages") / f"{wanted.flavour}-{wanted.modules}-{wanted.key()}"


def deb(wanted: Plan, log: TextIO = sys.stderr) -> Path:
    """The package, built now if the cache does not hold it."""
    found = finished(wanted)
    if not found:
        with cache.lock("build"):
            found = finished(wanted) or _make(wanted, log)
    return found


def _make(wanted: Plan, log: TextIO) -> Path:
    kind = (wanted.flavour, wanted.modules)
    cache.need_space(NEEDS_GIB.get(kind, MOST_GIB), f"building the package {wanted.flavour}")
    theirs = cache.sub("packages") / f"debian-{wanted.debian.flavour}"
    progress.say(log, f"unpacking Debian's {wanted.debian.release}", end=True)
    wanted.debian.unpack(theirs)
    if wanted.flavour != LAB:
        headers.download(wanted.debian)  # before the long part
    commit = tree.compose(wanted.debian.version)
    src = cache.sub("src") / "package"
    tree.work_tree(src, commit)
    obj = cache.sub("obj") / f"deb-{wanted.flavour}-{wanted.modules}"
    _configure(wanted, src, obj)
    identity = Identity(wanted.release, _version(wanted), wanted.debian.version)
    targets = ["bzImage", *(["modules"] if wanted.modules == BUILT else [])]
    # uname -v has room for 64 characters.
    stamp = f"tiershift {identity.version.partition('+tiershift.')[2]}"
    build.make(
        f"{wanted.flavour} package",
        src,
        obj,
        log,
        release=wanted.suffix,
        targets=targets,
        guess=GUESS.get(kind, LONGEST),
        env={"KBUILD_BUILD_VERSION_TIMESTAMP": stamp},
    )
    release = (obj / "include/config/kernel.release").read_text("utf-8").strip()
    if release != wanted.release:
        raise LabError(f"the kernel calls itself {release}, not {wanted.release}")
    partial = _directory(wanted).with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    root = partial / "root"
    files = {"vmlinuz": "arch/x86/boot/bzImage", "System.map": "System.map", "config": ".config"}
    boot = {name: obj / path for name, path in files.items()}
    package.lay_out(root, theirs, wanted.debian.release, identity, boot)
    if wanted.modules == BUILT:
        _install_modules(src, obj, root)
    else:
        _take_modules(wanted, src, obj, root, theirs, commit, log)
    if wanted.keys:
        sign.sign(root, obj, wanted.keys.key, wanted.debian, log)
    with_series = tree.export_series(wanted.debian.version, partial / "series")
    package.add_series(root, identity, with_series)
    package.build(root, theirs, identity, partial / identity.file)
    if wanted.flavour != LAB:
        progress.say(log, "packing the headers", end=True)
        known = theirs / "lib/modules" / wanted.debian.release / "kernel"
        replaced = _ours(known) if wanted.modules == FROM_DEBIAN else None
        headers.make(wanted.debian, identity, src, obj, rooms.series(), replaced, partial)
    for path in (root, partial / "series", theirs):
        shutil.rmtree(path)
    facts = {"file": identity.file, "release": identity.release, "version": identity.version}
    (partial / "package.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    shutil.rmtree(_directory(wanted), ignore_errors=True)
    partial.rename(_directory(wanted))
    return _directory(wanted) / identity.file


def _version(wanted: Plan) -> str:
    """Debian's, number, the minute of the latest commit (newer ones are higher), and key."""
    stamp = "0"
    if (cache.PROJECT / ".git").exists():
        git: list[str | Path] = ["git", "-C", cache.PROJECT]
        seconds = int(run.output([*git, "log", "-1", "--format=%ct"]))
        stamp = time.strftime("%Y%m%d.%H%M", time.gmtime(seconds))
        if run.output([*git, "status", "--porcelain", "linux", "packaging", "lab/deb"]):
            stamp += "~dirty"
    return f"{wanted.debian.version}+tiershift.{number()}.{stamp}.{wanted.key()[:8]}"


def _configure(wanted: Plan, src: Path, obj: Path) -> None:
    start, texts = wanted.start(), wanted.fragments()
    if wanted.keys:
        (obj / sign.TRUSTED).parent.mkdir(parents=True, exist_ok=True)
        (obj / sign.TRUSTED).write_text(wanted.keys.cert, encoding="utf-8")
    kconfig.merge(src, obj, texts, start)
    result = (obj / ".config").read_text("utf-8")
    gate.check_config(result, start, texts.values())


def _install_modules(src: Path, obj: Path, root: Path) -> None:
    """Those that were built here."""
    argv: list[str | Path] = ["make", "-s", "-C", src, f"O={obj}", "DEPMOD=true"]
    run.output([*argv, f"INSTALL_MOD_PATH={root}", "INSTALL_MOD_STRIP=1", "modules_install"])
    for link in root.glob("lib/modules/*/build"):
        link.unlink()


def _take_modules(
    wanted: Plan, src: Path, obj: Path, root: Path, theirs: Path, commit: str, log: TextIO
) -> None:
    """Debian's, but for those that rooms patch, if they load into this vmlinux."""
    chosen = rooms.series()
    from_debian = theirs / "lib/modules" / wanted.debian.release
    target = root / "lib/modules" / wanted.release
    gate.check_btf(obj / "vmlinux")
    symvers, expected = (obj / "vmlinux.symvers").read_text("utf-8"), wanted.debian.symvers()
    compared = gate.check_symbols(symvers, expected, commit, chosen)
    progress.say(log, f"{compared} symbols have the checksums of Debian's modules", end=True)
    ours = _ours(from_debian / "kernel")
    if ours:
        needed = _needed(from_debian / "kernel", ours)
        name = f"{wanted.flavour} modules"
        build.make(name, src, obj, log, release=wanted.suffix, targets=[f"{p}.ko" for p in needed])
        built = (obj / "Module.symvers").read_text("utf-8")
        gate.check_modules(built, expected, _users(from_debian / "kernel", ours))
    gate.check_files(src, obj, chosen, {path: _files_of(obj, path) for path in ours})
    shutil.copytree(from_debian / "kernel", target / "kernel")
    shutil.copyfile(from_debian / "modules.order", target / "modules.order")
    for name in package.MODULE_LISTS:
        shutil.copyfile(obj / name, target / name)
    modules.strip_all(target / "kernel", log)
    for path in ours:
        modules.replace(target / "kernel" / f"{path}.ko.xz", obj / f"{path}.ko")


def _paths(top: Path) -> dict[str, Path]:
    return {modules.name_of(path): path for path in sorted(top.rglob("*.ko.xz"))}


def _in_tree(top: Path, path: Path) -> str:
    """arch/x86/kvm/kvm of .../arch/x86/kvm/kvm.ko.xz"""
    return str(path.relative_to(top)).removesuffix(".ko.xz")


def _ours(top: Path) -> list[str]:
    """Modules that rooms patch, by their paths in the kernel tree; ``top`` has Debian's."""
    known = _paths(top)
    found: list[str] = []
    for room, said in manifest.load().items():
        for name in said.modules:
            path = known.get(name.replace("-", "_"))
            if not path:
                raise LabError(
                    f"linux/{room}/{manifest.NAME}: modules: Debian has no module {name!r}",
                    "correct the name: it is that of the file, without .ko.xz",
                )
            found.append(_in_tree(top, path))
    return found


def _needed(top: Path, ours: Iterable[str]) -> list[str]:
    """Modules, and all that they need: modpost wants the symbols of these."""
    known = _paths(top)
    needs = modules.needs([*known.values()])
    found: dict[str, None] = {}
    todo = [modules.name_of(Path(path)) for path in ours]
    while todo:
        name = todo.pop()
        if _in_tree(top, known[name]) not in found:
            found[_in_tree(top, known[name])] = None
            todo += needs[name]
    return [*found]


def _users(top: Path, ours: Sequence[str]) -> dict[str, list[str]]:
    """By module of ours, those of Debian's that use it."""
    known = _paths(top)
    needs = modules.needs([*known.values()])
    names = {modules.name_of(Path(path)): path for path in ours}
    return {
        path: [user for user, need in needs.items() if name in need and user not in names]
        for name, path in names.items()
    }


def _files_of(obj: Path, module: str) -> list[str]:
    """The C files of a module that has been built; some of kvm's are above its directory."""
    objects = (obj / f"{module}.mod").read_text("utf-8").split()
    return [re.sub(r"o$", "c", os.path.normpath(name)) for name in objects]
