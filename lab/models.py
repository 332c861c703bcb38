# SPDX-License-Identifier: GPL-2.0
"""Promela models: verify them with Spin, and see each of their mutations fail.

A model is a file of a room's directory below models/ (lab/manifest.py).  Its head comment has a
title, and a table of switches:

    MUT_NAME <tab> what must be found <tab> what it breaks

What must be found are invariants (I1, ... of common.pml), "deadlock" (an invalid end state) or
"cycle" (an acceptance cycle: something is never done; such a switch is tried with -DLIVE).

Each model is run as it is, where no error may be found, the search must have been
complete and every statement must have been reached; with -DREACH, where every REACHED() of
it must be found, so that its properties are about something; with -DLIVE if it has a part
for that; and once with each switch.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from lab import cache, manifest, run, scenario
from lab.errors import LabError
from lab.results import finish, ledger
from lab.results.study import Column, Study

SHARED = "common.pml"
DEADLOCK, CYCLE = "deadlock", "cycle"
MEMORY_MB = 1024
DEPTH = 250_000
TIMEOUT_S = 120

_SWITCH = re.compile(r"^ \*\t(MUT_\w+)\t+([^\t]+)\t(.+)$")
_INVARIANTS = re.compile(r"^hidden byte (I\d+(?:, I\d+)*);", re.MULTILINE)
_GOALS = re.compile(r"^hidden byte (R_[^;]+);", re.MULTILINE)
_ERROR = re.compile(
    r"^pan:\d+: (?:assertion violated (?P<name>\w+)|(?P<end>invalid end state)"
    r"|(?P<cycle>acceptance cycle)|(?P<other>.*?)) *\(at depth"
)
_STATE = re.compile(r"^\tstate +(\d+) -.*\] \S+\.pml:(\d+) => (.*)$")
_UNREACHED = re.compile(r'^\t(\S+\.pml):(\d+), state (\d+), "(.*)"$')


@dataclasses.dataclass(frozen=True)
class Switch:
    """A mutation, and what it must lead to."""

    name: str
    expected: tuple[str, ...]
    text: str

    @property
    def live(self) -> bool:
        return CYCLE in self.expected


@dataclasses.dataclass(frozen=True)
class Model:
    """What the file says about itself."""

    name: str
    path: Path
    title: str
    switches: tuple[Switch, ...]
    goals: tuple[str, ...]
    checked: tuple[str, ...]
    live: bool

    def defines(self) -> list[str]:
        """The runs of this model: "" is the model as it is."""
        return ["", "REACH", *(["LIVE"] if self.live else []), *(s.name for s in self.switches)]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run found."""

    model: str
    define: str
    expected: tuple[str, ...]
    found: tuple[str, ...]
    states: int
    depth: int
    complete: bool
    unreached: tuple[str, ...]
    seconds: float

    def failures(self) -> list[str]:
        """What is not as it must be."""
        where = f"{self.model} {self.define}".rstrip()
        failures = [
            f"{where}: {name} was not found" for name in self.expected if name not in self.found
        ]
        if self.define in ("", "REACH", "LIVE"):
            failures += [
                f"{where}: {name} was found" for name in self.found if name not in self.expected
            ]
            if not self.complete:
                failures.append(f"{where}: the search was not complete")
        failures += [f"{where}: never reached: {place}" for place in self.unreached]
        return failures


def invariants(directory: Path) -> tuple[str, ...]:
    """The invariants of a directory's models, as what they share declares them."""
    path = directory / SHARED
    found = _INVARIANTS.search(path.read_text(encoding="utf-8")) if path.exists() else None
    if not found:
        raise LabError(f"{path} declares no invariants", "add a line: hidden byte I1, I2;")
    return tuple(found[1].split(", "))


