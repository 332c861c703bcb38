// SPDX-License-Identifier: GPL-2.0
/* Rows of /proc/vmstat for kmmscand: see mm/tier_parts/counters.c. */

#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/tier_parts.h>

#include "events.h"

DEFINE_PER_CPU(struct kmmscand_events, kmmscand_events);

static const char * const kmmscand_event_names[NR_KMMSCAND_EVENTS] = {
	[KMMSCAND_MM_SCANNED]		= "tier_scan_mm ",
	[KMMSCAND_MM_OFF]		= "tier_scan_skip_prctl ",
	[KMMSCAND_MEMCG_OFF]		= "tier_scan_skip_memcg ",
	[KMMSCAND_MEMCG_MAX]		= "tier_promote_skip_max ",
	[KMMSCAND_TARGET_SPLIT]		= "tier_promote_target_split ",
	[KMMSCAND_TARGET_FALLBACK]	= "tier_promote_target_fallback ",
	[KMMSCAND_PTE_SCANNED]		= "tier_scan_pte ",
	[KMMSCAND_PTE_YOUNG]		= "tier_scan_young ",
	[KMMSCAND_PMD_SKIPPED]		= "tier_scan_skip_pmd ",
	[KMMSCAND_CANDIDATE]		= "tier_scan_candidate ",
	[KMMSCAND_READ_TOUCHED]		= "tier_scan_read ",
};

static struct tier_counters kmmscand_counters = {
	.names	= kmmscand_event_names,
	.nr	= NR_KMMSCAND_EVENTS,
	.counts	= kmmscand_events.event,
};

static int __init kmmscand_vmstat_init(void)
{
	tier_counters_add(&kmmscand_counters);
	return 0;
}
late_initcall(kmmscand_vmstat_init);
