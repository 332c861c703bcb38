# SPDX-License-Identifier: GPL-2.0
"""The study of what is off: what is counted, its limits and its lines, from made-up counts."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, parsed, verdicts, written

from lab import boots, build, instruments, off
from lab.errors import LabError
from lab.results import finish, ledger

SIDES = (off.BASE, off.OURS)
PAGES = 16384
SAID = {
    "munmap": {"case": "munmap", "ms": 1.5},
    "aging": {"case": "young", "pages": PAGES, "young": PAGES - 5, "old": 5},
}


def _log(**changes: dict[str, Any]) -> str:
    said = {name: {"ops": 1000} for name in off.CASES} | SAID | changes
    return "".join(f"CASE {name}\nREADY\nRESULT {json.dumps(said[name])}\n" for name in off.CASES)


def _result(symbols: dict[str, int] | None = None, **kinds: int) -> instruments.InsnResult:
    """Counts of CPU 0; those of CPU 1 and of kernel threads are none of a case's."""
    return instruments.InsnResult(
        total=instruments.InsnTable(
            (),
            {
                name: instruments.SymbolCount(name, (insn, 7), (0, 0), (0, 0))
                for name, insn in (symbols or {}).items()
            },
        ),
        phases={},
        kinds={
            kind: instruments.KindCount((kinds.get(kind, 0), 10**9), (10**9, 0))
            for kind in off.KINDS
        },
        apart=(0, 0),
        unmatched=0.0,
    )


def _facts(share: float, *others: float) -> dict[str, Any]:
    """The unmodified kernel's boots count 1,000, ours that times ``share``, and so on."""
    base = [{"insn": 1000.0, "whole": 1100.0}] * 3
    ours = [{"insn": 1000.0 * one, "whole": 1200.0} for one in (share, *(others or (share,) * 2))]
    return {
        **FACTS,
        "kernels": {name: {**KERNEL, "flavour": name} for name in SIDES},
        "counted": {name: {off.BASE: base, off.OURS: ours} for name in off.CASES},
        "symbols": {name: [("f", 10.0, 12.5)] for name in off.CASES},
    }


def test_a_guest_runs_every_case() -> None:
    built = {case.program: Path("/programs") / case.program for case in off.CASES.values()}
    text = off.script(built)
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    assert re.findall(r"^echo CASE (\w+)$", text, re.MULTILINE) == [*off.CASES]
    assert all(f'"$out/{name}.json"' in text for name in off.CASES)
    # A program that executes itself needs a file with page cache, and its path.
    assert f"{off.COPY} --case exec" in text and "/programs/offcost --case" not in text
    assert text.index("tier/enabled") < text.index("CASE")


def test_programs_say_how_often() -> None:
    found = off.operations(_log())
    assert found == dict.fromkeys(off.CASES, 1000) | {"munmap": 32768, "aging": PAGES}
    with pytest.raises(LabError, match="100 of 16384 pages were young"):
        off.operations(_log(aging={"pages": PAGES, "young": 100}))
    with pytest.raises(LabError, match="some cases have not run"):
        off.operations(_log().rpartition("CASE ")[0])
    with pytest.raises(LabError, match="read has printed no result"):
        off.operations("CASE read\nREADY\n")


def test_interrupts_and_free_lists_do_not_count() -> None:
    result = _result(other=5000, work=2000, read=300, copy=400, buddy=600)
    found = off.counted(off.CASES["munmap"], result, 100)
    assert found == {"insn": 20, "whole": 33}
    assert off.counted(off.CASES["read"], result, 100) == {"insn": 3, "whole": 33}
    with pytest.raises(LabError, match="nothing was counted"):
        off.counted(off.CASES["read"], _result(work=1), 1)


def test_functions_have_the_names_of_the_compiler(tmp_path: Path) -> None:
    names = [name for functions in off.KINDS.values() for name in functions]
    names[names.index("inc_max_seq")] = "inc_max_seq.constprop.0"
    path = tmp_path / "System.map"

    def write(some: list[str]) -> None:
        path.write_text("".join(f"{0x1000 + i:x} T {name}\n" for i, name in enumerate(some)))

    write([*names, "ksys_read_more"])
    found = off.kinds(path)
    assert [*found] == [*off.KINDS] and found["read"] == ["ksys_read"]
    assert "inc_max_seq.constprop.0" in found["generations"]
    write([name for name in names if name != "folio_mc_copy"])
    with pytest.raises(LabError, match="none of folio_mc_copy"):
        off.kinds(path)


def test_functions_that_differ_most() -> None:
    base = [off.by_symbol(_result({"f": 1000, "g": n, "h": 0}).total, 100) for n in (10, 20, 30)]
    ours = [{"f": 12.5, "new": 1.0, "g": 0.2}] * 3
    assert base[0] == {"f": 10, "g": 0.1}
    assert off.differing(base, ours) == [("f", 10, 12.5), ("new", 0, 1), ("g", 0.2, 0.2)]
    many = [{f"f{n:02}": float(n) for n in range(20)}]
    assert len(off.differing(many, [{}])) == off.SHOWN


def test_lines_of_the_study(tmp_path: Path) -> None:
    lines = written(off.STUDY, off.runs(_facts(1.004, 1.002, 1.003)), tmp_path)
    assert len(lines) == len(off.CASES)
    assert {verdict for line in lines.values() for verdict in verdicts(line)} == {ledger.MET}
    read = lines["read(2) of 4 KiB of page cache"]
    assert read.kernel == "tiershift k" and (read.goals[0].value, read.goals[0].limit) == (
        1.003,
        1.005,
    )
    assert read.figures == {
        "base": 1000,
        "off": 1003,
        "share": 1.003,
        "spread": 0.001994,
        "whole": 1.0909,
    }


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ((1.0049,), ledger.MET),
        ((1.0051,), ledger.MISSED),
        ((1.018, 1.019, 1.017), ledger.MISSED),
        # Boots of one kernel differ by more than ours do from the unmodified one.
        ((1.006, 1.010, 1.001), ledger.UNSEEN),
    ],
)
def test_verdict(shares: tuple[float, ...], verdict: str, tmp_path: Path) -> None:
    facts = _facts(*shares)
    lines = written(off.STUDY, off.runs(facts), tmp_path)
    assert {found for line in lines.values() for found in verdicts(line)} == {verdict}
    assert bool(off.explained(facts)) == (verdict != ledger.MET)
    assert not off.explained(facts) or "f " in off.explained(facts)[1]


def test_boots_are_in_turns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Kernel:
        def __init__(self, flavour: str) -> None:
            self.flavour = flavour

        def describe(self) -> dict[str, str]:
            return {**KERNEL, "flavour": self.flavour}

    booted: list[str] = []

    def boot(_study: str, label: str, *_args: object, **_more: object) -> tuple[str, Path]:
        booted.append(label)
        return _log(), tmp_path

    monkeypatch.setattr(boots, "boot", boot)
    monkeypatch.setattr(build, "kernel", Kernel)
    monkeypatch.setattr(
        instruments, "read_insn", lambda _path: _result({"f": 5}, work=4000, read=4000)
    )
    recorded: list[int] = []
    monkeypatch.setattr(ledger, "record", lambda _n, _f, runs, _g: recorded.append(len(runs)))
    assert off.STUDY.run(parsed(off.STUDY))
    assert booted == [f"{flavour} {number}" for number in (1, 2, 3) for flavour in SIDES]
    assert off.STUDY.run(parsed(off.STUDY, "--runs", "1"))
    assert recorded == [len(off.CASES)]
    assert finish.PART in capsys.readouterr().out
