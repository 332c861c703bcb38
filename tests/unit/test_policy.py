# SPDX-License-Identifier: GPL-2.0
"""Decisions of the promoter (policy.c), called one by one.

test_decisions.py runs the same checks on changed decisions, and each change has to be noticed.
"""

from __future__ import annotations

import ctypes
import math
import subprocess
from ctypes import POINTER, Structure, byref, c_bool, c_uint8, c_uint16, c_uint32, c_uint64
from pathlib import Path

import pytest

from lab import cache

HEADERS = cache.PROJECT / "tests/sim"
KMMSCAND = cache.PROJECT / "linux/kmmscand/files/mm/tier/kmmscand"


class Node(Structure):
    _fields_ = (("window_us", c_uint32), ("saturated", c_bool), ("begun_ms", c_uint64))


class Heat(Structure):
    _fields_ = (
        ("sum", c_uint64),
        *((name, c_uint32) for name in ("pages", "quiet", "rate")),
        ("looked", c_bool),
    )


class Wait(Structure):
    _fields_ = (("wait_ms", c_uint32), ("rate", c_uint32), ("last_ms", c_uint64))


class Period(Structure):
    _fields_ = (
        ("visited", c_bool),
        ("window_us", c_uint32),
        *((name, c_uint32) for name in ("pushed", "quota", "room", "victims", "window_max_us")),
        ("full", c_bool),
        ("pending", c_bool),
    )


class Bucket(Structure):
    _fields_ = (
        *((name, c_uint32) for name in ("exchanged", "again", "found", "moved", "weight")),
        ("loss", c_uint16),
        ("shift", c_uint8),
        ("changed_ms", c_uint64),
    )


class Change(Structure):
    _fields_ = (("rate", c_uint32), ("looks", c_uint8))


def build(source: Path, out: Path, optimize: str = "-O2") -> ctypes.CDLL:
    """Compile a policy.c, and load it."""
    flags = (optimize, "-shared", "-fPIC", f"-I{HEADERS}", f"-I{KMMSCAND}", "-o", str(out))
    subprocess.run(("cc", *flags, str(source)), check=True)
    library = ctypes.CDLL(str(out))
    for name in ("rate", "idle_ms", "quota", "window_max", "bucket_quota", "turn", "enough"):
        getattr(library, f"policy_{name}").restype = c_uint32
    for name in ("jump", "attempt_due", "bucket_update", "serves", "node_begin"):
        getattr(library, f"policy_{name}").restype = c_bool
    library.policy_node_begin.argtypes = (POINTER(Node), c_uint64)
    library.policy_turn.argtypes = (c_uint32, c_uint64, c_uint32, c_uint32, c_uint32, c_bool)
    library.policy_attempt_due.argtypes = (
        *(POINTER(Wait), c_uint32, POINTER(Period), c_uint32, c_uint64),
    )
    library.policy_attempt_begins.argtypes = (POINTER(Wait), c_uint64)
    library.policy_attempt_ends.argtypes = (POINTER(Wait), c_uint32, c_uint32, c_uint64, c_uint32)
    library.policy_bucket_update.argtypes = (POINTER(Bucket), c_uint32, c_uint32, c_uint64)
    return library


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(KMMSCAND / "policy.c", tmp_path_factory.mktemp("policy") / "policy.so")


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5, 0.632, 0.9, 0.97])
@pytest.mark.parametrize("window_us", [16_000, 250_000, 1_000_000])
def test_rate_of_a_share_is_its_logarithm(
    policy: ctypes.CDLL, share: float, window_us: int
) -> None:
    """For 1,000 seconds; the error is at most 2 % of a window's worth."""
    rate = policy.policy_rate(10_000, round(10_000 * share), window_us)
    exact = -math.log(1 - share) / window_us * 1e9
    assert rate == pytest.approx(exact, abs=0.02 / window_us * 1e9)


def test_heat_of_few_pages_is_not_known(policy: ctypes.CDLL) -> None:
    """A rate of fewer than 16 pages is a matter of chance."""
    heat = Heat()
    policy.policy_heat_add(byref(heat), 15, 15, 16_000)
    policy.policy_heat_age(byref(heat))
    assert (heat.rate, heat.pages, heat.quiet) == (0, 0, 1)
    policy.policy_heat_add(byref(heat), 16, 8, 16_000)
    policy.policy_heat_age(byref(heat))
    assert heat.rate == policy.policy_rate(16, 8, 16_000)


