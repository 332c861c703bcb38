# SPDX-License-Identifier: GPL-2.0
"""tierctl capture: bundles, hashed names, and that commands that look write nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import tierctl_schemas
from test_tierctl_cli import COMMANDS, Output, tierctl
from tierctl_trees import OURS, STOCK, Spec, Tree, build

from tierctl import cli
from tierctl.commands import capture
from tierctl.commands.capture import Captured
from tierctl.core import bundle as archive
from tierctl.core.errors import USAGE, WELL
from tierctl.core.reply import Reply
from tierctl.core.source import Sample
from tierctl.core.text import Style
from tierctl.record.anon import Anonymizer


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples, one at once after the other."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture
def machines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One machine."""
    return {"ours": build(tmp_path_factory.mktemp("machine") / "ours", OURS).root}


def secret(tmp_path: Path) -> Tree:
    """A machine whose names nobody may know."""
    spec = replace(OURS, processes=0)
    tree = build(tmp_path / "root", spec)
    tree.put("proc/sys/kernel/hostname", "secret-host")
    tree.put("etc/modprobe.d/secret.conf", "options secret")
    base = "sys/fs/cgroup/system.slice/secret.service"
    tree.put(f"{base}/memory.numa_stat", "anon N0=9 N2=9")
    tree.put(f"{base}/secret-child/memory.numa_stat", "anon N0=4")
    tree.put(f"{base}/cgroup.procs", "4711")
    guest = "sys/fs/cgroup/machine.slice/machine-qemu\\x2d1\\x2dsecret.scope"
    tree.put(f"{guest}/memory.numa_stat", "anon N0=9 N2=9")
    tree.put("proc/4711/status", "Name:\tsecretd\nVmRSS:\t4 kB")
    tree.put("proc/4711/statm", "1 1 1 1 0 1 0")
    tree.put("proc/4711/comm", "secretd")
    tree.put("proc/4711/maps", "00400000-00401000 r-xp 00000000 08:01 1     /opt/secret/bin")
    (tree.root / "proc/4711/pagemap").write_bytes(bytes(8 * 2048))
    tree.change("sys/kernel/debug/lru_gen", "/system.slice/service0000", "/system.slice/secret")
    return tree


def test_anonymous_bundle_has_no_name_and_says_the_same(tmp_path: Path, capsys: Output) -> None:
    tree = secret(tmp_path)
    file = tmp_path / "b.json.gz"
    words = ["capture", str(file), "--interval", "0.05", "--explain", "4711"]
    assert tierctl(tree.root, *words) == WELL
    assert json.dumps(archive.unpack(str(file))).count("secret") > 10
    assert tierctl(tree.root, *words, "--anon", "--force") == WELL
    assert "names hashed" in capsys.readouterr().out
    assert "secret" not in json.dumps(archive.unpack(str(file)))
    cli.main(["--from", str(file), "status"])
    assert "profile ?" in capsys.readouterr().out  # the files of /etc are left out
    cli.main(["--from", str(file), "--json", "top"])
    document = json.loads(capsys.readouterr().out)
    names = [one["name"] for one in document["data"]["groups"]]
    assert len(names) == 7 and sum(name.startswith("machine ") for name in names) == 2
    hashed = next(one for one in document["data"]["groups"] if one["total"] == 18)
    assert cli.main(["--from", str(file), "top", hashed["path"]]) == WELL
    shown = {one["path"]: one["hot_on_slow"] for one in document["data"]["groups"]}
    assert any(value for value in shown.values())


def test_two_anonymous_bundles_have_different_hashes() -> None:
    one, other = Anonymizer(), Anonymizer()
    assert one.word("redis") == one.word("redis") != other.word("redis")
    assert len(one.word("redis")) == 16  # with 4 bytes two of 1,000 groups may share a hash
    assert one.group("system.slice") == "system.slice"
    assert one.group("redis.service").endswith(".service")
    assert one.group("\udcff.service") != one.group("\udcfe.service")  # names that are no UTF-8


