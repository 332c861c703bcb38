# SPDX-License-Identifier: GPL-2.0
"""The measuring instruments: TCG plugins, and what they wrote.

``access`` counts the loads and stores of user code by physical node and vCPU
over time; ``insn`` counts instructions and locked operations per kernel symbol
and vCPU; ``tlb`` counts instructions that flush the TLB, and what a model TLB would
have to look up; ``holds`` measures how long spinlocks are held, and how long the
kernel runs without a point at which others may.  What each counts, and what is not
exact about it, is in the header comments of lab/plugin/access.c, insn.c, tlb.c and
holds.c.  Guest programs switch them on and off with the markers of
lab/workloads/lab_marker.h, scripts with ``labmark``.  ``pause`` measures nothing, and
guest.py loads it where it is of use.

Reading a result that the plugin itself calls invalid is an error.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lab import cache, manifest, programs
from lab.errors import LabError

PLUGINS = Path(__file__).parent / "plugin"
PLUGIN_FLAGS = (*programs.COMMON_FLAGS, "-shared", "-fPIC", "-fvisibility=hidden")

# What only an idle CPU executes, or one that enters or leaves idle.  Under
# emulation an idle CPU sleeps in `hlt`, so this is small; but how often it
# wakes up depends on wall time.  What it calls of general use (locks, clocks,
# the scheduler) cannot be told apart and stays in.
IDLE_SYMBOLS = frozenset(
    {
        "account_idle_ticks",
        "acpi_safe_halt",
        "arch_cpu_idle",
        "arch_cpu_idle_enter",
        "arch_cpu_idle_exit",
        "calc_load_nohz_start",
        "calc_load_nohz_stop",
        "can_stop_idle_tick",
        "cpu_startup_entry",
        "cpuidle_get_cpu_driver",
        "cpuidle_idle_call",
        "cpuidle_not_available",
        "ct_idle_enter",
        "ct_idle_exit",
        "default_idle",
        "default_idle_call",
        "do_idle",
        "nohz_balance_enter_idle",
        "pick_task_idle",
        "put_prev_task_idle",
        "pv_native_safe_halt",
        "sched_clock_idle_sleep_event",
        "sched_clock_idle_wakeup_event",
        "schedule_idle",
        "set_next_task_idle",
        "task_tick_idle",
        "tick_nohz_get_sleep_length",
        "tick_nohz_idle_enter",
        "tick_nohz_idle_exit",
        "tick_nohz_idle_got_tick",
        "tick_nohz_idle_restart_tick",
        "tick_nohz_idle_retain_tick",
        "tick_nohz_idle_stop_tick",
        "tick_nohz_next_event",
        "tick_nohz_stop_idle",
        "timer_base_try_to_set_idle",
        "timer_clear_idle",
    }
)

# Kinds of work in the kernel, and the functions that begin them: the instructions of
# all that such a function calls are of its kind, unless it calls one of another kind.
# Not every kernel has every function, and rooms add theirs (all_kinds()).  do_numa_page() is
# inlined into the handling of page faults, hence the kind is all faults; what a fault migrates
# is migration.
KINDS = {
    "other": (
        "common_interrupt",
        "handle_softirqs",
        "kcompactd",
        "sysvec_apic_timer_interrupt",
        "sysvec_irq_work",
        "sysvec_reschedule_ipi",
    ),
    "scan": ("kdamond_fn", "task_numa_work"),
    "fault": ("exc_page_fault",),
    "migration": (
        "damon_pa_migrate_folio_list",
        "do_migrate_pages",
        "migrate_misplaced_folio",
    ),
    "reclaim": ("kswapd", "try_to_free_pages"),
    "ipi": ("sysvec_call_function", "sysvec_call_function_single"),
}
COPY_SYMBOL = "rep_movs_alternative"
TLB_ENTRIES = 1024  # of the model: what a core of the last years has for small pages, about
# Flushes because another address space is switched to; with PCIDs they would be none.
SWITCH_SYMBOLS = frozenset({"load_new_mm_cr3", "switch_mm_irqs_off"})
MAX_UNMATCHED = 0.001  # of the returns, else what is known of the calls is worth nothing


class SizedNode(Protocol):
    """A node of a topology, as far as the access plugin cares."""

    @property
    def size_mb(self) -> int: ...


class Machine(Protocol):
    """A topology, as far as the access plugin cares."""

    @property
    def nodes(self) -> Sequence[SizedNode]: ...


def all_kinds() -> dict[str, tuple[str, ...]]:
    """Functions by the kind of work that begins with them: the base kernel's and the rooms'."""
    rooms = manifest.kinds(KINDS)
    return {kind: (*base, *rooms[kind]) for kind, base in KINDS.items()}


# Building and loading


def build_plugins(cache_dir: Path) -> dict[str, Path]:
    """Every plugin of lab/plugin, by name ("access", "insn", "tlb" and so on)."""
    headers = [*PLUGINS.glob("*.h"), programs.WORKLOADS / "lab_marker.h"]
    return {
        source.stem: programs.compile_c(
            source, f"{source.stem}.so", PLUGIN_FLAGS, cache_dir=cache_dir, headers=headers
        )
        for source in sorted(PLUGINS.glob("*.c"))
    }


def _plugin(so: Path, *more: str, **args: object) -> str:
    # A trailing underscore is for words that Python has.
    parts = [str(so), *(f"{key.rstrip('_')}={value}" for key, value in args.items()), *more]
    for part in parts:
        if "," in part or " " in part:
            raise LabError(
                f"QEMU cannot take the plugin argument {part!r}: it has a comma or a space",
                "use directories without them",
            )
    return ",".join(parts)


def access_plugin(
    machine: Machine,
    out: Path,
    *,
    plugins: dict[str, Path],
    period_ms: int = 500,
    lines: int = 0,
    vcpus: Collection[int] = (),
    copies: tuple[int, int] | None = None,
) -> str:
    """The -plugin argument for access.so; ``vcpus`` empty means all of them.

    With ``copies`` (copy_routine()) what read(2) loads is counted, and not user code.
    The guest must run ``labmark calibrate`` before it measures.
    """
    if lines < 0 or lines & (lines - 1):
        raise LabError(f"the model cache has {lines} lines", "use 0 or a power of two")
    mask: dict[str, object] = {}
    if vcpus:
        mask["vcpus"] = hex(sum(1 << cpu for cpu in set(vcpus)))
    if copies:
        mask["copies"] = "{:x}:{:x}".format(*copies)
    sizes = ":".join(str(node.size_mb) for node in machine.nodes)
    return _plugin(
        plugins["access"], nodes=sizes, out=out, period_ms=period_ms, lines=lines, **mask
    )


def copy_routine(system_map: Path) -> tuple[int, int]:
    """Where the kernel's routine begins and ends that copies to user memory.

    That is so on processors without erms and fsrm: clearcpuid takes these away.
    """
    rows = [line.split() for line in system_map.read_text(encoding="ascii").splitlines()]
    found = [int(row[0], 16) for row in rows if row[2] == COPY_SYMBOL]
    if not found:
        raise LabError(f"the kernel has no {COPY_SYMBOL}()", "find the new name of it")
    return found[0], min(int(row[0], 16) for row in rows if int(row[0], 16) > found[0])


def insn_plugin(
    system_map: Path,
    out: Path,
    *,
    plugins: dict[str, Path],
    kinds: Mapping[str, Iterable[str]] | None = None,
    apart: Iterable[str] = IDLE_SYMBOLS,
) -> str:
    """The -plugin argument for insn.so; ``system_map`` is that of the booted kernel.

    ``kinds`` of work, by default all_kinds(), begin with what is in none of them; functions
    ``apart`` are of none.
    """
    wanted = all_kinds() if kinds is None else kinds
    more = [f"kind={':'.join((name, *functions))}" for name, functions in wanted.items()]
    more.append(f"apart={':'.join(sorted(apart))}")
    return _plugin(plugins["insn"], *more, symbols=system_map, out=out)


def tlb_plugin(out: Path, *, plugins: dict[str, Path], entries: int = TLB_ENTRIES) -> str:
    """The -plugin argument for tlb.so; without ``entries`` only flushes are counted."""
    if entries < 0 or entries & (entries - 1) or 0 < entries < 8:
        raise LabError(f"the model TLB has {entries} entries", "use 0, or a power of two from 8 on")
    return _plugin(plugins["tlb"], out=out, entries=entries)


def holds_plugin(
    system_map: Path, out: Path, *, plugins: dict[str, Path], calm: Collection[str]
) -> str:
    """The -plugin argument for holds.so.

    ``calm`` are the functions whose calls of cond_resched() count.  On a kernel with voluntary
    preemption might_sleep() calls the same; so what is named here is what others would have.
    """
    addresses, names = text_symbols(system_map)
    ends = [*addresses[1:], addresses[-1] + 1]

    def ranges(pattern: str, whole: bool) -> str:
        found = [
            (first, end if whole else first + 1)
            for first, end, name in zip(addresses, ends, names, strict=True)
            if first < end and re.fullmatch(pattern, name)
        ]
        if not found:
            raise LabError(f"the kernel has no function like {pattern}", "find its new name")
        return ":".join(f"{first:#x}-{end:#x}" for first, end in found)

    return _plugin(
        plugins["holds"],
        out=out,
        take=ranges("_raw_(spin|read|write)_(try)?lock(_irq|_irqsave|_bh)?", whole=True),
        wait=ranges("(native_|__pv_)?queued_(spin|read|write)_lock_slowpath", whole=True),
        calm=ranges("|".join(calm), whole=True),
        yield_=ranges("__cond_resched", whole=False),
        switch=ranges("__switch_to_asm", whole=False),
        irq=ranges("asm_sysvec_.*|asm_common_interrupt", whole=False),
    )


def pause_plugin() -> str:
    """The -plugin argument for pause.so."""
    return _plugin(build_plugins(cache.sub("programs"))["pause"])


def _require(valid: bool, why: str, path: Path) -> None:
    if not valid:
        raise LabError(
            f"the instrument says that its result {path.name} is invalid: {why}",
            "see the header comment of the plugin in lab/plugin",
        )


# access.so


@dataclass(frozen=True)
class AccessSample:
    """One line of access.so: counts since START, per vCPU and per node.

    ``phase`` is the phase that the counts up to here belong to.  ``other`` is
    what is no node's memory.
    """

    t_ms: int
    event: str
    region: int
    phase: int
    valid: bool
    why: str
    nodes: tuple[tuple[int, ...], ...]
    other: tuple[int, ...]

    def on_node(self, node: int) -> int:
        """Accesses to a node by all vCPUs."""
        return sum(vcpu[node] for vcpu in self.nodes)

    @property
    def total(self) -> int:
        """Accesses to all nodes by all vCPUs."""
        return sum(sum(vcpu) for vcpu in self.nodes)


@dataclass(frozen=True)
class HitRatio:
    """The share of accesses that the fast nodes served in the time up to t_ms."""

    t_ms: int
    phase: int
    ratio: float
    accesses: int


def parse_access_line(line: str) -> AccessSample:
    """One line of JSON, also while the guest runs."""
    data: dict[str, Any] = json.loads(line)
    return AccessSample(
        t_ms=data["t_ms"],
        event=data["event"],
        region=data["region"],
        phase=data["phase"],
        valid=data["valid"],
        why=data["why"],
        nodes=tuple(tuple(vcpu[f"node{n}"] for n in range(len(vcpu) - 1)) for vcpu in data["vcpu"]),
        other=tuple(vcpu["other"] for vcpu in data["vcpu"]),
    )


def read_access(path: Path, region: int | None = None, check: bool = True) -> list[AccessSample]:
    """The samples of one START...STOP region (by default the last), START included.

    A result is valid only if the last line says so: what was wrong later in a
    run casts doubt on the calibration before.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    # A guest that was killed may leave half a line.
    lines = text[: text.rfind("\n") + 1].splitlines()
    samples = [parse_access_line(line) for line in lines]
    if not samples:
        raise LabError(
            f"access.so wrote nothing to {path}", "did QEMU load the plugin? see console.log"
        )
    if check:
        _require(samples[-1].valid, samples[-1].why, path)
    wanted = samples[-1].region if region is None else region
    inside = [sample for sample in samples if sample.region == wanted]
    if not inside:
        raise LabError(
            f"{path.name} has no region {wanted}, only 1 to {samples[-1].region}",
            "a region begins with each START marker",
        )
    return inside


