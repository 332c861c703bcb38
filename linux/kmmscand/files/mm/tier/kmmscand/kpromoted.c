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
 * to be demoted for it, more is asked for: two points above hot_threshold, and windows that
 * are short, or pages that are warm by chance are exchanged for others.
 *
 * What was promoted and demoted lately needs two points more, so that equally hot pages do not
 * take turns.
 *
 * A target that stays full raises the threshold further (pressure).  If too many pages that
 * have been demoted are hot again soon, that is done only for the memory control groups for
 * which most was promoted: somebody else's pages may be worth it.
 *
 * Memory control groups can have a limit, or nothing of theirs is promoted (limit.c).
 *
 * Which fast node each page goes to is known from the table (target.c).  If that one has no
 * room, the next one that has some is taken, and only if none has any, room is made by
 * demotion.  A target that is full does not stop pages for others.
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/err.h>
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/memcontrol.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/swap.h>
#include <linux/tier.h>
#include <linux/vmstat.h>

#include "control.h"
#include "events.h"
#include "fault.h"
#include "hotness.h"
#include "kmmscand.h"
#include "target.h"
#include "policy.h"

#include <trace/events/kmmscand.h>

#define KPROMOTED_RANGES	256
/* How long to let kswapd make room before giving up for the epoch */
#define KPROMOTED_ROOM_TRIES	8	/* in a row, without any progress */
#define KPROMOTED_ROOM_MSECS	50
/* Of a fast node, one page in so many can be exchanged in an epoch */
#define KPROMOTED_EXCHANGE_SHARE	8
/* Epochs in which a touch counts, see hotness_count() */
#define KPROMOTED_RECOUNTS	2
/* How long to wait for bandwidth */
#define KPROMOTED_RATE_MSECS	100
/* First guess of what a page costs, in ns, and how many tell more than a guess */
#define KPROMOTED_PAGE_NS	5000
#define KPROMOTED_FEW		64

/* What an epoch may use of a fast node */
struct kpromoted_room {
	unsigned long free;		/* base pages at the beginning */
	long left;			/* of these, and of what demotion may make room for */
	bool roomy;			/* no demotion is needed */
	bool full;			/* it had no room after all */
};

/* State of the thread, and used by nothing else while that runs */
struct kpromoted {
	struct task_struct *task;
	int nid;
	struct kmmscand_nodes nodes;
	struct kmmscand_cpu cpu;

	struct kpromoted_pressure pressure;
	struct kpromoted_owner owner[TIER_GROUPS];
	struct hotness_groups groups;	/* what is asked of them, and found */
	unsigned long promoted[TIER_GROUPS];	/* from the node; too much for the stack */
	struct kpromoted_regrets regrets;
	unsigned long regretted;	/* base pages since the beginning */
	struct kpromoted_limits limits;
	unsigned long exchange;		/* see kpromoted_exchange_update() */
	unsigned int window_ms;		/* that the scanners should use */
	unsigned int round;		/* of the scanners, when the epoch began */
	int news;			/* of the table, in the last epoch */
	unsigned int recounts;		/* in how many epochs to look at it without any */
	bool rest;			/* not all that was hot enough has been promoted */
	bool exchanging;		/* there is no room but what demotion makes */
	bool reserved;			/* of most groups less is wanted than could be found */
	u64 page_ns;			/* average CPU time per page */
	long tokens;			/* base pages that the bandwidth allows now */
	unsigned long refilled;		/* in jiffies */

	struct tier_range ranges[KPROMOTED_RANGES];
	unsigned long first[KPROMOTED_RANGES];	/* frame of each range */
	struct kpromoted_room room[MAX_NUMNODES];	/* of fast nodes, in this epoch */
};

/* Effective threshold by slow node, for scanners; 0 without a promoter */
static unsigned int thresholds[MAX_NUMNODES];

