# SPDX-License-Identifier: GPL-2.0
"""A process by tier: frames, places, intervals, and tierctl top -p."""

from __future__ import annotations

import random
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_trees import FAST, OURS, SLOW, Stepping, Tree, build

from tierctl.commands import top
from tierctl.core.text import Style
from tierctl.read import pages
from tierctl.read.nodes import Zone
from tierctl.read.pages import MIXED, Frames, Runs

SMALL = (replace(FAST, gib=1, targets="1"), replace(SLOW, gib=1))


# --- frames ----------------------------------------------------------------------


def zone(node: int, start: int, pages_: int) -> Zone:
    """A zone with nothing but frames."""
    return Zone(node, "Normal", 0, pages_, pages_, start, None)


def test_frames_tell_their_node() -> None:
    frames = Frames([zone(0, 1, 99), zone(1, 100, 50), zone(0, 200, 10)], 4096)
    assert [frames.node(one) for one in (0, 1, 99, 100, 149, 150, 205, 999)] == [
        None,
        0,
        0,
        1,
        1,
        None,
        0,
        None,
    ]


def test_frames_that_two_nodes_share_are_mixed() -> None:
    frames = Frames([zone(0, 0, 100), zone(1, 50, 100), zone(2, 200, 5)], 4096)
    assert (frames.node(60), frames.node(10), frames.node(201)) == (MIXED, MIXED, 2)
    assert Frames([zone(0, 0, 100), zone(0, 50, 100)], 4096).node(60) == 0


def test_places_join_mappings_and_leave_out_holes() -> None:
    maps = (
        "00400000-00401000 r-xp 00000000 08:01 1 /bin/x y\n"
        "00401000-00a00000 rw-p 00000000 00:00 0 \n"
        "10000000-20000000 ---p 00000000 00:00 0 \n"
        "7f0000000000-7f0000000001 rw-p 00000000 00:00 0 [stack]\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n"
    )
    found = Runs(maps, 21)
    assert found.runs == [(2, 3), (0x7F0000000000 >> 21, 1)] and found.total == 4
    assert [found.nth(at) for at in range(4)] == [2, 3, 4, 0x7F0000000000 >> 21]
    assert Runs("", 21).runs == [] == Runs("garbage\n", 21).runs


def test_chosen_places_are_different_inside_and_the_same_again() -> None:
    maps = "".join(
        f"{first << 21:x}-{(first + count) << 21:x} rw-p 0 00:00 0\n"
        for first, count in ((10, 5), (100, 1000), (5000, 1))
    )
    runs = Runs(maps, 21)
    found = runs.choose(64, 4711)
    assert runs.total == 1006 and len(set(found)) == 64 and found == sorted(found)
    assert all(any(low <= one < low + count for low, count in runs.runs) for one in found)
    assert Runs(maps, 21).choose(64, 4711) == found != runs.choose(64, 4712)
    assert Runs(maps.split("\n")[0], 21).choose(64, 1) == [10, 11, 12, 13, 14]


def test_interval_holds_the_truth_in_95_of_100_cases() -> None:
    choose = random.Random(7)
    population = [(choose.choice((0, 30, 512)), 512) for _ in range(2000)]
    truth = sum(slow for slow, _ in population) / sum(seen for _, seen in population)
    held = 0
    for _ in range(400):
        found = pages.interval(choose.sample(population, 100), len(population))
        assert found is not None
        held += abs(found[0] - truth) <= found[1]
    assert 370 <= held <= 400


def test_student_of_few_and_many_samples() -> None:
    assert pages.student(15) == pytest.approx(2.131, abs=0.01)
    assert pages.student(4) == pytest.approx(2.776, abs=0.06)
    assert pages.student(1000) == pytest.approx(1.962, abs=0.01)


def test_interval_of_all_places_is_exact_and_of_one_says_nothing() -> None:
    assert pages.interval([(1, 2), (3, 4)], 2) == (4 / 6, 0.0)
    assert pages.interval([(1, 2)], 9) == (0.5, 1.0)
    assert pages.interval([(0, 0)], 9) is None and pages.interval([], 0) is None


def test_interval_of_samples_that_all_agree_is_not_0() -> None:
    found = pages.interval([(0, 512)] * 30, 1000)
    assert found == (0.0, 0.1)


# --- processes -------------------------------------------------------------------


