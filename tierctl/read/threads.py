# SPDX-License-Identifier: GPL-2.0
"""CPU time of the kernel threads that find and move pages.

The pids are not told anywhere but for DAMON, and reading 10,000 /proc/PID costs too much.  All
kernel threads are children of pid 2, in the order of their creation, and most of them are the
per-CPU threads of the boot, which come before kswapd.  So the search jumps over these: from a
thread of CPU i on, at least THREADS_OF_CPU threads for each later CPU follow.  A kswapd for each
node tells whether the jump was right; else all children are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tierctl.core.parse import number, per_second, ranges
from tierctl.core.reply import Note, note_for
from tierctl.core.source import Source

CHILDREN = "/proc/2/task/2/children"  # CONFIG_PROC_CHILDREN
TICKS = 100  # USER_HZ
KINDS = {"kmmscand": "scan", "kpromoted": "promote", "kswapd": "kswapd", "kdamond": "damon"}
OURS = re.compile(r"^(kmmscand|kpromoted|kswapd|kdamond\.)\d+(:\d+)?$")
OF_CPU = re.compile(r"^(?:cpuhp|migration|ksoftirqd|idle_inject)/(\d{1,9})$")
THREADS_OF_CPU = 3  # cpuhp, migration, ksoftirqd
FIRST = 192  # so many threads at most come before those of CPU 1: RCU has one for 16 CPUs
NEAR = 24  # so many threads at most are between two that OF_CPU matches
PID_DIGITS = 10
LOW_PIDS = 8192  # without CHILDREN, at most so many pids are looked at


@dataclass
class Cost:
    """Seconds of CPU time a second, by kind of thread; None: unknown."""

    interval_s: float
    cpu: dict[str, float | None]
    threads: dict[str, int]


def _comm(source: Source, pid: int) -> str:
    return source.get(f"/proc/{pid}/comm") or ""


def _jump(source: Source, pids: list[int], cpus: int) -> int:
    """Index behind the per-CPU threads of the boot, or before it."""
    at = best = 0
    limit = FIRST
    while at < min(len(pids), limit):
        found = OF_CPU.match(_comm(source, pids[at]))
        if found and int(found[1]) > 0:
            best = at
            at += max(1, THREADS_OF_CPU * (cpus - 1 - int(found[1])))
            limit = at + NEAR
        else:
            at += 1
    return best


def _search(source: Source, pids: list[int]) -> dict[int, str]:
    found = {}
    for pid in pids:
        name = _comm(source, pid)
        if OURS.match(name):
            found[pid] = name
    return found


def find(source: Source, nodes: int) -> dict[int, str] | None:
    """Names of our threads by pid; None if they cannot be found."""
    text = source.get(CHILDREN)
    if text is not None:
        pids = [int(word) for word in text.split() if word.isdecimal() and len(word) < PID_DIGITS]
        cpus = len(ranges(source.get("/sys/devices/system/cpu/online")) or [])
        found = _search(source, pids[_jump(source, pids, cpus) :])
        if sum(name.startswith("kswapd") for name in found.values()) < max(1, nodes):
            found = _search(source, pids)
        return found or None
    names = source.listing("/proc")
    pids = sorted(int(one) for one in names or [] if one.isdecimal() and len(one) < PID_DIGITS)
    return _search(source, pids[:LOW_PIDS]) or None


def ticks(source: Source, threads: dict[int, str]) -> dict[int, int]:
    """CPU time of threads until now; a thread that has ended is left out."""
    found = {}
    for pid, name in threads.items():
        text = source.get(f"/proc/{pid}/stat")
        if text is None:
            continue
        head, _, tail = text.rpartition(")")
        words = tail.split()
        user, system = (number(words[at]) if len(words) > 12 else None for at in (11, 12))
        if head.partition("(")[2] == name and user is not None and system is not None:
            found[pid] = user + system
    return found


def kind(name: str) -> str:
    return next(word for prefix, word in KINDS.items() if name.startswith(prefix))


def between(
    threads: dict[int, str] | None, before: dict[int, int], after: dict[int, int], seconds: float
) -> Cost:
    """The cost from one sample to the next; a kind of which no thread is in both is unknown."""
    numbers = dict.fromkeys(KINDS.values(), 0)
    if threads is None:
        return Cost(seconds, dict.fromkeys(KINDS.values()), numbers)
    used: dict[str, list[float | None]] = {word: [] for word in KINDS.values()}
    for pid, name in threads.items():
        used[kind(name)].append(per_second(before.get(pid), after.get(pid), seconds))
    cpu: dict[str, float | None] = {}
    for word, rates in used.items():
        known = [one for one in rates if one is not None]
        cpu[word] = sum(known) / TICKS if known or not rates else None
        numbers[word] = len(known)
    return Cost(seconds, cpu, numbers)


def note(source: Source, threads: dict[int, str] | None) -> Note:
    if threads:
        return Note("/proc/PID/stat")
    if source.why(CHILDREN):
        return note_for(source, CHILDREN, "this /proc does not list kernel threads (container?)")
    return Note(None, "no kernel thread of reclaim was found", "is this a container?")
