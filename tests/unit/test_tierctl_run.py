# SPDX-License-Identifier: GPL-2.0
"""tierctl run: the wrapper around prctl(PR_SET_TIER_SCAN)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tierctl import cli
from tierctl.commands import run
from tierctl.core import bundle as archive
from tierctl.core.errors import DENIED, LACKING, USAGE
from tierctl.core.source import Sample

PROJECT = Path(__file__).resolve().parents[2]
Output = pytest.CaptureFixture[str]


def test_run_becomes_the_program_after_prctl(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def prctl(value: int) -> int:
        calls.append(value)
        return 0

    monkeypatch.setattr(run, "prctl", prctl)
    monkeypatch.setattr(os, "execvp", lambda file, argv: calls.append((file, argv)))
    for scan, value in (("off", 0), ("default", 1), ("2", 2), ("10", 10)):
        calls.clear()
        cli.main(["run", "--scan", scan, "--", "ls", "--json", "-l"])
        assert calls == [value, ("ls", ["ls", "--json", "-l"])]


def test_run_on_a_kernel_without_the_prctl_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr(run, "prctl", lambda value: 22)
    monkeypatch.setattr(os, "execvp", lambda *_: pytest.fail("started"))
    assert cli.main(["run", "--scan", "off", "true"]) == LACKING
    assert "lacks PR_SET_TIER_SCAN (Invalid argument)" in capsys.readouterr().err


def test_run_of_a_program_that_does_not_exist_or_may_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: Output, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "prctl", lambda value: 0)
    assert cli.main(["run", "--scan", "off", "--", "/none/such"]) == USAGE
    assert "/none/such cannot be started (No such file" in capsys.readouterr().err
    (tmp_path / "plain").write_text("x")
    assert cli.main(["run", "--scan", "off", "--", str(tmp_path / "plain")]) == DENIED


def test_prctl_has_the_number_of_the_kernel_s_header() -> None:
    header = PROJECT / "linux/kmmscand"
    found = "".join(
        one.read_text(errors="replace")
        for one in header.rglob("*")
        if one.is_file() and "prctl" in one.name
    )
    assert "0x53545343" in found and run.PR_SET_TIER_SCAN == 0x53545343
    assert run.prctl(99) != 0  # a value that no kernel takes


def test_run_of_a_bundle_is_refused(tmp_path: Path, capsys: Output) -> None:
    archive.save(tmp_path / "b", [Sample(1.0)], "h", "k")
    assert cli.main(["--from", str(tmp_path / "b"), "run", "--scan", "off", "true"]) == USAGE
    assert "run needs a live machine" in capsys.readouterr().err
