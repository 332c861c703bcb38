# SPDX-License-Identifier: GPL-2.0
"""The files of the kernel, and those of tierctl in /etc and /var."""

from __future__ import annotations

TIER = "/sys/kernel/mm/tier"
NODES = "/sys/devices/system/node"
TIERS = "/sys/devices/virtual/memory_tiering"
HAS_CPU = f"{NODES}/has_cpu"
ONLINE = "/sys/devices/system/cpu/online"
BALANCING = "/proc/sys/kernel/numa_balancing"
PROMOTE_RATE = f"{BALANCING}_promote_rate_limit_MBps"
DEMOTION = "/sys/kernel/mm/numa/demotion_enabled"
MGLRU = "/sys/kernel/mm/lru_gen/enabled"
LRU_GEN = "/sys/kernel/debug/lru_gen"
LRU_GEN_FULL = "/sys/kernel/debug/lru_gen_full"  # also under lockdown, 8 times as long
KDAMONDS = "/sys/kernel/mm/damon/admin/kdamonds"
ZONEINFO = "/proc/zoneinfo"
VMSTAT = "/proc/vmstat"
HOSTNAME = "/proc/sys/kernel/hostname"
RELEASE = "/proc/sys/kernel/osrelease"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
CGROUP = "/sys/fs/cgroup"
LIMIT = "memory.tier.max"
STAT = "memory.numa_stat"
ETC = "/etc/tierctl"
CONF = f"{ETC}/conf.d"
KEPT = f"{ETC}/kept.toml"  # by tierctl alone
LOOKED = "/run/tierctl/looked"  # when `heat --look` let MGLRU look
STATE = "/var/lib/tierctl"
BEFORE = f"{STATE}/before.json"
RECORD = f"{STATE}/record"
