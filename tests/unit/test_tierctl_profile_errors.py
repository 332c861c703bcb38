# SPDX-License-Identifier: GPL-2.0
"""tierctl profile: mistakes are found before the first write, and a failed apply undoes itself."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tierctl_kernel import (
    AFTER_BOOT,
    AROUND,
    Kernel,
    arguments,
    files,
    fresh,
    own,
    run,
)

from tierctl.change import config, journal, writes
from tierctl.change.current import current
from tierctl.core import files as disk
from tierctl.core.errors import DENIED, FINDING, USAGE, WELL, TierctlError
from tierctl.core.paths import BEFORE, CONF, KEPT, TIER
from tierctl.core.source import Recorder


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Our kernel after boot."""
    yield from fresh(monkeypatch)


# --- checks before the first write -----------------------------------------------


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("scan.period_ms = 99", "takes 100 to 60000 ms, not 99"),
        ("scan.period_ms = 60001", "not 60001"),
        ("scan.period_ms = -1", "not -1"),
        ("scan.period_ms = 1.5", "not 1.5"),
        ("scan.period_ms = true", "not True"),
        ('scan.period_ms = "500"', "not 500"),
        ('scan.period_ms = "single-promoter"', "not single-promoter"),
        ('scan.cpu_permille = "max(0, 250 / CPUs)"', "takes 1 to 1000"),
        ('scan.cpu_permille = "max(5, 2000 / CPUs)"', "takes 1 to 1000"),
        ('scan.enabled = "max(0, 1 / CPUs)"', "takes 0 or 1"),
        ("scan.enabled = 2", "takes 0 or 1"),
        ("numa_balancing = 4", "takes 0 to 3"),
        ("scan.treshold = 3", "there is no setting scan.treshold"),
        ("kernel.panic = 1", "there is no setting kernel.panic"),
        (f"scan.period_ms = 0x{'f' * 9000}", "a number with thousands of digits"),
        (f"scan.period_ms = {'9' * 9000}", "digits"),
        ("scan.period_ms = [", "correct the file"),
        (f"{'a.' * 3000}b = 1", "no setting a.a.a"),
    ],
    ids=itertools.count(),
)
def test_apply_with_a_bad_value_is_refused_before_the_first_write(
    kernel: Kernel, line: str, what: str
) -> None:
    own(kernel, f"[settings]\nenabled = 1\n{line}")
    with pytest.raises(TierctlError, match=what.replace("(", r"\(")) as error:
        run(kernel, "profile", "apply", "mine")
    assert error.value.code == USAGE
    assert "\n" not in str(error.value)
    assert kernel.writes == []
    assert files(kernel) == {f"{config.OWN}/mine.toml"}


@pytest.mark.parametrize("name", ["../../etc/passwd", "General", "", "a" * 65, "x\ny", "no-such"])
def test_apply_of_a_profile_that_does_not_exist_is_refused(kernel: Kernel, name: str) -> None:
    with pytest.raises(TierctlError) as error:
        run(kernel, "profile", "apply", name or "-")
    assert error.value.code == USAGE
    assert "\n" not in str(error.value)
    assert kernel.writes == []


def test_apply_of_a_misspelt_profile_suggests_the_nearest(kernel: Kernel) -> None:
    with pytest.raises(TierctlError, match="did you mean latency"):
        run(kernel, "profile", "apply", "latncy")


def test_apply_after_a_boot_with_tier_off_is_refused(kernel: Kernel) -> None:
    kernel.put(f"{TIER}/state", "blocked")
    with pytest.raises(TierctlError, match="tier=off") as error:
        run(kernel, "profile", "apply", "general")
    assert error.value.code == DENIED
    assert kernel.writes == []


def test_apply_on_a_bundle_is_refused(kernel: Kernel) -> None:
    recorded = Recorder(kernel)  # any source but Live
    args = arguments("profile", "apply", "general")
    with pytest.raises(TierctlError, match="a bundle takes no writes"):
        args.func(args, recorded)
    assert kernel.writes == []