ROWS = [
    ("/proc/9/comm", "kpromoted0\n", "kpromoted0\n"),
    ("/proc/9/comm", "secret\n", "H\n"),
    ("/proc/9/status", "Name:\tsecret x\nVmRSS:\t4 kB\n", "Name:\tH\nVmRSS:\t4 kB\n"),
    ("/proc/9/stat", "9 (secret) (x\ny)) S 1 2\n", "9 (H) S 1 2\n"),
    ("/proc/9/stat", "9 (kswapd0) S 1 2\n", "9 (kswapd0) S 1 2\n"),
    ("/proc/9/cgroup", "1:cpu:/secret\n0::/user.slice/s.scope\n", "0::/user.slice/H.scope\n"),
    ("/proc/9/maps", "0-1 r-xp 0 08:01 1   /se cret\n0-1 r 0 0 0  [heap]\n",
     "0-1 r-xp 0 08:01 1   H\n0-1 r 0 0 0  [heap]\n"),
    ("/proc/9/smaps", "0-1 r-xp 0 08:01 1   /secret\nRss:   4 kB x y z w\n",
     "0-1 r-xp 0 08:01 1   H\nRss:   4 kB x y z w\n"),
    ("/run/tierctl/looked", "1.5 2.5 /secret.slice/a\n", "1.5 2.5 /H.slice/H\n"),
    ("/run/tierctl/looked", "1.5 2.5 \n", "1.5 2.5 \n"),
    ("/proc/9/numa_maps", "7f00 default file=/secret anon=1\n", "7f00 default file=H anon=1\n"),
    ("/sys/kernel/debug/lru_gen", "memcg   12 /s.service\n node 0\n",
     "memcg   12 /H.service\n node 0\n"),
    ("/proc/9/maps", "0-1 r 0 0 0   [anon:secret]\n0-1 r 0 0 0   [vdso]\n",
     "0-1 r 0 0 0   H\n0-1 r 0 0 0   [vdso]\n"),
    ("/proc/meminfo", "MemTotal: 4 kB\n", "MemTotal: 4 kB\n"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "before", "after"), ROWS)
def test_names_in_files_are_hashed_and_the_rest_stays(path: str, before: str, after: str) -> None:
    found = Anonymizer().sample(Sample(1.0, {path: before}))
    assert re.sub(r"[0-9a-f]{16}", "H", str(found.files[path])) == after


@pytest.mark.parametrize(("uid", "todo"), [(0, "root is refused, too"), (1000, "run as root")])
@pytest.mark.parametrize("count", [1, 2])
def test_denied_files_are_named_once_and_root_is_not_told_to_be_root(
    monkeypatch: pytest.MonkeyPatch, uid: int, todo: str, count: int
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    data = Captured("b", 1, 1, 9, ["/proc/a", "/proc/b"][:count], False)
    out = " ".join(capture._draw(Reply("capture", data), Style()))
    more = " and 1 more" if count == 2 else ""
    assert f"1 sample of 9 files Denied: /proc/a{more}; {todo}" in out


def test_capture_replaces_no_file_unless_it_is_told(
    machines: dict[str, Path], tmp_path: Path, capsys: Output
) -> None:
    file = tmp_path / "b.json.gz"
    file.write_text("mine")
    words = ["capture", str(file), "--interval", "0.05"]
    assert tierctl(machines["ours"], *words) == USAGE and file.read_text() == "mine"
    assert tierctl(machines["ours"], *words, "--force", "--json") == WELL
    document = json.loads(capsys.readouterr().out)
    assert tierctl_schemas.check(document) == [] and document["data"]["samples"] == 3
    assert cli.main(["--from", str(file), "capture", str(tmp_path / "c")]) == USAGE
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.json.gz"]


def test_bundle_of_one_sample_has_unknown_rates(
    machines: dict[str, Path], tmp_path: Path, capsys: Output
) -> None:
    file = str(tmp_path / "b")
    tierctl(machines["ours"], "capture", file, "--samples", "1")
    capsys.readouterr()
    assert cli.main(["--from", file, "status"]) == WELL
    out = capsys.readouterr().out
    assert "up ?   down ?" in out and "the bundle has one sample" in out
    assert cli.main(["--from", file, "top"]) == WELL


def test_processes_of_a_bundle_are_refused(
    machines: dict[str, Path], tmp_path: Path, capsys: Output
) -> None:
    file = str(tmp_path / "b")
    tierctl(machines["ours"], "capture", file, "--samples", "1")
    capsys.readouterr()
    assert cli.main(["--from", file, "top", "-p"]) == USAGE
    assert "needs a live machine; capture with --explain PID" in capsys.readouterr().err


@pytest.mark.parametrize("spec", [OURS, STOCK], ids=["ours", "stock"])
def test_writes_happen_nowhere(tmp_path: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, spec)
    monkeypatch.setattr(
        "tierctl.core.source.Live.write", lambda *_: pytest.fail("a command that looks has written")
    )
    for words in COMMANDS.values():
        tierctl(tmp_path, *words)
