# SPDX-License-Identifier: GPL-2.0
"""Guests in which parts of memory tiering are switched on and off: what they run and have said.

A guest prints lines of facts, ``KIND LABEL NAME=VALUE ...``.  Nothing is judged in the guest.

  ON, OFF    the state of all and of each part; OFF: threads and kept pages that are left, too
  REASON     why a part does not work
  CODES      exit codes of the programs of the load
  ROWS       rows of /proc/vmstat
  MEMORY     what the kernel has for itself, in kB
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

from lab import cache, guest, programs, tier
from lab.build import KernelImage
from lab.together import PROMOTION, SWITCHES
from lab.topology import Topology

Facts = dict[str, dict[str, str]]  # by label

# Functions for a guest's shell, whose directory is that of memory tiering
LIBRARY = """
cd @TIER@ || exit 3
[ -d @DEBUG@ ] || mount -t debugfs none /sys/kernel/debug
parts='@PARTS@'

states() {
	printf 'state=%s ' "$(cat state)"
	for part in $parts; do printf '%s=%s ' "$part" "$(cat "$part/state")"; done
}
left() {
	printf 'threads=%s ' "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -cE '^(kmmscand|kpromoted)')"
	printf 'pending=%s' "$(awk '/^tier_defer_pending /{print $2}' /proc/vmstat)"
}
# Reasons have spaces.
reasons() {
	for part in $parts; do echo "REASON $1 $part=$(tr ' ' _ < "$part/reason")"; done
}
rows() {
	echo "ROWS $1 $(grep -E '^(tier_|pgpromote_|pgdemote_)' /proc/vmstat | tr ' \\n' '= ')"
}
wish() {
	for part in $parts; do echo 0 > "$part/enabled"; done
	for part in $1; do echo 1 > "$part/enabled"; done
}
switch_on() {
	echo 1 > enabled
	echo "ON $1 $(states)"
}
# A thread that was told to end may be about to.
switch_off() {
	echo 0 > enabled
	for _ in $(seq 20); do
		found="$(states)$(left)"
		[ "$found" = '@NOTHING@' ] && break
		sleep 0.5
	done
	echo "OFF $1 $found"
}
# Slabs shrink, so that what KASAN keeps of freed objects goes, too.
memory() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
	for file in /sys/kernel/slab/*/shrink; do echo 1 > "$file"; done
	sleep 3
	echo "MEMORY $1 $(awk '/^(MemAvailable|SUnreclaim|KernelStack|VmallocUsed|Percpu):/ {
		sub(":", "", $1); printf "%s=%s ", $1, $2 }' /proc/meminfo)"
}
# load LABEL SECONDS: memory of a program and of a virtual machine, which is hot and moved down;
# another one that is mapped read-only moves to and fro; and some that unmap.
load() {
	log=/tmp/load-$1
	mkdir -p "$log"
	@HOTSET@ --size-mb 48 --pattern hotcold --write-pct 10 --seconds "$2" \\
		< /dev/null > "$log/hotset" 2>&1 &
	hotset=$!
	@VM@ --case hot --size-mb 16 --no-bind 1 --seconds "$2" < /dev/null > "$log/vm" 2>&1 &
	vm=$!
	# With FULL set nodes may be full, and the kernel warns of a move to a full node.
	migrate=
	if [ -z "$FULL" ]; then
		@MIGRATE@ --size-mb 8 --rounds 6 --children 1 > "$log/migrate" 2>&1 &
		migrate=migrate=$!
	fi
	stress-ng --quiet --temp-path /tmp --verify --vm 1 --vm-bytes 32M --fork 1 \\
		--timeout "$2s" > "$log/stress-ng" 2>&1 &
	stress=$!
	sleep $(($2 / 4))
	for pid in $hotset $vm; do migratepages $pid 0 1; done
	codes="CODES $1"
	for job in hotset=$hotset vm=$vm $migrate stress-ng=$stress; do
		wait "${job#*=}"
		codes="$codes ${job%%=*}=$?"
	done
	echo "$codes"
	tail -n 3 "$log"/* | sed 's/^/# /'
}
"""

_PROGRAMS = ("hotset", "vm", "migrate")
OFF = {
    "state": "off",
    **dict.fromkeys(tier.PARTS, "off"),
    "threads": "0",
    "pending": "0",
}
# Of each part: rows of which one grows while the part works
MOVED = {
    "scan": ("tier_scan_pte", "tier_scan_candidate"),
    "promote": ("tier_promote_success",),
    "demote": ("tier_demote_success", "pgdemote_kswapd", "pgdemote_direct"),
    "batch": ("tier_batch_folios",),
    "zap": ("tier_zap_pages",),
    "age": ("tier_age_questions",),
}
# What only grows while a switch is on
GROWN = {
    PROMOTION: "tier_promote_success",
    "defer": "tier_defer_success",
    "batch": "tier_batch_folios",
    "zap": "tier_zap_pages",
    "age": "tier_age_questions",
}
# By how much the kernel's own memory may grow, in kB, and what is available shrink
GROWTH_KB = {"SUnreclaim": 4096, "VmallocUsed": 1024, "Percpu": 1024, "KernelStack": 512}
SHRINKS_KB = {"MemAvailable": 32768}


def library() -> str:
    """The functions, with the paths of programs."""
    built = programs.build_programs(cache.root() / "programs")
    text = LIBRARY
    for mark, value in (
        ("@TIER@", tier.DIRECTORY),
        ("@DEBUG@", tier.DEBUG),
        ("@PARTS@", " ".join(tier.PARTS)),
        ("@NOTHING@", " ".join(f"{name}={value}" for name, value in OFF.items())),
        *((f"@{name.upper()}@", shlex.quote(str(built[name]))) for name in _PROGRAMS),
    ):
        text = text.replace(mark, value)
    return text


def combinations() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every choice of the five switches: its label, and the parts that are on."""
    for bits in product((False, True), repeat=len(SWITCHES)):
        names = [name for name, on in zip(SWITCHES, bits, strict=True) if on]
        parts = tuple(part for name in names for part in SWITCHES[name])
        yield "+".join(names) or "nothing", parts


def run(
    kernel: KernelImage,
    machine: Topology,
    script: str,
    out_dir: Path,
    *,
    timeout_s: int,
    append: str = "",
) -> str:
    """What a guest has said that runs the functions, and a script after them.

    The emulator has one thread for all CPUs: several race over code that the kernel patches, as
    some parts do when they are switched.
    """
    result = guest.run(
        kernel.image,
        machine,
        f"{library()}\n{script}",
        out_dir=out_dir,
        timeout_s=timeout_s,
        append=f"kunit.enable=0 {append}".strip(),
        single_thread_tcg=True,
    )
    text = (out_dir / "output.log").read_text(encoding="utf-8", errors="replace")
    assert result.exit_code == 0, text[-2000:]
    return text


# --- what a guest has said ------------------------------------------------------------


def facts(text: str, kind: str) -> Facts:
    """The lines of a kind, by label; several lines of a label are one."""
    found: Facts = {}
    for label, pairs in re.findall(rf"^{kind} (\S+) (.*)$", text, re.MULTILINE):
        found.setdefault(label, {}).update(pair.split("=", 1) for pair in pairs.split())
    return found


def counts(text: str, kind: str, label: str) -> dict[str, int]:
    """Numbers of a line; {} if there is no such line."""
    return {name: int(value) for name, value in facts(text, kind).get(label, {}).items()}


def differing(found: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Facts that are not as wanted."""
    return [
        f"{name} is {found.get(name, 'not said')}, not {value}"
        for name, value in wanted.items()
        if found.get(name) != value
    ]


def still(text: str, before: str, after: str) -> list[str]:
    """Parts of which no row has grown from one label to another one."""
    old, new = counts(text, "ROWS", before), counts(text, "ROWS", after)
    return [
        part
        for part, rows in MOVED.items()
        if not any(new.get(row, 0) > old.get(row, 0) for row in rows)
    ]


def grown(text: str, before: str, after: str) -> list[str]:
    """What of the kernel's memory has not come back from one label to another one."""
    old, new = counts(text, "MEMORY", before), counts(text, "MEMORY", after)
    found = []
    for name, limit, sign in (
        *((name, limit, 1) for name, limit in GROWTH_KB.items()),
        *((name, limit, -1) for name, limit in SHRINKS_KB.items()),
    ):
        if name not in old or name not in new:
            found.append(f"{name} is not said")
        elif sign * (new[name] - old[name]) > limit:
            found.append(f"{name} was {old[name]} kB and is {new[name]} kB")
    return found


def failed(text: str) -> list[str]:
    """Programs of a load that have failed."""
    return [
        f"{label}: {name} ended with {code}"
        for label, codes in facts(text, "CODES").items()
        for name, code in codes.items()
        if code != "0"
    ]


def problems(text: str, before: str) -> list[str]:
    """What does not hold of a guest that has gone through combinations().

    ``before`` is the label of the ROWS before the first.
    """
    on, off, codes = (facts(text, kind) for kind in ("ON", "OFF", "CODES"))
    found = failed(text)
    total = dict.fromkeys(GROWN, 0)
    for label, parts in combinations():
        if not all(label in one for one in (on, off, codes, facts(text, "ROWS"))):
            return [*found, f"{label}: the guest did not come so far"]
        wanted = {"state": "on"} | {part: "on" if part in parts else "off" for part in tier.PARTS}
        found += [f"{label}, on: {one}" for one in differing(on[label], wanted)]
        found += [f"{label}, off: {one}" for one in differing(off[label], OFF)]
        old, new = counts(text, "ROWS", before), counts(text, "ROWS", label)
        for switch, row in GROWN.items():
            more = new[row] - old[row]
            total[switch] += more
            if more > 0 and switch not in label.split("+"):
                found.append(f"{label}: {row} has grown by {more}")
        before = label
    return found + [f"{GROWN[name]} has never grown" for name, more in total.items() if not more]
