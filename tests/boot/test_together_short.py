# SPDX-License-Identifier: GPL-2.0
"""One write to /sys/kernel/mm/tier/enabled is all that an operator does."""

from __future__ import annotations

from pathlib import Path

import switched

from lab import cache, programs, tier, topology
from lab.build import KernelImage

# The fast node holds the kernel and less than a half of the load.
MACHINE = topology.load("two-tier", fast_mb=192, slow_mb=384, fast_cpus=2)
LOAD_MB, VM_MB = 224, 16
SECONDS = 60  # in which each part has to have worked
# The lab has switched each part off, and the switch for all on: as the kernel begins, instead.
AS_AFTER_BOOT = f"""
echo 0 > enabled
wish '{" ".join(part for part, wished in tier.PARTS.items() if wished)}'
"""


def _awk(part: str) -> str:
    """The sum of a part's rows, in the guest."""
    rows = "|".join(switched.MOVED[part])
    return f"awk '/^({rows}) / {{ sum += $2 }} END {{ print sum + 0 }}' /proc/vmstat"


def _script() -> str:
    built = programs.build_programs(cache.root() / "programs")
    # A quarter is hot, and lies where memory was free: a half of that on the slow node.  Other
    # pages are used so seldom that they make room.
    load = f"{built['hotset']} --size-mb {LOAD_MB} --pattern hotcold --hot-frac 0.25"
    load += f" --hot-share 0.999 --seconds {3 * SECONDS}"
    vm = f"{built['vm']} --case hot --size-mb {VM_MB} --no-bind 1 --seconds {3 * SECONDS}"
    tests = " && ".join(f'[ "$({_awk(part)})" -gt 0 ]' for part in switched.MOVED)
    return f"""
{AS_AFTER_BOOT}
echo "OFF begin $(states)$(left)"
{load} < /dev/null > /tmp/load 2>&1 &
load=$!
sleep 3
{vm} < /dev/null > /tmp/vm 2>&1 &
vm=$!
sleep 3
rows before
switch_on now
for second in $(seq {SECONDS}); do
	sleep 1
	{tests} && break
done
echo "TURNS waited seconds=$second"
rows after
echo "ON after $(states)"
kill -0 $load && kill -0 $vm || cat /tmp/load /tmp/vm
kill $load $vm
wait
switch_off end
"""


def test_one_write_switches_all_on(tiershift_kernel: KernelImage, out_dir: Path) -> None:
    """Memory is promoted and demoted in batches, unmapped in runs, and KVM is asked."""
    text = switched.run(tiershift_kernel, MACHINE, _script(), out_dir, timeout_s=300)
    on, off = switched.facts(text, "ON"), switched.facts(text, "OFF")
    wishes = {part: "on" if wish else "off" for part, wish in tier.PARTS.items()}
    print(f"after {switched.counts(text, 'TURNS', 'waited')['seconds']} s")
    assert switched.differing(off["begin"], switched.OFF) == []
    for label in ("now", "after"):
        assert switched.differing(on[label], {"state": "on", **wishes}) == []
    assert switched.still(text, "before", "after") == []
    assert switched.differing(off["end"], switched.OFF) == []
