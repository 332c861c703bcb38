# SPDX-License-Identifier: GPL-2.0
"""The study of all parts together: contenders, what is counted, and its lines."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, KERNEL, written

from lab import cache, instruments, programs, scenario, tier, together
from lab.errors import LabError
from lab.together import Figures

SPEC = together.make(together.CONTENDERS[0])
BY_NAME = {contender.name: contender for contender in together.CONTENDERS}
OURS = [one.name for one in together.CONTENDERS if one.mode == "tiershift"]


def _turn(**changes: dict[str, float]) -> dict[str, Figures]:
    """Of a turn in which each part that is on has worked, and no other one."""
    turn: dict[str, Figures] = {}
    for name in BY_NAME:
        row: Figures = dict.fromkeys(column.key for column in together.STUDY.columns)
        for key, switch in together.COUNTED.items():
            on = name in OURS and name != f"without {switch}"
            row[key] = 7.0 if on or (name == "numab2" and key == "promoted") else 0.0
        turn[name] = {**row, "kernel_per_op": 5000.0, **changes.get(name, {})}
    return turn


def _sample(t_ms: int, fast: int, slow: int, region: int = 2) -> instruments.AccessSample:
    """CPU 0 counts; CPU 3 is the virtual machine's, and no case asks for it."""
    nodes = ((fast, slow), (0, 0), (0, 0), (0, 9999), (0, 0))
    return instruments.AccessSample(t_ms, "period", region, 0, True, "", nodes, (0,) * 5)


def _agent(**delta: int) -> dict[str, Any]:
    return {
        "workload": {"ops": 1000},
        "measured": {"delta": delta, "tlb_interrupts": [30, 999, 999, 999, 999]},
        "residency_end": {"0": 25, "1": 75},
    }


HOLDS = {
    "valid": True,
    "why": "",
    "stretches": [
        {"vcpu": 0, "longest": 800, "end": 1},
        {"vcpu": 3, "longest": 90000, "end": 1},
    ],
}


def _table() -> instruments.InsnTable:
    vcpus = tuple(
        instruments.VcpuCount(0, 0, 0, busy + 10, busy, 0, 0) for busy in (5000, 1, 1, 70000, 1)
    )
    waits = instruments.SymbolCount("osq_lock", (500, 0, 0, 0, 0), (0,) * 5, (0,) * 5)
    return instruments.InsnTable(vcpus, {"osq_lock": waits})


def test_each_switch_is_off_once() -> None:
    assert [*BY_NAME] == [
        *("none", "numab2", "tiershift"),
        *(f"without {name}" for name in together.SWITCHES),
    ]
    parts = [part for parts in together.SWITCHES.values() for part in parts]
    assert {*parts} == {*tier.PARTS} - {"postpone"} and len(parts) == len({*parts})


@pytest.mark.parametrize("name", OURS)
def test_parts_that_work(name: str, tmp_path: Path) -> None:
    """What the agent writes before START, the last word for each file."""
    contender = BY_NAME[name]
    spec = together.make(contender)
    external = {program: Path("/bin/true") for program in ("service", "workload")}
    built = programs.build_programs(cache.root() / "programs")
    job = scenario.make_job(spec, contender, tmp_path, built, external)
    written_at_last = dict([*job["settings"], *job["enter"]])
    off = together.SWITCHES.get(name.removeprefix("without "), ())
    for parts in together.SWITCHES.values():
        for part in parts:
            assert written_at_last[tier.enabled(part)] == ("0" if part in off else "1"), part
    assert tier.enabled("postpone") not in written_at_last
    assert job["service"]["argv"][:3] == [str(tmp_path / "bin/true"), "--save", ""]
    assert job["service"]["cpus"] == spec.measure.app_cpus == [together.REDIS_CPU]


def test_nothing_else_differs() -> None:
    redis = scenario.load("redis")
    assert SPEC.load == redis.load and SPEC.placement == redis.placement
    args = " ".join(SPEC.workload.args)
    assert args.replace(f"--ops {together.OPS}", "--ops 500000") == " ".join(redis.workload.args)
    cpus = {together.REDIS_CPU, together.SYSTEM_CPU, together.VM_CPU, *SPEC.workload.cpus}
    assert cpus == set(range(together.CPUS - 1)) == set(range(SPEC.topology.load().vcpus - 1))


