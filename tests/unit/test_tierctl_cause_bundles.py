# SPDX-License-Identifier: GPL-2.0
"""`tierctl explain` names the planted cause in each bundle of tests/long/test_tierctl_causes.py."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tierctl_causes import BUNDLES, CAUSES, KIB, from_bundle, problems

from tierctl.core.bundle import unpack

# What names a machine or its user: a host, a directory, a file that a program has mapped
NAMES = re.compile(r"/home/|/root/|/tmp/|\.json\.gz|virtme|\bplant\b|BOOT_IMAGE")


def test_each_cause_has_a_small_bundle() -> None:
    assert sorted(path.name for path in BUNDLES.iterdir()) == sorted(
        f"{name}.json.gz" for name in CAUSES
    )
    assert all(path.stat().st_size <= KIB << 10 for path in BUNDLES.iterdir())


@pytest.mark.parametrize("name", CAUSES)
def test_bundle_names_its_cause_and_no_other(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    data, text = from_bundle(BUNDLES / f"{name}.json.gz", capsys)
    assert problems(CAUSES[name], data, text) == []
    assert all(problems(one, data) for other, one in CAUSES.items() if other != name)


@pytest.mark.parametrize("name", CAUSES)
def test_bundle_has_no_name_of_a_machine(name: str) -> None:
    assert not NAMES.search(json.dumps(unpack(str(BUNDLES / f"{name}.json.gz"))))


def _answer(**changed: Any) -> dict[str, Any]:
    one = {"id": "dirty", "bytes": 99, "verdict": "by design", "what": "w", "todo": "sync"}
    one |= {"todo": "wait for writeback, or: sync"} | changed
    return {"slow": 100, "reasons": [one]}


@pytest.mark.parametrize(
    ("changed", "text", "count"),
    [
        ({}, "w wait for writeback, or: sync", 0),
        ({"id": "mlock"}, "", 1),
        ({"bytes": 40}, "", 1),
        ({"verdict": "act"}, "", 1),
        ({"todo": None}, "", 1),
        ({}, "another text", 2),
    ],
)
def test_answer_that_is_wrong_is_told(changed: dict[str, Any], text: str, count: int) -> None:
    assert len(problems(CAUSES["dirty"], _answer(**changed), text)) == count


def test_second_cause_is_told() -> None:
    data = _answer(bytes=90)
    data["reasons"].append({**data["reasons"][0], "id": "mlock", "bytes": 10})
    assert problems(CAUSES["dirty"], data) == ["{'mlock'} are named, too"]
