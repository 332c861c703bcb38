# SPDX-License-Identifier: GPL-2.0
"""Booting: the machines are what they say, and no failure is taken for success."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

from lab import cache, guest, programs, topology
from lab.build import KernelImage
from lab.errors import LabError
from lab.topology import Topology

TIERS = "cat /sys/devices/virtual/memory_tiering/memory_tier*/nodelist"


@pytest.mark.parametrize(
    ("name", "tiers"),
    [
        ("two-tier", ["0", "1"]),
        ("two-tier-nohmat", ["0-1"]),
        ("one-tier", ["0"]),
        ("two-sockets", ["0-1", "2-3"]),
    ],
)
def test_topology(name: str, tiers: list[str], base_kernel: KernelImage, out_dir: Path) -> None:
    machine = topology.load(name)
    guest.run(base_kernel.image, machine, TIERS + "; nproc", out_dir=out_dir, timeout_s=120)
    lines = (out_dir / "output.log").read_text().split()
    assert sorted(lines[:-1]) == tiers
    assert lines[-1] == str(machine.vcpus)


def test_short_slices_are_inherited_and_end() -> None:
    """Where the host cannot, nothing changes."""

    def slice_ns() -> int | None:
        text = subprocess.check_output(["cat", "/proc/self/sched"], text=True)
        found = re.search(r"^se\.slice\s*:\s*(\d+)", text, re.M)
        return int(found[1]) if found else None

    before = slice_ns()
    with guest.short_slices():
        inside = slice_ns()
    assert slice_ns() == before
    release = tuple(int(n) for n in platform.release().split(".")[:2])
    assert inside == (guest.SLICE_NS if before and release >= (6, 12) else before)


def test_vcpus_wait_for_each_other_as_briefly_as_they_can(
    base_kernel: KernelImage, out_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush of the TLB of two busy CPUs, as it is and without pause.so and short slices."""
    machine = topology.load("two-tier", fast_cpus=4)
    if machine.vcpus <= (os.cpu_count() or 1):
        pytest.skip("the host has a CPU for each of the guest")
    program = programs.build_programs(cache.sub("programs"))["ka_wait"]

    def mean_us(name: str) -> int:
        out = out_dir / name
        guest.run(base_kernel.image, machine, f"{program} 2 200", out_dir=out, timeout_s=120)
        return int((out / "output.log").read_text())

    briefly = mean_us("briefly")
    monkeypatch.setattr(os, "cpu_count", lambda: machine.vcpus + 1)
    spinning = mean_us("spinning")
    print(f"a flush takes {briefly} us, {spinning} us with vCPUs that spin")
    assert briefly < spinning / 2


def test_exit_code_comes_back(base_kernel: KernelImage, two_tier: Topology, out_dir: Path) -> None:
    result = guest.run(base_kernel.image, two_tier, "exit 7", out_dir=out_dir, timeout_s=120)
    assert result.exit_code == 7


def test_kernel_warning_fails_the_run(
    base_kernel: KernelImage, two_tier: Topology, out_dir: Path
) -> None:
    command = "echo '<4>WARNING: CPU: 0 PID: 1 at mm/test.c:1' > /dev/kmsg; sleep 1"
    with pytest.raises(LabError, match=r"mm/test\.c"):
        guest.run(base_kernel.image, two_tier, command, out_dir=out_dir, timeout_s=120)


def test_what_user_space_says_is_no_kernel_warning() -> None:
    """virtme-ng's init reports missing programs as WARNING."""
    assert not guest.kernel_warnings('[    2.5] virtme-ng-init: WARNING: failed to run: "ip"')
    assert guest.kernel_warnings("[    2.5] WARNING: CPU: 0 PID: 1 at mm/vmscan.c:1 f+0x1/0x2")
    report = "[    2.5] eater invoked oom-killer: gfp_mask=0xcc0\n[    2.6] Call Trace:\n"
    assert not guest.kernel_warnings(report)
    assert guest.kernel_warnings(report + "[    2.7] Call Trace:\n")


@pytest.mark.parametrize(
    ("flags", "because", "bad"),
    [
        ("locked|node=1|zone=2|lastcpupid=0x3fff", "isolation failed", False),
        ("node=1|zone=2|lastcpupid=0x3fff", "isolation failed", True),
        ("uptodate|swapbacked|node=1|zone=2", "isolation failed", True),
        ("node=1|zone=0|lastcpupid=0x3fff", "unmovable page", False),
        ("locked|node=1|zone=2|lastcpupid=0x3fff", "nonzero mapcount", True),
    ],
)
def test_offlining_may_meet_a_page_in_migration(flags: str, because: str, bad: bool) -> None:
    """As the debug kernel printed it, of pages that another thread had locked."""
    console = f"""\
[   58.275637] failed to isolate pfn 50a72
[   58.276833] page: refcount:2 mapcount:0 mapping:0000000000000000 index:0x190 pfn:0x50a72
[   58.277692] flags: 0x6fffc0000000001({flags})
[   58.278597] raw: 06fffc0000000001 ffffea0001429f08 ffff88800472fa40 0000000000000000
[   58.281455] page dumped because: {because}
"""
    assert bool(guest.kernel_warnings(console)) == bad


def test_only_a_race_of_the_emulator_is_booted_again() -> None:
    oops = "[    1.0] Oops: int3: 0000 [#1] SMP"
    assert "patched" in guest._lost_by_emulator(oops)
    stopped = "qemu-system-x86_64: ../../hw/pci/msix.c:218: f: Assertion `a < b' failed."
    assert "assertion" in guest._lost_by_emulator("[    1.1] pci 0000:00:08.0\n" + stopped)
    assert not guest._lost_by_emulator("[    1.0] Oops: 0000 [#1] SMP")
    assert not guest._lost_by_emulator("program: x.c:1: f: Assertion `a < b' failed.")
    assert guest.kernel_warnings(oops)


def test_hanging_guest_is_killed(
    base_kernel: KernelImage, two_tier: Topology, out_dir: Path
) -> None:
    with pytest.raises(LabError, match="did not end within 25 s"):
        guest.run(base_kernel.image, two_tier, "sleep 1000", out_dir=out_dir, timeout_s=25)


def test_lost_guest_fails(base_kernel: KernelImage, two_tier: Topology, out_dir: Path) -> None:
    command = "echo o > /proc/sysrq-trigger; sleep 60"
    with pytest.raises(LabError, match="lost"):
        guest.run(base_kernel.image, two_tier, command, out_dir=out_dir, timeout_s=120)


def test_kernel_that_does_not_boot(two_tier: Topology, out_dir: Path, tmp_path: Path) -> None:
    image = tmp_path / "bzImage"
    image.write_bytes(b"not a kernel")
    with pytest.raises(LabError, match="did not boot"):
        guest.run(image, two_tier, "true", out_dir=out_dir, timeout_s=60)


def test_sizes_are_checked() -> None:
    with pytest.raises(LabError, match="unknown size"):
        topology.load("two-tier", quick_mb=512)
    with pytest.raises(LabError, match="no topology"):
        topology.load("three-tier")


def test_plugged_memory_is_not_there_at_boot() -> None:
    machine = topology.load("two-tier-plugged", fast_mb=512, slow_mb=256)
    args = " ".join(machine.qemu_args())
    assert machine.memory_mb == 512
    assert "slots=1,maxmem=768M" in args
    assert "pc-dimm,memdev=mem1,node=1" in args
    assert "nodeid=1,memdev" not in args
