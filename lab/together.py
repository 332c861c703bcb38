# SPDX-License-Identifier: GPL-2.0
"""All parts of memory tiering at once: Redis, and a virtual machine beside it.

Redis and its client are those of the scenario redis.  lab/workloads/vm.c is a child of Redis, so
the agent places the memory of both on the slow node.  The virtual machine uses a half of its memory
from before START until after STOP, on a CPU of its own.  Contenders: all five switches on; each of
the five off in turn; NUMA balancing and nothing, on the unmodified kernel.

Counted is what happens on Redis's CPU, for each operation.  The virtual machine's guest code looks
to the insn plugin like a process, so there are no kinds of work.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab import build, cache, flushes, guest, instruments, metrics, programs, scenario, tier
from lab.errors import LabError
from lab.kept import Kept
from lab.results import finish, ledger, study
from lab.results.study import Column, Study
from lab.scenario import Contender, Kernel, Machine, Scenario

NAME = "together"
TIMES = 3
# Five switches for an operator, and the parts that each is made of
PROMOTION = "promotion"
SWITCHES = {
    PROMOTION: ("scan", "promote", "demote"),
    "defer": ("defer",),
    "batch": ("batch",),
    "zap": ("zap",),
    "age": ("age",),
}
# Redis, its client, the system, the virtual machine, and one that is idle for kernel threads
REDIS_CPU, SYSTEM_CPU, VM_CPU, CPUS = 0, 2, 3, 5
MACHINE = {"fast_mb": 256, "slow_mb": 704, "fast_cpus": CPUS}
VM_MB, VM_HOT_PCT = 48, 50
OPS = 300_000
FIFO, LOG = "/tmp/lab-together", "/tmp/lab-together.log"
# The START of the virtual machine comes first, and is not the one that counts.
REGION = 2

# The virtual machine waits for a line, and goes on until the agent ends the service.
SERVICE = f"""#!/bin/sh
rm -f {FIFO}
mkfifo {FIFO} || exit 3
taskset -c {VM_CPU} @VM@ --case hot --size-mb {VM_MB} --hot-pct {VM_HOT_PCT} --no-bind 1 \\
	--seconds 3600 0<>{FIFO} | taskset -c {SYSTEM_CPU} tee {LOG} &
exec redis-server "$@"
"""
WORKLOAD = f"""#!/bin/sh
echo GO > {FIFO}
for _ in $(seq 300); do
	if grep -q PROGRESS {LOG}; then
		exec @RESPLOAD@ "$@"
	fi
	sleep 0.2
