# SPDX-License-Identifier: GPL-2.0
"""The command line: options, the source, and errors as one line."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from tierctl import __version__
from tierctl.core.errors import DENIED, USAGE, TierctlError, as_root, near
from tierctl.core.reply import harmless
from tierctl.core.source import Live, Source
from tierctl.core.text import WIDTH

# Sub-commands whose module has another name.  Each module has add_commands(subparsers):
# sub-commands with a default func(args, source) -> int.
ELSEWHERE = {"group": "set"}
COMMANDS = (
    "status",
    "why",
    "top",
    "heat",
    "explain",
    "forecast",
    "doctor",
    "profile",
    "set",
    "run",
    "capture",
    "record",
    "report",
    "export",
    "watch",
)
SHOWN = {  # common options
    "--json": "print JSON (schema tierctl/1)",
    "--no-color": "no colour, as with NO_COLOR=1",
    "--from": "read a bundle of `capture`",
}
VALUES = ("--from", "--root")  # options that have a value
EPILOG = """\
begin with:  tierctl status; tierctl doctor; tierctl explain GROUP
undo:        tierctl profile revert
exit status: 0 well, 1 a finding (status: an error) or a difference, 2 usage,
             3 not permitted, 4 this kernel lacks it
"""


class Formatter(argparse.HelpFormatter):
    """Help in 80 columns; with a width of the terminal, argparse imports shutil, which is slow."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH - 2)


class Raw(Formatter, argparse.RawDescriptionHelpFormatter):
    """The same, and lines of the text stay."""


class Parser(argparse.ArgumentParser):
    """Errors are one line.  Each sub-command takes the common options as well."""

    def __init__(self, **words: Any) -> None:
        super().__init__(**{"formatter_class": Formatter, **words})
        if " " in self.prog:
            self.common(dict.fromkeys(SHOWN, argparse.SUPPRESS))

    def common(self, texts: dict[str, str]) -> None:
        """Add the common options; one that is not given leaves what another parser has found."""
        unset = argparse.SUPPRESS
        for name in ("--json", "--no-color"):
            self.add_argument(name, action="store_true", default=unset, help=texts[name])
        self.add_argument(
            "--from", dest="bundle", metavar="FILE", default=unset, help=texts["--from"]
        )
        self.add_argument("--root", default=unset, help=unset)  # a tree for /

    def error(self, message: str) -> NoReturn:
        raise TierctlError(message, f"see: {self.prog} --help")


def parser(command: str | None = None) -> Parser:
    """All options, and the sub-commands of one module or of all: imports take most of the time."""
    found = Parser(
        prog="tierctl",
        description="Show and control tiered memory: which memory is hot, where it lies, why, "
        "and what to do.",
        epilog=EPILOG,
        formatter_class=Raw,
    )
    found.add_argument("--version", action="version", version=f"tierctl {__version__}")
    found.common(SHOWN)
    found.set_defaults(json=False, no_color=False, bundle=None, root="/")
    commands = found.add_subparsers(dest="command", metavar="COMMAND")
    module = ELSEWHERE.get(command or "", command)
    for name in [module] if module in COMMANDS else COMMANDS:
        importlib.import_module(f"tierctl.commands.{name}").add_commands(commands)
    return found


def _command(words: Sequence[str]) -> str | None:
    """The sub-command: the first word that is no option, and no value of one."""
    rest = iter(words)
    for word in rest:
        if word in VALUES:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return None


def _run(argv: Sequence[str]) -> int:
    command = _command(argv)
    if command is not None and command not in (*COMMANDS, *ELSEWHERE):
        like = near(command, (*COMMANDS, *ELSEWHERE))
        todo = f"did you mean {like}?" if like else "see: tierctl --help"
        raise TierctlError(f"there is no command {command[:40]!r}", todo)
    args = parser(command).parse_args(argv)
    if not args.command:
        raise TierctlError("no command was given", "see: tierctl --help")
    source: Source = Live(args.root)
    if args.bundle and args.command != "report":  # a record is no bundle
        from tierctl.core.bundle import Bundle  # noqa: PLC0415 - json takes a while

        source = Bundle(args.bundle)
    return int(args.func(args, source))


def _tell(words: str) -> None:
    """One line on stderr; it may have words of a bundle."""
    print(harmless(f"tierctl: {words}".replace("\n", " ")), file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may have any byte
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except TierctlError as error:
        _tell(str(error))
        return error.code
    except BrokenPipeError:  # and Python's exit must not fail on it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        denied = isinstance(error, PermissionError)
        todo = as_root() if denied else "check the path, or try again"
        place = error.filename or "a file"
        _tell(f"{place}: {error.strerror}; {todo}")
        return DENIED if denied else USAGE
    except Exception as error:  # a fault of tierctl, or a file that is damaged
        if os.environ.get("TIERCTL_DEBUG"):
            raise
        todo = "report it with the output of TIERCTL_DEBUG=1 tierctl ..., and a capture"
        _tell(f"internal error, {type(error).__name__}: {error}; {todo}")
        return USAGE
    return code
