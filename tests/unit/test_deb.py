# SPDX-License-Identifier: GPL-2.0
"""Packages without building one: names, the gate, control files, repositories, bad input."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from lab import build, manifest, rooms, run, source, tier, tree
from lab.deb import debian, gate, headers, make, modules, package, repo, trial
from lab.deb.debian import Debian
from lab.deb.package import Identity
from lab.errors import LabError
from lab.rooms import Room

VERSION = "6.12.117-1~deb12u1"
RELEASE = "6.12.117+deb12-cloud-amd64"
DEBIAN = Debian(VERSION, "cloud-amd64", RELEASE)
IDENTITY = Identity("6.12.117-tiershift1-cloud-amd64", f"{VERSION}+tiershift.1", VERSION)

# --- Debian's packages --------------------------------------------------------------------

NAMES = """linux-image-6.12.115+deb12-amd64-unsigned
linux-image-6.12.117+deb12-amd64-dbg
linux-image-6.12.117+deb12-amd64-unsigned
linux-image-6.12.117+deb12-cloud-amd64-unsigned
linux-image-6.12.117+deb12-rt-amd64-unsigned
linux-image-6.12-amd64-signed-template
"""


def test_releases_of_a_flavour() -> None:
    assert debian.releases(NAMES, "cloud-amd64") == [RELEASE]
    assert debian.releases(NAMES, "amd64") == ["6.12.115+deb12-amd64", "6.12.117+deb12-amd64"]


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> None:
    def output(argv: list[str], **_: object) -> str:
        if argv[1] == "pkgnames":
            return NAMES
        assert argv[1] == "madison"
        number = "6.12.115-2~deb12u1" if "6.12.115" in argv[2] else VERSION
        return f" {argv[2]} | {number} | http://x y/main amd64 Packages\n"

    monkeypatch.setattr(run, "output", output)
    monkeypatch.setattr(source, "offered", lambda: ["6.12.120-1", VERSION, "6.12.115-2~deb12u1"])


def test_version_that_is_found(archive: None) -> None:
    assert debian.find("cloud", VERSION) == DEBIAN
    assert debian.find("amd64", "6.12.115-2~deb12u1").release == "6.12.115+deb12-amd64"


@pytest.mark.parametrize(
    ("flavour", "version", "said"),
    [
        ("rt", VERSION, "no package flavour 'rt'"),
        ("cloud", "6.1.0-1", f"offers no {source.PACKAGE} 6.1.0-1"),
        ("cloud", None, "but no image of flavour cloud-amd64"),
    ],
)
def test_version_that_is_not(archive: None, flavour: str, version: str | None, said: str) -> None:
    with pytest.raises(LabError, match=said) as caught:
        debian.find(flavour, version)
    assert caught.value.todo


def test_kind_of_modules_that_is_none() -> None:
    with pytest.raises(LabError, match="MODULES=none"):
        make.plan("cloud", None, "none")


# --- the gate -----------------------------------------------------------------------------

THEIRS = """0x1\tkmalloc\tvmlinux\tEXPORT_SYMBOL\t
0x2\tmigrate_pages\tvmlinux\tEXPORT_SYMBOL_GPL\t
0x3\tkvm_init\tarch/x86/kvm/kvm\tEXPORT_SYMBOL_GPL\t
"""


def test_symbols_that_differ() -> None:
    assert gate.differing(THEIRS, THEIRS) == {}
    # Symbols of modules, and those that only we have, are not vmlinux's for Debian.
    ours = THEIRS.replace("0x3", "0x4") + "0x5\tnew\tvmlinux\tEXPORT_SYMBOL\t\n"
    assert gate.differing(ours, THEIRS) == {}
    assert gate.differing(THEIRS.replace("0x2", "0x7"), THEIRS) == {
        "migrate_pages": "0x7 EXPORT_SYMBOL_GPL, Debian's modules need 0x2 EXPORT_SYMBOL_GPL"
    }
    # Modules that are not free may use the one, and not the other.
    assert list(gate.differing(THEIRS.replace("EXPORT_SYMBOL\t", "X\t"), THEIRS)) == ["kmalloc"]
    assert list(gate.differing(ours, THEIRS, ["arch/x86/kvm/kvm"])) == ["kvm_init"]
    assert gate.differing(THEIRS.partition("\n")[0], THEIRS) == {"migrate_pages": "missing"}


STRUCT = """--- a/include/linux/mm_types.h
+++ b/include/linux/mm_types.h
@@ -10,6 +10,7 @@ struct folio {
 \tint a;
+\tint b;
 };