def hit_ratio_series(samples: Iterable[AccessSample], fast: Collection[int]) -> list[HitRatio]:
    """The hit ratio of the nodes ``fast`` in every interval that has accesses."""
    series: list[HitRatio] = []
    before: AccessSample | None = None
    for sample in samples:
        if before is not None:
            total = sample.total - before.total
            hits = sum(sample.on_node(n) - before.on_node(n) for n in fast)
            if total > 0:
                series.append(HitRatio(sample.t_ms, sample.phase, hits / total, total))
        before = sample
    return series


# insn.so


@dataclass(frozen=True)
class SymbolCount:
    """What one kernel symbol executed, per vCPU."""

    name: str
    insn: tuple[int, ...]
    locked: tuple[int, ...]
    rep: tuple[int, ...]


@dataclass(frozen=True)
class VcpuCount:
    """What one vCPU executed: user code, and the kernel with its locked operations.

    ``kernel_busy`` is ``kernel`` without IDLE_SYMBOLS.  Iterations of
    instructions with a rep prefix are apart, and in no other figure.
    """

    user: int
    user_locked: int
    user_rep: int
    kernel: int
    kernel_busy: int
    locked: int
    rep: int


@dataclass(frozen=True)
class InsnTable:
    """Counts by vCPU and by symbol (static functions of one name are added up)."""

    vcpus: tuple[VcpuCount, ...]
    symbols: dict[str, SymbolCount]


