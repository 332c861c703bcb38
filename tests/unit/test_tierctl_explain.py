# SPDX-License-Identifier: GPL-2.0
"""tierctl explain names a planted cause of a process, and its reasons add up to what is slow."""

from __future__ import annotations

import re
import shutil
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tierctl_process import (
    FILE,
    FIRST_SLOW,
    GROUP,
    LIBRARY,
    MIB,
    NODES,
    PID,
    PLAIN,
    SMALL,
    Machine,
    answer,
    first,
    flags,
    limited,
    machine,
    process,
    sizes,
    spans,
)
from tierctl_trees import STOCK, Spec, Stepping, build, stat, vmstat

from tierctl.commands import explain
from tierctl.core.errors import DENIED, LACKING, USAGE, TierctlError
from tierctl.core.text import Style
from tierctl.explain import scene
from tierctl.explain.scene import Reason, Split
from tierctl.model.snapshot import Sampler
from tierctl.read import flags as kinds
from tierctl.read import nodes
from tierctl.read.spans import SPANS

FULL = replace(SMALL, nodes=(replace(NODES[0], free=0.2), NODES[1]))
BALANCED = replace(STOCK, nodes=NODES, numa_balancing=2)
ANON = f"{0:08x}-{MIB << 20:08x} rw-p 00000000 00:00 0 [heap]"


@dataclass
class Plant:
    """A machine with a cause, and what is to be answered."""

    sizes: dict[str, int]  # MiB by cause; the first one is the planted one
    verdict: str
    what: str
    todo: str | None = None  # a part; "": none
    spec: Spec = SMALL
    pushed: tuple[int, ...] = (0,)
    files: Mapping[str, object] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)  # rows of /proc/PID/status
    flags: tuple[tuple[int, int], ...] = ()  # page tables, and the flags of their pages
    make: Callable[[Machine], None] = lambda found: None


def _slow_half(found: Machine) -> None:
    tail = "rw-p 00000000 00:00 0"
    maps = f"00000000-02000000 {tail}\n02000000-04000000 {tail}"
    found.tree.put(f"proc/{PID}/maps", maps)


def _library(found: Machine) -> None:
    parts = [f"00000000-01000000 r-xp {LIBRARY}", f"01000000-02000000 r--p {LIBRARY}"]
    found.tree.put(f"proc/{PID}/maps", "\n".join([*parts, ANON.replace("00000000-", "02000000-")]))


def _still(found: Machine) -> None:
    found.step = lambda second: found.tree.put("proc/vmstat", vmstat(SMALL, second))


def _stuck(found: Machine) -> None:
    def step(second: int) -> None:
        found.tree.put("proc/vmstat", vmstat(SMALL, 0))
        found.tree.put(f"proc/{PID}/stat", stat(PID, "redis", 100 + 50 * second))

    found.step = step


def _no_room_for_faults(found: Machine) -> None:
    def step(second: int) -> None:
        rows = vmstat(BALANCED, 0).replace("pgpromote_candidate 2000000", "pgpromote_candidate {}")
        found.tree.put("proc/vmstat", rows.format(2_000_000 + 500 * second))

    found.step = step
    step(0)