@@ -30,4 +31,5 @@ static inline int f(void)
+\treturn 0;
 }
 enum zone_x {
 \tA,
+\tB,
 };
+struct later;
@@ -50,2 +52,3 @@ struct before {
+#define NEW 1
"""


def test_types_that_a_patch_changes() -> None:
    assert gate.changed_types(STRUCT) == ["struct folio", "enum zone_x"]
    assert gate.changed_types(STRUCT.replace("b/include/linux", "b/mm")) == []


def room(tmp_path: Path, patch: str) -> Room:
    (tmp_path / "hooks").mkdir(parents=True)
    (tmp_path / "hooks/0001-x.patch").write_text(patch)
    return Room("x", tmp_path)


def _included(patch: str) -> list[str]:
    """What a patch includes in headers, by their names in <> or ""."""
    header, found = False, []
    for line in patch.splitlines():
        if line.startswith("+++ "):
            header = line.endswith(".h")
        elif header and (match := re.match(r'\+#include ["<](\S+)[">]', line)):
            found.append(match[1])
    return found


def _defines_types(name: str, ours: dict[str, Path]) -> bool:
    """Does a header bring in more than our own types?"""
    if name == "linux/types.h":
        return False
    if name not in ours:
        return True
    text = ours[name].read_text("utf-8")
    others = re.findall(r"^#include <(\S+)>", text, re.MULTILINE)
    return any(_defines_types(other, ours) for other in others)


def test_includes_of_headers_are_found() -> None:
    patch = "+++ b/mm/a.c\n+#include <a.h>\n+++ b/mm/b.h\n+#include <b.h>\n+int x;\n"
    assert _included(patch) == ["b.h"]


def test_headers_that_include_others_are_told(tmp_path: Path) -> None:
    (tmp_path / "ours.h").write_text("#include <linux/types.h>\n", encoding="utf-8")
    (tmp_path / "more.h").write_text("#include <linux/mempolicy.h>\n", encoding="utf-8")
    ours = {name: tmp_path / name for name in ("ours.h", "more.h")}
    assert not _defines_types("ours.h", ours)
    assert _defines_types("more.h", ours) and _defines_types("linux/migrate.h", ours)


def test_hooks_of_headers_bring_in_no_type_of_the_kernel() -> None:
    """A type that a file did not know changes the checksums of what the file exports."""
    series = rooms.series()
    ours = {
        name.removeprefix("include/"): room.path / "files" / name
        for room in series
        for name in room.files
        if name.startswith("include/")
    }
    for room in series:
        for hook in room.hooks:
            for name in _included(hook.read_text("utf-8", "surrogateescape")):
                assert not _defines_types(name, ours), f"{hook.name} includes {name}"


def test_hook_that_is_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = STRUCT + "--- a/mm/migrate.c\n+++ b/mm/migrate.c\n@@ -1 +1 @@\n-int a;\n+int b;\n"
    one = room(tmp_path, exporter)
    monkeypatch.setattr(gate, "_exporters", lambda symbol, _commit: [f"mm/{symbol[:7]}.c"])
    assert gate.check_symbols(THEIRS, THEIRS, "HEAD", [one]) == 2
    with pytest.raises(LabError, match=r"migrate_pages: 0x7.*; see linux/x/hooks/0001-x.patch\n"):
        gate.check_symbols(THEIRS.replace("0x2", "0x7"), THEIRS, "HEAD", [one])
    with pytest.raises(LabError, match=r"kmalloc: 0x8.*0001-x.patch \(struct folio\)") as caught:
        gate.check_symbols(THEIRS.replace("0x1", "0x8"), THEIRS, "HEAD", [one])
    assert "MODULES=build" in caught.value.todo


def test_module_of_ours_that_others_use() -> None:
    path = "arch/x86/kvm/kvm"
    gate.check_modules(THEIRS, THEIRS, {path: ["kvm_intel"]})
    other = THEIRS.replace("0x3", "0x4")
    gate.check_modules(other, THEIRS, {path: []})
    with pytest.raises(LabError, match=r"kvm_init as 0x4.*kvm_intel would not load"):
        gate.check_modules(other, THEIRS, {path: ["kvm_intel"]})


def test_long_lists_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_exporters", lambda *_: [])
    many = "".join(f"0x1\ts{n}\tvmlinux\tEXPORT_SYMBOL\t\n" for n in range(50))
    with pytest.raises(LabError, match="50 symbols") as caught:
        gate.check_symbols("", many, "HEAD", [])
    assert "and 38 more" in caught.value.what and len(caught.value.what.splitlines()) == 14


def test_exporter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def git(*argv: str) -> str:
        asked.extend(argv)
        return "HEAD:mm/migrate.c\nHEAD:mm/other.c"

    monkeypatch.setattr(tree, "git", git)
    assert gate._exporters("migrate_pages", "HEAD") == ["mm/migrate.c", "mm/other.c"]
    assert "migrate_pages[,)]" in asked[3]


def test_option_that_is_lost() -> None:
    theirs = "CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\nCONFIG_PAHOLE_VERSION=124\n"
    ours = ["CONFIG_C=y\n"]
    good = theirs.replace("# CONFIG_C is not set", "CONFIG_C=y").replace("124", "125")
    gate.check_config(good, theirs, ours)
    for bad in ("CONFIG_A=y", "CONFIG_B=m", "CONFIG_C=y"):
        with pytest.raises(LabError, match=bad):
            gate.check_config(good.replace(bad, ""), theirs, ours)


MAKEFILES = {
    "mm": "mmu-y := memory.o\nobj-y := a.o $(mmu-y)\nobj-$(CONFIG_X) += off.o\n",
    "fs": "obj-$(CONFIG_M) += \\\n\tmodule.o\n",
    "arch/x86/kvm": "kvm-y += b.o\nobj-$(CONFIG_KVM) += kvm.o\n",
}


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("mm/memory.c", True),
        ("mm/off.c", True),
        ("include/linux/mm.h", True),
        ("arch/x86/kvm/b.c", False),
        ("fs/module.c", False),  # although it has been compiled
        ("virt/kvm/main.c", False),  # nothing beside it says of which module it is
    ],
)
def test_file_that_is_in_a_module(tmp_path: Path, name: str, good: bool) -> None:
    one = room(tmp_path / "x", f"--- a/{name}\n+++ b/{name}\n")
    src, obj = tmp_path / "src", tmp_path / "obj"
    for directory, text in MAKEFILES.items():
        (src / directory).mkdir(parents=True)
        (src / directory / "Makefile").write_text(text)
        (obj / directory).mkdir(parents=True)
    for made in ("mm/memory.o", "mm/a.o", "fs/module.o"):
        (obj / made).touch()
    (obj / ".config").write_text("CONFIG_M=m\nCONFIG_KVM=m\n")
    if good:
        gate.check_files(src, obj, [one], {})
        return
    with pytest.raises(LabError, match=f"patches {name}, which is not in"):
        gate.check_files(src, obj, [one], {})
    gate.check_files(src, obj, [one], {"x": [name]})


def test_files_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/m.mod").write_text("a/x.o\na/../virt/y.o\n")
    assert make._files_of(tmp_path, "a/m") == ["a/x.c", "virt/y.c"]


def compiled(path: Path, text: str, *options: str) -> Path:
    source_file = path.with_suffix(".c")
    source_file.write_text(text)
    subprocess.run(["gcc", "-c", *options, source_file, "-o", path], check=True)
    return path


BTF = '__attribute__((section(".BTF"))) const char types[] = "t"; int f(void) { return 1; }\n'


def test_vmlinux_without_btf(tmp_path: Path) -> None:
    gate.check_btf(compiled(tmp_path / "good.o", BTF))
    with pytest.raises(LabError, match="no BTF"):
        gate.check_btf(compiled(tmp_path / "bad.o", "int f(void) { return 1; }\n"))


# --- modules ------------------------------------------------------------------------------


def test_modules_lose_btf_and_nothing_else(tmp_path: Path) -> None:
    plain = compiled(tmp_path / "m.o", BTF).read_bytes()
    packed = tmp_path / "kernel/m.ko.xz"
    packed.parent.mkdir()
    packed.write_bytes(modules.pack(plain + b"a signature"))
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        assert modules.strip_all(packed.parent, log) == 1
    (tmp_path / "new.o").write_bytes(lzma.decompress(packed.read_bytes()))
    with pytest.raises(LabError, match="no BTF"):
        gate.check_btf(tmp_path / "new.o")
    text = run.output(["objdump", "-d", tmp_path / "new.o"])
    assert "<f>:" in text and b"a signature" not in (tmp_path / "new.o").read_bytes()


def test_no_modules_at_all(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no modules"):
        modules.strip_all(tmp_path)


# --- the package --------------------------------------------------------------------------

CONTROL = f"""Package: linux-image-{RELEASE}-unsigned
Version: {VERSION}
Architecture: amd64
Pre-Depends: linux-base (>= 4.12~)
Depends: kmod, initramfs-tools | linux-initramfs-tool
Conflicts: linux-image-{RELEASE}
Replaces: linux-image-{RELEASE}
Description: Linux for clouds
 More of it.
"""


def test_control_file() -> None:
    found = package.fields(package.control(CONTROL, IDENTITY, 77))
    assert found["Package"] == "linux-image-6.12.117-tiershift1-cloud-amd64"
    assert found["Depends"] == "kmod, initramfs-tools | linux-initramfs-tool"
    assert found["Installed-Size"] == "77"
    # It is installed beside Debian's.
    assert not {"Conflicts", "Replaces", "Provides"} & set(found)
    assert RELEASE not in package.control(CONTROL, IDENTITY, 77)


def test_maintainer_scripts_that_have_changed() -> None:
    good = f"#!/bin/sh -e\nversion={RELEASE}\nimage_path=/boot/vmlinuz-$version\n"
    ours = package.script(good, RELEASE, IDENTITY)
    assert ours == good.replace(RELEASE, IDENTITY.release)
    with pytest.raises(LabError, match="does not say"):
        package.script(good.replace("version=", "release="), RELEASE, IDENTITY)


@pytest.fixture
def debs(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a package of a version, which is also its number."""

    def made(version: str) -> Path:
        theirs, root = tmp_path / "theirs", tmp_path / "root"
        for name in ("DEBIAN", "usr/share/doc/x"):
            (theirs / name).mkdir(parents=True, exist_ok=True)
        (theirs / "usr/share/doc/x/copyright").write_text("GPL-2.0\n")
        (theirs / "DEBIAN/control").write_text(CONTROL)
        for name in package.SCRIPTS:
            (theirs / "DEBIAN" / name).write_text(f"#!/bin/sh -e\nversion={RELEASE}\n")
        (tmp_path / "bzImage").write_bytes(b"kernel")
        release = IDENTITY.release.replace("tiershift1", f"tiershift{version}")
        identity = Identity(release, version, VERSION)
        package.lay_out(root, theirs, RELEASE, identity, {"vmlinuz": tmp_path / "bzImage"})
        mail = tmp_path / "1-room/0001-x.patch"
        mail.parent.mkdir(exist_ok=True)
        mail.write_text("diff\n")
        package.add_series(root, identity, [mail])
        out = tmp_path / identity.file
        package.build(root, theirs, identity, out)
        return out

    return made


def test_package_is_complete_and_repeatable(debs: Callable[[str], Path]) -> None:
    first = debs("1")
    kept = first.read_bytes()
    listed = run.output(["dpkg-deb", "--contents", first])
    for name in (
        f"root/root         6 2026-01-01 00:00 ./boot/vmlinuz-{IDENTITY.release}",
        f"./usr/share/doc/{IDENTITY.name}/series/1-room/0001-x.patch.gz",
        f"./usr/share/doc/{IDENTITY.name}/copyright",
    ):
        assert name in listed, listed
    # The boot parameter tier=on is all that switches on.
    assert "/examples" not in listed
    script = run.output(["dpkg-deb", "--info", first, "postinst"])
    assert script == f"#!/bin/sh -e\nversion={IDENTITY.release}\n"
    assert debs("1").read_bytes() == kept


def test_trial_expects_all_parts_but_those_for_few_machines() -> None:
    tried = dict(state.split("=") for state in trial.states())
    assert {part for part, state in tried.items() if state == "off"} == {"defer", "postpone"}
    switched = {switch.file for room_ in rooms.series() for switch in manifest.read(room_).switches}
    assert {tier.enabled(part) for part in tried} == switched
    assert {*tried.values()} == {"on", "off"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"enabled": "0"}, ""),  # of the whole: the states count
        ({"state": "partly"}, ".: partly, not on; "),
        ({"age/state": "waiting", "age/reason": "no kvm"}, "age: waiting, not on; no kvm"),
        ({"defer/state": "on"}, "defer: on, not off; "),
    ],
)
def test_trial_looks_at_the_state_of_each_part(
    change: dict[str, str], said: str, tmp_path: Path
) -> None:
    files = {"enabled": "1", "state": "on"}
    for state in trial.states():
        part, word = state.split("=")
        files |= {f"{part}/state": word, f"{part}/reason": ""}
    for name, text in (files | change).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    functions = re.findall(
        r"^(?:state|states)\(\) \{\n.*?^\}\n", trial.CHECK.read_text(), re.M | re.S
    )
    assert len(functions) == 2
    script = "sleep() { :; }\nseq() { echo 1 2; }\n" + "".join(functions)
    env = {**os.environ, "TIER": str(tmp_path), "STATES": " ".join(trial.states())}

    def shell(call: str) -> tuple[int, str]:
        argv = ["sh", "-c", script + call]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip()

    assert shell("states on") == (1 if said else 0, said.strip())
    assert shell("states off")[0] == 1  # what a switch that does nothing leaves


