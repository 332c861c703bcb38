// SPDX-License-Identifier: GPL-2.0
/*
 * kpromoted<N>: promoters of the slow nodes.
 *
 * A promoter takes candidates from the ring of its slow node as workers push them, and hands them
 * to tier_promote() in batches for the same fast node.  In each period (period.c) the promoters of
 * a node move what the administrator's limits allow: promote/rate_mbps, which NUMA balancing's
 * tiering mode shares on the fast node, and promote_cpu_permille.  Promotion never reclaims to
 * disk.
 *
 * Target: a candidate says to which fast node it should go, and whether it may go to another one.
 * Without a say the target is the nearest node.  If that one has no room, the nearest one with room
 * is taken.  While all fast nodes are full and no victims are known, candidates wait in the ring.
 * A candidate that finds no place is dropped: the next visit finds the page again.
 *
 * A slow node has several promoters (thread.c).  The first one waits for candidates and ends
 * periods.  A promoter that leaves a batch in the ring wakes the next one.
 *
 * Locking: the promoters of a node share struct period, under its mutex, which they hold while they
 * choose a batch.  A promoter then holds the lock of memory hotplug, too, so each frame of the
 * batch has a struct page.
 */

#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/demote.h>
#include <linux/memory-tiers.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>
#include <linux/tier.h>
#include <linux/vmstat.h>
#include <linux/wait.h>

#include "control.h"
#include "cpu.h"
#include "events.h"
#include "fault.h"
#include "kmmscand.h"
#include "kpromoted.h"
#include "period.h"
#include "policy.h"
#include "ring.h"
#include "thread.h"
#include "victim.h"

/* How long to wait for bandwidth */
#define KPROMOTED_RATE_MSECS	100
/* A page that fails costs one part in so many of one that moves */
#define KPROMOTED_FAILURE	8

/* What is known of a fast node in a batch */
struct kpromoted_room {
	long left;			/* base pages, free or of victims */
	long free;			/* of these, for which no victims are needed */
	unsigned long exchanged;	/* taken of the others */
};

struct kpromoted {
	struct kmmscand_thread *thread;
	struct period *period;
	bool waits;			/* for candidates, and not for quota */
	bool stuck;			/* the others in the ring wait for victims */
	struct kpromoted_limits limits;
	struct candidate taken[PERIOD_BATCH];
	struct tier_range chosen[PERIOD_BATCH], list[PERIOD_BATCH];
	struct kpromoted_room room[MAX_NUMNODES];
};

enum kpromoted_result {
	KPROMOTED_TRIED,
	KPROMOTED_NO_CANDIDATE,
	KPROMOTED_NO_QUOTA,
};

/* Add what the bandwidth has earned.  Returns the base pages that it allows now. */
static unsigned long kpromoted_tokens(struct period *p)
{
	/* Per second */
	long limit = kmmscand_rate();
	unsigned long now = jiffies, earned;

	/* What was not used is kept for one second. */
	if (now - p->refilled > HZ)
		p->refilled = now - HZ;
	earned = mult_frac(limit, now - p->refilled, HZ);
	/* What is no whole page yet is earned the next time. */
	if (earned)
		p->refilled += mult_frac((unsigned long)HZ, earned, limit);
	p->tokens = min_t(long, p->tokens + earned, limit);
	if (kmmscand_fault(RATE))
		return PERIOD_BATCH;
	return max(p->tokens, 0L);
}

/* Base pages that NUMA balancing's limit allows to promote to a node, in this second */
static long kpromoted_shared_rate(int nid)
{
#ifdef CONFIG_NUMA_BALANCING
	long limit = kmmscand_rate();
	struct pglist_data *pgdat = NODE_DATA(nid);
	unsigned int now = jiffies_to_msecs(jiffies);
	unsigned int start = READ_ONCE(pgdat->nbp_rl_start);
	unsigned long seen = node_page_state(pgdat, PGPROMOTE_CANDIDATE);
	long used;

	if (now - start > MSEC_PER_SEC && cmpxchg(&pgdat->nbp_rl_start, start, now) == start)
		WRITE_ONCE(pgdat->nbp_rl_nr_cand, seen);
	/* Others may begin a new window meanwhile, later than seen. */
	used = max(0L, (long)(seen - READ_ONCE(pgdat->nbp_rl_nr_cand)));
	return kmmscand_fault(RATE) ? LONG_MAX : limit - used;
#else
	return LONG_MAX;
#endif
}

/* The most of these, for all fast nodes */
static unsigned long kpromoted_shared_rates(const nodemask_t *top)
{
	long most = 0;
	int nid;

	for_each_node_mask(nid, *top)
		most = max(most, kpromoted_shared_rate(nid));
	return most;
}

/* Look at the fast nodes. */
static void kpromoted_look(struct kpromoted *k)
{
	int nid;

	for_each_node_mask(nid, k->period->nodes->top) {
		struct kpromoted_room *room = &k->room[nid];

		room->left = period_room(nid);
		room->free = demotion_enabled() ? room->left - victim_made(nid) : room->left;
		if (demotion_enabled() && !period_roomy(nid))
			room->left += victim_known(nid);
		room->left = min(room->left, kpromoted_shared_rate(nid));
		room->exchanged = 0;
	}
}

