# SPDX-License-Identifier: GPL-2.0
"""`profile list, show, diff, apply, verify, revert`: named sets of settings."""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tierctl.change import config, journal, kept, writes
from tierctl.change import plan as planning
from tierctl.change.config import Config
from tierctl.change.current import compared, verdict
from tierctl.change.plan import ABSENT, CHANGE, OTHERS, RESTORE, SAME, UNKNOWN, Row
from tierctl.change.settings import known
from tierctl.commands import rows
from tierctl.core import text
from tierctl.core.errors import DENIED, FINDING, LACKING, USAGE, WELL, TierctlError, failed
from tierctl.core.paths import CONF, ETC, TIER
from tierctl.core.reply import Reply, show
from tierctl.core.source import Source
from tierctl.core.text import Style

NONE = "No profile is chosen.  Choose one with: tierctl profile apply NAME"


def _plural(number: int, one: str) -> str:
    return f"{number} {one}{'' if number == 1 else 's'}"


# --- list, show ------------------------------------------------------------------


def list_command(args: argparse.Namespace, source: Source) -> int:
    """All profiles, and which one is chosen."""
    chosen = None
    with contextlib.suppress(TierctlError):  # a mistake in a file hides no profile
        chosen = config.config(source).profile
    found = [
        {
            "name": one.name,
            "text": one.text,
            "from": one.origin,
            "chosen": one.name == chosen,
            "error": one.error or None,
        }
        for one in config.profiles(source)
    ]
    return show(Reply("profile-list", {"profiles": found, "chosen": chosen}), source, args, _list)


def _list(reply: Reply, style: Style) -> list[str]:
    found = reply.data["profiles"]
    width = max((len(one["name"]) for one in found), default=0)
    lines = []
    for one in found:
        mark = "*" if one["chosen"] else " "
        words = f"unusable: {one['error']}" if one["error"] else one["text"]
        indent = " " * (width + 4)
        lines += text.wrap(words or "-", indent, f"{mark} {one['name'].ljust(width)}  ")
    return [*lines, "* is chosen." if reply.data["chosen"] else NONE]


def _name(args: argparse.Namespace, found: Config) -> str | None:
    return config.checked_profile_name(args.name) if args.name else found.profile


def show_command(args: argparse.Namespace, source: Source) -> int:
    """The settings of a profile, with those that the configuration has changed."""
    found = config.config(source)
    name = _name(args, found)
    wants = config.wants(source, found, name)
    if not wants:
        raise TierctlError("no profile is chosen", "give a name: tierctl profile list", USAGE)
    alone = config.Profile("no profile", ETC, "what is set, and limits of groups")
    profile = config.profile(source, name) if name else alone
    plan = planning.plan(source, wants, journal.load(source))
    settings = []
    for row, want in zip(plan, wants, strict=True):
        explained = {"wanted": want.wanted, "text": want.setting.text, "range": want.setting.span}
        settings.append(rows.document(row) | explained)
    data = {
        "name": name,
        "text": profile.text,
        "from": profile.origin,
        "chosen": name is not None and name == found.profile,
        "chosen_in": found.chosen_in or None,
        "settings": settings,
    }
    return show(Reply("profile-show", data), source, args, _show)


def _show(reply: Reply, style: Style) -> list[str]:
    data = reply.data
    cells = [["SETTING", "VALUE", "NOW"]]
    for row in data["settings"]:
        value = rows.shown(row, "then") if row["then"] is not None else str(row["wanted"])
        cells.append([row["setting"], value, rows.shown(row, "now")])
    name = data["name"] or "no profile"
    head = f"{name}: {data['text']}" if data["text"] else name
    where = f"Chosen in {data['chosen_in']}." if data["chosen"] else "Not chosen."
    notes = _stays(data["settings"])
    return [
        *text.wrap(head),
        f"File: {data['from']}.  {where}",
        "",
        *text.table(cells, "<<<"),
        *notes,
    ]


# --- diff, apply, verify ---------------------------------------------------------


@dataclass
class _Plan:
    """What a command compares or writes."""

    config: Config
    name: str | None
    record: journal.Record
    rows: list[Row]


def _plan(args: argparse.Namespace, source: Source) -> _Plan:
    found = config.config(source)
    name = _name(args, found)
    record = journal.load(source)
    plan = planning.plan(source, config.wants(source, found, name), record)
    plan += planning.leftovers(source, record, plan)
    return _Plan(found, name, record, planning.first_writes(plan))


def _data(name: str | None, found: Sequence[Row], **more: Any) -> dict[str, Any]:
    counts = Counter(row.status for row in found)
    return {
        "profile": name,
        "changed": counts[CHANGE] + counts[RESTORE],
        "same": counts[SAME],
        "absent": counts[ABSENT],
        "settings": [rows.document(row) for row in found],
        **more,
    }


