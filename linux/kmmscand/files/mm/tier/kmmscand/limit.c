// SPDX-License-Identifier: GPL-2.0
/*
 * Limits: which candidates may a promoter take, as far as memory control groups are concerned?
 *
 * While a group has settings (memcg.c), a promoter asks here for each candidate.  Pages count for
 * the group that they are charged to, whichever process maps them.  For pages of groups that have
 * no settings, and none above, that is all.
 *
 * Off: a page of a group with a limit of 0, or below one, is not taken.
 *
 * Limits: a page is taken only if each group with a limit, from its own up, has room for it.
 *
 * Room is what the statistics leave of the limit.  They are added up from below every two seconds
 * by a timer, which waits for its CPU if that is idle; after four seconds the promoter does it.
 * What has been taken is counted by itself for as long as it may be missing in them
 * (TIER_LIMIT_HALF), in the settings of the group, which all promoters share.  What then could not
 * be migrated counts all the same.  What the group allocates on fast nodes is seen late.  Not seen
 * are pages that wait to be put on a list (31 for each CPU), and what is not added up while it is
 * less than 64 updates for each CPU.
 *
 * Locking: the settings are kept by RCU, and what is in struct tier_limit is under tier_limit_lock,
 * because all groups up to the root are charged, or none.  Promoters are few.
 */

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

/* Have all groups with a limit room for a page?  Then take the page if @take. */
static bool limit_take(struct kpromoted_limits *limits, unsigned long nr, bool take)
{
	bool allowed = true;
	unsigned int i;

	spin_lock(&tier_limit_lock);
	for (i = 0; i < limits->nr && allowed; i++) {
		struct tier_memcg *settings = limits->group[i].settings;
		struct tier_limit *limit = &settings->limit;

		if (jiffies - limit->begun >= TIER_LIMIT_HALF)
			tier_limit_measured(limit, limit_used(limits->group[i].memcg, limits->top),
					    jiffies);
		allowed = tier_limit_room(limit, READ_ONCE(settings->max)) >= nr;
	}
	for (i = 0; i < limits->nr && allowed && take; i++)
		limits->group[i].settings->limit.recent[0] += nr;
	spin_unlock(&tier_limit_lock);
	return allowed;
}

/**
 * kpromoted_limits_take - may a candidate be promoted?
 * @limits: of the promoter
 * @pfn:    first frame of the folio
 * @nr:     base pages
 * @take:   the candidate moves, if so
 *
 * Without a reference to the folio the group is a guess, as the size.
 *
 * Context: a promoter, with online memory held (get_online_mems()).
 */
bool kpromoted_limits_take(struct kpromoted_limits *limits, unsigned long pfn, unsigned long nr,
			   bool take)
{
	struct page *page = pfn_to_online_page(pfn);
	struct mem_cgroup *memcg;
	unsigned int changes;
	bool taken = true;

	rcu_read_lock();
	memcg = page ? page_memcg_check(page) : NULL;
	if (memcg) {
		changes = tier_memcg_changes();
		/* Neighbours have the same, most of the time. */
		if (memcg->css.serial_nr != limits->serial || changes != limits->changes) {
			limit_look_up(limits, memcg);
			limits->serial = memcg->css.serial_nr;
			limits->changes = changes;
		}
		taken = !limits->off && (!limits->nr || limit_take(limits, nr, take));
	}
	rcu_read_unlock();
	if (!taken)
		count_kmmscand_events(limits->off ? KMMSCAND_MEMCG_OFF : KMMSCAND_MEMCG_MAX, nr);
	return taken;
}
