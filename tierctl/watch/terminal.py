# SPDX-License-Identifier: GPL-2.0
"""The terminal of `watch`: lines with attributes to curses, and keys."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from tierctl.core import text
from tierctl.core.errors import LACKING, TierctlError
from tierctl.watch import screen
from tierctl.watch.screen import ALARM, BAR, HEAD, SELECTED, WARN
from tierctl.watch.viewer import Viewer

try:
    import curses
except ImportError:  # Python may lack it
    curses = None  # type: ignore[assignment]

INSTEAD = "use: tierctl status"
TEXTS = ("?", "e", "h")
REDRAW = ("^L", "KEY_RESIZE")  # a size that comes back has lost the text in between


def check() -> None:
    """An error unless there is a terminal that can place its cursor."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TierctlError("watch needs a terminal", INSTEAD)
    if curses is None:
        raise TierctlError("this Python has no curses", f"install python3; or {INSTEAD}", LACKING)
    name = os.environ.get("TERM", "")
    try:
        curses.setupterm(name or "unknown", sys.stdout.fileno())
        able = bool(curses.tigetstr("cup"))
    except curses.error:
        able = False
    if not able:
        what = f"the terminal {name or '(TERM is not set)'} cannot show a screen"
        raise TierctlError(what, INSTEAD)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _attributes(colour: bool) -> dict[str, int]:
    """What stands for each kind of a line."""
    found = dict.fromkeys((BAR, SELECTED), curses.A_REVERSE)
    found |= {HEAD: curses.A_BOLD, WARN: curses.A_BOLD, ALARM: curses.A_BOLD | curses.A_REVERSE}
    if colour and curses.has_colors():
        with suppress(curses.error):
            curses.use_default_colors()
            for number, kind in ((curses.COLOR_YELLOW, WARN), (curses.COLOR_RED, ALARM)):
                curses.init_pair(number, number, -1)
                found[kind] = curses.color_pair(number)
    return found


def _print(window: curses.window, found: Viewer, key: str, style: text.Style) -> None:
    """A text below the shell's prompt, where the terminal scrolls; Enter or Ctrl-C goes on."""
    try:
        curses.endwin()
        if key == "e":
            print("Explains ...  Ctrl-C goes back.", flush=True)
        print(*found.printed(key, style), "Enter goes on.", sep="\n", end=" ", flush=True)
        sys.stdin.readline()
    except KeyboardInterrupt:
        pass
    finally:
        with suppress(OSError, curses.error):  # the terminal may have gone
            print(flush=True)
            window.redrawwin()
            window.refresh()


def _loop(window: curses.window, found: Viewer, style: text.Style) -> None:
    """Until q."""
    attributes = _attributes(style.colour)
    with suppress(curses.error):
        curses.curs_set(0)
    while not found.ended:
        with suppress(OSError, curses.error):  # ncurses misses a size that comes while it resizes
            now = os.get_terminal_size(sys.stdout.fileno())
            if min(now) > 0 and (now.lines, now.columns) != window.getmaxyx():
                curses.resizeterm(now.lines, now.columns)
                window.redrawwin()
        rows, columns = window.getmaxyx()
        began = found.cpu()
        for row, (words, kind) in enumerate(screen.draw(found.state, columns, rows)):
            # The last cell of the screen leaves no place for the cursor.
            with suppress(curses.error):
                window.addstr(row, 0, words, attributes.get(kind, 0))
        window.refresh()  # sends the cells that have changed
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
            if name in TEXTS:
                _print(window, found, name, style)
            found.key(name)
        if not found.ended:
            found.tick()


def run(found: Viewer, style: text.Style) -> None:
    """Show a screen, which goes whatever ends the program."""
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, _end)
    try:
        curses.wrapper(_loop, found, style)
    except curses.error:
        if os.isatty(sys.stdin.fileno()):
            raise
        raise SystemExit(128 + signal.SIGHUP) from None  # the terminal has gone
