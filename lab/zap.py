# SPDX-License-Identifier: GPL-2.0
"""What unmapping costs, with batched unmapping (room zap-batch) and without.

lab/workloads/zap.c unmaps memory in several ways on a machine with one CPU whose time is the
number of instructions (QEMU's icount), so a figure repeats exactly.  Three modes: the unmodified
kernel; ours with the switch off; and on.  Each is a boot of its own.  Locked operations
and the share of statistics are counted by the insn plugin, on two CPUs, for 4 KiB pages.

How long others have to wait is measured by the holds plugin, in instructions: the longest hold
of each lock, and the longest stretch without a point at which others may run, three boots of
each row; and once more for threads that unmap at once, on eight CPUs.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import boots, build, cache, instruments, programs, scenario, tier, topology
from lab.errors import LabError
from lab.results import finish, ledger, study
from lab.results.study import Column, Study

NAME = "zap"
ENABLED = tier.enabled("zap")
CGROUP = "/sys/fs/cgroup"
SIZES = ("4", "16", "32", "64", "128", "256", "512", "1024", "2048pte", "2048")
COUNT_MB = 256  # of what the insn plugin counts
PAGES = COUNT_MB << 8
# Functions that do nothing but keep statistics
STATISTICS = re.compile(
    r"^_*(mod_(memcg_)?(lruvec|node_page|zone_page|memcg)_state|lruvec_stat_mod_folio"
    r"|memcg_rstat_updated|cgroup_rstat_updated|mod_node_page_state|mod_zone_page_state"
    r"|mem_cgroup_update_lru_size|zap_stat_flush|count_memcg_events)$"
)


@dataclass(frozen=True)
class Mode:
    """A kernel and what is switched on before."""

    kernel: str
    prepare: str
    label: str


MODES = {
    "base": Mode("base", "true", "unmodified"),
    "off": Mode("tiershift", "true", "ours, off"),
    "on": Mode("tiershift", f"echo 1 > {ENABLED}", "ours, on"),
}


@dataclass(frozen=True)
class Case:
    """A way to unmap, and how many times the base's cost it may have."""

    how: str
    folio: str
    size_mb: int
    most: float
    depth: int = 1  # of the memory control group
    named: bool = False  # the label has the size, since there is another row with another one

    @property
    def label(self) -> str:
        """Names the row."""
        folio = self.folio.replace("pte", " KiB by PTEs") if "pte" in self.folio else ""
        deep = f", group at depth {self.depth}" if self.depth != 1 else ""
        size = f", {self.size_mb} MiB" if self.named else ""
        return f"{self.how}, {folio or self.folio + ' KiB'}{size}{deep}"


SEED = tuple(Case("munmap", size, 1024, 0.70 if size == "4" else 1.01) for size in SIZES)
RECLAIM_MB = 300  # of the disk whose page cache is reclaimed
OTHERS = (
    Case("munmap", "4", 256, 0.35, named=True),
    Case("munmap", "16", 256, 1.01, named=True),
    Case("munmap", "32", 256, 1.01, named=True),
    Case("scattered", "4", 256, 0.70),
    Case("munmap", "4", 256, 0.70, depth=3),
    Case("munmap", "4", 256, 0.70, depth=6),
    Case("nodes", "4", 256, 1.02),
    Case("groups", "4", 256, 1.02),
    Case("pieces", "4", 256, 0.95),
    Case("dontneed", "4", 256, 0.75),
    Case("exit", "4", 1024, 0.75),
    Case("shell", "4", 1, 1.01),
    Case("reclaim", "4", 256, 0.97),
)
CASES = SEED + OTHERS
# What they do depends on which neighbours of a page are free
BUDDY = ("__free_one_page", "free_pcppages_bulk", "__mod_zone_page_state")
# Off may not execute more than this share more than base.  Times say less: what is on the lists of
# free pages, and when RCU frees, differs from kernel to kernel by some percent.
OFF_LIMIT = 0.005

