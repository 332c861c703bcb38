# SPDX-License-Identifier: GPL-2.0
"""tierctl's sources: live files, trees, bundles, and what is wrong with them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tierctl_trees import Stepping, Tree

from tierctl.core import bundle as archive
from tierctl.core.bundle import Bundle
from tierctl.core.errors import TierctlError
from tierctl.core.source import ABSENT, DENIED, MISSING, Live, Recorder, failure, reason_of


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Some files."""
    found = Tree(tmp_path / "root")
    found.put("proc/a", "one")
    found.put("proc/dir/b", "two\n")
    found.put("proc/dir/sub/c", "three")
    found.put("proc/map", "0123456789")
    return found


@pytest.fixture
def live(tree: Tree) -> Live:
    """The files as a machine."""
    return Live(str(tree.root))


# --- live ------------------------------------------------------------------------


def test_read_strips_one_newline(live: Live) -> None:
    assert live.read("/proc/a") == "one"
    assert live.read("/proc/dir/b") == "two\n"


def test_read_with_bytes_that_are_no_text_gives_escapes(live: Live, tree: Tree) -> None:
    (tree.root / "proc/a").write_bytes(b"\xff\n")
    assert live.read("/proc/a") == "\\xff"


def test_names_and_dirs_are_sorted_and_links_are_no_dirs(live: Live, tree: Tree) -> None:
    (tree.root / "proc/dir/link").symlink_to("sub")
    assert live.names("/proc/dir") == ["b", "link", "sub"]
    assert live.dirs("/proc/dir") == ["sub"]


def test_pread_of_two_files_in_turn_gives_their_pieces(live: Live) -> None:
    assert live.pread("/proc/map", 3, 4) == b"456"
    assert live.pread("/proc/a", 2, 0) == b"on"
    assert live.pread("/proc/map", 8, 8) == b"89\n"


def test_write_replaces_the_text_and_creates_nothing(live: Live, tree: Tree) -> None:
    live.write("/proc/a", "1")
    assert (tree.root / "proc/a").read_text() == "1"
    with pytest.raises(FileNotFoundError):
        live.write("/proc/new", "1")


def test_get_of_an_absent_file_says_so_until_it_comes(live: Live, tree: Tree) -> None:
    assert live.get("/proc/later") is None and live.why("/proc/later") == ABSENT
    tree.put("proc/later", 1)
    assert live.get("/proc/later") == "1" and live.why("/proc/later") == ""


def test_get_of_a_denied_file_says_so(tree: Tree) -> None:
    source = Stepping(tree)
    source.denied = ("/proc/a",)
    assert source.get("/proc/a") is None and source.why("/proc/a") == DENIED
    assert source.listing("/proc/dir") and source.listing("/proc/none") is None
    assert source.why("/proc/none") == ABSENT


def test_get_of_a_directory_names_the_failure(live: Live) -> None:
    assert live.get("/proc/dir") is None
    assert live.why("/proc/dir") == "failed: Is a directory"


@pytest.mark.parametrize("reason", [ABSENT, DENIED, MISSING, "failed: Input/output error"])
def test_failure_and_reason_are_inverse(reason: str) -> None:
    assert reason_of(failure(reason, "/x")) == reason


# --- bundles ---------------------------------------------------------------------


def capture(live: Live, file: Path, steps: int = 2) -> Bundle:
    """A bundle of the files of a machine that changes."""
    recorder = Recorder(live)
    for number in range(steps):
        if number:
            (live.place("/proc/a")).write_text(f"step {number}\n")
            recorder.wait(0.01)
        recorder.get("/proc/a")
        recorder.get("/proc/dir/b")
        recorder.get("/proc/none")
        recorder.listing("/proc/dir")
        recorder.pread("/proc/map", 4, 2)
    archive.save(file, recorder.samples, "host", "6.12")
    return Bundle(str(file))


def test_bundle_gives_what_was_read(live: Live, tmp_path: Path) -> None:
    bundle = capture(live, tmp_path / "b.tar.gz")
    assert not bundle.live
    assert bundle.read("/proc/a") == "one" and bundle.read("/proc/dir/b") == "two\n"
    assert bundle.names("/proc/dir") == ["b", "sub"] and bundle.dirs("/proc/dir") == ["sub"]
    assert bundle.pread("/proc/map", 4, 2) == b"2345"
    assert bundle.get("/proc/none") is None and bundle.why("/proc/none") == ABSENT
    before = bundle.time()
    bundle.wait(5)
    assert bundle.read("/proc/a") == "step 1" and bundle.read("/proc/dir/b") == "two\n"
    assert 0.005 < bundle.time() - before < 5
    with pytest.raises(EOFError):
        bundle.wait(1)


