# SPDX-License-Identifier: GPL-2.0
"""Control groups (v2): their names, memory by tier, movements and limits.

Units of the system lie in slices.  What a service, a scope or a user's manager makes below itself
has no name here, since a user could give a group there the name of any unit: a path tells it.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tierctl.core.errors import DENIED, LACKING, TierctlError, near
from tierctl.core.parse import number
from tierctl.core.paths import CGROUP, LIMIT, STAT
from tierctl.core.source import ABSENT, Source
from tierctl.core.source import DENIED as REFUSED
from tierctl.read.nodes import Machine

MOST = 20_000  # groups that are looked at
DEPTH = 16
SHOWN = 200  # groups that patterns choose
NEAR = 16  # a group is at its limit if less than one part in so many is left
HUGE = 2 << 20
LISTED = 5_000  # directories that patterns list
NO_CGROUPS = f"there is no cgroup v2 at {CGROUP}"
GUEST = re.compile(r"/machine-qemu\\x2d\d+\\x2d(.+)\.scope$")
ESCAPE = re.compile(r"\\x([0-9a-f]{2})")
# Rows of memory.numa_stat that make up the memory of a group, in bytes
ROWS = ("anon", "file", "kernel_stack", "pagetables", "sec_pagetables")
SLABS = ("slab_reclaimable", "slab_unreclaimable")
MEMORY = re.compile(rf"^(?:{'|'.join((*ROWS, *SLABS))}) (.+)$", re.MULTILINE)
LIMITED = re.compile(r"^(?:(?:in)?active_(?:anon|file)|unevictable) (.+)$", re.MULTILINE)
PROMOTED = re.compile(r"^pgpromote_success (.+)$", re.MULTILINE)
DEMOTED = re.compile(r"^pgdemote_\w+ (.+)$", re.MULTILINE)
CELL = re.compile(r"N(\d{1,9})=(\d{1,18})\b")


@dataclass
class Usage:
    """Bytes of a group by node, and pages that it has moved since it exists."""

    by_node: dict[int, int]
    promoted: int | None
    demoted: int | None


@dataclass
class Group:
    """A group on the screen: bytes, None for unknown."""

    path: str
    name: str
    total: int | None
    fast: int | None
    slow: int | None
    hot_on_slow: int | None = None  # at least, if more than that is unknown
    hot_unknown: int = 0  # bytes on slow nodes that may be hot
    cold_on_fast: int | None = None
    up_bytes_per_s: float | None = None
    down_bytes_per_s: float | None = None
    limit: int | None = None  # memory.tier.max in bytes; None also without the file
    limited: bool | None = None  # False: max; None: unknown


@dataclass(frozen=True)
class Limit:
    """memory.tier.max of a group; bytes."""

    path: str
    limit: int
    used: int | None  # on fast nodes, as the kernel counts it

    @property
    def reached(self) -> bool:
        """No page, or no huge page, fits below the limit."""
        return self.used is not None and self.used + max(self.limit // NEAR, HUGE) >= self.limit


# --- which groups there are ------------------------------------------------------


def children(source: Source, path: str) -> list[str]:
    try:
        return source.dirs(f"{CGROUP}{path}")
    except OSError:
        return []  # it has ended in the meantime


def available(source: Source) -> bool:
    return source.get(f"{CGROUP}/cgroup.controllers") is not None


def need(source: Source) -> None:
    if not available(source):
        raise TierctlError(NO_CGROUPS, "boot with systemd.unified_cgroup_hierarchy=1", LACKING)


def every(source: Source) -> list[str] | None:
    """The paths of all groups but the root, each with a slash before; None without cgroup v2."""
    if not available(source):
        return None
    found: list[str] = []
    queue = [("", 0)]
    for path, depth in queue:
        inside = [(f"{path}/{name}", depth + 1) for name in children(source, path)]
        found += [one for one, _ in inside]
        if depth < DEPTH and len(found) < MOST:
            queue += inside
    return found[:MOST]


def in_slices(source: Source, below: str = "") -> Iterator[str]:
    """The slices below a group and the groups in them; shallow ones first."""
    queue = [below]
    for path in queue:
        inside = [f"{path}/{name}" for name in children(source, path)]
        yield from inside
        if len(queue) < MOST:
            queue += [one for one in inside if one.endswith(".slice")]


def units(source: Source, below: str = "") -> list[str]:
    """Groups worth a line: what is in slices, and not what services make below themselves."""
    return sorted(one for one in in_slices(source, below) if not one.endswith(".slice"))


def named(source: Source, name: str) -> str:
    """The path of a unit by name, or of a group by path; one that does not exist is an error."""
    need(source)
    wanted = name.removeprefix(CGROUP).strip("/")
    pieces = wanted.split("/")
    if not wanted.isprintable() or any(one in (".", "..", "") for one in pieces):
        raise TierctlError(f"{name!r} is no name of a group", "see: tierctl top")
    parent, _, last = wanted.rpartition("/")
    if parent or name.startswith("/"):
        known = children(source, f"/{parent}" if parent else "")
        found = [f"/{wanted}"] if last in known else []
    else:
        known = list(in_slices(source))
        # systemd writes _memory.service: memory.* are names of files in a group (cg_escape()).
        found = [one for one in known if one.endswith(f"/{wanted}")]
        found = found or [one for one in known if one.endswith(f"/_{wanted}")]
    if len(found) > 1:
        places = ", ".join(one[1:] for one in found[:4])
        raise TierctlError(f"{len(found)} groups have the name {name}", f"give a path: {places}")
    if not found:
        names = sorted({one.rpartition("/")[2] for one in known})
        like = next((one for one in names if one.startswith(f"{last}.")), "") or near(last, names)
        todo = f"did you mean {like}?" if like else "see: tierctl top, systemd-cgls"
        raise TierctlError(f"there is no group {name} now", todo)
    return found[0]


def pids(source: Source, path: str) -> list[int]:
    """The processes of a group with those below; an error if they are not known."""
    found: list[int] = []
    queue = [path]
    for one in queue:
        place = f"{CGROUP}{one}/cgroup.procs"
        text = source.get(place)
        why = source.why(place)
        if text is None and why != ABSENT:  # absent: the group has ended
            raise unknown_pids(source, place)
        found += [int(word) for word in (text or "").split() if word.isdecimal()]
        queue += [f"{one}/{name}" for name in children(source, one)]
    return found


def unknown_pids(source: Source, path: str) -> TierctlError:
    todo = "run as root" if source.live else "capture as root, with --explain"
    code = DENIED if source.why(path) == REFUSED else LACKING
    return TierctlError(f"the processes are not known ({path}: {source.why(path)})", todo, code)


# --- patterns, for export --------------------------------------------------------


def _matches(name: str, pattern: str) -> bool:
    """A name as the directory has it, or as `tierctl top` shows it."""
    words = (name, title(f"/{name}"))
    return name == pattern or any(fnmatch.fnmatchcase(one, pattern) for one in words)


def chosen(source: Source, patterns: Iterable[str]) -> list[str]:
    """At most SHOWN groups in the order of patterns, then of paths.

    A pattern is a path below /sys/fs/cgroup in which *, ? and [] stand for parts of one name:
    "machine.slice/*" are the virtual machines.  Only directories on its way are listed.  A choice
    by size would make series begin and end.
    """
    listed: dict[str, list[str]] = {}

    def inside(path: str) -> list[str]:
        if path not in listed:
            listed[path] = children(source, path) if len(listed) < LISTED else []
        return listed[path]

    found: dict[str, None] = {}
    for pattern in patterns:
        paths = {""}
        for piece in pattern.split("/"):
            paths = {
                f"{path}/{name}" for path in paths for name in inside(path) if _matches(name, piece)
            }
        found |= dict.fromkeys(sorted(paths))
    return list(found)[:SHOWN]


def labels(paths: Sequence[str]) -> dict[str, str]:
    """A label for each group: its path with names as `tierctl top` shows them.

    The number of a virtual machine grows with each start, so the label has the machine's name.
    Groups that would have one label have their path.
    """
    names = {}
    for path in paths:
        parts = path.strip("/").split("/")
        # A virtual machine is known by the names before its own.
        above = ("/" + "/".join(parts[: at + 1]) for at in range(len(parts)))
        names[path] = "/".join(map(title, above))
    # Two lines of one name would make the text damaged: paths differ for sure.
    exact = {path: path.strip("/").encode("unicode_escape").decode() for path in paths}
    count = Counter(names.values())
    found = {path: name if count[name] == 1 else exact[path] for path, name in names.items()}
    return found if len(set(found.values())) == len(found) else exact


def title(path: str) -> str:
    """The last part of a path without systemd's escapes; of libvirt, the name of the machine."""
    guest = GUEST.search(path)
    last = guest[1] if guest else path.rpartition("/")[2].removeprefix("_")
    plain = ESCAPE.sub(lambda found: chr(int(found[1], 16)), last)
    plain = "".join(char if char.isprintable() else "?" for char in plain)
    return f"machine {plain}" if guest else plain or "/"