def test_heat_of_several_visits_is_their_mean_by_pages(policy: ctypes.CDLL) -> None:
    """A group has many address spaces, and windows differ from visit to visit."""
    heat = Heat()
    policy.policy_heat_add(byref(heat), 300, 150, 16_000)
    policy.policy_heat_add(byref(heat), 100, 50, 32_000)
    policy.policy_heat_age(byref(heat))
    half, quarter = policy.policy_rate(300, 150, 16_000), policy.policy_rate(100, 50, 32_000)
    assert half == pytest.approx(2 * quarter, abs=1)
    assert heat.rate == (300 * half + 100 * quarter) // 400


def test_heat_of_a_large_visit_does_not_hide_the_others(policy: ctypes.CDLL) -> None:
    heat = Heat()
    policy.policy_heat_add(byref(heat), 1 << 30, 0, 16_000)
    policy.policy_heat_add(byref(heat), 65_536, 32_768, 16_000)
    policy.policy_heat_age(byref(heat))
    assert heat.rate == policy.policy_rate(2, 1, 16_000) // 2


def test_heat_of_the_hottest_pages_does_not_overflow(policy: ctypes.CDLL) -> None:
    heat = Heat()
    policy.policy_heat_add(byref(heat), 65_536, 65_536, 250)
    policy.policy_heat_age(byref(heat))
    assert heat.rate == policy.policy_rate(1, 1, 250)


def test_heat_of_old_looks_counts_a_quarter(policy: ctypes.CDLL) -> None:
    """After a shift the rate follows what the group accesses now."""
    heat = Heat(sum=400_000, pages=400)
    policy.policy_heat_add(byref(heat), 100, 0, 16_000)
    policy.policy_heat_age(byref(heat))
    assert heat.rate == 800
    assert (heat.sum, heat.pages) == (100_000, 125)


def test_heat_without_looks_stays(policy: ctypes.CDLL) -> None:
    heat = Heat(sum=700, pages=100, rate=7)
    policy.policy_heat_age(byref(heat))
    assert (heat.sum, heat.pages, heat.rate) == (700, 100, 7)


def test_heat_is_forgotten_after_a_minute(policy: ctypes.CDLL) -> None:
    """The number of the group may be that of another one by then."""
    heat = Heat(sum=700, pages=100, rate=7)
    for _ in range(127):
        policy.policy_heat_age(byref(heat))
    assert heat.rate == 7
    policy.policy_heat_age(byref(heat))
    assert (heat.sum, heat.pages, heat.rate) == (0, 0, 0)


def test_heat_after_a_look_lasts_another_minute(policy: ctypes.CDLL) -> None:
    heat = Heat(sum=700, pages=100, quiet=127)
    policy.policy_heat_add(byref(heat), 100, 50, 16_000)
    policy.policy_heat_age(byref(heat))
    rate = heat.rate
    policy.policy_heat_age(byref(heat))
    assert (heat.quiet, heat.rate, heat.looked) == (1, rate, False)


def test_serves_what_is_at_least_half_as_hot(policy: ctypes.CDLL) -> None:
    assert policy.policy_serves(1000, 500)
    assert not policy.policy_serves(1000, 499)
    assert policy.policy_serves(0, 0)


def test_rate_of_all_pages_found_has_a_limit(policy: ctypes.CDLL) -> None:
    assert policy.policy_rate(1000, 1000, 1_000_000) == pytest.approx(3_900, rel=0.02)
    assert policy.policy_rate(1000, 0, 1_000_000) == 0
    assert policy.policy_rate(0, 0, 1_000_000) == 0


def test_rate_of_terabytes_does_not_overflow(policy: ctypes.CDLL) -> None:
    assert policy.policy_rate(1 << 30, 1 << 29, 16_000) == policy.policy_rate(1000, 500, 16_000)


@pytest.mark.parametrize(("rate", "ms"), [(6_000, 1_000), (10**9, 16), (0, 64_000), (50, 64_000)])
def test_idle_time_is_six_accesses(policy: ctypes.CDLL, rate: int, ms: int) -> None:
    assert policy.policy_idle_ms(rate) == ms


