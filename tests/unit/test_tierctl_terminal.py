# SPDX-License-Identifier: GPL-2.0
"""tierctl watch in a terminal of tmux: start, keys, sizes, and each way to end."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_terminal import LIMIT_S, PROJECT, Screen
from tierctl_trees import OURS, Stepping, build, vmstat

from tierctl.commands import capture
from tierctl.core import bundle as archive
from tierctl.core.errors import USAGE

Start = Callable[..., Screen]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `tierctl` in a terminal."""
    found: list[Screen] = []

    def run(
        *words: str, columns: int = 80, rows: int = 24, code: str = "", env: str = ""
    ) -> Screen:
        python = [sys.executable, *(("-c", code) if code else ("-m", "tierctl")), *words]
        command = f"env {env} {shlex.join(python)}"
        found.append(Screen(tmp_path / f"tmux{len(found)}", command, columns, 24))
        return found[-1]

    yield run
    for one in found:
        one.tmux("kill-server")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A made-up machine on which nothing promotes: explain has nothing to wait for."""
    return str(build(tmp_path_factory.mktemp("machine"), replace(OURS, enabled=0)).root)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A bundle of five samples, 2 s apart."""
    base = tmp_path_factory.mktemp("bundle")
    tree = build(base / "tree", OURS)
    found = Stepping(tree, lambda second: tree.put("proc/vmstat", vmstat(OURS, second)))
    archive.save(base / "b.json.gz", capture.record(found, 5, 2.0).samples, "made-up", "6.12")
    return str(base / "b.json.gz")


def test_watch_starts_selects_explains_and_quits(start: Start, root: str) -> None:
    screen = start("--root", root, "watch", "-d", "0.3")
    text = screen.shows("up 0/s")  # the second sample
    assert text.startswith("tierctl watch  made-up") and "every 0.3 s" in text
    assert "service0004.service" in text and "[nothing-promotes]" in text
    for key, words in (("?", "HOT-SLOW     of a group"), ("h", "Last look of MGLRU")):
        screen.keys(key)
        screen.shows(words)
        screen.shows("Enter goes on.")
        screen.keys("Enter")
        screen.shows("q quit")
    screen.keys("Space")
    screen.shows("PAUSED")
    screen.keys("Space", "+")
    screen.shows("every 0.6 s")
    screen.keys("Down", "e")
    screen.shows("service0004.service: 1")
    screen.keys("Enter", "C-l")
    screen.shows("WORTH")
    screen.keys("q")
    screen.ends(0)


def test_sizes_down_to_one_row_are_drawn(start: Start, root: str) -> None:
    screen = start("--root", root, "watch", "-d", "0.2")
    screen.shows("GROUP")
    for columns, rows in ((40, 10), (3, 40), (80, 1), (2, 2), (300, 100)):
        screen.tmux("resize-window", "-x", str(columns), "-y", str(rows))
        time.sleep(0.1)
    screen.tmux("resize-window", "-x", "40", "-y", "10")
    text = screen.until(lambda text: "q quit" in text.split("\n")[9:10][0] and "WORTH" in text)
    assert text.startswith("tierctl watch")
    screen.keys("q")
    screen.ends(0)


def test_size_that_changes_and_comes_back_is_drawn_whole(start: Start, root: str) -> None:
    screen = start("--root", root, "watch", "-d", "0.2")
    screen.shows("GROUP")
    os.kill(screen.pid, signal.SIGSTOP)  # as a busy machine does
    for size in (("2", "2"), ("80", "24")):
        screen.tmux("resize-window", "-x", size[0], "-y", size[1])
        time.sleep(0.2)
    screen.tmux("clear-history")
    os.kill(screen.pid, signal.SIGCONT)
    screen.until(lambda text: "WORTH" in text and "service0004" in text and "q quit" in text)


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_restores_the_terminal(start: Start, root: str, which: signal.Signals) -> None:
    screen = start("--root", root, "watch", "-d", "0.2")
    screen.shows("GROUP")
    os.kill(screen.pid, which)
    screen.ends(128 + which)


def test_terminal_that_goes_ends_the_program_without_a_word(root: str) -> None:
    here, terminal = os.openpty()
    words = [sys.executable, "-m", "tierctl", "--root", root, "watch", "-d", "0.2"]
    env, pipe = os.environ | {"TERM": "xterm"}, subprocess.PIPE
    found = subprocess.Popen(
        words, cwd=PROJECT, env=env, stdin=terminal, stdout=terminal, stderr=pipe
    )
    os.close(terminal)
    while b"GROUP" not in os.read(here, 1 << 16):
        pass
    os.close(here)
    _, said = found.communicate(timeout=LIMIT_S)
    assert (found.returncode, said) == (128 + signal.SIGHUP, b"")