# Who takes which lock
LOCKS = {
    "page table": ("__pte_offset_map_lock", "__pmd_trans_huge_lock"),
    "LRU": ("folio_lruvec_lock_irqsave",),
    "per-CPU lists": ("free_unref_folios", "free_unref_run", "free_unref_page"),
    "zone": ("free_pcppages_bulk", "free_one_page"),
}
# Functions with a cond_resched() that unmapping comes by; compilers inline some
CALM = (
    "unmap_page_range",
    "zap_pte_range",
    "zap_pmd_range",
    "tlb_flush_mmu",
    "tlb_batch_pages_flush",
    "zap_batch_free",
)
STRETCH = "stretch"
# A hold or stretch may be this much longer than the base's, in each row.
WAIT_LIMIT = 1.1
WAIT_FOLIOS = ("4", "2048pte", "2048")
ZEROED = "init_on_free=1"
# Pages are cleared by eight bytes, not by single ones.
CLEAR = "clearcpuid=erms,fsrm"
THREADS = (1, 4, 8)
CPUS = 8

WAIT_MODES = ("base", "on")
RUNS = 3  # of each row of waits

Rows = dict[str, dict[str, float]]  # by case, milliseconds by mode
Row = Mapping[str, Mapping[str, float]]  # by mode, what was measured


def _script(mode: Mode, cases: tuple[Case, ...], program: Path, more: Sequence[str] = ()) -> str:
    lines = [
        f"test -e {CGROUP}/cgroup.controllers || mount -t cgroup2 none {CGROUP} || exit 3",
        f"echo +memory > {CGROUP}/cgroup.subtree_control",
        f"mkdir -p {CGROUP}/zap-a {CGROUP}/zap-b",
        mode.prepare,
    ]
    for case in cases:
        groups = [f"{CGROUP}/" + "/".join("d" * level) for level in range(1, case.depth + 1)]
        for group in groups:
            lines.append(f"mkdir {group}")
            if group != groups[-1]:
                lines.append(f"echo +memory > {group}/cgroup.subtree_control")
        args = ["--case", case.how, "--size-mb", str(case.size_mb), "--folio", case.folio, *more]
        run = shlex.join([str(program), *args])
        lines.append(f"( echo 0 > {groups[-1]}/cgroup.procs; exec {run} ) || exit 4")
        lines += [f"rmdir {group}" for group in reversed(groups)]
    return "\n".join(lines)


def _boot(
    name: str,
    cases: tuple[Case, ...],
    label: str = "",
    *,
    plugins: boots.Plugins | None = None,
    cpus: int = 1,
    append: str = "",
    more: Sequence[str] = (),
) -> tuple[list[float], Path]:
    """Milliseconds of each case, and the directory that the plugins have written to."""
    mode = MODES[name]
    built = programs.build_programs(cache.root() / "programs")
    log, out = boots.boot(
        NAME,
        f"{mode.label}" + (f", {label}" if label else ""),
        build.kernel(mode.kernel),
        topology.load("two-tier", fast_mb=1536, slow_mb=512, fast_cpus=cpus),
        _script(mode, cases, built["zap"], more),
        plugins=plugins,
        expected_s=60,
        timeout_s=900,
        append=append,
        icount=cpus == 1,
        disk_mb=RECLAIM_MB if any(case.how == "reclaim" for case in cases) else 0,
    )
    return times(log, cases), out


def _holds(kernel: build.KernelImage, out: Path) -> list[str]:
    built = instruments.build_plugins(cache.root() / "programs")
    known = set(instruments.text_symbols(kernel.system_map)[1])
    return [
        instruments.holds_plugin(
            kernel.system_map,
            out / "holds.json",
            plugins=built,
            calm=[name for name in CALM if name in known],
        )
    ]


def waits(found: instruments.HoldsResult) -> dict[str, int]:
    """Longest hold of each of LOCKS, and the longest stretch."""
    longest = {
        lock: max((found.longest.get(name, 0) for name in names), default=0)
        for lock, names in LOCKS.items()
    }
    return {**longest, STRETCH: found.stretch}


def _wait_row(name: str, folio: str, append: str) -> dict[str, int]:
    """The median of RUNS boots, of each lock."""
    # So many huge pages fill a batch of the gather, if each is one entry.
    case = Case("munmap", folio, 256 if folio == "4" else 1024, 1)
    kernel = build.kernel(MODES[name].kernel)
    found = []
    for number in range(RUNS):
        label = f"{folio} KiB" + (f", {ZEROED}" if append else "") + f", run {number + 1}"
        _, out = _boot(name, (case,), label, plugins=_holds, append=f"{CLEAR} {append}")
        found.append(waits(instruments.read_holds(out / "holds.json", kernel.system_map)))
    return {key: int(statistics.median(one[key] for one in found)) for key in found[0]}