@pytest.mark.parametrize(
    ("rate", "cpu", "gain", "quota"),
    [
        *((100, 80, 1000, 80), (80, 100, 1000, 80), (100, 80, 500, 40), (9, 9, 0, 0)),
        # No tier gains more by being loaded.
        (100, 80, 2000, 80),
        (2**32 - 1, 2**32 - 1, 1000, 2**32 - 1),
    ],
)
def test_quota_is_the_least_of_the_limits(
    policy: ctypes.CDLL, rate: int, cpu: int, gain: int, quota: int
) -> None:
    assert policy.policy_quota(rate, cpu, gain) == quota


def test_window_max_pays_back_in_a_minute(policy: ctypes.CDLL) -> None:
    assert policy.policy_window_max(10, 6_000, False) == 100_000
    assert policy.policy_window_max(150, 4_000, False) == 1_000_000
    assert policy.policy_window_max(150, 4_000, True) == 250_000
    assert policy.policy_window_max(0, 4_000, False) == 16_000
    assert policy.policy_window_max(150, 0, False) == 1_000_000


def test_node_that_begins_has_the_shortest_window(policy: ctypes.CDLL) -> None:
    """What is hottest is found first, and turns are prolonged by no old finding."""
    node = Node(window_us=1_000_000, saturated=True)
    assert policy.policy_node_begin(byref(node), 5)
    assert (node.window_us, node.saturated, node.begun_ms) == (16_000, False, 5)


def test_node_that_has_begun_lately_goes_on(policy: ctypes.CDLL) -> None:
    """An address space that changes all the time must not keep the windows of all others short."""
    node = Node(window_us=1_000_000, saturated=True, begun_ms=1000)
    assert not policy.policy_node_begin(byref(node), 16_999)
    assert (node.window_us, node.saturated, node.begun_ms) == (1_000_000, True, 1000)
    assert policy.policy_node_begin(byref(node), 17_000)
    assert (node.window_us, node.begun_ms) == (16_000, 17_000)


def _window(policy: ctypes.CDLL, node: Node, **values: int) -> int:
    usual = {"visited": True, "window_us": node.window_us, "quota": 1000, "window_max_us": 10**6}
    period = Period(**{**usual, **values})
    policy.policy_update_window(byref(node), byref(period))
    return int(node.window_us)


def test_window_of_visits_that_began_long_ago_counts(policy: ctypes.CDLL) -> None:
    """The node's own one has grown meanwhile, and no visit has shown what it finds."""
    found = {"room": 5000, "pushed": 249, "window_us": 16_000}
    assert _window(policy, Node(window_us=256_000), **found) == 32_000


def test_window_follows_the_root_of_candidates(policy: ctypes.CDLL) -> None:
    assert _window(policy, Node(window_us=64_000), room=5000, pushed=3999) == 32_000
    assert _window(policy, Node(window_us=64_000), room=5000, pushed=249) == 128_000
    assert _window(policy, Node(window_us=64_000), room=5000, pushed=0) == 128_000
    assert _window(policy, Node(window_us=64_000), room=5000, pushed=1500) == 64_000
    assert _window(policy, Node(window_us=64_000), room=5000, pushed=639) == 80_000
    shorter = _window(policy, Node(window_us=64_000), room=5000, pushed=2249)
    assert shorter == pytest.approx(64_000 / 1.5, rel=0.01)


def test_window_of_many_pages_does_not_overflow(policy: ctypes.CDLL) -> None:
    node = Node(window_us=64_000)
    assert _window(policy, node, quota=8000, room=8000, pushed=31_999) == 32_000


def test_window_becomes_a_quarter_or_twice_as_long_at_most(policy: ctypes.CDLL) -> None:
    """One period with few or many candidates can be an accident."""
    assert _window(policy, Node(window_us=256_000), room=5000, pushed=10**6) == 64_000
    assert _window(policy, Node(window_us=64_000), room=5000, pushed=0) == 128_000


def test_window_has_limits(policy: ctypes.CDLL) -> None:
    """Below 16 ms clearing takes most of the window; above the maximum no page pays back."""
    assert _window(policy, Node(window_us=17_000), room=5000, pushed=10**6) == 16_000
    assert _window(policy, Node(window_us=900_000), room=5000, pushed=0) == 1_000_000


