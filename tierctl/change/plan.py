# SPDX-License-Identifier: GPL-2.0
"""Plans of writes: what is written, in which order, and what brings it back.

The order of writes: what works less comes first.  tier/enabled is first when it goes to 0, so
all parts stop at once, and later writes only change wishes and numbers of a machine at rest.  It
is last when it goes to 1, so each part starts once, with its final numbers, after limits of groups
hold and NUMA balancing has stopped to promote.  While it stays 1, parts go off first, then numbers
change, then parts go on: no mixture of two profiles works more than both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tierctl.change.config import Want
from tierctl.change.journal import Record
from tierctl.change.settings import NUMBER, Kind, known, lacks, resolve
from tierctl.core.errors import DENIED, TierctlError
from tierctl.core.paths import TIER
from tierctl.core.source import ABSENT as NO_FILE
from tierctl.core.source import MISSING, Source
from tierctl.read.mechanisms import TIERING

SAME, CHANGE, RESTORE, ABSENT, UNKNOWN = "same", "change", "restore", "n/a", "unknown"
OTHERS = "changed by others"
STATE = f"{TIER}/state"
PROMOTES = f"{TIER}/promote/enabled"
DEMOTES = f"{TIER}/demote/enabled"
ONLY = "this kernel lacks the part promote, so NUMA balancing is left alone"
OWN = "the part demote does this"


@dataclass
class Row:
    """A setting of a plan; ``then`` is what is wanted, and None if it is not known."""

    key: str
    file: str
    kind: Kind = field(repr=False)  # not in JSON
    now: str | None
    then: str | None
    status: str
    reason: str = ""
    origin: str = ""

    @property
    def differs(self) -> bool:
        """The machine has another value, or may have one."""
        return self.status in (CHANGE, RESTORE, UNKNOWN)


def _rank(row: Row) -> int:
    on = row.then != "0"
    if row.kind is Kind.MASTER:
        return 6 if on else 0
    if row.kind is Kind.PART:
        return 4 if on else 1
    if row.kind is Kind.NUMA:
        mode = row.then or ""
        return 5 if NUMBER.fullmatch(mode) and int(mode) & TIERING else 2
    return 3


def ordered(rows: Iterable[Row]) -> list[Row]:
    """The rows to write, in the order of writes."""
    return sorted((row for row in rows if row.status in (CHANGE, RESTORE)), key=_rank)


def first_writes(rows: Iterable[Row]) -> list[Row]:
    """All rows; those to write come first, in the order of writes."""
    found = list(rows)
    return ordered(found) + [row for row in found if row.status not in (CHANGE, RESTORE)]


def _row(source: Source, want: Want, record: Record, kept: bool) -> Row:
    setting = want.setting
    row = Row(setting.key, setting.file, setting.kind, None, None, ABSENT, origin=want.origin)
    row.now = source.get(setting.file) if setting.file else None
    if row.now is None:
        why = source.why(setting.file) if setting.file else NO_FILE
        row.status = ABSENT if why in (NO_FILE, MISSING) else UNKNOWN
        row.reason = lacks(source, setting) if why == NO_FILE else why
        row.then = str(want.wanted) if isinstance(want.wanted, int) else None
        return row
    row.now = row.now.strip()
    entry = record.entries.get(setting.file)
    wrote = entry.wrote if entry else []
    # What an earlier profile wrote says nothing about the machine.
    own = entry.before if entry and row.now in wrote else row.now
    row.then, row.reason = resolve(source, setting, want.wanted, own)
    computed = isinstance(want.wanted, str) and setting.kind is Kind.KNOB
    if kept and computed and row.now in wrote:
        row.then = row.now  # CPUs may have come or gone since tierctl computed it
    if row.then is None:
        return row
    off = want.profile and setting.kind is Kind.NUMA and not int(row.then) & TIERING
    if off and source.get(PROMOTES) is None:
        # Where nothing of ours can promote, NUMA balancing may be the only one that does.
        row.then, row.reason = None, ONLY
        return row
    if want.profile and setting.kind is Kind.DEMOTION and source.get(DEMOTES) is not None:
        row.then, row.reason = None, OWN
        return row
    row.status = SAME if row.now == row.then else CHANGE
    return row


def plan(source: Source, wants: Sequence[Want], record: Record, kept: bool = False) -> list[Row]:
    """What is to be written for these wants.

    ``kept``: a value that tierctl has computed and written holds, although CPUs have come or gone.
    """
    return [_row(source, want, record, kept) for want in wants]


def leftovers(source: Source, record: Record, rows: Sequence[Row]) -> list[Row]:
    """Settings of an earlier profile that no want names: they go back to what was before."""
    named = {row.file for row in rows if row.file}
    found = [row for row in reversal(source, record) if row.file not in named]
    if any(row.kind is Kind.NUMA and row.now and row.then is None for row in rows):
        # NUMA balancing is left alone: if it promotes, it needs room.
        found = [row for row in found if row.kind is not Kind.DEMOTION]
    for row in found:
        row.reason = "value before tierctl"
    return [row for row in found if row.status == RESTORE]


def refuse(source: Source, rows: Sequence[Row]) -> None:
    """Raise the errors that are known before the first write."""
    for row in rows:
        if row.status == UNKNOWN:
            raise TierctlError(f"{row.file} cannot be read: {row.reason}", "run as root", DENIED)
    switches = (Kind.MASTER, Kind.PART)
    on = [row for row in ordered(rows) if row.kind in switches and row.then == "1"]
    if on and source.get(STATE) == "blocked":
        what = "the machine was booted with tier=off, so nothing can be switched on"
        raise TierctlError(what, "boot without tier=off", DENIED)


def reversal(source: Source, record: Record) -> list[Row]:
    """What brings back the values before tierctl; what others have changed is left alone."""
    rows = []
    kinds = {one.file: one.kind for one in known().values()}
    for entry in record.entries.values():
        now, kind = source.get(entry.file), kinds.get(entry.file, Kind.LIMIT)
        row = Row(entry.key, entry.file, kind, now, entry.before, ABSENT)
        rows.append(row)
        if now is None:
            row.status = ABSENT if source.why(entry.file) == NO_FILE else UNKNOWN
            row.reason = "the file is gone" if row.status == ABSENT else source.why(entry.file)
            continue
        row.now = now.strip()
        if row.now == entry.before:
            row.status = SAME
        elif row.now in entry.wrote:
            row.status = RESTORE
        else:
            row.status = OTHERS
            row.reason = f"tierctl wrote {entry.wrote[-1]}" if entry.wrote else ""
    return rows