# --- repositories -------------------------------------------------------------------------


def apt(tmp_path: Path, line: str) -> list[str]:
    """Options of an apt that knows one repository."""
    lists = tmp_path / "apt"
    (lists / "partial").mkdir(parents=True)
    (tmp_path / "status").touch()
    (tmp_path / "list").write_text(f"{line}\n")
    options = [
        f"Dir::Etc::sourcelist={tmp_path / 'list'}",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State::lists={lists}",
        f"Dir::State::status={tmp_path / 'status'}",
        f"Dir::Cache={tmp_path}",
        "APT::Sandbox::User=root",
        "APT::Architecture=amd64",
        "Acquire::Check-Date=true",
        "Acquire::Check-Valid-Until=true",
    ]
    return [word for option in options for word in ("-o", option)]


def test_apt_can_use_the_directory(debs: Callable[[str], Path], tmp_path: Path) -> None:
    out = tmp_path / "repo"
    repo.write(out, [debs("1")])
    repo.write(out, [debs("2")])
    for name in repo.INDEXES:
        (out / name).unlink()  # apt takes them by their checksums
    argv = apt(tmp_path, f"deb [trusted=yes] copy:{out} ./")
    run.output(["apt-get", *argv, "update"])
    found = run.output(["apt-cache", *argv, "search", "--names-only", "linux-image"])
    # The kernel before stays.
    assert [line.partition(" ")[0] for line in sorted(found.splitlines())] == [
        IDENTITY.name,
        IDENTITY.name.replace("tiershift1", "tiershift2"),
    ]


