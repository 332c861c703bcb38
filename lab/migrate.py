# SPDX-License-Identifier: GPL-2.0
"""What migration costs, with batched migration (room migrate-batch) and without.

lab/workloads/migrate.c moves a process to and fro between two nodes.  On one CPU nothing else
runs; on eight, eight threads access random pages meanwhile, as in the test of seed series 001.
Limits are those of /sys/kernel/mm/tier/batch/: 1 moves folio by folio, as kernels before 6.3
did; 512 is what the unmodified kernel has.

Instructions are counted by the insn plugin.  Virtual machines are the kvm selftest's, demotion is
that of a scenario with NUMA nodes of different speed whose fast one is too small.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import (
    boots,
    build,
    cache,
    flushes,
    instruments,
    manifest,
    programs,
    scenario,
    selftests,
    tier,
)
from lab import topology as topologies
from lab.errors import LabError
from lab.results import finish, ledger, study
from lab.results.study import Column, Study

NAME = "migrate"
BATCH = tier.enabled("batch")
COUNTS = f"{tier.DEBUG}/batch/counts"
SIZES = ("4", "64", "2048pte", "2048")
CPUS = (1, 8)
SIZE_MB = 64
ROUNDS = 4
# What copies, and what clears nothing else: all that no batch changes
COPY = re.compile(r"copy_page|copy_mc|memcpy|folio_mc_copy")
SMALL_MB = {"fast_mb": 768, "slow_mb": 512}


@dataclass(frozen=True)
class Mode:
    """A kernel and what is switched on before."""

    kernel: str
    label: str
    limit: int = 0  # folios; 0: switched off

    @property
    def prepare(self) -> str:
        """Commands that do it."""
        if not self.limit:
            return "true"
        # So large that the folios decide, or as it is after boot
        kb = 2 << 10 if self.limit <= 512 else 256 << 10
        return (
            f"echo 1 > {BATCH}; echo {self.limit} > {tier.file('batch', 'max_folios')}; "
            f"echo {kb} > {tier.file('batch', 'max_kb')}"
        )


MODES = {
    "base": Mode("base", "unmodified"),
    "off": Mode("tiershift", "ours, off"),
    "1": Mode("tiershift", "ours, limit 1", 1),
    "64": Mode("tiershift", "ours, limit 64", 64),
    "512": Mode("tiershift", "ours, limit 512", 512),
    "4096": Mode("tiershift", "ours, limit 4096", 4096),
}
MOVED = ("base", "off", "1", "512", "4096")
WAITED = ("base", "1", "64", "512", "4096")
# Instructions beside the copy, on one CPU, as a share of the unmodified kernel's
TARGETS = {"4 KiB, 1 CPU": 0.85, "64 KiB, 1 CPU, moved once": 0.35}
OFF_LIMIT = 1.005
# In KVM's flush requests, by the stride of the pages that move
KVM_REQUESTS = 32
DEMOTE_OWN, DEMOTE_ALL = 5.0, 10.0
DEMOTE = {
    "off": (0, 0),
    "on": (1, 0),
    "on, with MIGRC": (1, 1),
}
# XSBench's way to look up, with eight threads and too little fast memory
LOOKUP = (
    "--size-mb 160 --nuclides 64 --threads 8 --ops 30000000 --sweeps 6 --window-pct 25 "
    "--pages 4k --seed 7"
)
LOOKUP_S = 150

Figures = dict[str, float]


def _move(mode: Mode, folio: str, cpus: int, rounds: int, more: str = "") -> tuple[str, Path]:
    """Boot, move, and return what was printed and where the counts are."""
    built = programs.build_programs(cache.root() / "programs")
    script = (
        f"{mode.prepare}\n{shlex.quote(str(built['migrate']))} --folio {folio} "
        f"--size-mb {SIZE_MB} --rounds {rounds} {more} || exit 4"
    )
    label = f"{folio} {cpus} CPUs {mode.label} {rounds} {more}"
    machine = topologies.load("two-tier", fast_cpus=cpus, **SMALL_MB)
    plugins = None if "--watch" in more else boots.insn
    # With limit 1 each page's flush waits until two cores have run eight busy CPUs: 15 ms.
    return boots.boot(
        NAME,
        label,
        build.kernel(mode.kernel),
        machine,
        script,
        plugins=plugins,
        timeout_s=1800,
    )


def per_page(words: dict[str, Any], table: instruments.InsnTable) -> Figures:
    """Kernel instructions and flushes for each page that was moved."""
    pages = words["pgmigrate_success"]
    if not pages:
        raise LabError("no page was moved", json.dumps(words))
    symbols = table.symbols.values()
    return {
        "insn": sum(sum(one.insn) for one in symbols) / pages,
        "beside": sum(sum(one.insn) for one in symbols if not COPY.search(one.name)) / pages,
        "locked": sum(sum(one.locked) for one in symbols) / pages,
        "sent": 1000 * words["nr_tlb_remote_flush"] / pages,
        "received": 1000 * words["nr_tlb_remote_flush_received"] / pages,
        "failed": words["pgmigrate_fail"],
    }


def _counted(name: str, folio: str, cpus: int, rounds: int = ROUNDS) -> Figures:
    # Two cores emulate eight CPUs that interrupt each other: half of the rounds
    threads, rounds = (f"--threads {cpus}", rounds // 2) if cpus > 1 else ("", rounds)
    log, out = _move(MODES[name], folio, cpus, rounds, threads)
    return per_page(boots.said(log, "migrate.c"), instruments.read_insn(out / "insn.json").total)


def _waits(name: str) -> Figures:
    """How long one access takes while pages move: the longest of each move."""
    log, _ = _move(MODES[name], "4", 2, 16, "--watch 1")
    waits = boots.said(log, "migrate.c")["waits_us"]
    return {"wait": statistics.median(waits), "wait_most": max(waits)}


def kvm_rows(log: str) -> dict[str, dict[str, Figures]]:
    """KVM's flush requests by the stride of what moves, off and on."""
    rows: dict[str, dict[str, Figures]] = {}
    line = r"RES batched=(\d) stride=(\d+) moved=(\d+) requests=(\d+) forgotten=(-?\d+)"
    for batched, stride, moved, requests, forgotten in re.findall(line, log):
        rows.setdefault(stride, {})["on" if batched == "1" else "off"] = {
            "moved": int(moved),
            "requests": int(requests),
            "forgotten": int(forgotten),
        }
    if rows.get("1", {}).keys() != {"off", "on"}:
        raise LabError("the kvm selftest has not printed what it measured", log[-500:])
    return rows


