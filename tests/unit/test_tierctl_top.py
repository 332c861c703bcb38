# SPDX-License-Identifier: GPL-2.0
"""tierctl top: groups by tier, and processes by samples of their page tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_trees import DAMON, OLD, OURS, PLAIN, STOCK, Spec, Stepping, build, numa_stat

from tierctl.commands import explain, top
from tierctl.core.errors import LACKING, USAGE, TierctlError
from tierctl.core.reply import NO_SLOW
from tierctl.core.text import Style
from tierctl.model.snapshot import ALONE, BLIND, Sampler
from tierctl.read import groups

GUEST = r"/machine.slice/machine-qemu\x2d1\x2dvm\x2ddb01.scope"


def source(tmp_path: Path, spec: Spec = OURS) -> Stepping:
    """A made-up machine."""
    return Stepping(build(tmp_path, spec))


# --- groups ----------------------------------------------------------------------


def test_top_shows_units_by_tier_largest_first(tmp_path: Path) -> None:
    reply = top.by_group(source(tmp_path), None, 3, 1.0)
    first = reply.data.groups[0]
    assert first.name == "service0004.service" and reply.data.others == 2
    unit = 7 * (64 << 20)
    small = 5 * 4096  # of the kernel, on each node
    assert first.fast == 2 * (unit + unit // 2) + 2 * small
    assert first.slow == 2 * (unit // 4) + small
    assert first.limited is False and first.up_bytes_per_s == 0


def test_top_counts_what_groups_move_between_samples(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    path = "sys/fs/cgroup/system.slice/service0004.service/memory.numa_stat"
    found = Stepping(tree, lambda second: tree.put(path, numa_stat(OURS, 6, 100 * second)))
    reply = top.by_group(found, None, 1, 2.0)
    one = reply.data.groups[0]
    assert one.up_bytes_per_s == 7 * 200 * 4096 / 2
    assert one.down_bytes_per_s == 2 * one.up_bytes_per_s


def test_top_of_a_slice_shows_itself_and_what_is_below(tmp_path: Path) -> None:
    reply = top.by_group(source(tmp_path), "machine.slice", 9, 1.0)
    assert {one.name for one in reply.data.groups} == {"machine.slice", "machine vm-db01"}
    assert reply.data.group == "/machine.slice"


def test_hot_of_a_group_has_the_groups_below(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    text = ""
    for at, (path, pages_) in enumerate(
        [("/", 9), ("/machine.slice", 1), ("/machine.slice/x.scope/y", 2)]
    ):
        text += f"memcg {at:5} {path}\n node     2\n"
        text += (
            f"          1      90000          0          0 \n          2       1000 {pages_:10} "
        )
        text += "         0 \n"
    tree.put("sys/kernel/debug/lru_gen", text)
    reply = top.by_group(Stepping(tree), "machine.slice", 9, 1.0)
    found = {one.path: one.hot_on_slow for one in reply.data.groups}
    assert found["/machine.slice"] == 3 * 4096
    assert found["/machine.slice/machine-qemu\\x2d1\\x2dvm\\x2ddb01.scope"] is None
    assert reply.sources["hot_on_slow"].estimate


@pytest.mark.parametrize(("old", "shown"), [(9, ">16.0K"), (3, "~16.0K")])
def test_hot_of_a_group_is_at_least_what_is_known(tmp_path: Path, old: int, shown: str) -> None:
    tree = build(tmp_path, OURS)
    text = f"memcg 7 {GUEST}\n node 2\n 1 50000 {old} 0 \n 2 1000 4 0 \n"
    tree.put("sys/kernel/debug/lru_gen", text)
    reply = top.by_group(Stepping(tree), None, 9, 1.0)
    (one,) = (one for one in reply.data.groups if one.path == GUEST)
    assert (one.hot_on_slow, one.hot_unknown) == (4 * 4096, old * 4096)
    lines = top.draw(reply, Style())
    assert any(one.name in line and shown in line for line in lines)


def test_groups_that_fill_fast_nodes_with_cold_memory_are_named(tmp_path: Path) -> None:
    tree, text = build(tmp_path, OURS), ""
    for at, cold in enumerate((7, 0, 3, 9, 1)):
        head = f"memcg {at + 1} /system.slice/service000{at}.service"
        head = head.replace("/system.slice/service0001.service", GUEST)
        text += f"{head}\n node 0\n 1 200000 {cold} 5 \n 2 90000 1 1 \n 3 10 0 0 \n"
    tree.put("sys/kernel/debug/lru_gen", text)
    reply = top.by_group(Stepping(tree), None, 9, 1.0)
    found = {one.name: one.cold_on_fast for one in reply.data.groups}
    assert found["service0003.service"] == 9 * 4096 and found["machine vm-db01"] == 0
    names = ("service0003.service 36.0K", "service0000.service 28.0K", "service0002.service 12.0K")
    assert f"Cold on fast: {', '.join(names)}." in " ".join(top.draw(reply, Style()))
    tree.put("sys/kernel/debug/lru_gen", text.replace("90000", "20").replace("200000", "20"))
    reply = top.by_group(Stepping(tree), None, 9, 1.0)
    assert {one.cold_on_fast for one in reply.data.groups} == {None}
    text = " ".join(top.draw(reply, Style()))
    assert "Cold on fast" not in text and "? cold_on_fast: MGLRU has not looked twice" in text


@pytest.mark.parametrize(
    ("spec", "why"), [(STOCK, top.STALE), (replace(STOCK, swap_free=0), BLIND), (PLAIN, NO_SLOW)]
)
def test_unknown_hot_of_a_group_says_why(tmp_path: Path, spec: Spec, why: str) -> None:
    tree = build(tmp_path, spec)
    tree.put("sys/kernel/debug/lru_gen", "memcg 1 /system.slice\n node 2\n 1 9 5 5 \n 2 9 1 1 ")
    reply = top.by_group(Stepping(tree), None, 9, 1.0)
    assert {one.hot_on_slow for one in reply.data.groups} == {None}
    assert reply.sources["hot_on_slow"].state == why
    (tmp_path / "sys/devices/system/node/has_cpu").unlink()
    reply = top.by_group(Stepping(tree), None, 9, 1.0)
    assert reply.sources["hot_on_slow"] == reply.sources["tiers"]


def test_limits_are_bytes_none_or_unknown(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    tree.put("sys/fs/cgroup/system.slice/service0000.service/memory.tier.max", 0)
    found = {one.name: one for one in top.by_group(Stepping(tree), None, 9, 1.0).data.groups}
    assert (found["service0000.service"].limit, found["service0000.service"].limited) == (0, True)
    stock = top.by_group(source(tmp_path / "b", STOCK), None, 9, 1.0)
    assert {one.limited for one in stock.data.groups} == {None}
    assert stock.sources["limit"].origin is None


def test_old_kernel_has_groups_and_unknown_rates(tmp_path: Path) -> None:
    reply = top.by_group(source(tmp_path, OLD), None, 9, 1.0)
    assert {one.up_bytes_per_s for one in reply.data.groups} == {None}
    lines = top.draw(reply, Style())
    assert "no pgpromote_success" in "\n".join(lines) and max(map(len, lines)) <= 80


def test_names_of_guests_and_escapes_are_plain() -> None:
    guest = "/machine.slice/machine-qemu\\x2d12\\x2dvm\\x2ddb01.scope"
    assert groups.title(guest) == "machine vm-db01"
    assert groups.title("/system.slice/a\\x2db.service") == "a-b.service"
    assert groups.title("/x\\x1b[31m") == "x?[31m"
    assert groups.title("/system.slice/_memory.service") == "memory.service"
    assert groups.title("/system.slice/a_b.service") == "a_b.service"


def test_group_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(TierctlError, match=r"there is no group no\.service now; see"):
        top.by_group(source(tmp_path), "no.service", 9, 1.0)


@pytest.mark.parametrize("name", ["../x", "a//b", "", ".", "a\nb"])
def test_group_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TierctlError) as found:
        groups.named(source(tmp_path), name)
    assert found.value.code == USAGE and "\n" not in str(found.value)


def test_group_with_two_places_needs_a_path(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    for place in ("system.slice", "machine.slice"):
        tree.put(f"sys/fs/cgroup/{place}/same.service/memory.numa_stat", "anon N0=1")
    with pytest.raises(TierctlError, match=r"2 groups have the name same\.service; give a path"):
        groups.named(Stepping(tree), "same.service")
    assert groups.named(Stepping(tree), "machine.slice/same.service")


def test_machine_without_cgroup_v2_is_lacking(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").unlink()
    with pytest.raises(TierctlError) as found:
        top.by_group(Stepping(tree), None, 9, 1.0)
    assert found.value.code == LACKING


def test_group_that_vanishes_between_samples_is_not_shown(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    path = tmp_path / "sys/fs/cgroup/system.slice/service0004.service/memory.numa_stat"
    reply = top.by_group(Stepping(tree, lambda second: path.unlink()), None, 9, 1.0)
    assert "service0004.service" not in {one.name for one in reply.data.groups}
    assert len(reply.data.groups) == 4


def test_group_that_comes_between_samples_has_no_rate(tmp_path: Path) -> None:
    found = source(tmp_path)
    now = Sampler(found).take()
    path = "/system.slice/service0004.service"
    reply, seen = top.build(now, None, 9, top.Seen(found.clock() - 1), [path])
    (one,) = reply.data.groups
    assert one.up_bytes_per_s is None and one.total and list(seen.usage) == [path]


def test_one_more_group_is_no_plural(tmp_path: Path) -> None:
    found = source(tmp_path)
    for rows, words in ((4, "1 more group: -n 5"), (3, "2 more groups: -n 5")):
        assert words in top.draw(top.by_group(found, None, rows, 1.0), Style())


def test_bundle_with_one_sample_says_what_to_do(tmp_path: Path) -> None:
    found = source(tmp_path)

    def wait(seconds: float) -> None:
        raise EOFError

    found.wait, found.live = wait, False  # type: ignore[method-assign]
    reply = top.by_group(found, None, 9, 1.0)
    assert reply.sources["rates"] == ALONE and reply.data.interval_s is None
    assert f"? rates: {ALONE.state}; {ALONE.todo}" in [
        one.strip() for one in top.draw(reply, Style())
    ]


def test_unknown_figures_say_why_once(tmp_path: Path) -> None:
    lines = top.draw(top.by_group(source(tmp_path, DAMON), None, 9, 1.0), Style())
    assert any("groups do not count what DAMON moves" in line for line in lines)
    off = replace(OURS, mglru="0x0006")
    lines = top.draw(top.by_group(source(tmp_path / "off", off), None, 9, 1.0), Style())
    assert any("hot_on_slow: MGLRU is off; echo y" in line for line in lines)


# --- which group -----------------------------------------------------------------


def test_name_is_of_a_unit_and_not_of_what_a_service_makes(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    tree.put("sys/fs/cgroup/system.slice/service0000.service/db.service/cgroup.procs", "")
    found = Stepping(tree)
    with pytest.raises(TierctlError, match=r"there is no group db\.service now"):
        groups.named(found, "db.service")
    path = "/system.slice/service0000.service/db.service"
    assert groups.named(found, path) == path == groups.named(found, f"/sys/fs/cgroup{path}")
    assert groups.named(found, "/system.slice") == "/system.slice"


def test_name_of_a_unit_finds_the_group_that_systemd_names_otherwise(tmp_path: Path) -> None:
    """systemd puts _ before a name that begins with a controller's and a dot (cg_escape())."""
    tree, place = build(tmp_path, OURS), "sys/fs/cgroup/system.slice"
    for name in ("_memory.service", "a_io.service", "memory.service.d"):
        tree.put(f"{place}/{name}/memory.numa_stat", f"anon N0={4 << 30} N2={4 << 30}")
    found = Stepping(tree)
    for name in ("memory.service", "_memory.service", "system.slice/_memory.service"):
        assert groups.named(found, name) == "/system.slice/_memory.service"
    with pytest.raises(TierctlError, match=r"there is no group io\.service now"):
        groups.named(found, "io.service")
    assert explain.answer(found, ["memory.service"], seconds=0).data.name == "memory.service"
    names = {one.name for one in top.by_group(found, None, 9, 1.0).data.groups}
    assert {"memory.service", "a_io.service"} <= names and "_memory.service" not in names
    tree.put(f"{place}/memory.service/memory.numa_stat", "anon N0=1")  # not of systemd
    assert groups.named(Stepping(tree), "memory.service") == "/system.slice/memory.service"


