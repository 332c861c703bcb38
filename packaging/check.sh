#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run by systemd in the machine that lab/deb/trial.py boots; prints KTAP to the second serial
# line.  check.env, beside it, says what to look for.

here=$(dirname "$0")
# shellcheck source=/dev/null
. "$here/check.env"
exec >/dev/ttyS1 2>&1
number=0

# check NAME COMMAND...: one result
check() {
	name=$1
	shift
	number=$((number + 1))
	if said=$("$@" 2>&1); then
		echo "ok $number $name"
	else
		printf '%s\n' "$said" | tail -n 5 | sed 's/^/# /'
		echo "not ok $number $name"
	fi
}

release() { uname -r && [ "$(uname -r)" = "$RELEASE" ]; }
units() { systemctl --failed --no-legend && [ -z "$(systemctl --failed --no-legend)" ]; }

tiers() {
	set -- /sys/devices/virtual/memory_tiering/memory_tier*
	echo "$*" && [ $# -eq "$TIERS" ] && [ -e "$1" ]
}

# switches KIND: all of SWITCHES, FILE=OFF=ON, are as said
switches() {
	for switch in $SWITCHES; do
		file=${switch%%=*} values=${switch#*=}
		case $1 in off) want=${values%=*} ;; *) want=${values#*=} ;; esac
		[ "$(cat "$file")" = "$want" ] || { echo "$file: $(cat "$file")" && return 1; }
	done
}

# As the operator's guide has it, and then a tier appears
switch_on() {
	examples=/usr/share/doc/linux-image-$RELEASE/examples
	cp "$examples/tiershift.conf" /etc/tmpfiles.d/ &&
		cp "$examples/tiershift.rules" /etc/udev/rules.d/ &&
		udevadm control --reload &&
		udevadm trigger --action=add --subsystem-match=memory_tiering --settle &&
		switches on
}

switch_off() {
	for switch in $SWITCHES; do
		values=${switch#*=}
		echo "${values%=*}" >"${switch%%=*}" || return 1
	done
	switches off
}

threads() {
	for thread in $THREADS; do
		grep -qx "$thread" /proc/[0-9]*/comm || { echo "no $thread" && return 1; }
	done
}

# shellcheck disable=SC2086 # a list
load() { modprobe -a $MODULES; }

load_kvm() { modprobe -r kvm_amd kvm && modprobe kvm "range_aging=$1" && modprobe kvm_amd; }

# kvm's aging is switched again and again while kvm comes and goes.
reload_kvm() {
	file=/sys/module/kvm/parameters/range_aging lost=0
	(while sleep 0.01; do echo 1 >"$file"; echo 0 >"$file"; done) 2>/dev/null &
	writer=$!
	for value in 1 0 1 0 1 0 1 0 1 0; do
		load_kvm $value || lost=$((lost + 1))
	done
	kill $writer
	wait $writer
	echo "$lost of 10 times not loaded"
	[ $lost -eq 0 ] && load_kvm 1 && grep -q Y "$file" && echo 0 >"$file" && grep -q N "$file"
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
	grep -E "^(tier_promote_(success|skipped|fail_busy)|kmmscand_(candidate|pte_young)) " /proc/vmstat
	[ "$(awk '/^tier_promote_success /{print $2}' /proc/vmstat)" -gt "$before" ]
}

# Its switches exist while it is loaded.
modprobe -q kvm

echo "KTAP version 1"
echo "1..$((9 + 2 * (STRESS_S > 0)))"
check release release
check units units
check tiers tiers
check off-after-boot switches off
check modules load
check reload-kvm reload_kvm
check switch-on switch_on
check threads threads
if [ "$STRESS_S" -gt 0 ]; then
	check stress stress-ng --quiet --vm 2 --vm-bytes 60% --fork 1 --mmap 1 --timeout "$STRESS_S" --oom-avoid
	check pages-were-promoted promoted
fi
check switch-off switch_off
echo "tainted $(cat /proc/sys/kernel/tainted)"
dmesg
