# SPDX-License-Identifier: GPL-2.0
"""Changed decisions of the promoter: the checks of test_policy.py have to notice each change.

Each case changes policy.c in one place, compiles it, and calls all checks.
"""

from __future__ import annotations

import faulthandler
import itertools
import multiprocessing
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import test_policy

SOURCE = test_policy.KMMSCAND / "policy.c"
# A changed decision that never returns is noticed, too.
TIMEOUT_S = 10

# Decision, what it says, and what it must not say
MUTATIONS = (
    ("rate", "* 710 / 1024", "* 1024 / 1024"),
    ("rate", " + (f * (1024 - f) / 1024) * 352 / 1024", ""),
    ("rate", "(u64)last << 10, max(first, 1U)", "last << 10, max(first, 1U)"),
    ("rate", "(u64)last << 10, max(first, 1U)", "(u64)last << 10, first"),
    ("rate", "RATE_MOST\t\t1004", "RATE_MOST\t\t1023"),
    ("rate", "(u64)minus_ln(1024 - share)", "minus_ln(1024 - share)"),
    ("rate", "1000000000 / 1024, window_us)", "1000000000 / 1024, 16000)"),
    ("idle_ms", "KAPPA\t\t\t6", "KAPPA\t\t\t5"),
    ("idle_ms", "max(rate, 1U), IDLE_LEAST_MS", "rate, IDLE_LEAST_MS"),
    ("idle_ms", "IDLE_LEAST_MS\t\t16U", "IDLE_LEAST_MS\t\t1U"),
    ("idle_ms", "IDLE_MOST_MS\t\t64000U", "IDLE_MOST_MS\t\t128000U"),
    ("quota", "(u64)min(rate_pages, cpu_pages)", "(u64)rate_pages"),
    ("quota", "(u64)min(rate_pages, cpu_pages)", "(u64)cpu_pages"),
    ("quota", "(u64)min(rate_pages, cpu_pages)", "min(rate_pages, cpu_pages)"),
    ("quota", "min(gain_permille, 1000U)", "gain_permille"),
    ("quota", "min(gain_permille, 1000U)", "1000U"),
    ("window_max", "PAYBACK_S\t\t60", "PAYBACK_S\t\t6"),
    ("window_max", "(u64)gain_ns", "gain_ns"),
    ("window_max", "max(cost_ns, 1U)", "cost_ns"),
    ("window_max", "most, POLICY_WINDOW_LEAST_US", "most, 0"),
    ("window_max", "full ? WINDOW_FULL_US : WINDOW_MOST_US", "WINDOW_FULL_US"),
    ("window_max", "full ? WINDOW_FULL_US : WINDOW_MOST_US", "WINDOW_MOST_US"),
    ("window_max", "full ? WINDOW_FULL_US : WINDOW_MOST_US", "U32_MAX"),
    ("node_begin", "\tnode->window_us = POLICY_WINDOW_LEAST_US;\n", ""),
    ("node_begin", "LEAST_US;\n\tnode->saturated = false;\n", "LEAST_US;\n"),
    ("node_begin", "node->begun_ms && ", ""),
    ("node_begin", "now_ms - node->begun_ms < BEGIN_LEAST_MS", "false"),
    ("node_begin", "< BEGIN_LEAST_MS", "<= BEGIN_LEAST_MS"),
    ("node_begin", "\tnode->begun_ms = now_ms;\n", ""),
    ("node_begin", "\t\treturn false;\n\tnode->begun_ms", "\t\treturn true;\n\tnode->begun_ms"),
    ("jump", "of < JUMP_LEAST)", "!of)"),
    ("jump", "(u64)found << 20", "found << 20"),
    ("jump", "JUMP_LEAST\t\t64", "JUMP_LEAST\t\t63"),
    ("jump", "JUMP_LEAST\t\t64", "JUMP_LEAST\t\t65"),
    ("jump", "JUMP_LOOKS\t\t2", "JUMP_LOOKS\t\t3"),
    ("jump", "\t\tchange->looks++;\n", ""),
    ("jump", "\t\tchange->rate = rate;\n", ""),
    ("jump", "JUMP_TIMES\t\t3", "JUMP_TIMES\t\t2"),
    ("jump", "JUMP_TIMES\t\t3", "JUMP_TIMES\t\t4"),
    ("jump", "rate > JUMP_TIMES * change->rate", "rate >= JUMP_TIMES * change->rate"),
    ("jump", "found >= JUMP_LEAST;", "found > JUMP_LEAST;"),
    ("jump", " && found >= JUMP_LEAST", ""),
    ("jump", "jump ? rate : change->rate", "change->rate"),
    ("jump", "- change->rate / 4 + rate / 4", "- change->rate / 2 + rate / 2"),
    ("jump", "- change->rate / 4 + rate / 4", "+ rate / 4"),
    ("update_window", "period->pushed + 1ULL", "period->pushed"),
    ("update_window", "int_sqrt64(div64_u64((u64)can << 20, pushed))", "1024ULL * can / pushed"),
    ("update_window", "(u64)can << 20", "can << 20"),
    ("update_window", "if (!can)", "if (false)"),
    ("update_window", "CANDIDATES_LEAST\t16", "CANDIDATES_LEAST\t15"),
    ("update_window", "? next / 2 : next * 2", "? next : next * 2"),
    ("update_window", "? next / 2 : next * 2", "? next / 2 : next"),
    ("update_window", "pushed >= 2ULL * can", "pushed >= can"),
    ("update_window", "pushed >= 2ULL * can", "pushed >= 3ULL * can"),
    ("update_window", "|| pushed < can)", "|| pushed < can / 2)"),
    ("update_window", "|| pushed < can)", ")"),
    ("update_window", "WINDOW_LESS\t\t256ULL", "WINDOW_LESS\t\t128ULL"),
    ("update_window", "WINDOW_MORE\t\t2048ULL", "WINDOW_MORE\t\t4096ULL"),
    ("update_window", "next, POLICY_WINDOW_LEAST_US", "next, 0"),
    ("update_window", "LEAST_US, period->window_max_us)", "LEAST_US, U32_MAX)"),
    ("update_window", "min(period->quota, period->room + period->victims)", "period->quota"),
    (
        "update_window",
        "min(period->quota, period->room + period->victims)",
        "period->room + period->victims",
    ),
    ("update_window", "period->room + period->victims", "period->room"),
    ("update_window", "period->room + period->victims", "period->victims"),
    (
        "update_window",
        "\tnode->window_us = min",
        "\tnode->saturated = false, node->window_us = min",
    ),
    ("update_window", "\tnode->window_us = min", "\tnode->saturated = true, node->window_us = min"),
    ("update_window", "\tnode->window_us = min(node->window_us, period->window_max_us);\n", ""),
    ("update_window", "!period->visited && !many", "false"),
    ("update_window", "!period->visited && !many", "!period->visited"),
    ("update_window", "2ULL * can + CANDIDATES_LEAST", "2ULL * can"),
    ("update_window", "2ULL * can + CANDIDATES_LEAST", "CANDIDATES_LEAST"),
    ("update_window", "return period->visited;", "return true;"),
    ("update_window", "return period->visited;", "return false;"),
    (
        "update_window",
        "period->pushed >= can;\n\treturn true;",
        "period->pushed >= can;\n\treturn false;",
    ),
    ("update_window", "period->full && period->pending", "period->full"),
    ("update_window", "period->full && period->pending", "period->pending"),
    ("update_window", "period->full && period->pending", "false"),
    ("update_window", "node->window_us == period->window_max_us", "false"),
    ("update_window", "period->pushed >= can;", "period->pushed > can;"),
    ("update_window", "period->pushed >= can;", "false;"),
    ("heat_add", "HEAT_LEAST\t\t16", "HEAT_LEAST\t\t15"),
    ("heat_add", "HEAT_LEAST\t\t16", "HEAT_LEAST\t\t17"),
    ("heat_add", "min(first, HEAT_MOST)", "first"),
    ("heat_add", "(u64)weight * policy_rate", "weight * policy_rate"),
    ("heat_add", "(u64)weight * policy_rate", "(u64)HEAT_LEAST * policy_rate"),
    ("heat_add", "heat->sum += (u64)", "heat->sum = (u64)"),
    ("heat_add", "heat->pages += weight", "heat->pages = weight"),
    (
        "heat_add",
        "policy_rate(first, last, window_us);\n\theat",
        "policy_rate(first, last, 16000);\n\theat",
    ),
    ("heat_add", "\theat->looked = true;\n", ""),
    ("heat_age", "if (!heat->looked)", "if (false)"),
    ("heat_age", "HEAT_PERIODS\t\t128", "HEAT_PERIODS\t\t127"),
    ("heat_age", "HEAT_PERIODS\t\t128", "HEAT_PERIODS\t\t129"),
    ("heat_age", "\t\t\t*heat = (struct policy_heat) {};\n", "\t\t\t;\n"),
    ("heat_age", "\theat->quiet = 0;\n", ""),
    ("heat_age", "\theat->looked = false;\n", ""),
    ("heat_age", "heat->sum /= 4", "heat->sum /= 2"),
    ("heat_age", "heat->pages /= 4", "heat->pages /= 2"),
    ("serves", "rate / 2", "rate"),
    ("serves", "rate / 2", "rate / 4"),
    ("attempt_due", "2ULL * min(", "min("),
    ("attempt_due", "2ULL * min(", "2 * min("),
    ("attempt_due", "min(period->quota, period->pushed)", "period->quota"),
    ("attempt_due", "min(period->quota, period->pushed)", "period->pushed"),
    ("attempt_due", "rate / WAIT_HOTTER > wait->rate", "false"),
    ("attempt_due", "rate / WAIT_HOTTER > wait->rate", "true"),
    ("attempt_due", "rate / WAIT_HOTTER > wait->rate", "rate / WAIT_HOTTER >= wait->rate"),
    ("attempt_due", "WAIT_HOTTER\t\t4", "WAIT_HOTTER\t\t3"),
    ("attempt_due", "period->room >= most", "period->room > most"),
    ("attempt_due", "min(waiting, most) +", "waiting +"),
    ("attempt_due", "min(waiting, most) +", "most +"),
    ("attempt_due", " + !period->full", ""),
    ("attempt_due", ">= max(wait_ms, policy_idle_ms(rate))", ">= wait_ms"),
    ("attempt_due", ">= max(wait_ms, policy_idle_ms(rate))", ">= policy_idle_ms(rate)"),
    ("attempt_due", "now_ms - wait->last_ms >=", "now_ms - wait->last_ms >"),
    ("attempt_begins", "\twait->last_ms = now_ms;\n", ""),
    ("attempt_ends", "2 * max(wait->wait_ms, policy_idle_ms(rate))", "policy_idle_ms(rate)"),
    ("attempt_ends", "2 * max(wait->wait_ms, policy_idle_ms(rate))", "2 * wait->wait_ms"),
    ("attempt_ends", "2 * max(wait->wait_ms,", "3 * max(wait->wait_ms,"),
    ("attempt_ends", "2ULL * victims", "2 * victims"),
    ("attempt_ends", "2ULL * victims", "(u64)victims"),
    ("attempt_ends", "page_cost >= cost", "page_cost > cost"),
    ("attempt_ends", "\t\twait->wait_ms = 0;\n", ""),
    ("attempt_ends", "\t\twait->rate = 0;\n", ""),
    ("attempt_ends", "max(wait->rate, rate)", "rate"),
    ("attempt_ends", "\twait->rate = max(wait->rate, rate);\n", ""),
    ("attempt_ends", "ATTEMPT_WAIT_MS\t\t2000U", "ATTEMPT_WAIT_MS\t\t1000U"),
    ("attempt_ends", "ATTEMPT_MOST_MS\t\t64000U", "ATTEMPT_MOST_MS\t\t128000U"),
    ("bucket_update", "- bucket->exchanged / 16", ""),
    ("bucket_update", "- bucket->again / 16", ""),
    ("bucket_update", "bucket->again > AGAIN_LEAST &&", "bucket->again >= AGAIN_LEAST &&"),
    ("bucket_update", "AGAIN_LEAST\t\t32", "AGAIN_LEAST\t\t64"),
    ("bucket_update", "10 * bucket->again > bucket->exchanged", "true"),
    ("bucket_update", "10 * bucket->again > bucket", "9 * bucket->again > bucket"),
    ("bucket_update", "min(bucket->shift + 1, AGAIN_SHIFT_MOST)", "bucket->shift + 1"),
    ("bucket_update", "MOST);\n\t\tbucket->changed_ms = now_ms;\n", "MOST);\n"),
    ("bucket_update", "\t\tbucket->exchanged = 0;\n", ""),
    ("bucket_update", "\t\tbucket->again = 0;\n", ""),
    ("bucket_update", "if (bucket->shift && now_ms", "if (now_ms"),
    ("bucket_update", "AGAIN_EASE_MS\t\t16000U", "AGAIN_EASE_MS\t\t15000U"),
    ("bucket_update", "20 * bucket->again < max(bucket->exchanged, 1U)", "true"),
    ("bucket_update", "< max(bucket->exchanged, 1U)", "<= max(bucket->exchanged, 1U)"),
    ("bucket_update", "< max(bucket->exchanged, 1U)", "< bucket->exchanged"),
    ("bucket_update", "shift--;\n\t\tbucket->changed_ms = now_ms;\n", "shift--;\n"),
    ("bucket_begin", "\tbucket->shift = 0;\n\tbucket->exchanged", "\tbucket->exchanged"),
    ("bucket_begin", "shift = 0;\n\tbucket->exchanged = 0;\n", "shift = 0;\n"),
    ("bucket_begin", "\tbucket->again = 0;\n\tbucket->loss = 0;\n", "\tbucket->loss = 0;\n"),
    ("bucket_begin", "\tbucket->loss = 0;\n\tbucket->weight", "\tbucket->weight"),
    ("bucket_begin", "\tbucket->loss = 0;\n\tbucket->weight = 0;\n", "\tbucket->loss = 0;\n"),
    ("bucket_quota", "quota >> (2 * bucket->shift)", "quota >> bucket->shift"),
    ("bucket_quota", "max(quota >> (2 * bucket->shift), 1U)", "quota >> (2 * bucket->shift)"),
    ("bucket_moved", "LOSS_LEAST\t\t32", "LOSS_LEAST\t\t31"),
    ("bucket_moved", "LOSS_LEAST\t\t32", "LOSS_LEAST\t\t33"),
    ("bucket_moved", "bucket->found += found", "bucket->found = found"),
    ("bucket_moved", "bucket->moved += moved", "bucket->moved = moved"),
    ("bucket_moved", "min(bucket->moved, bucket->found)", "bucket->moved"),
    ("bucket_moved", "LOSS_QUIET\t\t64", "LOSS_QUIET\t\t32"),
    (
        "bucket_moved",
        "(bucket->weight + LOSS_QUIET - 1) / LOSS_QUIET",
        "bucket->weight / LOSS_QUIET",
    ),
    ("bucket_moved", "if (!bucket->weight)", "if (true)"),
    ("bucket_moved", "\t\t\tbucket->loss = 0;\n", "\t\t\t;\n"),
    ("bucket_moved", "loss = 1024 - div_u64", "loss = div_u64"),
    ("bucket_moved", "(u64)min(bucket->moved, bucket", "min(bucket->moved, bucket"),
    ("bucket_moved", "(3 * bucket->loss + loss) / 4", "loss"),
    ("bucket_moved", "3ULL * bucket->weight", "3 * bucket->weight"),
    ("bucket_moved", "bucket->weight + bucket->found) / 4", "bucket->weight) / 4"),
    ("bucket_moved", "\tbucket->found = 0;\n", ""),
    ("bucket_moved", "\tbucket->moved = 0;\n", ""),
    ("turn", "(u64)found * page_cost", "found * page_cost"),
    ("turn", "(1024 - loss)", "1024"),
    ("turn", "worth >= cost", "worth > cost"),
    ("turn", "e ? e - 1 : 0", "e - 1"),
    ("turn", "saturated ? min_t", "true ? min_t"),
    ("turn", "saturated ? min_t", "false ? min_t"),
    ("turn", "e + 1, POLICY_MAX_TURN", "e + 1, POLICY_MAX_TURN + 1"),
    ("enough", "min_t(u64, 2ULL * quota, U32_MAX)", "quota"),
    ("enough", "min_t(u64, 2ULL * quota, U32_MAX)", "2 * quota"),
)