MERGED = {f"proc/{PID}/ksm_merging_pages": 4096}
SLICE = "sys/fs/cgroup/system.slice"
PLANTS = {
    # The twelve of the issue
    "full": Plant(
        {"full": 32, "cold": 32}, "act", "hot, waits for free memory on node 0", "colder pages",
        FULL, (8000, 8192),
    ),
    "mlock": Plant(
        {"mlock": 16, "cold": 48}, "by design", "mlocked", "without mlock",
        flags=((8, PLAIN | kinds.MLOCKED | kinds.UNEVICTABLE),),
    ),
    "policy": Plant(
        {"policy": 32, "cold": 32}, "its policy", "(bind:1)", "start the program without a policy",
        files={f"proc/{PID}/numa_maps": "00000000 bind:1 anon=9\n02000000 default anon=9"},
        make=_slow_half,
    ),
    "cpuset": Plant(
        {"cpuset": MIB}, "act", "allows nodes 1 only",
        f"echo 0-1 > /sys/fs/cgroup{GROUP}/cpuset.mems", facts={"Mems_allowed_list": "1"},
    ),
    "limit": Plant(
        {"limit": 16, "cold": 48}, "act", "hot; service0000.service is at its limit",
        "tierctl group set system.slice/service0000.service max=64M", pushed=(4096,),
        make=lambda found: limited(found, 32 << 20, 31 << 20),
    ),
    "limit-zero": Plant(
        {"limit-zero": MIB}, "its policy", "of system.slice is 0", "group set system.slice max=max",
        files={f"{SLICE}/memory.tier.max": 0},
    ),
    "opt-out": Plant({"opt-out": MIB}, "its policy", "TierScan 0", facts={"TierScan": "0"}),
    "ksm": Plant(
        {"ksm": 16, "cold": 48}, "by design", "KSM has merged up to 16.0M of it",
        "all pages of the machine", files=MERGED,
    ),
    "dirty": Plant(
        {"dirty": 16, "cold": 48}, "by design", "until they are written", "sync",
        flags=((4, FILE | kinds.DIRTY), (4, FILE | kinds.WRITEBACK), (8, PLAIN | kinds.DIRTY)),
    ),
    "cold": Plant(
        {"cold": MIB}, "fine", "not found in the last two looks of 250 ms, 1 s ago", "",
        pushed=(0, 0),
    ),
    "tier-off": Plant(
        {"tier-off": MIB}, "act", "off", "tierctl profile apply general", replace(SMALL, enabled=0)
    ),
    "faults": Plant(
        {"hint-faults": MIB}, "unknown", "(4000/s)", "rate_limit_MBps", BALANCED,
    ),
    # Others
    "blocked": Plant(
        {"blocked": MIB}, "act", "tier=off", "update-grub", replace(SMALL, enabled=0),
        files={"sys/kernel/mm/tier/state": "blocked"},
    ),
    "scan-waits": Plant(
        {"scan-waits": MIB}, "act", "waiting: no memory was free to start", "tries again",
        replace(SMALL, reasons={
            "scan": ("waiting", "no memory was free to start this part"),
            "promote": ("waiting", "scan"),
        }),
    ),
    "scan-off": Plant(
        {"scan-waits": MIB}, "act", "scan/enabled is 0", "tierctl profile apply general",
        replace(SMALL, parts_off=("scan", "promote")),
    ),
    "observe": Plant(
        {"observe": 8, "cold": 56}, "act", "promote is off", "tierctl set promote.enabled 1",
        replace(SMALL, parts_off=("promote",)), (2048, 2048),
    ),
    "faults-beside-tier": Plant(
        {"hint-faults": MIB}, "act", "(4000/s)", "tierctl profile apply general",
        replace(SMALL, parts_off=("scan", "promote"), numa_balancing=2),
    ),
    "no-promoter": Plant(
        {"no-promoter": MIB}, "act", "NUMA balancing is off", "tierctl profile apply hint",
        replace(BALANCED, numa_balancing=0),
    ),
    "balancing": Plant(
        {"balancing": MIB}, "act", "a fast node has free memory", "tierctl profile apply hint",
        replace(BALANCED, numa_balancing=1),
    ),
    "no-balancing": Plant(
        {"no-promoter": MIB}, "act", "NUMA balancing is off, and DAMON", "boot a tiershift kernel",
        replace(BALANCED, numa_balancing=None),
    ),
    "damon": Plant(
        {"unknown": MIB}, "unknown", "DAMON promotes, and does not say", "",
        replace(BALANCED, numa_balancing=0, damon="migrate_hot"),
    ),
    "full-without-demotion": Plant(
        {"full": 32, "cold": 32}, "act", "free memory on node 0", "tierctl set demote.enabled 1",
        replace(FULL, parts_off=("demote",)), (8192,),
    ),
    "full-before-faults": Plant(
        {"full": MIB}, "act", "free memory on node 0", "tierctl set demotion_enabled 1",
        replace(BALANCED, nodes=FULL.nodes, demotion="false"), make=_no_room_for_faults,
    ),
    "rules-of-faults": Plant(
        {"hint-faults": 48, "ksm": 16}, "unknown", "NUMA balancing", None, BALANCED,
        files=MERGED, flags=((8, PLAIN | kinds.MLOCKED),),
    ),
    "idle": Plant({"idle": MIB}, "fine", "did not run in 10 s", "", make=_still),
    "queue": Plant(
        {"queue": 4, "cold": 60}, "fine", "about to move", None,
        replace(SMALL, nodes=(NODES[0], replace(NODES[1], hot=1024))), (2048,),
    ),
    "stuck": Plant(
        {"stuck": 4, "cold": 60}, "unknown", "no page was promoted in 10 s", "grep", SMALL,
        (1024,), make=_stuck,
    ),
    "mappings": Plant(
        {"executable": 16, "cold": 48}, "by design", "executable", "", make=_library
    ),
    "hugetlb": Plant(
        {"hugetlb": 8, "off-lru": 8, "cold": 48}, "by design", "pool of their node",
        "/sys/devices/system/node/node0/hugepages", flags=((4, kinds.HUGE), (4, 0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTS)
def test_planted_cause_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    plant = PLANTS[name]
    found = machine(tmp_path, plant.spec, plant.pushed)
    if plant.facts:
        process(found.tree, 1.0, MIB, **plant.facts)
    for path, value in plant.files.items():
        found.tree.put(path, value)
    at = FIRST_SLOW
    for tables, value in plant.flags:
        flags(found.tree, at, 512 * tables, value)
        at += 512 * tables
    plant.make(found)
    found.step(0)
    data = answer(found)
    got = sizes(data)
    assert {one: got.get(one) for one in plant.sizes} == plant.sizes, got
    assert sum(plant.sizes.values()) <= MIB == sum(got.values())
    one = first(data, next(iter(plant.sizes)))
    assert one.verdict == plant.verdict and plant.what in one.what
    if plant.todo is not None:
        assert plant.todo in (one.todo or "") and bool(plant.todo) == bool(one.todo)
    assert data.actions == any(one.verdict == "act" for one in data.reasons)


# --- what is proven, and what is not ---------------------------------------------


@pytest.mark.parametrize(("turn", "mib"), [("- -", 4), ("3072 9000", 12), ("0 9000", 4)])
def test_candidates_of_the_last_whole_turn_or_a_later_visit_count(
    tmp_path: Path, turn: str, mib: int
) -> None:
    found = machine(tmp_path, FULL)
    found.visited(spans(1024, turn=turn))
    rest = "unknown" if turn == "- -" else "cold"
    assert sizes(answer(found)) == {"full": mib, rest: MIB - mib}


LOST = "no turn over all of its memory has ended since"  # each later one has missed a look


@pytest.mark.parametrize(
    ("pushed", "age_ms", "turn_ms", "wanted", "words"),
    [
        # All looks are missed: the visit is that of the turn.
        (0, 42_000, 42_000, {"cold": 64}, "two looks of 250 ms, 42 s ago"),
        (0, 60_000, 60_000, {"cold": 64}, "two looks of 250 ms, 60 s ago"),
        (0, 60_001, 60_001, {"unknown": 64}, f"looks of 250 ms, 60 s ago; {LOST}"),
        # Of a turn with two visits the second one misses its looks.
        (4096, 900, 42_000, {"full": 16, "cold": 48}, "two looks of 250 ms, 42 s ago"),
        (4096, 900, 300_000, {"full": 16, "unknown": 48}, f"looks of 250 ms, 300 s ago; {LOST}"),
        (0, 900, 300_000, {"unknown": 64}, f"looks of 250 ms, 300 s ago; {LOST}"),
    ],
)
def test_memory_after_turns_that_missed_a_look_is_cold_with_the_age_of_the_whole_turn(
    tmp_path: Path, pushed: int, age_ms: int, turn_ms: int, wanted: dict[str, int], words: str
) -> None:
    """The last whole turn found no page; since then the process uses new memory."""
    found = machine(tmp_path, FULL)
    found.visited(spans(pushed, age_ms=age_ms, turn=f"0 {turn_ms}"))
    data = answer(found)
    assert sizes(data) == wanted
    one = first(data, "cold" if "cold" in wanted else "unknown")
    assert one.what.endswith(words)
    assert one.verdict == ("fine" if one.id == "cold" else "unknown")


def test_flag_ksm_of_the_kernel_is_not_believed(tmp_path: Path) -> None:
    """Linux 6.12 sets KPF_KSM for each anonymous page."""
    found = machine(tmp_path)
    flags(found.tree, FIRST_SLOW, 512 * 32, PLAIN | 1 << 21)
    assert sizes(answer(found)) == {"cold": MIB}
    found.tree.put(f"proc/{PID}/ksm_merging_pages", 0)
    data = answer(found)
    assert sizes(data) == {"cold": MIB} and not any("KSM" in one for one in data.not_looked_at)


def test_merged_pages_that_may_all_be_fast_are_no_reason(tmp_path: Path) -> None:
    found = machine(tmp_path, slow=0.5)
    found.tree.put(f"proc/{PID}/ksm_merging_pages", 2048)
    data = answer(found)
    assert sizes(data) == {"cold": 32} and "KSM has merged 8.0M" in data.looked_at


def test_merged_pages_that_may_not_be_counted_are_not_looked_at(tmp_path: Path) -> None:
    found = machine(tmp_path)
    path = f"/proc/{PID}/ksm_merging_pages"
    found.tree.put(path[1:], 4096)
    found.denied = (path,)
    assert f"KSM ({path}: denied)" in answer(found).not_looked_at


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        (spans(), "cold"),
        (spans(age_ms=11_200), "cold"),  # the same visit
        (spans(turn="0 60000"), "cold"),
        (spans(turn="0 60001"), "unknown"),
        (spans(turn="- -"), "unknown"),
        ("", "unknown"),
        (spans().splitlines()[0] + "\ngarbage\n", "unknown"),
        ("pid other columns\n1 2 3", "unknown"),
        (spans(pid=PID + 1), "unknown"),
    ],
)
def test_only_a_whole_turn_proves_cold(tmp_path: Path, after: str, cause: str) -> None:
    found = machine(tmp_path)
    found.visited(spans(), after)
    assert sizes(answer(found)) == {cause: MIB}


def test_looks_tell_when_their_turn_was(tmp_path: Path) -> None:
    found = machine(tmp_path)
    found.visited(spans(1024, age_ms=1000, turn="1024 42000"))
    one = first(answer(found), "cold")
    assert "two looks of 250 ms, 42 s ago" in one.what and one.proof == SPANS


@pytest.mark.parametrize(("hot", "bytes_"), [(1024, 4), (256, 1), (0, 0)])
def test_hot_pages_that_do_not_wait_may_have_moved(tmp_path: Path, hot: int, bytes_: int) -> None:
    nodes = (NODES[0], replace(NODES[1], hot=hot))
    data = answer(machine(tmp_path, replace(SMALL, nodes=nodes), pushed=(1024,)))
    assert sizes(data).get("queue", 0) == bytes_
    assert first(data, "cold").at_most == (bytes_ < 4)


@pytest.mark.parametrize("pushed", [256, 0])
def test_short_looks_at_a_full_node_prove_no_page_cold(tmp_path: Path, pushed: int) -> None:
    found = machine(tmp_path, FULL)
    found.visited(spans(pushed), spans(pushed, window=16_000))
    one = first(answer(found), "full")
    assert one.bytes == MIB << 20 and one.at_most
    assert ("looks of 16 ms, 1 s ago find the hottest only" in one.what) == (not pushed)
    found.visited(spans(pushed))
    assert "cold" in sizes(answer(found))


def test_visits_of_a_part_find_so_much_at_least(tmp_path: Path) -> None:
    found = machine(tmp_path, FULL)
    found.visited(spans(256, turn="- -"))
    data = answer(found)
    assert sizes(data) == {"full": 1, "unknown": MIB - 1} and not first(data, "full").at_most
    assert "no turn over all of its memory has ended" in first(data, "unknown").what


@pytest.mark.parametrize(("growth", "cause"), [(5, "full"), (0, "queue")])
def test_candidates_without_room_prove_a_full_node(tmp_path: Path, growth: int, cause: str) -> None:
    spec = replace(SMALL, nodes=(NODES[0], replace(NODES[1], hot=1024)))
    found = machine(tmp_path, spec, pushed=(1024,))
    step = found.step

    def refuse(second: int) -> None:
        step(second)
        row = "tier_promote_fail_watermark"
        found.tree.put("proc/vmstat", f"{vmstat(spec, second)}\n{row} {7 + growth * (second > 0)}")

    found.step = refuse
    found.step(0)
    assert sizes(answer(found)) == {cause: 4, "cold": 60}


def test_candidates_without_room_may_be_of_a_node_that_is_not_allowed(tmp_path: Path) -> None:
    spec = replace(SMALL, nodes=(NODES[0], replace(NODES[1], hot=1024), NODES[0]))
    found = scene.Scene(Sampler(machine(tmp_path, spec)).take(), moved={scene.REFUSED: 5})
    assert scene.obstacle(found, [0], ()) is None
    way = scene.obstacle(found, [0, 2], ())
    assert way is not None and way.id == "full" and way.proof.endswith(scene.REFUSED)


def test_full_node_without_a_visit_bounds_what_is_hot(tmp_path: Path) -> None:
    found = machine(tmp_path, FULL)
    found.visited(spans().splitlines()[0])
    one = first(answer(found), "full")
    assert one.at_most and one.bytes == MIB << 20
    what = (
        "if hot: waits for free memory on node 0; how much is hot is not known: no visit was seen"
    )
    assert one.what == what


@pytest.mark.parametrize("why", ["absent", "denied"])
def test_why_no_visit_is_seen_is_said(tmp_path: Path, why: str) -> None:
    found = machine(tmp_path)
    if why == "denied":
        found.denied = (SPANS,)
    else:
        (tmp_path / SPANS[1:]).unlink()
        found.wait = found.step  # type: ignore[assignment, method-assign]
    assert f"no visits ({why}: {SPANS})" in first(answer(found), "unknown").what


def test_rounding_leaves_no_rest(tmp_path: Path) -> None:
    found = machine(tmp_path, mib=6)
    process(found.tree, mib=6, VmRSS="6143 kB", HugetlbPages="1 kB")
    flags(found.tree, FIRST_SLOW, 513, FILE | kinds.DIRTY)
    flags(found.tree, FIRST_SLOW + 513, 1023, PLAIN | kinds.MLOCKED)
    assert set(sizes(answer(found))) == {"dirty", "mlock"}


def test_no_slow_tier_is_named(tmp_path: Path) -> None:
    found = machine(tmp_path, replace(SMALL, nodes=NODES[:1]), slow=0.0)
    for words in ((str(PID),), (GROUP,), ("node", "0")):
        data = answer(found, *words)
        assert sizes(data) == {"no-slow-tier": 0} and data.slow == 0


def test_what_is_fine_has_no_number(tmp_path: Path) -> None:
    nodes = (NODES[0], replace(NODES[1], hot=1024))
    found = machine(tmp_path, replace(SMALL, nodes=nodes), pushed=(2048,))
    lines = explain.draw(explain.answer(found, [str(PID)]), Style())
    (row,) = [one for one in lines if "about to move" in one]
    assert row.endswith(" fine") and not any(one.startswith("1  ") for one in lines)


def test_what_helps_most_is_numbered_first() -> None:
    found = [
        Reason(todo, size, False, verdict, "", todo, "")
        for todo, size, verdict in (("fact", 9, "fact"), ("little", 1, "act"), ("much", 8, "act"))
    ]
    assert explain._todo(found) == {"much": 1, "little": 2, "fact": 3}


def test_kernel_without_numa_balancing_says_so(tmp_path: Path) -> None:
    assert (
        "no NUMA balancing"
        in answer(machine(tmp_path, replace(SMALL, numa_balancing=None))).looked_at
    )


def test_hugetlb_pools_of_two_fast_nodes_are_two_places(tmp_path: Path) -> None:
    spec = replace(SMALL, nodes=(NODES[0], NODES[1], NODES[0]))
    found = machine(tmp_path, spec)
    flags(found.tree, FIRST_SLOW, 512 * 4, kinds.HUGE)
    todo = first(answer(found), "hugetlb").todo or ""
    places = [word.strip(",") for word in todo.split() if word.startswith("/")]
    assert places == [f"/sys/devices/system/node/node{one}/hugepages" for one in (0, 2)]


def test_commands_are_safe_to_type(tmp_path: Path) -> None:
    found = machine(tmp_path)
    path = "/machine.slice/machine-qemu\\x2d1\\x2d$(x).scope"
    found.tree.put(f"proc/{PID}/cgroup", f"0::{path}")
    found.tree.put(f"sys/fs/cgroup{path}/memory.tier.max", 0)
    one = first(answer(found), "limit-zero")
    assert one.todo == f"tierctl group set '{path[1:]}' max=max"
    process(found.tree, Mems_allowed_list="1")
    found.tree.put(f"proc/{PID}/cgroup", f"0::{path}")
    assert first(answer(found), "cpuset").todo == f"echo 0-1 > '/sys/fs/cgroup{path}/cpuset.mems'"


# --- samples and limits of what is known -----------------------------------------


def test_large_process_is_walked_with_deep_only(tmp_path: Path) -> None:
    found = machine(tmp_path)
    process(found.tree, VmRSS=f"{2 << 20} kB")
    found.tree.put(f"proc/{PID}/numa_maps", "00000000 bind:1 anon=8192 N1=8192")
    data = answer(found)
    assert "policy" not in sizes(data) and "--deep" in data.not_looked_at[0]
    assert f"/proc/{PID}/numa_maps" not in found.reads
    assert "may be bound" in first(data, "cold").what
    assert sizes(answer(found, deep=True)) == {"policy": 2048}


def test_smaps_is_never_read(tmp_path: Path) -> None:
    found = machine(tmp_path)
    data = answer(found, deep=True)
    assert not any("smaps" in path for path in found.reads)
    assert any("madvise" in one for one in data.not_looked_at)


def test_total_of_a_sample_has_an_interval_and_reasons_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "PLACES", 12)
    found = machine(tmp_path, slow=0.5)
    for place in range(0, 16, 2):
        flags(found.tree, FIRST_SLOW + 512 * place, 512, PLAIN | kinds.MLOCKED)
    data = answer(found)
    assert data.places == 12 and data.all_places == 32
    assert data.slow_low < data.slow < data.slow_high  # type: ignore[operator]
    assert set(sizes(data)) == {"mlock", "cold"}
    assert " +- " in explain.headline(data)[0]


