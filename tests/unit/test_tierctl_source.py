# SPDX-License-Identifier: GPL-2.0
"""tierctl's sources: live files, trees, bundles, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
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
            recorder.go_on(0.01)
        recorder.get("/proc/a")
        recorder.get("/proc/dir/b")
        recorder.get("/proc/none")
        recorder.listing("/proc/dir")
        recorder.pread("/proc/map", 4, 2)
    archive.save(file, recorder.samples, "host", "6.12")
    return Bundle(str(file))


def test_bundle_gives_what_was_read(live: Live, tmp_path: Path) -> None:
    bundle = capture(live, tmp_path / "b.json.gz")
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
    capture(live, tmp_path / "b.json.gz")
    first, second = archive.unpack(str(tmp_path / "b.json.gz"))["samples"]
    assert first["files"]["/proc/a"] == "one" and second["files"]["/proc/a"] == "step 1"
    assert first["files"]["/proc/dir/b"] == "two\n" and second["files"]["/proc/dir/b"] is None


def test_bundle_without_a_path_says_not_captured_and_not_absent(live: Live, tmp_path: Path) -> None:
    bundle = capture(live, tmp_path / "b.json.gz")
    assert bundle.get("/proc/other") is None and bundle.why("/proc/other") == MISSING
    with pytest.raises(OSError, match="No data"):
        bundle.pread("/proc/map", 4, 3)


def test_bundle_knows_a_file_that_vanishes_and_one_that_comes(live: Live, tmp_path: Path) -> None:
    recorder = Recorder(live)
    recorder.get("/proc/a")
    recorder.go_on(0)
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


def test_clock_that_is_set_moves_no_sample(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(live)
    monkeypatch.setattr("time.time", lambda: 5.0)
    recorder.go_on(0.01)
    first, second = (one.time for one in recorder.samples)
    assert 0.005 < second - first < 5 and recorder.time() == 5.0


def test_bundle_takes_no_write(live: Live, tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        capture(live, tmp_path / "b").write("/proc/a", "1")


def test_save_leaves_a_private_file_and_nothing_else(live: Live, tmp_path: Path) -> None:
    capture(live, tmp_path / "b.json.gz")
    assert (tmp_path / "b.json.gz").stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.json.gz", "root"]
    with pytest.raises(FileNotFoundError):
        capture(live, tmp_path / "none/b.json.gz")


# --- bad bundles -----------------------------------------------------------------


def packed(file: Path, data: bytes) -> str:
    """A file of gzip."""
    file.write_bytes(gzip.compress(data))
    return str(file)


def document(**changes: Any) -> bytes:
    """A bundle that is good but for the changes."""
    samples = [{"time": 1.5, "files": {}}]
    good = {"schema": archive.SCHEMA, "host": "h", "kernel": "k", "samples": samples}
    return json.dumps({**good, **changes}).encode()


def refused(path: str) -> str:
    """The error line of a bundle."""
    with pytest.raises(TierctlError) as found:
        Bundle(path)
    assert "\n" not in str(found.value) and found.value.todo
    return str(found.value)


def test_smallest_bundle_is_good(tmp_path: Path) -> None:
    assert Bundle(packed(tmp_path / "b", document())).time() == 1.5


def test_bundle_cut_short_anywhere_is_refused(live: Live, tmp_path: Path) -> None:
    capture(live, tmp_path / "b.json.gz")
    data = (tmp_path / "b.json.gz").read_bytes()
    for length in range(len(data)):
        (tmp_path / "cut").write_bytes(data[:length])
        line = refused(str(tmp_path / "cut"))
        assert "cut short" in line or "no bundle" in line


def test_bundle_with_a_byte_that_has_changed_is_refused(live: Live, tmp_path: Path) -> None:
    capture(live, tmp_path / "b.json.gz")
    data = bytearray((tmp_path / "b.json.gz").read_bytes())
    for at in range(10, len(data)):
        data[at] ^= 1
        (tmp_path / "bad").write_bytes(data)
        assert "damaged" in refused(str(tmp_path / "bad"))
        data[at] ^= 1


NO_TIMES = (float("nan"), float("inf"), 10**400, 1e13, -1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is no bundle of tierctl"),
        (b"{", "is no bundle of tierctl"),
        (b"[]", "is no bundle of tierctl"),
        (b"{}", "is no bundle of tierctl"),
        (b"\xff", "is no bundle of tierctl"),
        (b"[" * 100_000, "is no bundle of tierctl"),
        (document(schema="other/1"), "is no bundle of tierctl"),
        (document(schema="tierctl-bundle/2"), "install a newer tierctl"),
        (document(samples=[]), "is damaged"),
        (document(samples=3), "is damaged"),
        (document(samples=[{"time": "x", "files": {}}]), "is damaged"),
        *((document(samples=[{"time": one, "files": {}}]), "is damaged") for one in NO_TIMES),
        (document(samples=[{"time": 1}]), "is damaged"),
        (document(samples=[{"time": 1, "files": []}]), "is damaged"),
        (document(samples=[{"time": 1, "files": {"/a": None}}]), "is damaged"),
    ],
    ids=lambda one: str(one)[:60],
)
def test_bad_bundle_gives_one_clear_line(tmp_path: Path, data: bytes, words: str) -> None:
    assert words in refused(packed(tmp_path / "b", data))


@pytest.mark.parametrize("kept", [3, True, ["a"], {"other": "x"}, {"why": 3}])
def test_content_of_a_wrong_kind_cannot_be_read(tmp_path: Path, kept: object) -> None:
    data = document(samples=[{"time": 1, "files": {"/a": kept, "/a/.names": "x"}}])
    bundle = Bundle(packed(tmp_path / "b", data))
    assert bundle.get("/a") is None and bundle.why("/a").startswith("failed: ")
    assert bundle.listing("/a") is None


@pytest.mark.parametrize("piece", ["A", "\u00e9", None, 3])
def test_piece_that_is_no_base64_cannot_be_read(tmp_path: Path, piece: object) -> None:
    data = document(samples=[{"time": 1, "files": {"/a@0+8": {"b64": piece}}}])
    with pytest.raises(OSError, match="the bundle is damaged"):
        Bundle(packed(tmp_path / "b", data)).pread("/a", 8, 0)


def test_text_and_a_missing_file_are_no_bundles(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    assert "is no bundle" in refused(str(tmp_path / "text"))
    assert "there is no bundle" in refused(str(tmp_path / "none"))
    assert "bundle" in refused(str(tmp_path))


def test_bundle_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "LIMIT", 1 << 20)
    path = packed(tmp_path / "b", document(host="a" * (2 << 20)))
    assert "unpacks to more than 1 MiB" in refused(path)
