// SPDX-License-Identifier: GPL-2.0
/*
 * Rows of /proc/vmstat for kmmscand.
 *
 * The counters are kept as those of the promoter are, and for the same reason: see
 * mm/tier/vmstat.c.
 */

#include <linux/cpumask.h>
#include <linux/kmmscand.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>

#include "events.h"

DEFINE_PER_CPU(struct kmmscand_events, kmmscand_events);

static const char * const kmmscand_event_names[NR_KMMSCAND_EVENTS] = {
	[KMMSCAND_MM_SCANNED]		= "kmmscand_mm_scanned ",
	[KMMSCAND_MM_OFF]		= "kmmscand_mm_off ",
	[KMMSCAND_MEMCG_OFF]		= "kmmscand_memcg_off ",
	[KMMSCAND_MEMCG_MAX]		= "kmmscand_memcg_max ",
	[KMMSCAND_TARGET_SPLIT]		= "kmmscand_target_split ",
	[KMMSCAND_TARGET_FALLBACK]	= "kmmscand_target_fallback ",
	[KMMSCAND_PTE_SCANNED]		= "kmmscand_pte_scanned ",
	[KMMSCAND_PTE_YOUNG]		= "kmmscand_pte_young ",
	[KMMSCAND_PMD_SKIPPED]		= "kmmscand_pmd_skipped ",
	[KMMSCAND_CANDIDATE]		= "kmmscand_candidate ",
	[KMMSCAND_READ_TOUCHED]		= "kmmscand_read_touched ",
};

/**
 * kmmscand_vmstat_show - print the rows of kmmscand
 * @m: /proc/vmstat
 *
 * The sum is a snapshot: other CPUs go on counting.  CPUs that have gone
 * offline keep their share.
 *
 * Context: any.
 */
void kmmscand_vmstat_show(struct seq_file *m)
{
	int item, cpu;

	for (item = 0; item < NR_KMMSCAND_EVENTS; item++) {
		unsigned long sum = 0;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu(kmmscand_events, cpu).event[item]);
		seq_put_decimal_ull(m, kmmscand_event_names[item], sum);
		seq_putc(m, '\n');
	}
}
