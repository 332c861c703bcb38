// SPDX-License-Identifier: GPL-2.0
/*
 * kpromoted: one thread per slow node that promotes the hottest pages of the node.
 *
 * In each epoch it counts the pages of its node by score (hotness_count()), finds out
 * how many pages it can afford, and takes the lowest score for threshold with which it
 * affords all pages that reach it.  So the hottest pages move first; what is over
 * waits, and moves later if it is still hot.  Pages move in the order of their frames,
 * neighbours together, large folios whole.
 *
 * What can be afforded is the least of
 *  - the bandwidth: promote_rate_mbps.  Pages that NUMA balancing's tiering mode wants
 *    to promote to the same node count, too, and ours count for its limit: both use
 *    PGPROMOTE_CANDIDATE and the window of struct pglist_data.
 *  - CPU time: promote_cpu_pct of one CPU, at the cost per page that was measured, but
 *    always enough for a batch.
 *  - room: what is free above the high watermark, and a batch more where demotion can
 *    make room.  Promotion never reclaims to disk.
 *
 * A target that stays full, or from which much of what has been promoted is demoted
 * again soon (bounce.c), raises the threshold further (pressure); migrations that fail
 * make the budget smaller (backoff).
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/err.h>
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>
#include <linux/tier.h>
#include <linux/vmstat.h>

#include "events.h"
#include "hotness.h"
#include "kmmscand.h"
#include "policy.h"

#include <trace/events/kmmscand.h>

/* Base pages (or one larger folio) to promote before CPU time is looked at again */
#define KPROMOTED_BATCH		512UL
#define KPROMOTED_RANGES	256
/* How long to let kswapd make room before giving up for the epoch */
#define KPROMOTED_ROOM_TRIES	8	/* in a row, without any progress */
#define KPROMOTED_ROOM_MSECS	50
/* How long to wait for bandwidth */
#define KPROMOTED_RATE_MSECS	100
/* First guess of what a page costs, in ns */
#define KPROMOTED_PAGE_NS	5000

/* State of the thread, and used by nothing else while that runs */
struct kpromoted {
	struct task_struct *task;
	int nid;
	struct kmmscand_nodes nodes;
	struct kmmscand_cpu cpu;

	struct kpromoted_pressure pressure;
	struct kpromoted_bounces bounces;
	struct kpromoted_backoff backoff;
	u64 page_ns;			/* average CPU time per page */
	long tokens;			/* base pages that the bandwidth allows now */
	unsigned long refilled;		/* in jiffies */

	struct tier_range ranges[KPROMOTED_RANGES];
	unsigned long first[KPROMOTED_RANGES];	/* frame of each range */
};

/* Effective threshold by slow node, for scanners; 0 without a promoter */
static unsigned int thresholds[MAX_NUMNODES];

/**
 * kpromoted_threshold - score that pages of a slow node need just now
 * @nid: slow node
 *
 * Context: any.
 */
unsigned int kpromoted_threshold(int nid)
{
	return READ_ONCE(thresholds[nid]) ?: READ_ONCE(kmmscand_tunables.hot_threshold);
}

/*
 * The nearest top-tier node with room, or if none has any, the nearest one that
 * demotion can make room on, or NUMA_NO_NODE.
 */
static int kpromoted_target(struct kpromoted *p)
{
	int nid, best = NUMA_NO_NODE;
	bool room, best_room = false;

	for_each_node_mask(nid, p->nodes.top) {
		room = tier_target_headroom(nid) > KPROMOTED_BATCH;
		if (!room && !numa_demotion_enabled)
			continue;
		if (best != NUMA_NO_NODE && best_room > room)
			continue;
		if (best != NUMA_NO_NODE && best_room == room &&
		    node_distance(p->nid, nid) >= node_distance(p->nid, best))
			continue;
		best = nid;
		best_room = room;
	}
	return best;
}

