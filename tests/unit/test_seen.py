# SPDX-License-Identifier: GPL-2.0
"""Copies of a guest's files: what the guest writes, and what tierctl makes of it."""

from __future__ import annotations

import glob
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tierctl_trees import OURS, STOCK, Spec, Tree, build, vmstat

from lab import looks, seen
from tierctl.commands import status
from tierctl.core.bundle import Bundle
from tierctl.core.source import ABSENT, MISSING, Live, Source
from tierctl.model.snapshot import Sampler

LRU_GEN = """\
memcg     1 /
 node     0
          4       9000          1          2
          5       4000          1          2
 node     1
          7       9000          1          2
memcg    28 /system.slice
 node     0
          0         10          0          0
"""


def copied(tree: Tree, label: str, second: float) -> seen.Copy:
    """What looks.py would copy of a tree that stands for /."""
    root = str(tree.root)
    found = [path for one in looks.PATTERNS for path in glob.glob(root + one)]
    found += glob.glob(f"{root}/proc/[0-9]*/stat") + glob.glob(f"{root}/proc/[0-9]*/comm")
    files = {path.removeprefix(root): Path(path) for path in found}
    texts = {path: file.read_text() for path, file in files.items() if file.is_file()}
    return {"time": 1_796_000_000.0 + second, "label": label, "files": texts}


def _copies(root: Path, spec: Spec = OURS) -> list[seen.Copy]:
    tree = build(root, spec)
    found = []
    for number, label in enumerate(("before", "run", "run", "after")):
        tree.put("proc/vmstat", vmstat(spec, 2 * number))
        found.append(copied(tree, label, 2.0 * number))
    return found


def test_look_is_one_command_for_each_group_and_node() -> None:
    assert looks.commands(LRU_GEN) == ["+ 1 0 5 1 1", "+ 1 1 7 1 1", "+ 28 0 0 1 1"]
    assert looks.commands("") == []


def _job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: list[str]) -> looks.Looks:
    (tmp_path / "lru_gen").write_text(LRU_GEN)
    (tmp_path / "children").write_text("2 1 999999999\n")
    (tmp_path / "a1").write_text("one\n")
    monkeypatch.setattr(looks, "LRU_GEN", str(tmp_path / "lru_gen"))
    monkeypatch.setattr(looks, "CHILDREN", str(tmp_path / "children"))
    monkeypatch.setattr(looks, "PATTERNS", (f"{tmp_path}/a*", f"{tmp_path}/none"))
    return looks.Looks({"client": client}, tmp_path)


def test_copy_before_start_comes_after_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The file keeps the last command of a look.  cat ends, since its input is empty.
    there = f"grep -qx '+ 28 0 0 1 1' {tmp_path}/lru_gen && cp {tmp_path}/kept {tmp_path}/lru_gen"
    change = f"{there} && echo two > {tmp_path}/a1 && cat"
    (tmp_path / "kept").write_text(LRU_GEN)
    _job(tmp_path, monkeypatch, ["sh", "-c", change]).before()
    (copy,) = seen.read(tmp_path / looks.FILE)
    files = copy["files"]
    assert copy["label"] == "before" and files.pop(f"{tmp_path}/a1") == "two\n"
    assert set(files) <= {"/proc/1/comm", "/proc/2/comm"}
    assert (tmp_path / "lru_gen").read_text() == "+ 28 0 0 1 1"


def test_client_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        _job(tmp_path, monkeypatch, ["false"]).before()


def test_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / looks.FILE
    assert seen.read(file) == []
    file.write_text(json.dumps({"label": "before"}) + '\n{"label": "bef')
    assert seen.read(file) == [{"label": "before"}]


def _answer(source: Source) -> dict[str, Any]:
    return dict(vars(status.answer(Sampler(source).take()).data))


@pytest.mark.parametrize("spec", [OURS, STOCK])
def test_status_of_copies_is_that_of_the_machine(tmp_path: Path, spec: Spec) -> None:
    copies = _copies(tmp_path, spec)
    source = seen.Seen(copies)
    source.go("after")
    ours, real = _answer(source), _answer(Live(str(tmp_path)))
    for key in ("tiering", "nodes", "worth", "kernel"):
        assert ours[key] == real[key], key
    del copies[-1]["files"]["/sys/devices/system/node/node2/meminfo"]
    assert _answer(source)["nodes"] != real["nodes"]


def test_path_that_was_not_copied_is_told_from_one_that_is_absent(tmp_path: Path) -> None:
    source = seen.Seen(_copies(tmp_path, STOCK))
    for path, why in (
        ("/sys/kernel/mm/tier/enabled", ABSENT),
        ("/etc/tierctl/tierctl.toml", ABSENT),
        ("/proc/cmdline", MISSING),
    ):
        assert source.get(path) is None and source.why(path) == why
    assert source.listing("/sys/kernel/mm/tier") is None
    assert source.why("/sys/kernel/mm/tier") == ABSENT
    assert source.dirs("/sys/fs/cgroup") == ["machine.slice", "system.slice"]
    assert "cgroup.controllers" in source.names("/sys/fs/cgroup")


def test_copies_step_and_end(tmp_path: Path) -> None:
    source = seen.Seen(_copies(tmp_path))
    times = [source.time()]
    for _ in range(3):
        source.wait(0)
        times.append(source.time() - times[0])
    assert times[1:] == [2, 4, 6]
    with pytest.raises(EOFError):
        source.wait(0)
    with pytest.raises(ValueError, match="empty"):
        source.go("never")


def test_triangle_is_that_of_heat_without_empty_rows(tmp_path: Path) -> None:
    lines = seen.triangle(_copies(tmp_path), "after")
    assert lines[0].startswith("LAST USED") and "ON SLOW" in lines[0] and "# = " in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["used", "cold", "unclear", "other"]
    assert all("|" in line and len(line) <= 80 for line in lines[1:])


def test_bundle_of_copies_has_the_licence_and_plays(tmp_path: Path) -> None:
    copies = _copies(tmp_path / "tree")
    file = tmp_path / "b.json.gz"
    seen.save(copies, file)
    assert b"SPDX-License-Identifier: GPL-2.0" in file.read_bytes()[:100]
    bundle = Bundle(str(file))
    assert bundle.samples == 4 and bundle.read("/proc/vmstat") != ""
    flow = seen.latest(copies).status.data.flow
    assert flow.up_bytes_per_s == 54_272 * 4096 and seen.latest(copies[:1]).status.data.flow is None
    assert "<svg" in seen.report(file)
