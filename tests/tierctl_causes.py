# SPDX-License-Identifier: GPL-2.0
"""The causes that are planted in guests, and what `tierctl explain` is to say of each.

There is no test here.  tests/long/test_tierctl_causes.py plants, and keeps the bundles at which
tests/unit/test_tierctl_cause_bundles.py looks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tierctl import cli
from tierctl.commands.explain import MARK
from tierctl.core.bundle import unpack
from tierctl.core.text import WIDTH

BUNDLES = Path(__file__).resolve().parent / "golden/tierctl/causes"
KIB = 30  # of a bundle that is kept, at most
SMALL = 0.05  # of what is slow: more than so much is a cause


@dataclass(frozen=True)
class Cause:
    """A reason of `explain`; ``todo``: a regular expression for all of it."""

    id: str
    verdict: str
    todo: str = ""


CAUSES = {
    "off": Cause("tier-off", "act", "tierctl profile apply general"),
    "cold": Cause("cold", "fine"),
    "mlock": Cause("mlock", "by design", r"start the program without mlock\(2\)"),
    "mbind": Cause("policy", "its policy", "start the program without a policy.*"),
    "cpuset": Cause("cpuset", "act", r"echo 0-1 > /sys/fs/cgroup/\w+/cpuset\.mems"),
    "limit": Cause("limit", "act", r"tierctl group set \w+ max=8M"),
    "opt-out": Cause("opt-out", "its policy", ".*: tierctl run --scan default -- PROGRAM"),
    "full": Cause("full", "act", "demotion is off, .*: tierctl set demote.enabled 1"),
    "ksm": Cause("ksm", "by design", ".*: echo 2 > /sys/kernel/mm/ksm/run"),
    "dirty": Cause("dirty", "by design", "wait for writeback, or: sync"),
    "no-tier": Cause("no-slow-tier", "fine", "tierctl doctor, if slow memory is installed"),
    "hint-faults": Cause("hint-faults", "unknown", ".* kernel.numa_balancing_promote_rate_.*"),
}


def given(data: Mapping[str, Any]) -> set[str]:
    """The reasons of an answer that have more than a little of what is slow."""
    least = SMALL * data["slow"]
    return {one["id"] for one in data["reasons"] if one["bytes"] > least or not data["slow"]}


def plain(text: str) -> str:
    """The words of a screen, without the column of numbers and verdicts."""
    rows = (line[: WIDTH - MARK] if line.startswith("  ") else line for line in text.splitlines())
    return " ".join(" ".join(rows).split())


def problems(cause: Cause, data: Mapping[str, Any], text: str = "") -> list[str]:
    """What is wrong with an answer; ``text``: the same for a person."""
    found = {one["id"]: one for one in data["reasons"]}.get(cause.id)
    if found is None:
        return [f"{cause.id} is not named, but {given(data)}"]
    wrong = []
    if 2 * found["bytes"] < data["slow"]:
        wrong.append(f"{cause.id} has {found['bytes']} of {data['slow']} bytes")
    if given(data) != {cause.id}:
        wrong.append(f"{given(data) - {cause.id}} are named, too")
    if found["verdict"] != cause.verdict:
        wrong.append(f"the verdict is {found['verdict']}, not {cause.verdict}")
    if not re.fullmatch(cause.todo, found["todo"] or ""):
        wrong.append(f"to do is {found['todo']!r}, not {cause.todo!r}")
    for part in (found["what"], found["todo"] or ""):
        if text and part not in plain(text):
            wrong.append(f"{part!r} is not in the text")
    return wrong


def from_bundle(bundle: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """What `explain` says of the only process with mappings in a bundle, as data and as text."""
    keys = {key for one in unpack(str(bundle))["samples"] for key in one["files"]}
    (pid,) = {found[1] for key in keys if (found := re.fullmatch(r"/proc/(\d+)/maps", key))}
    said = []
    for more in (["--json"], []):
        capsys.readouterr()
        cli.main(["--from", str(bundle), "explain", pid, *more])
        said.append(capsys.readouterr().out)
    data: dict[str, Any] = json.loads(said[0])["data"]
    return data, said[1]