def test_write_of_any_other_sysctl_is_refused(kernel: Kernel) -> None:
    for path in (
        "/proc/sys/kernel/panic",
        "/proc/sys/vm/swappiness",
        f"{TIER}/state",
        "/sys/fs/cgroup/memory.tier.max",
        "/sys/fs/cgroup/a/../../../../etc/memory.tier.max",
        "/sys/fs/cgroup/a/memory.max",
    ):
        kernel.put(path, "x")
        with pytest.raises(PermissionError, match="never writes"):
            writes.write(kernel, path, "1")
    assert kernel.writes == []


def test_journal_that_names_another_file_is_damaged(kernel: Kernel) -> None:
    entry = {"key": "x", "file": "/proc/sys/kernel/panic", "before": "1", "wrote": ["0"]}
    document = {"schema": journal.SCHEMA, "boot": "11111111-2222", "settings": [entry]}
    kernel.put(BEFORE, json.dumps(document))
    with pytest.raises(TierctlError, match="never writes /proc/sys/kernel/panic"):
        run(kernel, "profile", "revert")
    assert kernel.writes == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"schema": "tierctl-before/2"}', "null", "[" * 100_000]
)
def test_journal_that_is_damaged_stops_each_command_that_writes(kernel: Kernel, text: str) -> None:
    kernel.put(BEFORE, text)
    for words in (["profile", "apply", "general"], ["profile", "revert"], ["set", "enabled", "1"]):
        with pytest.raises(TierctlError, match="is damaged") as error:
            run(kernel, *words)
        assert error.value.code == FINDING
    assert kernel.writes == []


# --- errors in the middle ----------------------------------------------------------


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("code", [errno.EINVAL, errno.EPERM, errno.ENOMEM, errno.EROFS])
@pytest.mark.parametrize("file", ["scan/page_cache", "batch/max_folios", "enabled"])
def test_apply_that_fails_in_the_middle_undoes_itself(
    kernel: Kernel, file: str, code: int, half: bool
) -> None:
    path = f"{TIER}/{file}"
    kernel.refused[path] = code
    if half:
        kernel.half.add(path)  # as page_cache does if no memory is free
    with pytest.raises(TierctlError, match="all settings are as before") as error:
        run(kernel, "profile", "apply", "latency")
    assert path in str(error.value)
    assert error.value.code == (DENIED if code == errno.EPERM else FINDING)
    assert kernel.values() == AFTER_BOOT
    assert files(kernel) == set()


def test_second_apply_that_fails_leaves_the_first_profile(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    first, text = kernel.values(), json.loads(kernel.read(BEFORE))["settings"]
    kernel.refused[f"{TIER}/zap/enabled"] = errno.EINVAL
    with pytest.raises(TierctlError, match="zap/enabled"):
        run(kernel, "profile", "apply", "observe")
    assert kernel.values() == first
    assert json.loads(kernel.read(BEFORE))["settings"] == text
    assert run(kernel, "profile", "verify") == WELL
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.values() == AFTER_BOOT


def test_apply_that_cannot_undo_says_so_and_revert_restores(kernel: Kernel) -> None:
    class Stuck(Kernel):
        def write(self, path: str, text: str) -> None:
            if path == f"{TIER}/enabled" or (path.endswith("period_ms") and text == "500\n"):
                raise OSError(errno.EIO, "Input/output error")
            super().write(path, text)

    stuck = Stuck(kernel.place("/"))
    with pytest.raises(TierctlError, match=r"scan\.period_ms could not be set back"):
        run(stuck, "profile", "apply", "latency")
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.values() == AFTER_BOOT


def test_apply_that_is_interrupted_undoes_itself(kernel: Kernel) -> None:
    class Interrupted(Kernel):
        def write(self, path: str, text: str) -> None:
            super().write(path, text)
            if path == f"{TIER}/enabled" and text == "1\n":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(kernel.place("/")), "profile", "apply", "latency")
    assert kernel.values() == AFTER_BOOT
    assert files(kernel) == set()


def test_apply_that_the_kernel_does_not_follow_undoes_itself(kernel: Kernel) -> None:
    class Deaf(Kernel):
        def write(self, path: str, text: str) -> None:
            if not path.endswith("max_folios"):
                super().write(path, text)

    with pytest.raises(TierctlError, match="the file says 512 after the write"):
        run(Deaf(kernel.place("/")), "profile", "apply", "latency")
    assert kernel.values() == AFTER_BOOT


