# SPDX-License-Identifier: GPL-2.0
"""make run: Redis and a virtual machine beside it, with three kinds of tiering in turn.

The machine, its programs and the figures are those of the study together (lab/together.py).  Redis
and the virtual machine are in control groups of their own.  Before START a client uses the memory,
which lies on the slow node, between two looks of MGLRU (lab/looks.py); another look comes with each
copy of the guest's files.  So tierctl tells how much of each tier was used in the seconds before.
The looks run on the CPU of the system.  They hold locks that Redis's page faults need, and give
reclaim the ages by which it demotes, with each contender alike.

Contenders: nothing, and NUMA balancing, on the unmodified kernel; tiershift with the parts that one
write to tier/enabled switches on.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lab import build, cache, looks, programs, report, scenario, seen, tier, together
from lab.drawn import Drawing, Recorded
from lab.errors import LabError
from lab.results.study import Column
from lab.scenario import Contender, Kernel, Process, Scenario
from lab.together import Figures

NAME = "first"
MACHINE = {"fast_mb": 192, "slow_mb": 448, "fast_cpus": together.CPUS}
KEYS, OPS = 131_072, 300_000
EXPECTED_S = 60  # of a contender, until it is known
GROUPS = """#!/bin/sh
groups=/sys/fs/cgroup
for group in $groups $groups/system.slice $groups/machine.slice; do
	mkdir -p "$group"
	echo +memory > "$group/cgroup.subtree_control"
