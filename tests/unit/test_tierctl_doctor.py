# SPDX-License-Identifier: GPL-2.0
"""tierctl doctor: each check finds what it is for, and is quiet on a machine that is well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tierctl_trees import (
    FAST,
    OLD,
    OURS,
    PLAIN,
    SLOW,
    STOCK,
    TIER,
    Spec,
    Stepping,
    Tree,
    build,
    stat,
    vmstat,
)

from tierctl.checks import ALL
from tierctl.checks import check as checks
from tierctl.checks import nodes as checks_nodes
from tierctl.checks import system as checks_system
from tierctl.checks.check import NotDone, Report
from tierctl.commands import doctor
from tierctl.core import paths
from tierctl.core.text import Style
from tierctl.model import snapshot
from tierctl.model.status import Finding
from tierctl.read import distance, groups

BLOCK = "sys/devices/system/memory/memory2/state"
HUGE = "sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages"
LOCKDOWN = "sys/kernel/security/lockdown"
SERVICE = "sys/fs/cgroup/system.slice/service0000.service"
EXPORTER = "etc/default/prometheus-node-exporter"


def report(
    tmp_path: Path,
    spec: Spec,
    change: Callable[[Tree], object] = lambda tree: None,
    step: Callable[[Tree, int], None] = lambda tree, second: None,
    denied: tuple[str, ...] = (),
) -> Report:
    """What doctor finds on a machine."""
    tree = build(tmp_path / "root", spec)
    change(tree)
    source = Stepping(tree, lambda second: step(tree, second))
    source.denied = denied
    return checks.run(ALL, snapshot.twice(source, 1.0))


def ids(found: Report) -> list[str]:
    """The ids of the findings."""
    return [one.id for one in found.findings]


def only(found: Report, id_: str) -> Finding:
    """The finding with an id."""
    (one,) = [each for each in found.findings if each.id == id_]
    return one


def test_machines_that_are_well_have_no_finding(tmp_path: Path) -> None:
    for name, spec in {"ours": OURS, "stock": STOCK}.items():
        found = report(tmp_path / name, spec)
        assert (found.findings, found.not_done) == ([], {})
        assert found.done == [one.id for one in ALL]


def test_ids_are_unique_and_stable() -> None:
    assert [one.id for one in ALL] == [
        "one-tier",
        "dram-differs",
        "dax-mode",
        "blocks-offline",
        "not-movable",
        "hugetlb-slow",
        "nothing-promotes",
        "demotion-off",
        "two-promoters",
        "hot-waits",
        "hint-faults",
        "mglru-off",
        "bounces",
        "forced-flushes",
        "cpu-limit",
        "limit-zero",
        "cpuset-slow",
        "guests-without-age",
        "kernel-differs",
        "taint",
        "lockdown",
        "exporter-filter",
        "profile-differs",
    ]


SAME = (FAST, FAST, replace(SLOW, tier=4, distance=576, source="dram"))
DIFFERENT = (FAST, replace(FAST, access=(120, 95, 200_000, 200_000)), SLOW)
EMPTY = (FAST, replace(FAST, access=(0, 0, 200_000, 200_000)), SLOW)
NORMAL = (FAST, FAST, replace(SLOW, movable=False))
ONE_FAST = (replace(FAST, targets="1"), SLOW)
OFF = replace(OURS, enabled=0, demotion="false")
OBSERVE = replace(OURS, parts_off=("demote", "promote"))


@pytest.mark.parametrize(
    ("spec", "id_", "severity", "words"),
    [
        (PLAIN, "one-tier", "info", "no slow memory"),
        (replace(STOCK, nodes=SAME), "one-tier", "error", "also node 2, which has no CPU"),
        (replace(OURS, nodes=DIFFERENT), "dram-differs", "warning", "0 and 1 differ"),
        (replace(OURS, nodes=EMPTY), "dram-differs", "warning", "no bandwidth of DRAM node 1"),
        (replace(OURS, dax={"dax0.0": (2, False)}), "dax-mode", "warning", "dax0.0"),
        (replace(OURS, nodes=NORMAL, dax={"dax0.0": (2, True)}), "not-movable", "info", "Movable"),
        (OFF, "nothing-promotes", "warning", "No mechanism"),
        (replace(STOCK, numa_balancing=1), "nothing-promotes", "warning", "No mechanism"),
        (replace(OURS, parts_off=("promote",)), "nothing-promotes", "info", "promote is off"),
        (replace(STOCK, demotion="false"), "demotion-off", "warning", "Demotion is off"),
        (OFF, "demotion-off", "warning", "Demotion is off"),
        (replace(OURS, parts_off=("demote",)), "demotion-off", "warning", "Demotion is off"),
        (OBSERVE, "demotion-off", "info", "Demotion is off"),
        (replace(OURS, numa_balancing=2), "two-promoters", "warning", "NUMA balancing (mode 2)"),
        (replace(OURS, damon="migrate_hot"), "two-promoters", "warning", "DAMON"),
        (
            replace(OURS, nodes=ONE_FAST, numa_balancing=1),
            "hint-faults",
            "warning",
            "4000 faults/s",
        ),
        (replace(OURS, mglru="0x0000"), "mglru-off", "warning", "MGLRU is off"),
        (OLD, "mglru-off", "info", "no MGLRU"),
        (
            replace(OURS, reasons={"scan": ("unsupported", "the processor does not")}),
            "nothing-promotes",
            "warning",
            "the part scan is unsupported: the processor does not",
        ),
        (replace(OURS, parts_off=("scan",)), "nothing-promotes", "warning", "scan/enabled is 0"),
        (
            replace(STOCK, numa_balancing=None),
            "nothing-promotes",
            "warning",
            "No mechanism promotes: NUMA balancing is off",
        ),
        (
            replace(OURS, reasons={"age": ("waiting", "kvm")}),
            "guests-without-age",
            "info",
            "Virtual machines run (1), and the part age is waiting",
        ),
    ],
)
def test_machine_with_a_fault_has_its_finding(
    tmp_path: Path, spec: Spec, id_: str, severity: str, words: str
) -> None:
    def step(tree: Tree, second: int) -> None:
        tree.put("proc/vmstat", vmstat(spec, second))

    found = only(report(tmp_path, spec, step=step), id_)
    assert found.severity == severity and words in found.what
    assert found.what.endswith(".")


ROOM = replace(FAST, gib=20)  # so little that the memory used on slow nodes is much
FULL = replace(ROOM, free=0.0)


def much_used(tree: Tree) -> None:
    """2 GiB of each group on node 2 are of the youngest generation."""
    tree.change("sys/kernel/debug/lru_gen", f" {800:10} ", f" {524_288:10} ")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (replace(STOCK, nodes=(ROOM, ROOM, SLOW)), "although fast memory has room: NUMA balancing"),
        (replace(STOCK, nodes=(FULL, FULL, SLOW)), "All fast nodes are full"),
        (replace(OURS, nodes=(FULL, FULL, SLOW)), "All fast nodes are full"),
    ],
)
def test_hot_memory_that_waits_is_a_finding(tmp_path: Path, spec: Spec, words: str) -> None:
    found = only(report(tmp_path, spec, much_used), "hot-waits")
    assert found.severity == "info" and words in found.what


def test_hot_memory_that_our_promoter_takes_up_is_no_finding(tmp_path: Path) -> None:
    spec = replace(OURS, nodes=(ROOM, ROOM, SLOW))
    assert "hot-waits" not in ids(report(tmp_path, spec, much_used))


@pytest.mark.parametrize(
    ("id_", "words", "path", "text"),
    [
        ("blocks-offline", "1 of 1 memory blocks of node 2", BLOCK, "offline"),
        ("hugetlb-slow", "1.0G of slow node 2", HUGE, "512"),
        ("limit-zero", "/system.slice/service0000.service", f"{SERVICE}/memory.tier.max", "0"),
        ("cpuset-slow", "slow nodes 2 only", f"{SERVICE}/cpuset.mems.effective", "2"),
        ("taint", "a warning has happened", "proc/sys/kernel/tainted", str(1 << 9 | 1 << 13)),
        ("lockdown", "Lockdown is on", LOCKDOWN, "none [integrity] confidentiality"),
        ("lockdown", "Lockdown is on", LOCKDOWN, "none integrity [confidentiality]"),
        ("exporter-filter", "node_exporter", EXPORTER, 'ARGS=""'),
        ("exporter-filter", "node_exporter", EXPORTER, 'ARGS="--collector.vmstat.fields=^pgfault"'),
    ],
)  # fmt: skip
def test_file_with_a_fault_has_its_finding(
    tmp_path: Path, id_: str, words: str, path: str, text: str
) -> None:
    found = report(tmp_path, OURS, lambda tree: tree.put(path, text))
    assert words in only(found, id_).what


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("proc/sys/kernel/tainted", str(1 << 13)),  # an unsigned module
        (LOCKDOWN, "[none] integrity confidentiality"),
        (EXPORTER, "ARGS=\"--collector.vmstat.fields='^(oom_kill|pgpromote).*'\""),
        (EXPORTER, 'ARGS="--collector.vmstat.fields=.*"'),
        (f"{SERVICE}/memory.tier.max", "4096"),
        (f"{SERVICE}/cpuset.mems.effective", "0,2"),
    ],
)
def test_file_without_a_fault_has_no_finding(tmp_path: Path, path: str, text: str) -> None:
    assert ids(report(tmp_path, OURS, lambda tree: tree.put(path, text))) == []


def test_boot_with_tier_off_is_why_nothing_promotes(tmp_path: Path) -> None:
    spec = replace(OURS, enabled=0, demotion="false")
    found = report(tmp_path, spec, lambda tree: tree.put(f"{TIER}/state", "blocked"))
    assert "booted with tier=off" in only(found, "nothing-promotes").what


ONE_NODE = replace(OURS, nodes=ONE_FAST, numa_balancing=2)
DEMOTE = "tierctl set demotion_enabled 1"


@pytest.mark.parametrize(
    ("spec", "id_", "todo"),
    [
        (OFF, "nothing-promotes", "tierctl profile apply general"),
        (replace(OURS, parts_off=("scan",)), "nothing-promotes", "tierctl set scan.enabled 1"),
        (replace(STOCK, numa_balancing=1), "nothing-promotes", "tierctl profile apply hint"),
        (
            replace(STOCK, numa_balancing=None),
            "nothing-promotes",
            "Boot a tiershift kernel, or one with CONFIG_NUMA_BALANCING.",
        ),
        (OFF, "demotion-off", DEMOTE),
        (replace(STOCK, demotion="false"), "demotion-off", DEMOTE),
        (replace(OURS, parts_off=("demote",)), "demotion-off", "tierctl set demote.enabled 1"),
        (ONE_NODE, "two-promoters", "tierctl set numa_balancing 0"),
        (replace(OURS, numa_balancing=2), "two-promoters", "tierctl set numa_balancing 1"),
        (replace(ONE_NODE, numa_balancing=1), "hint-faults", "tierctl set numa_balancing 0"),
        (replace(OURS, mglru="0x0006"), "mglru-off", "echo y > /sys/kernel/mm/lru_gen/enabled"),
        (OFF, "guests-without-age", "tierctl profile apply general"),
        (replace(OURS, parts_off=("age",)), "guests-without-age", "tierctl set age.enabled 1"),
    ],
)
def test_advice_is_a_command_that_stands_alone_on_its_line(
    tmp_path: Path, spec: Spec, id_: str, todo: str
) -> None:
    found = only(report(tmp_path, spec), id_)
    assert found.todo.split("\n")[-1] == todo
    lines = doctor.draw_finding(found, Style())
    assert any(line.strip().removeprefix("-> ") == todo for line in lines) or todo[-1] == "."
    assert max(map(len, lines)) <= 80


def test_pages_that_bounce_are_found_and_few_are_not(tmp_path: Path) -> None:
    def again(share: int) -> Report:
        old, new = "tier_promote_again 4000", f"tier_promote_again {share}"
        return report(
            tmp_path / str(share), OURS, lambda tree: tree.change("proc/vmstat", old, new)
        )

    assert "11 % of the promotions since boot" in only(again(108_900), "bounces").what
    assert ids(again(98_000)) == []


def test_deferred_flushes_that_are_forced_are_found(tmp_path: Path) -> None:
    def change(tree: Tree) -> None:
        tree.put(f"{TIER}/defer/state", "on")
        tree.change("proc/vmstat", "tier_defer_success 100", "tier_defer_success 16000")
        tree.change("proc/vmstat", "tier_defer_forced 100", "tier_defer_forced 1001")

    assert "1,001 times" in only(report(tmp_path, OURS, change), "forced-flushes").what


def test_part_at_its_limit_is_found(tmp_path: Path) -> None:
    def step(tree: Tree, second: int) -> None:
        for file in (tree.root / "proc").glob("*/comm"):
            name = file.read_text().strip()
            if name == "kmmscand0":
                tree.put(f"proc/{file.parent.name}/stat", stat(int(file.parent.name), name, 123))

    found = only(report(tmp_path, OURS, step=step), "cpu-limit")
    assert found.what == "The part scan used 0.23 CPUs of the 0.25 that it may use."


def test_older_kernel_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    def change(tree: Tree) -> None:
        (tree.root / f"{TIER}/scan/page_cache").unlink()

    assert "it lacks scan.page_cache" in only(report(tmp_path, OURS, change), "kernel-differs").what


def test_chosen_profile_that_differs_is_found(tmp_path: Path) -> None:
    def change(tree: Tree) -> None:
        tree.put("etc/tierctl/tierctl.toml", 'profile = "latency"')

    found = only(report(tmp_path, OURS, change), "profile-differs")
    assert "(profile latency)" in found.what and "verify" in found.todo


def test_mistake_in_the_configuration_is_a_check_that_is_not_made(tmp_path: Path) -> None:
    found = report(tmp_path, OURS, lambda tree: tree.put("etc/tierctl/tierctl.toml", "a = = 1"))
    assert "tierctl.toml" in found.not_done["profile-differs"]


# --- unknown ---------------------------------------------------------------------


def test_denied_files_end_checks_and_find_nothing(tmp_path: Path) -> None:
    denied = (
        paths.KDAMONDS,
        paths.MGLRU,
        paths.DEMOTION,
        paths.BALANCING,
        "/proc/sys/kernel/tainted",
        distance.DAXES,
        f"{checks_nodes.BLOCKS}/memory2/state",
        checks_system.LOCKDOWN,
        checks_system.EXPORTER,
    )
    found = report(tmp_path, replace(STOCK, numa_balancing=1), denied=denied)
    assert ids(found) == []
    assert set(found.not_done) == {
        "dax-mode",
        "blocks-offline",
        "nothing-promotes",
        "demotion-off",
        "mglru-off",
        "taint",
        "lockdown",
        "exporter-filter",
    }


def test_kernel_without_tiers_has_one_error_and_few_checks(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "root")
    tree.put("proc/version", "Linux")
    found = checks.run(ALL, snapshot.twice(Stepping(tree), 1.0))
    assert [one.id for one in found.findings if one.severity == "error"] == ["one-tier"]
    assert {"nothing-promotes", "demotion-off", "taint"} <= set(found.not_done)


def test_machine_whose_slow_nodes_are_not_known_has_no_finding_about_them(tmp_path: Path) -> None:
    found = report(tmp_path, STOCK, denied=(f"{paths.NODES}/has_cpu",))
    assert ids(found) == []
    assert {"one-tier", "nothing-promotes", "demotion-off", "cpuset-slow"} <= set(found.not_done)
    assert "denied" in found.not_done["one-tier"]


def test_kmem_that_may_not_be_read_makes_no_device_unused(tmp_path: Path) -> None:
    spec = replace(OURS, dax={"dax0.0": (2, True)})
    found = report(tmp_path, spec, denied=(distance.KMEM,))
    assert "dax-mode" in found.not_done and "dax-mode" not in ids(found)


def test_worst_findings_come_first(tmp_path: Path) -> None:
    spec = replace(STOCK, nodes=SAME, mglru="0x0000")
    order = [one.severity for one in report(tmp_path, spec).findings]
    assert order == sorted(order, key=("error", "warning", "info").index) and order[0] == "error"


def test_a_check_that_lacks_a_figure_says_which() -> None:
    with pytest.raises(NotDone, match="the figure"):
        checks.need(None, "the figure")
    checks.need(0, "-")


def test_guests_are_known_by_the_scopes_of_libvirt() -> None:
    assert groups.GUEST.search("/machine.slice/machine-qemu\\x2d1\\x2da.scope")
    assert not groups.GUEST.search("/system.slice/machine-qemu.service")
