# SPDX-License-Identifier: GPL-2.0
"""How models are read, verified and recorded; that the rooms' models hold is
tests/boot/test_model_checks.py."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from recorded import FACTS, parsed, verdicts, written

from lab import manifest, models
from lab.errors import LabError
from lab.results import finish, ledger

STUDY = models.STUDIES[0]
MODELS = {model.name: model for model in models.load_all()}
DIRECTORIES = manifest.model_directories()
SHARED = DIRECTORIES[0] / models.SHARED

GOOD = """/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two that count.
 *
 * Each of these switches must give a counterexample:
 *\tMUT_TWICE\tI1\tone of them counts once more
 */
#include "common.pml"
hidden byte R_TWO;
byte n;
active [2] proctype count()
{
	n++;
#ifdef MUT_TWICE
	n++;
#endif
	atomic { CHECK(I1, n <= 2); REACHED(R_TWO, n == 2) }
}
"""


def make(directory: Path, text: str = GOOD) -> models.Model:
    """A small model in a directory of its own."""
    (directory / models.SHARED).write_text(SHARED.read_text(encoding="utf-8"), encoding="utf-8")
    path = directory / "small.pml"
    path.write_text(text, encoding="utf-8")
    return models.load(path)


def of(directory: Path) -> list[models.Model]:
    """The models of a directory."""
    return [model for model in MODELS.values() if model.path.parent == directory]


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda directory: directory.name)
def test_every_invariant_is_checked_and_can_be_violated(directory: Path) -> None:
    checked = {name for model in of(directory) for name in model.checked}
    assert checked == set(models.invariants(directory))
    for model in of(directory):
        expected = {name for switch in model.switches for name in switch.expected}
        assert expected >= set(model.checked), model.name
        assert model.goals, model.name


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda directory: directory.name)
def test_readme_names_every_model_and_mutation(directory: Path) -> None:
    readme = (directory / "README.md").read_text(encoding="utf-8")
    for model in of(directory):
        assert f"`{model.path.name}`" in readme
        for switch in model.switches:
            assert re.search(rf"\| {model.name} \|[^\n]*`{switch.name}`", readme), switch.name
    named = set(re.findall(r"`(MUT_\w+)`", readme))
    assert named == {switch.name for model in of(directory) for switch in model.switches}


def test_what_declares_no_invariants_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="declares no invariants"):
        models.invariants(tmp_path)


def test_a_good_model_is_good(tmp_path: Path) -> None:
    model = make(tmp_path)
    assert (model.title, model.checked, model.goals) == ("Two that count", ("I1",), ("R_TWO",))
    for define in model.defines():
        assert models.verify(model, define).failures() == []


def test_what_holds_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path / "cache"))
    searched: list[str] = []
    verify = models.verify

    def counted(model: models.Model, define: str) -> models.Outcome:
        searched.append(define)
        return verify(model, define)

    monkeypatch.setattr(models, "verify", counted)
    model = make(tmp_path)
    for define in ("", "MUT_TWICE", "", "MUT_TWICE"):
        assert models.holds_as_before(model, define) == []
    assert searched == ["", "MUT_TWICE"]
    # What is wrong is found each time, and what is changed is searched again.
    wrong = make(tmp_path, GOOD.replace("n <= 2", "n <= 1"))
    for _ in range(2):
        assert models.holds_as_before(wrong, "") == ["small: I1 was found"]
    assert searched[2:] == ["", ""]


@pytest.mark.parametrize(
    ("change", "define", "words"),
    [
        (("\tn++;\n#endif", "\tskip;\n#endif"), "MUT_TWICE", "I1 was not found"),
        (("n <= 2", "n <= 1"), "", "I1 was found"),
        (("n == 2)", "n == 3)"), "REACH", "R_TWO was not found"),
        (("active [2]", "active [1]"), "REACH", "R_TWO was not found"),
        (("\tn++;\n#ifdef", "\tn++;\n\tdo\n\t:: n == 9 -> n++\n\t:: else -> break\n\tod;\n#ifdef"),
         "", "never reached: small.pml:15: n = (n+1)"),
        (("\tn++;\n#ifdef", "\tn++;\n\tn == 9;\n#ifdef"), "", "deadlock was found"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_noticed(
    tmp_path: Path, change: tuple[str, str], define: str, words: str
) -> None:
    assert change[0] in GOOD
    failures = models.verify(make(tmp_path, GOOD.replace(*change)), define).failures()
    assert any(words in failure for failure in failures), failures


def test_a_search_that_is_not_complete_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "DEPTH", 3)
    assert "small: the search was not complete" in models.verify(make(tmp_path)).failures()


def test_cycles_and_deadlocks_are_told_apart(tmp_path: Path) -> None:
    live = GOOD.replace("MUT_TWICE\tI1", "MUT_TWICE\tcycle").replace(
        "byte n;", "byte n;\n#ifdef LIVE\nltl ends { <> [] (n == 2) }\n#endif"
    )
    live = live.replace("#ifdef MUT_TWICE\n\tn++;", "#ifdef MUT_TWICE\n\tdo :: n = 1 od;")
    model = make(tmp_path, live)
    assert model.live
    assert models.verify(model, "LIVE").failures() == []
    assert models.verify(model, "MUT_TWICE").found == (models.CYCLE,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("#ifdef MUT_TWICE", "#ifdef MUT_OTHER"), "differ: MUT_OTHER, MUT_TWICE"),
        (("\tI1\t", "\tI11\t"), "MUT_TWICE is to find I11"),
    ],
)
def test_a_table_that_is_wrong_is_refused(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    with pytest.raises(LabError, match=words):
        make(tmp_path, GOOD.replace(*change))


def test_a_model_with_an_error_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="syntax error"):
        models.verify(make(tmp_path, GOOD.replace("n++;", "n+;")))


def test_a_counterexample_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert STUDY.run(parsed(STUDY, "--trail", "unmap:MUT_BATCHED"))
    steps = capsys.readouterr().out
    assert "text of failed assertion: assert(I" in steps
    assert "trail ends after" in steps
    with pytest.raises(LabError) as error:
        STUDY.run(parsed(STUDY, "--trail", "unmap:MUT_NOTHING"))
    assert "MUT_BATCHED" in error.value.todo
    with pytest.raises(LabError, match="no model 'unmapped'"):
        STUDY.run(parsed(STUDY, "unmapped"))


def test_some_of_the_models_are_not_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded: list[int] = []
    monkeypatch.setattr(ledger, "record", lambda _n, _f, runs, _g: recorded.append(len(runs)))
    monkeypatch.setattr(
        models, "verify", lambda model, define: models.Outcome(**outcome(define, model=model.name))
    )
    assert STUDY.run(parsed(STUDY, "switch"))
    assert finish.PART in capsys.readouterr().out and not recorded
    monkeypatch.setattr(models, "load_all", lambda: [MODELS["switch"]])
    assert STUDY.run(parsed(STUDY)) and recorded == [1]


def outcome(define: str, expected: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """A run as JSON has it: lists."""
    found: dict[str, Any] = {"model": "small", "define": define}
    found |= {"expected": [*expected], "found": [*expected]}
    found |= {"states": 100, "depth": 7, "complete": True, "unreached": [], "seconds": 1.5}
    return {**found, **more}


def test_lines_of_the_models(tmp_path: Path) -> None:
    runs = [
        outcome(""),
        outcome("REACH", ["R_ONE", "R_TWO"], states=5),
        outcome("LIVE", states=300),
        outcome("MUT_A", ["I2", "I1"], complete=False),
        outcome("MUT_B", ["cycle"]),
    ]
    line = written(STUDY, models.runs({**FACTS, "runs": runs}), tmp_path)["small"]
    assert line.figures == {
        **{"states": 300, "depth": 7, "reached": 2, "situations": 2},
        **{"caught": 2, "mutations": 2},
    }
    assert (verdicts(line), line.checks, line.seconds) == ([ledger.MET] * 3, [], 7.5)
    assert not line.kernel and (line.goals[2].value, line.goals[2].limit) == (2, 2)
    for change, number, words in (
        ({"found": ["I1"]}, 0, "I1 was found"),
        ({"complete": False}, 0, "not complete"),
        ({"unreached": ["a.pml:1: x"]}, 0, "never reached"),
        ({"found": ["R_ONE"]}, 1, "R_TWO was not found"),
        ({"complete": False}, 2, "LIVE: the search was not complete"),
        ({"found": ["I1"]}, 3, "I2 was not found"),
        ({"found": []}, 4, "MUT_B: cycle was not found"),
    ):
        wrong = [{**one, **change} if n == number else one for n, one in enumerate(runs)]
        line = written(STUDY, models.runs({**FACTS, "runs": wrong}), tmp_path)["small"]
        assert len(line.checks) == 1 and words in line.checks[0]
        missed = {0: 0, 1: 1, 2: 0, 3: 2, 4: 2}[number]
        assert verdicts(line) == [ledger.MISSED if n == missed else ledger.MET for n in range(3)]
