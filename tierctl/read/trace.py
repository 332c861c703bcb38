# SPDX-License-Identifier: GPL-2.0
"""Visits of workers and skips of promoters: tracepoints of the system tier, and debugfs tier/spans.

tierctl listens by an instance of tracefs of its own, so that it disturbs no other user of
tracing.  It removes the instance at the end, and one that a dead tierctl has left.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import NamedTuple, NoReturn

from tierctl.core.errors import as_root
from tierctl.core.parse import labelled_kib, number, ranges
from tierctl.core.paths import ONLINE, TRACING
from tierctl.core.reply import Note, note_for
from tierctl.core.source import ABSENT, Source

INSTANCES = f"{TRACING}/instances"
PREFIX = "tierctl-"
PASS, SKIP = "tier_scan_pass", "tier_promote_skip"
EVENTS = (PASS, SKIP)
WATERMARK = "watermark"  # the reason of a skip that proves a cause: the fast node is full
SPANS = "/sys/kernel/debug/tier/spans"
BUFFER_KIB = 512  # for each CPU
FIRST_KIB = 1408  # what the kernel gives an instance for each CPU before it can be told less
SPARE = 16  # an instance may take one part in so many of the memory that is available
MOST_S = 10
# Options that an instance takes over from the top, and that change the text
OPTIONS = ("noraw", "nohex", "nobin", "nofields", "context-info")

WRITTEN = re.compile(r"^# entries-in-buffer/entries-written: (\d+)/(\d+)", re.MULTILINE)
LINE = re.compile(rf" \d+\.\d+: ({PASS}|{SKIP}): (.*)$", re.MULTILINE)
SYMBOL = re.compile(r'\{ (\d+), "(\w+)" \}')  # of __print_symbolic() in a file `format`
FIELD = re.compile(r"(\w+)=(\S+)")
HEX = ("begin", "end")  # columns of SPANS


class Visit(NamedTuple):
    """A visit of an address space."""

    pid: int
    change: int  # a look for change, which finds no candidates
    window_us: int
    pushed: int  # candidates, in base pages
    done: int  # the visit ended a turn over all page tables; 0: no, or the kernel does not say


class Skip(NamedTuple):
    """A folio that a promoter has left."""

    nid: int  # where it was to go
    reason: str


class Span(NamedTuple):
    """The last visit of an address space, from debugfs tier/spans."""

    pid: int
    cgroup: int
    begin: int
    end: int
    window_us: int
    first: int
    last: int
    pushed: int
    age_ms: int
    turn: int


@dataclass
class Heard:
    """What the tracepoints have told."""

    visits: list[Visit] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    lost: int = 0  # events for which the buffer had no room


def _visit(values: dict[str, str]) -> Visit | None:
    found = [number(({"done": "0"} | values).get(name)) for name in Visit._fields]
    known = [one for one in found if one is not None]
    return Visit(*known) if len(known) == len(found) else None


def parse(text: str) -> Heard:
    """The text of the file `trace` of an instance."""
    heard = Heard()
    written = WRITTEN.search(text)
    if written:
        heard.lost = max(0, int(written[2]) - int(written[1]))
    for event, rest in LINE.findall(text):
        values = dict(FIELD.findall(rest))
        if event == PASS:
            visit = _visit(values)
            heard.visits += [visit] if visit else []
        else:
            nid = number(values.get("nid"))
            heard.skips += [] if nid is None else [Skip(nid, values.get("reason", "?"))]
    return heard


def spans(source: Source) -> dict[int, Span] | None:
    """The last visit of each address space, by the pid of its owner; None: the kernel has no file.

    The first line has the names of the columns.  The kernel does not tell the owner (pid 0) of an
    address space that its owner has left.
    """
    lines = (source.get(SPANS) or "").splitlines()
    names = lines[0].split() if lines else []
    if not set(Span._fields) <= set(names):
        return None
    found = {}
    for line in lines[1:]:
        words = dict(zip(names, line.split(), strict=False))
        try:
            values = (int(words[name], 16 if name in HEX else 10) for name in Span._fields)
            one = Span(*values)
        except (KeyError, ValueError):
            continue
        if one.pid:
            found[one.pid] = one
    return found


# --- instance --------------------------------------------------------------------


def _remove(source: Source, place: str) -> None:
    with suppress(OSError):
        source.rmdir(place)  # the kernel switches its events off


def tidy(source: Source) -> None:
    """Remove instances of tierctl whose process is dead."""
    for name in source.listing(INSTANCES) or []:
        pid = name.removeprefix(PREFIX)
        if not name.startswith(PREFIX) or not (pid.isascii() and pid.isdigit()):
            continue
        dead = source.get(f"/proc/{pid}/comm") is None and source.why(f"/proc/{pid}/comm") == ABSENT
        if dead or int(pid) == os.getpid():
            _remove(source, f"{INSTANCES}/{name}")


def too_big(source: Source) -> bool:
    """The buffers of an instance would take much of the memory that is left."""
    cpus = len(ranges(source.get(ONLINE)) or [0])
    available = labelled_kib(source.get("/proc/meminfo")).get("MemAvailable")
    return available is not None and cpus * (FIRST_KIB << 10) > available // SPARE


def _end(number_: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number_)


@contextmanager
def _ends_tidily() -> Iterator[None]:
    """Let SIGTERM and SIGHUP run what is to be run at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = [
        one
        for one in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(one) == signal.SIG_DFL  # nohup ignores SIGHUP
    ]
    before = {one: signal.signal(one, _end) for one in usual}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def instance(source: Source) -> Iterator[Note]:
    """Listen; the note says whether the events are on."""
    known = source.listing(INSTANCES) is not None
    if not known and (source.live or source.why(INSTANCES) == ABSENT):
        todo = "mount -t tracefs tracefs /sys/kernel/tracing; needs CONFIG_FTRACE"
        yield note_for(source, INSTANCES, todo)
        return
    if not source.live:
        yield Note(INSTANCES)
        return
    if source.get(f"{TRACING}/events/tier/{PASS}/format") is None:
        yield note_for(source, f"{TRACING}/events/tier/{PASS}/format", "needs a tiershift kernel")
        return
    if too_big(source):
        cpus = "the buffers of tracing would take much of the free memory"
        yield Note(None, f"{cpus} ({FIRST_KIB} KiB a CPU)", "free some memory")
        return
    tidy(source)
    place = f"{INSTANCES}/{PREFIX}{os.getpid()}"
    with _ends_tidily():
        try:
            yield _begin(source, place)
        finally:
            _remove(source, place)


