# SPDX-License-Identifier: GPL-2.0
"""Rules that can be broken: what is declared, and what counts as noticed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_migrc_torture import PROGRAMS

from lab import cache, faults, guest, manifest, rooms, selftests, tier
from lab.faults import Trial
from lab.manifest import Fault, FaultTest

FAULTS = manifest.faults()
TRIALS = [Trial(fault.name, test) for fault in FAULTS for test in fault.tests if test.program]
STALE = FaultTest("migrc/reuse_test", "-r reuse.fork.write", "stale read")
LOG = "TAP version 13\n1..1\n# {}\nnot ok 1 reuse.fork.write\n"
# Selftests of MIGRC that no fault makes fail, and why
UNBROKEN: dict[str, dict[str, str]] = {
    "refuse_test": {"enabled.values": "about values that a file takes and shows"},
}


def test_a_failure_for_another_reason_does_not_count() -> None:
    trial = Trial("defer_wp", STALE)
    assert trial.noticed(LOG.format("stale read: CPU 3 read number 1"), 1)
    assert not trial.noticed(LOG.format("nothing was tested"), 1)
    assert not trial.noticed(LOG.format("stale read").replace("not ok", "ok"), 0)
    assert not trial.noticed(LOG.format("stale read").replace("reuse.fork", "swap"), 1)
    # Two cases, where one was asked for
    assert not trial.noticed(LOG.format("stale read") + "ok 2 reuse.fork.both\n", 1)


@pytest.mark.parametrize("code", [124, 137, 139])
def test_what_is_killed_has_not_noticed(code: int) -> None:
    trial = Trial("defer_wp", STALE)
    assert not trial.noticed("TAP version 13\n1..1\n# stale read\n", code)
    assert not trial.noticed("stale read\n", code)
    assert not trial.noticed("", code)


def test_words_of_plain_programs_are_their_result() -> None:
    trial = Trial(
        "promote_mlocked", FaultTest("tier/promote_test", "mlocked", "mlocked page stays")
    )
    assert trial.noticed("TAP version 13\n1..1\nnot ok 1 mlocked page stays\n", 1)
    assert not trial.noticed("TAP version 13\n1..1\nnot ok 1 bad input\n", 1)


def test_faults_are_set_one_by_one_or_together() -> None:
    assert faults.only() == f"echo N | tee {faults.DIRECTORY}/* > /dev/null"
    both = Trial("defer_unmap", FaultTest("migrc/a_test", "-r b.c", "x", also=("defer_wp",)))
    machine = faults.machines()["readers"]
    program = faults.program(both, machine, Path("/x/migrc-0"), seed=3)
    lines = program.before.split("; ")
    assert lines[0] == faults.only()
    assert lines[1:3] == [f"echo Y > {tier.fault(name)}" for name in ("defer_unmap", "defer_wp")]
    assert lines[-1] == "export MIGRC_SEED=3"
    assert (program.name, program.args) == ("../migrc-0/a_test", "-r b.c")
    assert program.key == "defer_unmap+defer_wp-a_test--r_b.c"


def test_a_test_has_the_last_word() -> None:
    """Its own line comes after that of the machine."""
    one = Trial(
        "defer_cap", FaultTest("migrc/a_test", "-r b", "x", before="export MIGRC_SECONDS=5")
    )
    before = faults.program(one, faults.machines()["readers"], Path("d")).before
    assert before.rindex("MIGRC_SECONDS=5") > before.rindex("MIGRC_SECONDS=12")


@pytest.mark.parametrize("name", faults.machines())
def test_tests_share_a_boot(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the guest's shell gets, and who has noticed; the last test says nothing."""
    machine, wanted = faults.machines()[name], faults.trials(name, long=True)
    scripts: list[str] = []

    def run(_kernel: Path, machine: Any, text: str, *, out_dir: Path, **options: Any) -> None:
        scripts.append(text)
        for one in wanted:
            # Options name the case; of other programs the words are its name.
            case = one.test.args.split()[-1] if one.test.args.startswith("-") else _plain(one)
            said = _plain(one) if one is not wanted[-1] else "nothing"
            log = f"1..1\n# {said}\nnot ok 1 {case if said != 'nothing' else 'exit'}\n"
            (out_dir / f"{one.label}.log").write_text(log)
            (out_dir / f"{one.label}.code").write_text("1\n")

    monkeypatch.setattr(guest, "run", run)
    monkeypatch.setattr(selftests, "programs", lambda *names, **_: tmp_path / names[1])
    kernel: Any = SimpleNamespace(image=Path("kernel"))
    assert faults.missed(kernel, machine, wanted, tmp_path / "out", seed=7) == wanted[-1:]
    (text,) = scripts
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    assert text.index(f"ls {faults.DIRECTORY} > {tmp_path}/out/faults") < text.index("timeout -k")
    assert text.count("\nexport MIGRC_SEED=7") + text.count("; export MIGRC_SEED=7") == len(wanted)
    programs = re.findall(r"&& timeout -k 5 \d+ \./\.\./([\w-]+)/(\w+) ", text)
    assert [one.program for one in wanted] == [program for _, program in programs]
    # Each is broken before its program, and all of them are whole at the end.
    steps = text.split("timeout -k")[:-1]
    for one, step in zip(wanted, steps, strict=True):
        whole = step.rindex(faults.only())
        assert all(step.rindex(f"echo Y > {tier.fault(fault)}") > whole for fault in one.names)
    assert text.startswith(f"trap '{faults.only()}' EXIT\n")


