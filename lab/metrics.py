# SPDX-License-Identifier: GPL-2.0
"""Figures that compare contenders, derived from what agent and plugins wrote.

Everything is of the measured interval, between the workload's START and STOP.
"fast" is memory on nodes that have CPUs, "slow" is all other memory; "app" is
the CPUs that the scenario calls the application's.

On a machine with several sockets an access is "local" if the node is of the CPU's own
socket, and a process's "own" node is the fast one of the socket on which it ends.

Kernel instructions never include the idle loop, nor the iterations of rep
instructions (lab/plugin/insn.c), nor waiting in the slow path of a lock: how
long that takes depends on when the host runs the vCPU that holds the lock, so
it is a figure of its own.  Waiting for the acknowledgement of a shootdown is
inside smp_call_function_many_cond() and cannot be told apart.

The cost per promoted page is the difference to the contender without tiering
over the same work, divided by the pages promoted; next to it stands what that
difference is worth, because a small difference of two large counts is noise.

The overhead table tells the same difference apart by kind of work, by process or
kernel thread, and by CPU.  It is made of the plugin's counts of each kind, which
cover all symbols; only then the symbols are trimmed.

Two models give the run's memory time.  Both let every counted access (a miss of
the model cache) wait for the whole read latency that HMAT states for its node,
one after the other; the second adds KERNEL_INSN_NS for each kernel instruction
on the app CPUs.  Both give all contenders as many accesses per operation as the one
without tiering had, so the first is the mean latency of an access: how many miss the
model cache is by chance (docs/lab.md).  Where it differs by more than STEADY_ACCESSES,
there is no saying how much the kernel's part weighs, and no second model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab import damon, flushes, instruments, topology

SPIN_SYMBOLS = (
    "queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "osq_lock",
    "mutex_spin_on_owner",
    "rwsem_spin_on_owner",
)
# Waits for other CPUs to acknowledge an interrupt; sending them is inside of it as well.
IPI_SYMBOL = "smp_call_function_many_cond"
SMOOTH_S = 0.5  # the hit ratio at a time is that of the seconds before it
SHARE_OF_FINAL = 0.9
MOVED = 0.05  # a ratio that rose by less has no convergence time
SERIES_POINTS = 1200
STEADY_ACCESSES = 0.05  # by so much at most the counted accesses per operation may differ
KERNEL_INSN_NS = 1.0  # an assumption: what one kernel instruction takes
OFF = "off"  # contender that is tiershift without what the scenario is about
SAME_MEMORY_KB = 1024  # a node's memory may differ by less between contenders
SAME_RATIO = 0.005  # variants this near to the best ratio are ranked by their time
ORACLE_STAYS = 0.99  # of the pages that an oracle placed
# What kmmscand was posted with (RFC of 2024-12-01), against NUMA balancing in mode 2: for each
# scenario with the same job the changes at 8 and at 32 GB.
CLAIMED = {"uniform": {"overhead": (-0.788, -0.142), "completion": (-0.149, -0.072)}}
# The kinds of work that its overhead counts: scanning, and hint faults or what is instead
CLAIMED_WORK = ("scan", "fault", "migration")
# Columns of a point of run["access"]; the last two only if there are several sockets.
TIME, FAST, SLOW, LOCAL, WAITED = range(5)


@dataclass(frozen=True)
class Row:
    """One line of the comparison."""

    key: str
    label: str
    kind: str  # ratio, points, seconds, count, times, per_op, per_page, per_access, ns
    note: str = ""


ROWS = (
    Row("hit_ratio_end", "fast-tier hit ratio at the end", "ratio"),
    Row("below_oracle", "  below the oracle's, in points", "points"),
    Row("hit_ratio", "fast-tier hit ratio, whole run", "ratio"),
    Row("access_ns", "modelled memory access time at the end (HMAT)", "ns"),
    Row("accesses_per_op", "memory accesses counted per operation", "per_op"),
    Row("slow_per_op", "slow-tier accesses per operation at the end", "per_op"),
    Row("memory_time", "modelled time per access, whole run, of that without tiering", "ratio"),
    Row("memory_kernel_time", "  with the kernel instructions on app CPUs", "ratio"),
    Row("t90_s", "time to 90 % of the ratio at the end", "seconds"),
    Row("t90_ops", "  operations until then", "count"),
    Row("ratio_before_shift", "fast-tier hit ratio before the hot set moves", "ratio"),
    Row("t90_first_s", "  time to 90 % of that", "seconds"),
    Row("t90_again_s", "  from the move to 90 % of the ratio at the end", "seconds"),
    Row("t90_again_times", "  this in multiples of the first time", "times"),
    Row("t90_best_s", "time to 90 % of the best scheme's ratio", "seconds"),
    Row("promoted", "pages promoted", "count"),
    Row("demoted", "pages demoted", "count"),
    Row("moved_up", "promotions that were watched", "count"),
    Row("again_share", "  of these, of a page that had been promoted before", "ratio"),
    Row("hint_faults", "NUMA hint faults", "count"),
    Row("shootdowns_sent", "TLB shootdowns sent", "count"),
    Row("shootdowns_received", "TLB shootdowns received, all CPUs", "count"),
    Row("shootdowns_app", "TLB shootdown interrupts on app CPUs", "count"),
    Row("tlb_flushes", "whole TLB flushed but for switches, app CPUs", "count"),
    Row("tlb_fills", "fills of the model TLB, app CPUs", "count"),
    Row("app_kernel", "kernel instructions, app CPUs", "count"),
    Row("app_kernel_per_op", "  per operation", "per_op"),
    Row("app_per_page", "  more than without tiering, per promoted page", "per_page"),
    Row("app_per_fast", "  and per fast-tier access gained", "per_access"),
    Row("all_kernel", "kernel instructions, all CPUs", "count"),
    Row("all_kernel_per_op", "  per operation", "per_op"),
    Row("all_per_page", "  more than without tiering, per promoted page", "per_page"),
    Row("all_per_fast", "  and per fast-tier access gained", "per_access"),
    Row("app_spin", "instructions spent spinning on locks, app CPUs", "count"),
    Row("app_locked", "locked operations in the kernel, app CPUs", "count"),
    Row("fast_free_kb", "free memory of the fast tier, mean of the second half, KiB", "count"),
    Row("thp_splits", "huge pages split", "count"),
    Row("huge_kb_change", "change of huge mappings, KiB", "count"),
    Row("hot_on_fast", "share of the true hot set on the fast node", "ratio"),
    Row("hot_on_own", "  on the own socket's fast node", "ratio"),
    Row("hot_on_own_least", "  of the process that has least there", "ratio"),
    Row("local_ratio_end", "share of fast-tier accesses that are local, at the end", "ratio"),
    Row("local_ratio", "  whole run", "ratio"),
    Row("local_before_swap", "  before the processes change sockets", "ratio"),
    Row("t90_local_s", "  from then to 90 % of the share at the end", "seconds"),
    Row("in_vain", "promotions without a page more on the fast tier in the end", "count"),
    Row("sideways", "pages migrated that were not promoted or demoted", "count"),
    Row("ops", "operations", "count"),
    Row("seconds", "guest seconds (emulated, not a speed)", "seconds"),
)


# --- from the plugins' files ----------------------------------------------------


def access_point(
    sample: instruments.AccessSample, cpus: list[int], fast: list[int]
) -> tuple[float, int, int]:
    """(seconds since START, fast accesses, slow accesses) of some CPUs."""
    quick = sum(sample.nodes[cpu][node] for cpu in cpus for node in fast)
    total = sum(sum(sample.nodes[cpu]) for cpu in cpus)
    return sample.t_ms / 1000, quick, total - quick


def socket_point(
    sample: instruments.AccessSample, cpus: list[int], machine: topology.Topology
) -> tuple[float, int, int, int, int]:
    """access_point(), the fast accesses that are local, and the latencies of all accesses."""
    local = waited = 0
    for cpu in cpus:
        socket = machine.socket_of_cpu(cpu)
        local += sample.nodes[cpu][socket]
        waited += sum(
            count * machine.latency_ns(socket, node) for node, count in enumerate(sample.nodes[cpu])
        )
    return (*access_point(sample, cpus, machine.fast), local, waited)


def instruments_of(
    measure: Any, machine: topology.Topology, out: Path, system_map: Path | None = None
) -> dict[str, Any]:
    """What the plugins measured, reduced to what the comparison needs.

    ``system_map`` is that of the kernel, to name what flushes the TLB.
    """
    found: dict[str, Any] = {}
    if "access" in measure.instruments:
        cpus, fast = measure.app_cpus, machine.fast
        samples = instruments.read_access(out / "access.jsonl")
        points = [
            [*(socket_point(s, cpus, machine) if len(fast) > 1 else access_point(s, cpus, fast))]
            for s in samples
        ]
        step = max(1, len(points) // SERIES_POINTS)
        found["access"] = points[:-1:step] + points[-1:]
    if "insn" in measure.instruments:
        result = instruments.read_insn(out / "insn.json")
        table = result.total
        waits = [table.symbols[name].insn for name in SPIN_SYMBOLS if name in table.symbols]
        ipi = table.symbols.get(IPI_SYMBOL)
        vcpus = []
        for cpu, counts in enumerate(table.vcpus):
            spin = sum(row[cpu] for row in waits)
            work = counts.kernel_busy - spin
            waited = ipi.insn[cpu] if ipi else 0
            vcpus.append(
                {
                    **asdict(counts),
                    "kernel_spin": spin,
                    "kernel_work": work,  # what follows is part of it
                    "kernel_ipi_wait": waited,
                }
            )
        found["insn"] = {
            "vcpus": vcpus,
            "kinds": {name: asdict(count) for name, count in result.kinds.items()},
            "unmatched": result.unmatched,
            "top_symbols": top_symbols(table, measure.app_cpus),
        }
    if "tlb" in measure.instruments:
        assert system_map
        tlb = instruments.read_tlb(out / "tlb.json", system_map)
        cpus = measure.app_cpus
        found["tlb"] = {
            "entries": tlb.entries,
            "accesses": sum(tlb.accesses[cpu] for cpu in cpus),
            "fills": sum(tlb.fills[cpu] for cpu in cpus),
            "flushes": tlb.flushed(cpus, switches=False),
            "switches": tlb.flushed(cpus, switches=True),
            "pages": tlb.flushed_pages(cpus),
        }
    return found


def top_symbols(
    table: instruments.InsnTable, cpus: list[int], keep: int = 40
) -> list[tuple[str, int, int]]:
    """The kernel functions with most instructions, [name, app CPUs, all CPUs]."""
    rows: list[tuple[str, int, int]] = [
        (name, sum(count.insn[cpu] for cpu in cpus), sum(count.insn))
        for name, count in table.symbols.items()
        if name not in instruments.IDLE_SYMBOLS and name not in SPIN_SYMBOLS
    ]
    return sorted(rows, key=lambda row: (-row[1], -row[2]))[:keep]


# --- the hit ratio over time ----------------------------------------------------


def ratio_between(points: list[list[float]], start: float, end: float) -> float | None:
    """Fast share of the accesses between two times; None where nothing was counted."""
    inside = [p for p in points if start - 1e-9 <= p[0] <= end + 1e-9]
    if len(inside) < 2:
        return None
    fast = inside[-1][1] - inside[0][1]
    total = fast + inside[-1][2] - inside[0][2]
    return fast / total if total > 0 else None


def ratio_series(points: list[list[float]], start: float = 0.0) -> list[tuple[float, float]]:
    """(time, hit ratio over the SMOOTH_S before it), of what came after ``start``."""
    series = []
    for point in points:
        if point[0] >= start + SMOOTH_S:
            ratio = ratio_between(points, point[0] - SMOOTH_S, point[0])
            if ratio is not None:
                series.append((point[0], ratio))
    return series


def time_to(series: list[tuple[float, float]], target: float) -> float | None:
    """When the ratio first reached a target."""
    return next((t for t, ratio in series if ratio >= target), None)


def convergence(
    points: list[list[float]], start: float, end: float, tail_s: float
) -> tuple[float | None, float | None]:
    """(hit ratio at the end of a part of a run, when it first reached 90 % of that).

    There is no time if the ratio hardly rose, or if nothing was counted.
    """
    inside = [point for point in points if start <= point[0] <= end]
    final = ratio_between(inside, end - min(tail_s, (end - start) / 4), end)
    series = ratio_series(inside, start)
    if final is None or not series:
        return final, None
    # Smoothed, the first value may be that of a time at which much has moved already.
    first = ratio_between(inside, inside[0][0], inside[1][0])
    if final - (series[0][1] if first is None else first) < MOVED:
        return final, None
    return final, time_to(series, SHARE_OF_FINAL * final)


def ops_at(progress: list[dict[str, float]], t: float) -> float | None:
    """Operations done at a time, between the workload's progress lines."""
    before = {"t": 0.0, "ops": 0.0}
    for point in progress:
        if point["t"] >= t:
            span = point["t"] - before["t"]
            part = (t - before["t"]) / span if span > 0 else 1.0
            return before["ops"] + part * (point["ops"] - before["ops"])
        before = point
    return None


