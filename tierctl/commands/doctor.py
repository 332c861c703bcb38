# SPDX-License-Identifier: GPL-2.0
"""tierctl doctor: checks with stable ids; each finding says what to do."""

from __future__ import annotations

import argparse
from typing import Any

from tierctl.checks import ALL
from tierctl.checks.check import ERROR, INFO, WARNING, Report, run
from tierctl.core import text
from tierctl.core.errors import FINDING, WELL
from tierctl.core.reply import Reply, show
from tierctl.core.source import Source
from tierctl.model.snapshot import twice
from tierctl.model.status import Finding

MARKS = {ERROR: ("bad", "!!"), WARNING: ("warn", "! "), INFO: ("dim", "- ")}
NAMES = {ERROR: "error", WARNING: "warning", INFO: "remark"}


def draw_finding(one: Finding, style: text.Style) -> list[str]:
    """A finding in two or more lines: what it is, and what to do; each command has its line."""
    colour, mark = MARKS[one.severity]
    lines = text.wrap(f"{one.what}  [{one.id}]", "   ", f"{mark} ")
    lines[0] = style.paint(colour, mark) + lines[0][len(mark) :]
    first, *more = one.todo.split("\n")
    lines += text.wrap(first, "        ", "     -> ")
    return [*lines, *(f"        {command}" for command in more)]


def _draw(reply: Reply, style: text.Style) -> list[str]:
    data: Report = reply.data
    lines = [line for one in data.findings for line in draw_finding(one, style)]
    if data.not_done:
        lines += [style.paint("head", "NOT CHECKED")]
    for name, why in data.not_done.items():
        lines += text.wrap(f"{name}: {why}", "        ", "   ")
    words = [
        text.plural(sum(one.severity == kind for one in data.findings), name)
        for kind, name in NAMES.items()
    ]
    made = len(data.done)
    lines.append(f"{made} of {made + len(data.not_done)} checks made: {', '.join(words)}.")
    return lines


def command(args: argparse.Namespace, source: Source) -> int:
    now = twice(source, args.interval)
    report = run(ALL, now)
    serious = any(one.severity != INFO for one in report.findings)
    reply = Reply("doctor", report, now.sources, FINDING if serious else WELL)
    return show(reply, source, args, _draw)


def add_commands(commands: Any) -> None:
    one = commands.add_parser(
        "doctor",
        help="what keeps hot memory from the fast tier, and what to do",
        description="Make all checks.  Exit status 1: an error or a warning was found.",
    )
    one.add_argument("--interval", type=text.interval, default=1.0, metavar="SECONDS")
    one.set_defaults(func=command)
