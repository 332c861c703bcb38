# SPDX-License-Identifier: GPL-2.0
"""Does each test of MIGRC find what it is for?

Every step that keeps MIGRC safe has a switch in /sys/kernel/debug/migrc/ that leaves it out.
CATCHES says which selftest must fail then, and by what it must say that it does.  What depends
on chance is tried with several seeds.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import build, cache, guest, ktap, selftests, topology
from lab.build import KernelImage
from lab.errors import LabError
from lab.selftests import Program
from lab.topology import Topology

SWITCHES = "/sys/kernel/debug/migrc"
SEEDS = 10
# One run: the test goes on for so long if it finds nothing, and is killed after so long
SECONDS = 40
TIMEOUT_S = 60
# Readers and writers have the last CPUs for themselves.
APPEND = "isolcpus=2,3"

STALE = r"stale read"
ACCESS = r"stale access"
LOST = r"lost write"
FOREIGN = r"foreign page|is used again before it was flushed"
STUCK = r"only after a drain|was not handled"


@dataclass(frozen=True)
class Catch:
    """A switch, the test that must fail while it is set, and what the test must say."""

    switch: str
    program: str
    test: str
    says: str

    @property
    def label(self) -> str:
        return f"{self.switch}-{self.test}"


CATCHES = (
    Catch("wp", "reuse_test", "reuse.fork.write", STALE),
    Catch("wp", "reuse_test", "reuse.soft_dirty.write", STALE),
    Catch("wp", "reuse_test", "reuse.uffd.write", STALE),
    Catch("wp", "chain_test", "chain.write", STALE),
    Catch("swap", "swap_test", "swap.install", STALE),
    Catch("gup", "gup_test", "gup.mem", STALE),
    Catch("gup", "gup_test", "gup.ptrace", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.dontneed", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.fixed", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.munmap", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.mremap", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.mremap_fixed", STALE),
    Catch("unmap", "unmap_test", "unmap.in_flight.uffd_copy", STALE),
    Catch("unmap", "race_test", "refuse.in_flight.mprotect", ACCESS),
    Catch("unmap", "race_test", "refuse.in_flight.munmap", ACCESS),
    Catch("unmap", "race_test", "refuse.in_flight.mremap", ACCESS),
    Catch("write", "write_test", "writable.plain.write", LOST),
    Catch("pending", "write_test", "downgrade.uffd.race", LOST),
    Catch("pending", "write_test", "downgrade.mprotect.race", LOST),
    Catch("pending", "write_test", "downgrade.soft_dirty.race", LOST),
    Catch("numa", "scan_test", "hint.write", STALE),
    Catch("touch", "scan_test", "touched.move", LOST),
    Catch("others", "scan_test", "others.move", LOST),
    Catch("fork", "write_test", "downgrade.fork.race", LOST),
    Catch("mixed", "life_test", "life.mixed", FOREIGN),
    Catch("release", "life_test", "life.keep", FOREIGN),
    Catch("early", "reuse_test", "reuse.uffd.two", STALE),
    Catch("late", "reuse_test", "reuse.uffd.write", STALE),
    Catch("late", "reuse_test", "reuse.uffd.both", STALE),
    Catch("unmasked", "life_test", "life.drain", FOREIGN),
    Catch("isolate", "isolate_test", "kept.offline", STUCK),
    Catch("isolate", "isolate_test", "kept.memory_failure", STUCK),
    Catch("reason", "isolate_test", "reason.syscall", r"pages were deferred"),
    Catch("reason", "isolate_test", "reason.offline", rf"{STUCK}|pages were deferred"),
    Catch("off", "reuse_test", "switching.off", STALE),
    Catch("cap", "limit_test", "limit.cap", r"too many: "),
    Catch("age", "limit_test", "limit.age", r"too long: "),
    Catch("at_once", "scan_test", "scan.window", r"migrc_promote_later has risen by 0 "),
    Catch("forget", "restore_test", "restore.written", r"written pages were left read-only"),
    Catch("pressure", "limit_test", "limit.pressure", r"pages are kept though"),
)


def machine() -> Topology:
    """Four CPUs: the test, its helper, and two for readers and writers."""
    return topology.load("two-tier", fast_cpus=4, fast_mb=512, slow_mb=512)


def only(switch: str | None) -> str:
    """Shell: this switch is set and no other; MIGRC's own checks leave the find to the test."""
    lines = [
        f"for f in {SWITCHES}/fault_*; do echo N > $f; done",
        f"echo {'N' if switch else 'Y'} > {SWITCHES}/check",
    ]
    if switch:
        lines.append(f"echo Y > {SWITCHES}/fault_{switch}")
    return "; ".join(lines)


def program(catch: Catch, seconds: int) -> Program:
    """For selftests.run_programs()."""
    return Program(
        catch.program,
        f"-r {catch.test}",
        timeout_s=TIMEOUT_S * 2,
        before=f"{only(catch.switch)}; export MIGRC_SECONDS={seconds}",
        label=catch.label,
    )


def caught(catch: Catch, log: str, code: int) -> bool:
    """Has the test failed, and for the reason that it is for?"""
    outcomes = [(case.name, case.outcome) for case in ktap.parse(log, code)]
    return outcomes == [(catch.test, "fail")] and re.search(catch.says, log) is not None


