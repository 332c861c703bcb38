# SPDX-License-Identifier: GPL-2.0
"""What the aging of guest memory costs, with room kvm-aging and without.

lab/workloads/vm.c is a small virtual machine.  Its memory is aged by MGLRU's debugfs file: once,
all idle or all accessed, in pages of 4 KiB or in huge pages; or a quarter of it, idle, is evicted;
or again and again while the vCPUs touch memory for the first time, as in
the test of seed series 003.  Then it has its memory on the slow node, uses a half of it, and
kmmscand or NUMA balancing may promote that.

Instructions are counted by the insn plugin.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import boots, build, cache, instruments, manifest, programs, scenario, tier
from lab import topology as topologies
from lab.errors import LabError
from lab.results import finish, ledger, study
from lab.results.study import Column, Study

NAME = "aging"
CGROUP = "/tmp/lab-aging"
SIZE_MB, HUGE_MB = 64, 384  # of the machine that is aged once
FAULT_MB = 16  # of each vCPU
# Of the machines whose memory is aged while they touch it first: page tables, vCPUs
FAULTED = (
    *(("TDP", vcpus) for vcpus in (1, 2, 4, 8)),
    # One vCPU waits for no lock: what the lock bit of rmaps costs
    ("shadow MMU", 1),
    ("shadow MMU", 4),
    ("without NPT", 4),
)
HOT_MB, HOT_S, HOT_PCT = 32, 20, 50
PLACED_S = 6
# Pages move out of the oldest generation when a new one is begun: with and without KVM the same
GENERATIONS = ("folio_inc_gen", "inc_max_seq")
WAITING = ("queued_write_lock_slowpath", "queued_read_lock_slowpath")
FLUSHES = "/sys/kernel/debug/kvm/remote_tlb_flush_requests"


@dataclass(frozen=True)
class Mode:
    """A kernel, and whether it ages memory of guests by page tables."""

    kernel: str
    label: str
    age: int = 0

    @property
    def prepare(self) -> str:
        """The command that sets it."""
        if self.kernel == "base":
            return "true"
        return f"echo {self.age} > {tier.enabled('age')}"


MODES = {
    "base": Mode("base", "unmodified"),
    "off": Mode("tiershift", "ours, off"),
    # By page tables of the host, and without mmu_lock
    "both": Mode("tiershift", "ours, both", 1),
}
# KVM's page tables, by parameters at boot
TABLES = {"TDP": "", "shadow MMU": "kvm.tdp_mmu=0", "without NPT": "kvm_amd.npt=0"}
CASES = ("idle", "young")
# A row of these is of one page of 2 MiB, by cases and KVM's page tables.
HUGE, HUGE_PAGES = "huge", 512
HUGE_CELLS = tuple(
    f"{case}, {tables}, {HUGE}" for tables in ("TDP", "shadow MMU") for case in CASES
)
EVICTED = "evict, TDP"
SWAP = "echo 64M > /sys/block/zram0/disksize; mkswap /dev/zram0 > /dev/null; swapon /dev/zram0"
# Shares of the unmodified kernel's, locked operations and acquisitions a page
TARGET_IDLE, TARGET_IDLE_LOCKED, TARGET_YOUNG_LOCKED = 1 / 8, 0.1, 2.2
OFF_LIMIT = 1.005
# The lock bit of rmaps: kernel instructions of a vCPU that populates shadow page tables
RMAP_LIMIT = 1.005
# Of vCPUs' kernel instructions without aging
TARGET_VCPU = 1.03
# Seed series 003, access_tracking_perf_test -p -l -b 1G, TDP MMU, by vCPUs: their seconds if not
# aged, aged before and after the series; seconds of one aging before and after
SEED = {
    1: (0.879, 0.938, 0.912, 0.0082, 0.0073),
    2: (0.985, 1.058, 1.038, 0.0180, 0.0140),
    4: (1.265, 1.319, 1.315, 0.0562, 0.0293),
    8: (1.474, 1.589, 1.498, 0.2274, 0.0639),
    16: (2.049, 2.399, 2.001, 1.2471, 0.1216),
    32: (3.316, 3.955, 3.355, 4.3473, 0.2509),
    64: (6.499, 7.128, 6.443, 9.8156, 1.3929),
    112: (8.498, 10.214, 8.897, 13.4738, 2.2922),
}
NUMA_BALANCING = "echo 2 > /proc/sys/kernel/numa_balancing"


def _switches(*rooms: str) -> tuple[str, ...]:
    return tuple(f"echo {one.on} > {one.file}" for room in rooms for one in manifest.switches(room))


# What may promote: the kernel, and what switches that on
PROMOTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "nothing": ("base", ()),
    "NUMA balancing": ("base", (NUMA_BALANCING,)),
    "kmmscand, page by page": ("off", _switches("kmmscand")),
    "kmmscand, by page tables": ("both", _switches("kmmscand")),
    "kmmscand, batched migration": ("both", _switches("kmmscand", "migrate-batch")),
}

Figures = dict[str, float]


def _boot(
    label: str,
    mode: Mode,
    machine: topologies.Topology,
    commands: Iterable[str],
    *,
    append: str = "",
) -> tuple[dict[str, Any], Path]:
    """Run vm.c in a guest; what it has printed, and the directory of the counts."""
    script = "\n".join(
        (
            f"mkdir {CGROUP}; mount -t cgroup2 none {CGROUP} || exit 3",
            f"echo +memory > {CGROUP}/cgroup.subtree_control; mkdir {CGROUP}/vm",
            "echo y > /sys/kernel/mm/lru_gen/enabled",
            mode.prepare,
            *commands,
        )
    )
    kernel = build.kernel(mode.kernel)
    log, out = boots.boot(NAME, label, kernel, machine, script, plugins=boots.insn, append=append)
    return {"log": log, **boots.said(log, "vm.c")}, out


def _vm(case: str, **options: object) -> str:
    program = programs.build_programs(cache.root() / "programs")["vm"]
    words = [f"--{name.replace('_', '-')} {value}" for name, value in options.items()]
    return f"{shlex.quote(str(program))} --case {case} {' '.join(words)} || exit 4"


def _named(one: instruments.SymbolCount, names: Iterable[str]) -> bool:
    """Compilers add to the names of functions: .constprop.0"""
    return one.name.split(".")[0] in names


def per_page(case: str, words: dict[str, Any], table: instruments.InsnTable) -> Figures:
    """What one aging costs for each page of the guest."""
    pages = words["pages"]
    if case == "evict":
        pages = words["evicted"]
    else:
        found = words["young"] if case == "young" else words["old"]
        if abs(found - pages) > pages / 100:
            raise LabError(f"{found} of {pages} pages were {case}", words["log"][-300:])
    symbols = table.symbols.values()
    counted = [one for one in symbols if not _named(one, GENERATIONS)]
    return {
        "insn": sum(sum(one.insn) for one in counted) / pages,
        "all": sum(sum(one.insn) for one in symbols) / pages,
        "locked": sum(sum(one.locked) for one in counted) / pages,
        "mmu_lock": sum(sum(o.locked) for o in symbols if o.name == "_raw_write_lock") / pages,
        "srcu": sum(sum(o.insn) for o in symbols if o.name == "__srcu_read_lock") / pages,
    }


def with_locks(rows: dict[str, Figures]) -> dict[str, Figures]:
    """SRCU locks a page, of calls of mmu_notifiers and of looks at who subscribes.

    A call of KVM's notifier takes two, and the function that takes one has no branches.  The
    unmodified kernel takes mmu_lock in each call, so there calls are known.
    """
    each = rows["base"]["srcu"] / rows["base"]["mmu_lock"] / 2
    return {name: {**row, "srcu": row["srcu"] / each} for name, row in rows.items()}


def _counts(out: Path) -> instruments.InsnTable:
    # A guest returns to where its host has not called it.
    return instruments.read_insn(out / "insn.json", kinds=False).total


def _aged(cell: str, name: str) -> Figures:
    case, tables, *huge = cell.split(", ")
    machine = topologies.load("two-tier", fast_mb=768, slow_mb=512, fast_cpus=2)
    label = f"{cell}, {MODES[name].label}"
    size = HUGE_MB if huge else SIZE_MB
    command = _vm(case, size_mb=size, cgroup=f"{CGROUP}/vm", thp=len(huge))
    words, out = _boot(label, MODES[name], machine, [SWAP, command], append=TABLES[tables])
    figures = per_page(case, words, _counts(out))
    return {key: value * HUGE_PAGES for key, value in figures.items()} if huge else figures


def on_vcpus(words: dict[str, Any], table: instruments.InsnTable) -> Figures:
    """What the vCPUs' CPUs do for each page that they touch for the first time."""
    pages = words["pages"]
    cpus = range(1, words["vcpus"] + 1)
    if not words["pinned"]:
        raise LabError("vCPUs and the thread that ages share CPUs", "give the machine more")
    symbols = table.symbols.values()
    return {
        "vcpu": sum(table.vcpus[cpu].kernel_busy for cpu in cpus) / pages,
        "waiting": sum(one.insn[cpu] for one in symbols for cpu in cpus if _named(one, WAITING))
        / pages,
        "passes": words["passes"],
        "pass_ms": words["pass_ms_mean"],
        "pass_insn": table.vcpus[0].kernel_busy / max(1, words["passes"]),
    }


