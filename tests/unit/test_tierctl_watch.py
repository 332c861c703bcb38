# SPDX-License-Identifier: GPL-2.0
"""What keys and time do in tierctl watch, without a terminal; samples; bundles; explain."""

from __future__ import annotations

import os
import signal
import sys
import time as clock
from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_process import machine
from tierctl_trees import OURS, STOCK, Spec, Stepping, build, numa_stat, vmstat

from tierctl import cli
from tierctl.commands import capture
from tierctl.core import bundle as archive
from tierctl.core import paths
from tierctl.core.bundle import Bundle
from tierctl.core.errors import USAGE
from tierctl.core.source import Source
from tierctl.watch import terminal, viewer
from tierctl.watch.samples import Samples
from tierctl.watch.screen import EXPLAIN, HEAT, HELP, MAIN
from tierctl.watch.viewer import Explaining, Viewer

GROUP = "/system.slice/service0000.service"
OFF = replace(OURS, enabled=0)  # nothing promotes: explain has nothing to wait for
Output = pytest.CaptureFixture[str]


class Time:
    """A clock and a CPU that tests set."""

    def __init__(self) -> None:
        self.now = self.used = 100.0
        self.cost = 0.0  # of each look at the CPU

    def clock(self) -> float:
        """The time."""
        return self.now

    def cpu(self) -> float:
        """The CPU time."""
        self.used += self.cost
        return self.used


def moving(tmp_path: Path, spec: Spec = OURS) -> Stepping:
    """A machine whose counters grow."""
    tree = build(tmp_path, spec)

    def step(second: int) -> None:
        tree.put("proc/vmstat", vmstat(spec, second))
        path = f"sys/fs/cgroup{GROUP}/memory.numa_stat"
        tree.put(path, numa_stat(spec, 9, second))

    return Stepping(tree, step)


def pass_(got: Viewer, found: Stepping, time: Time, seconds: float) -> None:
    """Let time pass."""
    found.wait(seconds)
    time.now += seconds
    got.tick()


