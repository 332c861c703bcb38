# SPDX-License-Identifier: GPL-2.0
"""Decisions of the promoter (policy.c), called one by one."""

from __future__ import annotations

import ctypes
import math
import subprocess
from ctypes import POINTER, Structure, byref, c_bool, c_uint8, c_uint16, c_uint32, c_uint64

import pytest

from lab import cache

HEADERS = cache.PROJECT / "tests/sim"
KMMSCAND = cache.PROJECT / "linux/kmmscand/files/mm/tier/kmmscand"


class Node(Structure):
    _fields_ = (("window_us", c_uint32), ("saturated", c_bool))


class Heat(Structure):
    _fields_ = tuple(
        (name, c_uint32)
        for name in ("window_us", "first", "last", "new_first", "new_last", "quiet", "rate")
    )


class Wait(Structure):
    _fields_ = (("wait_ms", c_uint32), ("last_ms", c_uint64))


class Period(Structure):
    _fields_ = (
        ("visited", c_bool),
        *((name, c_uint32) for name in ("pushed", "quota", "room", "victims", "window_max_us")),
        ("full", c_bool),
        ("pending", c_bool),
    )


class Bucket(Structure):
    _fields_ = (
        ("exchanged", c_uint32),
        ("again", c_uint32),
        ("loss", c_uint16),
        ("shift", c_uint8),
        ("changed_ms", c_uint64),
    )


class Change(Structure):
    _fields_ = (("rate", c_uint32), ("looks", c_uint8))


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("policy") / "policy.so"
    flags = ("-O2", "-shared", "-fPIC", f"-I{HEADERS}", "-o", str(out))
    command = ("cc", *flags, str(KMMSCAND / "policy.c"))
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(out))
    for name in ("rate", "idle_ms", "quota", "window_max", "bucket_quota", "turn", "enough"):
        getattr(library, f"policy_{name}").restype = c_uint32
    for name in ("jump", "attempt_due", "bucket_update", "serves"):
        getattr(library, f"policy_{name}").restype = c_bool
    library.policy_turn.argtypes = (
        *(c_uint32, c_uint64, c_uint32, POINTER(Bucket), c_uint32, c_bool),
    )
    library.policy_attempt_due.argtypes = (
        *(POINTER(Wait), c_uint32, POINTER(Period), c_uint32, c_uint64),
    )
    library.policy_attempt_begins.argtypes = (POINTER(Wait), c_uint64)
    library.policy_attempt_ends.argtypes = (POINTER(Wait), c_uint32, c_uint32, c_uint64, c_uint32)
    library.policy_bucket_update.argtypes = (POINTER(Bucket), c_uint32, c_uint32, c_uint64)
    return library


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
    heat = Heat()
    policy.policy_heat_add(byref(heat), 63, 63, 16_000)
    policy.policy_heat_age(byref(heat))
    assert heat.rate == 0
    policy.policy_heat_add(byref(heat), 63, 0, 16_000)
    policy.policy_heat_age(byref(heat))
    assert heat.rate == policy.policy_rate(63 - 15 + 63, 63 - 15, 16_000)


def test_heat_without_looks_stays(policy: ctypes.CDLL) -> None:
    heat = Heat(window_us=16_000, first=100, last=50, rate=7)
    policy.policy_heat_age(byref(heat))
    assert (heat.first, heat.last, heat.rate) == (100, 50, 7)


def test_heat_is_forgotten_after_a_minute(policy: ctypes.CDLL) -> None:
    heat = Heat(window_us=16_000, first=100, last=50, rate=7)
    for _ in range(127):
        policy.policy_heat_age(byref(heat))
    assert heat.rate == 7
    policy.policy_heat_age(byref(heat))
    assert (heat.first, heat.rate) == (0, 0)


def test_heat_in_another_window_forgets_counts(policy: ctypes.CDLL) -> None:
    heat = Heat(window_us=16_000, first=100, last=50, rate=7)
    policy.policy_heat_add(byref(heat), 10, 5, 32_000)
    policy.policy_heat_age(byref(heat))
    assert (heat.first, heat.last, heat.rate) == (10, 5, 7)


def test_serves_what_is_at_least_half_as_hot(policy: ctypes.CDLL) -> None:
    assert policy.policy_serves(1000, 500)
    assert not policy.policy_serves(1000, 499)
    assert policy.policy_serves(0, 0)


def test_rate_of_all_pages_found_has_a_limit(policy: ctypes.CDLL) -> None:
    assert policy.policy_rate(1000, 1000, 1_000_000) == pytest.approx(3_900, rel=0.02)
    assert policy.policy_rate(1000, 0, 1_000_000) == 0


@pytest.mark.parametrize(("rate", "ms"), [(6_000, 1_000), (10**9, 16), (0, 64_000), (50, 64_000)])
def test_idle_time_is_six_accesses(policy: ctypes.CDLL, rate: int, ms: int) -> None:
    assert policy.policy_idle_ms(rate) == ms


