# SPDX-License-Identifier: GPL-2.0
"""Try a package as an operator has it: install, boot with systemd, remove, purge.

The root file system is made by debootstrap once, and kept in the cache as a tar file.  All
that changes it runs in a copy, with chroot in namespaces of its own; so this needs root.

Nothing but the boot parameter tier=on switches memory tiering on.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import cache, guest, ktap, run, tier
from lab.deb.make import PACKAGING
from lab.errors import LabError
from lab.ktap import Case
from lab.topology import Topology

INCLUDED = ("initramfs-tools", "kmod", "linux-base", "systemd-sysv", "udev")
CHECK = PACKAGING / "check.sh"
KTAP = PACKAGING / "ktap.sh"  # beside it
UNIT = """\
[Unit]
After=multi-user.target
SuccessAction=poweroff
FailureAction=poweroff
[Service]
Type=oneshot
ExecStart=/bin/sh /root/check.sh
[Install]
WantedBy=multi-user.target
"""
# What an installation leaves that belongs to no package: caches, logs, and the state of tools
NOT_OURS = re.compile(
    r"^(var/(lib/(dpkg|apt|initramfs-tools|systemd)|cache|log|tmp|backups)|tmp|run|dev|proc|sys"
    r"|etc/ld\.so\.cache)(/|$)"
)
# Beside guest.kernel_warnings(): what BTF of another vmlinux would cause
COMPLAINT = re.compile(r"BPF: |BTF.*mismatch|disagrees about version|Unknown symbol")
UNSIGNED = 1 << 13  # taint flag E


def _site() -> str:
    """The mirror that this machine's apt uses."""
    lines = run.output(
        ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)"],
        todo="this needs a Debian system",
    ).splitlines()
    for line in lines:
        site, codename, component = line.split()
        if component == "main" and re.fullmatch(r"\w+", codename):
            return site
    raise LabError("apt has no source of Debian's main archive", "look at /etc/apt")


def root_tar(suite: str, more: Sequence[str] = ()) -> Path:
    """A minimal Debian of a suite, as a tar file in the cache."""
    if os.geteuid():
        raise LabError("trying a package needs root", "run it as root")
    wanted = [*INCLUDED, *more]
    path = cache.sub("rootfs") / f"{suite}-{cache.key(wanted)}.tar"
    with cache.lock("rootfs"):
        if not path.exists():
            cache.need_space(2, f"a root file system of {suite}")
            partial = path.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            argv = ["debootstrap", "--variant=minbase", f"--include={','.join(wanted)}"]
            run.output([*argv, suite, partial, _site()], todo="check the network")
            (partial / "etc/apt/sources.list").write_text("", encoding="utf-8")
            shutil.rmtree(partial / "var/cache/apt/archives", ignore_errors=True)
            run.output(["tar", "-C", partial, "-cf", path.with_suffix(".new"), "."])
            path.with_suffix(".new").rename(path)
            shutil.rmtree(partial)
    return path


@dataclass(frozen=True)
class Root:
    """A root file system that may be changed."""

    path: Path

    @classmethod
    def unpack(cls, tar: Path, path: Path) -> Root:
        path.mkdir(parents=True)
        run.output(["tar", "-C", path, "-xf", tar])
        return cls(path)

    def run(self, *argv: str) -> str:
        """A command inside; a LabError if it fails."""
        inside = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.path}/proc"]
        env = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND": "noninteractive",
            "LC_ALL": "C",
        }
        return run.output([*inside, "chroot", self.path, *argv], env=env)

    def install(self, deb: Path) -> str:
        """By apt, from a file; it has no archive, so nothing else is installed."""
        shutil.copy(deb, self.path / "root" / deb.name)
        said = self.run("apt-get", "-y", "install", f"/root/{deb.name}")
        (self.path / "root" / deb.name).unlink()
        return said

    def names(self) -> set[str]:
        """All that is there, but for caches and logs."""
        found = (str(path.relative_to(self.path)) for path in self.path.rglob("*"))
        return {name for name in found if not NOT_OURS.match(name)}

    def link(self, name: str) -> str:
        """What a link points to; empty if there is none."""
        path = self.path / name
        return os.readlink(path) if path.is_symlink() else ""


