# SPDX-License-Identifier: GPL-2.0
"""How often a program reads the machine: less often if that costs more than it may."""

from __future__ import annotations

import sys

LONGEST = 3600.0  # seconds


def say(words: str) -> None:
    """A line on stderr, for the journal of a service."""
    print(f"tierctl: {words}", file=sys.stderr, flush=True)


class Pace:
    """An interval that doubles if two readings one after the other cost more than a share."""

    def __init__(self, interval: float, share: float) -> None:
        self.interval, self.share = float(interval), share
        self._over = 0

    def spent(self, seconds: float) -> bool:
        """A reading took so much CPU time; whether the interval is longer now."""
        self._over = self._over + 1 if seconds > self.share * self.interval else 0
        if self._over < 2 or self.interval >= LONGEST:
            return False
        self._over = 0
        self.interval = min(LONGEST, 2 * self.interval)
        return True
