# SPDX-License-Identifier: GPL-2.0
"""Does each test of MIGRC find what it is for?

Every step that keeps MIGRC safe has a switch in /sys/kernel/debug/migrc/ that leaves it out.
CATCHES says which selftest must fail then, and by what it must say that it does.  What depends
on chance is tried with several seeds, of which ENOUGH must notice.  UNBROKEN says of the tests
that no switch makes fail why that is so.

The same test without the switch, as long, must pass; and a counter must show that it has come
to the place where the switch leaves something out.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lab import build, cache, guest, kept, ktap, scenario, selftests, topology
from lab.build import KernelImage
from lab.errors import LabError
from lab.results import finish, ledger, study
from lab.results.study import Column, Study
from lab.selftests import Program
from lab.topology import Topology

NAME = "migrc-faults"
SWITCHES = "/sys/kernel/debug/migrc"
SEEDS = 10
ENOUGH = 0.9
# One run: the test goes on for so long if it finds nothing, and for 30 s more if it has not met
# what it is for; it is killed after a minute.
SECONDS = 12
LONG = 30  # for what takes some luck, or long rounds
TIMEOUT_S = 60
# Readers and writers have the last CPUs for themselves.
APPEND = "isolcpus=2,3"

STALE = r"stale read"
LOST = r"lost write"
FOREIGN = r"foreign page|is used again before it was flushed"
STUCK = r"was not handled"


@dataclass(frozen=True)
class Catch:
    """A switch, the test that must fail while it is set, and what the test must say.

    ``one+other``: both are set, as each of two steps would do.
    """

    switch: str
    program: str
    test: str
    says: str
    seconds: int = SECONDS  # fewer for a test that goes on when it has found something

    @property
    def label(self) -> str:
        return f"{self.switch}-{self.test}"

    @property
    def switches(self) -> list[str]:
        return self.switch.split("+")

    @property
    def counter(self) -> str:
        return COUNTERS.get(self.switches[0], f"met_{self.switches[0]}")


# Each rule counts in met_RULE how often it has applied: there its switch would leave something out.
# met_fork rises at each fork.  met_pending rises only where a migration meets the fork.
COUNTERS = {"fork": "met_pending"}


CATCHES = (
    *(
        Catch("wp", "reuse_test", f"reuse.{how}.{test}", STALE)
        for how in ("fork", "soft_dirty", "uffd", "chain", "large")
        for test in ("write", "both")
    ),
    Catch("early", "reuse_test", "shared.two", STALE),
    Catch("off", "reuse_test", "switching.off", STALE),
    Catch("wp", "reuse_test", "demotion.write", STALE, LONG),
    Catch("swap", "swap_test", "swap.install", STALE),
    Catch("gup", "reuse_test", "gup.mem.write", STALE),
    Catch("file", "reuse_test", "gup.file.write", STALE),
    *(
        Catch("unmap", "unmap_test", f"unmap.{event}.in_flight", STALE)
        for event in (
            "dontneed",
            "fixed",
            "munmap",
            "mremap",
            "race_munmap",
            "race_mprotect",
            "race_mremap",
        )
    ),
    # The first write faults, and is flushed for, if what comes before is not.
    Catch("unmap+wp", "unmap_test", "unmap.protect.in_flight", STALE),
    Catch("unmap+wp", "unmap_test", "unmap.free.in_flight", STALE),
    Catch("write", "write_test", "writable.mixed", LOST),
    Catch("write", "write_test", "writable.write", LOST),
    # What was deferred is flushed before the next page table is changed, if that is not left out.
    Catch("pending+unmap", "write_test", "downgrade.uffd.race", LOST),
    Catch("pending+unmap", "write_test", "downgrade.mprotect.race", LOST),
    Catch("pending", "write_test", "downgrade.soft_dirty.race", LOST),
    Catch("fork", "write_test", "downgrade.fork.race", LOST),
    Catch("release", "life_test", "life.keep", FOREIGN, LONG),
    Catch("unmasked", "life_test", "life.drain", FOREIGN),
    Catch("merge", "life_test", "life.merge", FOREIGN),
    Catch("isolate", "life_test", "kept.again", r"kept while the LRU caches are disabled", 5),
    Catch("failure", "life_test", "kept.memory_failure", STUCK),
    Catch("cap", "limit_test", "limit.cap", r"too many: ", 5),
    Catch("age", "limit_test", "limit.age", r"too long: "),
    Catch("oom", "limit_test", "limit.oom", r"killed for lack of memory", 5),
    Catch("reason", "refuse_test", "refuse.reason", r"a system call has deferred", 5),
    Catch("marks", "refuse_test", "refuse.marks", STALE),
    Catch("backoff", "refuse_test", "refuse.backoff", r"is deferred though it writes"),
)

# Tests that no switch makes fail, and why, by program
UNBROKEN: dict[str, dict[str, str]] = {
    "refuse_test": {"enabled.values": "about values that a file takes and shows"},
}


def machine() -> Topology:
    """Four CPUs: the test, its helper, and two for readers and writers."""
    return topology.load("two-tier", fast_cpus=4, fast_mb=512, slow_mb=512)


def counters(path: str) -> str:
    """Shell: write the counts of the rules to a file."""
    return f"for f in {SWITCHES}/met_*; do echo ${{f##*/}} $(cat $f); done > {path}"


def only(switch: str | None) -> str:
    """Shell: this switch is set and no other; MIGRC's own checks leave the find to the test."""
    lines = [
        f"for f in {SWITCHES}/fault_*; do echo N > $f; done",
        f"echo {'N' if switch else 'Y'} > {SWITCHES}/check",
    ]
    for one in switch.split("+") if switch else []:
        lines.append(f"echo Y > {SWITCHES}/fault_{one}")
    return "; ".join(lines)