Check = Callable[..., None]


def _checks() -> Iterator[tuple[Check, dict[str, Any]]]:
    """The tests of test_policy.py, each with its parameters."""
    for name, check in vars(test_policy).items():
        if not name.startswith("test_"):
            continue
        tables = []
        for mark in getattr(check, "pytestmark", ()):
            names, rows = mark.args
            if isinstance(names, str):
                tables.append([{names: row} for row in rows])
            else:
                tables.append([dict(zip(names, row, strict=True)) for row in rows])
        for rows in itertools.product(*tables):
            yield check, {name: value for row in rows for name, value in row.items()}


def _call_checks(source: Path) -> None:
    policy = test_policy.build(source, source.with_suffix(".so"), optimize="-O0")
    for check, arguments in _checks():
        check(policy, **arguments)


def _call_quietly(source: Path) -> None:
    """Exit with code 3 if a check fails."""
    faulthandler.disable()  # a division by 0 is expected
    try:
        _call_checks(source)
    except AssertionError:
        raise SystemExit(3) from None


def _noticed(source: Path) -> bool:
    """Do the checks fail?  They run in a process, because a changed decision can divide by 0."""
    process = multiprocessing.get_context("fork").Process(target=_call_quietly, args=(source,))
    process.start()
    process.join(TIMEOUT_S)
    if process.exitcode is None:
        process.kill()
        process.join()
    # 1 stands for any other exception, like that of a compiler that refuses the change.
    assert process.exitcode != 1, "the change does not compile"
    return process.exitcode != 0


