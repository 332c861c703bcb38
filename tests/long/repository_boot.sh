#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run by systemd in the machine that test_repository_boot.py boots.  /etc/tierctl/tierctl.toml
# names the profile general; nothing else switches tiering on.

# shellcheck source=/dev/null
. "$(dirname "$0")/ktap.sh"

release() { uname -r && [ "$(uname -r)" = "$RELEASE" ]; }
applied() { systemctl status tierctl; tierctl profile verify; }

# parts WORD: the whole, and the promoter, are on or off within 60 s
parts() {
	for _ in $(seq 120); do
		[ "$(cat "$TIER/state") $(cat "$TIER/promote/state")" = "$1 $1" ] && return
		sleep 0.5
	done
	grep . "$TIER/state" "$TIER"/*/state
	return 1
}

write_again='
import time
memory, end = bytearray(64 << 20), time.monotonic() + 40
while time.monotonic() < end:
    memory[::4096] = bytes(len(memory) // 4096)'

shown() { tierctl --no-color status; [ $? -le 1 ]; }
explained() { tierctl --no-color explain node 1; }
# tierctl.toml names the profile still, which it says.
reverted() { tierctl profile revert | grep tierctl.toml && parts off; }

echo "KTAP version 1"
echo "1..8"
check release release
check profile-applied applied
check parts-on parts on
check status shown
check promoted promoted python3 -c "$write_again"
check explain explained
check reverted reverted
check units-work units
echo "tainted $(cat /proc/sys/kernel/tainted)"
dmesg
