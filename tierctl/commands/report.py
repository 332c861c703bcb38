# SPDX-License-Identifier: GPL-2.0
"""tierctl report: one HTML file of what was recorded; it needs neither network nor scripts."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from tierctl.core import files, text
from tierctl.core.errors import TierctlError, failed
from tierctl.core.paths import RECORD
from tierctl.core.source import Live, Source
from tierctl.model import history
from tierctl.model.history import History, Point
from tierctl.report import page, sections
from tierctl.report.sections import Window, mean, moment

FILE = "report.html"
TENTH = 10  # before is the first tenth of a record, after the last one


def output(word: str, force: bool) -> Path:
    """A file that may be written."""
    file = Path(word)
    if file.exists() and not file.is_file():
        raise TierctlError(f"{file} is no regular file", "choose another name")
    if file.exists() and not force:
        raise TierctlError(f"{file} exists", "choose another name, or give --force")
    if not file.parent.is_dir():
        raise TierctlError(f"there is no directory {file.parent}", "create it")
    return file.resolve()


def ends(points: list[Point]) -> list[Window]:
    """The first and the last tenth of the time; all if there is one sample."""
    if len(points) < 2:
        return [Window("", points)]
    length = (points[-1].time - points[0].time) / TENTH
    first = [one for one in points if one.time <= points[0].time + length]
    last = [one for one in points if one.time >= points[-1].time - length]
    return [Window("before", first), Window("after", last)]


def build(read: list[History], windows: list[Window]) -> str:
    """The HTML; two records are compared by their means only."""
    points = [point for one in read for point in one.points]
    sides = [f"{text.size(mean(each.hot for each in one.points))} {one.name}" for one in windows]
    short = f"{sections.hot_name(points)}: {', '.join(sides).rstrip()}"
    times = [f"{moment(one.points[0].time)} to {moment(one.points[-1].time)} UTC" for one in read]
    samples, damaged = sum(one.samples for one in read), sum(one.damaged for one in read)
    facts = [
        ("In short", sections.NO_SLOW if sections.no_slow(points) else short),
        ("Machine", "; ".join(dict.fromkeys(f"{one.host}, {one.kernel}" for one in points))),
        ("Time", "; ".join(times)),
        ("Samples", f"{samples:,}" + (f", {damaged} damaged lines left out" * bool(damaged))),
    ]
    found = [sections.before_after(windows), sections.payers(windows)]
    if len(read) == 1:
        found.insert(1, sections.hot_over_time(points))
        found += [one for one in (sections.addresses(points),) if one.figures]
    body = page.render(f"Tiered memory of {points[0].host or '?'}", facts, found)
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in body)


def command(args: argparse.Namespace, source: Source) -> int:
    if args.json:
        raise TierctlError("report prints no JSON", "a record has lines of JSON")
    if (args.before is None) != (args.after is None):
        raise TierctlError("--before and --after go together", "give both")
    file = output(args.output, args.force)
    if args.before:
        read = [history.load(Path(one)) for one in (args.before, args.after)]
        names = zip(("before", "after"), read, strict=True)
        windows = [Window(name, one.points) for name, one in names]
    else:
        default = source.place(RECORD) if isinstance(source, Live) else Path(RECORD)
        read = [history.load(Path(args.bundle) if args.bundle else default)]
        windows = ends(read[0].points)
    body = build(read, windows).encode()
    mask = os.umask(0o077)
    os.umask(mask)
    try:
        files.replace(file, body, 0o666 & ~mask)
    except OSError as error:
        raise failed(error, f"{file} cannot be written", "check the directory") from error
    samples, damaged = sum(one.samples for one in read), sum(one.damaged for one in read)
    print(f"{args.output}: {text.size(len(body))}, {samples} sample{'s' * (samples != 1)}")
    if damaged:
        print(f"Left out, because they are damaged: {damaged} lines.")
    return 0


def add_commands(commands: Any) -> None:
    one = commands.add_parser(
        "report",
        help="one HTML file of a record or a bundle",
        description="Before and after by hotness and tier, hot on slow over time, which threads "
        f"pay, and time against address.  Reads {RECORD}, or what --from names: a record (a "
        "directory, or a file of it) or a bundle.",
    )
    one.add_argument("--before", metavar="A", help="compare two records or bundles")
    one.add_argument("--after", metavar="B", help="the second one")
    one.add_argument("-o", "--output", metavar="FILE", default=FILE, help=f"default: {FILE}")
    one.add_argument("--force", action="store_true", help="replace FILE")
    one.set_defaults(func=command)
