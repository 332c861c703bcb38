# SPDX-License-Identifier: GPL-2.0
"""tierctl record: samples of the machine in a ring of files, for `tierctl report`."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tierctl.change import config
from tierctl.core import text
from tierctl.core.errors import FINDING, USAGE, TierctlError
from tierctl.core.pace import Pace, cpu_s, say
from tierctl.core.paths import RECORD
from tierctl.core.reply import Note, Reply, show, unknown
from tierctl.core.source import Live, Source
from tierctl.model import history
from tierctl.model.addressmap import AddressMap, Line, Mapper
from tierctl.model.snapshot import Sampler, Snapshot
from tierctl.record import ring
from tierctl.record.ring import Ring

LRU_EVERY = 30.0  # seconds; the text of MGLRU is long
SHARE = 0.01  # of one CPU


@dataclass
class Recorded:
    """What was written."""

    directory: str
    samples: int
    every_s: float
    lost: int  # samples that could not be written


class Recorder:
    """One sample after the other."""

    def __init__(
        self,
        source: Source,
        files: Ring,
        every: float,
        mapper: Mapper | None = None,
        cpu: Callable[[], float] = cpu_s,
    ) -> None:
        self.source, self.files, self.mapper, self.cpu = source, files, mapper, cpu
        self.pace = Pace(every, SHARE)
        self.sampler = Sampler(source, LRU_EVERY)
        self.samples = self.lost = 0
        self.sources: dict[str, Note] = {}
        self._trouble = ""

    def once(self) -> None:
        """Take a sample, and write it."""
        began = self.cpu()
        now = self.sampler.take()
        self.sources = now.sources
        line = history.to_line(history.point(now, self._map(now)))
        try:
            self.files.append(now.time, line)
        except OSError as error:
            self.lost += 1
            trouble = f"a sample is lost: {error.strerror or error}"
            if trouble != self._trouble:
                say(f"{trouble}; tierctl tries again with each sample")
            self._trouble = trouble
        else:
            self.samples += 1
            self._trouble = ""
        if self.pace.spent(self.cpu() - began):
            say(f"a sample costs more than 1 % of a CPU: one each {self.pace.interval:.0f} s now")

    def _map(self, now: Snapshot) -> AddressMap | None:
        """The process by address now; recording goes on without it."""
        if self.mapper is None:
            return None
        try:
            cells = self.mapper.take(now.machine)
        except TierctlError as error:
            say(f"--map ends: {error}")
            self.mapper = None
            return None
        found = self.mapper.map
        return found and replace(found, rows=[Line(now.time, cells)])

    def run(self, most: int | None) -> None:
        """Until Ctrl-C, or so many samples."""
        due, jumps = self.source.time(), self.source.jumps
        while True:
            self.once()
            if most is not None and self.samples + self.lost >= most:
                return
            now = self.source.time()
            if jumps != self.source.jumps:
                due, jumps = now, self.source.jumps
            due = max(due + self.pace.interval, now)
            self.source.wait(due - now)


def command(args: argparse.Namespace, source: Source) -> int:
    """Record until Ctrl-C."""
    if not isinstance(source, Live):
        raise TierctlError("record needs a live machine", "leave out --from", USAGE)
    settings = config.record(source)
    every = args.every or settings.every_s
    place = Path(args.directory) if args.directory else source.place(RECORD)
    mapper = None if args.map is None else Mapper(source, args.map)
    with Ring(place, settings.keep_days, settings.max_mb * ring.MIB) as files:
        found = Recorder(source, files, every, mapper)
        if args.samples is None and not args.json:
            say(f"a sample each {every} s into {place}, Ctrl-C ends")
        with contextlib.suppress(KeyboardInterrupt):
            found.run(args.samples)
    data = Recorded(str(place), found.samples, found.pace.interval, found.lost)
    code = FINDING if found.lost else 0
    reply = Reply("record", data, found.sources, code)
    return show(reply, source, args, lambda reply, style: _draw(reply, args.directory))


def _draw(reply: Reply, directory: str | None) -> list[str]:
    data: Recorded = reply.data
    samples = "1 sample" if data.samples == 1 else f"{data.samples} samples"
    lost = f", {data.lost} lost" if data.lost else ""
    place = f"--from {shlex.quote(directory)} " if directory else ""
    return [
        f"{data.directory}: {samples}{lost}",
        f"Look at them with: tierctl {place}report",
        *unknown(reply, ("hot_on_slow", "cost")),
    ]


SCHEMAS = {"record": Recorded}  # by kind of answer


def add_commands(commands: Any) -> None:
    """The sub-command record."""
    one = commands.add_parser(
        "record",
        help="samples of the machine in a ring of files, for report",
        description=f"One file an hour in {RECORD}; the limits are in the table [record] of "
        "tierctl.toml.  As a service: systemctl enable --now tierctl-record.",
    )
    one.add_argument("--every", type=text.number_from(1, 3600), metavar="SECONDS")
    one.add_argument("--samples", type=text.number_from(1, 10_000_000), metavar="N")
    one.add_argument("--directory", metavar="DIR", help=f"instead of {RECORD}")
    one.add_argument(
        "--map",
        type=text.number_from(1, 1 << 22),
        metavar="PID",
        help="also where the memory of a process lies, by address (root)",
    )
    one.set_defaults(func=command)