def _plain(trial: Trial) -> str:
    """Words that a test says."""
    examples = {
        r"moved=(8[01]\d\d) requests=0 forgotten=-\1\b": "moved=8192 requests=0 forgotten=-8192",
        r"on node 1 [12]?\d{1,3}\b": "on node 1 16",
        r"accessed 8192, found [0-7]?\d{1,3}\b": "accessed 8192, found 18",
        r"\b[1-9]\d* pages were not the guest's": "6 pages were not the guest's",
        r"== lost \(\d+\)": "== lost (3)",
    }
    says = trial.test.says.removesuffix("$").partition("|")[0]
    return examples.get(says) or re.sub(r"\\(.)", r"\1", says)


@pytest.mark.parametrize(
    ("name", "words", "right", "wrong"),
    [
        ("age_pages", "on node 1 {}", (0, 16, 2999), (3000, 4133, 29990)),
        ("age_roots", "accessed 8192, found {}", (0, 9, 7999), (8000, 8203, 79990)),
        ("age_rmaps", "accessed 8192, found {}", (18,), (8192,)),
        ("age_store", "{} pages were not the guest's", (1, 6, 4096), (0,)),
        ("batch_hull", "moved={0} requests=0 forgotten=-{0}", (8000, 8192), (7999, 8200)),
    ],
)
def test_numbers_decide(
    name: str, words: str, right: tuple[int, ...], wrong: tuple[int, ...]
) -> None:
    (trial,) = (one for one in TRIALS if one.fault == name)
    case = trial.test.args.split()[-1]
    for number in (*right, *wrong):
        log = f"1..1\n# {words.format(number)}\nnot ok 1 {case}\n"
        assert trial.noticed(log, 1) == (number in right), number


def test_untested_faults_are_found() -> None:
    alone = Fault("scan_a", "text")
    with_it = Fault("scan_b", "text", (FaultTest("p", "a", "s", also=("scan_c",)),))
    assert faults.untested([alone, with_it, Fault("scan_c", "text")]) == {"scan_a"}
    assert faults.untested(FAULTS) == set()


def test_machines_and_faults_are_known() -> None:
    names = {fault.name for fault in FAULTS}
    known = faults.machines()
    for one in TRIALS:
        assert one.test.machine in known, one.label
        assert set(one.names) <= names, one.label
    assert {one.test.machine for one in TRIALS} == known.keys()
    labels = [one.label for one in TRIALS]
    assert len(set(labels)) == len(labels)
    # None is left out.
    assert len(TRIALS) == sum(len(faults.trials(name, long=True)) for name in known)
    quick = [one for name in known for one in faults.trials(name, long=False)]
    assert {one.label for one in quick} == {one.label for one in TRIALS if not one.test.long}


