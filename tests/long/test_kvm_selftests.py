# SPDX-License-Identifier: GPL-2.0
"""The unmodified kernel's KVM selftests: nothing that passes on it fails on ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from outcomes import Cases, pass_as_on_base

from lab import manifest, selftests, topology
from lab.build import KernelImage
from lab.selftests import Program

TIMEOUT_S = 240
# By default they take too long here.
ARGS = {
    "access_tracking_perf_test": "-b 128M",
    "dirty_log_perf_test": "-i 2 -b 64M",
    "dirty_log_test": "-i 3",
}
# Programs in one guest: some turn static keys, and QEMU may lose a guest that patches its code.
AT_ONCE = 12
# What has to do with aging, and runs under emulation: they must have passed.
AMONG = ("access_tracking_perf_test", "memslot_modification_stress_test", "set_memory_region_test")


def _programs(directory: Path) -> tuple[Program, ...]:
    found = (
        path.relative_to(directory)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.suffix and os.access(path, os.X_OK)
    )
    return tuple(
        Program(
            str(path),
            ARGS.get(path.name, ""),
            timeout_s=TIMEOUT_S,
            label=str(path).replace("/", "-"),
        )
        for path in found
    )


def _pieces(programs: tuple[Program, ...], size: int) -> list[tuple[Program, ...]]:
    """Pieces of some programs."""
    return [programs[i : i + size] for i in range(0, len(programs), size)]


# By the TDP MMU, and with shadow page tables for all guests
@pytest.mark.parametrize("append", ["", "kvm.tdp_mmu=0"])
def test_kvm_selftests_pass_as_on_base(
    append: str,
    base_kernel: KernelImage,
    tiershift_kernel: KernelImage,
    out_dir: Path,
    subtests: pytest.Subtests,
) -> None:
    machine = topology.load("two-tier", fast_cpus=4, fast_mb=3072, slow_mb=1024)
    built = selftests.programs(base_kernel, "kvm")
    wanted = _programs(built)
    on = "\n".join(f"echo {one.on} > {one.file}" for one in manifest.switches("age-seam"))
    prepare = "echo y > /sys/kernel/mm/lru_gen/enabled"
    on_base: Cases = {}
    for part in _pieces(wanted, AT_ONCE):
        on_base |= selftests.cached_base(
            base_kernel, built, machine, out_dir / "base", part, prepare, append
        )

    def run(some: tuple[Program, ...], where: Path) -> Cases:
        found: Cases = {}
        for part in _pieces(some, AT_ONCE):
            found |= selftests.run_programs(
                tiershift_kernel,
                built,
                part,
                machine,
                where,
                prepare=f"{prepare}\n{on}",
                append=append,
            )
        return found

    passed = pass_as_on_base(subtests, wanted, on_base, run, out_dir)
    for name in AMONG:
        assert any(case.outcome == "pass" for case in on_base[name]), on_base[name]
    # 63 with the TDP MMU
    assert passed > 50
