# SPDX-License-Identifier: GPL-2.0
"""What a study's boot has printed."""

from __future__ import annotations

import pytest

from lab import boots
from lab.errors import LabError


def test_result_is_taken_from_among_other_lines() -> None:
    assert boots.said('x\nRESULT {"pages": 3}\ny\n', "vm.c") == {"pages": 3}


@pytest.mark.parametrize("log", ["", "RESULT\n", 'no RESULT {"pages": 3}\n'])
def test_no_result_is_an_error(log: str) -> None:
    with pytest.raises(LabError, match=r"vm\.c has printed no result"):
        boots.said(log, "vm.c")
