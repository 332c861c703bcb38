# SPDX-License-Identifier: GPL-2.0
"""MIGRC under torture: the selftests pass, and fail as soon as a safety step is left out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from outcomes import report

from lab import agent, cache, guest, manifest, migrcfaults, selftests
from lab.build import KernelImage
from lab.ktap import Case
from lab.migrcfaults import APPEND, CATCHES, SWITCHES, Catch
from lab.selftests import Program
from lab.topology import Topology

PROGRAMS = (
    "interface_test",
    "reuse_test",
    "gup_test",
    "swap_test",
    "unmap_test",
    "race_test",
    "write_test",
    "life_test",
    "isolate_test",
    "limit_test",
    "chain_test",
    "merge_test",
    "demote_test",
    "storm_test",
    "scan_test",
    "restore_test",
    "refuse_test",
    "contig_test",
)
# Those that a break needs a second or two to be found in; the others are for `make soak`
QUICK = {
    "wp-reuse.uffd.write",
    "gup-gup.mem",
    "unmap-unmap.in_flight.munmap",
    "write-writable.plain.write",
    "along-life.along",
    "release-life.keep",
    "late-reuse.uffd.write",
    "mixed-life.mixed",
    "reason-reason.syscall",
    "off-switching.off",
    "cap-limit.cap",
    "at_once-scan.window",
    "postpone-scan.postponed",
    "forget-restore.written",
    "numa-hint.write",
    "touch-touched.move",
    "others-others.move",
    "direct-direct.demote",
    "large-large.write",
    "collision-collision.write",
    "off-switched.off",
    "isolate-switched.again",
}
SET_BY_CATCHES = {switch for catch in CATCHES for switch in catch.switches}
# Of PROGRAMS, what the debug kernel gets through in a minute
QUICK_ON_DEBUG = ("interface_test", "gup_test", "race_test")
# Everything else has to run.
MAY_SKIP = {
    "torture": {
        "there is no page to be poisoned",
        # Only the debug kernel can freeze tasks for a test.
        "no pm_test (CONFIG_SUSPEND, CONFIG_PM_DEBUG)",
        # And it alone has tracefs.
        "no /sys/kernel/tracing/ (CONFIG_FTRACE)",
    },
    "debug": {"there is no page to be poisoned"},
}
# The base kernel's page_table_check, which the debug kernel enforces, walks off the end of a
# memory section when a page of 1 GiB is allocated, MIGRC or not: BUG in __page_table_check_zero().
NOT_ON: dict[str, set[str]] = {"torture": set(), "debug": {"contig_test"}}


def _guests(
    kernel: KernelImage, wanted: tuple[Program, ...], out_dir: Path, prepare: str
) -> dict[str, list[Case]]:
    """A guest for all that want the same machine and command line."""
    cases: dict[str, list[Case]] = {}
    kinds: dict[tuple[Topology, str], list[Program]] = {}
    for one in wanted:
        kind = migrcfaults.machine(one.name), migrcfaults.append(one.name)
        kinds.setdefault(kind, []).append(one)
    for number, ((machine, append), programs) in enumerate(kinds.items()):
        cases |= selftests.run_programs(
            kernel,
            selftests.programs(kernel, "migrc"),
            tuple(programs),
            machine,
            out_dir / f"guest-{number}",
            prepare=prepare,
            append=append,
        )
    return cases


def _run(
    kernel: KernelImage, out_dir: Path, seconds: int, names: tuple[str, ...] = PROGRAMS
) -> dict[str, list[Case]]:
    wanted = tuple(
        Program(name, timeout_s=300 + 60 * seconds, before=f"export MIGRC_SECONDS={seconds}")
        for name in names
        if name not in NOT_ON[kernel.flavour]
    )
    return _guests(kernel, wanted, out_dir, migrcfaults.only(None))


def test_migrc_selftests(
    torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    cases = _run(torture_kernel, out_dir, 1)
    assert sum(case.outcome == "pass" for found in cases.values() for case in found) > 50
    report(subtests, cases, MAY_SKIP["torture"])


def test_some_migrc_selftests_on_the_debug_kernel(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """All of them, for longer: below."""
    report(subtests, _run(debug_kernel, out_dir, 1, QUICK_ON_DEBUG), MAY_SKIP["debug"])


@pytest.mark.long
@pytest.mark.parametrize("flavour", ["torture", "debug"])
def test_migrc_selftests_for_long(
    flavour: str, request: pytest.FixtureRequest, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """Ten seconds each, on the debug kernel as well."""
    kernel: KernelImage = request.getfixturevalue(f"{flavour}_kernel")
    report(subtests, _run(kernel, out_dir, 10), MAY_SKIP[flavour])


def _assert_noticed(kernel: KernelImage, catches: tuple[Catch, ...], out_dir: Path) -> None:
    wanted = tuple(migrcfaults.program(catch) for catch in catches)
    _guests(kernel, wanted, out_dir, f"ls {SWITCHES}")
    missed = []
    for catch in catches:
        log, code = (next(out_dir.glob(f"*/{catch.label}.{kind}")) for kind in ("log", "code"))
        text = log.read_text(errors="replace")
        if not migrcfaults.caught(catch, text, int(code.read_text())):
            missed.append(catch.label)
    assert missed == []
    # None is without a test.
    found = set(
        re.findall(r"^fault_(\w+)$", (out_dir / "guest-0/output.log").read_text(), re.MULTILINE)
    )
    assert found == SET_BY_CATCHES


def test_broken_on_purpose_is_noticed(torture_kernel: KernelImage, out_dir: Path) -> None:
    """With a safety step left out, the selftest that guards it must fail, and say why."""
    quick = tuple(catch for catch in CATCHES if catch.label in QUICK)
    assert len(quick) == len(QUICK)
    _assert_noticed(torture_kernel, quick, out_dir)


@pytest.mark.long
@pytest.mark.parametrize("flavour", ["torture", "debug"])
def test_more_broken_on_purpose_is_noticed(
    flavour: str, request: pytest.FixtureRequest, out_dir: Path
) -> None:
    """Too long for `make test`: `make soak` runs it.  Each row one by one: lab migrc-faults."""
    catches = tuple(catch for catch in CATCHES if catch.flavour == flavour)
    _assert_noticed(request.getfixturevalue(f"{flavour}_kernel"), catches, out_dir)


@pytest.mark.parametrize(
    ("flavour", "switch", "program", "test", "says"),
    [
        ("debug", "wp", "reuse_test", "reuse.uffd.write", "PTE made writable before"),
        ("debug", "swap", "swap_test", "swap.install", "PTE made writable before"),
        ("debug", "write", "write_test", "writable.plain.write", "PTE made writable before"),
        # That one does not look at PTEs, so that it is the checksum that tells.
        ("torture", "write", "write_test", "writable.plain.write", "source written"),
    ],
)
def test_the_kernel_itself_notices(
    flavour: str,
    switch: str,
    program: str,
    test: str,
    says: str,
    request: pytest.FixtureRequest,
    out_dir: Path,
) -> None:
    """MIGRC's checks in debug kernels warn where a safety step is left out."""
    kernel: KernelImage = request.getfixturevalue(f"{flavour}_kernel")
    directory = selftests.programs(kernel, "migrc")
    result = guest.run(
        kernel.image,
        migrcfaults.machine(program),
        f"{migrcfaults.only(switch)}; echo Y > {SWITCHES}/check; export MIGRC_SECONDS=20\n"
        f"cd {shlex.quote(str(directory))} && timeout -k 5 60 ./{program} -r {test}\n"
        f"{migrcfaults.only(None)}",
        out_dir=out_dir,
        timeout_s=180,
        append=APPEND,
        check_warnings=False,
    )
    warnings = guest.kernel_warnings(result.console)
    assert warnings
    lines = result.console.splitlines()
    first = lines.index(warnings[0])
    # Where the debug kernel has two checks for one fault, either may be the first to tell.
    assert "migrc: " in "\n".join(lines[max(0, first - 2) : first + 3])
    assert f"migrc: {says}" in result.console


