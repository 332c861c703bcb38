# SPDX-License-Identifier: GPL-2.0
"""The past of a machine: points in time, from the files of `tierctl record` or from a bundle.

A line of a record is a Point as JSON: what `tierctl report` draws.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

from tierctl.core.bundle import LATEST, Bundle
from tierctl.core.errors import DENIED, TierctlError, as_root
from tierctl.core.reply import plain
from tierctl.model.snapshot import Sampler, Snapshot

SCHEMA = "tierctl-record/1"
FIRST = "-first"  # of an hour that is too long
FILE = re.compile(rf"\d{{4,5}}-\d\d-\d\dT\d\d({FIRST})?\.jsonl")  # of an hour, in UTC
LINE = 4 << 20  # bytes; a longer line is damaged
MOST = 10_000  # points; of more lines an even choice is read
LARGEST = 1e18

Figures = dict[str, int | None]


@dataclass
class Look:
    """A process by address: for each column where it begins, and the share of slow pages."""

    pid: int
    name: str | None
    bytes: int  # of addresses
    holes: int  # that are cut out
    begins: list[int]
    cells: list[float | None]  # None: no page


@dataclass
class Point:
    """The machine at one time; rates are since the time before.  None: unknown."""

    time: float
    host: str | None
    kernel: str | None
    tiers: dict[str, Figures]  # bytes used and free by tier; empty if tiers are unknown
    use: dict[str, Figures]  # bytes by tier and class of last use
    hot: int | None  # bytes on slow nodes
    hot_by: str | None
    cpu: dict[str, float | None]  # CPUs by kind of thread
    faults: float | None  # hint faults a second
    map: Look | None = None
    schema: str = SCHEMA


@dataclass
class History:
    """Points, oldest first."""

    name: str
    points: list[Point] = field(default_factory=list)
    samples: int = 0  # that were recorded
    damaged: int = 0  # lines


def point(now: Snapshot, look: Look | None = None) -> Point:
    tiers: dict[str, Figures] = {}
    for tier in ("fast", "slow"):
        for name in ("used", "free") if now.machine.of_tier(tier) else ():
            values = [getattr(one, name) for one in now.machine.of_tier(tier)]
            tiers.setdefault(tier, {})[name] = None if None in values else sum(values)
    hot, cpu = now.hot_total().bytes, now.cost.cpu if now.cost else {}
    faults = now.flow.hint_faults_per_s if now.flow else None
    return Point(now.time, now.host, now.kernel, tiers, now.use, hot, now.hot_by, cpu, faults, look)


def to_line(one: Point) -> bytes:
    return json.dumps(plain(one), separators=(",", ":")).encode() + b"\n"


def _number(word: str) -> float:
    found = float(word)
    if not 0 <= found < LARGEST:
        raise ValueError("no number")
    return int(word) if word.isdecimal() else found


def from_line(line: bytes) -> Point:
    """A line as a point; raises ValueError, or an error that says to install a newer tierctl."""
    found = json.loads(line, parse_int=_number, parse_float=_number, parse_constant=_number)
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith("tierctl-record/"):
            what = f"the record has the schema {schema[:40]!r}"
            raise TierctlError(what, "install a newer tierctl")
        raise ValueError("no record")
    try:
        one = Point(**{each.name: found[each.name] for each in dataclasses.fields(Point)})
        one.map = one.map and Look(**found["map"])
        if _sound(one):
            return one
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError("no point") from error
    raise ValueError("no point")


def _sound(one: Point) -> bool:
    """Each value has its type, and addresses grow from column to column."""
    look = one.map or Look(0, None, 0, 0, [0], [0])
    rows: list[dict[str, Any]] = [*one.tiers.values(), *one.use.values(), one.cpu]
    figures = (one.hot, one.faults, *look.cells, *(each for row in rows for each in row.values()))
    return (
        one.time < LATEST
        and {*map(type, figures)} <= {int, float, NoneType}
        and {*map(type, (one.host, one.kernel, one.hot_by, look.name))} <= {str, NoneType}
        and {*map(type, (look.pid, look.bytes, look.holes, *look.begins))} == {int}
        and look.begins == sorted(look.begins)
        and len(look.begins) == len(look.cells)
    )


def files(place: Path) -> list[Path]:
    """The files of a record in a directory, oldest first.  Raises OSError."""
    found = [one for one in os.listdir(place) if FILE.fullmatch(one)]
    return [place / one for one in sorted(found, key=lambda one: (one.index("T"), one))]


def lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a file."""
    with path.open("rb") as file:
        while line := file.readline(LINE):
            if line.endswith(b"\n"):
                yield line


def _wanted(path: Path) -> list[Path]:
    todo = "record first: tierctl record, or give --from RECORD or BUNDLE"
    try:
        if not path.is_dir():
            path.open("rb").close()
            return [path]
        found = files(path)
    except FileNotFoundError:
        raise TierctlError(f"there is no record {path}", todo) from None
    if not found:
        raise TierctlError(f"{path} has no file of a record", todo)
    return found


def _of_record(path: Path) -> History:
    """A directory of `record`, or one file of it."""
    found, step = History(path.name), 1
    for line in (line for one in _wanted(path) for line in lines(one)):
        if found.samples % step == 0:
            try:
                found.points.append(from_line(line))
            except (ValueError, RecursionError):
                found.damaged += 1
        found.samples += 1
        if len(found.points) > MOST:
            del found.points[1::2]
            step *= 2
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
    lined = path.is_dir() or path.name.endswith(".jsonl")
    try:
        found = _of_bundle(path) if path.exists() and not lined else _of_record(path)
    except PermissionError as error:
        raise TierctlError(f"{error.filename or path} may not be read", as_root(), DENIED) from None
    found.points.sort(key=lambda one: one.time)
    if not found.points:
        what = f"{path.name} has no sample that can be read"
        raise TierctlError(what, "record for a while: tierctl record")
    return found