def _faulted(tables: str, vcpus: int, name: str, ages: bool, turn: int) -> Figures:
    machine = topologies.load("two-tier", fast_mb=1024, slow_mb=256, fast_cpus=vcpus + 1)
    how = MODES[name].label if ages else f"not aged {turn}"
    options = {} if ages else {"passes": 0}
    command = _vm("fault", vcpus=vcpus, size_mb=FAULT_MB, cgroup=f"{CGROUP}/vm", **options)
    label = f"fault, {tables}, {vcpus}, {how}"
    words, out = _boot(label, MODES[name], machine, [command], append=TABLES[tables])
    return on_vcpus(words, _counts(out))


def promoted(words: dict[str, Any], table: instruments.InsnTable) -> Figures:
    """Which half is on the fast node in the end, and what CPUs have done for a page of the guest.

    KVM's flush requests are those since the memory was placed.
    """
    flushes = re.findall(r"^FLUSHES (\d+)$", words["log"], re.MULTILINE)
    if len(flushes) != 2:
        raise LabError("the guest has not printed KVM's flush requests", words["log"][-300:])
    return {
        "hot": words["hot"][0] / sum(words["hot"]),
        "cold": words["cold"][0] / sum(words["cold"]),
        "rounds": words["rounds"],
        "vcpu": table.vcpus[1].kernel_busy / words["pages"],
        "cpus": sum(one.kernel_busy for one in table.vcpus) / words["pages"],
        "flushes": int(flushes[1]) - int(flushes[0]),
    }


