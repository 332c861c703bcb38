# SPDX-License-Identifier: GPL-2.0
"""Does kmmscand take Accessed bits away from reclaim?

What kmmscand clears it hands back: PG_young, and with MGLRU the generation.  If it did
not, reclaim would evict what is in use.  So one job (lab/workloads/refault.c) runs on a
machine that is too small for it, with kmmscand off and with kmmscand looking as often
as it may and promoting nothing, and what had to come back is compared.

Refaults are the job's major faults but for those that read a file page for the first
time.  The kernel's own count, workingset_refault_*, is the same with the classic LRU;
with MGLRU it leaves out what comes back on another node than it was evicted from, about
half, and differed by up to 10 % between equal runs.  It is shown but not judged.
Swap-ins are pswpin.

Each run has its own boot.  Each seed has two runs without kmmscand, whose difference is
the noise; "off" is their mean.  The three runs of a seed begin with another one each
time.

``--broken`` is the test of the test: on the debug kernel kmmscand takes bits and tells
nobody, and the result must get worse than with an intact kmmscand.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import build, cache, guest, programs, report, scenario
from lab.scenario import Contender, Kernel, Machine, Measure, Process, Scenario

LIMIT = 0.02  # what the criterion allows
LEAST = 5000  # refaults of each kind in a run, or reclaim had too little to do
PAGES_PER_MB = 256
COMPARED = {
    "refaults": "Refaults",
    "swapins": "Swap-ins",
    "workingset": "workingset_refault, not judged",
}
JUDGED = ("refaults", "swapins")

LRUS = {"mglru": "7", "classic": "0"}
TUNABLES = "/sys/kernel/mm/kmmscand/"
OFTEN = {
    TUNABLES + "scan_period_ms": "100",
    TUNABLES + "scan_cpu_pct": "50",
    # What is warm by this threshold makes passes frequent, also when nothing is promoted.
    TUNABLES + "hot_threshold": "1",
    TUNABLES + "promote_rate_mbps": "0",
}
STEAL = {"/sys/kernel/debug/tier/fault_young": "Y"}

# Both devices are zram: swap that compresses to next to nothing, and for the file a
# device that nobody has written to, which reads as zeros and holds no memory.  Both cost
# the same, hence the swappiness.  Without readahead a fault brings one page.
PREPARE = """
set -e
echo @LRU@ > /sys/kernel/mm/lru_gen/enabled
echo 0 > /proc/sys/vm/page-cluster
echo 100 > /proc/sys/vm/swappiness
cat /sys/class/zram-control/hot_add > /dev/null
echo 1G > /sys/block/zram0/disksize
echo 1G > /sys/block/zram1/disksize
echo 0 > /sys/block/zram1/queue/read_ahead_kb
/sbin/mkswap /dev/zram0 > /dev/null
/sbin/swapon /dev/zram0
"""


@dataclass(frozen=True)
class Setup:
    """A machine with its job: what is mapped is about 1.5 times the memory."""

    kernel: str
    fast_mb: int
    slow_mb: int
    anon_mb: int
    file_mb: int
    ops: int
    contenders: tuple[Contender, ...]
    seeds: int
    expected_s: int

    def scenario(self, contender: Contender) -> Scenario:
        """The form that the agent's job is made from."""
        args = {
            "--anon-mb": self.anon_mb,
            "--file-mb": self.file_mb,
            "--ops": self.ops,
            "--theta": 0.8,
            "--file": "/dev/zram1",
        }
        return Scenario(
            name="refault",
            description="refaults and swap-ins with and without kmmscand",
            topology=Machine(
                "two-tier",
                {"fast_mb": self.fast_mb, "slow_mb": self.slow_mb},
                system_cpus=[0],
                append="clearcpuid=erms,fsrm",
            ),
            workload=Process("refault", [str(x) for pair in args.items() for x in pair], [1]),
            measure=Measure(timeout_s=400),
            contender=[contender],
        )


SETUP = Setup(
    kernel="tiershift",
    fast_mb=160,
    slow_mb=224,
    anon_mb=320,
    file_mb=224,
    ops=1_600_000,
    contenders=(
        Contender("off", "none", "tiershift"),
        Contender("on", "tiershift", "tiershift", settings=OFTEN),
        Contender("off-again", "none", "tiershift"),
    ),
    seeds=5,
    expected_s=30,
)
# The debug kernel needs more memory for itself, and its faults take thirty times as long.
BROKEN = Setup(
    kernel="debug",
    fast_mb=256,
    slow_mb=96,
    anon_mb=112,
    file_mb=80,
    ops=350_000,
    contenders=(
        Contender("on", "tiershift", "debug", settings=OFTEN),
        Contender("broken", "tiershift", "debug", settings={**OFTEN, **STEAL}),
    ),
    seeds=1,
    expected_s=175,
)