@pytest.fixture
def secret_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    make_key = ["gpg", "--batch", "--passphrase", "", "--quick-gen-key", "me@invalid", "ed25519"]
    run.output(make_key)
    yield "me@invalid"
    subprocess.run(["gpgconf", "--kill", "all"], check=False)


def test_signed_directory(debs: Callable[[str], Path], tmp_path: Path, secret_key: str) -> None:
    out = tmp_path / "repo"
    repo.write(out, [debs("1")], secret_key)
    run.output(["gpg", "--batch", "--verify", out / "InRelease"])
    sums = {line.split()[-1]: line.split()[0] for line in _index(out) if line.startswith(" ")}
    assert sums["Packages"] == hashlib.sha256((out / "Packages").read_bytes()).hexdigest()
    before = (out / "InRelease").read_text()
    with pytest.raises(LabError, match="is signed, and no key is given"):
        repo.write(out, [debs("2")])
    assert (out / "InRelease").read_text() == before
    repo.write(out, [debs("2")], secret_key)
    assert "Version: 2\n" in (out / "Packages").read_text()


def test_apt_refuses_a_signed_directory_that_is_old(
    tmp_path: Path, secret_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "repo"
    argv = apt(tmp_path, f"deb [signed-by={out}/tiershift.asc] copy:{out} ./")
    with monkeypatch.context() as other:
        other.setattr(repo, "VALID_DAYS", -1)
        repo.write(out, [], secret_key)
    with pytest.raises(LabError, match="expired"):
        run.output(["apt-get", *argv, "update"])
    repo.write(out, [], secret_key)
    run.output(["apt-get", *argv, "update"])


def _index(out: Path) -> list[str]:
    return (out / "InRelease").read_text().partition("SHA256:")[2].splitlines()


@pytest.fixture
def taking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, debs: Callable[[str], Path]
) -> Callable[[str], Path]:
    """Takes Debian's modules for a vmlinux with these symbols; where they are then."""
    monkeypatch.setattr(Debian, "symvers", lambda _self: THEIRS)
    monkeypatch.setattr(gate, "_exporters", lambda *_: [])
    monkeypatch.setattr(rooms, "series", list)
    theirs, obj, root = tmp_path / "debian", tmp_path / "obj", tmp_path / "ours"
    known = theirs / "lib/modules" / RELEASE
    (known / "kernel/fs").mkdir(parents=True)
    obj.mkdir()
    packed = modules.pack(compiled(tmp_path / "m.o", BTF).read_bytes())
    (known / "kernel/fs/m.ko.xz").write_bytes(packed)
    for path in (known / "modules.order", obj / "modules.builtin", obj / "modules.builtin.modinfo"):
        path.touch()
    (obj / ".config").touch()
    compiled(obj / "vmlinux", BTF)

    def take(symvers: str) -> Path:
        (obj / "vmlinux.symvers").write_text(symvers)
        wanted = make.Plan("cloud", make.FROM_DEBIAN, DEBIAN)
        with open(tmp_path / "log", "w", encoding="utf-8") as log:
            make._take_modules(wanted, tmp_path, obj, root, theirs, "HEAD", log)
        return root / "lib/modules" / wanted.release

    return take