done
echo "the virtual machine does not run" >&2
exit 3
"""

Figures = dict[str, float | None]


def _ours(name: str, without: str = "") -> Contender:
    """All five on but for one.  Mode tiershift itself switches scan and promote on, at START."""
    settings = {
        tier.enabled(part): f"{int(switch != without)}"
        for switch, parts in SWITCHES.items()
        for part in parts
        if switch != PROMOTION
    }
    if without == PROMOTION:
        settings |= {tier.enabled(part): "0" for part in ("scan", "promote")}
    demotion = without != PROMOTION
    return Contender(name, "tiershift", "tiershift", demotion, settings, rival=False)


CONTENDERS = (
    Contender("none", "none", "base"),
    Contender("numab2", "numab2", "base"),
    _ours("tiershift"),
    *(_ours(f"without {name}", name) for name in SWITCHES),
)
# What a part that works counts, by switch
COUNTED = {
    "promoted": PROMOTION,
    "deferred": "defer",
    "batched": "batch",
    "zapped": "zap",
    "asked": "age",
}
ROWS = {
    "deferred": "tier_defer_success",
    "batched": "tier_batch_folios",
    "zapped": "tier_zap_pages",
    "asked": "tier_age_questions",
}
# Each of these parts must have worked where it is on.  Redis unmaps nothing, and writes nothing.
WORKED = ("promoted", "batched", "asked")


def make(contender: Contender) -> Scenario:
    """The scenario redis with a virtual machine beside the server."""
    redis = scenario.load("redis")
    assert redis.service
    args = [*redis.workload.args]
    args[args.index("--ops") + 1] = f"{OPS}"
    return dataclasses.replace(
        redis,
        name=NAME,
        description="Redis and a virtual machine on the slow tier",
        topology=Machine("two-tier", MACHINE, [SYSTEM_CPU], append=redis.topology.append),
        service=dataclasses.replace(redis.service, program="service", cpus=[REDIS_CPU]),
        workload=dataclasses.replace(redis.workload, program="workload", args=args),
        measure=dataclasses.replace(redis.measure, timeout_s=900),
        contender=[contender],
    )


def wrappers(study_: str = NAME, service: str = SERVICE) -> dict[str, Path]:
    """Programs that start another one beside: by name, as --external has them."""
    built = programs.build_programs(cache.root() / "programs")
    found = {}
    for name, text, program in (("service", service, "vm"), ("workload", WORKLOAD, "respload")):
        path = cache.sub("programs") / f"{study_}-{name}"
        started = shlex.quote(str(built[program]))
        path.write_text(text.replace(f"@{program.upper()}@", started), encoding="utf-8")
        path.chmod(0o755)
        found[name] = path
    return found


def _plugins(spec: Scenario, kernel: Kernel, out: Path) -> list[str]:
    built = instruments.build_plugins(cache.root() / "programs")
    measure = spec.measure
    # This kernel is preempted voluntarily: each call of cond_resched() counts, whoever calls.
    first, *_, last = instruments.text_symbols(kernel.system_map)[0]
    holds = instruments.holds_plugin(
        kernel.system_map, out / "holds.json", plugins=built, calm=["__cond_resched"]
    )
    return [
        instruments.access_plugin(
            spec.topology.load(),
            out / "access.jsonl",
            plugins=built,
            lines=measure.cache_lines,
            vcpus=measure.app_cpus,
            period_ms=measure.period_ms,
        ),
        instruments.insn_plugin(kernel.system_map, out / "insn.json", plugins=built),
        re.sub("calm=[^,]*", f"calm={first:#x}-{last + 1:#x}", holds),
    ]


# --- what is counted ----------------------------------------------------------------


def guest_pages(log: str) -> int:
    """How many pages the virtual machine has touched, by what it has printed last."""
    found = re.findall(r"^PROGRESS (\{.*\})$", log, re.MULTILINE)
    pages = int(json.loads(found[-1])["ops"]) if found else 0
    if not pages:
        raise LabError("the virtual machine has not run", log[-500:])
    return pages


def stretch(holds: dict[str, Any], cpus: Sequence[int]) -> int:
    """The longest stretch on some CPUs, in kernel instructions, of what holds.so has written."""
    found: list[int] = [one["longest"] for one in holds["stretches"] if one["vcpu"] in cpus]
    if not holds["valid"] or not found:
        raise LabError("the holds plugin has measured nothing", holds["why"])
    return max(found)


def kernel_work(table: instruments.InsnTable, cpus: Sequence[int]) -> int:
    """Kernel instructions without waiting for locks, as metrics.py counts them."""
    spin = [table.symbols[name].insn for name in metrics.SPIN_SYMBOLS if name in table.symbols]
    return sum(table.vcpus[cpu].kernel_busy - sum(row[cpu] for row in spin) for cpu in cpus)


def hit_ratio(
    samples: Sequence[instruments.AccessSample], spec: Scenario, region: int = REGION
) -> tuple[float | None, float | None]:
    """The share of accesses that fast memory serves: of the whole run, and at the end."""
    if samples[0].region != region:
        raise LabError(
            f"START number {samples[0].region} was measured, not {region}",
            "the virtual machine has to begin before the client, and not to end",
        )
    fast, measure = spec.topology.load().fast, spec.measure
    points = [[*metrics.access_point(one, measure.app_cpus, fast)] for one in samples]
    end = points[-1][metrics.TIME]
    final, _ = metrics.convergence(points, 0.0, end, measure.tail_s)
    return metrics.ratio_between(points, 0.0, end), final


def figures(
    agent: dict[str, Any],
    table: instruments.InsnTable,
    samples: Sequence[instruments.AccessSample],
    holds: dict[str, Any],
    spec: Scenario,
    region: int = REGION,
) -> Figures:
    """What is shown of a run."""
    measured, ops, cpus = agent["measured"], agent["workload"]["ops"], spec.measure.app_cpus
    delta = measured["delta"]
    whole, final = hit_ratio(samples, spec, region)
    pages = agent["residency_end"]
    fast = sum(pages.get(f"{node}", 0) for node in spec.topology.load().fast)
    return {
        "kernel_per_op": kernel_work(table, cpus) / ops,
        "interrupts": 1000 * sum(measured["tlb_interrupts"][cpu] for cpu in cpus) / ops,
        "stretch": stretch(holds, cpus),
        "hit_ratio": whole,
        "hit_ratio_end": final,
        "on_fast": fast / sum(pages.values()),
        "promoted": flushes.total(delta, flushes.PROMOTED),
        "demoted": flushes.total(delta, flushes.DEMOTED),
        **{key: delta.get(row, 0) for key, row in ROWS.items()},
    }


def check(turns: Sequence[dict[str, Figures]]) -> list[str]:
    """What does not hold: a part that is on and has done nothing, or is off and has."""
    failures = []
    for number, turn in enumerate(turns, 1):
        for contender in CONTENDERS:
            row, name = turn[contender.name], contender.name
            for key, switch in COUNTED.items():
                works = contender.mode == "tiershift" and name != f"without {switch}"
                works |= key == "promoted" and contender.mode == "numab2"
                if row[key] and not works:
                    failures.append(f"{name}, {number}: {key} is {row[key]:g} with {switch} off")
                if not row[key] and works and key in _expected(name):
                    failures.append(f"{name}, {number}: {key} is 0 with {switch} on")
    return failures


def _expected(name: str) -> tuple[str, ...]:
    """What has something to do: without promotion nothing is moved, nor is KVM asked."""
    return () if name == f"without {PROMOTION}" else WORKED


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each contender in each turn."""
    found: list[ledger.Run] = []
    for number, turn in enumerate(facts["turns"], 1):
        for contender in CONTENDERS:
            found.append(
                ledger.Run(
                    cell=contender.name,
                    turn=number,
                    figures=turn[contender.name],
                    kernel=facts["kernels"][contender.kernel],
                    checks=facts["failures"] if not found else (),
                )
            )
    return found