def program(catch: Catch) -> Program:
    """For selftests.run_programs()."""
    return Program(
        catch.program,
        f"-r {catch.test}",
        timeout_s=TIMEOUT_S * 2,
        before=f"{only(catch.switch)}; export MIGRC_SECONDS={catch.seconds}",
        label=catch.label,
    )


def caught(catch: Catch, log: str, code: int) -> bool:
    """Has the test failed, and for the reason that it is for?"""
    outcomes = [(case.name, case.outcome) for case in ktap.parse(log, code)]
    return outcomes == [(catch.test, "fail")] and re.search(catch.says, log) is not None


def _script(catch: Catch, directory: Path, out_dir: Path, seeds: int) -> str:
    """Clean, and then broken with each seed."""
    lines = [f"cd {shlex.quote(str(directory))}", f"export MIGRC_SECONDS={catch.seconds}"]
    runs: list[tuple[str, str | None, int, int]] = [("clean", None, 1, 2 * TIMEOUT_S)]
    runs += [(f"seed-{n}", catch.switch, n, TIMEOUT_S) for n in range(1, seeds + 1)]
    for name, switch, seed, timeout_s in runs:
        log = shlex.quote(str(out_dir / name))
        lines += [
            only(switch),
            f"export MIGRC_SEED={seed}",
            counters(f"{log}.before"),
            "begin=$(date +%s%N)",
            f"timeout -k 5 {timeout_s} ./{catch.program} -r {catch.test} "
            f"> {log}.log 2>&1 < /dev/null",
            f"echo $? $(($(date +%s%N) - begin)) > {log}.code",
            counters(f"{log}.after"),
        ]
    lines.append(only(None))
    return "\n".join(lines)


def _result(out_dir: Path, name: str) -> tuple[str, int, int] | None:
    """What a run has said, its exit code and nanoseconds; None if it was not done."""
    if not (out_dir / f"{name}.code").exists():
        return None
    code, ns = map(int, (out_dir / f"{name}.code").read_text(encoding="ascii").split())
    return (out_dir / f"{name}.log").read_text(encoding="utf-8", errors="replace"), code, ns


def grown(before: str, after: str) -> dict[str, int]:
    """By how much have the counts of the rules risen?"""
    one, other = (
        {name: int(n) for name, n in (line.split() for line in text.splitlines())}
        for text in (before, after)
    )
    return {name: n - one.get(name, 0) for name, n in other.items()}


def _clean(out_dir: Path) -> dict[str, Any]:
    """Has the clean run passed, and what did it meet?"""
    result = _result(out_dir, "clean")
    if not result or not (out_dir / "clean.after").exists():
        return {"passed": False, "grown": {}}
    log, code, _ = result
    texts = [(out_dir / f"clean.{when}").read_text("ascii") for when in ("before", "after")]
    return {
        "passed": [case.outcome for case in ktap.parse(log, code)] == ["pass"],
        "grown": grown(*texts),
    }


def _one(kernel: KernelImage, catch: Catch, seeds: int) -> dict[str, Any]:
    """The row of a catch."""
    out_dir = cache.sub("runs") / f"migrc-{catch.label}"
    shutil.rmtree(out_dir, ignore_errors=True)
    out_dir.mkdir(parents=True)
    directory = selftests.programs(kernel, "migrc")
    problem = ""
    try:
        guest.run(
            kernel.image,
            machine(),
            _script(catch, directory, out_dir, seeds),
            out_dir=out_dir,
            timeout_s=120 + (seeds + 2) * (TIMEOUT_S + 10),
            append=APPEND,
        )
    except LabError as error:
        problem = error.what.splitlines()[0]
    clean = _clean(out_dir)
    results = [_result(out_dir, f"seed-{n}") for n in range(1, seeds + 1)]
    times = [one[2] / 1e9 for one in results if one and caught(catch, one[0], one[1])]
    return {
        "switch": catch.switch,
        "test": f"{catch.program} {catch.test}",
        "seconds": catch.seconds,
        "seeds": seeds,
        "caught": len(times),
        "median_s": round(statistics.median(times), 2) if times else None,
        "clean": clean["passed"],
        "counter": catch.counter,
        "met": clean["grown"].get(catch.counter, 0),
        "problem": problem,
    }


