// SPDX-License-Identifier: GPL-2.0
/*
 * Periods of the slow nodes.
 *
 * In each period (scan/period_ms) the promoters of a slow node move what the administrator's limits
 * allow.  At the end of the period one of them decides (policy.c): how long the windows of visits
 * are, how much each memory control group may exchange, and whether to look for victims (victim.c).
 *
 * Room: what a fast node has free above the high watermark and a reserve of 1/PERIOD_RESERVE.
 * While there is room each candidate moves.  On a full node a candidate moves if a victim goes.
 *
 * Workers read the decisions, and tell of visits and of groups in which something else has become
 * hot.
 *
 * Locking: struct period has a mutex, which is held for no walk and no migration.
 */

#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/demote.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tier.h>

#include "cache.h"
#include "cpu.h"
#include "fault.h"
#include "kmmscand.h"
#include "period.h"
#include "policy.h"
#include "ring.h"
#include "victim.h"

#include <trace/events/tier_scan.h>

/* Of a fast node, one page in so many is left free for allocations, above the high watermark */
#define PERIOD_RESERVE		256
/* First guess of the CPU time of a promotion, and how fast that comes back without a measurement */
#define PERIOD_PAGE_NS		5000
#define PERIOD_FORGET		64
/* Less room than this is none */
#define PERIOD_LEAST		64
/* So many pages tell more than a guess */
#define PERIOD_FEW		256
/* So many young pages tell something about the window; and the mean is of so many periods */
#define PERIOD_YOUNG_LEAST	64UL
#define PERIOD_MEAN		16
/* What an access to fast memory gains, in ns, while nothing measures it */
#define PERIOD_GAIN_NS		150
#define PERIOD_GAIN_PERMILLE	1000

static struct period *periods[MAX_NUMNODES];
static atomic_long_t period_visits;
static atomic_long_t period_young;

/**
 * period_visited - a part of an address space was visited
 * @slow:      slow nodes
 * @window_us: between the last two looks; U32_MAX if more parts follow soon
 * @young:     slow pages with an Accessed bit when the visits of all parts began, or 0
 *
 * Context: any.
 */
void period_visited(const nodemask_t *slow, u32 window_us, unsigned long young)
{
	int nid;

	for_each_node_mask(nid, *slow)
		WRITE_ONCE(periods[nid]->turn_us,
			   min(window_us, READ_ONCE(periods[nid]->turn_us)));
	atomic_long_add(young, &period_young);
	atomic_long_inc(&period_visits);
}

/**
 * period_begin_anew - something else has become hot in a group
 * @nid:   slow node
 * @group: number of the group
 *
 * Context: any.
 */
void period_begin_anew(int nid, unsigned int group)
{
	set_bit(group, periods[nid]->anew);
}

/**
 * period_window_us - time between the looks of a visit
 * @slow: slow nodes
 *
 * Context: any.
 * Return: the shortest that the promoters of the nodes ask for.
 */
u32 period_window_us(const nodemask_t *slow)
{
	u32 window_us = U32_MAX;
	int nid;

	for_each_node_mask(nid, *slow)
		window_us = min(window_us, READ_ONCE(periods[nid]->policy.window_us));
	return window_us;
}

/**
 * period_page_ns - CPU time of a promotion
 * @slow: slow nodes
 *
 * Context: any.
 * Return: the most that a promoter of the nodes needs.
 */
u32 period_page_ns(const nodemask_t *slow)
{
	u64 ns = 0;
	int nid;

	for_each_node_mask(nid, *slow)
		ns = max(ns, READ_ONCE(periods[nid]->page_ns));
	return min(ns, U32_MAX);
}

/**
 * period_quota - how much may be promoted in a period?
 * @slow: slow nodes
 *
 * Context: any.
 * Return: base pages from all of the nodes.
 */
u32 period_quota(const nodemask_t *slow)
{
	unsigned long quota = 0;
	int nid;

	for_each_node_mask(nid, *slow)
		quota += READ_ONCE(periods[nid]->quota);
	return min(quota, U32_MAX);
}

/**
 * period_saturated - would more visits move no more pages?
 * @slow: slow nodes
 *
 * Context: any.
 */
