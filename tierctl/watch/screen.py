# SPDX-License-Identifier: GPL-2.0
"""What `watch` draws: a function of a state and a size to lines, each with one attribute."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tierctl.checks.check import ERROR, INFO
from tierctl.commands import doctor, heat, status, top
from tierctl.commands.heat import OTHER, Heat
from tierctl.core import text
from tierctl.core.reply import Reply, unknown
from tierctl.model.snapshot import Snapshot
from tierctl.model.status import Status
from tierctl.read.lru import UNCLEAR

Line = tuple[str, str]  # the text, and its kind
PLAIN, HEAD, BAR, SELECTED, WARN, ALARM = "", "head", "bar", "selected", "warn", "alarm"
FEW = 4  # lines that groups keep on a small screen
STYLE = text.Style()
KEYS = "q quit  ? help  e explain  h heat  space pause  + - interval  up down select"


@dataclass
class Frame:
    """What is drawn of a sample."""

    now: Snapshot
    status: Reply
    top: Reply | None = None
    heat: Reply | None = None
    no_top: str = ""  # why there are no groups


@dataclass
class State:
    """All that a screen depends on."""

    frame: Frame | None = None
    clock: str = ""
    interval: float = 2.0
    slowed: bool = False  # samples cost too much
    paused: bool = False
    samples: int = 0  # of a recording
    at: int = 0  # which of them is shown, from 1
    selected: str | None = None  # path of a group
    message: str = ""


def plain(words: str) -> str:
    """A text with one cell of the terminal for each character."""
    return "".join(one if one.isascii() and one.isprintable() else "?" for one in words)


def choices(frame: Frame | None) -> list[str]:
    """The paths of the groups that may be selected."""
    return [one.path for one in frame.top.data.groups] if frame and frame.top else []


def _title(state: State) -> Line:
    host = (state.frame.now.host or text.UNKNOWN) if state.frame else ""
    words = ["PAUSED" if state.paused else "", "tierctl watch"]
    if state.samples:
        words = ["RECORDED", words[0], f"sample {state.at} of {state.samples}"]
        words.append("END" if state.at == state.samples else "")
    words += [host, state.clock, f"every {state.interval:g} s"]
    line = "  ".join(one for one in words if one)
    return (f"{line}: samples cost > 5 % CPU", WARN) if state.slowed else (line, BAR)


def _findings(found: Status) -> list[Line]:
    """The worst finding, and how many more there are."""
    serious = [one for one in found.findings if one.severity != INFO]
    if not serious:
        return []
    lines = doctor.draw_finding(serious[0], STYLE)
    more = len(found.findings) - 1
    if more:
        lines.append(f"   {text.plural(more, 'more finding')}: tierctl doctor")
    return [(one, ALARM if serious[0].severity == ERROR else WARN) for one in lines]


def _groups(state: State, frame: Frame, rows: int) -> list[Line]:
    """The head of the table and ``rows`` rows, the selected one among them."""
    if frame.top is None:
        return [(one, PLAIN) for one in text.wrap(f"No groups: {frame.no_top}")]
    paths = choices(frame)
    head, *body = top.draw(frame.top, STYLE)[: 1 + len(paths)]
    at = paths.index(state.selected) if state.selected in paths else -1
    first = max(0, min(at - rows // 2, len(body) - rows))
    lines = [(one, SELECTED if number == at else PLAIN) for number, one in enumerate(body)]
    return [(head, HEAD), *(lines[first : first + rows] or [("No group.", PLAIN)])]


def _table(head: str, *rows: str) -> list[Line]:
    return [(head, HEAD), *((one, PLAIN) for one in rows)]


def _nodes(data: Status, rows: int) -> list[Line]:
    """As many nodes as ``rows`` hold, and how many more there are."""
    table = _table(*status.node_lines(data.nodes, STYLE))
    if len(table) <= rows or rows < 3:
        return table
    more = text.plural(len(table) - rows + 1, "more node")
    return [*table[: rows - 1], (f"{more}: tierctl status", PLAIN)]


def _heat(frame: Frame) -> list[Line]:
    """The histogram without its legend."""
    if frame.heat is None:
        return []
    data: Heat = frame.heat.data
    unclear = any(row.use == UNCLEAR and (row.fast or row.slow) for row in data.rows)
    left_out = (OTHER,) if unclear else (OTHER, UNCLEAR)
    rows = [row for row in data.rows if row.use not in left_out]
    unit, (head, *lines) = heat.picture(replace(data, rows=rows), STYLE)
    return _table(f"{head}  {unit.replace('1 character', '#')}", *lines)


def _body(state: State, width: int, height: int) -> list[Line]:
    """What counts most comes first, and groups keep a place; heat if there is room."""
    frame = state.frame
    if frame is None:
        return [("Reads the machine ...", PLAIN)]
    data: Status = frame.status.data
    columns = max(20, min(width, text.WIDTH))
    head, *figures = status.head_lines(data, STYLE, columns)
    figures += status.figure_lines(data, STYLE, columns)
    why = unknown(frame.status, status.EXPLAINED)
    lines = [(head, PLAIN if data.tiering.on else WARN), *((one, PLAIN) for one in figures)]
    lines += [*_findings(data), *((one, PLAIN) for one in why)]
    most = max(1, height - FEW)
    lines = [*lines, *_nodes(data, most - len(lines))][:most]
    picture = _heat(frame)
    if height - len(lines) < min(FEW, 1 + len(choices(frame))) + len(picture):
        picture = []
    left = height - len(lines) - len(picture)
    return [*lines, *_groups(state, frame, max(0, left - 1))[:left], *picture]


def draw(state: State, width: int, height: int) -> list[Line]:
    """The screen: ``height`` lines of ``width`` characters."""
    room = max(0, height - 2)
    body = _body(state, width, room)[:room]
    body += [("", PLAIN)] * (room - len(body))
    footer = (state.message, WARN) if state.message else (KEYS, BAR)
    lines = [_title(state), *body, footer][-height:]
    return [(text.clip(plain(words), width).ljust(width), kind) for words, kind in lines]