def test_name_that_is_almost_right_is_told(tmp_path: Path) -> None:
    with pytest.raises(TierctlError, match=r"did you mean service000[0-4]\.service\?"):
        groups.named(source(tmp_path), "service000.service")


def test_limits_of_a_group_and_those_above_come_own_first(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    base = "sys/fs/cgroup/system.slice"
    tree.put(f"{base}/memory.tier.max", 1 << 30)
    tree.put(f"{base}/service0000.service/memory.tier.max", 64 << 20)
    rows = "inactive_anon N0=5 N1=7 N2=100\nactive_file N0=1 N1=0 N2=0"
    tree.put(f"{base}/service0000.service/memory.numa_stat", rows)
    tree.put(f"{base}/memory.numa_stat", "")
    found = groups.limits_above(Stepping(tree), "/system.slice/service0000.service", [0, 1])
    assert [(one.limit, one.used) for one in found] == [(64 << 20, 13), (1 << 30, None)]
    assert not any(one.reached for one in found)
    assert groups.limits_above(source(tmp_path / "b", STOCK), "/system.slice", [0]) == []


def test_processes_of_a_group_that_has_ended_are_none(tmp_path: Path) -> None:
    found = source(tmp_path)
    assert groups.pids(found, "/gone.slice") == []
    found.denied = ("/sys/fs/cgroup/system.slice/service0000.service/cgroup.procs",)
    with pytest.raises(TierctlError, match="run as root"):
        groups.pids(found, "/system.slice")
