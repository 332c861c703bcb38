# SPDX-License-Identifier: GPL-2.0
"""Static checks: the kernel's own tools on our kernel code, and the lab's on the lab."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab import build, cache, rooms, tree
from lab.build import KernelImage

PROJECT = cache.PROJECT
TRACKED = subprocess.check_output(
    ["git", "ls-files", "-co", "--exclude-standard"], cwd=PROJECT, text=True
).splitlines()
# The commit message of a series has no MAINTAINERS duty; ours are listed in one entry.
CHECKPATCH = ["--strict", "--terse", "--show-types", "--ignore", "FILE_PATH_CHANGES"]

OURS = ("mm/tier/", "mm/tier/kmmscand/", "mm/migrc/", "mm/demote.o", "mm/zap_batch.o")


def _run(*argv: str | Path, cwd: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(arg) for arg in argv], cwd=cwd, capture_output=True, text=True, check=False
    )


def _tool(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def test_ruff() -> None:
    for argv in (["check"], ["format", "--check"]):
        done = _run(_tool("ruff"), *argv, "lab", "tests")
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
        and not name.startswith("docs/results/")
        and not name.endswith(".patch")  # a patch carries the lines of the files it changes
        and "SPDX-License-Identifier: GPL-2.0" not in (PROJECT / name).read_text(errors="replace")
    ]
    assert without == []


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
        and name != "tests/test_static.py"
        and (match := bad.search((PROJECT / name).read_text(errors="replace")))
    ]
    assert found == []


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


def test_checkpatch(version: str, tmp_path: Path) -> None:
    mails = [m for m in tree.export_series(version, tmp_path) if "cover-letter" not in m.name]
    with cache.lock("build"):
        src = build.source_directory(tree.compose(version))
        done = _run(src / "scripts/checkpatch.pl", *CHECKPATCH, *mails, cwd=src)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("total:") in (0, len(mails))


def test_checkpatch_would_notice(version: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.c"
    bad.write_text("int f( int a ){return a ;}\n", encoding="utf-8")
    with cache.lock("build"):
        src = build.source_directory(tree.compose(version))
        done = _run(src / "scripts/checkpatch.pl", *CHECKPATCH, "-f", bad, cwd=src)
    assert done.returncode != 0


@pytest.fixture(scope="module")
def kbuild_log(tiershift_kernel: KernelImage) -> str:
    """What W=1 and sparse say of our directories of the kernel."""
    commit = tree.compose(tiershift_kernel.base_version)
    with cache.lock("build"):
        src = build.source_directory(commit)
        obj = build.object_directory("tiershift", src)
        done = _run(
            "make",
            "-C",
            src,
            f"O={obj}",
            "W=1",
            "C=2",
            "CHECK=sparse",
            f"-j{os.cpu_count()}",
            *OURS,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_w1_and_sparse(kbuild_log: str) -> None:
    for name in OURS:
        path = name.removesuffix("o")
        assert re.search(rf"CHECK\s+\S*{path}", kbuild_log), "sparse did not run: " + kbuild_log
    # sparse also reads headers that are not ours; only lines that name our files count
    ours = set().union(*(room.files for room in rooms.series()))
    lines = [
        line
        for line in kbuild_log.splitlines()
        if ("warning:" in line or "error:" in line)
        and any(re.search(rf"(?:^|/){re.escape(name)}:", line) for name in ours)
    ]
    assert lines == []
