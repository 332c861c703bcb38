# SPDX-License-Identifier: GPL-2.0
"""tierctl's view of MGLRU: what is cold, what was used, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_trees import OURS, Stepping, Tree, lru_gen

from tierctl.core import paths
from tierctl.core.errors import as_root
from tierctl.read import lru
from tierctl.read.lru import Lruvec, Part

# As Linux 6.12 prints them; | for a space at the end of a line
TEXT = """\
memcg     1 /
 node     0
          4     200000        100         10|
          5     100000         20          2|
          6      30000          3          0|
          7      20000          1          0|
 node     1
          0       1000          7          7|
memcg    57 /system.slice/a b.service
 node     0
          1      50000          5          0|
""".replace("|", " ")
FULL = """\
memcg     1 /
 node     0
          4     200000        100x        10x
                     0          0x         0x         0x          0x         0x         0x
                                          0x          0x          0x          0x
          5     100000         20x         2|
                     0          0r         0e         0p          0r         0e         0p
          6      30000          3          0|
                     0          0R         0T         0x          0R         0T         0x
                                          0T          0Y          0F          0A
""".replace("|", " ")


def vec(*generations: tuple[float, ...], node: int = 0) -> Lruvec:
    """Generations of a group: age in seconds, pages of anon, pages of files or none."""
    full = [(*one, 0)[:3] for one in generations]
    ages = [int(1000 * age) for age, _, _ in full]
    return Lruvec("/g", node, ages, [int(one[1]) for one in full], [int(one[2]) for one in full])


def cold(lruvecs: list[Lruvec], page: int = 1) -> Part:
    """What was idle on node 0."""
    return lru.total(lru.idle(lruvecs, [0], page).values())


def recent(lruvecs: list[Lruvec]) -> Part:
    """What was used on node 0."""
    return lru.total(lru.used(lruvecs, [0], 1).values())


def test_parse_gives_groups_nodes_and_generations() -> None:
    found = lru.parse(TEXT)
    assert [(one.group, one.node) for one in found] == [
        ("/", 0),
        ("/", 1),
        ("/system.slice/a b.service", 0),
    ]
    assert (found[0].ages[0], found[0].anon[0], found[0].file[0]) == (200_000, 100, 10)
    assert [len(one.ages) for one in found] == [4, 1, 1]


def test_parse_of_the_full_file_leaves_out_what_is_gone() -> None:
    (found,) = lru.parse(FULL)
    assert found == Lruvec("/", 0, [100_000, 30_000], [0, 3], [2, 0])


def test_parse_of_a_made_up_tree_agrees_in_both_formats() -> None:
    paths = ["/a", "/b"]
    short = lru.parse(lru_gen(OURS, paths))
    full = lru.parse(lru_gen(replace(OURS, lru_gen="lru_gen_full"), paths))
    assert len(short) == len(full) == 9
    assert [one.ages[1:] for one in short] == [one.ages for one in full]
    assert [one.anon[1:] for one in short] == [one.anon for one in full]


def test_parse_of_something_else_gives_nothing() -> None:
    assert lru.parse("") == [] and lru.parse("hello\n 1 2 3\n") == []
    assert lru.parse("memcg 1 /\n node 0\n node 1\n 4 9 1 1 ")[0].ages == []


def test_cold_is_what_two_looks_have_proven() -> None:
    # Looked 20 s ago.  The second generation began 80 s before: the first one was idle since then.
    found = cold([vec((200, 100), (100, 20), (30, 3), (20, 1))])
    assert (found.bytes, found.unknown_bytes, found.looked_s) == (100, 20, 20.0)


def test_cold_does_not_take_page_cache_for_idle() -> None:
    found = cold([vec((200, 100, 40), (100, 20, 8), (30, 3, 4), (20, 1, 2))])
    assert (found.bytes, found.unknown_bytes) == (100, 40 + 20 + 8)


def test_cold_without_looks_is_unknown_and_not_0() -> None:
    never = cold([vec((9000, 50), (9000, 0), (9000, 0))])
    assert (never.bytes, never.unknown_bytes) == (None, 50)
    assert cold([]).bytes is None


def test_cold_counts_pages_of_groups_without_looks_as_unknown() -> None:
    found = cold([vec((200, 100), (100, 0), (10, 0)), vec((500, 7), (500, 0))], 4096)
    assert (found.bytes, found.unknown_bytes) == (100 * 4096, 7 * 4096)


def test_group_that_has_ended_keeps_its_pages_and_not_its_looks() -> None:
    ended = vec((900, 7), (800, 0), (700, 0))._replace(number="0")
    looked = vec((200, 100), (100, 0), (10, 0))
    found = cold([ended, looked])
    assert (found.bytes, found.looked_s) == (107, 10.0)
    assert lru.looked_s([ended, looked], {0}) == 10.0
    assert lru.looked_s([ended._replace(number="7"), looked], {0}) == 700.0
    assert cold([ended]) == Part(7, 0, None)  # and not 0 s ago
    # Without memory control groups all have the number 0.
    assert lru.looked_s([ended._replace(group="/")], {0}) == 700.0


def test_cold_asks_for_its_nodes_only() -> None:
    found = cold([vec((200, 100), (100, 0), (10, 0), node=1)])
    assert found.bytes is None


def test_cold_of_what_is_used_all_the_time_is_0() -> None:
    found = cold([vec((200, 0), (100, 0), (10, 55))])
    assert (found.bytes, found.unknown_bytes) == (0, 0)


def test_recent_is_in_generations_of_the_last_minute() -> None:
    found = recent([vec((200, 100), (61, 20), (60, 3), (10, 1))])
    assert (found.bytes, found.unknown_bytes, found.looked_s) == (4, 20, 60.0)


def test_recent_after_a_while_without_a_look_leaves_the_others_unknown() -> None:
    found = recent([vec((200, 100), (61, 20), (60, 3), (11, 1))])
    assert (found.bytes, found.unknown_bytes) == (4, 120)


def test_group_without_pages_proves_nothing_of_others() -> None:
    never, new = vec((9000, 50), (9000, 0)), vec((3, 0), (2, 0), (1, 0))
    assert recent([never, new]).bytes is None and cold([never, new]).bytes is None
    assert recent([new]).bytes == 0


def test_recent_leaves_the_oldest_generation_out() -> None:
    found = recent([vec((50, 100), (40, 20, 2), (30, 3), (20, 1))])
    assert (found.bytes, found.unknown_bytes) == (24, 102)
    found = recent([vec((50, 100), (20, 1))])
    assert (found.bytes, found.unknown_bytes, found.looked_s) == (1, 100, 20.0)
    found = recent([vec((20, 100))])
    assert (found.bytes, found.unknown_bytes) == (None, 100)


def test_recent_without_a_look_in_the_last_minute_is_unknown() -> None:
    found = recent([vec((200, 100), (61, 20))])
    assert (found.bytes, found.unknown_bytes) == (None, 120)


def source(tmp_path: Path) -> tuple[Tree, Stepping]:
    """A machine with nothing."""
    tree = Tree(tmp_path)
    return tree, Stepping(tree)


NOW = 1_796_000_000.0


def test_anonymous_pages_that_can_go_nowhere_have_no_age(tmp_path: Path) -> None:
    _, found = source(tmp_path)
    one = vec((200, 100, 9), (90, 20, 9), (30, 3, 7), (20, 1, 6))
    (blind,) = lru.sound(found, [one], {0}, 100.0)
    assert (blind.unaged, blind.anon, blind.file) == (124, [0] * 4, one.file)
    assert recent([one]).bytes == 17 and recent([blind]).bytes == 13  # page cache has an age
    assert recent([blind]).unknown_bytes == 18 + 124
    assert cold([one]).bytes == 100 and cold([blind]) == Part(None, 31 + 124, None)
    assert lru.by_use([blind], {0}, 1)["unclear"] == 18 + 124
    assert lru.sound(found, [one], {1}, 100.0) == [one]


@pytest.mark.parametrize(
    ("text", "group", "ours"),
    [
        (f"{NOW - 22} {NOW - 19} ", "/g", True),
        (f"{NOW - 22} {NOW - 19} /g", "/g", True),
        (f"{NOW - 22} {NOW - 19} /g", "/g/below", True),
        (f"{NOW - 22} {NOW - 19} /g", "/g2", False),
        (f"{NOW - 22} {NOW - 19} /g\n{NOW - 5} {NOW - 3} /h", "/g", True),
        (f"{NOW - 22} {NOW - 19} /h\n{NOW - 5} {NOW - 3} /g", "/g", False),
        (f"{NOW - 40} {NOW - 30} ", "/g", False),  # the kernel has begun a generation since
        (f"{NOW - 10} {NOW - 5} ", "/g", False),  # the group was not looked at
        ("", "/g", False),
        ("x y z", "/g", False),
    ],
)
def test_look_of_ours_tells_the_age_of_pages_that_can_go_nowhere(
    tmp_path: Path, text: str, group: str, ours: bool
) -> None:
    tree, found = source(tmp_path)
    tree.put(paths.LOOKED[1:], text)
    one = vec((200, 100), (90, 20), (28, 3), (20, 1))._replace(group=group)
    assert (lru.sound(found, [one], {0}, 100.0) == [one]) is ours


@pytest.mark.parametrize(
    ("uptime_s", "known"), [(100.0, True), (4_294_960.0, True), (4_294_970.0, False), (None, False)]
)
def test_age_that_may_have_begun_again_is_unknown(
    tmp_path: Path, uptime_s: float | None, known: bool
) -> None:
    _, found = source(tmp_path)
    never = vec((2.704, 7), (2.7, 0), (2.7, 50, 40))  # of 49.7 days, or of 2.7 s
    looks = vec((200, 100), (90, 20), (30, 3), (20, 1))
    assert lru.sound(found, [never, looks], (), uptime_s)[1] == looks
    part = recent(lru.sound(found, [never], (), uptime_s))
    assert (part.bytes, part.unknown_bytes) == ((90, 7) if known else (None, 97))


def test_ages_on_both_sides_of_their_end_are_unknown(tmp_path: Path) -> None:
    _, found = source(tmp_path)
    (one,) = lru.sound(found, [vec((0.1, 7), (4_294_967, 0), (4_294_967, 50))], (), 5e6)
    assert one.unaged == 57 and cold([one]).bytes is None and recent([one]).bytes is None


def test_read_takes_the_full_file_under_lockdown(tmp_path: Path) -> None:
    tree, found = source(tmp_path)
    tree.put("sys/kernel/debug/lru_gen", TEXT)
    tree.put("sys/kernel/debug/lru_gen_full", FULL)
    assert lru.read(found)[1].origin == paths.LRU_GEN
    found.denied = (f"{paths.LRU_GEN}",)
    assert lru.read(found)[0] is None
    found.denied = ()
    (tmp_path / "sys/kernel/debug/lru_gen").unlink()
    assert lru.read(found)[1].origin == paths.LRU_GEN_FULL


def test_read_of_nothing_says_what_to_do(tmp_path: Path) -> None:
    _, found = source(tmp_path)
    lruvecs, note = lru.read(found)
    assert lruvecs is None and note.state.startswith("absent") and "debugfs" in note.todo
    found.denied = ("/sys/kernel/debug",)
    assert lru.read(found)[1].todo == as_root()
