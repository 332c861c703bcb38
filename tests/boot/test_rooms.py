# SPDX-License-Identifier: GPL-2.0
"""The kernel-tree workflow: tree, refresh, series, subsets, and every base version."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import kbuild
import pytest

from lab import cache, instruments, kconfig, manifest, rooms, scenario, soak, source, topology, tree
from lab.errors import LabError
from lab.rooms import Commit, Room

SUBSETS = [*manifest.closed_subsets()]


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
    # What is committed last has to belong to it.
    last = rooms.series()[-1].name
    tree.git("checkout", "-q", "-f", "-B", "refresh-test", own_branch)
    table, choose = before["kmmscand"][1], before["kmmscand"][6]
    # A pattern matches it, of another commit than that of the fixup
    _commit_file("Documentation/mm/kmmscand_more.rst", f"fixup! {table.subject}")
    # No pattern matches it
    _commit_file("mm/tier/kmmscand/more.h", f"fixup! {choose.subject}")
    _commit_file("mm/more.h", f"mm: more\n\nOf it.\n\nTiershift-Room: {last}")
    second = before[last][1]
    reworded = 'mm: test\n\nSay "more" \\ here.'
    trailers = f"{tree.SIGNED_OFF}\nTiershift-Room: {last}"
    amend = f"amend! {second.subject}\n\n{reworded}\n\n{trailers}"
    tree.git("commit", "-q", "--allow-empty", "-m", amend)

    assert tree.refresh(version) == ["kmmscand", last]

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
    was = before[last]
    assert after[last] == [
        was[0],
        Commit("mm: test", 'Say "more" \\ here.', second.files),
        *was[2:],
        Commit("mm: more", "Of it.", ("mm/more.h",)),
    ]
    assert {name: after[name] for name in before if name not in ("kmmscand", last)} == {
        name: before[name] for name in before if name not in ("kmmscand", last)
    }
    # Without its commit there is no table
    without = {"GIT_SEQUENCE_EDITOR": "sed -i '/ mm: more$/d'"}
    tree.git("rebase", "-q", "-i", tree.base_commit(version), env=without)
    assert tree.refresh(version) == [last]
    assert rooms.series()[-1].commits() == after[last][:-1]


def _names(chosen: Sequence[Room]) -> str:
    return "+".join(room.name for room in chosen) or "none"


def _mailed(version: str, tmp_path: Path, chosen: Sequence[Room]) -> str:
    """The git tree that `git am` of these rooms' mails gives."""
    mails = tree.export_series(version, tmp_path / "series", chosen)
    assert len(mails) == sum(1 + len(room.parts()) + len(room.hooks) for room in chosen)
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
        return got.strip()
    finally:
        tree.git("worktree", "remove", "--force", work)


def _composed(version: str, chosen: Sequence[Room]) -> str:
    return tree.git("rev-parse", f"{tree.compose(version, [*chosen])}^{{tree}}")


def test_git_am_of_the_series_gives_the_built_tree(version: str, tmp_path: Path) -> None:
    """What is mailed is what was built: compare the git trees."""
    everything = rooms.series()
    assert _mailed(version, tmp_path, everything) == _composed(version, everything)


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


@pytest.mark.parametrize("chosen", SUBSETS, ids=_names)
def test_every_closed_subset_applies(version: str, tmp_path: Path, chosen: list[Room]) -> None:
    """Whatever room is left out, what does not depend on it still applies."""
    shutil.copytree(_plain_files(version), tmp_path / "tree")
    rooms.apply_to_directory(chosen, tmp_path / "tree", version)


@pytest.mark.long
@pytest.mark.parametrize("chosen", [s for s in SUBSETS if s], ids=_names)
def test_every_closed_subset_composes(version: str, tmp_path: Path, chosen: list[Room]) -> None:
    """What is mailed is what is composed."""
    assert _mailed(version, tmp_path, chosen) == _composed(version, chosen)


def _subset(version: str, chosen: list[Room], flavour: str) -> tuple[Path, Path]:
    """A work tree of some rooms, and an object directory that is configured for them."""
    src, obj = cache.sub("src") / "subset", cache.sub("obj") / "subset"
    tree.work_tree(src, tree.compose(version, chosen))
    kconfig.configure(src, obj, flavour, chosen)
    return src, obj


