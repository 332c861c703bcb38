# SPDX-License-Identifier: GPL-2.0
"""Documents that are made of what the rooms declare in room.toml.

An ABI file for each room with knobs, the tables between `<!-- declared: KIND -->` and
`<!-- end -->` in PAGES, the faults in the help of a room's Kconfig option ..._DEBUG, and
tierctl/declared.json, from which tierctl has its texts.  A room.toml is changed, and
`python -m lab declared --write` does the rest.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from lab import cache, manifest, rooms
from lab.errors import LabError
from lab.manifest import Knob, Manifest

ABI = "Documentation/ABI/testing"
PAGES = (cache.PROJECT / "docs/operator.md", cache.PROJECT / "docs/counters.md")
TIERCTL = cache.PROJECT / "tierctl/declared.json"
BEGIN, END = "<!-- declared: {} -->\n", "<!-- end -->"
WHAT = """What:		/sys/kernel/mm/tier/{file}
Date:		November 2026
KernelVersion:	6.12
Contact:	tiershift developers <tiershift@localhost.invalid>
"""
WIDTH = 64  # of a description, beside its two tabs
HELP = re.compile(
    r"^config \w+_DEBUG\n(?:\t.*\n)*?\thelp\n((?:\t  .*\n|\n(?=\t  ))+)", re.MULTILINE
)
FAULTS = "While a fault is 1:"  # begins the paragraph of a help that is made
INDENT = "\t  "  # of a help
HELP_WIDTH = 70  # beside it


# --- ABI files -------------------------------------------------------------------


def _default(knob: Knob) -> str:
    if isinstance(knob.default, int):
        return str(knob.default)
    least, shared = re.findall(r"\d+", knob.default)
    return f"the larger of {least} and {shared} / CPUs, with the CPUs that are online at boot"


def _entry(knob: Knob) -> str:
    unit = f"In {knob.unit}, " if knob.unit else ""
    span = f"{knob.min} to {knob.max}" if knob.max > knob.min + 1 else f"{knob.min} or {knob.max}"
    values = (
        f"{unit}{span}.  Default: {_default(knob)}.  Other values give EINVAL and change nothing."
    )
    paragraphs = [
        textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
        for text in (knob.text, values)
    ]
    body = "\n\n".join("\n".join(f"\t\t{line}" for line in lines) for lines in paragraphs)
    return WHAT.format(file=knob.file) + f"Description:\t{body.lstrip()}\n"


def abi(knobs: Sequence[Knob]) -> str:
    """The ABI file of these knobs."""
    return "# SPDX-License-Identifier: GPL-2.0\n" + "\n".join(_entry(knob) for knob in knobs)


# --- tables ----------------------------------------------------------------------


def _range(knob: Knob) -> str:
    span = f"{knob.min}, {knob.max}" if knob.max == knob.min + 1 else f"{knob.min} to {knob.max}"
    return f"{span} {knob.unit}" if len(knob.unit.split()) == 1 else span


def _knobs(found: Manifest) -> Iterator[list[str]]:
    for knob in found.knobs:
        yield [f"`{knob.file}`", str(knob.default), _range(knob), knob.advice or "-"]


def _switches(found: Manifest) -> Iterator[list[str]]:
    for switch in found.switches:
        name = switch.file.removeprefix("/sys/kernel/mm/tier/")
        yield [f"`{name}`", str(int(switch.wish)), switch.text]


def _counters(found: Manifest) -> Iterator[list[str]]:
    for counter in found.counters:
        level = " (a level)" if counter.gauge else ""
        yield [f"`{counter.name}`{level}", counter.text, counter.advice]


def _events(found: Manifest) -> Iterator[list[str]]:
    for event in found.events:
        yield [f"`{event.name}`", event.text, ", ".join(f"`{name}`" for name in event.fields)]


# Header, and the rows of a room
TABLES: dict[str, tuple[list[str], Callable[[Manifest], Iterator[list[str]]]]] = {
    "knobs": (["file in `/sys/kernel/mm/tier/`", "default", "range", "change it if"], _knobs),
    "switches": (["file", "after boot", "the part that works"], _switches),
    "counters": (["if it grows", "it means", "do"], _counters),
    "events": (["event", "it means", "fields"], _events),
}


def table(kind: str) -> str:
    """The lines of a table, of all rooms."""
    header, rows = TABLES[kind]
    found = [header, ["---"] * len(header)]
    found += [row for one in manifest.load().values() for row in rows(one)]
    return "".join(f"| {' | '.join(row)} |\n" for row in found).replace("| --- ", "|---")


def with_tables(text: str) -> str:
    """A page with the tables that it has markers for brought up to date."""
    for kind in TABLES:
        head, begin, rest = text.partition(BEGIN.format(kind))
        if not begin:
            continue
        _, end, tail = rest.partition(END)
        if not end:
            raise LabError(f"a table of {kind} has no end", f"add a line {END}")
        text = head + begin + table(kind) + end + tail
    return text


# --- help of faults ---------------------------------------------------------------


def fault_help(room: str) -> list[str]:
    """The faults of a room as lines for the help of its Kconfig option."""
    return [
        line
        for fault in manifest.load()[room].faults
        for line in textwrap.wrap(
            f"{fault.name}: {fault.text}",
            HELP_WIDTH,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def with_faults(text: str, lines: Sequence[str]) -> str:
    """A Kconfig file; the help of its option ..._DEBUG lists faults before its last paragraph."""
    found = HELP.search(text)
    if not found:
        raise LabError("no option ..._DEBUG has a help", "add one for the faults of the room")
    paragraphs = found[1].rstrip("\n").split("\n\n")
    kept = [one for one in paragraphs if not one.startswith(INDENT + FAULTS)]
    kept[-1:-1] = ["\n".join(INDENT + line for line in (FAULTS, *lines))]
    return text[: found.start(1)] + "\n\n".join(kept) + "\n" + text[found.end(1) :]


def _kconfig(room: str) -> Path:
    """The Kconfig file of a room that has the option of its faults."""
    for name, path in rooms.Room(room, rooms.LINUX / room).files.items():
        if Path(name).name.startswith("Kconfig") and HELP.search(path.read_text("utf-8")):
            return path
    todo = "add an option ..._DEBUG with a help to a file Kconfig* of the room"
    raise LabError(f"linux/{room} has faults, and no option for them", todo)


# --- tierctl ---------------------------------------------------------------------


def tierctl_json() -> str:
    """What tierctl says of switches, knobs, counters, and trace events."""
    found: dict[str, object] = {"comment": "SPDX-License-Identifier: GPL-2.0"}
    for kind in TABLES:
        rows = [row for one in manifest.load().values() for row in getattr(one, kind)]
        found[kind] = [
            {name: _one_line(value) for name, value in msgspec.to_builtins(row).items()}
            for row in rows
        ]
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _one_line(value: object) -> object:
    """Texts of the source's lines have more than one space here and there."""
    return " ".join(value.split()) if isinstance(value, str) else value