def live(found: Stepping) -> tuple[Viewer, Time]:
    """A live screen after two samples."""
    time = Time()
    got = Viewer(found, clock=time.clock, cpu=time.cpu)
    got.tick()
    pass_(got, found, time, 1.0)
    return got, time


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A bundle whose five samples are 2 s apart."""
    base = tmp_path_factory.mktemp("bundle")
    recorder = capture.record(moving(base / "tree"), 5, 2.0, 0)
    archive.save(base / "b.tar.gz", recorder.samples, "made-up", "6.12")
    return str(base / "b.tar.gz")


def played(source: Source | str, speed: float = 1.0) -> tuple[Viewer, Time]:
    """A recording that shows its first sample."""
    time = Time()
    source = Bundle(source) if isinstance(source, str) else source
    got = Viewer(source, speed=speed, clock=time.clock, cpu=time.cpu)
    got.tick()
    return got, time


# --- samples ---------------------------------------------------------------------


def test_second_sample_agrees_with_status_and_top(tmp_path: Path) -> None:
    found = moving(tmp_path)
    taken = Samples(found)
    taken.take()
    found.wait(2)
    frame = taken.take()
    flow = frame.status.data.flow
    assert flow.interval_s == 2.0 and flow.up_bytes_per_s == 54_272 * 4096
    assert frame.top and frame.top.data.interval_s == 2.0
    (one,) = [one for one in frame.top.data.groups if one.path == GROUP]
    assert one.up_bytes_per_s == (120 - 30) / 2 * 4096
    assert frame.heat and frame.heat.data.waiting == 550_000 * 4096


def test_many_groups_and_mglru_are_read_each_10_s_and_the_screen_each_time(tmp_path: Path) -> None:
    found = moving(tmp_path, replace(OURS, groups=200))
    taken = Samples(found, rows=5)
    for _ in range(5):
        frame = taken.take()
        found.wait(2)
    stats = [count for path, count in found.reads.items() if path.endswith("memory.numa_stat")]
    assert sorted(stats)[-5:] == [5] * 5 and sum(stats) == 200 + 4 * 5
    assert frame.top and len(frame.top.data.groups) == 5 and frame.top.data.others == 195
    assert found.reads[paths.LRU_GEN] == 1
    found.wait(2)
    taken.take()
    stats = [count for path, count in found.reads.items() if path.endswith("memory.numa_stat")]
    assert sum(stats) == 420 and found.reads[paths.LRU_GEN] == 2


@pytest.mark.parametrize("groups", [5, 100])
def test_group_that_ends_is_left_out(tmp_path: Path, groups: int) -> None:
    found = moving(tmp_path, replace(OURS, groups=groups))
    found.step = lambda second: None
    taken = Samples(found, rows=3)
    frame = taken.take()
    assert frame.top
    gone = frame.top.data.groups[0].path
    (tmp_path / f"sys/fs/cgroup{gone}/memory.numa_stat").unlink()
    found.wait(2)
    frame = taken.take()
    assert frame.top and gone not in [one.path for one in frame.top.data.groups]


def test_machine_without_groups_and_without_mglru_says_so(tmp_path: Path) -> None:
    tree = build(tmp_path, replace(STOCK, lru_gen=None))
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").unlink()
    frame = Samples(Stepping(tree)).take()
    assert frame.top is None and "no cgroup v2" in frame.errors["top"]
    assert frame.heat is None and "age of pages is not known" in frame.errors["heat"]


# --- time and keys ---------------------------------------------------------------


def test_samples_come_at_the_interval_and_not_in_a_pause(tmp_path: Path) -> None:
    found = moving(tmp_path)
    got, time = live(found)
    assert got.wait_s() == 2.0 and found.reads[paths.VMSTAT] == 2
    pass_(got, found, time, 1.9)
    assert found.reads[paths.VMSTAT] == 2
    pass_(got, found, time, 0.2)
    assert found.reads[paths.VMSTAT] == 3
    got.key(" ")
    pass_(got, found, time, 50.0)
    assert got.state.paused and found.reads[paths.VMSTAT] == 3 and got.wait_s() == 60
    got.key(" ")
    got.tick()
    assert found.reads[paths.VMSTAT] == 4


def test_interval_doubles_after_two_samples_that_cost_too_much(tmp_path: Path) -> None:
    found = moving(tmp_path)
    got, time = live(found)
    time.cost = 0.06  # of 2 s; with the drawing, more than 5 %
    got.draw_s = 0.05
    pass_(got, found, time, 2.0)
    assert got.state.interval == 2.0 and not got.state.slowed
    pass_(got, found, time, 2.0)
    assert got.state.interval == 4.0 and got.state.slowed and got.wait_s() == 4.0
    for _ in range(3):
        pass_(got, found, time, 4.0)
    assert got.state.interval == 4.0
    got.key("-")
    assert got.state.interval == 2.0 and not got.state.slowed
    for _ in range(9):
        got.key("-")
    assert got.state.interval == viewer.SHORTEST
    for _ in range(30):
        got.key("+")
    assert got.state.interval == viewer.LONGEST


def test_file_that_vanishes_in_between_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = moving(tmp_path)
    got, time = live(found)
    frame = got.state.frame
    with monkeypatch.context() as patch:
        patch.setattr(got.samples, "take", (tmp_path / "gone").read_text)
        pass_(got, found, time, 2.0)
    assert got.state.frame is frame and got.state.message.startswith(viewer.VANISHED)
    pass_(got, found, time, 2.0)
    assert got.state.frame is not frame and got.state.message == ""


def test_keys_select_groups_that_have_not_ended(tmp_path: Path) -> None:
    found = moving(tmp_path)
    got, time = live(found)
    got.key("up")
    assert got.state.selected is None
    got.key("down")
    assert got.state.selected == GROUP  # the largest one
    (tmp_path / f"sys/fs/cgroup{GROUP}/memory.numa_stat").unlink()
    found.step = lambda second: None
    pass_(got, found, time, 2.0)
    assert got.state.selected is None and "service0000.service has ended" in got.state.message


def test_views_open_close_and_scroll(tmp_path: Path) -> None:
    got, _ = live(moving(tmp_path))
    got.size = (80, 10)
    for key, view in (("?", HELP), ("?", MAIN), ("h", HEAT), ("s", MAIN), ("?", HELP)):
        got.key(key)
        assert got.state.view == view and got.state.scroll == 0
    got.key("down")
    assert got.state.scroll == 1
    for _ in range(5):
        got.key("pgdn")
    last = got.state.scroll
    got.key("pgup")
    assert got.state.scroll == max(0, last - 7) and last > 5
    got.key("esc")
    assert got.state.view == MAIN
    got.key("nonsense")
    got.key("left")  # nothing to step
    got.key("q")
    assert got.ended


def test_heat_is_of_the_selected_group(tmp_path: Path) -> None:
    got, _ = live(moving(tmp_path))
    got.key("h")
    assert "977.8G" in "\n".join(got.state.lines)
    got.key("s")
    got.key("down")
    got.key("h")
    assert got.state.lines[0].startswith("service0000.service, ")


# --- bundles ---------------------------------------------------------------------


def test_bundle_plays_at_its_pace(bundle: str) -> None:
    got, time = played(bundle, speed=2.0)
    assert got.state.played == "0 s of 8  x2" and got.wait_s() == 1.0
    for second in (2, 4, 6, 8):
        time.now += 1.0
        got.tick()
        assert got.state.played.startswith(f"{second} s of 8")
        assert got.state.frame and got.state.frame.status.data.flow.interval_s == 2.0
    assert got.state.played == "8 s of 8  x2  END" and got.wait_s() == 60
    assert got.state.clock == "2026-11-30 00:53:28 UTC"


def test_steps_stay_within_the_bundle_and_show_the_same_from_both_sides(bundle: str) -> None:
    got, _ = played(bundle)
    seen = {}
    for _ in range(6):
        got.key("right")
        frame = got.state.frame
        assert frame and frame.top
        seen[got.at] = frame.status.data, frame.top.data
    assert got.at == 4 and got.state.played == "8 s of 8  END" and got.state.paused
    for _ in range(3):
        got.key("left")
        frame = got.state.frame
        assert frame and frame.top and (frame.status.data, frame.top.data) == seen[got.at]
    got.key("+")
    assert got.speed == 2.0 and got.state.played == "2 s of 8  x2"
    for _ in range(20):
        got.key("-")
    assert got.speed == viewer.SPEEDS[0]


def test_bundle_is_explained_at_its_sample(tmp_path: Path, bundle: str) -> None:
    found = machine(tmp_path / "root", OFF)
    archive.save(tmp_path / "b", capture.record(found, 2, 2.0, 0).samples, "h", "k")
    got, _ = played(str(tmp_path / "b"))
    got.key("e")
    assert got.state.view == EXPLAIN and "node 2 (slow)" in got.state.lines[0]
    assert got.child is None and got.at == 0
    got.state.selected = "/gone.slice/x"
    got.key("e")
    assert got.state.alarm and "there is no group" in got.state.message


# --- explain, in a process of its own --------------------------------------------


def ended(one: Explaining) -> Explaining:
    """Wait for its end."""
    end = clock.monotonic() + 20
    while not one.poll():
        assert clock.monotonic() < end
        clock.sleep(0.02)
    return one


def test_explanation_has_all_targets_or_its_error(tmp_path: Path) -> None:
    machine(tmp_path, OFF)
    one = ended(Explaining(str(tmp_path), [["node", "1"], [GROUP]]))
    assert one.error == "" and "node 1" in one.lines[0] and "" in one.lines
    assert "service0000.service" in "\n".join(one.lines)
    assert ended(Explaining(str(tmp_path), [["/gone.slice/x"]])).error.startswith(
        "there is no group"
    )


@pytest.mark.parametrize("how", ["cancel", "close", "kill"])
def test_explanation_that_is_cancelled_closed_or_killed_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    one = Explaining(str(tmp_path), [["node", "1"]])
    assert not one.poll()
    pid = one._child.pid
    if how == "kill":
        os.kill(pid, signal.SIGKILL)
        assert ended(one).error == "it ended by signal 9; try again"
    elif how == "cancel":
        one.cancel()
        assert ended(one).cancelled and one.lines == []
    else:
        one.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_screen_lives_on_while_it_explains(tmp_path: Path) -> None:
    found = Stepping(build(tmp_path, OFF))
    got, time = live(found)
    got.key("e")
    assert got.child and got.wait_s() <= viewer.POLL_S
    first = got.child
    got.key("e")  # one at a time
    assert got.child is first
    pass_(got, found, time, 2.0)
    assert "Esc cancels" in got.state.message
    ended(first)
    first.poll = lambda: True  # type: ignore[method-assign]
    got.tick()
    assert got.state.view == EXPLAIN and got.state.message == "" and got.child is None


# --- the command line ------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--from", "/none", "watch"], "there is no bundle /none"),
        (["watch", "--speed", "2"], "--speed belongs to --from"),
        (["--from", "BUNDLE", "watch", "-d", "3"], "-d belongs to a live machine"),
        (["--json", "watch"], "watch has no JSON"),
        (["watch", "-d", "0"], "0 is not from 0.05 to 3600"),
        (["--from", "BUNDLE", "watch", "--speed", "nan"], "nan is not from 0.01 to 1000"),
        (["--from", "JUNK", "watch"], "JUNK is no bundle"),
        (["watch", "nosuch"], "there is no group nosuch"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    bundle: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
    words: list[str],
    what: str,
) -> None:
    monkeypatch.setattr(terminal, "check", lambda: None)
    (tmp_path / "JUNK").write_bytes(b"junk" * 99)
    places = {"BUNDLE": bundle, "JUNK": str(tmp_path / "JUNK")}
    argv = ["--root", str(Path(bundle).parent / "tree"), *(places.get(one, one) for one in words)]
    assert cli.main(argv) == USAGE
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and what in err


def test_no_terminal_is_one_line(tmp_path: Path, capsys: Output) -> None:
    assert cli.main(["--root", str(tmp_path), "watch"]) == USAGE
    assert capsys.readouterr().err == "tierctl: watch needs a terminal; use: tierctl status -w\n"


@pytest.mark.parametrize("words", [["top", "-w"], ["top", "-p", "--places", "9"]])
def test_option_that_is_gone_is_refused(capsys: Output, words: list[str]) -> None:
    assert cli.main(words) == USAGE
    assert capsys.readouterr().err.count("\n") == 1
