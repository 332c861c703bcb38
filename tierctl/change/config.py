# SPDX-License-Identifier: GPL-2.0
"""What an administrator wants: profiles, /etc/tierctl/tierctl.toml, conf.d, and kept.toml.

    profile = "general"
    settings = { "scan.period_ms" = 1000 }
    groups = { "backup.service" = { max = "8G" } }

conf.d/*.toml is read after tierctl.toml, in the order of names, and kept.toml, which commands
write, comes last; the last file with a key counts.  A key of settings counts more than the
profile.  Own profiles are /etc/tierctl/profiles/NAME.toml, and count more than profiles of the
same name that tierctl brings.  The tables [export] and [record] are for the commands of these
names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierctl.change import limits
from tierctl.change.current import MAIN
from tierctl.change.settings import Setting, Wanted, check, find, shown
from tierctl.core.errors import TierctlError, failed, near
from tierctl.core.paths import CGROUP, CONF, ETC, KEPT
from tierctl.core.source import Source

OWN = f"{ETC}/profiles"
SHIPPED = Path(__file__).parents[1] / "profiles"
KEYS = ("profile", "settings", "groups", "export", "record")
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
PATTERNS, LENGTH = 100, 1024  # patterns of groups at most, characters of one at most
RANGES = {
    "interval_s": (1, 3600),
    "every_s": (1, 3600),
    "keep_days": (1, 3650),
    "max_mb": (1, 1_000_000),
}


@dataclass(frozen=True)
class Want:
    """A setting, its value, and the file or profile that asks for it."""

    setting: Setting
    wanted: Wanted
    origin: str
    profile: bool = False  # a profile asks for it, not the administrator


@dataclass
class Config:
    """All that the files say; limits of groups are settings, too."""

    profile: str | None = None
    chosen_in: str = ""  # the file that names the profile
    settings: dict[str, Want] = field(default_factory=dict)


@dataclass
class Profile:
    """Settings that go together."""

    name: str
    origin: str
    text: str = ""
    settings: dict[str, Want] = field(default_factory=dict, repr=False)  # not in JSON
    error: str = ""  # why it cannot be used


@dataclass
class Export:
    """What `tierctl export` shows of groups, and how often a figure may be asked for."""

    groups: tuple[str, ...] = ("*.slice",)
    interval_s: int = 15


@dataclass
class Record:
    """The ring of `tierctl record`."""

    every_s: int = 10
    keep_days: int = 7
    max_mb: int = 200


# --- TOML ------------------------------------------------------------------------


def toml(text: str, where: str) -> dict[str, Any]:
    """A file of the administrator as a dict, or an error that names it."""
    import tomllib  # noqa: PLC0415 - `export` mostly does without, and it takes a while

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        detail = " ".join(str(error).split())
        raise TierctlError(f"{where}: {detail}", "correct the file") from error


def flat(found: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Keys with dots: TOML reads an unquoted scan.period_ms as a table in a table."""
    queue = [*found.items()]
    while queue:
        name, value = queue.pop(0)
        if isinstance(value, dict):
            queue[:0] = [(f"{name}.{inner}", one) for inner, one in value.items()]
        else:
            yield name, value


