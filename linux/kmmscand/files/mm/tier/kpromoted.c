// SPDX-License-Identifier: GPL-2.0
/*
 * kpromoted: one thread per slow node that promotes the hottest pages of the node.
 *
 * In each epoch it counts the pages of its node by score (hotness_count()), finds out
 * how many pages it can afford, and takes the lowest score for threshold with which it
 * affords all pages that reach it.  What it can afford beyond these are pages of the
 * next score, in the order of their frames.  So the hottest pages move first; what is
 * over waits, and moves later if it is still hot.  Pages move in the order of their frames,
 * neighbours together, large folios whole.  If even those of the highest score are far
 * too many, the scanners are asked for shorter windows (close.c), and for longer ones
 * if they find too little.
 *
 * What can be afforded is the least of
 *  - the bandwidth: promote_rate_mbps.  Pages that NUMA balancing's tiering mode wants
 *    to promote to the same node count, too, and ours count for its limit: both use
 *    PGPROMOTE_CANDIDATE and the window of struct pglist_data.
 *  - CPU time: promote_cpu_pct of one CPU, at the cost per page that was measured, but
 *    always enough for a batch.
 *  - room: what is free above the high watermark, and where demotion can make room a
 *    batch more, or several, if that goes well (exchange).  Promotion never reclaims
 *    to disk.
 *
 * While there is room, what is promoted costs nothing but its migration.  Where a page has
 * to be demoted for it, more is asked for: a point above hot_threshold, and windows that
 * are short, or pages that are warm by chance are exchanged for others.  After a long time
 * without strain, what is on the fast node may be so cold that longer ones are tried.
 *
 * A target that stays full, or too many pages that come back soon after they have been
 * demoted (bounce.c), raise the threshold further (pressure); migrations that fail make
 * the budget smaller (backoff).
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
#include "fault.h"
#include "hotness.h"
#include "kmmscand.h"
#include "policy.h"

#include <trace/events/kmmscand.h>

#define KPROMOTED_RANGES	256
/* How long to let kswapd make room before giving up for the epoch */
#define KPROMOTED_ROOM_TRIES	8	/* in a row, without any progress */
#define KPROMOTED_ROOM_MSECS	50
/* Epochs without strain after which pages are exchanged that are accessed now and then */
#define KPROMOTED_PATIENCE	128U
/* Of a fast node, one page in so many can be exchanged in an epoch */
#define KPROMOTED_EXCHANGE_SHARE	8
/* Epochs in which a touch counts, see hotness_count() */
#define KPROMOTED_RECOUNTS	2
/* How long to wait for bandwidth */
#define KPROMOTED_RATE_MSECS	100
/* First guess of what a page costs, in ns, and how many tell more than a guess */
#define KPROMOTED_PAGE_NS	5000
#define KPROMOTED_FEW		64

/* State of the thread, and used by nothing else while that runs */
struct kpromoted {
	struct task_struct *task;
	int nid;
	struct kmmscand_nodes nodes;
	struct kmmscand_cpu cpu;

	struct kpromoted_pressure pressure;
	struct kpromoted_bounces bounces;
	struct kpromoted_backoff backoff;
	unsigned long exchange;		/* see kpromoted_exchange_update() */
	unsigned int window_ms;		/* that the scanners should use */
	unsigned int round;		/* of the scanners, when the epoch began */
	int news;			/* of the table, in the last epoch */
	unsigned int recounts;		/* in how many epochs to look at it without any */
	bool rest;			/* not all that was hot enough has been promoted */
	bool exchanging;		/* there is no room but what demotion makes */
	unsigned int patience;		/* epochs of exchange without strain */
	u64 page_ns;			/* average CPU time per page */
	long tokens;			/* base pages that the bandwidth allows now */
	unsigned long refilled;		/* in jiffies */

	struct tier_range ranges[KPROMOTED_RANGES];
	unsigned long first[KPROMOTED_RANGES];	/* frame of each range */
};

