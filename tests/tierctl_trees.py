# SPDX-License-Identifier: GPL-2.0
"""Made-up machines for tierctl: directory trees that stand for /.

python3 tests/tierctl_trees.py DIRECTORY [--groups 1000] [--cpus 512] ...
"""

from __future__ import annotations

import argparse
import errno
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tierctl.core.source import Live

GIB = 1 << 30
PAGE = 4096
TIER = "sys/kernel/mm/tier"
NODE = "sys/devices/system/node"
SHIPPED = Path(__file__).resolve().parents[1] / "tierctl/declared.json"


@dataclass(frozen=True)
class NodeSpec:
    """A node of a made-up machine."""

    gib: int
    tier: int = 4
    cpus: bool = True
    free: float = 0.03
    access: tuple[int, int, int, int] | None = (95, 95, 200_000, 200_000)
    distance: int = 576
    source: str = "firmware"
    targets: str = ""
    hot: int = 0  # pages
    movable: bool = False


FAST = NodeSpec(504, targets="2")
SLOW = NodeSpec(1024, 44, False, 0.39, (214, 214, 52_000, 40_000), 5639, hot=550_000, movable=True)


@dataclass(frozen=True)
class Spec:
    """A made-up machine."""

    nodes: tuple[NodeSpec, ...] = (FAST, FAST, SLOW)
    cpus: int = 4
    groups: int = 5
    processes: int = 2
    ours: bool = True  # has /sys/kernel/mm/tier
    enabled: int = 1
    numa_balancing: int | None = 0
    demotion: str | None = "false"
    mglru: str | None = "0x0007"
    lru_gen: str | None = "lru_gen"  # or lru_gen_full
    looked_s: float = 20.0
    swap_free: int | None = 1 << 20  # KiB
    damon: str = ""  # the action of a scheme
    release: str = "6.12.117-tiershift1-amd64"
    old_vmstat: bool = False  # as in 6.1: no pgpromote rows by group
    parts_off: tuple[str, ...] = ()
    reasons: dict[str, tuple[str, str]] = field(default_factory=dict)  # state, reason by part
    dax: dict[str, tuple[int, bool]] = field(default_factory=dict)  # node, bound to kmem
    cxl: tuple[int, ...] = ()


OURS = Spec()
STOCK = replace(OURS, ours=False, numa_balancing=2, demotion="true", release="6.12.117-amd64")
DAMON = replace(STOCK, numa_balancing=0, damon="migrate_hot")
PLAIN = replace(STOCK, nodes=(replace(FAST, access=None, targets=""),), numa_balancing=1)
OLD = replace(
    STOCK,
    nodes=(replace(FAST, access=None), replace(SLOW, access=None, tier=22, distance=2880)),
    numa_balancing=1,
    release="6.1.0-38-amd64",
    old_vmstat=True,
    lru_gen=None,
    mglru=None,
    dax={"dax0.0": (1, True)},
)


