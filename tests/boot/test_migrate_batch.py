# SPDX-License-Identifier: GPL-2.0
"""Batched migration: its selftests, which fail if one of its rules is broken."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from outcomes import report

from lab import selftests, topology
from lab.build import KernelImage
from lab.ktap import Case
from lab.selftests import Program

SWAP = """echo 128M > /sys/block/zram0/disksize
mkswap /dev/zram0 > /dev/null
swapon /dev/zram0"""
FAULTS = "/sys/kernel/debug/migrate_batch"
RECLAIM_FAULTS = "/sys/kernel/debug/reclaim_batch"
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
# The switch that breaks a rule, what must fail then, and what that says
BROKEN = {
    f"{FAULTS}/fault_dirty": (
        replace(TEST, args="-r memory.large.soft_dirty"),
        r"== lost \(2048\)",
    ),
    f"{FAULTS}/fault_hull": (
        replace(KVM, args="-t anonymous"),
        r"moved=(8[01]\d\d) requests=0 forgotten=-\1\b",
    ),
    f"{FAULTS}/fault_flush": (replace(TEST, args="-r memory.large.written"), r"== writer\.lost \("),
    f"{RECLAIM_FAULTS}/fault_early": (
        replace(RECLAIM, args="-r swapout.on.written"),
        r"== lost \(\d+\)",
    ),
    f"{RECLAIM_FAULTS}/fault_trouble": (
        replace(RECLAIM, args="-r swapout.on.pressed"),
        "reclaim in trouble has put off folios",
    ),
    f"{RECLAIM_FAULTS}/fault_long": (replace(RECLAIM, args="-r request.bound"), r">= most \(512\)"),
}


def _run(kernel: KernelImage, wanted: tuple[Program, ...], out_dir: Path) -> dict[str, list[Case]]:
    """Programs of tools/testing/selftests/migrate_batch and, of kvm, the one that is ours."""
    machine = topology.load("two-tier", fast_mb=768, slow_mb=512)
    built = selftests.programs(kernel, "migrate_batch")
    kvm = selftests.programs(kernel, "kvm", names=[KVM.name])
    found = tuple(
        replace(one, name=f"../{kvm.name}/{KVM.name}", label=one.label or KVM.name)
        if one.name == KVM.name
        else one
        for one in wanted
    )
    return selftests.run_programs(kernel, built, found, machine, out_dir, prepare=SWAP)


def _label(switch: str) -> str:
    return Path(switch).name


def _broken(switch: str) -> Program:
    before = "; ".join(
        (
            f"echo 0 | tee {FAULTS}/fault_* {RECLAIM_FAULTS}/fault_*",
            f"echo 1 > {switch}",
        )
    )
    return replace(BROKEN[switch][0], before=before, label=_label(switch))


@pytest.fixture(scope="module")
def whole_and_broken(
    torture_kernel: KernelImage, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Case]]:
    """The selftests, then with each rule broken: in one boot, and one for what is poisoned."""
    wanted = (
        TEST,
        KVM,
        RECLAIM,
        TROUBLE,
        *(_broken(switch) for switch in BROKEN),
    )
    directory = tmp_path_factory.mktemp("migrate")
    found = _run(torture_kernel, wanted, directory / "out")
    return found | _run(torture_kernel, (POISONED,), directory / "poisoned")


@pytest.mark.xdist_group("migrate-batch")
def test_selftests(whole_and_broken: dict[str, list[Case]], subtests: pytest.Subtests) -> None:
    broken = {_label(switch) for switch in BROKEN}
    found = {key: cases for key, cases in whole_and_broken.items() if key not in broken}
    assert found
    report(subtests, found, may_skip=())


@pytest.mark.xdist_group("migrate-batch")
def test_broken_rules_are_noticed(whole_and_broken: dict[str, list[Case]]) -> None:
    for switch, (_, words) in BROKEN.items():
        found = whole_and_broken[_label(switch)]
        assert [case.outcome for case in found] == ["fail"], (switch, found)
        assert re.search(words, found[0].reason), found[0].reason


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
