# SPDX-License-Identifier: GPL-2.0
"""On the host: what lab/looks.py has copied in a guest, as a source of tierctl.

tierctl's own code then draws it, and makes a bundle of it.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lab import looks
from tierctl.commands import capture, heat
from tierctl.commands import report as tierctl_report
from tierctl.core import bundle, text
from tierctl.core.paths import ETC, HOSTNAME, RELEASE, STATE
from tierctl.core.source import ABSENT, MISSING, Source, failure
from tierctl.model import history
from tierctl.model.snapshot import Sampler
from tierctl.watch.screen import Frame
from tierctl.watch.viewer import Samples

LICENCE = b"SPDX-License-Identifier: GPL-2.0\0"
COMMENT = 16  # flag of gzip's header
PLAIN = text.Style(False)
WITHOUT = (ETC, STATE)  # the lab applies no profile


Copy = dict[str, Any]  # time, label, and files: their text by path


class Seen(Source):
    """Copies, one after the other."""

    def __init__(self, samples: Iterable[Copy]) -> None:
        super().__init__()
        self.samples = list(samples)
        self.at = 0

    def go(self, label: str) -> None:
        """Go to the last sample with a label."""
        self.at = max(i for i, one in enumerate(self.samples) if one["label"] == label)

    @property
    def _files(self) -> dict[str, str]:
        found: dict[str, str] = self.samples[self.at]["files"]
        return found

    def read(self, path: str) -> str:
        if path not in self._files:
            raise _lacks(path)
        return self._files[path].removesuffix("\n")

    def entries(self, path: str) -> list[str]:
        before = f"{path.rstrip('/')}/"
        rest = [one.removeprefix(before) for one in self._files if one.startswith(before)]
        if not rest:
            raise _lacks(path)
        return sorted({f"{head}{slash}" for head, slash, _ in (one.partition("/") for one in rest)})

    def pread(self, path: str, size: int, offset: int) -> bytes:
        raise failure(MISSING, path)

    def time(self) -> float:
        found: float = self.samples[self.at]["time"]
        return found

    def wait(self, seconds: float) -> None:
        if self.at + 1 >= len(self.samples):
            raise EOFError("there is no further sample")
        self.at += 1


def _lacks(path: str) -> OSError:
    """The guest has no such file, or it was not asked for."""
    asked = path.startswith(WITHOUT) or any(
        fnmatch.fnmatchcase(path, one) or one.startswith(f"{path}/") for one in looks.PATTERNS
    )
    return failure(ABSENT if asked else MISSING, path)


def read(file: Path) -> list[Copy]:
    """The samples of a file; one that is being written is left out."""
    try:
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:  # there is none yet
        return []
    return [json.loads(line) for line in lines]


def latest(samples: list[Copy]) -> Frame:
    """What `tierctl watch` shows of the last sample, with rates since the one before."""
    source = Seen(samples[-2:])
    found = Samples(source)
    if len(source.samples) > 1:
        found.take()
        source.wait(0)
    return found.take()


def triangle(samples: list[Copy], label: str) -> list[str]:
    """Memory by last use and tier in the sample with a label, as `tierctl heat` draws it."""
    source = Seen(samples)
    source.go(label)
    data: heat.Heat = heat.histogram(Sampler(source).take(), None).data
    rows = [row for row in data.rows if row.fast or row.slow]
    unit, lines = heat.picture(dataclasses.replace(data, rows=rows), PLAIN)
    return [f"{lines[0]}   # {unit.removeprefix('1 character ')}", *lines[1:]]


def report(file: Path) -> str:
    """The HTML of `tierctl report` of a bundle."""
    read = history.load(file)
    return tierctl_report.build([read], tierctl_report.ends(read.points))


def save(samples: list[Copy], path: Path) -> None:
    """A bundle of tierctl, with the licence in the header of gzip."""
    source = Seen(samples)
    host, kernel = source.read(HOSTNAME), source.read(RELEASE)
    found = capture.record(source, len(samples), 0.0).samples
    bundle.save(path, found, host, kernel)
    packed = path.read_bytes()
    flags = bytes([packed[3] | COMMENT])
    path.chmod(0o644)  # it has no name of this machine
    path.write_bytes(packed[:3] + flags + packed[4:10] + LICENCE + packed[10:])