def table_of(found: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    """A table of a file; empty if the file lacks it."""
    table = found.get(key, {})
    if not isinstance(table, dict):
        todo = f"write [{key}] on a line of its own, and one KEY = VALUE on each line below"
        raise TierctlError(f"{where}: {key} is no table", todo)
    return table


def _settings(table: dict[str, Any], where: str, profile: bool) -> dict[str, Want]:
    wants: dict[str, Want] = {}
    for key, value in flat(table):
        try:
            setting = find(key)
        except TierctlError as error:
            raise TierctlError(f"{where}: {error.what}", error.todo, error.code) from None
        wants[key] = Want(setting, check(setting, value, where), where, profile)
    return wants


def _limits(source: Source, table: dict[str, Any], where: str) -> dict[str, Want]:
    wants: dict[str, Want] = {}
    for key, value in flat(table):
        name, _, field_name = key.rpartition(".")
        if field_name != "max" or not name:
            todo = 'write groups = { "NAME" = { max = "8G" } }'
            raise TierctlError(f"{where}: groups has {shown(key)}", todo)
        setting = limits.setting(source, limits.checked_name(name, where))
        wants[setting.key] = Want(setting, limits.size(value, where), where)
    return wants


def _unknown(found: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in found:
        if key not in keys:
            like = near(key, keys)
            todo = f"did you mean {like}?" if like else f"keys: {', '.join(keys)}"
            raise TierctlError(f"{where}: unknown key {shown(key)}", todo)


def _listed(source: Source, directory: str) -> list[str]:
    try:
        names = source.names(directory)
    except PermissionError as error:
        raise failed(error, f"{directory} cannot be read", "check its permissions") from error
    except OSError:
        return []
    return [name for name in names if name.endswith(".toml") and name[0] != "."]


def places(source: Source) -> list[str]:
    """The paths of configuration files in the order in which they count, tierctl's own last."""
    return [MAIN, *(f"{CONF}/{name}" for name in _listed(source, CONF)), KEPT]


def files(source: Source, paths: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Configuration files, or all, with their content."""
    for path in paths or places(source):
        try:
            yield path, source.read(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if source.live:
                raise failed(error, f"{path} cannot be read", "check the file") from error


def config(source: Source, paths: Sequence[str] = ()) -> Config:
    """What some files say, or all; every mistake is an error that names the file."""
    result = Config()
    for path, text in files(source, paths):
        found = toml(text, path)
        _unknown(found, KEYS, path)
        name = found.get("profile")
        if name is not None:
            result.profile, result.chosen_in = checked_profile_name(name, path), path
        wants = _settings(table_of(found, "settings", path), path, False)
        wants |= _limits(source, table_of(found, "groups", path), path)
        for key, want in wants.items():
            result.settings.pop(key, None)  # the last comes last
            result.settings[key] = want
    return result


# --- [export], [record] ----------------------------------------------------------


def _number(name: str, value: object, where: str) -> int:
    least, most = RANGES[name]
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    todo = f"give a whole number from {least} to {most}"
    raise TierctlError(f"{where}: {name} is {shown(value)}", todo)


def checked_patterns(value: object, where: str) -> tuple[str, ...]:
    """Patterns of groups; every mistake is an error."""
    todo = 'give a list such as ["machine.slice/*", "redis.service"]'
    if not isinstance(value, list) or len(value) > PATTERNS:
        raise TierctlError(f"{where}: groups is no list of at most {PATTERNS} patterns", todo)
    found = []
    for one in value:
        pieces = one.removeprefix(CGROUP).strip("/").split("/") if isinstance(one, str) else [""]
        good = all(piece not in ("", ".", "..") for piece in pieces)
        if not good or len(one) > LENGTH or not one.isprintable():
            raise TierctlError(f"{where}: {shown(one)} is no pattern of groups", todo)
        found.append("/".join(pieces))
    return tuple(found)


def _fill(source: Source, key: str, found: Export | Record) -> None:
    """Take what the tables have; a key that a later file has counts."""
    for path, text in files(source):
        table, where = table_of(toml(text, path), key, path), f"{path}: {key}"
        _unknown(table, tuple(vars(found)), where)
        for name, value in table.items():
            patterns = checked_patterns(value, where) if name == "groups" else None
            setattr(found, name, _number(name, value, where) if patterns is None else patterns)


def export(source: Source) -> Export:
    found = Export()
    _fill(source, "export", found)
    return found


def record(source: Source) -> Record:
    found = Record()
    _fill(source, "record", found)
    return found


# --- profiles --------------------------------------------------------------------


def checked_profile_name(name: object, where: str = "") -> str:
    """The name of a profile; an error if no profile can have this name."""
    if isinstance(name, str) and NAME.fullmatch(name):
        return name
    what = f"{where}: {shown(name)}" if where else shown(name)
    todo = "names have small letters, digits, - and _; see tierctl profile list"
    raise TierctlError(f"{what} is no name of a profile", todo)


def _places(source: Source) -> dict[str, str]:
    """The files of all profiles by name; a path of the source, or one of this package."""
    found = {path.stem: str(path) for path in sorted(SHIPPED.glob("*.toml"))}
    for name in _listed(source, OWN):
        if NAME.fullmatch(name.removesuffix(".toml")):
            found[name.removesuffix(".toml")] = f"{OWN}/{name}"
    return found


def profile(source: Source, name: str) -> Profile:
    """A profile by name; every mistake is an error."""
    places = _places(source)
    where = places.get(checked_profile_name(name))
    if where is None:
        like = near(name, places, 0.5)
        hint = f"did you mean {like}? " if like else ""
        todo = f"{hint}profiles: {', '.join(sorted(places))}"
        raise TierctlError(f"there is no profile {name}", todo)
    try:
        own = where.startswith(f"{OWN}/")
        text = source.read(where) if own else Path(where).read_text("utf-8")
    except OSError as error:
        raise failed(error, f"{where} cannot be read", "check the file") from error
    found = toml(text, where)
    _unknown(found, ("text", "settings"), where)
    wants = _settings(table_of(found, "settings", where), where, True)
    if not wants:
        raise TierctlError(f"{where}: the profile has no settings", "give it a table [settings]")
    return Profile(name, where, " ".join(str(found.get("text", "")).split()), wants)


def profiles(source: Source) -> list[Profile]:
    """All profiles; one with a mistake has ``error``."""
    found = []
    for name, where in sorted(_places(source).items()):
        try:
            found.append(profile(source, name))
        except TierctlError as error:
            found.append(Profile(name, where, error=str(error)))
    return found


def wants(source: Source, found: Config, name: str | None) -> list[Want]:
    """All that is wanted: a profile, settings that count more, and limits of groups.

    A limit of a group that does not exist has a setting without a file.
    """
    merged = (profile(source, name).settings if name else {}) | found.settings
    # A name and a path may stand for one group: the last one counts.
    return list({one.setting.file or key: one for key, one in merged.items()}.values())