# --- arithmetic ---------------------------------------------------------------

Figures = dict[str, int]
Row = dict[str, Figures]  # of a seed: by the name of the run


def figures(agent: dict[str, Any]) -> Figures:
    """What is compared, and what must hold for that, of one run."""
    delta, job = agent["measured"]["delta"], agent["workload"]
    return {
        "refaults": job["majfaults"] - job["first"],
        "swapins": delta["pswpin"],
        "workingset": delta["workingset_refault_anon"] + delta["workingset_refault_file"],
        "scanned": delta["pgscan_kswapd"] + delta["pgscan_direct"],
        "reclaimed": delta["pgsteal_kswapd"] + delta["pgsteal_direct"],
        "demoted": delta["pgdemote_kswapd"] + delta["pgdemote_direct"],
        "promoted": delta["pgpromote_success"],
        "young": delta["kmmscand_pte_young"],
        "ops": job["ops"],
        "first": job["first"],
    }


@dataclass(frozen=True)
class Difference:
    """How much more (or less, below 0) of something runs had than their base."""

    total: float  # of the sums
    each: list[float]  # by seed
    mean: float  # of these
    error: float | None  # its standard error; none of one seed

    @property
    def rms(self) -> float:
        return math.sqrt(statistics.fmean(d * d for d in self.each))


def difference(
    rows: Sequence[Mapping[str, Mapping[str, float]]], key: str, run: str, base: tuple[str, ...]
) -> Difference:
    """Of ``run`` from the mean of ``base``."""
    values = [(row[run][key], statistics.fmean(row[name][key] for name in base)) for row in rows]
    each = [value / of - 1 for value, of in values]
    return Difference(
        total=sum(value for value, _ in values) / sum(of for _, of in values) - 1,
        each=each,
        mean=statistics.fmean(each),
        error=statistics.stdev(each) / math.sqrt(len(each)) if len(each) > 1 else None,
    )


def within(on: Difference, noise: float) -> bool:
    """The criterion.  Noise above the limit must not help a result to pass."""
    if noise <= LIMIT:
        return abs(on.total) <= LIMIT
    return on.error is not None and abs(on.mean) + on.error <= LIMIT


def void(rows: list[Row], slow_pages: int) -> list[str]:
    """Why the runs do not say anything."""
    found = []
    for seed, row in enumerate(rows, 1):
        if len({(run["ops"], run["first"]) for run in row.values()}) > 1:
            found.append(f"seed {seed}: the runs did not do the same work")
        for name, run in row.items():
            where = f"seed {seed}, {name}: "
            if run["promoted"]:
                found.append(f"{where}{run['promoted']} pages were promoted")
            if name.startswith("off") and run["young"]:
                found.append(where + "kmmscand was not off")
            # Then each frame of the slow node was found accessed once.
            if not name.startswith("off") and run["young"] < slow_pages:
                found.append(f"{where}kmmscand found only {run['young']} accessed pages")
            for what, count in (
                ("swap-ins", run["swapins"]),
                ("refaults of the file", run["refaults"] - run["swapins"]),
            ):
                if count < LEAST:
                    found.append(f"{where}only {count} {what}, reclaim had too little to do")
    return found


def judge(rows: list[Row], slow_pages: int) -> dict[str, Any]:
    """The differences, the noise and the verdict of the full test."""
    result: dict[str, Any] = {"void": void(rows, slow_pages), "differences": {}}
    good = not result["void"]
    for key in COMPARED:
        on = difference(rows, key, "on", ("off", "off-again"))
        noise = difference(rows, key, "off-again", ("off",))
        passed = within(on, noise.rms)
        good = good and (passed or key not in JUDGED)
        result["differences"][key] = {
            **dataclasses.asdict(on),
            "noise_each": noise.each,
            "noise": noise.rms,
            "by_mean": noise.rms > LIMIT,
            "passed": passed,
        }
    return {**result, "passed": good}


def judge_broken(rows: list[Row], slow_pages: int) -> dict[str, Any]:
    """Worse than an intact kmmscand by more than the criterion allows?"""
    worse = {key: difference(rows, key, "broken", ("on",)) for key in COMPARED}
    reasons = void(rows, slow_pages)
    return {
        "void": reasons,
        "differences": {key: dataclasses.asdict(d) for key, d in worse.items()},
        "passed": not reasons and any(worse[key].total > LIMIT for key in JUDGED),
    }