done
join() {
	mkdir -p "$groups/$1"
	echo $$ > "$groups/$1/cgroup.procs"
}
join machine.slice/vm.scope
"""
REDIS = "exec redis-server"
CONTENDERS = (
    Contender("none", "none", "base"),
    Contender("numab2", "numab2", "base"),
    Contender(
        "tiershift",
        "tiershift",
        "tiershift",
        # Mode tiershift itself switches scan and promote on, at START.
        settings={
            tier.enabled(part): f"{int(wished)}"
            for part, wished in tier.PARTS.items()
            if part not in together.SWITCHES[together.PROMOTION]
        },
        rival=False,
    ),
)
TITLES = {"none": "no tiering", "numab2": "NUMA balancing", "tiershift": "tiershift"}
SHOWN = "tiershift"  # the contender whose run report.html is about
ROWS = (
    Column("hit_ratio", "accesses that fast memory serves (*)", "{:.1%}"),
    Column("hit_ratio_end", "  at the end (*)", "{:.1%}"),
    Column("on_fast", "memory of both on fast at the end", "{:.1%}"),
    Column("promoted", "pages promoted"),
    Column("hint_faults", "hint faults that programs take"),
    Column("kernel_per_op", "kernel instructions per GET, Redis's CPU"),
    Column("interrupts", "TLB interrupts per 1,000 GETs, same CPU", "{:,.2f}"),
    Column("stretch", "longest stop in kernel instructions (*)"),
)
NOTE = """\
(*) Of Redis, counted by the emulator; on hardware no tool can without a PMU.
One run of each: small differences mean nothing.  For these pictures MGLRU looks
at all memory each 2 s, with each contender; by itself it looks on reclaim."""


# --- the job ------------------------------------------------------------------------


def service() -> str:
    """What starts the virtual machine and Redis, each in its group."""
    rest = together.SERVICE.removeprefix("#!/bin/sh\n")
    return GROUPS + rest.replace(REDIS, f"join system.slice/redis.service\n{REDIS}")


def _with(process: Process | None, **values: int) -> Process:
    """A process with other values of its arguments."""
    assert process
    args = [*process.args]
    for name, value in values.items():
        args[args.index(f"--{name}") + 1] = f"{value}"
    return dataclasses.replace(process, args=args)


def make(contender: Contender) -> Scenario:
    """The scenario of the study together, with half of the memory."""
    whole = together.make(contender)
    return dataclasses.replace(
        whole,
        name=NAME,
        topology=dataclasses.replace(whole.topology, sizes=MACHINE),
        load=_with(whole.load, keys=KEYS),
        workload=_with(whole.workload, keys=KEYS, ops=OPS),
    )


def client(spec: Scenario) -> list[str]:
    """The program that uses memory before START, for as long as from one copy to the next."""
    respload = programs.build_programs(cache.root() / "programs")["respload"]
    cpus = ",".join(map(str, spec.workload.cpus))
    args = [*_with(spec.workload, ops=0).args, "--seconds", f"{spec.measure.sample_s:g}"]
    return ["taskset", "-c", cpus, str(respload), *args]


def run_one(contender: Contender, kernel: Kernel, out: Path, live: scenario.Live) -> Figures:
    """Run a contender."""
    spec = make(contender)
    external = together.wrappers(NAME, service())
    found = together.run(spec, kernel, out, external, live, {"client": client(spec)})
    delta = json.loads((out / "results.json").read_text(encoding="utf-8"))["measured"]["delta"]
    return {**found, "hint_faults": delta.get("numa_hint_faults", 0)}


# --- what is told -------------------------------------------------------------------


def table(found: dict[str, Figures]) -> list[list[str]]:
    """Header and eight rows."""
    known = [{key: v for key, v in one.items() if v is not None} for one in found.values()]
    head = ["emulated", *(TITLES[name] for name in found)]
    return [head, *([row.title, *(row.cell(one) for one in known)] for row in ROWS)]


def check(found: dict[str, Figures]) -> list[str]:
    """What makes the comparison worthless."""
    rivals = {name: one for name, one in found.items() if name != "none"}
    return [f"{name} promoted nothing" for name, one in rivals.items() if not one["promoted"]]


def next_steps(page: Path) -> list[str]:
    """What to do after the run."""
    deb = "make deb FLAVOUR=none; apt install ./tierctl_*.deb && tierctl doctor"
    return [
        f"open {page} in a browser: hot on slow over time, and which threads pay",
        "make shell, and type there: python3 -m tierctl status",
        f"on your own machine: {deb}",
    ]


def tell(found: dict[str, Figures], copies: dict[str, list[seen.Copy]], out: Path) -> None:
    """The end: figures, before and after by hotness and tier, and what to do next."""
    size = f"{KEYS >> 10} MiB of values"
    print(f"\nRedis ({size}) and a virtual machine, all on slow memory at first\n")
    report.print_rows(table(found), sys.stdout)
    print(NOTE)
    for name, samples in copies.items():
        for label in ("before", "after"):
            print(f"\n{TITLES[name]}, {label}")
            print("\n".join(seen.triangle(samples, label)))
    page, bundle = out / "report.html", out / f"{SHOWN}.json.gz"
    if SHOWN in copies:
        seen.save(copies[SHOWN], bundle)
        page.write_text(seen.report(bundle), encoding="utf-8")
        print("\n" + "\n".join(next_steps(page)))


# --- running ------------------------------------------------------------------------


def _kernels(chosen: Sequence[Contender], needs: dict[str, float]) -> dict[str, Kernel]:
    """Kernels by flavour; while they are built a recorded run is on the screen."""
    flavours = [*dict.fromkeys(one.kernel for one in chosen)]
    with Recorded(sys.stderr) as log:
        if not any(cache.sub("kernels").glob("*/kernel.json")):
            log.play()  # even to tell what is missing takes minutes
        builds = build.missing(flavours)
        minutes = (sum(builds.values()) + sum(needs.values())) / 60
        what = f"{len(builds)} kernels to build and {len(needs)} runs"
        log.write(f"{what}: at most {minutes:.0f} minutes in all\n")
        if builds:
            log.play()
        return {flavour: build.kernel(flavour, log=log) for flavour in flavours}


def run(wanted: Sequence[str]) -> int:
    """Build, run one contender after the other, and tell what was found."""
    if unknown := {*wanted} - {*TITLES}:
        known = ", ".join(TITLES)
        raise LabError(f"there is no contender {min(unknown)!r}", f"there are: {known}")
    began, out = time.monotonic(), cache.sub("runs") / NAME
    chosen = [one for one in CONTENDERS if not wanted or one.name in wanted]
    needs = {
        one.name: scenario.expected_seconds(cache.root(), f"{NAME}/{one.name}", EXPECTED_S)
        for one in chosen
    }
    kernels = _kernels(chosen, needs)
    found: dict[str, Figures] = {}
    copies: dict[str, list[seen.Copy]] = {}
    for number, one in enumerate(chosen, 1):
        start = time.monotonic()
        title = f"[{number}/{len(chosen)}] {TITLES[one.name]}"
        cpus, file = make(one).measure.app_cpus, out / one.name / looks.FILE
        file.unlink(missing_ok=True)  # of an earlier run
        with Drawing(sys.stderr, title, needs[one.name], cpus, file) as live:
            try:
                found[one.name] = run_one(one, kernels[one.kernel], out / one.name, live)
            except BaseException:
                live.phase = "failed"
                raise
        scenario.remember(cache.root(), f"{NAME}/{one.name}", time.monotonic() - start)
        copies[one.name] = seen.read(file)
    tell(found, copies, out)
    print(f"total time: {(time.monotonic() - began) / 60:.1f} minutes")
    if failures := check(found):
        raise LabError("checks failed", "; ".join(failures))
    return 0