def _faults(row: dict[str, Any]) -> str:
    return ", ".join(f"fault_{switch}" for switch in row["switch"].split("+"))


def _words(row: dict[str, Any]) -> str:
    median = f", median {row['median_s']} s" if row["caught"] else ""
    clean = "" if row["clean"] else "; FAILS ALSO WHEN CLEAN"
    problem = f"; {row['problem']}" if row["problem"] else ""
    return (
        f"{_faults(row)}: {row['test']} caught it in {row['caught']} of "
        f"{row['seeds']}{median}{clean}; clean {row['counter']} {row['met']}{problem}: "
        f"{'ok' if passed(row) else 'NOT ENOUGH'}"
    )


# --- runs ----------------------------------------------------------------------


def failures(row: dict[str, Any]) -> list[str]:
    """Why it says nothing that a test has caught its switch."""
    found = [] if row["clean"] else ["the test does not pass without the switch either"]
    if not row["met"]:
        found.append(f"the test has not come to where the switch counts: {row['counter']} is 0")
    return found + ([row["problem"]] if row["problem"] else [])


def passed(row: dict[str, Any]) -> bool:
    """Caught by enough of the seeds; the clean run met the same place, and passed."""
    return caught_enough(row) and not failures(row)


def caught_enough(row: dict[str, Any]) -> bool:
    return bool(row["caught"] > 0 and row["caught"] >= ENOUGH * row["seeds"])


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A line for each switch and the test that must catch it."""
    found = []
    for row in facts["rows"]:
        goal = ledger.Goal(
            "caught",
            finish.verdict(caught_enough(row)),
            row["caught"] / row["seeds"],
            ENOUGH,
            f"{row['test']} caught {_faults(row)} in {row['caught']} of {row['seeds']} runs; "
            f"{row['counter']} rose by {row['met']} in the clean one",
        )
        figures = {
            "caught": row["caught"],
            "seeds": row["seeds"],
            "given_s": row["seconds"],
            "median_s": row["median_s"],
            "met": row["met"],
            "clean": row["clean"],
        }
        found.append(
            ledger.Run(
                f"{row['switch']}, {row['test'].split()[1]}",
                figures,
                facts["kernel"],
                goals=[goal],
                checks=failures(row),
            )
        )
    return found


# --- all together --------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"of each catch ({SEEDS})")
    parser.add_argument("switch", nargs="*", help="default: all")
    finish.add_resume(parser)


def _run(args: argparse.Namespace) -> bool:
    """Every catch with so many seeds; True if all have passed()."""
    kernel = build.kernel("torture")
    began = time.time()
    rows = []
    done = kept.Kept(NAME, resume=args.resume)
    for catch in CATCHES:
        if args.switch and not set(args.switch) & set(catch.switches):
            continue
        # What the test was built to, so that others may change.
        test = cache.key([(selftests.programs(kernel, "migrc") / catch.program).read_bytes()])
        # A guest that was lost is booted again next time.
        row = done.get(
            [kernel.key, test, repr(catch), str(args.seeds)],
            partial(_one, kernel, catch, args.seeds),
            worth=lambda found: not found["problem"],
        )
        rows.append(row)
        print(f"[{NAME}] {_words(row)}", flush=True)
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernel=kernel.describe(),
        timeout_s=TIMEOUT_S,
        resumed=done.resumed,
        rows=rows,
    )
    whole = args.seeds >= SEEDS and not args.switch
    good = finish.finish(STUDIES[0], facts, runs(facts), whole=whole)
    return good and all(passed(row) for row in rows)


def unbroken_notes() -> tuple[str, ...]:
    """UNBROKEN by reason."""
    tests: dict[str, list[str]] = {}
    for program, known in UNBROKEN.items():
        for test, why in known.items():
            tests.setdefault(why, []).append(f"{program} {test}")
    return tuple(
        f"No switch makes these fail: {', '.join(names)}. Why: {why}."
        for why, names in tests.items()
    )


STUDIES = (
    Study(
        name=NAME,
        title="MIGRC: what its tests find when a safety step is left out",
        what="Each switch in /sys/kernel/debug/migrc/ leaves out one step that keeps MIGRC safe. "
        "The selftest that guards the step must fail, and say why, in nine of ten runs.",
        columns=(
            Column("caught", "caught"),
            Column("seeds", "of runs"),
            Column("median_s", "median s", "{:.2f}"),
            Column("given_s", "may take s"),
            Column("clean", "passes when clean"),
            Column("met", "counter in the clean run"),
        ),
        minutes=50,
        run=_run,
        groups=study.MIGRC,
        arguments=arguments,
        notes=(
            f"A run counts as caught if the test failed within {TIMEOUT_S} s for the reason that "
            "it is for.",
            "Two switches are set where either step would do.",
            "Clean is the same test without the switch, for as long. Its counter shows that the "
            "test has come to where the switch leaves something out.",
            *unbroken_notes(),
        ),
        flavour="torture",
    ),
)
