# SPDX-License-Identifier: GPL-2.0
"""tierctl watch: status, groups and heat, live or played from a bundle."""

from __future__ import annotations

import argparse
import os
from typing import Any

from tierctl.commands import top
from tierctl.core import text
from tierctl.core.errors import USAGE, WELL, TierctlError
from tierctl.core.source import Source

SPEEDS = (0.01, 1000.0)


def command(args: argparse.Namespace, source: Source) -> int:
    """Show the screen."""
    from tierctl.core.bundle import Bundle  # noqa: PLC0415 - help does without these
    from tierctl.watch import terminal, viewer  # noqa: PLC0415

    if args.json:
        raise TierctlError("watch has no JSON", "use: tierctl --json status -w", USAGE)
    if args.bundle and args.interval is not None:
        raise TierctlError("-d belongs to a live machine", "give --speed N", USAGE)
    if not args.bundle and args.speed is not None:
        raise TierctlError("--speed belongs to --from", "leave it out", USAGE)
    terminal.check()
    if args.bundle and source.live:
        source = Bundle(args.bundle)
    if args.group is not None:
        top.chosen(source, args.group)  # an error, while there is no screen yet
    interval = args.interval if args.interval is not None else viewer.INTERVAL
    found = viewer.Viewer(source, args.group, interval, args.speed or 1.0)
    terminal.run(found, not args.no_color and not os.environ.get("NO_COLOR"))
    return WELL


def speed(word: str) -> float:
    """How many times as fast a recording is played, for argparse."""
    number = float(word)
    if not SPEEDS[0] <= number <= SPEEDS[1]:
        raise argparse.ArgumentTypeError(f"{word} is not from {SPEEDS[0]:g} to {SPEEDS[1]:g}")
    return number


def add_commands(commands: Any) -> None:
    """The sub-command watch."""
    one = commands.add_parser(
        "watch",
        help="a live screen: status, groups, heat; e explains, ? helps",
        description="A live screen.  With --from it plays a bundle of `capture` at the pace of "
        "its samples.",
    )
    one.add_argument("group", nargs="?", metavar="GROUP", help="with the groups below")
    one.add_argument(
        "-d", dest="interval", type=text.interval, metavar="SECONDS", help="between samples (2)"
    )
    one.add_argument("--speed", type=speed, metavar="N", help="play N times as fast")
    one.set_defaults(func=command)
