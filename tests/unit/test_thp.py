# SPDX-License-Identifier: GPL-2.0
"""The lines of the study thp, from made-up logs; nothing is booted."""

from __future__ import annotations

from pathlib import Path

from recorded import FACTS, KERNEL, written

from lab import ktap, thp

MTHP = """TAP version 13
1..1
# fast node 0, slow node 1
# 16 KiB: 384 folios
# 1024 KiB: 6 folios
# full: 16 KiB: 384 folios of 384, 0 of 1536 pages promoted
# full: 1024 KiB: 6 folios of 6, 0 of 1536 pages promoted
# fragmented: 7 pages found no room
# idle: 16 KiB: 384 folios of 384, 1536 of 1536 pages promoted
# idle: 1024 KiB: {after} folios of 6, 1280 of 1536 pages promoted
ok 1 large folios of all sizes are promoted whole or not at all
"""
HUGE = """TAP version 13
1..1
# huge: 2048 of 2048 hot and 0 of 8192 cold pages promoted in 1.5 s
# huge: hot 8192 -> 8192 kB, cold 32768 -> 32768 kB
ok 1 enabled: hot huge pages are promoted, cold ones stay
"""


def test_lines_of_folios(tmp_path: Path) -> None:
    rows = thp.rows_of(HUGE + "\n" + MTHP.format(after=6))
    passed = {"a": ktap.parse(HUGE, 0), "b": ktap.parse(MTHP, 0)}
    assert thp.check(rows, passed) == []
    facts = {**FACTS, "kernel": KERNEL, "rows": rows, "failures": []}
    lines = written(thp.STUDY, thp.runs(facts), tmp_path)
    assert {name: [line.figures[key] for key in thp.COUNTS] for name, line in lines.items()} == {
        "16 KiB, full, hot": [384, 384, 0, 1536],
        "16 KiB, idle, hot": [384, 384, 1536, 1536],
        "1024 KiB, full, hot": [6, 6, 0, 1536],
        "1024 KiB, idle, hot": [6, 6, 1280, 1536],
        "2048 KiB, idle, hot": [4, 4, 2048, 2048],
        "2048 KiB, idle, cold": [16, 16, 0, 8192],
    }
    assert not any(line.checks for line in lines.values())
    facts["failures"] = ["one was split"]
    lines = written(thp.STUDY, thp.runs(facts), tmp_path)
    assert [line.checks for line in lines.values() if line.checks] == [["one was split"]]


def test_what_was_split_or_not_counted_is_a_failure() -> None:
    split = thp.rows_of(HUGE + "\n" + MTHP.format(after=5))
    assert thp.check(split, {}) == ["1024 KiB, idle: not as many folios as before"]
    assert any("not understood" in text for text in thp.check(thp.rows_of(HUGE), {}))
    assert any("not understood" in text for text in thp.check([], {}))
    rows = thp.rows_of(HUGE + "\n" + MTHP.format(after=6))
    skipped = ktap.parse("1..1\nok 1 # SKIP no large folios on the slow node\n", 0)
    assert any("no large folios" in text for text in thp.check(rows, {"mthp": skipped}))