def test_modules_are_taken(taking: Callable[[str], Path]) -> None:
    found = taking(THEIRS)
    assert sorted(path.name for path in found.rglob("*") if path.is_file()) == [
        "m.ko.xz",
        "modules.builtin",
        "modules.builtin.modinfo",
        "modules.order",
    ]


def test_no_module_is_taken_that_would_not_load(
    taking: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(LabError, match="1 symbols are not what"):
        taking(THEIRS.replace("0x2", "0x9"))
    compiled(tmp_path / "obj/vmlinux", "int f(void) { return 1; }\n")
    with pytest.raises(LabError, match="no BTF"):
        taking(THEIRS)
    assert not (tmp_path / "ours").exists()


def test_package_that_is_half_written_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path))
    partial = tmp_path / "packages/cloud-debian-1.partial"
    partial.mkdir(parents=True)
    (partial / IDENTITY.file).write_text("half of it")
    with pytest.raises(LabError, match="there is no package yet"):
        make.every()
    monkeypatch.setattr(make, "number", lambda: 1)
    whole = tmp_path / "packages/cloud-debian-1"
    partial.rename(whole)
    (whole / "package.json").write_text(json.dumps({"file": IDENTITY.file}))
    assert make.every() == [whole / IDENTITY.file]


def test_directory_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(LabError, match="is not empty and no repository"):
        repo.write(tmp_path, [])
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_key_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no secret key 'nobody@invalid'"):
        repo.write(tmp_path / "new", [], "nobody@invalid")
    assert not (tmp_path / "new").exists()


