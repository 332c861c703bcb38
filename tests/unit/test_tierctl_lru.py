# SPDX-License-Identifier: GPL-2.0
"""tierctl's view of MGLRU: what is cold, what was used, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