# --- running ------------------------------------------------------------------


def _one(
    setup: Setup, contender: Contender, kernel: Kernel, lru: str, seed: int, title: str
) -> Figures:
    """Boot, run the job, and take the figures."""
    out = cache.sub("runs") / "refault" / f"{contender.name}-{seed}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    spec = setup.scenario(dataclasses.replace(contender, args=["--seed", str(seed)]))
    job = scenario.make_job(
        spec, spec.contender[0], out, programs.build_programs(cache.root() / "programs"), {}
    )
    (out / "job.json").write_text(json.dumps(job, indent=1), encoding="utf-8")
    command = shlex.join([*scenario.copy_agent(out), str(out / "job.json")])
    with scenario.Live(sys.stderr, title, setup.expected_s, spec.workload.cpus) as live:
        result = guest.run(
            kernel.image,
            spec.topology.load(),
            PREPARE.replace("@LRU@", LRUS[lru]) + command,
            out_dir=out,
            timeout_s=600,
            append=spec.topology.append,
            on_line=live.on_line,
        )
    return figures(scenario.agent_results(out, result.exit_code, title))


def refault(seeds: int | None, lru: str, broken: bool, save: Path) -> bool:
    """Run everything, print it, write it; True if the criterion holds."""
    setup = BROKEN if broken else SETUP
    seeds = seeds or setup.seeds
    kernel = build.kernel(setup.kernel)
    began = time.time()
    rows: list[Row] = []
    for seed in range(1, seeds + 1):
        row: Row = {}
        first = (seed - 1) % len(setup.contenders)
        for contender in setup.contenders[first:] + setup.contenders[:first]:
            number = (seed - 1) * len(setup.contenders) + len(row) + 1
            title = f"[{number}/{seeds * len(setup.contenders)}] seed {seed}: {contender.name}"
            row[contender.name] = _one(setup, contender, kernel, lru, seed, title)
        rows.append({contender.name: row[contender.name] for contender in setup.contenders})
    slow_pages = setup.slow_mb * PAGES_PER_MB
    facts: dict[str, Any] = {
        "schema": 1,
        "command": scenario.command_line(sys.argv),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "host": scenario.host_info(),
        "kernel": kernel.describe(),
        "setup": dataclasses.asdict(setup),
        "lru": lru,
        "broken": broken,
        "rows": rows,
        "result": judge_broken(rows, slow_pages) if broken else judge(rows, slow_pages),
    }
    report.print_rows(table(rows), sys.stdout)
    print("\n".join(["", *verdict(facts)]))
    name = "refault" + ("-classic" if lru == "classic" else "") + ("-broken" if broken else "")
    directories = [cache.sub("runs") / "refault", *([save] if seeds >= setup.seeds else [])]
    for directory in directories:
        write(name, facts, directory)
    return bool(facts["result"]["passed"])


# --- showing ------------------------------------------------------------------

COLUMNS = {
    "refaults": "refaults",
    "swapins": "swap-ins",
    "workingset": "workingset_refault",
    "scanned": "scanned",
    "reclaimed": "reclaimed",
    "demoted": "demoted",
    "young": "found accessed",
}


def table(rows: list[Row]) -> list[list[str]]:
    """Each run of each seed, and the sums."""
    lines = [["run", *COLUMNS.values()]]
    sums = {name: {key: sum(row[name][key] for row in rows) for key in COLUMNS} for name in rows[0]}
    for label, row in [*((f"seed {n}", row) for n, row in enumerate(rows, 1)), ("sum", sums)]:
        for name, run in row.items():
            lines.append([f"{label}: {name}", *(f"{run[key]:,}" for key in COLUMNS)])
    return lines


def verdict(facts: dict[str, Any]) -> list[str]:
    """What the comparison says, line by line, and PASS or FAIL."""
    result = facts["result"]
    lines = []
    for key, found in result["differences"].items():
        each = ", ".join(f"{d:+.1%}" for d in found["each"])
        line = (
            f"{COMPARED[key]}: {'broken against on' if facts['broken'] else 'on against off'} "
            f"{found['total']:+.2%} in sum; by seed {each}; mean {found['mean']:+.2%}"
        )
        if found["error"] is not None:
            line += f" with a standard error of {found['error']:.2%}"
        if not facts["broken"]:
            again = ", ".join(f"{d:+.1%}" for d in found["noise_each"])
            line += f". Two runs without kmmscand: {again}; noise (root mean square) "
            line += f"{found['noise']:.2%}"
        if not facts["broken"] and key in JUDGED:
            line += ", so judged by the "
            line += "mean and its error" if found["by_mean"] else "sum"
            line += ": " + ("within" if found["passed"] else "NOT within") + f" {LIMIT:.0%}"
        lines.append(line + ".")
    lines += [f"Void: {reason}." for reason in result["void"]]
    return [*lines, "PASS" if result["passed"] else "FAIL"]