@dataclass(frozen=True)
class KindCount:
    """Kernel instructions of a kind of work, per vCPU: by processes, by kernel threads."""

    process: tuple[int, ...]
    thread: tuple[int, ...]


@dataclass(frozen=True)
class InsnResult:
    """The last START...STOP region of a run: in total, by phase, and by kind of work.

    ``apart`` is what the kinds leave out, per vCPU; ``unmatched`` the share of returns
    whose call the plugin did not know (lab/plugin/calls.h).
    """

    total: InsnTable
    phases: dict[int, InsnTable]
    kinds: dict[str, KindCount]
    apart: tuple[int, ...]
    unmatched: float


def _insn_table(data: dict[str, Any]) -> InsnTable:
    symbols: dict[str, SymbolCount] = {}
    for entry in data["symbols"]:
        old = symbols.get(entry["name"])
        rows = {key: tuple(entry[key]) for key in ("insn", "locked", "rep")}
        if old:
            rows = {
                key: tuple(a + b for a, b in zip(row, getattr(old, key), strict=True))
                for key, row in rows.items()
            }
        symbols[entry["name"]] = SymbolCount(name=entry["name"], **rows)
    idle = [symbols[name].insn for name in IDLE_SYMBOLS & symbols.keys()]
    vcpus = tuple(
        VcpuCount(kernel_busy=counts["kernel"] - sum(row[cpu] for row in idle), **counts)
        for cpu, counts in enumerate(data["vcpus"])
    )
    return InsnTable(vcpus, symbols)