def process(tree: Tree, pid: int, slow: float, mib: int = 64, **extra: str) -> None:
    """A process of which a part of the places is on node 1, and a part of each on node 0."""
    kib = mib << 10
    facts = {"Name": "redis", "VmRSS": f"{kib} kB", "TierScan": "1"} | extra
    lines = [f"{name}:\t{value}" for name, value in facts.items() if value]
    tree.put(f"proc/{pid}/status", "\n".join(lines))
    tree.put(f"proc/{pid}/statm", f"{kib // 2} {kib // 4} 1 1 0 1 0")
    tree.put(f"proc/{pid}/maps", f"00000000-{mib << 20:08x} rw-p 00000000 00:00 0 [heap]")
    entries = array("Q")
    places = mib // 2
    for place in range(places):
        base = (1 << 18) + 100 if place < slow * places else 100
        entries.extend((1 << 63) | (base + i) for i in range(512))
    (tree.root / f"proc/{pid}/pagemap").write_bytes(entries.tobytes())


def machine(tmp_path: Path) -> Tree:
    """Two nodes of 1 GiB: frames 1 to 2^18, and the rest."""
    return build(tmp_path, replace(OURS, nodes=SMALL))


def test_process_by_tier_is_exact_if_all_places_are_read(tmp_path: Path) -> None:
    tree = machine(tmp_path)
    process(tree, 4711, 0.25)
    (found,) = top.by_process(Stepping(tree), None, 9, 128).data.processes
    assert (found.name, found.total, found.slow, found.error) == ("redis", 64 << 20, 16 << 20, 0)
    assert (found.places, found.all_places, found.samples) == (32, 32, 32 * 512)


def test_process_of_many_places_has_an_interval_that_holds(tmp_path: Path) -> None:
    tree = machine(tmp_path)
    held = 0
    for pid in range(4700, 4720):
        process(tree, pid, 0.25)
    for found in top.by_process(Stepping(tree), None, 20, 16).data.processes:
        assert found.slow is not None and found.error and found.places == 16
        held += abs(found.slow - (16 << 20)) <= found.error
    assert held >= 17


def test_process_reads_one_page_table_at_a_time(tmp_path: Path) -> None:
    tree = machine(tmp_path)
    process(tree, 4711, 0.5)
    sizes: list[int] = []
    found = Stepping(tree)
    plain = found.pread

    def pread(path: str, size: int, offset: int) -> bytes:
        sizes.append(size)
        return plain(path, size, offset)

    found.pread = pread  # type: ignore[method-assign]
    top.by_process(found, None, 9, 128)
    assert set(sizes) == {4096} and len(sizes) == 32


def test_frame_numbers_that_the_kernel_hides_are_unknown(tmp_path: Path) -> None:
    tree = machine(tmp_path)
    process(tree, 4711, 0.5)
    (tmp_path / "proc/4711/pagemap").write_bytes(array("Q", [1 << 63] * 512 * 32).tobytes())
    reply = top.by_process(Stepping(tree), None, 9, 128)
    (found,) = reply.data.processes
    assert (found.fast, found.slow) == (None, None) and "run as root" in (found.why or "")
    text = "\n".join(top.draw_processes(reply, Style()))
    assert "64.0M" in text and "?" in text and "root" in text


def test_process_that_may_not_be_read_or_ends_is_unknown(tmp_path: Path) -> None:
    tree = machine(tmp_path)
    process(tree, 4711, 0.5)
    process(tree, 4712, 0.5, mib=32)
    found = Stepping(tree)
    found.denied = ("/proc/4711/maps",)
    (tmp_path / "proc/4712/status").unlink()
    first, second = top.by_process(found, None, 9, 128).data.processes
    assert "denied" in (first.why or "") and second.why == "it has ended"
    found.denied = ("/proc/4711/pagemap",)
    assert "denied" in (top.by_process(found, None, 1, 128).data.processes[0].why or "")


def test_process_with_hugetlb_pages_counts_them(tmp_path: Path) -> None:
    tree = machine(tmp_path)
    process(tree, 4711, 0.5, HugetlbPages="65536 kB")
    (found,) = top.by_process(Stepping(tree), None, 9, 128).data.processes
    assert found.total == 128 << 20 and found.slow == 64 << 20


def test_processes_of_a_group_come_from_it_and_from_those_below(tmp_path: Path) -> None:
    tree = machine(tmp_path)
    process(tree, 5002, 0.5)
    process(tree, 77, 1.0)
    tree.put("sys/fs/cgroup/system.slice/service0000.service/below/cgroup.procs", 77)
    reply = top.by_process(Stepping(tree), "service0000.service", 9, 128)
    assert {one.pid for one in reply.data.processes} == {77, 5002}
    assert max(map(len, top.draw_processes(reply, Style()))) <= 80
