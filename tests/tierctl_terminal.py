# SPDX-License-Identifier: GPL-2.0
"""A terminal of tmux for tests of tierctl watch."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
LIMIT_S = 20.0
TIDY = "modes= icanon echo"  # as a terminal is before


class Screen:
    """A program in a pane of a tmux server of its own."""

    def __init__(self, place: Path, command: str, columns: int, rows: int) -> None:
        self.place = place
        place.mkdir()
        modes = "stty -a | tr ' ;' '\\n\\n' | grep -x -e '-\\?icanon' -e '-\\?echo' | tr '\\n' ' '"
        pid = shlex.quote(str(place / "pid"))
        script = place / "script"
        script.write_text(
            f"trap : INT; sh -c 'echo $$ >{pid}; exec \"$@\"' sh {command}\n"
            f'echo "rc=$?"; echo "modes= $({modes})"\nexec sleep 60\n'
        )
        size = ("-x", str(columns), "-y", str(rows))
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, f"sh {script}")

    def tmux(self, *words: str) -> str:
        """A command of tmux."""
        argv = ["tmux", "-S", str(self.place / "socket"), *words]
        environ = os.environ | {"PYTHONPATH": str(PROJECT), "TERM": "xterm"}
        done = subprocess.run(argv, check=True, capture_output=True, text=True, env=environ)
        return done.stdout

    @property
    def pid(self) -> int:
        """The pid of the program."""
        return int((self.place / "pid").read_text())

    def until(self, wanted: Callable[[str], bool]) -> str:
        """The text of the screen, as soon as it is as wanted."""
        end = time.monotonic() + LIMIT_S
        while True:
            text = self.tmux("capture-pane", "-p")
            if wanted(text):
                return text
            assert time.monotonic() < end, text
            time.sleep(0.05)

    def shows(self, words: str) -> str:
        """The same, as soon as it has some words."""
        return self.until(lambda text: words in text)

    def still(self) -> str:
        """The text of the screen, as soon as it does not change."""
        seen: list[str] = []

        def same(text: str) -> bool:
            seen.append(text)
            return seen[-2:] == [text, text]

        return self.until(same)

    def keys(self, *names: str) -> None:
        """Hit keys."""
        self.tmux("send-keys", *names)

    def ends(self, code: int) -> str:
        """The program ends with a status, and the terminal is as it was."""
        text = self.shows("modes=")
        assert f"rc={code}" in text and TIDY in text, text
        return text
