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

PROGRAMS = (
    "reuse_test",
    "swap_test",
    "unmap_test",
    "write_test",
    "life_test",
    "limit_test",
    "refuse_test",
)
# Those that a break needs a second or two to be found in; the others are for `make soak`
QUICK = {
    "wp-reuse.uffd.write",
    "wp-reuse.large.write",
    "off-switching.off",
    "gup-gup.mem.write",
    "file-gup.file.write",
    "unmap-unmap.munmap.in_flight",
    "write-writable.write",
    "release-life.keep",
    "merge-life.merge",
    "isolate-kept.again",
    "cap-limit.cap",
    "reason-refuse.reason",
    "marks-refuse.marks",
    "backoff-refuse.backoff",
}
SET_BY_CATCHES = {switch for catch in CATCHES for switch in catch.switches}
# Of PROGRAMS, what the debug kernel gets through in a minute
QUICK_ON_DEBUG = ("life_test", "refuse_test")
# Everything has to run.
MAY_SKIP: set[str] = set()


def _guest(
    kernel: KernelImage, wanted: tuple[Program, ...], out_dir: Path, prepare: str
) -> dict[str, list[Case]]:
    return selftests.run_programs(
        kernel,
        selftests.programs(kernel, "migrc"),
        wanted,
        migrcfaults.machine(),
        out_dir,
        prepare=prepare,
        append=APPEND,
    )


def _run(
    kernel: KernelImage, out_dir: Path, seconds: int, names: tuple[str, ...] = PROGRAMS
) -> dict[str, list[Case]]:
    wanted = tuple(
        Program(name, timeout_s=300 + 60 * seconds, before=f"export MIGRC_SECONDS={seconds}")
        for name in names
    )
    return _guest(kernel, wanted, out_dir, migrcfaults.only(None))


def test_migrc_selftests(
    torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    cases = _run(torture_kernel, out_dir, 1)
    assert sum(case.outcome == "pass" for found in cases.values() for case in found) > 30
    report(subtests, cases, MAY_SKIP)


def test_some_migrc_selftests_on_the_debug_kernel(
    debug_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """All of them, for longer: below."""
    report(subtests, _run(debug_kernel, out_dir, 1, QUICK_ON_DEBUG), MAY_SKIP)


@pytest.mark.long
@pytest.mark.parametrize("flavour", ["torture", "debug"])
def test_migrc_selftests_for_long(
    flavour: str, request: pytest.FixtureRequest, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """Ten seconds each, on the debug kernel as well."""
    kernel: KernelImage = request.getfixturevalue(f"{flavour}_kernel")
    report(subtests, _run(kernel, out_dir, 10), MAY_SKIP)


def _missed(kernel: KernelImage, catches: tuple[Catch, ...], out_dir: Path) -> tuple[Catch, ...]:
    """What the tests did not notice."""
    wanted = tuple(migrcfaults.program(catch) for catch in catches)
    _guest(kernel, wanted, out_dir, f"ls {SWITCHES}")
    missed = []
    for catch in catches:
        log, code = (out_dir / f"{catch.label}.{kind}" for kind in ("log", "code"))
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
    found = set(re.findall(r"^fault_(\w+)$", (out_dir / "output.log").read_text(), re.MULTILINE))
    assert found == SET_BY_CATCHES


def test_broken_on_purpose_is_noticed(torture_kernel: KernelImage, out_dir: Path) -> None:
    """With a safety step left out, the selftest that guards it must fail, and say why."""
    quick = tuple(catch for catch in CATCHES if catch.label in QUICK)
    assert len(quick) == len(QUICK)
    _assert_noticed(torture_kernel, quick, out_dir)


@pytest.mark.long
def test_more_broken_on_purpose_is_noticed(torture_kernel: KernelImage, out_dir: Path) -> None:
    """Too long for `make test`: `make soak` runs it.  Row by row: lab study migrc-faults."""
    _assert_noticed(torture_kernel, CATCHES, out_dir)


@pytest.mark.parametrize(
    ("flavour", "switch", "program", "test"),
    [
        ("torture", "write", "write_test", "writable.write"),
        pytest.param("debug", "write", "write_test", "writable.write", marks=pytest.mark.long),
    ],
)
def test_the_kernel_itself_notices(
    flavour: str,
    switch: str,
    program: str,
    test: str,
    request: pytest.FixtureRequest,
    out_dir: Path,
) -> None:
    """MIGRC's check warns that a source was written while it waited."""
    kernel: KernelImage = request.getfixturevalue(f"{flavour}_kernel")
    directory = selftests.programs(kernel, "migrc")
    result = guest.run(
        kernel.image,
        migrcfaults.machine(),
        f"{migrcfaults.only(switch)}; echo Y > {SWITCHES}/check; export MIGRC_SECONDS=20\n"
        f"cd {shlex.quote(str(directory))} && timeout -k 5 60 ./{program} -r {test}\n"
        f"{migrcfaults.only(None)}",
        out_dir=out_dir,
        timeout_s=180,
        append=APPEND,
        check_warnings=False,
    )
    assert guest.kernel_warnings(result.console)
    assert "migrc: source written while it waited" in result.console
