# SPDX-License-Identifier: GPL-2.0
"""Plans are carried out, undone and reverted.

perform() keeps the journal ahead of the writes (journal.py), and undoes its writes in reverse
order on an error.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import os
from collections.abc import Sequence

from tierctl.change import journal
from tierctl.change.journal import Entry, Record
from tierctl.change.kept import Files
from tierctl.change.plan import ABSENT, CHANGE, OTHERS, RESTORE, SAME, UNKNOWN, Row, ordered
from tierctl.change.settings import Kind, writable
from tierctl.core import files
from tierctl.core.errors import DENIED, FINDING, TierctlError
from tierctl.core.source import Live

FAILED = "failed"
TODO = {
    errno.EACCES: "run tierctl as root",
    errno.EPERM: "run tierctl as root",
    errno.EROFS: "mount it writable",
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room on the disk",
    errno.ENOMEM: "free memory, and try again",
    errno.EINVAL: "this kernel takes other values",
}
GONE = (errno.ENOENT, errno.ENODEV)


def write(source: Live, file: str, text: str) -> None:
    """Write one setting and read it back; no other function writes to the kernel."""
    if not writable(file):
        raise PermissionError(errno.EPERM, "tierctl never writes this file", file)
    try:
        source.write(file, f"{text}\n")
        found = source.read(file).strip()
    except OSError as error:
        error.filename = file
        raise
    if found != text:
        raise OSError(errno.EIO, f"the file says {found} after the write", file)


def keep(source: Live, wanted: Files) -> None:
    """Write the files in /etc, or remove those without a text."""
    for path, text in wanted:
        if text is not None:
            journal.put(source, path, text)
            continue
        place = source.place(path)
        files.remove(place)
        with contextlib.suppress(OSError):  # tierctl may have made it, and something may be in it
            place.parent.rmdir()


def _merged(record: Record, changes: Sequence[Row]) -> Record:
    """The journal that holds while the writes are under way."""
    entries = copy.deepcopy(record.entries)
    for row in changes:
        entry = entries.setdefault(row.file, Entry(row.key, row.file, row.now or ""))
        if row.then and row.then not in entry.wrote:
            entry.wrote.append(row.then)
    return Record(record.boot, entries)


def _final(source: Live, merged: Record, rows: Sequence[Row]) -> Record:
    """The journal after the writes: of each setting the last value counts."""
    entries = dict(merged.entries)
    for row in rows:
        entry = entries.get(row.file)
        if entry is None:
            continue
        if row.status in (SAME, CHANGE, RESTORE) and row.then is not None:
            entries[row.file] = Entry(entry.key, entry.file, entry.before, [row.then])
        if row.then == entry.before or source.get(row.file) is None:
            del entries[row.file]
    return Record(merged.boot, entries)


def _undo(source: Live, done: Sequence[Row]) -> list[str]:
    """Take writes back, last first; the keys of those that stay."""
    stay = []
    for row in reversed(done):
        # A write that failed may have changed the file, too.
        now = source.get(row.file)
        if now is None or now.strip() == row.now or row.now is None:
            continue
        try:
            write(source, row.file, row.now)
        except OSError:
            stay.append(row.key)
    return stay


def _write_all(source: Live, changes: Sequence[Row], done: list[Row]) -> None:
    for row in changes:
        done.append(row)
        try:
            write(source, row.file, row.then or "")
        except OSError as error:
            if row.kind is Kind.LIMIT and error.errno in GONE:
                row.status, row.reason = ABSENT, "the group has ended"
                continue
            raise


def perform(source: Live, record: Record, rows: Sequence[Row], kept: Files = ()) -> None:
    """Write what a plan changes and the files that keep it, or nothing.

    ``record`` is the journal as it is on disk.  The caller holds the lock.
    """
    changes = ordered(rows)
    done: list[Row] = []
    texts = [(path, source.get(path)) for path, _ in kept]
    merged = _merged(record, changes)
    try:
        if changes:
            journal.save(source, merged)
        _write_all(source, changes, done)
        keep(source, kept)
        final = _final(source, merged, rows)
        if final != record or changes:
            journal.save(source, final)
    except BaseException as error:
        stay = _undo(source, done)
        changed = [(path, text and f"{text}\n") for path, text in texts if source.get(path) != text]
        try:
            keep(source, changed)
        except OSError:
            stay += [path for path, _ in changed]
        if not stay:
            with contextlib.suppress(OSError):
                journal.save(source, record)
        if not isinstance(error, OSError):
            raise
        raise _explained(error, done, stay) from error


def _explained(error: OSError, done: Sequence[Row], stay: Sequence[str]) -> TierctlError:
    place = f"{error.filename or 'a file'} cannot be written"
    if done and error.filename == done[-1].file:
        place = f"the kernel refuses {done[-1].then} for {error.filename}"
    code = DENIED if error.errno in (errno.EACCES, errno.EPERM) else FINDING
    after = "all settings are as before"
    if stay:
        after = f"but {', '.join(stay)} could not be set back: tierctl profile revert"
    elif error.errno in TODO and (code != DENIED or os.geteuid()):
        after = f"{after}: {TODO[error.errno]}"
    return TierctlError(f"{place} ({error.strerror or error})", after, code)


def restore(source: Live, rows: Sequence[Row]) -> None:
    """Carry out a reversal; a write that fails stops no other."""
    for row in ordered(rows):
        try:
            write(source, row.file, row.then or "")
        except OSError as error:
            if error.errno not in GONE:
                row.status, row.reason = FAILED, error.strerror or str(error)


def close(source: Live, record: Record, rows: Sequence[Row]) -> None:
    """Forget what is restored; the journal keeps what is left, or goes."""
    left = {row.file for row in rows if row.status in (OTHERS, UNKNOWN, FAILED)}
    entries = {file: one for file, one in record.entries.items() if file in left}
    journal.save(source, Record(record.boot, entries))
