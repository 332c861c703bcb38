# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites of kmmscand in user space, on the code that they test and on changed code.

The kernel runs the same suites (CONFIG_KMMSCAND_KUNIT_TEST).  Here the code is changed in one
place at a time, and a case has to notice.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab import cache

ROOT = cache.PROJECT
KMMSCAND = ROOT / "linux/kmmscand/files/mm/tier/kmmscand"
# A changed function that never returns is noticed, too.
TIMEOUT_S = 10


@dataclass(frozen=True)
class Suite:
    """A suite: the file that it tests, the headers that both include, and changes of the file."""

    tests: str
    headers: tuple[str, ...]
    mutations: tuple[tuple[str, str], ...] = field(repr=False)
    flags: tuple[str, ...] = ()


SUITES = {
    "ring": Suite(
        "ring.c",
        ("ring.h", "main.h"),
        (
            ("&ring->entry[ring->tail % RING_SIZE]", "&ring->entry[(ring->head - 1) % RING_SIZE]"),
            ("ring->entry[ring->head++ % RING_SIZE]", "ring->entry[++ring->head % RING_SIZE]"),
            ("if (!ring_has_place(ring, group))", "if (false)"),
            ("used < RING_SIZE / 2 ||", "used <= RING_SIZE / 2 ||"),
            ("used < RING_SIZE / 2 ||", "used < RING_SIZE / 4 ||"),
            ("(used < RING_SIZE && ", "(used <= RING_SIZE && "),
            ("(used < RING_SIZE && ", "("),
            ("ring->queued[group] < RING_SIZE / 4", "ring->queued[group] <= RING_SIZE / 4"),
            ("ring->queued[group] < RING_SIZE / 4", "true"),
            ("ring->queued[group]++", "ring->queued[0]++"),
            ("\t\tring->queued[group]++;\n", ""),
            ("\tring->queued[entry->group]--;\n", ""),
            ("\tring->waiting[entry->group] -= 1UL << entry->order;\n", ""),
            ("\t\tring->waiting[group] += 1UL << found[i].order;\n", ""),
            ("ring->gone[group] += 1UL << found[i].order", "ring->gone[group]++"),
            ("ring->gone[entry->group] += 1UL << entry->order", "ring->gone[entry->group]++"),
            ("ring->gone[entry->group] += 1UL << entry->order", ""),
            ("ring->pushed += pages", "ring->pushed += nr"),
            ("pages += 1UL << found[i].order", "pages++"),
            (".stamp > RING_AGE)", ".stamp > RING_AGE && false)"),
            (".stamp > RING_AGE)", ".stamp + 1U > 0)"),
            ("u32 now = jiffies", "unsigned long now = jiffies"),
            ("if (nr && sum > pages)", "if (nr && sum >= pages)"),
            ("if (nr && sum > pages)", "if (sum > pages)"),
            ("if (nr && sum > pages)", "if (nr && nr > pages)"),
            ("while (nr < max && ring", "while (ring"),
            ("READ_ONCE(rings[nid]->head) == READ", "READ_ONCE(rings[nid]->head) != READ"),
            ("READ_ONCE(rings[nid]->head) - READ_ONCE", "READ_ONCE(rings[nid]->head) + READ_ONCE"),
        ),
    ),
    "target": Suite(
        "target.c",
        ("target.h", "main.h"),
        (
            ("TARGET_CLEAR_PCT\t60", "TARGET_CLEAR_PCT\t59"),
            ("TARGET_CLEAR_PCT\t60", "TARGET_CLEAR_PCT\t61"),
            ("!sum || ", ""),
            ("if (votes_i > most)", "if (votes_i)"),
            ("most = votes_i;\n", "most += votes_i;\n"),
            ("nid > target_nodes[target_nr - 1]", "false"),
            ("node_isset(nid, target_top) && ", ""),
            ("if (place < 0 || ", "if ("),
            ("return target_nodes[best];", "return best;"),
            ("TARGET_VOTES\t\t64", "TARGET_VOTES\t\t63"),
            ("TARGET_VOTES\t\t64", "TARGET_VOTES\t\t65"),
            ("votes[i] /= 2", "votes[i] /= 1"),
            ("votes[i] /= 2", "votes[i] /= 1 + (i == place)"),
            ("node_distance(nid, target_nodes[i]) <", "node_distance(nid, target_nodes[i]) >"),
            ("\ttarget_nr = 0;\n", ""),
            ("if (target_nr < TARGET_NODES)", "if (target_nr <= TARGET_NODES)"),
            ("nodes_and(nodes, *allowed, target_top)", "nodes = *allowed"),
            ("!nodes_equal(nodes, target_top)", "!nodes_equal(*allowed, target_top)"),
            ("!nodes_equal(nodes, target_top)", "false"),
            ("if (target->strict && (vote", "if ((vote"),
            (" || !node_isset(vote, nodes)", ""),
            ("!node_isset(vote, nodes)", "node_isset(vote, nodes)"),
            ("node_distance(from, nid) <", "node_distance(from, nid) >"),
            ("return !nodes_empty(nodes)", "return true"),
            ("return !nodes_empty(nodes)", "return !nodes_empty(*allowed)"),
        ),
        # It notices accesses beside the arrays of nodes and votes.
        ("-fsanitize=address",),
    ),
    "limit": Suite(
        "limit.h",
        (),
        (
            ("limit->begun = now - TIER_LIMIT_HALF", "limit->begun = now"),
            ("limit->used + limit->recent[0]", "limit->recent[0]"),
            ("+ limit->recent[0] + limit->recent[1])", "+ limit->recent[0])"),
            ("+ limit->recent[0] + limit->recent[1])", "+ limit->recent[1])"),
            ("max - min(max, ", "max - ("),
            ("limit->used = used;", "(void)used;"),
            ("now - limit->begun < TIER_LIMIT_HALF", "false"),
            ("now - limit->begun < TIER_LIMIT_HALF", "true"),
            ("now - limit->begun < TIER_LIMIT_HALF", "now - limit->begun <= TIER_LIMIT_HALF"),
            ("limit->recent[1] = limit->recent[0]", "limit->recent[1] = 0"),
            ("limit->recent[1] = limit->recent[0]", "limit->recent[1] += limit->recent[0]"),
            ("\tlimit->recent[0] = 0;\n", ""),
            ("\tlimit->recent[0] = 0;\n\tlimit->begun = now;\n", "\tlimit->recent[0] = 0;\n"),
        ),
    ),
}


