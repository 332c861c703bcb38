# SPDX-License-Identifier: GPL-2.0
"""All parts of memory tiering on the debug kernel: each combination, and without pause.

tests/boot/test_together_short.py is a short version on the kernel for measuring.
"""

from __future__ import annotations

from pathlib import Path

import switched
from switched import OFF

from lab import soak, tier, topology
from lab.build import KernelImage
from lab.together import SWITCHES

MACHINE = topology.load("two-tier", **soak.MACHINES["two-tier"])
PLUGGED = topology.load("two-tier-plugged")
LOAD_S = 8  # of each combination
STRESS_S = 600
# More than the fast node has room for, where the debug kernel takes a good part of it
STRESS = "--vm 2 --vm-bytes 300M --vm-keep"
START_S = 15  # in which parts start once there is slow memory
# How long all is on before it is switched off and on again.  Without a second or two nothing would
# ever be found hot.
PAUSES = "0 0 0 0 0 0.1 0 0.3 0 1 0 3"
# As in lab/soak.py: with a quarter of a CPU, the debug kernel makes too few scans.
QUICK = f"""
echo 200 > scan/period_ms
for part in scan promote; do echo {MACHINE.permille(100)} > $part/cpu_permille; done
echo 1 > {tier.DEBUG}/defer/defer_syscalls
"""


def _warm(parts: str) -> str:
    """What is there once all has worked is there for good."""
    return f"""
switch_off begin
wish '{parts}'
switch_on warm
load warm {LOAD_S}
switch_off warm
rows warm
memory warm
"""


def _all_combinations() -> str:
    lines = [QUICK, _warm(" ".join(part for parts in SWITCHES.values() for part in parts))]
    for label, parts in switched.combinations():
        lines += [
            f"wish '{' '.join(parts)}'",
            f"switch_on {label}",
            f"load {label} {LOAD_S}",
            f"switch_off {label}",
            f"rows {label}",
        ]
    return "\n".join((*lines, "memory end"))


# Hint faults of NUMA balancing are what the part postpone is about.
WITHOUT_PAUSE = f"""
echo 2 > /proc/sys/kernel/numa_balancing
FULL=1
turn() {{
	turns=0
	while [ ! -e /tmp/stop ]; do
		for pause in {PAUSES}; do
			echo 0 > enabled && echo 1 > enabled || echo "CODES turn echo=1"
			turns=$((turns + 1))
			[ $pause = 0 ] || sleep $pause
		done
	done
	echo "TURNS all times=$turns"
}}
turn &
(
	number=0
	while [ ! -e /tmp/stop ]; do
		number=$((number + 1))
		load beside-$number {LOAD_S}
	done
) &
stress-ng --quiet --temp-path /tmp --verify {STRESS} --timeout {STRESS_S}s
echo "CODES stress stress-ng=$?"
touch /tmp/stop
wait
switch_off end
rows end
memory end
"""

PLUG = f"""
echo "ON before $(states)"
reasons before
for block in /sys/devices/system/memory/memory*; do
	[ "$(cat $block/state)" = offline ] || continue
	echo online_movable > $block/state && echo "PLUGGED $block blocks=1"
done
began=$(date +%s%N)
for _ in $(seq {START_S * 5}); do
	[ "$(cat state)" = on ] && break
	sleep 0.2
done
echo "TURNS started ms=$((($(date +%s%N) - began) / 1000000))"
echo "ON after $(states)"
reasons after
rows before
load used {2 * LOAD_S}
rows after
switch_off end
"""


def test_each_combination_leaves_nothing(debug_kernel: KernelImage, out_dir: Path) -> None:
    """All 32 of the five switches, one after the other, in one boot."""
    timeout_s = 900 + 33 * 8 * LOAD_S
    text = switched.run(debug_kernel, MACHINE, _all_combinations(), out_dir, timeout_s=timeout_s)
    print(*(line for line in text.splitlines() if line.startswith("MEMORY")), sep="\n")
    assert switched.problems(text, "warm") == []
    assert switched.differing(switched.facts(text, "OFF")["warm"], OFF) == []
    assert switched.grown(text, "warm", "end") == []


def test_switched_without_pause(debug_kernel: KernelImage, out_dir: Path) -> None:
    """On and off again and again, with every wish at 1, and memory that is under stress."""
    script = QUICK + _warm(" ".join(tier.PARTS)) + WITHOUT_PAUSE
    timeout_s = 1200 + 2 * STRESS_S
    text = switched.run(debug_kernel, MACHINE, script, out_dir, timeout_s=timeout_s)
    turns = switched.counts(text, "TURNS", "all")["times"]
    print(f"{turns} times off and on")
    print(*(line for line in text.splitlines() if line.startswith("MEMORY")), sep="\n")
    assert switched.failed(text) == []
    assert "stress" in switched.facts(text, "CODES") and turns > STRESS_S / 10
    # Demotion seldom meets a list that is read-only.
    assert {*switched.still(text, "warm", "end")} <= {"defer"}
    assert switched.differing(switched.facts(text, "OFF")["end"], OFF) == []
    assert switched.grown(text, "warm", "end") == []


def test_slow_memory_that_comes_later_is_used(debug_kernel: KernelImage, out_dir: Path) -> None:
    """The boot parameter tier=on is all that an operator has done."""
    text = switched.run(
        debug_kernel, PLUGGED, QUICK + PLUG, out_dir, timeout_s=600, append="tier=on"
    )
    on, reasons = switched.facts(text, "ON"), switched.facts(text, "REASON")
    wishes = {part: "on" if wish else "off" for part, wish in tier.PARTS.items()}
    need_slow = dict.fromkeys(SWITCHES["promotion"], "waiting")
    wanted = {"state": "waiting", **wishes, **need_slow}
    assert switched.differing(on["before"], wanted) == []
    assert {part for part, reason in reasons["before"].items() if reason} == {*need_slow}
    assert "PLUGGED " in text
    assert switched.counts(text, "TURNS", "started")["ms"] <= 1000 * START_S
    assert switched.differing(on["after"], {"state": "on", **wishes}) == []
    assert not any(reasons["after"].values())
    assert switched.failed(text) == []
    assert "promote" not in switched.still(text, "before", "after")
    assert switched.differing(switched.facts(text, "OFF")["end"], OFF) == []