def read_insn(path: Path, check: bool = True, *, kinds: bool = True) -> InsnResult:
    """The result of insn.so; without ``kinds``, these need not be right."""
    if not path.exists():
        raise LabError(f"insn.so wrote no {path}", "did QEMU load the plugin? see console.log")
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    unmatched = sum(data["unmatched"]) / max(1, sum(data["returns"]))
    if check:
        _require(data["valid"], data["why"], path)
        _require(
            not kinds or unmatched <= MAX_UNMATCHED,
            f"{unmatched:.1%} of returns without a call",
            path,
        )
    return InsnResult(
        total=_insn_table(data),
        phases={phase["phase"]: _insn_table(phase) for phase in data["phases"]},
        kinds={
            entry["kind"]: KindCount(tuple(entry["process"]), tuple(entry["thread"]))
            for entry in data["kinds"]
        },
        apart=tuple(data["apart"]),
        unmatched=unmatched,
    )


# tlb.so


@dataclass(frozen=True)
class FlushCount:
    """How often the instructions of one kernel symbol flushed the TLB, per vCPU.

    ``what`` is "cr3", "cr4" or "invpcid", which flush all, or "invlpg", a page.
    """

    symbol: str
    what: str
    count: tuple[int, ...]


@dataclass(frozen=True)
class TlbResult:
    """The last START...STOP region: per vCPU, and flushes by place.

    ``fills`` are what the model TLB of ``entries`` translations did not hold, of the
    ``accesses`` of user code.
    """

    entries: int
    accesses: tuple[int, ...]
    fills: tuple[int, ...]
    flushes: tuple[FlushCount, ...]

    def flushed(self, cpus: Iterable[int], *, switches: bool) -> int:
        """Flushes of everything by some vCPUs, because of a switch or for other reasons."""
        return sum(
            flush.count[cpu]
            for cpu in cpus
            for flush in self.flushes
            if flush.what != "invlpg" and (flush.symbol in SWITCH_SYMBOLS) == switches
        )

    def flushed_pages(self, cpus: Iterable[int]) -> int:
        """Flushes of single pages by some vCPUs."""
        return sum(
            flush.count[cpu] for cpu in cpus for flush in self.flushes if flush.what == "invlpg"
        )


