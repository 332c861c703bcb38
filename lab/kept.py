# SPDX-License-Identifier: GPL-2.0
"""Parts of a long measurement, kept so that one that was broken off can go on.

A part is kept under a key over all that it depends on: kernels, settings, programs.  With
--resume a part with the same key is taken instead of measured again; without, it is
measured, whatever is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lab import cache


class Kept:
    """The parts of one measurement; ``resumed`` counts those that were not measured again."""

    def __init__(self, name: str, *, resume: bool) -> None:
        self._directory = cache.sub("runs") / "kept" / name
        self._resume = resume
        self.resumed = 0

    def get(
        self,
        parts: list[str],
        measure: Callable[[], Any],
        worth: Callable[[Any], bool] = lambda found: True,
    ) -> Any:
        """What ``measure`` has returned for these parts of a key, now or before.

        It is kept if it is ``worth`` it.
        """
        path = self._directory / f"{cache.key(parts)}.json"
        if self._resume and path.exists():
            self.resumed += 1
            return json.loads(path.read_text(encoding="utf-8"))
        found = measure()
        if not worth(found):
            return found
        self._directory.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(found), encoding="utf-8")
        partial.rename(path)
        return found