# --- one contender ----------------------------------------------------------------


def _by_damon(run: dict[str, Any], action: str) -> int:
    """Pages moved by a DAMOS action, which no counter of /proc/vmstat tells apart."""
    stats = (run["agent"].get("damon") or {}).get(action, {})
    return int(stats.get("pages", 0))


def _fast_free_kb(series: list[dict[str, Any]], machine: dict[str, Any]) -> int | None:
    """What the fast nodes have free on average in the second half, None if nobody looked."""
    fast = [f"node{number}" for number, node in enumerate(machine["nodes"]) if node["cpus"]]
    samples = [point["free_kb"] for point in series[len(series) // 2 :] if "free_kb" in point]
    if not samples:
        return None
    total: int = sum(sample[node] for sample in samples for node in fast)
    return round(total / len(samples))


def of_contender(run: dict[str, Any], setup: dict[str, Any], machine: dict[str, Any]) -> Any:
    """The figures that need no other contender."""
    measured, work = run["agent"]["measured"], run["agent"]["workload"]
    delta, cpus = measured["delta"], setup["measure"]["app_cpus"]
    figures: dict[str, Any] = {
        "promoted": flushes.total(delta, flushes.PROMOTED) + _by_damon(run, damon.HOT),
        "demoted": flushes.total(delta, flushes.DEMOTED) + _by_damon(run, damon.COLD),
        "hint_faults": delta.get("numa_hint_faults", 0),
        "shootdowns_sent": delta.get("nr_tlb_remote_flush"),
        "shootdowns_received": delta.get("nr_tlb_remote_flush_received"),
        "shootdowns_app": sum(measured["tlb_interrupts"][cpu] for cpu in cpus),
        "thp_splits": delta.get("thp_split_page", 0),
        "ops": work.get("ops"),
        "seconds": work.get("seconds", measured["seconds"]),
        "hot_on_fast": work.get("hot_on_fast"),
    }
    if "tlb" in run:
        figures["tlb_flushes"], figures["tlb_fills"] = (
            run["tlb"][key] for key in ("flushes", "fills")
        )
    if "watch" in run["agent"]:
        watched = run["agent"]["watch"]
        figures["moved_up"] = watched["promotions"]
        if watched["promotions"]:
            figures["again_share"] = watched["promoted_again"] / watched["promotions"]
    if "huge_kb_after" in work:
        figures["huge_kb_change"] = work["huge_kb_after"] - work["huge_kb_before"]
    free = _fast_free_kb(measured.get("series", []), machine)
    if free is not None:
        figures["fast_free_kb"] = free
    if "access" in run:
        figures.update(_access_figures(run, setup, machine))
    if sum(bool(node["cpus"]) for node in machine["nodes"]) > 1:
        figures.update(_page_figures(run, figures, topology.from_dict(machine)))
    if "insn" in run:
        vcpus = run["insn"]["vcpus"]
        figures["app_kernel"] = sum(vcpus[cpu]["kernel_work"] for cpu in cpus)
        figures["all_kernel"] = sum(vcpu["kernel_work"] for vcpu in vcpus)
        figures["app_spin"] = sum(vcpus[cpu]["kernel_spin"] for cpu in cpus)
        figures["app_locked"] = sum(vcpus[cpu]["locked"] for cpu in cpus)
        if figures["ops"]:
            figures["app_kernel_per_op"] = figures["app_kernel"] / figures["ops"]
            figures["all_kernel_per_op"] = figures["all_kernel"] / figures["ops"]
    return figures


def _access_figures(
    run: dict[str, Any], setup: dict[str, Any], machine: dict[str, Any]
) -> dict[str, Any]:
    points, progress = run["access"], run["agent"]["measured"]["progress"]
    end, tail_s = points[-1][0], setup["measure"]["tail_s"]
    shift = run["agent"]["workload"].get("shift_s") or 0.0
    final, t90 = convergence(points, shift, end, tail_s)
    figures: dict[str, Any] = {
        "hit_ratio_end": final,
        "hit_ratio": ratio_between(points, 0, end),
        "tail_s": min(tail_s, (end - shift) / 4),
    }
    figures["fast_accesses"], slow = (points[-1][tier] - points[0][tier] for tier in (FAST, SLOW))
    figures["accesses"] = figures["fast_accesses"] + slow
    ops = run["agent"]["workload"].get("ops")
    if ops:
        figures["accesses_per_op"] = figures["accesses"] / ops
        figures["slow_per_op"] = _slow_per_op(points, progress, end - figures["tail_s"], end)
    latency = {bool(node["cpus"]): node["latency_ns"] for node in machine["nodes"]}
    if len(points[-1]) > WAITED:
        figures.update(_socket_figures(run, figures["tail_s"], tail_s))
    elif len(latency) == 2:
        if final is not None:
            figures["access_ns"] = final * latency[True] + (1 - final) * latency[False]
        waited = figures["fast_accesses"] * latency[True] + slow * latency[False]
        figures["memory_ns"] = waited
    if shift:
        figures["ratio_before_shift"], first = convergence(points, 0.0, shift, tail_s)
        figures["t90_first_s"] = first
        figures["t90_again_s"] = t90 - shift if t90 is not None else None
        if first and t90 is not None:
            figures["t90_again_times"] = (t90 - shift) / first
    elif t90 is not None:
        figures["t90_s"] = t90
        figures["t90_ops"] = ops_at(progress, t90)
    return figures


def _slow_per_op(
    points: list[list[float]], progress: list[dict[str, float]], start: float, end: float
) -> float | None:
    """Accesses to the slow tier per operation between two times.

    Lines of the stack and of other memory that is always hot evict one another from the model
    cache in one layout of the address space, and not in another: the hit ratio counts their
    misses, and differs for it between equal runs of Redis.  This figure does not count them when
    that memory is on the fast tier.
    """
    told = progress[-1]["t"] if progress else 0.0
    inside = [point for point in points if start <= point[TIME] <= min(end, told)]
    if len(inside) < 2:
        return None
    before, after = (ops_at(progress, inside[at][TIME]) for at in (0, -1))
    if before is None or after is None or after <= before:
        return None
    return (inside[-1][SLOW] - inside[0][SLOW]) / (after - before)


def _part(points: list[list[float]], part: int, *whole: int) -> list[list[float]]:
    """Points whose "ratio" is that of a column to the sum of others."""
    return [[p[TIME], p[part], sum(p[column] for column in whole) - p[part]] for p in points]


def _socket_figures(run: dict[str, Any], last_s: float, tail_s: float) -> dict[str, Any]:
    """What depends on the socket that an access came from.

    A page on the wrong fast node counts for the hit ratio all the same; here it does not.
    """
    points, swap = run["access"], run["agent"]["workload"].get("swap_s") or 0.0
    end, local = points[-1][TIME], _part(points, LOCAL, FAST)
    final, t90 = convergence(local, swap, end, tail_s)
    figures: dict[str, Any] = {
        "local_ratio_end": final,
        "local_ratio": ratio_between(local, 0, end),
        "access_ns": ratio_between(_part(points, WAITED, FAST, SLOW), end - last_s, end),
        "memory_ns": points[-1][WAITED] - points[0][WAITED],
    }
    if swap:
        figures["local_before_swap"], _ = convergence(local, 0.0, swap, tail_s)
        figures["t90_local_s"] = t90 - swap if t90 is not None else None
    return figures


def _page_figures(
    run: dict[str, Any], figures: dict[str, Any], machine: topology.Topology
) -> dict[str, Any]:
    """Where the workload's pages are in the end, and what was moved without effect.

    A page that the workload had on the slow tier is promoted once more than it is demoted
    if it ends on a fast node, and as often as that if it does not.  So promotions beyond
    what the fast nodes have gained were of pages that came back or went down again (or of
    other programs' pages).  Whatever the kernel migrated neither up nor down went from one
    fast node to another, or was compacted.
    """
    work, delta = run["agent"]["workload"], run["agent"]["measured"]["delta"]
    found: dict[str, Any] = {}
    if "procs" in work:
        hot = [(_home(machine, proc["cpus"]), proc["hot"]) for proc in work["procs"]]
        total = sum(sum(pages) for _, pages in hot)
        on_fast = [sum(_on(pages, node) for node in machine.fast) for _, pages in hot]
        found["hot_on_fast"] = sum(on_fast) / total
        own = [(_on(pages, home), sum(pages)) for home, pages in hot if home is not None]
        if len(own) == len(hot):
            found["hot_on_own"] = sum(there for there, _ in own) / total
            found["hot_on_own_least"] = min(there / pages for there, pages in own)
    if "pages_after" in work:
        before, after = (
            sum(_on(work[key], node) for node in machine.fast)
            for key in ("pages_before", "pages_after")
        )
        found["pages"] = sum(work["pages_before"])
        found["in_vain"] = figures["promoted"] - (after - before)
    if "pgmigrate_success" in delta:
        moved = figures["promoted"] + figures["demoted"]
        found["sideways"] = delta["pgmigrate_success"] - moved
    return found


def _home(machine: topology.Topology, cpus: list[int]) -> int | None:
    """The socket of a process; None if it runs on several."""
    sockets = {machine.socket_of_cpu(cpu) for cpu in cpus}
    return sockets.pop() if len(sockets) == 1 else None


def _on(pages: list[int], node: int) -> int:
    return pages[node] if node < len(pages) else 0  # a list ends with the last that has any


# --- all together -------------------------------------------------------------------


def derive(result: dict[str, Any]) -> dict[str, Any]:
    """{"figures": {contender: {row: value}}, "baseline": ..., "noise": ...}."""
    setup, machine = result["setup"], result["machine"]
    figures = {run["name"]: of_contender(run, setup, machine) for run in result["contenders"]}
    oracles = [run["name"] for run in result["contenders"] if run["mode"] == "oracle"]
    schemes = [row for name, row in figures.items() if name not in oracles]
    _below_oracle(schemes, [figures[name] for name in oracles])
    best = max((row.get("hit_ratio_end") or 0.0 for row in schemes), default=0.0)
    for run in result["contenders"]:
        shifts = "shift_s" in run["agent"]["workload"]  # then one time says nothing
        if "access" in run and best and run["name"] not in oracles and not shifts:
            series = ratio_series(run["access"])
            figures[run["name"]]["t90_best_s"] = time_to(series, SHARE_OF_FINAL * best)
    idle = [run["name"] for run in result["contenders"] if run["mode"] == "none"]
    noise = _noise(setup, result["contenders"], figures)
    if idle:
        _memory_times(figures, idle[0], _twins(result["contenders"]), idle)
    for name, row in figures.items():
        if not idle or not row.get("ops") or not figures[idle[0]].get("ops"):
            continue
        base = figures[idle[0]]
        if name in idle:
            continue
        gains = {"page": row["promoted"], "fast": _beyond(row, base, "fast_accesses")}
        for who in ("app", "all"):
            more = _beyond(row, base, f"{who}_kernel")
            for what, gain in gains.items():
                if more is None or not gain or gain < 0:
                    continue
                row[f"{who}_per_{what}"] = more / gain
                if noise[who]:
                    row[f"{who}_per_{what}_noise"] = noise[who] * row["ops"] / gain
    return {
        "figures": figures,
        "baseline": idle[0] if idle else None,
        "noise": noise,
        "best": best_variants(result["contenders"], figures),
        "overhead": overhead(result["contenders"], figures, idle, setup["measure"]["app_cpus"]),
    }


def _beyond(row: dict[str, Any], base: dict[str, Any], key: str) -> float | None:
    """How much more than the baseline, which is scaled to the same operations."""
    if row.get(key) is None or base.get(key) is None:
        return None
    return float(row[key] - base[key] * row["ops"] / base["ops"])


def _memory_times(
    figures: dict[str, Any], baseline: str, twins: list[str], idle: list[str]
) -> None:
    """What the two models give, as shares of the baseline's, and by how much twins differ."""
    rows = {name: row for name, row in figures.items() if row.get("accesses_per_op")}
    base = rows.get(baseline)
    if not base or not base.get("memory_ns"):
        return
    per_op = [row["accesses_per_op"] for row in rows.values()]
    steady = max(per_op) <= (1 + STEADY_ACCESSES) * min(per_op)
    for row in rows.values():
        row["memory_time"] = _per_access(row) / _per_access(base)
        if steady and "app_kernel" in row and "app_kernel" in base:
            mine, zero = (
                base["accesses_per_op"] * _per_access(one)
                + KERNEL_INSN_NS * one["app_kernel"] / one["ops"]
                for one in (row, base)
            )
            row["memory_kernel_time"] = mine / zero
    for key in ("memory_time", "memory_kernel_time"):
        differ = max(abs(rows[name].get(key, 1.0) - 1) for name in twins if name in rows)
        for name, row in rows.items():
            if differ and key in row and name not in idle:
                row[key + "_noise"] = differ


def _per_access(row: dict[str, Any]) -> float:
    return float(row["memory_ns"] / row["accesses"])


def overhead(
    runs: list[dict[str, Any]], figures: dict[str, Any], idle: list[str], app_cpus: list[int]
) -> dict[str, Any]:
    """{contender: {kind: {"process app": kernel instructions beyond the baseline's, ...}}}.

    A process or a kernel thread executed them, on the application's or on other CPUs.
    """
    counts = {
        run["name"]: {
            kind: {
                f"{who} {where}": sum(
                    n for cpu, n in enumerate(count[who]) if (cpu in app_cpus) == (where == "app")
                )
                for who in ("process", "thread")
                for where in ("app", "other")
            }
            for kind, count in run["insn"]["kinds"].items()
        }
        for run in runs
        if "kinds" in run.get("insn", {}) and figures[run["name"]].get("ops")
    }
    if not idle or idle[0] not in counts:
        return {}
    base = counts[idle[0]]
    return {
        name: {
            kind: {
                place: n - base[kind][place] * figures[name]["ops"] / figures[idle[0]]["ops"]
                for place, n in places.items()
            }
            for kind, places in kinds.items()
        }
        for name, kinds in counts.items()
        if name != idle[0]
    }


def against_numab2(result: dict[str, Any]) -> dict[str, float | None]:
    """By which share tiershift needs more than NUMA balancing, of what kmmscand's post claims.

    {} unless the scenario is the post's and both have been measured; of a stored result, too.
    """
    names = {run["mode"]: run["name"] for run in reversed(result["contenders"])}
    if result["scenario"] not in CLAIMED or not {"numab2", "tiershift"} <= names.keys():
        return {}
    found = result["metrics"]

    def change(mine: float | None, theirs: float | None) -> float | None:
        return None if mine is None or not theirs or theirs < 0 else mine / theirs - 1

    def work(mode: str, places: tuple[str, ...]) -> float | None:
        kinds = found["overhead"].get(names[mode])
        if kinds is None:
            return None
        return float(sum(kinds[kind][place] for kind in CLAIMED_WORK for place in places))

    def time(mode: str) -> float | None:
        value: float | None = found["figures"][names[mode]].get("memory_kernel_time")
        return value

    everywhere = ("process app", "process other", "thread app", "thread other")
    return {
        "overhead": change(work("tiershift", everywhere), work("numab2", everywhere)),
        "of_app": change(work("tiershift", everywhere[:1]), work("numab2", everywhere[:1])),
        "completion": change(time("tiershift"), time("numab2")),
    }


def best_variants(runs: list[dict[str, Any]], figures: dict[str, Any]) -> dict[str, str]:
    """{mode: contender} of each rival that was run with several sets of tunables.

    The best has the highest hit ratio at the end; among equal ones, the least time to
    90 % of the best scheme's ratio (of its own after a move of the hot set).
    """
    found: dict[str, str] = {}
    for mode in dict.fromkeys(run["mode"] for run in runs):
        names = [run["name"] for run in runs if run["mode"] == mode]
        if mode in ("none", "oracle", "tiershift") or len(names) == 1:
            continue
        ratio = {name: figures[name].get("hit_ratio_end") or 0.0 for name in names}
        equal = [name for name in names if ratio[name] >= max(ratio.values()) - SAME_RATIO]
        found[mode] = min(equal, key=lambda name: (_time_to_rank(figures[name]), -ratio[name]))
    return found


def _time_to_rank(row: dict[str, Any]) -> float:
    times = (row.get(key) for key in ("t90_best_s", "t90_again_s"))
    return next((t for t in times if t is not None), float("inf"))


def _below_oracle(schemes: list[dict[str, Any]], oracles: list[dict[str, Any]]) -> None:
    """How many points of hit ratio each scheme lacks; negative if it has more."""
    ideal = max((row.get("hit_ratio_end") or 0.0 for row in oracles), default=0.0)
    for row in schemes:
        if ideal and row.get("hit_ratio_end") is not None:
            row["below_oracle"] = 100 * (ideal - row["hit_ratio_end"])


def _twins(runs: list[dict[str, Any]]) -> list[str]:
    """The contenders without tiering on the same kernel: equal runs."""
    plain = [run for run in runs if run["mode"] == "none"]
    return [run["name"] for run in plain if run["kernel"] == plain[0]["kernel"]]


def _noise(
    setup: dict[str, Any], runs: list[dict[str, Any]], figures: dict[str, Any]
) -> dict[str, Any]:
    """Kernel instructions per operation by which two equal runs differ.

    Measured where the scenario holds two contenders without tiering on the
    same kernel, else what the scenario states, else unknown (0).
    """
    noise: dict[str, Any] = {
        "app": setup["measure"]["noise_app_per_op"],
        "all": setup["measure"]["noise_all_per_op"],
        "source": "stated in the scenario file",
    }
    twins = _twins(runs)
    if len(twins) > 1:
        for who in ("app", "all"):
            values = [figures[name].get(f"{who}_kernel_per_op", 0.0) for name in twins]
            noise[who] = max(values) - min(values)
        noise["source"] = "measured in this run: " + ", ".join(twins)
    elif not noise["app"]:
        noise["source"] = "not measured"
    return noise


def _better_rivals(result: dict[str, Any], name: str) -> list[str]:
    """Rivals with a higher hit ratio at the end, beyond what counts as equal."""
    figures = result["metrics"]["figures"]
    mine = figures[name].get("hit_ratio_end") or 0.0
    return [
        f"{name}: hit ratio {mine:.1%} is below that of {run['name']}"
        for run in result["contenders"]
        if run["rival"] and (figures[run["name"]].get("hit_ratio_end") or 0.0) > mine + SAME_RATIO
    ]


def _little_over_off(figures: dict[str, Any], name: str, gain: float) -> list[str]:
    """Is the hit ratio at the end better by that much than with what is measured off?"""
    mine, off = (figures.get(key, {}).get("hit_ratio_end") for key in (name, OFF))
    if mine is not None and off is not None and mine - off >= gain:
        return []
    return [f"{name}: hit ratio {mine}, and {off} with it off, wanted {gain:g} more"]


def _unequal_memory(runs: list[dict[str, Any]]) -> list[str]:
    """Nodes that do not have the same size for all: kernels take their part of it at boot."""
    failures = []
    sizes: dict[str, dict[str, int]] = {}
    known = [run for run in runs if run["agent"].get("environment")]
    for run in known:
        for node, size in run["agent"].get("environment", {}).get("nodes", {}).items():
            sizes.setdefault(node, {})[run["name"]] = size["total_kb"]
    for node, by_name in sizes.items():
        if len(by_name) < len(known):
            failures.append(f"{node} exists only for {', '.join(by_name)}")
        least, most = (pick(by_name, key=by_name.__getitem__) for pick in (min, max))
        if by_name[most] - by_name[least] > SAME_MEMORY_KB:
            failures.append(
                f"{node} has {by_name[least]} KiB for {least}, {by_name[most]} for {most}: "
                "the kernels leave a different size (CONFIG_LOG_BUF_SHIFT in common.config)"
            )
    return failures


def check(result: dict[str, Any]) -> list[str]:
    """What does not hold; an empty list means that the comparison counts."""
    rules, figures = result["setup"]["check"], result["metrics"]["figures"]
    failures = _unequal_memory(result["contenders"])
    for run in result["contenders"]:
        name, row = run["name"], figures[run["name"]]
        if run["mode"] in ("none", "oracle"):
            if row["promoted"]:
                failures.append(f"{name}: {row['promoted']} pages promoted without tiering")
            placed, stayed = (
                run["agent"]["workload"].get(key, 0) for key in ("placed_hot", "placed_hot_after")
            )
            if stayed < ORACLE_STAYS * placed:
                failures.append(f"{name}: only {stayed} of {placed} placed pages stayed")
            continue
        if rules["rival_must_promote"] and not row["promoted"]:
            failures.append(f"{name} promoted nothing: there is no comparison to make")
        limit = rules["max_promoted_share"]
        pages = sum((run["agent"].get("placement") or {}).get("pages", {}).values())
        pages += run["agent"]["workload"].get("file_pages", 0)
        if limit and run["mode"] == "tiershift" and row["promoted"] > limit * pages:
            failures.append(
                f"{name} promoted {row['promoted']} of {pages} pages, more than {limit:.0%}"
            )
        changed = row.get("huge_kb_change") or row["thp_splits"]
        if rules["same_huge_pages"] and run["mode"] == "tiershift" and changed:
            failures.append(
                f"{name}: huge mappings changed by {row.get('huge_kb_change')} KiB, "
                f"{row['thp_splits']} huge pages split"
            )
        low = rules["min_hit_ratio"]
        if low and run["mode"] == "tiershift" and (row.get("hit_ratio_end") or 0) < low:
            failures.append(f"{name}: hit ratio {row.get('hit_ratio_end')} is below {low}")
        # Results of before have no such rule.
        gain = rules.get("min_over_off", 0.0)
        if gain and run["mode"] == "tiershift" and name != OFF:
            failures += _little_over_off(figures, name, gain)
        again, limit = row.get("again_share") or 0, rules["max_promoted_again"]
        if limit and run["mode"] == "tiershift" and (again > limit or "moved_up" not in row):
            found = f"{again:.1%}" if "moved_up" in row else "an unknown share"
            failures.append(f"{name}: {found} of what was promoted had been before")
        if rules["no_rival_better"] and run["mode"] == "tiershift":
            failures += _better_rivals(result, name)
        times, limit = row.get("t90_again_times"), rules["max_again_times"]
        if limit and run["mode"] == "tiershift" and (times is None or times > limit):
            found = "unknown" if times is None else f"{times:.2f} times as long as the first"
            failures.append(f"{name}: second convergence {found}, allowed {limit:g} times")
        if run["mode"] == "tiershift":
            failures += _socket_failures(name, row, rules)
        if not run["agent"]["workload"].get("verified", True):
            failures.append(f"{name}: the workload did not verify its data")
    return failures


def _socket_failures(name: str, row: dict[str, Any], rules: dict[str, Any]) -> list[str]:
    """What does not hold of the rules for several sockets; a figure that is missing does not."""
    failures = []
    for rule, key, words in (
        ("min_hot_on_fast", "hot_on_fast", "of the hot set on fast nodes"),
        ("min_hot_on_own", "hot_on_own_least", "of a process's hot set on its own fast node"),
    ):
        share = row.get(key)
        if rules[rule] and (share is None or share < rules[rule]):
            found = "unknown" if share is None else f"{share:.1%}"
            failures.append(f"{name}: {found} {words}, wanted {rules[rule]:.0%}")
    for rule, key, words in (
        ("max_sideways_share", "sideways", "migrated sideways"),
        ("max_in_vain_share", "in_vain", "promoted in vain"),
    ):
        moved, pages = row.get(key), row.get("pages") or 0
        if rules[rule] and (moved is None or moved > rules[rule] * pages):
            found = "unknown" if moved is None else f"{moved}"
            failures.append(f"{name}: {found} of {pages} pages {words}, allowed {rules[rule]:.0%}")
    return failures
