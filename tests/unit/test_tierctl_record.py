# SPDX-License-Identifier: GPL-2.0
"""tierctl record: samples, and the ring of files that keeps them."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tierctl_trees import FAST, OURS, PLAIN, SLOW, STOCK, Stepping, Tree, build, vmstat

from tierctl import cli
from tierctl.commands.record import Recorder
from tierctl.core.errors import DENIED, FINDING, USAGE, TierctlError
from tierctl.core.source import Live
from tierctl.model import history
from tierctl.model.addressmap import Mapper
from tierctl.model.history import Point
from tierctl.model.snapshot import Sampler
from tierctl.record.ring import Ring

HOUR, DAY = 3600.0, 86_400.0
NOON = 1_796_040_000.0  # 2026-11-30 12:00 UTC
PROJECT = Path(__file__).resolve().parents[2]


def names(place: Path) -> list[str]:
    """The files of a ring that readers see."""
    return [one.name for one in history.files(place)]


def content(place: Path) -> list[bytes]:
    """All lines, oldest first."""
    return [line for one in history.files(place) for line in history.lines(one)]


def points(place: Path) -> list[Point]:
    """All samples, oldest first."""
    return [history.from_line(one) for one in content(place)]


# --- the ring --------------------------------------------------------------------


def test_each_hour_has_a_file(tmp_path: Path) -> None:
    with Ring(tmp_path / "r", 7, 1 << 20) as files:
        for i in range(3):
            files.append(NOON + i * HOUR, b"line %d\n" % i)
    assert names(tmp_path / "r") == [f"2026-11-30T1{i}.jsonl" for i in (2, 3, 4)]
    assert content(tmp_path / "r") == [b"line 0\n", b"line 1\n", b"line 2\n"]
    assert all(one.stat().st_mode & 0o777 == 0o644 for one in history.files(tmp_path / "r"))


@pytest.mark.parametrize("body", [b"one\ntwo\nthr", b"thr", b"one\ntwo\n", b""])
def test_line_that_is_cut_is_ignored_and_ended(tmp_path: Path, body: bytes) -> None:
    file = tmp_path / "2026-11-30T12.jsonl"
    file.write_bytes(body)
    assert content(tmp_path) == [one for one in (b"one\n", b"two\n") if one in body]
    with Ring(tmp_path, 7, 1 << 20) as files:
        files.append(NOON, b"three\n")
    ended = b"\n" if body and not body.endswith(b"\n") else b""
    assert file.read_bytes() == body + ended + b"three\n"


def test_line_that_is_cut_is_ended_as_soon_as_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "2026-11-30T12.jsonl").write_bytes(b"thr")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Ring(tmp_path, 7, 1 << 20) as files:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(OSError, match="No space"):
                files.append(NOON, b"one\n")
        files.append(NOON, b"two\n")
    assert content(tmp_path) == [b"thr\n", b"two\n"]


def test_days_above_the_limit_go_and_a_clock_that_jumps_ahead_removes_nothing(
    tmp_path: Path,
) -> None:
    with Ring(tmp_path, 2, 1 << 20) as files:
        for i in range(5):
            files.append(NOON + i * DAY, b"x\n")
    assert [one[:10] for one in names(tmp_path)] == ["2026-12-02", "2026-12-03", "2026-12-04"]
    with Ring(tmp_path / "r", 3, 1 << 20) as files:
        files.append(NOON, b"old\n")
        files.append(NOON + 40 * 365 * DAY, b"future\n")
        files.append(NOON + 60, b"new\n")
    assert b"old\n" in content(tmp_path / "r") and b"new\n" in content(tmp_path / "r")


def test_oldest_files_go_above_the_size(tmp_path: Path) -> None:
    with Ring(tmp_path, 100, 8000) as files:
        for i in range(20):
            files.append(NOON + i * HOUR, os.urandom(700).hex().encode() + b"\n")
    assert 1 < len(names(tmp_path)) < 20 and names(tmp_path)[-1] == "2026-12-01T07.jsonl"
    assert sum(one.stat().st_size for one in history.files(tmp_path)) <= 8000


def test_hour_that_is_too_long_loses_its_oldest_lines(tmp_path: Path) -> None:
    with Ring(tmp_path, 7, 10_000) as files:
        for i in range(430):
            files.append(NOON + i, b"%03d" % i + b"x" * 100 + b"\n")
            assert sum(one.stat().st_size for one in history.files(tmp_path)) <= 10_200
    assert names(tmp_path) == ["2026-11-30T12-first.jsonl", "2026-11-30T12.jsonl"]
    found = [int(one[:3]) for one in content(tmp_path)]
    assert len(found) >= 40 and found == list(range(430))[-len(found) :]


def test_file_above_the_size_at_the_start_stays_while_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "2026-11-30T12.jsonl").write_bytes(b"%099d\n" % 1 * 100)
    with Ring(tmp_path, 7, 1000) as files:
        files.append(NOON, b"one\n")
        assert content(tmp_path)[-1] == b"one\n"
        files.append(NOON + 1, b"two\n")
        files.append(NOON + HOUR, b"three\n")
    assert content(tmp_path) == [b"two\n", b"three\n"]


def test_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ring(tmp_path, 7, 1 << 20) as files:
        files.append(NOON, b"one\n")
        write = os.write
        monkeypatch.setattr("os.write", lambda file, data: write(file, data[:2]))
        with pytest.raises(OSError, match="No space"):
            files.append(NOON + 1, b"two\n")
        monkeypatch.undo()
        files.append(NOON + 2, b"three\n")
    assert content(tmp_path) == [b"one\n", b"three\n"]


def test_trim_that_fails_loses_no_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space")

    with Ring(tmp_path, 1, 1 << 20) as files:
        with monkeypatch.context() as patch:
            patch.setattr("os.unlink", fail)
            for i in range(3):
                files.append(NOON + i * DAY, b"%d\n" % i)
        assert len(names(tmp_path)) == 3
        files.append(NOON + 3 * DAY, b"3\n")
    assert content(tmp_path) == [b"2\n", b"3\n"]


def test_two_recorders_are_refused(tmp_path: Path) -> None:
    with Ring(tmp_path, 7, 1 << 20), pytest.raises(TierctlError, match="another tierctl") as found:
        Ring(tmp_path, 7, 1 << 20).__enter__()
    assert found.value.code == FINDING
    with Ring(tmp_path, 7, 1 << 20):
        pass  # the lock went with the first one


def test_links_are_neither_followed_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious\n")
    (tmp_path / "r").mkdir()
    for hour in ("2026-11-29T12", "2026-11-30T12"):
        (tmp_path / f"r/{hour}.jsonl").symlink_to(tmp_path / "victim")
    with Ring(tmp_path / "r", 1, 10) as files:
        with pytest.raises(OSError) as found:
            files.append(NOON, b"x\n")
        for i in range(1, 5):
            files.append(NOON + i * DAY, b"x" * 20 + b"\n")
    assert found.value.errno == errno.ELOOP
    assert (tmp_path / "victim").read_text() == "precious\n"
    assert (tmp_path / "r/2026-11-29T12.jsonl").is_symlink()


def test_other_files_stay(tmp_path: Path) -> None:
    others = ("notes.txt", "2026-11-30T12.jsonl.bak", "x2026-11-30T12.jsonl", ".notes.tmp")
    for name in others:
        (tmp_path / name).write_text("mine")
    with Ring(tmp_path, 1, 10) as files:
        for i in range(3):
            files.append(NOON + i * DAY, b"y" * 20 + b"\n")
    assert all((tmp_path / name).read_text() == "mine" for name in others)


def test_file_that_was_removed_is_made_again(tmp_path: Path) -> None:
    with Ring(tmp_path / "r", 7, 1 << 20) as files:
        files.append(NOON, b"a\n")
        (tmp_path / "r/2026-11-30T12.jsonl").unlink()
        files.append(NOON + 1, b"b\n")
    assert content(tmp_path / "r") == [b"b\n"]


def test_directory_that_may_not_be_written_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TierctlError, match="check the directory"):
        Ring(tmp_path / "file/r", 7, 1).__enter__()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    for uid, todo in ((1000, "run tierctl as root"), (0, "give --directory")):
        monkeypatch.setattr("os.geteuid", lambda uid=uid: uid)
        with pytest.raises(TierctlError, match=todo) as found:
            Ring(tmp_path, 7, 1).__enter__()
        assert found.value.code == DENIED


def test_file_that_is_written_stays_although_others_are_newer(tmp_path: Path) -> None:
    for i in range(1, 6):
        (tmp_path / f"2027-01-0{i}T00.jsonl").write_text("future\n")
    with Ring(tmp_path, 2, 1 << 20) as files:
        for i in range(3):
            files.append(NOON + i, b"%d\n" % i)
            files._trim()
    assert content(tmp_path)[:3] == [b"0\n", b"1\n", b"2\n"]


KILLED = 9


def killed_at(place: Path, number: int) -> bool:
    """Record over hours in a child that ends at its call so and so; whether it was killed."""
    child = os.fork()
    if child == 0:
        left = [number]

        def last(call: Any) -> Any:
            def wrapped(*args: Any, **others: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    os._exit(KILLED)
                return call(*args, **others)

            return wrapped

        for name in ("write", "rename", "unlink", "open", "ftruncate"):
            setattr(os, name, last(getattr(os, name)))
        with Ring(place, 100, 30) as files:
            for i in range(20):
                files.append(NOON + i * HOUR / 5, b"%03d\n" % i)
                print(i, file=(place / "acknowledged").open("a"), flush=True)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def test_kill_at_every_call_loses_no_line_that_was_written(tmp_path: Path) -> None:
    for number in range(1, 1000):
        place = tmp_path / str(number)
        place.mkdir()
        alive = not killed_at(place, number)
        done = (place / "acknowledged").read_text() if (place / "acknowledged").exists() else ""
        with Ring(place, 100, 1 << 20) as files:
            files.append(NOON + 4 * DAY, b"end\n")
        found = [one.decode().strip() for one in content(place)]
        wanted = [f"{int(one):03}" for one in done.split()]
        # The ring is small, so the oldest lines may have gone.
        kept = [one for one in found if one in wanted]
        assert kept == wanted[len(wanted) - len(kept) :] and found == sorted(found)
        assert len(kept) >= min(len(wanted), 3)
        if alive:
            return
    raise AssertionError("the recorder never came to its end")


# --- samples ---------------------------------------------------------------------


def recorder(tree: Tree, place: Path, pid: int = 0) -> tuple[Recorder, Ring, Stepping]:
    """A recorder of a made-up machine, with a clock of its own that costs nothing."""
    source = Stepping(tree, lambda second: tree.put("proc/vmstat", vmstat(OURS, second)))
    files = Ring(place, 7, 1 << 24).__enter__()
    mapper = Mapper(source, pid) if pid else None
    found = Recorder(source, files, 10, mapper)
    found.cpu = lambda: 0.0
    return found, files, source


def test_samples_have_the_figures_of_the_machine(tmp_path: Path) -> None:
    found, files, source = recorder(build(tmp_path / "root", OURS), tmp_path / "r")
    nodes = Sampler(source).take().machine
    found.run(3)
    files.__exit__()
    first, *_, last = samples = points(tmp_path / "r")
    assert [one.time for one in samples] == [1_796_000_000.0 + 10 * i for i in range(3)]
    assert first.host == "made-up" and first.hot_by == "found" and first.hot == 550_000 * 4096
    assert first.faults is None and first.cpu == {}
    assert last.faults == 0 and last.cpu["scan"] == 0
    assert set(last.use) == set(last.tiers) == {"fast", "slow"} and last.map is None
    assert last.tiers["slow"]["used"] == sum(one.used or 0 for one in nodes.of_tier("slow"))
    assert len(history.to_line(last)) < 600


@pytest.mark.parametrize("spec", [STOCK, PLAIN])
def test_unknown_is_null_and_the_answer_says_why(
    tmp_path: Path, spec: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = build(tmp_path, spec)
    source = Stepping(tree)
    source.denied = ("/sys/kernel/debug",)
    monkeypatch.setattr("tierctl.cli.Live", lambda root: source)
    assert run(tmp_path, "--samples", "1") == 0
    (one,) = points(tmp_path / "var/lib/tierctl/record")
    assert one.hot is None and one.use == {} and one.cpu == {}
    assert ("? hot_on_slow: " in capsys.readouterr().out) == (spec is STOCK)  # PLAIN has no slow


def test_text_of_mglru_is_read_each_30_seconds(tmp_path: Path) -> None:
    found, files, source = recorder(build(tmp_path / "root", OURS), tmp_path / "r")
    found.run(7)
    files.__exit__()
    assert source.reads["/sys/kernel/debug/lru_gen"] == 3


def test_sample_that_cannot_be_written_is_counted_and_recording_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, files, source = recorder(build(tmp_path / "root", OURS), tmp_path / "r")
    found.once()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "append", full)
        for _ in range(3):
            source.wait(10)
            found.once()
    source.wait(10)
    found.once()
    files.__exit__()
    assert (found.samples, found.lost) == (2, 3) and len(points(tmp_path / "r")) == 2
    err = capsys.readouterr().err
    assert "samples lost: 2, No space left on device" in err and err.count("\n") == 2


def test_samples_that_cost_too_much_come_less_often(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, files, _ = recorder(build(tmp_path / "root", OURS), tmp_path / "r")
    spent = iter(range(1000))
    found.cpu = lambda: next(spent) * 0.15
    found.run(3)
    files.__exit__()
    assert found.pace.interval == 20 and "1 % of a CPU" in capsys.readouterr().err
    times = [one.time for one in points(tmp_path / "r")]
    assert [b - a for a, b in itertools.pairwise(times)] == [10, 20]


def test_clock_that_is_set_changes_no_interval(tmp_path: Path) -> None:
    found, files, source = recorder(build(tmp_path / "root", OURS), tmp_path / "r")
    clock = source.clock
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "time", lambda: clock() - (7200 if found.samples else 0))
        found.run(3)
    files.__exit__()
    times = [one.time - 1_796_000_000 for one in points(tmp_path / "r")]
    assert sorted(times) == [10 - 7200, 20 - 7200, 0]
    assert all(one.faults == 0 for one in points(tmp_path / "r") if one.time < 1_796_000_000)


def test_kill_at_any_time_leaves_a_record_that_can_be_read(tmp_path: Path) -> None:
    build(tmp_path / "root", OURS)
    words = [sys.executable, "-m", "tierctl", "--root", str(tmp_path / "root"), "record"]
    words += ["--every", "1", "--directory", str(tmp_path / "r")]
    with subprocess.Popen(words, cwd=PROJECT, stderr=subprocess.DEVNULL) as process:
        for _ in range(3000):
            if (tmp_path / "r").is_dir() and content(tmp_path / "r"):
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert len(history.load(tmp_path / "r").points) >= 1
    assert cli.main([*words[3:], "--samples", "1"]) == 0
    assert len(history.load(tmp_path / "r").points) >= 2


# --- a process by address --------------------------------------------------------


def mapped(tmp_path: Path) -> Tree:
    """A machine whose process 4711 has 4 page tables, half of them on the slow node."""
    nodes = (replace(FAST, gib=1), replace(SLOW, gib=1))
    tree = build(tmp_path, replace(OURS, nodes=nodes))
    tree.put("proc/4711/status", "Name:\tprogram\nVmRSS:\t4 kB")
    tree.put("proc/4711/comm", "program")
    tree.put("proc/4711/stat", "4711 (a) b) " + " ".join(str(i) for i in range(3, 53)))
    tree.put("proc/4711/maps", "00000000-00800000 rw-p 00000000 00:00 0 ")
    present = 1 << 63
    data = b""
    for table in range(4):
        frame = 1000 if table % 2 == 0 else (1 << 18) + 1000
        data += b"".join((present | (frame + i)).to_bytes(8, "little") for i in range(512))
    (tree.root / "proc/4711/pagemap").write_bytes(data)
    return tree


def test_map_ends_with_its_process_and_the_record_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = mapped(tmp_path / "root")
    found, files, source = recorder(tree, tmp_path / "r", 4711)
    found.once()
    (tree.root / "proc/4711/stat").unlink()
    for _ in range(2):
        source.wait(10)
        found.once()
    files.__exit__()
    maps = [one.map for one in points(tmp_path / "r")]
    assert maps[0] is not None and maps[1:] == [None, None]
    assert (maps[0].pid, maps[0].name) == (4711, "program")
    assert maps[0].cells == [0.0, 1.0, 0.0, 1.0] and maps[0].bytes == 8 << 20
    assert maps[0].begins == [i << 21 for i in range(4)]
    assert capsys.readouterr().err.count("has ended") == 1


def interrupt(*_: object) -> None:
    """Ctrl-C."""
    raise KeyboardInterrupt


# --- command ---------------------------------------------------------------------


def run(root: Path, *words: str) -> int:
    """The command, on a tree."""
    return cli.main(["--root", str(root), "record", *words])


def test_command_says_how_to_look_at_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, OURS)
    assert run(tmp_path, "--samples", "1") == 0
    out = capsys.readouterr().out
    assert ": 1 sample\n" in out and "with: tierctl report\n" in out
    assert len(names(tmp_path / "var/lib/tierctl/record")) == 1
    place = str(tmp_path / "my records")
    assert run(tmp_path, "--samples", "1", "--directory", place) == 0
    assert f"with: tierctl --from '{place}' report\n" in capsys.readouterr().out
    assert cli.main(["--from", place, "report", "-o", str(tmp_path / "x.html")]) == 0


def test_settings_of_the_machine_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = build(tmp_path, OURS)
    tree.put("etc/tierctl/tierctl.toml", "record = { every_s = 30 }")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Live, "wait", interrupt)
        assert run(tmp_path) == 0
    assert "a sample each 30 s" in capsys.readouterr().err
    tree.put("etc/tierctl/tierctl.toml", "record = { keep_days = -1 }")
    assert run(tmp_path, "--samples", "1") == USAGE
    assert "keep_days is -1; give a whole number" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("--every", "0"),
        ("--samples", "0"),
        ("--samples", "x"),
        ("--map", "99999"),
        ("--map", "0"),
        ("--json",),
    ],
)
def test_bad_words_are_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    build(tmp_path, OURS)
    assert run(tmp_path, "--directory", str(tmp_path / "r"), *words) == USAGE
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "r").exists()


def test_ctrl_c_ends_with_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, OURS)

    monkeypatch.setattr(Live, "wait", interrupt)
    assert run(tmp_path) == 0
    captured = capsys.readouterr()
    assert "1 sample\n" in captured.out and "Ctrl-C ends" in captured.err
