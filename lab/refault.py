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

The study ``refault-broken`` is the test of the test: on the debug kernel kmmscand takes bits and
tells nobody, and the result must get worse than with an intact kmmscand.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab import build, cache, guest, programs, scenario, tier
from lab.results import finish, ledger, study
from lab.results.study import Column, Study
from lab.scenario import Contender, Kernel, Machine, Measure, Process, Scenario

LIMIT = 0.02  # what the criterion allows
LEAST = 5000  # refaults of each kind in a run, or reclaim had too little to do
PAGES_PER_MB = 256
COMPARED = ("refaults", "swapins", "workingset")
JUDGED = ("refaults", "swapins")

LRUS = {"mglru": "7", "classic": "0"}
OFTEN = {
    tier.file("scan", "period_ms"): "100",
    tier.file("scan", "cpu_permille"): "250",  # half of one of two CPUs
    tier.enabled("promote"): "0",
}
STEAL = {tier.fault("scan_young"): "Y"}

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
        "young": delta["tier_scan_young"],
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


def name_of(lru: str, *, broken: bool) -> str:
    """The study's name."""
    return NAME + ("-classic" if lru == "classic" else "") + ("-broken" if broken else "")


def measure(lru: str, broken: bool, args: argparse.Namespace) -> bool:
    """Run everything; True if the criterion holds."""
    setup = BROKEN if broken else SETUP
    seeds = args.seeds or setup.seeds
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
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernel=kernel.describe(),
        setup=dataclasses.asdict(setup),
        lru=lru,
        broken=broken,
        rows=rows,
        result=judge_broken(rows, slow_pages) if broken else judge(rows, slow_pages),
    )
    mine = next(one for one in studies() if one.name == name_of(lru, broken=broken))
    finish.finish(mine, facts, runs(facts), whole=seeds >= setup.seeds)
    return bool(facts["result"]["passed"])


# --- what is recorded --------------------------------------------------------------

NAME = "refault"
COLUMNS = {
    "refaults": "refaults",
    "swapins": "swap-ins",
    "workingset": "workingset_refault",
    "scanned": "scanned",
    "reclaimed": "reclaimed",
    "demoted": "demoted",
    "young": "found accessed",
}


def _goals(facts: dict[str, Any]) -> list[ledger.Goal]:
    goals = []
    for key, found in facts["result"]["differences"].items():
        if facts["broken"]:
            verdict = ledger.MET if found["total"] > LIMIT else ledger.MISSED
            text = "more than with an intact kmmscand, as a share; must be above the limit of one"
            if key not in JUDGED:
                continue
        else:
            if key not in JUDGED:
                continue
            verdict = ledger.MET if found["passed"] else ledger.MISSED
            noise = f"equal runs differ by {found['noise']:.2%}"
            text = f"more than with kmmscand off, as a share; either way; {noise}"
        goals.append(
            ledger.Goal(
                name=COLUMNS[key],
                verdict=verdict,
                value=ledger.rounded(found["total"]),
                limit=LIMIT,
                text=text,
            )
        )
    return goals


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each seed and contender."""
    return [
        ledger.Run(
            cell=name,
            turn=seed,
            figures={key: run[key] for key in COLUMNS},
            kernel=facts["kernel"],
            goals=_goals(facts) if seed == 1 and number == 0 else (),
            checks=facts["result"]["void"] if seed == 1 and number == 0 else (),
        )
        for seed, row in enumerate(facts["rows"], 1)
        for number, (name, run) in enumerate(row.items())
    ]


def arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seeds", type=int, help="fewer than usual: nothing is recorded")


def studies() -> Iterator[Study]:
    """With MGLRU, without, and with a kmmscand that steals Accessed bits."""
    for lru, broken, title in (
        ("mglru", False, "Refaults with kmmscand on and off"),
        ("classic", False, "Refaults with kmmscand on and off, MGLRU disabled"),
        ("mglru", True, "Refaults with a kmmscand that steals Accessed bits"),
    ):
        yield Study(
            name=name_of(lru, broken=broken),
            title=title,
            what="A process reads more memory and files than both nodes have.  kmmscand scans as "
            "often as it may and promotes nothing.  Counted is what comes back from swap and file.",
            columns=tuple(Column(key, text) for key, text in COLUMNS.items()),
            minutes=17 if not broken else 20,
            run=partial(measure, lru, broken),
            groups=study.KMMSCAND,
            arguments=arguments,
            flavour="debug" if broken else "tiershift",
        )
