# SPDX-License-Identifier: GPL-2.0
"""Trace events happen, and tell what the counters count: in one boot of the debug kernel.

All parts are on under a load.  The trace, /proc/vmstat, the nodes and the load's control group are
read before the parts are switched on and after they are off, so nothing moves while they are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import switched

from lab import manifest, tier, topology
from lab.build import KernelImage

MACHINE = topology.load("two-tier", fast_mb=768, slow_mb=512)
GROUP = "/tmp/cgroup/load"
LOAD_S = 12
NO_PAGES = 4  # from frame 0, that are asked for: firmware has them
# Of a control group on both nodes, beside the counts of the nodes
GROUP_ROWS = ("pgpromote_success", "pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged")
SCRIPT = f"""
tracing=/sys/kernel/tracing
[ -d $tracing/events ] || mount -t tracefs none $tracing
mkdir -p /tmp/cgroup && mount -t cgroup2 none /tmp/cgroup
echo +memory > /tmp/cgroup/cgroup.subtree_control
mkdir {GROUP} && echo 0 > {GROUP}/cgroup.procs
nodes() {{
	# Statistics of groups are summed up every other second.
	sleep 4
	rows $1
	for node in 0 1; do
		for row in {" ".join(GROUP_ROWS)}; do
			of_node=$(sed -n "s/^$row //p" /sys/devices/system/node/node$node/vmstat)
			of_group=$(sed -n "s/^$row .*N$node=\\([0-9]*\\).*/\\1/p" {GROUP}/memory.numa_stat)
			echo "ROWS $1-node$node $row=$of_node"
			echo "ROWS $1-group$node $row=$of_group"
		done
	done
}}
echo 200 > scan/period_ms
# Candidates that reads give are in no pass of an address space.
echo 0 > scan/page_cache
for part in scan promote; do echo {MACHINE.permille(100)} > $part/cpu_permille; done
echo 1 > {tier.DEBUG}/defer/defer_syscalls
switch_off begin
wish "$parts"
echo 8192 > $tracing/buffer_size_kb
echo 1 > $tracing/events/tier/enable
nodes before
switch_on now
load now {LOAD_S} &
load=$!
# Memory has moved by then: idle pages of the load go down.
sleep {LOAD_S * 2 // 3}
echo 32M > {GROUP}/memory.reclaim
echo 0 {NO_PAGES} 0 > {tier.DEBUG}/promote && echo "pages that do not exist are promoted" && exit 1
wait $load
switch_off end
echo 0 > $tracing/events/tier/enable
nodes after
cat $tracing/trace > @TRACE@
"""


@dataclass
class Trace:
    """How often an event happened, the sum of each field, and how often an event had a reason."""

    times: Counter[str]
    sums: Counter[tuple[str, str]]
    reasons: Counter[tuple[str, str]]
    lost: int

    @classmethod
    def read(cls, text: str) -> Trace:
        found = cls(Counter(), Counter(), Counter(), 0)
        kept = re.search(r"entries-in-buffer/entries-written: (\d+)/(\d+)", text)
        assert kept, text[:500]
        found.lost = int(kept[2]) - int(kept[1])
        for event, fields in re.findall(r"^[^#].*?: (tier_\w+): (.*)$", text, re.MULTILINE):
            found.times[event] += 1
            for name, value in re.findall(r"(\w+)=(\S+)", fields):
                if value.isdigit():
                    found.sums[event, name] += int(value)
                elif name == "reason":
                    found.reasons[event, value] += 1
        return found

    def rows(self) -> dict[str, int]:
        """What the events say of rows of /proc/vmstat."""
        return {
            "tier_scan_candidate": self.sums["tier_scan_pass", "pushed"],
            "tier_promote_fail_policy": self.reasons["tier_promote_skip", "policy"],
            "tier_promote_success": self.sums["tier_promote_batch", "moved"],
            "tier_batch_flush": self.times["tier_batch"],
            "tier_zap_pages": self.sums["tier_zap_run", "freed"],
            "tier_zap_runs": self.sums["tier_zap_run", "runs"],
            "tier_age_questions": self.times["tier_age"],
            "tier_age_pages": self.sums["tier_age", "pages"],
            "tier_defer_success": self.sums["tier_defer", "pages"],
        }


def _growth(text: str, kind: str = "") -> dict[str, int]:
    before, after = (
        switched.counts(text, "ROWS", f"{label}{kind}") for label in ("before", "after")
    )
    return {row: after[row] - before[row] for row in after}


@pytest.fixture(scope="module")
def said(debug_kernel: KernelImage, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Trace]:
    out_dir = tmp_path_factory.mktemp("events") / "out"
    script = SCRIPT.replace("@TRACE@", f"{out_dir}/trace")
    text = switched.run(debug_kernel, MACHINE, script, out_dir, timeout_s=400)
    assert switched.failed(text) == []
    return text, Trace.read((out_dir / "trace").read_text())


def differing(growth: Mapping[str, int], told: Mapping[str, int]) -> list[str]:
    """Rows of which events tell another growth."""
    return [
        f"{row} has grown by {growth[row]}, and events tell {number}"
        for row, number in told.items()
        if growth[row] != number
    ]


@pytest.mark.xdist_group("events")
def test_events_of_a_load_tell_what_counters_count(said: tuple[str, Trace]) -> None:
    text, trace = said
    print(dict(trace.times), dict(trace.reasons), _growth(text), sep="\n")
    assert trace.lost == 0
    assert {event.name for event in manifest.events()} - trace.times.keys() == set()
    assert differing(_growth(text), trace.rows()) == []
    assert trace.reasons["tier_promote_skip", "changed"] >= NO_PAGES


@pytest.mark.xdist_group("events")
def test_counts_of_a_group_are_those_of_the_nodes(said: tuple[str, Trace]) -> None:
    """All that moves between the tiers belongs to the load's group."""
    text, _ = said
    total = Counter[str]()
    for node in (0, 1):
        of_node, of_group = _growth(text, f"-node{node}"), _growth(text, f"-group{node}")
        assert of_group == of_node
        total.update(of_group)
    assert total["pgpromote_success"] == _growth(text)["tier_promote_success"]
    assert total["pgdemote_direct"] + total["pgdemote_kswapd"] > 0


def test_event_that_is_lost_is_noticed() -> None:
    head = "# entries-in-buffer/entries-written: 1/2   #P:1\n"
    line = " kmmscand0-70 [000] ..... 1.5: tier_zap_run: entries=4 freed={} runs=1\n"
    trace = Trace.read(head + line.format(4))
    assert trace.lost == 1
    growth = dict.fromkeys(trace.rows(), 0) | {"tier_zap_pages": 5, "tier_zap_runs": 1}
    assert differing(growth, trace.rows()) == ["tier_zap_pages has grown by 5, and events tell 4"]
