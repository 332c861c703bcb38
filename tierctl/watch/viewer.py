# SPDX-License-Identifier: GPL-2.0
"""What keys and time do to the screen of `watch`; terminal.py shows it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tierctl.commands import explain, heat
from tierctl.core import text
from tierctl.core.bundle import Bundle
from tierctl.core.errors import FINDING, WELL, TierctlError
from tierctl.core.pace import LONGEST, Pace
from tierctl.core.source import Live, Source
from tierctl.read.trace import MOST_S
from tierctl.watch import screen
from tierctl.watch.samples import Samples
from tierctl.watch.screen import EXPLAIN, HEAT, HELP, MAIN, STYLE, State

SHARE = 0.05  # of one CPU
INTERVAL = 2.0
SHORTEST, SPEEDS = 0.1, (1 / 64, 1024.0)
FIRST_S = 1.0  # until the second sample, which has rates
GAP_S = 10.0  # a longer time between two samples of a bundle is played as so long
LONG_S = 1000  # a recording of more than so many seconds is told in larger units
POLL_S = 0.2
PATIENCE_S = 5.0  # after this a child that does not end is killed
VANISHED = "Cannot be read now"


class Explaining:
    """`tierctl explain` of one target after the other, in processes of their own."""

    def __init__(self, root: str, targets: list[list[str]]) -> None:
        self.began, self.cancelled = time.monotonic(), False
        self.lines: list[str] = []
        self.error = ""
        self._root, self._left = root, list(targets)
        self._seconds = max(1, MOST_S // len(targets))
        self._start()

    def _start(self) -> None:
        # -P: the present directory is no place for modules of root.
        words = [sys.executable, "-P", "-m", "tierctl", "--root", self._root, "--no-color"]
        words += ["explain", "--seconds", str(self._seconds), *self._left.pop(0)]
        place = str(Path(__file__).resolve().parents[2])
        with tempfile.TemporaryFile() as out:
            self._child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": place},
            )
            self._out = os.fdopen(os.dup(out.fileno()), "rb")

    def poll(self) -> bool:
        """Take what has been written; whether all is done."""
        code = self._child.poll()
        if code is None:
            return False
        with self._out as out:
            out.seek(0)
            found = out.read().decode("utf-8", "replace").splitlines()
        if self.cancelled:
            return True
        if code not in (WELL, FINDING):
            how = f"it ended {'by signal' if code < 0 else 'with status'} {abs(code)}; try again"
            self.error = found[-1].removeprefix("tierctl: ") if found and code > 0 else how
            return True
        self.lines += [*([""] if self.lines else []), *found]
        if self._left:
            self._start()
            return False
        return True

    def cancel(self) -> None:
        """Tell the process to end; it removes its instance of tracefs."""
        self.cancelled = True
        self._child.terminate()

    def close(self) -> None:
        """End it; a call that the kernel does not end is not waited for."""
        self.cancel()
        try:
            self._child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
        self._out.close()


class Viewer:
    """What keys and time do to the state; the terminal is not its matter."""

    def __init__(
        self,
        source: Source,
        group: str | None = None,
        interval: float = INTERVAL,
        speed: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self.source, self.group, self.speed = source, group, speed
        self.clock, self.cpu = clock, cpu
        self.times: list[float] = []  # of the samples of a bundle
        if isinstance(source, Bundle):
            for number in range(source.samples):
                source.go(number)
                self.times.append(source.time())
        self.state = State(live=not self.times, interval=interval)
        self.pace = Pace(interval, SHARE)
        self.samples = Samples(source, group)
        self.child: Explaining | None = None
        self.at = -1  # number of the sample of a bundle
        self.size = (text.WIDTH, 24)
        self.ended = False
        self.draw_s = 0.0  # CPU time that the last drawing took
        self._due = clock()
        self._explaining = ""

    # --- time ---

    def wait_s(self) -> float:
        """Seconds until something is to be done."""
        left = max(0.0, self._due - self.clock())
        if self.state.paused or self._at_end:
            left = 60.0
        return min(left, POLL_S) if self.child else left

    @property
    def _at_end(self) -> bool:
        return bool(self.times) and self.at + 1 >= len(self.times)

    def tick(self) -> None:
        """Do what is due."""
        if self.child and self.child.poll():
            self._explained(self.child)
        if not self.state.paused and self.clock() >= self._due:
            if not self.times:
                self._sample()
            elif not self._at_end:
                self._safely(lambda: self._go(self.at + 1))
        if self.child and not self.child.cancelled:
            left = max(0.0, MOST_S - (time.monotonic() - self.child.began))
            self._say(f"Explains {self._explaining}: {left:.0f} s left.  Esc cancels.")

    def _sample(self) -> None:
        """A live sample."""
        state, began, first = self.state, self.cpu(), self.state.frame is None
        if self._safely(self._take) and state.message.startswith(VANISHED):
            self._say("")
        state.clock = time.strftime("%H:%M:%S")
        if self.pace.spent(self.cpu() - began + self.draw_s):
            state.slowed = True
        state.interval = self.pace.interval
        self._due = self.clock() + (min(FIRST_S, state.interval) if first else state.interval)

    def _take(self) -> None:
        self.state.frame = self.samples.take()
        self._follow()

    def _safely(self, work: Callable[[], None]) -> bool:
        """Do something; a file that vanishes in between ends nothing."""
        try:
            work()
        except OSError as error:
            self._say(f"{VANISHED}: {error.filename or 'a file'}: {error.strerror}", True)
            return False
        return True

    def _go(self, number: int) -> None:
        """Show a sample of a bundle."""
        assert isinstance(self.source, Bundle)
        self.at = max(0, min(number, len(self.times) - 1))
        self.samples = Samples(self.source, self.group)
        if self.at:
            self.source.go(self.at - 1)
            self.samples.mark()
        self.source.go(self.at)
        self._take()
        self._told()
        later = self.times[min(self.at + 1, len(self.times) - 1)]
        gap = min(GAP_S, max(0.0, later - self.times[self.at]))
        self._due = self.clock() + gap / self.speed

    def _told(self) -> None:
        """Which part has been played."""
        now, total = self.times[self.at], self.times[-1] - self.times[0]
        part = f"{now - self.times[0]:.0f} s of {total:.0f}"
        if total >= LONG_S:
            part = f"{text.seconds(now - self.times[0])} of {text.seconds(total)}"
        speed = f"  x{self.speed:g}" if self.speed != 1 else ""
        self.state.played = f"{part}{speed}{'  END' if self._at_end else ''}"
        self.state.clock = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))

    def _follow(self) -> None:
        """What goes with the selected group; one that has ended is not selected any more."""
        state = self.state
        known = bool(state.frame and state.frame.top)
        if known and state.selected and state.selected not in screen.choices(state):
            self._say(f"{screen.name(state.selected)} has ended, or is small now.")
            state.selected = None
        if state.view == HEAT:
            self._heat()

    def _say(self, words: str, alarm: bool = False) -> None:
        self.state.message, self.state.alarm = words, alarm

    # --- keys ---

    def key(self, name: str) -> None:
        """Do what a key asks for."""
        self._safely(lambda: self._key(name))

    def _key(self, name: str) -> None:
        state = self.state
        if name == "esc" and self.child:
            self.child.cancel()
            self._say("Cancelled.")
            return
        if not self.child:
            self._say("")
        views = {"?": HELP, "h": HEAT, "s": MAIN, "esc": MAIN}
        if name == "q":
            self.ended = True
        elif name in views:
            self._view(MAIN if name == "?" and state.view == HELP else views[name])
            if state.view == HEAT:
                self._heat()
        elif name == "e":
            self._explain()
        elif name == " ":
            state.paused = not state.paused
            self._due = self.clock()
        elif name in ("+", "=", "-"):
            self._pace(0.5 if name == "-" else 2.0)
        elif name in ("left", "right") and self.times:
            state.paused = True
            self._go(self.at + (-1 if name == "left" else 1))
        else:
            self._move(name)

    def _view(self, view: str) -> None:
        self.state.view, self.state.scroll = view, 0

    def _pace(self, factor: float) -> None:
        """A longer interval, or a recording that is played faster."""
        if self.times:
            left = max(0.0, self._due - self.clock()) * self.speed
            self.speed = min(SPEEDS[1], max(SPEEDS[0], self.speed * factor))
            self._due = self.clock() + left / self.speed
            self._told()
            return
        found = min(LONGEST, max(min(SHORTEST, self.pace.interval), self.pace.interval * factor))
        self.pace = Pace(found, SHARE)
        self.state.interval, self.state.slowed = found, False
        self._due = min(self._due, self.clock() + found)

    def _move(self, name: str) -> None:
        """Select, or scroll."""
        state = self.state
        page = max(1, self.size[1] - 3)
        by = {"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdn": page}.get(name, 0)
        if state.view != MAIN:
            last = screen.last_scroll(state, *self.size)
            state.scroll = max(0, min(last, min(state.scroll, last) + by))
            return
        paths = screen.choices(state)
        at = paths.index(state.selected) if state.selected in paths else -1
        at = max(-1, min(len(paths) - 1, at + by))
        state.selected = paths[at] if at >= 0 else None

    # --- texts ---

    def _heat(self) -> None:
        """Memory by last use, of the selected group or of all."""
        state = self.state
        if state.frame is None:
            return
        found, error = state.frame.heat, state.frame.errors.get("heat", "")
        if state.selected:
            try:
                found = heat.histogram(state.frame.now, state.selected)
            except TierctlError as failed:
                found, error = None, str(failed)
        state.lines = heat.draw(found, STYLE) if found else text.wrap(error)

    def _targets(self) -> tuple[str, list[list[str]]]:
        """What `e` explains."""
        assert self.state.frame
        top_ = self.state.frame.top
        path = self.state.selected or (top_.data.group if top_ else None)
        if path:
            return screen.name(path), [[path]]
        now = self.state.frame.now
        wanted = now.slow or [one.node for one in now.machine.nodes][:1]
        return "the slow memory of the machine", [["node", str(one)] for one in wanted]

    def _explain(self) -> None:
        """Start to explain; of a bundle, at once."""
        if self.child or self.state.frame is None:
            return
        name, targets = self._targets()
        if not targets:
            self._say("There is no NUMA node to explain.", True)
            return
        self._explaining = name
        if isinstance(self.source, Live):
            self.child = Explaining(self.source.root or "/", targets)
            self._say(f"Explains {name} ...")
            return
        try:
            self._show(self._recorded(targets))
        except TierctlError as error:
            self._say(f"Cannot explain {name}: {error}", True)

    def _recorded(self, targets: list[list[str]]) -> list[str]:
        """What `explain` says of a bundle, with colours."""
        assert isinstance(self.source, Bundle)
        lines: list[str] = []
        try:
            for words in targets:
                # explain goes to the sample behind this one
                self.source.go(max(0, min(self.at, len(self.times) - 2)))
                found = explain.draw(explain.answer(self.source, words), STYLE)
                lines += [*([""] if lines else []), *found]
        finally:
            self.source.go(self.at)
        return lines

    def _show(self, lines: list[str]) -> None:
        self._view(EXPLAIN)
        self.state.lines = lines

    def _explained(self, child: Explaining) -> None:
        """A child has ended."""
        self.child = None
        if child.cancelled:
            self._say("Cancelled.")
        elif child.error:
            self._say(f"Cannot explain {self._explaining}: {child.error}", True)
        else:
            self._say("")
            self._show(child.lines)

    def close(self) -> None:
        """End the child."""
        if self.child:
            self.child.close()
            self.child = None
