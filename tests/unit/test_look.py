# SPDX-License-Identifier: GPL-2.0
"""make look: a recorded run on the screen, from files of the tree alone."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tierctl_terminal import Screen

from lab import cache, drawn
from tierctl.core.bundle import Bundle, unpack
from tierctl.model import history

LIMIT_S = 10
RECORDING = drawn.RECORDING.relative_to(cache.PROJECT)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the tree, without what was built or downloaded."""
    place = tmp_path_factory.mktemp("look") / "checkout"
    argv = ["git", "ls-files", "-co", "--exclude-standard", "Makefile", "results", "tierctl"]
    for name in subprocess.check_output(argv, cwd=cache.PROJECT, text=True).splitlines():
        if (cache.PROJECT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(cache.PROJECT / name, place / name)
    return place


@pytest.fixture
def look(checkout: Path, tmp_path: Path) -> Iterator[Screen]:
    """`make look` in a terminal, without the lab's environment."""
    command = f"env -i PATH=/usr/bin:/bin TERM=xterm make -C {shlex.quote(str(checkout))} look"
    screen = Screen(tmp_path / "tmux", command, 80, 24)
    yield screen
    screen.tmux("kill-server")


def test_look_on_a_fresh_checkout_is_on_the_screen_within_10_s(look: Screen) -> None:
    began = time.monotonic()
    text = look.shows("redis.service")
    assert time.monotonic() - began < LIMIT_S
    assert "RECORDED" in text and "LAST USED" in text
    look.keys("q")
    look.ends(0)


def test_look_without_its_recording_says_which_file_is_missing(
    checkout: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "checkout"
    shutil.copytree(checkout, copy)
    (copy / RECORDING).unlink()
    command = f"make -C {shlex.quote(str(copy))} look"
    screen = Screen(tmp_path / "tmux", command, 120, 24)
    try:
        text = screen.ends(2)
    finally:
        screen.tmux("kill-server")
    assert f"tierctl: there is no bundle {RECORDING}" in text and "Traceback" not in text


def test_recording_is_small_and_names_no_machine() -> None:
    assert drawn.RECORDING.stat().st_size < 200_000
    found = unpack(str(drawn.RECORDING))
    text = json.dumps(found)
    assert found["host"] == "virtme-ng"
    bad = re.compile(r"/(?:work|root|home|tmp|usr)\b|\w+\.(?:com|org|net)\b")
    assert bad.findall(text) == [] and bad.search('x "/root/x"')
    assert not {"/proc/cmdline", "/proc/version"} & found["samples"][0]["files"].keys()


def test_recording_is_of_an_emulated_run_in_which_hot_on_slow_falls() -> None:
    source = Bundle(str(drawn.RECORDING))
    assert source.read("/proc/sys/kernel/hostname") == "virtme-ng"
    points = history.load(drawn.RECORDING).points
    assert len(points) >= 10 and points[-1].time - points[0].time >= 20
    enabled = []
    for number in (0, source.samples - 1):
        source.go(number)
        enabled.append(source.read("/sys/kernel/mm/tier/scan/enabled"))
    assert enabled == ["0", "1"]
    first = next(one.use["slow"]["warm"] for one in points if one.use["slow"]["warm"])
    assert source.dirs("/sys/fs/cgroup/system.slice") == ["redis.service"]
    assert source.dirs("/sys/fs/cgroup/machine.slice") == ["vm.scope"]
    last = points[-1].use["slow"]
    used = sum(last[one] or 0 for one in ("hot", "warm", "cool"))
    assert first is not None and used < 0.8 * first
