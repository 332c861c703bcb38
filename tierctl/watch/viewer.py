# SPDX-License-Identifier: GPL-2.0
"""What keys and time do to the screen of `watch`; terminal.py shows it."""

from __future__ import annotations

import copy
import time
from contextlib import suppress

from tierctl.commands import explain, heat, status, top
from tierctl.commands.top import Seen
from tierctl.core import text
from tierctl.core.bundle import Bundle
from tierctl.core.errors import TierctlError
from tierctl.core.pace import LONGEST, Pace
from tierctl.core.reply import Reply, harmless
from tierctl.core.source import Source
from tierctl.model.snapshot import Sampler
from tierctl.read import groups
from tierctl.read.groups import Usage
from tierctl.watch import screen
from tierctl.watch.screen import Frame, State

SLOW_S = 10.0
MANY = 64  # groups; more are not all read with each sample
ROWS = 40  # groups of a frame
SHARE = 0.05  # of one CPU
SHORTEST = 0.1
FIRST_S = 1.0  # until the second sample, which has rates
VANISHED = "Cannot be read now"
MOVES = {"KEY_UP": -1, "k": -1, "KEY_DOWN": 1, "j": 1, "KEY_PPAGE": -10, "KEY_NPAGE": 10}
HELP = """\
UP, DOWN     select a group (also j k, page keys)
e            explain why memory of the group, or of all slow nodes, is slow
h            memory of the group, or of all, by last use and tier
space        pause, and go on
+ -          twice, half the interval
Ctrl-L       draw all again
q            quit

WORTH        memory on the wrong tier.  ~ marks an estimate.  ? is unknown.
FLOW         what moves up and down now, and by which mechanism
COST         CPUs that the kernel's threads use; hint faults
HOT-SLOW     of a group: used or new in the last minute, and on slow memory
UP/s         bytes of a group that move up each second
# .          bytes on fast, on slow memory

If two samples one after the other cost more than 5 % of a CPU, the interval
doubles.  More: tierctl --help, tierctl doctor"""


class Samples:
    """Frames of a machine, one after the other; rates are from the sample before.

    On a machine with many groups the text of MGLRU and the order of all groups are read at most
    each SLOW_S seconds, and the groups of the screen with each sample.
    """

    def __init__(self, source: Source, group: str | None = None, rows: int = ROWS) -> None:
        self.source, self.group, self.rows = source, group, rows
        self._sampler = Sampler(source)
        self.path: str | None = None  # of the group
        self._paths: list[str] = []  # that are read with the next sample
        self._known: dict[str, Usage] = {}  # what all groups had, when they were last read
        self._all_s: float | None = None  # when
        self._before: Seen | None = None

    def take(self) -> Frame:
        """The next frame."""
        now = self._sampler.take()
        frame = Frame(now, status.answer(now))
        try:
            frame.top = self._groups(frame)
        except TierctlError as error:
            frame.no_top = str(error)
        with suppress(TierctlError):
            frame.heat = heat.histogram(now, self.group)
        return frame

    def _groups(self, frame: Frame) -> Reply:
        now = frame.now
        if self._all_s is None or not 0 <= now.time - self._all_s < SLOW_S:
            self._all_s, self._known = now.time, {}
            self.path, self._paths = top.chosen(self.source, self.group)
        many = len(self._paths) > MANY or len(self._known) > MANY
        self._sampler.lru_every = SLOW_S if many else 0.0
        found, seen = top.build(now, self.path, self.rows, self._before, self._paths, self._known)
        gone = set(self._paths) - set(seen.usage)
        self._known = {
            path: one for path, one in {**self._known, **seen.usage}.items() if path not in gone
        }
        found.data.groups = [one for one in found.data.groups if one.path not in gone]
        self._before = seen
        if many:
            self._paths = [one.path for one in found.data.groups]
        else:
            self._all_s = None  # the next sample looks for new ones
        return found


