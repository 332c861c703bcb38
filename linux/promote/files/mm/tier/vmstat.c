// SPDX-License-Identifier: GPL-2.0
/*
 * Rows of /proc/vmstat for memory tiers.
 *
 * The counters are per CPU and only ever grow, as vm events do.
 */

#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/tier.h>

#include "events.h"

DEFINE_PER_CPU(struct tier_events, tier_events);

static const char * const tier_event_names[NR_TIER_EVENTS] = {
	[TIER_PROMOTE_SUCCESS]		= "tier_promote_success ",
	[TIER_PROMOTE_SKIPPED]		= "tier_promote_skipped ",
	[TIER_PROMOTE_FAIL_ISOLATE]	= "tier_promote_fail_isolate ",
	[TIER_PROMOTE_FAIL_BUSY]	= "tier_promote_fail_busy ",
	[TIER_PROMOTE_FAIL_POLICY]	= "tier_promote_fail_policy ",
	[TIER_PROMOTE_FAIL_NOMEM]	= "tier_promote_fail_nomem ",
	[TIER_PROMOTE_FAIL_WATERMARK]	= "tier_promote_fail_watermark ",
	[TIER_PROMOTE_BOUNCE]		= "tier_promote_bounce ",
	[TIER_POLICY_WAIT]		= "tier_policy_wait ",
	[TIER_DEMOTE_KEPT]		= "tier_demote_kept ",
};

/**
 * tier_vmstat_show - print the rows of the memory tiers
 * @m: /proc/vmstat
 *
 * The sum is a snapshot: other CPUs go on counting.  CPUs that have gone
 * offline keep their share.
 *
 * Context: any.
 */
void tier_vmstat_show(struct seq_file *m)
{
	int item, cpu;

	for (item = 0; item < NR_TIER_EVENTS; item++) {
		unsigned long sum = 0;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu(tier_events, cpu).event[item]);
		seq_put_decimal_ull(m, tier_event_names[item], sum);
		seq_putc(m, '\n');
	}
}
