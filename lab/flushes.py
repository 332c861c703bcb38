# SPDX-License-Identifier: GPL-2.0
"""TLB flushes and migrated pages: rows of /proc/vmstat.

A flush is one that interrupts other CPUs (SENT), whatever it is for: a migration, a scanner, a
fault, pages that MIGRC kept.  None can be missing, because the kernel counts where it sends the
interrupts.  RECEIVED counts the CPUs that were interrupted.  Both need CONFIG_DEBUG_TLBFLUSH, which
all kernels of the lab have (linux/configs/common.config).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab import tier

SWITCH = tier.enabled("defer")
SENT, RECEIVED = "nr_tlb_remote_flush", "nr_tlb_remote_flush_received"
MIGRATED, DEFERRED = "pgmigrate_success", "tier_defer_success"
PROMOTED = ("pgpromote_success",)
DEMOTED = ("pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged")


def total(delta: Mapping[str, int], names: Sequence[str]) -> int:
    """The sum of some counters; one that a kernel does not have is 0."""
    return sum(delta.get(name, 0) for name in names)