def _promoted(label: str) -> Figures:
    name, switches = PROMOTERS[label]
    machine = topologies.load("two-tier", fast_mb=768, slow_mb=512, fast_cpus=3)
    last = f"{CGROUP}.flushes"
    commands = (
        *switches,
        # KVM's counters are those of the machines that exist: the last value before it goes.
        f"while sleep 0.5; do cat {FLUSHES} > {last}.new; mv {last}.new {last}; done & watch=$!",
        # It has its memory, and waits for a line, long before.
        f"( sleep {PLACED_S}; echo FLUSHES $(cat {FLUSHES}) >&2; echo ) | "
        + _vm("hot", size_mb=HOT_MB, hot_pct=HOT_PCT, seconds=HOT_S, no_bind=1, node=1),
        f"kill $watch; echo FLUSHES $(cat {last})",
    )
    words, out = _boot(f"promotion, {label}", MODES[name], machine, commands)
    return promoted(words, _counts(out))


def _goals(case: str, name: str, rows: dict[str, Figures]) -> list[ledger.Goal]:
    """Of pages that are aged once."""
    row, share = rows[name], rows[name]["insn"] / rows["base"]["insn"]
    text = "of the unmodified kernel's instructions"
    found = []
    if name == "off":
        found.append(ledger.at_most("off", share, OFF_LIMIT, text))
    if name == "both":
        found.append(ledger.at_most("acquisitions of mmu_lock", row["mmu_lock"], 0.0))
        if case == "idle":
            found.append(ledger.at_most("on", share, TARGET_IDLE, text))
            found.append(ledger.at_most("locked operations", row["locked"], TARGET_IDLE_LOCKED))
        else:
            found.append(ledger.at_most("locked operations", row["locked"], TARGET_YOUNG_LOCKED))
    return found


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each line of each table."""
    kernels = facts["kernels"]
    found = []
    for cell, rows in facts["aged"].items():
        case, _, tables = cell.partition(", ")
        for name, figures in rows.items():
            found.append(
                ledger.Run(
                    cell=f"page: {cell}, {MODES[name].label}",
                    figures=figures,
                    kernel=kernels[MODES[name].kernel],
                    goals=_goals(case, name, rows) if tables == "TDP" else (),
                )
            )
    for machine, rows in facts["faulted"].items():
        idle = rows["not aged"]["vcpu"]
        noise = abs(rows["not aged again"]["vcpu"] - idle) / idle
        for how, figures in rows.items():
            goals: tuple[ledger.Goal, ...] = ()
            if how == "ours, not aged" and machine == "shadow MMU, 1":
                share, text = figures["vcpu"] / idle, "of the vCPU's on the unmodified kernel"
                goals = (ledger.at_most("lock bit of rmaps", share, RMAP_LIMIT, text),)
            if how == "both" and machine.startswith("TDP"):
                limit = max(TARGET_VCPU, 1 + noise)
                text = "of the vCPUs' kernel instructions on the same kernel without aging"
                share = figures["vcpu"] / rows["ours, not aged"]["vcpu"]
                goals = (ledger.at_most("vCPUs", share, limit, text),)
            mode = MODES["both"] if how == "ours, not aged" else MODES.get(how)
            found.append(
                ledger.Run(
                    cell=f"fault: {machine} vCPUs, {MODES[how].label if how in MODES else how}",
                    figures=figures,
                    kernel=kernels[mode.kernel if mode else "base"],
                    goals=goals,
                )
            )
    for label, figures in facts["promoted"].items():
        found.append(
            ledger.Run(
                cell=f"promotion: {label}",
                figures=figures,
                kernel=kernels[MODES[PROMOTERS[label][0]].kernel],
            )
        )
    return found


def beside(lines: Sequence[ledger.Line]) -> list[list[str]]:
    """The table of seed series 003, and the figures that are ours."""
    found = {line.cell: line.figures for line in lines}

    def cell(vcpus: int, how: str, key: str, form: str) -> str:
        figures = found.get(f"fault: TDP, {vcpus} vCPUs, {how}", {})
        return form.format(figures[key]) if key in figures else "-"

    head = ["vCPUs"]
    head += [f"seed: vCPUs' seconds, {how}" for how in ("not aged", "aged before", "aged after")]
    head += [f"seed: one aging, seconds, {how}" for how in ("before", "after")]
    hows = {"not aged": "not aged", "aged": "unmodified", "aged, ours": "ours, both"}
    head += [f"here: vCPUs' kernel instructions a page, {how}" for how in hows]
    head += [f"here: one aging, instructions, {how}" for how in ("unmodified", "ours")]
    rows = [head]
    for vcpus, seconds in SEED.items():
        row = [f"{vcpus}", *(f"{one:.3f}" for one in seconds)]
        row += [cell(vcpus, how, "vcpu", "{:,.0f}") for how in hows.values()]
        row += [cell(vcpus, how, "pass_insn", "{:,.0f}") for how in ("unmodified", "ours, both")]
        rows.append(row)
    return rows


def measure(_args: argparse.Namespace) -> bool:
    """Run everything; True if no check has failed."""
    began = time.time()
    cells = (*(f"{case}, {tables}" for tables in TABLES for case in CASES), *HUGE_CELLS, EVICTED)
    aged = {cell: {name: _aged(cell, name) for name in MODES} for cell in cells}
    aged = {cell: rows if cell == EVICTED else with_locks(rows) for cell, rows in aged.items()}
    faulted = {
        f"{tables}, {vcpus}": {
            "not aged": _faulted(tables, vcpus, "base", False, 1),
            "not aged again": _faulted(tables, vcpus, "base", False, 2),
            "ours, not aged": _faulted(tables, vcpus, "both", False, 3),
            # Off: what the lock bits of rmaps cost
            **{name: _faulted(tables, vcpus, name, True, 1) for name in MODES},
        }
        for tables, vcpus in FAULTED
    }
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        aged=aged,
        faulted=faulted,
        promoted={label: _promoted(label) for label in PROMOTERS},
        kernels={flavour: build.kernel(flavour).describe() for flavour in ("base", "tiershift")},
    )
    return finish.finish(STUDY, facts, runs(facts))


STUDY = Study(
    name=NAME,
    title="What aging of guest memory costs",
    what=f"A guest of {SIZE_MB} MiB ({HUGE_MB} MiB in huge pages) is aged once, or a quarter of it "
    f"is evicted; guests of {FAULT_MB} MiB a vCPU are aged again "
    f"and again while they touch their memory first; a guest uses {HOT_PCT} % of {HOT_MB} MiB of "
    f"slow memory for {HOT_S} s.",
    columns=(
        Column("insn", "kernel instructions a page"),
        Column("all", "with those of generations"),
        Column("locked", "locked operations a page", "{:.3f}"),
        Column("mmu_lock", "mmu_lock taken for write, a page", "{:.3f}"),
        Column("srcu", "SRCU locks a page", "{:.4f}"),
        Column("vcpu", "kernel instructions of vCPUs a page"),
        Column("cpus", "of all CPUs"),
        Column("waiting", "of these waiting for a lock", "{:,.1f}"),
        Column("passes", "agings"),
        Column("pass_ms", "one aging, emulated ms", "{:,.2f}"),
        Column("pass_insn", "one aging, instructions"),
        Column("hot", "hot half on fast node", "{:.1%}"),
        Column("cold", "cold half on fast node", "{:.1%}"),
        Column("rounds", "rounds of the guest"),
        Column("flushes", "KVM's flush requests"),
    ),
    minutes=20,
    run=measure,
    groups=study.AGING,
    beside=(
        "Aging while vCPUs touch memory first, beside the seed: "
        '"mm: multi-gen LRU: Walk secondary MMU page tables while aging", v4',
        beside,
    ),
    parts=(
        ("One aging of all pages of a guest", "page: "),
        ("Aging while vCPUs touch memory first", "fault: "),
        ("Promotion of a guest's memory", "promotion: "),
    ),
    notes=(
        "A call of KVM's notifier takes two SRCU locks, a look at who subscribes one.",
        "Emulated CPUs share two cores, so seconds, and how often CPUs meet at a lock, say little.",
        "Pages move out of the oldest generation in each aging.  That is the same with and without "
        "KVM, and is left out but in one column.",
        'In rows with "huge" a page is one of 2 MiB, in the others one of 4 KiB.',
        '"Evict" is all that the kernel does to take an idle page away, compression included.',
        "Accessed bits of EPT do not exist under emulation.",
    ),
)
