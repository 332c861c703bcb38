# SPDX-License-Identifier: GPL-2.0
"""`tierctl explain` names the cause that keeps hot memory slow, in guests where it is planted.

lab/workloads/plant.c is the program.  Each guest has a control, too: the same program, of which the
memory is promoted.  To renew the bundles at which tests/unit/test_tierctl_cause_bundles.py looks,
copy NAME.json.gz from pytest's --basetemp to tests/golden/tierctl/causes.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from tierctl_causes import CAUSES, KIB, from_bundle, given, problems

from lab import build, cache, guest, programs, topology

LISTEN_S = 5
LIMIT_S = 420
LIBRARY = f"""
export PYTHONDONTWRITEBYTECODE=1
groups=/sys/fs/cgroup
tier=/sys/kernel/mm/tier
echo 0 > /proc/sys/kernel/numa_balancing
echo '+memory +cpuset' > $groups/cgroup.subtree_control || exit 3
on() {{ for part in "$@"; do echo 1 > $tier/$part/enabled; done; }}
# plant NAME [ARGUMENTS]: the program in a group of that name, once its memory is there
plant() {{
	name=$1; shift
	mkdir -p $groups/$name
	(
		echo 0 > $groups/$name/cgroup.procs
		exec @PLANT@ "$@" < /dev/null > /tmp/$name 2>&1
	) &
	echo $! > /tmp/$name.pid
	for _ in $(seq 150); do
		grep -q READY /tmp/$name && return
		sleep 0.2
	done
	echo "$name does not begin: $(cat /tmp/$name)"
	exit 4
}}
explain() {{
	pid=$(cat /tmp/$1.pid)
	python3 -m tierctl explain $pid --json --seconds {LISTEN_S} > @OUT@/$1.json
}}
end() {{ kill $(cat /tmp/$1.pid); }}
# The first looks are short, so the control has to be hot.
control() {{
	plant control --rest-ms 5
	for _ in $(seq 60); do
		[ $(awk '/^pgpromote_success/{{print $2}}' /proc/vmstat) -ge 2000 ] && break
		sleep 1
	done
	explain control
	end control
}}
ask() {{
	explain $1
	python3 -m tierctl capture --anon --samples 2 --interval {LISTEN_S} --explain $pid \\
		@OUT@/$1.json.gz || exit 5
	end $1
}}
"""
OF_PROGRAM = """
on scan promote
control
for name in mlock mbind opt-out; do
	plant $name --cause $name
	ask $name
done
mkdir $groups/cpuset && echo 1 > $groups/cpuset/cpuset.mems
plant cpuset
ask cpuset
plant cold --cause cold
sleep 5
ask cold
"""
# Nothing may write what is dirty.
OF_MACHINE = """
on scan promote
control
mkdir $groups/limit && echo 4M > $groups/limit/memory.tier.max
plant limit --size-mb 12
sleep 8
ask limit

ksm=/sys/kernel/mm/ksm
echo 0 > $ksm/merge_across_nodes; echo 4096 > $ksm/pages_to_scan; echo 1 > $ksm/run
plant ksm --cause ksm
for _ in $(seq 100); do
	[ $(cat /proc/$(cat /tmp/ksm.pid)/ksm_merging_pages) -gt 1800 ] && break
	sleep 0.2
done
ask ksm

echo 0 > /proc/sys/vm/dirty_writeback_centisecs
echo 64M > /sys/block/zram0/disksize
mkfs.ext2 -q /dev/zram0 && mkdir /tmp/disk && mount /dev/zram0 /tmp/disk || exit 6
plant dirty --cause dirty --file /tmp/disk/data
ask dirty

# Below the low watermark reclaim would begin, and end with what is locked.
low=$(awk '/^Node 1,/{exit} $1 == "low"{n += $2} END{print n}' /proc/zoneinfo)
plant fill --cause fill --node 0 --left-kb $((4 * low + 1024))
plant full --rest-ms 5
sleep 5
ask full
end fill

echo 0 > $tier/enabled
plant off
ask off
"""
STOCK = """
echo 2 > /proc/sys/kernel/numa_balancing
control
echo 0 > /proc/sys/kernel/numa_balancing_promote_rate_limit_MBps
plant hint-faults
sleep 5
ask hint-faults
"""
# The slow node is there, and no firmware says that it is slow.
NO_TIER = """
plant no-tier
ask no-tier
"""


@dataclass(frozen=True)
class Guest:
    """A guest, and what it plants."""

    flavour: str
    machine: str
    script: str
    plants: tuple[str, ...]
    control: bool = True


GUESTS = {
    "program": Guest(
        "tiershift", "two-tier", OF_PROGRAM, ("mlock", "mbind", "opt-out", "cpuset", "cold")
    ),
    "machine": Guest("tiershift", "two-tier", OF_MACHINE, ("limit", "ksm", "dirty", "full", "off")),
    "stock": Guest("base", "two-tier", STOCK, ("hint-faults",)),
    "no-tier": Guest("tiershift", "two-tier-nohmat", NO_TIER, ("no-tier",), control=False),
}


def test_guests_plant_each_cause_once() -> None:
    assert sorted(name for one in GUESTS.values() for name in one.plants) == sorted(CAUSES)


@pytest.mark.parametrize("name", GUESTS)
def test_explain_names_the_planted_cause(
    name: str, out_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = GUESTS[name]
    plant = programs.build_programs(cache.root() / "programs")["plant"]
    library = LIBRARY.replace("@PLANT@", shlex.quote(str(plant)))
    result = guest.run(
        build.kernel(one.flavour).image,
        topology.load(one.machine),
        library.replace("@OUT@", shlex.quote(str(out_dir))) + one.script,
        out_dir=out_dir,
        timeout_s=LIMIT_S,
        append="kunit.enable=0",
    )
    print(f"{result.seconds:.0f} s")
    said = (out_dir / "output.log").read_text(encoding="utf-8", errors="replace")
    assert result.exit_code == 0, said
    wrong = []
    for plant_name in one.plants:
        cause, bundle = CAUSES[plant_name], out_dir / f"{plant_name}.json.gz"
        live = json.loads((out_dir / f"{plant_name}.json").read_text())["data"]
        later, text = from_bundle(bundle, capsys)
        wrong += [f"{plant_name}, live: {each}" for each in problems(cause, live)]
        wrong += [f"{plant_name}, bundle: {each}" for each in problems(cause, later, text)]
        if bundle.stat().st_size > KIB << 10:
            wrong.append(f"{plant_name}: the bundle has {bundle.stat().st_size} bytes")
    assert wrong == [], said
    if one.control:
        data = json.loads((out_dir / "control.json").read_text())["data"]
        planted = {CAUSES[each].id for each in one.plants}
        assert data["total"] > data["slow"] << 1 and not planted & given(data), data
