# SPDX-License-Identifier: GPL-2.0
"""make run in guests: what the copies tell of each contender."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab import build, firstrun, looks, scenario, seen

pytestmark = pytest.mark.long


def _used(copies: list[seen.Copy], label: str) -> dict[str, int]:
    """Bytes on the slow tier that were used shortly before, by group."""
    source = seen.Seen(copies)
    source.go(label)
    frame = seen.latest(copies[: source.at + 1])
    assert frame.top and frame.heat
    return {one.name: one.hot_on_slow or 0 for one in frame.top.data.groups}


@pytest.mark.parametrize("contender", firstrun.CONTENDERS, ids=lambda one: str(one.name))
def test_hot_on_slow_falls_with_tiering_only(contender: scenario.Contender, tmp_path: Path) -> None:
    with scenario.Live(sys.stderr, contender.name, 60, [0]) as live:
        found = firstrun.run_one(contender, build.kernel(contender.kernel), tmp_path / "out", live)
    copies = seen.read(tmp_path / "out" / looks.FILE)
    labels = [one["label"] for one in copies]
    assert labels[0] == "before" and labels[-1] == "after" and "run" in labels
    before, after = _used(copies, "before"), _used(copies, "after")
    assert {*before} == {"redis.service", "vm.scope"}
    # A half of the virtual machine's memory is used all the time.
    assert before["vm.scope"] > 20 << 20 and before["redis.service"] > 20 << 20
    if contender.name == "none":
        assert found["promoted"] == 0 and after["vm.scope"] > 20 << 20
    else:
        assert found["promoted"] and sum(after.values()) < 0.8 * sum(before.values())
    assert bool(found["hint_faults"]) == (contender.name == "numab2")
