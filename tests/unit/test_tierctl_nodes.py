# SPDX-License-Identifier: GPL-2.0
"""tierctl's nodes, tiers, distances, and `tierctl why`."""

from __future__ import annotations

import ctypes
import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_trees import FAST, OLD, OURS, PLAIN, SLOW, STOCK, Spec, Stepping, build

from tierctl.commands import why
from tierctl.core import paths
from tierctl.core.errors import LACKING, TierctlError
from tierctl.core.text import Style
from tierctl.read import distance, mechanisms, nodes
from tierctl.read.distance import DRAM, Reference
from tierctl.read.nodes import Access, Machine, Node

# The expression of mt_perf_to_adistance(), with the types of the kernel
FORMULA = """
#define CHUNK_SIZE (1 << 7)
#define DRAM ((4L * CHUNK_SIZE) + (CHUNK_SIZE >> 1))
struct access { unsigned int read_bandwidth, write_bandwidth, read_latency, write_latency; };
int formula(struct access *perf, struct access *dram)
{
	return DRAM *
		(perf->read_latency + perf->write_latency) /
		(dram->read_latency + dram->write_latency) *
		(dram->read_bandwidth + dram->write_bandwidth) /
		(perf->read_bandwidth + perf->write_bandwidth);
}
int differs(struct access *perf, struct access *dram)
{
	long d = (int)(perf->read_latency - dram->read_latency);
	return (d < 0 ? -d : d) * 10 > dram->read_latency;
}
"""


class CAccess(ctypes.Structure):
    """struct access_coordinate."""

    _fields_ = (
        ("read_bandwidth", ctypes.c_uint),
        ("write_bandwidth", ctypes.c_uint),
        ("read_latency", ctypes.c_uint),
        ("write_latency", ctypes.c_uint),
    )


def source(tmp_path: Path, spec: Spec) -> Stepping:
    """A made-up machine."""
    return Stepping(build(tmp_path / "root", spec))


def filled(found: Stepping) -> tuple[Machine, Reference]:
    """The nodes with distances."""
    machine = nodes.read(found)
    return machine, distance.fill(found, machine)


# --- the formula -----------------------------------------------------------------


def test_formula_is_the_compiler_s_for_any_figures(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(FORMULA)
    argv = ["gcc", "-shared", "-fPIC", "-o", str(tmp_path / "f.so"), str(tmp_path / "f.c")]
    subprocess.run(argv, check=True)
    library = ctypes.CDLL(str(tmp_path / "f.so"))
    choose = random.Random(1)
    for _ in range(2000):
        both = [
            Access(
                *(choose.randint(1, 3000) for _ in "rw"),
                *(choose.randint(1, 400_000) for _ in "rw"),
            )
            for _ in "nd"
        ]
        native = [
            CAccess(one.read_bandwidth, one.write_bandwidth, one.read_latency, one.write_latency)
            for one in both
        ]
        expected = library.formula(*map(ctypes.byref, native))
        found = distance.formula(*both)
        assert found is not None
        assert ctypes.c_int(found).value == expected  # int *adist


def test_formula_divides_from_left_to_right() -> None:
    assert distance.formula(Access(50, 50, 2, 1), Access(38, 37, 4, 3)) == 768 * 7 // 3
    assert distance.formula(Access(1, 0, 7, 0), Access(1000, 0, 6999, 0)) == 0


def test_formula_with_nothing_to_divide_by_gives_no_distance() -> None:
    good = Access(100, 100, 9, 9)
    for bad in (Access(0, 0, 9, 9), Access(100, 100, 0, 0)):
        assert distance.formula(bad, good) is None
        assert distance.formula(good, bad) is None


def test_dax_default_is_tier_22() -> None:
    assert distance.DAX == 2880 and distance.tier_of(distance.DAX) == 22
    assert DRAM == 576 and distance.tier_of(DRAM) == 4


def node(number: int, access: tuple[int, int, int, int] | None, cpu: bool = True) -> Node:
    """A node of which the reference asks nothing else."""
    figures = Access(*access) if access else None
    return Node(number, "fast", 4, cpu, 1, 1, 0, None, figures)


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        ([100, 110], Reference(0)),
        ([100, 111], Reference(0, mismatch=1)),
        ([100, 90], Reference(0)),
        ([100, 89], Reference(0, mismatch=1)),
        ([0, 100], Reference(None, empty=0)),
        ([100, 0], Reference(0, empty=1)),
        ([None, 100], Reference(1)),
        ([None, None], Reference(None)),
    ],
)
def test_reference_is_the_first_dram_node_unless_another_differs(
    latencies: list[int | None], expected: Reference
) -> None:
    found = [
        node(i, None if one is None else (one, one, 1000, 1000)) for i, one in enumerate(latencies)
    ]
    assert distance.reference(found) == expected
    assert distance.reference([*found, node(9, (1, 1, 1, 1), False)]) == expected


