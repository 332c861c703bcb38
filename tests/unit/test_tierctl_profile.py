# SPDX-License-Identifier: GPL-2.0
"""tierctl profile: plans, applies, verifies and reverts on a made-up machine."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import tierctl_schemas
from tierctl_kernel import (
    AFTER_BOOT,
    BOOT,
    Kernel,
    answer,
    files,
    fresh,
    own,
    run,
)

from tierctl.change import config
from tierctl.change import settings as keys
from tierctl.change.current import MAIN, current
from tierctl.core.errors import FINDING, LACKING, WELL
from tierctl.core.paths import (
    BALANCING,
    BEFORE,
    DEMOTION,
    HAS_CPU,
    KEPT,
    NODES,
    ONLINE,
    STATE,
    TIER,
)
from tierctl.model.status import Verified


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Our kernel after boot."""
    yield from fresh(monkeypatch)


# --- the profiles that tierctl brings --------------------------------------------


@pytest.mark.parametrize("name", ["observe", "general", "vm-host", "latency", "hint"])
def test_profile_of_the_package_is_valid_and_leaves_defer_off(kernel: Kernel, name: str) -> None:
    found = config.profile(kernel, name).settings
    assert found["defer.enabled"].wanted == 0
    assert found["enabled"].wanted == 1
    switches = {key for key in keys.known() if key.endswith(".enabled")}
    assert switches <= set(found)


@pytest.mark.parametrize("name", ["observe", "general", "vm-host", "latency", "hint"])
def test_apply_then_verify_then_revert_agree(kernel: Kernel, name: str) -> None:
    assert run(kernel, "profile", "apply", name) == WELL
    assert run(kernel, "profile", "verify") == WELL
    assert run(kernel, "profile", "diff", name) == WELL
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.values() == AFTER_BOOT
    assert files(kernel) == set()


def test_general_after_boot_changes_only_the_switch_and_numa_balancing(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "general")
    assert kernel.writes == [(BALANCING, "0"), (f"{TIER}/enabled", "1")]


