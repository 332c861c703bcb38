# SPDX-License-Identifier: GPL-2.0
"""The kernel's selftests as pytest results, one sub-result per KTAP case."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from outcomes import judge, kunit_cases, pass_as_on_base, report

from lab import cache, guest, ktap, selftests, topology
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
    Program("kmmscand_control_test", "prctl inherit files opt_out"),
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


# What the programs migrate may be deferred, if it is mapped read-only, as after fork().
WITH_MIGRC = """
echo 1 > /sys/kernel/debug/migrc/defer_syscalls
echo 1 > /sys/kernel/mm/migrc/enabled
trap 'grep ^migrc_deferred /proc/vmstat > @OUT@/deferred' EXIT
"""


@pytest.mark.xdist_group("mm-selftests")  # they share what is kept of the base kernel
@pytest.mark.parametrize(
    ("flavour", "also"),
    [
        pytest.param("tiershift", "", id="as-built"),
        pytest.param("torture", WITH_MIGRC, id="migrc", marks=pytest.mark.long),
        pytest.param("debug", WITH_MIGRC, id="debug-migrc", marks=pytest.mark.long),
    ],
)
def test_mm_selftests_pass_as_on_base(
    flavour: str,
    also: str,
    base_kernel: KernelImage,
    request: pytest.FixtureRequest,
    out_dir: Path,
    subtests: pytest.Subtests,
) -> None:
    """Nothing that passes on the base kernel may fail or vanish on ours, nor with MIGRC on."""
    kernel: KernelImage = request.getfixturevalue(f"{flavour}_kernel")
    machine = topology.load("two-tier", fast_cpus=4, fast_mb=1024, slow_mb=1024)
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
        assert int((out_dir / "ours/deferred").read_text().split()[1]) > 0
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
    others = "echo 1 | tee /sys/kernel/mm/zap_batch/enabled /sys/kernel/mm/migrate_batch/enabled"
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


# Switches that break a rule, and a test that guards it: program and name.  Where a rule is kept
# twice, by who finds a page and by who promotes it, both have to be broken ("+").
BROKEN = (
    ("split", "promote_test", "fragmented"),
    ("watermark", "promote_test", "full"),
    ("mlocked", "promote_test", "mlocked"),
    ("spare", "demote_test", "low"),
    ("allow", "policy_test", "thread_bound"),
    ("shared", "policy_hole_test", "shared_process"),
    ("wait", "policy_test", "mbind_race"),
    ("wait", "policy_hole_test", "task_race"),
    ("young", "kmmscand_test", "young"),
    ("inherit", "kmmscand_control_test", "inherit"),
)
# The same, but too long for `make test`
BROKEN_LONG = (
    ("spare", "demote_test", "min"),
    *(
        ("allow", "policy_test", test)
        for test in (
            *("vma_bound", "vma_preferred", "interleaved", "task_bound", "many_threads"),
            *("inherited", "vma_inherited", "shm_index", "shm_huge", "shm_unmapped"),
            *("one_of_two", "file_mapping", "cpuset", "thp", "vma_split"),
        )
    ),
    *(
        ("allow", "policy_hole_test", test)
        for test in ("last_mapping", "cpuset_thread", "cache_cpuset", "home_node")
    ),
    ("shared", "policy_hole_test", "shared_policy"),
    ("keep", "kmmscand_reclaim_test", "keep"),
    ("wait", "policy_hole_test", "shm_pair_race"),
    ("wait", "policy_hole_test", "home_race"),
    ("wait", "policy_hole_test", "fork_race"),
    ("wait", "policy_test", "shm_race"),
    ("wait", "policy_test", "cpuset_race"),
    ("young", "kmmscand_test", "idle"),
    ("cpu", "kmmscand_test", "cpu"),
    ("cpu", "kmmscand_rule_test", "promoter_cpu"),
    ("one_look", "kmmscand_rule_test", "stream"),
    ("huge", "kmmscand_rule_test", "huge"),
    ("skip", "kmmscand_rule_test", "again"),
    ("rate", "kmmscand_rule_test", "rate"),
    ("rate", "kmmscand_rule_test", "shared_rate"),
    ("policy", "kmmscand_rule_test", "bound"),
    ("policy", "kmmscand_rule_test", "shm_bound"),
    ("policy", "kmmscand_rule_test", "task_bound"),
    ("policy", "kmmscand_rule_test", "cpuset"),
    ("policy", "kmmscand_rule_test", "read_once"),
    ("policy", "kmmscand_cache_test", "noreuse"),
    ("policy", "kmmscand_cache_test", "reader_bound"),
    ("policy", "kmmscand_cache_test", "reader_cpuset"),
    ("policy", "kmmscand_cache_test", "tmpfs_bound"),
    ("opt_out", "kmmscand_cache_test", "opted_out"),
    ("cache_off", "kmmscand_cache_test", "off"),
    ("cache_once", "kmmscand_cache_test", "stream"),
    ("cache_part", "kmmscand_cache_test", "parts"),
    ("cache_mapped", "kmmscand_cache_test", "mapped"),
    ("opt_out", "kmmscand_control_test", "opt_out"),
    ("opt_out", "kmmscand_control_test", "scale"),
    ("memcg", "kmmscand_control_test", "charges"),
    ("max", "kmmscand_control_test", "off"),
    ("max", "kmmscand_control_test", "off_shared"),
    ("max", "kmmscand_control_test", "offline"),
    ("max", "kmmscand_control_test", "max"),
    ("max", "kmmscand_control_test", "max_above"),
)
# The same, on a machine with two sockets
BROKEN_TARGET = (
    ("vote", "kmmscand_target_test", "vote"),
    ("target", "kmmscand_target_test", "vote"),
    ("vote", "kmmscand_target_test", "moved"),
    ("target", "kmmscand_target_test", "moved"),
    ("policy", "kmmscand_target_test", "policy"),
    ("policy", "kmmscand_target_test", "task_policy"),
    ("policy", "kmmscand_target_test", "cpuset"),
    ("policy+allow", "kmmscand_target_test", "full"),
    ("fallback", "kmmscand_target_test", "full"),
    ("target", "kmmscand_target_test", "read"),
)
# The same, on a kernel that is fast enough for it
BROKEN_VICTIM = (("idle+again", "kmmscand_victim_test", "uniform"),)
SWITCHES = "/sys/kernel/debug/tier"
# Cases that stand for what a program has not said, see lab/ktap.py
NOT_A_CASE = ("plan", "exit code")


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


def _break(switches: str) -> str:
    """What breaks these rules, and no other.  A race that is lost ends at once."""
    files = " ".join(f"{SWITCHES}/fault_{switch}" for switch in switches.split("+"))
    return f"export POLICY_SECONDS=30; echo N | tee {SWITCHES}/fault_* && echo Y | tee {files}"


def _assert_noticed(
    broken: tuple[tuple[str, str, str], ...],
    kernel: KernelImage,
    out_dir: Path,
    machine: Topology | None = None,
) -> None:
    wanted = tuple(
        Program(
            program,
            test,
            timeout_s=200,
            before=_break(switch),
            label=f"{switch}-{test}",
        )
        for switch, program, test in broken
    )
    cases = selftests.run_programs(
        kernel,
        selftests.programs(kernel, *selftests.TIER),
        wanted,
        machine or topology.load("two-tier", fast_mb=768, slow_mb=512),
        out_dir,
        prepare=f"ls {SWITCHES} > {out_dir}/switches",
    )
    outcomes = {key: [case.outcome for case in found] for key, found in cases.items()}
    assert outcomes == {program.key: ["fail"] for program in wanted}, cases
    # It has said so itself: to be killed, to crash or to be late notices nothing.
    dead = {
        key
        for key, (case,) in cases.items()
        if case.name in NOT_A_CASE or "terminated" in case.reason
    }
    assert not dead, cases
    # None is without a test.
    found = set(re.findall(r"^fault_(\w+)$", (out_dir / "switches").read_text(), re.MULTILINE))
    pairs = BROKEN + BROKEN_LONG + BROKEN_TARGET + BROKEN_VICTIM
    tested = {switch for switches, *_ in pairs for switch in switches.split("+")}
    assert found == tested


def test_broken_on_purpose_is_noticed(debug_kernel: KernelImage, out_dir: Path) -> None:
    """With a rule switched off, the selftest that guards it must fail."""
    _assert_noticed(BROKEN, debug_kernel, out_dir)


@pytest.mark.long
def test_more_broken_on_purpose_is_noticed(debug_kernel: KernelImage, out_dir: Path) -> None:
    """Too long for `make test`: `make soak` runs it."""
    _assert_noticed(BROKEN_LONG, debug_kernel, out_dir)


@pytest.mark.long
def test_victim_selftests(
    torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """Twice as much is hot as fits.  Does it go to and fro, and is that noticed?"""
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
    _assert_noticed(BROKEN_VICTIM, torture_kernel, out_dir, machine)


@pytest.mark.long
def test_wrong_targets_are_noticed(debug_kernel: KernelImage, out_dir: Path) -> None:
    """Too long for `make test`, too."""
    _assert_noticed(BROKEN_TARGET, debug_kernel, out_dir, _two_sockets())


@pytest.mark.parametrize("name", ["one-tier", "two-tier-nohmat"])
def test_one_tier_machine_gets_a_clear_error(
    name: str, tiershift_kernel: KernelImage, out_dir: Path
) -> None:
    """Enabling without a slow tier: ENODEV, a message that says what to do, still off."""
    result = guest.run(
        tiershift_kernel.image,
        topology.load(name),
        "cd /sys/kernel/mm/kmmscand && ! echo 1 > enabled && [ $(cat enabled) = 0 ]",
        out_dir=out_dir,
        timeout_s=120,
    )
    assert result.exit_code == 0, (out_dir / "output.log").read_text()
    assert "kmmscand" in result.console and "tier" in result.console
