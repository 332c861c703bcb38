# SPDX-License-Identifier: GPL-2.0
"""Batched unmapping: its selftest, that fails if something is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from outcomes import report

from lab import faults, selftests
from lab.build import KernelImage
from lab.ktap import Case
from lab.selftests import Program

MACHINE = faults.machines()["swap"]
TEST = Program(
    "zap_test",
    "-t bad_input -t freed_pages_are_counted -t all_kinds -t in_turn -t offline -t oom_reaper "
    "-t cpu_hotplug",
    timeout_s=400,
)
# What the debug kernel gets through in a minute
QUICK = Program("zap_test", "-t bad_input -t in_turn -t no_memory", timeout_s=200)
# Only the debug kernel has groups v1; in a boot of its own, since v2 may not use the controller.
V1 = Program("zap_test", "-t pages_that_leave_are_counted", timeout_s=400, label="v1")
ALL = Program("zap_test", f"{TEST.args} -t no_memory", timeout_s=900)
# Code that is patched while it runs is where emulated CPUs race.
SWITCHING = Program("zap_test", "-t switching", timeout_s=200)


def _run(kernel: KernelImage, wanted: tuple[Program, ...], out_dir: Path) -> dict[str, list[Case]]:
    built = selftests.programs(kernel, "zap_batch")
    return selftests.run_programs(
        kernel, built, wanted, MACHINE.topology, out_dir, prepare=MACHINE.prepare
    )


def test_zap_selftest(
    torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    report(subtests, _run(torture_kernel, (TEST,), out_dir), may_skip=())


def test_some_on_the_debug_kernel(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    report(subtests, _run(debug_kernel, (QUICK,), out_dir), may_skip=())


def test_groups_v1_count_what_leaves(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    report(subtests, _run(debug_kernel, (V1,), out_dir), may_skip=())


@pytest.mark.long
def test_all_on_the_debug_kernel(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    report(subtests, _run(debug_kernel, (ALL,), out_dir), may_skip=())


@pytest.mark.long
def test_switching(torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests) -> None:
    """The switch is turned while memory is unmapped."""
    report(subtests, _run(torture_kernel, (SWITCHING,), out_dir), may_skip=())
