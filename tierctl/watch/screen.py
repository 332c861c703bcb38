# SPDX-License-Identifier: GPL-2.0
"""What `watch` draws: a function of a state and a size to lines with attributes.

A line is a list of pieces; a piece is a text and its kind, one of text.COLOURS or of KINDS.  The
pieces of a line have as many characters as the screen has columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tierctl.checks.check import INFO
from tierctl.commands import doctor, heat, status, top
from tierctl.commands.heat import OTHER, Heat
from tierctl.commands.top import Top
from tierctl.core import text
from tierctl.core.reply import Reply, harmless, unknown
from tierctl.model.snapshot import Snapshot
from tierctl.model.status import Status
from tierctl.read import groups
from tierctl.read.lru import UNCLEAR
from tierctl.read.nodes import Node

Piece = tuple[str, str]
Line = list[Piece]
PLAIN, BAR, SELECTED, ALARM = "", "bar", "selected", "alarm"
KINDS = (BAR, SELECTED, ALARM)
MAIN, HEAT, EXPLAIN, HELP = "main", "heat", "explain", "help"
FEW_GROUPS = 3  # rows for groups, before there is room for the heat
COLOURED = re.compile(r"\x1b\[([\d;]*)m")
KIND_OF = {code: kind for kind, code in text.COLOURS.items()}
STYLE = text.Style(True)
KEYS = "q quit  ? help  e explain  h heat  s status  space pause  + - interval"
PLAYED_KEYS = "q quit  ? help  left right step  space pause  + - speed  e explain  h heat"
TEXT_KEYS = "q quit  s back to the status  up down scroll  ? help"

HELP_TEXT = """\
UP, DOWN     select a group; in a text scroll (also j k, page keys)
e            explain why memory of the group, or of all slow nodes, is slow: it
             listens to the kernel's workers for at most 10 s; Esc cancels
h            memory by last use and tier
s, Esc       back to the status
space        pause, and go on
+ -          twice, half the interval; of a recording: twice, half as fast
LEFT, RIGHT  of a recording: a sample back, forward
Ctrl-L       draw all again
q            quit

WORTH        memory on the wrong tier.  ~ marks an estimate.  ? is unknown.
FLOW         what moves up and down now, and by which mechanism
COST         CPUs that the kernel's threads use; hint faults
HOT-SLOW     of a group: used or new in the last minute, and on slow memory
UP/s         bytes of a group that move up each second
# .          bytes on fast, on slow memory

