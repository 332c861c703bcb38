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