class Viewer:
    """What keys and time do to the state; the terminal is not its matter."""

    def __init__(self, source: Source, group: str | None = None, interval: float = 2.0) -> None:
        self.source, self.clock, self.cpu = source, time.monotonic, time.process_time
        self.state = State(interval=interval)
        if isinstance(source, Bundle):
            self.state.samples = source.samples
        self.pace = Pace(interval, SHARE)
        self.samples = Samples(source, group)
        self.ended = False
        self.draw_s = 0.0  # CPU time that the last drawing took
        self._due = 0.0  # at once

    def wait_s(self) -> float:
        """Seconds until something is to be done."""
        state = self.state
        if state.paused or 0 < state.samples == state.at:
            return 60.0
        return max(0.0, self._due - self.clock())

    def tick(self) -> None:
        """Take a sample that is due; a file that vanishes in between ends nothing."""
        if self.wait_s():
            return
        state, began, first = self.state, self.cpu(), self.state.frame is None
        try:
            if state.samples:
                if state.at:
                    self.source.wait(0)
                state.at += 1
            state.frame = self.samples.take()
        except OSError as error:
            state.message = _vanished(error)
        else:
            if state.message.startswith(VANISHED):
                state.message = ""
            gone = state.selected
            if gone and state.frame.top and gone not in screen.choices(state.frame):
                state.message = f"{groups.title(gone)} has ended, or is small now."
                state.selected = None
        if state.samples:
            state.clock = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.source.time()))
        else:
            state.clock = time.strftime("%H:%M:%S")
            state.slowed |= self.pace.spent(self.cpu() - began + self.draw_s)
            state.interval = self.pace.interval
        self._due = self.clock() + (min(FIRST_S, state.interval) if first else state.interval)

    def key(self, name: str) -> None:
        """Do what a key of curses asks for."""
        state = self.state
        state.message = ""
        if name == "q":
            self.ended = True
        elif name == " ":
            state.paused = not state.paused
            self._due = self.clock()
        elif name in ("+", "=", "-"):
            found = self.pace.interval * (0.5 if name == "-" else 2.0)
            found = min(LONGEST, max(min(SHORTEST, self.pace.interval), found))
            self.pace = Pace(found, SHARE)
            state.interval, state.slowed = found, False
            self._due = min(self._due, self.clock() + found)
        elif name in MOVES:
            paths = screen.choices(state.frame)
            at = paths.index(state.selected) if state.selected in paths else -1
            at = max(-1, min(len(paths) - 1, at + MOVES[name]))
            state.selected = paths[at] if at >= 0 else None

    def printed(self, key: str, style: text.Style) -> list[str]:
        """What `?`, `h` and `e` print."""
        frame, path = self.state.frame, self.state.selected or self.samples.path
        if key == "?":
            return HELP.split("\n")
        if frame is None:
            return ["Nothing has been read yet."]
        lines: list[str] = []
        try:
            if key == "h":
                return _printed(heat.draw(heat.histogram(frame.now, path), style))
            nodes = frame.now.slow or [one.node for one in frame.now.machine.nodes][:1] or [0]
            for words in [[path]] if path else [["node", str(one)] for one in nodes]:
                found = explain.answer(self._beside(), words)
                lines += [*_printed(explain.draw(found, style)), ""]
        except TierctlError as error:
            lines += text.wrap(str(error))
        except OSError as error:
            lines.append(_vanished(error))
        return lines

    def _beside(self) -> Source:
        """A source that explain may take on to the next sample."""
        if not isinstance(self.source, Bundle):
            return self.source
        found = copy.copy(self.source)
        found.go(max(0, min(self.state.at, found.samples - 1) - 1))
        return found


def _vanished(error: OSError) -> str:
    return f"{VANISHED}: {error.filename or 'a file'}: {error.strerror}"


def _printed(lines: list[str]) -> list[str]:
    return [harmless(one.rstrip()) for one in lines]
