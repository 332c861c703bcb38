# SPDX-License-Identifier: GPL-2.0
"""What a command answers: one record, printed as JSON or drawn as text.

Unknown is null in JSON, and ``sources`` says why.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tierctl.core import paths, text
from tierctl.core.errors import WELL, as_root
from tierctl.core.source import ABSENT, DENIED, MISSING, Source

SCHEMA = "tierctl/1"
NO_SLOW = "no slow node"
# States that say nothing to an operator; a kernel without DAMON moves nothing by DAMON
QUIET = ("ok", NO_SLOW, f"{ABSENT}: {paths.KDAMONDS}")
CONTROL = re.compile(r"\x1b(?!\[\d*(?:;\d+)*m)|[\x00-\x1a\x1c-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Note:
    """Where a figure comes from, or why it is unknown and what to do."""

    origin: str | None  # a path or a mechanism; None: no source has the figure
    state: str = "ok"
    todo: str = ""
    age_s: float | None = None
    estimate: bool = False

    def document(self) -> dict[str, object]:
        found: dict[str, object] = {"from": self.origin, "state": self.state}
        if self.todo:
            found["todo"] = self.todo
        if self.age_s is not None:
            found["age_s"] = round(self.age_s, 3)
        if self.estimate:
            found["estimate"] = True
        return found


@dataclass
class Reply:
    """An answer; ``code`` is the exit status."""

    kind: str
    data: Any  # a dataclass, or plain values
    sources: dict[str, Note] = field(default_factory=dict)
    code: int = WELL


def note_for(source: Source, path: str, todo: str = "") -> Note:
    """The note of a path that get() or listing() has tried."""
    why = source.why(path)
    if not why:
        return Note(path)
    usual = {
        DENIED: as_root(source.live),
        ABSENT: "this kernel lacks it",
        MISSING: "capture again with this tierctl",
    }
    return Note(None, f"{why}: {path}", todo or usual.get(why, ""))


def plain(value: Any) -> Any:
    """Dataclasses as dicts, floats in six digits."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {one.name: plain(getattr(value, one.name)) for one in fields if one.repr}
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return round(value, 6)
    return value


def document(reply: Reply, source: Source) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "kind": reply.kind,
        "time": round(source.time(), 3),
        "host": source.get("/proc/sys/kernel/hostname"),
        "kernel": source.get("/proc/sys/kernel/osrelease"),
        "sources": {name: note.document() for name, note in sorted(reply.sources.items())},
        "data": plain(reply.data),
    }


def unknown(reply: Reply, names: Iterable[str] | None = None) -> list[str]:
    """Why figures are unknown, and what to do: one line for each reason.

    ``names`` has the figures that the text shows, in its order; None: all.
    """
    reasons: dict[tuple[str, str], list[str]] = {}
    for name in sorted(reply.sources) if names is None else names:
        note = reply.sources.get(name)
        if note and note.state not in QUIET[:2] and not note.state.startswith(QUIET[2]):
            reasons.setdefault((note.state, note.todo), []).append(name)
    lines = []
    for (state, todo), which in reasons.items():
        words = f"? {', '.join(which)}: {state}" + (f"; {todo}" if todo else "")
        lines += text.wrap(words, "  ")
    return lines


def harmless(line: str) -> str:
    """A line without control characters but colours: a bundle may come from anywhere."""
    return CONTROL.sub("?", line)


def show(
    reply: Reply,
    source: Source,
    args: argparse.Namespace,
    draw: Callable[[Reply, text.Style], list[str]],
) -> int:
    if args.json:
        import json  # noqa: PLC0415 - text does without it, and it takes a while

        print(json.dumps(document(reply, source), indent=1))
    else:
        style = text.style_for(sys.stdout, args.no_color)
        print("\n".join(harmless(line.rstrip()) for line in draw(reply, style)))
    return reply.code