# --- all together ----------------------------------------------------------------


def documents() -> dict[Path, str]:
    """Each file that is made, with what it should say."""
    found = {TIERCTL: tierctl_json()}
    for room, one in manifest.load().items():
        if one.knobs:
            path = rooms.LINUX / room / "files" / ABI / f"sysfs-kernel-mm-tier-{room}"
            found[path] = abi(one.knobs)
        if one.faults:
            path = _kconfig(room)
            found[path] = with_faults(path.read_text("utf-8"), fault_help(room))
    pages = {page: page.read_text("utf-8") for page in PAGES if page.exists()}
    for kind in TABLES:
        if not any(BEGIN.format(kind) in text for text in pages.values()):
            names = " or ".join(str(page.relative_to(cache.PROJECT)) for page in PAGES)
            todo = f"add the lines {BEGIN.format(kind).strip()} and {END} to one"
            raise LabError(f"no page has a table of {kind}: {names}", todo)
    return found | {page: with_tables(text) for page, text in pages.items()}


def stale() -> list[Path]:
    """Files that do not say what the rooms declare."""
    return [
        path
        for path, text in documents().items()
        if not path.exists() or path.read_text("utf-8") != text
    ]


def write() -> list[Path]:
    """Bring all documents up to date; those that have changed."""
    found, changed = documents(), stale()
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found[path], encoding="utf-8")
    return changed
