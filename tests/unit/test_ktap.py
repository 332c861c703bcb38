# SPDX-License-Identifier: GPL-2.0
"""KTAP reading: silence, crashes and skips must never look like success."""

from lab.ktap import Case, parse


def test_results_and_directives() -> None:
    text = "TAP version 13\n1..3\nok 1 one\nnot ok 2 - two\nok 3 three # SKIP no memory\n"
    assert parse(text, 1) == [
        Case("one", "pass"),
        Case("two", "fail"),
        Case("three", "skip", "no memory"),
    ]


def test_skipped_case_without_a_name() -> None:
    """What ksft_test_result_skip() prints."""
    text = "1..2\nok 1 # SKIP no KSM (CONFIG_KSM)\nok 2 - # SKIP\n"
    assert parse(text, 0) == [
        Case("case 1", "skip", "no KSM (CONFIG_KSM)"),
        Case("case 2", "skip"),
    ]


def test_failed_case_has_its_last_remarks_as_reason() -> None:
    text = (
        "TAP version 13\n1..2\n# early\nok 1 a.one\n#  RUN           a.two ...\n"
        "# in 3 rounds it was not met\n# a_test.c:9:two:Expected 1 (1) == x (0)\n"
        "# two: Test failed\n#          FAIL  a.two\nnot ok 2 a.two\n"
    )
    assert parse(text, 1) == [
        Case("a.one", "pass"),
        Case(
            "a.two",
            "fail",
            "in 3 rounds it was not met; a_test.c:9:two:Expected 1 (1) == x (0); two: Test failed",
        ),
    ]


def test_name_with_a_hash() -> None:
    assert parse("1..1\nok 1 pages #1 to #3 # SKIPPED\n", 0)[0].outcome == "pass"


def test_program_that_dies_before_its_plan_is_done_fails() -> None:
    cases = parse("1..2\nok 1 one\n", 139)
    assert [case.outcome for case in cases] == ["pass", "fail"]
    assert "139" in cases[1].reason


def test_all_ok_but_bad_exit_code_fails() -> None:
    assert parse("1..1\nok 1 one\n", 1)[-1].outcome == "fail"


def test_whole_program_skipped() -> None:
    assert parse("1..0 # SKIP no slow tier\n", 4) == [Case("all", "skip", "no slow tier")]


def test_no_ktap_counts_by_exit_code() -> None:
    assert parse("hello\n", 0)[0].outcome == "pass"
    assert parse("hello\n", 2)[0].outcome == "fail"
    assert parse("needs root\n", 4) == [Case("all", "skip", "needs root")]


def test_a_program_that_is_killed_has_no_case_of_its_own() -> None:
    for text in ("TAP version 13\n1..1\n# working\n", "", "TAP version 13\n"):
        (case,) = parse(text, 124)
        assert case.outcome == "fail" and case.name in ("plan", "exit code")
    (case,) = parse("1..1\nnot ok 1 what it is about\n", 1)
    assert case.outcome == "fail" and case.name not in ("plan", "exit code")