/* Does a candidate need no victims on a node? */
static bool kpromoted_free(const struct kpromoted *k, const struct candidate *c, int nid)
{
	return k->room[nid].free >= 1L << c->order;
}

/* May a candidate go to a node? */
static bool kpromoted_fits(struct kpromoted *k, const struct candidate *c, int nid)
{
	const struct kpromoted_room *room = &k->room[nid];
	struct period *p = k->period;

	if (room->left < 1L << c->order)
		return false;
	if (kpromoted_free(k, c, nid))
		return true;
	if (!victim_serves(nid, c->group))
		return false;
	return p->groups.exchanged[c->group] <
	       policy_bucket_quota(&p->bucket[c->group], min(p->quota, U32_MAX));
}

/* The fast node for a candidate, or NUMA_NO_NODE: at first without a victim, then the nearest */
static int kpromoted_place(struct kpromoted *k, const struct candidate *c)
{
	int want = kmmscand_fault(TARGET) ? NUMA_NO_NODE : c->nid;
	int from = want != NUMA_NO_NODE ? want : k->period->nid, best = NUMA_NO_NODE, nid;
	bool free, best_free;

	for_each_node_mask(nid, k->period->nodes->top) {
		if (!kpromoted_fits(k, c, nid))
			continue;
		if (nid != want && (c->strict ||
				    (want != NUMA_NO_NODE && kmmscand_fault(FALLBACK))))
			continue;
		if (best == NUMA_NO_NODE)
			best = nid;
		free = kpromoted_free(k, c, nid);
		best_free = kpromoted_free(k, c, best);
		if (free > best_free || (free == best_free && node_distance(from, nid) <
					 node_distance(from, best)))
			best = nid;
	}
	if (best != NUMA_NO_NODE && want != NUMA_NO_NODE && best != want)
		count_kmmscand_events(KMMSCAND_TARGET_FALLBACK, 1UL << c->order);
	return best;
}

/* Give candidates their targets.  Returns how many have one. */
static unsigned int kpromoted_choose(struct kpromoted *k, unsigned int nr)
{
	struct period *p = k->period;
	struct kpromoted_limits *limits = kpromoted_limits_begin(&k->limits, &p->nodes->top);
	unsigned int i, kept = 0;

	for (i = 0; i < nr; i++) {
		const struct candidate *c = &k->taken[i];
		struct victim_need *need = &p->groups.need[c->group];
		unsigned long pages = 1UL << c->order;
		int nid = kpromoted_place(k, c);

		/* A group at its limit needs no victims. */
		if (limits && !kpromoted_limits_take(limits, c->pfn, pages, nid != NUMA_NO_NODE))
			continue;
		need->hot += pages;
		if (nid == NUMA_NO_NODE) {
			need->waiting += pages;
			continue;
		}
		if (kpromoted_free(k, c, nid)) {
			k->room[nid].free -= pages;
		} else {
			k->room[nid].exchanged += pages;
			p->groups.exchanged[c->group] += pages;
		}
		k->room[nid].left -= pages;
		p->tokens -= pages;
		p->used += pages;
		k->chosen[kept++] = (struct tier_range) { .pfn = c->pfn, .nr = pages, .nid = nid };
	}
	return kept;
}

/* Base pages of candidates that wait for the victims of a node, as far as they may move */
static unsigned long kpromoted_next(struct kpromoted *k, int target)
{
	struct period *p = k->period;
	unsigned long sum = 0, quota, used;
	unsigned int group;

	for (group = 0; group < TIER_GROUPS; group++) {
		if (!victim_serves(target, group))
			continue;
		quota = policy_bucket_quota(&p->bucket[group], min(p->quota, U32_MAX));
		used = READ_ONCE(p->groups.exchanged[group]);
		sum += min(ring_waiting(p->nid, group), quota - min(quota, used));
	}
	used = READ_ONCE(p->used);
	return min(sum / nodes_weight(p->nodes->top), p->quota - min(p->quota, used));
}

