# SPDX-License-Identifier: GPL-2.0
"""What commands keep in /etc for the next boot: files in conf.d, and drop-ins of systemd."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

from tierctl.change import config, limits
from tierctl.change.current import MAIN
from tierctl.change.settings import Wanted
from tierctl.core.errors import FINDING, TierctlError
from tierctl.core.paths import CGROUP, CONF, LIMIT
from tierctl.core.source import ABSENT, Source

HEADER = "# Written by tierctl; `tierctl profile revert` removes this file.\n"
GROUP = re.compile(rf"{CONF}/group-(.+)\.toml")  # a file that keeps a limit
Files = Sequence[tuple[str, str | None]]  # paths, and what they shall say; None: no file


def _own(source: Source, path: str) -> bool:
    """Whether a file may be written: it is absent, or tierctl has written it."""
    text = source.get(path)
    return source.why(path) == ABSENT if text is None else text.startswith(HEADER)


def _refuse_other(source: Source, path: str) -> None:
    if not _own(source, path):
        todo = "change that file instead, or move it away"
        raise TierctlError(f"{path} was not written by tierctl", todo, FINDING)


def kept(source: Source, path: str, body: str, key: str, table: str = "") -> tuple[str, str]:
    """A file in conf.d that says what was typed, and its content.

    A file of the administrator is not overwritten, and none that comes later may count more.
    """
    _refuse_other(source, path)
    for other, text in config.files(source):
        if other <= path or other == MAIN:
            continue
        found = config.toml(text, other)
        names = dict(config.flat(config.table_of(found, table, other))) if table else found
        if key in names:
            what = f"{other} has {key}, too, and counts more than {path}"
            raise TierctlError(what, f"change {other}", FINDING)
    return path, HEADER + body


def choice(source: Source, found: config.Config, name: str) -> Files:
    """What is to be written so that the next boot applies a profile."""
    if found.profile == name:
        return []
    return [kept(source, f"{CONF}/profile.toml", f'profile = "{name}"\n', "profile")]


def kept_setting(source: Source, key: str, wanted: Wanted) -> tuple[str, str]:
    """The file that keeps a setting."""
    body = f"[settings]\n{json.dumps(key)} = {json.dumps(wanted)}\n"
    return kept(source, f"{CONF}/set-{key}.toml", body, key, "settings")


def kept_limit(source: Source, name: str, limit: str, group: str) -> Files:
    """The files that keep the limit of a group, or that go because it has none any more."""
    path, unit = f"{CONF}/group-{quote(name, safe='')}.toml", limits.drop_in(group)
    for other, want in config.limit_wants(source, config.config(source)):
        if other != name and want.setting.file == f"{CGROUP}{group}/{LIMIT}":
            what = f"{want.origin} has a limit of this group, by the name {other}"
            raise TierctlError(what, "use that name", FINDING)
    quoted = json.dumps(name, ensure_ascii=False)
    body = f"[groups.{quoted}]\nmax = {json.dumps(limit)}\n"
    found = [kept(source, path, body, f"{name}.max", "groups")]
    if unit:
        _refuse_other(source, unit)
        found.append((unit, limits.DROP_IN))
    if limit == limits.NO_LIMIT and name not in config.config(source, without=path).groups:
        return [(one, None) for one, _ in reversed(found) if source.get(one) is not None]
    return found


def kept_files(source: Source) -> list[str]:
    """All files that tierctl has written in /etc; none is read as TOML."""
    found = []
    for name in source.listing(CONF) or []:
        path = f"{CONF}/{name}"
        if name[0] == "." or not (source.get(path) or "").startswith(HEADER):
            continue
        match = GROUP.fullmatch(path)
        unit = limits.drop_in(unquote(match[1]).rpartition("/")[2]) if match else ""
        if unit and (source.get(unit) or "").startswith(HEADER):
            found.append(unit)  # first: its name is found by the name of the other file
        found.append(path)
    return found