def _thread_row(name: str, threads: int) -> dict[str, float]:
    case = Case("threads", "4", COUNT_MB, 1)
    _, out = _boot(
        name,
        (case,),
        f"{threads} threads",
        plugins=lambda kernel, at: [*boots.insn(kernel, at), *_holds(kernel, at)],
        cpus=CPUS,
        more=("--threads", str(threads)),
    )
    kernel = build.kernel(MODES[name].kernel)
    held = waits(instruments.read_holds(out / "holds.json", kernel.system_map))
    counted = counts(instruments.read_insn(out / "insn.json").total)
    return {"locked": counted["locked"], **held}


def times(log: str, cases: tuple[Case, ...]) -> list[float]:
    """Milliseconds of each case, from what zap.c has printed."""
    found = [json.loads(line) for line in re.findall(r"^RESULT (.*)$", log, re.MULTILINE)]
    if [(one["case"], one["folio"]) for one in found] != [(c.how, c.folio) for c in cases]:
        raise LabError("zap.c has not measured what it should", log[-500:])
    return [float(one["ms"]) for one in found]


def counts(table: instruments.InsnTable) -> dict[str, float]:
    """Per page: kernel instructions, locked operations, and instructions for statistics."""
    symbols = table.symbols.values()
    return {
        "insn": sum(sum(one.insn) for one in symbols) / PAGES,
        "steady": sum(sum(one.insn) for one in symbols if one.name not in BUDDY) / PAGES,
        "locked": sum(sum(one.locked) for one in symbols) / PAGES,
        "statistics": sum(sum(one.insn) for one in symbols if STATISTICS.match(one.name)) / PAGES,
    }


def _case_goal(case: Case, row: Mapping[str, float]) -> ledger.Goal:
    """Off, ours is as good as the base's code; what these differ by is free lists and RCU."""
    return ledger.at_most(
        case.label,
        row["on"] / row["base"],
        case.most,
        "as a share of the unmodified kernel's",
        noise=abs(row["off"] / row["base"] - 1),
    )


def _count_goals(counted: Mapping[str, Mapping[str, float]]) -> list[ledger.Goal]:
    on, off, base = counted["on"], counted["off"], counted["base"]
    share = "as a share of the unmodified kernel's"
    return [
        *(
            ledger.at_most(f"off, {what} a page", off[what] / base[what], 1 + OFF_LIMIT, share)
            for what in ("steady", "locked")
        ),
        ledger.at_most("on, locked operations a page", on["locked"], 3.75, ""),
        ledger.at_most("on, statistics", on["statistics"] / base["statistics"], 0.2, share),
    ]


def _stretch_goal(what: str, row: Row) -> ledger.Goal:
    """Others may not have to wait longer than with the base.

    Whether a per-CPU list happens to be emptied in the longest stretch is chance.
    """
    base = row["base"][STRETCH]
    return ledger.at_most(
        f"{what}, longest {STRETCH}",
        row["on"][STRETCH] / base,
        WAIT_LIMIT,
        "as a share of the unmodified kernel's",
        noise=row["on"]["per-CPU lists"] / base,
    )


def _lock_goals(what: str, row: Row) -> list[ledger.Goal]:
    """The longest hold of each lock."""
    return [
        ledger.at_most(
            f"{what}, longest hold, {lock}",
            row["on"][lock] / row["base"][lock],
            WAIT_LIMIT,
            "as a share of the unmodified kernel's, medians of three runs",
        )
        for lock in LOCKS
        if row["base"][lock]
    ]