/* Promote ranges that have the same target, in the order of page tables. */
static void kpromoted_move(struct kpromoted *k, int target, unsigned int nr)
{
	struct tier_promote_stats stats = {};
	unsigned long pages = 0, failed;
	struct period *p = k->period;
	u64 start, ns = 0, demoting = 0;
	unsigned long demoted = 0;
	unsigned int i;
	bool room;

	for (i = 0; i < nr; i++)
		pages += k->list[i].nr;
	room = period_room(target) >= pages;
	/* Victims go in full lists, and soon, also for the candidates that come next. */
	if (!room && demotion_enabled()) {
		start = task_sched_runtime(current);
		demoted = victim_take(target, max(pages + kpromoted_next(k, target),
						  PERIOD_BATCH));
		demoting = task_sched_runtime(current) - start;
		room = demoted || period_room(target);
	}
	if (room) {
		start = task_sched_runtime(current);
		tier_promote(k->list, nr, &stats);
		ns = task_sched_runtime(current) - start;
	}
	failed = pages - min(pages, stats.moved);
	victim_used(target, mult_frac(stats.moved, k->room[target].exchanged, pages));
#ifdef CONFIG_NUMA_BALANCING
	mod_node_page_state(NODE_DATA(target), PGPROMOTE_CANDIDATE,
			    stats.moved + failed / KPROMOTED_FAILURE);
#endif
	mutex_lock(&p->lock);
	period_demoted(p, demoting, demoted);
	p->moved += stats.moved;
	p->tokens += failed;
	p->used -= min(p->used, failed - failed / KPROMOTED_FAILURE);
	/* No large folio is among them. */
	if (pages == nr)
		period_cost(p, ns, stats.moved);
	mutex_unlock(&p->lock);
}

/* Base pages that may be promoted without a victim */
static unsigned long kpromoted_rooms(const struct period *p)
{
	unsigned long sum = 0, room;
	int nid;

	for_each_node_mask(nid, p->nodes->top) {
		room = period_room(nid);
		sum += room - min(room, victim_made(nid));
	}
	return sum;
}

/* Take a batch of candidates, and choose. */
static enum kpromoted_result kpromoted_take(struct kpromoted *k, unsigned int *nr)
{
	enum kpromoted_result result = KPROMOTED_NO_QUOTA;
	struct period *p = k->period;
	unsigned long left;

	mutex_lock(&p->lock);
	left = min(p->quota - min(p->quota, p->used), kpromoted_tokens(p));
	left = min(left, kpromoted_shared_rates(&p->nodes->top));
	k->stuck = period_stuck(p);
	if (k->stuck)
		left = min(left, kpromoted_rooms(p));
	if (!left || !try_get_online_mems())
		goto unlock;
	*nr = ring_pop(p->nid, k->taken, PERIOD_BATCH, min(left, PERIOD_BATCH));
	result = *nr ? KPROMOTED_TRIED : KPROMOTED_NO_CANDIDATE;
	if (*nr) {
		kpromoted_look(k);
		*nr = kpromoted_choose(k, *nr);
	}
	put_online_mems();
unlock:
	mutex_unlock(&p->lock);
	return result;
}

/* One batch of candidates */
static enum kpromoted_result kpromoted_batch(struct kpromoted *k)
{
	enum kpromoted_result result;
	unsigned int nr = 0, i, part;
	int nid;

	result = kpromoted_take(k, &nr);
	if (result != KPROMOTED_TRIED)
		return result;
	/* More has been found than one promoter can move. */
	if (ring_queued(k->period->nid) >= PERIOD_BATCH)
		thread_help(k->thread, nodes_weight(k->period->nodes->slow));
	for_each_node_mask(nid, k->period->nodes->top) {
		part = 0;
		for (i = 0; i < nr; i++) {
			if (k->chosen[i].nid == nid)
				k->list[part++] = k->chosen[i];
		}
		if (part)
			kpromoted_move(k, nid, part);
	}
	return result;
}

static void *kpromoted_alloc(struct kmmscand_thread *t)
{
	struct kpromoted *k = kvzalloc(sizeof(*k), GFP_KERNEL);

	if (!k)
		return NULL;
	k->thread = t;
	k->period = t->arg;
	return k;
}

static bool kpromoted_work(struct kmmscand_thread *t)
{
	struct kpromoted *k = t->data;
	enum kpromoted_result result;

	if (!t->nr && time_after_eq(jiffies, READ_ONCE(k->period->ends)))
		period_end(k->period);
	result = kpromoted_batch(k);
	k->waits = result == KPROMOTED_NO_CANDIDATE;
	return result == KPROMOTED_TRIED && !k->stuck;
}

/* Sleep until there may be something to promote. */
static void kpromoted_sleep(struct kmmscand_thread *t)
{
	const struct kpromoted *k = t->data;
	long left = max_t(long, READ_ONCE(k->period->ends) - jiffies, 1);

	if (k->waits)
		wait_event_freezable_timeout(*ring_wait(t->nid), kthread_should_stop() ||
					     !ring_empty(t->nid), left);
	else if (!kthread_should_stop())
		schedule_timeout_idle(min(left, msecs_to_jiffies(KPROMOTED_RATE_MSECS)));
}

static const struct thread_kind kpromoted_kind = {
	.name	= "kpromoted%d",
	.share	= &kmmscand_promote_share,
	.alloc	= kpromoted_alloc,
	.work	= kpromoted_work,
	.sleep	= kpromoted_sleep,
};

/**
 * kpromoted_start - promote from a node
 * @p: of the slow node
 *
 * Context: may sleep; no worker runs.
 * Return: the first promoter or an ERR_PTR().
 */
struct kmmscand_thread *kpromoted_start(struct period *p)
{
	return thread_start(&kpromoted_kind, p->nid, p);
}
