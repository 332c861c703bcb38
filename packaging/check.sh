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
	check pages-were-promoted promoted stress-ng --quiet --vm 1 --vm-bytes 128M --vm-keep --timeout 40
fi
check switch-off switch_off
check switch-on switch_on
echo "tainted $(cat /proc/sys/kernel/tainted)"
dmesg