def _lacking(found: Sequence[Row]) -> int:
    """The exit status of a plan: this kernel may have none of its settings."""
    return LACKING if found and all(row.status == ABSENT for row in found) else WELL


def _differing(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in data["settings"] if row["status"] in (CHANGE, RESTORE, UNKNOWN)]


def _stays(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Settings that stay, although a profile usually changes them."""
    lines: list[str] = []
    for row in settings:
        if row["status"] == SAME and row["reason"]:
            lines += text.wrap(f"{row['setting']} stays {row['now']}: {row['reason']}", "    ", "")
    return lines


def _left(data: dict[str, Any]) -> list[str]:
    """What stays and why; n/a: one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for row in data["settings"]:
        if row["status"] == ABSENT:
            reasons.setdefault(row["reason"], []).append(row["setting"])
    lines = _stays(data["settings"])
    for reason, keys in reasons.items():
        lines += text.wrap(f"n/a: {reason}: {', '.join(keys)}", indent="     ", first="")
    return lines


def diff_command(args: argparse.Namespace, source: Source) -> int:
    """What a profile would change."""
    plan = _plan(args, source)
    if not plan.rows:
        raise TierctlError("no profile is chosen", "give a name: tierctl profile list", USAGE)
    data = _data(plan.name, plan.rows)
    code = FINDING if _differing(data) else _lacking(plan.rows)
    return show(Reply("profile-diff", data, code=code), source, args, _diff)


def _diff(reply: Reply, style: Style) -> list[str]:
    data = reply.data
    differing = _differing(data)
    name = f"profile {data['profile']}" if data["profile"] else "the configuration"
    if not differing:
        none = "No difference from" if data["same"] else "This kernel has no setting of"
        return [f"{none} {name}.", *_left(data)]
    return [*rows.table(differing), *_left(data)]


def _parts(source: Source) -> list[dict[str, str]]:
    """Parts that have a wish and do not work."""
    found = []
    for key in known():
        part = key.removesuffix(".enabled")
        state = source.get(f"{TIER}/{part}/state") if part != key else None
        if state in ("waiting", "unsupported"):
            reason = source.get(f"{TIER}/{part}/reason") or ""
            found.append({"part": part, "state": state, "reason": reason})
    return found


def apply_command(args: argparse.Namespace, source: Source) -> int:
    """Write a profile, and keep its name for the next boot."""
    if args.dry_run:
        plan = _plan(args, source)
        planning.refuse(source, plan.rows)
        data = _data(plan.name, plan.rows, dry_run=True)
        return show(Reply("profile-apply", data), source, args, _dry_run)
    machine = journal.live(source)
    with journal.locked(machine):
        plan = _plan(args, machine)
        planning.refuse(machine, plan.rows)
        keep = kept.choice(machine, plan.config, plan.name) if plan.name else []
        writes.perform(machine, plan.record, plan.rows, keep)
    chosen_in = keep[0][0] if keep else plan.config.chosen_in
    data = _data(
        plan.name,
        plan.rows,
        dry_run=False,
        kept=chosen_in or None,
        state=machine.get(planning.STATE),
        parts=_parts(machine),
    )
    reply = Reply("profile-apply", data, code=_lacking(plan.rows))
    return show(reply, source, args, _applied)


def _dry_run(reply: Reply, style: Style) -> list[str]:
    data = reply.data
    found = [row for row in data["settings"] if row["status"] != SAME]
    if not data["settings"]:
        return [NONE]
    lines = rows.table(found) if found else []
    if any(row["status"] == ABSENT for row in found):
        lines.append("n/a: kept, and used as soon as an apply, as at boot, finds the file.")
    lines += _stays(data["settings"])
    return [*lines, f"Nothing was written; {data['same']} are as wanted already."]


def _applied(reply: Reply, style: Style) -> list[str]:
    data = reply.data
    if not data["settings"]:
        return [NONE]
    differing = _differing(data)
    name = f"profile {data['profile']}" if data["profile"] else "the configuration"
    lines = rows.table(differing, "WAS", "NEW") if differing else []
    counts = f"{_plural(data['changed'], 'setting')} changed, {data['same']} as before"
    lines.append(f"{name[0].upper()}{name[1:]} is applied: {counts}, {data['absent']} n/a.")
    if not data["changed"] + data["same"]:
        lines = text.wrap(
            f"This kernel has no setting of {name}: nothing is changed.  The profile hint works on "
            "kernels with NUMA balancing: tierctl profile apply hint"
        )
    lines += _left(data)
    if data["kept"]:
        lines += text.wrap(f"Kept in {data['kept']}; tierctl.service applies it at each boot.")
    if data["changed"]:
        lines.append("Pages move as programs use them, within minutes: tierctl status, tierctl top")
    if data["state"] not in (None, "on"):
        lines.append(f"State of tiering: {data['state']}.")
    for one in data["parts"]:
        lines += text.wrap(f"{one['part']} is {one['state']}: {one['reason']}", indent="    ")
    return lines


def verify_command(args: argparse.Namespace, source: Source) -> int:
    """Compare the machine with what is chosen: 0 if they agree, 1 if they differ."""
    name, found = compared(source)
    data = _data(name, found, verified=verdict(name, found).verified)
    differing = [row for row in found if row.differs]
    code = FINDING if differing else WELL
    if differing and all(row.status == UNKNOWN for row in differing):
        code = DENIED
    return show(Reply("profile-verify", data, code=code), source, args, _verify)


def _verify(reply: Reply, style: Style) -> list[str]:
    data = reply.data
    differing = _differing(data)
    if not data["settings"]:
        return [NONE]
    name = f"profile {data['profile']}" if data["profile"] else "the configuration"
    result = f"{_plural(len(differing), 'difference')}, {data['same']} as wanted"
    lines = rows.table(differing, "NOW", "WANTED") if differing else []
    lines.append(f"{name}: {result}, {data['absent']} n/a.")
    if differing:
        lines.append("Write it again with: tierctl profile apply")
    return lines + _left(data)


# --- revert ----------------------------------------------------------------------


def revert_command(args: argparse.Namespace, source: Source) -> int:
    """Restore the values before tierctl, and forget what is kept."""
    machine = journal.live(source)
    with journal.locked(machine):
        record = journal.load(machine)
        plan = planning.first_writes(planning.reversal(machine, record))
        restored = writes.restore(machine, plan)
        removed = [
            {"file": path, "content": machine.get(path) or ""} for path in kept.kept_files(machine)
        ]
        try:
            writes.keep(machine, [(one["file"], None) for one in removed])
            writes.close(machine, record, plan)
        except OSError as error:
            raise failed(error, "values are restored, but a file stays", "try again") from error
    again = ""
    with contextlib.suppress(TierctlError):  # a mistake in a file keeps nothing from its value
        rest = config.config(machine)
        again = rest.chosen_in or next((one.origin for one in rest.settings.values()), "")
        again = again or next((one.origin for one in rest.groups.values()), "")
    left = [row for row in plan if row.status == OTHERS]
    data = _data(None, plan, removed=removed, still_configured=again or None)
    del data["profile"]
    code = FINDING if not restored or left or data["still_configured"] else WELL
    return show(Reply("profile-revert", data, code=code), source, args, _reverted)


def _reverted(reply: Reply, style: Style) -> list[str]:
    data = reply.data
    done = [row for row in data["settings"] if row["status"] == RESTORE]
    left = [row for row in data["settings"] if row["status"] == OTHERS]
    failing = [row for row in data["settings"] if row["status"] in (writes.FAILED, UNKNOWN)]
    lines = rows.table(done, "WAS", "NEW") if done else []
    lines.append(f"{_plural(len(done), 'setting')} restored.")
    if left:
        lines.append("Others have changed these since, so they stay:")
        lines += rows.table(left, "NOW", "BEFORE")
    if failing:
        lines += ["These could not be restored:", *rows.table(failing, "NOW", "BEFORE")]
    for one in data["removed"]:
        body = "; ".join(line for line in one["content"].splitlines() if line[:1] not in "#[")
        lines.append(f"Removed {one['file']}")
        lines += text.wrap(body, indent="    ") if one["file"].startswith(CONF) else []
    if data["still_configured"]:
        words = f"{data['still_configured']} has settings still, which the next boot applies."
        lines += text.wrap(words)
    return lines


def add_commands(commands: Any) -> None:
    """Register `profile`."""
    profile = commands.add_parser("profile", help="named sets of settings")
    inside = profile.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    inside.add_parser("list", help="all profiles").set_defaults(func=list_command)
    for name, func, words in (
        ("show", show_command, "the settings of a profile"),
        ("diff", diff_command, "what a profile would change; exit status 1 if anything"),
        ("apply", apply_command, "write a profile, now and at each boot"),
    ):
        one = inside.add_parser(name, help=words)
        one.add_argument("name", metavar="NAME", nargs="?", help="default: the one that is chosen")
        one.set_defaults(func=func)
        if name == "apply":
            one.add_argument("--dry-run", action="store_true", help="write nothing")
    verify = inside.add_parser("verify", help="compare with the profile: exit status 0 or 1")
    verify.set_defaults(func=verify_command, name=None)
    words = "back to the values before tierctl"
    revert = inside.add_parser(
        "revert",
        help=words,
        description=f"All settings that tierctl has changed since boot go {words}.  What tierctl "
        "keeps for the next boot is removed.",
    )
    revert.set_defaults(func=revert_command)
