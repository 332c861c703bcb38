# SPDX-License-Identifier: GPL-2.0
"""Files that have their old or their new content whatever happens, and locks.

A file has one writer at a time: the caller holds a lock, or is alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tierctl.core.errors import FINDING, TierctlError

SAFE = os.O_NOFOLLOW | os.O_CLOEXEC


def _sync(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def replace(path: Path, data: bytes, mode: int = 0o644, private: bool = False) -> None:
    """Replace a file, or create it; raises OSError, and the file is as before then.

    ``private``: only the owner may read it.  The directory must exist.  A draft that a killed
    program left goes; a link is not followed, and nothing that is there is written to.
    """
    draft = path.with_name(f".{path.name}.tmp")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
        try:
            os.fchmod(file, 0o600 if private else mode)  # whatever the umask is
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
        finally:
            os.close(file)
        _sync(path.parent)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        _sync(path.parent)


@contextlib.contextmanager
def locked(path: Path, patience_s: float, busy: str) -> Iterator[None]:
    """Hold a lock; it goes with the process, even if that is killed.  Raises OSError.

    ``busy`` says in an error that another program holds it for longer than ``patience_s``.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | SAFE, 0o600)
    try:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TierctlError(busy, "wait until it ends, and try again", FINDING) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(file)
