# SPDX-License-Identifier: GPL-2.0
"""What is told about a guest without booting one."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from lab import guest, topology
from lab.errors import LabError


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
    assert "patched" in guest.lost_by_emulator(oops)
    stopped = "qemu-system-x86_64: ../../hw/pci/msix.c:218: f: Assertion `a < b' failed."
    assert "assertion" in guest.lost_by_emulator("[    1.1] pci 0000:00:08.0\n" + stopped)
    assert not guest.lost_by_emulator("[    1.0] Oops: 0000 [#1] SMP")
    booting = "[    0.0] Linux version 6.12\n[    0.0] Command line: init=/bin/virtme-ng-init\n"
    assert "user space" in guest.lost_in_boot(booting)
    for word in ("Kernel panic - not syncing", "reboot: Power down", "Run /init as init process"):
        assert not guest.lost_in_boot(f"{booting}\n[    2.0] {word}")
    assert not guest.lost_in_boot("")
    stalled = f"{booting}\n[   32.6] {guest.TIMER_STOPPED}0 timer-softirq=45"
    assert "timer" in guest.lost_in_boot(stalled)
    assert not guest.lost_in_boot(f"{stalled}\n[    2.0] Run /init as init process")
    assert not guest.lost_by_emulator("program: x.c:1: f: Assertion `a < b' failed.")
    assert guest.kernel_warnings(oops)


STALL = f"rcu: INFO: rcu_sched detected stalls\nrcu\n{guest.TIMER_STOPPED}1 timer-softirq=45"


@pytest.mark.parametrize(
    ("said", "silent_s", "waits", "lost"),
    [
        ("", 0.2, False, True),
        ("", 50.0, True, True),
        (STALL, 50.0, False, True),
        (f"WARNING: CPU: 0 PID: 1 at mm/vmscan.c:1\n{STALL}", 0.2, True, False),
        ("rcu: INFO: rcu_sched self-detected stall on CPU", 0.2, True, False),
        ("Run /init as init process", 0.2, True, False),
    ],
)
def test_a_boot_that_hangs_is_not_waited_for(
    said: str,
    silent_s: float,
    waits: bool,
    lost: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One in which the kernel complains is waited for, and is not booted again."""
    monkeypatch.setattr(guest, "SILENT_S", silent_s)
    monkeypatch.setattr(guest, "POLL_S", 0.1)
    output = tmp_path / "output.log"
    output.touch()
    argv = ["/bin/sh", "-c", f"echo 'Linux version 6.12\n{said}' >&2; sleep 60"]
    console, timed_out = guest._boot(argv, output, 1 if waits else 4, None)
    assert timed_out == waits
    assert bool(guest.lost_in_boot(console)) == lost


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
