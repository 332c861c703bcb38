# SPDX-License-Identifier: GPL-2.0
"""make run: its job, what it shows while it works, and what it tells at the end."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_seen import copied
from tierctl_terminal import Screen
from tierctl_trees import OURS, Tree, build, vmstat

from lab import build as kernels
from lab import cache, cli, drawn, firstrun, looks, programs, scenario, seen, tier, together
from lab.errors import LabError
from lab.together import Figures

FOUND: Figures = {
    **dict.fromkeys((row.key for row in firstrun.ROWS), 7.0),
    **dict.fromkeys(("hit_ratio", "hit_ratio_end", "on_fast"), 0.625),
}
NONE: Figures = {**FOUND, "promoted": 0.0}
NAMES = [one.name for one in firstrun.CONTENDERS]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _copies(root: Path) -> list[seen.Copy]:
    tree = build(root, OURS)
    found = []
    for number, label in enumerate(("before", "run", "run", "after")):
        tree.put("proc/vmstat", vmstat(OURS, 2 * number))
        _fast(tree, number)
        found.append(copied(tree, label, 2.0 * number))
    return found


def _fast(tree: Tree, number: int) -> None:
    """The first service has so many GiB on fast memory, and 3 in all."""
    gib = 1 << 30
    text = f"anon N0={number * gib} N1=0 N2={(3 - number) * gib}\npgpromote_success N0=1 N1=0 N2=0"
    tree.put("sys/fs/cgroup/system.slice/service0000.service/memory.numa_stat", text)


# --- the job ------------------------------------------------------------------------


def test_first_run_differs_from_together_in_its_size_only() -> None:
    assert NAMES == ["none", "numab2", "tiershift"] == list(firstrun.TITLES)
    for contender in firstrun.CONTENDERS:
        ours, whole = firstrun.make(contender), together.make(contender)
        assert ours.load and whole.load
        for mine, theirs in ((ours.load, whole.load), (ours.workload, whole.workload)):
            text = " ".join(mine.args).replace(f"--keys {firstrun.KEYS}", "--keys 262144")
            assert text == " ".join(theirs.args)
        assert ours.service == whole.service and ours.measure == whole.measure
        memory = ours.topology.load()
        assert sum(node.size_mb for node in memory.nodes) == 640


def test_tiershift_has_the_parts_that_one_write_switches_on(tmp_path: Path) -> None:
    contender = firstrun.CONTENDERS[-1]
    external = {program: Path("/bin/true") for program in ("service", "workload")}
    built = programs.build_programs(cache.root() / "programs")
    job = scenario.make_job(firstrun.make(contender), contender, tmp_path, built, external)
    written = dict([*job["settings"], *job["enter"]])
    for part, wished in tier.PARTS.items():
        assert written[tier.enabled(part)] == f"{int(wished)}", part


def test_client_asks_for_the_keys_of_the_workload_for_the_time_between_copies() -> None:
    spec = firstrun.make(firstrun.CONTENDERS[0])
    words = firstrun.client(spec)
    assert words[:3] == ["taskset", "-c", "1"] and Path(words[3]).name == "respload"
    text = " ".join(spec.workload.args).replace(f"--ops {firstrun.OPS}", "--ops 0")
    assert " ".join(words[4:]) == f"{text} --seconds 2"


def test_service_joins_a_group_for_each_program(tmp_path: Path) -> None:
    script = tmp_path / "service"
    script.write_text(firstrun.service().replace("@VM@", "true"))
    subprocess.run(["shellcheck", script], check=True)
    lines = script.read_text().splitlines()
    joined = [line for line in lines if line.startswith("join ")]
    assert joined == ["join machine.slice/vm.scope", "join system.slice/redis.service"]
    assert lines.index(joined[1]) + 1 == lines.index('exec redis-server "$@"')
    assert lines.count("#!/bin/sh") == 1


def test_agent_has_all_modules_of_the_lab_that_it_imports() -> None:
    for name in scenario.AGENT:
        text = (cache.PROJECT / "lab" / name).read_text()
        used = re.findall(r"^from lab(?:\.(\w+))? import (\w+)", text, re.MULTILINE)
        assert {f"{module or thing}.py" for module, thing in used} <= {*scenario.AGENT}, name


# --- what is told at the end ----------------------------------------------------------


def test_table_has_eight_rows_and_tells_what_the_emulator_counts() -> None:
    rows = firstrun.table({"none": NONE, "tiershift": {**FOUND, "interrupts": None}})
    assert rows[0] == ["emulated", "no tiering", "tiershift"] and len(rows) == 1 + 8
    cells = {row[0].strip(): row[1:] for row in rows[1:]}
    assert cells["pages promoted"] == ["0", "7"]
    assert cells["at the end (*)"] == ["62.5%", "62.5%"]
    assert cells["TLB interrupts per 1,000 GETs, same CPU"] == ["7.00", "-"]
    marked = [row.key for row in firstrun.ROWS if row.title.endswith("(*)")]
    assert marked == ["hit_ratio", "hit_ratio_end", "stretch"] and "(*)" in firstrun.NOTE


def test_rival_that_promotes_nothing_is_a_failed_check() -> None:
    assert firstrun.check({"none": NONE, "numab2": FOUND}) == []
    assert firstrun.check({"none": NONE, "numab2": NONE}) == ["numab2 promoted nothing"]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Figures]:
    """Runs that find what the test says, with copies of a made-up machine."""
    found = {"none": NONE, "numab2": FOUND, "tiershift": FOUND}
    copies = _copies(tmp_path / "tree")
    lines = "".join(f"{json.dumps(one)}\n" for one in copies)

    def run_one(contender: Any, _kernel: object, out: Path, _live: object) -> Figures:
        out.mkdir(parents=True, exist_ok=True)
        (out / looks.FILE).write_text(lines)
        return found[contender.name]

    monkeypatch.setattr(firstrun, "run_one", run_one)
    monkeypatch.setattr(cache, "root", lambda: tmp_path)
    monkeypatch.setattr(cache, "sub", lambda name: tmp_path / name)
    monkeypatch.setattr(kernels, "missing", lambda _: {})
    monkeypatch.setattr(kernels, "kernel", lambda flavour, log: flavour)
    return found


def test_run_ends_with_table_triangles_and_three_next_steps(
    fake: dict[str, Figures], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert firstrun.run([]) == 0
    told, progress = capsys.readouterr()
    rows = told.partition("-----\n")[2].partition("\n(*)")[0].splitlines()
    assert len(rows) == 8
    for title in firstrun.TITLES.values():
        for label in ("before", "after"):
            assert f"\n{title}, {label}\nLAST USED " in told
    steps = told.splitlines()[-4:-1]
    assert [step.split()[0] for step in steps] == ["open", "make", "on"]
    page = tmp_path / "runs/first/report.html"
    assert str(page) in steps[0] and "Hot on slow" in page.read_text()
    assert "0 kernels to build and 3 runs" in progress and "[3/3] tiershift" in progress
    assert "\x1b" not in progress  # no terminal: plain lines
    wide = [line for line in told.splitlines()[:-4] if len(line) > 80]
    assert wide == []


def test_run_whose_rival_promotes_nothing_is_an_error_after_its_table(
    fake: dict[str, Figures], capsys: pytest.CaptureFixture[str]
) -> None:
    fake["numab2"] = NONE
    with pytest.raises(LabError, match="checks failed") as caught:
        firstrun.run([])
    assert caught.value.todo == "numab2 promoted nothing"
    assert "pages promoted" in capsys.readouterr().out


def test_run_of_one_contender_leaves_the_others_out(
    fake: dict[str, Figures], capsys: pytest.CaptureFixture[str]
) -> None:
    assert firstrun.run(["none"]) == 0
    told = capsys.readouterr().out
    assert "no tiering, after" in told and "NUMA" not in told and "open" not in told


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--contender", "damon"], "there is no contender 'damon'"),
        (["--full"], "are for a scenario"),
        (["--external", "a=b"], "are for a scenario"),
    ],
)
def test_bad_words_are_one_error(
    fake: dict[str, Figures], capsys: pytest.CaptureFixture[str], words: list[str], error: str
) -> None:
    assert cli.main(["run", *words]) == 1
    assert error in capsys.readouterr().err


# --- on a terminal ------------------------------------------------------------------


def test_groups_are_drawn_before_start_and_now(tmp_path: Path) -> None:
    copies = _copies(tmp_path)
    first, now = seen.latest(copies[:2]), seen.latest(copies)
    lines = [line for line in drawn.groups(first, now) if "service0000" in line]
    after = drawn.groups(first, now)[drawn.groups(first, now).index(lines[0]) + 1]
    assert re.search(r"service0000.service +0 s +3.0G +33% +#######\.{13} ", lines[0])
    assert re.search(r"^ +now +3.0G +100% +#{20} ", after)


def test_drawing_follows_the_copies_and_goes_up_by_its_own_lines(tmp_path: Path) -> None:
    copies = _copies(tmp_path / "tree")
    file = tmp_path / looks.FILE
    stream = Terminal()
    live = drawn.Drawing(stream, "[1/3] tiershift", 60, [0], file)
    live._show()
    assert stream.getvalue().startswith("\r\x1b[J[1/3] tiershift, live (emulated)")
    file.write_text("".join(f"{json.dumps(one)}\n" for one in copies))
    live.phase, live._share = "run", 0.9  # of what came before START
    live._show()
    live._ops, live._share = "9 ops in 1 s", 0.25
    live._show()
    live._share = 0.75
    text = live.lines("run")
    assert "fast memory serves 75.0% of Redis's accesses, 25.0% at first" in text
    assert any(line.startswith("FLOW   up 212.0M/s") for line in text)
    before = stream.getvalue()
    live._show(final=True)
    assert stream.getvalue().removeprefix(before).startswith(f"\r\x1b[{len(text) - 1}A\x1b[J")


def _counted(region: int, fast: int, slow: int) -> str:
    counts = {"node0": fast, "node1": slow, "other": 0}
    line = {"t_ms": 1, "event": "period", "region": region, "phase": 0, "valid": True, "why": ""}
    return json.dumps({**line, "vcpu": [counts]}) + "\n"


def test_share_of_accesses_begins_anew_with_each_start(tmp_path: Path) -> None:
    live = scenario.Live(io.StringIO(), "[1/3] none", 60, [0])
    live.phase, live.fast, live.access = "run", [0], tmp_path / "access.jsonl"
    shares = []
    text = ""
    for counted in ((2, 900, 100), (3, 20, 80), (3, 90, 110)):
        text += _counted(*counted)
        live.access.write_text(text)
        live._read_access()
        shares.append(live._share)
    assert shares == [0.9, 0.2, 0.7]


def test_drawing_of_copies_that_tell_nothing_has_question_marks(tmp_path: Path) -> None:
    file = tmp_path / looks.FILE
    empty = {"time": 1.0, "label": "before", "files": {}}
    file.write_text(f"{json.dumps(empty)}\n{json.dumps({**empty, 'time': 2.0})}\n")
    text = drawn.Drawing(Terminal(), "[1/3] none", 60, [0], file).lines("run")
    assert "COST   scan ?   promote ?   kswapd ?   damon ? CPU   hint faults ?/s" in text


def test_drawing_without_a_terminal_is_a_plain_line(tmp_path: Path) -> None:
    stream = io.StringIO()
    live = drawn.Drawing(stream, "[1/3] tiershift", 60, [0], tmp_path / looks.FILE)
    live._show(final=True)
    assert stream.getvalue().startswith("[1/3] tiershift    0 s of about 60 s")
    assert "\x1b" not in stream.getvalue() and stream.getvalue().count("\n") == 1


def test_recording_is_not_played_without_a_terminal() -> None:
    stream = io.StringIO()
    with drawn.Recorded(stream, ("false",)) as log:
        log.play()
        print("progress", file=sys.stderr)
        assert stream.getvalue() == "progress\n"


BUILD = """
import os, sys, time
from lab import drawn
with drawn.Recorded(sys.stderr) as log:
    log.play()
    while not os.path.exists(sys.argv[1]):
        log.write("\\\\rbuilding")
        time.sleep(0.1)