def _filter(source: Source) -> str:
    """Skips that prove a cause: others come in thousands, and would fill the buffer."""
    known = SYMBOL.findall(source.get(f"{TRACING}/events/tier/{SKIP}/format") or "")
    return " || ".join(f"reason == {value}" for value, name in known if name == WATERMARK)


def _begin(source: Source, place: str) -> Note:
    try:
        source.mkdir(place)
        source.write(f"{place}/buffer_size_kb", str(BUFFER_KIB))
        for option in OPTIONS:
            with suppress(OSError):
                source.write(f"{place}/trace_options", option)
        wanted = _filter(source)
        if wanted:
            with suppress(OSError):
                source.write(f"{place}/events/tier/{SKIP}/filter", wanted)
        for event in EVENTS:
            source.write(f"{place}/events/tier/{event}/enable", "1")
    except OSError as error:
        return Note(None, f"{place}: {error.strerror}", f"{as_root()}; see dmesg")
    return Note(place)


def heard(source: Source, note: Note) -> Heard | None:
    """What the instance has; of a bundle, what was recorded."""
    if note.origin is None:
        return None
    for name in source.listing(INSTANCES) or []:
        if name.startswith(PREFIX) and (not source.live or note.origin.endswith(f"/{name}")):
            text = source.get(f"{INSTANCES}/{name}/trace")
            if text is not None:
                return parse(text)
    return None
