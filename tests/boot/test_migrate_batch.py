# SPDX-License-Identifier: GPL-2.0
"""Batched migration: its selftests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from outcomes import report

from lab import faults, selftests
from lab.build import KernelImage
from lab.ktap import Case
from lab.selftests import Program

MACHINE = faults.machines()["swap"]
TEST = Program("migrate_test", timeout_s=300)
KVM = Program("migrate_batch_test", timeout_s=200)
RECLAIM = Program("reclaim_test", timeout_s=120)
TROUBLE = Program("trouble_test", "-T poisoned", timeout_s=300)
# A frame that is poisoned while it moves stays so and is used again; when it moves next, the
# program that has it is killed.  Nothing may run after this.
POISONED = Program("trouble_test", "-t poisoned", timeout_s=300, label="poisoned")
# What the debug kernel gets through in a minute
QUICK = replace(
    TEST,
    args="-r memory.large.forked -r memory.large.written -r global.shared "
    "-r memory.huge_by_ptes.exclusive -r memory.small.swap_cache "
    "-r memory.large.pinned_by_half -r memory.large.remapped_by_a_page",
)
QUICK_RECLAIM = replace(RECLAIM, args="-r swapout.on.written -r request.bound", timeout_s=240)
QUICK_KVM = replace(KVM, args="-t anonymous -t stress_anonymous")


def _run(kernel: KernelImage, wanted: tuple[Program, ...], out_dir: Path) -> dict[str, list[Case]]:
    """Programs of tools/testing/selftests/migrate_batch and, of kvm, the one that is ours."""
    built = selftests.programs(kernel, "migrate_batch")
    kvm = faults.built(kernel, "kvm")
    found = tuple(
        replace(one, name=f"../{kvm.name}/{KVM.name}", label=one.label or KVM.name)
        if one.name == KVM.name
        else one
        for one in wanted
    )
    return selftests.run_programs(
        kernel, built, found, MACHINE.topology, out_dir, prepare=MACHINE.prepare
    )


def test_selftests(torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests) -> None:
    """In one boot, and one for what is poisoned."""
    report(subtests, _run(torture_kernel, (TEST, KVM, RECLAIM, TROUBLE), out_dir), may_skip=())
    report(subtests, _run(torture_kernel, (POISONED,), out_dir / "poisoned"), may_skip=())


def test_some_on_the_debug_kernel(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    report(subtests, _run(debug_kernel, (QUICK, QUICK_KVM, QUICK_RECLAIM), out_dir), may_skip=())


@pytest.mark.long
def test_all_on_the_debug_kernel(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    slow = (
        replace(TEST, timeout_s=1200),
        replace(TROUBLE, timeout_s=1200),
        replace(KVM, timeout_s=600),
        replace(RECLAIM, timeout_s=600),
        replace(POISONED, timeout_s=1200),
    )
    report(subtests, _run(debug_kernel, slow, out_dir), may_skip=())
