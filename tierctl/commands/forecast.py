# SPDX-License-Identifier: GPL-2.0
"""tierctl forecast: of what is found hot, how much would move, in how long, and does it fit?

Under the profile observe workers find hot pages and nothing moves.  Without workers MGLRU
estimates what was used.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from tierctl.core import text
from tierctl.core.errors import FINDING, LACKING, WELL, TierctlError
from tierctl.core.reply import Reply, show, unknown
from tierctl.core.source import Source
from tierctl.explain.scene import Scene, rooms
from tierctl.model.snapshot import FOUND, MGLRU, Sampler, Snapshot
from tierctl.read.mechanisms import PROMOTE
from tierctl.read.spans import SEEN_MS, spans

NOTES = ("cold_on_fast", "hot_on_slow", "watermarks")  # of what the text shows
WORDS = {
    "moves": "Promotion is on: this is what waits now.",
    "observe": "Promotion is off, workers look: tierctl set promote.enabled 1",
    "off": "Workers do not look: tierctl profile apply observe, then ask again.",
    "no-part": "This kernel has no part promote (tiershift): only free memory and use are known.",
}


@dataclass
class Forecast:
    """What would move; bytes.  ``moves`` and ``stays`` add up to ``hot``."""

    state: str  # of WORDS
    hot: int | None
    hot_by: str | None  # found, mglru
    rate: int | None  # the limit of promotion, a second
    free: int | None  # on fast nodes, above the high watermark
    cold: int | None  # on fast nodes; may go down
    demotes: bool | None
    moves: int | None = None
    stays: int | None = None  # does not fit, unless colder pages than it go down
    seconds: float | None = None


def _state(now: Snapshot) -> str:
    if now.mechanisms.part("promote") is None:
        return "no-part"
    if PROMOTE in now.mechanisms.promoters():
        return "moves"
    return "observe" if now.mechanisms.works("scan") else "off"


def answer(source: Source) -> Reply:
    """The forecast."""
    now = Sampler(source).take()
    now.need_tiers()
    if not now.slow:
        todo = "tierctl doctor, if slow memory is installed"
        raise TierctlError("this machine has no slow memory", todo, LACKING)
    part = now.mechanisms.part("promote")
    limit = part.knobs.get("rate_mbps") if part else None
    data = Forecast(
        state=_state(now),
        hot=now.hot_total().bytes,
        hot_by=now.hot_by,
        # The limit holds for each slow node, and for each fast node as well.
        rate=None if limit is None else (limit << 20) * min(len(now.slow), len(now.fast)),
        free=rooms(Scene(now), now.fast),
        cold=now.cold_total().bytes,
        demotes=now.mechanisms.demotes(),
    )
    if data.hot is None:
        data.hot_by = None
    elif data.state == "observe":
        # What waits is dropped after 2 s; the last visits tell what the next ones will find.
        visits = (spans(source) or {}).values()
        seen = sum(one.found for one in visits if one.age_ms <= SEEN_MS) * now.machine.page
        data.hot = max(data.hot, seen)
    divide(data)
    return Reply("forecast", data, now.sources, FINDING if data.hot and data.stays != 0 else WELL)


def divide(data: Forecast) -> None:
    """What is hot goes into free memory, then in exchange for cold pages; the rest does not fit."""
    down = 0 if data.demotes is False else data.cold if data.demotes else None
    if data.hot is None or data.free is None or (down is None and data.hot > data.free):
        return
    data.moves = min(data.hot, data.free + (down or 0))
    data.stays = data.hot - data.moves
    if not data.moves:
        data.seconds = 0.0
    elif data.rate:
        data.seconds = data.moves / data.rate


def draw(reply: Reply, style: text.Style) -> list[str]:
    """The forecast in some lines."""
    data: Forecast = reply.data
    by = {FOUND: "found by workers", MGLRU: "MGLRU: used or new in 60 s"}.get(data.hot_by or "", "")
    mark = "~" if data.hot_by == MGLRU else ""
    colder = {True: "unless colder pages go down", False: "demotion is off", None: "demotion ?"}
    place = f"{text.size(data.free)} free above high watermark, {text.size(data.cold)} idle 60 s"
    rows = [
        ["HOT ON SLOW", f"{mark}{text.size(data.hot)}", by],
        ["  would move", text.size(data.moves), place],
        ["  does not fit", text.size(data.stays), colder[data.demotes]],
        ["TIME, at least", text.seconds(data.seconds), f"at most {text.rate(data.rate)}"],
    ]
    lines = [style.paint("head", WORDS[data.state])]
    lines += [line[: text.WIDTH] for line in text.table(rows, "<><")]
    return lines + unknown(reply, NOTES)


def command(args: argparse.Namespace, source: Source) -> int:
    return show(answer(source), source, args, draw)


def add_commands(commands: Any) -> None:
    one = commands.add_parser(
        "forecast",
        help="of what is found hot: how much would move, in how long, does it fit",
        description="Best under the profile observe, in which workers look and nothing moves.  "
        "Exit status 1: not all that is hot is known to fit.",
    )
    one.set_defaults(func=command)
