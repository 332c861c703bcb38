# SPDX-License-Identifier: GPL-2.0
"""A boot of a study: a script in a guest whose kernel's instructions may be counted."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import build, cache, guest, instruments, scenario
from lab import topology as topologies
from lab.errors import LabError

Plugins = Callable[[build.KernelImage, Path], list[str]]


def insn(kernel: build.KernelImage, out: Path) -> list[str]:
    """The plugin that counts instructions, into insn.json."""
    built = instruments.build_plugins(cache.root() / "programs")
    return [instruments.insn_plugin(kernel.system_map, out / "insn.json", plugins=built)]


def boot(
    study: str,
    label: str,
    kernel: build.KernelImage,
    machine: topologies.Topology,
    script: str,
    *,
    plugins: Plugins | None = None,
    expected_s: int = 40,
    timeout_s: int = 600,
    append: str = "",
    icount: bool = False,
    disk_mb: int = 0,
) -> tuple[str, Path]:
    """What the script has printed, and the directory of what plugins have written."""
    out = cache.sub("runs") / study / re.sub(r"[^\w]+", "-", label)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with scenario.Live(sys.stderr, f"{study}: {label}", expected_s, [0]) as live:
        result = guest.run(
            kernel.image,
            machine,
            script,
            out_dir=out,
            timeout_s=timeout_s,
            plugins=plugins(kernel, out) if plugins else [],
            append=append,
            icount=icount,
            disk_mb=disk_mb,
            on_line=live.on_line,
        )
    log = (out / "output.log").read_text(encoding="utf-8", errors="replace")
    if result.exit_code:
        raise LabError(f"{study}: {label}: exit code {result.exit_code}", log[-500:])
    return log, out


def said(log: str, program: str) -> dict[str, Any]:
    """What one of lab/workloads has printed."""
    found = re.search(r"^RESULT (.*)$", log, re.MULTILINE)
    if not found:
        raise LabError(f"{program} has printed no result", log[-500:])
    words: dict[str, Any] = json.loads(found[1])
    return words