@dataclass(frozen=True)
class Boot:
    """What came of a boot."""

    cases: list[Case]
    tainted: int
    complaints: list[str]  # of the kernel's log

    def failed(self) -> list[str]:
        return [f"{case.name}: {case.reason}" for case in self.cases if case.outcome != "pass"]


def states() -> list[str]:
    """PART=STATE of each part of memory tiering once it is switched on, kvm loaded."""
    return [f"{part}={'on' if wish else 'off'}" for part, wish in tier.PARTS.items()]


def boot(
    root: Root,
    release: str,
    topology: Topology,
    out: Path,
    *,
    modules: Iterable[str] = (),
    stress_s: int = 0,
    check: Path = CHECK,
    append: str = "tier=on",
    timeout_s: int = 300,
) -> Boot:
    """Boot the kernel that /vmlinuz points to from a disk, and run a script that prints KTAP."""
    out.mkdir(parents=True, exist_ok=True)
    wanted = {
        "RELEASE": release,
        "TIERS": str(2 if topology.hmat else 1),
        "TIER": tier.DIRECTORY,
        "STATES": " ".join(states()),
        "THREADS": "kmmscand0 kpromoted1",
        "MODULES": " ".join(modules),
        "STRESS_S": str(stress_s),
    }
    inside = root.path / "root"
    text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in wanted.items())
    (inside / "check.env").write_text(text, encoding="utf-8")
    shutil.copy(check, inside / "check.sh")
    shutil.copy(KTAP, inside)
    unit = root.path / "etc/systemd/system/check.service"
    unit.write_text(UNIT, encoding="utf-8")
    root.run("systemctl", "--quiet", "enable", "check.service")
    disk, console, said = out / "disk", out / "console.log", out / "check.log"
    used = sum(p.stat().st_size for p in root.path.rglob("*") if p.is_file() and not p.is_symlink())
    size = f"{used // 2**20 * 5 // 4 + 512}M"
    argv: list[str | Path] = ["qemu-system-x86_64", "-machine", "q35", "-cpu", "max"]
    argv += ["-accel", "tcg,thread=multi", "-display", "none", "-no-reboot", "-nodefaults"]
    argv += ["-m", f"{topology.memory_mb}M", "-smp", str(topology.vcpus), *topology.qemu_args()]
    argv += ["-kernel", root.path / root.link("vmlinuz")]
    argv += ["-initrd", root.path / root.link("initrd.img")]
    argv += ["-append", f"root=/dev/vda rw console=ttyS0 panic=-1 nokaslr {append}"]
    argv += ["-drive", f"file={disk},if=virtio,format=raw,cache=unsafe"]
    argv += ["-serial", f"file:{console}", "-serial", f"file:{said}"]
    try:
        for _ in range(guest.BOOTS):
            run.output(["mke2fs", "-q", "-F", "-t", "ext4", "-d", root.path, disk, size])
            subprocess.run(argv, check=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
            lost = guest.lost_by_emulator(console.read_text(errors="replace"))
            if not lost:
                break
            print(f"{lost}; booting again", file=sys.stderr)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"no end of the boot after {timeout_s} s", f"see {console}") from error
    finally:
        disk.unlink(missing_ok=True)
        for name in ("check.env", "check.sh", KTAP.name):
            (inside / name).unlink()
        root.run("systemctl", "--quiet", "disable", "check.service")
        unit.unlink()
    text = said.read_text(errors="replace") if said.exists() else ""
    log = console.read_text(errors="replace") if console.exists() else ""
    taint = re.search(r"^tainted (\d+)", text, re.MULTILINE)
    if not taint:
        raise LabError("the machine did not come to the end of its checks", f"see {console}")
    lines = [*guest.kernel_warnings(log), *guest.kernel_warnings(text)]
    lines += [line for line in (log + text).splitlines() if COMPLAINT.search(line)]
    return Boot(ktap.parse(text, 0), int(taint[1]), [*dict.fromkeys(lines)])
