# SPDX-License-Identifier: GPL-2.0
"""Rooms on disk: their commits can be reviewed one by one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab import rooms
from lab.errors import LabError
from lab.rooms import Commit, Room

MAX_LINES = 1500  # of new files in a commit that has more than one


def _room(directory: Path, tables: str, *names: str) -> Room:
    """A room with these new files, of ten lines each."""
    for name in names:
        path = directory / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("line\n" * 10, encoding="utf-8")
    (directory / rooms.ROOM_TOML).write_text(tables, encoding="utf-8")
    return Room(directory.name, directory)


def _table(subject: str, *patterns: str) -> str:
    return Commit(subject, "text", patterns).toml()


FILES = ("mm/a.c", "mm/a.h", "mm/b/c.c", "mm/b/d/e.c")


def test_files_are_shared_out_by_pattern(tmp_path: Path) -> None:
    tables = [_table("one", "mm/a.[ch]"), _table("two", "mm/*/*.c"), _table("three")]
    parts = _room(tmp_path / "x", "title = 'x'\n" + "\n".join(tables), *FILES).parts()
    assert [(commit.subject, names) for commit, names in parts] == [
        ("one", ["mm/a.c", "mm/a.h"]),
        ("two", ["mm/b/c.c"]),
        ("three", ["mm/b/d/e.c"]),
    ]
    assert Commit("", "", ("mm/**",)).matching(FILES) == list(FILES)
    assert parts[0][0].message == "one\n\ntext"


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (["one", "mm/a.c", "mm/none.c"], "'mm/none.c' of commit 'one' matches no new file"),
        (["one", "mm/a.*", "", "two", "mm/*.h"], "mm/a.h is named by 'one' and 'two'"),
        (["one", "mm/**", "", "two"], "commit 'two' has no files"),
        (["one", "mm/a.c", "", "one", "mm/a.h"], "two commits have the subject 'one'"),
        ([], "has new files and no"),
    ],
)
def test_wrong_tables_are_named(tmp_path: Path, tables: list[str], says: str) -> None:
    split = " ".join(tables).split("  ") if tables else []
    text = "\n".join(_table(*one.split()) for one in split)
    with pytest.raises(LabError, match=re.escape(says)):
        _room(tmp_path / "x", text, *FILES).parts()


def test_a_table_of_other_keys_is_an_error(tmp_path: Path) -> None:
    room = _room(tmp_path / "x", _table("one").replace("subject", "title"), *FILES)
    with pytest.raises(LabError, match="wrong"):
        room.parts()


def test_tables_are_written_behind_what_is_there(tmp_path: Path) -> None:
    room = _room(tmp_path / "x", "title = 'x'\n\n[[switch]]\nfile = '/f'\n", *FILES)
    commits = [Commit("one", 'a "b"\n\n\\ """c"""', ("mm/a.c",)), Commit("two")]
    room.set_commits(commits)
    assert room.commits() == commits
    assert room.toml.read_text().startswith("title = 'x'\n\n[[switch]]\nfile = '/f'\n\n[[")
    text = room.toml.read_text().replace('"mm/a.c"', "'mm/a.c'")
    room.toml.write_text(text)
    room.set_commits(commits)  # says the same
    assert room.toml.read_text() == text


def _too_large(room: Room, most: int) -> list[str]:
    """Commits of several files that are too much to read at once."""
    sizes = {
        commit.subject: sum(len(room.files[name].read_bytes().splitlines()) for name in names)
        for commit, names in room.parts()
        if len(names) > 1
    }
    return [subject for subject, size in sizes.items() if size > most]


def test_commits_can_be_reviewed() -> None:
    assert [large for room in rooms.series() for large in _too_large(room, MAX_LINES)] == []


def test_a_large_commit_would_be_noticed(tmp_path: Path) -> None:
    room = _room(tmp_path / "x", _table("one", "mm/a.c") + _table("two"), *FILES)
    assert _too_large(room, 30) == []
    assert _too_large(room, 29) == ["two"]
    assert _too_large(room, 1) == ["two"]  # a single file cannot be split


def test_no_room_patches_new_files_of_another() -> None:
    assert rooms.patched_across(rooms.series()) == []


def test_a_patch_across_rooms_would_be_noticed(tmp_path: Path) -> None:
    lower = _room(tmp_path / "lower", _table("one"), *FILES)
    upper = _room(tmp_path / "upper", _table("one"), "mm/new.c")
    for room, changes in ((lower, ("mm/base.c",)), (upper, ("mm/base.c", "mm/new.c", "mm/a.h"))):
        (room.path / "hooks").mkdir()
        diff = "".join(f"--- a/{name}\n+++ b/{name}\n" for name in changes)
        (room.path / "hooks" / "0001-x.patch").write_text(diff, encoding="utf-8")
    assert rooms.patched_across([lower, upper]) == ["upper/0001-x.patch: mm/a.h of lower"]
    assert rooms.patched_across([upper]) == []
