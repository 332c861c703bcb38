# SPDX-License-Identifier: GPL-2.0
"""Checks of `tierctl doctor`: nodes, tiers, devices."""

from __future__ import annotations

from tierctl.checks.check import ERROR, INFO, WARNING, Check, Found, NotDone, need, not_known
from tierctl.core import text
from tierctl.core.parse import as_ranges, number
from tierctl.core.paths import NODES
from tierctl.core.source import ABSENT
from tierctl.model.snapshot import Snapshot
from tierctl.read.distance import DAXES, KMEM
from tierctl.read.nodes import hugetlb

BLOCKS = "/sys/devices/system/memory"
BLOCKS_MOST = 8192  # so many files at most are read
VENDOR = "Ask the vendor of the firmware for a correct HMAT."


def one_tier(now: Snapshot) -> Found:
    machine = now.machine
    if machine.tiers is None:
        note = machine.sources["tiers"]
        if ABSENT not in note.state:
            raise not_known(note)
        yield ERROR, "The kernel has no memory tiers.", "Boot Linux 6.1 or later with NUMA."
        return
    now.need_tiers()
    if now.slow:
        return
    without = [one.node for one in machine.nodes if one.has_cpu is False and one.total]
    if without:
        names = as_ranges(without)
        yield (
            ERROR,
            f"All memory is in the fast tiers, also node {names}, which has no CPU.",
            f"tierctl why node {without[0]}",
        )
    else:
        yield INFO, "This machine has no slow memory: all nodes are fast.", "Nothing."


def dram_differs(now: Snapshot) -> Found:
    base = now.base
    if base.mismatch is not None:
        yield (
            WARNING if now.slow else ERROR,
            f"DRAM nodes {base.node} and {base.mismatch} differ by more than 10 % (access1), "
            "so the kernel computes no distance.",
            f"{VENDOR}\ndmesg | grep memory-tiers",
        )
    elif base.empty is not None:
        yield (
            WARNING,
            f"The firmware gives no latency or no bandwidth of DRAM node {base.empty}, so the "
            "kernel computes no distance from HMAT.",
            VENDOR,
        )


def dax_mode(now: Snapshot) -> Found:
    source = now.source
    names = source.listing(DAXES)
    if names is None and source.why(DAXES) == ABSENT:
        return
    need(names, f"{DAXES} cannot be read; run as root")
    bound = source.listing(KMEM) or []
    if source.why(KMEM) not in ("", ABSENT):
        raise NotDone(f"{KMEM} cannot be read; run as root")
    for name in names or []:
        bytes_ = number(source.get(f"{DAXES}/{name}/size"))
        if name not in bound and bytes_:
            yield (
                WARNING,
                f"{text.size(bytes_)} of the device {name} are no system memory.",
                "Unless a program uses the device:\n"
                f"daxctl reconfigure-device --mode=system-ram {name}",
            )


def blocks_offline(now: Snapshot) -> Found:
    source, unread, found = now.source, 0, False
    for name in source.listing(NODES) or []:
        node = number(name.removeprefix("node")) if name.startswith("node") else None
        known = now.machine.find(node) if node is not None else None
        if node is None or (known and known.tier != "slow"):
            continue
        inside = source.listing(f"{NODES}/{name}") or []
        blocks = [one for one in inside if one.startswith("memory") and one[6:].isdecimal()]
        if len(blocks) > BLOCKS_MOST:
            raise NotDone(f"node {node} has more than {BLOCKS_MOST} memory blocks")
        states = [source.get(f"{BLOCKS}/{one}/state") for one in blocks]
        unread += states.count(None)
        away = states.count("offline")
        if away:
            found = True
            device = known.device if known else None
            yield (
                WARNING,
                f"{away} of {len(blocks)} memory blocks of node {node} are offline.",
                f"daxctl online-memory {device}"
                if device
                else f"Write online_movable to the files {BLOCKS}/memoryN/state.",
            )
    if unread and not found:
        raise NotDone(f"the state of {unread} memory blocks cannot be read")


def not_movable(now: Snapshot) -> Found:
    now.need_tiers()
    for one in now.machine.of_tier("slow"):
        if one.device and one.movable is not None and one.total and one.movable < one.total // 2:
            yield (
                INFO,
                f"Most memory of slow node {one.node} is not in the zone Movable: the kernel "
                "keeps data of its own there, too, and may refuse to take the memory offline.",
                "Put it offline, and online as movable:\n"
                f"daxctl offline-memory {one.device}\ndaxctl online-memory {one.device}",
            )


def hugetlb_slow(now: Snapshot) -> Found:
    now.need_tiers()
    for node in now.slow:
        total = hugetlb(now.source, node)
        place = f"{NODES}/node{node}/hugepages"
        if total is None and now.source.why(place) != ABSENT:
            raise NotDone(f"{place} cannot be read")
        if total:
            yield (
                INFO,
                f"{text.size(total)} of slow node {node} are hugetlb pages, and stay there.",
                f"Reserve them on fast nodes instead: {NODES}/nodeN/hugepages/*/nr_hugepages.",
            )


CHECKS = [
    Check("one-tier", one_tier, True),
    Check("dram-differs", dram_differs, True),
    Check("dax-mode", dax_mode),
    Check("blocks-offline", blocks_offline),
    Check("not-movable", not_movable),
    Check("hugetlb-slow", hugetlb_slow),
]