/* Of @nr base pages, how many does the bandwidth of the target allow now? */
static unsigned long kpromoted_rate(struct kpromoted *p, int target, unsigned long nr)
{
	/* Per second */
	long limit = (long)READ_ONCE(kmmscand_tunables.promote_rate_mbps) << (20 - PAGE_SHIFT);
	unsigned long now = jiffies;

	/* What was not used is kept for one second. */
	p->tokens += mult_frac(limit, min(now - p->refilled, (unsigned long)HZ), HZ);
	p->tokens = min(p->tokens, limit);
	p->refilled = now;
	/* A large folio may have left a debt. */
	if (p->tokens <= 0)
		return 0;
	nr = min_t(unsigned long, nr, p->tokens);

#ifdef CONFIG_NUMA_BALANCING
	{
		/* As NUMA balancing does it: so many candidates in a second */
		struct pglist_data *pgdat = NODE_DATA(target);
		unsigned int msecs = jiffies_to_msecs(now);
		unsigned int start = READ_ONCE(pgdat->nbp_rl_start);
		unsigned long seen = node_page_state(pgdat, PGPROMOTE_CANDIDATE);
		long used;

		if (msecs - start > MSEC_PER_SEC &&
		    cmpxchg(&pgdat->nbp_rl_start, start, msecs) == start)
			WRITE_ONCE(pgdat->nbp_rl_nr_cand, seen);
		/* Others may begin a new window meanwhile, later than seen. */
		used = max(0L, (long)(seen - READ_ONCE(pgdat->nbp_rl_nr_cand)));
		nr = used < limit ? min_t(unsigned long, nr, limit - used) : 0;
	}
#endif
	return nr;
}

/* The promoter takes @nr base pages from the bandwidth. */
static void kpromoted_charge(struct kpromoted *p, int target, unsigned long nr)
{
	p->tokens -= nr;
#ifdef CONFIG_NUMA_BALANCING
	mod_node_page_state(NODE_DATA(target), PGPROMOTE_CANDIDATE, nr);
#endif
	count_tier_events(KMMSCAND_CANDIDATE, nr);
}

/* Base pages that can be afforded in one epoch of @period_ms */
static unsigned long kpromoted_budget(struct kpromoted *p, int target, unsigned int period_ms)
{
	unsigned long cpu, room, rate;

	cpu = div64_u64((u64)period_ms * NSEC_PER_MSEC / 100 *
			READ_ONCE(kmmscand_tunables.promote_cpu_pct), p->page_ns);
	room = tier_target_headroom(target);
	if (numa_demotion_enabled)
		room += KPROMOTED_BATCH;
	rate = mult_frac((unsigned long)READ_ONCE(kmmscand_tunables.promote_rate_mbps) <<
			 (20 - PAGE_SHIFT), period_ms, MSEC_PER_SEC);
	return max(min3(cpu, room, rate) >> p->backoff.shift, KPROMOTED_BATCH);
}

/*
 * Promote the ranges.  Returns false if there was no room for all of them, also not
 * after waiting for kswapd, at the longest until @end_jiffies.
 */
static bool kpromoted_move(struct kpromoted *p, unsigned int nr, unsigned long end_jiffies,
			   unsigned long *moved)
{
	unsigned int done = 0, end, tries = 0, i;
	u64 start, cost;

	while (done < nr && !kthread_should_stop()) {
		struct tier_promote_stats stats = {};
		unsigned long tried;

		start = task_sched_runtime(current);
		end = done + tier_promote(p->ranges + done, nr - done, &stats);
		if (end > done || stats.moved)
			tries = 0;
		*moved += stats.moved;
		tried = stats.moved + stats.isolate + stats.busy + stats.nomem + stats.skipped;
		kpromoted_backoff_count(&p->backoff, stats.moved, tried - stats.moved);
		if (tried) {
			/* An average over some batches; one page is never free. */
			cost = div64_u64(task_sched_runtime(current) - start, tried);
			p->page_ns = max_t(u64, (p->page_ns * 7 + cost) / 8, 100);
		}
		/*
		 * The frames that have been vacated will be reused, often for
		 * what is demoted next; it must not inherit the heat.  What failed
		 * has to earn its score again, which keeps us from trying it in
		 * every epoch.
		 */
		for (i = done; i < end; i++)
			hotness_forget(p->ranges[i].pfn, p->ranges[i].nr);
		/* The last one may have been left half way. */
		if (end < nr)
			hotness_forget(p->first[end], p->ranges[end].pfn - p->first[end]);
		done = end;

		kmmscand_cpu_pay(&p->cpu, READ_ONCE(kmmscand_tunables.promote_cpu_pct));
		if (done == nr)
			break;
		/* No room.  If kswapd can demote, it has been woken: wait a bit. */
		if (!numa_demotion_enabled || ++tries > KPROMOTED_ROOM_TRIES ||
		    time_after_eq(jiffies, end_jiffies))
			return false;
		kmmscand_sleep(&p->cpu, KPROMOTED_ROOM_MSECS);
	}
	return true;
}

/* Ask for more, or less, depending on how this epoch went. */
static void kpromoted_adapt(struct kpromoted *p, int target, bool full, unsigned long warm)
{
	unsigned long promoted, bounced;
	bool relent;

	tier_bounces(&promoted, &bounced);
	full |= kpromoted_bounces_update(&p->bounces, promoted, bounced);
	/*
	 * With demotion it is kswapd that keeps room, and never more than up to the
	 * promo watermark.
	 */
	relent = numa_demotion_enabled ||
		 tier_target_headroom(target) > node_present_pages(target) / 64;
	kpromoted_pressure_update(&p->pressure, full, relent, warm);
}