def test_scattered_frames_are_looked_at_in_part(tmp_path: Path) -> None:
    found = machine(tmp_path, mib=2)
    entries = array("Q", [(1 << 63) | (FIRST_SLOW + 40 * i) for i in range(512)])
    (tmp_path / f"proc/{PID}/pagemap").write_bytes(entries.tobytes())
    flags(found.tree, FIRST_SLOW, 40 * 512, PLAIN)
    data = answer(found)
    assert sizes(data) == {"cold": 2} and data.places == 1
    assert found.reads[kinds.FLAGS] == kinds.RUNS


def test_hidden_flags_leave_kinds_unknown_and_say_so(tmp_path: Path) -> None:
    found = machine(tmp_path)
    found.denied = (kinds.FLAGS,)
    data = answer(found)
    assert sizes(data) == {"cold": MIB}
    assert any("kpageflags" in one and "mlocked" in one for one in data.not_looked_at)


def test_without_waiting_the_last_visit_tells(tmp_path: Path) -> None:
    found = machine(tmp_path)
    found.visited("")
    now = found.now
    assert sizes(answer(found, seconds=0)) == {"unknown": MIB} and found.now == now
    found.visited(spans())
    assert sizes(answer(found, seconds=0)) == {"cold": MIB} and found.now == now


