# SPDX-License-Identifier: GPL-2.0
"""Booting: the machines are what they say, and no failure is taken for success."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab import cache, guest, programs, tier, topology
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


def test_guest_begins_with_memory_tiering_off(
    tiershift_kernel: KernelImage, two_tier: Topology, out_dir: Path
) -> None:
    """One write switches a part on alone."""
    command = f"cd {tier.DIRECTORY}; cat enabled */enabled */state; echo 1 > zap/enabled; cat state"
    guest.run(tiershift_kernel.image, two_tier, command, out_dir=out_dir, timeout_s=120)
    parts = len(tier.PARTS)
    said = (out_dir / "output.log").read_text().split()
    assert said == ["1", *["0"] * parts, *["off"] * parts, "on"]


def test_kernel_warning_fails_the_run(
    base_kernel: KernelImage, two_tier: Topology, out_dir: Path
) -> None:
    command = "echo '<4>WARNING: CPU: 0 PID: 1 at mm/test.c:1' > /dev/kmsg; sleep 1"
    with pytest.raises(LabError, match=r"mm/test\.c"):
        guest.run(base_kernel.image, two_tier, command, out_dir=out_dir, timeout_s=120)


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