bool period_saturated(const nodemask_t *slow)
{
	int nid;

	for_each_node_mask(nid, *slow) {
		if (!READ_ONCE(periods[nid]->policy.saturated))
			return false;
	}
	return true;
}

/**
 * period_loss - which part of the candidates of a group does not move?
 * @slow:  slow nodes
 * @group: number of the group
 *
 * Context: any.
 * Return: the mean of the nodes' candidates, of 1,024.
 */
u32 period_loss(const nodemask_t *slow, unsigned int group)
{
	u64 sum = 0, weight = 0;
	int nid;

	for_each_node_mask(nid, *slow) {
		const struct policy_bucket *bucket = &periods[nid]->bucket[group];
		u32 of = READ_ONCE(bucket->weight);

		sum += (u64)of * READ_ONCE(bucket->loss);
		weight += of;
	}
	return weight ? div64_u64(sum, weight) : 0;
}

/**
 * period_room - how many base pages may be promoted to a node without a victim?
 * @nid: fast node
 *
 * Context: any; a snapshot.
 */
unsigned long period_room(int nid)
{
	unsigned long free = tier_target_headroom(nid);

	free -= min(free, node_present_pages(nid) / PERIOD_RESERVE);
	/* Not for a few pages: each batch flushes TLBs. */
	return free < PERIOD_LEAST ? 0 : free;
}

/**
 * period_roomy - may a batch be promoted to a node without a victim?
 * @nid: fast node
 *
 * Context: any; a snapshot.
 */
bool period_roomy(int nid)
{
	return period_room(nid) > PERIOD_BATCH + victim_made(nid);
}

/**
 * period_stuck - do candidates have to wait for victims?
 * @p: of their slow node
 *
 * Victims of an attempt are soon in use again.  So candidates wait in the ring until the attempt
 * ends that the end of the period begins.  A candidate that finds room does not wait.
 *
 * Context: a promoter.
 */
bool period_stuck(const struct period *p)
{
	int nid;

	if (!demotion_enabled())
		return false;
	for_each_node_mask(nid, p->nodes->top) {
		if (period_roomy(nid) || victim_known(nid) ||
		    (victim_made(nid) && period_room(nid)))
			return false;
	}
	return true;
}

/**
 * period_cost - pages have been promoted
 * @p:     of their slow node; the lock is held
 * @ns:    CPU time
 * @moved: base pages that have moved, none of them in a large folio
 *
 * A failure costs less than a promotion, and a few pages cost more each, so only full batches
 * count.
 */
void period_cost(struct period *p, u64 ns, unsigned long moved)
{
	u64 cost;

	if (moved < PERIOD_FEW)
		return;
	/* A thread pays for interrupts, and for what a hypervisor takes away.  No page is free. */
	cost = clamp_t(u64, div64_u64(ns, moved), 100, p->page_ns + p->page_ns / 4);
	WRITE_ONCE(p->page_ns, p->page_ns - p->page_ns / 8 + cost / 8);
	p->measured = true;
}

/**
 * period_demoted - pages have been demoted for candidates
 * @p:       of the slow node; the lock is held
 * @ns:      CPU time, with the time for pages that stayed
 * @demoted: base pages
 */
void period_demoted(struct period *p, u64 ns, unsigned long demoted)
{
	p->demoting += ns;
	p->demoted += demoted;
	if (p->demoted < PERIOD_FEW)
		return;
	p->demote_ns = (3 * p->demote_ns +
			min(div64_u64(p->demoting, p->demoted), 2 * p->demote_ns)) / 4;
	p->demoting = 0;
	p->demoted = 0;
}

