# SPDX-License-Identifier: GPL-2.0
"""Texts that are data: declared.json, made from the rooms of the kernel, and texts.json."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def load(name: str = "texts.json") -> dict[str, Any]:
    """All texts of a file; ``{}`` in them is for names and numbers."""
    import json  # noqa: PLC0415 - `status` does without, and it takes a while
    from pathlib import Path  # noqa: PLC0415

    found: dict[str, Any] = json.loads((Path(__file__).parents[1] / name).read_text("utf-8"))
    return found


def cause(name: str) -> dict[str, str]:
    """Why memory lies on a slow node: verdict, what, todo."""
    return {"todo": "", **load()["causes"][name]}


def advice(reason: str | None) -> str:
    """What to do about the reason that a part gives for not working."""
    return str(load()["reasons"].get(reason, "see Documentation/admin-guide/mm/tier.rst"))