LONG = """\
import sys, time; from tierctl import cli; from tierctl.commands import explain
explain.answer = lambda *_: time.sleep(60)
sys.exit(cli.main())
"""


def test_ctrl_c_ends_the_explanation_alone(start: Start, root: str) -> None:
    screen = start("--root", root, "watch", "-d", "0.2", code=LONG)
    screen.shows("GROUP")
    screen.keys("e")
    screen.shows("Ctrl-C goes back")
    screen.keys("C-c")
    screen.shows("q quit")
    screen.keys("C-c")
    screen.ends(128 + signal.SIGINT)


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_explanation_too(start: Start, root: str, which: signal.Signals) -> None:
    screen = start("--root", root, "watch", "-d", "0.2", code=LONG)
    screen.shows("GROUP")
    screen.keys("e")
    screen.shows("Ctrl-C goes back")
    os.kill(screen.pid, which)
    assert "Explains" in screen.ends(128 + which)


def test_exception_in_an_explanation_restores_the_terminal(start: Start, root: str) -> None:
    code = LONG.replace("time.sleep(60)", "1 / 0")
    screen = start("--root", root, "watch", "-d", "0.2", code=code)
    screen.shows("GROUP")
    screen.keys("e")
    assert "internal error, ZeroDivisionError" in screen.ends(USAGE)


def test_exception_restores_the_terminal_and_is_one_line(start: Start, root: str) -> None:
    code = (
        "import sys; from tierctl import cli; from tierctl.watch import viewer\n"
        "calls = []\n"
        "def take(self, real=viewer.Samples.take):\n"
        "    calls.append(1)\n"
        "    if len(calls) > 2: raise RuntimeError('planted')\n"
        "    return real(self)\n"
        "viewer.Samples.take = take\n"
        "sys.exit(cli.main())\n"
    )
    text = start("--root", root, "watch", "-d", "0.1", code=code).ends(USAGE)
    assert "internal error, RuntimeError: planted" in text and "Traceback" not in text


def test_terminal_that_goes_away_ends_watch(start: Start, root: str) -> None:
    screen = start("--root", root, "watch", "-d", "0.2")
    screen.shows("GROUP")
    pid = screen.pid
    screen.tmux("new-window", "-d", "sleep 60")  # so that the server stays
    screen.tmux("kill-window")
    end = time.monotonic() + LIMIT_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end, "watch outlives its terminal"
        time.sleep(0.05)


def test_recording_is_on_the_screen_within_10_s_and_ends(start: Start, bundle: str) -> None:
    began = time.monotonic()
    screen = start("watch", "--from", bundle, "-d", "0.5")
    screen.shows("RECORDED  sample 1 of 5")
    assert time.monotonic() - began < 10  # the limit of make look
    screen.keys("Space")
    screen.shows("RECORDED  PAUSED")
    screen.keys("Space")
    screen.shows("RECORDED  sample 5 of 5  END")
    screen.keys("q")
    screen.ends(0)


def colours(screen: Screen) -> set[str]:
    """The sequences of attributes on the screen."""
    return set(re.findall(r"\x1b\[([\d;]*)m", screen.tmux("capture-pane", "-p", "-e")))


@pytest.mark.parametrize(
    ("words", "env", "coloured"),
    [([], "", True), (["--no-color"], "", False), ([], "NO_COLOR=1", False)],
)
def test_warning_has_a_colour_unless_that_is_not_wanted(
    start: Start, root: str, words: list[str], env: str, coloured: bool
) -> None:
    screen = start("--root", root, *words, "watch", env=f"-u NO_COLOR {env}")
    screen.shows("GROUP")
    screen.still()
    assert bool({"33", "31"} & colours(screen)) == coloured
    screen.keys("h")
    screen.shows("Enter goes on.")
    assert ("1" in colours(screen)) == coloured


@pytest.mark.parametrize("term", ["TERM=dumb", "TERM=no-such-terminal", "-u TERM"])
def test_terminal_that_places_no_cursor_is_one_error(start: Start, root: str, term: str) -> None:
    text = start("--root", root, "watch", env=term, columns=120).ends(USAGE)
    assert text.startswith("tierctl: ") and "use: tierctl status" in text.split("\n")[0]
