# SPDX-License-Identifier: GPL-2.0
"""The command line: every command and study parses, and mistakes are told."""

from __future__ import annotations

import argparse
import errno
import re
import subprocess
from collections.abc import Callable

import pytest

from lab import cache, cli, manifest, studies

MAKEFILE = cache.PROJECT / "Makefile"
STUDIES = [*studies.every()]


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    return cli._parser()


@pytest.mark.parametrize("name", [one.name for one in STUDIES])
def test_every_study_is_a_command(name: str, parser: argparse.ArgumentParser) -> None:
    args = parser.parse_args(["study", name])
    assert args.function is cli.run_study and args.study.name == name


@pytest.mark.parametrize("argv", [["study", "curve"], ["study"], ["report", "--in", "x"]])
def test_mistakes_are_told(
    argv: list[str], parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parser.parse_args(argv)
    assert left.value.code == 2
    said = capsys.readouterr().err
    if argv == ["study", "curve"]:
        assert "curve" in said and all(one.name in said for one in STUDIES)


@pytest.mark.parametrize("name", [one.name for one in STUDIES])
def test_every_study_has_help(
    name: str, parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parser.parse_args(["study", name, "--help"])
    assert left.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    what = next(one.what for one in STUDIES if one.name == name)
    assert what.partition(".")[0].split()[0] in shown


def test_a_study_that_does_not_count_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for good in (True, False):
        args = argparse.Namespace(study=argparse.Namespace(run=lambda _, good=good: good))
        assert cli.run_study(args) == (0 if good else 1)


# --- make ---------------------------------------------------------------------------------


def _targets() -> list[str]:
    return re.findall(r"^([a-z-]+):", MAKEFILE.read_text(encoding="utf-8"), re.MULTILINE)


def test_full_disk_is_told_and_other_errors_are_not_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(number: int) -> Callable[[], list[str]]:
        def fail() -> list[str]:
            raise OSError(number, "no", "/x")

        return fail

    monkeypatch.setattr(manifest, "table", failing(errno.ENOSPC))
    assert cli.main(["rooms"]) == 1
    assert "the disk is full at /x" in capsys.readouterr().err
    monkeypatch.setattr(manifest, "table", failing(errno.EIO))
    with pytest.raises(OSError, match="no"):
        cli.main(["rooms"])


def test_make_has_few_targets_and_each_is_explained() -> None:
    said = subprocess.check_output(["make", "help"], cwd=cache.PROJECT, text=True)
    shown = re.findall(r"^  make ([a-z-]+) +\S", said, re.MULTILINE)
    assert shown == _targets() and len(shown) == len(set(shown)) <= 14
    # Each says how long it takes.
    for line in said.splitlines():
        if line.startswith("  make "):
            assert re.search(r"\d+ (s|min|h)\b|at once", line), line


def test_make_calls_commands_that_there_are(parser: argparse.ArgumentParser) -> None:
    text = MAKEFILE.read_text(encoding="utf-8")
    called = set(re.findall(r"\$\(LAB\) ([a-z]+)", text))
    assert called >= {"run", "report", "study", "deb", "repo"}
    for name in called - {"study"}:
        parser.parse_args([name])
    for name in re.findall(r"\$\(LAB\) study ([a-z-]+)", text):
        parser.parse_args(["study", name])