/* Base pages that the promoter of a slow node could afford last; see kpromoted_affords() */
static unsigned long budgets[MAX_NUMNODES];

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
 * kpromoted_affords - how much can be promoted in an epoch?
 * @slow: slow nodes
 *
 * Context: any.
 * Return: base pages, from what could be afforded last; 0 if that is not known.
 */
unsigned long kpromoted_affords(const nodemask_t *slow)
{
	unsigned long pages = 0;
	int nid;

	for_each_node_mask(nid, *slow)
		pages += READ_ONCE(budgets[nid]);
	return pages;
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
}

/* How many base pages may be exchanged in an epoch, if all goes well? */
static unsigned long kpromoted_exchange_most(int target)
{
	return max(node_present_pages(target) / KPROMOTED_EXCHANGE_SHARE, KPROMOTED_BATCH);
}

/* Look at the fast nodes.  Returns what is free, in base pages. */
static unsigned long kpromoted_room(struct kpromoted *p)
{
	unsigned long sum = 0;
	int nid;

	for_each_node_mask(nid, p->nodes.top) {
		struct kpromoted_room *room = &p->room[nid];

		*room = (struct kpromoted_room) { .free = tier_target_headroom(nid) };
		room->roomy = kpromoted_has_room(nid);
		room->left = room->free;
		if (numa_demotion_enabled)
			room->left += p->exchange;
		sum += room->free;
	}
	return sum;
}

/*
 * The fast node for @nr pages that should go to a slot, or NUMA_NO_NODE if there is none.
 * Without demotion, at first; the nearest to the node that they should go to, or if there
 * is none to the slow node.
 */
static int kpromoted_place(struct kpromoted *p, u8 aim, unsigned int nr)
{
	int want = target_node(aim & TARGET_SLOT), from, nid, best, roomy;

	if (kmmscand_fault(TARGET))
		want = NUMA_NO_NODE;
	from = want != NUMA_NO_NODE ? want : p->nid;
	for (roomy = 1; roomy >= 0; roomy--) {
		best = NUMA_NO_NODE;
		for_each_node_mask(nid, p->nodes.top) {
			const struct kpromoted_room *room = &p->room[nid];

			if (room->left <= 0 || room->full || room->roomy < roomy)
				continue;
			if (nid != want && ((aim & TARGET_STRICT) ||
					    (want != NUMA_NO_NODE && kmmscand_fault(FALLBACK))))
				continue;
			if (best == NUMA_NO_NODE ||
			    node_distance(from, nid) < node_distance(from, best))
				best = nid;
		}
		if (best != NUMA_NO_NODE) {
			if (want != NUMA_NO_NODE && best != want)
				count_kmmscand_events(KMMSCAND_TARGET_FALLBACK, nr);
			return best;
		}
	}
	return NUMA_NO_NODE;
}

/* Slots of fast nodes that nothing more can go to in this epoch, as a mask */
static u32 kpromoted_closed(struct kpromoted *p)
{
	u32 closed = 0;
	int nid;

	if (!target_matters())
		return 0;
	for_each_node_mask(nid, p->nodes.top) {
		unsigned int slot = target_slot(nid);

		/* With more nodes than slots, this may be another one's. */
		if ((p->room[nid].left <= 0 || p->room[nid].full) && target_node(slot) == nid)
			closed |= BIT(slot);
	}
	return closed;
}

static int kpromoted_cmp_nid(const void *a, const void *b)
{
	const struct tier_range *x = a, *y = b;

	if (x->nid != y->nid)
		return x->nid - y->nid;
	return x->pfn < y->pfn ? -1 : x->pfn > y->pfn;
}

/* Give the ranges their targets, and put them in this order.  Returns how many are left. */
static unsigned int kpromoted_group(struct kpromoted *p, unsigned int nr)
{
	unsigned int i, kept = 0;

	for (i = 0; i < nr; i++) {
		struct tier_range range = p->ranges[i];

		range.nid = kpromoted_place(p, range.nid, range.nr);
		if (range.nid == NUMA_NO_NODE)
			continue;
		p->room[range.nid].left -= range.nr;
		p->ranges[kept++] = range;
	}
	if (target_matters())
		sort(p->ranges, kept, sizeof(p->ranges[0]), kpromoted_cmp_nid, NULL);
	return kept;
}