# --- machines --------------------------------------------------------------------


def test_our_kernel_tells_distance_source_and_targets(tmp_path: Path) -> None:
    machine, base = filled(source(tmp_path, OURS))
    slow = machine.nodes[2]
    assert (slow.tier, slow.tier_number, slow.distance) == ("slow", 44, 5639)
    assert (slow.distance_from, slow.origin, slow.targets) == ("kernel", "hmat", [])
    assert machine.nodes[0].targets == [2] and base.node == 0 and machine.page == 4096


def test_stock_kernel_has_the_same_by_the_formula(tmp_path: Path) -> None:
    machine, _ = filled(source(tmp_path, STOCK))
    slow = machine.nodes[2]
    assert (slow.distance, slow.distance_from, slow.origin) == (5639, "formula", "hmat")
    assert machine.nodes[0].targets is None and slow.targets is None  # dmesg has them
    assert machine.sources["distance"].estimate


def test_memory_of_a_cxl_region_is_told_from_hmat(tmp_path: Path) -> None:
    machine, _ = filled(source(tmp_path, replace(OURS, cxl=(2,))))
    assert [one.origin for one in machine.nodes] == ["hmat", "hmat", "cdat"]


def test_node_of_kmem_without_figures_has_the_default_of_dax(tmp_path: Path) -> None:
    machine, _ = filled(source(tmp_path, OLD))
    slow = machine.nodes[1]
    assert (slow.distance, slow.distance_from, slow.origin) == (2880, "default", "dax")
    assert slow.device == "dax0.0" and slow.access is None


def test_distance_that_does_not_fit_the_tier_is_unknown(tmp_path: Path) -> None:
    wrong = replace(STOCK, nodes=(FAST, FAST, replace(SLOW, tier=50)))
    machine, _ = filled(source(tmp_path, wrong))
    slow = machine.nodes[2]
    assert (slow.distance, slow.origin) == (None, "unknown")


def test_all_tiers_down_to_the_slowest_with_cpus_are_fast(tmp_path: Path) -> None:
    hbm = replace(FAST, gib=64, tier=2, cpus=False)
    machine, _ = filled(source(tmp_path, replace(STOCK, nodes=(FAST, hbm, SLOW))))
    assert [one.tier for one in machine.nodes] == ["fast", "fast", "slow"]
    assert machine.top == 4
    machine, _ = filled(source(tmp_path / "b", replace(STOCK, nodes=(replace(SLOW, cpus=True),))))
    assert machine.nodes[0].tier == "fast"


def test_kernel_without_tiers_says_nothing_of_tiers(tmp_path: Path) -> None:
    found = source(tmp_path, STOCK)
    for one in (tmp_path / "root" / paths.TIERS[1:]).iterdir():
        if one.is_dir():
            (one / "nodelist").unlink()
            one.rmdir()
        else:
            one.unlink()
    (tmp_path / "root" / paths.TIERS[1:]).rmdir()
    machine, _ = filled(found)
    assert machine.tiers is None and {one.tier for one in machine.nodes} == {None}
    assert "absent" in machine.sources["tiers"].state


def test_zoneinfo_of_many_cpus_gives_zones_and_watermarks(tmp_path: Path) -> None:
    machine, _ = filled(source(tmp_path, replace(STOCK, cpus=64)))
    assert [zone.name for zone in machine.zones] == ["Normal", "Normal", "Movable"]
    assert machine.zones[0].high == 60_000
    free = machine.zones[0].free
    assert nodes.room(machine, 0, False) == (free - 60_000) * 4096


def test_zoneinfo_without_watermarks_gives_unknown_room(tmp_path: Path) -> None:
    found = source(tmp_path, STOCK)
    file = tmp_path / "root/proc/zoneinfo"
    lines = file.read_text().split("\n")
    file.write_text("\n".join(one for one in lines if "high     " not in one))
    machine, _ = filled(found)
    assert machine.zones[0].high is None and nodes.room(machine, 0, False) is None


