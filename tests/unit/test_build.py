# SPDX-License-Identifier: GPL-2.0
"""A build that was killed is gone on with, but for what it had in hand."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from lab import build
from lab.errors import LabError

OBJECTS = {"old": 3600, "earlier": build.KILLED_S + 60, "last": 0, "beside": 30}


@pytest.fixture
def obj(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Objects by the seconds since they were built, an hour ago; a make that does nothing."""
    tool = tmp_path / "bin/make"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexit ${FAIL:-0}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    top = tmp_path / "obj"
    (top / "mm").mkdir(parents=True)
    killed = time.time() - 3600
    for name, age in OBJECTS.items():
        path = top / f"mm/.{name}.o.cmd"
        path.touch()
        os.utime(path, (killed - age, killed - age))
    return top


def make(obj: Path) -> set[str]:
    build.make("test", obj, obj, io.StringIO(), release="-test")
    return {path.name[1:-6] for path in obj.glob("mm/.*.o.cmd")}


def test_what_a_killed_build_had_in_hand_is_built_again(obj: Path) -> None:
    (obj / "build.running").touch()
    assert make(obj) == {"old", "earlier"}
    # The one after that finds all as it is.
    assert make(obj) == {"old", "earlier"}


def test_other_builds_go_on(obj: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make(obj) == set(OBJECTS)
    monkeypatch.setenv("FAIL", "2")  # make has seen to it itself
    with pytest.raises(LabError, match="building kernel test failed"):
        make(obj)
    monkeypatch.delenv("FAIL")
    assert make(obj) == set(OBJECTS)


def test_a_build_that_is_killed_says_so(obj: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "_watch", killed)
    with pytest.raises(KeyboardInterrupt):
        make(obj)
    assert (obj / "build.running").exists()