def test_window_counts_what_can_move(policy: ctypes.CDLL) -> None:
    """Neither the quota alone, nor the room alone, nor the victims alone."""
    assert _window(policy, Node(window_us=64_000), room=400, victims=600, pushed=3999) == 32_000
    assert _window(policy, Node(window_us=64_000), room=150, victims=100, pushed=999) == 32_000


def test_window_with_nothing_to_give_searches(policy: ctypes.CDLL) -> None:
    assert _window(policy, Node(window_us=64_000), full=True, pushed=100) == 32_000
    assert _window(policy, Node(window_us=64_000), full=True, pushed=0) == 128_000
    assert _window(policy, Node(window_us=64_000), full=True, pushed=15) == 128_000
    assert _window(policy, Node(window_us=64_000), full=True, pushed=16) == 32_000


def test_window_while_victims_are_looked_for_stays(policy: ctypes.CDLL) -> None:
    node = Node(window_us=64_000)
    assert _window(policy, node, full=True, pending=True, pushed=9999) == 64_000
    assert not node.saturated
    node = Node(window_us=64_000, saturated=True)
    assert _window(policy, node, full=True, pending=True, pushed=0) == 64_000
    assert node.saturated
    node = Node(window_us=2_000_000)
    assert _window(policy, node, full=True, pending=True, pushed=9999) == 1_000_000


def test_window_with_room_does_not_wait_for_victims(policy: ctypes.CDLL) -> None:
    node = Node(window_us=64_000)
    assert _window(policy, node, pending=True, room=5000, pushed=3999) == 32_000


@pytest.mark.parametrize("saturated", [False, True])
def test_window_without_a_visit_stays(policy: ctypes.CDLL, saturated: bool) -> None:
    """A period without a visit tells nothing of the candidates, so the last visit counts on."""
    node = Node(window_us=64_000, saturated=saturated)
    assert _window(policy, node, visited=False, room=5000, pushed=0) == 64_000
    assert node.saturated == saturated


def test_window_with_too_many_candidates_needs_no_visit_of_all(policy: ctypes.CDLL) -> None:
    few = {"visited": False, "full": True, "victims": 100}
    assert _window(policy, Node(window_us=64_000), **few, pushed=217) < 64_000
    assert _window(policy, Node(window_us=64_000), **few, pushed=216) == 64_000


@pytest.mark.parametrize(
    ("values", "used"),
    [
        ({"visited": True}, True),
        ({"visited": False}, False),
        ({"visited": False, "pushed": 17}, True),
        ({"visited": True, "full": True, "pending": True}, True),
        ({"visited": False, "full": True, "pending": True, "pushed": 9999}, False),
    ],
)
def test_window_says_whether_the_candidates_are_used_up(
    policy: ctypes.CDLL, values: dict[str, int], used: bool
) -> None:
    period = Period(**{"window_us": 64_000, "window_max_us": 10**6, **values})
    policy.policy_update_window.restype = c_bool
    assert policy.policy_update_window(byref(Node(window_us=64_000)), byref(period)) == used


def test_window_that_finds_enough_is_saturated(policy: ctypes.CDLL) -> None:
    node = Node(window_us=64_000)
    _window(policy, node, room=5000, pushed=1000)
    assert node.saturated
    _window(policy, node, room=5000, pushed=999)
    assert not node.saturated


def test_window_that_cannot_grow_is_saturated(policy: ctypes.CDLL) -> None:
    """No longer window finds more, so more visits find the same pages."""
    node = Node(window_us=500_000)
    _window(policy, node, room=5000, pushed=0)
    assert node.saturated


def test_jump_needs_three_times_the_mean(policy: ctypes.CDLL) -> None:
    change = Change()
    looks = [policy.policy_jump(byref(change), 200, 10_000) for _ in range(6)]
    assert not any(looks)
    assert not policy.policy_jump(byref(change), 590, 10_000)
    assert policy.policy_jump(byref(change), 900, 10_000)
    assert not policy.policy_jump(byref(change), 900, 10_000)
    # Two looks make a mean.
    change = Change()
    looks = [policy.policy_jump(byref(change), found, 10_000) for found in (200, 200, 900)]
    assert looks == [False, False, True]


