#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run by systemd in the machine that lab/deb/trial.py boots.  check.env, beside it, says what to
# look for.

# shellcheck source=/dev/null
. "$(dirname "$0")/ktap.sh"

release() { uname -r && [ "$(uname -r)" = "$RELEASE" ]; }

tiers() {
	set -- /sys/devices/virtual/memory_tiering/memory_tier*
	echo "$*" && [ $# -eq "$TIERS" ] && [ -e "$1" ]
}

# state PART WORD: of a part, or of the whole (.), soon: what waits starts in the background
state() {
	for _ in $(seq 60); do
		word=$(cat "$TIER/$1/state")
		[ "$word" = "$2" ] && return
		sleep 0.5
	done
	echo "$1: $word, not $2; $(cat "$TIER/$1/reason" 2>/dev/null)"
	return 1
}

# states WORD: the whole is on, and its parts as STATES, PART=WORD, says; or all are off
states() {
	for part in $STATES; do
		case $1 in off) want=off ;; *) want=${part#*=} ;; esac
		state "${part%%=*}" "$want" || return 1
	done
	state . "$1"
}

switch_off() { echo 0 >"$TIER/enabled" && states off; }

# One write; what the parts wish has not changed
switch_on() { echo 1 >"$TIER/enabled" && states on; }

threads() {
	for thread in $THREADS; do
		grep -qx "$thread" /proc/[0-9]*/comm || { echo "no $thread" && return 1; }
	done
}

# shellcheck disable=SC2086 # a list
load() { modprobe -a $MODULES; }

load_kvm() { modprobe -r kvm_amd kvm && modprobe kvm_amd; }

# The part age is switched again and again while kvm comes and goes, and waits while kvm is away.
reload_kvm() {
	file=$TIER/age/enabled lost=0
	(while sleep 0.01; do echo 0 >"$file"; echo 1 >"$file"; done) 2>/dev/null &
	writer=$!
	for _ in $(seq 10); do
		load_kvm || lost=$((lost + 1))
	done
	kill $writer
	wait $writer
	echo "$lost of 10 times not loaded"
	[ $lost -eq 0 ] && echo 1 >"$file" && modprobe -r kvm_amd kvm || return 1
	state age waiting && grep -q . "$TIER/age/reason" && modprobe kvm_amd && state age on
}

# Of a program that began while the fast node was full, when that is not so any more
promoted() {
	before=$(awk '/^tier_promote_success /{print $2}' /proc/vmstat)
	free_mb=$(awk '/MemFree/{print int($4 / 1024)}' /sys/devices/system/node/node0/meminfo)
	dd if=/dev/zero of=/dev/shm/cold bs=1M count="$free_mb" status=none
	stress-ng --quiet --vm 1 --vm-bytes 128M --vm-keep --timeout 40 &
	sleep 10
	rm /dev/shm/cold
	wait $!
	grep -E "^tier_(promote_(success|skip|fail_busy)|scan_(candidate|young)) " /proc/vmstat
	[ "$(awk '/^tier_promote_success /{print $2}' /proc/vmstat)" -gt "$before" ]
}

# The part age waits until it is loaded.
modprobe -q kvm

echo "KTAP version 1"
echo "1..$((9 + 2 * (STRESS_S > 0)))"
check release release
check units units
check tiers tiers
check on-after-boot states on
check modules load
check reload-kvm reload_kvm
check threads threads
if [ "$STRESS_S" -gt 0 ]; then
	check stress stress-ng --quiet --vm 2 --vm-bytes 60% --fork 1 --mmap 1 --timeout "$STRESS_S" --oom-avoid
	check pages-were-promoted promoted
fi
check switch-off switch_off
check switch-on switch_on
echo "tainted $(cat /proc/sys/kernel/tainted)"
dmesg
