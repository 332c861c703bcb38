# SPDX-License-Identifier: GPL-2.0
"""Texts that are data: declared.json, made from the rooms of the kernel, and texts.json."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cause:
    """Why memory lies on a slow node; ``{}`` in the texts is for names and numbers."""

    verdict: str
    what: str
    todo: str = ""


@functools.cache
def _load(name: str) -> dict[str, Any]:
    import json  # noqa: PLC0415 - `status` does without, and it takes a while
    from pathlib import Path  # noqa: PLC0415

    found: dict[str, Any] = json.loads((Path(__file__).parents[1] / name).read_text("utf-8"))
    return found


def declared() -> dict[str, Any]:
    """What the rooms of the kernel declare."""
    return _load("declared.json")


@functools.cache
def causes() -> dict[str, Cause]:
    """All causes, by id."""
    return {name: Cause(**one) for name, one in _load("texts.json")["causes"].items()}


def cause(name: str) -> Cause:
    """A cause by id."""
    return causes()[name]


def reasons() -> dict[str, str]:
    """What to do, by the reason that a part gives for not working."""
    return dict(_load("texts.json")["reasons"])


def advice(reason: str | None) -> str:
    """What to do about a reason."""
    return reasons().get(reason or "", "see Documentation/admin-guide/mm/tier.rst")


def metrics() -> list[tuple[str, str, str, str]]:
    """Name, type, unit and help of each metric."""
    return [(one[0], one[1], one[2], one[3]) for one in _load("texts.json")["metrics"]]
