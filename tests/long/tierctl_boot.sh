#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run by systemd in the machine that test_tierctl_boot.py boots.  /etc/tierctl/tierctl.toml names
# the profile hint, and all units are on.

# shellcheck source=/dev/null
. "$(dirname "$0")/ktap.sh"
balancing=/proc/sys/kernel/numa_balancing

# soon COMMAND...: true within 60 s
soon() {
	for _ in $(seq 30); do
		"$@" && return
		sleep 2
	done
	journalctl --no-pager -n 9 -u tierctl-record -u tierctl-export
	return 1
}

applied() { systemctl status tierctl; [ "$(cat $balancing)" = 2 ] && tierctl profile verify; }
recorded() { [ -n "$(find /var/lib/tierctl/record -name '2*')" ]; }
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
