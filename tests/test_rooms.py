# SPDX-License-Identifier: GPL-2.0
"""The kernel-tree workflow: tree, refresh, series, and every base version."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab import cache, rooms, source, tree
from lab.errors import LabError


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


def test_git_am_of_the_series_gives_the_built_tree(version: str, tmp_path: Path) -> None:
    """What is mailed is what was built: compare the git trees."""
    mails = tree.export_series(version, tmp_path / "series")
    assert len(mails) > len(rooms.series())
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
