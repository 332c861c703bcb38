# SPDX-License-Identifier: GPL-2.0
"""MGLRU's generations: which memory of fast nodes is cold, and which of slow nodes was used.

debugfs lru_gen lists for each group and node the generations, oldest first, with the time since
each began and its pages.  Aging begins a generation: it looks at the Accessed bits, and what was
used goes to the youngest one.  So at the last look an anonymous page (shmem is one) was idle since
the generation behind its own began.  That does not hold for page cache: read(2) puts new pages
into an old generation.  The oldest generation also takes in the pages of those before, so that
nothing in it is known to be young.

Without reclaim nothing ages, and then the file says little: pages count as cold or hot only where
the looks prove it, and all others as unknown.  Nor does reclaim look at anonymous pages that it can
neither swap nor demote (get_swappiness() in mm/vmscan.c): their generations then have numbers of
page cache.  An order to debugfs with swappiness 1, as look() gives it, looks at them in any case.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tierctl.core.paths import LOOKED
from tierctl.core.paths import LRU_GEN as FILE
from tierctl.core.paths import LRU_GEN_FULL as FULL
from tierctl.core.reply import Note, note_for
from tierctl.core.source import ABSENT, Source

IDLE_MS = 60_000  # cold: idle for so long at the last look
FRESH_MS = 10_000  # not hot: not used at a look that is so old at most
RECENT_MS = 60_000  # hot: in a generation that began so long ago at most
MOST = 1 << 60  # a larger number is damaged
WRAP_S = (1 << 32) / 1000  # an age has 32 bits of milliseconds
NEAR_MS = 1000  # ages of generations that began together differ by less
CLOSE_S = 2.0  # between a sample's time and its files
LOOKS = 64  # lines of LOOKED: when a look() began and ended, and at which group
# Classes of use by the age of a generation, in ms
CLASSES = (("hot", "< 1 s", 1000), ("warm", "< 10 s", 10_000), ("cool", "< 60 s", 60_000))
COLD, UNCLEAR = "cold", "unclear"

# A group, a node, or a generation: sequence, age, pages; "x" marks pages of one that is gone
LINE = re.compile(
    r"^(?:memcg +\d+ (.*)| node +(\d{1,9})"
    r"| {1,10}\d+ +(\d{1,18}) +(\d{1,18})([ x]) +(\d{1,18})([ x]?))$",
    re.MULTILINE,
)
LOOK = re.compile(r"^(\d+\.\d+) (\d+\.\d+) (.*)$", re.MULTILINE)


class Lruvec(NamedTuple):
    """The generations of a group on a node, oldest first: a list for each figure."""

    group: str
    node: int
    ages: list[int]  # ms since a generation began
    anon: list[int]  # base pages
    file: list[int]
    unaged: int = 0  # base pages whose generation says nothing; in no list
    number: str = ""  # of the group, for orders
    youngest: int = 0

    @property
    def ended(self) -> bool:
        """Pages of a group that has ended stay in its generations, and no look comes to them."""
        return self.number == "0" and self.group != "/"  # without memcgs all have 0

    def pages(self, at: int) -> int:
        return self.anon[at] + self.file[at]

    def new(self, at: int) -> int:
        """The pages of a generation that were used, or are new, since it began."""
        last = at >= max(1, len(self.ages) - 2)
        return (self.anon[at] if at else 0) + (self.file[at] if last else 0)

    def all_pages(self) -> int:
        """All pages of all generations, but those without age."""
        return sum(self.anon) + sum(self.file)


@dataclass
class Part:
    """Bytes of which something is known, those of which nothing is known, and the data's age."""

    bytes: int | None
    unknown_bytes: int
    looked_s: float | None  # the longest time since a look that the bytes go by


def _quick(text: str) -> list[Lruvec] | None:
    """The text of lru_gen, in a third of the time that LINE takes; None if it has anything else."""
    if not text.startswith("memcg "):
        return None
    found: list[Lruvec] = []
    for part in text.removeprefix("memcg ").split("\nmemcg "):
        head, *blocks = part.split("\n node ")
        number, _, group = head.lstrip(" ").partition(" ")
        if "\n" in head:
            return None
        for block in blocks:
            try:
                words = [*map(int, block.split())]
            except ValueError:
                return None
            if len(words) % 4 != 1 or max(words) > MOST:
                return None
            lists = words[2::4], words[3::4], words[4::4]
            found.append(Lruvec(group or "/", words[0], *lists, 0, number, words[-4:][0]))
    return found