def markdown(name: str, facts: dict[str, Any]) -> str:
    """The page for docs/results."""
    setup, kernel = facts["setup"], facts["kernel"]
    asked = (
        "kmmscand takes Accessed bits and tells nobody (fault_young). PASS: that is noticed, "
        f"refaults or swap-ins are more than {LIMIT:.0%} above those with an intact kmmscand."
        if facts["broken"]
        else f"PASS: refaults and swap-ins with kmmscand on are within {LIMIT:.0%} of those with "
        "it off."
    )
    return "\n".join(
        [
            "<!-- SPDX-License-Identifier: GPL-2.0 -->",
            f"# {name}",
            "",
            "What reclaim evicts too early, with kmmscand looking as often as it may and "
            "promoting nothing.",
            asked,
            "",
            f"Measured {facts['date']} with `{facts['command']}` in {facts['seconds']:.0f} s.",
            "",
            *report.markdown_rows(table(facts["rows"])),
            "",
            *(f"- {line}" for line in verdict(facts)[:-1]),
            "",
            f"**{verdict(facts)[-1]}**",
            "",
            f"- Machine: fast {setup['fast_mb']} MiB with CPUs, slow {setup['slow_mb']} MiB; "
            f"emulated (TCG, {facts['host']['qemu']}), {facts['host']['cpus']} host CPUs. "
            f"LRU: {facts['lru']}. Demotion on.",
            f"- Job: {setup['ops']:,} page reads, Zipf, over {setup['anon_mb']} MiB of anonymous "
            f"memory and {setup['file_mb']} MiB of a mapped block device; swap is zram.",
            f"- Kernel {kernel['release']} ({kernel['flavour']} {kernel['key']}) from "
            f"{kernel['base_version']}.",
            *(
                f"- {c['name']}: " + ", ".join(f"{k} = {v}" for k, v in c["settings"].items())
                for c in setup["contenders"]
                if c["settings"]
            ),
            "- Refaults are the job's major faults but for those that read a file page for the "
            "first time. workingset_refault is the kernel's own count, and is not judged: with "
            "MGLRU it leaves out what comes back on another node than it was evicted from.",
            "",
            *([f"![each run by seed]({name}.svg)", ""] if svg(facts["rows"]) else []),
        ]
    )


def svg(rows: list[Row]) -> str:
    """What is judged, each run of each seed against what it is compared with; empty for one seed.

    Lines of the grid are LIMIT apart, or a multiple of it.
    """
    if len(rows) < 2:
        return ""
    base = [name for name in rows[0] if name.startswith("off")] or ["on"]
    plots = []
    for key in JUDGED:
        lines = []
        for name in rows[0]:
            found = difference(rows, key, name, tuple(base))
            lines.append((name, [(float(n), d) for n, d in enumerate(found.each, 1)]))
        worst = max(abs(d) for _, line in lines for _, d in line)
        step = LIMIT * max(1, math.ceil(worst / LIMIT / 4))
        steps = max(2, math.ceil(worst / step))
        plots.append(
            report.chart(
                f"{COMPARED[key]}, against {'the mean of ' if len(base) > 1 else ''}"
                f"{' and '.join(base)} of the same seed, by seed",
                lines,
                [(float(n), f"{n}") for n in range(1, len(rows) + 1)],
                [
                    (n * step, f"{100 * n * step:+g} %" if n else "0 %")
                    for n in range(-steps, steps + 1)
                ],
                first=1.0,
                last=float(len(rows)),
                top_y=steps * step,
                low_y=-steps * step,
            )
        )
    return report.stack(plots)


def write(name: str, facts: dict[str, Any], directory: Path) -> None:
    """NAME.json, NAME.md and, where there are several seeds, NAME.svg."""
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(facts, indent=1) + "\n"
    (directory / f"{name}.json").write_text(text, encoding="utf-8")
    (directory / f"{name}.md").write_text(markdown(name, facts), encoding="utf-8")
    plot, path = svg(facts["rows"]), directory / f"{name}.svg"
    path.unlink(missing_ok=True)
    if plot:
        path.write_text(plot, encoding="utf-8")