# --- running ------------------------------------------------------------------------


def _one(contender: Contender, kernel: Kernel, title: str) -> Figures:
    out = cache.sub("runs") / NAME / contender.name.replace(" ", "-")
    spec = make(contender)
    with scenario.Live(sys.stderr, title, 90, spec.measure.app_cpus) as live:
        return run(spec, kernel, out, wrappers(), live)


def run(
    spec: Scenario,
    kernel: Kernel,
    out: Path,
    external: dict[str, Path],
    live: scenario.Live,
    looks: dict[str, Any] | None = None,
) -> Figures:
    """Boot, run the job of the one contender, and say what is shown of it."""
    (contender,) = spec.contender
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    built = programs.build_programs(cache.root() / "programs")
    job = {**scenario.make_job(spec, contender, out, built, external), "looks": looks}
    (out / "job.json").write_text(json.dumps(job, indent=1), encoding="utf-8")
    live.access, live.fast = out / "access.jsonl", spec.topology.load().fast
    result = guest.run(
        kernel.image,
        spec.topology.load(),
        shlex.join([*scenario.copy_agent(out), str(out / "job.json")]),
        out_dir=out,
        timeout_s=2 * spec.measure.timeout_s,
        plugins=_plugins(spec, kernel, out),
        append=spec.topology.append,
        on_line=live.on_line,
    )
    agent = scenario.agent_results(out, result.exit_code, f"{spec.name}, {contender.name}")
    guest_pages((out / "service.log").read_text(encoding="utf-8", errors="replace"))
    return figures(
        agent,
        instruments.read_insn(out / "insn.json", kinds=False).total,
        instruments.read_access(out / "access.jsonl"),
        json.loads((out / "holds.json").read_text(encoding="utf-8")),
        spec,
        REGION + bool(looks),  # that client comes between
    )


def measure(args: argparse.Namespace) -> bool:
    """Run everything; True if no check has failed."""
    began = time.time()
    kernels = {flavour: build.kernel(flavour) for flavour in ("base", "tiershift")}
    kept = Kept(NAME, resume=args.resume)
    turns: list[dict[str, Figures]] = []
    for number in range(1, args.times + 1):
        turns.append({})
        for contender in CONTENDERS:
            kernel = kernels[contender.kernel]
            title = f"{NAME}, turn {number} of {args.times}: {contender.name}"
            parts = [json.dumps(dataclasses.asdict(make(contender))), SERVICE, WORKLOAD]
            parts += [f"{number}", kernel.key]
            one = partial(_one, contender, kernel, title)
            turns[-1][contender.name] = kept.get(parts, one)
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        resumed=kept.resumed,
        kernels={flavour: kernel.describe() for flavour, kernel in kernels.items()},
        turns=turns,
        failures=check(turns),
    )
    return finish.finish(STUDY, facts, runs(facts), whole=args.times >= TIMES)


def arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--times", type=int, default=TIMES, help=f"turns ({TIMES})")
    finish.add_resume(command)


STUDY = Study(
    name=NAME,
    title="All parts of memory tiering together",
    what=f"Redis and a virtual machine of {VM_MB} MiB have their memory on the slow node.  All "
    "five switches are on, or one of them is off; NUMA balancing, or nothing, works on the "
    "unmodified kernel.  Counted is what happens on the CPU of Redis.",
    columns=(
        Column("kernel_per_op", "kernel instructions per GET"),
        Column("interrupts", "TLB flush interrupts per 1,000 GETs", "{:,.2f}"),
        Column("stretch", "longest stretch of kernel instructions"),
        Column("hit_ratio", "accesses to fast memory", "{:.1%}"),
        Column("hit_ratio_end", "at the end", "{:.1%}"),
        Column("on_fast", "memory of both on the fast node in the end", "{:.1%}"),
        Column("promoted", "pages promoted"),
        Column("demoted", "demoted"),
        Column("batched", "folios moved in batches"),
        Column("deferred", "demoted without a flush"),
        Column("zapped", "unmapped in runs"),
        Column("asked", "questions to KVM"),
    ),
    minutes=36,
    run=measure,
    groups=tuple(
        dict.fromkeys(study.KMMSCAND + study.MIGRC + study.MIGRATE + study.AGING + study.ZAP)
    ),
    arguments=arguments,
    notes=(
        "promotion is the parts scan, promote and demote.  tiershift: all five switches are on.",
        "A stretch of kernel instructions ends in user code, at a context switch, or where "
        "cond_resched() is called, by might_sleep() as well.  It includes waiting for other CPUs.  "
        "Interrupts are not counted.",
        "Redis unmaps hardly anything and writes nothing, so zap and defer have little to do.",
        "Promotion and NUMA balancing go by the clock: runs of a contender differ.",
    ),
)
