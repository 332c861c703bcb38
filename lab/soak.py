# SPDX-License-Identifier: GPL-2.0
"""Long torture: the debug kernel under stress-ng while tiershift works.

Each stressor runs for a stated time on a two-tier machine of the debug kernel
(KASAN, lockdep, DEBUG_VM, page table check, poisoning) with kmmscand on, a
short scan period and somebody toggling it.  A run is good when the kernel
stayed silent, the stressor succeeded and pages were really promoted.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from lab import build, cache, guest, topology
from lab.build import KernelImage
from lab.errors import LabError

# Under the default policy; the slow node fills because demotion is on and the
# fast node is too small for the load, and by migratepages now and then.
RUN = """
set -e
cd /sys/kernel/mm/kmmscand
echo 200 > scan_period_ms
echo 1 > hot_threshold
echo 1 > /sys/kernel/mm/numa/demotion_enabled
echo 1 > enabled
before=$(awk '$1 == "pgpromote_success" { print $2 }' /proc/vmstat)
( while sleep 7; do
	echo 0 > enabled
	for pid in $(pidof stress-ng-vm stress-ng); do migratepages $pid 0 1 || true; done
	echo 1 > enabled
done ) 2>/dev/null &
helper=$!
@BESIDE@
code=0
stress-ng --temp-path /tmp @ARGS@ --timeout @SECONDS@s || code=$?
kill $helper
echo 0 > enabled
after=$(awk '$1 == "pgpromote_success" { print $2 }' /proc/vmstat)
[ ! -e /tmp/beside ] || echo "beside $(wc -l < /tmp/beside)"
echo "promoted $((after - before))"
exit $code
"""

# Every fifth allocation of kmmscand's threads fails, also for the pages that they promote to.
FAULTS = """
[ -d /sys/kernel/debug/failslab ] || mount -t debugfs none /sys/kernel/debug
for kind in failslab fail_page_alloc; do
	cd /sys/kernel/debug/$kind
	echo 20 > probability
	echo -1 > times
	echo 0 > verbose
	echo 1 > task-filter
	echo 0 > ignore-gfp-wait
done
echo 0 > /sys/kernel/debug/fail_page_alloc/min-order
cd /sys/kernel/mm/kmmscand
rm -f /tmp/beside
( while sleep 1; do
	for comm in $(grep -lE '^(kmmscand|kpromoted)' /proc/[0-9]*/comm); do
		echo 1 > ${comm%comm}make-it-fail && echo $comm >> /tmp/beside
	done
done ) 2>/dev/null &
helper="$helper $!"
"""

# Blocks of the slow node go and come back, one after the other.
HOTPLUG = """
rm -f /tmp/beside
( while sleep 1; do
	for block in /sys/devices/system/node/node1/memory*; do
		timeout 10 sh -c "echo offline > $block/state" || continue
		echo $block >> /tmp/beside
		sleep 1
		echo online_movable > $block/state
	done
done ) 2>/dev/null &
helper="$helper $!"
"""


@dataclass(frozen=True)
class Torture:
    """One stressor: stress-ng's arguments, and what is done besides."""

    name: str
    args: str
    may_fail: bool = False  # for reasons of its own; the kernel's silence still counts
    beside: str = ""  # writes a line to /tmp/beside each time that it does something


TORTURES = (
    Torture("vm", "--vm 3 --vm-bytes 80M --vm-keep"),
    Torture("numa", "--numa 2 --vm 1 --vm-bytes 64M"),
    Torture("mremap", "--mremap 3 --mremap-bytes 32M"),
    # As root it poisons its own memory (MADV_HWPOISON) and takes the SIGBUS for failure.
    Torture("madvise", "--madvise 2 --vm 1 --vm-bytes 64M", may_fail=True),
    Torture("userfaultfd", "--userfaultfd 2 --vm 1 --vm-bytes 64M"),
    Torture("fork", "--fork 2 --vm 2 --vm-bytes 64M"),
    # stress-ng divides the bytes among the workers: more than the fast node holds
    Torture("pressure", "--vm 3 --vm-bytes 600M --vm-keep"),
    Torture("faults", "--vm 3 --vm-bytes 240M --vm-keep", beside=FAULTS),
    Torture("hotplug", "--vm 2 --vm-bytes 160M --vm-keep", beside=HOTPLUG),
)


def soak(seconds: int, save: Path, names: list[str] | None = None) -> bool:
    """Run every torture; write save/soak.json and soak.md; True if all were good."""
    kernel = build.kernel("debug")
    rows = []
    for torture in TORTURES:
        if names and torture.name not in names:
            continue
        print(f"[soak] {torture.name}: {seconds} s in the guest", flush=True)
        rows.append(_one(kernel, torture, seconds))
        print(f"[soak] {torture.name}: {rows[-1]['result']}", flush=True)
    facts = {
        "schema": 1,
        "command": f"make soak SECONDS={seconds}",
        "kernel": kernel.describe(),
        "seconds_each": seconds,
        "rows": rows,
    }
    save.mkdir(parents=True, exist_ok=True)
    (save / "soak.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    (save / "soak.md").write_text(_markdown(facts, rows), encoding="utf-8")
    return all(row["result"] == "ok" for row in rows)


def _one(kernel: KernelImage, torture: Torture, seconds: int) -> dict[str, object]:
    out_dir = cache.sub("runs") / f"soak-{torture.name}"
    script = RUN.replace("@BESIDE@", torture.beside)
    script = script.replace("@ARGS@", torture.args).replace("@SECONDS@", str(seconds))
    start = time.monotonic()
    promoted = beside = 0
    try:
        result = guest.run(
            kernel.image,
            topology.load("two-tier", fast_mb=512, slow_mb=1024),
            script,
            out_dir=out_dir,
            timeout_s=seconds * 4 + 300,
        )
        output = (out_dir / "output.log").read_text(encoding="utf-8", errors="replace")
        said = dict(re.findall(r"^(beside|promoted) (\d+)$", output, re.MULTILINE))
        promoted, beside = int(said.get("promoted", 0)), int(said.get("beside", 0))
        if result.exit_code and not torture.may_fail:
            verdict = f"failed: exit code {result.exit_code}, see {out_dir.name}/output.log"
        elif not promoted:
            verdict = "failed: nothing was promoted, so nothing was tested"
        elif torture.beside and not beside:
            verdict = "failed: nothing was done besides, see " + f"{out_dir.name}/output.log"
        else:
            verdict = "ok"
    except LabError as error:
        verdict = "failed: " + error.what.splitlines()[0]
    return {
        "torture": torture.name,
        "stress-ng": torture.args,
        "promoted": promoted,
        "beside": beside,
        "seconds": round(time.monotonic() - start),
        "result": verdict,
    }


def _markdown(facts: dict[str, object], rows: list[dict[str, object]]) -> str:
    lines = [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        "# Soak",
        "",
        f"`{facts['command']}` on the debug kernel (KASAN, lockdep, DEBUG_VM, page table check,",
        "page poisoning) with kmmscand on at its shortest useful period and toggled every 7 s.",
        "Good means: no kernel warning, stress-ng succeeded, pages were promoted.  Besides, in",
        "`faults` every fifth allocation of kmmscand's threads fails (failslab, fail_page_alloc;",
        "so often they were told to), and in `hotplug` blocks of the slow node go offline (so",
        "often they did) and come back.",
        "",
        "| torture | stress-ng | pages promoted | besides | wall s | result |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['torture']} | `{row['stress-ng']}` | {row['promoted']} | "
            f"{row['beside'] or '-'} | {row['seconds']} | {row['result']} |"
        )
    return "\n".join(lines) + "\n"
