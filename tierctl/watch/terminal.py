# SPDX-License-Identifier: GPL-2.0
"""The terminal of `watch`: lines with attributes to curses, and keys."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from tierctl.core.errors import LACKING, USAGE, TierctlError
from tierctl.watch import screen
from tierctl.watch.screen import ALARM, BAR, SELECTED, Line
from tierctl.watch.viewer import Viewer

if TYPE_CHECKING:
    import curses

TODO = "use: tierctl status -w"
ESCAPE_MS = "150"  # a slow line sends the bytes of a key one after the other
NAMES = {
    "KEY_UP": "up",
    "KEY_DOWN": "down",
    "KEY_LEFT": "left",
    "KEY_RIGHT": "right",
    "KEY_PPAGE": "pgup",
    "KEY_NPAGE": "pgdn",
    "^[": "esc",
}
REDRAW = ("^L", "KEY_RESIZE")  # a size that comes back has lost the text in between


def check() -> None:
    """An error unless there is a terminal that can place its cursor."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TierctlError("watch needs a terminal", TODO, USAGE)
    try:
        import curses  # noqa: PLC0415 - Python may lack it
    except ImportError:
        what = "this Python has no curses"
        raise TierctlError(what, f"install python3; or {TODO}", LACKING) from None
    name = os.environ.get("TERM", "")
    try:
        curses.setupterm(name or "unknown", sys.stdout.fileno())
        able = bool(curses.tigetstr("cup"))
    except curses.error:
        able = False
    if not able:
        what = f"the terminal {name or '(TERM is not set)'} cannot show a screen"
        raise TierctlError(what, TODO, USAGE)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _attributes(colour: bool) -> dict[str, int]:
    """What stands for each kind of a piece."""
    import curses  # noqa: PLC0415

    found = dict.fromkeys(("good", "bad", "warn", "head"), curses.A_BOLD)
    found |= {"dim": curses.A_DIM, ALARM: curses.A_REVERSE | curses.A_BOLD}
    found |= dict.fromkeys((BAR, SELECTED), curses.A_REVERSE)
    if colour and curses.has_colors():
        with suppress(curses.error):
            curses.use_default_colors()
            pairs = {"good": curses.COLOR_GREEN, "bad": curses.COLOR_RED}
            pairs["warn"] = curses.COLOR_YELLOW
            for number, (kind, one) in enumerate(pairs.items(), 1):
                curses.init_pair(number, one, -1)
                found[kind] = curses.color_pair(number)
    return found


def _draw(window: curses.window, lines: Sequence[Line], attributes: dict[str, int]) -> None:
    """Put lines into the window; curses sends the cells that have changed."""
    import curses  # noqa: PLC0415

    for row, line in enumerate(lines):
        column = 0
        for words, kind in line:
            # The last cell of the screen leaves no place for the cursor.
            with suppress(curses.error):
                window.addstr(row, column, words, attributes.get(kind, 0))
            column += len(words)
    window.refresh()


def _loop(window: curses.window, found: Viewer, colour: bool) -> None:
    """Until q."""
    import curses  # noqa: PLC0415

    attributes = _attributes(colour)
    with suppress(curses.error):
        curses.curs_set(0)
    while not found.ended:
        with suppress(OSError, curses.error):  # ncurses misses a size that comes while it resizes
            now = os.get_terminal_size(sys.stdout.fileno())
            if min(now) > 0 and (now.lines, now.columns) != window.getmaxyx():
                curses.resizeterm(now.lines, now.columns)
                window.redrawwin()
        rows, columns = window.getmaxyx()
        found.size = columns, rows
        began = found.cpu()
        _draw(window, screen.draw(found.state, columns, rows), attributes)
        found.draw_s = found.cpu() - began
        window.timeout(int(1000 * found.wait_s()) + 1)
        key = window.getch()
        if key == -1:
            if not os.isatty(sys.stdin.fileno()):  # the terminal has gone
                raise SystemExit(128 + signal.SIGHUP)
        else:
            name = curses.keyname(key).decode("ascii", "replace")
            if name in REDRAW:
                window.redrawwin()
            found.key(NAMES.get(name, name))
        if not found.ended:
            found.tick()


def run(found: Viewer, colour: bool) -> None:
    """Show a screen, which goes whatever ends the program."""
    import curses  # noqa: PLC0415

    os.environ.setdefault("ESCDELAY", ESCAPE_MS)
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, _end)
    try:
        curses.wrapper(_loop, found, colour)
    finally:
        found.close()
