# SPDX-License-Identifier: GPL-2.0
"""Machines as data: lab/topologies/*.toml turned into QEMU arguments.

A topology is a list of NUMA nodes.  A node with ``cpus = 0`` is a memory
device behind its ``initiator``.  Whether Linux sees it as a slower tier
depends on the HMAT alone: without one, a CPU-less node that is present at
boot counts as top tier (mm/memory-tiers.c) and nothing is ever promoted.

Each node with CPUs is a socket; a node without is behind the socket of its
``initiator``.  ``latency_ns``, ``bandwidth_gbs`` and ``distance`` are what a node
has from its own socket.  From another one, the link between them adds ``hop_ns``
and ``hop_distance``, and lets no more than ``hop_gbs`` through.

The memory of a node with ``plugged = true`` is a DIMM in a slot: Linux finds it,
and leaves it offline until somebody writes to its blocks' ``state``.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError

DIRECTORY = Path(__file__).parent / "topologies"


@dataclass(frozen=True)
class Node:
    """One NUMA node; latency and bandwidth are what the HMAT says of it, from its socket."""

    name: str
    size_mb: int
    cpus: int
    latency_ns: int
    bandwidth_gbs: int
    distance: int = 20
    initiator: int = 0
    plugged: bool = False


@dataclass(frozen=True)
class Topology:
    """A machine: its nodes in the order of their Linux node numbers."""

    name: str
    hmat: bool
    nodes: tuple[Node, ...]
    hop_ns: int = 0
    hop_gbs: int = 0
    hop_distance: int = 0

    @property
    def vcpus(self) -> int:
        return sum(node.cpus for node in self.nodes)

    def permille(self, percent: int) -> int:
        """A share of one CPU, in per mille of all CPUs, rounded up: see scan/cpu_permille."""
        return -(-percent * 10 // self.vcpus)

    @property
    def memory_mb(self) -> int:
        """What is there at boot."""
        return sum(node.size_mb for node in self.nodes if not node.plugged)

    @property
    def fast(self) -> list[int]:
        """The nodes that have CPUs; as many as there are sockets."""
        return [number for number, node in enumerate(self.nodes) if node.cpus]

    def socket(self, number: int) -> int:
        """The node with CPUs that a node belongs to: itself, or the one it is behind."""
        return number if self.nodes[number].cpus else self.nodes[number].initiator

    def socket_of_cpu(self, cpu: int) -> int:
        """The node that a CPU belongs to: QEMU is given them in the order of the nodes."""
        for number, node in enumerate(self.nodes):
            if cpu < node.cpus:
                return number
            cpu -= node.cpus
        raise LabError(f"topology {self.name} has {self.vcpus} CPUs only")

    def latency_ns(self, socket: int, target: int) -> int:
        """What a read from a socket's CPU takes."""
        far = self.socket(target) != socket
        return self.nodes[target].latency_ns + far * self.hop_ns

    def bandwidth_gbs(self, socket: int, target: int) -> int:
        """What a socket's CPUs get of a node."""
        node = self.nodes[target]
        far = self.socket(target) != socket
        return min(node.bandwidth_gbs, self.hop_gbs) if far else node.bandwidth_gbs

    def distance(self, one: int, other: int) -> int:
        """What the SLIT says of two nodes."""
        far = self.socket(one) != self.socket(other)
        return max(self.nodes[one].distance, self.nodes[other].distance) + far * self.hop_distance

    def node_id(self, name: str) -> int:
        """The Linux node number of a node by its name."""
        for number, node in enumerate(self.nodes):
            if node.name == name:
                return number
        raise LabError(
            f"topology {self.name} has no node named {name!r}",
            "its nodes are: " + ", ".join(node.name for node in self.nodes),
        )

    def resized(self, **sizes: int) -> Topology:
        """With other sizes: ``fast_mb=...``, ``slow_mb=...``, ``fast_cpus=...``."""
        nodes = {node.name: node for node in self.nodes}
        for key, value in sizes.items():
            name, _, what = key.rpartition("_")
            field = {"mb": "size_mb", "cpus": "cpus"}.get(what)
            if name not in nodes or field is None:
                raise LabError(
                    f"topology {self.name}: unknown size {key!r}",
                    "use NODE_mb or NODE_cpus with NODE one of " + ", ".join(nodes),
                )
            if not isinstance(value, int) or value < (0 if what == "cpus" else 64):
                raise LabError(f"topology {self.name}: {key} = {value!r} is too small")
            changed: dict[str, Any] = {field: value}
            nodes[name] = dataclasses.replace(nodes[name], **changed)
        resized = dataclasses.replace(self, nodes=tuple(nodes.values()))
        resized.check()
        return resized

    def check(self) -> None:
        """A LabError for what QEMU or Linux would not take, or take for something else."""
        problem = ""
        if any(node.plugged for node in self.nodes[:-1]):
            # QEMU's SRAT gives the memory that is to come to the last node.
            problem = "only the last node can be plugged"
        elif not all(self.socket(number) in self.fast for number in range(len(self.nodes))):
            problem = "a node without CPUs needs a node with CPUs as its initiator"
        elif len({self.nodes[number].cpus for number in self.fast}) > 1:
            problem = "QEMU's sockets all have the same number of CPUs"
        elif len(self.fast) > 1 and not (self.hop_ns and self.hop_gbs and self.hop_distance):
            problem = "several sockets need hop_ns, hop_gbs and hop_distance"
        if problem:
            raise LabError(f"topology {self.name}: {problem}")

    def qemu_args(self) -> list[str]:
        """The arguments that describe memory, nodes, distances and HMAT."""
        args: list[str] = []
        if self.hmat:
            args += ["-machine", "hmat=on"]
        if len(self.fast) > 1:
            # Added to the -smp that virtme-ng gives, by which all CPUs share one package
            # and its cache: Linux warns if such CPUs are on different nodes.
            cores = self.nodes[self.fast[0]].cpus
            args += ["-smp", f"sockets={len(self.fast)},cores={cores},threads=1"]
        cpu = 0
        for number, node in enumerate(self.nodes):
            args += ["-object", f"memory-backend-ram,id=mem{number},size={node.size_mb}M"]
            text = f"node,nodeid={number}"
            if node.plugged:
                # added to the -m that virtme-ng gives
                args += ["-m", f"slots=1,maxmem={self.memory_mb + node.size_mb}M"]
                args += ["-device", f"pc-dimm,memdev=mem{number},node={number}"]
            else:
                text += f",memdev=mem{number}"
            if node.cpus:
                text += f",cpus={cpu}-{cpu + node.cpus - 1}"
                cpu += node.cpus
            if self.hmat:
                text += f",initiator={number if node.cpus else node.initiator}"
            args += ["-numa", text]
        for src in range(len(self.nodes)):
            for dst in range(len(self.nodes)):
                if src != dst:
                    far = self.distance(src, dst)
                    args += ["-numa", f"dist,src={src},dst={dst},val={far}"]
        if self.hmat:
            for target in range(len(self.nodes)):
                for initiator in self.fast:
                    args += self._locality(initiator, target)
        return args

    def _locality(self, initiator: int, target: int) -> list[str]:
        head = f"hmat-lb,initiator={initiator},target={target},hierarchy=memory,data-type="
        return [
            "-numa",
            f"{head}access-latency,latency={self.latency_ns(initiator, target)}",
            "-numa",
            f"{head}access-bandwidth,bandwidth={self.bandwidth_gbs(initiator, target)}G",
        ]


def from_dict(data: dict[str, Any]) -> Topology:
    """What dataclasses.asdict() made of a topology, as it is in a result."""
    return Topology(**{**data, "nodes": tuple(Node(**node) for node in data["nodes"])})


def names() -> list[str]:
    """The topologies that exist."""
    return sorted(path.stem for path in DIRECTORY.glob("*.toml"))


def load(name: str, **sizes: int) -> Topology:
    """Read a topology by name and resize it."""
    path = DIRECTORY / f"{name}.toml"
    if not path.exists():
        raise LabError(f"no topology named {name!r}", "there are: " + ", ".join(names()))
    data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    hop = {"hop_ns", "hop_gbs", "hop_distance"} & set(data)
    unknown = set(data) - {"description", "hmat", "node"} - hop
    if unknown:
        raise LabError(f"{path.name}: unknown key {sorted(unknown)[0]!r}")
    try:
        nodes = tuple(Node(**node) for node in data["node"])
        topology = Topology(
            name=name, hmat=bool(data["hmat"]), nodes=nodes, **{key: data[key] for key in hop}
        )
    except (KeyError, TypeError) as error:
        raise LabError(f"{path.name}: {error}", "compare it with two-tier.toml") from error
    return topology.resized(**sizes)
