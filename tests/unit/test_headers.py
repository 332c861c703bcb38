# SPDX-License-Identifier: GPL-2.0
"""The package of headers, from made-up packages of Debian, rooms and a build."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from debs import deb

from lab import run, source
from lab.deb import headers
from lab.deb.debian import Debian
from lab.deb.package import Identity
from lab.errors import LabError
from lab.rooms import Room

VERSION = "6.12.117-1~deb12u1"
ABI = "6.12.117+deb12"
THEIRS = Debian(VERSION, "cloud-amd64", f"{ABI}-cloud-amd64")
OURS = Identity("6.12.117-tiershift4-cloud-amd64", f"{VERSION}+tiershift.4.0.12345678", VERSION)
TOP = f"usr/src/linux-headers-{OURS.release}"
KBUILD = f"../../lib/linux-kbuild-{ABI}"
COMMON = {
    "Makefile": "top\n",
    "arch/arm/include/asm/a.h": "of arm\n",
    "arch/x86/include/asm/kvm_host.h": "of x86\n",
    "include/linux/mm.h": "mm\n",
    "include/linux/kvm_host.h": "kvm\n",
    "scripts": f"->{KBUILD}/scripts",
    "tools": f"->{KBUILD}/tools",
}
FLAVOUR = {
    ".config": "CONFIG_A=y\n",
    ".kernelvariables": f"override KERNELRELEASE = {THEIRS.release}\nCC = gcc-12\n",
    "Makefile": "include common\n",
    "Module.symvers": "0x1\tf\tvmlinux\tEXPORT_SYMBOL\t\n0x2\tg\tfs/x\tEXPORT_SYMBOL\t\n"
    "0x3\th\tarch/x86/kvm/kvm\tEXPORT_SYMBOL\t\n",
    "arch/x86/module.lds": "lds\n",
    "include/config/A": "",
    "include/config/THEIRS": "",
    "include/config/auto.conf": "CONFIG_A=y\n",
    "include/generated/autoconf.h": "#define CONFIG_A 1\n",
    "scripts": f"->{KBUILD}/scripts",
    "tools": f"->{KBUILD}/tools",
    "vmlinux": "BTF of theirs\n",
}
BUILT = {
    ".config": "CONFIG_A=y\nCONFIG_TIER=y\n",
    "Module.symvers": "0x1\tf\tvmlinux\tEXPORT_SYMBOL\t\n0x5\ttier\tvmlinux\tEXPORT_SYMBOL\t\n"
    "0x4\th\tarch/x86/kvm/kvm\tEXPORT_SYMBOL\t\n0x9\tg\tfs/x\tEXPORT_SYMBOL\t\n",
    "scripts/module.lds": "our lds\n",
    "include/config/A": "",
    "include/config/BEFORE": "",
    "include/config/TIER": "",
    "include/config/auto.conf": 'CONFIG_A=y\nCONFIG_TIER="n"\n',
    "include/config/auto.conf.cmd": "how it was made\n",
    "include/generated/autoconf.h": "#define CONFIG_TIER 1\n",
    "include/generated/more.h": "not for modules\n",
}
# Of a work tree: what a room adds, what it patches, and what is no header of modules
SOURCES = {
    "include/linux/tier.h": "tier\n",
    "include/linux/kvm_host.h": "kvm, patched\n",
    "arch/x86/include/asm/kvm_host.h": "of x86, patched\n",
    "mm/tier/internal.h": "internal\n",
    "mm/memory.c": "C\n",
}
PATCHED = ("include/linux/kvm_host.h", "arch/x86/include/asm/kvm_host.h", "mm/memory.c")
CLAUSES = (
    "linux-base (>= 4.12~)",
    f"linux-headers-{ABI}-common (= {VERSION})",
    f"linux-image-{THEIRS.release} (= {VERSION}) | linux-image-{THEIRS.release}-unsigned "
    f"(= {VERSION})",
    f"linux-kbuild-{ABI}",
    "gcc-12",
)
POSTINST = f"#!/bin/sh -e\nversion={THEIRS.release}\nlinux-run-hooks headers postinst $version\n"
Make = Callable[[], Path]


def write(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    return directory


@pytest.fixture
def debs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Debian's packages by their names; a test may replace one."""
    common, flavour = f"linux-headers-{ABI}-common", f"linux-headers-{THEIRS.release}"
    place = tmp_path / "debian"
    place.mkdir()
    files = {f"usr/src/{common}/{name}": text for name, text in COMMON.items()}
    found = {common: deb(place, common, VERSION, files)}
    files = {f"usr/src/{flavour}/{name}": text for name, text in FLAVOUR.items()}
    files |= {"DEBIAN/postinst": POSTINST, f"usr/share/doc/{flavour}/copyright": "GPL-2.0\n"}
    found[flavour] = deb(place, flavour, VERSION, files, Depends=", ".join(CLAUSES))
    kbuild = f"linux-kbuild-{ABI}"
    found[kbuild] = deb(place, kbuild, VERSION)
    monkeypatch.setattr(source, "fetch", lambda name, _version: found[name])
    return found


@pytest.fixture
def make(debs: dict[str, Path], tmp_path: Path) -> Make:
    """Makes our package."""
    src, obj, room = (tmp_path / name for name in ("src", "obj", "room"))
    write(src, SOURCES)
    write(obj, BUILT)
    (obj / "t.c").write_text(
        '__attribute__((section(".BTF"))) const char t[] = "types"; int f(void) { return 1; }\n'
    )
    run.output(["gcc", "-c", obj / "t.c", "-o", obj / "vmlinux"])
    added = [name for name in SOURCES if name not in PATCHED]
    write(room / "files", {name: SOURCES[name] for name in added})
    write(room / "hooks", {"0001-x.patch": "".join(f"--- a/{name}\n" for name in PATCHED)})
    numbers = iter(range(9))

    def made() -> Path:
        out = tmp_path / f"out{next(numbers)}"
        out.mkdir()
        chosen = [Room("x", room)]
        return headers.make(THEIRS, OURS, src, obj, chosen, ["arch/x86/kvm/kvm"], out)

    return made


