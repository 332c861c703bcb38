#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run by systemd in the machine that test_tierctl_boot.py boots; prints KTAP to the second serial
# line.  /etc/tierctl/tierctl.toml names the profile hint, and all units are on.

exec >/dev/ttyS1 2>&1
number=0
balancing=/proc/sys/kernel/numa_balancing

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

# soon COMMAND...: true within 60 s
soon() {
	for _ in $(seq 30); do
		"$@" && return
		sleep 2
	done
	journalctl --no-pager -n 9 -u tierctl-record -u tierctl-export
	return 1
}

units() { systemctl --failed --no-legend && [ -z "$(systemctl --failed --no-legend)" ]; }
applied() { systemctl status tierctl; [ "$(cat $balancing)" = 2 ] && tierctl profile verify; }
recorded() { [ -n "$(find /var/lib/tierctl/record -name '*.gz' -o -name '2*')" ]; }
exported() { grep '^tier_node_bytes{' /var/lib/prometheus/node-exporter/tierctl.prom; }
shown() { tierctl --no-color status; [ $? -le 1 ]; }
# Stopping the unit changes nothing.
stopped() { systemctl stop tierctl && [ "$(cat $balancing)" = 2 ]; }
# Debian switches NUMA balancing on at boot.  tierctl.toml names the profile still, which it says.
reverted() { tierctl profile revert | grep -q tierctl.toml && [ "$(cat $balancing)" = 1 ]; }
refused() { ! journalctl -k --grep 'type=1326'; }

echo "KTAP version 1"
echo "1..8"
check status shown
check profile-applied applied
check recorded soon recorded
check exported soon exported
check units-work units
check no-call-refused refused
check stop-changes-nothing stopped
check reverted reverted
echo "tainted $(cat /proc/sys/kernel/tainted)"
