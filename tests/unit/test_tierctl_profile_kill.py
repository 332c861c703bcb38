# SPDX-License-Identifier: GPL-2.0
"""tierctl profile: after kill -9 at any write, `profile revert` restores every value."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tierctl_kernel import AFTER_BOOT, Kernel, files, machine, memory, run

from tierctl.change import journal
from tierctl.core.errors import FINDING, WELL, TierctlError
from tierctl.core.paths import STATE, TIER

BEFORE, AFTER, HALF = "before", "after", "half"
Command = Sequence[str]
APPLY: Command = ("profile", "apply", "latency")
OTHER: Command = ("profile", "apply", "observe")
REVERT: Command = ("profile", "revert")
SET: Command = ("set", "scan.period_ms", "900")
GROUP: Command = ("group", "set", "backup.service", "max=8G")
NO_LIMIT: Command = ("group", "set", "backup.service", "max=max")


class Killed(BaseException):
    """The process is dead: from here on nothing that it does has an effect."""


class Doomed(Kernel):
    """Counts what changes files or the kernel, and dies just before or just after one event."""

    def __init__(self, root: Path, last: int, how: str, die: Callable[[], None]) -> None:
        super().__init__(root)
        self.count, self.last, self.how, self.die = -1, last, how, die
        self.dead = self.inside = False

    def event(self, act: Callable[..., Any], *args: Any, half: bytes | None = None) -> Any:
        """One call, which may be the last one."""
        if self.inside:
            return act(*args)
        if self.dead:
            raise Killed
        self.count += half is not None or self.how != HALF
        if self.count != self.last or (self.how == HALF and half is None):
            return self._alone(act, *args)
        if self.how == HALF:
            self._alone(act, args[0], half)
        if self.how == AFTER:
            with contextlib.suppress(OSError):
                self._alone(act, *args)
        self.dead = True
        return self.die()

    def _alone(self, act: Callable[..., Any], *args: Any) -> Any:
        self.inside = True
        try:
            return act(*args)
        finally:
            self.inside = False

    def write(self, path: str, text: str) -> None:
        self.event(super().write, path, text)

    def arm(self, patch: pytest.MonkeyPatch) -> None:
        """Count the calls of the system, too."""
        real_open, real_write = os.open, os.write

        def opened(path: Any, flags: int, *rest: Any, **more: Any) -> Any:
            if flags & os.O_CREAT:
                return self.event(real_open, path, flags, *rest)
            return real_open(path, flags, *rest, **more)

        def written(file: int, data: bytes) -> Any:
            return self.event(real_write, file, data, half=data[: len(data) // 2])

        patch.setattr(os, "open", opened)
        patch.setattr(os, "write", written)
        patch.setattr(os, "fsync", lambda file: self.event(lambda: None))
        for name in ("replace", "unlink", "mkdir", "rmdir"):
            real = getattr(os, name)
            patch.setattr(os, name, lambda *args, call=real: self.event(call, *args))


def sigkill() -> None:
    """What a kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


def stop() -> None:
    """What stands for a kill -9 in this process: faster than a process of its own."""
    raise Killed


def killed(
    root: Path,
    command: Command,
    last: int,
    how: str,
    refused: str = "",
    die: Callable[[], None] = stop,
) -> bool:
    """Run a command that dies at an event; False if it came to its end."""
    kernel = Doomed(root, last, how, die)
    if refused:
        kernel.refused[refused] = errno.EINVAL
    with pytest.MonkeyPatch.context() as patch:
        kernel.arm(patch)
        try:
            run(kernel, *command)
        except Killed:
            return True
        except TierctlError:
            assert refused
    return kernel.dead


