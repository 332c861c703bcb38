# SPDX-License-Identifier: GPL-2.0
"""tierctl set: one setting, and how it is kept."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from tierctl_kernel import (
    AFTER_BOOT,
    Kernel,
    arguments,
    files,
    fresh,
    run,
)

from tierctl.change import limits
from tierctl.change import settings as keys
from tierctl.change.current import MAIN
from tierctl.core.errors import DENIED, FINDING, LACKING, USAGE, WELL, TierctlError
from tierctl.core.paths import BEFORE, CONF, KEPT, ONLINE, TIER
from tierctl.core.source import Recorder


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Our kernel after boot."""
    monkeypatch.setattr(limits, "page_size", lambda: 4096)
    yield from fresh(monkeypatch)


# --- set -------------------------------------------------------------------------


def test_set_writes_and_keeps_one_setting(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(kernel, "set", "scan.period_ms", "1000") == WELL
    out = capsys.readouterr().out
    assert out.startswith("scan.period_ms is 1000 (was 500)\n")
    assert f"Kept in {KEPT}" in out
    assert kernel.writes == [(f"{TIER}/scan/period_ms", "1000")]
    kernel.put(f"{TIER}/scan/period_ms", "500")
    assert run(kernel, "profile", "verify") == FINDING
    assert run(kernel, "profile", "apply") == WELL
    assert kernel.read(f"{TIER}/scan/period_ms") == "1000"


def test_set_counts_more_than_the_profile(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    run(kernel, "set", "scan.period_ms", "1000")
    run(kernel, "profile", "apply", "general")
    assert kernel.read(f"{TIER}/scan/period_ms") == "1000"
    assert run(kernel, "profile", "verify") == WELL


def test_set_with_the_value_that_is_there_writes_nothing_and_keeps_it(kernel: Kernel) -> None:
    run(kernel, "set", "scan.period_ms", "500")
    assert kernel.writes == []
    assert KEPT in files(kernel)


@pytest.mark.parametrize("value", ["default", "max(5, 250 / CPUs)"])
def test_set_computes_a_value(kernel: Kernel, value: str) -> None:
    kernel.put(ONLINE, "0-1")
    run(kernel, "set", "scan.cpu_permille", value)
    assert kernel.read(f"{TIER}/scan/cpu_permille") == "125"
    assert run(kernel, "profile", "verify") == WELL


def test_set_of_an_unknown_key_suggests_the_nearest_and_lists_all(kernel: Kernel) -> None:
    with pytest.raises(TierctlError) as error:
        run(kernel, "set", "scan.period", "1000")
    text = str(error.value)
    assert "did you mean scan.period_ms?" in text
    assert all(key in text for key in keys.known())
    assert "\n" not in text
    assert error.value.code == USAGE


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("scan.period_ms", "99"),
        ("scan.period_ms", "60001"),
        ("scan.period_ms", "1e3"),
        ("scan.period_ms", "0x100"),
        ("scan.period_ms", " 500"),
        ("scan.period_ms", "500\n600"),
        ("scan.period_ms", "\u0665\u0660\u0660"),
        ("scan.period_ms", "9" * 5000),
        ("scan.period_ms", "max(0, 250 / CPUs)"),
        ("promote.enabled", "2"),
        ("promote.enabled", "yes"),
        ("promote.enabled", "max(1, 1 / CPUs)"),
        ("enabled", "default"),
        ("numa_balancing", "4"),
        ("numa_balancing", "default"),
        ("batch.max_kb", "3"),
        ("../../../proc/sys/kernel/panic", "1"),
        ("kernel.panic", "1"),
        ("", "1"),
    ],
)
def test_set_of_a_bad_value_or_key_changes_nothing(kernel: Kernel, key: str, value: str) -> None:
    with pytest.raises(TierctlError) as error:
        run(kernel, "set", key, value)
    assert error.value.code == USAGE
    assert "\n" not in str(error.value)
    assert len(error.value.what) < 200
    assert kernel.writes == []
    assert files(kernel) == set()


def test_set_of_a_part_that_the_kernel_lacks_is_refused(kernel: Kernel) -> None:
    kernel.place(f"{TIER}/zap/enabled").unlink()
    with pytest.raises(TierctlError, match="lacks zap/enabled") as error:
        run(kernel, "set", "zap.enabled", "1")
    assert error.value.code == LACKING
    assert files(kernel) == set()