/* Base pages that can be afforded in one epoch of @period_ms */
static unsigned long kpromoted_budget(struct kpromoted *p, unsigned int period_ms)
{
	unsigned long cpu, room, rate;

	cpu = div64_u64((u64)period_ms * NSEC_PER_MSEC / 100 *
			READ_ONCE(kmmscand_tunables.promote_cpu_pct), p->page_ns);
	room = kpromoted_room(p);
	if (numa_demotion_enabled)
		room += p->exchange;
	rate = mult_frac((unsigned long)READ_ONCE(kmmscand_tunables.promote_rate_mbps) <<
			 (20 - PAGE_SHIFT), period_ms, MSEC_PER_SEC);
	return max(min3(cpu, room, rate), KPROMOTED_BATCH);
}

/* What is done in one epoch */
struct kpromoted_work {
	int target;
	u8 since;			/* what was touched; see hotness_count() */
	struct kpromoted_limits *limits;	/* if groups have a say */
	unsigned long left;		/* base pages to be promoted */
	unsigned long moved;
	unsigned long exchanged;	/* of these, more than was free */
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
 * Promote the ranges from @done on up to @nr.  Returns false if there was no room for all
 * of them, also not after waiting for kswapd, at the longest until the epoch is over.
 */
static bool kpromoted_move(struct kpromoted *p, unsigned int done, unsigned int nr,
			   struct kpromoted_work *work)
{
	unsigned int end, tries = 0, i;
	u64 start, cost;

	while (done < nr && !kthread_should_stop()) {
		struct tier_promote_stats stats = {};
		unsigned long tried;

		start = task_sched_runtime(current);
		end = done + tier_promote(p->ranges + done, nr - done, &stats);
		if (end > done || stats.moved)
			tries = 0;
		work->moved += stats.moved;
		/* What may not move uses no room.  It is charged, or it could be tried for ever. */
		p->room[p->ranges[done].nid].left += stats.refused;
		tried = stats.moved + stats.isolate + stats.busy + stats.nomem + stats.skipped +
			stats.refused;
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
	unsigned int longest = kpromoted_longest();

	return p->exchanging ? kpromoted_window_exchange(longest) : longest;
}

static void kpromoted_ask_window(struct kpromoted *p, unsigned int window_ms)
{
	if (window_ms == p->window_ms)
		return;
	p->window_ms = window_ms;
	WRITE_ONCE(windows[p->nid], window_ms);
	kmmscand_wake();
}

/* Ask for more, or less, of each group.  Returns what is regretted. */
static enum kpromoted_regret kpromoted_adapt_groups(struct kpromoted *p, bool relent)
{
	unsigned long demoted, warm = 0, strained = 0;
	enum kpromoted_regret regret;
	int i;