/* Base pages that bandwidth and CPU time allow in a period; on a full node each needs a victim */
static unsigned long period_new_quota(struct period *p, unsigned int period_ms, bool full)
{
	u64 ns = kmmscand_share_ns(&kmmscand_promote_share, (u64)period_ms * NSEC_PER_MSEC);
	unsigned int nodes = nodes_weight(p->nodes->slow);
	unsigned long cpu, rate;

	ns = min_t(u64, div_u64(ns, nodes), (u64)period_ms * NSEC_PER_MSEC *
		   kmmscand_share_threads(&kmmscand_promote_share, nodes));
	cpu = div64_u64(ns, p->page_ns + (full ? p->demote_ns : 0));
	rate = mult_frac(kmmscand_rate(), period_ms, MSEC_PER_SEC);
	if (kmmscand_fault(RATE))
		rate = U32_MAX;
	if (kmmscand_fault(CPU))
		cpu = U32_MAX;
	return policy_quota(min(rate, U32_MAX), clamp_t(unsigned long, cpu, PERIOD_BATCH, U32_MAX),
			    PERIOD_GAIN_PERMILLE);
}

/* How much have the groups found and promoted, and what of that again? */
static void period_learn_groups(struct period *p)
{
	struct period_counts *now = &p->now, *before = &p->before;
	u64 now_ms = ktime_to_ms(ktime_get());
	int i;

	*before = *now;
	now->pushed = ring_counts(p->nid, now->gone, now->waiting);
	tier_promoted_pages(p->nid, now->promoted, now->again);
	mutex_lock(&p->lock);
	for (i = 0; i < TIER_GROUPS; i++) {
		unsigned long found = now->gone[i] - before->gone[i];
		unsigned long moved = now->promoted[i] - before->promoted[i];
		unsigned long again = now->again[i] - before->again[i];
		unsigned long exchanged = min(p->last.exchanged[i], moved);
		struct victim_need *need = &p->last.need[i];

		need->hot += now->waiting[i];
		need->waiting += now->waiting[i];
		policy_bucket_moved(&p->bucket[i], min(found, U32_MAX), min(moved, U32_MAX));
		if (exchanged)
			policy_bucket_update(&p->bucket[i], exchanged, min(again, exchanged),
					     now_ms);
	}
	mutex_unlock(&p->lock);
}

/*
 * What have visits found since the window was updated?  One visit of a large address space tells
 * little, so visits tell at the end of a turn, or after a period of one.  They tell enough when
 * they have begun with as many young pages as in a mean period: many small address spaces without
 * a candidate must not lengthen the windows of all.
 */
static void period_learn_visits(struct period *p, struct policy_period *period)
{
	unsigned long visits = atomic_long_read(&period_visits);
	unsigned long young = atomic_long_read(&period_young);
	unsigned long pushed = p->now.pushed - p->pushed;
	u64 quota = period->quota;

	p->since += visits != p->visits;
	quota *= max(p->since, 1U);
	period->quota = min(quota, U32_MAX);
	period->pushed = min(pushed, U32_MAX);
	period->visited = young - p->learned >= max(p->mean, PERIOD_YOUNG_LEAST);
	p->mean += (long)(young - p->young - p->mean) / PERIOD_MEAN;
	period->window_us = READ_ONCE(p->turn_us);
	/* No visit has told. */
	if (period->window_us == U32_MAX)
		period->window_us = p->policy.window_us;
	p->visits = visits;
	p->young = young;
	WRITE_ONCE(p->turn_us, U32_MAX);
}

/* They are used up. */
static void period_learned(struct period *p)
{
	p->since = 0;
	p->pushed = p->now.pushed;
	p->learned = p->young;
}

/* Look for victims on full fast nodes. */
static void period_seek(struct period *p, unsigned long quota)
{
	DECLARE_BITMAP(later, MAX_NUMNODES) = {};
	u32 left, longest = 0;
	unsigned long found = 0;
	int nid, group;

	for (group = 0; group < TIER_GROUPS; group++)
		found += p->last.need[group].hot;
	for_each_node_mask(nid, p->nodes->top) {
		struct policy_period period = {
			.pushed = min(found, U32_MAX),
			.room = min(period_room(nid), U32_MAX),
			.quota = quota,
			.full = !period_roomy(nid),
		};

		left = victim_seek(nid, &period, p->last.need, p->page_ns);
		if (left == VICTIM_LATER)
			set_bit(nid, later);
		else
			longest = max(longest, left);
	}
	if (longest && !kthread_should_stop())
		schedule_timeout_idle(msecs_to_jiffies(longest));
	for_each_node_mask(nid, p->nodes->top) {
		if (!test_bit(nid, later))
			victim_end(nid);
	}
}