def load(path: Path) -> Model:
    """Read a model; its table must name the switches that it has, and no others."""
    text = path.read_text(encoding="utf-8")
    head, _, body = text.partition("\n */\n")
    head += "\n"
    switches = tuple(
        Switch(match[1], tuple(match[2].split()), match[3])
        for line in head.splitlines()
        if (match := _SWITCH.match(line))
    )
    named = [switch.name for switch in switches]
    used = set(re.findall(r"\bMUT_\w+", body))
    if sorted(named) != sorted(used):
        wrong = ", ".join(sorted(used.symmetric_difference(named))) or "a name twice"
        raise LabError(f"{path.name}: the table of switches and the model differ: {wrong}")
    known = invariants(path.parent)
    for switch in switches:
        if strange := set(switch.expected) - {*known, DEADLOCK, CYCLE}:
            raise LabError(f"{path.name}: {switch.name} is to find {', '.join(strange)}")
    title = re.search(r"^ \* (.+)$", text.partition("\n/*\n")[2], re.MULTILINE)
    if not title:
        raise LabError(f"{path.name} has no head comment")
    return Model(
        name=path.stem,
        path=path,
        title=title[1].rstrip("."),
        switches=switches,
        goals=tuple(goal for line in _GOALS.findall(body) for goal in line.split(", ")),
        checked=tuple(sorted(set(re.findall(r"\bCHECK\((I\d+)", body)), key=known.index)),
        live="#ifdef LIVE" in body,
    )


def load_all() -> list[Model]:
    """All models of all rooms, by directory and name."""
    directories = manifest.model_directories()
    paths = [path for one in directories for path in sorted(one.glob("*.pml"))]
    models = [load(path) for path in paths if path.name != SHARED]
    names = [model.name for model in models]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise LabError(f"two models have the same name: {', '.join(twice)}", "rename one")
    return models


@contextlib.contextmanager
def _built(model: Model, defines: Sequence[str], *flags: str) -> Iterator[Path]:
    """A directory with the verifier of a model, pan."""
    live = "LIVE" in defines
    with tempfile.TemporaryDirectory(prefix="lab-models-") as name:
        directory = Path(name)
        for path in sorted(model.path.parent.glob("*.pml")):
            shutil.copy(path, directory)
        todo = "correct the model, or run `./bootstrap.sh` if Spin is missing"
        options = [f"-D{define}" for define in defines]
        # -o3: each statement stays one, so that unreached ones are all seen
        argv = ["spin", *options, "-o3", "-a", model.path.name]
        said = run.output(argv, cwd=directory, todo=todo)
        if not (directory / "pan.c").exists():
            raise LabError(f"spin has made no verifier of {model.path.name}:\n{said}", todo)
        kind = ["-DNFAIR=3"] if live else ["-DSAFETY", "-DNOFAIR"]
        run.output(
            ["gcc", "-w", *flags, *kind, f"-DMEMLIM={MEMORY_MB}", "-o", "pan", "pan.c"],
            cwd=directory,
        )
        yield directory


def _message(match: re.Match[str]) -> str:
    if match["end"]:
        return DEADLOCK
    if match["cycle"]:
        return CYCLE
    return match["name"] or match["other"]


