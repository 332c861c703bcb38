# SPDX-License-Identifier: GPL-2.0
"""KTAP, the output format of the kernel's selftests, as data.

Only what the selftests of the lab print: a plan, result lines with SKIP and
XFAIL directives, any nesting (the innermost cases are the ones that count).
A program that dies before its plan is done gets one failed case of its own,
so that silence is never success.  What a failed case has printed since the one before
it is its reason: kselftest's harness names the line there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RESULT = re.compile(
    r"^\s*(?:# )*(ok|not ok)\s+(\d+)\s*-?\s*(.*?)\s*(?:#\s*(SKIP|XFAIL|TODO)\b\s*(.*))?$"
)
_PLAN = re.compile(r"^\s*(?:# )*1\.\.(\d+)(?:\s*#\s*SKIP\s*(.*))?\s*$")
_REMARK = re.compile(r"^\s*#\s?(?!\s*(?:RUN|OK|FAIL)\s)(.*\S)")
REMARKS = 8  # of a failed case, the last ones
KSFT_SKIP = 4


@dataclass(frozen=True)
class Case:
    """One test case: ``outcome`` is pass, fail or skip."""

    name: str
    outcome: str
    reason: str = ""


def parse(text: str, exit_code: int) -> list[Case]:
    """The cases of one program's output."""
    cases: list[Case] = []
    planned: int | None = None
    skip_all: str | None = None
    remarks: list[str] = []
    for line in text.splitlines():
        if match := _PLAN.match(line):
            planned = int(match[1])
            if planned == 0:
                skip_all = match[2] or "the plan is empty"
        elif match := _RESULT.match(line):
            status, number, name, directive, reason = match.groups()
            outcome = "pass" if status == "ok" else "fail"
            if directive in ("SKIP", "XFAIL", "TODO"):
                outcome = "skip"
            elif outcome == "fail":
                reason = "; ".join(remarks[-REMARKS:])
            remarks = []
            cases.append(Case(name.strip() or f"case {number}", outcome, (reason or "").strip()))
        elif match := _REMARK.match(line):
            remarks.append(match[1])
    if skip_all is not None and not cases:
        return [Case("all", "skip", skip_all)]
    if exit_code == KSFT_SKIP and not cases:
        return [Case("all", "skip", _last_words(text))]
    if planned is not None and len(cases) < planned:
        cases.append(
            Case("plan", "fail", f"{len(cases)} of {planned} cases reported, exit code {exit_code}")
        )
    if not cases:
        outcome = "pass" if exit_code == 0 else "fail"
        return [
            Case(
                "exit code", outcome, f"no KTAP output, exit code {exit_code}: {_last_words(text)}"
            )
        ]
    if exit_code not in (0, KSFT_SKIP) and not any(c.outcome == "fail" for c in cases):
        cases.append(Case("exit code", "fail", f"exit code {exit_code}"))
    return cases


def _last_words(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"