def _list(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


class Tree:
    """A directory that stands for /."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made: set[str] = set()

    def put(self, path: str, text: object) -> None:
        """Write a file, with a newline behind the text."""
        file = f"{self.root}/{path}"
        directory = file.rpartition("/")[0]
        if directory not in self._made:
            os.makedirs(directory, exist_ok=True)
            self._made.add(directory)
        with open(file, "w", encoding="utf-8") as out:
            out.write(f"{text}\n")

    def change(self, path: str, old: str, new: str) -> None:
        """Replace a part of a file that it must have."""
        file = self.root / path
        text = file.read_text()
        assert old in text, (path, old)
        file.write_text(text.replace(old, new))


def _zoneinfo(spec: Spec) -> str:
    lines: list[str] = []
    start = 1
    for number, one in enumerate(spec.nodes):
        pages = one.gib * GIB // PAGE
        zone = "Movable" if one.movable else "Normal"
        free = int(pages * one.free)
        lines += [f"Node {number}, zone {zone:>8}", "  per-node stats"]
        lines += [f"      nr_stat_{i} {i}" for i in range(48)]
        marks = {"free ": free, "boost": 0, "min": 20_000, "low": 40_000, "high": 60_000}
        marks |= {"promo": 80_000, "spanned": pages, "present": pages, "managed": pages, "cma": 0}
        for at, (name, value) in enumerate(marks.items()):
            lines.append(f"  pages {name:<7} {value}" if at == 0 else f"        {name:<8} {value}")
        lines += ["        protection: (0, 0, 0, 0, 0)"]
        lines += [f"      nr_free_pages {free}", "  pagesets"]
        for cpu in range(spec.cpus):
            lines += [f"    cpu: {cpu}", "              count: 0", "              high:  14"]
            lines += ["              batch: 1", "  vm stats threshold: 84"]
        lines += ["  node_unreclaimable:  0", f"  start_pfn:           {start}"]
        start += pages
    return "\n".join(lines)


def _nodes(tree: Tree, spec: Spec) -> None:
    numbers = list(range(len(spec.nodes)))
    for name in ("online", "has_memory"):
        tree.put(f"{NODE}/{name}", _list(numbers))
    tree.put(f"{NODE}/has_cpu", _list([i for i in numbers if spec.nodes[i].cpus]))
    by_tier: dict[int, list[int]] = {}
    for number, one in enumerate(spec.nodes):
        by_tier.setdefault(one.tier, []).append(number)
        kib = one.gib * GIB >> 10
        free = int(one.gib * GIB // PAGE * one.free) * PAGE >> 10
        place = f"{NODE}/node{number}"
        info = {"MemTotal": kib, "MemFree": free, "MemUsed": kib - free}
        tree.put(
            f"{place}/meminfo",
            "\n".join(f"Node {number} {name}:       {value:8} kB" for name, value in info.items()),
        )
        row = [10 if i == number else 20 if spec.nodes[i].cpus else 30 for i in numbers]
        tree.put(f"{place}/distance", " ".join(map(str, row)))
        if one.access:
            names = ("read_latency", "write_latency", "read_bandwidth", "write_bandwidth")
            for name, value in zip(names, one.access, strict=True):
                tree.put(f"{place}/access1/initiators/{name}", value)
        tree.put(f"{place}/hugepages/hugepages-2048kB/nr_hugepages", 0)
        if not one.cpus:
            tree.put(f"{place}/memory{number}/state", "online")
            tree.put(f"sys/devices/system/memory/memory{number}/state", "online")
    for tier, members in by_tier.items():
        place = f"sys/devices/virtual/memory_tiering/memory_tier{tier}"
        tree.put(f"{place}/nodelist", _list(members))
        tree.put("sys/devices/virtual/memory_tiering/uevent", "")
    tree.put("proc/zoneinfo", _zoneinfo(spec))
    total = sum(one.gib for one in spec.nodes) * GIB >> 10
    swap = "" if spec.swap_free is None else f"\nSwapFree:       {spec.swap_free} kB"
    tree.put("proc/meminfo", f"MemTotal:       {total} kB\nMemFree:        1000 kB{swap}")
    for name, (node, bound) in spec.dax.items():
        tree.put(f"sys/bus/dax/devices/{name}/target_node", node)
        tree.put(f"sys/bus/dax/devices/{name}/size", spec.nodes[node].gib * GIB)
        if bound:
            tree.put(f"sys/bus/dax/drivers/kmem/{name}/target_node", node)
    for region, node in enumerate(spec.cxl):
        place = f"sys/bus/cxl/devices/region{region}/dax_region{region}/dax{region}.0"
        tree.put(f"{place}/target_node", node)


def vmstat(spec: Spec, second: int = 0) -> str:
    """The rows of /proc/vmstat; they grow with each second."""
    rows = {"nr_free_pages": 3_700_000, "pgpromote_success": 1_000_000 + 54_272 * second}
    rows |= {"pgpromote_candidate": 2_000_000, "pgdemote_kswapd": 900_000 + 53_248 * second}
    rows |= {"pgdemote_direct": 1_000, "pswpout": 7}
    if not spec.old_vmstat:
        rows["pgdemote_khugepaged"] = 0
    if spec.numa_balancing is not None:
        rows["numa_hint_faults"] = 500 + (4_000 * second if spec.numa_balancing else 0)
    rows |= {f"nr_other_{i}": i for i in range(120)}
    if spec.ours:
        declared = json.loads(SHIPPED.read_text())
        rows |= {one["name"]: 100 for one in declared["counters"]}
        rows |= {"tier_promote_success": 990_000 + 54_272 * second, "tier_promote_again": 4_000}
        rows["tier_promote_again"] += 217 * second
    return "\n".join(f"{name} {value}" for name, value in rows.items())


def _threads(tree: Tree, spec: Spec) -> None:
    """Kernel threads in the order in which a kernel creates them."""
    names = [f"early/{i}" for i in range(12)]
    names += ["ksoftirqd/0", "rcu_preempt", "migration/0", "idle_inject/0", "cpuhp/0"]
    for cpu in range(1, spec.cpus):
        names += [f"cpuhp/{cpu}", f"idle_inject/{cpu}", f"migration/{cpu}", f"ksoftirqd/{cpu}"]
        names += [f"kworker/{cpu}:0-events", f"kworker/{cpu}:0H-events_highpri"]
    names += ["kdevtmpfs", "kauditd", "oom_reaper"]
    names += [f"kcompactd{i}" for i in range(len(spec.nodes))]
    names += [f"kswapd{i}" for i in range(len(spec.nodes))]
    names += [f"kworker/{cpu}:1-mm_percpu_wq" for cpu in range(spec.cpus)]
    if spec.ours and spec.enabled:
        for number, one in enumerate(spec.nodes):
            name = f"kmmscand{number}" if one.cpus else f"kpromoted{number}"
            names += [*(f"{name}:{i}" for i in (3, 2, 1)), name]
    if spec.damon:
        names.append("kdamond.0")
    pids = range(3, 3 + len(names))
    for pid, name in zip(pids, names, strict=True):
        tree.put(f"proc/{pid}/comm", name)
        if name.startswith(("kmmscand", "kpromoted", "kswapd", "kdamond")):
            tree.put(f"proc/{pid}/stat", stat(pid, name, 100))
    tree.put("proc/2/task/2/children", " ".join(map(str, pids)) + " ")


def stat(pid: int, name: str, ticks: int) -> str:
    """The line of /proc/PID/stat of a kernel thread."""
    return f"{pid} ({name}) S 2 0 0 0 -1 2129984 0 0 0 0 0 {ticks} 0 0 20 0 1 0 5 0 0"


def _groups(tree: Tree, spec: Spec) -> list[str]:
    base = "sys/fs/cgroup"
    tree.put(f"{base}/cgroup.controllers", "cpuset cpu io memory pids")
    paths = ["/system.slice", "/machine.slice"]
    for i in range(spec.groups):
        if i % 5 == 1:
            paths.append(f"/machine.slice/machine-qemu\\x2d{i}\\x2dvm\\x2ddb{i:02}.scope")
        else:
            paths.append(f"/system.slice/service{i:04}.service")
    for at, path in enumerate(paths):
        place = f"{base}{path}"
        tree.put(f"{place}/memory.numa_stat", numa_stat(spec, at))
        tree.put(f"{place}/cpuset.mems.effective", f"0-{len(spec.nodes) - 1}")
        if spec.ours:
            tree.put(f"{place}/memory.tier.max", "max")
        tree.put(f"{place}/cgroup.procs", "\n".join(str(5000 + at) for _ in range(at > 1)))
    return paths


def numa_stat(spec: Spec, scale: int, second: int = 0) -> str:
    """A memory.numa_stat."""
    numbers = range(len(spec.nodes))
    lines = []
    for name in ("anon", "file"):
        cells = [f"N{i}={(scale + 1) * (64 << 20) >> i}" for i in numbers]
        lines.append(f"{name} {' '.join(cells)}")
    small = ["kernel_stack", "pagetables", "sec_pagetables", "shmem", "anon_thp", "inactive_anon"]
    small += ["slab_reclaimable", "slab_unreclaimable", "workingset_refault_anon"]
    lines += [f"{name} {' '.join(f'N{i}=4096' for i in numbers)}" for name in small]
    if not spec.old_vmstat:
        for name in ("pgdemote_kswapd", "pgdemote_direct", "pgpromote_success"):
            cells = [f"N{i}={(scale + 1) * (10 + second) if i == 0 else 0}" for i in numbers]
            lines.append(f"{name} {' '.join(cells)}")
    return "\n".join(lines)


def lru_gen(spec: Spec, paths: list[str]) -> str:
    """A lru_gen of generations that are 180, 90, 30 and looked_s seconds old at the last look."""
    full = spec.lru_gen == "lru_gen_full"
    looked = int(1000 * spec.looked_s)
    ages = [looked + 180_000, looked + 90_000, looked + 30_000, looked]
    lines = []
    for at, path in enumerate(["/", *paths]):
        lines.append(f"memcg {at + 1:5} {path}")
        for node in range(len(spec.nodes)):
            lines.append(f" node {node:5}")
            for seq, age in enumerate(ages):
                mark = "x" if full and seq == 0 else " "
                anon, file = (1000 >> seq, 500 >> seq) if node < 2 else (100 << seq, 50)
                lines.append(f" {seq + 7:10} {age:10} {anon:10}{mark} {file:10}{mark}")
                if full:
                    for tier in range(4):
                        cells = " ".join(f"{0:10}{char}" for char in "RTxRTx")
                        lines.append(f"            {tier:10} {cells}")
                    lines.append(" " * 22 + " ".join(f"{0:10}{char}" for char in "TYFATY"))
    return "\n".join(lines)


def _parts(tree: Tree, spec: Spec) -> None:
    tree.put(f"{TIER}/enabled", spec.enabled)
    worst = {state for state, _ in spec.reasons.values()}
    state = "partly" if "unsupported" in worst else "waiting" if "waiting" in worst else "on"
    tree.put(f"{TIER}/state", state if spec.enabled else "off")
    declared = json.loads(SHIPPED.read_text())
    for one in declared["switches"]:
        name = one["file"].split("/")[-2]
        wish = int(one["wish"] and name not in spec.parts_off)
        works = "on" if wish and spec.enabled else "off"
        state, reason = spec.reasons.get(name, (works, ""))
        for file, value in {"enabled": wish, "state": state, "reason": reason}.items():
            tree.put(f"{TIER}/{name}/{file}", value)
    for one in declared["knobs"]:
        default = one["default"]
        tree.put(f"{TIER}/{one['file']}", default if isinstance(default, int) else 62)
    for number, one in enumerate(spec.nodes):
        for name in ("distance", "source", "targets", "hot"):
            tree.put(f"{TIER}/node{number}/{name}", getattr(one, name))


def _damon(tree: Tree, spec: Spec) -> None:
    base = "sys/kernel/mm/damon/admin/kdamonds"
    tree.put(f"{base}/nr_kdamonds", int(bool(spec.damon)))
    if spec.damon:
        tree.put(f"{base}/0/state", "on")
        tree.put(f"{base}/0/contexts/nr_contexts", 1)
        tree.put(f"{base}/0/contexts/0/schemes/nr_schemes", 1)
        tree.put(f"{base}/0/contexts/0/schemes/0/action", spec.damon)
        tree.put(f"{base}/0/contexts/0/schemes/0/stats/sz_applied", 1 << 30)


def build(root: Path, spec: Spec = OURS) -> Tree:
    """Write all files of a machine."""
    tree = Tree(root)
    _nodes(tree, spec)
    tree.put("proc/vmstat", vmstat(spec))
    tree.put("proc/uptime", "273600.12 1000.00")
    for name, value in {"hostname": "made-up", "osrelease": spec.release, "tainted": 0}.items():
        tree.put(f"proc/sys/kernel/{name}", value)
    tree.put("proc/sys/kernel/random/boot_id", "6f9619ff-8b86-d011-b42d-00c04fc964ff")
    tree.put("sys/devices/system/cpu/online", f"0-{spec.cpus - 1}")
    _threads(tree, spec)
    paths = _groups(tree, spec)
    for pid in range(100_000, 100_000 + spec.processes):
        tree.put(f"proc/{pid}/comm", "program")
    if spec.numa_balancing is not None:
        tree.put("proc/sys/kernel/numa_balancing", spec.numa_balancing)
    if spec.demotion is not None:
        tree.put("sys/kernel/mm/numa/demotion_enabled", spec.demotion)
    if spec.mglru is not None:
        tree.put("sys/kernel/mm/lru_gen/enabled", spec.mglru)
    if spec.lru_gen is not None:
        tree.put(f"sys/kernel/debug/{spec.lru_gen}", lru_gen(spec, paths))
    _damon(tree, spec)
    if spec.ours:
        _parts(tree, spec)
    return tree


class Stepping(Live):
    """A tree with a clock of its own; wait() makes ``step`` change the tree."""

    def __init__(self, tree: Tree, step: Callable[[int], None] = lambda second: None) -> None:
        super().__init__(str(tree.root))
        self.now, self.step, self.reads = 1_796_000_000.0, step, Counter[str]()
        self.denied: tuple[str, ...] = ()

    def _check(self, path: str) -> None:
        self.reads[path] += 1
        if path.startswith(self.denied):
            raise PermissionError(errno.EACCES, "Permission denied", path)

    def read(self, path: str) -> str:
        """Count the read, and refuse what is denied."""
        self._check(path)
        return super().read(path)

    def names(self, path: str) -> list[str]:
        """The same for a directory."""
        self._check(path)
        return super().names(path)

    def pread(self, path: str, size: int, offset: int) -> bytes:
        """The same for a piece."""
        self._check(path)
        return super().pread(path, size, offset)

    def time(self) -> float:
        """The clock of the tree."""
        return self.now

    def clock(self) -> float:
        """The same: it never jumps."""
        return self.now

    def wait(self, seconds: float) -> None:
        """Change the tree."""
        self.now += seconds
        self.step(round(self.now - 1_796_000_000.0))


def main() -> None:
    """Write a machine into a directory."""
    kinds = {"ours": OURS, "stock": STOCK, "damon": DAMON, "plain": PLAIN, "old": OLD}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kind", choices=kinds, default="ours")
    sizes = {"groups": 1000, "cpus": 512, "processes": 10_000}
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    args = parser.parse_args()
    build(args.directory, replace(kinds[args.kind], **{one: getattr(args, one) for one in sizes}))


if __name__ == "__main__":
    main()
