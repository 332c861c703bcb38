# SPDX-License-Identifier: GPL-2.0
"""KUnit cases of decisions that depend on their arguments only, in user space, and broken.

The kernel runs the same cases (CONFIG_KMMSCAND_KUNIT_TEST).  Here decisions are changed, one in
one place at a time, and some case has to notice.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab import cache

ROOT = cache.PROJECT
KMMSCAND = ROOT / "linux/kmmscand/files/mm/tier/kmmscand"
# Cases of each file, up to those that need the kernel
CASES = (
    ("kmmscand_kunit.c", "static void score_test", "static unsigned int next_shift"),
    ("kmmscand_kunit.c", "static void merge_test", "static struct kunit_case"),
    ("limit_kunit.c", "/* Select as many pages", "static struct kunit_case"),
    ("cache_kunit.c", "static void look_test", "/* Score of a page that is read"),
)
# What the headers include; tests/kunit/test.h has it
STUBS = (
    *("bitmap", "bitops", "compiler", "jiffies", "jump_label", "list", "math", "minmax"),
    *("nodemask", "pgtable", "string", "tier", "time64", "types"),
)
HEADERS = (*("decide.h", "hotness.h", "limit.h", "target.h", "cache.h"),)

# Header, what it says, and what it must not say
MUTATIONS = (
    ("decide.h", "*hot && *hot + histogram", "*hot + histogram"),
    ("decide.h", "> budget)\n\t\t\tbreak", ">= budget)\n\t\t\tbreak"),
    ("decide.h", "score >= max(min_score, 1U)", "score >= min_score"),
    ("decide.h", "hot > 2 * budget", "hot > budget"),
    ("decide.h", "warm < budget / 2", "warm < budget"),
    ("decide.h", "next / KPROMOTED_WINDOW_STEP)", "0)"),
    ("decide.h", "next * KPROMOTED_WINDOW_STEP)", "~0UL)"),
    ("decide.h", "} else if (next < period_ms) {", "} else if (false) {"),
    ("decide.h", "} else if (next < period_ms) {", "} else {"),
    ("decide.h", "clamp(next, least, max(most, least))", "clamp(next, least, period_ms)"),
    ("decide.h", "(table >> 3) + (table >> 6)", "(table >> 6)"),
    ("decide.h", " + (table >> 6) + (table >> 9)", " + (table >> 9)"),
    ("decide.h", "(table >> 12) + number", "(table >> 12)"),
    ("decide.h", "min(missing, (all << HOTNESS_MAX_SHIFT) - all)", "missing"),
    ("decide.h", "min(missing, (all << HOTNESS_MAX_SHIFT) - all)", "all ? missing : 0"),
    ("decide.h", "mult_frac(pages, all + missing, all)", "pages + missing"),
    ("decide.h", "left <= enough ||", "left < enough ||"),
    ("decide.h", "left <= enough ||", ""),
    ("decide.h", "|| burst->looks == KMMSCAND_BURST_LOOKS", "|| burst->looks == 17"),
    ("decide.h", "if (burst->looks && burst->usecs", "if (burst->usecs"),
    ("decide.h", "burst->looks && burst->usecs <= burst->least", "burst->looks"),
    ("decide.h", "burst->looks && burst->usecs <= burst->least", "false"),
    ("decide.h", "left == before ? burst->quiet + 1 : 0", "burst->quiet + 1"),
    ("decide.h", "left == before ? burst->quiet + 1 : 0", "burst->quiet + (left == before)"),
    ("decide.h", "max(burst->usecs / 2, burst->least)", "max(burst->usecs / 4, burst->least)"),
    ("decide.h", "max(burst->usecs / 2, burst->least)", "burst->usecs / 2"),
    ("decide.h", "max(KMMSCAND_BURST_USECS, found / KMMSCAND_BURST_SPEED)", "50"),
    ("decide.h", "max(KMMSCAND_BURST_USECS, found / KMMSCAND_BURST_SPEED)", "found / 4"),
    (
        "hotness.h",
        "record << age & 0xff : 0;\n}\n\n/* The same",
        "record & 0xff : 0;\n}\n\n/* The same",
    ),
    ("hotness.h", "age = max(age >> shift, 1U)", "age >>= shift"),
    ("hotness.h", "if (age > 1)\n", "if (true)\n"),
    ("hotness.h", "(2 << shift);\n\n\tif (!history)", "2;\n\n\tif (!history)"),
    ("hotness.h", "for (; !(history & 3); history >>= 2)", "for (; !(history & 1); history >>= 1)"),
    ("hotness.h", " + ((history & 3) == 3)", ""),
    ("hotness.h", "score > 2 ? score - 1 : score", "score"),
    ("hotness.h", "score > 2 ? score - 1 : score", "score ? score - 1 : score"),
    ("hotness.h", "while (--bits)", "while (bits--)"),
    ("hotness.h", "while (--bits)", "if (--bits)"),
    ("hotness.h", "(history | 0x100 * HOTNESS_ONES) - HOTNESS_ONES", "history - HOTNESS_ONES"),
    ("hotness.h", "return fresh & (history + 0xff * HOTNESS_ONES)", "return history"),
    (
        "hotness.h",
        "((0x100 + oldest) * HOTNESS_ONES - ages) & 0x100",
        "(oldest * HOTNESS_ONES - ages) & 0x100",
    ),
    ("target.h", "if (!old || !shared)", "if (!old)"),
    ("target.h", "if (!old || !shared)", "if (!shared)"),
    ("target.h", "(old ^ aim) & TARGET_SLOT", "old ^ aim"),
    ("target.h", "? TARGET_ANY : old & aim", "? aim : old & aim"),
    ("target.h", "? TARGET_ANY : old & aim", "? old : old & aim"),
    ("target.h", "? TARGET_ANY : old & aim", "? TARGET_ANY : old"),
    ("target.h", "? TARGET_ANY : old & aim", "? TARGET_ANY : aim"),
    ("target.h", "if (!sum || (u64)", "if ((u64)"),
    ("target.h", "sum * TARGET_CLEAR_PCT", "sum * 50"),
    ("target.h", "u64 sum = 0", "u32 sum = 0"),
    ("target.h", "if (votes[slot] > votes[best])", "if (votes[slot])"),
    ("cache.h", "if (!window)", "if (false)"),
    ("cache.h", "since < window", "since <= window"),
    ("cache.h", "since < 2 * window", "since <= 2 * window"),
    ("cache.h", "pos == prev && pos > start", "pos == prev"),
    ("cache.h", "pos == prev && pos > start", "pos > start"),
    ("cache.h", "pos > start", "pos >= start"),
    ("limit.h", "limit->used + limit->recent[0]", "limit->recent[0]"),
    ("limit.h", "+ limit->recent[0] + limit->recent[1])", "+ limit->recent[0])"),
    ("limit.h", "+ limit->recent[0] + limit->recent[1])", "+ limit->recent[1])"),
    ("limit.h", "max - min(max, ", "max - ("),
    ("limit.h", "now;\n\tlimit->least = HOTNESS_MAX_SCORE + 1;", "now;"),
    ("limit.h", "limit->used = used;", "(void)used;"),
    ("limit.h", "now - limit->begun < TIER_LIMIT_HALF", "false"),
    ("limit.h", "now - limit->begun < TIER_LIMIT_HALF", "true"),
    ("limit.h", "limit->recent[1] = limit->recent[0]", "limit->recent[1] = 0"),
    ("limit.h", "limit->recent[1] = limit->recent[0]", "limit->recent[1] += limit->recent[0]"),
    ("limit.h", "\tlimit->recent[0] = 0;\n", ""),
    ("limit.h", "\tlimit->recent[0] = 0;\n\tlimit->begun = now;\n", "\tlimit->recent[0] = 0;\n"),
    ("limit.h", "if (!hot)", "if (false)"),
    ("limit.h", "\tmemset(&limit->found, 0, sizeof(limit->found));\n", ""),
    ("limit.h", "\tlimit->counted = 0;\n", ""),
    ("limit.h", "score >= limit->least &&", "score &&"),
    ("limit.h", "score >= limit->least &&", "score > limit->least &&"),
    ("limit.h", "tier_limit_room(limit, max) >= nr + (", "tier_limit_room(limit, max) > nr + ("),
    ("limit.h", ">= nr + (", ">= ("),
    ("limit.h", "select ? 0 : limit->counted", "limit->counted"),
    ("limit.h", "select ? 0 : limit->counted", "0"),
    ("limit.h", "limit->recent[0] += nr", "limit->recent[0] += 0"),
)


def _copy(directory: Path) -> None:
    for name in STUBS:
        path = directory / "linux" / f"{name}.h"
        path.parent.mkdir(exist_ok=True)
        path.write_text("", encoding="utf-8")
    (directory / "kunit").mkdir()
    shutil.copy(ROOT / "tests/kunit/test.h", directory / "kunit")
    (directory / "fault.h").write_text("", encoding="utf-8")
    for name in HEADERS:
        shutil.copy(KMMSCAND / name, directory)


def _program(directory: Path) -> None:
    """The cases and a main() that calls them."""
    parts = ["#include <kunit/test.h>", *(f'#include "{name}"' for name in HEADERS)]
    for name, first, last in CASES:
        text = (KMMSCAND / name).read_text(encoding="utf-8")
        parts.append(text[text.index(first) : text.index(last)])
    tests = re.findall(r"^static void (\w+_test)\(struct kunit \*test\)$", "\n".join(parts), re.M)
    parts += ["int main(void)", "{", "\tstruct kunit test = {};", ""]
    parts += [f"\t{name}(&test);" for name in tests]
    parts += ["\treturn test.failures != 0;", "}", ""]
    (directory / "decisions.c").write_text("\n".join(parts), encoding="utf-8")


def _fails(directory: Path) -> str:
    """What the cases complain about; compiles them first."""
    subprocess.run(
        ["gcc", "-std=gnu11", "-I.", "-o", "decisions", "decisions.c"], cwd=directory, check=True
    )
    result = subprocess.run(
        ["./decisions"], cwd=directory, capture_output=True, text=True, timeout=20, check=False
    )
    # What crashes is noticed, too.
    return result.stdout or (f"exit code {result.returncode}" if result.returncode else "")


@pytest.fixture
def room(tmp_path: Path) -> Path:
    _copy(tmp_path)
    _program(tmp_path)
    return tmp_path


def test_the_cases_pass(room: Path) -> None:
    assert _fails(room) == ""


@pytest.mark.parametrize(("header", "says", "must_not"), MUTATIONS)
def test_a_changed_decision_is_noticed(room: Path, header: str, says: str, must_not: str) -> None:
    text = (room / header).read_text(encoding="utf-8")
    assert text.count(says) == 1, f"{header} has changed: {says!r}"
    (room / header).write_text(text.replace(says, must_not), encoding="utf-8")
    assert _fails(room)