/* The window of the next period */
static void period_decide(struct period *p, struct policy_period *period)
{
	unsigned long room = 0, known = 0, group;
	bool anew = false;
	int nid;

	for_each_node_mask(nid, p->nodes->top) {
		period->full &= !period_roomy(nid);
		period->pending |= demotion_enabled() && victim_pending(nid);
		room += period_room(nid);
		known += victim_expected(nid);
	}
	period->room = min(room, U32_MAX);
	period->victims = period->full ? min(known, U32_MAX) : 0;
	period->window_max_us = policy_window_max(PERIOD_GAIN_NS, min(p->page_ns, U32_MAX),
						  period->full);
	for_each_set_bit(group, p->anew, TIER_GROUPS) {
		clear_bit(group, p->anew);
		policy_bucket_begin(&p->bucket[group]);
		for_each_node_mask(nid, p->nodes->top)
			victim_begin(nid, group);
		anew = true;
	}
	if ((anew && policy_node_begin(&p->policy, ktime_to_ms(ktime_get()))) ||
	    policy_update_window(&p->policy, period))
		period_learned(p);
	trace_tier_promote_round(p->nid, period->pushed, period->quota, p->moved, room, known,
				 p->policy.window_us);
}

/**
 * period_end - a period is over: decide about the next one
 * @p: of a slow node
 *
 * Context: the first promoter of the node; may sleep.
 */
void period_end(struct period *p)
{
	unsigned int period_ms = kmmscand_period_ms;
	struct policy_period period = { .full = true };
	unsigned long begun = jiffies;

	mutex_lock(&p->lock);
	p->last = p->groups;
	memset(&p->groups, 0, sizeof(p->groups));
	period.quota = p->quota;
	mutex_unlock(&p->lock);

	victim_period();
	tier_demoted_age(p->nid);
	period_learn_groups(p);
	if (demotion_enabled())
		period_seek(p, period.quota);
	period_learn_visits(p, &period);

	mutex_lock(&p->lock);
	period_decide(p, &period);
	if (!p->measured)
		WRITE_ONCE(p->page_ns, p->page_ns - p->page_ns / PERIOD_FORGET +
			   PERIOD_PAGE_NS / PERIOD_FORGET);
	p->measured = false;
	p->demote_ns -= p->demote_ns / PERIOD_FORGET - PERIOD_PAGE_NS / PERIOD_FORGET;
	p->moved = 0;
	p->used = 0;
	WRITE_ONCE(p->quota, period_new_quota(p, period_ms, period.full));
	WRITE_ONCE(p->ends, begun + msecs_to_jiffies(period_ms));
	mutex_unlock(&p->lock);
	if (period_stuck(p) && !period.pending)
		ring_drop(p->nid);
	cache_period(p->nid);
}

/**
 * period_start - prepare a slow node
 * @nid:   slow node
 * @nodes: tiers; must stay
 *
 * Context: may sleep; no worker runs.
 * Return: its state, or an ERR_PTR(); period_stop() is to be called in both cases.
 */
struct period *period_start(int nid, const struct kmmscand_nodes *nodes)
{
	struct period *p = kvzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return ERR_PTR(-ENOMEM);
	p->nid = nid;
	p->nodes = nodes;
	mutex_init(&p->lock);
	p->page_ns = PERIOD_PAGE_NS;
	p->demote_ns = PERIOD_PAGE_NS;
	p->ends = jiffies;
	p->refilled = jiffies;
	p->turn_us = U32_MAX;
	p->visits = atomic_long_read(&period_visits);
	p->young = atomic_long_read(&period_young);
	p->learned = p->young;
	policy_node_begin(&p->policy, 0);
	periods[nid] = p;
	return p;
}

/**
 * period_stop - forget a slow node
 * @nid: slow node
 *
 * Context: may sleep; no worker and no promoter runs.
 */
void period_stop(int nid)
{
	kvfree(periods[nid]);
	periods[nid] = NULL;
}