If two samples one after the other cost more than 5 % of a CPU, the interval
doubles.  More: tierctl --help, tierctl doctor"""


@dataclass
class Frame:
    """What is drawn of a sample; an error stands for a part that is missing."""

    now: Snapshot
    status: Reply
    top: Reply | None = None
    heat: Reply | None = None
    errors: dict[str, str] = field(default_factory=dict)  # top, heat


@dataclass
class State:
    """All that a screen depends on."""

    frame: Frame | None = None
    clock: str = ""
    live: bool = True
    interval: float = 2.0
    slowed: bool = False  # samples cost too much
    paused: bool = False
    played: str = ""  # of a recording: which part of it has been played
    view: str = MAIN
    selected: str | None = None  # path of a group
    scroll: int = 0
    title: str = ""  # of a text
    lines: list[str] = field(default_factory=list)  # a text, with colours
    message: str = ""
    alarm: bool = False  # the message is an error


# --- pieces ----------------------------------------------------------------------


def plain(words: str) -> str:
    """A text with one cell of the terminal for each character."""
    if words.isascii() and words.isprintable():
        return words
    return "".join(one if one.isascii() and one.isprintable() else "?" for one in words)


def pieces(line: str) -> Line:
    """A line with colours of text.Style as pieces."""
    found: Line = []
    kind = PLAIN
    at = 0
    line = harmless(line)
    for match in COLOURED.finditer(line):
        found.append((plain(line[at : match.start()]), kind))
        kind = KIND_OF.get(match[1], PLAIN)
        at = match.end()
    found.append((plain(line[at:]), kind))
    return [one for one in found if one[0]]


def fit(line: Line, width: int, kind: str = PLAIN) -> Line:
    """A line of ``width`` characters; what is added has a kind."""
    found: Line = []
    left = width
    for words, one in line:
        if left > 0:
            found.append((words[:left], one))
            left -= len(found[-1][0])
    if sum(len(words) for words, _ in line) > width > 0:
        words, one = found[-1]
        found[-1] = (words[:-1] + "~", one)
    return [*found, (" " * left, kind)] if left > 0 else found


def fold(line: Line, width: int) -> list[Line]:
    """A line as several ones that fit."""
    if sum(len(words) for words, _ in line) <= width:
        return [line]
    cells = [(char, kind) for words, kind in line for char in words]
    found, at = [], 0
    while at < len(cells):
        indent = 2 if at and width > 20 else 0
        room = width - indent
        end = at + room
        if end < len(cells):
            spaces = [i for i in range(at + room // 2, end + 1) if cells[i][0] == " "]
            end = spaces[-1] if spaces else end
        found.append([(" " * indent, PLAIN), *cells[at:end]])
        at = end
        while at < len(cells) and cells[at][0] == " ":
            at += 1
    return [joined(one) for one in found]


def joined(line: Line) -> Line:
    """Neighbours of one kind as one piece."""
    found: Line = []
    for words, kind in line:
        if found and found[-1][1] == kind:
            found[-1] = (found[-1][0] + words, kind)
        elif words:
            found.append((words, kind))
    return found


# --- parts of the screen ---------------------------------------------------------


def _title(state: State, width: int) -> Line:
    """The first line."""
    host = (state.frame.now.host or text.UNKNOWN) if state.frame else ""
    paused = ["PAUSED"] if state.paused else []
    if state.live:
        every = f"every {state.interval:g} s"
        if state.slowed:
            every += ": samples cost > 5 % CPU"
        words = [*paused, "tierctl watch", host, state.clock, every]
    else:
        words = ["RECORDED", *paused, state.played, state.clock, host]
    line = plain("  ".join(one for one in words if one))
    return fit([(line, ALARM if state.slowed and state.live else BAR)], width, BAR)


def _footer(state: State, width: int) -> Line:
    """The last line."""
    if state.message:
        kind = ALARM if state.alarm else BAR
        return fit([(plain(state.message), kind)], width, kind)
    keys = KEYS if state.live else PLAYED_KEYS
    return fit([(keys if state.view == MAIN else TEXT_KEYS, BAR)], width, BAR)


def _sums(nodes: list[Node]) -> str:
    """The tiers in one line."""
    words = []
    for tier in ("fast", "slow"):
        own = [one for one in nodes if one.tier == tier]
        total = sum(one.total or 0 for one in own)
        if own:
            used = None if None in [one.used for one in own] else sum(one.used or 0 for one in own)
            words.append(f"{tier} {text.size(total)} {text.share(used, total)}")
    return "   ".join(words) or "No NUMA node."


def _nodes(frame: Frame, most: int) -> list[str]:
    """The table of nodes; in one line if it has more than ``most``."""
    data: Status = frame.status.data
    rows = status.node_rows(data.nodes)
    if len(rows) > most:
        return [_sums(data.nodes)]
    return status.table_lines(rows, "<>>>>><", STYLE)


def _findings(frame: Frame) -> list[str]:
    """The worst finding, and how many more there are."""
    found: Status = frame.status.data
    serious = [one for one in found.findings if one.severity != INFO]
    lines = doctor.draw_finding(serious[0], STYLE) if serious else []
    more = len(found.findings) - len(serious[:1])
    if more and serious:
        lines.append(f"   {more} more finding{'s' if more > 1 else ''}: tierctl doctor")
    return lines


def _heat(frame: Frame) -> list[str]:
    """The histogram without its legend."""
    if frame.heat is None:
        return []
    data: Heat = frame.heat.data
    unclear = any(row.use == UNCLEAR and (row.fast or row.slow) for row in data.rows)
    left_out = (OTHER,) if unclear else (OTHER, UNCLEAR)
    rows = [row for row in data.rows if row.use not in left_out]
    unit, lines = heat.picture(replace(data, rows=rows), STYLE)
    return [f"{lines[0]}  {unit.replace('1 character', '#')}", *lines[1:]]


def _groups(state: State, frame: Frame, rows: int, width: int) -> list[Line]:
    """The head of the table and ``rows`` rows, the selected one among them."""
    if frame.top is None:
        words = text.wrap(f"No groups: {frame.errors.get('top', '?')}", width=width)
        return [pieces(STYLE.paint("dim", one)) for one in words[: rows + 1]]
    data: Top = frame.top.data
    drawn = top.draw(frame.top, STYLE)
    head, body = drawn[0], drawn[1 : 1 + len(data.groups)]
    paths = [one.path for one in data.groups]
    at = paths.index(state.selected) if state.selected in paths else -1
    first = max(0, min(at - rows // 2, len(body) - rows))
    lines = [pieces(head)]
    for number, line in enumerate(body[first : first + rows], first):
        found = pieces(line)
        if number == at:
            found = fit([(words, SELECTED) for words, _ in found], width, SELECTED)
        lines.append(found)
    return lines if body else [*lines, [("No group.", PLAIN)]][: rows + 1]


def _main(state: State, width: int, height: int) -> list[Line]:
    """Status, groups, and the heat if there is room."""
    frame = state.frame
    if frame is None:
        return [[("Reads the machine ...", PLAIN)]]
    data: Status = frame.status.data
    columns = max(20, min(width, text.WIDTH))
    head = status.head_lines(data, STYLE, columns)
    figures = status.figure_lines(data, STYLE, columns)
    nodes = _nodes(frame, max(3, height - FEW_GROUPS - 1 - len(head) - len(figures)))
    core = [*head, *nodes, *figures][: max(1, height - FEW_GROUPS)]
    left = height - len(core)
    count = len(frame.top.data.groups) if frame.top else 1
    few = 1 + min(count, FEW_GROUPS)
    picture = _heat(frame)
    for lines in (_findings(frame), unknown(frame.status, status.EXPLAINED)):
        if len(lines) <= left - few - len(picture) or (lines and len(lines) <= left - few - 1 > 9):
            core += lines
            left -= len(lines)
    with_heat = bool(picture) and left >= few + len(picture)
    rows = left - 1 - (len(picture) if with_heat else 0)
    found = [pieces(line) for line in core]
    found += _groups(state, frame, max(0, min(rows, max(count, 1))), width)
    if with_heat:
        found += [pieces(line) for line in picture]
    return found


def body_lines(state: State, width: int) -> list[Line]:
    """All lines of a text view."""
    lines = state.lines
    if state.view == HELP:
        lines = HELP_TEXT.split("\n")
    found = []
    for line in lines:
        one = pieces(line)
        found += [one] if state.view == HEAT else fold(one, width)
    return found


def last_scroll(state: State, width: int, height: int) -> int:
    """How far a text view scrolls."""
    return 0 if state.view == MAIN else max(0, len(body_lines(state, width)) - (height - 2))


def draw(state: State, width: int, height: int) -> list[Line]:
    """The screen: ``height`` lines of ``width`` characters."""
    width, height = max(1, width), max(1, height)
    room = max(0, height - 2)
    if state.view == MAIN:
        body = _main(state, width, room) if room else []
    else:
        first = min(state.scroll, last_scroll(state, width, height))
        body = body_lines(state, width)[first:]
    lines = [_title(state, width), *(fit(line, width) for line in body[:room])]
    lines += [fit([], width)] * (room - len(lines) + 1)
    return [joined(line) for line in [*lines, _footer(state, width)][-height:]]


def choices(state: State) -> list[str]:
    """The paths of the groups that may be selected."""
    frame = state.frame
    return [one.path for one in frame.top.data.groups] if frame and frame.top else []


def name(path: str | None) -> str:
    """What is selected, in words."""
    return groups.title(path) if path else "the machine"
