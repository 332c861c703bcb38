# SPDX-License-Identifier: GPL-2.0
"""A made-up machine with a process, and the rules that each answer of tierctl explain obeys."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import tierctl_schemas
from tierctl_trees import FAST, OURS, SLOW, Spec, Stepping, Tree, build, stat, vmstat

from tierctl.commands import explain
from tierctl.core import reply, texts
from tierctl.core.errors import FINDING, WELL
from tierctl.core.text import Style
from tierctl.explain.scene import Explained, Reason
from tierctl.read import flags as kinds
from tierctl.read.spans import SPANS

PID = 5002  # of service0000.service
GROUP = "/system.slice/service0000.service"
MIB = 64
FIRST_SLOW = (1 << 18) + 4096
NODES = (replace(FAST, gib=1, free=0.5, targets="1"), replace(SLOW, gib=1, free=0.5, hot=0))
SMALL = replace(OURS, nodes=NODES)
PLAIN = kinds.LRU | kinds.ANON | kinds.SWAPBACKED
FILE = kinds.LRU
LIBRARY = "00000000 08:01 77     /usr/lib/x.so"


class Machine(Stepping):
    """A tree in which a worker visits the process while a command waits."""

    def __init__(self, tree: Tree, step: Callable[[int], None] = lambda second: None) -> None:
        super().__init__(tree, step)
        self.tree, self.later = tree, ""

    def visited(self, before: str, after: str | None = None) -> None:
        """The texts of debugfs tier/spans."""
        self.tree.put(SPANS[1:], before)
        self.later = before if after is None else after

    def wait(self, seconds: float) -> None:
        """The visit comes, too."""
        super().wait(seconds)
        self.tree.put(SPANS[1:], self.later)


def spans(
    pushed: int = 0,
    end: int = MIB << 20,
    age_ms: int = 1200,
    *,
    begin: int = 0,
    window: int = 250_000,
    pid: int = PID,
    turn: str | None = None,
) -> str:
    """The text of debugfs tier/spans with the last visit of the process, a turn of its own."""
    turn = f"{pushed} {age_ms}" if turn is None else turn
    return (
        "pid cgroup begin end window_us first last pushed age_ms turn turn_pushed turn_age_ms\n"
        f"0 0 7f0000000000 7f0000200000 250000 9 9 9 8 0 - -\n"
        f"{pid} 77 {begin:x} {end:x} {window} 900 {pushed} {pushed} {age_ms} 3 {turn}\n"
    )


def process(tree: Tree, slow: float = 1.0, mib: int = MIB, **extra: str) -> None:
    """A process of which a part lies on node 1, place by place."""
    kib = mib << 10
    facts = {"Name": "redis", "VmRSS": f"{kib} kB", "Mems_allowed_list": "0-1", "TierScan": "1"}
    facts |= extra
    tree.put(f"proc/{PID}/status", "\n".join(f"{a}:\t{b}" for a, b in facts.items() if b))
    tree.put(f"proc/{PID}/comm", "redis")
    tree.put(f"proc/{PID}/cgroup", f"0::{GROUP}")
    tree.put(f"proc/{PID}/maps", f"00000000-{mib << 20:08x} rw-p 00000000 00:00 0 [heap]")
    tree.put(f"proc/{PID}/numa_maps", "00000000 default heap anon=9 N1=9 kernelpagesize_kB=4")
    entries = array("Q")
    for place in range(mib // 2):
        base = FIRST_SLOW if place < slow * (mib // 2) else 4096
        entries.extend((1 << 63) | (base + 512 * place + i) for i in range(512))
    (tree.root / f"proc/{PID}/pagemap").write_bytes(entries.tobytes())
    flags(tree, FIRST_SLOW, 512 * mib // 2, PLAIN)


def flags(tree: Tree, first: int, count: int, value: int) -> None:
    """The flags of frames."""
    path = tree.root / "proc/kpageflags"
    with open(path, "r+b" if path.exists() else "w+b") as file:
        if file.seek(0, 2) < 8 << 19:
            file.truncate(8 << 19)
        file.seek(8 * first)
        file.write(struct.pack("<Q", value) * count)


def runs(tree: Tree, spec: Spec) -> Callable[[int], None]:
    """Counters grow, and the process runs."""

    def step(second: int) -> None:
        tree.put("proc/vmstat", vmstat(spec, second))
        tree.put(f"proc/{PID}/stat", stat(PID, "redis", 100 + 50 * second))

    return step


def machine(
    tmp_path: Path,
    spec: Spec = SMALL,
    pushed: Sequence[int] = (0,),
    slow: float = 1.0,
    mib: int = MIB,
) -> Machine:
    """A machine with a process of 64 MiB; visits find as many candidates as ``pushed`` says.

    The last one is before the wait, or there is another one while a command waits for 10 s.  All
    visits look at all of the process.
    """
    tree = build(tmp_path, spec)
    process(tree, slow, mib)
    found = Machine(tree, runs(tree, spec))
    found.step(0)
    if spec.ours:
        age_ms = 1200 if len(pushed) > 1 else 11_200
        found.visited(spans(pushed[0], mib << 20), spans(pushed[-1], mib << 20, age_ms))
    return found


def answer(found: Stepping, *words: str, deep: bool = False, seconds: float = 10) -> Explained:
    """The answer, checked against the schema and the rules of each answer."""
    got = explain.answer(found, words or (str(PID),), deep, seconds)
    assert tierctl_schemas.check(reply.document(got, found)) == []
    data: Explained = got.data
    lines = explain.draw(got, Style())
    assert max(map(len, lines)) <= 80, lines
    assert got.code == (FINDING if data.actions else WELL)
    if data.slow:
        assert sum(one.bytes for one in data.reasons) == data.slow, data.reasons
    for one in data.reasons:
        assert one.bytes > 0 or not data.slow, one
        assert one.id in texts.load()["causes"] and "{" not in one.what + (one.todo or "")
    return data


def sizes(data: Explained) -> dict[str, int]:
    """Whole MiB by cause."""
    return {one.id: one.bytes >> 20 for one in data.reasons}


def first(data: Explained, cause: str) -> Reason:
    """The reason with a cause."""
    return next(one for one in data.reasons if one.id == cause)


def limited(found: Machine, limit: int, used: int) -> None:
    """A limit of the group, and what it has on node 0."""
    base = f"sys/fs/cgroup{GROUP}"
    found.tree.put(f"{base}/memory.tier.max", limit)
    rows = f"anon N0={used} N1={MIB << 20}\nfile N0=0 N1=0\ninactive_anon N0=0 N1={MIB << 20}"
    found.tree.put(f"{base}/memory.numa_stat", f"{rows}\nactive_anon N0={used} N1=0")
