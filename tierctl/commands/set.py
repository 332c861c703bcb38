# SPDX-License-Identifier: GPL-2.0
"""`set`, `group set`, `group apply`: one setting, one limit, and how both are kept."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tierctl.change import config, journal, limits, writes
from tierctl.change import plan as planning
from tierctl.change.config import Want
from tierctl.change.journal import Record
from tierctl.change.kept import Files, kept_limit, kept_setting
from tierctl.change.limits import NO_LIMIT
from tierctl.change.plan import Row
from tierctl.change.settings import find, from_words, known, lacks
from tierctl.commands import rows
from tierctl.core import text
from tierctl.core.errors import FINDING, LACKING, USAGE, WELL, TierctlError
from tierctl.core.paths import CGROUP, LIMIT, TIER
from tierctl.core.reply import Reply, show
from tierctl.core.source import Source
from tierctl.core.text import Style

TYPED = "typed"


def _one(source: Source, want: Want, record: Record) -> Row:
    """The row of a setting whose file must be there."""
    row = planning.plan(source, [want], record)[0]
    if row.status == planning.ABSENT:
        why = row.reason or lacks(source, want.setting)
        what = f"{want.setting.key} cannot be set: {why}"
        raise TierctlError(what, "tierctl doctor says what this kernel has", LACKING)
    planning.refuse(source, [row])
    return row


def _draw(reply: Reply, _: Style) -> list[str]:
    data: dict[str, Any] = reply.data
    now, then = (rows.shown(data, name) for name in ("now", "then"))
    was = "as it was" if data["status"] == planning.SAME else f"was {now}"
    lines = [f"{data['setting']} is {then} ({was})"]
    for line in data["lines"]:
        lines += text.wrap(line)
    return lines


def _reply(kind: str, row: Row, lines: Sequence[str], files: Sequence[str]) -> Reply:
    data = rows.document(row) | {"kept": list(files), "lines": list(lines)}
    return Reply(kind, data)


def set_command(args: argparse.Namespace, source: Source) -> int:
    """Change one setting now, and at each boot."""
    setting = find(args.key)
    want = Want(setting, from_words(setting, args.value), TYPED)
    _one(source, want, journal.load(source))
    machine = journal.live(source)
    with journal.locked(machine):
        record = journal.load(machine)
        row = _one(machine, want, record)
        path, body = kept_setting(machine, setting.key, want.wanted)
        writes.perform(machine, record, [row], [(path, body)])
    lines = [f"Kept in {path}: `tierctl profile apply` writes it again at boot."]
    return show(_reply("set", row, lines, [path]), source, args, _draw)


# --- limits of groups ------------------------------------------------------------


def _limit(pairs: str) -> str:
    name, equals, value = pairs.partition("=")
    if name != "max" or not equals:
        todo = "write max=SIZE, for example max=64G"
        raise TierctlError("a group has one setting, max", todo, USAGE)
    return limits.size(value)


def _lines(name: str, limit: str, path: str, files: Files) -> list[str]:
    """What keeps the limit, in sentences."""
    if limit == NO_LIMIT:
        reload = ["`systemctl daemon-reload` lets systemd forget its drop-in."] * (len(files) > 1)
        return [f"No limit is kept any more for {name}.", *reload]
    kept, drop_in = files[0][0], limits.drop_in(path)
    lines = [f"Kept in {kept}: `tierctl profile apply` writes it again at boot."]
    if drop_in:
        lines.append(f"{drop_in} sets it before each start of the service.")
        lines.append("Type `systemctl daemon-reload` once, so that systemd reads that file.")
    else:
        lines.append(
            "The limit ends with the group.  After a new start of the group type: "
            f"tierctl group apply {name}"
        )
    return lines


def group_set(args: argparse.Namespace, source: Source) -> int:
    """Limit what promotion gives to a group, now and at each start of it."""
    name, limit = limits.checked_name(args.name), _limit(args.setting)
    limits.required(source, name)
    machine = journal.live(source)
    with journal.locked(machine):
        setting = limits.required(machine, name)
        record = journal.load(machine)
        row = _one(machine, Want(setting, limit, TYPED), record)
        group = setting.file.removeprefix(CGROUP).removesuffix(f"/{LIMIT}")
        files = kept_limit(machine, name, limit, group)
        writes.perform(machine, record, [row], files)
    lines = _lines(name, limit, group, files)
    kept = [path for path, body in files if body is not None]
    return show(_reply("group-set", row, lines, kept), source, args, _draw)


def _draw_groups(reply: Reply, _: Style) -> list[str]:
    found = reply.data["settings"]
    if not found:
        return ["No limit is kept.  Set one with: tierctl group set NAME max=64G"]
    return rows.table(found)


def group_apply(args: argparse.Namespace, source: Source) -> int:
    """Write kept limits again; systemd calls it before a service starts."""
    machine = journal.live(source)
    name = limits.checked_name(args.name) if args.name else ""
    with journal.locked(machine):
        found = config.config(machine)
        names = [one for one in found.groups if not name or f"/{one}".endswith(f"/{name}")]
        if name and not names:
            what = f"no limit is kept for {name}"
            raise TierctlError(what, f"tierctl group set {name} max=64G", USAGE)
        wants = [want for one, want in config.limit_wants(machine, found) if one in names]
        record = journal.load(machine)
        plan = planning.plan(machine, wants, record)
        planning.refuse(machine, plan)
        writes.perform(machine, record, plan)
    missing = bool(name) and any(row.status == planning.ABSENT for row in plan)
    data = {"settings": [rows.document(row) for row in plan]}
    return show(
        Reply("group-apply", data, code=FINDING if missing else WELL), source, args, _draw_groups
    )


def add_commands(commands: Any) -> None:
    """Register `set` and `group`."""
    one = commands.add_parser(
        "set",
        help="change one setting",
        description=f"Change one setting of {TIER}, numa_balancing, or demotion_enabled, "
        "now and at each boot.  Undo: tierctl set KEY default, or tierctl profile revert.",
        epilog=f"settings: {', '.join(known())}",
    )
    one.add_argument("key", metavar="KEY", help="for example scan.period_ms, promote.enabled")
    one.add_argument("value", metavar="VALUE", help="a number; of a part, also default")
    one.set_defaults(func=set_command)
    group = commands.add_parser("group", help="limits of control groups")
    inside = group.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    limit = inside.add_parser("set", help="limit a group", description="Limit what promotion gives")
    limit.add_argument("name", metavar="NAME", help="redis.service, or a path in /sys/fs/cgroup")
    limit.add_argument("setting", metavar="max=SIZE", help="64G, 512M, 0, or max: no limit")
    limit.set_defaults(func=group_set)
    again = inside.add_parser("apply", help="write kept limits again")
    again.add_argument("name", metavar="NAME", nargs="?", help="of this group only")
    again.set_defaults(func=group_apply)
