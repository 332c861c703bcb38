# SPDX-License-Identifier: GPL-2.0
"""The ledger: what a line holds, and that a study changes its own lines only."""

from __future__ import annotations

import json
import lzma
import math
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, HOST, KERNEL

from lab import cache
from lab.errors import LabError
from lab.results import ledger, renamed
from lab.results.ledger import Goal, Line, Run


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a ledger, whose raw data are kept beside it."""
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "results" / "ledger.ndjson"


def line(study: str, cell: str = "a", turn: int = 0, **more: Any) -> Line:
    (made,) = ledger.lines_of(study, FACTS, [Run(cell, {"n": 1}, turn=turn)], (), "raw")
    return Line(**{name: getattr(made, name) for name in Line.__struct_fields__} | more)


# --- the file -------------------------------------------------------------------------


def test_a_study_replaces_its_lines_only(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger.record("one", FACTS, [Run("a", {"n": 1}), Run("b", {"n": 2})], path=path)
    ledger.record("two", FACTS, [Run("a", {"n": 3})], path=path)
    other = [made for made in ledger.read(path) if made.study == "two"]
    ledger.record("one", FACTS, [Run("c", {"n": 4})], path=path)
    assert [(made.study, made.cell) for made in ledger.read(path)] == [("one", "c"), ("two", "a")]
    assert [made for made in ledger.read(path) if made.study == "two"] == other
    assert "recorded: 1 runs of one" in capsys.readouterr().err


def test_the_order_of_lines_is_that_of_their_names(path: Path) -> None:
    made = [line("b"), line("a", "y"), line("a", "x", 2), line("a", "x", 1)]
    ledger.write(made, path)
    assert ledger.read(path) == [made[3], made[2], made[1], made[0]]
    first = path.read_bytes()
    ledger.write(reversed(made), path)
    assert path.read_bytes() == first
    assert first.splitlines()[0].decode() == ledger.SPDX
    assert [*path.parent.iterdir()] == [path]


def test_two_runs_of_one_name_are_refused(path: Path) -> None:
    ledger.write([line("a")], path)
    before = path.read_bytes()
    with pytest.raises(LabError, match="two runs of one are called 'x', 2"):
        ledger.record("one", FACTS, [Run("x", {}, turn=2), Run("x", {}, turn=2)], path=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("{", "truncated"),
        ('{"study": "a"}', "missing required field"),
        ('{"figure": 1}', "figure"),
        ("", "truncated"),
    ],
)
def test_a_broken_line_is_named(path: Path, bad: str, words: str) -> None:
    ledger.write([line("a"), line("b")], path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], bad, *lines[2:]]) + "\n")
    with pytest.raises(LabError, match="line 3") as error:
        ledger.read(path)
    assert words in error.value.what and path.name in error.value.what


def test_a_figure_that_is_a_text_is_refused(path: Path) -> None:
    ledger.write([line("a")], path)
    path.write_text(path.read_text().replace('"n":1', '"n":"1"'))
    with pytest.raises(LabError, match=r"line 2.*figures"):
        ledger.read(path)


def test_no_file_is_no_lines(tmp_path: Path) -> None:
    assert ledger.read(tmp_path / "none") == []


def test_the_ledger_of_the_project_can_be_read_and_is_as_written(tmp_path: Path) -> None:
    lines = ledger.read()
    ledger.write(lines, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == ledger.LEDGER.read_bytes()


# --- what is recorded ---------------------------------------------------------------


def test_what_is_no_figure_is_left_out(path: Path) -> None:
    figures = {"a": 0, "none": None, "nan": math.nan, "inf": math.inf, "b": 0.0, "yes": True}
    (made,) = ledger.record("one", FACTS, [Run("x", figures)], path=path)
    assert ledger.read(path)[0].figures == made.figures == {"a": 0, "b": 0, "yes": 1}


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (123456789, 123456789),
        (123456.7, 123460),
        (0.000123456, 0.00012346),
        (2.0, 2),
        (1 / 3, 0.33333),
        (-2.000004, -2),
        (True, 1),
    ],
)
def test_figures_have_five_digits(value: float, rounded: float) -> None:
    assert ledger.rounded(value) == rounded
    if float(rounded).is_integer():  # 2.0 would be read as another line than it was
        assert isinstance(ledger.rounded(value), int)


@pytest.mark.parametrize("count", [0, 1, 39, 40, 41, 80, 1001])
def test_curves_are_thin_and_have_their_ends(count: int) -> None:
    curve = [(float(n), n / 7) for n in range(count)]
    kept = ledger.thinned(curve)
    assert len(kept) <= ledger.POINTS
    assert len(kept) >= min(count, ledger.POINTS // 2)
    assert kept == sorted(set(kept))
    if count:
        assert kept[0] == (0, 0)
        assert kept[-1] == (count - 1, ledger.rounded((count - 1) / 7))


def test_a_line_has_what_its_run_has(path: Path) -> None:
    goal = Goal("g", ledger.MISSED, 1.5, 1.0, "too much")
    run = Run(
        "x",
        {"n": 1.25},
        KERNEL,
        turn=3,
        goals=[goal],
        checks=["no"],
        curve=[(0.0, 1.0), (1.0, 0.5)],
        seconds=12.34567,
        date="yesterday",
    )
    ledger.record("one", FACTS, [run], path=path)
    (made,) = ledger.read(path)
    assert (made.study, made.cell, made.turn, made.date) == ("one", "x", 3, "yesterday")
    assert (made.goals, made.checks, made.curve) == ([goal], ["no"], [(0, 1), (1, 0.5)])
    assert (made.kernel, made.base, made.seconds) == ("tiershift k", "v", 12.346)
    assert (made.commit, made.command, made.dirty) == ("abc", FACTS["command"], False)
    assert made.host == "2 CPUs (AMD), QEMU 7.2, TCG"


def test_changes_without_a_commit_are_told(path: Path) -> None:
    facts = {**FACTS, "host": {**HOST, "project": "abc-dirty"}}
    (made,) = ledger.record("one", facts, [Run("x", {})], path=path)
    assert made.dirty and ledger.read(path)[0].commit == "abc-dirty"


def test_code_of_the_groups_is_in_the_line(path: Path) -> None:
    directory = cache.sub("kernels") / "tiershift-k"
    directory.mkdir()
    (directory / "text.json").write_text('{"mm/tier/": "1", "mm/zap.o": "2", "mm/x.o": "3"}')
    groups = ("mm/tier/", "mm/x.o", "mm/none.o")
    (made,) = ledger.record("one", FACTS, [Run("x", {}, KERNEL)], groups, path=path)
    assert made.text == {"mm/tier/": "1", "mm/x.o": "3"}
    assert ledger.text_of({**KERNEL, "key": "other"}, groups) == ledger.text_of(None, groups) == {}


def test_raw_data_are_found_by_their_hash(path: Path) -> None:
    facts = {**FACTS, "rows": [{"n": 1, "text": "ä"}]}
    (made,) = ledger.record("one", facts, [Run("x", {"n": 1})], path=path)
    assert ledger.raw(made.raw) == facts
    kept = cache.sub("results") / f"{made.raw}.json.xz"
    assert json.loads(lzma.decompress(kept.read_bytes())) == facts
    # The same facts are kept once; others are others.
    before = kept.stat().st_mtime_ns
    assert ledger.keep_raw(dict(reversed(facts.items()))) == made.raw
    assert kept.stat().st_mtime_ns == before
    assert ledger.keep_raw({**facts, "rows": []}) != made.raw
    assert ledger.raw("nothing") is None


# --- names of before issue 46 -----------------------------------------------------------


def test_raw_data_have_names_of_today(path: Path) -> None:
    settings = {"/sys/kernel/mm/migrate_batch/enabled": "0", "/proc/sys/vm/swappiness": "1"}
    delta = {"kmmscand_pte_young": 7, "tier_promote_skipped": 2, "pgpromote_success": 5}
    run = {"settings": settings, "measured": {"delta": delta, "series": [{"migrc_flush": 1}]}}
    (made,) = ledger.record("one", {**FACTS, "contenders": [run]}, [Run("x", {})], path=path)
    found = ledger.raw(made.raw)
    assert found == {
        **FACTS,
        "contenders": [
            {
                "settings": {
                    "/sys/kernel/mm/tier/batch/enabled": "0",
                    "/proc/sys/vm/swappiness": "1",
                },
                "measured": {
                    "delta": {
                        "tier_scan_young": 7,
                        "tier_promote_skip": 2,
                        "pgpromote_success": 5,
                    },
                    "series": [{"tier_defer_flush": 1}],
                },
            }
        ],
    }
    # What is recorded stays as it was, under the same hash.
    kept = json.loads(lzma.decompress((cache.sub("results") / f"{made.raw}.json.xz").read_bytes()))
    assert kept["contenders"] == [run]


def test_only_whole_names_of_keys_are_renamed() -> None:
    same = {
        "kmmscand0": 1,  # a thread
        "tier_promote_success": 2,
        "kmmscand_pte": 3,
        "what": "kmmscand_pte_young",
        "names": ["migrc_flush", None, 1.5],
        "/sys/kernel/mm/kmmscand/promote_rate_mbps": "0",  # means promote/enabled 0 today
    }
    assert renamed.today(same) == same


def test_each_name_has_one_new_one() -> None:
    new = [*renamed.NAMES.values()]
    assert len({*new}) == len(new)
    assert not {*new} & renamed.NAMES.keys()
    assert renamed.today(dict.fromkeys(renamed.NAMES, 1)) == dict.fromkeys(new, 1)
    assert all(re.fullmatch("tier_[a-z_]+", name) for name in renamed.ROWS.values())


def test_lines_have_no_names_of_the_kernel() -> None:
    """So they need not be renamed."""
    lines = ledger.read()
    assert lines
    for made in lines:
        assert not renamed.NAMES.keys() & (made.figures.keys() | {goal.name for goal in made.goals})


# --- the host ---------------------------------------------------------------------------


def test_host_has_no_name_and_no_path() -> None:
    host = ledger.host_info()
    assert set(host) == {"cpus", "cpu_model", "arch", "qemu", "accelerator", "project"}
    text = json.dumps(host)
    assert host["arch"] in text and host["cpus"] == os.cpu_count()
    assert "/" not in text.replace("QEMU/", "")
    for name in {platform.node(), os.environ.get("HOSTNAME") or platform.node()}:
        assert not name or name not in ledger.host_label(host)
        assert name not in (str(value) for value in host.values())
    assert ledger.host_label(host).startswith(f"{os.cpu_count()} CPUs (")


@pytest.mark.parametrize(
    ("changed", "dirty"),
    [
        ("lab/x.py", True),
        ("new.py", True),
        ("results/ledger.ndjson", False),
        ("docs/results.md", False),
        ("README.md", False),
    ],
)
def test_what_a_measurement_writes_makes_no_other_project(
    changed: str, dirty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = ("lab/x.py", "results/ledger.ndjson", "docs/results.md", "README.md")
    for name in known:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for argv in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "a"]):
        subprocess.run(["git", *argv], cwd=tmp_path, check=True)
    monkeypatch.setattr(cache, "PROJECT", tmp_path)
    clean = ledger.host_info()["project"]
    assert not clean.endswith("-dirty") and clean != "unknown"
    (tmp_path / changed).write_text("b")
    assert ledger.host_info()["project"] == clean + ("-dirty" if dirty else "")


def test_program_that_is_not_there_is_unknown() -> None:
    assert ledger.first_line("no-such-program") == "unknown"
    assert ledger.first_line("true") == "unknown"
    assert ledger.first_line("printf", "a\nb") == "a"


def test_facts_begin_alike() -> None:
    facts = ledger.facts_of(0, "make it", rows=[1])
    assert facts["date"] == "1970-01-01T00:00:00Z"
    assert (facts["command"], facts["rows"]) == ("make it", [1])
    assert facts["seconds"] > 0 and facts["host"] == ledger.host_info()
