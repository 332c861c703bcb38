# SPDX-License-Identifier: GPL-2.0
"""tierctl's rates: what moves, by which mechanism, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_trees import DAMON, OLD, OURS, STOCK, Spec, Stepping, Tree, build, stat, vmstat

from tierctl.core import paths
from tierctl.core.errors import as_root
from tierctl.read import counters, mechanisms, threads
from tierctl.read.counters import Flow

MIB = 1 << 20


def between(
    tmp_path: Path, spec: Spec, text: str | None = None, alone: bool = True
) -> tuple[Flow, Stepping]:
    """The flow of a second in which the counters grow."""
    tree = build(tmp_path, spec)
    source = Stepping(tree, lambda second: tree.put("proc/vmstat", text or vmstat(spec, second)))
    working = mechanisms.read(source)
    before = counters.take(source, working)
    source.wait(1)
    after = counters.take(source, working)
    return counters.between(before, after, working, 4096, alone), source


def moves(found: Flow) -> dict[str, float | None]:
    """Bytes a second by direction and mechanism."""
    up = {f"up {by}": value for by, value in found.up.items()}
    return up | {f"down {by}": value for by, value in found.down.items()}


def test_our_promotions_are_taken_out_of_pgpromote_success(tmp_path: Path) -> None:
    found, _ = between(tmp_path, OURS)
    assert moves(found) == {
        "up promote": 212 * MIB,
        "down promote": 0,
        "down kswapd": 208 * MIB,
        "down direct": 0,
        "down khugepaged": 0,
    }
    assert (found.up_bytes_per_s, found.down_bytes_per_s) == (212 * MIB, 208 * MIB)
    up, down = 1_000_000 + 54_272, 900_000 + 53_248 + 1_000
    assert (found.up_bytes, found.down_bytes) == (up * 4096, down * 4096)  # since boot
    assert found.again_share == pytest.approx(0.004, rel=0.01)


def test_counters_that_lag_a_little_make_no_mover(tmp_path: Path) -> None:
    def rows(second: int) -> str:
        old, new = f"pgpromote_success {1_000_000 + 54_272 * second}", 1_000_000 + 55_000 * second
        return vmstat(spec, second).replace(old, f"pgpromote_success {new}")

    spec = replace(OURS, numa_balancing=2)
    found, _ = between(tmp_path, spec, rows(1))
    assert moves(found)["up numa_balancing"] == 0
    found, _ = between(tmp_path / "b", spec, rows(1).replace("1055000", "1060000"))
    assert moves(found)["up numa_balancing"] == (60_000 - 54_272) * 4096
    found, _ = between(tmp_path / "c", OURS, rows(1).replace("1055000", "1060000"))
    assert "up numa_balancing" not in moves(found)


def test_stock_promotions_are_numa_balancing_s(tmp_path: Path) -> None:
    found, _ = between(tmp_path, STOCK)
    assert moves(found)["up numa_balancing"] == found.up_bytes_per_s == 212 * MIB
    assert found.hint_faults_per_s == 4000 and found.again_share is None


def test_mode_1_moves_up_what_it_migrates_if_one_node_is_fast(tmp_path: Path) -> None:
    spec = replace(STOCK, numa_balancing=1)
    rows = "numa_pages_migrated 0\npgpromote_success 0\npgdemote_kswapd 0\npgdemote_direct 0"
    for name, alone, moved, rate in (
        ("one", True, 256, MIB),
        ("two", False, 256, None),
        ("none", False, 0, 0),
    ):
        tree = build(tmp_path / name, spec)
        tree.put("proc/vmstat", rows)
        source = Stepping(tree)
        working = mechanisms.read(source)
        before = counters.take(source, working)
        tree.put("proc/vmstat", rows.replace("migrated 0", f"migrated {moved}"))
        source.wait(1)
        found = counters.between(before, counters.take(source, working), working, 4096, alone)
        assert moves(found)["up numa_balancing"] == found.up_bytes_per_s == found.up_bytes == rate
        note = counters.notes(source, found, working)["flow"]
        assert ("together" in note.state) is (rate is None)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_total_since_boot_is_one_in_each_mode_if_one_node_is_fast(
    tmp_path: Path, mode: int
) -> None:
    rows = "numa_pages_migrated 900\npgpromote_success 300\npgdemote_kswapd 0"
    found, _ = between(tmp_path, replace(STOCK, numa_balancing=mode), rows, alone=True)
    assert found.up_bytes == 900 * 4096  # pgpromote_success has those of mode 2 only


@pytest.mark.parametrize(("moved", "total"), [(300, 300), (301, 300), (900, None)])
def test_total_since_boot_with_moves_between_fast_nodes_is_unknown(
    tmp_path: Path, moved: int, total: int | None
) -> None:
    rows = f"numa_pages_migrated {moved}\npgpromote_success 300\npgdemote_kswapd 0"
    found, _ = between(tmp_path, replace(STOCK, numa_balancing=2), rows, alone=False)
    assert found.up_bytes == (None if total is None else total * 4096)


def test_mode_1_beside_the_part_promote_leaves_the_total_known(tmp_path: Path) -> None:
    spec = replace(OURS, numa_balancing=1)
    rows = f"numa_pages_migrated 0\n{vmstat(spec, 1)}".replace("migrated 0", "migrated 256")
    found, _ = between(tmp_path, spec, rows, alone=False)
    assert found.up_bytes_per_s == 212 * MIB


def test_kernel_without_the_counter_of_promotions_is_unknown_and_not_0(tmp_path: Path) -> None:
    rows = [one for one in vmstat(STOCK).split("\n") if "pgpromote" not in one]
    found, source = between(tmp_path, replace(STOCK, numa_balancing=0), "\n".join(rows))
    assert found.up_bytes_per_s is None
    note = counters.notes(source, found, mechanisms.read(source))["flow"]
    assert note.state == "no row of promotions in /proc/vmstat" and "pgpromote" in note.todo


def test_vmstat_that_vanishes_makes_all_rates_unknown(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    source = Stepping(tree, lambda second: (tmp_path / "proc/vmstat").unlink())
    working = mechanisms.read(source)
    before = counters.take(source, working)
    source.wait(1)
    found = counters.between(before, counters.take(source, working), working, 4096, True)
    assert (found.up_bytes_per_s, found.down_bytes_per_s, found.hint_faults_per_s) == (None,) * 3
    assert (found.up_bytes, found.down_bytes) == (None, None)
    assert counters.notes(source, found, working)["flow"].state == "absent: /proc/vmstat"


def test_counter_that_falls_gives_no_rate(tmp_path: Path) -> None:
    found, _ = between(tmp_path, STOCK, vmstat(STOCK, 0).replace("900000", "5"))
    assert moves(found)["down kswapd"] is None and found.down_bytes_per_s is None


def test_damon_that_does_not_count_makes_the_total_unknown(tmp_path: Path) -> None:
    found, source = between(tmp_path, DAMON)
    assert moves(found)["up damon"] is None and found.up_bytes_per_s is None
    assert found.up_bytes is None and found.down_bytes  # DAMON demotes nothing
    note = counters.notes(source, found, mechanisms.read(source))["damon"]
    assert "update_schemes_stats > /sys/kernel/mm/damon/admin/kdamonds/0/state" in note.todo


def test_damon_that_counts_is_shown(tmp_path: Path) -> None:
    tree = build(tmp_path, DAMON)
    place = "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/stats/sz_applied"
    source = Stepping(tree, lambda second: tree.put(place, (1 << 30) + second * 5 * MIB))
    working = mechanisms.read(source)
    before = counters.take(source, working)
    source.wait(1)
    found = counters.between(before, counters.take(source, working), working, 4096, True)
    assert moves(found)["up damon"] == 5 * MIB == found.up_bytes_per_s


def test_damon_that_may_not_be_read_makes_totals_unknown(tmp_path: Path) -> None:
    tree = build(tmp_path, DAMON)
    source = Stepping(tree)
    source.denied = (f"{paths.KDAMONDS}/nr_kdamonds", f"{paths.KDAMONDS}/0")
    working = mechanisms.read(source)
    assert working.damon is None
    before = counters.take(source, working)
    source.wait(1)
    found = counters.between(before, counters.take(source, working), working, 4096, True)
    assert found.up_bytes_per_s is None and moves(found)["up numa_balancing"] == 0
    assert counters.notes(source, found, working)["damon"].todo == as_root()


def test_no_kdamond_needs_no_root(tmp_path: Path) -> None:
    source = Stepping(build(tmp_path, STOCK))
    source.denied = (f"{paths.KDAMONDS}/nr_kdamonds",)
    assert mechanisms.read(source).damon == []


def test_old_kernel_has_no_row_of_khugepaged(tmp_path: Path) -> None:
    found, _ = between(tmp_path, OLD)
    assert "down khugepaged" not in moves(found) and found.down_bytes_per_s == 208 * MIB


# --- threads ---------------------------------------------------------------------


def searched(spec: Spec, tmp_path: Path) -> tuple[Stepping, dict[int, str] | None]:
    """The threads that the search finds."""
    source = Stepping(build(tmp_path, spec))
    return source, threads.find(source, len(spec.nodes))


@pytest.mark.parametrize("cpus", [1, 2, 3, 8, 64])
def test_search_finds_all_threads_whatever_the_cpus(tmp_path: Path, cpus: int) -> None:
    _, found = searched(replace(OURS, cpus=cpus), tmp_path)
    assert found is not None
    assert sorted(found.values()) == sorted(
        [f"kswapd{i}" for i in range(3)]
        + [
            f"{name}{tail}"
            for name in ("kmmscand0", "kmmscand1", "kpromoted2")
            for tail in ("", ":1", ":2", ":3")
        ]
    )


def test_search_reads_few_of_the_threads_of_many_cpus(tmp_path: Path) -> None:
    source, found = searched(replace(OURS, cpus=128), tmp_path)
    assert found and len(found) == 15
    read = sum("/comm" in path for path in source.reads)
    assert read < 128 + 128  # of more than 1,000; one kworker for each CPU comes behind kswapd


def test_search_that_jumped_too_far_reads_all(tmp_path: Path) -> None:
    tree = build(tmp_path, replace(OURS, cpus=16))
    tree.put("sys/devices/system/cpu/online", "0-511")  # many came later
    found = threads.find(Stepping(tree), 3)
    assert found is not None and len(found) == 15


def test_search_without_the_list_of_children_looks_at_low_pids(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    (tmp_path / "proc/2/task/2/children").unlink()
    found = threads.find(Stepping(tree), 3)
    assert found is not None and len(found) == 15


def test_container_without_kernel_threads_has_unknown_cost(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put("proc/2/task/2/children", "5 6 ")
    tree.put("proc/5/comm", "kswapd-not")
    source = Stepping(tree)
    assert threads.find(source, 1) is None
    found = threads.between(None, {}, {}, 1.0)
    assert set(found.cpu.values()) == {None}
    assert "container" in threads.note(source, None).todo


def test_cost_adds_the_threads_of_a_kind(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    source = Stepping(tree)
    found = threads.find(source, 3)
    assert found is not None
    before = threads.ticks(source, found)
    for pid, name in found.items():
        tree.put(f"proc/{pid}/stat", stat(pid, name, 107 if name.startswith("kmmscand") else 100))
    result = threads.between(found, before, threads.ticks(source, found), 2.0)
    assert result.cpu == {
        "scan": pytest.approx(8 * 0.07 / 2),
        "promote": 0,
        "kswapd": 0,
        "damon": 0,
    }
    assert result.threads == {"scan": 8, "promote": 4, "kswapd": 3, "damon": 0}


def test_thread_whose_pid_is_another_s_now_counts_for_nothing(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    source = Stepping(tree)
    found = {1000: "kswapd0"}
    tree.put("proc/1000/stat", stat(1000, "sh (kswapd0)", 100))
    assert threads.ticks(source, found) == {}
    tree.put("proc/1000/stat", "1000 (kswapd0) S 2")
    assert threads.ticks(source, found) == {}
    assert threads.between(found, {}, {}, 1.0).cpu["kswapd"] is None
