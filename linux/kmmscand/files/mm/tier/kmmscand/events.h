/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What kmmscand counts; shown as rows of /proc/vmstat by vmstat.c.
 */
#ifndef _MM_TIER_KMMSCAND_EVENTS_H
#define _MM_TIER_KMMSCAND_EVENTS_H

#include <linux/percpu.h>

enum kmmscand_event {
	KMMSCAND_MM_SCANNED,
	KMMSCAND_MM_OFF,
	KMMSCAND_MEMCG_OFF,
	KMMSCAND_MEMCG_MAX,
	KMMSCAND_TARGET_SPLIT,
	KMMSCAND_TARGET_FALLBACK,
	KMMSCAND_PTE_SCANNED,
	KMMSCAND_PTE_YOUNG,
	KMMSCAND_PMD_SKIPPED,
	KMMSCAND_CANDIDATE,
	KMMSCAND_READ_TOUCHED,
	NR_KMMSCAND_EVENTS
};

struct kmmscand_events {
	unsigned long event[NR_KMMSCAND_EVENTS];
};

DECLARE_PER_CPU(struct kmmscand_events, kmmscand_events);

static inline void count_kmmscand_events(enum kmmscand_event item, unsigned long delta)
{
	this_cpu_add(kmmscand_events.event[item], delta);
}

#endif /* _MM_TIER_KMMSCAND_EVENTS_H */