def text_symbols(system_map: Path) -> tuple[list[int], list[str]]:
    """Addresses, sorted, and names of a kernel's functions."""
    rows = [line.split() for line in system_map.read_text(encoding="ascii").splitlines()]
    found = sorted(
        (int(address, 16), name)
        for address, kind, name in rows
        if kind in "tTwW" and not name.startswith("__pfx_")
    )
    return [address for address, _ in found], [name for _, name in found]


@dataclass(frozen=True)
class HoldsResult:
    """What holds.so measured, in instructions."""

    stretch: int  # the longest without a point at which others may run
    stretch_end: str  # function in which it ended
    longest: dict[str, int]  # hold of a lock, by the function that has taken it
    mean: dict[str, float]


def read_holds(path: Path, system_map: Path) -> HoldsResult:
    """The result of holds.so."""
    if not path.exists():
        raise LabError(f"holds.so wrote no {path}", "did QEMU load the plugin? see console.log")
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    _require(data["valid"] and bool(data["stretches"]), data["why"], path)
    addresses, names = text_symbols(system_map)

    def name(pc: int) -> str:
        return names[max(0, bisect.bisect_right(addresses, pc) - 1)]

    worst = max(data["stretches"], key=lambda one: one["longest"])
    by_name: dict[str, list[dict[str, int]]] = {}
    for hold in data["holds"]:
        by_name.setdefault(name(hold["caller"]), []).append(hold)
    return HoldsResult(
        stretch=worst["longest"],
        stretch_end=name(worst["end"]),
        longest={key: max(one["longest"] for one in found) for key, found in by_name.items()},
        mean={
            key: sum(one["sum"] for one in found) / sum(one["holds"] for one in found)
            for key, found in by_name.items()
        },
    )


def read_tlb(path: Path, system_map: Path, check: bool = True) -> TlbResult:
    """The result of tlb.so."""
    if not path.exists():
        raise LabError(f"tlb.so wrote no {path}", "did QEMU load the plugin? see console.log")
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if check:
        _require(data["valid"], data["why"], path)
    addresses, names = text_symbols(system_map)
    return TlbResult(
        entries=data["entries"],
        accesses=tuple(data["accesses"]),
        fills=tuple(data["fills"]),
        flushes=tuple(
            FlushCount(
                # Code before all functions is of the boot.
                symbol=names[max(0, bisect.bisect_right(addresses, flush["pc"]) - 1)],
                what=flush["what"],
                count=tuple(flush["count"]),
            )
            for flush in data["flushes"]
        ),
    )
