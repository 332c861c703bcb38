# SPDX-License-Identifier: GPL-2.0
"""Long torture: the debug kernel under stress-ng while tiershift works.

Each stressor runs for a stated time on each of two machines of the debug kernel
(KASAN, lockdep, DEBUG_VM, page table check, poisoning) with every room's switches on
(lab/manifest.py), a short scan period, and somebody toggling them.  Its memory control group
opts out, comes back and gets other limits all the time.  A run is good when the kernel
stayed silent, the stressor succeeded and pages were really promoted.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lab import build, cache, guest, kept, manifest, scenario, topology
from lab.build import KernelImage
from lab.errors import LabError
from lab.results import finish, ledger, study
from lab.results.study import Column, Study
from lab.topology import Topology

# What is recorded is of as long a time for each, or a longer one.
SECONDS = 30
# Machines with as much fast and as much slow memory.  The debug kernel takes 277 MiB of the
# first node for itself (the shadow of KASAN).
MACHINES = {
    "two-tier": {"fast_mb": 640, "slow_mb": 1024},
    "two-sockets": {"fast0_mb": 448, "fast1_mb": 192, "slow0_mb": 512, "slow1_mb": 512},
}

# Under the default policy; the slow nodes fill because demotion is on (a switch of a room) and
# the fast nodes are too small for the load, and by migratepages now and then.
# That may defer (a debug switch), so MIGRC is switched off when it has something to flush.
# Scanners get a whole CPU: of a quarter, the debug kernel makes too few scans in half a minute.
# Of the stressors, vm, mremap and fork look at what they have written only with --verify.
RUN = """
set -e
count() { awk -v row=$1 '$1 == row { print $2 }' /proc/vmstat; }
[ -d /sys/kernel/debug/tier ] || mount -t debugfs none /sys/kernel/debug
echo 1 > /sys/kernel/debug/tier/defer/defer_syscalls
cd /sys/fs/cgroup
[ -e cgroup.procs ] || mount -t cgroup2 none .
cd /sys/fs/cgroup
echo +memory > cgroup.subtree_control
mkdir soak
cd /sys/kernel/mm/tier
echo 200 > scan/period_ms
echo @SHARE@ > scan/cpu_permille
@ON@
before=$(count pgpromote_success)
( while sleep 7; do
	for pid in $(pidof stress-ng-vm stress-ng); do
		migratepages $pid @FAST@ @SLOW@ || true
	done
	@TOGGLE@
done ) 2>/dev/null &
helper=$!
( while :; do
	for max in max 64M 0 256M 0; do
		echo $max > /sys/fs/cgroup/soak/memory.tier.max
		sleep 1
	done
done ) &
helper="$helper $!"
@BESIDE@
code=0
sh -c 'echo 0 > /sys/fs/cgroup/soak/cgroup.procs
exec stress-ng --temp-path /tmp --verify @ARGS@ --timeout @SECONDS@s' || code=$?
kill $helper
@OFF@
[ ! -e /tmp/beside ] || echo "beside $(wc -l < /tmp/beside)"
echo "promoted $(($(count pgpromote_success) - before))"
echo "deferred $(count tier_defer_success)"
exit $code
"""

# Every fifth allocation of kmmscand's threads fails, also for the pages that they promote to.
FAULTS = """
[ -d /sys/kernel/debug/failslab ] || mount -t debugfs none /sys/kernel/debug
for kind in failslab fail_page_alloc; do
	cd /sys/kernel/debug/$kind
	echo 0 > verbose
	echo 1 > task-filter
	echo -1 > times
	echo 0 > ignore-gfp-wait
done
echo 0 > /sys/kernel/debug/fail_page_alloc/min-order
# Last, or it is this shell whose allocations fail
echo 20 > /sys/kernel/debug/failslab/probability
echo 20 > /sys/kernel/debug/fail_page_alloc/probability
cd /sys/kernel/mm/tier
rm -f /tmp/beside
( while sleep 1; do
	for comm in $(grep -lE '^(kmmscand|kpromoted)' /proc/[0-9]*/comm); do
		echo 1 > ${comm%comm}make-it-fail && echo $comm >> /tmp/beside
	done
done ) 2>/dev/null &
helper="$helper $!"
"""

# Blocks of the slow nodes go and come back, one after the other.
HOTPLUG = """
rm -f /tmp/beside
( while sleep 1; do
	for block in @BLOCKS@; do
		timeout 10 sh -c "echo offline > $block/state" || continue
		echo $block >> /tmp/beside
		sleep 1
		echo online_movable > $block/state
	done
done ) 2>/dev/null &
helper="$helper $!"
"""

# The cpuset of the stressor excludes the fast nodes and allows them again.
CPUSETS = """
echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control
rm -f /tmp/beside
( while :; do
	for mems in @FAST@,@SLOW@ @SLOW@; do
		echo $mems > /sys/fs/cgroup/soak/cpuset.mems || kill $$
		echo $mems >> /tmp/beside
		sleep 3
	done
done ) &
helper="$helper $!"
"""

# A file that two programs read all the time, from its page cache on the slow nodes.
FILES = """
modprobe -q loop || true
mkdir -p /tmp/files
truncate -s 128M /tmp/disk
mke2fs -q -t ext2 /tmp/disk
mount -o loop /tmp/disk /tmp/files
dd if=/dev/urandom of=/tmp/data bs=1M count=32 status=none
cp /tmp/data /tmp/files
sync
echo 3 > /proc/sys/vm/drop_caches
numactl --membind=@SLOW@ cat /tmp/files/data > /dev/null
echo 1 > /sys/kernel/mm/tier/scan/page_cache
rm -f /tmp/beside
for reader in 1 2; do
	( while :; do
		cmp /tmp/data /tmp/files/data || kill $$
		echo read >> /tmp/beside
	done ) &
	helper="$helper $!"
