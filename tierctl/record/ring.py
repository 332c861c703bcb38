# SPDX-License-Identifier: GPL-2.0
"""The files of `tierctl record`: one an hour, two of an hour that is too long.

A line is written with one write(2).  After a crash the last line may be cut: readers leave it
out, and the next recorder ends it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from pathlib import Path

from tierctl.core import files
from tierctl.core.errors import failed
from tierctl.model.history import FIRST
from tierctl.model.history import files as of_record

LOCK = ".lock"
MIB = 1 << 20
FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Ring:
    """The files, written by one process at a time."""

    def __init__(self, place: Path, keep_days: int, most: int) -> None:
        self.place, self.keep_days, self.most = place, keep_days, most
        self._held = contextlib.ExitStack()
        self._file, self._path = -1, place
        self._bytes = 0  # of all files

    def __enter__(self) -> Ring:
        busy = f"another tierctl records into {self.place} (systemctl stop tierctl-record)"
        try:
            self.place.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._held.enter_context(files.locked(self.place / LOCK, 0, busy))
        except OSError as error:
            what = f"{error.filename or self.place} cannot be written"
            raise failed(error, what, "check the directory, or give --directory") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self._held.close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def append(self, moment: float, line: bytes) -> None:
        """Write a line to the file of its hour; raises OSError, and the file is as before."""
        path = self.place / time.strftime("%Y-%m-%dT%H.jsonl", time.gmtime(moment))
        lost = self._file >= 0 and os.fstat(self._file).st_nlink == 0
        if self._file < 0 or lost or self._path != path:
            self._begin(path)
        size = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)
            raise
        self._bytes += len(line)
        if self._bytes > self.most or size > self.most // 2:
            self._trim()

    def _begin(self, path: Path) -> None:
        self._close()
        self.place.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._file = os.open(path, FLAGS, 0o644)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")
        self._path = path  # if that fails, the next line tries again
        self._trim()

    def _own(self) -> dict[Path, int]:
        """The files of the ring with their sizes, oldest first; no links to files of others."""
        found = {one: one.lstat() for one in of_record(self.place)}
        return {one: state.st_size for one, state in found.items() if stat.S_ISREG(state.st_mode)}

    def _trim(self) -> None:
        """Remove the oldest files above the limits; days count, not dates: a clock may be wrong."""
        with contextlib.suppress(OSError):  # a later line tries again
            own = self._own()
            if own.get(self._path, 0) > self.most // 2:  # the next line begins a new file
                name = f"{self._path.stem.removesuffix(FIRST)}{FIRST}.jsonl"
                self._path = self._path.rename(self.place / name)
                own = self._own()
            days = list(dict.fromkeys(one.name.partition("T")[0] for one in own))
            spare = set(days[: -self.keep_days - 1])
            for one in [one for one in own if one != self._path]:
                if one.name.partition("T")[0] in spare or sum(own.values()) > self.most:
                    one.unlink()
                    del own[one]
            self._bytes = sum(own.values())
