# SPDX-License-Identifier: GPL-2.0
"""Screens of tierctl watch for made-up machines, compared with tests/golden/tierctl/watch-*.txt,
and what holds for each one.  test_tierctl_golden.py has those of captured machines.

TIERCTL_GOLDEN=write pytest tests/unit/test_tierctl_screen.py writes the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_trees import (
    FAST,
    OLD,
    OURS,
    SLOW,
    STOCK,
    Spec,
    Stepping,
    build,
    numa_stat,
    vmstat,
)
from tierctl_trees import PLAIN as BARE

from tierctl.checks.check import ERROR, INFO, WARNING
from tierctl.model.status import Finding
from tierctl.read import groups
from tierctl.watch import screen
from tierctl.watch.screen import ALARM, PLAIN, WARN, Frame, Line, State
from tierctl.watch.viewer import Samples

GOLDEN = Path(__file__).resolve().parents[1] / "golden/tierctl"
MANY = replace(OURS, nodes=(FAST,) * 8 + (SLOW,) * 8, groups=20)
Frames = Callable[[Spec], Frame]
BLIND = replace(OURS, lru_gen=None)
SPECS = {"plain": BARE, "old": OLD, "many-nodes": MANY, "no-mglru": BLIND}


def moving(tmp_path: Path, spec: Spec) -> Stepping:
    """A machine whose counters grow."""
    tree = build(tmp_path, spec)

    def step(second: int) -> None:
        tree.put("proc/vmstat", vmstat(spec, second))
        for group in range(0, spec.groups, 5):
            path = f"sys/fs/cgroup/system.slice/service{group:04}.service/memory.numa_stat"
            tree.put(path, numa_stat(spec, group + 2, second))

    return Stepping(tree, step)


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Spec], Frame]:
    """The frame of the second sample of a machine, made once."""
    known: dict[str, Frame] = {}

    def frame(spec: Spec) -> Frame:
        key = repr(spec)
        if key not in known:
            found = moving(tmp_path_factory.mktemp("machine"), spec)
            samples = Samples(found)
            samples.take()
            found.wait(2)
            known[key] = samples.take()
        return known[key]

    return frame


def state(of: Frame | None, **more: object) -> State:
    """A live state."""
    found = State(frame=of, clock="14:03:05")
    for name, value in more.items():
        setattr(found, name, value)
    return found


def text_of(lines: list[Line]) -> str:
    """The characters of a screen."""
    return "\n".join(words for words, _ in lines)


def drawn(found: State, width: int = 80, height: int = 24) -> str:
    """A screen as text, each line with its attribute."""
    # Spaces at the end of a line would go unseen in a file.
    return "".join(f"|{words}|{kind}\n" for words, kind in screen.draw(found, width, height))


def compare(name: str, found: str) -> None:
    """The file is the screen."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TIERCTL_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found, "utf-8")
    assert path.read_text("utf-8") == found, f"{path} differs; see TIERCTL_GOLDEN above"


@pytest.mark.parametrize("name", SPECS)
def test_screen_of_a_machine_is_the_golden_one(frames: Frames, name: str) -> None:
    compare(f"watch-{name}", drawn(state(frames(SPECS[name]))))


@pytest.mark.parametrize(
    ("name", "width", "height", "more"),
    [
        ("watch-40x10", 40, 10, {}),
        ("watch-132x50", 132, 50, {}),
        ("watch-selected", 80, 24, {"selected": "/system.slice/service0000.service"}),
        ("watch-slowed", 80, 24, {"interval": 8.0, "slowed": True, "paused": True}),
    ],
)
def test_screen_of_a_size_and_a_state_is_the_golden_one(
    frames: Frames, name: str, width: int, height: int, more: dict[str, object]
) -> None:
    compare(name, drawn(state(frames(OURS), **more), width, height))


def test_screen_of_a_recording_is_the_golden_one(frames: Frames) -> None:
    found = state(frames(OURS), samples=26, at=26)
    compare("watch-record", drawn(found))