def _kvm() -> dict[str, dict[str, Figures]]:
    kernel = build.kernel("tiershift")
    name = "migrate_batch_test"
    directory = selftests.programs(kernel, "kvm", names=[name])
    args = "-t anonymous -t every_second -t every_eighth"
    script = f"{shlex.quote(str(directory / name))} {args} || exit 4"
    log, _ = boots.boot(NAME, "kvm", kernel, topologies.load("two-tier", **SMALL_MB), script)
    return kvm_rows(log)


def demoted(before: str, after: str, counts: str) -> Figures:
    """Flushes per 1,000 pages that were moved: all that were sent, and migration's own.

    And of the pages that a batch has moved, how many were unmapped next to their neighbours.
    """

    def read(text: str) -> dict[str, int]:
        return {name: int(n) for name, n in (line.rsplit(" ", 1) for line in text.splitlines())}

    old, new = read(before), read(after)
    delta = {name: new[name] - old[name] for name in new}
    moved = delta[flushes.MIGRATED]
    if not moved:
        raise LabError("nothing was moved", counts)
    ways = read(counts)
    batch = ways["moved_by_batch"]
    in_run = {"in_run": 100 * ways["unmapped_in_run"] / batch} if batch else {}
    return {
        **in_run,
        "moved": moved,
        "promoted": flushes.total(delta, flushes.PROMOTED),
        "demoted": flushes.total(delta, flushes.DEMOTED),
        "flushes": delta[flushes.SENT],
        "all": 1000 * delta[flushes.SENT] / moved,
        "own": 1000 * (delta["tier_flush_promotion"] + delta["tier_flush_demotion"]) / moved,
        "own_demotion": 1000 * delta["tier_flush_demotion"] / moved,
    }


