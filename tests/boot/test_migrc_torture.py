# SPDX-License-Identifier: GPL-2.0
"""MIGRC under torture: the selftests pass, and fail as soon as a safety step is left out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from outcomes import report

from lab import guest, migrcfaults, selftests
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


def _missed(kernel: KernelImage, catches: tuple[Catch, ...], out_dir: Path) -> tuple[Catch, ...]:
    """What the tests did not notice."""
    wanted = tuple(migrcfaults.program(catch) for catch in catches)
    _guests(kernel, wanted, out_dir, f"ls {SWITCHES}")
    missed = []
    for catch in catches:
        log, code = (next(out_dir.glob(f"*/{catch.label}.{kind}")) for kind in ("log", "code"))
        text = log.read_text(errors="replace")
        if not migrcfaults.caught(catch, text, int(code.read_text())):
            missed.append(catch)
    return tuple(missed)


def _assert_noticed(kernel: KernelImage, catches: tuple[Catch, ...], out_dir: Path) -> None:
    missed = _missed(kernel, catches, out_dir)
    # They are races: a busy host may have lost one, and is hardly that busy twice.
    if missed:
        missed = _missed(kernel, missed, out_dir / "again")
    assert [catch.label for catch in missed] == []
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
        *(
            pytest.param("debug", *row, "PTE made writable before", marks=pytest.mark.long)
            for row in (
                ("swap", "swap_test", "swap.install"),
                ("write", "write_test", "writable.plain.write"),
            )
        ),
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
