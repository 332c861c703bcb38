# SPDX-License-Identifier: GPL-2.0
"""`profile list, show, diff, apply, verify, revert`: named sets of settings."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tierctl.change import config, journal, kept, writes
from tierctl.change import plan as planning
from tierctl.change.config import Config, Profile
from tierctl.change.current import compared, verdict
from tierctl.change.plan import ABSENT, CHANGE, OTHERS, RESTORE, SAME, UNKNOWN, Row
from tierctl.commands import rows
from tierctl.commands.rows import Answer
from tierctl.core import text
from tierctl.core.errors import DENIED, FINDING, LACKING, WELL, TierctlError, failed
from tierctl.core.paths import KEPT
from tierctl.core.reply import Reply, show
from tierctl.core.source import Source
from tierctl.core.text import Style


@dataclass
class List:
    """All profiles, and the name of the one that is chosen."""

    profiles: list[Profile]
    chosen: str | None


NONE = "No profile is chosen.  Choose one with: tierctl profile apply NAME"
NO_SETTING = (
    "This kernel has no setting of {}: nothing is changed.  The profile hint works on kernels with "
    "NUMA balancing: tierctl profile apply hint"
)
DIFFER = (CHANGE, RESTORE, UNKNOWN)
STAY = (OTHERS, UNKNOWN, writes.FAILED)


def list_command(args: argparse.Namespace, source: Source) -> int:
    chosen = None
    with contextlib.suppress(TierctlError):  # a mistake in a file hides no profile
        chosen = config.config(source).profile
    found = List(config.profiles(source), chosen)
    for one in found.profiles:
        plan = planning.plan(source, list(one.settings.values()), journal.Record(""))
        if plan and all(row.status == ABSENT for row in plan):
            one.error = "this kernel has none of its settings"
    return show(Reply("profile-list", found), source, args, _list)


def _list(reply: Reply, style: Style) -> list[str]:
    data: List = reply.data
    width = max((len(one.name) for one in data.profiles), default=0)
    lines = []
    for one in data.profiles:
        words = f"unusable: {one.error}" if one.error else one.text or "-"
        first = f"{'*' if one.name == data.chosen else ' '} {one.name.ljust(width)}  "
        lines += text.wrap(words, " " * (width + 4), first)
    return [*lines, "* is chosen." if data.chosen else NONE]


# --- show, diff, apply, verify ---------------------------------------------------


def _plan(
    args: argparse.Namespace, source: Source
) -> tuple[Config, str | None, journal.Record, list[Row]]:
    """The configuration, the profile, the journal, and what is to be written."""
    found = config.config(source)
    name = config.checked_profile_name(args.name) if args.name else found.profile
    record = journal.load(source)
    plan = planning.plan(source, config.wants(source, found, name), record)
    plan += planning.leftovers(source, record, plan)
    return found, name, record, planning.first_writes(plan)


def _code(answer: Answer) -> int:
    """This kernel may have none of the settings."""
    return LACKING if answer.settings and answer.of(ABSENT) == answer.settings else WELL


def _draw(
    answer: Answer, listed: Sequence[Row], then: Sequence[str] = (), more: str = "", did: str = ""
) -> list[str]:
    """A table, a sentence with counts, what else stays and why, and more sentences.

    ``then``: heads of the columns of values; ``did``: what became of rows that differed.
    """
    if not answer.settings:
        return [NONE]
    name = f"profile {answer.profile}" if answer.profile else "the configuration"
    differ, same, absent = len(answer.of(*DIFFER)), len(answer.of(SAME)), len(answer.of(ABSENT))
    counts = f"{differ} {did or 'not as wanted'}, {same} as wanted, {absent} n/a"
    said = f"{name}: {counts}." if differ + same else NO_SETTING.format(name)
    lines = rows.table(listed, *then) if listed else []
    lines += text.wrap(said[0].upper() + said[1:])
    reasons: dict[str, list[str]] = {}
    for row in answer.settings:
        if row.status == ABSENT and row not in listed:
            reasons.setdefault(row.reason, []).append(row.key)
        elif row.status == SAME and row.reason and row not in listed:
            lines += text.wrap(f"{row.key} stays {row.now}: {row.reason}", "    ", "")
    for reason, keys in reasons.items():
        lines += text.wrap(f"n/a: {reason}: {', '.join(keys)}", "     ", "")
    return lines + text.wrap(more.strip())


def look_command(args: argparse.Namespace, source: Source) -> int:
    """What a profile has, and what it would change."""
    _, name, _, plan = _plan(args, source)
    if not plan:
        raise TierctlError("no profile is chosen", "give a name: tierctl profile list")
    answer = Answer(name, plan)
    listed, code, more = answer.of(*DIFFER), _code(answer), ""
    if args.subcommand == "show":
        profile = config.profile(source, name) if name else None
        listed, code = plan, WELL
        more = f"{profile.text}  File: {profile.origin}" if profile else ""
    elif listed:
        code = FINDING
    reply = Reply(f"profile-{args.subcommand}", answer, code=code)
    return show(reply, source, args, lambda *_: _draw(answer, listed, more=more))


def apply_command(args: argparse.Namespace, source: Source) -> int:
    """Write a profile, and keep its name for the next boot."""
    if args.dry_run:
        _, name, _, plan = _plan(args, source)
        planning.refuse(source, plan)
        answer = Answer(name, plan)
        heads, did, more = ("NOW", "THEN"), "", "Nothing was written."
    else:
        machine = journal.live(source)
        with journal.locked(machine):
            found, name, record, plan = _plan(args, machine)
            planning.refuse(machine, plan)
            keep = kept.profile(machine, name) if name and name != found.profile else []
            writes.perform(machine, record, plan, keep)
        answer = Answer(name, plan, kept=[KEPT] if keep else [found.chosen_in] if name else [])
        heads, did, more = ("WAS", "NEW"), "changed", ""
        if answer.kept:
            more = f"Kept in {answer.kept[0]}; tierctl.service applies it at each boot."
        if answer.of(CHANGE, RESTORE):
            more += "  Pages move as programs use them, within minutes: tierctl status, tierctl top"
    reply = Reply("profile-apply", answer, code=WELL if args.dry_run else _code(answer))
    listed = answer.of(*DIFFER)
    return show(reply, source, args, lambda *_: _draw(answer, listed, heads, more, did))


def verify_command(args: argparse.Namespace, source: Source) -> int:
    """Compare the machine with what is chosen: 0 if they agree, 1 if they differ."""
    name, found = compared(source)
    answer = Answer(name, found, verdict(name, found).verified)
    differ = answer.of(*DIFFER)
    code = FINDING if differ else WELL
    if differ and answer.of(UNKNOWN) == differ:
        code = DENIED
    more = "Write it again with: tierctl profile apply" if differ else ""
    reply = Reply("profile-verify", answer, code=code)
    return show(reply, source, args, lambda *_: _draw(answer, differ, ("NOW", "WANTED"), more))


# --- revert ----------------------------------------------------------------------


def revert_command(args: argparse.Namespace, source: Source) -> int:
    """Restore the values before tierctl, and forget what is kept."""
    machine = journal.live(source)
    with journal.locked(machine):
        record = journal.load(machine)
        plan = planning.first_writes(planning.reversal(machine, record))
        writes.restore(machine, plan)
        removed = {path: machine.get(path) or "" for path in kept.files(machine)}
        try:
            writes.keep(machine, [(path, None) for path in removed])
            writes.close(machine, record, plan)
        except OSError as error:
            raise failed(error, "values are restored, but a file stays", "try again") from error
    again = None
    with contextlib.suppress(TierctlError):  # a mistake in a file keeps nothing from its value
        rest = config.config(machine)
        again = next((one.origin for one in rest.settings.values()), rest.chosen_in) or None
    answer = Answer(None, plan, removed=removed, still_configured=again)
    code = FINDING if answer.of(*STAY) or again else WELL
    return show(Reply("profile-revert", answer, code=code), source, args, _reverted)


def _reverted(reply: Reply, style: Style) -> list[str]:
    answer: Answer = reply.data
    done, left = answer.of(RESTORE), answer.of(*STAY)
    lines = rows.table(done, "WAS", "NEW") if done else []
    lines.append(f"Restored: {len(done)}")
    if left:
        lines.append("These stay, since others have changed them, or the kernel refuses:")
        lines += rows.table(left, "NOW", "BEFORE")
    for path, content in answer.removed.items():
        lines.append(f"Removed {path}")
        if path == KEPT:
            body = (line for line in content.splitlines() if line[:1] != "#")
            lines += text.wrap("; ".join(body), "    ")
    if answer.still_configured:
        words = f"{answer.still_configured} has settings still, which the next boot applies."
        lines += text.wrap(words)
    return lines


def add_commands(commands: Any) -> None:
    profile = commands.add_parser("profile", help="named sets of settings")
    inside = profile.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    inside.add_parser("list", help="all profiles").set_defaults(func=list_command)
    for name, func, words in (
        ("show", look_command, "the settings of a profile"),
        ("diff", look_command, "what a profile would change; exit status 1 if anything"),
        ("apply", apply_command, "write a profile, now and at each boot"),
    ):
        one = inside.add_parser(name, help=words)
        one.add_argument("name", metavar="NAME", nargs="?", help="default: the one that is chosen")
        one.set_defaults(func=func)
        if name == "apply":
            one.add_argument("--dry-run", action="store_true", help="write nothing")
    verify = inside.add_parser("verify", help="compare with the profile: exit status 0 or 1")
    verify.set_defaults(func=verify_command)
    words = "back to the values before tierctl"
    revert = inside.add_parser(
        "revert",
        help=words,
        description=f"All settings that tierctl has changed since boot go {words}.  What tierctl "
        "keeps for the next boot is removed.",
    )
    revert.set_defaults(func=revert_command)
