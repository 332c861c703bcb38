#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# For the scripts that lab/deb/trial.py has a machine run: results as KTAP to the second serial
# line.

# shellcheck source=/dev/null
. "$(dirname "$0")/check.env"
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
		printf '%s\n' "$said" | tail -n 9 | sed 's/^/# /'
		echo "not ok $number $name"
	fi
}

units() { systemctl --failed --no-legend && [ -z "$(systemctl --failed --no-legend)" ]; }

# promoted COMMAND...: pages of a program that begins while the fast node is full are promoted
# when the fast node has room; the program runs for 40 s
promoted() {
	before=$(awk '/^tier_promote_success /{print $2}' /proc/vmstat)
	free_mb=$(awk '/MemFree/{print int($4 / 1024)}' /sys/devices/system/node/node0/meminfo)
	dd if=/dev/zero of=/dev/shm/cold bs=1M count="$free_mb" status=none
	"$@" &
	sleep 10
	rm /dev/shm/cold
	wait $!
	grep -E "^tier_(promote_(success|skip|fail_busy)|scan_(candidate|young)) " /proc/vmstat
	[ "$(awk '/^tier_promote_success /{print $2}' /proc/vmstat)" -gt "$before" ]
}
