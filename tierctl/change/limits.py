# SPDX-License-Identifier: GPL-2.0
"""Limits of control groups: memory.tier.max, and what writes a limit again.

A limit goes with its group, and systemd makes the group of a unit anew at each start.  So
`group set` keeps the limit, which `profile apply` writes at boot, and for a service in a drop-in
as well, which writes it before each start of the service.
"""

from __future__ import annotations

import os
import re

from tierctl.change.settings import Kind, Setting, shown
from tierctl.core.errors import LACKING, TierctlError
from tierctl.core.paths import CGROUP, LIMIT, TIER
from tierctl.core.source import ABSENT, Source
from tierctl.read import groups

SIZE = re.compile(r"([0-9]{1,19})([KMGTP]?)", re.IGNORECASE)
UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
MOST = 1 << 60
NO_LIMIT = "max"
UNITS_DIRECTORY = "/etc/systemd/system"
DROP_IN = "50-tierctl.conf"
# Names of units have no other characters, so the path needs no quotes in a unit.
UNIT = r"[A-Za-z0-9:_.@\\-]+"
SERVICE = re.compile(rf"{CGROUP}/(?:{UNIT}\.slice/)*({UNIT}\.service)/{re.escape(LIMIT)}")


def page_size() -> int:
    """Bytes of a page; the kernel rounds limits down to pages."""
    return os.sysconf("SC_PAGE_SIZE")


def size(value: object, where: str = "") -> str:
    """The text for the file: bytes in whole pages, or max."""
    if value == NO_LIMIT:
        return NO_LIMIT
    place = f"{where}: " if where else ""
    todo = "give a size such as 512M or 64G, 0, or max"
    good = isinstance(value, int | str) and not isinstance(value, bool)
    match = SIZE.fullmatch(shown(value)) if good else None
    if not match:
        raise TierctlError(f"{place}{shown(value)} is no size", todo)
    amount, page = int(match[1]) << UNITS[match[2].upper()], page_size()
    if amount >= MOST:
        raise TierctlError(f"{place}{shown(value)} is more than any machine has", todo)
    if 0 < amount < page:  # 0 has a meaning of its own
        what = f"{place}{shown(value)} is less than a page, which has {page} bytes"
        raise TierctlError(what, todo)
    return str(amount // page * page)


def checked_name(name: str, where: str = "") -> str:
    """The name of a group, or its path below /sys/fs/cgroup, without slashes around it."""
    found = name.removeprefix(f"{CGROUP}/").strip("/")
    pieces = found.split("/")
    if not found.isprintable() or any(one in ("", ".", "..") for one in pieces):
        place = f"{where}: " if where else ""
        todo = "give a name such as redis.service, or a path below /sys/fs/cgroup"
        raise TierctlError(f"{place}{shown(name)} is no name of a group", todo)
    return found


def _setting(name: str, path: str) -> Setting:
    file = f"{CGROUP}{path}/{LIMIT}" if path else ""
    return Setting(f"groups.{name}.max", file, Kind.LIMIT)


def setting(source: Source, name: str) -> Setting:
    """The setting of a group; without a file if no group or several have the name."""
    try:
        return _setting(name, groups.named(source, name))
    except TierctlError:
        return _setting(name, "")


def required(source: Source, name: str) -> Setting:
    """The setting of a group that must exist; each other case is an error."""
    one = _setting(name, groups.named(source, name))
    if source.get(one.file) is None and source.why(one.file) == ABSENT:
        if source.get(f"{TIER}/promote/enabled") is None:
            what = f"this kernel lacks {LIMIT}"
            raise TierctlError(what, "boot a tiershift kernel: uname -r shows it", LACKING)
        what = f"{shown(name)} has no {LIMIT}, since its memory controller is off"
        raise TierctlError(what, "for a unit of systemd, set MemoryAccounting=yes")
    return one


def drop_in(file: str) -> str:
    """The drop-in of the service that a limit is of, or "" if its group is no service."""
    match = SERVICE.fullmatch(file)
    return f"{UNITS_DIRECTORY}/{match[1].removeprefix('_')}.d/{DROP_IN}" if match else ""


def at_start(file: str, limit: str) -> str:
    """What a drop-in says so that systemd writes a limit before each start of the service."""
    path = file.replace("\\", "\\\\")
    return f"[Service]\nExecStartPre=-+/bin/sh -c 'echo {limit} > \"$$0\"' {path}\n"
