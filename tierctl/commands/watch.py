# SPDX-License-Identifier: GPL-2.0
"""tierctl watch: status, groups and heat, live or played from a bundle."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tierctl.commands import top
from tierctl.core import text
from tierctl.core.errors import WELL, TierctlError
from tierctl.core.source import Source


def command(args: argparse.Namespace, source: Source) -> int:
    from tierctl.watch import terminal, viewer  # noqa: PLC0415 - help does without these

    if args.json:
        raise TierctlError("watch has no JSON", "use: tierctl --json status")
    terminal.check()
    if args.group is not None:
        top.chosen(source, args.group)  # an error, while there is no screen yet
    found = viewer.Viewer(source, args.group, args.interval)
    terminal.run(found, text.style_for(sys.stdout, args.no_color))
    return WELL


def add_commands(commands: Any) -> None:
    one = commands.add_parser(
        "watch",
        help="a live screen: status, groups, heat; e explains, ? helps",
        description="A live screen.  With --from it plays a bundle of `capture`.",
    )
    one.add_argument("group", nargs="?", metavar="GROUP", help="with the groups below")
    interval = one.add_argument("-d", dest="interval", type=text.interval, metavar="SECONDS")
    interval.default, interval.help = 2.0, "between samples (2)"
    one.set_defaults(func=command)
