# SPDX-License-Identifier: GPL-2.0
"""The journal of what tierctl has changed: /var/lib/tierctl/before.json.

It is written ahead.  Before the first write of a change it is on disk with the value before and
all values that tierctl may have written, for each setting.  So a kill at any point leaves a
journal with which `profile revert` restores each value: the file has the value before, or one
that tierctl wrote, or one that another program wrote, and then it is left alone.

The kernel forgets all settings at a reboot.  So a journal of another boot says nothing about
this one, and is not used; the id of the boot is in it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from tierctl.change.settings import writable
from tierctl.core import files
from tierctl.core.errors import FINDING, TierctlError, failed
from tierctl.core.paths import BEFORE, BOOT_ID, STATE
from tierctl.core.source import Live, Source

SCHEMA = "tierctl-before/1"
PATIENCE = 30.0  # seconds that a command waits for another one


@dataclass
class Entry:
    """A setting that tierctl has changed, or was about to change."""

    key: str
    file: str
    before: str
    wrote: list[str] = field(default_factory=list)  # what tierctl may have written


@dataclass
class Record:
    """All settings that tierctl has changed since boot."""

    boot: str
    entries: dict[str, Entry] = field(default_factory=dict)  # by file


def _decode(text: str) -> Record:
    found = json.loads(text)
    if found["schema"] != SCHEMA:
        raise ValueError(f"its schema is {found['schema']}")
    record = Record(str(found["boot"]))
    for one in found["settings"]:
        wrote = [str(value) for value in one["wrote"]]
        entry = Entry(str(one["key"]), str(one["file"]), str(one["before"]), wrote)
        if not writable(entry.file):
            raise ValueError(f"tierctl never writes {entry.file}")
        record.entries[entry.file] = entry
    return record


def load(source: Source) -> Record:
    """The journal of this boot; empty if there is none."""
    boot = source.get(BOOT_ID) or ""
    try:
        text = source.read(BEFORE)
    except FileNotFoundError:
        return Record(boot)
    except OSError as error:
        if not source.live:
            return Record(boot)
        raise failed(error, f"{BEFORE} cannot be read", "check its permissions") from error
    try:
        record = _decode(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{BEFORE} is damaged: {error}"
        raise TierctlError(what, "look at it, and move it away", FINDING) from error
    return record if record.boot == boot else Record(boot)


def put(source: Live, path: str, text: str) -> None:
    """Write a file of tierctl, and its directory; raises OSError, and it is as before then."""
    place = source.place(path)
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    files.replace(place, text.encode())


def save(source: Live, record: Record) -> None:
    """Put the journal on disk, or remove one that has nothing."""
    if not record.entries:
        files.remove(source.place(BEFORE))
        return
    document = {
        "schema": SCHEMA,
        "boot": record.boot,
        "time": round(source.time(), 3),
        "settings": [asdict(entry) for entry in record.entries.values()],
    }
    put(source, BEFORE, json.dumps(document, indent=1) + "\n")


def live(source: Source) -> Live:
    """The source if it takes writes, or an error."""
    if isinstance(source, Live):
        return source
    raise TierctlError("a bundle takes no writes", "leave out --from")


@contextlib.contextmanager
def locked(source: Live, patience: float = PATIENCE) -> Iterator[None]:
    """Let no other tierctl change anything; the lock goes with the process, even if killed."""
    path = source.place(f"{STATE}/lock")
    busy = f"another tierctl has changed settings for {patience:.0f} s"
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            stack.enter_context(files.locked(path, patience, busy))
        except OSError as error:
            raise failed(error, f"{STATE} cannot be written", "mount it writable") from error
        yield
