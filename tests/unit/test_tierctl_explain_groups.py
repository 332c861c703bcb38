# SPDX-License-Identifier: GPL-2.0
"""tierctl explain of a group and of a node, and of bundles without names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_process import (
    GROUP,
    MIB,
    NODES,
    PID,
    SMALL,
    Machine,
    answer,
    first,
    limited,
    machine,
    sizes,
)
from tierctl_trees import STOCK, Spec

from tierctl.commands import capture, explain
from tierctl.core import bundle as archive
from tierctl.core.bundle import Bundle
from tierctl.record.anon import Anonymizer

# --- groups and nodes -------------------------------------------------------------


def grouped(found: Machine, **rows: int) -> None:
    """What a group has on node 1, in MiB by row; 4 MiB of anon are on node 0."""
    values = {"anon": MIB, "file": 0, "kernel_stack": 0, "unevictable": 0, "file_dirty": 0} | rows
    lines = [f"{name} N0={4 << 20} N1={size << 20}" for name, size in values.items()]
    found.tree.put(f"sys/fs/cgroup{GROUP}/memory.numa_stat", "\n".join(lines))
    found.tree.put("sys/kernel/debug/lru_gen", "")


def test_group_has_exact_rows(tmp_path: Path) -> None:
    found = machine(tmp_path)
    grouped(found, file=16, kernel_stack=2, unevictable=3, file_dirty=5)
    data = answer(found, GROUP)
    got = {"kernel": 2, "mlock": 3, "dirty": 5, "unknown": 72}
    assert sizes(data) == got and data.slow == 82 << 20
    assert any("tierctl explain PID" in one for one in data.not_looked_at)


OTHER = PID + 1
BOUND = "02000000 bind:1 anon=4096 N0=1024 N1=4096 kernelpagesize_kB=4"


def processes(found: Machine, *texts: str | None, tables_kib: int = 9) -> None:
    """Two processes of the group, with the text of numa_maps, or None if that is not read."""
    found.tree.put(f"sys/fs/cgroup{GROUP}/cgroup.procs", f"{PID}\n{OTHER}")
    for pid, text in zip((PID, OTHER), texts, strict=True):
        found.tree.put(f"proc/{pid}/status", f"Name: x\nVmPTE: {tables_kib} kB")
        path = found.tree.root / f"proc/{pid}/numa_maps"
        path.unlink(missing_ok=True)
        if text is not None:
            found.tree.put(f"proc/{pid}/numa_maps", text)


def test_group_has_what_policies_of_its_processes_keep(tmp_path: Path) -> None:
    found = machine(tmp_path)
    grouped(found)
    prefers = "00000000 prefer:0 anon=9 N1=9 kernelpagesize_kB=4"
    huge = "04000000 bind:1 huge anon=2 N1=2 kernelpagesize_kB=2048"  # is not charged to it
    shared = "06000000 interleave:0-1 file=/dev/shm/a N1=512 kernelpagesize_kB=4"
    processes(found, f"{prefers}\n{BOUND}\n{huge}\n{shared}", BOUND.replace("bind", "prefer"))
    data = answer(found, GROUP)
    assert sizes(data) == {"policy": 16 + 2 + 16, "unknown": MIB - 34}
    assert "(bind:1, interleave:0-1, prefer:1)" in first(data, "policy").what
    assert first(data, "policy").at_most
    assert not any("policies" in one for one in data.not_looked_at)


@pytest.mark.parametrize(("text", "tables_kib", "read"), [(None, 9, 0), (BOUND, 1200, 1)])
def test_group_with_policies_that_are_not_read_says_so(
    tmp_path: Path, text: str | None, tables_kib: int, read: int
) -> None:
    found = machine(tmp_path)
    grouped(found)
    processes(
        found,
        BOUND.replace("bind:1", "default") if text is None else text,
        text,
        tables_kib=tables_kib,
    )
    data = answer(found, GROUP)
    assert sizes(data).get("policy", 0) == 16 * read
    assert any("policies of 1 of 2 processes: " in one for one in data.not_looked_at)
    if text:
        assert sizes(answer(found, GROUP, deep=True))["policy"] == 32


@pytest.mark.parametrize(
    ("path", "text", "cause"),
    [
        (f"sys/fs/cgroup{GROUP}/cpuset.mems.effective", "1", "cpuset"),
        (f"sys/fs/cgroup{GROUP}/memory.tier.max", "0", "limit-zero"),
        (f"proc/{PID}/status", "Name: x\nVmRSS: 9 kB\nTierScan:\t0", "opt-out"),
        ("sys/kernel/mm/tier/enabled", "0", "tier-off"),
    ],
)
def test_cause_of_a_whole_group_is_named(tmp_path: Path, path: str, text: str, cause: str) -> None:
    found = machine(tmp_path)
    grouped(found)
    found.tree.put(path, text)
    if cause == "tier-off":
        for part in ("scan", "promote"):
            found.tree.put(f"sys/kernel/mm/tier/{part}/state", "off")
    assert sizes(answer(found, GROUP)) == {cause: MIB}


def _limited(found: Machine) -> None:
    limited(found, 8 << 20, 7 << 20)


@pytest.mark.parametrize(
    ("spec", "make", "cause"),
    [
        (SMALL, _limited, "limit"),
        (replace(SMALL, nodes=(replace(NODES[0], free=0.2), NODES[1])), None, "full"),
        (replace(SMALL, parts_off=("promote",)), None, "observe"),
        (SMALL, None, "unknown"),
    ],
)
def test_what_keeps_hot_pages_of_a_group_is_named(
    tmp_path: Path, spec: Spec, make: Callable[[Machine], None] | None, cause: str
) -> None:
    found = machine(tmp_path, spec)
    grouped(found)
    if make:
        make(found)
    data = answer(found, GROUP)
    assert sizes(data) == {cause: MIB} and first(data, cause).at_most == (cause != "unknown")
    assert first(data, cause).what.startswith("not known" if cause == "unknown" else "if hot: ")


def aged(found: Machine) -> None:
    """On node 1, 2 MiB of three groups are cold, and 9 MiB were used in the last minute."""
    ages = [(9, 200_000, 512), (10, 150_000, 1024), (11, 30_000, 2048), (12, 10_000, 256)]
    rows = "".join(f" {at:10} {age:10} {anon:10}          0 \n" for at, age, anon in ages)
    text = "".join(
        f"memcg {at:5} {path}\n node     1\n{rows}"
        for at, path in enumerate((GROUP, f"{GROUP}/below", f"{GROUP}x"))
    )
    found.tree.put("sys/kernel/debug/lru_gen", text)


def test_group_has_what_mglru_knows_of_it_and_of_those_below(tmp_path: Path) -> None:
    found = machine(tmp_path)
    grouped(found)
    aged(found)
    data = answer(found, GROUP)
    assert sizes(data) == {"cold-lru": 4, "unknown": 60}
    assert "18.0M was used or is new in the last 60 s" in first(data, "unknown").what


def test_node_has_exact_rows_of_meminfo(tmp_path: Path) -> None:
    found = machine(tmp_path)
    rows = {"MemTotal": 1024, "MemFree": 512, "Active": 300, "Inactive": 100, "Unevictable": 12}
    rows |= {"Mlocked": 8, "Dirty": 10, "Writeback": 1, "Slab": 20, "PageTables": 5}
    lines = [f"Node 1 {name}:   {size << 10:8} kB" for name, size in rows.items()]
    found.tree.put("sys/devices/system/node/node1/meminfo", "\n".join(lines))
    place = "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
    found.tree.put(place, 16)
    got = sizes(answer(found, "node", "1"))
    assert {name: got[name] for name in ("kernel", "hugetlb", "off-lru", "mlock")} == {
        "kernel": 25,
        "hugetlb": 32,
        "off-lru": 43,
        "mlock": 8,
    }
    assert (got["unevictable"], got["dirty"], sum(got.values()) >= 508) == (4, 11, True)


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        (replace(SMALL, enabled=0), "tier-off"),
        (
            replace(SMALL, parts_off=("promote",), nodes=(NODES[0], replace(NODES[1], hot=9))),
            "observe",
        ),
        (replace(STOCK, nodes=NODES, numa_balancing=0), "no-promoter"),
        (replace(STOCK, nodes=NODES, numa_balancing=1), "balancing"),
        (replace(STOCK, nodes=NODES, numa_balancing=2), "hint-faults"),
    ],
)
def test_cause_of_a_node_is_named(tmp_path: Path, spec: Spec, cause: str) -> None:
    assert cause in sizes(answer(machine(tmp_path, spec), "node", "1"))


def test_groups_that_may_not_move_are_named_of_a_node_once(tmp_path: Path) -> None:
    found = machine(tmp_path)
    tree, base = found.tree, "sys/fs/cgroup/system.slice"
    tree.put(f"{base}/service0000.service/below/memory.numa_stat", f"anon N1={9 << 20}")
    tree.put(f"{base}/service0000.service/below/memory.tier.max", 0)
    tree.put(f"{base}/service0000.service/memory.numa_stat", f"anon N1={40 << 20}\nfile N1=0")
    tree.put(f"{base}/service0000.service/memory.tier.max", 0)
    tree.put(f"{base}/service0002.service/memory.numa_stat", f"anon N1={30 << 20}\nfile N1=0")
    tree.put(f"{base}/service0002.service/cpuset.mems.effective", "1")
    got = sizes(answer(found, "node", "1"))
    assert (got["limit-zero"], got["cpuset"]) == (40, 30)


@pytest.mark.parametrize(("used", "limit", "warm"), [(7 << 20, 18, 9), (0, 0, 27)])
def test_recent_memory_of_groups_at_their_limit_is_named_of_a_node(
    tmp_path: Path, used: int, limit: int, warm: int
) -> None:
    found = machine(tmp_path)
    aged(found)
    limited(found, 8 << 20, used)
    data = answer(found, "node", "1")
    got = sizes(data)
    assert (got.get("limit", 0), got["warm"], got["cold-lru"]) == (limit, warm, 6)
    if limit:
        one = first(data, "limit")
        assert one.at_most and one.what.startswith("if hot: service0000.service is at its limit")


def test_memory_of_a_limited_group_of_unknown_age_is_named_of_a_node(tmp_path: Path) -> None:
    found = machine(tmp_path)
    grouped(found)
    limited(found, 8 << 20, 7 << 20)
    one = first(answer(found, "node", "1"), "limit")
    assert one.bytes == MIB << 20 and one.at_most


def test_full_fast_node_says_what_waits_for_it(tmp_path: Path) -> None:
    nodes = (replace(NODES[0], free=0.2), replace(NODES[1], hot=1024))
    data = answer(machine(tmp_path, replace(SMALL, nodes=nodes), pushed=(512,)), "node", "0")
    one = first(data, "full-node")
    assert one.what == "node 0 takes no promotion: full; hot on slow: 4.0M" and data.slow == 0
    assert one.bytes == 0 and data.actions
    assert "found hot on slow nodes 4 MiB" in data.looked_at
    free = answer(machine(tmp_path / "b", SMALL), "node", "0")
    assert free.reasons == []
    assert any("free above the high watermark" in each for each in free.looked_at)


def test_hot_of_a_node_that_cannot_be_read_is_unknown_and_not_0(tmp_path: Path) -> None:
    nodes = (replace(NODES[0], free=0.2), replace(NODES[1], hot=1024))
    found = machine(tmp_path, replace(SMALL, nodes=nodes))
    found.denied = ("/sys/kernel/mm/tier/node1/hot",)
    data = answer(found, "node", "0")
    assert "found hot on slow nodes ?" in data.looked_at
    assert first(data, "full-node").what.endswith("hot on slow: ?")


def test_anonymous_bundle_has_no_names_and_explains_the_same(tmp_path: Path) -> None:
    found = machine(tmp_path / "root")
    tail = "00000000 08:01 77     /opt/secret/lib.so"
    found.tree.put(f"proc/{PID}/maps", f"00000000-04000000 rw-p {tail}")
    found.tree.put(f"proc/{PID}/numa_maps", "00000000 bind:1 file=/opt/secret/lib.so anon=9 N1=9")
    plain = answer(found)
    recorder = capture.record(found, 2, 10.0, [str(PID)])
    hidden = Anonymizer()
    samples = [hidden.sample(one) for one in recorder.samples]
    archive.save(tmp_path / "b", samples, "h", "k")
    content = "".join(f"{one.files}" for one in samples)
    assert "secret" not in content and "service0000" not in content and "redis" not in content
    assert "secret" in f"{recorder.samples[0].files}"
    got = explain.answer(Bundle(str(tmp_path / "b")), [str(PID)]).data
    assert sizes(got) == sizes(plain) == {"policy": MIB}
