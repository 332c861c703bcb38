# SPDX-License-Identifier: GPL-2.0
"""What looking at page cache costs those who read it: instructions per read(2).

lab/workloads/fileread.c reads a file from the beginning to the end, several times, with
small and with large buffers, and the insn plugin counts what is executed inside of
read(2) on its CPU, without interrupts.  Iterations of rep instructions, which copy the
data, are not counted: under emulation each would be an instruction, and most of all.

Compared are the unmodified kernel, twice, whose difference is the noise; ours with
kmmscand disabled; and ours with kmmscand looking at page cache: of a file on the fast
node, where only its node is looked at, and of one on the slow node, which is recorded and
never promoted.  Each is a boot of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import shutil
import sys
import time
from typing import Any

from lab import build, cache, guest, instruments, programs, scenario, tier
from lab.results import finish, ledger, study
from lab.results.study import Column, Study
from lab.scenario import Contender, Kernel, Machine, Measure, Process, Scenario

NAME = "readcost"
CPU = 0
FILE_MB = 64
# Size of the reads in KiB, and passes over the file
# Some seconds, of which the first look of kmmscand is little
BUFFERS = {4: 96, 128: 240}
LIMIT = 0.005  # off must not differ from base by more, nor by more than the noise
PAGE_CACHE = tier.file("scan", "page_cache")
# Nothing is promoted, or it would not be slow for long.
STAY = {PAGE_CACHE: "1", tier.enabled("promote"): "0"}
CONTENDERS = (
    Contender("base", "none", "base", args=["--node", "1"]),
    Contender("base-again", "none", "base", args=["--node", "1"]),
    Contender("off", "none", "tiershift", args=["--node", "1"]),
    Contender(
        "cache-off",
        "tiershift",
        "tiershift",
        settings={**STAY, PAGE_CACHE: "0"},
        args=["--node", "1"],
    ),
    Contender("on-fast", "tiershift", "tiershift", settings=STAY, args=["--node", "0"]),
    Contender("on-slow", "tiershift", "tiershift", settings=STAY, args=["--node", "1"]),
)
LABELS = {
    "base": "unmodified kernel",
    "base-again": "the same again",
    "off": "kmmscand disabled",
    "cache-off": "on, but page_cache 0",
    "on-fast": "on, the file is on the fast node",
    "on-slow": "on, the file is on the slow node",
}
KINDS = {"other": instruments.KINDS["other"] + instruments.KINDS["ipi"], "read": ("ksys_read",)}

Figures = dict[str, Any]


def make(contender: Contender, buf_kb: int) -> Scenario:
    """The form that the agent's job is made from."""
    args = {
        "--size-mb": FILE_MB,
        "--pattern": "seq",
        "--buf": buf_kb << 10,
        "--passes": BUFFERS[buf_kb],
    }
    return Scenario(
        name=NAME,
        description="instructions of read(2) with and without kmmscand",
        topology=Machine(
            "two-tier",
            {"fast_mb": 320, "slow_mb": 256, "fast_cpus": 3},
            system_cpus=[2],
            append="clearcpuid=erms,fsrm",
        ),
        workload=Process("fileread", [str(x) for pair in args.items() for x in pair], [CPU]),
        measure=Measure(timeout_s=200),
        contender=[contender],
    )


def figures(agent: dict[str, Any], insn: instruments.InsnResult) -> Figures:
    """What is compared, of one run."""
    delta, job = agent["measured"]["delta"], agent["workload"]
    return {
        "reads": job["ops"],
        "instructions": insn.kinds["read"].process[CPU],
        "touched": delta.get("tier_scan_read", 0),
        "promoted": delta.get("pgpromote_success", 0),
    }


def per_read(run: Figures) -> float:
    return float(run["instructions"]) / float(run["reads"])