@pytest.mark.parametrize(
    ("rate", "cpu", "gain", "quota"), [(100, 80, 1000, 80), (100, 80, 500, 40), (9, 9, 0, 0)]
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


def _window(policy: ctypes.CDLL, node: Node, **values: int) -> int:
    period = Period(visited=True, quota=1000, window_max_us=1_000_000, **values)
    policy.policy_update_window(byref(node), byref(period))
    return int(node.window_us)


def test_window_follows_the_root_of_candidates(policy: ctypes.CDLL) -> None:
    assert _window(policy, Node(window_us=64_000), room=5000, pushed=3999) == 32_000
    assert _window(policy, Node(window_us=64_000), room=5000, pushed=249) == 128_000
    assert _window(policy, Node(window_us=64_000), room=5000, pushed=0) == 256_000
    assert _window(policy, Node(window_us=64_000), room=5000, pushed=1500) == 64_000


def test_window_with_nothing_to_give_searches(policy: ctypes.CDLL) -> None:
    assert _window(policy, Node(window_us=64_000), full=True, pushed=100) == 32_000
    assert _window(policy, Node(window_us=64_000), full=True, pushed=0) == 128_000


def test_window_while_victims_are_looked_for_stays(policy: ctypes.CDLL) -> None:
    node = Node(window_us=64_000)
    assert _window(policy, node, full=True, pending=True, pushed=9999) == 64_000
    assert not node.saturated
    node = Node(window_us=2_000_000)
    assert _window(policy, node, full=True, pending=True, pushed=9999) == 1_000_000


def test_window_that_finds_enough_is_saturated(policy: ctypes.CDLL) -> None:
    node = Node(window_us=64_000)
    _window(policy, node, room=5000, pushed=1500)
    assert node.saturated


def test_jump_needs_twice_the_mean(policy: ctypes.CDLL) -> None:
    change = Change()
    looks = [policy.policy_jump(byref(change), 200, 10_000) for _ in range(6)]
    assert not any(looks)
    assert not policy.policy_jump(byref(change), 390, 10_000)
    assert policy.policy_jump(byref(change), 900, 10_000)
    assert not policy.policy_jump(byref(change), 900, 10_000)


def test_jump_in_a_small_sample_is_none(policy: ctypes.CDLL) -> None:
    change = Change(rate=1, looks=4)
    assert not policy.policy_jump(byref(change), 500, 511)
    assert not policy.policy_jump(byref(change), 63, 1000)
    assert policy.policy_jump(byref(change), 64, 1000)


def test_attempt_waits_for_need_and_time(policy: ctypes.CDLL) -> None:
    def due(period: Period, waiting: int, now: int) -> bool:
        return bool(policy.policy_attempt_due(byref(wait), 6_000, byref(period), waiting, now))

    wait = Wait()
    few, much = Period(quota=100, room=199), Period(quota=100, room=200)
    assert due(few, 0, 1000)
    assert not due(few, 0, 999)
    assert not due(much, 0, 1000)
    some = Period(quota=100, full=True, victims=5)
    assert not due(some, 5, 1000)
    assert due(some, 6, 1000)
    many = Period(quota=100, full=True, victims=200)
    assert not due(many, 10_000, 1000)
    policy.policy_attempt_begins(byref(wait), 1000)
    assert not due(some, 6, 1999)


def test_attempt_in_vain_is_repeated_later_and_later(policy: ctypes.CDLL) -> None:
    wait = Wait()
    waits = []
    for _ in range(7):
        policy.policy_attempt_ends(byref(wait), 6_000, 0, 1, 1)
        waits.append(wait.wait_ms)
    assert waits == [2000, 4000, 8000, 16_000, 32_000, 64_000, 64_000]
    policy.policy_attempt_ends(byref(wait), 6_000, 2, 10, 10)
    assert wait.wait_ms == 0


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


def test_turn_follows_what_candidates_are_worth(policy: ctypes.CDLL) -> None:
    all_move, half = Bucket(), Bucket(loss=512)
    assert policy.policy_turn(3, 1000, 10, byref(all_move), 100, True) == 2
    assert policy.policy_turn(0, 1000, 10, byref(all_move), 100, True) == 0
    assert policy.policy_turn(3, 1000, 10, byref(half), 100, True) == 4
    assert policy.policy_turn(6, 1000, 10, byref(half), 100, True) == 6
    assert policy.policy_turn(3, 1000, 10, byref(half), 100, False) == 3


def test_bucket_loss_follows_candidates_that_stay(policy: ctypes.CDLL) -> None:
    bucket = Bucket()
    policy.policy_bucket_moved(byref(bucket), 100, 0)
    assert bucket.loss == 256
    policy.policy_bucket_moved(byref(bucket), 31, 31)
    assert bucket.loss == 256
    policy.policy_bucket_moved(byref(bucket), 100, 100)
    assert bucket.loss == 192


def test_enough_is_twice_the_quota(policy: ctypes.CDLL) -> None:
    assert policy.policy_enough(1000) == 2000
    assert policy.policy_enough(2**32 - 1) == 2**32 - 1
