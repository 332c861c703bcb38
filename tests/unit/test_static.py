# SPDX-License-Identifier: GPL-2.0
"""Static checks of the lab, and of what is in linux/ without the kernel's tools."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from lab import cache, manifest, rooms, tier
from lab.results import renamed

PROJECT = cache.PROJECT
TRACKED = subprocess.check_output(
    ["git", "ls-files", "-co", "--exclude-standard"], cwd=PROJECT, text=True
).splitlines()

LICENCE = re.compile(r'SPDX-License-Identifier(: |":")GPL-2\.0')  # as text, or a key of JSON


def _run(*argv: str | Path, cwd: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(arg) for arg in argv], cwd=cwd, capture_output=True, text=True, check=False
    )


def _tool(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def test_ruff() -> None:
    for argv in (["check"], ["format", "--check"]):
        done = _run(_tool("ruff"), *argv, "lab", "tests", "tierctl")
        assert done.returncode == 0, done.stdout + done.stderr


def test_mypy() -> None:
    done = _run(_tool("mypy"))
    assert done.returncode == 0, done.stdout


def test_shellcheck() -> None:
    scripts = [
        name
        for name in TRACKED
        if (PROJECT / name).is_file() and (PROJECT / name).read_bytes()[:20].startswith(b"#!/bin/")
    ]
    assert "bootstrap.sh" in scripts
    done = _run("shellcheck", *scripts)
    assert done.returncode == 0, done.stdout


def test_every_file_has_its_licence() -> None:
    without = [
        name
        for name in TRACKED
        if (PROJECT / name).is_file()
        and not name.endswith(".patch")  # a patch carries the lines of the files it changes
        and not name.startswith("tests/golden/tierctl/")  # screens, as they are drawn
        and not LICENCE.search((PROJECT / name).read_text(errors="replace"))
    ]
    assert without == []


def test_no_file_of_a_build_is_in_the_tree() -> None:
    tracked = subprocess.check_output(["git", "ls-files"], cwd=PROJECT, text=True).splitlines()
    assert tracked and not [name for name in tracked if name.endswith((".pyc", ".o", ".ko"))]


def test_no_path_of_a_machine_and_no_registry_host() -> None:
    hosts = "|".join(
        host + r"\.(?:org|com|io|net)"
        for host in ("pypi", "pythonhosted", r"deb\.debian", "crates", "npmjs", "googleapis")
    )
    bad = re.compile(rf"(?<![\w.])/(?:work|tmp/w)/|/root/\.|{hosts}")
    found = [
        f"{name}: {match[0]}"
        for name in TRACKED
        if (PROJECT / name).is_file()
        and name != "tests/unit/test_static.py"
        and (match := bad.search((PROJECT / name).read_text(errors="replace")))
    ]
    assert found == []


def test_readme_has_the_rooms() -> None:
    """`python -m lab rooms --write` brings it up to date."""
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    assert manifest.with_table(text) == text


def test_hooks_are_small() -> None:
    large = [
        str(hook)
        for room in rooms.series()
        for hook in room.hooks
        if hook.stat().st_size > 24 * 1024
    ]
    assert large == []


def test_migrc_is_for_x86_only() -> None:
    """Elsewhere, on arm64 for one, none of its options exists."""
    text = (PROJECT / "linux/migrc/files/mm/migrc/Kconfig").read_text()
    options = dict(re.findall(r"^config (\w+)\n((?:\t.*\n|\n)*)", text, re.MULTILINE))
    needs = {
        name: {
            term
            for line in re.findall(r"^\t(?:depends on|def_bool) (.*)$", body, re.MULTILINE)
            for term in line.split(" && ")
        }
        for name, body in options.items()
    }
    assert "X86_64" in needs.pop("MIGRC")
    assert needs and all(terms & set(options) for terms in needs.values())


def _text(*directories: str) -> str:
    """What the lab and selftests say to a guest's kernel."""
    return "".join(
        (PROJECT / name).read_text()
        for name in TRACKED
        if name.startswith(directories)
        and (PROJECT / name).is_file()
        and name.endswith((".py", ".toml", ".sh", ".c"))
    )


def test_files_of_memory_tiering_that_the_lab_writes_exist() -> None:
    """A guest's shell or agent would notice, but only in a study that runs for minutes."""
    text = _text("lab/", "packaging/", "linux/kvm-aging/", "linux/promote/")
    written = re.findall(rf"{tier.DIRECTORY}/(\w+)/(\w+)", text)
    written += re.findall(r"tier\.file\([\"'](\w+)[\"'], [\"'](\w+)[\"']\)", text)
    written += re.findall(r"\"set (\w+)/(\w+) ", text)
    written += re.findall(r"^echo \S+ > (\w+)/(\w+)$", text, re.MULTILINE)
    names = {f"{part}/{file}" for part, file in written}
    assert {"scan/page_cache", "scan/period_ms", "scan/cpu_permille", "batch/max_kb"} <= names
    files = {f"{part}/{name}" for part in tier.PARTS for name in ("enabled", "state", "reason")}
    assert names <= files | {knob.file for knob in manifest.knobs()}


def test_counters_of_memory_tiering_that_the_lab_reads_exist() -> None:
    parts = "|".join((*tier.PARTS, "flush"))
    named = {*re.findall(rf"\"(tier_(?:{parts})_\w+)\"", _text("lab/"))} - renamed.ROWS.keys()
    assert {"tier_scan_young", "tier_defer_success"} <= named
    known = {one.name for room in manifest.load().values() for one in room.counters}
    assert named <= known


# What knows the names of before issue 46: the mapping, and its tests
BEFORE_46 = ("lab/results/renamed.py", "tests/unit/test_ledger.py", "tests/unit/test_static.py")


def test_no_name_of_before_issue_46_is_left() -> None:
    """In what runs in guests or looks at what they have counted."""
    files = ("kmmscand", "migrc", "migrate_batch", "reclaim_batch", "zap_batch", "numab_later")
    old = [*renamed.ROWS, *(rf"/sys/kernel/(?:mm|debug)/{name}/" for name in files)]
    old += ["range_aging", "lockless_aging", "aging_faults", "aging_delay_us", r"tier/fault_\w+"]
    bad = re.compile("|".join(rf"(?<!\w){name}(?!\w)" for name in old))
    found = [
        f"{name}: {match[0]}"
        for name in TRACKED
        if name.startswith(("lab/", "packaging/", "models/", "tests/"))
        and name not in BEFORE_46
        and (PROJECT / name).is_file()
        and (match := bad.search((PROJECT / name).read_text(errors="replace")))
    ]
    assert found == []
