# SPDX-License-Identifier: GPL-2.0
"""Aging of guest memory: its selftest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from outcomes import kunit_cases, report

from lab import faults, selftests, tier
from lab.build import KernelImage
from lab.errors import LabError
from lab.ktap import Case
from lab.selftests import Program

MACHINE = faults.machines()["guests"]
TEST = Program("aging_test", timeout_s=300)
PERF = Program("aging_perf_test", timeout_s=100)


def _with(age: int, args: str = "", *, delay_us: int = 0, program: Program = TEST) -> Program:
    """The selftest while no other part than `age` works; a delay needs a debug kernel."""
    lines = [tier.alone(*(["age"] if age else []))]
    if delay_us:
        lines.append(f"echo {delay_us} > {tier.DEBUG}/age/delay_us")
    label = f"{program.name} age={age} delay={delay_us} {args}"
    return replace(
        program, args=args, before="\n".join(lines), label=label.replace(" ", "_").strip("_")
    )


WHOLE = (
    _with(0, "-t histogram -t reclaim -t nested_npt"),
    _with(1, "-s 1"),
    _with(1, "-v 2 -b 8M -p", program=PERF),
    # Time for others between the look at an SPTE and the update
    _with(1, "-s 1 -t discard -t dirty_log -t memslot -t stress", delay_us=20),
)
# As the kernel's command line switches it on; other parts would move the guest's memory.
AT_BOOT = replace(
    TEST,
    args="-t histogram -t nested",
    label="at_boot",
    before=f"""[ $(cat {tier.file("age", "state")}) = on ] || exit 5
for part in scan promote demote; do echo 0 > {tier.DIRECTORY}/$part/enabled; done""",
)
# KUnit cases that a plain store, and aging of pages outside of the question, must make fail
BROKEN_KUNIT = ("age_store", "age_pages"), {"clears_accessed_only", "answers_for_pages"}
# KASAN must notice that page tables are freed while an ager reads them.
UNLOCKED = _with(1, "-s 60 -t memslot", delay_us=200)
UNLOCKED = replace(UNLOCKED, before=f"{UNLOCKED.before}\n{faults.only('age_lists')}")


def _run(
    kernel: KernelImage,
    wanted: tuple[Program, ...],
    out_dir: Path,
    append: str = "",
    *,
    single_thread_tcg: bool = False,
) -> dict[str, list[Case]]:
    return selftests.run_programs(
        kernel,
        faults.built(kernel, "kvm"),
        wanted,
        MACHINE.topology,
        out_dir,
        prepare=MACHINE.prepare,
        append=append,
        single_thread_tcg=single_thread_tcg,
    )


def test_selftest(torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests) -> None:
    """In each mode, in one boot."""
    report(subtests, _run(torture_kernel, WHOLE, out_dir), may_skip=())


def test_kunit_notices_broken_rules(debug_kernel: KernelImage, out_dir: Path) -> None:
    names, expected = BROKEN_KUNIT
    cases = kunit_cases(debug_kernel, out_dir, append=f"tier_faults={','.join(names)}")
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
    append = f"{parameter} tier=on"
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
    """The switch is turned, and nothing else.

    The emulator's threads race over code that is patched: one for all CPUs.
    """
    turn = "; ".join(
        f"sleep 0.{pause}; echo {value} > {tier.enabled('age')}"
        for value, pause in ((0, 3), (1, 4))
    )
    args = "-s 30 -t discard -t memslot -t stress -t nested_discard -t nested_memslot"
    program = _with(1, args)
    program = replace(
        program, timeout_s=400, before=f"{program.before}\n( while true; do {turn}; done ) &"
    )
    found = _run(torture_kernel, (program,), out_dir, parameter, single_thread_tcg=True)
    report(subtests, found, may_skip=())