# --- trying it ----------------------------------------------------------------------------


def test_what_is_left_over() -> None:
    for name in ("var/log/dpkg.log", "var/lib/dpkg/status", "tmp/x", "etc/ld.so.cache"):
        assert trial.NOT_OURS.match(name), name
    for name in ("boot/vmlinuz-6", "lib/modules/6", "vmlinuz", "etc/tmpfiles.d/x", "var/lib/x"):
        assert not trial.NOT_OURS.match(name), name


def test_complaints_of_another_btf() -> None:
    assert trial.COMPLAINT.search("[    1.0] BPF: \t Invalid name_offset:1234567")
    assert not trial.COMPLAINT.search("[    1.0] bpf_lsm: registered")


def test_only_root_tries_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="needs root"):
        trial.root_tar("bookworm")


def nothing(*_: object, **__: object) -> str:
    return ""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], make.Plan]:
    """Plans of which nothing that takes long is done."""
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path))
    monkeypatch.setattr(make.Plan, "key", lambda _self: "0123456789abcdef")
    monkeypatch.setattr(Debian, "unpack", lambda _self, path: path.mkdir(parents=True))
    for module, names in (
        (build, ("make",)),
        (headers, ("download",)),
        (make, ("_configure", "_take_modules", "_ours")),
        (package, ("add_series", "build", "lay_out")),
        (tree, ("compose", "export_series", "work_tree")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, nothing)

    def plan(flavour: str) -> make.Plan:
        wanted = make.Plan(flavour, make.FROM_DEBIAN, DEBIAN)
        release = tmp_path / f"obj/deb-{flavour}-debian/include/config/kernel.release"
        release.parent.mkdir(parents=True)
        release.write_text(wanted.release)
        return wanted

    return plan


@pytest.mark.parametrize("where", ["compile", "assemble"])
def test_interrupted_build_leaves_no_package(
    where: str,
    quick: Callable[[str], make.Plan],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    wanted = quick("cloud")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(*((build, "make") if where == "compile" else (package, "lay_out")), stop)
    with open(tmp_path / "log", "w", encoding="utf-8") as log, pytest.raises(KeyboardInterrupt):
        make.deb(wanted, log)
    assert make.finished(wanted) is None
    with pytest.raises(LabError, match="there is no package yet"):
        make.every()


@pytest.mark.parametrize("flavour", ["amd64", "cloud", make.LAB])
def test_each_kernel_for_operators_has_headers(
    flavour: str,
    quick: Callable[[str], make.Plan],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    made: list[str] = []
    wanted = quick(flavour)

    def lay_out(root: Path, *_: object) -> None:
        for path in (root, root.parent / "series"):
            path.mkdir(parents=True)

    monkeypatch.setattr(package, "lay_out", lay_out)
    monkeypatch.setattr(
        headers, "make", lambda _theirs, identity, *_: made.append(identity.release)
    )
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        make.deb(wanted, log)
    assert made == ([] if flavour == make.LAB else [wanted.release])


def test_key_is_of_all_that_is_in_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Debian, "config", lambda _self: "CONFIG_A=y\n")
    monkeypatch.setattr(tree, "compose", lambda _version: "HEAD")
    monkeypatch.setattr(build, "inputs", lambda _commit: ["source"])
    monkeypatch.setattr(run, "output", lambda *_, **__: "v1.24")
    load = manifest.load
    keys = [make.Plan("cloud", make.FROM_DEBIAN, DEBIAN).key()]
    assert make.Plan("cloud", make.FROM_DEBIAN, DEBIAN).key() == keys[0]
    keys.append(make.Plan("cloud", make.BUILT, DEBIAN).key())
    keys.append(make.Plan("amd64", make.FROM_DEBIAN, DEBIAN).key())
    with monkeypatch.context() as other:
        other.setattr(run, "output", lambda *_, **__: "v1.25")
        keys.append(make.Plan("cloud", make.FROM_DEBIAN, DEBIAN).key())
    with monkeypatch.context() as other:
        known = load()
        known["migrc"] = msgspec.structs.replace(known["migrc"], modules=("kvm",))
        other.setattr(manifest, "load", lambda _chosen=None: known)
        keys.append(make.Plan("cloud", make.FROM_DEBIAN, DEBIAN).key())
    assert len(set(keys)) == len(keys)


def test_no_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Told before anything is unpacked or built."""
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path))
    monkeypatch.setattr(make, "NEEDS_GIB", {("cloud", "debian"): 1e6})
    with pytest.raises(LabError, match="needs 1e\\+06 GiB of disk"):
        make._make(make.Plan("cloud", make.FROM_DEBIAN, DEBIAN), sys.stderr)
    assert list(tmp_path.iterdir()) == []