def test_wrappers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cache, "sub", lambda _name: tmp_path)
    for name, path in together.wrappers().items():
        text = path.read_text()
        assert "@VM@" not in text and "@RESPLOAD@" not in text
        assert path.stat().st_mode & 0o111
        subprocess.run(["shellcheck", path], check=True)
        # The agent's process is the program itself: it pins, places and ends that.
        assert "exec" in text and text.count('"$@"') == 1, name


def test_virtual_machine_has_run() -> None:
    log = 'READY\nPROGRESS {"t":1.000,"ops":50}\nRedis says\nPROGRESS {"t":2.000,"ops":99}\n'
    assert together.guest_pages(log) == 99
    for bad in ("READY\n", 'PROGRESS {"t":1.000,"ops":0}\n'):
        with pytest.raises(LabError, match="has not run"):
            together.guest_pages(bad)


def test_figures_are_of_the_application(tmp_path: Path) -> None:
    samples = [_sample(0, 0, 0), _sample(32000, 100, 900), _sample(40000, 180, 920)]
    delta = {"pgpromote_success": 40, "pgdemote_kswapd": 2, "tier_batch_folios": 30}
    found = together.figures(_agent(**delta), _table(), samples, HOLDS, SPEC)
    assert found == {
        "kernel_per_op": 4.5,
        "interrupts": 30,
        "stretch": 800,
        "hit_ratio": 180 / 1100,
        "hit_ratio_end": 0.8,
        "on_fast": 0.25,
        "promoted": 40,
        "demoted": 2,
        "batched": 30,
        "deferred": 0,
        "zapped": 0,
        "asked": 0,
    }
    with pytest.raises(LabError, match="START number 1 was measured"):
        together.figures(_agent(), _table(), [_sample(0, 0, 0, 1)], HOLDS, SPEC)
    for bad in ({**HOLDS, "valid": False}, {**HOLDS, "stretches": HOLDS["stretches"][1:]}):  # type: ignore[index]
        with pytest.raises(LabError, match="holds plugin"):
            together.stretch(bad, [0])


def test_lines_of_the_study(tmp_path: Path) -> None:
    turns = [_turn(), _turn(tiershift={"kernel_per_op": 5200.0})]
    facts = {
        **FACTS,
        "kernels": {name: {**KERNEL, "flavour": name} for name in ("base", "tiershift")},
        "turns": turns,
        "failures": together.check(turns),
    }
    assert facts["failures"] == []
    lines = written(together.STUDY, together.runs(facts), tmp_path)
    assert len(lines) == 2 * len(BY_NAME)
    assert lines["tiershift, 2"].figures["kernel_per_op"] == 5200
    assert lines["numab2, 1"].kernel == "base k"
    assert lines["without age, 1"].figures["asked"] == 0
    # Runs that depend on chance have no goal.
    assert not any(line.goals for line in lines.values())


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("none", {"promoted": 3.0}, ["promoted is 3 with promotion off"]),
        ("numab2", {"promoted": 0.0}, ["promoted is 0 with promotion on"]),
        ("tiershift", {"promoted": 0.0}, ["promoted is 0 with promotion on"]),
        ("tiershift", {"batched": 0.0, "asked": 0.0}, ["batched is 0", "asked is 0"]),
        ("tiershift", {"deferred": 0.0, "zapped": 0.0}, []),
        ("without zap", {"zapped": 5.0}, ["zapped is 5 with zap off"]),
        ("without age", {"asked": 5.0}, ["asked is 5 with age off"]),
        ("without promotion", {"promoted": 1.0}, ["promoted is 1 with promotion off"]),
        ("without promotion", {"batched": 0.0, "asked": 0.0}, []),
    ],
)
def test_what_makes_figures_worthless(
    name: str, change: dict[str, float], words: list[str]
) -> None:
    failures = together.check([_turn(**{name: change})])
    assert len(failures) == len(words)
    for failure, word in zip(failures, words, strict=True):
        assert failure.startswith(f"{name}, 1: ") and word in failure
