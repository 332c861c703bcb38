# SPDX-License-Identifier: GPL-2.0
"""What selftests have said, as pytest results: one sub-result per KTAP case."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from lab.ktap import Case


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
