# SPDX-License-Identifier: GPL-2.0
"""The page about all results, from made-up ones; and that the one we have is of what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab import cache, cli, repeats, summary
from lab.errors import LabError


def contender(mode: str, name: str = "", **settings: int) -> dict[str, Any]:
    flavour = "tiershift" if mode == "tiershift" else "base"
    return {
        "name": name or mode,
        "mode": mode,
        "settings": settings,
        "date": f"day of {name or mode}",
        "kernel": {"flavour": flavour, "key": f"key of {name or mode}"},
    }


def scenario(figures: dict[str, dict[str, Any]], *more: dict[str, Any]) -> dict[str, Any]:
    return {
        "contenders": [*more, *(contender(mode) for mode in figures)],
        "metrics": {"figures": {**{run["name"]: {} for run in more}, **figures}},
        "failures": [],
        "date": "a day",
    }


def figures(**given: Any) -> dict[str, Any]:
    return {"promoted": 5000, "hit_ratio_end": 0.5, "hit_ratio": 0.4, **given}


def row(table: list[list[str]], name: str) -> dict[str, str]:
    found = [line for line in table if line[0].startswith(f"[{name}]")]
    assert len(found) == 1, table
    return dict(zip(table[0], found[0], strict=True))


def times(table: list[list[str]], name: str, key: str) -> str:
    return next(v for k, v in row(table, name).items() if k.startswith(summary.HEADS[key]))


def test_against_marks_what_is_above_the_goal() -> None:
    made = scenario(
        {
            "numab2": figures(t90_best_s=2.0, app_per_page=1000.0, all_per_page=900.0),
            "tiershift": figures(t90_best_s=1.0, app_per_page=60.0, all_per_page=900.0),
        }
    )
    table = summary.against({"one": made})
    assert times(table, "one", "t90_best_s") == "1.0 to 2.0: 0.50"
    assert times(table, "one", "app_per_page") == "60 to 1,000: **0.06**"
    assert times(table, "one", "all_per_page") == "900 to 900: 1.00"
    assert times(table, "one", "all_per_fast") == "-"


@pytest.mark.parametrize(
    ("ours", "text"),
    [
        ({"all_per_page_noise": 950.0}, "within noise (950) to 800"),
        ({"all_per_page_noise": 850.0}, "900 to 800: **1.12**"),
        ({"promoted": 29}, "hardly any promoted"),
        ({"all_per_page": None}, "-"),
    ],
)
def test_what_is_no_figure(ours: dict[str, Any], text: str) -> None:
    made = scenario(
        {
            "numab2": figures(all_per_page=800.0, all_per_fast=1.0),
            "tiershift": figures(**{"all_per_page": 900.0, "all_per_fast": 1.0, **ours}),
        }
    )
    assert times(summary.against({"one": made}), "one", "all_per_page") == text


def test_a_rival_that_costs_nothing_is_no_divisor() -> None:
    made = scenario({"numab2": figures(all_per_page=0.0), "tiershift": figures(all_per_page=5.0)})
    assert times(summary.against({"one": made}), "one", "all_per_page") == "5 to 0"


def test_ratios_are_below_the_oracle() -> None:
    made = scenario(
        {
            "numab2": figures(hit_ratio_end=0.9),
            "tiershift": figures(hit_ratio_end=0.87, hit_ratio=0.8),
            "oracle": figures(hit_ratio_end=0.91),
        }
    )
    found = row(summary.ratios({"one": made}), "one")
    assert found["below the oracle, in points"] == "4.0"
    assert (found["tiershift"], found["over the whole run"]) == ("87.0%", "80.0%")
    assert found["damon"] == "-"


def test_a_variant_of_ours_does_not_stand_for_us() -> None:
    made = scenario(
        {"numab2": figures(), "tiershift": figures(hit_ratio_end=0.7)},
        contender("tiershift", "tiershift-once", hot_threshold=1),
    )
    assert row(summary.ratios({"one": made}), "one")["tiershift"] == "70.0%"


def test_only_comparisons_are_shown() -> None:
    both = {"numab2": figures(), "tiershift": figures()}
    results = {
        "alone": scenario({"tiershift": figures()}),
        "sweep-one": scenario(both),
        "thp": {"kernel": {"flavour": "tiershift", "key": "k"}, "date": "d"},
        "one": scenario(both),
    }
    assert [name for name, _ in summary.scenarios(results)] == ["one"]


def test_repeated_says_what_the_turns_allow_to_say() -> None:
    turns = [
        {
            mode: {**dict.fromkeys(repeats.SHOWN, 100.0), "all_per_page": value}
            for mode, value in (("none", 0.0), ("numab2", 100.0), ("tiershift", ours))
        }
        for ours in (80.0, 82.0, 84.0)
    ]
    found = row(summary.repeated({"repeats-x": {"scenario": "x", "turns": turns}}), "x")
    assert found["turns"] == "3"
    key = next(head for head in found if head.startswith(summary.HEADS["all_per_page"]))
    assert found[key] == "0.820 ± 0.012 met"
    key = next(head for head in found if head.startswith(summary.HEADS["app_per_page"]))
    assert found[key] == "1.000 ± 0.000 MISSED"


def test_kernels_are_ours_and_the_newest_come_first() -> None:
    results = {
        "one": scenario({"numab2": figures(), "tiershift": figures()}),
        "soak": {"kernel": {"flavour": "debug", "key": "k"}, "date": "a later day"},
        "old": {"kernels": [{"flavour": "base", "key": "b"}], "date": "z"},
        "models": {"date": "z"},
    }
    rows = summary.kernels(results)[1:]
    assert [line[0] for line in rows] == ["`tiershift key of tiershift`", "`debug k`"]
    assert rows[0][1] == "day of tiershift"
    assert rows[1][2] == "[soak](soak.md)"


def test_failed_are_quoted() -> None:
    results: dict[str, dict[str, Any]] = {
        "one": {"failures": ["fell over"], "missed": ["too slow"]},
        "two": {"failures": 3},
    }
    assert summary.failed(results) == ["[one](one.md): too slow", "[one](one.md): fell over"]


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no results"):
        summary.read(tmp_path)


def test_command_writes_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(cache, "PROJECT", tmp_path)
    (tmp_path / "results").mkdir()
    made = scenario({"numab2": figures(), "tiershift": figures()})
    (tmp_path / "results" / "one.json").write_text(json.dumps(made), encoding="utf-8")
    assert cli.main(["summary"]) == 0
    assert "[one](one.md)" in (tmp_path / "results" / "summary.md").read_text(encoding="utf-8")


def test_the_page_is_of_the_results_beside_it() -> None:
    page = cli.RESULTS / f"{summary.NAME}.md"
    assert page.read_text(encoding="utf-8") == summary.markdown(summary.read(cli.RESULTS)), (
        "results have changed: run `make summary`"
    )
