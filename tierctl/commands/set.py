# SPDX-License-Identifier: GPL-2.0
"""`set`, `group set`: one setting, one limit, and how both are kept."""

from __future__ import annotations

import argparse
from typing import Any

from tierctl.change import journal, kept, limits, writes
from tierctl.change import plan as planning
from tierctl.change.config import Want
from tierctl.change.limits import NO_LIMIT
from tierctl.change.plan import Row
from tierctl.change.settings import NUMBER, Kind, check, find, known, lacks
from tierctl.commands import rows
from tierctl.commands.rows import Answer
from tierctl.core import text
from tierctl.core.errors import LACKING, TierctlError
from tierctl.core.paths import KEPT, TIER
from tierctl.core.reply import Reply, show
from tierctl.core.source import Source

TYPED = "typed"


def _setting(args: argparse.Namespace, source: Source) -> Want:
    setting, word = find(args.key), args.value
    return Want(setting, check(setting, int(word) if NUMBER.fullmatch(word) else word), TYPED)


def _limit(args: argparse.Namespace, source: Source) -> Want:
    name, (key, _, value) = limits.checked_name(args.name), args.setting.partition("=")
    if key != "max":
        raise TierctlError("a group has one setting, max", "write max=SIZE, for example max=64G")
    limit = limits.size(value)
    ended = kept.ended(source, name) if limit == NO_LIMIT else None
    return Want(ended or limits.required(source, name), limit, TYPED)


def _row(source: Source, want: Want, record: journal.Record) -> Row:
    """The row of a setting whose file must be there, but for a limit that is to be forgotten."""
    row = planning.plan(source, [want], record)[0]
    if row.status == planning.ABSENT and want.wanted != NO_LIMIT:
        why = row.reason or lacks(source, want.setting)
        what = f"{want.setting.key} cannot be set: {why}"
        raise TierctlError(what, "tierctl doctor says what this kernel has", LACKING)
    planning.refuse(source, [row])
    return row


def command(args: argparse.Namespace, source: Source) -> int:
    """Change one setting now, and at each boot."""
    _row(source, args.want(args, source), journal.load(source))  # mistakes come before rights
    machine = journal.live(source)
    with journal.locked(machine):
        want, record = args.want(args, machine), journal.load(machine)
        row = _row(machine, want, record)
        files = kept.setting(machine, want)
        writes.perform(machine, record, [row], files)
    answer = Answer(None, [row], kept=[path for path, body in files if body is not None])
    return show(Reply(args.kind, answer), source, args, lambda *_: _lines(row, want, files))


def _lines(row: Row, want: Want, files: kept.Files) -> list[str]:
    was = "as it was" if row.status == planning.SAME else f"was {rows.shown(row, row.now)}"
    lines = [f"{row.key} is {rows.shown(row, row.then)} ({was})"]
    if row.status == planning.ABSENT and want.wanted == NO_LIMIT:
        lines = text.wrap(f"{row.key} is forgotten; no group of this name has a limit now.")
    elif row.kind is Kind.LIMIT and want.wanted == NO_LIMIT:
        lines.append("The group has no limit any more.")
    else:
        lines += text.wrap(f"Kept in {KEPT}: `tierctl profile apply` writes it again at boot.")
    for path, body in files[1:]:
        does = "sets it before each start of the service" if body else "is removed"
        words = f"{path} {does}.  Type `systemctl daemon-reload`, so that systemd knows."
        lines += text.wrap(words)
    if row.kind is Kind.LIMIT and want.wanted != NO_LIMIT and not files[1:]:
        words = "The limit ends with the group.  After a new start of the group type: "
        lines += text.wrap(f"{words}tierctl profile apply")
    return lines


def add_commands(commands: Any) -> None:
    one = commands.add_parser(
        "set",
        help="change one setting",
        description=f"Change one setting of {TIER}, numa_balancing, or demotion_enabled, "
        "now and at each boot.  Undo: tierctl set KEY default, or tierctl profile revert.",
        epilog=f"settings: {', '.join(known())}",
    )
    one.add_argument("key", metavar="KEY", help="for example scan.period_ms, promote.enabled")
    one.add_argument("value", metavar="VALUE", help="a number; of a part, also default")
    one.set_defaults(func=command, kind="set", want=_setting)
    group = commands.add_parser("group", help="limits of control groups")
    inside = group.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    limit = inside.add_parser("set", help="limit a group", description="Limit what promotion gives")
    limit.add_argument("name", metavar="NAME", help="redis.service, or a path in /sys/fs/cgroup")
    limit.add_argument("setting", metavar="max=SIZE", help="64G, 512M, 0, or max: no limit")
    limit.set_defaults(func=command, kind="group-set", want=_limit)