done
"""


@dataclass(frozen=True)
class Torture:
    """One stressor: stress-ng's arguments, and what is done besides."""

    name: str
    args: str
    may_fail: bool = False  # for reasons of its own; the kernel's silence still counts
    beside: str = ""  # writes a line to /tmp/beside each time that it does something
    longer: int = field(default=1, repr=False)  # 2: for twice the time, to get going


TORTURES = (
    Torture("vm", "--vm 3 --vm-bytes 80M --vm-keep"),
    # Its workers change their memory policies, and those of their memory, and move it.
    Torture("numa", "--numa 2 --vm 1 --vm-bytes 64M"),
    Torture("cpusets", "--vm 3 --vm-bytes 80M --vm-keep", beside=CPUSETS, longer=2),
    Torture("mremap", "--mremap 3 --mremap-bytes 32M"),
    # As root it poisons its own memory (MADV_HWPOISON) and takes the SIGBUS for failure.
    Torture("madvise", "--madvise 2 --vm 1 --vm-bytes 64M", may_fail=True),
    Torture("userfaultfd", "--userfaultfd 2 --vm 1 --vm-bytes 64M"),
    Torture("fork", "--fork 2 --vm 2 --vm-bytes 64M", longer=2),
    # stress-ng divides the bytes among the workers: more than the fast node holds
    Torture("pressure", "--vm 3 --vm-bytes 600M --vm-keep", longer=2),
    # No more than fits: this is about allocations that fail, not about room.
    Torture("faults", "--vm 3 --vm-bytes 80M --vm-keep", beside=FAULTS, longer=2),
    # The workers of memthrash are threads of one process.
    Torture("threads", "--memthrash 1 --vm 1 --vm-bytes 64M --vm-keep"),
    Torture(
        "files",
        "--temp-path /tmp/files --hdd 2 --hdd-bytes 24M --vm 1 --vm-bytes 64M",
        beside=FILES,
    ),
    Torture("hotplug", "--vm 2 --vm-bytes 160M --vm-keep", beside=HOTPLUG),
)


def _switch(on: bool, *, toggled: bool = False) -> list[str]:
    """What switches rooms on, in their order, or off, the last one first."""
    found = [one for one in manifest.switches() if one.toggle or not toggled]
    if on:
        return [f"echo {one.on} > {one.file}" for one in found]
    return [f"echo {one.off} > {one.file}" for one in reversed(found)]


def script(torture: Torture, machine: Topology, seconds: int) -> str:
    """What the guest runs."""
    slow = [number for number in range(len(machine.nodes)) if number not in machine.fast]
    text = RUN.replace("@BESIDE@", torture.beside)
    toggle = [*_switch(False, toggled=True), *_switch(True, toggled=True)]
    for mark, value in (
        ("@ON@", "\n".join(_switch(True))),
        ("@OFF@", "\n".join(_switch(False))),
        ("@TOGGLE@", "\n\t".join(toggle)),
        ("@SHARE@", str(machine.permille(100))),
        ("@FAST@", ",".join(map(str, machine.fast))),
        ("@SLOW@", ",".join(map(str, slow))),
        ("@BLOCKS@", " ".join(f"/sys/devices/system/node/node{n}/memory*" for n in slow)),
        ("@ARGS@", torture.args),
        ("@SECONDS@", str(seconds)),
    ):
        text = text.replace(mark, value)
    return text


