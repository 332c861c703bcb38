# SPDX-License-Identifier: GPL-2.0
"""MIGRC under torture: the selftests pass.  tests/boot/test_faults.py leaves safety steps out."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from outcomes import report

from lab import faults, guest, selftests, tier
from lab.build import KernelImage
from lab.ktap import Case
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
MACHINE = faults.machines()["readers"]
# Of PROGRAMS, what the debug kernel gets through in a minute
QUICK_ON_DEBUG = ("life_test", "refuse_test")
# Everything has to run.
MAY_SKIP: set[str] = set()


def _run(
    kernel: KernelImage, out_dir: Path, seconds: int, names: tuple[str, ...] = PROGRAMS
) -> dict[str, list[Case]]:
    wanted = tuple(
        Program(name, timeout_s=300 + 60 * seconds, before=f"export MIGRC_SECONDS={seconds}")
        for name in names
    )
    return selftests.run_programs(
        kernel,
        faults.built(kernel, "migrc"),
        wanted,
        MACHINE.topology,
        out_dir,
        prepare=faults.only(),
        append=MACHINE.append,
    )


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


# Its test must notice, too: see room.toml.
FAULT, PROGRAM, TEST = "defer_write", "write_test", "writable.write"


@pytest.mark.parametrize("flavour", ["torture", pytest.param("debug", marks=pytest.mark.long)])
def test_the_kernel_itself_notices(
    flavour: str, request: pytest.FixtureRequest, out_dir: Path
) -> None:
    """MIGRC's check warns that a source was written while it waited."""
    kernel: KernelImage = request.getfixturevalue(f"{flavour}_kernel")
    directory = faults.built(kernel, "migrc")
    result = guest.run(
        kernel.image,
        MACHINE.topology,
        f"{faults.only(FAULT)}; echo Y > {tier.DEBUG}/defer/check; export MIGRC_SECONDS=20\n"
        f"cd {shlex.quote(str(directory))} && timeout -k 5 60 ./{PROGRAM} -r {TEST}\n"
        f"{faults.only()}",
        out_dir=out_dir,
        timeout_s=180,
        append=MACHINE.append,
        check_warnings=False,
    )
    assert guest.kernel_warnings(result.console)
    assert "migrc: source written while it waited" in result.console