def check(rows: dict[int, dict[str, Figures]]) -> list[str]:
    """What does not hold."""
    failures = []
    for buf_kb, row in rows.items():
        where = f"reads of {buf_kb} KiB: "
        if len({run["reads"] for run in row.values()}) > 1:
            failures.append(where + "the runs did not do the same work")
        for name, run in row.items():
            if run["promoted"]:
                failures.append(f"{where}{name}: {run['promoted']} pages were promoted")
            if (name == "on-slow") != (run["touched"] >= FILE_MB * 256):
                failures.append(f"{where}{name}: {run['touched']} folios were recorded")
        base, again = per_read(row["base"]), per_read(row["base-again"])
        limit = max(LIMIT * base, abs(base - again))
        for name in ("off", "cache-off"):
            if abs(per_read(row[name]) - base) > limit:
                failures.append(f"{where}{name} differs from the unmodified kernel")
    return failures


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each size of reads and contender."""
    found: list[ledger.Run] = []
    for buf_kb, row in facts["rows"].items():
        base = per_read(row["base"])
        noise = abs(base - per_read(row["base-again"]))
        for name, run in row.items():
            flavour = next(c["kernel"] for c in facts["contenders"] if c["name"] == name)
            goals = []
            if name in ("off", "cache-off"):
                more = per_read(run) / base - 1
                goals.append(
                    ledger.Goal(
                        name=f"read(2) of {buf_kb} KiB, {LABELS[name]}",
                        verdict=ledger.MET
                        if abs(more) <= max(LIMIT, noise / base)
                        else ledger.MISSED,
                        value=round(more, 5),
                        limit=LIMIT,
                        text="more instructions than the unmodified kernel, as a share",
                    )
                )
            found.append(
                ledger.Run(
                    cell=f"{buf_kb} KiB, {name}",
                    figures={
                        "per_read": per_read(run),
                        "more": None if name == "base" else per_read(run) / base - 1,
                        "touched": run["touched"],
                        "reads": run["reads"],
                    },
                    kernel=facts["kernels"][flavour],
                    goals=goals,
                    checks=facts["failures"] if not found else (),
                )
            )
    return found


def _one(contender: Contender, buf_kb: int, kernel: Kernel, title: str) -> Figures:
    out = cache.sub("runs") / NAME / f"{contender.name}-{buf_kb}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    spec = make(contender, buf_kb)
    built = programs.build_programs(cache.root() / "programs")
    job = scenario.make_job(spec, contender, out, built, {})
    (out / "job.json").write_text(json.dumps(job, indent=1), encoding="utf-8")
    plugin = instruments.insn_plugin(
        kernel.system_map,
        out / "insn.json",
        plugins=instruments.build_plugins(cache.root() / "programs"),
        kinds=KINDS,
    )
    with scenario.Live(sys.stderr, title, 20, [CPU]) as live:
        result = guest.run(
            kernel.image,
            spec.topology.load(),
            shlex.join([*scenario.copy_agent(out), str(out / "job.json")]),
            out_dir=out,
            timeout_s=300,
            plugins=[plugin],
            append=spec.topology.append,
            on_line=live.on_line,
        )
    agent = scenario.agent_results(out, result.exit_code, title)
    return figures(agent, instruments.read_insn(out / "insn.json"))


def measure(_args: argparse.Namespace) -> bool:
    """Run everything; True if nothing failed."""
    began = time.time()
    kernels = {flavour: build.kernel(flavour) for flavour in ("base", "tiershift")}
    rows: dict[int, dict[str, Figures]] = {}
    for buf_kb in BUFFERS:
        rows[buf_kb] = {}
        for contender in CONTENDERS:
            title = f"read(2) of {buf_kb} KiB: {contender.name}"
            kernel = kernels[contender.kernel]
            rows[buf_kb][contender.name] = _one(contender, buf_kb, kernel, title)
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernels={name: kernel.describe() for name, kernel in kernels.items()},
        contenders=[dataclasses.asdict(contender) for contender in CONTENDERS],
        rows=rows,
        failures=check(rows),
    )
    return finish.finish(STUDY, facts, runs(facts))


STUDY = Study(
    name=NAME,
    title="What looking at page cache costs its readers",
    what="One thread reads a file from page cache, in order.  Counted are kernel instructions of a "
    "read(2), without interrupts and without the iterations of rep instructions that copy data.",
    columns=(
        Column("per_read", "instructions per read(2)", "{:,.1f}"),
        Column("more", "more than the unmodified kernel", "{:+.2%}"),
        Column("touched", "folios recorded"),
        Column("reads", "reads"),
    ),
    minutes=3,
    run=measure,
    groups=study.KMMSCAND,
    notes=(
        f"The file has {FILE_MB} MiB on ext2 and is mapped nowhere.  Folios are single pages.",
        "On: part scan works with page_cache 1, part promote does not, so nothing is promoted.",
    ),
)
