# SPDX-License-Identifier: GPL-2.0
"""Machines as data: lab/topologies/*.toml turned into QEMU arguments.

A topology is a list of NUMA nodes.  A node with ``cpus = 0`` is a memory
device behind its ``initiator``.  Whether Linux sees it as a slower tier
depends on the HMAT alone: without one, a CPU-less node that is present at
boot counts as top tier (mm/memory-tiers.c) and nothing is ever promoted.

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
    """One NUMA node; latency and bandwidth are what the HMAT says of it."""

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

    @property
    def vcpus(self) -> int:
        return sum(node.cpus for node in self.nodes)

    @property
    def memory_mb(self) -> int:
        """What is there at boot."""
        return sum(node.size_mb for node in self.nodes if not node.plugged)

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
        return dataclasses.replace(self, nodes=tuple(nodes.values()))

    def qemu_args(self) -> list[str]:
        """The arguments that describe memory, nodes, distances and HMAT."""
        args: list[str] = []
        if self.hmat:
            args += ["-machine", "hmat=on"]
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
                    far = max(self.nodes[src].distance, self.nodes[dst].distance)
                    args += ["-numa", f"dist,src={src},dst={dst},val={far}"]
        if not self.hmat:
            return args
        for number, node in enumerate(self.nodes):
            if not node.cpus:
                args += self._locality(node.initiator, number)
            else:
                for initiator, other in enumerate(self.nodes):
                    if other.cpus:
                        args += self._locality(initiator, number)
        return args

    def _locality(self, initiator: int, target: int) -> list[str]:
        node = self.nodes[target]
        head = f"hmat-lb,initiator={initiator},target={target},hierarchy=memory,data-type="
        return [
            "-numa",
            f"{head}access-latency,latency={node.latency_ns}",
            "-numa",
            f"{head}access-bandwidth,bandwidth={node.bandwidth_gbs}G",
        ]


def names() -> list[str]:
    """The topologies that exist."""
    return sorted(path.stem for path in DIRECTORY.glob("*.toml"))


def load(name: str, **sizes: int) -> Topology:
    """Read a topology by name and resize it."""
    path = DIRECTORY / f"{name}.toml"
    if not path.exists():
        raise LabError(f"no topology named {name!r}", "there are: " + ", ".join(names()))
    data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    unknown = set(data) - {"description", "hmat", "node"}
    if unknown:
        raise LabError(f"{path.name}: unknown key {sorted(unknown)[0]!r}")
    try:
        nodes = tuple(Node(**node) for node in data["node"])
        topology = Topology(name=name, hmat=bool(data["hmat"]), nodes=nodes)
    except (KeyError, TypeError) as error:
        raise LabError(f"{path.name}: {error}", "compare it with two-tier.toml") from error
    if any(node.plugged for node in nodes[:-1]):
        # QEMU's SRAT gives the memory that is to come to the last node.
        raise LabError(f"{path.name}: only the last node can be plugged")
    return topology.resized(**sizes)