def check(kernel: Kernel) -> None:
    """Nothing of tierctl is left."""
    assert kernel.values() == AFTER_BOOT
    assert {name for name in files(kernel) if not name.endswith(".tmp")} == set()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory in memory."""
    yield from memory()


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that needs no time."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.mark.parametrize("how", [BEFORE, AFTER, HALF])
@pytest.mark.parametrize(
    ("earlier", "command", "refused"),
    [
        ([], APPLY, ""),
        ([], APPLY, f"{TIER}/enabled"),
        ([APPLY], OTHER, ""),
        ([APPLY], OTHER, f"{TIER}/zap/enabled"),
        ([APPLY, SET, GROUP], REVERT, ""),
        ([], SET, ""),
        ([APPLY], GROUP, ""),
        ([GROUP], NO_LIMIT, ""),
    ],
    ids=["apply", "undo", "second", "second-undo", "revert", "set", "group", "no-limit"],
)
def test_kill_at_each_write_leaves_what_revert_restores(
    tmp_path: Path, earlier: Sequence[Command], command: Command, refused: str, how: str
) -> None:
    kernel = machine(tmp_path)
    for last in itertools.count():
        for one in earlier:
            run(kernel, *one)
        died = killed(tmp_path, command, last, how, refused)
        if died and how == AFTER and command != REVERT:
            # The user may also try again before the revert.
            assert run(kernel, *command) == WELL
        assert run(kernel, *REVERT) == WELL
        check(kernel)
        if not died:
            break
    assert last >= (0 if how == HALF else 10)


@pytest.mark.parametrize("last", [0, 7, 14, 20])
def test_sigkill_leaves_what_revert_restores(tmp_path: Path, last: int) -> None:
    kernel = machine(tmp_path)
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        killed(tmp_path, APPLY, last, AFTER, die=sigkill)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    if last == 14:
        assert kernel.values() != AFTER_BOOT
    assert run(kernel, *REVERT) == WELL
    check(kernel)


def test_kill_never_loses_a_change_of_others(tmp_path: Path) -> None:
    kernel = machine(tmp_path)
    for last in itertools.count():
        run(kernel, *APPLY)
        kernel.put(f"{TIER}/promote/rate_mbps", "999")  # latency wrote 512, observe names none
        died = killed(tmp_path, OTHER, last, AFTER)
        assert run(kernel, *REVERT) == FINDING
        assert kernel.values() == AFTER_BOOT | {f"{TIER}/promote/rate_mbps": "999"}
        kernel.put(f"{TIER}/promote/rate_mbps", AFTER_BOOT[f"{TIER}/promote/rate_mbps"])
        assert run(kernel, *REVERT) == WELL
        check(kernel)
        if not died:
            break


def test_journal_is_on_disk_before_the_first_write_to_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    real = os.replace

    class Noted(Kernel):
        def write(self, path: str, text: str) -> None:
            events.append("kernel")
            super().write(path, text)

    def replaced(source: Path, target: Path) -> None:
        events.append(target.name)
        real(source, target)

    machine(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda file: events.append("fsync"))
    monkeypatch.setattr(os, "replace", replaced)
    run(Noted(tmp_path), *APPLY)
    saved = ["fsync", "before.json", "fsync"]
    assert events[:4] == [*saved, "kernel"]
    assert events[-6:] == ["fsync", "kept.toml", "fsync", *saved]


# --- two at once -------------------------------------------------------------------


def test_two_applies_at_once_come_one_after_the_other(tmp_path: Path) -> None:
    kernel = machine(tmp_path)
    for _ in range(4):
        children = []
        for name in ("latency", "observe", "hint"):
            child = os.fork()
            if not child:
                code = 1
                try:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                    code = run(Kernel(tmp_path), "profile", "apply", name)
                finally:
                    os._exit(code)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
        assert run(kernel, "profile", "verify") == WELL
    assert run(kernel, *REVERT) == WELL
    check(kernel)


def test_apply_while_another_one_works_waits_and_then_says_so(tmp_path: Path) -> None:
    kernel = machine(tmp_path)
    with journal.locked(kernel):
        began = time.monotonic()
        with (
            pytest.raises(TierctlError, match="another tierctl") as error,
            journal.locked(kernel, patience=0.1),
        ):
            pass
        assert time.monotonic() - began >= 0.1
    assert error.value.code == FINDING
    with journal.locked(kernel, patience=0.1):
        pass


def test_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    kernel = machine(tmp_path)
    child = os.fork()
    if not child:
        with journal.locked(kernel):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with journal.locked(kernel, patience=0.1):
        file = os.open(kernel.place(f"{STATE}/lock"), os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(file)