def test_golden_files_are_those_of_the_tests() -> None:
    names = {f"watch-{name}" for name in SPECS} | {"watch-record"}
    names |= {"watch-40x10", "watch-132x50"}
    names |= {f"watch-{one}" for one in ("selected", "slowed")}
    assert {path.stem for path in GOLDEN.glob("watch-*")} == names


def test_lines_fill_the_screen_at_any_size(frames: Frames) -> None:
    of = frames(OURS)
    for width in (1, 2, 3, 7, 20, 39, 40, 79, 80, 81, 300):
        for height in (1, 2, 3, 4, 5, 8, 10, 24, 70, 100):
            got = screen.draw(state(of, message="m" * (width % 5)), width, height)
            assert len(got) == height
            assert {len(words) for words, _ in got} == {width}


def test_screen_without_a_frame_says_that_it_reads() -> None:
    assert "Reads the machine" in text_of(screen.draw(state(None), 80, 24))


def test_small_screen_keeps_figures_and_the_selected_group(frames: Frames) -> None:
    of = frames(replace(OURS, groups=20))
    for path in screen.choices(of):
        got = text_of(screen.draw(state(of, selected=path), 40, 10))
        assert "WORTH" in got and groups.title(path)[:18] in got


def test_heat_goes_before_groups_do(frames: Frames) -> None:
    of = frames(OURS)
    seen = {}
    for height in range(10, 40):
        got = text_of(screen.draw(state(of), 80, height))
        seen[height] = ("LAST USED" in got, got.count(".service") + got.count("machine vm"))
        assert seen[height][1] >= min(2, height - 9)
    assert not seen[12][0] and seen[24][0] and seen[39] == (True, 5)


@pytest.mark.parametrize("severity", [ERROR, WARNING, INFO])
def test_worst_finding_is_shown_in_its_attribute_with_what_to_do(
    frames: Frames, severity: str
) -> None:
    of = frames(STOCK)
    found = [Finding("planted", severity, "It is wrong.", "Mend it."), *of.status.data.findings]
    data = replace(of.status.data, findings=found)
    lines = screen.draw(state(replace(of, status=replace(of.status, data=data))), 80, 30)
    kinds = {kind for words, kind in lines if "It is wrong." in words or "Mend it." in words}
    assert kinds == {ERROR: {ALARM}, WARNING: {WARN}, INFO: set()}[severity]


def test_tiering_that_is_off_is_a_warning(frames: Frames) -> None:
    for spec, kind in ((OURS, PLAIN), (replace(OURS, enabled=0), WARN)):
        words, found = screen.draw(state(frames(spec)), 80, 24)[1]
        assert words.startswith("Tiering") and found == kind


def test_names_have_one_cell_for_each_character() -> None:
    assert screen.plain("na\u00efve \u4e2d e\u0301 \x1b[2J\t") == "na?ve ? e? ?[2J?"


def test_name_of_a_group_cannot_send_sequences_to_the_terminal(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    bad = "a\x1b]0;title\x07\x9b2J.service"
    tree.put(f"sys/fs/cgroup/system.slice/{bad}/memory.numa_stat", f"anon N0={1 << 40}")
    got = text_of(screen.draw(state(Samples(Stepping(tree)).take()), 80, 24))
    assert "a?]0;title??2J" in got and all(char.isprintable() or char == "\n" for char in got)


def test_recorded_and_messages_stand_in_their_lines(frames: Frames) -> None:
    for width in (8, 40, 80):
        found = state(frames(OURS), samples=2, at=1, message="Cannot do it")
        lines = screen.draw(found, width, 24)
        assert text_of(lines).startswith("RECORDED"[: width - 1])
        assert text_of([lines[-1]]).startswith("Cannot"[: width - 1])
        assert lines[-1][1] == WARN


def test_first_live_sample_does_not_call_the_machine_a_bundle(tmp_path: Path) -> None:
    of = Samples(Stepping(build(tmp_path, OURS))).take()
    got = text_of(screen.draw(state(of), 80, 40))
    assert "bundle" not in got and "known with the next sample" in got
    assert of.status.data.flow is None
