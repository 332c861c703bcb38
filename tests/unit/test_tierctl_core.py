# SPDX-License-Identifier: GPL-2.0
"""tierctl's core: files that are replaced whole, locks, errors, and JSON that is read back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tierctl_trees import STOCK, Stepping, build

from tierctl.core import errors, files, texts
from tierctl.core.errors import DENIED, FINDING, TierctlError
from tierctl.core.reply import note_for

PACKAGE = Path(texts.__file__).parents[1]
VERDICTS = {"act", "fine", "by design", "its policy", "unknown"}
HOLD = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
HOLD += "print(flush=True); time.sleep(30)"


def test_replace_writes_all_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "a"
    files.replace(path, b"one")
    files.replace(path, b"x" * 100_000, mode=0o640)
    assert path.read_bytes() == b"x" * 100_000 and path.stat().st_mode & 0o777 == 0o640
    files.replace(path, b"two", private=True)
    assert path.stat().st_mode & 0o777 == 0o600 and os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("call", ["os.write", "os.fsync", "os.replace"])
def test_replace_that_fails_keeps_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    path = tmp_path / "a"
    path.write_bytes(b"old")
    monkeypatch.setattr(call, fail)
    with pytest.raises(OSError, match="No space left") as found:
        files.replace(path, b"new")
    assert found.value.filename == str(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]


def test_replace_takes_over_a_draft_that_was_left_and_follows_no_link(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "other"
    (tmp_path / ".a.tmp").write_bytes(b"longer than what comes now")
    files.replace(path, b"new")
    assert path.read_bytes() == b"new"
    other.write_bytes(b"kept")
    os.link(other, tmp_path / ".a.tmp")
    files.replace(path, b"newer")
    (tmp_path / ".a.tmp").symlink_to(other)
    files.replace(path, b"newest", private=True)
    assert other.read_bytes() == b"kept" and path.read_bytes() == b"newest"
    assert not path.is_symlink() and path.stat().st_nlink == 1


@pytest.mark.parametrize("put", ["file", "link"])
def test_replace_writes_nothing_to_what_another_program_puts_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: str
) -> None:
    path, draft, other = (tmp_path / name for name in ("a", ".a.tmp", "other"))
    path.write_bytes(b"old")
    other.write_bytes(b"kept")
    real = os.unlink

    def late(file: Path) -> None:
        real(file) if os.path.lexists(file) else None
        os.link(other, file) if put == "file" else os.symlink(other, file)

    monkeypatch.setattr(os, "unlink", late)
    with pytest.raises(FileExistsError):
        files.replace(path, b"new")
    assert other.read_bytes() == b"kept" and path.read_bytes() == b"old"
    monkeypatch.undo()
    real(draft)
    draft.mkdir()
    with pytest.raises(OSError, match="directory"):
        files.replace(path, b"new")
    assert path.read_bytes() == b"old"


def test_remove_of_what_is_not_there_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    files.remove(tmp_path / "a")
    files.remove(tmp_path / "a")
    assert os.listdir(tmp_path) == []


def test_lock_that_another_program_holds_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    argv = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline()
        with (
            pytest.raises(TierctlError, match="it is busy") as found,
            files.locked(path, 0, "it is busy"),
        ):
            pytest.fail("two hold it")
        assert found.value.code == FINDING
        holder.kill()
    with files.locked(path, 1, "it is busy"):
        pass


@pytest.mark.parametrize(
    ("user", "todo", "note"),
    [
        (0, "mount it", "root is refused, too: lockdown, or a container"),
        (1000, "run tierctl as root", "run as root"),
    ],
)
def test_root_is_not_told_to_be_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, todo: str, note: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    found = errors.failed(PermissionError(13, "Permission denied"), "/x", "mount it")
    assert (str(found), found.code) == (f"/x: Permission denied; {todo}", DENIED)
    assert errors.failed(OSError(5, "EIO"), "/x", "look").code == FINDING
    source = Stepping(build(tmp_path, STOCK))
    source.denied = ("/proc/vmstat",)
    assert source.get("/proc/vmstat") is None
    assert note_for(source, "/proc/vmstat").todo == note == errors.as_root()
    assert note_for(source, "/proc/vmstat", "ask").todo == "ask"
    source.live = False  # a bundle: who looks at it does not matter
    assert note_for(source, "/proc/vmstat").todo == "capture as root"


def test_near_is_the_word_that_was_meant_or_nothing() -> None:
    assert errors.near("perod", ["period", "rate"]) == "period"
    assert errors.near("zzz", ["period", "rate"]) == ""


def test_texts_have_words_and_each_is_used() -> None:
    source = "".join(file.read_text() for file in PACKAGE.rglob("*.py"))
    assert texts.cause("full")["verdict"] == "act"
    for name, one in texts.load()["causes"].items():
        assert one["what"] and one["verdict"] in VERDICTS and f'"{name}"' in source, name
    names = [one[0] for one in texts.load()["metrics"]]
    assert len(set(names)) == len(names) and all(f'"{name}"' in source for name in names)
