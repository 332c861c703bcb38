# SPDX-License-Identifier: GPL-2.0
"""Machines as data: what QEMU is told, without a guest."""

from __future__ import annotations

import dataclasses
import subprocess

import pytest

from lab import topology
from lab.errors import LabError
from lab.topology import Topology


@pytest.fixture
def machine() -> Topology:
    return topology.load("two-sockets")


def said(machine: Topology, what: str) -> list[str]:
    return [arg for arg in machine.qemu_args() if what in arg]


def test_every_topology_is_valid() -> None:
    assert {"two-tier", "two-sockets"} <= set(topology.names())
    for name in topology.names():
        assert topology.load(name).fast[0] == 0


def test_each_socket_has_its_nodes_and_cpus(machine: Topology) -> None:
    assert machine.fast == [0, 1]
    assert [machine.socket(number) for number in range(4)] == [0, 1, 0, 1]
    assert [machine.socket_of_cpu(cpu) for cpu in range(machine.vcpus)] == [0, 0, 1, 1]
    with pytest.raises(LabError, match="4 CPUs only"):
        machine.socket_of_cpu(4)
    assert said(machine, "sockets=") == ["sockets=2,cores=2,threads=1"]
    assert [arg.partition("mem1,")[2] for arg in said(machine, "nodeid=1")] == [
        "cpus=2-3,initiator=1"
    ]
    larger = topology.load("two-sockets", fast0_cpus=4, fast1_cpus=4)
    assert larger.socket_of_cpu(4) == 1
    assert said(larger, "sockets=") == ["sockets=2,cores=4,threads=1"]


def test_nearer_memory_is_faster_memory(machine: Topology) -> None:
    """Local DRAM, remote DRAM, the own slow node, the other's: by latency and by distance."""
    for socket, order in ((0, [0, 1, 2, 3]), (1, [1, 0, 3, 2])):
        latencies = [machine.latency_ns(socket, node) for node in order]
        assert latencies == [100, 180, 250, 330]
        assert [machine.distance(socket, node) for node in order[1:]] == [
            latency // 10 for latency in latencies[1:]
        ]
        assert [machine.bandwidth_gbs(socket, node) for node in order] == [200, 100, 32, 32]


def test_hmat_and_slit_tell_every_pair(machine: Topology) -> None:
    latencies = said(machine, "access-latency")
    assert len(latencies) == len(said(machine, "access-bandwidth")) == 2 * 4
    assert "initiator=1,target=2," in latencies[5] and latencies[5].endswith("latency=330")
    distances = {tuple(arg.split(",")[1:]) for arg in said(machine, "dist,")}
    assert len(distances) == 4 * 3
    for one in range(4):
        for other in range(4):
            assert machine.distance(one, other) == machine.distance(other, one)


def test_fast_nodes_are_one_tier_and_slow_nodes_another(machine: Topology) -> None:
    """As Linux counts: from a node's own socket, a tier is 128 of a distance that DRAM has 576 of.

    (mt_perf_to_adistance(), and the chunks of include/linux/memory-tiers.h)
    """
    tiers = []
    for number in range(4):
        near = machine.socket(number)
        slower = machine.latency_ns(near, number) / machine.latency_ns(0, 0)
        narrower = machine.bandwidth_gbs(0, 0) / machine.bandwidth_gbs(near, number)
        tiers.append(int(576 * slower * narrower) // 128)
    assert tiers[0] == tiers[1] < tiers[2] == tiers[3]


def test_one_socket_is_described_as_before() -> None:
    args = topology.load("two-tier").qemu_args()
    assert not any("sockets=" in arg for arg in args)
    assert [arg for arg in args if "dist," in arg or "latency" in arg] == [
        "dist,src=0,dst=1,val=20",
        "dist,src=1,dst=0,val=20",
        "hmat-lb,initiator=0,target=0,hierarchy=memory,data-type=access-latency,latency=100",
        "hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-latency,latency=250",
    ]


def test_impossible_machines_are_refused(machine: Topology) -> None:
    with pytest.raises(LabError, match="same number of CPUs"):
        machine.resized(fast0_cpus=4)
    with pytest.raises(LabError, match="as its initiator"):
        machine.resized(fast1_cpus=0)
    with pytest.raises(LabError, match="need hop_ns"):
        dataclasses.replace(machine, hop_gbs=0).check()
    first = dataclasses.replace(machine.nodes[0], plugged=True)
    with pytest.raises(LabError, match="last node"):
        dataclasses.replace(machine, nodes=(first, *machine.nodes[1:])).check()


def test_qemu_takes_the_machine(machine: Topology) -> None:
    """A machine that is never started: nodes, CPUs and the blocks of RAM are where we say."""
    argv = ["qemu-system-x86_64", "-S", "-machine", "q35", "-cpu", "max", "-accel", "tcg"]
    argv += ["-smp", str(machine.vcpus), "-m", f"{machine.memory_mb}M", "-nodefaults"]
    argv += ["-display", "none", "-monitor", "stdio", *machine.qemu_args()]
    done = subprocess.run(
        argv,
        input="info numa\ninfo ramblock\ninfo hotpluggable-cpus\nquit\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for number, cpus in enumerate(("0 1", "2 3")):
        assert f"node {number} cpus: {cpus}" in done.stdout
    # access.so takes a node's memory to begin where the sizes before it end.
    start = 0
    for number, node in enumerate(machine.nodes):
        line = next(line for line in done.stdout.splitlines() if f" mem{number} " in line)
        assert int(line.split()[3], 16) == start
        start += node.size_mb << 20
    assert done.stdout.count('socket-id: "1"') == 2


@pytest.mark.parametrize(
    ("cpus", "percent", "permille"), [(1, 100, 1000), (2, 25, 125), (3, 100, 334), (4, 1, 3)]
)
def test_permille_of_a_share_of_one_cpu_is_rounded_up(
    cpus: int, percent: int, permille: int
) -> None:
    """A share that is rounded down is less than the share of one CPU that a study asks for."""
    assert topology.load("two-tier", fast_cpus=cpus).permille(percent) == permille
