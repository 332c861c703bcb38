# SPDX-License-Identifier: GPL-2.0
"""Where tierctl reads: the live machine, a tree of files that stands for one, or a bundle.

All access to /sys, /proc, /dev and cgroups goes through a Source, so that each command works on
a captured machine as well.
"""

from __future__ import annotations

import errno
import os
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 1 << 18
DRIFT_S = 2.0  # that a clock may differ

INODE = ".inode"  # stands in a bundle for the inode number of a directory

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
    if error.errno in REASONS:
        return REASONS[error.errno]
    return f"failed: {error.strerror or error}"


def failure(reason: str, path: str) -> OSError:
    """The exception for a reason; reason_of() gives the reason back."""
    if reason in CODES:
        code = CODES[reason]
        return OSError(code, os.strerror(code), path)
    return OSError(errno.EIO, reason.removeprefix("failed: "), path)


@dataclass
class Sample:
    """All that was read at one time; values are the content, or why there is none."""

    time: float
    files: dict[str, bytes | str] = field(default_factory=dict)
    directories: dict[str, list[str] | str] = field(default_factory=dict)
    pieces: dict[tuple[str, int, int], bytes | str] = field(default_factory=dict)


class Source(ABC):
    """A machine at one time, or at several times one after the other."""

    live: bool = False
    jumps: int = 0  # how often the clock was set

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    @abstractmethod
    def read(self, path: str) -> str:
        """A file without its last newline; raises OSError as open() does."""

    @abstractmethod
    def names(self, path: str) -> list[str]:
        """Sorted names in a directory; raises OSError."""

    @abstractmethod
    def dirs(self, path: str) -> list[str]:
        """Sorted names of the directories in a directory, without links; raises OSError."""

    @abstractmethod
    def pread(self, path: str, size: int, offset: int) -> bytes:
        """At most ``size`` bytes of a file from an offset; raises OSError."""

    @abstractmethod
    def time(self) -> float:
        """CLOCK_REALTIME of this sample."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Live: sleep.  A bundle: go to the next sample, or raise EOFError."""

    def write(self, path: str, text: str) -> None:
        """Write a file with one write(2); raises OSError.  A bundle raises PermissionError."""
        raise PermissionError(errno.EPERM, "a bundle takes no writes", path)

    def mkdir(self, path: str) -> None:
        """Create a directory; raises OSError.  A bundle raises PermissionError."""
        raise PermissionError(errno.EPERM, "a bundle takes no directories", path)

    def rmdir(self, path: str) -> None:
        """Remove a directory; raises OSError."""
        raise PermissionError(errno.EPERM, "a bundle takes no directories", path)

    def inode(self, path: str) -> int:
        """The inode number of a directory, by which the kernel names a group; raises OSError."""
        return int(self.read(f"{path}/{INODE}"))

    def get(self, path: str) -> str | None:
        """read(), or None; why() then says why."""
        try:
            text = self.read(path)
        except OSError as error:
            self._why[path] = reason_of(error)
            return None
        self._why.pop(path, None)
        return text

    def listing(self, path: str) -> list[str] | None:
        """names(), or None; why() then says why."""
        try:
            found = self.names(path)
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
        self._real, self._mono = time.time(), time.monotonic()
        self._open: tuple[str, int] | None = None  # the file of the last pread()

    def __del__(self) -> None:
        if getattr(self, "_open", None):
            self._close()

    def place(self, path: str) -> Path:
        """The path of a file below the root."""
        from pathlib import Path  # noqa: PLC0415 - `status` does without its import

        return Path(self.root + path)

    def read(self, path: str) -> str:
        file = os.open(self.root + path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(file, CHUNK)
            parts = [data]
            while data:
                data = os.read(file, CHUNK)
                parts.append(data)
        finally:
            os.close(file)
        return b"".join(parts).decode("utf-8", "backslashreplace").removesuffix("\n")

    def names(self, path: str) -> list[str]:
        return sorted(os.listdir(self.root + path))

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

    def mkdir(self, path: str) -> None:
        os.mkdir(self.root + path, 0o700)

    def rmdir(self, path: str) -> None:
        os.rmdir(self.root + path)

    def inode(self, path: str) -> int:
        return os.stat(self.root + path).st_ino

    def time(self) -> float:
        # A clock that is slewed changes no rate; one that is set, or a machine that has slept,
        # is a jump.
        now = time.monotonic()
        if abs(time.time() - self._real - (now - self._mono)) > DRIFT_S:
            self._real, self._mono = time.time(), now
            self.jumps += 1
        return self._real + now - self._mono

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


class Recorder(Source):
    """Wraps another Source, and keeps all that was read."""

    def __init__(self, inner: Source) -> None:
        super().__init__()
        self.inner = inner
        self.live = inner.live
        self.samples = [Sample(inner.time())]

    @property
    def jumps(self) -> int:  # type: ignore[override]
        """How often the clock was set."""
        return self.inner.jumps

    def read(self, path: str) -> str:
        files = self.samples[-1].files
        try:
            text = self.inner.read(path)
        except OSError as error:
            files[path] = reason_of(error)
            raise
        files[path] = f"{text}\n".encode()
        return text

    def _directory(self, path: str) -> list[str]:
        """Names with "/" behind each directory."""
        try:
            inside = set(self.inner.dirs(path))
            found = [f"{one}/" if one in inside else one for one in self.inner.names(path)]
        except OSError as error:
            self.samples[-1].directories[path] = reason_of(error)
            raise
        self.samples[-1].directories[path] = found
        return found

    def names(self, path: str) -> list[str]:
        return sorted(one.rstrip("/") for one in self._directory(path))

    def dirs(self, path: str) -> list[str]:
        return sorted(one[:-1] for one in self._directory(path) if one.endswith("/"))

    def pread(self, path: str, size: int, offset: int) -> bytes:
        pieces = self.samples[-1].pieces
        try:
            data = self.inner.pread(path, size, offset)
        except OSError as error:
            pieces[path, size, offset] = reason_of(error)
            raise
        pieces[path, size, offset] = data
        return data

    def write(self, path: str, text: str) -> None:
        self.inner.write(path, text)

    def mkdir(self, path: str) -> None:
        self.inner.mkdir(path)

    def rmdir(self, path: str) -> None:
        self.inner.rmdir(path)

    def inode(self, path: str) -> int:
        files = self.samples[-1].files
        try:
            found = self.inner.inode(path)
        except OSError as error:
            files[f"{path}/{INODE}"] = reason_of(error)
            raise
        files[f"{path}/{INODE}"] = f"{found}\n".encode()
        return found

    def time(self) -> float:
        return self.inner.time()

    def wait(self, seconds: float) -> None:
        self.inner.wait(seconds)
        self.samples.append(Sample(self.inner.time()))
