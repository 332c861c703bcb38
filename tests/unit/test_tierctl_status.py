# SPDX-License-Identifier: GPL-2.0
"""tierctl status: its screen on each machine, and what it must not read."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_trees import DAMON, FAST, OLD, OURS, PLAIN, SLOW, STOCK, Spec, Stepping, build

from tierctl import cli
from tierctl.commands import status
from tierctl.core.errors import FINDING
from tierctl.core.text import Style
from tierctl.model.snapshot import twice

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples, one at once after the other."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def tierctl(root: Path, *words: str) -> int:
    """A command on a made-up machine."""
    return cli.main(["--root", str(root), *words])


# --- the screen of status ----------------------------------------------------------


def screen(root: Path, capsys: Output, *words: str) -> str:
    """What status prints."""
    tierctl(root, "status", "--interval", "0.05", *words)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("spec", "head"),
    [
        (OURS, "Tiering ON"),
        (STOCK, "Tiering by NUMA balancing 2"),
        (DAMON, "Tiering by DAMON"),
        (PLAIN, "No slow memory"),
        (OLD, "Tiering OFF (NUMA balancing 1)"),
        (replace(OLD, numa_balancing=0), "Tiering OFF"),
        (replace(OURS, parts_off=("promote",)), "Tiering ON, no promotion"),
    ],
)
def test_status_names_each_mechanism(tmp_path: Path, capsys: Output, spec: Spec, head: str) -> None:
    build(tmp_path, spec)
    assert screen(tmp_path, capsys).startswith(f"{head}   ")


def test_status_of_nothing_is_unknown_and_never_0(tmp_path: Path, capsys: Output) -> None:
    out = screen(tmp_path, capsys)
    assert out.startswith("Tiering OFF") and "hot on slow ?   cold on fast ?" in out
    assert "up ? (not counted)   down ? (kswapd, direct)" in out
    assert " 0" not in out


def test_status_with_an_error_has_exit_1(tmp_path: Path, capsys: Output) -> None:
    slow = replace(STOCK.nodes[2], tier=4)
    build(tmp_path, replace(STOCK, nodes=(*STOCK.nodes[:2], slow)))
    assert tierctl(tmp_path, "status", "--interval", "0.05") == FINDING
    assert "[one-tier]" in capsys.readouterr().out


def test_status_of_many_groups_reads_none_of_their_files(tmp_path: Path) -> None:
    source = Stepping(build(tmp_path, replace(OURS, groups=100, processes=300, cpus=32)))
    status.answer(twice(source, 1.0))
    assert not [path for path in source.reads if path.startswith("/sys/fs/cgroup")]
    assert sum(source.reads.values()) < 350
    assert not [path for path in source.reads if path.startswith("/proc/10000")]


def test_status_of_a_large_machine_is_within_its_budget(tmp_path: Path) -> None:
    """4 TiB, 1,000 groups, 512 CPUs: at most 50 ms of CPU after the imports."""
    nodes = (replace(FAST, gib=1024), replace(FAST, gib=1024), replace(SLOW, gib=2048))
    source = Stepping(build(tmp_path, replace(OURS, nodes=nodes, groups=1000, cpus=512)))
    costs = []
    for _ in range(3):
        began = time.process_time()
        status.draw(status.answer(twice(source, 1.0)), Style())
        costs.append(time.process_time() - began)
    assert min(costs) < 0.05


def test_status_of_observing_says_what_is_found(tmp_path: Path, capsys: Output) -> None:
    build(tmp_path, replace(OURS, parts_off=("promote",)))
    assert "hot on slow 2.1G (found, waits)\n" in screen(tmp_path, capsys)
    build(tmp_path, replace(OURS, nodes=(FAST, FAST, replace(SLOW, hot=0))))
    assert "hot on slow 0 (found, waits)\n" in screen(tmp_path, capsys)


def test_status_tells_what_has_moved_since_boot(tmp_path: Path, capsys: Output) -> None:
    build(tmp_path, OURS)
    assert "since boot 3.8G up, 3.4G down" in screen(tmp_path, capsys)
    build(tmp_path, DAMON)
    assert "since boot ? up, 3.4G down" in screen(tmp_path, capsys)


def test_anonymous_memory_that_can_go_nowhere_is_neither_hot_nor_cold(
    tmp_path: Path, capsys: Output
) -> None:
    tree = build(tmp_path, replace(STOCK, swap_free=0))
    out = " ".join(screen(tmp_path, capsys).split())
    assert "hot on slow ~3.1M (used or new in 60 s), 50.0M ?" in out
    assert "? hot_on_slow: MGLRU does not look at memory that it can" in out
    assert "cold on fast" in out and "tierctl heat --look" in out
    tree.put("sys/kernel/mm/numa/demotion_enabled", "false")
    out = " ".join(screen(tmp_path, capsys).split())
    assert "cold on fast ?" in out and "? hot_on_slow, cold_on_fast: MGLRU does not" in out


def test_hot_of_a_kernel_whose_scan_is_off_is_mglru_s_estimate(
    tmp_path: Path, capsys: Output
) -> None:
    build(tmp_path, replace(OURS, enabled=0))  # nodeN/hot is 0 or old then
    assert "hot on slow ~" in screen(tmp_path, capsys)


def test_mglru_that_is_off_makes_cold_unknown(tmp_path: Path, capsys: Output) -> None:
    build(tmp_path, replace(OURS, mglru="0x0000"))
    out = screen(tmp_path, capsys)
    assert "cold on fast ?" in out and "? cold_on_fast: MGLRU is off" in out


def test_status_without_has_cpu_calls_no_node_fast_or_slow(tmp_path: Path, capsys: Output) -> None:
    tree = build(tmp_path, STOCK)
    (tree.root / "sys/devices/system/node/has_cpu").unlink()
    out = screen(tmp_path, capsys)
    assert "fast  " not in out and "slow  " not in out and "No slow" not in out
    assert "hot on slow ?   cold on fast ?" in out and "/has_cpu" in out


def test_configuration_with_comments_only_is_no_profile(tmp_path: Path, capsys: Output) -> None:
    tree = build(tmp_path, OURS)
    tree.put("etc/tierctl/tierctl.toml", "# profile = 1\n")
    assert "no profile" in screen(tmp_path, capsys)
    tree.put("etc/tierctl/tierctl.toml", 'profile = "general"')
    assert "profile general, " in screen(tmp_path, capsys)
