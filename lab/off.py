# SPDX-License-Identifier: GPL-2.0
"""What the rooms cost while memory tiering is off.

All rooms are in the kernel, and tier/enabled is 0.  A boot runs every case one after the other:
lab/workloads/zap.c unmaps, offcost.c moves pages, faults, forks and executes, vm.c ages the memory
of a virtual machine, fileread.c reads page cache.  RUNS boots of the unmodified kernel and RUNS
boots of ours count kernel instructions.

The insn plugin follows calls, so a case counts what its system calls and page faults execute on
CPU 0.  Interrupts, soft interrupts and kernel threads do not count.  The allocator's work on its
free lists is apart, because it depends on which neighbours of a page happen to be free.
"""

from __future__ import annotations

import argparse
import re
import shlex
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import aging, boots, build, cache, instruments, programs, scenario, tier
from lab import topology as topologies
from lab.errors import LabError
from lab.results import finish, ledger, study
from lab.results.study import Column, Study

NAME = "off"
RUNS = 3
LIMIT = 1.005
CPU = 0  # that runs what is counted
MACHINE = {"fast_mb": 768, "slow_mb": 512, "fast_cpus": 2}
# Pages are copied and cleared by eight bytes, not by single ones.
APPEND = "clearcpuid=erms,fsrm"
CGROUP = "/tmp/lab-off"
COPY = "/tmp/lab-offcost"  # of a program that executes itself; a file of 9p has no page cache
BASE, OURS = "base", "tiershift"

# The innermost of these functions tells what an instruction is for.
KINDS: dict[str, tuple[str, ...]] = {
    "other": (*instruments.KINDS["other"], *instruments.KINDS["ipi"]),
    "work": ("do_syscall_64", "exc_page_fault"),
    "read": ("ksys_read",),
    "copy": ("folio_mc_copy",),
    "buddy": ("free_pcppages_bulk", "__rmqueue_pcplist"),
    # Pages move out of the oldest generation when a new one is begun: not by asking KVM.
    "generations": aging.GENERATIONS,
}
INTERRUPTS = "other"


@dataclass(frozen=True)
class Case:
    """A way through the kernel: its program, and what counts of it."""

    label: str
    program: str
    args: str
    kind: str = "work"
    cpus: str = f"{CPU}"
    pages_mb: int = 0  # the program does not say how many pages it has unmapped


CASES = {
    "fault": Case("page fault, anonymous", "offcost", "--case fault --size-mb 64"),
    "fork": Case("fork(2) and exit", "offcost", "--case fork --count 300"),
    "exec": Case("execve(2)", "offcost", "--case exec --count 200"),
    "munmap": Case(
        "munmap(2), a page of 4 KiB",
        "zap",
        "--case munmap --folio 4 --size-mb 128",
        pages_mb=128,
    ),
    "migration": Case(
        "move_pages(2), a page of 4 KiB, beside the copy",
        "offcost",
        "--case move --size-mb 32 --count 4",
    ),
    "aging": Case(
        "aging of a virtual machine, an accessed page",
        "vm",
        f"--case young --size-mb 64 --cgroup {CGROUP}/vm",
        cpus=f"{CPU},1",  # the thread that ages, and the vCPU, which is at rest by then
    ),
    "read": Case(
        "read(2) of 4 KiB of page cache",
        "fileread",
        "--size-mb 64 --pattern seq --buf 4096 --passes 6 --node 1",
        kind="read",
    ),
}
# Functions whose counts differ most, shown where a limit is exceeded
SHOWN = 8

Counted = dict[str, float]  # of a case in one boot: "insn", "whole"
Symbols = dict[str, float]  # instructions for one operation, by function


def kinds(system_map: Path) -> dict[str, list[str]]:
    """Functions of a kernel by kind, by the names that the compiler has given them."""
    names = instruments.text_symbols(system_map)[1]
    found = {
        kind: [name for name in names if name.split(".")[0] in functions]
        for kind, functions in KINDS.items()
    }
    for kind, functions in found.items():
        if not functions:
            raise LabError(f"the kernel has none of {', '.join(KINDS[kind])}", "find the new names")
    return found