/* Effective threshold by slow node, for scanners; 0 without a promoter */
static unsigned int thresholds[MAX_NUMNODES];

/* Window that the promoter of a slow node asks for; 0 without a promoter */
static unsigned int windows[MAX_NUMNODES];

/**
 * kpromoted_window_ms - window in which pages have to be accessed
 * @slow: slow nodes
 *
 * Context: any.
 * Return: the shortest that the promoters of the nodes ask for; 0 without any.
 */
unsigned int kpromoted_window_ms(const nodemask_t *slow)
{
	unsigned int window_ms = 0;
	int nid;

	for_each_node_mask(nid, *slow)
		window_ms = min_not_zero(window_ms, READ_ONCE(windows[nid]));
	return window_ms;
}

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
 * Is there more free memory than kswapd leaves for promotion?  It stops at the promo
 * watermark.
 */
static bool kpromoted_has_room(int nid)
{
	struct pglist_data *pgdat = NODE_DATA(nid);
	unsigned long kept = 0;
	int i;

	for (i = 0; numa_demotion_enabled && i < pgdat->nr_zones; i++) {
		struct zone *zone = pgdat->node_zones + i;

		if (managed_zone(zone))
			kept += promo_wmark_pages(zone) - high_wmark_pages(zone);
	}
	return tier_target_headroom(nid) > 2 * kept + KPROMOTED_BATCH;
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
		room = kpromoted_has_room(nid);
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
	if (tier_fault(RATE))
		return nr;
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
		room += p->exchange;
	rate = mult_frac((unsigned long)READ_ONCE(kmmscand_tunables.promote_rate_mbps) <<
			 (20 - PAGE_SHIFT), period_ms, MSEC_PER_SEC);
	return max(min3(cpu, room, rate) >> p->backoff.shift, KPROMOTED_BATCH);
}

/* What is done in one epoch */
struct kpromoted_work {
	int target;
	u8 since;			/* what was touched; see hotness_count() */
	unsigned long left;		/* base pages to be promoted */
	unsigned long moved;
	unsigned long begun;		/* in jiffies */
	bool full;			/* the target has no room, also not after waiting */
};

/* At least one batch is promoted, whatever the time. */
static bool kpromoted_over(const struct kpromoted_work *work)
{
	/* The period can be changed meanwhile, and records must not become too old. */
	return time_after_eq(jiffies, work->begun + msecs_to_jiffies(kmmscand_epoch_ms()));
}

/*
 * Promote the ranges.  Returns false if there was no room for all of them, also not
 * after waiting for kswapd, at the longest until the epoch is over.
 */
static bool kpromoted_move(struct kpromoted *p, unsigned int nr, struct kpromoted_work *work)
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
		work->moved += stats.moved;
		tried = stats.moved + stats.isolate + stats.busy + stats.nomem + stats.skipped;
		kpromoted_backoff_count(&p->backoff, stats.moved, tried - stats.moved);
		/* An average over some batches; of a few pages the overhead is too large. */
		if (tried >= KPROMOTED_FEW) {
			cost = div64_u64(task_sched_runtime(current) - start, tried);
			/* One page is never free. */
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
		    kpromoted_over(work))
			return false;
		kmmscand_sleep(&p->cpu, KPROMOTED_ROOM_MSECS);
	}
	return true;
}

/* With this one there are no close visits.  Epochs may be longer than that. */
static unsigned int kpromoted_longest(void)
{
	return READ_ONCE(kmmscand_tunables.scan_period_ms);
}

/* The longest window that is of use */
static unsigned int kpromoted_most(struct kpromoted *p)
{
	if (p->exchanging && p->patience < KPROMOTED_PATIENCE)
		return kpromoted_window_exchange(kpromoted_longest());
	return kpromoted_longest();
}