@pytest.mark.parametrize(
    ("swap_free", "swappiness", "demotion", "blind"),
    [
        (0, 60, "false", {0, 1, 2}),
        (0, 60, "true", {2}),  # no node is slower than the slow one
        (1 << 20, 60, "false", set()),
        (100, 60, "false", {0, 1, 2}),  # KiB: less than a batch
        (1 << 20, 0, "true", {0, 1, 2}),
        (None, 60, "false", set()),
    ],
)
def test_nodes_whose_anonymous_pages_go_nowhere_are_blind(
    tmp_path: Path, swap_free: int | None, swappiness: int, demotion: str, blind: set[int]
) -> None:
    found = source(tmp_path, replace(STOCK, demotion=demotion, swap_free=swap_free))
    (tmp_path / "root/proc/sys/vm").mkdir()
    (tmp_path / "root/proc/sys/vm/swappiness").write_text(f"{swappiness}\n")
    machine, working = nodes.read(found), mechanisms.read(found)
    assert nodes.blind(found, machine, working.demotes()) == blind


@pytest.mark.parametrize("text", [None, "", "Node 0, zone Normal", "x\nNode 0, zone  DMA\n  pages"])
def test_zones_of_a_damaged_text_are_none(text: str | None) -> None:
    assert nodes.zones(text) == []


def test_unpopulated_zones_are_left_out() -> None:
    text = (
        "Node 0, zone   Device\n  pages free     0\n        min      0\n        spanned  0\n"
        "        managed  0\n        cma      0\n        protection: (0, 0)\n"
    )
    assert nodes.zones(text) == []


# --- why -------------------------------------------------------------------------


def screen(found: Stepping, number: int) -> str:
    """The screen of why."""
    return "\n".join(why.draw(why.answer(found, number), Style()))


def test_why_shows_the_formula_with_its_result(tmp_path: Path) -> None:
    text = screen(source(tmp_path, OURS), 2)
    assert "576 x 428 / 190 x 400000 / 92000 = 5639" in text
    assert "Distance 5639, from figures of the firmware (ACPI HMAT)" in text
    assert max(map(len, text.split("\n"))) <= 80


def test_why_of_different_dram_nodes_names_them(tmp_path: Path) -> None:
    other = replace(FAST, access=(120, 120, 200_000, 200_000))
    slow = replace(SLOW, tier=4, distance=576, source="dram")
    text = screen(source(tmp_path, replace(OURS, nodes=(FAST, other, slow))), 2)
    assert "DRAM nodes 0 and 1 differ by more than 10 %" in " ".join(text.split())
    assert "node 2: fast, tier 4" in text
    assert "The kernel must learn that the node is slow" in text


def test_why_of_a_dram_node_without_figures_says_that_hmat_is_not_used(tmp_path: Path) -> None:
    empty = replace(FAST, access=(0, 0, 200_000, 200_000))
    spec = replace(STOCK, nodes=(FAST, empty, replace(SLOW, tier=4)))
    text = " ".join(screen(source(tmp_path, spec), 2).split())
    assert "DRAM node 1 has no figures, so the kernel does not use those of HMAT" in text


def test_why_of_a_default_and_of_a_plain_machine(tmp_path: Path) -> None:
    text = " ".join(screen(source(tmp_path, OLD), 1).split())
    assert "Distance 2880, taken from the tier" in text
    assert "the default of the driver kmem for dax0.0" in text
    assert "The formula is not used: the firmware gives no figures of node 1." in text
    assert "Nothing: the slowest tier with CPUs" in screen(source(tmp_path / "b", PLAIN), 0)


def test_why_of_targets_says_whether_demotion_is_on(tmp_path: Path) -> None:
    on = replace(OURS, demotion="true")
    assert "demotes its pages to node 2." in screen(source(tmp_path, on), 0)
    off = replace(OURS, enabled=0)
    assert "node 2 (demotion is off now)." in screen(source(tmp_path / "b", off), 0)
    assert "dmesg | grep" in screen(source(tmp_path / "c", STOCK), 0)


def test_why_of_a_node_that_does_not_exist_names_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(TierctlError, match=r"node 7 does not exist.*; nodes: 0-2"):
        why.answer(source(tmp_path, OURS), 7)


def test_why_without_numa_is_lacking(tmp_path: Path) -> None:
    (tmp_path / "root/proc").mkdir(parents=True)
    with pytest.raises(TierctlError) as found:
        why.answer(Stepping(build(tmp_path / "other", replace(PLAIN, nodes=()))), 0)
    assert found.value.code == LACKING
