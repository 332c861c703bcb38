# SPDX-License-Identifier: GPL-2.0
"""Does each test of MIGRC find what it is for?

Every step that keeps MIGRC safe has a switch in /sys/kernel/debug/migrc/ that leaves it out.
CATCHES says which selftest must fail then, and by what it must say that it does.  What depends
on chance is tried with several seeds, of which ENOUGH must notice.  UNBROKEN says of the tests
that no switch makes fail why that is so.

The same test without the switch, as long, must pass; and a counter must show that it has come
to the place where the switch leaves something out (COUNTERS).
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
# Half of each node, or the kernel's own pages keep each block of the slow node online
MOVABLE = {"isolate_test": "movablecore=512M"}
# MiB of the fast and the slow node.  A gigantic page takes a GiB of the slow node, aligned, but
# not the first memory that it has, nor the last: that is where the kernel puts its own.
NODES_MB = {"contig_test": (896, 1792)}

STALE = r"stale read"
ACCESS = r"stale access"
LOST = r"lost write"
FOREIGN = r"foreign page|is used again before it was flushed"
STUCK = r"only after a drain|was not handled"


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
    flavour: str = "torture"  # kernel

    @property
    def label(self) -> str:
        return f"{self.switch}-{self.test}"

    @property
    def switches(self) -> list[str]:
        return self.switch.split("+")

    @property
    def counter(self) -> str:
        return COUNTERS[self.switches[0]]


# Rows of /proc/vmstat that rise where a switch would leave something out.  What a caller may
# not defer is in no row of MIGRC's: for that switch it is what was migrated.
COUNTERS = {
    "wp": "migrc_force_wp",
    "swap": "migrc_force_swap",
    "gup": "migrc_force_gup",
    "unmap": "migrc_force_unmap",
    "numa": "migrc_force_numa",
    "early": "migrc_force_wp",
    "late": "migrc_force_wp",
    "write": "migrc_skip_write",
    "file": "migrc_skip_file",
    "pending": "migrc_skip_pending",
    "touch": "migrc_skip_pending",
    "others": "migrc_skip_pending",
    "fork": "migrc_skip_pending",
    "mixed": "migrc_skip_pending",  # of one process; that of the other is deferred
    "along": "migrc_skip_write",  # of one process, while that of the other waits
    "release": "migrc_drain_debug",
    "unmasked": "migrc_flush",
    "isolate": "migrc_drain_isolate",
    "failure": "migrc_drain_failure",
    "contig": "migrc_drain_contig",
    "freeze": "migrc_drain_freeze",
    "off": "migrc_drain_off",
    "cap": "migrc_drain_cap",
    "age": "migrc_drain_age",
    "pressure": "migrc_drain_pressure",
    "alloc": "migrc_drain_alloc",
    "oom": "migrc_drain_oom",
    "spill": "migrc_drain_oom",
    "at_once": "migrc_promote_later",
    "postpone": "migrc_promote_postponed",
    "forget": "migrc_readonly_written",
    "reason": "pgmigrate_success",
    "direct": "migrc_skip_limit",
    "large": "migrc_skip_large",
    "collision": "migrc_skip_collision",
}


CATCHES = (
    Catch("wp", "reuse_test", "reuse.fork.write", STALE),
    Catch("wp", "reuse_test", "reuse.soft_dirty.write", STALE),
    Catch("wp", "reuse_test", "reuse.uffd.write", STALE),
    Catch("wp", "reuse_test", "reuse.restore.write", STALE),
    Catch("wp", "reuse_test", "reuse.fork.both", STALE),
    Catch("wp", "reuse_test", "reuse.soft_dirty.both", STALE),
    Catch("wp", "reuse_test", "reuse.uffd.both", STALE),
    Catch("wp", "reuse_test", "reuse.restore.both", STALE),
    Catch("wp", "reuse_test", "reuse.fork.drain", STALE),
    Catch("wp", "reuse_test", "reuse.soft_dirty.drain", STALE),
    Catch("wp", "reuse_test", "reuse.uffd.drain", STALE),
    Catch("wp", "reuse_test", "reuse.restore.drain", STALE),
    Catch("wp", "reuse_test", "shared.copied", STALE),
    Catch("wp", "gup_test", "direct.read", STALE),
    Catch("wp", "gup_test", "direct.write", STALE),
    Catch("wp", "chain_test", "chain.write", STALE),
    Catch("wp", "merge_test", "merge.split", STALE),
    Catch("wp", "demote_test", "demote.write", STALE, LONG),
    Catch("wp", "storm_test", "storm.all", rf"{STALE}|{LOST}", LONG),
    Catch("swap", "swap_test", "swap.install", STALE),
    Catch("gup", "gup_test", "gup.mem", STALE),
    Catch("gup", "gup_test", "gup.ptrace", STALE),
    Catch("file", "gup_test", "file.write", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.dontneed", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.fixed", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.munmap", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.mremap", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.mremap_fixed", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.uffd_copy", STALE),
    # The first write faults, and is flushed for, if what comes before is not.
    Catch("unmap+wp", "unmap_test", "unmap.in_flight.protect", STALE),
    Catch("unmap+wp", "unmap_test", "unmap.in_flight.uffd_end", STALE),
    Catch("unmap+wp", "unmap_test", "unmap.in_flight.free", STALE),
    Catch("unmap", "race_test", "refuse.in_flight.mprotect", ACCESS),
    Catch("unmap", "race_test", "refuse.in_flight.munmap", ACCESS),
    Catch("unmap", "race_test", "refuse.in_flight.mremap", ACCESS),
    Catch("write", "write_test", "writable.plain.write", LOST),
    Catch("write", "write_test", "writable.restore.write", LOST),
    # What was deferred is flushed before the next page table is changed, if that is not left out.
    Catch("pending+unmap", "write_test", "downgrade.uffd.race", LOST),
    Catch("pending+unmap", "write_test", "downgrade.mprotect.race", LOST),
    Catch("pending", "write_test", "downgrade.soft_dirty.race", LOST),
    Catch("numa", "scan_test", "hint.write", STALE),
    Catch("touch", "scan_test", "touched.move", LOST),
    Catch("touch", "race_test", "hint.write", LOST, LONG),
    Catch("others", "scan_test", "others.move", LOST),
    Catch("fork", "write_test", "downgrade.fork.race", LOST),
    Catch("mixed", "life_test", "life.mixed", FOREIGN, LONG),
    Catch("along", "life_test", "life.along", rf"{STALE}|{FOREIGN}", LONG),
    Catch("release", "life_test", "life.keep", FOREIGN, LONG),
    Catch("early", "reuse_test", "reuse.fork.two", STALE),
    Catch("early", "reuse_test", "reuse.soft_dirty.two", STALE),
    Catch("early", "reuse_test", "reuse.uffd.two", STALE),
    Catch("early", "reuse_test", "reuse.restore.two", STALE),
    Catch("late", "reuse_test", "reuse.uffd.write", STALE),
    Catch("late", "reuse_test", "reuse.uffd.both", STALE),
    Catch("unmasked", "life_test", "life.drain", FOREIGN),
    Catch("isolate", "isolate_test", "kept.offline", STUCK, LONG),
    Catch("isolate", "interface_test", "switched.again", r'"migrc_drain_isolate"', 5),
    Catch("failure", "isolate_test", "kept.memory_failure", STUCK),
    # Without its own drain it finds a page that is nobody's, and drains the LRU caches.
    Catch("failure+isolate", "isolate_test", "kept.soft_offline", STUCK),
    Catch("contig", "contig_test", "contig.alloc", STUCK, 5),
    # Tasks can be frozen for a test on that kernel only.
    Catch(
        "freeze", "isolate_test", "kept.freeze", r"migrc_drain_freeze has risen by 0 ", 5, "debug"
    ),
    Catch("reason", "isolate_test", "reason.syscall", r"pages were deferred"),
    Catch("reason", "isolate_test", "reason.compaction", r"pages were deferred"),
    Catch("reason", "isolate_test", "reason.offline", rf"{STUCK}|pages were deferred", LONG),
    Catch("direct", "refuse_test", "direct.demote", r"direct reclaim has deferred"),
    Catch("large", "refuse_test", "large.write", r"large folios were deferred"),
    Catch("collision", "refuse_test", "collision.write", STALE),
    Catch("off", "reuse_test", "switching.off", STALE),
    Catch("off", "reuse_test", "switching.toggle", STALE, LONG),
    Catch("off", "interface_test", "switched.off", r'"migrc_pending"', 5),
    Catch("cap", "limit_test", "limit.cap", r"too many: ", 5),
    Catch("age", "limit_test", "limit.age", r"too long: "),
    Catch("at_once", "scan_test", "scan.window", r"migrc_promote_later has risen by 0 ", 5),
    Catch("postpone", "scan_test", "scan.postponed", r"migrc_promote_postponed has risen by 0 ", 5),
    Catch("forget", "restore_test", "restore.written", r"written pages were left read-only"),
    # Then they are kept, or an allocation comes first.
    Catch(
        "pressure",
        "limit_test",
        "pressure.kswapd.drain",
        r"pressure 0, alloc \d+, oom 0, others 0",
        5,
    ),
    Catch("alloc", "limit_test", "pressure.alloc.drain", r"alloc 0, oom [1-9]", 5),
    Catch("oom", "limit_test", "pressure.oom.drain", r"was killed for it", 5),
    Catch("spill", "limit_test", "pressure.oom.drain", r"was killed for it", 5),
)

_AT_REST = "the base kernel flushes the present PTE that it removes or changes"
_FILES = "about values that files take and show"
_SPARED = "about flushes that are spared; one too many is no error"

# Tests that no switch makes fail, and why, by program
UNBROKEN: dict[str, dict[str, str]] = {
    "interface_test": {
        "interface.bad_values": _FILES,
        "interface.good_values": _FILES,
        "interface.modes": _FILES,
        "interface.rows": _FILES,
        "switched.drain": "about what a drain counts",
        "switched.trace": "about what the tracepoints say",
    },
    "isolate_test": {
        "reason.soft_offline": "what soft offlining migrates is released elsewhere: a source that "
        "was kept as well would be freed twice, whatever TLBs have",
    },
    "life_test": {
        "life.own": _SPARED,
        "life.exit": "nobody can use the address space of a process that is gone",
        "life.cpu_offline": "a CPU that comes back begins with an empty TLB",
    },
    "merge_test": {
        "merge.ksm_moves": "a page of KSM is written after it was copied, and the base kernel's "
        "ptep_clear_flush()",
        "merge.ksm_merges": "the base kernel's ptep_clear_flush() comes before KSM merges, and "
        "before the write",
        "merge.collapse": "the base kernel's pmdp_collapse_flush() comes before small pages are "
        "copied into a huge one",
    },
    "race_test": {
        "refuse.at_rest.mprotect": _AT_REST,
        "refuse.at_rest.munmap": _AT_REST,
        "refuse.at_rest.mremap": _AT_REST,
        "refuse.at_rest.poison": _AT_REST,
        "refuse.in_flight.poison": "always skipped: there is no page to be poisoned",
    },
    "restore_test": {"restore.clean": _SPARED},
    "scan_test": {"spared.move": _SPARED},
    "swap_test": {
        "swap.refault": "the base kernel's reclaim flushes what it unmaps before it is done",
        "swap.swapoff": "the base kernel's reclaim flushes what it unmaps before it is done",
    },
    "write_test": {
        f"writable.{variant}.fork_storm": "forks and moves wait for nobody, and hardly ever is a "
        "page unmapped between fork's write protection and its flush, where the step counts; "
        "downgrade.fork.race waits for that"
        for variant in ("plain", "restore")
    },
    "unmap_test": {
        "unmap.in_flight.mremap_table": "the base kernel flushes the range of the table",
        "unmap.in_flight.uffd_zero": "the zero page is written after the base kernel's "
        "ptep_clear_flush()",
        "unmap.in_flight.uffd_move": "the base kernel waits for the end of the migration, and "
        "moves the page after ptep_clear_flush()",
        "unmap.at_rest.mremap_table": "the base kernel flushes the range of the table",
    }
    | {
        f"unmap.at_rest.{event}": _AT_REST
        for event in (
            "dontneed",
            "fixed",
            "munmap",
            "mremap",
            "mremap_fixed",
            "protect",
            "uffd_end",
            "free",
            "uffd_copy",
            "uffd_zero",
            "uffd_move",
        )
    },
}


def machine(program: str) -> Topology:
    """Four CPUs: the test, its helper, and two for readers and writers."""
    fast_mb, slow_mb = NODES_MB.get(program, (512, 512))
    return topology.load("two-tier", fast_cpus=4, fast_mb=fast_mb, slow_mb=slow_mb)


def append(program: str) -> str:
    """What the kernel's command line has for a test program."""
    return f"{APPEND} {MOVABLE.get(program, '')}".strip()


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