def _script(catch: Catch, directory: Path, out_dir: Path, seeds: int) -> str:
    """Intact once, then broken with each seed."""
    lines = [f"cd {shlex.quote(str(directory))}"]
    runs = [("intact", None, 1), *((f"seed-{n}", catch.switch, n) for n in range(1, seeds + 1))]
    for name, switch, seed in runs:
        log = shlex.quote(str(out_dir / name))
        seconds = SECONDS if switch else 5
        lines += [
            only(switch),
            f"export MIGRC_SEED={seed} MIGRC_SECONDS={seconds}",
            "begin=$(date +%s%N)",
            f"timeout -k 5 {TIMEOUT_S} ./{catch.program} -r {catch.test} "
            f"> {log}.log 2>&1 < /dev/null",
            f"echo $? $(($(date +%s%N) - begin)) > {log}.code",
        ]
    lines.append(only(None))
    return "\n".join(lines)


def _one(kernel: KernelImage, catch: Catch, seeds: int) -> dict[str, Any]:
    out_dir = cache.sub("runs") / f"migrc-{catch.label}"
    shutil.rmtree(out_dir, ignore_errors=True)
    out_dir.mkdir(parents=True)
    directory = selftests.programs(kernel, "migrc")
    row: dict[str, Any] = {
        "switch": catch.switch,
        "test": f"{catch.program} {catch.test}",
        "seeds": seeds,
        "caught": 0,
        "median_s": None,
        "intact": False,
        "problem": "",
    }
    try:
        guest.run(
            kernel.image,
            machine(),
            _script(catch, directory, out_dir, seeds),
            out_dir=out_dir,
            timeout_s=120 + (seeds + 1) * (TIMEOUT_S + 10),
            append=APPEND,
        )
    except LabError as error:
        row["problem"] = error.what.splitlines()[0]
    times = []
    for name in ["intact", *(f"seed-{n}" for n in range(1, seeds + 1))]:
        if not (out_dir / f"{name}.code").exists():
            continue
        code, ns = map(int, (out_dir / f"{name}.code").read_text(encoding="ascii").split())
        log = (out_dir / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        if name == "intact":
            row["intact"] = [case.outcome for case in ktap.parse(log, code)] == ["pass"]
        elif caught(catch, log, code):
            times.append(ns / 1e9)
    row["caught"] = len(times)
    row["median_s"] = round(statistics.median(times), 2) if times else None
    return row


def run(seeds: int, save: Path | None, switches: list[str] | None = None) -> bool:
    """Every catch with so many seeds; True if each was caught at least once and intact passed."""
    kernel = build.kernel("torture")
    start = time.monotonic()
    rows = []
    for catch in CATCHES:
        if switches and catch.switch not in switches:
            continue
        rows.append(_one(kernel, catch, seeds))
        print(f"[migrc-faults] {_words(rows[-1])}", flush=True)
    facts = {
        "schema": 1,
        "command": f"python -m lab migrc-faults --seeds {seeds}",
        "kernel": kernel.describe(),
        "run_s": SECONDS,
        "seconds": round(time.monotonic() - start),
        "rows": rows,
    }
    if save:
        save.mkdir(parents=True, exist_ok=True)
        text = json.dumps(facts, indent=1) + "\n"
        (save / "migrc-faults.json").write_text(text, encoding="utf-8")
        (save / "migrc-faults.md").write_text(markdown(facts), encoding="utf-8")
    return all(row["caught"] and row["intact"] and not row["problem"] for row in rows)


def _words(row: dict[str, Any]) -> str:
    median = f", median {row['median_s']} s" if row["caught"] else ""
    intact = "" if row["intact"] else "; FAILS ALSO WHEN INTACT"
    problem = f"; {row['problem']}" if row["problem"] else ""
    return (
        f"fault_{row['switch']}: {row['test']} caught it in {row['caught']} of "
        f"{row['seeds']}{median}{intact}{problem}"
    )


def markdown(facts: dict[str, Any]) -> str:
    """The result as a page."""
    lines = [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        "# What the tests of MIGRC find",
        "",
        f"`{facts['command']}` on the kernel `torture`.  Each row is one safety step that was",
        "left out by its switch in `/sys/kernel/debug/migrc/`, and one selftest that must notice.",
        f"A run counts as caught if the test failed within {facts['run_s']} s, and said that it",
        "did so for the reason that it is for.  The time is that of the whole program, in seconds",
        "of a guest with four CPUs on whatever the host had left.  Intact: the same test without",
        "the switch, 5 s long, passed.",
        "",
        "| switch | test | caught | median s | intact passes |",
        "|---|---|---|---|---|",
    ]
    for row in facts["rows"]:
        median = "-" if row["median_s"] is None else str(row["median_s"])
        intact = "yes" if row["intact"] else "NO"
        note = f" ({row['problem']})" if row["problem"] else ""
        lines.append(
            f"| fault_{row['switch']} | `{row['test']}` | {row['caught']} of {row['seeds']} | "
            f"{median} | {intact}{note} |"
        )
    return "\n".join(lines) + "\n"