def test_a_failure_for_another_reason_does_not_count() -> None:
    catch = CATCHES[0]
    log = "TAP version 13\n1..1\n# {}\nnot ok 1 reuse.fork.write\n"
    assert migrcfaults.caught(catch, log.format("stale read: CPU 3 read number 1"), 1)
    assert not migrcfaults.caught(catch, log.format("nothing was tested"), 1)
    assert not migrcfaults.caught(catch, log.format("stale read").replace("not ok", "ok"), 0)
    # Killed before it was done
    assert not migrcfaults.caught(catch, "TAP version 13\n1..1\n# stale read\n", 137)


def test_enough_seeds_a_clean_run_and_its_counter() -> None:
    row = {"caught": 9, "seeds": 10, "clean": True, "met": 3, "problem": ""}
    row |= {"switch": "wp", "test": "a b", "seconds": 30, "median_s": 1.5, "counter": "c"}
    assert migrcfaults.passed(row)
    one = {"seeds": 1, "caught": 1}
    assert migrcfaults.passed({**row, **one})
    for change in (
        {"caught": 8},
        {**one, "caught": 0},
        {"clean": False},
        {"met": 0},
        {"problem": "the guest was lost"},
    ):
        assert not migrcfaults.passed({**row, **change})
    facts = {"command": "x", "seconds": 60, "timeout_s": 60, "rows": [row, {**row, "met": 0}]}
    lines = migrcfaults.markdown(facts).splitlines()
    first, second = (line for line in lines if line.startswith("| fault_"))
    assert first == "| fault_wp | `a b` | 30 | 9 of 10 | 1.5 | yes | c | 3 | yes |"
    assert second.endswith("| c | 0 | NO |")
    both = migrcfaults.markdown({**facts, "rows": [{**row, "switch": "unmap+wp"}]})
    assert "\n| fault_unmap, fault_wp | `a b` |" in both
    assert all(
        f"| `{program} {test}` |" in both
        for program, tests in migrcfaults.UNBROKEN.items()
        for test in tests
    )