def _script(catch: Catch, directory: Path, out_dir: Path, seeds: int, clean: bool) -> str:
    """Broken with each seed, and before that clean, if nobody has done that yet."""
    lines = [f"cd {shlex.quote(str(directory))}", f"export MIGRC_SECONDS={catch.seconds}"]
    runs = [(f"seed-{n}", catch.switch, n, TIMEOUT_S) for n in range(1, seeds + 1)]
    for name, switch, seed, timeout_s in [("clean", None, 1, 2 * TIMEOUT_S)] * clean + runs:
        log = shlex.quote(str(out_dir / name))
        lines += [
            only(switch),
            f"export MIGRC_SEED={seed}",
            f"cat /proc/vmstat > {log}.before",
            "begin=$(date +%s%N)",
            f"timeout -k 5 {timeout_s} ./{catch.program} -r {catch.test} "
            f"> {log}.log 2>&1 < /dev/null",
            f"echo $? $(($(date +%s%N) - begin)) > {log}.code",
            f"cat /proc/vmstat > {log}.after",
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
    """By how much have the rows of /proc/vmstat risen?"""
    one, other = (
        {name: int(n) for name, n in (line.split() for line in text.splitlines())}
        for text in (before, after)
    )
    return {name: n - one.get(name, 0) for name, n in other.items() if name in COUNTERS.values()}


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


def _one(
    kernel: KernelImage, catch: Catch, seeds: int, clean: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The row of a catch, and the clean run of its test, if that was not given."""
    out_dir = cache.sub("runs") / f"migrc-{catch.label}"
    shutil.rmtree(out_dir, ignore_errors=True)
    out_dir.mkdir(parents=True)
    directory = selftests.programs(kernel, "migrc")
    problem = ""
    try:
        guest.run(
            kernel.image,
            machine(catch.program),
            _script(catch, directory, out_dir, seeds, clean is None),
            out_dir=out_dir,
            timeout_s=120 + (seeds + 2) * (TIMEOUT_S + 10),
            append=append(catch.program),
        )
    except LabError as error:
        problem = error.what.splitlines()[0]
    clean = clean or _clean(out_dir)
    results = [_result(out_dir, f"seed-{n}") for n in range(1, seeds + 1)]
    times = [one[2] / 1e9 for one in results if one and caught(catch, one[0], one[1])]
    row = {
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
    return row, clean


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
    flavours = {(one.switch, f"{one.program} {one.test}"): one.flavour for one in CATCHES}
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
        flavour = flavours.get((row["switch"], row["test"]), "torture")
        found.append(
            ledger.Run(
                f"{row['switch']}, {row['test'].split()[1]}",
                figures,
                facts["kernels"][flavour],
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
    kernels = {name: build.kernel(name) for name in ("torture", "debug")}
    began = time.time()
    rows = []
    done = kept.Kept(NAME, resume=args.resume)
    cleans: dict[tuple[str, str, int], dict[str, Any]] = {}
    for catch in CATCHES:
        if args.switch and not set(args.switch) & set(catch.switches):
            continue
        # Those with the same test share its clean run.
        key = (catch.program, catch.test, catch.seconds)
        kernel = kernels[catch.flavour]
        # What the test was built to, so that others may change.
        test = cache.key([(selftests.programs(kernel, "migrc") / catch.program).read_bytes()])
        one = partial(_one, kernel, catch, args.seeds, cleans.get(key))
        # A guest that was lost is booted again next time.
        row, cleans[key] = done.get(
            [kernel.key, test, repr(catch), str(args.seeds)],
            one,
            worth=lambda found: not found[0]["problem"],
        )
        rows.append(row)
        print(f"[{NAME}] {_words(rows[-1])}", flush=True)
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernels={name: kernel.describe() for name, kernel in kernels.items()},
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
            "Callers who may not defer have no counter: for 'reason' it is the pages that they "
            "have migrated.",
            "All but 'freeze' run on the kernel torture; 'freeze' needs the debug kernel.",
            *unbroken_notes(),
        ),
        flavour="torture",
    ),
)
