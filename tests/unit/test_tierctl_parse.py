# SPDX-License-Identifier: GPL-2.0
"""tierctl's small texts: figures for people, and numbers of the kernel."""

from __future__ import annotations

import pytest

from tierctl.core import paths, text
from tierctl.core.parse import as_ranges, labelled_kib, page_size, pairs, per_second, ranges


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "?"),
        (0, "0"),
        (1, "1"),
        (1023, "1023"),
        (1024, "1.0K"),
        (1023.96 * 1024, "1.0M"),
        (503.6 * (1 << 30), "503.6G"),
        (1 << 40, "1.0T"),
        (5000 << 50, "5000.0P"),
    ],
)
def test_size(value: float | None, expected: str) -> None:
    assert text.size(value) == expected


def test_rates_shares_and_times_of_unknown_are_question_marks() -> None:
    found = (text.rate(None), text.share(None, 4), text.share(1, 0), text.seconds(None))
    assert found == ("?",) * 4
    assert (text.rate(212 << 20), text.share(97, 100), text.fraction(0.144)) == (
        "212.0M/s",
        "97%",
        "0.14",
    )
    assert [text.seconds(one) for one in (0.5, 28, 119, 180, 14400, 259200)] == [
        "0.5 s",
        "28 s",
        "119 s",
        "3 min",
        "4 h",
        "3 d",
    ]


def test_bar_shows_a_part_that_is_small_and_never_gets_too_long() -> None:
    assert text.bar([(0.71, "#"), (0.29, ".")], 20) == "##############......"
    assert text.bar([(0.999, "#"), (0.001, ".")], 20) == "#" * 19 + "."
    assert text.bar([(0.0, "#"), (1.0, ".")], 4) == "...."
    for share in range(101):
        assert len(text.bar([(share / 100, "#"), (1 - share / 100, ".")], 20)) == 20


def test_lists_of_nodes_and_cpus() -> None:
    assert ranges("0-2,5\n") == [0, 1, 2, 5] and ranges("") == [] and ranges(None) is None
    assert ranges("x") is None and ranges("0-") is None and ranges("0-99999999") is None
    assert as_ranges([5, 0, 1, 2, 2]) == "0-2,5" and as_ranges([]) == ""


def test_numbers_of_the_kernel() -> None:
    assert pairs("a 1\nb x\nc\n\nd 2 3") == {"a": 1} and pairs(None) == {}
    assert labelled_kib("Node 0 MemTotal:   8 kB\nHugePages_Total: 4") == {"MemTotal": 8192}
    assert page_size(1 << 30, 1 << 18) == 4096 and page_size(1 << 30, 1 << 14) == 65536
    assert page_size(None, 5) == 4096 == page_size(5, 0)


def test_rate_of_an_unknown_or_falling_counter_is_unknown() -> None:
    assert per_second(1, 5, 2) == 2
    for unknown in ((None, 1, 1), (1, None, 1), (5, 1, 1), (1, 5, 0), (1, 5, -1)):
        assert per_second(*unknown) is None
    assert paths.VMSTAT == "/proc/vmstat"


def test_table_has_columns_of_one_width_and_no_spaces_at_the_end() -> None:
    lines = text.table([["a", "bb", "c"], ["aaa", "b", ""]], "<><")
    assert lines == ["a    bb  c", "aaa   b"]
    assert text.clip("abcdef", 4) == "abc~" and text.clip("abcd", 4) == "abcd"