	demoted = tier_moved_pages(p->nid, p->promoted);
	for (i = 0; i < TIER_GROUPS; i++) {
		p->regretted += p->groups.group[i].regretted;
		p->groups.group[i].regretted = 0;
	}
	regret = kpromoted_regrets_update(&p->regrets, demoted, p->regretted);
	regret = kpromoted_regret_left(regret, p->exchange);
	kpromoted_owners_update(p->owner, p->groups.group, p->promoted, TIER_GROUPS, regret,
				relent, p->window_ms < kpromoted_most(p));
	for (i = 0; i < TIER_GROUPS; i++) {
		struct hotness_group *found = &p->groups.group[i];

		warm += found->warm;
		if (p->owner[i].pressure.score || p->owner[i].pressure.left)
			strained += found->warm;
		found->warm = 0;
	}
	/* Of most pages less is wanted than could be found.  Nothing warm says nothing. */
	if (warm)
		p->reserved = strained > warm / 2;
	return regret;
}

/* Ask for more, or less, depending on how this epoch went. */
static void kpromoted_adapt(struct kpromoted *p, const struct kpromoted_work *work,
			    unsigned long warm)
{
	enum kpromoted_regret regret;
	bool relent;

	/*
	 * With demotion it is kswapd that keeps room, and never more than up to the
	 * promo watermark.
	 */
	relent = numa_demotion_enabled ||
		 tier_target_headroom(work->target) > node_present_pages(work->target) / 64;
	kpromoted_pressure_update(&p->pressure, work->full && !work->moved,
				  KPROMOTED_REGRETS_FEW, relent, warm,
				  p->window_ms < kpromoted_most(p));
	tier_bounces_age();
	regret = kpromoted_adapt_groups(p, relent);
	p->exchange = kpromoted_exchange_update(p->exchange, work->exchanged,
						kpromoted_exchange_most(work->target),
						work->full, regret);
	/* What is exchanged has to be hotter. */
	if (regret != KPROMOTED_REGRETS_FEW)
		kpromoted_ask_window(p, kpromoted_window_half(p->window_ms,
							      kpromoted_longest()));
}

/* Promote ranges that have the same target. */
static void kpromoted_move_group(struct kpromoted *p, unsigned int first, unsigned int end,
				 struct kpromoted_work *work)
{
	int target = p->ranges[first].nid, nid;
	unsigned long pages = 0, moved = work->moved;
	struct kpromoted_room *room = &p->room[target];
	unsigned int i;
	bool done;

	for (i = first; i < end; i++) {
		p->first[i] = p->ranges[i].pfn;
		pages += p->ranges[i].nr;
	}
	/* The limit that is shared with NUMA balancing is per target. */
	if (target != work->target && !kpromoted_rate(p, target, pages))
		return;
	kpromoted_charge(p, target, pages);
	count_kmmscand_events(KMMSCAND_CANDIDATE, pages);
	done = kpromoted_move(p, first, end, work);
	room->full = !done;
	moved = work->moved - moved;
	work->exchanged += moved - min(moved, room->free);
	room->free -= min(moved, room->free);
	work->full = true;
	for_each_node_mask(nid, p->nodes.top)
		work->full &= p->room[nid].full;
}

/*
 * Promote the ranges, in groups with the same target.  For those that may have to wait for
 * room the others do not wait.
 */
static void kpromoted_move_groups(struct kpromoted *p, unsigned int nr,
				  struct kpromoted_work *work)
{
	unsigned int i, end;
	int roomy;