static void kpromoted_ask_window(struct kpromoted *p, unsigned int window_ms)
{
	if (window_ms == p->window_ms)
		return;
	p->window_ms = window_ms;
	WRITE_ONCE(windows[p->nid], window_ms);
	kmmscand_wake();
}

/* Ask for more, or less, depending on how this epoch went. */
static void kpromoted_adapt(struct kpromoted *p, const struct kpromoted_work *work,
			    unsigned long room, unsigned long warm)
{
	unsigned long promoted, bounced, exchanged = work->moved - min(work->moved, room);
	enum kpromoted_bouncing bouncing;
	bool relent;

	tier_bounces(&promoted, &bounced);
	bouncing = kpromoted_bounces_update(&p->bounces, promoted, bounced);
	p->exchange = kpromoted_exchange_update(p->exchange, exchanged,
						node_present_pages(work->target) /
						KPROMOTED_EXCHANGE_SHARE,
						work->full, bouncing);
	if (work->full || bouncing != KPROMOTED_BOUNCES_FEW)
		p->patience = 0;
	/* What is exchanged has to be hotter. */
	if (bouncing != KPROMOTED_BOUNCES_FEW)
		kpromoted_ask_window(p, kpromoted_window_half(p->window_ms,
							      kpromoted_longest()));
	/*
	 * With demotion it is kswapd that keeps room, and never more than up to the
	 * promo watermark.
	 */
	relent = numa_demotion_enabled ||
		 tier_target_headroom(work->target) > node_present_pages(work->target) / 64;
	kpromoted_pressure_update(&p->pressure, work->full && !work->moved, bouncing, relent,
				  warm, p->window_ms < kpromoted_most(p));
}

/*
 * Promote @left pages that reach the threshold, as long as there are any and all is well.
 * So many have been counted; there is no use in walking the table for more.
 */
static void kpromoted_work(struct kpromoted *p, struct kpromoted_work *work,
			   unsigned int threshold, unsigned long left)
{
	struct hotness_cursor cursor = { .since = work->since };
	unsigned long pages, batch;
	unsigned int nr, i;

	left = min(left, work->left);
	while (left && !work->full && !kthread_should_stop()) {
		batch = kpromoted_rate(p, work->target, min(left, KPROMOTED_BATCH));
		if (!batch) {
			if (kpromoted_over(work))
				return;
			kmmscand_sleep(&p->cpu, KPROMOTED_RATE_MSECS);
			continue;
		}
		nr = hotness_select(p->nid, threshold, &cursor, p->ranges, KPROMOTED_RANGES,
				    batch);
		if (!nr)
			return;
		for (i = 0, pages = 0; i < nr; i++) {
			p->ranges[i].nid = work->target;
			p->first[i] = p->ranges[i].pfn;
			pages += p->ranges[i].nr;
		}
		kpromoted_charge(p, work->target, pages);
		left -= min(left, pages);
		work->left -= min(work->left, pages);
		work->full = !kpromoted_move(p, nr, work);
		if (kpromoted_over(work)) {
			work->left = 0;
			return;
		}
	}
}

/* Is there anything in the table that has not been seen when it was counted last? */
static bool kpromoted_news(struct kpromoted *p)
{
	int news = hotness_news();

	if (news != p->news)
		p->recounts = KPROMOTED_RECOUNTS;
	p->news = news;
	return p->recounts || p->rest;
}