@pytest.mark.parametrize("path", [BEFORE, KEPT])
def test_apply_without_room_on_disk_changes_nothing(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    real = disk.replace

    def full(place: Path, data: bytes) -> None:
        if str(place).endswith(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(place))
        real(place, data)

    monkeypatch.setattr(disk, "replace", full)
    with pytest.raises(TierctlError, match="No space left on device"):
        run(kernel, "profile", "apply", "latency")
    assert kernel.values() == AFTER_BOOT
    assert KEPT not in files(kernel)
    monkeypatch.undo()
    assert run(kernel, "profile", "revert") == WELL


def test_full_disk_does_not_blame_files_that_have_not_changed(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(kernel, "profile", "apply", "general")

    def full(place: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(place))

    monkeypatch.setattr(disk, "replace", full)
    with pytest.raises(TierctlError, match="all settings are as before: make room on the disk"):
        run(kernel, "profile", "apply", "latency")


def test_file_of_the_administrator_is_not_overwritten(kernel: Kernel) -> None:
    kernel.put(KEPT, "# by hand")
    with pytest.raises(TierctlError, match="was not written by tierctl"):
        run(kernel, "profile", "apply", "general")
    assert kernel.writes == []
    assert kernel.read(KEPT) == "# by hand"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("profil = 'general'", "did you mean profile"),
        ("profile = 1", "1 is no name"),
        ("settings = 1", r"settings is no table; write \[settings\] on a line of its own"),
        ("[[settings]]", "settings is no table"),
        ("[settings]\nscan.period_ms = 1", "takes 100 to 60000"),
        ("groups = { a = '8G' }", "groups has a"),
        ("groups = { '../a' = { max = '8G' } }", "is no name of a group"),
        ("groups = { a = { max = 'much' } }", "much is no size"),
        ("[settings", "Expected"),
    ],
)
def test_mistake_in_the_configuration_names_the_file(kernel: Kernel, text: str, what: str) -> None:
    kernel.put(f"{CONF}/10.toml", text)
    with pytest.raises(TierctlError, match=what) as error:
        run(kernel, "profile", "apply", "general")
    assert f"{CONF}/10.toml" in str(error.value)
    assert error.value.code == USAGE
    assert kernel.writes == []
    assert current(kernel).error


def test_undo_takes_the_last_write_back_first(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = disk.replace

    def full(place: Path, data: bytes) -> None:
        if str(place).endswith(KEPT):
            raise OSError(errno.ENOSPC, "No space left on device", str(place))
        real(place, data)

    monkeypatch.setattr(disk, "replace", full)
    with pytest.raises(TierctlError):
        run(kernel, "profile", "apply", "latency")
    forward = [path for path, _ in kernel.writes[:8]]
    assert forward[-1] == f"{TIER}/enabled"
    assert [path for path, _ in kernel.writes[8:]] == forward[::-1]


def test_directory_of_profiles_that_is_denied_is_an_error(kernel: Kernel) -> None:
    class Closed(Kernel):
        def names(self, path: str) -> list[str]:
            if path == config.OWN:
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return super().names(path)

    with pytest.raises(TierctlError, match="profiles cannot be read") as error:
        run(Closed(kernel.place("/")), "profile", "show", "general")
    assert error.value.code == DENIED


def test_configuration_that_is_no_file_stops_apply_and_not_revert(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    kernel.place(f"{CONF}/odd.toml").mkdir(parents=True)
    with pytest.raises(TierctlError, match=r"odd\.toml cannot be read"):
        run(kernel, "profile", "apply")
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.values() == AFTER_BOOT
    assert files(kernel) == set()


@pytest.mark.parametrize("text", ["9" * 5000, "", "x\ny", "\u00b2", "-1", "0-99999999", "\x1b[2J"])
def test_damaged_file_of_the_kernel_breaks_no_command(
    kernel: Kernel, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    for path in AFTER_BOOT | AROUND:
        before = kernel.read(path)
        kernel.put(path, text)
        for line in ("show", "diff", "apply --dry-run", "apply", "verify", "revert"):
            words = line.replace("show", "show general").replace("apply", "apply general").split()
            for flag in ([], ["--json"]):
                with contextlib.suppress(TierctlError):
                    run(kernel, *flag, "profile", *words)
        kernel.put(path, before)
        run(kernel, "profile", "revert")
    out = capsys.readouterr().out
    assert "\x1b" not in out
