# SPDX-License-Identifier: GPL-2.0
"""Kernel settings tried one after the other while one job runs; in the guest.

To set a job up anew for each of many settings would take longer than to measure them.  A
step writes its settings, waits until the change has taken effect (so many pages migrated,
or so much time), and then takes what the counters grow by while so many pages more are
migrated.  Work decides, not time, so that each step rests on as many pages; but no part of
a step takes longer than its limit, and the result says which steps were cut short.

Standard library only: lab/agent.py imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

WORK = "pgmigrate_success"
HELD = "migrc_pending"  # a gauge; a kernel without it holds nothing


class Steps:
    """Follows a list of steps; ``tick()`` is called again and again."""

    poll_s = 0.2

    def __init__(
        self,
        steps: Sequence[dict[str, Any]],
        read: Callable[[], dict[str, int]],
        write: Callable[[str, str], None],
    ) -> None:
        self._steps, self._read, self._write = [*steps], read, write
        self._left = [*steps]
        self._part = ""  # of the step: "" before it, "settle" or "measure"
        self._began = 0.0
        self._first: dict[str, int] = {}
        self._held: list[int] = []
        self.results: list[dict[str, Any]] = []

    @property
    def busy(self) -> bool:
        """Is there a step that has not ended?"""
        return bool(self._left)

    @property
    def given(self) -> bool:
        """Was there anything to do at all?"""
        return bool(self._steps)

    @property
    def where(self) -> str:
        """The step that is under way, and its part, for those who watch."""
        return f"{self._left[0]['name']} {self._part}".strip() if self._left else ""

    def _enter(self, part: str, now: float, counts: dict[str, int]) -> None:
        self._part, self._began, self._first, self._held = part, now, counts, []

    def tick(self, now: float) -> None:
        """Look at the counters, and go on if this part of the step is over."""
        if not self._left:
            return
        step = self._left[0]
        if not self._part:
            for path, value in step["settings"]:
                self._write(path, value)
            self._enter("settle", now, self._read())
            return
        counts = self._read()
        self._held.append(counts.get(HELD, 0))
        done = counts[WORK] - self._first[WORK]
        enough = done >= step["settle_pages" if self._part == "settle" else "pages"]
        if not enough and now - self._began < step["limit_s"]:
            return
        if self._part == "settle":
            self._enter("measure", now, counts)
            return
        self.results.append(
            {
                "name": step["name"],
                "seconds": round(now - self._began, 3),
                "complete": enough,
                "delta": {
                    name: value - self._first.get(name, 0)
                    for name, value in counts.items()
                    if name != HELD and value != self._first.get(name, 0)
                },
                "held_mean": round(sum(self._held) / len(self._held), 1),
                "held_max": max(self._held),
            }
        )
        del self._left[0]
        self._part = ""
        self.tick(now)
