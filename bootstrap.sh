#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Make a fresh Debian 12 or 13 able to run the lab: packages, then a virtual
# environment with pinned versions.  Prints the environment's directory.
# Arguments are further lists of packages.
# Quick when nothing is missing; needs root or sudo only to install packages.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
package_lists=("$here/lab/packages.txt" "$@")
pins=$here/lab/requirements.txt
# cron and services may have no HOME.
home=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
cache=${TIERSHIFT_CACHE:-${XDG_CACHE_HOME:-$home/.cache}/tiershift}

say() { printf '%s\n' "$*" >&2; }
fail() {
	say "error: $1"
	say "  what to do: $2"
	exit 1
}

# For tests only: another machine's identity.
os_release=${TIERSHIFT_OS_RELEASE:-/etc/os-release}
machine=${TIERSHIFT_MACHINE:-$(uname -m)}
[ -r "$os_release" ] || fail "this is not a Debian system" "use Debian 12 or 13"
# shellcheck disable=SC1090
. "$os_release"
case "${ID:-}/${VERSION_ID:-}" in
debian/12 | debian/13) ;;
*) fail "unsupported operating system: ${PRETTY_NAME:-unknown}" "use Debian 12 or 13 (a virtual machine will do)" ;;
esac
[ "$machine" = x86_64 ] ||
	fail "unsupported architecture: $machine" "use an x86_64 machine: the lab's guests and the TCG plugins are x86-64 only"

mkdir -p "$cache" || fail "cannot create $cache" "set TIERSHIFT_CACHE to a directory you may write"
free_gib=$(($(df -Pk "$cache" | awk 'NR == 2 { print $4 }') / 1048576))
[ -e "$cache/kernels" ] || [ "$free_gib" -ge 15 ] ||
	fail "$cache has $free_gib GiB free, a first run needs 15" "free some space, or set TIERSHIFT_CACHE to a larger disk"

for list in "${package_lists[@]}"; do
	[ -r "$list" ] || fail "there is no list of packages $list" "name a file that has one package a line"
done
missing=()
while read -r package; do
	case "$package" in '' | '#'*) continue ;; esac
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
		missing+=("$package")
done < <(cat -- "${package_lists[@]}")

if [ "${#missing[@]}" -gt 0 ]; then
	sudo=()
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null ||
			fail "packages are missing and you are neither root nor have sudo: ${missing[*]}" "install them as root with apt-get"
		sudo=(sudo)
	fi
	log=$cache/apt.log
	say "installing ${#missing[@]} Debian packages (about a minute; log: $log)"
	network="check the network and the apt sources; the last lines of $log say more"
	"${sudo[@]}" apt-get -q update >"$log" 2>&1 || fail "apt-get update failed" "$network"
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -y --no-install-recommends \
		install "${missing[@]}" >>"$log" 2>&1 || fail "apt-get could not install: ${missing[*]}" "$network"
elif [ -z "$(apt-cache madison linux-source-6.12 2>/dev/null)" ]; then
	fail "the package lists are empty" "run apt-get update as root"
fi

venv=$cache/venv-$(sha256sum "$pins" | cut -c1-12)
if [ ! -e "$venv/ready" ]; then
	say "creating the Python environment $venv"
	rm -rf "$venv"
	/usr/bin/python3 -m venv "$venv" || fail "python3 -m venv failed" "is python3-venv installed?"
	"$venv/bin/pip" --quiet --disable-pip-version-check install --requirement "$pins" >&2 ||
		fail "pip could not install $pins" "check the network; the package index must be reachable"
	touch "$venv/ready"
fi
printf '%s\n' "$venv"
