# SPDX-License-Identifier: GPL-2.0
"""What selftests have said, as pytest results: one sub-result per KTAP case."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from lab import guest, ktap, topology
from lab.build import KernelImage
from lab.ktap import Case
from lab.selftests import Program

Cases = dict[str, list[Case]]


def judge(case: Case, may_skip: Collection[str] | None) -> None:
    """Passes, skips or fails as the case did; a skip fails for a reason not in ``may_skip``."""
    reason = case.reason or "the selftest gives no reason"
    if case.outcome == "skip":
        assert may_skip is None or reason in may_skip, f"skipped: {reason}"
        pytest.skip(reason)
    assert case.outcome == "pass", case.reason or "not ok"


def report(
    subtests: pytest.Subtests,
    cases: dict[str, list[Case]],
    may_skip: Collection[str] | None = None,
) -> None:
    """Sub-results; a skipped case is a failure unless its reason is one of those, if given."""
    for program, found in cases.items():
        for case in found:
            with subtests.test(msg=f"{program}: {case.name}"):
                judge(case, may_skip)


def kunit_cases(kernel: KernelImage, out_dir: Path, append: str = "") -> list[Case]:
    """What the KUnit suites print to the log while a debug kernel boots."""
    result = guest.run(
        kernel.image,
        topology.load("two-tier"),
        "true",
        out_dir=out_dir,
        timeout_s=300,
        append=append,
    )
    lines = [re.sub(r"^\[ *\d+\.\d+\] ", "", line) for line in result.console.splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("KTAP version"))
    return ktap.parse("\n".join(lines[start:]), 0)


def pass_as_on_base(
    subtests: pytest.Subtests,
    wanted: tuple[Program, ...],
    on_base: Cases,
    run: Callable[[tuple[Program, ...], Path], Cases],
    out_dir: Path,
) -> int:
    """Run programs on our kernel: what has passed on base must pass there.  How many have.

    Some are flaky under emulation, on base as well: what fails gets a second chance, and must
    use it.  A program of which nothing has passed on base is not run: many of these have no end.
    """
    on_base = {
        program: cases
        for program, cases in on_base.items()
        if any(case.outcome == "pass" for case in cases)
    }
    some = tuple(program for program in wanted if program.key in on_base)
    on_ours = run(some, out_dir / "ours")
    again = tuple(
        program
        for program in some
        if any(
            base.outcome == "pass" != ours.outcome
            for base, ours in zip(on_base[program.key], on_ours[program.key], strict=False)
        )
    )
    if again:
        print("again, alone: " + ", ".join(program.key for program in again))
        on_ours |= run(again, out_dir / "again")
    passed = 0
    for program, cases in on_base.items():
        # some programs use one name for several cases: compare by position
        assert len(on_ours[program]) == len(cases), f"{program} reports other cases than on base"
        for base, ours in zip(cases, on_ours[program], strict=True):
            if base.outcome != "pass":
                continue
            passed += 1
            with subtests.test(msg=f"{program}: {base.name}"):
                assert ours.outcome == "pass", f"passes on base, here: {ours}"
    return passed
