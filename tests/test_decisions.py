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

ROOT = Path(__file__).parent.parent
ROOMS = tuple(ROOT / "linux" / room / "files/mm/tier" for room in ("promote", "kmmscand"))
# Cases of each file, up to those that need the kernel
CASES = (
    ("kmmscand_kunit.c", "static void score_test", "static unsigned int next_shift"),
    ("kmmscand_kunit.c", "static u8 merge_times", "static struct kunit_case"),
    ("share_kunit.c", "#define NR_CLAIMS", "static void interval_test"),
    ("cache_kunit.c", "static void look_test", "/* Score of a page that is read"),
)
# What the headers include; tests/kunit/test.h has it
STUBS = (
    *("bitmap", "bitops", "compiler", "jump_label", "list", "math", "minmax", "nodemask"),
    *("pgtable", "tier", "time64", "types"),
)
HEADERS = (
    *("policy.h", "hotness.h", "share.h", "bounce.h", "target.h", "confirm.h", "cache.h"),
    "marks.h",
)

# Header, what it says, and what it must not say
MUTATIONS = (
    ("policy.h", "*hot && *hot + histogram", "*hot + histogram"),
    ("policy.h", "> budget)\n\t\t\tbreak", ">= budget)\n\t\t\tbreak"),
    ("policy.h", "score >= max(min_score, 1U)", "score >= min_score"),
    ("policy.h", "return exchanging ? min(patience + 1", "return true ? min(patience + 1"),
    ("policy.h", "exchanging && patience < KPROMOTED_PATIENCE", "exchanging"),
    ("policy.h", "exchanging && patience < KPROMOTED_PATIENCE", "false"),
    ("policy.h", "kpromoted_window_longest(period_ms) / 2, kpromoted", "period_ms, kpromoted"),
    ("policy.h", "min(least + 2, (unsigned int)HOTNESS_MAX_SCORE)", "least + 2"),
    ("policy.h", "return exchanging ? kpromoted_regret_score(least) : least", "return least"),
    ("policy.h", "hot > 2 * budget", "hot > budget"),
    ("policy.h", "warm < budget / 2", "warm < budget"),
    ("policy.h", "next / KPROMOTED_WINDOW_STEP)", "0)"),
    ("policy.h", "next * KPROMOTED_WINDOW_STEP)", "~0UL)"),
    ("policy.h", "kpromoted_window_longest(period_ms) << late", "period_ms / 4"),
    ("policy.h", "} else if (next < period_ms) {", "} else if (false) {"),
    ("policy.h", "} else if (next < period_ms) {", "} else {"),
    ("marks.h", "marked->nr == marked->max", "!marked->marks"),
    ("marks.h", "bitmap_zero(marks->young, PTRS_PER_PTE)", "(void)marks"),
    ("marks.h", "marks->start = start", "(void)start"),
    ("marks.h", "marked->next = first", "(void)first"),
    ("marks.h", "marked->end = end", "marked->end = marked->nr"),
    ("marks.h", ".start < start)", ".start <= start)"),
    ("marks.h", "marked->next == marked->end || ", ""),
    ("marks.h", " || marked->marks[marked->next].start != start", ""),
    ("policy.h", "clamp(next, least, max(most, least))", "clamp(next, least, period_ms)"),
    ("policy.h", "backoff->failed > backoff->moved", "backoff->failed"),
    ("policy.h", "if (!backoff->shift || ++backoff->epochs", "if (++backoff->epochs"),
    ("policy.h", "regrets->regretted < KPROMOTED_REGRET_MIN", "false"),
    ("policy.h", "regrets->demoted / KPROMOTED_REGRET_LIMIT", "regrets->demoted"),
    ("policy.h", "<= regrets->demoted / KPROMOTED_REGRET_SHARE", "<= regrets->demoted"),
    ("policy.h", "\tregrets->regretted = 0;\n", ""),
    ("policy.h", "(table >> 3) + (table >> 6)", "(table >> 6)"),
    ("policy.h", " + (table >> 6) + (table >> 9)", " + (table >> 9)"),
    ("policy.h", "(table >> 12) + number", "(table >> 12)"),
    ("policy.h", "min(missing, (all << HOTNESS_MAX_SHIFT) - all)", "missing"),
    ("policy.h", "min(missing, (all << HOTNESS_MAX_SHIFT) - all)", "all ? missing : 0"),
    ("policy.h", "mult_frac(pages, all + missing, all)", "pages + missing"),
    ("policy.h", "left <= enough ||", "left < enough ||"),
    ("policy.h", "left <= enough ||", ""),
    ("policy.h", "|| burst->looks == KMMSCAND_BURST_LOOKS", "|| burst->looks == 17"),
    ("policy.h", "if (burst->looks && burst->usecs", "if (burst->usecs"),
    ("policy.h", "burst->looks && burst->usecs <= burst->least", "burst->looks"),
    ("policy.h", "burst->looks && burst->usecs <= burst->least", "false"),
    ("policy.h", "left == before ? burst->quiet + 1 : 0", "burst->quiet + 1"),
    ("policy.h", "left == before ? burst->quiet + 1 : 0", "burst->quiet + (left == before)"),
    ("policy.h", "max(burst->usecs / 2, burst->least)", "max(burst->usecs / 4, burst->least)"),
    ("policy.h", "max(burst->usecs / 2, burst->least)", "burst->usecs / 2"),
    ("policy.h", "max(KMMSCAND_BURST_USECS, found / KMMSCAND_BURST_SPEED)", "50"),
    ("policy.h", "max(KMMSCAND_BURST_USECS, found / KMMSCAND_BURST_SPEED)", "found / 4"),
    ("policy.h", "if (!exchanging) {", "if (false) {"),
    ("policy.h", "{ .rest = steady->rest }", "{}"),
    ("policy.h", "if (!changed || steady->rest)", "if (!changed)"),
    ("policy.h", "steady->rest -= !!steady->rest", "steady->rest -= 0"),
    ("policy.h", "steady->rest = KPROMOTED_CHANGE_REST;", ";"),
    ("policy.h", "if (!warm)\n\t\treturn false;", ""),
    ("policy.h", "if (window_ms > steady->window_ms)", "if (false)"),
    ("policy.h", "steady->epochs >= KPROMOTED_CHANGE_EPOCHS", "true"),
    ("policy.h", "warm >= KPROMOTED_CHANGE_MIN", "true"),
    ("policy.h", "warm > KPROMOTED_CHANGE_TIMES * steady", "warm > steady"),
    ("policy.h", "steady->window_ms = window_ms", "steady->window_ms |= window_ms"),
    ("policy.h", "max(steady->warm * 7 / 8, warm)", "max(steady->warm, warm)"),
    ("policy.h", "max(steady->warm * 7 / 8, warm)", "warm"),
    ("policy.h", "regret != KPROMOTED_REGRETS_FEW)\n\t\texchange", "false)\n\t\texchange"),
    ("policy.h", "else if (full)\n", "else if (false)\n"),
    ("policy.h", "used >= exchange && !careful", "used >= exchange"),
    ("policy.h", "used >= exchange && !careful", "!careful"),
    ("policy.h", "min(4 * exchange, most)", "4 * exchange"),
    ("policy.h", "return max(exchange, KPROMOTED_BATCH)", "return exchange"),
    ("policy.h", "MANY && exchange <= KPROMOTED_BATCH", "MANY"),
    ("policy.h", "MANY && exchange <= KPROMOTED_BATCH", "MANY && false"),
    ("policy.h", "exchange <= KPROMOTED_BATCH", "exchange < KPROMOTED_BATCH"),
    ("policy.h", "if (!exchanging || troubled)", "if (!exchanging)"),
    ("policy.h", "if (!exchanging || troubled)", "if (troubled)"),
    ("policy.h", "min(forgive + KPROMOTED_BATCH /", "min(KPROMOTED_BATCH /"),
    ("policy.h", "FORGIVE_EPOCHS, KPROMOTED_BATCH)", "FORGIVE_EPOCHS, 4 * KPROMOTED_BATCH)"),
    ("policy.h", "pressure->warm + pressure->warm / 2 + KPROMOTED_NEWS", "~0UL"),
    (
        "policy.h",
        "if (regret != KPROMOTED_REGRETS_MANY)\n\t\t\tpressure",
        "if (true)\n\t\t\tpressure",
    ),
    ("policy.h", "clamp(2 * pressure->hold,", "clamp(pressure->hold,"),
    ("policy.h", "pressure->hold -= !!pressure->hold", "pressure->hold -= 0"),
    ("policy.h", "if (!relent || !(warm", "if (!(warm"),
    ("policy.h", "!(warm || close)", "!warm"),
    ("policy.h", "++pressure->calm < KPROMOTED_CALM", "false"),
    ("bounce.h", "age_ms < TIER_BOUNCE_MIN_MSECS", "false"),
    ("bounce.h", "bounce && age_ms < TIER_BOUNCE_MAX_MSECS", "age_ms < TIER_BOUNCE_MAX_MSECS"),
    ("bounce.h", "promoted < fast_pages / 4", "true"),
    ("bounce.h", "age_ms < TIER_BOUNCE_MAX_MSECS && promoted", "promoted"),
    ("bounce.h", "2 * (bounce ? TIER_BOUNCE_MAX_MSECS :", "2 * (0 ? TIER_BOUNCE_MAX_MSECS :"),
    ("bounce.h", "return TIER_BOUNCE_BOTH", "return TIER_BOUNCE_NEXT"),
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
    ("target.h", "if (old && old != TARGET_ANY)", "if (old)"),
    ("target.h", "if (old && old != TARGET_ANY)", "if (false)"),
    ("target.h", "return TARGET_WAIT | TARGET_DOUBT", "return TARGET_WAIT"),
    ("target.h", "== TARGET_WAIT && aim != TARGET_WAIT))", "== TARGET_WAIT))"),
    ("target.h", "return !again && old", "return old"),
    (
        "target.h",
        "old >= TARGET_ONE_DOUBT ? old - TARGET_ONE_DOUBT",
        "old & TARGET_DOUBT ? old & ~TARGET_DOUBT",
    ),
    ("target.h", "if (was == TARGET_SOLE)", "if (false)"),
    ("target.h", "if (old & ~aim & TARGET_STRICT)", "if (false)"),
    ("target.h", "if (aim & ~old & TARGET_STRICT)", "if (false)"),
    ("target.h", "if ((old & TARGET_AIM) == was)", "if (false)"),
    ("target.h", "return aim | TARGET_DOUBT;", "return aim;"),
    ("target.h", "(known & TARGET_STRICT) || (known", "(known"),
    ("target.h", "|| (known & TARGET_SLOT) == TARGET_WAIT", ""),
    ("target.h", "slot > TARGET_SLOTS || known >= TARGET_ONE_DOUBT", "slot > TARGET_SLOTS"),
    ("target.h", "sum < least || ", ""),
    ("target.h", "sum * TARGET_CLEAR_PCT", "sum * 50"),
    ("target.h", "u64 sum = 0", "u32 sum = 0"),
    ("target.h", "if (slot > TARGET_SLOTS || slot == place->home)", "if (slot == place->home)"),
    ("target.h", "if (!place->home) {", "if (false) {"),
    ("target.h", "if (slot != next) {", "if (false) {"),
    ("target.h", "\tplace->next = 0;\n", ""),
    (
        "confirm.h",
        "known >> CONFIRM_STAMP_SHIFT)) < CONFIRM_FRESH",
        "known >> CONFIRM_STAMP_SHIFT)) <= CONFIRM_FRESH",
    ),
    ("confirm.h", "if (!confirm_fresh(old, stamp))", "if (!old)"),
    ("confirm.h", "if ((old & CONFIRM_VOTES) != CONFIRM_VOTES)\n", ""),
    ("confirm.h", "return (old & ~CONFIRM_STAMP) | now", "return old"),
    ("confirm.h", "if ((old & CONFIRM_VOTES) > CONFIRM_VOTE)", "if (false)"),
    ("confirm.h", "== tag ? 0 : CONFIRM_VOTE", "== tag ? CONFIRM_VOTE : CONFIRM_VOTE"),
    ("confirm.h", "|| known >> CONFIRM_TAG_SHIFT != tag", ""),
    ("confirm.h", "known & CONFIRM_VOTES ? known & TARGET_SLOT", "true ? known & TARGET_SLOT"),
    ("cache.h", "if (!window)", "if (false)"),
    ("cache.h", "since < window", "since <= window"),
    ("cache.h", "since < 2 * window", "since <= 2 * window"),
    ("cache.h", "pos == prev && pos > start", "pos == prev"),
    ("cache.h", "pos == prev && pos > start", "pos > start"),
    ("cache.h", "pos > start", "pos >= start"),
    ("share.h", "\tleft -= given;\n", ""),
    ("share.h", "weights += claim->weight", "weights += 1"),
    ("share.h", "claim->granted = 0", "(void)claim"),
    ("share.h", "return total - left", "return total"),
    ("share.h", "\t\tmost -= pages[nr];\n", ""),
    ("share.h", "cut += pages[nr] - most;\n", "cut += pages[nr];\n"),
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
        (found,) = (room / name for room in ROOMS if (room / name).exists())
        shutil.copy(found, directory)


def _program(directory: Path) -> None:
    """The cases and a main() that calls them."""
    parts = ["#include <kunit/test.h>", *(f'#include "{name}"' for name in HEADERS)]
    for name, first, last in CASES:
        text = (ROOMS[1] / name).read_text(encoding="utf-8")
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