def unpack(package: Path, directory: Path) -> Path:
    run.output(["dpkg-deb", "--raw-extract", package, directory])
    return directory


def test_headers_of_a_build_are_ours_over_debians(make: Make, tmp_path: Path) -> None:
    root = unpack(make(), tmp_path / "root")
    top = root / TOP
    found = {
        str(path.relative_to(top)): f"->{os.readlink(path)}"
        if path.is_symlink()
        else path.read_text("utf-8", "replace")
        for path in top.rglob("*")
        if path.is_symlink() or path.is_file()
    }
    assert "types" in found["vmlinux"]
    assert "STT_FUNC" not in run.output(["readelf", "--syms", "--wide", top / "vmlinux"])
    del found["vmlinux"]
    assert found == {
        ".config": BUILT[".config"],
        ".kernelvariables": f"override KERNELRELEASE = {OURS.release}\nCC = gcc-12\n",
        "Makefile": "top\n",
        "Module.symvers": "0x2\tg\tfs/x\tEXPORT_SYMBOL\t\n0x1\tf\tvmlinux\tEXPORT_SYMBOL\t\n"
        "0x5\ttier\tvmlinux\tEXPORT_SYMBOL\t\n0x4\th\tarch/x86/kvm/kvm\tEXPORT_SYMBOL\t\n",
        "arch/x86/include/asm/kvm_host.h": "of x86, patched\n",
        "arch/x86/module.lds": "our lds\n",
        "include/config/A": "",
        "include/config/TIER": "",
        "include/config/auto.conf": BUILT["include/config/auto.conf"],
        "include/generated/autoconf.h": BUILT["include/generated/autoconf.h"],
        "include/linux/kvm_host.h": "kvm, patched\n",
        "include/linux/mm.h": "mm\n",
        "include/linux/tier.h": "tier\n",
        "scripts": COMMON["scripts"],
        "tools": COMMON["tools"],
    }


def test_release_leads_to_its_headers(make: Make, tmp_path: Path) -> None:
    root = unpack(make(), tmp_path / "root")
    for name in ("build", "source"):
        assert os.readlink(root / "lib/modules" / OURS.release / name) == f"/{TOP}"
    # The script calls DKMS.
    assert (root / "DEBIAN/postinst").read_text() == POSTINST.replace(THEIRS.release, OURS.release)


def test_headers_depend_on_their_image_and_on_debians_scripts(make: Make) -> None:
    package = make()
    assert package.name == f"linux-headers-{OURS.release}_{OURS.version}_amd64.deb"
    assert run.output(["dpkg-deb", "--field", package, "Depends"]).strip() == (
        f"linux-image-{OURS.release} (= {OURS.version}), linux-base (>= 4.12~), "
        f"linux-kbuild-{ABI}, gcc-12"
    )
    # Debian 13 does not have these.
    assert (package.parent / f"linux-kbuild-{ABI}_{VERSION}_amd64.deb").exists()


def test_two_packages_of_headers_have_the_same_bytes(make: Make) -> None:
    first = make()
    assert first.read_bytes() == make().read_bytes()
    assert sorted(path.suffix for path in first.parent.iterdir()) == [".deb", ".deb"]


def test_checksums_name_files_and_no_links(make: Make, tmp_path: Path) -> None:
    root = unpack(make(), tmp_path / "root")
    sums = (root / "DEBIAN/md5sums").read_text()
    assert f"  {TOP}/Makefile\n" in sums and not re.search(r"/(scripts|build)$", sums, re.M)
    run.output(["md5sum", "--check", "--quiet", "DEBIAN/md5sums"], cwd=root)


@pytest.mark.parametrize(
    "which", [f"linux-headers-{ABI}-common", f"linux-headers-{THEIRS.release}"]
)
def test_headers_of_another_version_are_refused(
    which: str, make: Make, debs: dict[str, Path], tmp_path: Path
) -> None:
    debs[which] = deb(tmp_path, which, "6.12.117-2", {f"usr/src/{which}/Makefile": ""})
    with pytest.raises(
        LabError, match=r"of version 6\.12\.117-2, the image of 6\.12\.117-1~deb12u1"
    ):
        make()


def test_file_that_the_build_lacks_is_told(make: Make, tmp_path: Path) -> None:
    (tmp_path / "obj/include/generated/autoconf.h").unlink()
    with pytest.raises(LabError, match=r"Debian's headers have autoconf.h, our build has no"):
        make()


@pytest.mark.parametrize("missing", range(1, 4))
def test_other_dependencies_of_debians_are_refused(missing: int) -> None:
    good = ", ".join(CLAUSES)
    assert headers.depends(good, THEIRS, OURS).startswith(f"linux-image-{OURS.release} (= ")
    bad = ", ".join(clause for clause in CLAUSES if clause != CLAUSES[missing])
    with pytest.raises(LabError, match="Debian's headers depend on linux-base"):
        headers.depends(bad, THEIRS, OURS)


def test_all_symbols_are_ours_if_all_modules_are() -> None:
    ours = BUILT["Module.symvers"]
    assert headers.symvers(ours, FLAVOUR["Module.symvers"], None) == ours
