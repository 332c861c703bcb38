# SPDX-License-Identifier: GPL-2.0
"""What a room says about itself: linux/<room>/room.toml.

The lab asks here for all that it has to know of a mechanism: its options, objects,
counters, threads, switches, faults, tests and models.  So a new room needs no change elsewhere.
docs/engineer.md has a table of the keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from lab import cache, rooms
from lab.errors import LabError
from lab.rooms import Commit, Room

NAME = "room.toml"
SELFTESTS = "tools/testing/selftests"
MODELS = cache.PROJECT / "models"
TABLE_BEGIN = "<!-- rooms: `python -m lab rooms --write` -->\n"
TABLE_END = "<!-- end of rooms -->"

Line = Annotated[str, Meta(pattern=r"^[^\n|]+$")]
Word = Annotated[str, Meta(pattern=r"^[\w-]+$")]
Option = Annotated[str, Meta(pattern=r'^CONFIG_\w+=(y|m|n|-?\d+|0x[0-9a-f]+|"[^"\n]*")$')]
Object = Annotated[str, Meta(pattern=r"^\w[\w./-]*(/|\.o)$")]
Tunable = Annotated[str, Meta(pattern=r"^/(sys|proc/sys)/\S+$")]
# A number for which the kernel asks how many CPUs are online at boot
AtBoot = Annotated[str, Meta(pattern=r"^max\(\d+, \d+ / CPUs\)$")]


class Switch(Struct, frozen=True, forbid_unknown_fields=True):
    """[[switch]]: a file that switches the mechanism on and off."""

    file: Tunable
    on: Word
    off: Word
    toggle: bool = True  # also under load, all the time (make soak)
    wish: bool = True  # what the file says after boot
    text: Line = "-"


class Knob(Struct, frozen=True, forbid_unknown_fields=True):
    """[[knob]]: a file below /sys/kernel/mm/tier that takes a number."""

    file: Annotated[str, Meta(pattern=r"^[a-z]+/\w+$")]
    default: int | AtBoot
    min: int
    max: int
    text: Line
    unit: Line = ""
    advice: Line = ""  # when to change it

    def at_boot(self, cpus: int) -> int:
        """The number that the file has after boot."""
        if isinstance(self.default, int):
            return self.default
        least, shared = map(int, re.findall(r"\d+", self.default))
        return max(least, shared // cpus)


class Counter(Struct, frozen=True, forbid_unknown_fields=True):
    """[[counter]]: a row of /proc/vmstat."""

    name: Annotated[str, Meta(pattern=r"^tier_\w+$")]
    text: Line
    advice: Line = "-"
    gauge: bool = False  # a level, which also falls


class Event(Struct, frozen=True, forbid_unknown_fields=True):
    """[[event]]: a trace event of the system `tier`."""

    name: Annotated[str, Meta(pattern=r"^tier_\w+$")]
    text: Line
    fields: tuple[Word, ...]


class FaultTest(
    Struct, frozen=True, forbid_unknown_fields=True, rename={"also": "with"}, omit_defaults=True
):
    """One of a fault's `tests`: a selftest that fails while the rule is broken.

    It has `program`, `args` and `says`, or `elsewhere`.
    """

    program: Annotated[str, Meta(pattern=r"^[\w-]+/[\w-]+$")] = ""  # DIRECTORY/NAME of selftests
    args: str = ""  # they choose one case
    says: str = ""  # regular expression: what the program prints then
    also: tuple[Word, ...] = ()  # faults that are set as well, where either rule would do
    before: Line = ""  # shell
    machine: Word = "two-tier"  # see lab/faults.py
    long: bool = False  # too long for `make test`
    elsewhere: str = ""  # FILE::TEST in tests/boot, which sets the fault itself


class Fault(Struct, frozen=True, forbid_unknown_fields=True):
    """[[fault]]: a rule that a debug kernel can break, and who notices."""

    name: Annotated[str, Meta(pattern=r"^[a-z]+_\w+$")]
    text: Line
    tests: tuple[FaultTest, ...] = ()


class Manifest(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={
        "switches": "switch",
        "knobs": "knob",
        "counters": "counter",
        "events": "event",
        "faults": "fault",
        "commits": "commit",
    },
):
    """One room.toml."""

    title: Line
    state: Literal["works", "seam", "draft"]
    depends: tuple[Word, ...] = ()
    kconfig: tuple[Option, ...] = ()
    kconfig_torture: tuple[Option, ...] = ()
    kconfig_debug: tuple[Option, ...] = ()
    objects: tuple[Object, ...] = ()
    threads: tuple[str, ...] = ()
    kinds: dict[Word, tuple[Word, ...]] = {}
    switches: tuple[Switch, ...] = ()
    knobs: tuple[Knob, ...] = ()
    counters: tuple[Counter, ...] = ()
    events: tuple[Event, ...] = ()
    faults: tuple[Fault, ...] = ()
    selftests: Word | None = None
    models: Word | None = None
    modules: tuple[Word, ...] = ()
    commits: tuple[Commit, ...] = ()

    def options(self, keys: Iterable[str]) -> dict[str, str]:
        """Options by name, of some of the keys kconfig, kconfig_torture and kconfig_debug."""
        lines = [line for key in keys for line in getattr(self, key)]
        return dict(line.split("=", 1) for line in lines)


def _keys(kind: type[Struct]) -> str:
    return ", ".join(kind.__struct_encode_fields__)


TABLES: dict[str, type[Struct]] = {
    "a switch": Switch,
    "a knob": Knob,
    "a counter": Counter,
    "an event": Event,
    "a fault": Fault,
    "its tests": FaultTest,
}
KNOWN = (
    f"keys are {_keys(Manifest)}; "
    + "; ".join(f"of {name} {_keys(kind)}" for name, kind in TABLES.items())
    + "; docs/engineer.md explains them"
)


def _error(room: Room, key: str, what: str, todo: str) -> LabError:
    place = f"linux/{room.name}/{NAME}"
    return LabError(f"{place}: {key}: {what}" if key else f"{place}: {what}", todo)


def _decode(room: Room) -> Manifest:
    path = room.path / NAME
    if not path.exists():
        raise _error(room, "", "there is no such file", "write it: title and state are enough")
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Manifest)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise _error(room, where.strip(".`"), what, KNOWN) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _error(room, "", str(error), "fix the TOML syntax") from error


def _sources(room: Room) -> set[str]:
    """What a room adds or changes."""
    return {*room.files, *(name for hook in room.hooks for name in rooms.touched(hook))}


def _made_of(name: str, sources: Iterable[str]) -> list[str]:
    """The C files that an object, or a directory of them, is made of."""
    if name.endswith("/"):
        return [path for path in sources if path.startswith(name) and path.endswith(".c")]
    return [path for path in sources if path == name.removesuffix("o") + "c"]


def own_objects(room: Room) -> list[str]:
    """Those objects of a room that are made of new files: no object of the base kernel."""
    return [name for name in read(room).objects if _made_of(name, room.files)]


def _check_objects(room: Room, manifest: Manifest) -> None:
    sources = _sources(room)
    for name in manifest.objects:
        if not _made_of(name, sources):
            raise _error(
                room,
                "objects",
                f"the room neither adds nor changes a C file of {name!r}",
                'name an object ("mm/x.o") or a directory ("mm/x/") of files/ or hooks/',
            )


def _check_patterns(room: Room, manifest: Manifest) -> None:
    said = [("fault", test.says) for fault in manifest.faults for test in fault.tests]
    for key, pattern in (*(("threads", name) for name in manifest.threads), *said):
        try:
            re.compile(pattern)
        except re.error as error:
            todo = "write a regular expression, as Python has them"
            raise _error(room, key, f"{pattern!r}: {error}", todo) from error


def _check_knobs(room: Room, manifest: Manifest) -> None:
    for knob in manifest.knobs:
        known = knob.default if isinstance(knob.default, int) else knob.min
        if not 0 <= knob.min <= known <= knob.max:
            todo = "min, default and max are in this order"
            raise _error(room, "knob", f"{knob.file}: the range is wrong", todo)


def _check_faults(room: Room, manifest: Manifest) -> None:
    for fault in manifest.faults:
        for test in fault.tests:
            if bool(test.elsewhere) == bool(test.program and test.args and test.says):
                todo = "give program, args and says, or elsewhere alone"
                raise _error(room, "fault", f"{fault.name}: a test is incomplete", todo)
            if test.elsewhere and test != FaultTest(elsewhere=test.elsewhere):
                todo = "a test elsewhere has no other key"
                raise _error(room, "fault", f"{fault.name}: {test.elsewhere}", todo)


def _check_directories(room: Room, manifest: Manifest) -> None:
    selftests = f"{SELFTESTS}/{manifest.selftests}/"
    if manifest.selftests and not any(path.startswith(selftests) for path in room.files):
        todo = "name a directory of the room's selftests, or leave the key out"
        raise _error(room, "selftests", f"files/ has no {selftests}", todo)
    if manifest.models and not (MODELS / manifest.models).is_dir():
        todo = "name a directory below models/, or leave the key out"
        raise _error(room, "models", f"there is no models/{manifest.models}", todo)


def read(room: Room) -> Manifest:
    """The manifest of a room; every mistake is a LabError that names file and key."""
    manifest = _decode(room)
    _check_objects(room, manifest)
    _check_patterns(room, manifest)
    _check_knobs(room, manifest)
    _check_faults(room, manifest)
    _check_directories(room, manifest)
    return manifest


def load(chosen: Sequence[Room] | None = None) -> dict[str, Manifest]:
    """Manifests by room, in their order; all of linux/series by default."""
    wanted = rooms.series() if chosen is None else chosen
    names = [room.name for room in wanted]
    found: dict[str, Manifest] = {}
    for room in wanted:
        manifest = read(room)
        for name in manifest.depends:
            if name not in found:
                raise _missing(room, name, names)
        _check_names(room, manifest, found)
        found[room.name] = manifest
    return found


def _named(manifest: Manifest) -> list[str]:
    """What no two rooms may declare."""
    return [
        *(switch.file for switch in manifest.switches),
        *(knob.file for knob in manifest.knobs),
        *(counter.name for counter in manifest.counters),
        *(f"event {event.name}" for event in manifest.events),
        *(f"fault {fault.name}" for fault in manifest.faults),
    ]


def _check_names(room: Room, manifest: Manifest, before: Mapping[str, Manifest]) -> None:
    owners = {name: other for other, one in before.items() for name in _named(one)}
    for name in _named(manifest):
        if name in owners:
            raise _error(room, "", f"{name} is declared twice", f"{owners[name]} has it already")
        owners[name] = room.name


def _missing(room: Room, name: str, names: Sequence[str]) -> LabError:
    if name == room.name:
        return _error(room, "depends", "the room depends on itself", f"take {name!r} out")
    if name in names:
        todo = f"put {name} above {room.name} in linux/series"
        return _error(room, "depends", f"{name!r} comes later in linux/series", todo)
    todo = "correct the name, or add that room: there are " + ", ".join(names)
    return _error(room, "depends", f"there is no room {name!r}", todo)


def closed_subsets() -> Iterator[list[Room]]:
    """Every choice of rooms that has all that they depend on, from none to all of them."""
    everything = rooms.series()
    needs = {name: {*manifest.depends} for name, manifest in load(everything).items()}
    for size in range(len(everything) + 1):
        for choice in combinations(everything, size):
            names = {room.name for room in choice}
            if all(needs[name] <= names for name in names):
                yield [*choice]


# What the lab asks for


def options(keys: Sequence[str], chosen: Sequence[Room] | None = None) -> dict[str, str]:
    """Configuration options of rooms, by name."""
    wanted = rooms.series() if chosen is None else chosen
    found: dict[str, str] = {}
    for room, manifest in zip(wanted, load(wanted).values(), strict=True):
        for name, value in manifest.options(keys).items():
            if found.setdefault(name, value) != value:
                what = f"{name}={value}, but another room says {found[name]}"
                raise _error(room, "kconfig", what, "agree on one value")
    return found


def objects(chosen: Sequence[Room] | None = None, *, own: bool = False) -> list[str]:
    """What the compiler makes of rooms; ``own`` without objects of the base kernel."""
    wanted = rooms.series() if chosen is None else chosen
    named = (own_objects(room) if own else read(room).objects for room in wanted)
    return list(dict.fromkeys(name for names in named for name in names))


def counters() -> list[str]:
    """Patterns of names in /proc/vmstat."""
    return [f"{counter.name}$" for manifest in load().values() for counter in manifest.counters]


def knobs() -> list[Knob]:
    """The files of all rooms that take a number."""
    return [knob for manifest in load().values() for knob in manifest.knobs]


def events() -> list[Event]:
    """The trace events of all rooms."""
    return [event for manifest in load().values() for event in manifest.events]


def faults() -> list[Fault]:
    """The rules of all rooms that can be broken, in the order of the rooms."""
    return [fault for manifest in load().values() for fault in manifest.faults]


def threads() -> list[str]:
    """Patterns of names of kernel threads, without their numbers."""
    return [pattern for manifest in load().values() for pattern in manifest.threads]


def kinds(known: Iterable[str]) -> dict[str, list[str]]:
    """Functions by the kind of work that begins with them, for each that is known."""
    found: dict[str, list[str]] = {kind: [] for kind in known}
    for room, manifest in zip(rooms.series(), load().values(), strict=True):
        for kind, functions in manifest.kinds.items():
            if kind not in found:
                todo = "there are: " + ", ".join(found)
                raise _error(room, "kinds", f"unknown kind of work {kind!r}", todo)
            found[kind].extend(functions)
    return found


def switches(name: str | None = None) -> list[Switch]:
    """The switches of a room, or of all rooms, in the order of switching on."""
    found = load().items()
    return [one for room, manifest in found if name in (None, room) for one in manifest.switches]


def model_directories() -> list[Path]:
    """Where the rooms have Promela models."""
    names = [manifest.models for manifest in load().values() if manifest.models]
    return [MODELS / name for name in dict.fromkeys(names)]


def selftest_directories() -> list[str]:
    """The rooms' directories below tools/testing/selftests, by name."""
    names = [manifest.selftests for manifest in load().values() if manifest.selftests]
    return list(dict.fromkeys(names))


def table(*, drafts: bool = True) -> list[list[str]]:
    """The rooms for a reader, header first."""
    rows = [[f"`linux/{name}`", m.state, m.title] for name, m in load().items()]
    return [["room", "state", "what"], *(row for row in rows if drafts or row[1] != "draft")]


def with_table(text: str) -> str:
    """A page with the table of rooms between its two markers brought up to date.

    Drafts are left out: a room that has only begun changes no page.
    """
    head, begin, rest = text.partition(TABLE_BEGIN)
    _, end, tail = rest.partition(TABLE_END)
    if not end:
        raise LabError("the page has no table of rooms", f"add {TABLE_BEGIN!r} and {TABLE_END!r}")
    header, *rows = table(drafts=False)
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    lines.insert(1, "|---" * len(header) + "|")
    return head + begin + "".join(f"{line}\n" for line in lines) + end + tail


def write_table(page: Path) -> None:
    """Bring the table of rooms of a page up to date."""
    page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