def test_a_fault_belongs_to_a_part() -> None:
    assert {fault.name.partition("_")[0] for fault in FAULTS} <= tier.PARTS.keys()


def _source(trial: Trial) -> Path:
    (path,) = rooms.LINUX.glob(f"*/files/{manifest.SELFTESTS}/{trial.test.program}.c")
    return path


def test_programs_exist() -> None:
    assert all(_source(one).exists() for one in TRIALS)
    assert {one.program for one in TRIALS if one.directory == "kvm"} <= {*faults.kvm_programs()}


def test_tests_elsewhere_exist() -> None:
    places = {(fault.name, test.elsewhere) for fault in FAULTS for test in fault.tests}
    for fault, place in places:
        if not place:
            continue
        name, _, function = place.partition("::")
        text = (cache.PROJECT / "tests/boot" / name).read_text()
        assert re.search(rf"^def {function}\(", text, re.MULTILINE), place
        assert re.search(rf"""["']{fault}["']""", text), f"{place} does not set {fault}"


def _literals(directory: Path) -> list[str]:
    """The strings of the programs of a directory."""
    text = "\n".join(path.read_text() for path in sorted(directory.glob("*.[ch]")))
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r'"\s*\n\s*"', "", text))


def _prints(literal: str, words: str) -> bool:
    """Can a format print these words?"""
    parts = re.split(r"%[-\d.]*l*[a-z]", literal.removesuffix(r"\n"))
    said = re.sub(r"\\(.)", r"\1", words)  # it has no other special characters
    whole = ".+".join(re.escape(part) for part in parts)
    return len("".join(parts)) >= 10 and re.fullmatch(whole, said) is not None


def test_words_are_those_of_the_programs() -> None:
    """What no program can say would be missed in `make soak` only."""
    literals: dict[str, list[str]] = {}
    for one in TRIALS:
        if re.search(r"\\d|==|>=", one.test.says):
            continue  # numbers and expressions are printed in other ways
        name = one.directory
        if name not in literals:
            literals[name] = _literals(_source(one).parent)
        words = one.test.says.removesuffix("$")
        if " " not in words.strip():
            continue  # a name of the kernel's
        found = any(re.search(words, text) or _prints(text, words) for text in literals[name])
        assert found, f"{one.label}: nothing in {name}/ says {words!r}"


def test_words_of_no_source_are_found() -> None:
    assert _prints(r"memory stays that is %s\n", r"memory stays that is bound")
    assert _prints(r"%s limits what is promoted of %s\n", r"p limits what is promoted of p/a")
    assert not _prints(r"%s\n", r"memory stays that is bound")
    assert not _prints(r"memory stays that is %s\n", r"memory goes that is bound")


# --- MIGRC -----------------------------------------------------------------------


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


MIGRC = rooms.LINUX / "migrc/files" / manifest.SELFTESTS / "migrc"


def test_each_selftest_of_migrc_fails_or_it_is_told_why_not() -> None:
    """None is without a fault, and those without are told from those that were forgotten."""
    sources = {path.stem: path.read_text() for path in MIGRC.glob("*_test.c")}
    assert set(sources) == set(PROGRAMS)
    there = {(name, test) for name, source in sources.items() for test in _names(source)}
    assert not re.search(r"^TEST(_SIGNAL)?\(", "\n".join(sources.values()), re.MULTILINE)
    broken = {
        (one.program, one.test.args.removeprefix("-r "))
        for one in TRIALS
        if one.directory == "migrc"
    }
    unbroken = {(name, test) for name, tests in UNBROKEN.items() for test in tests}
    assert broken & unbroken == set()
    assert broken | unbroken == there


def test_each_rule_of_migrc_has_a_counter() -> None:
    """Of the kernel's: selftests look there whether they have met what they are for."""
    knobs = (MIGRC / "knobs.c").read_text()
    rules = {one.name.removeprefix("defer_") for one in FAULTS if one.name.startswith("defer_")}
    assert set(re.findall(r'"met_(\w+)"', knobs)) == rules