# --- memory ----------------------------------------------------------------------


def _rows(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]] | None:
    """Node and value of all rows that match; None without such a row."""
    rows = pattern.findall(text)
    cells = [(int(node), int(value)) for row in rows for node, value in CELL.findall(row)]
    return cells if rows else None


def _sum(cells: list[tuple[int, int]] | None) -> int | None:
    return None if cells is None else sum(value for _, value in cells)


def usage(source: Source, path: str) -> Usage | None:
    """What memory.numa_stat says; None if it cannot be read."""
    text = source.get(f"{CGROUP}{path}/{STAT}")
    if text is None:
        return None
    by_node: dict[int, int] = {}
    for node, value in _rows(MEMORY, text) or []:
        by_node[node] = by_node.get(node, 0) + value
    return Usage(by_node, _sum(_rows(PROMOTED, text)), _sum(_rows(DEMOTED, text)))


def limit(source: Source, path: str) -> tuple[int | None, bool | None]:
    """memory.tier.max: bytes, and whether there is a limit."""
    text = source.get(f"{CGROUP}{path}/{LIMIT}")
    if text == "max":
        return None, False
    found = number(text)
    return found, None if found is None else True


def limits_above(source: Source, path: str, fast: Iterable[int]) -> list[Limit]:
    """The limits of a group and of those above it, its own first."""
    nodes = set(fast)
    found = []
    while path:
        value, limited = limit(source, path)
        if limited and value is not None:
            cells = _rows(LIMITED, source.get(f"{CGROUP}{path}/{STAT}") or "")
            used = None if cells is None else _sum([one for one in cells if one[0] in nodes])
            found.append(Limit(path, value, used))
        path = path.rpartition("/")[0]
    return found


def group(path: str, found: Usage, machine: Machine) -> Group:
    total = sum(found.by_node.values())
    one = Group(path, title(path), total, None, None)
    if machine.known:
        slow = {node.node for node in machine.of_tier("slow")}
        one.slow = sum(value for node, value in found.by_node.items() if node in slow)
        one.fast = total - one.slow
    return one
