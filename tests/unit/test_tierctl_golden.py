# SPDX-License-Identifier: GPL-2.0
"""What tierctl shows of seven machines that were captured in guests, compared with
tests/golden/tierctl/MACHINE.txt.

TIERCTL_GOLDEN=write pytest tests/unit/test_tierctl_golden.py writes the files.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
import tierctl_schemas
from tierctl_terminal import Screen

from tierctl import cli
from tierctl.core import bundle
from tierctl.core.text import WIDTH

GOLDEN = Path(__file__).resolve().parents[1] / "golden/tierctl"
KIB = 60  # of a bundle, at most
# What was captured with --explain
MACHINES = {
    "two-tier": ("248", "redis.service", "node 1"),
    "no-hmat": ("71", "redis.service", "node 1"),
    "late-memory": ("186", "redis.service", "node 1"),
    "two-sockets": ("122", "batch.service", "nginx.service", "node 2"),
    "virtual-machine": ("74", r"machine-qemu\x2d1\x2dvm01.scope", "node 1"),
    "numa-balancing": ("97", "redis.service", "node 1"),
    "damon": ("80", "redis.service", "node 1"),
}
COMMANDS = ("status", "top", "heat", "doctor", "why node 1")
# Words that would name the machine on which the guests ran
FOREIGN = re.compile(r"virtme|(?<![\w.])/(?:work|tmp|root)/|\(\w+@(?!lab\))|https?:")
# A figure of a bundle, and a command that shows it
FIGURES = {
    "status": ("/node1/meminfo", r"(MemFree: +)\d+", r"\g<1>77777"),
    "top": ("/redis.service/memory.numa_stat", r"N1=\d+", "N1=7777"),
    "heat": ("/debug/lru_gen", r"\d+ *$", "55555"),
    "doctor": ("/tier/demote/enabled", r"1", "0"),
    "explain node 1": ("/node1/meminfo", r"(Mlocked: +)\d+", r"\g<1>4096"),
    "why node 1": ("/node1/access1/initiators/read_latency", r"\d+", "77"),
}


def place(machine: str) -> Path:
    """The bundle of a machine."""
    return GOLDEN / f"bundles/{machine}.json.gz"


def run(file: Path, *words: str) -> tuple[int, str]:
    """Exit status and output of a command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = cli.main(["--from", str(file), *words])
    return code, out.getvalue()


def section(file: Path, command: str) -> str:
    """A command with its screen."""
    code, shown = run(file, *command.split())
    assert max(map(len, shown.splitlines())) <= WIDTH, shown
    return f"$ tierctl {command}   # exit status {code}\n{shown}"


def commands(machine: str) -> list[str]:
    """All commands of which a machine has a screen."""
    return [*COMMANDS, *(f"explain {one}" for one in MACHINES[machine])]


def watched(machine: str, tmp_path: Path) -> str:
    """The second sample in `watch`, the first with rates, and the text of the key h."""
    argv = [sys.executable, "-m", "tierctl", "--from", str(place(machine)), "watch", "-d", "60"]
    screen = Screen(tmp_path / "tmux", shlex.join(argv), WIDTH, 24)
    try:
        screen.shows("RECORDED  sample 2 of ")
        screen.keys("Space")
        screen.shows("PAUSED")
        found = [screen.still()]
        screen.keys("h")
        screen.shows("Enter goes on.")
        found.append(screen.still())
    finally:
        screen.tmux("kill-server")
    assert all(max(map(len, one.splitlines())) <= WIDTH for one in found)
    return f"$ tierctl watch\n{found[0]}$ tierctl watch, key h\n{found[1].rstrip()}\n"


@pytest.mark.parametrize("machine", MACHINES)
def test_screens_of_a_captured_machine_are_the_golden_ones(machine: str, tmp_path: Path) -> None:
    found = "\n".join(section(place(machine), one) for one in commands(machine))
    found += "\n" + watched(machine, tmp_path)
    path = GOLDEN / f"{machine}.txt"
    if os.environ.get("TIERCTL_GOLDEN") == "write":
        path.write_text(found, "utf-8")
    assert found == path.read_text("utf-8"), f"{path} differs; see TIERCTL_GOLDEN above"


@pytest.mark.parametrize("machine", MACHINES)
def test_json_of_a_captured_machine_is_as_its_schema_says(machine: str) -> None:
    for one in commands(machine):
        _, shown = run(place(machine), "--json", *one.split())
        document = json.loads(shown)
        assert tierctl_schemas.check(document) == [], one
        assert document["host"] == "machine"


@pytest.mark.parametrize("command", FIGURES)
def test_figure_of_a_bundle_that_changes_changes_the_screen(command: str, tmp_path: Path) -> None:
    path, old, new = FIGURES[command]
    found = bundle.unpack(str(place("two-tier")))
    for one in found["samples"]:
        for name, content in one["files"].items():
            if name.endswith(path) and content is not None:
                one["files"][name] = re.sub(old, new, content, flags=re.MULTILINE)
    file = tmp_path / "b.json.gz"
    file.write_bytes(gzip.compress(json.dumps(found).encode()))
    golden = (GOLDEN / "two-tier.txt").read_text("utf-8")
    assert section(place("two-tier"), command) in golden
    assert section(file, command) not in golden


@pytest.mark.parametrize("machine", MACHINES)
def test_bundle_is_small_and_names_no_other_machine(machine: str) -> None:
    assert place(machine).stat().st_size <= KIB << 10
    for one in bundle.unpack(str(place(machine)))["samples"]:
        for name, content in one["files"].items():
            # @: numbers of the kernel
            found = None if "@" in name else FOREIGN.search(json.dumps(content))
            assert not found, f"{name}: {found}"


def test_words_of_another_machine_are_found() -> None:
    for text in ("a /root/x", "(me@host) (gcc", "virtme_hostname=a", "http://a"):
        assert FOREIGN.search(text)
    assert not FOREIGN.search("Linux version 6.12 (tiershift@lab) (gcc) /usr/local/bin/redis")


def test_golden_files_are_those_of_the_machines() -> None:
    screens = {one.stem for one in GOLDEN.glob("*.txt") if not one.stem.startswith("watch-")}
    bundles = {one.name.removesuffix(".json.gz") for one in GOLDEN.glob("bundles/*")}
    assert screens == bundles == set(MACHINES)