@pytest.mark.long
@pytest.mark.parametrize("flavour", ["tiershift", "debug"])
@pytest.mark.parametrize("chosen", SUBSETS, ids=_names)
def test_every_closed_subset_can_be_configured(
    version: str, chosen: list[Room], flavour: str
) -> None:
    """Each has its options and no others of rooms."""
    with cache.lock("subset"):
        _, obj = _subset(version, chosen, flavour)
        have = kconfig.options((obj / ".config").read_text("utf-8"))
    keys = kconfig.FLAVOURS[flavour].keys
    for name in manifest.options(keys).keys() - manifest.options(keys, chosen).keys():
        assert have.get(name, "n") == "n"


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [
        ("tier-parts", "zap-batch"),
        ("migrate-seam",),
        ("tier-parts", "demote-seam", "promote", "migrate-seam", "migrc"),
    ],
    ids="+".join,
)
def test_a_subset_that_is_no_prefix_builds(version: str, names: tuple[str, ...]) -> None:
    chosen = [room for room in rooms.series() if room.name in names]
    assert len(chosen) == len(names)
    with cache.lock("subset"):
        src, obj = _subset(version, chosen, "tiershift")
        have = kconfig.options((obj / ".config").read_text("utf-8"))
        targets = kbuild.targets(have, chosen)
        assert {*manifest.objects(chosen, own=True)} <= {*targets}
        kbuild.make(src, obj, "prepare")
        log = kbuild.make(src, obj, "W=1", *targets)
    ours = {name for room in chosen for name in room.files}
    assert kbuild.complaints(log, ours) == []


EMPTY = """# SPDX-License-Identifier: GPL-2.0
title = "a room for nothing"
state = "draft"
depends = ["demote-seam"]
kconfig = ["CONFIG_NOTHING=y"]
objects = ["mm/nothing.o"]
threads = ["knothing"]
[kinds]
scan = ["nothing_thread"]
[[switch]]
file = "/sys/kernel/mm/tier/nothing/enabled"
on = "1"
off = "0"
[[counter]]
name = "tier_nothing_done"
text = "times that nothing was done"
"""


@pytest.fixture
def with_empty_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    """A copy of linux/ with one room more: its directory, and a line of the series."""
    shutil.copytree(rooms.LINUX, tmp_path / "linux")
    monkeypatch.setattr(rooms, "LINUX", tmp_path / "linux")
    room = Room("empty", tmp_path / "linux" / "empty")
    (room.path / "files/mm").mkdir(parents=True)
    (room.path / "files/mm/nothing.c").write_text("// SPDX-License-Identifier: GPL-2.0\n")
    (room.path / "cover.md").write_text("# Nothing\n\nNo.\n")
    (room.path / "room.toml").write_text(EMPTY + "\n" + Commit("mm: no", "No.").toml())
    with open(tmp_path / "linux/series", "a", encoding="utf-8") as handle:
        handle.write("empty\n")
    return room


def test_a_new_room_is_its_directory_and_a_line(
    version: str, with_empty_room: Room, tmp_path: Path
) -> None:
    """All that has to know of a room reads its manifest; nothing else is touched."""
    head = tree.compose(version)
    assert tree.git("cat-file", "-p", f"{head}:mm/nothing.c").startswith("// SPDX")
    mails = tree.export_series(version, tmp_path / "series")
    assert mails[-2].parent.name.endswith("-empty")
    for flavour in ("tiershift", "torture", "debug"):
        assert "CONFIG_NOTHING=y\n" in kconfig.fragments(flavour)[kconfig.ROOMS]
        chosen = rooms.series()[:-1]
        assert "CONFIG_NOTHING" not in kconfig.fragments(flavour, chosen)[kconfig.ROOMS]
    assert "rooms" not in kconfig.fragments("base")
    assert "mm/nothing.o" in manifest.objects(own=True)
    assert "mm/nothing.o" in kbuild.targets({"CONFIG_NOTHING": "y"}, [with_empty_room])
    assert "tier_nothing_done$" in manifest.counters()
    assert "knothing" in manifest.threads()
    assert "nothing_thread" in instruments.all_kinds()["scan"]
    assert "echo 1 > /sys/kernel/mm/tier/nothing/enabled\n" in soak.script(
        soak.TORTURES[0], topology.load("two-tier"), 60
    )
    assert scenario.modes().keys() == {*scenario.MODES, "tiershift"}
    subsets = [_names(chosen) for chosen in manifest.closed_subsets()]
    assert "tier-parts+demote-seam+empty" in subsets
    assert not {"empty", "demote-seam+empty"} & {*subsets}
    assert ["`linux/empty`", "draft", "a room for nothing"] in manifest.table()
    readme = (cache.PROJECT / "README.md").read_text(encoding="utf-8")
    assert manifest.with_table(readme) == readme  # until it is more than a draft
