# SPDX-License-Identifier: GPL-2.0
"""What `make run` shows on a terminal: a recorded run while kernels build, and the run itself.

Both are drawn by tierctl.  Without a terminal there are lines of progress only.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, redirect_stderr, suppress
from pathlib import Path
from typing import TextIO

from lab import cache, scenario, seen
from tierctl.commands import status, top
from tierctl.core import text
from tierctl.model.status import Status
from tierctl.watch.screen import Frame

RECORDING = cache.PROJECT / "results/recorded-run.json.gz"
WATCH = (sys.executable, "-m", "tierctl", "--from", str(RECORDING), "watch")
PATIENCE_S = 5
HOT = 20  # characters of the bar of hot memory on the slow tier


# --- the recording ------------------------------------------------------------------


class Recorded(io.StringIO):
    """`tierctl watch` plays the recording above the last line, which has what is written last.

    All that was written comes when the user has quit it.
    """

    def __init__(self, stream: TextIO, argv: tuple[str, ...] = WATCH) -> None:
        super().__init__()
        self.stream, self.argv = stream, argv
        self._child: subprocess.Popen[bytes] | None = None
        self._held = ""
        self._stack = ExitStack()

    def play(self) -> None:
        """Begin, on a terminal."""
        streams = (sys.stdin, sys.stdout, self.stream)
        if self._child or not all(one.isatty() for one in streams):
            return
        self.stream.write("kernels are built; until then a recorded run plays (q: progress)\n")
        self.stream.flush()
        rows = os.get_terminal_size(self.stream.fileno()).lines
        env = dict(os.environ, LINES=str(rows - 1))
        self._child = subprocess.Popen(self.argv, cwd=cache.PROJECT, env=env)

    def __enter__(self) -> Recorded:
        self._stack.enter_context(redirect_stderr(self))
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and give the terminal back."""
        self._stack.close()
        if self._child:
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(PATIENCE_S)
            self._child.kill()
            self._child.wait()
            self._child = None
        self.write("")

    def write(self, words: str) -> int:
        if self._child and self._child.poll() is None:
            self._held += words
            self._last_line()
            return len(words)
        self.stream.write(self._held + words)
        self._held = ""
        return len(words)

    def _last_line(self) -> None:
        """Show the latest progress below the recording, and put the cursor back."""
        size = os.get_terminal_size(self.stream.fileno())
        latest = [one.strip() for one in re.split(r"[\r\n]", self._held) if one.strip()][-1:]
        line = "".join(one for one in "".join(latest) if one.isprintable())[: size.columns - 1]
        self.stream.write(f"\x1b7\x1b[{size.lines};1H\x1b[2K{line}\x1b8")
        self.stream.flush()

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()


# --- the run ------------------------------------------------------------------------


def groups(first: Frame, now: Frame) -> list[str]:
    """Each group before START and now: bytes by tier, and hot ones on the slow tier."""
    replies = [one.top for one in (first, now)]
    sides = [{one.path: one for one in found.data.groups} if found else {} for found in replies]
    found = [
        (path, when, side[path])
        for path in sorted(sides[1])
        for when, side in zip(("0 s", "now"), sides, strict=True)
        if path in side
    ]
    most = max((one.hot_on_slow or 0 for _, _, one in found), default=0)
    rows = [["", "", "TOTAL", "FAST", "fast #   slow .", "HOT", "ON SLOW"]]
    for _, when, one in found:
        name = one.name if when == "0 s" else ""
        hot = text.bar([((one.hot_on_slow or 0) / (most or 1), "#")], HOT)
        sizes = [text.size(one.total), text.share(one.fast, one.total)]
        tiers = top.bar(one.fast, one.total)
        size = text.size(one.hot_on_slow)
        estimate = size if one.hot_on_slow is None else f"~{size}"
        rows.append([name, when, *sizes, tiers, estimate, hot])
    return text.table(rows, "<>>><><")


class Drawing(scenario.Live):
    """Some lines that follow a run, drawn of what the guest has copied."""

    def __init__(
        self, stream: TextIO, title: str, expected: float, cpus: list[int], copies: Path
    ) -> None:
        super().__init__(stream, title, expected, cpus)
        self.copies = copies
        self._rows = 0  # on the screen
        self._shares: list[float] = []
        self._drawn: list[str] = []
        self._number = 0

    def _body(self) -> list[str]:
        """Groups, what moves, and which threads pay; drawn anew when there is a new copy."""
        try:
            copies = seen.read(self.copies)
        except (OSError, ValueError, KeyError):  # a copy that is not whole: the run goes on
            return self._drawn
        known = [i for i, one in enumerate(copies) if one["label"] == "before"]
        if not known or len(copies) == self._number:
            return self._drawn
        self._number = len(copies)
        first, now = (seen.latest(copies[: end + 1]) for end in (known[0], self._number - 1))
        data: Status = now.status.data
        self._drawn = [
            *groups(first, now),
            f"FLOW   {status.flow_words(data.flow)}",
            f"COST   {status.cost_words(data.cost, data.flow)}",
        ]
        return self._drawn

    def lines(self, phase: str) -> list[str]:
        """The whole picture."""
        if self._share is not None and self._ops:  # since START
            self._shares = [*self._shares[:1], self._share]
        passed = time.monotonic() - self._began
        found = [
            f"{self.title}, live (emulated)   {passed:.0f} s of about {self.expected:.0f}",
            *self._body(),
        ]
        if self._shares:
            first, now = self._shares[0], self._shares[-1]
            found.append(f"fast memory serves {now:.1%} of Redis's accesses, {first:.1%} at first")
        return [*found, f"{phase}  {self._ops}".rstrip()]

    def _show(self, *, final: bool = False) -> None:
        if not self._tty:
            super()._show(final=final)
            return
        width = max(1, shutil.get_terminal_size().columns - 1)
        lines = self.lines("done" if final and self.phase != "failed" else self.phase)
        up = f"\r\x1b[{self._rows - 1}A" if self._rows > 1 else "\r"
        cut = [text.clip(one, width) for one in lines]
        self.stream.write(up + "\x1b[J" + "\n".join(cut) + ("\n\n" if final else ""))
        self.stream.flush()
        self._rows = len(cut)
