# SPDX-License-Identifier: GPL-2.0
"""What it costs to ask memory policies when a page is promoted: instructions per page.

lab/workloads/policycost.c has the pages of one process promoted through debugfs, with no policy,
with one of the VMA, of its only thread, and of eight threads; all of them allow it.  The insn
plugin counts, on the torture kernel, which has the debugfs file and is compiled as the one that is
measured elsewhere.  "ask" is what mm/tier/allow.c executes, without what it calls in other files.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from typing import Any

from lab import build, cache, guest, instruments, programs, scenario, topology
from lab.errors import LabError
from lab.results import finish, ledger, study
from lab.results.study import Column, Study

NAME = "policycost"
POLICIES = ("none", "vma", "task", "threads")
ASK = re.compile(
    r"^(__)?tier_(ask_\w+|may_unmap|judge\w*|mapping_\w+|((vma|object|thread|mm)_)?answer"
    r"|policy_allows|refuse)(\.\w+)*$"
)


def _count(policy: str) -> dict[str, Any]:
    kernel = build.kernel("torture")
    out = cache.sub("runs") / NAME / policy
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    program = programs.build_programs(cache.root() / "programs")[NAME]
    plugin = instruments.insn_plugin(
        kernel.system_map,
        out / "insn.json",
        plugins=instruments.build_plugins(cache.root() / "programs"),
    )
    result = guest.run(
        kernel.image,
        topology.load("two-tier", fast_mb=512, slow_mb=512),
        f"{program} --policy {policy}",
        out_dir=out,
        timeout_s=200,
        plugins=[plugin],
    )
    log = (out / "output.log").read_text(encoding="utf-8")
    found = re.search(r"^RESULT (.*)$", log, re.MULTILINE)
    if result.exit_code or not found:
        raise LabError(f"{NAME} --policy {policy}: exit code {result.exit_code}", log[-500:])
    facts: dict[str, Any] = json.loads(found[1])
    symbols = instruments.read_insn(out / "insn.json").total.symbols.values()
    moved = facts["moved"]
    facts["insn"] = sum(sum(one.insn) for one in symbols) / moved
    facts["ask"] = sum(sum(one.insn) for one in symbols if ASK.match(one.name)) / moved
    return facts


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A run for each policy."""
    return [
        ledger.Run(
            cell=row["policy"],
            figures={key: row[key] for key in ("pages", "moved", "insn", "ask")},
            kernel=facts["kernel"],
            checks=[f"{row['moved']} of {row['pages']} pages were promoted"]
            if row["moved"] < 0.9 * row["pages"]
            else (),
        )
        for row in facts["rows"]
    ]


def measure(_args: argparse.Namespace) -> bool:
    """Run all; True if nearly everything was promoted."""
    began = time.time()
    rows = [_count(policy) for policy in POLICIES]
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernel=build.kernel("torture").describe(),
        rows=rows,
    )
    return finish.finish(STUDY, facts, runs(facts))


STUDY = Study(
    name=NAME,
    title="What it costs to ask memory policies",
    what="The pages of one process are promoted through debugfs.  Its policy allows that: none, of "
    "the VMA, of its only thread, or of eight threads.  Counted are kernel instructions a page.",
    columns=(
        Column("pages", "pages"),
        Column("moved", "promoted"),
        Column("insn", "instructions a page"),
        Column("ask", "of these in mm/tier/allow.c"),
    ),
    minutes=2,
    run=measure,
    groups=study.KMMSCAND,
    flavour="torture",
)
