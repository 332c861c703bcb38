# SPDX-License-Identifier: GPL-2.0
"""What guests say in which parts of memory tiering are switched, and what is wrong with it."""

from __future__ import annotations

import re
import subprocess

import pytest
import switched
import test_together_short
from switched import GROWN, MOVED, OFF

from lab import manifest, tier

ROWS = {one.name for room in manifest.load().values() for one in room.counters}


def _line(kind: str, label: str, **values: object) -> str:
    return f"{kind} {label} " + " ".join(f"{name}={value}" for name, value in values.items())


def _text() -> str:
    """Of a guest in which each part counts as long as it is on, from 5 on."""
    rows = dict.fromkeys(GROWN.values(), 5)
    lines = [_line("ROWS", "warm", **rows)]
    for label, parts in switched.combinations():
        states = {part: "on" if part in parts else "off" for part in tier.PARTS}
        for switch, row in GROWN.items():
            rows[row] += 10 * (switch in label.split("+"))
        lines += [
            _line("ON", label, state="on", **states),
            _line("CODES", label, hotset=0, vm=0),
            "# RESULT {}",
            _line("OFF", label, **OFF),
            _line("ROWS", label, **rows),
        ]
    return "\n".join(lines)


def test_shell_is_shell() -> None:
    for more in ("", test_together_short._script()):
        text = f"(\n{switched.library()}\n{more}\n)"
        assert not re.search("@[A-Z]+@", text)
        subprocess.run(["sh", "-n"], input=text, text=True, check=True)


def test_rows_are_those_of_the_kernel() -> None:
    rows = {*GROWN.values(), *(row for found in MOVED.values() for row in found)}
    assert {row for row in rows if row.startswith("tier_")} <= ROWS
    assert {*MOVED} == {part for part, wish in tier.PARTS.items() if wish}


def test_all_combinations() -> None:
    found = dict(switched.combinations())
    assert len(found) == 32 and found["nothing"] == ()
    assert found["promotion+zap"] == ("scan", "promote", "demote", "zap")
    assert all(" " not in label for label in found)


def test_good_guest_has_no_problem() -> None:
    assert switched.problems(_text(), "warm") == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("ON zap state=on", "ON zap state=waiting", ["zap, on: state is waiting, not on"]),
        ("OFF age state=off", "OFF age state=on", ["age, off: state is on, not off"]),
        ("CODES age hotset=0", "CODES age hotset=1", ["age: hotset ended with 1"]),
        ("CODES batch hotset=0 vm=0", "CODES bat", ["batch: the guest did not come so far"]),
    ],
)
def test_what_is_wrong_is_said(old: str, new: str, words: list[str]) -> None:
    text = _text()
    assert old in text
    assert switched.problems(text.replace(old, new, 1), "warm") == words


def test_threads_pages_and_counters_that_are_left() -> None:
    text = re.sub("^(OFF defer .*threads)=0", r"\1=2", _text(), flags=re.MULTILINE)
    text = re.sub("^(OFF defer .*pending)=0", r"\1=7", text, flags=re.MULTILINE)
    assert switched.problems(text, "warm") == [
        "defer, off: threads is 2, not 0",
        "defer, off: pending is 7, not 0",
    ]
    more = re.sub("^(ROWS nothing .*tier_zap_pages)=5", r"\1=6", _text(), flags=re.MULTILINE)
    assert switched.problems(more, "warm") == ["nothing: tier_zap_pages has grown by 1"]
    never = re.sub(r"tier_defer_success=\d+", "tier_defer_success=5", _text())
    assert switched.problems(never, "warm") == ["tier_defer_success has never grown"]


def test_parts_that_have_not_moved() -> None:
    rows = dict.fromkeys((row for found in MOVED.values() for row in found), 3)
    text = "\n".join(
        (
            _line("ROWS", "a", **rows),
            _line("ROWS", "b", **{**rows, "pgdemote_direct": 4, "tier_scan_pte": 9}),
        )
    )
    assert switched.still(text, "a", "b") == ["promote", "batch", "zap", "age"]
    assert switched.still(text, "none", "a") == []
    assert switched.still(text, "a", "none") == [*MOVED]


def test_memory_that_does_not_come_back() -> None:
    before = dict.fromkeys((*switched.GROWTH_KB, *switched.SHRINKS_KB), 100_000)
    much = {"SUnreclaim": 104_097, "MemAvailable": 60_000, "Percpu": 90_000}
    text = "\n".join(
        (
            _line("MEMORY", "a", **before),
            _line("MEMORY", "b", **{**before, "SUnreclaim": 104_096, "MemAvailable": 200_000}),
            _line("MEMORY", "c", **{**before, **much}),
        )
    )
    assert switched.grown(text, "a", "b") == []
    assert switched.grown(text, "a", "c") == [
        "SUnreclaim was 100000 kB and is 104097 kB",
        "MemAvailable was 100000 kB and is 60000 kB",
    ]
    assert "Percpu is not said" in switched.grown(text, "a", "d")


def test_lines_of_a_label_are_one() -> None:
    text = "REASON a scan=no_slow_memory:_see=it\nREASON a zap=\nREASONS a b=c\nREASON b age=x"
    assert switched.facts(text, "REASON") == {
        "a": {"scan": "no_slow_memory:_see=it", "zap": ""},
        "b": {"age": "x"},
    }
    assert switched.counts("TURNS all times=12", "TURNS", "all") == {"times": 12}