static void kpromoted_epoch(struct kpromoted *p, unsigned int period_ms)
{
	unsigned long budget, hot, left, moved = 0, end;
	struct hotness_cursor cursor = {};
	struct hotness_histogram histogram;
	unsigned int base = READ_ONCE(kmmscand_tunables.hot_threshold);
	unsigned int threshold, nr, i;
	unsigned long warm = 0;
	bool full = false;
	int target;

	kpromoted_backoff_decay(&p->backoff);
	target = kpromoted_target(p);
	if (target == NUMA_NO_NODE) {
		/* The scanner need not hurry for pages that cannot move. */
		WRITE_ONCE(thresholds[p->nid], HOTNESS_MAX_SCORE + 1);
		return;
	}
	hotness_count(p->nid, &histogram);
	budget = kpromoted_budget(p, target, period_ms);
	for (i = base; i <= HOTNESS_MAX_SCORE; i++)
		warm += histogram.pages[i];
	threshold = kpromoted_pick(&histogram, base + p->pressure.score, budget, &hot);
	WRITE_ONCE(thresholds[p->nid], threshold);

	/* Counting is not included: at least one batch is promoted. */
	end = jiffies + msecs_to_jiffies(period_ms);
	left = min(hot, budget);
	while (left && !full && !kthread_should_stop()) {
		unsigned long pages = 0, batch;

		batch = kpromoted_rate(p, target, min(left, KPROMOTED_BATCH));
		if (!batch) {
			if (time_after_eq(jiffies, end))
				break;
			kmmscand_sleep(&p->cpu, KPROMOTED_RATE_MSECS);
			continue;
		}
		nr = hotness_select(p->nid, threshold, &cursor, p->ranges, KPROMOTED_RANGES,
				    batch);
		if (!nr)
			break;
		for (i = 0; i < nr; i++) {
			p->ranges[i].nid = target;
			p->first[i] = p->ranges[i].pfn;
			pages += p->ranges[i].nr;
		}
		kpromoted_charge(p, target, pages);
		left -= min(left, pages);
		full = !kpromoted_move(p, nr, end, &moved);
		if (time_after_eq(jiffies, end))
			break;
	}
	kpromoted_adapt(p, target, full, warm);
	trace_kpromoted_epoch(p->nid, target, threshold, hot, budget, moved,
			      p->pressure.score, p->backoff.shift);
}

static int kpromoted_thread(void *data)
{
	struct kpromoted *p = data;

	set_freezable();
	kmmscand_cpu_start(&p->cpu);
	p->refilled = jiffies;
	tier_bounces(&p->bounces.promoted_seen, &p->bounces.bounced_seen);

	while (!kthread_should_stop()) {
		unsigned int period_ms = kmmscand_epoch_ms();
		unsigned long start = jiffies, period, spent;

		kpromoted_epoch(p, period_ms);
		kmmscand_cpu_pay(&p->cpu, READ_ONCE(kmmscand_tunables.promote_cpu_pct));

		period = msecs_to_jiffies(period_ms);
		spent = jiffies - start;
		if (spent < period)
			kmmscand_sleep(&p->cpu, jiffies_to_msecs(period - spent));
	}
	WRITE_ONCE(thresholds[p->nid], 0);
	return 0;
}

/**
 * kpromoted_start - promote from a node
 * @nid:   slow node
 * @nodes: tiers
 *
 * Return: the promoter or an ERR_PTR().
 */
struct kpromoted *kpromoted_start(int nid, const struct kmmscand_nodes *nodes)
{
	struct kpromoted *p;

	p = kvzalloc(sizeof(*p), GFP_KERNEL);
	if (!p)
		return ERR_PTR(-ENOMEM);
	p->nid = nid;
	p->nodes = *nodes;
	p->page_ns = KPROMOTED_PAGE_NS;
	p->task = kthread_create(kpromoted_thread, p, "kpromoted%d", nid);
	if (IS_ERR(p->task)) {
		struct task_struct *task = p->task;

		kvfree(p);
		return ERR_CAST(task);
	}
	set_user_nice(p->task, 10);
	wake_up_process(p->task);
	return p;
}

/**
 * kpromoted_stop - wait for the end of the batch and free the promoter
 * @p: what kpromoted_start() returned
 */
void kpromoted_stop(struct kpromoted *p)
{
	kthread_stop(p->task);
	kvfree(p);
}