def _search(directory: Path, live: bool, enough: Sequence[str]) -> tuple[list[str], str]:
    """Errors by name, and pan's output; stops as soon as ``enough`` have been found."""
    # Line by line, or a few errors would wait in a buffer until the end of the search
    argv = ["stdbuf", "-oL", "timeout", str(TIMEOUT_S), "./pan", f"-m{DEPTH}", "-w20"]
    argv += ["-a", "-f", "-c1"] if live else ["-c0"]
    found: dict[str, None] = {}
    lines: list[str] = []
    with subprocess.Popen(
        argv,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if match := _ERROR.match(line):
                found[_message(match)] = None
                if enough and found.keys() >= set(enough):
                    process.terminate()
                    break
            else:
                lines.append(line)
    return list(found), "".join(lines)


def _unreached(directory: Path, output: str) -> list[str]:
    """Statements that were never executed, in any process.

    What is inline is a part of several processes, and each may need another part of it.
    """
    Statement = tuple[int, str]  # line and text; `pan -d` does not know the right file
    missed: dict[str, set[int]] = {}
    places: dict[Statement, str] = {}
    process = ""
    for line in output.splitlines():
        if line.startswith("unreached in "):
            process = line.removeprefix("unreached in ")
        elif (match := _UNREACHED.match(line)) and match[4] != "-end-":
            missed.setdefault(process, set()).add(int(match[3]))
            places[int(match[2]), match[4]] = f"{match[1]}:{match[2]}: {match[4]}"
    if not places:
        return []
    for line in run.output(["./pan", "-d"], cwd=directory).splitlines():
        if match := _STATE.match(line):
            if int(match[1]) not in missed.get(process, ()):
                places.pop((int(match[2]), match[3]), None)
        elif line and not line.startswith("\t"):
            process = line
    return sorted(places.values())


def _expected(model: Model, define: str) -> tuple[str, ...]:
    if define == "REACH":
        return model.goals
    return next((s.expected for s in model.switches if s.name == define), ())


def verify(model: Model, define: str = "") -> Outcome:
    """One run of a model."""
    began = time.monotonic()
    expected = _expected(model, define)
    mutated = define.startswith("MUT_")
    live = define == "LIVE" or CYCLE in expected
    defines = [define] if define else []
    if live and mutated:
        defines.append("LIVE")
    # Most runs are shorter than the compiler would optimise.
    with _built(model, defines, "-O0" if mutated or define == "REACH" else "-O1") as directory:
        found, output = _search(directory, live, expected if mutated else ())
        unreached = _unreached(directory, output) if not define else []
    states = re.search(r"^ *(\d+) states, stored", output, re.MULTILINE)
    depth = re.search(r"depth reached (\d+)", output)
    return Outcome(
        model=model.name,
        define=define,
        expected=expected,
        found=tuple(found),
        states=int(states[1]) if states else 0,
        depth=int(depth[1]) if depth else 0,
        complete=(
            "Full statespace search for:" in output
            and states is not None
            and (not live or "(fairness enabled)" in output)
            and not re.search(r"^error:|not completed|out of memory|too small", output, re.M)
        ),
        unreached=tuple(unreached),
        seconds=round(time.monotonic() - began, 2),
    )


def holds_as_before(model: Model, define: str) -> list[str]:
    """What ``verify`` finds wrong; what was found to be right is not searched again.

    A search has the same end each time: it is done once for each model, checker and compiler.
    """
    facts: list[str | bytes] = [define, model.name, Path(__file__).read_bytes()]
    facts += [run.output(tool) for tool in (["spin", "-V"], ["gcc", "--version"])]
    facts += [path.read_bytes() for path in sorted(model.path.parent.glob("*.pml"))]
    kept = cache.sub("models") / cache.key(facts)
    if kept.exists():
        return []
    failures = verify(model, define).failures()
    if not failures:
        kept.touch()
    return failures


def trail(model: Model, define: str) -> str:
    """The steps of a counterexample: a shortest one, unless it is a cycle."""
    if define not in [switch.name for switch in model.switches]:
        names = ", ".join(switch.name for switch in model.switches)
        raise LabError(f"{model.name} has no switch {define!r}", f"there are: {names}")
    live = CYCLE in _expected(model, define)
    defines = [define, *(["LIVE"] if live else [])]
    with _built(model, defines, "-O1", *([] if live else ["-DREACH"])) as directory:
        argv = ["./pan", f"-m{DEPTH}", *(["-a", "-f"] if live else ["-i"])]
        run.output(argv, cwd=directory)
        if not (directory / f"{model.path.name}.trail").exists():
            raise LabError(f"{model.name} {define}: nothing was found")
        options = [f"-D{name}" for name in defines]
        argv = ["spin", *options, "-t", "-p", "-g", "-l", model.path.name]
        return run.output(argv, cwd=directory)


# --- runs ----------------------------------------------------------------------


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A line for each model: its search, what it reaches, and its mutations."""
    outcomes = [Outcome(**one) for one in facts["runs"]]
    return [
        _run_of({one.define: one for one in outcomes if one.model == name})
        for name in dict.fromkeys(one.model for one in outcomes)
    ]


def _run_of(mine: Mapping[str, Outcome]) -> ledger.Run:
    plain, reach = mine[""], mine["REACH"]
    searches = [plain, *([mine["LIVE"]] if "LIVE" in mine else [])]
    mutated = [one for define, one in mine.items() if define.startswith("MUT_")]
    caught = [one for one in mutated if not one.failures()]
    reached = set(reach.found) & set(reach.expected)
    figures = {
        "states": max(one.states for one in searches),
        "depth": plain.depth,
        "reached": len(reached),
        "situations": len(reach.expected),
        "caught": len(caught),
        "mutations": len(mutated),
    }
    good = finish.verdict(not any(one.failures() for one in searches))
    goals = [
        ledger.Goal("holds", good),
        ledger.Goal(
            "situations reached",
            finish.verdict(not reach.failures()),
            len(reached),
            len(reach.expected),
        ),
        ledger.Goal(
            "mutations found",
            finish.verdict(len(caught) == len(mutated)),
            len(caught),
            len(mutated),
        ),
    ]
    return ledger.Run(
        plain.model,
        figures,
        goals=goals,
        checks=[failure for one in mine.values() for failure in one.failures()],
        seconds=sum(one.seconds for one in mine.values()),
    )


# --- all together --------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: all")
    parser.add_argument(
        "--trail", metavar="MODEL:SWITCH", help="print the counterexample of a mutation"
    )


def _named(known: Sequence[Model], name: str) -> Model:
    for model in known:
        if model.name == name:
            return model
    names = ", ".join(model.name for model in known)
    raise LabError(f"there is no model {name!r}", f"there are: {names}")


def _run(args: argparse.Namespace, stream: TextIO = sys.stderr) -> bool:
    """Every run of the models; True if all is well."""
    known = load_all()
    if args.trail:
        name, _, switch = args.trail.partition(":")
        print(trail(_named(known, name), switch))
        return True
    models = [_named(known, name) for name in dict.fromkeys(args.models)] or known
    began = time.time()
    total = sum(len(model.defines()) for model in models)
    outcomes: list[Outcome] = []
    for model in models:
        for define in model.defines():
            outcome = verify(model, define)
            outcomes.append(outcome)
            verdict = "FAILED" if outcome.failures() else " ".join(outcome.found) or "verified"
            title = f"{model.name} {define}".rstrip()
            print(
                f"[models] {len(outcomes)}/{total} {title}: {verdict} ({outcome.seconds:.1f} s)",
                file=stream,
                flush=True,
            )
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        spin=run.output(["spin", "-V"]).strip(),
        compiler=run.output(["gcc", "--version"]).partition("\n")[0],
        runs=[dataclasses.asdict(outcome) for outcome in outcomes],
    )
    return finish.finish(STUDIES[0], facts, runs(facts), whole=len(models) == len(known))


STUDIES = (
    Study(
        name="models",
        title="MIGRC: Promela models of its rules",
        what="Spin searches all states of each model in models/migrc for a violation. It must "
        "find one in each mutation of a model, and none in the model itself.",
        columns=(
            Column("states", "states"),
            Column("depth", "depth"),
            Column("reached", "situations reached"),
            Column("situations", "of"),
            Column("caught", "mutations found"),
            Column("mutations", "of"),
        ),
        minutes=3,
        run=_run,
        arguments=arguments,
        notes=(
            "Every search is complete, without bit state hashing or hash compaction.",
            "Situations are what a property is about. They must come up.",
            "A mutation is found if each invariant that the model names for it is violated.",
            "models/migrc/README.md says what the models are about. No kernel runs.",
        ),
        flavour="",
    ),
)