def _names(source: str) -> set[str]:
    """The tests of a selftest, as it names them."""
    variants: dict[str, list[str]] = {}
    for fixture, variant in re.findall(r"^FIXTURE_VARIANT_ADD\((\w+), (\w+)\)", source, re.M):
        variants.setdefault(fixture, []).append(f"{variant}.")
    return {
        f"{fixture}.{variant}{test}"
        for fixture, test in re.findall(r"^TEST_F(?:_TIMEOUT)?\((\w+), (\w+)", source, re.M)
        for variant in variants.get(fixture, [""])
    }


def test_each_selftest_fails_or_it_is_told_why_not() -> None:
    """None is without a switch, and those without are told from those that were forgotten."""
    directory = cache.PROJECT / "linux/migrc/files/tools/testing/selftests/migrc"
    sources = {path.stem: path.read_text() for path in directory.glob("*_test.c")}
    assert set(sources) == set(PROGRAMS)
    there = {(name, test) for name, source in sources.items() for test in _names(source)}
    assert not re.search(r"^TEST(_SIGNAL)?\(", "\n".join(sources.values()), re.MULTILINE)
    broken = {(catch.program, catch.test) for catch in CATCHES}
    unbroken = {(name, test) for name, tests in migrcfaults.UNBROKEN.items() for test in tests}
    assert broken & unbroken == set()
    assert broken | unbroken == there


def test_switches_are_set_one_by_one_or_together() -> None:
    assert f"echo Y > {SWITCHES}/fault_wp" in migrcfaults.only("wp")
    both = migrcfaults.only("unmap+wp").split("; ")
    assert both[-2:] == [f"echo Y > {SWITCHES}/fault_{switch}" for switch in ("unmap", "wp")]
    assert f"echo N > {SWITCHES}/check" in both
    assert f"echo Y > {SWITCHES}/check" in migrcfaults.only(None)
    # Each is one that the kernel has.
    kernel = (cache.PROJECT / "linux/migrc/files/mm/migrc/debug.c").read_text()
    assert set(re.findall(r'= "fault_(\w+)",', kernel)) == SET_BY_CATCHES


def test_each_switch_has_a_counter() -> None:
    shown = (cache.PROJECT / "linux/migrc/files/mm/migrc/sysfs.c").read_text()
    assert set(migrcfaults.COUNTERS) == SET_BY_CATCHES
    kept = agent.counter_names(manifest.counters())
    assert all(
        kept.match(name) and f'"{name} "' in shown
        for name in migrcfaults.COUNTERS.values()
        if name != "pgmigrate_success"
    )
    before = "nr_free_pages 9\nmigrc_force_wp 5\nmigrc_flush 1\n"
    after = "nr_free_pages 8\nmigrc_force_wp 7\nmigrc_flush 1\n"
    assert migrcfaults.grown(before, after) == {"migrc_force_wp": 2, "migrc_flush": 0}
