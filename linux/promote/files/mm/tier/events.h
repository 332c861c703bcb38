/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mm/tier/ counts; shown as rows of /proc/vmstat by vmstat.c.
 */
#ifndef _MM_TIER_EVENTS_H
#define _MM_TIER_EVENTS_H

#include <linux/percpu.h>
#include <linux/tier.h>

enum tier_event {
	TIER_PROMOTE_SUCCESS,
	TIER_PROMOTE_SKIPPED,
	TIER_PROMOTE_FAIL_ISOLATE,
	TIER_PROMOTE_FAIL_BUSY,
	TIER_PROMOTE_FAIL_POLICY,
	TIER_PROMOTE_FAIL_NOMEM,
	TIER_PROMOTE_FAIL_WATERMARK,
	TIER_PROMOTE_AGAIN,
	TIER_POLICY_WAIT,
	TIER_DEMOTE_SUCCESS,
	TIER_FLUSH,	/* and those that follow, in the order of enum tier_flush */
	NR_TIER_EVENTS = TIER_FLUSH + NR_TIER_FLUSHES
};

struct tier_events {
	unsigned long event[NR_TIER_EVENTS];
};

DECLARE_PER_CPU(struct tier_events, tier_events);

static inline void count_tier_events(enum tier_event item, unsigned long delta)
{
	this_cpu_add(tier_events.event[item], delta);
}

#endif /* _MM_TIER_EVENTS_H */