def _mutated(text: str, says: str, must_not: str) -> str:
    found = text.count(says)
    assert found == 1, f"policy.c has changed: it has {says!r} {found} times, not once"
    return text.replace(says, must_not)


def test_checks_of_unchanged_decisions_pass(tmp_path: Path) -> None:
    (tmp_path / "policy.c").write_bytes(SOURCE.read_bytes())
    _call_checks(tmp_path / "policy.c")
    assert not _noticed(tmp_path / "policy.c")


def test_mutations_of_each_decision_exist() -> None:
    header = SOURCE.with_suffix(".h").read_text(encoding="utf-8")
    decisions = set(re.findall(r"\bpolicy_(\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.S)))
    assert {decision for decision, *_ in MUTATIONS} == decisions


def test_mutation_of_missing_text_is_refused() -> None:
    for text in ("", "e + 1; e + 1"):
        with pytest.raises(AssertionError, match=r"policy\.c has changed"):
            _mutated(text, "e + 1", "e")


def test_change_that_does_not_compile_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "policy.c").write_text("#error\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="does not compile"):
        _noticed(tmp_path / "policy.c")


@pytest.mark.parametrize(("decision", "says", "must_not"), MUTATIONS)
def test_decision_with_a_change_fails_a_check(
    tmp_path: Path, decision: str, says: str, must_not: str
) -> None:
    text = _mutated(SOURCE.read_text(encoding="utf-8"), says, must_not)
    (tmp_path / "policy.c").write_text(text, encoding="utf-8")
    assert _noticed(tmp_path / "policy.c"), f"no check of policy_{decision}() notices {must_not!r}"
