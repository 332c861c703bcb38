# SPDX-License-Identifier: GPL-2.0
"""The settings that tierctl writes: keys, files, ranges, and values.

A key is the path below /sys/kernel/mm/tier with dots: scan/period_ms is scan.period_ms.  Beside
these files tierctl writes kernel.numa_balancing, numa/demotion_enabled and memory.tier.max of
control groups, and no other file of the kernel: writable() is asked before each write.

A value is a number, or a word that becomes a number on a machine:
    default             the value after boot
    max(5, 250 / CPUs)  as the kernel computes a default, with the CPUs that are online
    single-promoter     numa_balancing only: 0; with several fast nodes 2 becomes 1, 0 and 1 stay
"""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass

from tierctl.core import parse
from tierctl.core.errors import TierctlError, near
from tierctl.core.paths import BALANCING, CGROUP, DEMOTION, LIMIT, ONLINE, TIER
from tierctl.core.source import ABSENT, Source
from tierctl.core.texts import load
from tierctl.read import nodes
from tierctl.read.mechanisms import TIERING

DEFAULT = "default"
SINGLE = "single-promoter"
AT_BOOT = re.compile(r"max\(([0-9]{1,9}), ([0-9]{1,9}) / CPUs\)")
NUMBER = re.compile(r"[0-9]{1,12}")

Wanted = int | str


class Kind(enum.Enum):
    """What a setting is; the order of writes depends on it."""

    MASTER = "switch of all parts"
    PART = "switch of a part"
    KNOB = "number"
    NUMA = "mode of NUMA balancing"
    DEMOTION = "switch of demotion without the part demote"
    LIMIT = "limit of a group"


@dataclass(frozen=True)
class Setting:
    """A file of the kernel that tierctl writes."""

    key: str
    file: str
    kind: Kind
    least: int = 0
    most: int = 1
    default: int | str | None = None
    unit: str = ""

    @property
    def span(self) -> str:
        """The values that the file takes."""
        if self.most == self.least + 1:
            return f"{self.least} or {self.most}"
        unit = self.unit if len(self.unit.split()) == 1 else ""
        return f"{self.least} to {self.most} {unit}".rstrip()

    @property
    def part(self) -> str:
        """The part of tiering that the file belongs to, or ""."""
        return self.key.partition(".")[0] if self.kind in (Kind.PART, Kind.KNOB) else ""


@functools.cache
def known() -> dict[str, Setting]:
    """All settings but limits of groups, by key, parts in the order of their declaration."""
    found = [Setting("enabled", f"{TIER}/enabled", Kind.MASTER)]
    for one in load("declared.json")["switches"]:
        key = one["file"].removeprefix(f"{TIER}/").replace("/", ".")
        found.append(Setting(key, one["file"], Kind.PART, 0, 1, int(one.get("wish", True))))
    for one in load("declared.json")["knobs"]:
        key, file = one["file"].replace("/", "."), f"{TIER}/{one['file']}"
        span = (one["min"], one["max"], one["default"])
        found.append(Setting(key, file, Kind.KNOB, *span, one.get("unit", "")))
    found.append(Setting("numa_balancing", BALANCING, Kind.NUMA, 0, 3))
    found.append(Setting("demotion_enabled", DEMOTION, Kind.DEMOTION))
    return {one.key: one for one in found}


def find(key: str) -> Setting:
    """The setting of a key; an unknown key is an error that suggests the nearest one."""
    found = known().get(key)
    if found:
        return found
    like = near(key, known(), 0.5)
    hint = f"did you mean {like}? " if like else ""
    todo = f"{hint}settings: {', '.join(known())}"
    raise TierctlError(f"there is no setting {shown(key)}", todo)


def shown(text: object) -> str:
    """A word of the user in an error: one line, at most 60 characters."""
    try:
        word = str(text)
    except ValueError:  # Python prints no integer of more than 4,300 digits
        word = "a number with thousands of digits"
    word = word if word.isprintable() and word else repr(word)
    return word if len(word) <= 60 else f"{word[:57]}..."


def writable(file: str) -> bool:
    """Whether tierctl may ever write this file of the kernel."""
    if any(one.file == file for one in known().values()):
        return True
    inside = file.startswith(f"{CGROUP}/") and file.endswith(f"/{LIMIT}")
    return inside and file.count("/") > CGROUP.count("/") + 1 and ".." not in file.split("/")


def check(setting: Setting, wanted: object, where: str = "") -> Wanted:
    """A value as it is wanted, or an error that says what the setting takes."""
    if isinstance(wanted, bool) and setting.span == "0 or 1":
        return int(wanted)
    if type(wanted) is int and setting.least <= wanted <= setting.most:
        return wanted
    if wanted == DEFAULT and setting.default is not None:
        return DEFAULT
    if wanted == SINGLE and setting.kind is Kind.NUMA:
        return SINGLE
    computed = AT_BOOT.fullmatch(wanted) if isinstance(wanted, str) else None
    if computed and isinstance(wanted, str) and setting.kind is Kind.KNOB:
        numbers = [int(number) for number in computed.groups()]
        if setting.least <= numbers[0] and max(numbers) <= setting.most:
            return wanted
    place = f"{where}: " if where else ""
    what = f"{place}{setting.key} takes {setting.span}, not {shown(wanted)}"
    raise TierctlError(what, "correct the file" if where else "give another value")


def resolve(source: Source, setting: Setting, wanted: Wanted, now: str) -> tuple[str | None, str]:
    """The text for the file, or None; and why this text, or why none, on this machine."""
    if wanted == DEFAULT and setting.default is not None:
        wanted = setting.default
    if isinstance(wanted, int):
        # The kernel shows demotion_enabled so.
        shows = setting.kind is Kind.DEMOTION
        return ("true" if wanted else "false") if shows else str(wanted), ""
    if setting.kind is Kind.LIMIT:
        return wanted, ""
    if wanted == SINGLE:
        fast = len(nodes.read(source).of_tier("fast"))
        if not fast or not NUMBER.fullmatch(now):
            return None, "the number of fast nodes is not known"
        mode = "0" if fast == 1 else "1" if int(now) & TIERING else now
        return mode, f"mode 1 balances between the {fast} fast nodes" if int(mode) else ""
    match, cpus = AT_BOOT.fullmatch(wanted), parse.ranges(source.get(ONLINE))
    if not match or not cpus:
        return None, "the number of CPUs is not known"
    return str(max(int(match[1]), int(match[2]) // len(cpus))), ""


def lacks(source: Source, setting: Setting) -> str:
    """Why the file of a setting is absent."""
    if setting.kind is Kind.NUMA:
        return "this kernel lacks NUMA balancing"
    if setting.kind is Kind.DEMOTION:
        return "this kernel cannot demote"
    if setting.kind is Kind.LIMIT:
        return "the group has no limit" if setting.file else "not exactly one group has this name"
    if source.get(f"{TIER}/enabled") is None and source.why(f"{TIER}/enabled") == ABSENT:
        return f"this kernel lacks {TIER}"
    return f"this kernel lacks {setting.key.replace('.', '/')}"