static void kpromoted_epoch(struct kpromoted *p, unsigned int period_ms)
{
	unsigned int least = READ_ONCE(kmmscand_tunables.hot_threshold), threshold, i;
	unsigned long budget, hot, wanted, room, warm = 0, over = 0;
	struct kpromoted_work work = { .begun = jiffies };
	unsigned int round = kmmscand_rounds();
	struct hotness_histogram histogram;
	bool scanned = round != p->round;

	kpromoted_backoff_decay(&p->backoff);
	p->round = round;
	work.target = kpromoted_target(p);
	if (work.target == NUMA_NO_NODE) {
		/* The scanner need not hurry for pages that cannot move. */
		kpromoted_ask_window(p, kpromoted_longest());
		WRITE_ONCE(thresholds[p->nid], HOTNESS_MAX_SCORE + 1);
		return;
	}
	room = tier_target_headroom(work.target);
	p->exchanging = numa_demotion_enabled && !kpromoted_has_room(work.target);
	p->patience = p->exchanging ? min(p->patience + 1, KPROMOTED_PATIENCE) : 0;
	/* To walk over the table for nothing costs more than all else here. */
	if (!kpromoted_news(p)) {
		kpromoted_adapt(p, &work, room, 0);
		return;
	}
	if (!hotness_count(p->nid, &histogram))
		return;
	p->recounts -= !!p->recounts;

	for (i = least; i <= HOTNESS_MAX_SCORE; i++)
		warm += histogram.pages[i];
	/* For an exchange a page has to be hot not only by chance. */
	if (p->exchanging)
		least = min(least + 1, (unsigned int)HOTNESS_MAX_SCORE);
	least += p->pressure.score;
	for (i = least; i <= HOTNESS_MAX_SCORE; i++)
		over += histogram.pages[i];
	budget = kpromoted_budget(p, work.target, period_ms);
	threshold = kpromoted_pick(&histogram, least, budget, &hot);
	WRITE_ONCE(thresholds[p->nid], threshold);
	wanted = hot + (threshold > least ? histogram.pages[threshold - 1] : 0);
	/*
	 * Only what the scanners have found since says something about the window.
	 * Under pressure too little is wanted rather than found.
	 */
	if (scanned && (wanted > budget || !(p->pressure.score || p->pressure.left)))
		kpromoted_ask_window(p, kpromoted_window(p->window_ms, kpromoted_longest(),
							 kpromoted_most(p), warm, wanted,
							 budget));
	else
		kpromoted_ask_window(p, min(p->window_ms, kpromoted_most(p)));

	work.since = histogram.since;
	work.left = budget;
	kpromoted_work(p, &work, threshold, hot);
	/* What is left of the budget does for some pages of the next score. */
	if (threshold > least)
		kpromoted_work(p, &work, threshold - 1, histogram.pages[threshold - 1]);
	p->rest = over > work.moved;
	kpromoted_adapt(p, &work, room, warm);
	trace_kpromoted_epoch(p->nid, work.target, threshold, hot, budget, work.moved,
			      p->pressure.score, p->backoff.shift, p->window_ms);
}

static int kpromoted_thread(void *data)
{
	struct kpromoted *p = data;

	set_freezable();
	kmmscand_cpu_start(&p->cpu);
	p->refilled = jiffies;
	p->round = kmmscand_rounds();
	tier_bounces(&p->bounces.promoted_seen, &p->bounces.bounced_seen);

	while (!kthread_should_stop()) {
		unsigned int period_ms = kmmscand_epoch_ms();
		unsigned long start = jiffies, period, spent;

		kpromoted_epoch(p, period_ms);
		kmmscand_cpu_pay(&p->cpu, READ_ONCE(kmmscand_tunables.promote_cpu_pct));

		period = msecs_to_jiffies(period_ms);
		spent = jiffies - start;
		/* Scanners that are late do not change the pace, but those that are early. */
		if (spent < 2 * period)
			kmmscand_wait_round(&p->cpu, p->round,
					    jiffies_to_msecs(2 * period - spent));
	}
	WRITE_ONCE(thresholds[p->nid], 0);
	WRITE_ONCE(windows[p->nid], 0);
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
	p->exchange = KPROMOTED_BATCH;
	/* First what is hottest */
	p->window_ms = KPROMOTED_WINDOW_MS;
	WRITE_ONCE(windows[nid], KPROMOTED_WINDOW_MS);
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