def _pairs(row: Row, keys: Sequence[str]) -> dict[str, float]:
    return {f"{key}, {mode}": row[mode][key] for key in keys for mode in WAIT_MODES}


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each case, each mode that was counted, and each longest wait."""
    kernels = facts["kernels"]
    found = []
    for case in CASES:
        row = facts["rows"][case.label]
        ratio = row["on"] / row["base"]
        found.append(
            ledger.Run(
                cell=f"time: {case.label}" + ("" if case.named else f", {case.size_mb} MiB"),
                figures={**row, "of_base": ratio},
                kernel=kernels["tiershift"],
                goals=[_case_goal(case, row)],
            )
        )
    for name, row in facts["counted"].items():
        found.append(
            ledger.Run(
                cell=f"counted: {MODES[name].label}",
                figures=row,
                kernel=kernels[MODES[name].kernel],
                goals=_count_goals(facts["counted"]) if name == "on" else (),
            )
        )
    keys = (*LOCKS, STRETCH)
    found += [
        ledger.Run(
            cell=f"longest: {what}",
            figures=_pairs(row, keys),
            kernel=kernels["tiershift"],
            goals=[
                _stretch_goal(what, row),
                *_lock_goals(what, row),
            ],
        )
        for what, row in facts["waits"].items()
    ]
    found += [
        ledger.Run(
            cell=f"threads: {number}",
            figures=_pairs(row, ("locked", *LOCKS)),
            kernel=kernels["tiershift"],
        )
        for number, row in facts["threads"].items()
    ]
    return found


def measure(_args: argparse.Namespace) -> bool:
    """Run everything; True if no check has failed."""
    began = time.time()
    rows: Rows = {case.label: {} for case in CASES}
    for name in MODES:
        for case, ms in zip(CASES, _boot(name, CASES)[0], strict=True):
            rows[case.label][name] = ms
    counted = {}
    for name in ("base", "off", "on"):
        _, out = _boot(
            name, (Case("munmap", "4", COUNT_MB, 1),), "counted", plugins=boots.insn, cpus=2
        )
        counted[name] = counts(instruments.read_insn(out / "insn.json").total)
    waited = {
        f"{folio.replace('pte', '')} KiB{' by PTEs' if 'pte' in folio else ''}"
        f"{', ' + append if append else ''}": {
            name: _wait_row(name, folio, append) for name in WAIT_MODES
        }
        for append in ("", ZEROED)
        for folio in WAIT_FOLIOS
    }
    threads = {
        str(number): {name: _thread_row(name, number) for name in WAIT_MODES} for number in THREADS
    }
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernels={
            flavour: build.kernel(flavour).describe()
            for flavour in sorted({mode.kernel for mode in MODES.values()})
        },
        rows=rows,
        counted=counted,
        waits=waited,
        threads=threads,
    )
    return finish.finish(STUDY, facts, runs(facts))


STUDY = Study(
    name=NAME,
    title="What unmapping costs",
    what="Memory is unmapped in several ways on one CPU whose time is the number of instructions.  "
    "The unmodified kernel batches large folios already.",
    columns=(
        *(Column(name, f"{mode.label}, ms", "{:,.2f}") for name, mode in MODES.items()),
        # Lines until 2026-11-26 have it; the switch that made it is gone.
        Column("single", "base's batching off, ms", "{:,.2f}"),
        Column("of_base", "on / unmodified", "{:.3f}"),
        Column("insn", "instructions a page"),
        Column("steady", "without the buddy allocator"),
        Column("locked", "locked operations a page", "{:.2f}"),
        Column("statistics", "instructions for statistics a page"),
        *(
            Column(f"{key}, {mode}", f"{key}, {MODES[mode].label}", form)
            for key, form in (
                ("locked", "{:.2f}"),
                *((lock, "{:,.0f}") for lock in LOCKS),
                (STRETCH, "{:,.0f}"),
            )
            for mode in WAIT_MODES
        ),
    ),
    minutes=12,
    run=measure,
    groups=study.ZAP,
    parts=(
        ("Time in virtual milliseconds", "time: "),
        ("munmap of 4 KiB pages, counted", "counted: "),
        (
            "Longest holds of locks, and stretches without a point of rest, in instructions",
            "longest: ",
        ),
        ("Threads that unmap at once: locked operations a page, longest holds", "threads: "),
    ),
    notes=(
        "nodes: pages on two nodes in turn.  groups: shared pages charged to two groups in turn.  "
        "scattered: neighbours in the address space have frames that are no neighbours.  "
        "pieces: 64 KiB at a time.  shell: 64 times fork, exit and wait.  reclaim: memory.reclaim "
        "of half of the page cache, clean and not mapped.",
        "From kernel to kernel free lists and RCU differ by some percent.  What ours, off, differs "
        "by from the unmodified kernel is taken for that.  Whether the switch costs anything is "
        "judged by the counts, without __free_one_page() and free_pcppages_bulk(), whose work "
        "depends on neighbours that are free.",
        "Longest holds and stretches, medians of three boots: munmap of 256 MiB of 4 KiB pages, "
        "or of 1 GiB of huge pages.  Interrupts are not counted; each iteration of a string "
        "instruction is.  A stretch "
        "ends where cond_resched() is called, as on a kernel without preemption.  The per-CPU "
        "lists give back up to 2,016 pages under their lock, with and without batched unmapping.",
        f"threads: munmap of 256 MiB by threads, each its part, on {CPUS} CPUs that 2 cores "
        "emulate.  A hold begins when waiting is over.",
    ),
)
