// SPDX-License-Identifier: GPL-2.0
/* Rows of /proc/vmstat for promotion: see mm/tier_parts/counters.c. */

#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/mm_types.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/tier.h>
#include <linux/tier_parts.h>

#include "events.h"

DEFINE_PER_CPU(struct tier_events, tier_events);

static const char * const tier_event_names[NR_TIER_EVENTS] = {
	[TIER_PROMOTE_SUCCESS]		= "tier_promote_success ",
	[TIER_PROMOTE_SKIPPED]		= "tier_promote_skip ",
	[TIER_PROMOTE_FAIL_ISOLATE]	= "tier_promote_fail_isolate ",
	[TIER_PROMOTE_FAIL_BUSY]	= "tier_promote_fail_busy ",
	[TIER_PROMOTE_FAIL_POLICY]	= "tier_promote_fail_policy ",
	[TIER_PROMOTE_FAIL_NOMEM]	= "tier_promote_fail_nomem ",
	[TIER_PROMOTE_FAIL_WATERMARK]	= "tier_promote_fail_watermark ",
	[TIER_PROMOTE_AGAIN]		= "tier_promote_again ",
	[TIER_POLICY_WAIT]		= "tier_promote_policy_wait ",
	[TIER_DEMOTE_SUCCESS]		= "tier_demote_success ",
	[TIER_FLUSH + TIER_FLUSH_SCAN]		= "tier_flush_scan ",
	[TIER_FLUSH + TIER_FLUSH_PROMOTION]	= "tier_flush_promotion ",
	[TIER_FLUSH + TIER_FLUSH_DEMOTION]	= "tier_flush_demotion ",
	[TIER_FLUSH + TIER_FLUSH_SWAPOUT]	= "tier_flush_swapout ",
	[TIER_FLUSH + TIER_FLUSH_FREE]		= "tier_flush_free ",
	[TIER_FLUSH + TIER_FLUSH_DEFERRAL]	= "tier_flush_deferral ",
};

/**
 * tier_count_cpus_flush - count a flush, if other CPUs are flushed
 * @cause: of the flush
 * @cpus:  that are flushed
 *
 * Context: any.
 */
void tier_count_cpus_flush(enum tier_flush cause, const struct cpumask *cpus)
{
	if (cpumask_any_but(cpus, raw_smp_processor_id()) < nr_cpu_ids)
		count_tier_events(TIER_FLUSH + cause, 1);
}

/**
 * tier_count_batch_flush - count the flush that try_to_unmap_flush() is about to send
 * @cause: of the flush
 *
 * Counts nothing if no flush is due, and neither what is flushed at once: a huge PMD, or a PTE of
 * an address space that runs on this CPU only.
 *
 * Context: process.
 */
void tier_count_batch_flush(enum tier_flush cause)
{
#ifdef CONFIG_ARCH_WANT_BATCHED_UNMAP_TLB_FLUSH
	if (current->tlb_ubc.flush_required)
		count_tier_events(TIER_FLUSH + cause, 1);
#endif
}

/**
 * tier_count_migrate_flush - migration is about to flush for a batch
 * @reason: of the migration
 *
 * Context: process.
 */
void tier_count_migrate_flush(enum migrate_reason reason)
{
	if (reason == MR_NUMA_MISPLACED)
		tier_count_batch_flush(TIER_FLUSH_PROMOTION);
	else if (reason == MR_DEMOTION)
		tier_count_batch_flush(TIER_FLUSH_DEMOTION);
}

/**
 * tier_count_demoted - pages were demoted to make room for promotions
 * @nr: base pages
 *
 * Context: any.
 */
void tier_count_demoted(unsigned long nr)
{
	count_tier_events(TIER_DEMOTE_SUCCESS, nr);
}

static struct tier_counters tier_event_counters = {
	.names	= tier_event_names,
	.nr	= NR_TIER_EVENTS,
	.counts	= tier_events.event,
};

static int __init tier_vmstat_init(void)
{
	tier_counters_add(&tier_event_counters);
	return 0;
}
late_initcall(tier_vmstat_init);