def _demotion(label: str) -> Figures:
    """How pages move is counted by a debug switch, so this is the torture kernel's."""
    batch, migrc = DEMOTE[label]
    kernel = build.kernel("torture")
    built = programs.build_programs(cache.root() / "programs")
    switches = [f"echo {one.on} > {one.file}" for one in manifest.switches("kmmscand")]
    script = "\n".join(
        (
            "echo never > /sys/kernel/mm/transparent_hugepage/enabled",
            "echo 200 > /proc/sys/vm/watermark_scale_factor",
            *switches,
            "echo 1 > /sys/kernel/mm/numa/demotion_enabled",
            f"echo {batch} > {BATCH}",
            f"echo {migrc} > {flushes.SWITCH}",
            "echo BEFORE; cat /proc/vmstat",
            f"timeout {LOOKUP_S} {built['lookup']} {LOOKUP} < /dev/null > /dev/null",
            f"echo AFTER; cat /proc/vmstat; echo COUNTS; cat {COUNTS}; echo END",
        )
    )
    machine = topologies.load("two-tier", fast_mb=128, slow_mb=384, fast_cpus=8)
    log, _ = boots.boot(
        NAME, f"demotion {label}", kernel, machine, script, append="clearcpuid=erms,fsrm"
    )
    parts = re.search(
        r"^BEFORE\n(.*)^AFTER\n(.*)^COUNTS\n(.*)^END$",
        log,
        re.DOTALL | re.MULTILINE,
    )
    if not parts:
        raise LabError("the guest has not printed its counters", log[-500:])
    return demoted(*parts.groups())


def _cell(folio: str, cpus: int) -> str:
    pte = " by PTEs" if folio.endswith("pte") else ""
    return f"{folio.removesuffix('pte')} KiB{pte}, {cpus} CPU{'s' if cpus > 1 else ''}"


