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

import dataclasses
import json
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from lab import build, cache, guest, instruments, programs, report, scenario
from lab.errors import LabError
from lab.scenario import Contender, Kernel, Machine, Measure, Process, Scenario

NAME = "readcost"
CPU = 0
FILE_MB = 64
# Size of the reads in KiB, and passes over the file
# Some seconds, of which the first epochs of kmmscand are little
BUFFERS = {4: 32, 128: 80}
LIMIT = 0.005  # off must not differ from base by more, nor by more than the noise
TUNABLES = "/sys/kernel/mm/kmmscand/"
# Nothing is promoted, or it would not be slow for long.
STAY = {
    TUNABLES + "page_cache": "1",
    TUNABLES + "hot_threshold": "9",
    TUNABLES + "promote_rate_mbps": "0",
}
CONTENDERS = (
    Contender("base", "none", "base", args=["--node", "1"]),
    Contender("base-again", "none", "base", args=["--node", "1"]),
    Contender("off", "none", "tiershift", args=["--node", "1"]),
    Contender(
        "cache-off",
        "tiershift",
        "tiershift",
        settings={**STAY, TUNABLES + "page_cache": "0"},
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
        "touched": delta.get("kmmscand_read_touched", 0),
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


def table(rows: dict[int, dict[str, Figures]]) -> list[list[str]]:
    """Instructions per read, and how much more than the unmodified kernel's."""
    lines = [["", *(f"read(2) of {buf_kb} KiB" for buf_kb in rows)]]
    for name, label in LABELS.items():
        cells = []
        for row in rows.values():
            base, value = per_read(row["base"]), per_read(row[name])
            more = "" if name == "base" else f" ({value / base - 1:+.2%})"
            cells.append(f"{value:,.1f}{more}")
        lines.append([label, *cells])
    return lines


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


def readcost(save: Path) -> bool:
    """Run everything, print it, write it; True if nothing failed."""
    began = time.time()
    kernels = {flavour: build.kernel(flavour) for flavour in ("base", "tiershift")}
    rows: dict[int, dict[str, Figures]] = {}
    for buf_kb in BUFFERS:
        rows[buf_kb] = {}
        for contender in CONTENDERS:
            title = f"read(2) of {buf_kb} KiB: {contender.name}"
            kernel = kernels[contender.kernel]
            rows[buf_kb][contender.name] = _one(contender, buf_kb, kernel, title)
    facts: dict[str, Any] = {
        "schema": 1,
        "command": scenario.command_line(sys.argv),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "host": scenario.host_info(),
        "kernels": {name: kernel.describe() for name, kernel in kernels.items()},
        "contenders": [dataclasses.asdict(contender) for contender in CONTENDERS],
        "rows": rows,
        "failures": check(rows),
    }
    report.print_rows(table(rows), sys.stdout)
    for failure in facts["failures"]:
        print("FAILED CHECK: " + failure)
    for directory in (cache.sub("runs") / NAME, save):
        text = json.dumps(facts, indent=1) + "\n"
        (directory / f"{NAME}.json").write_text(text, encoding="utf-8")
        (directory / f"{NAME}.md").write_text(markdown(facts), encoding="utf-8")
    if facts["failures"]:
        raise LabError("these figures do not count", "the FAILED CHECK lines above say why")
    return True


def markdown(facts: dict[str, Any]) -> str:
    """The page for docs/results."""
    slow = {buf_kb: row["on-slow"] for buf_kb, row in facts["rows"].items()}
    recorded = ", ".join(
        f"{run['touched']:,} in {run['reads']:,} reads of {buf_kb} KiB"
        for buf_kb, run in slow.items()
    )
    kernel = facts["kernels"]["tiershift"]
    return "\n".join(
        [
            "<!-- SPDX-License-Identifier: GPL-2.0 -->",
            f"# {NAME}",
            "",
            "Kernel instructions of a read(2) from page cache, in the order of the file, without "
            "interrupts and without the iterations of rep instructions, which copy the data.",
            "",
            f"Measured {facts['date']} with `{facts['command']}` in {facts['seconds']:.0f} s.",
            "",
            *report.markdown_rows(table(facts["rows"])),
            "",
            *(f"- FAILED CHECK: {failure}" for failure in facts["failures"]),
            f"- A file of {FILE_MB} MiB on ext2, read by one thread, that nobody maps; folios "
            "are single pages.",
            "- On: kmmscand enabled, page_cache 1; hot_threshold 9 and promote_rate_mbps 0, so "
            "that nothing is promoted. What is on the slow node is recorded once in an epoch: "
            f"{recorded}.",
            f"- Emulated (TCG, {facts['host']['qemu']}), {facts['host']['cpus']} host CPUs.",
            f"- Kernel {kernel['release']} ({kernel['flavour']} {kernel['key']}) from "
            f"{kernel['base_version']}, and the unmodified one with the same configuration.",
            "",
        ]
    )
