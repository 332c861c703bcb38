# SPDX-License-Identifier: GPL-2.0
"""A line that tells how far long work is: rewritten on a terminal, else one now and then."""

from __future__ import annotations

import time
from typing import TextIO

_last: dict[int, float] = {}


def say(log: TextIO, text: str, *, end: bool = False, every_s: float = 0) -> None:
    """Tell it; with ``every_s`` not more often than that (on a terminal each second)."""
    now = time.monotonic()
    if not end and now - _last.get(id(log), -1e9) < (min(1, every_s) if log.isatty() else every_s):
        return
    _last[id(log)] = now
    if log.isatty():
        log.write(f"\r\x1b[K{text}" + ("\n" if end else ""))
    else:
        log.write(text + "\n")
    log.flush()


def minutes(seconds: float) -> str:
    """As 3:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
