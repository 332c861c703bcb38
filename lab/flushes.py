# SPDX-License-Identifier: GPL-2.0
"""TLB flushes and migrated pages: figures from the counters of /proc/vmstat.

A flush is one that was sent to other CPUs (nr_tlb_remote_flush), whoever sent it: the
migration itself, a scanner that makes pages inaccessible, a fault, and with MIGRC the
flushes that were put off (drains) and those forced by a write.  None can be missing,
because the kernel counts where it sends the interrupts.  Received is one per CPU that was
interrupted (nr_tlb_remote_flush_received).  Both need CONFIG_DEBUG_TLBFLUSH, which all
kernels of the lab have (linux/configs/common.config).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.errors import LabError

MIGRC = "/sys/kernel/mm/migrc/"
SWITCH = MIGRC + "enabled"
SENT, RECEIVED = "nr_tlb_remote_flush", "nr_tlb_remote_flush_received"
MIGRATED, DEFERRED = "pgmigrate_success", "migrc_deferred"
PROMOTED = ("pgpromote_success",)
SCANNED = ("pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged")
STALLS = ("allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable")
DEMOTED = ("pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged")

Counts = dict[str, int]


def total(delta: Counts, names: Sequence[str]) -> int:
    """The sum of some counters; one that a kernel does not have is 0."""
    return sum(delta.get(name, 0) for name in names)


def _by(delta: Counts, prefix: str) -> Counts:
    """Counters of one sort, by what follows the prefix."""
    return {
        name.removeprefix(prefix): n for name, n in sorted(delta.items()) if name.startswith(prefix)
    }


def of(delta: Counts) -> dict[str, Any]:
    """What some counters grew by, told as flushes and pages.

    What refers to pages is None where none was migrated, and what is MIGRC's on a kernel
    without it.
    """
    if SENT not in delta:
        raise LabError(f"no {SENT} in /proc/vmstat", "build with CONFIG_DEBUG_TLBFLUSH")
    migrated = delta.get(MIGRATED, 0)
    deferred = delta.get(DEFERRED)
    found: dict[str, Any] = {
        "migrated": migrated,
        "promoted": total(delta, PROMOTED),
        "demoted": total(delta, DEMOTED),
        "scanned": total(delta, SCANNED),
        "stalls": total(delta, STALLS),
        "swapped": delta.get("pswpout", 0),
        "flushes": delta[SENT],
        "received": delta[RECEIVED],
        "deferred": deferred,
        "drains": delta.get("migrc_flush"),
        "drained": _by(delta, "migrc_drain_"),
        "forced": _by(delta, "migrc_force_"),
        "skipped": _by(delta, "migrc_skip_"),
        "later": delta.get("migrc_promote_later"),
    }
    found["flushes_per_1000"] = 1000 * delta[SENT] / migrated if migrated else None
    found["received_per_1000"] = 1000 * delta[RECEIVED] / migrated if migrated else None
    found["deferred_share"] = deferred / migrated if migrated and deferred is not None else None
    # An entry that a hint fault has found inaccessible needs no flush, and is in neither.
    needed = (deferred or 0) + sum(found["skipped"].values())
    found["eligible_share"] = deferred / needed if needed and deferred is not None else None
    return found


def second_half(measured: dict[str, Any]) -> Counts | None:
    """What the counters grew by after half of the time of a run; None without a sample there.

    At START the fast node is full of pages as they were written, and their writable
    entries cannot be deferred.  The second half is nearer to a job that runs for hours.
    """
    middle = measured["seconds"] / 2
    sample = next((point for point in measured["series"] if point["t"] >= middle), None)
    if sample is None:
        return None
    return {name: value - sample.get(name, 0) for name, value in measured["delta"].items()}


def less(value: float | None, base: float | None) -> float | None:
    """How much less than the base, as a share of it: 0.97 is 97 % less."""
    return None if value is None or not base else 1 - value / base
