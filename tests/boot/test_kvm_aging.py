# SPDX-License-Identifier: GPL-2.0
"""Aging of guest memory: its selftest, which fails if one of its rules is broken."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from outcomes import kunit_cases, report

from lab import selftests, topology
from lab.build import KernelImage
from lab.errors import LabError
from lab.ktap import Case
from lab.selftests import Program

PREPARE = """echo 256M > /sys/block/zram0/disksize
mkswap /dev/zram0 > /dev/null
swapon /dev/zram0
echo y > /sys/kernel/mm/lru_gen/enabled"""
PARAMETERS = "/sys/module/kvm/parameters"
TEST = Program("aging_test", timeout_s=300)
PERF = Program("aging_perf_test", timeout_s=100)


def _with(
    range_aging: int,
    args: str = "",
    *,
    faults: int | None = None,
    delay_us: int = 0,
    program: Program = TEST,
) -> Program:
    """The selftest after the parameters were set; those of debug kernels, if a rule is broken."""
    values = {"range_aging": range_aging}
    if faults is not None:
        values |= {"aging_faults": faults, "aging_delay_us": delay_us}
    before = "; ".join(f"echo {value} > {PARAMETERS}/{name}" for name, value in values.items())
    label = f"{program.name} range={range_aging} faults={faults or 0} {args}"
    return replace(program, args=args, before=before, label=label.replace(" ", "_").strip("_"))


WHOLE = (
    _with(0, "-t histogram -t reclaim -t nested_npt"),
    _with(1, "-s 1"),
    _with(1, "-v 2 -b 8M -p", program=PERF),
    # Time for others between the look at an SPTE and the update
    _with(1, "-s 1 -t discard -t dirty_log -t memslot -t stress", faults=0, delay_us=20),
)
# With the parameters that the kernel's command line has
AT_BOOT = replace(
    TEST,
    args="-t histogram -t nested",
    label="at_boot",
    before=f"grep -q Y {PARAMETERS}/range_aging || exit 5",
)
# What must fail, by enum kvm_age_faults in arch/x86/kvm/mmu/age.h, and a number that it prints:
# half of 8192 pages are on node 1; all are accessed; none belongs to another process.
BROKEN = {
    2: (_with(1, "-t other_node", faults=2), r"on node 1 (\d+)", range(3000)),
    4: (_with(1, "-t nested", faults=4), r"accessed 8192, found (\d+)", range(8000)),
    8: (_with(1, "-t nested_npt", faults=8), r"accessed 8192, found (\d+)", range(8000)),
    # Last: the guest may write to a page that belongs to another process by then.
    1: (
        _with(1, "-s 60 -t discard", faults=1, delay_us=200),
        r"(\d+) pages were not the guest's",
        range(1, sys.maxsize),
    ),
}
# KUnit cases that a plain store, and aging of pages outside of the question, must make fail
BROKEN_KUNIT = 3, {"clears_accessed_only", "answers_for_pages"}
# KASAN must notice that page tables are freed while an ager reads them.
UNLOCKED = _with(1, "-s 60 -t memslot", faults=16, delay_us=200)


def _run(
    kernel: KernelImage,
    wanted: tuple[Program, ...],
    out_dir: Path,
    append: str = "",
    *,
    single_thread_tcg: bool = False,
) -> dict[str, list[Case]]:
    machine = topology.load("two-tier", fast_mb=768, slow_mb=512)
    built = selftests.programs(kernel, "kvm", names=[TEST.name, PERF.name])
    return selftests.run_programs(
        kernel,
        built,
        wanted,
        machine,
        out_dir,
        prepare=PREPARE,
        append=append,
        single_thread_tcg=single_thread_tcg,
    )


@pytest.fixture(scope="module")
def whole_and_broken(
    torture_kernel: KernelImage, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Case]]:
    """The selftest in each mode, then with each rule broken: in one boot."""
    wanted = (*WHOLE, *(program for program, *_ in BROKEN.values()))
    return _run(torture_kernel, wanted, tmp_path_factory.mktemp("aging") / "out")


@pytest.mark.xdist_group("kvm-aging")
def test_selftest(whole_and_broken: dict[str, list[Case]], subtests: pytest.Subtests) -> None:
    found = {program.key: whole_and_broken[program.key] for program in WHOLE}
    report(subtests, found, may_skip=())


@pytest.mark.xdist_group("kvm-aging")
def test_broken_rules_are_noticed(whole_and_broken: dict[str, list[Case]]) -> None:
    for program, words, wrong in BROKEN.values():
        found = whole_and_broken[program.key]
        assert [case.outcome for case in found] == ["fail"], (program.key, found)
        assert any(int(n) in wrong for n in re.findall(words, found[0].reason)), found[0].reason


def test_kunit_notices_broken_rules(debug_kernel: KernelImage, out_dir: Path) -> None:
    faults, expected = BROKEN_KUNIT
    cases = kunit_cases(debug_kernel, out_dir, append=f"kvm.aging_faults={faults}")
    failed = {case.name.split()[-1].split(".")[-1] for case in cases if case.outcome == "fail"}
    assert expected <= failed and len(failed) < len(cases) / 2, failed


# Shadow page tables for all guests, by the shadow MMU and without nested page tables
@pytest.mark.parametrize(
    "parameter", ["kvm.tdp_mmu=0", pytest.param("kvm_amd.npt=0", marks=pytest.mark.long)]
)
def test_with_shadow_page_tables(
    parameter: str, torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    names = "histogram", "split", "huge", "nested", "reclaim", "page_idle", "discard", "stress"
    args = "-s 1 " + " ".join(f"-t {name}" for name in names)
    wanted = (AT_BOOT, _with(0, "-t histogram"), _with(1, args))
    append = f"{parameter} kvm.range_aging=1"
    report(subtests, _run(torture_kernel, wanted, out_dir, append), may_skip=())


def test_some_on_the_debug_kernel(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    names = ("nested_npt", "discard", "memslot", "stress")
    program = _with(1, "-s 1 " + " ".join(f"-t {name}" for name in names))
    program = replace(program, label="some", timeout_s=600)
    report(subtests, _run(debug_kernel, (program,), out_dir), may_skip=())


@pytest.mark.long
def test_all_on_the_debug_kernel(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    program = replace(_with(1, "-s 1"), label="all", timeout_s=1200)
    report(subtests, _run(debug_kernel, (program,), out_dir), may_skip=())


@pytest.mark.long
def test_rmaps_need_their_lock(debug_kernel: KernelImage, out_dir: Path) -> None:
    with pytest.raises(LabError, match=r"KASAN: (?s:.*)rmap_age"):
        _run(debug_kernel, (UNLOCKED,), out_dir, "kvm.tdp_mmu=0")


@pytest.mark.long
@pytest.mark.parametrize("parameter", ["", "kvm.tdp_mmu=0", "kvm_amd.npt=0"])
def test_long_on_the_debug_kernel(
    parameter: str, debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    args = "-s 60 -t discard -t dirty_log -t memslot -t stress"
    if parameter != "kvm_amd.npt=0":
        args += " -t nested_discard -t nested_memslot"
    wanted = (replace(_with(1, args), timeout_s=900),)
    report(subtests, _run(debug_kernel, wanted, out_dir, parameter), may_skip=())


@pytest.mark.long
@pytest.mark.parametrize("parameter", ["", "kvm.tdp_mmu=0"])
def test_switched_while_memory_is_aged(
    parameter: str, torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """The parameter changes, and nothing else does.

    The emulator's threads race over code that is patched: one for all CPUs.
    """
    turn = "; ".join(
        f"sleep 0.{pause}; echo {value} > {PARAMETERS}/range_aging"
        for value, pause in ((0, 3), (1, 4))
    )
    args = "-s 30 -t discard -t memslot -t stress -t nested_discard -t nested_memslot"
    program = _with(1, args)
    program = replace(
        program, timeout_s=400, before=f"{program.before}; ( while true; do {turn}; done ) &"
    )
    found = _run(torture_kernel, (program,), out_dir, parameter, single_thread_tcg=True)
    report(subtests, found, may_skip=())
