# SPDX-License-Identifier: GPL-2.0
"""tierctl forecast: how much of what is hot would move, in how long, and where to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import tierctl_schemas
from tierctl_process import spans
from tierctl_trees import FAST, OURS, PLAIN, SLOW, STOCK, Spec, Stepping, build

from tierctl.commands import forecast
from tierctl.commands.forecast import Forecast
from tierctl.core import reply
from tierctl.core.errors import FINDING, LACKING, WELL, TierctlError
from tierctl.core.paths import DEMOTION
from tierctl.core.text import Style
from tierctl.read.spans import SPANS

PAGE = 4096
ROOMY = replace(FAST, gib=100, free=0.5, targets="1")
FULL = replace(FAST, gib=1, free=0.2, targets="1")  # 60,000 pages are below the high watermark
HOT = replace(SLOW, gib=100, hot=1 << 20)
SPEC = replace(OURS, nodes=(ROOMY, HOT))


def answer(tmp_path: Path, spec: Spec) -> Forecast:
    """The forecast, checked."""
    found = Stepping(build(tmp_path, spec))
    got = forecast.answer(found)
    assert tierctl_schemas.check(reply.document(got, found)) == []
    lines = forecast.draw(got, Style())
    assert max(map(len, lines)) <= 80 and all(line.isascii() for line in lines)
    data: Forecast = got.data
    assert got.code == (WELL if data.hot is None or data.stays == 0 else FINDING)
    if data.moves is not None and data.stays is not None:
        assert data.moves + data.stays == data.hot
    return data


def test_hot_memory_that_fits_moves_at_the_limit(tmp_path: Path) -> None:
    data = answer(tmp_path, SPEC)
    assert (data.hot, data.hot_by, data.state) == (4 << 30, "found", "moves")
    assert (data.moves, data.stays, data.rate, data.seconds) == (4 << 30, 0, 2048 << 20, 2)


def test_rate_is_for_each_slow_and_each_fast_node(tmp_path: Path) -> None:
    two = answer(tmp_path / "a", replace(SPEC, nodes=(ROOMY, ROOMY, HOT, HOT)))
    assert two.rate == 2 * (2048 << 20) and two.hot == 8 << 30
    one = answer(tmp_path / "b", replace(SPEC, nodes=(ROOMY, ROOMY, HOT)))
    assert one.rate == 2048 << 20


def test_full_node_needs_pages_that_are_cold(tmp_path: Path) -> None:
    data = answer(tmp_path, replace(SPEC, nodes=(FULL, HOT)))
    assert data.free == 0 and data.moves == data.cold and data.cold
    assert data.stays == (4 << 30) - data.cold


def test_full_node_without_demotion_takes_nothing(tmp_path: Path) -> None:
    spec = replace(SPEC, nodes=(FULL, HOT), parts_off=("demote",))
    data = answer(tmp_path, spec)
    assert (data.demotes, data.moves, data.stays, data.seconds) == (False, 0, 4 << 30, 0.0)


@pytest.mark.parametrize("denied", [DEMOTION, "/sys/kernel/debug"])
def test_full_node_of_which_demotion_or_cold_is_unknown_tells_no_moves(
    tmp_path: Path, denied: str
) -> None:
    found = Stepping(build(tmp_path, replace(STOCK, nodes=(FULL, HOT))))
    found.denied = (denied,)
    got = forecast.answer(found)
    assert (got.data.moves, got.data.stays, got.data.seconds) == (None, None, None)
    assert got.code == (FINDING if got.data.hot else WELL)


def test_observe_forecasts_what_would_move(tmp_path: Path) -> None:
    data = answer(tmp_path, replace(SPEC, parts_off=("promote",)))
    assert (data.state, data.hot_by, data.moves) == ("observe", "found", 4 << 30)
    # A write to the file would go round tierctl: profile verify would differ.
    assert forecast.WORDS["observe"].endswith("tierctl set promote.enabled 1")


@pytest.mark.parametrize(("age_ms", "hot"), [(9, 24), (99_999, 0)])
def test_observe_knows_what_the_last_visits_found(tmp_path: Path, age_ms: int, hot: int) -> None:
    nodes = (ROOMY, replace(SLOW, gib=100, hot=0))
    build(tmp_path, SPEC).put(SPANS[1:], spans(pushed=6144, age_ms=age_ms))
    data = answer(tmp_path, replace(SPEC, nodes=nodes, parts_off=("promote",)))
    assert (data.hot_by, data.hot) == ("found", hot << 20)


def test_tiering_off_uses_the_estimate_of_mglru(tmp_path: Path) -> None:
    data = answer(tmp_path, replace(SPEC, enabled=0))
    assert (data.state, data.hot_by) == ("off", "mglru") and data.hot


def test_stock_kernel_knows_room_and_no_pace(tmp_path: Path) -> None:
    data = answer(tmp_path, replace(STOCK, nodes=(ROOMY, HOT)))
    assert (data.state, data.hot_by, data.seconds) == ("no-part", "mglru", None)
    assert data.rate is None and data.moves == data.hot


def test_machine_without_generations_has_unknown_hot_and_not_0(tmp_path: Path) -> None:
    data = answer(tmp_path, replace(STOCK, nodes=(ROOMY, HOT), lru_gen=None))
    assert (data.hot, data.moves, data.seconds) == (None, None, None)


def test_hot_of_a_node_that_cannot_be_read_is_estimated(tmp_path: Path) -> None:
    found = Stepping(build(tmp_path, SPEC))
    found.denied = ("/sys/kernel/mm/tier/node1/hot",)
    assert forecast.answer(found).data.hot_by == "mglru"


def test_machine_without_slow_memory_is_lacking(tmp_path: Path) -> None:
    with pytest.raises(TierctlError, match="no slow memory; tierctl doctor") as error:
        answer(tmp_path, PLAIN)
    assert error.value.code == LACKING