	for (roomy = 1; roomy >= 0; roomy--) {
		for (i = 0; i < nr; i = end) {
			int target = p->ranges[i].nid;

			for (end = i + 1; end < nr && p->ranges[end].nid == target; end++)
				;
			if (p->room[target].roomy != roomy)
				continue;
			kpromoted_move_group(p, i, end, work);
			if (kpromoted_over(work))
				return;
		}
	}
}

/*
 * Promote @left pages that reach the threshold, as long as there are any and all is well.
 * So many have been counted; there is no use in walking the table for more.
 */
static void kpromoted_work(struct kpromoted *p, struct kpromoted_work *work,
			   unsigned int threshold, unsigned long left)
{
	struct hotness_cursor cursor = {
		.since = work->since, .groups = &p->groups, .limits = work->limits,
	};
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
		/* What limits are compared with must not be too old. */
		if (work->limits)
			mem_cgroup_flush_stats_ratelimited(NULL);
		cursor.closed = kpromoted_closed(p);
		nr = hotness_select(p->nid, threshold, &cursor, p->ranges, KPROMOTED_RANGES,
				    batch);
		if (!nr)
			return;
		nr = kpromoted_group(p, nr);
		/* What has no target does not use up what others may need. */
		for (i = 0, pages = 0; i < nr; i++)
			pages += p->ranges[i].nr;
		left -= min(left, pages);
		work->left -= min(work->left, pages);
		kpromoted_move_groups(p, nr, work);
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
	unsigned int points = HOTNESS_MAX_SCORE;
	unsigned long budget, hot, wanted, warm = 0, over = 0, found, missing;
	struct kpromoted_work work = { .begun = jiffies };
	unsigned int round = kmmscand_rounds();
	struct hotness_histogram histogram;
	/* Of what was found, the window says something that the scanners had. */
	bool scanned = round != p->round && kmmscand_window_used();

	p->round = round;
	work.target = kpromoted_target(p);
	if (work.target == NUMA_NO_NODE) {
		/* The scanner need not hurry for pages that cannot move. */
		kpromoted_ask_window(p, kpromoted_longest());
		WRITE_ONCE(thresholds[p->nid], HOTNESS_MAX_SCORE + 1);
		WRITE_ONCE(budgets[p->nid], 0);
		return;
	}
	p->exchanging = numa_demotion_enabled && !kpromoted_has_room(work.target);
	/* To walk over the table for nothing costs more than all else here. */
	if (!kpromoted_news(p)) {
		kpromoted_adapt(p, &work, 0);
		return;
	}
	p->groups.warm_score = least;
	p->groups.regret_score = kpromoted_regret_score(least);
	if (p->exchanging)
		least = p->groups.regret_score;
	p->groups.min_score = least;
	/* What is bound to a full node shall not raise the threshold for others. */
	kpromoted_room(p);
	p->groups.closed = kpromoted_closed(p);
	work.limits = kpromoted_limits_begin(&p->limits, &p->nodes.top);
	if (!hotness_count(p->nid, &histogram, &p->groups, work.limits))
		return;
	p->recounts -= !!p->recounts;

	for (i = 0; i < TIER_GROUPS; i++) {
		struct hotness_group *group = &p->groups.group[i];

		warm += group->warm;
		if (group->warm)
			points = min(points, group->points);
	}
	found = warm;
	missing = kmmscand_missing();
	for (i = 0; i < TIER_GROUPS; i++)
		p->groups.group[i].warm = kpromoted_whole(p->groups.group[i].warm, found, missing);
	warm = kpromoted_whole(warm, found, missing);
	least += p->pressure.score;
	for (i = least; i <= HOTNESS_MAX_SCORE; i++)
		over += histogram.pages[i];
	budget = kpromoted_budget(p, period_ms);
	WRITE_ONCE(budgets[p->nid], budget);
	threshold = kpromoted_pick(&histogram, least, budget, &hot);
	/* What even the group has to reach of which the least is demanded */
	points = warm ? p->groups.min_score + points : 0;
	WRITE_ONCE(thresholds[p->nid], max(threshold, points));
	wanted = hot + (threshold > least ? histogram.pages[threshold - 1] : 0);
	wanted = kpromoted_whole(wanted, found, missing);
	/*
	 * Only what the scanners have found since says something about the window.
	 * Under pressure too little is wanted rather than found.
	 */
	if (scanned && (wanted > budget ||
			!(p->pressure.score || p->pressure.left || p->reserved)))
		kpromoted_ask_window(p, kpromoted_window(kpromoted_window_ms(&p->nodes.slow),
							 kpromoted_longest(),
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
	kpromoted_adapt(p, &work, warm);
	trace_kpromoted_epoch(p->nid, work.target, threshold, hot, budget, work.moved,
			      p->pressure.score, p->window_ms);
}

static int kpromoted_thread(void *data)
{
	struct kpromoted *p = data;
	int i;

	set_freezable();
	kmmscand_cpu_start(&p->cpu);
	p->refilled = jiffies;
	p->round = kmmscand_rounds();
	p->regrets.demoted_seen = tier_moved_pages(p->nid, p->promoted);
	for (i = 0; i < TIER_GROUPS; i++)
		p->owner[i].promoted_seen = p->promoted[i];

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
	WRITE_ONCE(budgets[p->nid], 0);
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
