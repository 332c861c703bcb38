# SPDX-License-Identifier: GPL-2.0
"""tierctl run --scan off PROGRAM: how often the part scan visits a program, by prctl().

fork(2) copies the value and execve(2) keeps it, so that the program needs no change.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from tierctl.core.errors import DENIED, LACKING, TierctlError
from tierctl.core.source import Source

PR_SET_TIER_SCAN = 0x53545343
OFF, DEFAULT, MOST = 0, 1, 10


def scan_value(word: str) -> int:
    """off, default, or how many times as long from one visit to the next."""
    named = {"off": OFF, "default": DEFAULT}
    if word in named:
        return named[word]
    if word.isascii() and word.isdecimal() and DEFAULT < int(word) <= MOST:
        return int(word)
    raise argparse.ArgumentTypeError(f"{word} is not off, default, or 2 to {MOST}")


def prctl(value: int) -> int:
    """prctl(PR_SET_TIER_SCAN): 0, or an error number."""
    import ctypes  # noqa: PLC0415 - no other command needs it, and it takes a while

    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(PR_SET_TIER_SCAN, ctypes.c_ulong(value), zero, zero, zero) == 0:
        return 0
    return ctypes.get_errno()


def command(args: argparse.Namespace, source: Source) -> int:
    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if args.bundle:
        raise TierctlError("run needs a live machine", "leave out --from")
    if not program:
        raise TierctlError("no program was given", "tierctl run --scan off -- PROGRAM")
    error = prctl(args.scan)
    if error:
        what = f"this kernel lacks PR_SET_TIER_SCAN ({os.strerror(error)})"
        raise TierctlError(what, "boot a tiershift kernel, or start the program as it is", LACKING)
    try:
        os.execvp(program[0], program)
    except PermissionError as refused:
        what = f"{program[0]} may not be executed ({refused.strerror})"
        raise TierctlError(what, "check its permissions", DENIED) from refused
    except OSError as missing:
        what = f"{program[0]} cannot be started ({missing.strerror})"
        raise TierctlError(what, "check the name") from missing


def add_commands(commands: Any) -> None:
    one = commands.add_parser(
        "run",
        help="start a program that is scanned never or less often",
        description="off: no page of the program is found hot.  2 to 10: the next visit of the "
        "program comes that many times later.  All that the program starts has the value, too.",
    )
    one.add_argument("--scan", type=scan_value, required=True, metavar="off|default|N")
    one.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM ARGUMENTS")
    one.set_defaults(func=command)
