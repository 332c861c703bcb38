# SPDX-License-Identifier: GPL-2.0
"""tierctl forecast: of what is found hot, how much would move, in how long, and is there room?

Under the profile observe workers find hot pages and nothing moves.  Without workers MGLRU
estimates what was used.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from tierctl.core import text
from tierctl.core.errors import FINDING, LACKING, WELL, TierctlError
from tierctl.core.paths import TIER
from tierctl.core.reply import Note, Reply, show, unknown
from tierctl.core.source import Source
from tierctl.explain.scene import Scene, begin, rooms
from tierctl.model.snapshot import FOUND, MGLRU
from tierctl.read import groups, trace
from tierctl.read.mechanisms import PROMOTE

NO_PART = "needs a tiershift kernel"
SEEN_MS = 60_000  # since a visit, at most


@dataclass
class Pace:
    """The limit of promotion; None: unknown."""

    rate_mbps: int | None
    bytes_per_s: float | None  # of all slow nodes together


@dataclass
class Forecast:
    """What would move; bytes."""

    state: str  # moves, observe, off, no-part
    hot: int | None
    hot_by: str | None  # found, mglru
    pace: Pace
    room: int | None  # free on fast nodes for promotion
    cold_on_fast: int | None  # may make room
    demotes: bool | None
    limits: int  # groups with memory.tier.max
    into_room: int | None = None
    for_cold: int | None = None  # moves when cold pages go down
    stays: int | None = None  # finds no room
    unknown: int | None = None  # room for it is not known
    seconds: float | None = None


def _pace(found: Scene) -> Pace:
    """How fast the part promote moves pages at most."""
    part = found.now.mechanisms.part("promote")
    rate = part.knobs.get("rate_mbps") if part else None
    # The limit holds for each slow node, and for each fast node as well.
    nodes = min(len(found.now.slow), len(found.now.fast))
    return Pace(rate, None if rate is None else float(rate << 20) * nodes)


def _state(found: Scene) -> str:
    if found.now.mechanisms.part("promote") is None:
        return "no-part"
    if PROMOTE in found.promoters:
        return "moves"
    return "observe" if found.scans else "off"


def _limits(found: Scene) -> int:
    if found.now.mechanisms.part("promote") is None:
        return 0
    paths = groups.every(found.source) or []
    return sum(bool(groups.limit(found.source, one)[1]) for one in paths)


def answer(source: Source) -> Reply:
    """The forecast."""
    found = begin(source, quick=False)
    now = found.now
    now.need_tiers()
    if not now.slow:
        todo = "tierctl doctor, if slow memory is installed"
        raise TierctlError("this machine has no slow memory", todo, LACKING)
    data = Forecast(
        state=_state(found),
        hot=now.hot_total().bytes,
        hot_by=now.hot_by,
        pace=_pace(found),
        room=rooms(found, now.fast),
        cold_on_fast=now.cold_total().bytes,
        demotes=now.mechanisms.demotes(),
        limits=_limits(found),
    )
    if data.hot is None:
        data.hot_by = None
    elif data.state == "observe":
        # What waits is dropped after 2 s; the last visits tell what the next ones will find.
        spans = (trace.spans(source) or {}).values()
        seen = sum(one.pushed for one in spans if one.age_ms <= SEEN_MS) * now.machine.page
        data.hot = max(data.hot, seen)
    divide(data)
    names = {"hot": "hot_on_slow", "cold": "cold_on_fast", "room": "watermarks"}
    sources = {name: now.sources[known] for name, known in names.items()}
    if data.state == "no-part":
        sources["pace"] = Note(None, f"absent: {TIER}/promote", NO_PART)
    code = FINDING if data.stays or data.unknown else WELL
    return Reply("forecast", data, sources, code)


def divide(data: Forecast) -> None:
    """What is hot goes into room, then for cold pages that go down; the rest finds no room."""
    if data.hot is None or data.room is None:
        return
    data.into_room = min(data.hot, data.room)
    left = data.hot - data.into_room
    if data.demotes is False:
        data.for_cold, data.stays, data.unknown = 0, left, 0
    elif data.demotes is None or data.cold_on_fast is None:
        data.for_cold, data.stays, data.unknown = 0, 0, left
    else:
        data.for_cold = min(left, data.cold_on_fast)
        # Colder than the hot page is enough, and what is used in the last minute may be that.
        data.stays, data.unknown = 0, left - data.for_cold
    moves = data.into_room + data.for_cold
    if not moves:
        data.seconds = 0.0
    elif data.pace.bytes_per_s:
        data.seconds = moves / data.pace.bytes_per_s


# --- text ------------------------------------------------------------------------

WORDS = {
    "moves": "Promotion is on: this is what waits now.",
    "observe": "Promotion is off, workers look: tierctl set promote.enabled 1",
    "off": "Workers do not look: tierctl profile apply observe, then ask again.",
    "no-part": "This kernel has no part promote: only room and use are known.",
}


def draw(reply: Reply, style: text.Style) -> list[str]:
    """The forecast in some lines."""
    data: Forecast = reply.data
    by = {FOUND: "found by workers", MGLRU: "MGLRU: used or new in 60 s"}.get(data.hot_by or "", "")
    mark = "~" if data.hot_by == MGLRU else ""
    demotes = {True: "", False: "; demotion is off", None: "; demotion ?"}[data.demotes]
    cold = f"of {text.size(data.cold_on_fast)} idle for 60 s{demotes}"
    rate = f"at most {text.rate(data.pace.bytes_per_s)}, by promote/rate_mbps "
    rows = [
        ["HOT ON SLOW", f"{mark}{text.size(data.hot)}", by],
        ["  fits into room", text.size(data.into_room), f"of {text.size(data.room)} free"],
        ["  for cold pages", text.size(data.for_cold), cold],
        ["  finds no room", text.size(data.stays), ""],
        ["  not known", text.size(data.unknown), "needs pages that are colder"],
        ["TIME, at least", text.seconds(data.seconds), rate + text.count(data.pace.rate_mbps)],
    ]
    lines = [style.paint("head", WORDS[data.state])]
    lines += [line[: text.WIDTH] for line in text.table(rows, "<><")]
    if data.limits:
        have = "1 group has" if data.limits == 1 else f"{text.count(data.limits)} groups have"
        lines += text.wrap(f"{have} a limit (memory.tier.max); the forecast ignores it.")
    return lines + unknown(reply)


# --- command ---------------------------------------------------------------------


def command(args: argparse.Namespace, source: Source) -> int:
    """Print the forecast."""
    return show(answer(source), source, args, draw)


SCHEMAS = {"forecast": Forecast}  # by kind of answer


def add_commands(commands: Any) -> None:
    """The sub-command forecast."""
    one = commands.add_parser(
        "forecast",
        help="of what is found hot: how much would move, in how long, is there room",
        description="Best under the profile observe, in which workers look and nothing moves.  "
        "Exit status 1: not all that is hot is known to find room.",
    )
    one.set_defaults(func=command)
