# SPDX-License-Identifier: GPL-2.0
"""tierctl group: limits, and what writes them again."""

from __future__ import annotations

import errno
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tierctl_kernel import (
    AFTER_BOOT,
    BACKUP,
    Kernel,
    answer,
    files,
    fresh,
    run,
)

from tierctl.change import limits
from tierctl.change.current import MAIN, current
from tierctl.core import files as disk
from tierctl.core.errors import FINDING, LACKING, USAGE, WELL, TierctlError
from tierctl.core.paths import CGROUP, CONF, KEPT, LIMIT, TIER

DROP_IN = "/etc/systemd/system/backup.service.d/50-tierctl.conf"
SCOPE = r"machine-qemu\x2d1\x2dvm1.scope"


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Our kernel after boot."""
    monkeypatch.setattr(limits, "page_size", lambda: 4096)
    yield from fresh(monkeypatch)


def test_group_set_writes_the_limit_and_keeps_it_in_two_places(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(kernel, "group", "set", "backup.service", "max=8G") == WELL
    out = capsys.readouterr().out
    assert out.startswith("groups.backup.service.max is 8G (was max)")
    assert "systemctl daemon-reload" in out and KEPT in out
    assert kernel.read(BACKUP) == str(8 << 30)
    assert files(kernel) >= {KEPT, DROP_IN}
    assert run(kernel, "profile", "verify") == WELL


def started(kernel: Kernel, drop_in: str) -> None:
    """What systemd does with a drop-in before each start, as systemd.service(5) says."""
    line = kernel.read(drop_in).splitlines()[-1]
    assert line.startswith("ExecStartPre=-+/bin/sh -c ")
    words = line.partition("=-+")[2]
    assert not re.search(r"%|\$[^$]", words.replace("$$", ""))
    argv = [word.replace("$$", "$") for word in shlex.split(words)]
    argv[-1] = str(kernel.place(argv[-1]))  # the rest has no path of the machine
    subprocess.run(argv, check=True)


@pytest.mark.parametrize(
    "path", ["a.service", r"system-a\x2db.slice/a\x2db@1.service", "a.slice/a-b.slice/c:d.service"]
)
def test_start_of_a_service_writes_its_limit(kernel: Kernel, path: str) -> None:
    file, unit = f"{CGROUP}/{path}/{LIMIT}", path.rpartition("/")[2]
    kernel.put(file, "max")
    run(kernel, "group", "set", path, "max=8G")
    kernel.put(file, "max")
    assert run(kernel, "profile", "verify") == FINDING
    started(kernel, f"/etc/systemd/system/{unit}.d/50-tierctl.conf")
    assert kernel.read(file) == str(8 << 30)
    assert run(kernel, "profile", "verify") == WELL
    run(kernel, "group", "set", path, "max=4G")
    started(kernel, f"/etc/systemd/system/{unit}.d/50-tierctl.conf")
    assert kernel.read(file) == str(4 << 30)
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.read(file) == "max" and files(kernel) == set()
    assert not kernel.place(f"/etc/systemd/system/{unit}.d").exists()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_finds_no_mistake_in_a_drop_in(kernel: Kernel) -> None:
    path = r"system.slice/a\x2db.service"
    kernel.put(f"{CGROUP}/{path}/{LIMIT}", "max")
    run(kernel, "group", "set", path, "max=8G")
    unit = r"/etc/systemd/system/a\x2db.service"
    kernel.put(unit, "[Service]\nExecStart=/bin/sh")
    kernel.put("/bin/sh", "")
    kernel.place("/bin/sh").chmod(0o755)
    for name in ("basic", "sysinit", "shutdown"):
        kernel.put(f"/usr/lib/systemd/system/{name}.target", "[Unit]\nDescription=x")
    words = ["systemd-analyze", "verify", f"--root={kernel.root}", "--man=no", Path(unit).name]
    good = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert (good.returncode, good.stderr) == (0, "")
    drop_in = f"{unit}.d/50-tierctl.conf"
    kernel.put(drop_in, kernel.read(drop_in).replace("'", "", 1))
    bad = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert "50-tierctl.conf" in bad.stderr


def test_group_that_is_away_is_absent_and_no_failure(kernel: Kernel) -> None:
    run(kernel, "group", "set", "backup.service", "max=8G")
    kernel.place(BACKUP).unlink()
    kernel.place(BACKUP).parent.rmdir()
    assert run(kernel, "profile", "apply", "general") == WELL
    assert run(kernel, "profile", "verify") == WELL


def test_group_that_ends_during_an_apply_stops_nothing(kernel: Kernel) -> None:
    run(kernel, "group", "set", "backup.service", "max=8G")
    kernel.put(BACKUP, "max")
    kernel.refused[BACKUP] = errno.ENODEV
    assert run(kernel, "profile", "apply", "general") == WELL
    assert kernel.read(f"{TIER}/enabled") == "1"


def test_group_without_a_limit_again_keeps_nothing(kernel: Kernel) -> None:
    run(kernel, "group", "set", "backup.service", "max=8G")
    assert run(kernel, "group", "set", "backup.service", "max=max") == WELL
    assert kernel.read(BACKUP) == "max"
    assert not {KEPT, DROP_IN} & files(kernel)


def test_group_without_a_limit_overrides_one_of_the_administrator(kernel: Kernel) -> None:
    kernel.put(MAIN, 'groups = { "backup.service" = { max = "8G" } }')
    run(kernel, "profile", "apply", "general")
    assert kernel.read(BACKUP) == str(8 << 30)
    run(kernel, "group", "set", "backup.service", "max=max")
    run(kernel, "profile", "apply")
    assert kernel.read(BACKUP) == "max"
    assert not kernel.place(DROP_IN).exists()


def end(kernel: Kernel, limit: str = BACKUP) -> None:
    """The group of a limit ends."""
    kernel.place(limit).unlink()
    kernel.place(limit).parent.rmdir()


@pytest.mark.parametrize("name", ["backup.service", "system.slice/backup.service"])
def test_limit_of_a_group_that_has_ended_is_forgotten_alone(
    kernel: Kernel, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    other = BACKUP.replace("backup", "other")
    kernel.put(other, "max")
    run(kernel, "set", "scan.period_ms", "900")
    run(kernel, "group", "set", "other.service", "max=4G")
    kept = kernel.read(KEPT)
    run(kernel, "group", "set", name, "max=8G")
    end(kernel)
    end(kernel, other)
    writes = list(kernel.writes)
    capsys.readouterr()
    assert run(kernel, "group", "set", name, "max=max") == WELL
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    out = " ".join(out.split())
    assert out.startswith(f"groups.{name}.max is forgotten; no group of this name has a limit now.")
    assert f"{DROP_IN} is removed" in out
    assert kernel.read(KEPT) == kept and DROP_IN not in files(kernel)
    assert DROP_IN.replace("backup", "other") in files(kernel)
    assert kernel.writes == writes


def test_limit_that_nothing_keeps_of_a_group_that_has_ended_is_refused(kernel: Kernel) -> None:
    run(kernel, "group", "set", "backup.service", "max=8G")
    end(kernel)
    before = files(kernel), kernel.read(KEPT)
    for name, limit in (("backup.service", "4G"), ("bakup.service", "max")):
        with pytest.raises(TierctlError, match=f"there is no group {name} now") as error:
            run(kernel, "group", "set", name, f"max={limit}")
        assert error.value.code == USAGE
    kernel.put("/sys/fs/cgroup/a.slice/backup.service/memory.tier.max", "max")
    kernel.put("/sys/fs/cgroup/b.slice/backup.service/memory.tier.max", "max")
    with pytest.raises(TierctlError, match=r"give a path: a\.slice/backup\.service, b\.slice"):
        run(kernel, "group", "set", "backup.service", "max=max")
    assert (files(kernel), kernel.read(KEPT)) == before


def test_group_that_has_ended_without_a_limit_overrides_one_of_the_administrator(
    kernel: Kernel,
) -> None:
    kernel.put(MAIN, 'groups = { "backup.service" = { max = "8G" } }')
    run(kernel, "group", "set", "backup.service", "max=4G")
    end(kernel)
    assert run(kernel, "group", "set", "backup.service", "max=max") == WELL
    assert not kernel.place(DROP_IN).exists()
    kernel.put(BACKUP, "max")
    assert run(kernel, "profile", "apply") == WELL
    assert kernel.read(BACKUP) == "max"


def test_group_of_a_unit_with_the_name_of_a_controller_has_the_drop_in_of_the_unit(
    kernel: Kernel,
) -> None:
    file = "/sys/fs/cgroup/system.slice/_memory.service/memory.tier.max"
    drop_in = "/etc/systemd/system/memory.service.d/50-tierctl.conf"
    kernel.put(file, "max")
    assert run(kernel, "group", "set", "memory.service", "max=8G") == WELL
    assert kernel.read(file) == str(8 << 30)
    kernel.put(file, "max")
    started(kernel, drop_in)
    assert kernel.read(file) == str(8 << 30)
    end(kernel, file)
    assert run(kernel, "group", "set", "memory.service", "max=max") == WELL
    assert not {KEPT, drop_in} & files(kernel)


def test_group_of_libvirt_has_no_drop_in_and_says_what_to_type(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"/sys/fs/cgroup/machine.slice/{SCOPE}/memory.tier.max"
    kernel.put(path, "max")
    capsys.readouterr()
    assert run(kernel, "group", "set", SCOPE, "max=64G") == WELL
    said = " ".join(capsys.readouterr().out.split())
    assert "After a new start of the group type: tierctl profile apply" in said
    assert kernel.read(path) == str(64 << 30)
    kernel.put(path, "max")
    assert run(kernel, "profile", "apply") == WELL
    assert kernel.read(path) == str(64 << 30)
    assert not any(name.startswith("/etc/systemd") for name in files(kernel))


def test_group_of_a_user_with_the_name_of_a_unit_is_not_taken(kernel: Kernel) -> None:
    below = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service"
    kernel.put(f"{below}/backup.service/memory.tier.max", "max")
    kernel.put(f"{below}/app.slice/ssh.service/memory.tier.max", "max")
    run(kernel, "group", "set", "backup.service", "max=8G")
    assert kernel.read(BACKUP) == str(8 << 30)
    assert kernel.read(f"{below}/backup.service/memory.tier.max") == "max"
    with pytest.raises(TierctlError, match=r"no group ssh\.service"):
        run(kernel, "group", "set", "ssh.service", "max=8G")


def test_group_name_that_two_groups_have_is_refused_with_their_paths(kernel: Kernel) -> None:
    other = "/sys/fs/cgroup/other.slice/backup.service/memory.tier.max"
    kernel.put(other, "max")
    with pytest.raises(TierctlError, match=r"other\.slice/backup\.service") as error:
        run(kernel, "group", "set", "backup.service", "max=8G")
    assert error.value.code == USAGE
    assert run(kernel, "group", "set", "other.slice/backup.service", "max=8G") == WELL
    assert (kernel.read(other), kernel.read(BACKUP)) == (str(8 << 30), "max")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("bakup.service", "did you mean backup.service"),
        ("system.slice/none.service", "there is no group"),
        ("..", "is no name of a group"),
        ("a/../../etc", "is no name of a group"),
        ("/", "is no name of a group"),
        ("a\nb", "is no name of a group"),
        ("", "is no name of a group"),
    ],
)
def test_group_that_does_not_exist_is_refused(kernel: Kernel, name: str, what: str) -> None:
    with pytest.raises(TierctlError, match=what) as error:
        run(kernel, "group", "set", name, "max=8G")
    assert error.value.code == USAGE
    assert "\n" not in str(error.value)
    assert kernel.writes == []
    assert files(kernel) == set()


NO_SIZES = ["", "-1", "8X", "8 G", "100", "0.5", "1.5G", "8GiB", "9999999P", "50%", "0x10", "1G\n"]


@pytest.mark.parametrize("word", ["min=8G", "8G", "max=MAX", *(f"max={one}" for one in NO_SIZES)])
def test_group_limit_that_is_no_size_is_refused(kernel: Kernel, word: str) -> None:
    with pytest.raises(TierctlError) as error:
        run(kernel, "group", "set", "backup.service", word)
    assert error.value.code == USAGE
    assert kernel.writes == []


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("0", "0"),
        ("max", "max"),
        ("4096", "4096"),
        ("5000", "4096"),
        ("512M", str(512 << 20)),
        ("2t", str(2 << 40)),
    ],
)
def test_size_is_bytes_in_whole_pages(kernel: Kernel, word: str, value: str) -> None:
    assert limits.size(word) == value


def test_group_on_a_kernel_without_the_file_is_refused(kernel: Kernel) -> None:
    kernel.place(BACKUP).unlink()
    with pytest.raises(TierctlError, match="memory controller is off") as error:
        run(kernel, "group", "set", "backup.service", "max=8G")
    assert error.value.code == USAGE
    kernel.place(f"{TIER}/promote/enabled").unlink()
    with pytest.raises(TierctlError, match=r"lacks memory\.tier\.max") as error:
        run(kernel, "group", "set", "backup.service", "max=8G")
    assert error.value.code == LACKING


def test_drop_in_of_the_administrator_is_not_overwritten(kernel: Kernel) -> None:
    kernel.put(DROP_IN, "[Service]")
    with pytest.raises(TierctlError, match="was not written by tierctl"):
        run(kernel, "group", "set", "backup.service", "max=8G")
    assert kernel.writes == []
    assert kernel.read(DROP_IN) == "[Service]"


@pytest.mark.parametrize("name", ["a'b\"c.service", "ünït.service", "a b.service", "%n.service"])
def test_group_with_a_strange_name_is_kept_and_reverted(kernel: Kernel, name: str) -> None:
    path = f"/sys/fs/cgroup/system.slice/{name}/memory.tier.max"
    kernel.put(path, "max")
    assert run(kernel, "group", "set", name, "max=8G") == WELL
    kernel.put(path, "max")
    assert run(kernel, "profile", "apply", "general") == WELL
    assert kernel.read(path) == str(8 << 30)
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.read(path) == "max"
    assert files(kernel) == set()


def test_json_of_a_group_has_bytes(kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    data = answer(kernel, capsys, "group", "set", "backup.service", "max=8G")
    (row,) = data["settings"]
    assert (row["now"], row["then"]) == ("max", str(8 << 30))
    assert data["kept"] == [KEPT, DROP_IN]
    assert current(kernel).verified is True


def test_group_set_whose_drop_in_fails_keeps_nothing(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = disk.replace

    def full(place: Path, data: bytes) -> None:
        if str(place).endswith(DROP_IN):
            raise OSError(errno.ENOSPC, "No space left on device", DROP_IN)
        real(place, data)

    monkeypatch.setattr(disk, "replace", full)
    with pytest.raises(TierctlError, match=r"50-tierctl\.conf cannot be written"):
        run(kernel, "group", "set", "backup.service", "max=8G")
    assert kernel.values() == AFTER_BOOT
    assert files(kernel) == set()


def test_group_by_a_second_name_is_kept_once(kernel: Kernel) -> None:
    run(kernel, "group", "set", "backup.service", "max=8G")
    run(kernel, "group", "set", "system.slice/backup.service", "max=4G")
    kernel.put(BACKUP, "max")
    assert run(kernel, "profile", "apply") == WELL
    assert kernel.read(BACKUP) == str(4 << 30)
    assert "backup.service" not in kernel.read(KEPT).replace("system.slice/backup.service", "")


def test_group_with_two_names_in_the_configuration_has_the_last_limit(kernel: Kernel) -> None:
    kernel.put(MAIN, "groups.'backup.service'.max = '8G'")
    kernel.put(f"{CONF}/a.toml", "groups.'system.slice/backup.service'.max = '4G'")
    assert run(kernel, "profile", "apply") == WELL
    assert kernel.read(BACKUP) == str(4 << 30)
    assert run(kernel, "profile", "verify") == WELL
    run(kernel, "group", "set", "backup.service", "max=2G")  # what was typed counts more than both
    kernel.put(BACKUP, "max")
    assert run(kernel, "profile", "apply") == WELL
    assert kernel.read(BACKUP) == str(2 << 30)