def test_jump_is_more_than_three_times_the_mean(policy: ctypes.CDLL) -> None:
    mean = (100 << 20) // 1024
    assert not policy.policy_jump(byref(Change(rate=mean, looks=4)), 300, 1024)
    assert policy.policy_jump(byref(Change(rate=mean, looks=4)), 301, 1024)


def test_jump_compares_with_a_mean_that_follows(policy: ctypes.CDLL) -> None:
    """A look counts a quarter: a slow change is no jump, and one look is no mean."""
    change = Change(rate=(100 << 20) // 1024, looks=4)
    assert not policy.policy_jump(byref(change), 60, 1024)
    assert change.rate == (90 << 20) // 1024


def test_jump_begins_a_new_mean(policy: ctypes.CDLL) -> None:
    """What has become hot stays hot, and is no jump again."""
    change = Change(rate=(100 << 20) // 1024, looks=4)
    assert policy.policy_jump(byref(change), 400, 1024)
    assert change.rate == (400 << 20) // 1024


def test_jump_of_many_pages_does_not_overflow(policy: ctypes.CDLL) -> None:
    change = Change(rate=1 << 19, looks=4)
    assert not policy.policy_jump(byref(change), 5000, 10_000)
    assert change.rate == 1 << 19


def test_jump_in_a_small_sample_is_none(policy: ctypes.CDLL) -> None:
    """Fewer than 64 pages that are looked at change no mean; fewer that are found are chance."""
    change = Change(rate=1, looks=1)
    assert not policy.policy_jump(byref(change), 63, 63)
    assert (change.rate, change.looks) == (1, 1)
    assert not policy.policy_jump(byref(change), 0, 64)
    assert (change.rate, change.looks) == (0, 2)
    change = Change(rate=1, looks=4)
    assert not policy.policy_jump(byref(change), 63, 1000)
    assert policy.policy_jump(byref(Change(rate=1, looks=4)), 64, 1000)


def test_attempt_waits_for_need_and_time(policy: ctypes.CDLL) -> None:
    def due(period: Period, waiting: int, now: int) -> bool:
        return bool(policy.policy_attempt_due(byref(wait), 6_000, byref(period), waiting, now))

    wait = Wait()
    few, much = (Period(quota=100, pushed=100, room=room) for room in (199, 200))
    assert due(few, 0, 1000)
    assert not due(few, 0, 999)
    assert not due(much, 0, 1000)
    # There is more room than candidates need.
    assert not due(Period(quota=100, pushed=50, room=100), 0, 1000)
    assert due(Period(quota=100, pushed=50, room=99), 0, 1000)
    assert not due(Period(quota=50, pushed=100, room=100), 0, 1000)
    some = Period(quota=100, pushed=100, full=True, victims=5)
    assert not due(some, 5, 1000)
    assert due(some, 6, 1000)
    many = Period(quota=100, pushed=100, full=True, victims=200)
    assert not due(many, 10_000, 1000)
    policy.policy_attempt_begins(byref(wait), 1000)
    assert not due(some, 6, 1999)
    assert due(some, 6, 2000)


def test_attempt_in_vain_delays_the_next_one(policy: ctypes.CDLL) -> None:
    period = Period(quota=100, pushed=100, full=True)
    wait = Wait(wait_ms=4000, rate=6_000)
    for now, due in ((3999, False), (4000, True)):
        assert policy.policy_attempt_due(byref(wait), 6_000, byref(period), 6, now) == due


def test_attempt_for_much_hotter_candidates_does_not_wait(policy: ctypes.CDLL) -> None:
    """Something else has become hot.  Its victims are idle for a quarter of the time."""
    period = Period(quota=100, pushed=100, full=True)
    wait = Wait(wait_ms=64_000, rate=6_000)
    for rate, due in ((24_003, False), (24_004, True)):
        assert policy.policy_attempt_due(byref(wait), rate, byref(period), 6, 1000) == due


def test_attempt_in_vain_for_hot_candidates_counts_for_colder_ones(policy: ctypes.CDLL) -> None:
    wait = Wait()
    for rate, hottest in ((6_000, 6_000), (9_000, 9_000), (3_000, 9_000)):
        policy.policy_attempt_ends(byref(wait), rate, 0, 1, 1)
        assert wait.rate == hottest
    policy.policy_attempt_ends(byref(wait), 3_000, 1, 1, 1)
    assert (wait.rate, wait.wait_ms) == (0, 0)


def test_attempt_for_a_large_quota_does_not_overflow(policy: ctypes.CDLL) -> None:
    period = Period(quota=1 << 31, pushed=1 << 31, full=True)
    assert policy.policy_attempt_due(byref(Wait()), 6_000, byref(period), 6, 1000)


def test_attempt_in_vain_is_repeated_later_and_later(policy: ctypes.CDLL) -> None:
    wait = Wait()
    waits = []
    for _ in range(7):
        policy.policy_attempt_ends(byref(wait), 6_000, 0, 1, 1)
        waits.append(wait.wait_ms)
    assert waits == [2000, 4000, 8000, 16_000, 32_000, 64_000, 64_000]
    policy.policy_attempt_ends(byref(wait), 6_000, 2, 10, 10)
    assert wait.wait_ms == 0


@pytest.mark.parametrize(("rate", "wait_ms"), [(10**6, 2000), (1000, 12_000)])
def test_attempt_in_vain_waits_for_two_idle_times(
    policy: ctypes.CDLL, rate: int, wait_ms: int
) -> None:
    """Fewer victims become idle in a shorter time; attempts cost a flush of all CPUs."""
    wait = Wait()
    policy.policy_attempt_ends(byref(wait), rate, 0, 1, 1)
    assert wait.wait_ms == wait_ms


def test_attempt_may_cost_twice_its_promotions(policy: ctypes.CDLL) -> None:
    """Hot pages pay for more than their promotion.  Victims do not last, so attempts are many."""
    wait = Wait()
    policy.policy_attempt_ends(byref(wait), 6_000, 2, 41, 10)
    assert wait.wait_ms == 2000
    policy.policy_attempt_ends(byref(wait), 6_000, 2, 40, 10)
    assert wait.wait_ms == 0
    policy.policy_attempt_ends(byref(wait), 6_000, 1 << 20, 2 * 10**10, 10_000)
    assert wait.wait_ms == 0


def test_bucket_that_begins_anew_exchanges_as_much_as_others(policy: ctypes.CDLL) -> None:
    """After a shift, pages that were demoted lately are hot for good reason."""
    bucket = Bucket(exchanged=400, again=39, shift=3, loss=7, weight=9)
    policy.policy_bucket_begin(byref(bucket))
    assert (bucket.exchanged, bucket.again, bucket.shift) == (0, 0, 0)
    assert (bucket.loss, bucket.weight) == (0, 0)


def test_bucket_exchanges_less_after_many_in_vain(policy: ctypes.CDLL) -> None:
    bucket = Bucket()
    assert not policy.policy_bucket_update(byref(bucket), 400, 32, 0)
    assert policy.policy_bucket_update(byref(bucket), 0, 40, 0)
    assert policy.policy_bucket_quota(byref(bucket), 1000) == 250
    assert policy.policy_bucket_quota(byref(bucket), 3) == 1
    assert not policy.policy_bucket_update(byref(bucket), 0, 0, 15_999)
    assert bucket.shift == 1
    policy.policy_bucket_update(byref(bucket), 0, 0, 16_000)
    assert bucket.shift == 0


@pytest.mark.parametrize(
    ("exchanged", "again", "judged"),
    [(33, 33, True), (32, 32, False), (399, 40, True), (400, 40, False)],
)
def test_bucket_with_a_tenth_again_is_judged(
    policy: ctypes.CDLL, exchanged: int, again: int, judged: bool
) -> None:
    """More than 32 pages, because a few are an accident, and more than a tenth."""
    assert policy.policy_bucket_update(byref(Bucket()), exchanged, again, 0) == judged


def test_bucket_forgets_a_sixteenth(policy: ctypes.CDLL) -> None:
    bucket = Bucket(exchanged=1600, again=16)
    assert not policy.policy_bucket_update(byref(bucket), 10, 1, 0)
    assert (bucket.exchanged, bucket.again) == (1510, 16)


def test_bucket_that_was_judged_begins_anew(policy: ctypes.CDLL) -> None:
    """The exchanges before the division tell nothing of those after it."""
    bucket = Bucket()
    for shift in (1, 2, 3, 4, 5, 6, 6):
        assert policy.policy_bucket_update(byref(bucket), 100, 100, 1000)
        assert (bucket.exchanged, bucket.again, bucket.changed_ms) == (0, 0, 1000)
        assert bucket.shift == shift


def test_bucket_is_eased_step_by_step(policy: ctypes.CDLL) -> None:
    bucket = Bucket(shift=2)
    for now, shift in ((16_000, 1), (31_999, 1), (32_000, 0), (64_000, 0)):
        assert not policy.policy_bucket_update(byref(bucket), 0, 0, now)
        assert bucket.shift == shift


def test_bucket_with_a_twentieth_again_is_not_eased(policy: ctypes.CDLL) -> None:
    for again, shift in ((20, 1), (19, 0)):
        bucket = Bucket(shift=1)
        assert not policy.policy_bucket_update(byref(bucket), 400, again, 16_000)
        assert bucket.shift == shift


def test_turn_follows_what_candidates_are_worth(policy: ctypes.CDLL) -> None:
    def turn(e: int, loss: int, saturated: bool) -> int:
        return int(policy.policy_turn(e, 1000, 10, loss, 100, saturated))

    assert turn(3, 0, True) == 2
    assert turn(0, 0, True) == 0
    assert turn(3, 512, True) == 4
    assert turn(6, 512, True) == 6
    assert turn(3, 512, False) == 3


def test_turn_of_many_candidates_does_not_overflow(policy: ctypes.CDLL) -> None:
    """A million pages at 28 us each"""
    assert policy.policy_turn(3, 28 * 10**9, 10**6, 0, 28_000, True) == 2


def test_bucket_loss_follows_candidates_that_stay(policy: ctypes.CDLL) -> None:
    bucket = Bucket()
    policy.policy_bucket_moved(byref(bucket), 100, 0)
    assert (bucket.loss, bucket.weight) == (256, 25)
    policy.policy_bucket_moved(byref(bucket), 100, 100)
    assert (bucket.loss, bucket.weight) == (192, 43)


def test_bucket_loss_of_few_candidates_waits_for_more(policy: ctypes.CDLL) -> None:
    """A small group has few candidates in a period, and they count all the same."""
    bucket = Bucket(loss=256, weight=1000)
    policy.policy_bucket_moved(byref(bucket), 16, 4)
    policy.policy_bucket_moved(byref(bucket), 15, 4)
    assert (bucket.loss, bucket.found, bucket.moved) == (256, 31, 8)
    policy.policy_bucket_moved(byref(bucket), 1, 0)
    assert (bucket.loss, bucket.found, bucket.moved) == ((3 * 256 + 768) // 4, 0, 0)


def test_bucket_loss_without_candidates_is_forgotten(policy: ctypes.CDLL) -> None:
    """The number of the group may be that of another one by then; a large group needs longer."""
    periods = []
    for weight in (100, 10_000):
        bucket = Bucket(loss=1000, weight=weight)
        policy.policy_bucket_moved(byref(bucket), 0, 0)
        assert (bucket.loss, bucket.weight) == (1000, weight - -(-weight // 64))
        periods.append(1)
        while bucket.loss and periods[-1] < 1000:
            policy.policy_bucket_moved(byref(bucket), 0, 0)
            periods[-1] += 1
    assert 64 < periods[0] < periods[1] < 64 * 10


def test_bucket_loss_of_many_candidates_does_not_overflow(policy: ctypes.CDLL) -> None:
    bucket = Bucket(weight=2**31)
    policy.policy_bucket_moved(byref(bucket), 2**30, 2**29)
    assert (bucket.loss, bucket.weight) == (128, (3 * 2**31 + 2**30) // 4)


def test_bucket_that_moves_older_candidates_loses_none(policy: ctypes.CDLL) -> None:
    """Candidates wait in the ring, so a period can move more than it has found."""
    bucket = Bucket()
    policy.policy_bucket_moved(byref(bucket), 100, 200)
    assert bucket.loss == 0


def test_enough_is_twice_the_quota(policy: ctypes.CDLL) -> None:
    assert policy.policy_enough(1000) == 2000
    assert policy.policy_enough(2**32 - 1) == 2**32 - 1