def test_set_on_a_stock_kernel_names_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(TierctlError, match=r"lacks /sys/kernel/mm/tier") as error:
        run(Kernel(tmp_path), "set", "enabled", "1")
    assert error.value.code == LACKING


def test_set_that_the_kernel_refuses_keeps_nothing(kernel: Kernel) -> None:
    kernel.refused[f"{TIER}/scan/page_cache"] = errno.ENOMEM
    kernel.half.add(f"{TIER}/scan/page_cache")
    with pytest.raises(TierctlError, match="Cannot allocate memory") as error:
        run(kernel, "set", "scan.page_cache", "0")
    assert error.value.code == FINDING
    assert kernel.values() == AFTER_BOOT
    assert files(kernel) == set()


def test_set_of_a_switch_after_tier_off_is_refused(kernel: Kernel) -> None:
    kernel.put(f"{TIER}/state", "blocked")
    with pytest.raises(TierctlError, match="tier=off") as error:
        run(kernel, "set", "enabled", "1")
    assert error.value.code == DENIED
    assert run(kernel, "set", "scan.period_ms", "900") == WELL


def test_set_counts_more_than_what_the_administrator_has_written(kernel: Kernel) -> None:
    kernel.put(f"{CONF}/zz.toml", "[settings]\nscan.period_ms = 700")
    assert run(kernel, "set", "scan.period_ms", "900") == WELL
    assert run(kernel, "profile", "apply", "general") == WELL
    assert kernel.read(f"{TIER}/scan/period_ms") == "900"
    assert kernel.read(f"{CONF}/zz.toml").endswith("= 700")


def test_settings_profile_and_limit_are_kept_side_by_side(kernel: Kernel) -> None:
    run(kernel, "set", "scan.cpu_permille", "max(5, 250 / CPUs)")
    run(kernel, "group", "set", "backup.service", "max=8G")
    run(kernel, "profile", "apply", "latency")
    run(kernel, "set", "scan.cpu_permille", "default")
    assert kernel.read(KEPT).splitlines()[1:] == [
        'profile = "latency"',
        f'groups."backup.service".max = "{8 << 30}"',
        'settings."scan.cpu_permille" = "default"',
    ]
    assert run(kernel, "profile", "verify") == WELL


def test_kept_file_that_is_damaged_is_named_and_revert_removes_it(kernel: Kernel) -> None:
    run(kernel, "set", "scan.period_ms", "900")
    kernel.put(KEPT, f"{kernel.read(KEPT)}\nsettings.x = [")
    with pytest.raises(TierctlError, match=KEPT) as error:
        run(kernel, "set", "scan.period_ms", "800")
    assert error.value.code == USAGE
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.values() == AFTER_BOOT
    assert files(kernel) == set()


@pytest.mark.parametrize("table", ["[record]\nkeep_days = 3", "[export]\ngroups = ['*.slice']"])
@pytest.mark.parametrize(
    "words",
    [
        ("set", "scan.period_ms", "800"),
        ("group", "set", "backup.service", "max=8G"),
        ("profile", "apply", "latency"),
    ],
)
def test_kept_file_with_a_table_of_the_administrator_is_not_overwritten(
    kernel: Kernel, words: tuple[str, ...], table: str
) -> None:
    run(kernel, "set", "scan.period_ms", "900")
    kept, name = kernel.read(KEPT), table[1:7]
    kernel.put(KEPT, f"{kept}\n{table}")
    before, values = kernel.read(KEPT), kernel.values()
    with pytest.raises(TierctlError, match=rf"{KEPT} has {name}.*; move {name} to {MAIN}") as error:
        run(kernel, *words)
    assert error.value.code == FINDING
    assert (kernel.read(KEPT), kernel.values(), files(kernel)) == (before, values, {KEPT, BEFORE})
    kernel.put(MAIN, table)
    kernel.put(KEPT, kept)
    assert run(kernel, *words) == WELL
    assert kernel.read(MAIN) == table and kernel.read(KEPT) != kept


def test_set_on_a_bundle_is_refused(kernel: Kernel) -> None:
    args = arguments("set", "scan.period_ms", "900")
    with pytest.raises(TierctlError, match="a bundle takes no writes"):
        args.func(args, Recorder(kernel))
    assert kernel.writes == []