def script(built: Mapping[str, Path]) -> str:
    """What the guest runs.  After each case the plugin's result gets the name of the case.

    The plugin writes beside the script, which is in the directory of the run.
    """
    lines = [
        'out=$(dirname "$0")',
        f"mkdir {CGROUP}; mount -t cgroup2 none {CGROUP} || exit 3",
        f"echo +memory > {CGROUP}/cgroup.subtree_control; mkdir {CGROUP}/vm {CGROUP}/others",
        f"echo 0 > {CGROUP}/others/cgroup.procs",
        "echo y > /sys/kernel/mm/lru_gen/enabled",
        "echo never > /sys/kernel/mm/transparent_hugepage/enabled",
        "echo 0 > /proc/sys/kernel/randomize_va_space",
        f"[ ! -e {tier.DIRECTORY} ] || echo 0 > {tier.DIRECTORY}/enabled || exit 3",
        f"cp {shlex.quote(str(built['offcost']))} {COPY}",
    ]
    for name, case in CASES.items():
        program = COPY if case.program == "offcost" else shlex.quote(str(built[case.program]))
        lines += [
            f"echo CASE {name}",
            f"taskset -c {case.cpus} {program} {case.args} < /dev/null || exit 4",
            f'mv "$out/insn.json" "$out/{name}.json" || exit 5',
        ]
    return "\n".join(lines)


def operations(log: str) -> dict[str, int]:
    """How often each case has done what it is about, by what the programs have printed."""
    found = {}
    for part in re.split(r"^CASE ", log, flags=re.MULTILINE)[1:]:
        name = part.partition("\n")[0]
        said, case = boots.said(part, name), CASES[name]
        if case.pages_mb:
            found[name] = case.pages_mb << 8
        elif "young" in said:
            found[name] = int(said["pages"])
            if abs(said["young"] - said["pages"]) > said["pages"] / 100:
                raise LabError(f"{said['young']} of {said['pages']} pages were young", part[-300:])
        else:
            found[name] = int(said["ops"])
    if found.keys() != CASES.keys():
        raise LabError("some cases have not run", log[-500:])
    return found


def counted(case: Case, result: instruments.InsnResult, ops: int) -> Counted:
    """Kernel instructions for one operation; ``whole`` with copies and the allocator's lists."""
    of_kind = {kind: count.process[CPU] for kind, count in result.kinds.items()}
    insn = of_kind[case.kind] / ops
    if not insn:
        raise LabError(f"{case.label}: nothing was counted", f"see {', '.join(KINDS[case.kind])}")
    whole = sum(count for kind, count in of_kind.items() if kind != INTERRUPTS) / ops
    return {"insn": insn, "whole": whole}


def by_symbol(table: instruments.InsnTable, ops: int) -> Symbols:
    """Instructions for one operation by function, interrupts included."""
    return {name: one.insn[CPU] / ops for name, one in table.symbols.items() if one.insn[CPU]}


def differing(base: Sequence[Symbols], ours: Sequence[Symbols]) -> list[tuple[str, float, float]]:
    """The functions whose medians differ most: name, unmodified, ours."""
    names = {name for one in (*base, *ours) for name in one}
    medians = [(name, _median(base, name), _median(ours, name)) for name in names]
    return sorted(medians, key=lambda row: (-abs(row[2] - row[1]), row[0]))[:SHOWN]


def _median(runs: Sequence[Mapping[str, float]], key: str) -> float:
    return statistics.median(run.get(key, 0.0) for run in runs)


def _insn(kernel: build.KernelImage, out: Path) -> list[str]:
    return [
        instruments.insn_plugin(
            kernel.system_map,
            out / "insn.json",
            plugins=instruments.build_plugins(cache.root() / "programs"),
            kinds=kinds(kernel.system_map),
        )
    ]


def _boot(flavour: str, number: int) -> dict[str, tuple[Counted, Symbols]]:
    """Every case in one boot."""
    log, out = boots.boot(
        NAME,
        f"{flavour} {number}",
        build.kernel(flavour),
        topologies.load("two-tier", **MACHINE),
        script(programs.build_programs(cache.root() / "programs")),
        plugins=_insn,
        expected_s=80,
        append=APPEND,
    )
    found = {}
    for name, ops in operations(log).items():
        result = instruments.read_insn(out / f"{name}.json")
        found[name] = counted(CASES[name], result, ops), by_symbol(result.total, ops)
    return found


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / statistics.median(values)