def test_list_with_a_broken_profile_names_the_mistake_and_the_others(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    own(kernel, "[settings]\nscan.period_ms = 1", "bad")
    found = {one["name"]: one for one in answer(kernel, capsys, "profile", "list")["profiles"]}
    assert "takes 100 to 60000 ms, not 1" in found["bad"]["error"]
    assert found["general"]["error"] == ""


def test_profile_of_the_administrator_counts_more_than_one_of_the_package(kernel: Kernel) -> None:
    own(kernel, "[settings]\nscan.period_ms = 900", "general")
    assert config.profile(kernel, "general").settings["scan.period_ms"].wanted == 900


# --- absent files ----------------------------------------------------------------


def test_apply_without_a_part_keeps_the_setting_for_later(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel.place(f"{TIER}/age/enabled").unlink()
    data = answer(kernel, capsys, "profile", "apply", "general")
    assert [row["key"] for row in data["settings"] if row["status"] == "n/a"] == ["age.enabled"]
    assert data["kept"] == [KEPT]
    assert run(kernel, "profile", "verify") == WELL
    kernel.put(f"{TIER}/age/enabled", "0")
    assert run(kernel, "profile", "verify") == FINDING
    assert run(kernel, "profile", "apply") == WELL
    assert kernel.read(f"{TIER}/age/enabled") == "1"


def test_apply_on_a_stock_kernel_leaves_its_only_promoter_alone(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    kernel.lay({BALANCING: "2"})
    assert run(kernel, "profile", "apply", "vm-host") == LACKING
    assert kernel.writes == []
    assert kernel.read(KEPT).endswith('profile = "vm-host"')


def test_list_on_a_stock_kernel_tells_which_profiles_it_has_no_setting_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = Kernel(tmp_path)
    kernel.lay({BALANCING: "1", DEMOTION: "false"})
    found = answer(kernel, capsys, "profile", "list")["profiles"]
    errors = {one["name"]: one["error"] for one in found}
    assert errors["hint"] == "" and errors["general"] == "this kernel has none of its settings"


def test_hint_on_a_stock_kernel_promotes_and_demotes(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    kernel.lay({BALANCING: "1", DEMOTION: "false"})
    assert run(kernel, "profile", "apply", "hint") == WELL
    assert kernel.writes == [(DEMOTION, "true"), (BALANCING, "2")]
    assert run(kernel, "profile", "verify") == WELL
    kernel.put(DEMOTION, "false")
    assert run(kernel, "profile", "verify") == FINDING
    assert run(kernel, "profile", "apply") == WELL
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.read(DEMOTION) == "false" and kernel.read(BALANCING) == "1"


@pytest.mark.parametrize("name", ["general", "vm-host", "latency"])
@pytest.mark.parametrize("has_cpu", ["0", "0-1", ""])  # one fast node, two, an unknown number
def test_profile_after_hint_on_a_stock_kernel_leaves_promotion_its_demotion(
    tmp_path: Path, name: str, has_cpu: str
) -> None:
    kernel = Kernel(tmp_path)
    tiers = "/sys/devices/virtual/memory_tiering"
    kernel.lay({BALANCING: "1", DEMOTION: "false", HAS_CPU: has_cpu})
    kernel.put(f"{NODES}/has_memory", "0-1")
    kernel.lay(
        {f"{tiers}/memory_tier{tier}/nodelist": node for tier, node in ((4, "0"), (43, "1"))}
    )
    run(kernel, "profile", "apply", "hint")
    assert run(kernel, "profile", "apply", name) == LACKING
    assert kernel.read(BALANCING) == "2" and kernel.read(DEMOTION) == "true"
    assert run(kernel, "profile", "verify") == WELL
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.read(BALANCING) == "1" and kernel.read(DEMOTION) == "false"


def test_observe_after_hint_on_a_stock_kernel_restores_promotion_and_demotion(
    tmp_path: Path,
) -> None:
    kernel = Kernel(tmp_path)
    kernel.lay({BALANCING: "0", DEMOTION: "false"})
    run(kernel, "profile", "apply", "hint")
    run(kernel, "profile", "apply", "observe")
    assert kernel.read(BALANCING) == "0" and kernel.read(DEMOTION) == "false"


def test_hint_where_the_part_demote_is_leaves_the_other_switch_alone(kernel: Kernel) -> None:
    kernel.put(DEMOTION, "false")
    assert run(kernel, "profile", "apply", "hint") == WELL
    assert DEMOTION not in [file for file, _ in kernel.writes]
    assert run(kernel, "set", "demotion_enabled", "1") == WELL
    assert kernel.read(DEMOTION) == "true"


def test_apply_without_a_choice_does_nothing(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(kernel, "profile", "apply") == WELL
    assert run(kernel, "profile", "verify") == WELL
    assert "No profile is chosen" in capsys.readouterr().out
    assert kernel.writes == []


# --- values that depend on the machine --------------------------------------------


@pytest.mark.parametrize("name", ["general", "vm-host", "latency"])
@pytest.mark.parametrize(("before", "after"), [("0", "0"), ("1", "1"), ("2", "1"), ("3", "1")])
def test_profile_with_several_fast_nodes_keeps_balancing_between_them(
    kernel: Kernel, capsys: pytest.CaptureFixture[str], name: str, before: str, after: str
) -> None:
    kernel.lay(
        {
            HAS_CPU: "0-1",
            f"{NODES}/has_memory": "0-2",
            "/sys/devices/virtual/memory_tiering/memory_tier4/nodelist": "0-1",
            "/sys/devices/virtual/memory_tiering/memory_tier43/nodelist": "2",
            BALANCING: before,
        }
    )
    run(kernel, "profile", "apply", "hint")
    capsys.readouterr()
    run(kernel, "profile", "apply", name)
    assert kernel.read(BALANCING) == after  # not what hint has made of it
    said = "mode 1 balances between the 2 fast nodes" in " ".join(capsys.readouterr().out.split())
    assert said == (after == "1")
    run(kernel, "profile", "apply", name)
    assert kernel.read(BALANCING) == after
    said = "numa_balancing stays 1: mode 1 balances" in capsys.readouterr().out
    assert said == (after == "1")
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.read(BALANCING) == before


def test_tier_that_cannot_be_read_makes_no_node_fast_alone(kernel: Kernel) -> None:
    kernel.place("/sys/devices/virtual/memory_tiering/memory_tier43/nodelist").unlink()
    assert run(kernel, "profile", "apply", "vm-host") == WELL
    assert kernel.read(BALANCING) == "1"


def test_fast_nodes_without_tiers_leave_numa_balancing_alone(kernel: Kernel) -> None:
    kernel.place(HAS_CPU).unlink()
    assert run(kernel, "profile", "apply", "general") == WELL
    assert kernel.read(BALANCING) == "2"


@pytest.mark.parametrize(("online", "scan", "promote"), [("0", 100, 300), ("0-127", 2, 6)])
def test_latency_computes_its_share_of_all_cpus(
    kernel: Kernel, online: str, scan: int, promote: int
) -> None:
    kernel.put(ONLINE, online)
    run(kernel, "profile", "apply", "latency")
    assert kernel.read(f"{TIER}/scan/cpu_permille") == str(scan)
    assert kernel.read(f"{TIER}/promote/cpu_permille") == str(promote)


def test_verify_after_cpus_have_gone_still_agrees(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    kernel.put(ONLINE, "0-1")
    assert run(kernel, "profile", "verify") == WELL
    assert run(kernel, "profile", "apply") == WELL
    assert kernel.read(f"{TIER}/scan/cpu_permille") == "50"


def test_default_after_another_profile_is_computed_anew(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    assert run(kernel, "profile", "apply", "general") == WELL
    assert kernel.read(f"{TIER}/scan/cpu_permille") == "62"


# --- whether something is chosen --------------------------------------------------


def test_what_commands_keep_counts_alone(kernel: Kernel) -> None:
    assert current(kernel) == Verified(differs=0)
    run(kernel, "profile", "apply", "general")
    shutil.rmtree(kernel.place(STATE))
    assert current(kernel) == Verified("general", True, 0)
    kernel.place(KEPT).unlink()
    assert current(kernel) == Verified(differs=0)


@pytest.mark.parametrize("main", ['profile = "general"', None])
def test_bundle_without_the_kept_file_is_read(kernel: Kernel, main: str | None) -> None:
    class Old(Kernel):
        live = False

        def read(self, path: str) -> str:
            if path == KEPT:
                raise OSError(errno.ENODATA, "not captured", path)
            return super().read(path)

    if main:
        kernel.put(MAIN, main)
    found = current(Old(kernel.place("/")))
    assert (found.profile, found.error) == ("general" if main else None, None)


# --- the unit --------------------------------------------------------------------


def test_service_comes_after_sysctl_and_fails_on_errors_only() -> None:
    unit = (config.SHIPPED.parent / "units/tierctl.service").read_text("utf-8").splitlines()
    assert "After=systemd-sysctl.service" in unit  # sysctl.d may have numa_balancing
    assert "RequiresMountsFor=/var/lib" in unit
    assert f"SuccessExitStatus={LACKING}" in unit


# --- dry run, verify, order ------------------------------------------------------


def test_dry_run_prints_each_write_and_writes_nothing(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel.place(f"{TIER}/age/enabled").unlink()
    assert run(kernel, "profile", "apply", "vm-host", "--dry-run") == WELL
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["SETTING", "NOW", "THEN", "FILE"]
    assert [line.split()[0] for line in lines[1:4]] == [
        "numa_balancing",
        "scan.page_cache",
        "enabled",
    ]
    assert ["scan.page_cache", "1", "0", f"{TIER}/scan/page_cache"] in [
        line.split() for line in lines
    ]
    assert any("n/a: this kernel lacks age/enabled" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)
    assert kernel.writes == []
    assert files(kernel) == set()
    assert not kernel.place(STATE).exists()


def test_verify_names_each_setting_that_differs(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    run(kernel, "profile", "apply", "general")
    kernel.put(f"{TIER}/scan/period_ms", "700")
    kernel.put(f"{TIER}/zap/enabled", "0")
    capsys.readouterr()
    assert run(kernel, "profile", "verify") == FINDING
    lines = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert ["scan.period_ms", "700", "500"] in lines
    assert ["zap.enabled", "0", "1"] in lines
    assert current(kernel) == Verified("general", False, 2)


def test_switching_on_writes_the_switch_of_all_parts_last(kernel: Kernel) -> None:
    kernel.lay({f"{TIER}/zap/enabled": "0", f"{TIER}/scan/period_ms": "900"})
    run(kernel, "profile", "apply", "general")
    assert [path for path, _ in kernel.writes] == [
        BALANCING,
        f"{TIER}/scan/period_ms",
        f"{TIER}/zap/enabled",
        f"{TIER}/enabled",
    ]


def test_switching_off_writes_the_switch_of_all_parts_first(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "general")
    own(kernel, "[settings]\nscan.period_ms = 800\nzap.enabled = 0\nenabled = 0\nnuma_balancing=2")
    kernel.writes.clear()
    run(kernel, "profile", "apply", "mine")
    assert [path for path, _ in kernel.writes] == [
        f"{TIER}/enabled",
        f"{TIER}/zap/enabled",
        f"{TIER}/scan/period_ms",
        BALANCING,
    ]


def test_change_of_profile_never_has_two_promoters(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "general")
    kernel.writes.clear()
    run(kernel, "profile", "apply", "hint")
    run(kernel, "profile", "apply", "general")
    ours, hints = True, False
    for path, text in kernel.writes:
        ours = text == "1" if path == f"{TIER}/promote/enabled" else ours
        hints = text == "2" if path == BALANCING else hints
        assert not (ours and hints)


# --- a second apply, others, another boot ------------------------------------------


def test_second_apply_of_the_same_profile_writes_nothing(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    kernel.writes.clear()
    text = kernel.read(BEFORE)
    assert run(kernel, "profile", "apply", "latency") == WELL
    assert kernel.writes == []
    assert kernel.read(BEFORE) == text


def test_revert_after_two_profiles_goes_back_to_before_tierctl(kernel: Kernel) -> None:
    kernel.put(f"{TIER}/scan/period_ms", "777")
    before = kernel.values()
    for name in ("latency", "observe", "hint", "general"):
        run(kernel, "profile", "apply", name)
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.values() == before


def test_next_profile_restores_what_it_does_not_name(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    run(kernel, "profile", "apply", "observe")
    assert kernel.read(f"{TIER}/promote/rate_mbps") == "2048"
    assert kernel.read(BALANCING) == "2"


def test_revert_names_and_leaves_what_others_have_changed(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    run(kernel, "profile", "apply", "latency")
    kernel.put(f"{TIER}/scan/period_ms", "3333")
    capsys.readouterr()
    assert run(kernel, "profile", "revert") == FINDING
    out = capsys.readouterr().out
    assert "scan.period_ms  3333  500" in out
    assert "tierctl wrote 2000" in out
    assert kernel.values() == AFTER_BOOT | {f"{TIER}/scan/period_ms": "3333"}
    assert files(kernel) == {BEFORE}


def test_revert_without_an_apply_changes_nothing(kernel: Kernel) -> None:
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.writes == []


def test_revert_says_that_the_configuration_applies_at_the_next_boot(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel.put(MAIN, 'profile = "latency"')
    run(kernel, "profile", "apply")
    capsys.readouterr()
    assert run(kernel, "profile", "revert") == FINDING
    assert f"{MAIN} has settings still" in capsys.readouterr().out
    assert kernel.values() == AFTER_BOOT
    assert files(kernel) == {MAIN}


def test_revert_with_a_broken_configuration_restores(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    kernel.put(MAIN, "profile = ")
    run(kernel, "profile", "revert")
    assert kernel.values() == AFTER_BOOT


def test_revert_after_a_reboot_knows_nothing_to_restore(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    kernel.lay({**AFTER_BOOT, BOOT: "another"})
    kernel.writes.clear()
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.writes == []
    assert files(kernel) == set()


def test_apply_after_a_reboot_keeps_the_values_of_that_boot(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    fresh = {**AFTER_BOOT, f"{TIER}/scan/period_ms": "600"}
    kernel.lay({**fresh, BOOT: "another"})
    assert run(kernel, "profile", "apply") == WELL
    assert kernel.read(f"{TIER}/scan/period_ms") == "2000"
    run(kernel, "profile", "revert")
    assert kernel.values() == fresh


def test_revert_does_not_name_what_was_as_before_when_others_changed_it(kernel: Kernel) -> None:
    run(kernel, "profile", "apply", "latency")
    run(kernel, "profile", "apply", "general")
    kernel.put(f"{TIER}/scan/period_ms", "3333")
    assert run(kernel, "profile", "revert") == WELL
    assert kernel.values() == AFTER_BOOT | {f"{TIER}/scan/period_ms": "3333"}


def test_revert_shows_what_the_removed_files_said(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    run(kernel, "set", "scan.period_ms", "900")
    removed = answer(kernel, capsys, "profile", "revert")["removed"]
    assert list(removed) == [KEPT]
    assert removed[KEPT].splitlines()[1:] == ['settings."scan.period_ms" = 900']


def test_show_without_a_profile_has_what_is_set(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    run(kernel, "set", "scan.period_ms", "900")
    data = answer(kernel, capsys, "profile", "show")
    assert data["profile"] is None
    assert [(row["key"], row["then"]) for row in data["settings"]] == [("scan.period_ms", "900")]


@pytest.mark.parametrize("name", ["observe", "general", "vm-host", "latency", "hint"])
def test_texts_fit_80_columns(
    kernel: Kernel, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    kernel.place(f"{TIER}/age/enabled").unlink()
    for words in (
        ["list"],
        ["show", name],
        ["diff", name],
        ["apply", name, "--dry-run"],
        ["apply", name],
        ["verify"],
        ["revert"],
    ):
        run(kernel, "profile", *words)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    "line",
    [
        "profile list",
        "profile show latency",
        "profile show",
        "profile diff latency",
        "profile apply latency --dry-run",
        "profile apply latency",
        "profile verify",
        "profile revert",
        "set scan.period_ms 900",
        "group set backup.service max=8G",
    ],
)
@pytest.mark.parametrize("earlier", [[], ["profile apply hint", "group set backup.service max=0"]])
def test_json_agrees_with_its_schema(
    kernel: Kernel, capsys: pytest.CaptureFixture[str], line: str, earlier: list[str]
) -> None:
    kernel.place(f"{TIER}/age/enabled").unlink()
    run(kernel, "set", "scan.period_ms", "800")
    for one in earlier:
        run(kernel, *one.split())
    kernel.put(f"{TIER}/scan/cpu_permille", "1")  # others change something
    capsys.readouterr()
    run(kernel, "--json", *line.split())
    assert tierctl_schemas.check(json.loads(capsys.readouterr().out)) == []