def _one(kernel: KernelImage, torture: Torture, name: str, seconds: int) -> dict[str, Any]:
    out_dir = cache.sub("runs") / f"soak-{name}-{torture.name}"
    machine = topology.load(name, **MACHINES[name])
    start = time.monotonic()
    said: dict[str, int] = {}
    try:
        result = guest.run(
            kernel.image,
            machine,
            script(torture, machine, seconds),
            out_dir=out_dir,
            timeout_s=seconds * 4 + 300,
        )
        output = (out_dir / "output.log").read_text(encoding="utf-8", errors="replace")
        found = re.findall(r"^(beside|promoted|deferred) (\d+)$", output, re.MULTILINE)
        said = {what: int(count) for what, count in found}
        if result.exit_code and not torture.may_fail:
            verdict = f"failed: exit code {result.exit_code}, see {out_dir.name}/output.log"
        elif not said.get("promoted"):
            verdict = "failed: nothing was promoted, so nothing was tested"
        elif torture.beside and not said.get("beside"):
            verdict = "failed: nothing was done besides, see " + f"{out_dir.name}/output.log"
        else:
            verdict = "ok"
    except LabError as error:
        verdict = "failed: " + error.what.splitlines()[0]
    return {
        "torture": torture.name,
        "machine": name,
        "stress-ng": torture.args,
        "promoted": said.get("promoted", 0),
        "deferred": said.get("deferred", 0),
        "beside": said.get("beside", 0),
        "seconds": round(time.monotonic() - start),
        "result": verdict,
    }


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """A line for each torture on each machine."""
    found = []
    for row in facts["rows"]:
        good = row["result"] == "ok"
        figures = {
            "promoted": row["promoted"],
            "deferred": row["deferred"],
            "beside": row["beside"] or None,
            "guest_s": facts["seconds_each"] * LONGER.get(row["torture"], 1),
            "wall_s": row["seconds"],
        }
        found.append(
            ledger.Run(
                f"{row['torture']}, {row['machine']}",
                figures,
                facts["kernel"],
                goals=[ledger.Goal("silent", finish.verdict(good))],
                checks=[] if good else [row["result"]],
                seconds=row["seconds"],
            )
        )
    return found


LONGER = {one.name: one.longer for one in TORTURES}


# --- all together --------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"of each torture ({SECONDS})")
    parser.add_argument(
        "--machine", action="append", default=[], choices=[*MACHINES], help="default: all"
    )
    parser.add_argument("torture", nargs="*", help="default: all")
    finish.add_resume(parser)


def _run(args: argparse.Namespace) -> bool:
    """Every torture on every machine; True if all are good."""
    for name in args.torture:
        if name not in LONGER:
            raise LabError(f"there is no torture {name!r}", f"there are: {', '.join(LONGER)}")
    kernel = build.kernel("debug")
    began = time.time()
    rows = []
    done = kept.Kept("soak", resume=args.resume)
    for torture in TORTURES:
        if args.torture and torture.name not in args.torture:
            continue
        for machine in args.machine or MACHINES:
            title = f"[soak] {torture.name}, {machine}"
            time_s = args.seconds * torture.longer
            print(f"{title}: {time_s} s in the guest", flush=True)
            text = script(torture, topology.load(machine, **MACHINES[machine]), time_s)
            parts = [kernel.key, repr(torture), machine, repr(MACHINES[machine]), text]
            one = partial(_one, kernel, torture, machine, time_s)
            rows.append(done.get(parts, one, worth=lambda row: row["result"] == "ok"))
            print(f"{title}: {rows[-1]['result']}", flush=True)
    facts = ledger.facts_of(
        began,
        scenario.command_line(sys.argv),
        kernel=kernel.describe(),
        seconds_each=args.seconds,
        resumed=done.resumed,
        rows=rows,
    )
    whole = not args.torture and not args.machine and args.seconds >= SECONDS
    return finish.finish(STUDIES[0], facts, runs(facts), whole=whole)


STUDIES = (
    Study(
        name="soak",
        title="Torture of the debug kernel",
        what="stress-ng runs on the debug kernel (KASAN, lockdep, DEBUG_VM, page table check, "
        "poisoning) while kmmscand, MIGRC and batched unmapping work, and are toggled. The "
        "kernel must stay silent, stress-ng must find what it has written, and pages must be "
        "promoted.",
        columns=(
            Column("promoted", "pages promoted"),
            Column("deferred", "deferred"),
            Column("beside", "done besides, times"),
            Column("guest_s", "guest s"),
            Column("wall_s", "wall s"),
        ),
        minutes=60,
        run=_run,
        groups=tuple(dict.fromkeys(study.KMMSCAND + study.MIGRC + study.ZAP)),
        arguments=arguments,
        notes=(
            "kmmscand has a short period and a whole CPU. All parts of memory tiering but zap are "
            "toggled every 7 s.",
            "Each second the memory control group of stress-ng gets another memory.tier.max, "
            "also 0.",
            "Where no page was deferred a run says nothing of MIGRC but that switching it did no "
            "harm.",
            "faults: every fifth allocation of kmmscand's threads fails. Besides counts how often "
            "they were told to.",
            "files: two programs read a file, which page_cache lets move, and compare it.",
            "cpusets: cpuset.mems excludes the fast nodes and allows them again.",
            "hotplug: blocks of the slow nodes go offline and come back.",
            *(f"{one.name}: stress-ng {one.args}" for one in TORTURES),
        ),
        flavour="debug",
    ),
)
