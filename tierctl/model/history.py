# SPDX-License-Identifier: GPL-2.0
"""The past of a machine: points in time, from the files of `tierctl record` or from a bundle.

A line of a record is a Point as JSON: the answer of `tierctl status` with memory by last use, and
with a process by address if the recorder looks at one.  The recorder makes no checks.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from tierctl.core.bundle import Bundle
from tierctl.core.errors import DENIED, USAGE, TierctlError, as_root
from tierctl.core.reply import plain
from tierctl.model import status
from tierctl.model.addressmap import AddressMap
from tierctl.model.document import decode
from tierctl.model.snapshot import Sampler, Snapshot
from tierctl.model.status import Finding, Status, Verified

SCHEMA = "tierctl-record/1"
FILE = re.compile(r"\d{4,5}-\d\d-\d\dT\d\d\.jsonl(\.gz)?")  # of an hour, in UTC
LINE = 4 << 20  # bytes; a longer line is damaged
MOST = 10_000  # points; of more lines an even choice is read
LATEST = 1e12  # seconds since 1970
DIGITS = 18


@dataclass
class Point:
    """The machine at one time; rates are since the time before."""

    time: float
    host: str | None
    kernel: str | None
    status: Status
    use: dict[str, dict[str, int | None]]  # bytes by tier and class of last use
    map: AddressMap | None = None  # with one row
    schema: str = SCHEMA


@dataclass
class History:
    """Points, oldest first."""

    name: str
    points: list[Point] = field(default_factory=list)
    samples: int = 0  # that were recorded
    damaged: int = 0  # lines, or files that end early


@dataclass
class _NoChecks:
    findings: list[Finding] = field(default_factory=list)
    not_done: dict[str, str] = field(default_factory=dict)


def point(now: Snapshot, cells: AddressMap | None = None) -> Point:
    """A snapshot as a point."""
    found = status.of(now, Verified(), _NoChecks())
    return Point(now.time, now.host, now.kernel, found, now.use, cells)


def to_line(one: Point) -> bytes:
    """A point as a line."""
    return json.dumps(plain(one), separators=(",", ":")).encode() + b"\n"


def _whole(word: str) -> int:
    if len(word) > DIGITS or word.startswith("-"):
        raise ValueError("no count")
    return int(word)


def _real(word: str) -> float:
    found = float(word)
    if not 0 <= found < 10.0**DIGITS:
        raise ValueError("no number")
    return found


def _constant(word: str) -> NoReturn:
    raise ValueError(word)


def from_line(line: bytes) -> Point:
    """A line as a point; raises ValueError, or an error that says to install a newer tierctl."""
    found = json.loads(line, parse_int=_whole, parse_float=_real, parse_constant=_constant)
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith("tierctl-record/"):
            what = f"the record has the schema {schema[:40]!r}"
            raise TierctlError(what, "install a newer tierctl")
        raise ValueError("no record")
    one = decode(Point, found)
    if one.time > LATEST or (one.map and not _sound(one.map)):
        raise ValueError("no point")
    return one


def _sound(found: AddressMap) -> bool:
    """Addresses grow from column to column, and a row has a cell for each of them."""
    edges = [edge for one in found.columns for edge in (one.begin, one.end)]
    return edges == sorted(edges) and [len(one.cells) for one in found.rows] == [len(edges) // 2]


# --- files -----------------------------------------------------------------------


def files(place: Path) -> list[Path]:
    """The files of a directory, oldest first; of an hour the compressed one.  Raises OSError."""
    found = [one for one in os.listdir(place) if FILE.fullmatch(one)]
    hours = {one: one.partition(".")[0] for one in found}
    order = sorted(found, key=lambda one: (len(hours[one]), hours[one], not one.endswith(".gz")))
    return [place / one for one in order]


def lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a file; raises EOFError if a compressed file ends early, or is none."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            while line := file.readline(LINE):
                if line.endswith(b"\n"):
                    yield line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise EOFError(path.name) from error


def _wanted(path: Path) -> list[Path]:
    todo = "record first: tierctl record, or give --from RECORD or BUNDLE"
    try:
        if not path.is_dir():
            path.open("rb").close()
            return [path]
        found = files(path)
    except FileNotFoundError:
        raise TierctlError(f"there is no record {path}", todo, USAGE) from None
    if not found:
        raise TierctlError(f"{path} has no file of a record", todo, USAGE)
    return found


def _of_record(path: Path) -> History:
    """A directory of `record`, or one file of it."""
    found = History(path.name)
    wanted = _wanted(path)

    def every() -> Iterator[bytes]:
        for one in wanted:
            try:
                yield from lines(one)
            except EOFError:
                found.damaged += 1

    found.samples = sum(1 for _ in every())
    found.damaged = 0
    step = -(-found.samples // MOST) or 1
    for number, line in enumerate(every()):
        if number % step == 0:
            try:
                found.points.append(from_line(line))
            except (ValueError, RecursionError):
                found.damaged += 1
    return found


def _of_bundle(path: Path) -> History:
    """A file of `capture`: a point for each of its samples."""
    source = Bundle(str(path))
    sampler = Sampler(source)
    found = History(path.name, samples=source.samples)
    for number in range(source.samples):
        source.go(number)
        found.points.append(point(sampler.take()))
    return found


def load(path: Path) -> History:
    """A record or a bundle; without a point it is an error."""
    lined = path.is_dir() or path.name.endswith((".jsonl", ".jsonl.gz"))
    try:
        found = _of_bundle(path) if path.exists() and not lined else _of_record(path)
    except PermissionError as error:
        what = f"{error.filename or path} may not be read"
        raise TierctlError(what, as_root(), DENIED) from None
    found.points.sort(key=lambda one: one.time)
    known: list[Point] = []
    for one in found.points:  # a crash while an hour is compressed leaves its lines twice
        if not known or one.time != known[-1].time:
            known.append(one)
    found.samples -= len(found.points) - len(known)
    found.points = known
    if not known:
        what = f"{path.name} has no sample that can be read"
        raise TierctlError(what, "record for a while: tierctl record", USAGE)
    return found
