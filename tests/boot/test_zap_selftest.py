# SPDX-License-Identifier: GPL-2.0
"""Batched unmapping: its selftest, that fails if something is lost."""

from __future__ import annotations

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
FAULTS = "/sys/kernel/debug/zap_batch"
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
# Each gatherer loses what it has, and that is what the test has to say.
SAYS = {
    "stat": " bytes of anon;",
    "lru": " pages in generations;",
    "charge": " bytes are charged;",
    "free": "nr_free_pages: ",
}
BROKEN = tuple(
    Program(
        "zap_test",
        "-t all_kinds",
        timeout_s=200,
        before=f"echo 0 | tee {FAULTS}/fault_*; echo 1 > {FAULTS}/fault_{what}",
        label=what,
    )
    for what in SAYS
)


def _run(kernel: KernelImage, wanted: tuple[Program, ...], out_dir: Path) -> dict[str, list[Case]]:
    machine = topology.load("two-tier", fast_mb=768, slow_mb=512)
    built = selftests.programs(kernel, "zap_batch")
    return selftests.run_programs(kernel, built, wanted, machine, out_dir, prepare=SWAP)


@pytest.fixture(scope="module")
def whole_and_broken(
    torture_kernel: KernelImage, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Case]]:
    """The selftest, then with each gatherer broken: in one boot."""
    return _run(torture_kernel, (TEST, *BROKEN), tmp_path_factory.mktemp("zap") / "out")


@pytest.mark.xdist_group("zap")
def test_zap_selftest(whole_and_broken: dict[str, list[Case]], subtests: pytest.Subtests) -> None:
    found = {key: cases for key, cases in whole_and_broken.items() if key not in SAYS}
    assert found
    report(subtests, found, may_skip=())


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


@pytest.mark.xdist_group("zap")
def test_what_is_lost_is_noticed(whole_and_broken: dict[str, list[Case]]) -> None:
    assert whole_and_broken.keys() >= SAYS.keys()
    for what, words in SAYS.items():
        found = whole_and_broken[what]
        assert [case.outcome for case in found] == ["fail"], found
        assert words in found[0].reason
