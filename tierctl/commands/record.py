# SPDX-License-Identifier: GPL-2.0
"""tierctl record: samples of the machine in a ring of files, for `tierctl report`."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import time
from pathlib import Path
from typing import Any

from tierctl.change import config
from tierctl.core import text
from tierctl.core.errors import FINDING, TierctlError
from tierctl.core.pace import Pace, say
from tierctl.core.paths import RECORD
from tierctl.core.reply import Note, Reply, unknown
from tierctl.core.source import Live, Source
from tierctl.model import history
from tierctl.model.addressmap import Mapper
from tierctl.model.history import Look
from tierctl.model.snapshot import Sampler, Snapshot
from tierctl.record import ring
from tierctl.record.ring import Ring

LRU_EVERY = 30.0  # seconds; the text of MGLRU is long
SHARE = 0.01  # of one CPU


class Recorder:
    def __init__(self, source: Source, files: Ring, every: float, mapper: Mapper | None) -> None:
        self.source, self.files, self.mapper, self.cpu = source, files, mapper, time.process_time
        self.pace = Pace(every, SHARE)
        self.sampler = Sampler(source, LRU_EVERY)
        self.samples = self.lost = 0
        self.sources: dict[str, Note] = {}

    def once(self) -> None:
        began = self.cpu()
        now = self.sampler.take()
        self.sources = now.sources
        line = history.to_line(history.point(now, self._look(now)))
        try:
            self.files.append(now.time, line)
            self.samples += 1
        except OSError as error:
            self.lost += 1
            if self.lost & (self.lost - 1) == 0:  # 1, 2, 4, ...: the journal stays short
                say(f"samples lost: {self.lost}, {error.strerror or error}; recording goes on")
        if self.pace.spent(self.cpu() - began):
            say(f"a sample costs more than 1 % of a CPU: one each {self.pace.interval:.0f} s now")

    def _look(self, now: Snapshot) -> Look | None:
        """The process by address now; recording goes on without it."""
        try:
            cells = self.mapper.take(now.machine) if self.mapper else []
        except TierctlError as error:
            say(f"--map ends: {error}")
            self.mapper = None
        found = self.mapper and self.mapper.map
        if not found:
            return None
        begins = [one.begin for one in found.columns]
        size = found.places * found.place_bytes
        return Look(found.pid, found.name, size, found.holes, begins, cells)

    def run(self, most: int | None) -> None:
        """Until Ctrl-C, or so many samples."""
        due = self.source.clock()
        while True:
            self.once()
            if most is not None and self.samples + self.lost >= most:
                return
            now = self.source.clock()
            due = max(due + self.pace.interval, now)
            self.source.wait(due - now)


def command(args: argparse.Namespace, source: Source) -> int:
    if not isinstance(source, Live):
        raise TierctlError("record needs a live machine", "leave out --from")
    if args.json:
        raise TierctlError("record prints no JSON", "its files are lines of JSON")
    settings = config.record(source)
    every = args.every or settings.every_s
    place = Path(args.directory) if args.directory else source.place(RECORD)
    mapper = None if args.map is None else Mapper(source, args.map)
    with Ring(place, settings.keep_days, settings.max_mb * ring.MIB) as files:
        found = Recorder(source, files, every, mapper)
        if args.samples is None:
            say(f"a sample each {every} s into {place}, Ctrl-C ends")
        with contextlib.suppress(KeyboardInterrupt):
            found.run(args.samples)
    lost = f", {found.lost} lost" if found.lost else ""
    option = f"--from {shlex.quote(args.directory)} " if args.directory else ""
    lines = [
        f"{place}: {found.samples} sample{'s' * (found.samples != 1)}{lost}",
        f"Look at them with: tierctl {option}report",
        *unknown(Reply("", None, found.sources), ("hot_on_slow", "cost")),
    ]
    print("\n".join(lines))
    return FINDING if found.lost else 0


def add_commands(commands: Any) -> None:
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