def test_what_is_fast_needs_no_reason(tmp_path: Path) -> None:
    data = answer(machine(tmp_path, slow=0.0))
    assert data.slow == 0 and data.reasons == []


def test_reasons_take_no_more_than_is_left() -> None:
    split = Split(100)
    split.take("mlock", 70, "x")
    split.take("dirty", 70, "x", True)
    split.take("kernel", -5, "x")
    split.rest("cold", "x", looks=2, window="1 ms")
    assert [(one.id, one.bytes, one.at_most) for one in split.reasons] == [
        ("mlock", 70, False),
        ("dirty", 30, True),
    ]


def test_rooms_are_the_kernels(tmp_path: Path) -> None:
    tree = build(tmp_path, SMALL)
    found = Sampler(Stepping(tree)).take().machine
    (zone,) = [one for one in found.zones if one.node == 0]
    free = zone.free - (zone.high or 0) - zone.managed // 256
    assert nodes.room(found, 0, True) == free * 4096
    tree.change("proc/zoneinfo", "protection: (0, 0, 0, 0, 0)", "protection: (0, 0, 90000, 90000)")
    assert nodes.room(Sampler(Stepping(tree)).take().machine, 0, True) == 0


# --- errors ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("77",), "there is no process 77; see: tierctl top -p"),
        (("no.service",), "there is no group no.service now"),
        (("node", "9"), "there is no memory node 9; nodes: 0-1"),
        (("node", "x"), "x is no number of a node"),
        (("1", "2"), "2 targets were given"),
        (("2",), "no memory of its own"),
    ],
)
def test_target_that_does_not_exist_is_named(
    tmp_path: Path, words: tuple[str, ...], what: str
) -> None:
    found = machine(tmp_path)
    found.tree.put("proc/2/status", "Name:\tkthreadd")
    with pytest.raises(TierctlError, match=re.escape(what)) as error:
        answer(found, *words)
    assert error.value.code == USAGE


@pytest.mark.parametrize(("uid", "todo"), [(1000, "run as root"), (0, "root is refused, too")])
def test_process_that_may_not_be_read_is_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, todo: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    found = machine(tmp_path)
    for path in (f"/proc/{PID}/maps", f"/proc/{PID}/pagemap"):
        found.denied = (path,)
        with pytest.raises(TierctlError, match=rf"denied.*{todo}") as error:
            answer(found)
        assert error.value.code == DENIED


def test_frame_numbers_that_are_hidden_are_said(tmp_path: Path) -> None:
    found = machine(tmp_path)
    (tmp_path / f"proc/{PID}/pagemap").write_bytes(array("Q", [1 << 63] * 16384).tobytes())
    with pytest.raises(TierctlError, match="hides frame numbers; run as root"):
        answer(found)


def test_kernel_without_tiers_is_refused(tmp_path: Path) -> None:
    found = machine(tmp_path)
    shutil.rmtree(tmp_path / "sys/devices/virtual/memory_tiering")
    with pytest.raises(TierctlError) as error:
        answer(found)
    assert error.value.code == LACKING