def _copy(directory: Path, suite: str) -> None:
    """What the suite needs; kernel headers are empty, because tests/kunit/test.h has it all."""
    names = (SUITES[suite].tests, f"{suite}_kunit.c", *SUITES[suite].headers)
    for name in names:
        text = (KMMSCAND / name).read_text(encoding="utf-8")
        (directory / name).write_text(text, encoding="utf-8")
        for header in re.findall(r"^#include <(linux/\S+)>$", text, re.M):
            (directory / header).parent.mkdir(exist_ok=True)
            (directory / header).write_text("", encoding="utf-8")
    for name in ("events.h", "fault.h"):
        (directory / name).write_text("", encoding="utf-8")


def _fails(directory: Path, suite: str) -> str:
    """What the suite complains about; compiles it first."""
    sources = [f"{suite}_kunit.c"]
    if SUITES[suite].tests.endswith(".c"):
        sources.append(SUITES[suite].tests)
    flags = ("-std=gnu11", *SUITES[suite].flags, "-I.", f"-I{ROOT / 'tests'}")
    command = ["gcc", *flags, "-include", "kunit/test.h", "-o", "suite", *sources]
    subprocess.run(command, cwd=directory, check=True)
    try:
        result = subprocess.run(
            ["./suite"],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "no end"
    # What crashes is noticed, too.
    return result.stdout or (f"exit code {result.returncode}" if result.returncode else "")


def test_suites_of_the_kernel_are_all_here() -> None:
    makefile = (KMMSCAND / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    built = re.findall(r"^obj-\$\(CONFIG_KMMSCAND_KUNIT_TEST\) \+= (.*)$", makefile, re.M)
    assert {name.removesuffix("_kunit.o") for line in built for name in line.split()} == set(SUITES)
    assert {path.name for path in KMMSCAND.glob("*_kunit.c")} == {f"{s}_kunit.c" for s in SUITES}


@pytest.mark.parametrize("suite", SUITES)
def test_suite_of_unchanged_code_passes(suite: str, tmp_path: Path) -> None:
    _copy(tmp_path, suite)
    assert _fails(tmp_path, suite) == ""


@pytest.mark.parametrize("suite", SUITES)
def test_suite_runs_each_of_its_cases(suite: str) -> None:
    text = (KMMSCAND / f"{suite}_kunit.c").read_text(encoding="utf-8")
    cases = re.findall(r"^static void (\w+_test)\(struct kunit \*test\)$", text, re.M)
    assert cases == re.findall(r"^\tKUNIT_CASE\((\w+)\),$", text, re.M)


@pytest.mark.parametrize(
    ("suite", "says", "must_not"),
    [(name, *mutation) for name, suite in SUITES.items() for mutation in suite.mutations],
)
def test_suite_of_changed_code_fails(suite: str, says: str, must_not: str, tmp_path: Path) -> None:
    _copy(tmp_path, suite)
    path = tmp_path / SUITES[suite].tests
    text = path.read_text(encoding="utf-8")
    found = text.count(says)
    assert found == 1, f"{path.name} has changed: it has {says!r} {found} times, not once"
    path.write_text(text.replace(says, must_not), encoding="utf-8")
    assert _fails(tmp_path, suite), f"no case of {suite}_kunit.c notices {must_not!r}"