def test_bundle_keeps_what_did_not_change_once(live: Live, tmp_path: Path) -> None:
    capture(live, tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as found:
        names = found.getnames()
    assert names[0] == "manifest.json"
    assert "1/proc/a" in names and "1/proc/dir/b" not in names


def test_bundle_without_a_path_says_not_captured_and_not_absent(live: Live, tmp_path: Path) -> None:
    bundle = capture(live, tmp_path / "b.tar.gz")
    assert bundle.get("/proc/other") is None and bundle.why("/proc/other") == MISSING
    with pytest.raises(OSError, match="No data"):
        bundle.pread("/proc/map", 4, 3)


def test_bundle_knows_a_file_that_vanishes_and_one_that_comes(live: Live, tmp_path: Path) -> None:
    recorder = Recorder(live)
    recorder.get("/proc/a")
    recorder.wait(0)
    live.place("/proc/a").unlink()
    recorder.get("/proc/a")
    recorder.get("/proc/dir/b")
    archive.save(tmp_path / "b", recorder.samples, "h", "k")
    bundle = Bundle(str(tmp_path / "b"))
    assert bundle.get("/proc/a") == "one"
    assert bundle.get("/proc/dir/b") is None and bundle.why("/proc/dir/b") == MISSING
    bundle.wait(0)
    assert bundle.get("/proc/a") is None and bundle.why("/proc/a") == ABSENT
    assert bundle.get("/proc/dir/b") == "two\n"


def test_bundle_takes_no_write(live: Live, tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        capture(live, tmp_path / "b").write("/proc/a", "1")


def test_save_leaves_a_private_file_and_nothing_else(live: Live, tmp_path: Path) -> None:
    capture(live, tmp_path / "b.tar.gz")
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.tar.gz", "root"]
    with pytest.raises(FileNotFoundError):
        capture(live, tmp_path / "none/b.tar.gz")


# --- bad bundles -----------------------------------------------------------------


def packed(file: Path, members: dict[str, bytes]) -> str:
    """A .tar.gz."""
    with tarfile.open(file, "w:gz") as found:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            found.addfile(member, io.BytesIO(data))
    return str(file)


def manifest(**changes: Any) -> dict[str, bytes]:
    """A manifest that is good but for the changes."""
    good = {"schema": archive.SCHEMA, "host": "h", "kernel": "k", "samples": [{"time": 1.5}]}
    return {"manifest.json": json.dumps({**good, "files": {}, **changes}).encode()}


def refused(path: str) -> str:
    """The error line of a bundle."""
    with pytest.raises(TierctlError) as found:
        Bundle(path)
    assert "\n" not in str(found.value) and found.value.todo
    return str(found.value)


def test_smallest_bundle_is_good(tmp_path: Path) -> None:
    assert Bundle(packed(tmp_path / "b", manifest())).time() == 1.5


def test_bundle_cut_short_anywhere_is_refused(live: Live, tmp_path: Path) -> None:
    capture(live, tmp_path / "b.tar.gz")
    data = (tmp_path / "b.tar.gz").read_bytes()
    padding = 40  # behind the last member
    for length in range(0, len(data) - padding, 7):
        (tmp_path / "cut").write_bytes(data[:length])
        line = refused(str(tmp_path / "cut"))
        assert "cut short" in line or "no bundle" in line


def test_bundle_without_the_content_of_a_later_sample_is_refused(tmp_path: Path) -> None:
    members = manifest(
        samples=[{"time": 1}, {"time": 2}], files={"/proc/a": {"state": "ok"}}, members=2
    )
    good = packed(tmp_path / "good", members | {"0/proc/a": b"1", "1/proc/a": b"2"})
    assert Bundle(good).read("/proc/a") == "1"
    assert "is cut short" in refused(packed(tmp_path / "b", members | {"0/proc/a": b"1"}))


def test_bundle_without_a_member_of_its_list_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path / "b", manifest(files={"/proc/a": {"state": "ok"}}))
    assert "it lacks /proc/a" in refused(path)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"a": b"b"}, "is no bundle of tierctl"),
        ({}, "is no bundle"),
        ({"manifest.json": b"{"}, "is no bundle of tierctl"),
        ({"manifest.json": b"[]"}, "is no bundle of tierctl"),
        ({"manifest.json": b"\xff"}, "is no bundle of tierctl"),
        (manifest(schema="tierctl-bundle/2"), "install a newer tierctl"),
        (manifest(schema="other/1"), "is no bundle"),
        (manifest(samples=[]), "damaged"),
        (manifest(samples=[{"time": "x"}]), "damaged"),
        (manifest(files=[]), "damaged"),
        (manifest(files={"/a": "ok"}), "damaged"),
        (manifest(files={"/a": {"state": 1}}), "damaged"),
        (manifest(files={"/a": {"state": "ok", "samples": [1]}}), "damaged"),
    ],
)
def test_bad_bundle_gives_one_clear_line(
    tmp_path: Path, members: dict[str, bytes], words: str
) -> None:
    assert words in refused(packed(tmp_path / "b", members))


def test_text_and_a_missing_file_are_no_bundles(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    assert "is no bundle" in refused(str(tmp_path / "text"))
    assert "there is no bundle" in refused(str(tmp_path / "none"))
    assert "bundle" in refused(str(tmp_path))


def test_bundle_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "LIMIT", 1 << 20)
    path = packed(tmp_path / "b", manifest() | {"0/a": bytes(2 << 20)})
    assert "unpacks to more than 1 MiB" in refused(path)