def figures(base: Sequence[Counted], ours: Sequence[Counted]) -> dict[str, float]:
    """Of a case: medians of all boots, ours as a share of the unmodified kernel's.

    ``spread`` is by how much boots of one kernel differ, of the kernel whose boots differ more.
    """
    unmodified, off = _median(base, "insn"), _median(ours, "insn")
    return {
        "base": unmodified,
        "off": off,
        "share": off / unmodified,
        "spread": max(_spread([one["insn"] for one in side]) for side in (base, ours)),
        "whole": _median(ours, "whole") / _median(base, "whole"),
    }


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each case.  A limit that boots of one kernel hide is neither met nor missed."""
    found = []
    for name, sides in facts["counted"].items():
        row = figures(sides[BASE], sides[OURS])
        goal = ledger.at_most(
            CASES[name].label,
            row["share"],
            LIMIT,
            f"of the unmodified kernel's instructions, medians of {len(sides[OURS])} boots",
            noise=row["spread"],
        )
        found.append(
            ledger.Run(
                cell=CASES[name].label,
                figures=row,
                kernel=facts["kernels"][OURS],
                goals=[goal],
            )
        )
    return found


def explained(facts: dict[str, Any]) -> list[str]:
    """Where a limit is exceeded: the functions that differ most."""
    lines = []
    for name, sides in facts["counted"].items():
        if figures(sides[BASE], sides[OURS])["share"] > LIMIT:
            lines.append(
                f"{CASES[name].label}, instructions by function, unmodified and ours, off:"
            )
            lines += [f"  {one:40} {a:12,.2f} {b:12,.2f}" for one, a, b in facts["symbols"][name]]
    return lines


def measure(args: argparse.Namespace) -> bool:
    """Run everything; True if no check has failed."""
    began = time.time()
    # In turns, so that what the host does besides is with both
    turns = [
        {flavour: _boot(flavour, number) for flavour in (BASE, OURS)}
        for number in range(1, args.runs + 1)
    ]
    sides = {
        name: {flavour: [turn[flavour][name] for turn in turns] for flavour in (BASE, OURS)}
        for name in CASES
    }
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernels={flavour: build.kernel(flavour).describe() for flavour in (BASE, OURS)},
        counted={
            name: {flavour: [one for one, _ in found] for flavour, found in side.items()}
            for name, side in sides.items()
        },
        symbols={
            name: differing(*([one for _, one in found] for found in side.values()))
            for name, side in sides.items()
        },
    )
    good = finish.finish(STUDY, facts, runs(facts), whole=args.runs >= RUNS)
    print("\n".join(explained(facts)))
    return good


def arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--runs", type=int, default=RUNS, help=f"boots of each kernel ({RUNS})")


STUDY = Study(
    name=NAME,
    title="What memory tiering costs while it is off",
    what="All rooms are in the kernel and tier/enabled is 0.  Kernel instructions of system calls "
    f"and page faults are compared with those of the unmodified kernel; medians of {RUNS} boots.",
    columns=(
        Column("base", "instructions, unmodified", "{:,.1f}"),
        Column("off", "instructions, ours, off", "{:,.1f}"),
        Column("share", "off / unmodified", "{:.4f}"),
        Column("spread", "boots of one kernel differ by", "{:.2%}"),
        Column("whole", "off / unmodified, free lists and copies included", "{:.4f}"),
    ),
    minutes=10,
    run=measure,
    groups=tuple(
        dict.fromkeys(study.KMMSCAND + study.MIGRC + study.MIGRATE + study.AGING + study.ZAP)
    ),
    arguments=arguments,
    notes=(
        "Interrupts, soft interrupts and kernel threads do not count.",
        "Neither does what free_pcppages_bulk() and __rmqueue_pcplist() do: that depends on which "
        "neighbours of a page are free.  The last column has that, too.",
        "fork: fork(2), the child's exit and wait4(2).  exec: execve(2), and what the program "
        "does from its first instruction to its next execve(2).",
        "aging: pages of a guest that its vCPU has accessed, aged once by MGLRU's debugfs file.  "
        "Moving pages out of the oldest generation does not count.",
    ),
)
