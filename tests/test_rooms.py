# SPDX-License-Identifier: GPL-2.0
"""The kernel-tree workflow: tree, refresh, series, and every base version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab import cache, rooms, source, tree
from lab.errors import LabError
from lab.rooms import Commit, Room

MAX_LINES = 1500  # of new files in a commit that has more than one


def test_compose_is_repeatable(version: str) -> None:
    again = tree._compose(version, rooms.series())
    assert tree.compose(version) == again


@pytest.fixture
def own_branch(version: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A work tree of its own, so that a developer's edits are not touched."""
    path = cache.sub("src") / "refresh-test"
    head = tree.compose(version)
    if not (path / ".git").exists():
        shutil.rmtree(path, ignore_errors=True)
        tree.git("worktree", "prune")
        tree.git("worktree", "add", "-q", "-f", "--no-checkout", "--detach", path, head)
    # Only the files that our commits touch: a whole checkout takes half a minute.
    monkeypatch.setattr(tree, "repository", lambda: path)
    # A test that failed may have left a rebase half done.
    left = Path(tree.git("rev-parse", "--absolute-git-dir")) / "rebase-merge"
    shutil.rmtree(left, ignore_errors=True)
    return head


def test_refresh_after_tree_changes_nothing(
    own_branch: str, version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tree, "BRANCH", "refresh-test")
    shutil.copytree(rooms.LINUX, tmp_path / "linux")
    monkeypatch.setattr(rooms, "LINUX", tmp_path / "linux")
    before = list(cache.tree_parts(tmp_path / "linux"))
    tree.git("checkout", "-q", "-f", "-B", "refresh-test", own_branch)
    assert tree.refresh(version) == []
    assert list(cache.tree_parts(tmp_path / "linux")) == before


def _commit_file(path: str, message: str) -> None:
    """Commit a new file, in the work tree of own_branch."""
    target = tree.repository() / path
    target.write_text(f"{path}\n", encoding="utf-8")
    tree.git("add", "-f", path)
    tree.git("commit", "-q", "-m", message)


def test_refresh_knows_commits_of_new_files(
    own_branch: str, version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """New files and commits, and another message: each comes into its table."""
    monkeypatch.setattr(tree, "BRANCH", "refresh-test")
    shutil.copytree(rooms.LINUX, tmp_path / "linux")
    monkeypatch.setattr(rooms, "LINUX", tmp_path / "linux")
    before = {room.name: room.commits() for room in rooms.series()}
    tree.git("checkout", "-q", "-f", "-B", "refresh-test", own_branch)
    table, choose = before["kmmscand"][1], before["kmmscand"][6]
    # A pattern matches it, of another commit than that of the fixup
    _commit_file("Documentation/mm/kmmscand_more.rst", f"fixup! {table.subject}")
    # No pattern matches it
    _commit_file("mm/tier/kmmscand/more.h", f"fixup! {choose.subject}")
    _commit_file("mm/zap_batch_more.h", "mm: more\n\nOf it.\n\nTiershift-Room: zap-batch")
    kunit = before["zap-batch"][1]
    reworded = 'mm/zap_batch: test\n\nSay "more" \\ here.'
    trailers = f"{tree.SIGNED_OFF}\nTiershift-Room: zap-batch"
    amend = f"amend! {kunit.subject}\n\n{reworded}\n\n{trailers}"
    tree.git("commit", "-q", "--allow-empty", "-m", amend)

    assert tree.refresh(version) == ["kmmscand", "zap-batch"]

    after = {room.name: room.commits() for room in rooms.series()}
    assert after["kmmscand"] == [
        Commit(one.subject, one.text, (*one.files, "mm/tier/kmmscand/more.h"))
        if one == choose
        else one
        for one in before["kmmscand"]
    ]
    (docs,) = (
        names
        for room in rooms.series()
        if room.name == "kmmscand"
        for commit, names in room.parts()
        if commit.subject.startswith("Documentation")
    )
    assert "Documentation/mm/kmmscand_more.rst" in docs
    was = before["zap-batch"]
    assert after["zap-batch"] == [
        was[0],
        Commit("mm/zap_batch: test", 'Say "more" \\ here.', kunit.files),
        *was[2:],
        Commit("mm: more", "Of it.", ("mm/zap_batch_more.h",)),
    ]
    assert {name: after[name] for name in before if name not in ("kmmscand", "zap-batch")} == {
        name: before[name] for name in before if name not in ("kmmscand", "zap-batch")
    }
    # Without its commit there is no table
    without = {"GIT_SEQUENCE_EDITOR": "sed -i '/ mm: more$/d'"}
    tree.git("rebase", "-q", "-i", tree.base_commit(version), env=without)
    assert tree.refresh(version) == ["zap-batch"]
    assert rooms.series()[-1].commits() == after["zap-batch"][:-1]


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


def test_git_am_of_the_series_gives_the_built_tree(version: str, tmp_path: Path) -> None:
    """What is mailed is what was built: compare the git trees."""
    mails = tree.export_series(version, tmp_path / "series")
    assert len(mails) == sum(1 + len(room.parts()) + len(room.hooks) for room in rooms.series())
    work = tmp_path / "am"
    base = tree.base_commit(version)
    tree.git("worktree", "add", "-q", "--no-checkout", "--detach", work, base)
    try:
        # A sparse index keeps 80,000 untouched files out of the work tree.
        run = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", **tree.IDENTITY)
        for argv in (
            ["git", "sparse-checkout", "set", "--no-cone", "/mm/", "/include/", "/Documentation/"],
            ["git", "checkout", "-q", "--detach", base],
            ["git", "am", "-q", "--empty=drop", *map(str, mails)],
        ):
            done = subprocess.run(
                argv, cwd=work, env=run, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        got = subprocess.check_output(["git", "rev-parse", "HEAD^{tree}"], cwd=work, text=True)
        assert got.strip() == tree.git("rev-parse", f"{tree.compose(version)}^{{tree}}")
    finally:
        tree.git("worktree", "remove", "--force", work)


def _plain_files(version: str) -> Path:
    """The base files that our hooks touch, of one version, from the cache."""
    needed = rooms.base_files(rooms.series())
    directory = cache.sub("src") / f"files-{version}-{cache.key(sorted(needed))}"
    if not directory.exists():
        source.unpack(version, directory, sorted(needed))
    return directory


@pytest.mark.parametrize("offered", source.offered())
def test_hooks_apply_to_every_offered_version(offered: str, tmp_path: Path) -> None:
    shutil.copytree(_plain_files(offered), tmp_path / "tree")
    rooms.apply_to_directory(rooms.series(), tmp_path / "tree", offered)


def test_hook_that_does_not_apply_is_named_by_function(version: str, tmp_path: Path) -> None:
    shutil.copytree(_plain_files(version), tmp_path / "tree")
    path = tmp_path / "tree" / "mm" / "migrate.c"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("MR_NUMA_MISPLACED", "MR_CHANGED"), encoding="utf-8")
    with pytest.raises(LabError, match=r"mm/migrate\.c: .*migrate_pages_batch\("):
        rooms.apply_to_directory(rooms.series(), tmp_path / "tree", version)


def test_each_room_on_top_of_the_earlier_ones(version: str) -> None:
    """Leaving out the last rooms still composes."""
    all_rooms = rooms.series()
    for count in range(len(all_rooms)):
        tree.compose(version, all_rooms[:count])
