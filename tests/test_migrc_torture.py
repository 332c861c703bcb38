# SPDX-License-Identifier: GPL-2.0
"""MIGRC under torture: the selftests pass, and fail as soon as a safety step is left out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from outcomes import report
from recorded import FACTS, KERNEL, parsed, verdicts, written

from lab import agent, build, cache, guest, manifest, migrcfaults, selftests
from lab.build import KernelImage
from lab.ktap import Case
from lab.migrcfaults import APPEND, CATCHES, SWITCHES, Catch
from lab.results import finish, ledger
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
    """Too long for `make test`: `make soak` runs it.  Row by row: lab study migrc-faults."""
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


ROW = {"caught": 9, "seeds": 10, "clean": True, "met": 3, "problem": ""}
ROW |= {"switch": "wp", "test": "a_test b.c", "seconds": 30, "median_s": 1.5, "counter": "n"}
FAULTS: dict[str, Any] = {
    **FACTS,
    "kernels": {name: {**KERNEL, "flavour": name} for name in ("torture", "debug")},
}


@pytest.mark.parametrize(
    ("change", "verdict", "check"),
    [
        ({}, ledger.MET, ""),
        ({"seeds": 1, "caught": 1}, ledger.MET, ""),
        ({"caught": 8}, ledger.MISSED, ""),
        ({"seeds": 1, "caught": 0}, ledger.MISSED, ""),
        ({"clean": False}, ledger.MET, "does not pass without the switch"),
        ({"met": 0}, ledger.MET, "n is 0"),
        ({"problem": "the guest was lost", "caught": 3}, ledger.MISSED, "the guest was lost"),
    ],
)
def test_enough_seeds_a_clean_run_and_its_counter(
    change: dict[str, Any], verdict: str, check: str, tmp_path: Path
) -> None:
    facts = {**FAULTS, "rows": [{**ROW, **change}]}
    line = written(migrcfaults.STUDIES[0], migrcfaults.runs(facts), tmp_path)["wp, b.c"]
    assert verdicts(line) == [verdict]
    assert len(line.checks) == bool(check) and all(check in one for one in line.checks)
    good = verdict == ledger.MET and not check
    assert migrcfaults.passed({**ROW, **change}) == good


def test_lines_of_what_is_caught(tmp_path: Path) -> None:
    """Each catch has a line, with the kernel that it is for."""
    rows = [
        {**ROW, "switch": one.switch, "test": f"{one.program} {one.test}", "median_s": None}
        for one in CATCHES
    ]
    lines = written(migrcfaults.STUDIES[0], migrcfaults.runs({**FAULTS, "rows": rows}), tmp_path)
    assert len(lines) == len(CATCHES)
    assert lines["freeze, kept.freeze"].kernel == "debug k"
    both = lines["unmap+wp, unmap.in_flight.protect"]
    assert both.kernel == "torture k" and "fault_unmap, fault_wp" in both.goals[0].text
    assert both.figures == {"caught": 9, "seeds": 10, "clean": 1, "met": 3, "given_s": 30}


def test_each_unbroken_test_is_told() -> None:
    notes = " ".join(migrcfaults.unbroken_notes())
    assert all(
        f"{program} {test}" in notes
        for program, tests in migrcfaults.UNBROKEN.items()
        for test in tests
    )


def test_fewer_seeds_or_switches_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Kernel:
        key = "k"

        def describe(self) -> dict[str, str]:
            return KERNEL

    done: list[str] = []
    cleans: list[object] = []

    def one(_kernel: Kernel, catch: Catch, seeds: int, clean: object) -> tuple[Any, Any]:
        cleans.append(clean)
        caught = 0 if catch.switch == "cap" else seeds
        test = f"{catch.program} {catch.test}"
        made = {"switch": catch.switch, "test": test, "seeds": seeds, "caught": caught}
        return {**ROW, **made}, {"passed": True}

    for name in {catch.program for catch in CATCHES}:
        (tmp_path / name).write_text("")
    monkeypatch.setattr(cache, "sub", lambda name: tmp_path / name)
    monkeypatch.setattr(build, "kernel", lambda _flavour: Kernel())
    monkeypatch.setattr(selftests, "programs", lambda *_: tmp_path)
    monkeypatch.setattr(migrcfaults, "_one", one)
    monkeypatch.setattr(ledger, "record", lambda name, *_: done.append(name))
    study = migrcfaults.STUDIES[0]
    assert study.run(parsed(study, "unmap"))
    assert finish.PART in capsys.readouterr().out and not done
    # One that was not caught is no failed check, but no success either.
    assert not study.run(parsed(study)) and done == ["migrc-faults"]
    assert "missed: cap, limit.cap" in capsys.readouterr().out
    # Those with the same test share its clean run.
    assert any(clean == {"passed": True} for clean in cleans)


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
