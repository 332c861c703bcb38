# SPDX-License-Identifier: GPL-2.0
"""Names of counters and files that raw data from before issue 46 have.

A line of the ledger has names of the lab's own, which stay.  Its raw data have rows of
/proc/vmstat and paths of settings as the kernel of that day called them.  ledger.raw() gives
them the names of today, so that no other module has to know the old names.
"""

from __future__ import annotations

from typing import Any

from lab import tier

ROWS = {
    "kmmscand_mm_scanned": "tier_scan_mm",
    "kmmscand_mm_off": "tier_scan_skip_prctl",
    "kmmscand_memcg_off": "tier_scan_skip_memcg",
    "kmmscand_memcg_max": "tier_promote_skip_max",
    "kmmscand_target_split": "tier_promote_target_split",
    "kmmscand_target_fallback": "tier_promote_target_fallback",
    "kmmscand_pte_scanned": "tier_scan_pte",
    "kmmscand_pte_young": "tier_scan_young",
    "kmmscand_pmd_skipped": "tier_scan_skip_pmd",
    "kmmscand_candidate": "tier_scan_candidate",
    "kmmscand_read_touched": "tier_scan_read",
    "tier_promote_skipped": "tier_promote_skip",
    "tier_policy_wait": "tier_promote_policy_wait",
    "migrc_deferred": "tier_defer_success",
    "migrc_flush": "tier_defer_flush",
    "migrc_forced": "tier_defer_forced",
    "migrc_merged": "tier_defer_merged",
    "migrc_backoff": "tier_defer_backoff",
    "migrc_pending": "tier_defer_pending",
}
# Settings that scenarios have named; a value means the same under both names
FILES = {
    "/sys/kernel/mm/kmmscand/page_cache": tier.file("scan", "page_cache"),
    "/sys/kernel/mm/kmmscand/scan_cpu_permille": tier.file("scan", "cpu_permille"),
    "/sys/kernel/mm/migrate_batch/enabled": tier.enabled("batch"),
}
NAMES = {**ROWS, **FILES}


def today(data: Any) -> Any:
    """Raw data whose keys have today's names; values stay as they are."""
    if isinstance(data, dict):
        return {NAMES.get(key, key): today(value) for key, value in data.items()}
    if isinstance(data, list):
        return [today(one) for one in data]
    return data