def _goals(cell: str, rows: dict[str, Figures]) -> list[ledger.Goal]:
    """Where nothing but the migration runs."""
    share = "instructions beside the copy, as a share of the unmodified kernel's"
    base = rows["base"]["beside"]
    found = []
    if cell in TARGETS:
        found.append(ledger.at_most("on", rows["512"]["beside"] / base, TARGETS[cell], share))
    if "1 CPU" in cell and "off" in rows:
        found.append(ledger.at_most("off", rows["off"]["beside"] / base, OFF_LIMIT, share))
    return found


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each line of each table."""
    kernels = facts["kernels"]
    found = []
    for cell, rows in facts["moves"].items():
        for name, figures in rows.items():
            found.append(
                ledger.Run(
                    cell=f"move: {cell}, {MODES[name].label}",
                    figures=figures,
                    kernel=kernels[MODES[name].kernel],
                    goals=_goals(cell, rows) if name == "512" else (),
                )
            )
    for name, figures in facts["waits"].items():
        found.append(
            ledger.Run(
                cell=f"wait: {MODES[name].label}",
                figures=figures,
                kernel=kernels[MODES[name].kernel],
            )
        )
    for stride, row in facts["kvm"].items():
        for name, figures in row.items():
            goals = (
                [ledger.at_most("flush requests", figures["requests"], KVM_REQUESTS)]
                if (stride, name) == ("1", "on")
                else ()
            )
            found.append(
                ledger.Run(
                    cell=f"kvm: 1 of {stride} pages, {name}",
                    figures=figures,
                    kernel=kernels["tiershift"],
                    goals=goals,
                )
            )
    for name, figures in facts["demotion"].items():
        goals = (
            [
                ledger.at_most("flushes by migration per 1,000 pages", figures["own"], DEMOTE_OWN),
                ledger.at_most("flushes per 1,000 pages", figures["all"], DEMOTE_ALL),
            ]
            if name == "on"
            else ()
        )
        found.append(
            ledger.Run(
                cell=f"demotion: {name}", figures=figures, kernel=kernels["torture"], goals=goals
            )
        )
    return found


def measure(_args: argparse.Namespace) -> bool:
    """Run everything; True if no check has failed."""
    began = time.time()
    moves = {
        _cell(folio, cpus): {name: _counted(name, folio, cpus) for name in MOVED}
        for folio in SIZES
        for cpus in CPUS
    }
    # The unmodified kernel splits folios that it moves a second time.
    once = {name: _counted(name, "64", 1, 1) for name in ("base", "off", "512")}
    moves[f"{_cell('64', 1)}, moved once"] = once
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        moves=moves,
        waits={name: _waits(name) for name in WAITED},
        kvm=_kvm(),
        demotion={label: _demotion(label) for label in DEMOTE},
        kernels={
            flavour: build.kernel(flavour).describe()
            for flavour in ("base", "tiershift", "torture")
        },
    )
    return finish.finish(STUDY, facts, runs(facts))


STUDY = Study(
    name=NAME,
    title="What migration costs",
    what=f"migrate_pages(2) moves {SIZE_MB} MiB to and fro, {ROUNDS} times; with eight CPUs twice, "
    "and eight threads read and write random pages of it.  The unmodified kernel batches 512.",
    columns=(
        Column("insn", "kernel instructions a page"),
        Column("beside", "beside the copy"),
        Column("locked", "locked operations a page", "{:.2f}"),
        Column("sent", "TLB flushes sent per 1,000 pages", "{:,.1f}"),
        Column("received", "interrupts of CPUs per 1,000 pages", "{:,.1f}"),
        Column("failed", "pages that failed"),
        Column("wait", "longest wait of a move, median, us"),
        Column("wait_most", "of all moves, us"),
        Column("moved", "pages moved"),
        Column("requests", "KVM's flush requests"),
        Column("forgotten", "pages that KVM forgot and that did not move"),
        Column("promoted", "promoted"),
        Column("demoted", "demoted"),
        Column("flushes", "TLB flushes"),
        Column("all", "TLB flushes per 1,000 pages", "{:.1f}"),
        Column("own", "by migration", "{:.1f}"),
        Column("own_demotion", "by demotion", "{:.1f}"),
        Column("in_run", "unmapped in runs, % of pages moved by batch", "{:.1f}"),
    ),
    minutes=20,
    run=measure,
    groups=study.MIGRATE,
    parts=(
        ("migrate_pages(2) to and fro", "move: "),
        ("How long a thread that reads random pages waits for one", "wait: "),
        ("A virtual machine's 32 MiB, move_pages(2)", "kvm: "),
        ("kmmscand promotes, kswapd demotes: lookup, 8 threads", "demotion: "),
    ),
    notes=(
        "Seed series 001, two sockets, pmbench with 112 processes, against a kernel that moves "
        "page by page: interrupts -99.1 %, pages per second +291.7 %, share of migrate_pages() "
        "spent in unmapping and flushing 83.3 % before, 8.3 % after.  Ours against limit 1 is "
        "that comparison.  Time that CPUs wait for interrupts cannot be seen here.",
        "Threads wait for pages that are away, so instructions on eight CPUs have faults and the "
        "scheduler in them.  A huge page is larger than 2 MiB of a batch: below 4096, one each.",
        "Waits: one CPU reads random pages while another moves all 16,384; real microseconds of "
        "the emulator, of which a sleep takes about a thousand; 16 moves.  The first page of a "
        "batch is away while the rest is unmapped, the last one while the rest is copied.",
        "Demotion is measured with the torture kernel, which counts how pages move.",
    ),
)
