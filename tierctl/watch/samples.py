# SPDX-License-Identifier: GPL-2.0
"""One frame of `watch` after the other: status, groups and heat of one sample of a machine.

Rates are from the sample before.  On a machine with many groups the text of MGLRU and the order of
all groups are read at most each SLOW_S seconds, and the groups of the screen with each sample.
"""

from __future__ import annotations

from contextlib import suppress

from tierctl.commands import heat, status, top
from tierctl.commands.top import Seen
from tierctl.core.errors import TierctlError
from tierctl.core.reply import Reply
from tierctl.core.source import Source
from tierctl.model.snapshot import Sampler
from tierctl.read.groups import Usage
from tierctl.watch.screen import Frame

SLOW_S = 10.0
FEW = 64  # groups that are all read with each sample
ROWS = 40  # groups of a frame


class Samples:
    """Frames of a machine, one after the other."""

    def __init__(self, source: Source, group: str | None = None, rows: int = ROWS) -> None:
        self.source, self.group, self.rows = source, group, rows
        self._sampler = Sampler(source)
        self._path: str | None = None
        self._paths: list[str] = []  # that are read with the next sample
        self._known: dict[str, Usage] = {}  # what all groups had, when they were last read
        self._all_s: float | None = None  # when
        self._before: Seen | None = None

    def mark(self) -> None:
        """Begin rates here."""
        self._sampler.mark()
        with suppress(TierctlError):
            self._before = top.look(self.source, top.chosen(self.source, self.group)[1])

    def take(self) -> Frame:
        """The next frame."""
        now = self._sampler.take()
        frame = Frame(now, status.answer(now))
        try:
            frame.top = self._groups(frame)
        except TierctlError as error:
            frame.errors["top"] = str(error)
        try:
            frame.heat = heat.histogram(now, self.group)
        except TierctlError as error:
            frame.errors["heat"] = str(error)
        return frame

    def _groups(self, frame: Frame) -> Reply:
        now = frame.now
        if self._all_s is None or not 0 <= now.time - self._all_s < SLOW_S:
            self._all_s, self._known = now.time, {}
            self._path, self._paths = top.chosen(self.source, self.group)
        many = len(self._paths) > FEW or len(self._known) > FEW
        self._sampler.lru_every = SLOW_S if many else 0.0
        found, seen = top.build(now, self._path, self.rows, self._before, self._paths, self._known)
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
