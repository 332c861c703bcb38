# SPDX-License-Identifier: GPL-2.0
"""The table of `lab thp`, from made-up logs; nothing is booted."""

from __future__ import annotations

from typing import Any

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
FACTS: dict[str, Any] = {
    "date": "2026-01-01T00:00:00Z",
    "command": "python -m lab thp",
    "seconds": 60.0,
    "host": {"qemu": "7.2"},
    "kernel": {"release": "6.12", "flavour": "ours", "key": "abc", "base_version": "6.12-1"},
}


def test_table_of_folios() -> None:
    rows = thp.rows_of(HUGE + "\n" + MTHP.format(after=6))
    passed = {"a": ktap.parse(HUGE, 0), "b": ktap.parse(MTHP, 0)}
    assert thp.check(rows, passed) == []
    assert thp.table(rows)[1:] == [
        ["16 KiB", "full", "hot", "384", "384", "0", "1,536"],
        ["16 KiB", "idle", "hot", "384", "384", "1,536", "1,536"],
        ["1024 KiB", "full", "hot", "6", "6", "0", "1,536"],
        ["1024 KiB", "idle", "hot", "6", "6", "1,280", "1,536"],
        ["2048 KiB", "idle", "hot", "4", "4", "2,048", "2,048"],
        ["2048 KiB", "idle", "cold", "16", "16", "0", "8,192"],
    ]
    page = thp.markdown({**FACTS, "rows": rows, "failures": []})
    assert "| 2048 KiB | idle | hot | 4 | 4 | 2,048 | 2,048 |" in page
    assert "FAILED" not in page


def test_what_was_split_or_not_counted_is_a_failure() -> None:
    split = thp.rows_of(HUGE + "\n" + MTHP.format(after=5))
    assert thp.check(split, {}) == ["1024 KiB, idle: not as many folios as before"]
    assert any("not understood" in text for text in thp.check(thp.rows_of(HUGE), {}))
    assert any("not understood" in text for text in thp.check([], {}))
    rows = thp.rows_of(HUGE + "\n" + MTHP.format(after=6))
    skipped = ktap.parse("1..1\nok 1 # SKIP no large folios on the slow node\n", 0)
    assert any("no large folios" in text for text in thp.check(rows, {"mthp": skipped}))
