# SPDX-License-Identifier: GPL-2.0
"""What commands keep in /etc for the next boot: kept.toml, and drop-ins of systemd."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tierctl.change import config, limits
from tierctl.change.config import Config, Want
from tierctl.change.current import MAIN
from tierctl.change.settings import Kind, Setting
from tierctl.core.errors import FINDING, TierctlError
from tierctl.core.paths import CGROUP, KEPT, LIMIT
from tierctl.core.source import ABSENT, Source
from tierctl.read import groups

HEADER = "# Written by tierctl; `tierctl profile revert` removes this file.\n"
Files = Sequence[tuple[str, str | None]]  # paths, and what they shall say; None: no file


def _own(source: Source, path: str) -> bool:
    return (source.get(path) or "").startswith(HEADER)


def _with_header(source: Source, path: str, body: str) -> tuple[str, str]:
    """A file and its content; a file of the administrator is not overwritten."""
    if not _own(source, path) and source.why(path) != ABSENT:
        todo = "change that file instead, or move it away"
        raise TierctlError(f"{path} was not written by tierctl", todo, FINDING)
    return path, HEADER + body


def _kept(source: Source, found: Config) -> tuple[str, str | None]:
    lines = [f'profile = "{found.profile}"\n'] if found.profile else []
    for key, want in found.settings.items():
        name = f"settings.{json.dumps(key)}"
        if want.setting.kind is Kind.LIMIT:
            group = key.removeprefix("groups.").removesuffix(".max")
            name = f"groups.{json.dumps(group, ensure_ascii=False)}.max"
        lines.append(f"{name} = {json.dumps(want.wanted)}\n")
    path, text = _with_header(source, KEPT, "".join(lines))
    for _, old in config.files(source, [KEPT]):
        for key in config.toml(old, KEPT):
            if key not in ("profile", "settings", "groups"):
                what = f"{KEPT} has {key}, which tierctl has not written and would remove"
                raise TierctlError(what, f"move {key} to {MAIN}", FINDING)
    return path, text if lines else None


def profile(source: Source, name: str) -> Files:
    """What is to be written so that the next boot applies a profile."""
    found = config.config(source, [KEPT])
    found.profile = name
    return [_kept(source, found)]


def ended(source: Source, name: str) -> Setting | None:
    """The setting of a group that has ended, if kept.toml has its limit."""
    one = Setting(f"groups.{name}.max", f"{CGROUP}/{name}/{LIMIT}", Kind.LIMIT)
    there = any(path.endswith((f"/{name}", f"/_{name}")) for path in groups.in_slices(source))
    return None if there or one.key not in config.config(source, [KEPT]).settings else one


def setting(source: Source, want: Want) -> Files:
    """What is to be written so that a setting, or the limit of a group, holds at the next boot.

    A group that has no limit any more is forgotten, unless the administrator gives it one.
    """
    found, file = config.config(source, [KEPT]), want.setting.file
    same = {want.setting.key, file}  # a group that has ended is known by its key
    found.settings = {
        k: v for k, v in found.settings.items() if same.isdisjoint((k, v.setting.file))
    }
    others = config.config(source, config.places(source)[:-1]).settings.values()
    limited = want.wanted != limits.NO_LIMIT
    if limited or any({one.setting.key, one.setting.file} & same for one in others):
        found.settings[want.setting.key] = want
    files, unit = [_kept(source, found)], limits.drop_in(file)
    if unit and limited:
        files.append(_with_header(source, unit, limits.at_start(file, str(want.wanted))))
    elif unit and _own(source, unit):
        files.append((unit, None))
    return files


def files(source: Source) -> list[str]:
    """All files that tierctl has written in /etc; none is read as TOML."""
    units = limits.UNITS_DIRECTORY
    found = [f"{units}/{one}/{limits.DROP_IN}" for one in source.listing(units) or []]
    return [path for path in [*found, KEPT] if _own(source, path)]
