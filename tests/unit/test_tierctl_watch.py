# SPDX-License-Identifier: GPL-2.0
"""What keys and time do in tierctl watch, without a terminal; samples; bundles; texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_process import machine
from tierctl_trees import FAST, OURS, SLOW, STOCK, Spec, Stepping, build, numa_stat, vmstat

from tierctl import cli
from tierctl.commands import capture, explain, heat
from tierctl.core import bundle as archive
from tierctl.core import paths, text
from tierctl.core.bundle import Bundle
from tierctl.core.errors import USAGE
from tierctl.core.source import Source
from tierctl.read import groups
from tierctl.watch import screen, terminal, viewer
from tierctl.watch.viewer import Samples, Viewer

GROUP = "/system.slice/service0000.service"
OFF = replace(OURS, enabled=0)  # nothing promotes: explain has nothing to wait for
PLAIN = text.Style()
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
    got = Viewer(found)
    got.clock, got.cpu = time.clock, time.cpu
    got.tick()
    pass_(got, found, time, 1.0)
    return got, time


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A bundle whose five samples are 2 s apart."""
    base = tmp_path_factory.mktemp("bundle")
    recorder = capture.record(moving(base / "tree"), 5, 2.0)
    archive.save(base / "b.json.gz", recorder.samples, "made-up", "6.12")
    return str(base / "b.json.gz")


def played(file: str, interval: float = 2.0) -> tuple[Viewer, Time]:
    """A recording that shows its first sample."""
    time = Time()
    got = Viewer(Bundle(file), interval=interval)
    got.clock, got.cpu = time.clock, time.cpu
    got.tick()
    return got, time


def printed(got: Viewer, key: str, style: text.Style = PLAIN) -> str:
    """What a key prints."""
    return "\n".join(got.printed(key, style))


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
    assert frame.top is None and "no cgroup v2" in frame.no_top
    assert frame.heat is None


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
    got.key("KEY_UP")
    assert got.state.selected is None
    got.key("KEY_DOWN")
    assert got.state.selected == GROUP  # the largest one
    for key in ("KEY_NPAGE", "nonsense"):
        got.key(key)
        assert got.state.selected == screen.choices(got.state.frame)[-1] != GROUP
    got.key("KEY_PPAGE")
    assert got.state.selected is None
    got.key("j")
    (tmp_path / f"sys/fs/cgroup{GROUP}/memory.numa_stat").unlink()
    found.step = lambda second: None
    pass_(got, found, time, 2.0)
    assert got.state.selected is None and "service0000.service has ended" in got.state.message


def test_heat_is_of_the_selected_group(tmp_path: Path) -> None:
    got, _ = live(moving(tmp_path))
    assert "977.8G" in printed(got, "h")
    got.key("KEY_DOWN")
    assert printed(got, "h").startswith("service0000.service, ")


def test_machine_whose_heat_is_not_known_prints_why(tmp_path: Path) -> None:
    got, _ = live(moving(tmp_path, replace(STOCK, lru_gen=None)))
    assert "the age of pages is not known" in printed(got, "h")


def test_bundle_plays_a_sample_each_interval_until_its_end(bundle: str) -> None:
    got, time = played(bundle, 0.5)
    assert (got.state.at, got.state.samples) == (1, 5) and got.wait_s() == 0.5
    for number in (2, 3, 4, 5):
        time.now += 0.5
        got.tick()
        assert got.state.at == number and got.state.frame
        assert got.state.frame.status.data.flow.interval_s == 2.0
    assert got.wait_s() == 60 and got.state.clock == "2026-11-30 00:53:28 UTC"
    frame = got.state.frame
    time.now += 60
    got.tick()
    assert got.state.frame is frame and got.state.at == 5


def test_bundle_stands_still_in_a_pause(bundle: str) -> None:
    got, time = played(bundle)
    got.key(" ")
    time.now += 60
    got.tick()
    assert got.state.at == 1 and got.state.paused
    got.key(" ")
    got.tick()
    assert got.state.at == 2


def test_bundle_is_explained_at_its_sample(tmp_path: Path) -> None:
    found = machine(tmp_path / "root", OFF)
    archive.save(tmp_path / "b", capture.record(found, 2, 2.0).samples, "h", "k")
    got, time = played(str(tmp_path / "b"))
    for number in (1, 2):
        assert got.state.at == number and "node 2 (slow)" in printed(got, "e")
        time.now += 2
        got.tick()
    got.state.selected = "/gone.slice/x"
    assert "there is no group" in printed(got, "e")


def test_explanation_goes_to_the_next_sample_and_the_screen_does_not(
    bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    got, time = played(bundle)
    first = got.source.time()
    seen: list[float] = []

    def answer(source: Source, _: list[str]) -> None:
        seen.append(source.time() - first)
        source.wait(1)

    monkeypatch.setattr(explain, "answer", answer)
    monkeypatch.setattr(explain, "draw", lambda *_: [])
    for number in range(5):
        assert printed(got, "e") == "" and got.source.time() - first == 2 * number
        time.now += 2
        got.tick()
    assert seen == [0, 2, 4, 6, 6]  # the last one has no sample behind it


def test_all_slow_nodes_or_the_selected_group_are_explained(tmp_path: Path) -> None:
    found = machine(tmp_path, replace(OFF, nodes=(FAST, SLOW, SLOW)))
    got, _ = live(Stepping(found.tree))
    text_ = printed(got, "e")
    assert "node 1 (slow)" in text_ and "node 2 (slow)" in text_
    got.key("KEY_DOWN")
    name = groups.title(got.state.selected or "")
    assert printed(got, "e").startswith(f"{name}: ") and "node 1 (" not in printed(got, "e")


def test_texts_before_the_first_sample_and_help_need_no_machine(tmp_path: Path) -> None:
    got = Viewer(moving(tmp_path))
    for key in ("e", "h"):
        assert printed(got, key) == "Nothing has been read yet."
    assert "ctrl-l" in printed(got, "?").lower()
    assert max(map(len, got.printed("?", PLAIN))) <= text.WIDTH


def test_text_of_a_file_that_vanishes_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got, _ = live(moving(tmp_path))
    monkeypatch.setattr(explain, "answer", lambda *_: (tmp_path / "gone").read_text())
    assert printed(got, "e").startswith(f"{viewer.VANISHED}: {tmp_path / 'gone'}: No such file")


def test_text_has_colours_and_no_other_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got, _ = live(moving(tmp_path))
    monkeypatch.setattr(
        heat, "draw", lambda _, style: [style.paint("head", "a") + "\x1b]0;title\x07"]
    )
    assert printed(got, "h", text.Style(True)) == "\x1b[1ma\x1b[0m?]0;title?"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--from", "/none", "watch"], "there is no bundle /none"),
        (["--json", "watch"], "watch has no JSON"),
        (["watch", "-d", "0"], "0 is not from 0.05 to 3600"),
        (["watch", "--speed", "2"], "unrecognized arguments: --speed"),
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
    assert capsys.readouterr().err == "tierctl: watch needs a terminal; use: tierctl status\n"


@pytest.mark.parametrize("words", [["top", "-w"], ["top", "-p", "--places", "9"]])
def test_option_that_is_gone_is_refused(capsys: Output, words: list[str]) -> None:
    assert cli.main(words) == USAGE
    assert capsys.readouterr().err.count("\n") == 1
