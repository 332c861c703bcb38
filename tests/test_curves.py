# SPDX-License-Identifier: GPL-2.0
"""The scanner's costs: arithmetic and report, from made-up points with known answers."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from lab import cli, curves
from lab.errors import LabError
from lab.instruments import InsnTable, SymbolCount, VcpuCount

MIB = 256  # pages


def symbol(name: str, on_scanner: int) -> tuple[str, SymbolCount]:
    return name, SymbolCount(name, (7, on_scanner, 9), (0, 0, 0), (0, 0, 0))


def table(busy: int, **symbols: int) -> InsnTable:
    other = VcpuCount(0, 0, 0, 10**9, 10**9, 0, 0)
    mine = VcpuCount(0, 0, 0, busy + 1000, busy, 0, 0)  # 1000 in the idle loop
    return InsnTable((other, mine, other), dict(symbol(*item) for item in symbols.items()))


def point(work: int, scanned: int, skipped: int = 0, young: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "phase": 1,
        "seconds": 2.0,
        "cpu_s": 0.5,
        "kmmscand_mm_scanned": 1,
        "kmmscand_pte_scanned": scanned,
        "kmmscand_pte_young": young,
        "kmmscand_pmd_skipped": skipped,
        "pgpromote_success": 0,
        "insn": {"work": work, "waiting": scanned, "scanning": work // 2},
        **more,
    }


def case(name: str, size_mb: int, processes: int = 1, **points: Any) -> dict[str, Any]:
    return {"name": name, "size_mb": size_mb, "processes": processes, "points": points}


def sized(size_mb: int, per_entry: int) -> dict[str, Any]:
    """Two passes that touched all, two that read all, and 16 of which each read a 16th."""
    pages = size_mb * MIB
    regions = pages // 512
    return case(
        f"size-{size_mb}",
        size_mb,
        off=point(2000, 0),
        # ... and 500 entries of other processes
        touched=point(2 * pages * per_entry + 2000, 2 * pages + 500, young=2 * pages),
        read=point(2 * pages * 10 + 2000, 2 * pages, young=2 * regions),
        untouched=point(pages * 40 + 2000, pages, skipped=15 * regions),
    )


def idle_case(per_pass: int) -> dict[str, Any]:
    pages = 64 * MIB
    return case(
        "idle",
        64,
        off=point(0, 0),
        touched=point(pages * 40, pages, young=pages),
        full=point(pages * 10, pages),
        idle=point(per_pass, pages // 16, skipped=30),
    )


def cpu_case(cpu_s: float, percent: int = 25, unlimited: float = 0.5) -> dict[str, Any]:
    # 20 s; 32768 entries, one slice, in each hundredth of the time used.
    limit = point(1, 100 * 32768, seconds=20.0, cpu_s=cpu_s)
    free = point(1, 100 * 32768, seconds=5.0, cpu_s=unlimited * 5)
    return {**case("cpu", 1024), "points": {"limit-100": free, f"limit-{percent}": limit}}


def result(*cases: dict[str, Any]) -> dict[str, Any]:
    curves.derive(cases)
    return {
        "schema": curves.SCHEMA,
        "scenario": curves.NAME,
        "description": curves.DESCRIPTION,
        "command": "python -m lab curves",
        "date": "2026-01-01T00:00:00Z",
        "seconds": 1.0,
        "host": {"qemu": "7.2", "cpus": 2},
        "kernel": {"release": "6.12", "flavour": "tiershift", "key": "k", "base_version": "b"},
        "cases": cases,
        "missed": curves.missed(cases),
        "failures": curves.check(cases),
    }


def test_instructions_are_those_of_the_scanner() -> None:
    found = curves.instructions(
        table(
            5000,
            kmmscand_pmd_entry=1000,
            hotness_touch=200,
            xas_load=30,
            kmmscand_thread=400,  # housekeeping
            schedule=500,
            queued_spin_lock_slowpath=70,
            smp_call_function_many_cond=8,
        )
    )
    assert found == {"work": 5000 - 78, "waiting": 78, "scanning": 1230}


def test_functions_of_a_later_kmmscand_count_as_scanning() -> None:
    assert curves.is_scanning("kmmscand_something_new")
    assert not curves.is_scanning("kpromoted_thread")
    assert not any(curves.is_scanning(name) for name in curves.HOUSEKEEPING)
    assert not any(curves.is_scanning(name) for name in curves.WAIT_SYMBOLS)


def test_cost_of_a_pass() -> None:
    # 512 + 3 * 512 entries of 1024: two passes; 100 per second are not the scanner's.
    figures = curves.cost(point(10_440, 512, skipped=3, young=128), 1024, 5, 100.0, False)
    assert figures == {
        "passes": 2.0,
        "thread": 10_240,
        "per_entry": 20.0,
        "scanning_per_entry": pytest.approx(5220 / 512),
        "waiting_per_entry": 1.0,
        "per_pass": 5120.0,
        "per_process": 1024.0,
        "visited_per_pass": 256.0,
        "read_share": 0.25,
        "young_share": 0.25,
    }


def test_only_what_is_touched_counts_where_all_of_it_is() -> None:
    # 100 more entries and a page table are somebody else's.
    figures = curves.cost(point(20_480, 2148, skipped=1, young=2048), 1024, 1, 0.0, True)
    assert (figures["passes"], figures["per_entry"]) == (2.0, 10.0)
    assert figures["visited_per_pass"] == 1024.0


def test_nothing_visited_has_no_cost() -> None:
    figures = curves.cost(point(1000, 0), 1024, 1, 0.0, False)
    assert figures["per_entry"] is figures["per_pass"] is figures["young_share"] is None


def test_target_per_entry() -> None:
    made = result(sized(256, 60), sized(1024, 61))
    assert made["cases"][0]["points"]["touched"]["figures"]["per_entry"] == pytest.approx(60)
    assert made["missed"] == [
        "size-1024, every page touched: 61.0 instructions per entry visited, "
        "the target is at most 60"
    ]
    assert made["failures"] == []
    # What was not visited was not shown to be cheap.
    nothing = case("size-1", 1, off=point(0, 0), read=point(0, 0))
    assert any("-" in line for line in result(nothing)["missed"])


@pytest.mark.parametrize(("per_pass", "good"), [(16_383, True), (16_384, False)])
def test_idle_target(per_pass: int, good: bool) -> None:
    # A full pass is 16384 entries of 10 instructions; the idle point is one pass, too.
    made = result(idle_case(per_pass))
    figures = made["cases"][0]["points"]["idle"]["figures"]
    assert figures["passes"] == pytest.approx(1)
    assert figures["share_of_full"] == pytest.approx(0.1, rel=0.001)
    assert figures["share_of_touched"] == pytest.approx(0.025, rel=0.001)
    assert (made["missed"] == []) == good
    assert made["failures"] == []


@pytest.mark.parametrize(
    ("cpu_s", "percent", "unlimited", "verdict"),
    [
        # Tolerance at 25 %: a slice of 50 ms, 20 ms / 3, 4 ms, in 20 s.
        (5.06, 25, 0.5, "within"),
        (5.07, 25, 0.5, "above"),
        (3.0, 25, 0.5, "within"),
        (3.0, 25, 0.25, "not needed"),
        (1.02, 5, 0.5, "above"),
        (1.01, 5, 0.5, "within"),
    ],
)
def test_share_of_a_cpu(cpu_s: float, percent: int, unlimited: float, verdict: str) -> None:
    made = result(cpu_case(cpu_s, percent, unlimited))
    figures = made["cases"][0]["points"][f"limit-{percent}"]["figures"]
    assert figures["share"] == pytest.approx(cpu_s / 20)
    assert figures["verdict"] == verdict
    assert bool(made["missed"]) == (verdict == "above")
    assert bool(made["failures"]) == (verdict == "not needed")
    assert made["cases"][0]["points"]["limit-100"]["figures"]["verdict"] is None


def test_without_the_unlimited_share_the_limit_says_nothing() -> None:
    made = cpu_case(5.0)
    del made["points"]["limit-100"]
    assert len(result(made)["failures"]) == 1


def test_tolerance_is_what_is_not_paid_yet() -> None:
    figures = curves.cpu_share(cpu_case(5.0)["points"]["limit-25"], 25, 0.5)
    assert figures["tolerance"] == pytest.approx((0.05 + 0.02 / 3 + 0.004) / 20)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("touched", {"kmmscand_pte_young": 1000}, "of the entries were young"),
        ("untouched", {"kmmscand_pte_young": 10_000}, "of the entries were young"),
        ("read", {"kmmscand_pmd_skipped": 64}, "of the entries were read"),
        ("touched", {"pgpromote_success": 700}, "700 of 65536 pages were promoted"),
    ],
)
def test_what_was_not_as_meant_fails(name: str, change: dict[str, int], words: str) -> None:
    made = sized(256, 50)
    assert result(made)["failures"] == []
    made["points"][name] |= change
    failures = result(made)["failures"]
    assert len(failures) == 1 and words in failures[0]


def test_points_are_read_by_name() -> None:
    lines = ["READY", "DO on", 'POINT {"name":"off","phase":1,"seconds":2.0}', "DONE"]
    assert curves.parse_points(lines) == {"off": {"phase": 1, "seconds": 2.0}}


def test_cases_measure_what_the_report_shows() -> None:
    cases = {made.name: made for made in curves.make_cases([64], 32, 16, [1, 3], 8)}
    assert list(cases) == ["size-64", "idle", "processes-1", "processes-3", "cpu"]
    assert (cases["processes-3"].size_mb, cases["processes-3"].processes) == (16, 3)
    measured = [line.split()[1] for line in cases["size-64"].commands if "measure" in line]
    assert measured == ["off", *curves.LINES]
    # After a pass that clears what was touched before
    settle = cases["size-64"].commands[-3:]
    assert settle == ("touch 0 0", "passes 2", "measure untouched passes 16")
    # After 16 rounds with this pattern
    settle = cases["idle"].commands[-3:]
    assert settle == ("touch 1 0", "passes 16", "measure idle passes 16")
    # The full pass that it is compared with finds the same entries young.
    assert "touch 1 1" in cases["idle"].commands
    for percent, seconds in curves.LIMITS.items():
        at = cases["cpu"].commands.index(f"measure limit-{percent} seconds {seconds}")
        assert cases["cpu"].commands[at - 2] == f"set scan_cpu_pct {percent}"


def test_report_says_what_is_missed(tmp_path: Path) -> None:
    many = case(
        "processes-20",
        64,
        20,
        off=point(0, 0),
        touched=point(16384 * 300, 16384, young=16384),
    )
    made = result(sized(256, 300), sized(1024, 50), idle_case(20_000), many, cpu_case(6.0))
    curves.write(made, tmp_path)
    assert json.loads((tmp_path / "scanner.json").read_text())["missed"] == made["missed"]
    text = (tmp_path / "scanner.md").read_text()
    assert text.startswith("<!-- SPDX-License-Identifier: GPL-2.0 -->")
    assert text.count("**Target missed:**") == len(made["missed"]) == 3
    assert "| 256 MiB, every page touched | 300.0 | MISSED |" in text
    assert "| 1024 MiB, every page touched | 50.0 | met |" in text
    assert "| 64 MiB, 1 % of the 2 MiB regions touched | 20,000 | 6.2% | - | - |" in text
    assert "and one page of each | 163,840 | 100.0% | 12.2% | MISSED |" in text
    assert "| 64 MiB, every page touched | 655,360 | 100.0% | 3.1% | - |" in text
    assert "| 20 | 64 MiB | 4,915,200 | 245,760 | 300.0 |" in text
    assert "| 25 | 30.00% | 0.35 | 20.0 | MISSED |" in text
    assert "they are no seconds of hardware" in text
    plot = ET.fromstring((tmp_path / "scanner.svg").read_text())
    drawn = [item for item in plot.iter() if item.tag.endswith("polyline")]
    assert len(drawn) == 4
    for name in ("", "-idle", "-cpu"):
        assert f"(scanner{name}.svg)" in text and (tmp_path / f"scanner{name}.svg").exists()
    assert "scanner-processes" not in text  # one number of processes is no curve
    shown = io.StringIO()
    curves.show(made, shown)
    assert shown.getvalue().count("TARGET MISSED") == 3


def test_one_size_is_no_curve(tmp_path: Path) -> None:
    curves.write(result(sized(256, 50), sized(512, 50)), tmp_path)
    assert (tmp_path / "scanner.svg").exists()
    curves.write(result(sized(256, 50)), tmp_path)
    assert not (tmp_path / "scanner.svg").exists()
    assert ".svg" not in (tmp_path / "scanner.md").read_text()
    assert "All targets of these cases are met" in (tmp_path / "scanner.md").read_text()


def lines_of(plot: str) -> list[list[tuple[float, float]]]:
    return [
        [(float(x), float(y)) for x, _, y in (p.partition(",") for p in item["points"].split())]
        for item in (line.attrib for line in ET.fromstring(plot).iterfind("{*}polyline"))
    ]


def test_idle_plot_has_a_bar_for_each_pass() -> None:
    cases = [idle_case(65_536)]  # a tenth of a pass that finds all young
    curves.derive(cases)
    plot = ET.fromstring(curves.idle_svg(cases))
    bars = [item.attrib for item in plot.iterfind("{*}rect") if item.attrib["height"] == "13"]
    idle, full, touched = (float(bar["width"]) for bar in bars)
    assert (idle / touched, full / touched) == pytest.approx((0.1, 0.25), abs=0.001)
    assert "0.66" in [item.text for item in plot.iterfind("{*}text")]  # 655,360 of touched
    assert curves.idle_svg([sized(256, 50)]) == ""


def test_process_plot_has_both_costs() -> None:
    def many(processes: int) -> dict[str, Any]:
        touched = point(16384 * 300, 16384, young=16384)
        return case(f"processes-{processes}", 64, processes, off=point(0, 0), touched=touched)

    cases = [many(4), many(1), many(16)]
    curves.derive(cases)
    whole, each = lines_of(curves.process_svg(cases))
    assert [x for x, _ in whole] == [56, 400, 744]  # by powers of two, in order
    assert len({y for _, y in whole}) == 1
    assert [280 - y for _, y in each] == pytest.approx(
        [280 - whole[0][1], (280 - whole[0][1]) / 4, (280 - whole[0][1]) / 16], abs=0.1
    )
    assert curves.process_svg(cases[:1]) == ""


def test_cpu_plot_has_the_share_below_its_limit() -> None:
    cases = [cpu_case(4.0)]  # 20 % of 25, and 50 without a limit
    curves.derive(cases)
    share, limit = lines_of(curves.cpu_svg(cases))
    assert [280 - y for _, y in limit] == pytest.approx([246 / 4, 246])
    assert [280 - y for _, y in share] == pytest.approx([246 / 5, 246 / 2])
    cases[0]["points"].pop("limit-100")
    assert curves.cpu_svg(cases) == ""


def test_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["curves", "size-12"]) == 1
    assert "no case 'size-12'" in capsys.readouterr().err


def test_only_a_whole_run_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cli, "RESULTS", tmp_path / "results")
    made = result(sized(256, 50))
    monkeypatch.setattr(curves, "measure", lambda *_: made)
    assert cli.main(["curves", "idle"]) == 0
    assert cli.main(["curves", "--sizes", "256"]) == 0
    assert not (tmp_path / "results").exists()
    assert cli.main(["curves"]) == 0
    assert (tmp_path / "results" / "scanner.md").exists()
    made["failures"].append("nothing was touched")
    with pytest.raises(LabError, match="do not count"):
        cli.run_curves(cli._parser().parse_args(["curves"]))