def parse(text: str) -> list[Lruvec]:
    """The text of lru_gen or lru_gen_full."""
    quick = _quick(text)
    if quick is not None:
        return quick
    found: list[Lruvec] = []
    group = "/"
    for path, node, age, anon, anon_gone, file, file_gone in LINE.findall(text):
        if node:
            found.append(Lruvec(group, int(node), [], [], []))
        elif not age:
            group = path or "/"
        elif found and (anon_gone != "x" or file_gone != "x"):
            found[-1].ages.append(int(age))
            found[-1].anon.append(0 if anon_gone == "x" else int(anon))
            found[-1].file.append(0 if file_gone == "x" else int(file))
    return found


def look(source: Source, group: str | None, seconds: float) -> str:
    """Let MGLRU look at the memory of all groups, or of one with those below, twice.

    What was used between the two looks is then in the generation that the first one began.  The
    text for LOOKED says which generations the second one and those before began.
    """
    began = 0.0
    for wait_s in (seconds, 0.0):
        began = source.time()
        for one in _quick(source.read(FILE)) or []:
            if one.ages and not one.ended and f"{one.group}/".startswith(f"{group or ''}/"):
                try:
                    # At anonymous pages, too, however many generations there are
                    source.write(FILE, f"+ {one.number} {one.node} {one.youngest} 1 1\n")
                except OSError as error:
                    if error.errno != errno.EINVAL:  # the group has ended
                        raise
        source.wait(wait_s)
    before = (source.get(LOOKED) or "").splitlines()[1 - LOOKS :]
    return "\n".join([*before, f"{began:.3f} {source.time():.3f} {group or ''}"])


def _ours(source: Source) -> Callable[[Lruvec], bool]:
    """Whether a look() began the youngest generation of a group on a node."""
    now, looks = source.time(), []
    for first, last, group in LOOK.findall(source.get(LOOKED) or ""):
        low, high = 1000 * (now - float(last) - CLOSE_S), 1000 * (now - float(first) + CLOSE_S)
        looks.append((low, high, f"{group}/"))
    return lambda one: any(
        low <= one.ages[-1] <= high and f"{one.group}/".startswith(group)
        for low, high, group in looks
    )


def sound(
    source: Source, lruvecs: Iterable[Lruvec], blind: Collection[int], uptime_s: float | None
) -> list[Lruvec]:
    """The same, with pages as unaged whose generations do not tell when they were used.

    ``blind``: nodes at whose anonymous pages reclaim does not look.  The ages of a group at which
    nothing has looked begin again after WRAP_S, all at once.
    """
    ours = _ours(source) if blind else None
    wraps = uptime_s is None or uptime_s >= WRAP_S
    found = []
    for one in lruvecs:
        none = [0] * len(one.ages)
        if wraps and one.ages and one.ages[0] - one.ages[-1] < NEAR_MS:
            found.append(one._replace(anon=none, file=none, unaged=one.all_pages()))
        elif ours and one.node in blind and one.ages and not ours(one):
            found.append(one._replace(anon=none, unaged=sum(one.anon)))
        else:
            found.append(one)
    return found


def read(source: Source) -> tuple[list[Lruvec] | None, Note]:
    """The generations of all groups, or why they are unknown."""
    for path in (FILE, FULL):
        text = source.get(path)
        if text is not None:
            return parse(text), Note(path)
    todo = ""
    if source.why(FILE) == ABSENT:
        todo = "mount debugfs; this kernel needs CONFIG_LRU_GEN"
    return None, note_for(source, FILE, todo)


class _Sum:
    """A node: bytes that looks prove, bytes of which nothing is known, and the oldest look."""

    def __init__(self) -> None:
        self.known = self.unknown = 0
        self.oldest: int | None = None
        self.listed = self.proven = False

    def part(self, page: int) -> Part:
        """The sum in bytes; None if no look proves anything."""
        if not self.proven and (self.unknown or not self.listed):
            return Part(None, self.unknown * page, None)
        looked = None if self.oldest is None else self.oldest / 1000
        return Part(self.known * page, self.unknown * page, looked)