print("built")
"""


@pytest.fixture
def building(tmp_path: Path) -> Iterator[Screen]:
    """Something that is built until a file is there, with the recording on the screen."""
    file = tmp_path / "build.py"
    file.write_text(BUILD.replace("\\\\", "\\"))
    argv = [sys.executable, str(file), str(tmp_path / "built")]
    command = shlex.join(["env", f"PYTHONPATH={cache.PROJECT}", *argv])
    screen = Screen(tmp_path / "tmux", command, 80, 24)
    yield screen
    screen.tmux("kill-server")


def test_recording_plays_while_something_is_built_and_then_goes(
    building: Screen, tmp_path: Path
) -> None:
    building.shows("RECORDED")
    text = building.shows("building")  # in the last line
    assert "RECORDED" in text and "building" in text.rstrip("\n").splitlines()[-1]
    (tmp_path / "built").touch()
    text = building.ends(0)
    assert "built" in text and "RECORDED" not in text


def test_progress_is_told_when_the_user_quits_the_recording(building: Screen) -> None:
    building.shows("RECORDED")
    building.keys("q")
    began = time.monotonic()
    building.shows("building")
    assert time.monotonic() - began < 10


def test_run_plays_when_something_is_built_or_may_be(
    fake: dict[str, Figures], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    builds: dict[str, float] = {}

    def missing(_: object) -> dict[str, float]:
        said.append("missing")
        return builds

    monkeypatch.setattr(drawn.Recorded, "play", lambda _self: said.append("play"))
    monkeypatch.setattr(kernels, "missing", missing)
    firstrun.run([])
    (tmp_path / "kernels/base-1").mkdir(parents=True)
    (tmp_path / "kernels/base-1/kernel.json").touch()
    firstrun.run([])
    builds["base"] = 1.0
    firstrun.run([])
    assert said == ["play", "missing", "missing", "missing", "play"]
