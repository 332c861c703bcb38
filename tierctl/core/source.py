# SPDX-License-Identifier: GPL-2.0
"""Where tierctl reads: the live machine, a tree of files that stands for one, or a bundle.

All access to /sys, /proc, /dev and cgroups goes through a Source, so that each command works on
a captured machine as well.
"""

from __future__ import annotations

import binascii
import errno
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 1 << 18

ABSENT, DENIED, MISSING = "absent", "denied", "not captured"
REASONS = {
    errno.ENOENT: ABSENT,
    errno.ENOTDIR: ABSENT,
    errno.ENODEV: ABSENT,
    errno.ESRCH: ABSENT,
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.ENODATA: MISSING,
}
CODES = {ABSENT: errno.ENOENT, DENIED: errno.EACCES, MISSING: errno.ENODATA}


def reason_of(error: OSError) -> str:
    """One word or a few that say why a path could not be read."""
    return REASONS.get(error.errno or 0, f"failed: {error.strerror or error}")


def failure(reason: str, path: str) -> OSError:
    """The exception for a reason; reason_of() gives the reason back."""
    if reason in CODES:
        code = CODES[reason]
        return OSError(code, os.strerror(code), path)
    return OSError(errno.EIO, reason.removeprefix("failed: "), path)


# A text, what is in a directory, {"b64": bytes}, or {"why": it could not be read}
Kept = str | list[str] | dict[str, str]
T = TypeVar("T")


@dataclass
class Sample:
    """All that was read at one time.  Keys are those of a bundle."""

    time: float
    files: dict[str, Kept] = field(default_factory=dict)


def names_key(path: str) -> str:
    """Where a bundle keeps what is in a directory."""
    return f"{path.rstrip('/')}/.names"


def piece_key(path: str, size: int, offset: int) -> str:
    """Where a bundle keeps a piece of a binary file."""
    return f"{path}@{offset}+{size}"


class Source(ABC):
    """A machine at one time, or at several times one after the other."""

    live: bool = False

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    @abstractmethod
    def read(self, path: str) -> str:
        """A file without its last newline; raises OSError as open() does."""

    @abstractmethod
    def entries(self, path: str) -> list[str]:
        """What is in a directory; a directory that is no link has "/" behind.  Raises OSError."""

    def names(self, path: str) -> list[str]:
        """Sorted names in a directory; raises OSError."""
        return sorted(one.rstrip("/") for one in self.entries(path))

    def dirs(self, path: str) -> list[str]:
        """Sorted names of the directories in a directory, without links; raises OSError."""
        return sorted(one[:-1] for one in self.entries(path) if one.endswith("/"))

    @abstractmethod
    def pread(self, path: str, size: int, offset: int) -> bytes:
        """At most ``size`` bytes of a file from an offset; raises OSError."""

    @abstractmethod
    def time(self) -> float:
        """CLOCK_REALTIME of this sample."""

    def clock(self) -> float:
        """Seconds for rates and ages: no operator sets this clock."""
        return self.time()

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Live: sleep.  A bundle: go to the next sample, or raise EOFError."""

    def write(self, path: str, text: str) -> None:
        """Write a file with one write(2); raises OSError.  Only a live machine takes writes."""
        raise PermissionError(errno.EPERM, "a bundle takes no writes", path)

    def get(self, path: str) -> str | None:
        """read(), or None; why() then says why."""
        return self._tried(path, self.read)

    def listing(self, path: str) -> list[str] | None:
        """names(), or None; why() then says why."""
        return self._tried(path, self.names)

    def _tried(self, path: str, read: Callable[[str], T]) -> T | None:
        try:
            found = read(path)
        except OSError as error:
            self._why[path] = reason_of(error)
            return None
        self._why.pop(path, None)
        return found

    def why(self, path: str) -> str:
        """Why get() or listing() gave None, as reason_of() says; or ""."""
        return self._why.get(path, "")


class Live(Source):
    """The files of this machine, or of a directory tree that stands for /."""

    live = True

    def __init__(self, root: str = "/") -> None:
        super().__init__()
        self.root = "" if root == "/" else root.rstrip("/")
        self._open: tuple[str, int] | None = None  # the file of the last pread()

    def __del__(self) -> None:
        self._close()

    def place(self, path: str) -> Path:
        from pathlib import Path  # noqa: PLC0415 - `status` does without its import

        return Path(self.root + path)

    def read(self, path: str) -> str:
        file = os.open(self.root + path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while data := os.read(file, CHUNK):
                parts.append(data)
        finally:
            os.close(file)
        return b"".join(parts).decode("utf-8", "backslashreplace").removesuffix("\n")

    def entries(self, path: str) -> list[str]:
        with os.scandir(self.root + path) as entries:
            return [one.name + "/" * one.is_dir(follow_symlinks=False) for one in entries]

    def dirs(self, path: str) -> list[str]:
        with os.scandir(self.root + path) as entries:
            return sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))

    def _close(self) -> None:
        if self._open:
            os.close(self._open[1])
            self._open = None

    def pread(self, path: str, size: int, offset: int) -> bytes:
        if self._open is None or self._open[0] != path:
            self._close()
            self._open = (path, os.open(self.root + path, os.O_RDONLY | os.O_CLOEXEC))
        return os.pread(self._open[1], size, offset)

    def write(self, path: str, text: str) -> None:
        file = os.open(self.root + path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            data = text.encode()
            if os.write(file, data) != len(data):
                raise OSError(errno.EIO, "the kernel took a part of the text only", path)
        finally:
            os.close(file)

    def time(self) -> float:
        return time.time()

    def clock(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


class Recorder(Source):
    """Wraps another Source, and keeps all that was read.

    Commands that wait see the same sample again; only go_on() begins the next one.
    """

    def __init__(self, inner: Source) -> None:
        super().__init__()
        self.inner = inner
        self.live = inner.live
        self._ahead = inner.time() - inner.clock()  # so that no sample has the time of a jump
        self.samples = [Sample(inner.time())]

    def _keep(self, key: str, read: Callable[[], T], kept: Callable[[T], Kept]) -> T:
        files = self.samples[-1].files
        try:
            found = read()
        except OSError as error:
            files[key] = {"why": reason_of(error)}
            raise
        files[key] = kept(found)
        return found

    def read(self, path: str) -> str:
        return self._keep(path, lambda: self.inner.read(path), str)

    def entries(self, path: str) -> list[str]:
        return self._keep(names_key(path), lambda: self.inner.entries(path), list)

    def pread(self, path: str, size: int, offset: int) -> bytes:
        return self._keep(
            piece_key(path, size, offset),
            lambda: self.inner.pread(path, size, offset),
            lambda data: {"b64": binascii.b2a_base64(data, newline=False).decode()},
        )

    def time(self) -> float:
        return self.inner.time()

    def clock(self) -> float:
        return self.inner.clock()

    def wait(self, seconds: float) -> None:
        """Do nothing."""

    def go_on(self, seconds: float) -> None:
        self.inner.wait(seconds)
        self.samples.append(Sample(self._ahead + self.inner.clock()))