def _sum(
    lruvecs: Iterable[Lruvec], nodes: Iterable[int], page: int, add: Callable[[_Sum, Lruvec], None]
) -> dict[int, Part]:
    sums = {node: _Sum() for node in nodes}
    for one in lruvecs:
        mine = sums.get(one.node)
        if mine is not None and one.ages:
            mine.listed = True
            mine.unknown += one.unaged
            if one.all_pages():  # a new group without pages proves nothing of others
                add(mine, one)
    return {node: one.part(page) for node, one in sums.items()}


def _idle(mine: _Sum, one: Lruvec) -> None:
    looked = one.ages[-1]
    long = len(one.ages) - 1  # the last generation that began long enough before the last look
    while long >= 0 and one.ages[long] - looked < IDLE_MS:
        long -= 1
    if long < 0 or one.unaged:  # page cache is never known to be idle
        mine.unknown += one.all_pages()
        return
    mine.proven = True
    known = sum(one.anon[:long])
    mine.known += known
    mine.unknown += sum(one.file[:long]) + one.pages(long)  # idle since some time between two looks
    if known and not one.ended:
        mine.oldest = max(mine.oldest or 0, looked)


def idle(lruvecs: Iterable[Lruvec], nodes: Iterable[int], page: int) -> dict[int, Part]:
    """By node: pages that were idle for IDLE_MS at the last look."""
    return _sum(lruvecs, nodes, page, _idle)


def _used(mine: _Sum, one: Lruvec) -> None:
    recent = [at for at in range(len(one.ages)) if one.ages[at] <= RECENT_MS]
    young = [at for at in recent if at]
    if not young:
        mine.unknown += one.all_pages()
        return
    mine.proven = True
    known = sum(one.new(at) for at in young)
    mine.known += known
    # Pages of the generation before were used until the first of these began.  After a while
    # without a look nothing is known of the others, either.
    first = max(0, recent[0] - 1) if one.ages[-1] <= FRESH_MS else 0
    mine.unknown += sum(map(one.pages, range(first, len(one.ages)))) - known
    mine.oldest = max(mine.oldest or 0, one.ages[young[0]])


def used(lruvecs: Iterable[Lruvec], nodes: Iterable[int], page: int) -> dict[int, Part]:
    """By node: pages that were used, or are new, since RECENT_MS at most.

    They are in no generation but the oldest one; page cache is in the two youngest.
    """
    return _sum(lruvecs, nodes, page, _used)


def total(found: Iterable[Part]) -> Part:
    """Several nodes together; unknown if it is unknown of each."""
    parts = list(found)
    known = [one.bytes for one in parts if one.bytes is not None]
    looks = [one.looked_s for one in parts if one.looked_s is not None]
    unknown = sum(one.unknown_bytes for one in parts)
    return Part(sum(known) if known else None, unknown, max(looks, default=None))


def by_use(lruvecs: Iterable[Lruvec], wanted: set[int], page: int) -> dict[str, int | None]:
    """Bytes on nodes by class, as idle() and used() count; None where no look tells."""
    nothing = None if wanted else 0
    found: dict[str, int | None] = {name: nothing for name, _, _ in CLASSES}
    found[COLD] = nothing
    unclear = 0
    for one in lruvecs:
        if one.node not in wanted:
            continue
        unclear += one.unaged * page
        if not one.all_pages():
            continue
        count, looked = len(one.ages), one.ages[-1]
        for at, age in enumerate(one.ages):
            name = next((name for name, _, most in CLASSES if age <= most), None)
            later = one.ages[at + 1] if at + 1 < count else looked
            known = 0
            if at and name is not None:
                known = one.new(at)
            elif later - looked >= IDLE_MS and not one.unaged:
                name, known = COLD, one.anon[at]
            else:
                name = None
            if name is not None:
                found[name] = (found[name] or 0) + known * page
            unclear += (one.pages(at) - known) * page
    found[UNCLEAR] = unclear
    return found


def looked_s(lruvecs: Iterable[Lruvec], wanted: Collection[int]) -> float | None:
    """How long ago MGLRU looked at each group at the latest."""
    here = (one for one in lruvecs if one.node in wanted and not one.ended)
    ages = [one.ages[-1] for one in here if one.all_pages()]
    return max(ages) / 1000 if ages else None
