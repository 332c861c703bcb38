// SPDX-License-Identifier: GPL-2.0
/*
 * Limits: which pages may a promoter take, as far as memory control groups are concerned?
 *
 * While a group has settings (memcg.c), a promoter asks here for each page that it counts or
 * selects in the hotness table.  Pages count for the group that they are charged to, whoever
 * maps them.  For pages of groups that have no settings, and none above, that is all.
 *
 * Off: a page of a group with a limit of 0, or below one, is not counted and not selected.
 *
 * Limits: a page is counted and selected only as long as each group with a limit, from its own
 * up, has room for it.  So what is beyond a limit changes nothing for other groups.  And it
 * must have the score by which the hottest of what the last walk has found fit.
 *
 * Room is what the statistics leave of the limit.  They are added up from below every two
 * seconds by a timer, which waits for its CPU if that is idle; after four seconds the promoter
 * does it.  So they cost a few reads for each group with a limit in each walk of a promoter, and
 * no more with many groups below.  What has been selected is counted by itself for
 * as long as it may be missing in them (TIER_LIMIT_HALF), in the settings of the group, which
 * all promoters share.  What then could not be migrated counts all the same.  What the group
 * allocates on fast nodes is seen late.  Not seen are pages that wait to be put on a list (31 for
 * each CPU), and what nobody adds up while it is less than 64 updates for each CPU.
 *
 * Locking: the settings are kept by RCU, and what is in struct tier_limit is under
 * tier_limit_lock, because all groups up to the root are charged, or none.  Promoters are few.
 */

#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/page_counter.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "control.h"
#include "events.h"
#include "fault.h"
#include "limit.h"

static DEFINE_SPINLOCK(tier_limit_lock);
/* Walks of promoters over the hotness table that have begun */
static atomic_t tier_limit_walks = ATOMIC_INIT(0);

/**
 * __kpromoted_limits_begin - see kpromoted_limits_begin()
 * @limits: of the promoter
 * @top:    nodes that are promoted to; must stay
 */
struct kpromoted_limits *__kpromoted_limits_begin(struct kpromoted_limits *limits,
						  const nodemask_t *top)
{
	limits->top = top;
	limits->serial = 0;
	limits->walk = atomic_inc_return(&tier_limit_walks);
	mem_cgroup_flush_stats_ratelimited(NULL);
	return limits;
}

/* Base pages of the group, and of those below, on LRU lists of the fast nodes */
static unsigned long limit_used(struct mem_cgroup *memcg, const nodemask_t *top)
{
	unsigned long used = 0;
	struct lruvec *lruvec;
	enum lru_list lru;
	int nid;

	for_each_node_mask(nid, *top) {
		lruvec = mem_cgroup_lruvec(memcg, NODE_DATA(nid));
		for_each_lru(lru)
			used += lruvec_page_state(lruvec, NR_LRU_BASE + lru);
	}
	return used;
}

/* What is set for a group, and for those above? */
static void limit_look_up(struct kpromoted_limits *limits, struct mem_cgroup *memcg)
{
	struct tier_memcg *settings;

	limits->nr = 0;
	limits->off = tier_memcg_off(memcg);
	if (limits->off || kmmscand_fault(MAX))
		return;
	for (; memcg && limits->nr < TIER_MEMCG_LEVELS; memcg = parent_mem_cgroup(memcg)) {
		settings = tier_memcg_find(memcg);
		if (!settings || READ_ONCE(settings->max) == PAGE_COUNTER_MAX)
			continue;
		limits->group[limits->nr].memcg = memcg;
		limits->group[limits->nr++].settings = settings;
	}
}

static void limit_refresh(struct kpromoted_limits *limits, unsigned int i, bool select)
{
	struct tier_memcg *settings = limits->group[i].settings;
	struct tier_limit *limit = &settings->limit;
	/* Another promoter may have begun a later walk meanwhile. */
	bool next = !select && (int)(limits->walk - limit->walk) > 0;

	if (!next && jiffies - limit->begun < TIER_LIMIT_HALF)
		return;
	tier_limit_measured(limit, limit_used(limits->group[i].memcg, limits->top), jiffies);
	if (next) {
		limit->walk = limits->walk;
		tier_limit_next_walk(limit, READ_ONCE(settings->max));
	}
}

/* Count or select a page, if all groups with a limit have room for it. */
static bool limit_take(struct kpromoted_limits *limits, unsigned long nr, unsigned int score,
		       bool select)
{
	bool allowed = true;
	unsigned int i;

	spin_lock(&tier_limit_lock);
	for (i = 0; i < limits->nr && allowed; i++) {
		struct tier_memcg *settings = limits->group[i].settings;

		limit_refresh(limits, i, select);
		if (!select)
			settings->limit.found.pages[score] += nr;
		allowed = tier_limit_allows(&settings->limit, READ_ONCE(settings->max), nr, score,
					    select);
	}
	for (i = 0; i < limits->nr && allowed; i++)
		tier_limit_charge(&limits->group[i].settings->limit, nr, select);
	spin_unlock(&tier_limit_lock);
	return allowed;
}

/**
 * kpromoted_limits_take - may a page be counted, or selected?
 * @limits: of the promoter
 * @pfn:    first frame of the folio; the caller holds the memory hotplug lock
 * @nr:     base pages
 * @score:  of the page
 * @select: it is selected if it may be
 *
 * Without a reference to the folio the group is a guess, as the size.
 *
 * Context: a promoter.
 */
bool kpromoted_limits_take(struct kpromoted_limits *limits, unsigned long pfn, unsigned long nr,
			   unsigned int score, bool select)
{
	struct mem_cgroup *memcg;
	unsigned int changes;
	bool taken = true;

	rcu_read_lock();
	memcg = page_memcg_check(pfn_to_page(pfn));
	if (memcg) {
		changes = tier_memcg_changes();
		/* Neighbours have the same, most of the time. */
		if (memcg->css.serial_nr != limits->serial || changes != limits->changes) {
			limit_look_up(limits, memcg);
			limits->serial = memcg->css.serial_nr;
			limits->changes = changes;
		}
		taken = !limits->off && (!limits->nr || limit_take(limits, nr, score, select));
	}
	rcu_read_unlock();
	if (!taken && !select)
		count_kmmscand_events(limits->off ? KMMSCAND_MEMCG_OFF : KMMSCAND_MEMCG_MAX, nr);
	return taken;
}
