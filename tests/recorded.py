# SPDX-License-Identifier: GPL-2.0
"""Runs of a study as the ledger has them, for tests."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.results import ledger
from lab.results.study import Study

HOST = {"cpus": 2, "cpu_model": "AMD", "qemu": "QEMU emulator version 7.2", "project": "abc"}
FACTS = {"command": "python -m lab study x", "date": "today", "seconds": 1.0, "host": HOST}
KERNEL = {"flavour": "tiershift", "release": "6.12", "key": "k", "base_version": "v"}


def written(
    study: Study, runs: Sequence[ledger.Run], directory: Path, facts: Mapping[str, Any] = FACTS
) -> dict[str, ledger.Line]:
    """Lines by cell (and turn), after they were written and read."""
    path = directory / "ledger.ndjson"
    lines = ledger.lines_of(study.name, facts, runs, study.groups, "raw")
    ledger.write(lines, path)
    read = ledger.read(path)
    assert sorted(read, key=lambda line: line.order) == sorted(lines, key=lambda line: line.order)
    shown = {column.key for column in study.columns}
    assert {key for line in read for key in line.figures} <= shown | {f"{k}_noise" for k in shown}
    names = {f"{line.cell}, {line.turn}" if line.turn else line.cell: line for line in read}
    assert len(names) == len(lines)
    return names


def verdicts(line: ledger.Line) -> list[str]:
    return [goal.verdict for goal in line.goals]


def parsed(study: Study, *argv: str) -> argparse.Namespace:
    """The study's own options."""
    parser = argparse.ArgumentParser()
    if study.arguments:
        study.arguments(parser)
    return parser.parse_args(argv)
