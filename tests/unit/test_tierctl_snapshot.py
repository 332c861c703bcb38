# SPDX-License-Identifier: GPL-2.0
"""tierctl's snapshot of a machine: what is hot or cold by node, rates, and why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_trees import DAMON, OURS, STOCK, Spec, Stepping, build, vmstat

from tierctl.core import paths
from tierctl.core.errors import LACKING, TierctlError
from tierctl.core.source import Live
from tierctl.model import snapshot
from tierctl.model.snapshot import FOUND, MGLRU, Sampler, Snapshot, twice
from tierctl.model.status import tiering
from tierctl.read import mechanisms

PAGE = 4096


def moving(tmp_path: Path, spec: Spec = OURS) -> Stepping:
    """A machine whose counters grow."""
    tree = build(tmp_path, spec)
    return Stepping(tree, lambda second: tree.put("proc/vmstat", vmstat(spec, second)))


def taken(tmp_path: Path, spec: Spec) -> Snapshot:
    """A machine, once."""
    return Sampler(moving(tmp_path, spec)).take()


# --- hot and cold ----------------------------------------------------------------


@pytest.mark.parametrize("bits", ["0x0000", "0x0002", "0x0004", "0x0006"])
def test_mglru_without_bit_0_is_off_so_that_cold_is_unknown(tmp_path: Path, bits: str) -> None:
    found = taken(tmp_path, replace(STOCK, mglru=bits))
    assert found.lruvecs is None and found.use == {} and found.mechanisms.mglru_on is False
    assert (found.cold_total().bytes, found.hot_total().bytes, found.hot_by) == (None, None, None)
    for name in ("cold_on_fast", "hot_on_slow"):
        assert found.sources[name] == snapshot.OFF


def test_mglru_whose_switch_is_absent_is_tried(tmp_path: Path) -> None:
    found = taken(tmp_path, replace(STOCK, mglru=None))
    assert found.mechanisms.mglru_on is None and found.hot_by == MGLRU
    assert found.cold_total().bytes and found.sources["cold_on_fast"].state == "ok"


def test_hot_that_waits_is_exact_by_node(tmp_path: Path) -> None:
    found = taken(tmp_path, OURS)
    assert found.hot_by == FOUND and found.hot[2].bytes == 550_000 * PAGE
    assert found.hot_total().looked_s is None and found.sources["hot_on_slow"].state == "ok"


def test_node_that_does_not_tell_its_hot_pages_does_not_count_as_0(tmp_path: Path) -> None:
    source = moving(tmp_path, replace(OURS, nodes=(*OURS.nodes, OURS.nodes[2])))
    (tmp_path / "sys/kernel/mm/tier/node3/hot").unlink()
    found = Sampler(source).take()
    assert found.hot_by == MGLRU and found.sources["hot_on_slow"].estimate


def test_unknown_hot_and_cold_have_a_state_that_says_why(tmp_path: Path) -> None:
    found = taken(tmp_path, replace(STOCK, looked_s=9000))  # each generation is old
    assert found.hot_total().bytes is None
    assert found.sources["hot_on_slow"].state == snapshot.NOT_HOT
    tree = build(tmp_path / "b", STOCK)
    lines = "\n".join(f" node {node}\n 1 9000 5 5 \n 2 9000 1 1 " for node in range(3))
    tree.put("sys/kernel/debug/lru_gen", f"memcg 1 /\n{lines}")
    found = Sampler(Stepping(tree)).take()
    assert found.cold_total().bytes is None
    assert found.sources["cold_on_fast"].state == snapshot.NOT_COLD


def test_node_that_is_unknown_beside_one_that_is_known_is_none(tmp_path: Path) -> None:
    tree = build(tmp_path, STOCK)
    rows = " node 0\n 1 200000 5 5 \n 2 100000 1 1 \n 3 9000 1 1 \n node 1\n 1 9 7 7 "
    tree.put("sys/kernel/debug/lru_gen", f"memcg 1 /\n{rows}")
    found = Sampler(Stepping(tree)).take()
    assert found.cold[0].bytes == 5 * PAGE and found.cold[1].bytes is None
    assert found.sources["cold_on_fast"].state == "ok"


def test_memory_that_can_go_nowhere_is_unknown_until_we_look(tmp_path: Path) -> None:
    source = moving(tmp_path, replace(STOCK, swap_free=0))  # the slow node demotes to none
    found = Sampler(source).take()
    assert found.blind == {2} and found.cold_total().bytes
    known, note = found.hot_total(), found.sources["hot_on_slow"]
    assert known.unknown_bytes > (known.bytes or 0)
    assert (note.state, note.todo) == (snapshot.BLIND, snapshot.LOOK)
    looked = Path(f"{tmp_path}{paths.LOOKED}")
    looked.parent.mkdir(parents=True)
    looked.write_text(f"{source.now - 21} {source.now - 20} ")
    found = Sampler(source).take()
    assert (found.hot_total().bytes or 0) > (known.bytes or 0)
    assert found.sources["hot_on_slow"].state == "ok"


def test_need_tiers_says_what_is_missing(tmp_path: Path) -> None:
    source = moving(tmp_path, STOCK)
    Sampler(source).take().need_tiers()
    (tmp_path / "sys/devices/system/node/has_cpu").unlink()
    found = Sampler(source).take()
    assert found.cold == {} and found.sources["cold_on_fast"] == found.machine.sources["tiers"]
    with pytest.raises(TierctlError, match=r"which nodes are slow is not known.*has_cpu") as error:
        found.need_tiers()
    assert error.value.code == LACKING


def test_lru_is_read_seldom_and_its_age_grows(tmp_path: Path) -> None:
    source = moving(tmp_path, STOCK)
    sampler = Sampler(source, lru_every=60)
    first = sampler.take()
    source.wait(30)
    second = sampler.take()
    assert source.reads["/sys/kernel/debug/lru_gen"] == 1
    assert first.looked_s and second.looked_s == first.looked_s + 30
    source.wait(30)
    assert sampler.take().looked_s == first.looked_s


# --- promoters -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "by", "on"),
    [
        (OURS, ["promote"], True),
        (replace(OURS, parts_off=("scan",)), [], False),  # promote moves what scan has found
        (replace(OURS, parts_off=("promote",)), [], False),
        (STOCK, ["numa_balancing"], True),
        (DAMON, ["damon"], True),
        (replace(OURS, numa_balancing=2, damon="migrate_hot"), [], True),
    ],
)
def test_promoters_are_the_same_for_each_command(
    tmp_path: Path, spec: Spec, by: list[str], on: bool
) -> None:
    found = mechanisms.read(moving(tmp_path, spec))
    by = by or (["promote", "numa_balancing", "damon"] if on else [])
    assert (tiering(found).by, tiering(found).on) == (by, on)
    assert found.promoters() == frozenset(by) and found.unknown_promoter() is None


def test_promoter_that_may_not_be_looked_at_is_unknown(tmp_path: Path) -> None:
    source = moving(tmp_path, replace(DAMON, damon="migrate_hot"))
    source.denied = (f"{paths.KDAMONDS}/0/state",)
    found = mechanisms.read(source)
    assert found.unknown_promoter() is not None and tiering(found).on is None
    source.denied = (paths.BALANCING,)
    note = mechanisms.read(source).unknown_promoter()
    assert note is not None and note.state.startswith("denied")


# --- rates -----------------------------------------------------------------------


def test_twice_has_rates_of_the_time_between(tmp_path: Path) -> None:
    found = twice(moving(tmp_path), 2)
    assert found.flow and found.flow.interval_s == 2 and found.flow.up_bytes_per_s == 212 << 20
    assert found.cost and found.cost.threads["scan"] == 8 and found.sources["cost"].state == "ok"


def test_first_sample_has_no_rate_and_says_why(tmp_path: Path) -> None:
    source = moving(tmp_path)
    sampler = Sampler(source)
    first = sampler.take()
    assert (first.flow, first.cost) == (None, None) and first.sources["flow"] == snapshot.SOON
    source.wait(1)
    assert sampler.take().flow is not None
    source.live = False
    assert Sampler(source).take().sources["cost"] == snapshot.ALONE


def test_clock_that_was_set_changes_no_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, OURS)
    sampler = Sampler(Live(str(tmp_path)))
    first = sampler.take()
    monkeypatch.setattr("time.time", lambda: first.time - 3600)
    found = sampler.take()
    assert found.time == first.time - 3600
    assert found.flow is not None and 0 < found.flow.interval_s < 60
