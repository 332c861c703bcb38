# SPDX-License-Identifier: GPL-2.0
"""What it costs to ask memory policies when a page is promoted: instructions per page.

lab/workloads/policycost.c has the pages of one process promoted through debugfs, with no policy,
with one of the VMA, of its only thread, and of eight threads; all of them allow it.  The insn
plugin counts, on the torture kernel, which has the debugfs file and is compiled as the one that is
measured elsewhere.  "ask" is what mm/tier/allow.c executes, without what it calls in other files.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from lab import build, cache, guest, instruments, programs, report, scenario, topology
from lab.errors import LabError

NAME = "policycost"
POLICIES = ("none", "vma", "task", "threads")
ASK = re.compile(
    r"^(__tier_may_unmap|tier_(policy|threads|mm|vma|mapping|object|mapped_object)?_?(answer|allows)\w*"
    r"|tier_mm_refuses|tier_unmapped_allows)(\.\w+)*$"
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


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Header and a row for each policy."""
    lines = [["policy", "pages", "promoted", "instructions a page", "to ask"]]
    for row in rows:
        counts = [f"{row[key]:,}" for key in ("pages", "moved")]
        lines.append([row["policy"], *counts, f"{row['insn']:,.0f}", f"{row['ask']:,.0f}"])
    return lines


def policycost(save: Path) -> bool:
    """Run all, print it, write save/policycost.md; True if nearly everything was promoted."""
    rows = [_count(policy) for policy in POLICIES]
    report.print_rows(table(rows), sys.stdout)
    kernel = build.kernel("torture").describe()
    lines = [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        "# What it costs to ask memory policies",
        "",
        "Kernel instructions for a page that is promoted, in all and of `mm/tier/allow.c`. Every "
        "policy here allows the promotion.",
        "",
        f"Measured with `{scenario.command_line(sys.argv)}`; one run each.",
        "",
        *report.markdown_rows(table(rows)),
        "",
        "- none: the process has never had a policy. threads: eight, each with one.",
        f"- Kernel {kernel['release']} ({kernel['flavour']} {kernel['key']}), emulated (TCG).",
        "",
    ]
    (save / f"{NAME}.md").write_text("\n".join(lines), encoding="utf-8")
    return all(row["moved"] >= 0.9 * row["pages"] for row in rows)
