# SPDX-License-Identifier: GPL-2.0
"""Static checks of our kernel code by the kernel's own tools."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import kbuild
import pytest

from lab import build, cache, manifest, rooms, tree
from lab.build import KernelImage

# The commit message of a series has no MAINTAINERS duty; ours are listed in one entry.
CHECKPATCH = ["--strict", "--terse", "--show-types", "--ignore", "FILE_PATH_CHANGES,EXPORT_SYMBOL"]


def _run(*argv: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(arg) for arg in argv], cwd=cwd, capture_output=True, text=True, check=False
    )


def _known_good(version: str, mail: Path) -> Path:
    """The mark that checkpatch had nothing to say of a mail, by its content but for its number."""
    text = re.sub(r"^Subject: \[PATCH [\d/]+\]", "", mail.read_text("utf-8"), flags=re.MULTILINE)
    return cache.sub("checkpatch") / cache.key([version, *CHECKPATCH, text])


def test_checkpatch(version: str, tmp_path: Path) -> None:
    mails = [m for m in tree.export_series(version, tmp_path) if "cover-letter" not in m.name]
    new = [mail for mail in mails if not _known_good(version, mail).exists()]
    if not new:
        return
    with cache.lock("build"):
        src = build.source_directory(tree.compose(version))
        done = _run(src / "scripts/checkpatch.pl", *CHECKPATCH, *new, cwd=src)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("total:") in (0, len(new))
    for mail in new:
        _known_good(version, mail).touch()


def test_changed_mail_is_checked_again(version: str, tmp_path: Path) -> None:
    mail = tmp_path / "mail"
    marks = set()
    for text in ("[PATCH 1/2] a\n+x", "[PATCH 2/3] a\n+x", "[PATCH 1/2] a\n+y"):
        mail.write_text(f"Subject: {text}\n", encoding="utf-8")
        marks.add(_known_good(version, mail))
    assert len(marks) == 2


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
            *manifest.objects(own=True),
            cwd=src,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_w1_and_sparse(kbuild_log: str) -> None:
    for name in manifest.objects(own=True):
        path = name.removesuffix("o")
        assert re.search(rf"CHECK\s+\S*{path}", kbuild_log), "sparse did not run: " + kbuild_log
    # sparse also reads headers that are not ours; only lines that name our files count
    ours = set().union(*(room.files for room in rooms.series()))
    assert kbuild.complaints(kbuild_log, ours) == []
