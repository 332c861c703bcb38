/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Periods of the slow nodes: see period.c.
 */
#ifndef _MM_TIER_KMMSCAND_PERIOD_H
#define _MM_TIER_KMMSCAND_PERIOD_H

#include <linux/bitmap.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/tier.h>
#include <linux/types.h>

#include "kmmscand.h"
#include "policy.h"
#include "victim.h"

/* Base pages in a list of migrate_pages(), and so in a batch of a promoter */
#define PERIOD_BATCH	512U

/**
 * struct period_groups - what a period has brought, by memory control group, in base pages
 * @need:      candidates
 * @exchanged: candidates that were to take the place of a victim
 */
struct period_groups {
	struct victim_need need[TIER_GROUPS];
	unsigned long exchanged[TIER_GROUPS];
};

/**
 * struct period_counts - counters, by memory control group, in base pages
 * @pushed:   candidates that visits have found, of all groups
 * @gone:     candidates that promoters have popped or the ring has dropped
 * @waiting:  candidates in the ring; the only count that does not only grow
 * @promoted: promoted
 * @again:    of these, demoted lately
 */
struct period_counts {
	unsigned long pushed;
	unsigned long gone[TIER_GROUPS];
	unsigned long waiting[TIER_GROUPS];
	unsigned long promoted[TIER_GROUPS];
	unsigned long again[TIER_GROUPS];
};

/**
 * struct period - state of a slow node that its promoters share
 * @nid:      slow node
 * @nodes:    tiers
 * @lock:     for what follows; workers read some of that without the lock, each a snapshot
 * @ends:     the period, in jiffies
 * @quota:    base pages that may move in the period
 * @used:     of these, base pages that were tried; a failure counts as a part
 * @moved:    base pages that have moved in the period
 * @tokens:   base pages that the bandwidth allows now; negative after a large folio
 * @refilled: when tokens were added, in jiffies
 * @page_ns:  CPU time of a promotion, without its demotion
 * @demote_ns: CPU time of a demotion
 * @demoting: CPU time of demotions in this period, in ns
 * @demoted:  base pages demoted in this period
 * @measured: @page_ns was, in this period
 * @groups:   of this period
 * @policy:   windows
 * @bucket:   groups
 * @anew:     groups in which something else has become hot; set without the lock
 * @turn_us:  shortest window of turns since the end of a period; set without the lock
 *
 * Of the promoter that ends periods:
 *
 * @last:     groups of the last period
 * @visits:   at the end of the last period
 * @young:    young pages of turns, at the end of the last period
 * @learned:  the same when the window was updated
 * @mean:     mean of a period
 * @since:    periods with visits since the window was updated
 * @pushed:   base pages that had been pushed then
 * @before:   counters at the end of the period before it
 * @now:      counters at the end of the last period
 */
struct period {
	int nid;
	const struct kmmscand_nodes *nodes;

	struct mutex lock;		/* for what follows */
	unsigned long ends;
	unsigned long quota, used, moved;
	long tokens;
	unsigned long refilled;
	u64 page_ns, demote_ns;
	u64 demoting;
	unsigned long demoted;
	bool measured;
	struct period_groups groups;
	struct policy_node policy;
	struct policy_bucket bucket[TIER_GROUPS];
	DECLARE_BITMAP(anew, TIER_GROUPS);
	u32 turn_us;

	struct period_groups last;
	unsigned long visits;
	unsigned long young, learned, mean;
	unsigned int since;
	unsigned long pushed;
	struct period_counts before, now;
};

struct period *period_start(int nid, const struct kmmscand_nodes *nodes);
void period_stop(int nid);
void period_end(struct period *p);
void period_cost(struct period *p, u64 ns, unsigned long moved);
void period_demoted(struct period *p, u64 ns, unsigned long demoted);
unsigned long period_room(int nid);
bool period_roomy(int nid);
bool period_stuck(const struct period *p);

void period_visited(const nodemask_t *slow, u32 window_us, unsigned long young);
void period_begin_anew(int nid, unsigned int group);
u32 period_window_us(const nodemask_t *slow);
u32 period_page_ns(const nodemask_t *slow);
u32 period_quota(const nodemask_t *slow);
bool period_saturated(const nodemask_t *slow);
u32 period_loss(const nodemask_t *slow, unsigned int group);

#endif /* _MM_TIER_KMMSCAND_PERIOD_H */
