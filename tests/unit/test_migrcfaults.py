# SPDX-License-Identifier: GPL-2.0
"""MIGRC's broken rules: what counts as caught, and the study's lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, parsed, verdicts, written
from test_migrc_torture import PROGRAMS, SET_BY_CATCHES

from lab import build, cache, migrcfaults, selftests
from lab.migrcfaults import CATCHES, SWITCHES, Catch
from lab.results import finish, ledger

SELFTESTS = "linux/migrc/files/tools/testing/selftests/migrc"
# Names of the rules, as the kernel has them
RULES = set(
    re.findall(
        r'^\t\[MIGRC_\w+\]\s+= "(\w+)",',
        (cache.PROJECT / "linux/migrc/files/mm/migrc/debug.c").read_text(),
        re.MULTILINE,
    )
)


def test_a_failure_for_another_reason_does_not_count() -> None:
    catch = CATCHES[0]
    log = "TAP version 13\n1..1\n# {}\nnot ok 1 reuse.fork.write\n"
    assert migrcfaults.caught(catch, log.format("stale read: CPU 3 read number 1"), 1)
    assert not migrcfaults.caught(catch, log.format("nothing was tested"), 1)
    assert not migrcfaults.caught(catch, log.format("stale read").replace("not ok", "ok"), 0)
    # Killed before it was done
    assert not migrcfaults.caught(catch, "TAP version 13\n1..1\n# stale read\n", 137)


ROW = {"caught": 9, "seeds": 10, "clean": True, "met": 3, "problem": ""}
ROW |= {"switch": "wp", "test": "a_test b.c", "seconds": 30, "median_s": 1.5, "counter": "n"}
FAULTS: dict[str, Any] = {**FACTS, "kernel": {**KERNEL, "flavour": "torture"}}


@pytest.mark.parametrize(
    ("change", "verdict", "check"),
    [
        ({}, ledger.MET, ""),
        ({"seeds": 1, "caught": 1}, ledger.MET, ""),
        ({"caught": 8}, ledger.MISSED, ""),
        ({"seeds": 1, "caught": 0}, ledger.MISSED, ""),
        ({"clean": False}, ledger.MET, "does not pass without the switch"),
        ({"met": 0}, ledger.MET, "n is 0"),
        ({"problem": "the guest was lost", "caught": 3}, ledger.MISSED, "the guest was lost"),
    ],
)
def test_enough_seeds_a_clean_run_and_its_counter(
    change: dict[str, Any], verdict: str, check: str, tmp_path: Path
) -> None:
    facts = {**FAULTS, "rows": [{**ROW, **change}]}
    line = written(migrcfaults.STUDIES[0], migrcfaults.runs(facts), tmp_path)["wp, b.c"]
    assert verdicts(line) == [verdict]
    assert len(line.checks) == bool(check) and all(check in one for one in line.checks)
    good = verdict == ledger.MET and not check
    assert migrcfaults.passed({**ROW, **change}) == good


def test_lines_of_what_is_caught(tmp_path: Path) -> None:
    """Each catch has a line."""
    rows = [
        {**ROW, "switch": one.switch, "test": f"{one.program} {one.test}", "median_s": None}
        for one in CATCHES
    ]
    lines = written(migrcfaults.STUDIES[0], migrcfaults.runs({**FAULTS, "rows": rows}), tmp_path)
    assert len(lines) == len(CATCHES)
    both = lines["unmap+wp, unmap.protect.in_flight"]
    assert both.kernel == "torture k" and "fault_unmap, fault_wp" in both.goals[0].text
    assert both.figures == {"caught": 9, "seeds": 10, "clean": 1, "met": 3, "given_s": 30}


def test_each_unbroken_test_is_told() -> None:
    notes = " ".join(migrcfaults.unbroken_notes())
    assert all(
        f"{program} {test}" in notes
        for program, tests in migrcfaults.UNBROKEN.items()
        for test in tests
    )


def test_fewer_seeds_or_switches_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Kernel:
        key = "k"

        def describe(self) -> dict[str, str]:
            return KERNEL

    done: list[str] = []

    def one(_kernel: Kernel, catch: Catch, seeds: int) -> dict[str, Any]:
        caught = 0 if catch.switch == "cap" else seeds
        test = f"{catch.program} {catch.test}"
        made = {"switch": catch.switch, "test": test, "seeds": seeds, "caught": caught}
        return {**ROW, **made}

    for name in {catch.program for catch in CATCHES}:
        (tmp_path / name).write_text("")
    monkeypatch.setattr(cache, "sub", lambda name: tmp_path / name)
    monkeypatch.setattr(build, "kernel", lambda _flavour: Kernel())
    monkeypatch.setattr(selftests, "programs", lambda *_: tmp_path)
    monkeypatch.setattr(migrcfaults, "_one", one)
    monkeypatch.setattr(ledger, "record", lambda name, *_: done.append(name))
    study = migrcfaults.STUDIES[0]
    assert study.run(parsed(study, "unmap"))
    assert finish.PART in capsys.readouterr().out and not done
    # One that was not caught is no failed check, but no success either.
    assert not study.run(parsed(study)) and done == ["migrc-faults"]
    assert "missed: cap, limit.cap" in capsys.readouterr().out


def _names(source: str) -> set[str]:
    """The tests of a selftest, as it names them."""
    variants: dict[str, list[str]] = {}
    for fixture, variant in re.findall(r"^FIXTURE_VARIANT_ADD\((\w+), (\w+)\)", source, re.M):
        variants.setdefault(fixture, []).append(f"{variant}.")
    return {
        f"{fixture}.{variant}{test}"
        for fixture, test in re.findall(r"^TEST_F(?:_TIMEOUT)?\((\w+), (\w+)", source, re.M)
        for variant in variants.get(fixture, [""])
    }


def test_each_selftest_fails_or_it_is_told_why_not() -> None:
    """None is without a switch, and those without are told from those that were forgotten."""
    directory = cache.PROJECT / SELFTESTS
    sources = {path.stem: path.read_text() for path in directory.glob("*_test.c")}
    assert set(sources) == set(PROGRAMS)
    there = {(name, test) for name, source in sources.items() for test in _names(source)}
    assert not re.search(r"^TEST(_SIGNAL)?\(", "\n".join(sources.values()), re.MULTILINE)
    broken = {(catch.program, catch.test) for catch in CATCHES}
    unbroken = {(name, test) for name, tests in migrcfaults.UNBROKEN.items() for test in tests}
    assert broken & unbroken == set()
    assert broken | unbroken == there


def test_switches_are_set_one_by_one_or_together() -> None:
    assert f"echo Y > {SWITCHES}/fault_wp" in migrcfaults.only("wp")
    both = migrcfaults.only("unmap+wp").split("; ")
    assert both[-2:] == [f"echo Y > {SWITCHES}/fault_{switch}" for switch in ("unmap", "wp")]
    assert f"echo N > {SWITCHES}/check" in both
    assert f"echo Y > {SWITCHES}/check" in migrcfaults.only(None)
    # Each is one that the kernel has.
    assert RULES == SET_BY_CATCHES


def test_each_rule_has_a_counter() -> None:
    """Of the kernel's, which the selftests read, too."""
    knobs = (cache.PROJECT / SELFTESTS / "knobs.c").read_text()
    assert set(re.findall(r'"met_(\w+)"', knobs)) == RULES
    assert {catch.counter for catch in CATCHES} <= {f"met_{rule}" for rule in RULES}
    before = "met_wp 5\nmet_swap 1\n"
    after = "met_wp 7\nmet_swap 1\n"
    assert migrcfaults.grown(before, after) == {"met_wp": 2, "met_swap": 0}
