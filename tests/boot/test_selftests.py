# SPDX-License-Identifier: GPL-2.0
"""The kernel's selftests as pytest results, one sub-result per KTAP case."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from outcomes import judge, kunit_cases, pass_as_on_base, report

from lab import cache, guest, ktap, selftests, tier, topology
from lab.build import KernelImage
from lab.ktap import Case
from lab.selftests import Program
from lab.topology import Topology

TIER = (
    # What is not listed takes too long: EDGE
    Program(
        "promote_test", "bad_input nothing_there small mlocked huge full fragmented", timeout_s=180
    ),
    Program("demote_test", timeout_s=180),
    Program(
        "policy_test",
        "vma_bound vma_preferred interleaved task_bound thread_bound many_threads inherited "
        "vma_inherited shm_index shm_huge shm_unmapped one_of_two file_mapping cpuset thp "
        "vma_split mbind_race move_pages_busy",
        timeout_s=300,
    ),
    Program(
        "policy_hole_test",
        "swap_readback last_mapping cpuset_thread shared_process shared_policy cache_cpuset veto "
        "cheap_refusal home_node bystander mbind_strict task_race shm_pair_race home_race "
        "fork_window fork_race demoted",
        timeout_s=240,
    ),
    Program("policy_user_test", timeout_s=300),
    Program("kmmscand_test", timeout_s=480),
    Program("kmmscand_cache_test", "bad_input read off", timeout_s=150),
    Program("kmmscand_control_test", "prctl inherit files opt_out spans"),
    Program("kmmscand_rule_test", "every_cpu"),
)
# The same on the debug kernel, which is slower, beside other guests by far.  kmmscand_test takes it
# minutes: all of it is in `make soak`.
SLOW = "kmmscand_test"
SLOWER = 3
TIER_ON_DEBUG = tuple(
    replace(
        program,
        args="bad_input off huge young toggle" if program.name == SLOW else program.args,
        timeout_s=SLOWER * program.timeout_s,
    )
    for program in TIER
)
EDGE = (
    Program(SLOW, timeout_s=1000),
    # A change of cpuset.mems seldom comes just in time: longer.
    Program(
        "policy_test",
        "mbind_race shm_race cpuset_race",
        timeout_s=240,
        before="export POLICY_SECONDS=30",
    ),
    Program("policy_hole_test", "bystander_times", timeout_s=240),
    Program("kmmscand_edge_test", timeout_s=1000),
    Program("kmmscand_rule_test", timeout_s=450),
    Program("kmmscand_reclaim_test", timeout_s=500),
    Program("kmmscand_cache_test", timeout_s=400),
    Program("kmmscand_control_test", timeout_s=400),
)
# Votes are waited for, which takes long on a slow machine.
TARGET = (
    Program("kmmscand_target_test", timeout_s=1000),
    Program("policy_hole_test", "demoted_to_other"),
)
VICTIM = (Program("kmmscand_victim_test", timeout_s=200),)
TOGGLE_SECONDS = 180
TOGGLE = tuple(
    Program(
        program,
        test,
        # To begin and end takes its time, too, and so does switching off under load.
        timeout_s=TOGGLE_SECONDS + 120,
        before=f"export KMMSCAND_SECONDS={TOGGLE_SECONDS}",
    )
    for program, test in (("kmmscand_test", "toggle"), ("kmmscand_edge_test", "settings"))
)
HOTPLUG = (
    # Before the slow node has had any memory
    Program("kmmscand_test", label="one-tier"),
    Program("kmmscand_hotplug_test", timeout_s=240),
    # Last, since it takes the node away
    Program("kmmscand_hotplug_test", "unplug", timeout_s=120, label="unplug"),
)


# What may be skipped of EDGE, by what it says; everything else can be tested there.
EDGE_MAY_SKIP = {
    # offline_stuck: boot memory, so pages of the kernel may lie in each block, ...
    "no block of the slow node can be held online",
    # ... or come to lie there before the kernel has isolated the block
    "the kernel gave up early",
    # missed: test_missed_looks_tell_nothing has a kernel with faults
    "a kernel without faults",
}


def test_skipped_without_leave_is_a_failure() -> None:
    known = next(iter(EDGE_MAY_SKIP))
    log = f"1..2\nok 1 # SKIP {known}\nok 2 # SKIP no KSM (CONFIG_KSM)\n"
    allowed, other = ktap.parse(log, ktap.KSFT_SKIP)
    with pytest.raises(pytest.skip.Exception):
        judge(allowed, EDGE_MAY_SKIP)
    with pytest.raises(AssertionError, match="CONFIG_KSM"):
        judge(other, EDGE_MAY_SKIP)
    with pytest.raises(pytest.skip.Exception):
        judge(other, None)
    # A program that does nothing at all
    with pytest.raises(AssertionError, match="needs root"):
        judge(ktap.parse("1..0 # SKIP needs root\n", ktap.KSFT_SKIP)[0], EDGE_MAY_SKIP)


# What the programs migrate is asked whether its flush may wait.  Nearly all of it is writable, so
# it may not: met_write counts such PTEs.
WITH_MIGRC = f"""
echo 1 > {tier.DEBUG}/defer/defer_syscalls
echo 1 > {tier.enabled("defer")}
trap 'cat {tier.file("defer", "state")} {tier.DEBUG}/defer/met_write > @OUT@/deferring' EXIT
"""


@pytest.mark.xdist_group("mm-selftests")  # they share what is kept of the base kernel
@pytest.mark.parametrize(
    ("flavour", "also", "slow_mb"),
    [
        pytest.param("tiershift", "", 1024, id="as-built"),
        pytest.param("torture", WITH_MIGRC, 1024, id="migrc", marks=pytest.mark.long),
        # mremap_test wants 2 GiB, and KASAN takes an eighth of the memory.
        pytest.param("debug", WITH_MIGRC, 2048, id="debug-migrc", marks=pytest.mark.long),
    ],
)
def test_mm_selftests_pass_as_on_base(
    flavour: str,
    also: str,
    slow_mb: int,
    base_kernel: KernelImage,
    request: pytest.FixtureRequest,
    out_dir: Path,
    subtests: pytest.Subtests,
) -> None:
    """Nothing that passes on the base kernel may fail or vanish on ours, nor with MIGRC on."""
    kernel: KernelImage = request.getfixturevalue(f"{flavour}_kernel")
    machine = topology.load("two-tier", fast_cpus=4, fast_mb=1024, slow_mb=slow_mb)
    names = [program.name for program in selftests.MM]
    on_base = selftests.cached_base(
        base_kernel, selftests.programs(base_kernel, "mm", names=names), machine, out_dir / "base"
    )
    programs = selftests.programs(kernel, "mm", names=names)

    def run(wanted: tuple[Program, ...], where: Path) -> dict[str, list[Case]]:
        prepare = selftests.MM_PREPARE + also.replace("@OUT@", str(where))
        return selftests.run_programs(kernel, programs, wanted, machine, where, prepare=prepare)

    passed = pass_as_on_base(subtests, selftests.MM, on_base, run, out_dir)
    if also:
        state, writable = (out_dir / "ours/deferring").read_text().split()
        assert state == "on" and int(writable) > 0
    # 457; more than 500 were asked for when skipped cases counted, and 345 had passed.
    assert passed > 440, "the selftests hardly ran on the base kernel"


@pytest.mark.parametrize("flavour", ["tiershift", "debug"])
def test_tier_selftests(
    flavour: str, request: pytest.FixtureRequest, out_dir: Path, subtests: pytest.Subtests
) -> None:
    kernel: KernelImage = request.getfixturevalue(f"{flavour}_kernel")
    programs = selftests.programs(kernel, *selftests.TIER)
    machine = topology.load("two-tier", fast_mb=512, slow_mb=512)
    # The debug kernel looks at other rooms, too, and tiershift is measured without.
    others = tier.alone("zap", "batch")
    wanted, prepare = (TIER_ON_DEBUG, others) if flavour == "debug" else (TIER, "true")
    cases = selftests.run_programs(kernel, programs, wanted, machine, out_dir, prepare=prepare)
    assert any(case.outcome == "pass" for found in cases.values() for case in found)
    report(subtests, cases)


@pytest.mark.long
def test_edge_selftests(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """Too long for `make test`: `make soak` runs it."""
    programs = selftests.programs(debug_kernel, *selftests.TIER)
    machine = topology.load("two-tier", fast_mb=512, slow_mb=512)
    cases = selftests.run_programs(debug_kernel, programs, EDGE, machine, out_dir, prepare="true")
    report(subtests, cases, EDGE_MAY_SKIP)


@pytest.mark.long
def test_missed_looks_tell_nothing(
    torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """Only a kernel with faults can hold looks up."""
    programs = selftests.programs(torture_kernel, *selftests.TIER)
    machine = topology.load("two-tier", fast_mb=512, slow_mb=512)
    wanted = (Program("kmmscand_control_test", "missed"),)
    report(
        subtests,
        selftests.run_programs(torture_kernel, programs, wanted, machine, out_dir, prepare="true"),
    )


@pytest.mark.long
def test_toggled_for_minutes(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """Switched on and off under load, also while all settings change: nothing is lost."""
    programs = selftests.programs(debug_kernel, *selftests.TIER)
    machine = topology.load("two-tier", fast_mb=512, slow_mb=512)
    cases = selftests.run_programs(debug_kernel, programs, TOGGLE, machine, out_dir, prepare="true")
    assert {key: [case.outcome for case in found] for key, found in cases.items()} == {
        program.key: ["pass"] for program in TOGGLE
    }
    # Without a page that moves nothing could be lost.
    log = (out_dir / "kmmscand_test.log").read_text()
    promoted = re.search(r"on and off, (\d+) pages promoted", log)
    assert promoted and int(promoted[1]) > 0, log
    report(subtests, cases)


@pytest.mark.long
def test_hotplug_selftests(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """A slow node that comes and goes needs a machine of its own."""
    programs = selftests.programs(debug_kernel, *selftests.TIER)
    machine = topology.load("two-tier-plugged")
    cases = selftests.run_programs(
        debug_kernel, programs, HOTPLUG, machine, out_dir, prepare="true"
    )
    assert {key: len(found) for key, found in cases.items()} == {
        "one-tier": 1,
        "kmmscand_hotplug_test": 3,
        "unplug": 1,
    }
    report(subtests, cases)


def test_kunit(debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests) -> None:
    """The KUnit suites run while the debug kernel boots, and print KTAP to its log."""
    cases = kunit_cases(debug_kernel, out_dir)
    suites = {
        name
        for path in (cache.PROJECT / "linux").glob("*/files/**/*_kunit.[ch]")
        for name in re.findall(r'struct kunit_suite \w+ = {\s*\.name = "(\w+)"', path.read_text())
    }
    assert "kmmscand_ring" in suites and suites <= {case.name for case in cases}
    # A case that breaks a rule skips itself on a kernel that cannot.
    assert [case.name for case in cases if case.outcome == "skip"] == []
    report(subtests, {"kunit": cases})


def _two_sockets() -> Topology:
    return topology.load("two-sockets", fast0_mb=256, fast1_mb=256, slow0_mb=256, slow1_mb=256)


@pytest.mark.long
@pytest.mark.parametrize("flavour", ["tiershift", "debug"])
def test_target_selftests(
    flavour: str, request: pytest.FixtureRequest, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """To which of two fast nodes?  Needs a machine that has them."""
    kernel: KernelImage = request.getfixturevalue(f"{flavour}_kernel")
    programs = selftests.programs(kernel, *selftests.TIER)
    cases = selftests.run_programs(
        kernel, programs, TARGET, _two_sockets(), out_dir, prepare="true"
    )
    assert any(case.outcome == "pass" for found in cases.values() for case in found)
    report(subtests, cases)


@pytest.mark.long
def test_victim_selftests(
    torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """Twice as much is hot as fits.  Does it go to and fro?"""
    machine = topology.load("two-tier", fast_mb=512, slow_mb=512)
    cases = selftests.run_programs(
        torture_kernel,
        selftests.programs(torture_kernel, *selftests.TIER),
        VICTIM,
        machine,
        out_dir,
        prepare="true",
    )
    report(subtests, cases)


WAITS = f"""
cd {tier.DIRECTORY}
echo 1 > scan/enabled && [ $(cat scan/enabled) = 1 ] || exit 10
[ $(cat scan/state) = waiting ] && [ $(cat state) = waiting ] || exit 11
cat scan/reason | grep 'no slow memory node: see node' || exit 12
! grep . /proc/[0-9]*/comm | grep :kmmscand || exit 13
echo 0 > scan/enabled && [ $(cat scan/state) = off ] && [ -z "$(cat scan/reason)" ] || exit 14
"""


@pytest.mark.parametrize("name", ["one-tier", "two-tier-nohmat"])
def test_one_tier_machine_waits_and_says_why(
    name: str, tiershift_kernel: KernelImage, out_dir: Path
) -> None:
    """Without a slow tier the wish is kept, no thread runs, and the reason says what to do."""
    result = guest.run(
        tiershift_kernel.image, topology.load(name), WAITS, out_dir=out_dir, timeout_s=120
    )
    assert result.exit_code == 0, (out_dir / "output.log").read_text()
