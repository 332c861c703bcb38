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
 *  - room: what is free above the high watermark and a reserve, and where there is none, the
 *    victims that are known (victim.c).  Promotion never reclaims to disk.
 *
 * While there is room, what is promoted costs nothing but its migration.  Where a page has
 * to be demoted for it, windows are short, or pages that are warm by chance are exchanged for
 * others, and only groups have pages promoted whose candidates are hot enough for the known
 * victims (victim_serves()).
 *
 * A group that promotes pages again that were demoted lately exchanges less
 * (policy_bucket_update()).
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
#include "decide.h"
#include "events.h"
#include "fault.h"
#include "hotness.h"
#include "kmmscand.h"
#include "policy.h"
#include "target.h"
#include "victim.h"

#include <trace/events/kmmscand.h>

#define KPROMOTED_RANGES	256
/* Of a fast node, one page in so many is left free for allocations, above the high watermark */
#define KPROMOTED_RESERVE	256
/* Epochs in which a touch counts, see hotness_count() */
#define KPROMOTED_RECOUNTS	2
/* How long to wait for bandwidth */
#define KPROMOTED_RATE_MSECS	100
/* First guess of what a page costs, in ns, and how many tell more than a guess */
#define KPROMOTED_PAGE_NS	5000
#define KPROMOTED_FEW		64

/* What an epoch may use of a fast node */
struct kpromoted_room {
	long left;			/* base pages, free or of victims */
	bool roomy;			/* no victims are needed */
	bool full;			/* it had no room after all */
};

/* State of the thread, and used by nothing else while that runs */
struct kpromoted {
	struct task_struct *task;
	int nid;
	struct kmmscand_nodes nodes;
	struct kmmscand_cpu cpu;

	struct policy_bucket bucket[TIER_GROUPS];
	struct hotness_groups groups;	/* what is asked of them, and found */
	/* Counters as of the last epoch, and now; too much for the stack */
	unsigned long promoted_seen[TIER_GROUPS];
	unsigned long again_seen[TIER_GROUPS];
	unsigned long promoted[TIER_GROUPS];
	unsigned long again[TIER_GROUPS];
	struct kpromoted_limits limits;
	unsigned int window_ms;		/* that the scanners should use */
	unsigned int round;		/* of the scanners, when the epoch began */
	int news;			/* of the table, in the last epoch */
	unsigned int recounts;		/* in how many epochs to look at it without any */
	bool rest;			/* not all that was hot enough has been promoted */
	bool exchanging;		/* there is no room but what victims make */
	struct policy_change change;	/* of what is warm, in a window of @jump_ms */
	unsigned int jump_ms;
	u64 page_ns;			/* average CPU time of a promotion, without its demotion */
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

/* Base pages that may be promoted to a node without a victim */
static unsigned long kpromoted_free(int nid)
{
	unsigned long free = tier_target_headroom(nid);

	return free - min(free, node_present_pages(nid) / KPROMOTED_RESERVE);
}

static bool kpromoted_has_room(int nid)
{
	return kpromoted_free(nid) > KPROMOTED_BATCH;
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

/* Look at the fast nodes.  Returns for how many base pages there is room, or a victim. */
static unsigned long kpromoted_room(struct kpromoted *p)
{
	unsigned long sum = 0;
	int nid;

	for_each_node_mask(nid, p->nodes.top) {
		struct kpromoted_room *room = &p->room[nid];

		*room = (struct kpromoted_room) {
			.left = kpromoted_free(nid), .roomy = kpromoted_has_room(nid),
		};
		if (!room->roomy && numa_demotion_enabled)
			room->left += victim_known(nid);
		sum += room->left;
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

/* Base pages that bandwidth and CPU time allow in one epoch of @period_ms */
static unsigned long kpromoted_quota(struct kpromoted *p, unsigned int period_ms)
{
	unsigned long cpu, rate;

	cpu = div64_u64((u64)period_ms * NSEC_PER_MSEC / 100 *
			READ_ONCE(kmmscand_tunables.promote_cpu_pct), p->page_ns);
	rate = mult_frac((unsigned long)READ_ONCE(kmmscand_tunables.promote_rate_mbps) <<
			 (20 - PAGE_SHIFT), period_ms, MSEC_PER_SEC);
	return max(min(cpu, rate), KPROMOTED_BATCH);
}

/* What is done in one epoch */
struct kpromoted_work {
	int target;
	u8 since;			/* what was touched; see hotness_count() */
	struct kpromoted_limits *limits;	/* if groups have a say */
	unsigned long left;		/* base pages to be promoted */
	unsigned long moved;
	unsigned long begun;		/* in jiffies */
	bool full;			/* no target has room, nor a victim */
};

/* At least one batch is promoted, whatever the time. */
static bool kpromoted_over(const struct kpromoted_work *work)
{
	/* The period can be changed meanwhile, and records must not become too old. */
	return time_after_eq(jiffies, work->begun + msecs_to_jiffies(kmmscand_epoch_ms()));
}

/*
 * Promote the ranges from @done on up to @nr.  Returns false if there was no room for all of them.
 */
static bool kpromoted_move(struct kpromoted *p, unsigned int done, unsigned int nr,
			   struct kpromoted_work *work)
{
	unsigned int end, i;
	u64 start, cost;

	while (done < nr && !kthread_should_stop()) {
		struct tier_promote_stats stats = {};
		unsigned long tried;

		start = task_sched_runtime(current);
		end = done + tier_promote(p->ranges + done, nr - done, &stats);
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
		/* No room: what victims have left may have gone to allocations. */
		if (!stats.moved || kpromoted_over(work))
			return false;
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

	return p->exchanging ? kpromoted_window_longest(longest) : longest;
}

static void kpromoted_ask_window(struct kpromoted *p, unsigned int window_ms)
{
	if (window_ms == p->window_ms)
		return;
	p->window_ms = window_ms;
	WRITE_ONCE(windows[p->nid], window_ms);
	kmmscand_wake();
}

/*
 * How much have the groups promoted, and what of it again?
 */
static void kpromoted_groups_update(struct kpromoted *p)
{
	u64 now_ms = ktime_to_ms(ktime_get());
	int i;

	tier_demoted_age(p->nid);
	tier_promoted_pages(p->nid, p->promoted, p->again);
	for (i = 0; i < TIER_GROUPS; i++) {
		struct hotness_group *group = &p->groups.group[i];
		unsigned long promoted = p->promoted[i] - p->promoted_seen[i];

		group->waiting = group->hot - min(group->hot, promoted);
		if (p->exchanging)
			policy_bucket_update(&p->bucket[i], promoted,
					     p->again[i] - p->again_seen[i], now_ms);
	}
	memcpy(p->promoted_seen, p->promoted, sizeof(p->promoted));
	memcpy(p->again_seen, p->again, sizeof(p->again));
}

/* May pages of a group be exchanged for the victims that are known, on whichever node? */
static bool kpromoted_served(struct kpromoted *p, unsigned int group)
{
	bool served = false;
	int nid;

	for_each_node_mask(nid, p->nodes.top) {
		if (!victim_known(nid))
			continue;
		if (!victim_serves(nid, group))
			return false;
		served = true;
	}
	return served;
}

/* What each group may have promoted in this epoch */
static void kpromoted_groups_ask(struct kpromoted *p, unsigned long quota)
{
	int i;

	for (i = 0; i < TIER_GROUPS; i++) {
		struct hotness_group *group = &p->groups.group[i];

		group->counted = 0;
		group->hot = 0;
		group->left = ULONG_MAX;
		if (!p->exchanging)
			continue;
		if (!kpromoted_served(p, i))
			group->left = 0;
		else if (!kmmscand_fault(AGAIN))
			group->left = policy_bucket_quota(&p->bucket[i], min(quota, U32_MAX));
	}
}

/* Base pages that could have been promoted in the last epoch, had there been room */
static unsigned long kpromoted_hot(const struct kpromoted *p)
{
	unsigned long sum = 0;
	int i;

	for (i = 0; i < TIER_GROUPS; i++)
		sum += p->groups.group[i].hot;
	return sum;
}

/* Has something else become hot?  Then it may be worth looking for victims again. */
static void kpromoted_jump(struct kpromoted *p, unsigned long warm, unsigned int window_ms)
{
	int nid;

	/* What another window finds tells nothing. */
	if (window_ms != p->jump_ms)
		p->change.looks = 0;
	p->jump_ms = window_ms;
	if (!policy_jump(&p->change, min(warm, U32_MAX), min(node_present_pages(p->nid), U32_MAX)))
		return;
	for_each_node_mask(nid, p->nodes.top)
		victim_begin(nid);
}

/*
 * Look for victims on fast nodes with less room than two epochs like the last one need.  Returns
 * false if a node has none yet.
 */
static bool kpromoted_victims(struct kpromoted *p, unsigned long quota)
{
	bool found = true;
	int nid;

	for_each_node_mask(nid, p->nodes.top) {
		unsigned long room = kpromoted_free(nid);
		struct policy_period period = {
			.room = min(room, U32_MAX),
			.quota = min3(quota, kpromoted_hot(p), U32_MAX),
			.full = !kpromoted_has_room(nid),
		};

		if (numa_demotion_enabled)
			found &= victim_seek(nid, &period, &p->groups, p->page_ns);
	}
	return found;
}

/* Promote ranges that have the same target. */
static void kpromoted_move_group(struct kpromoted *p, unsigned int first, unsigned int end,
				 struct kpromoted_work *work)
{
	int target = p->ranges[first].nid, nid;
	struct kpromoted_room *room = &p->room[target];
	unsigned long pages = 0, free;
	unsigned int i;
	bool done;

	for (i = first; i < end; i++) {
		p->first[i] = p->ranges[i].pfn;
		pages += p->ranges[i].nr;
	}
	/* The limit that is shared with NUMA balancing is per target. */
	if (target != work->target && !kpromoted_rate(p, target, pages))
		return;
	/* Victims go in full lists. */
	free = kpromoted_free(target);
	if (!room->roomy && numa_demotion_enabled && free < pages) {
		free += victim_take(target, max(pages, KPROMOTED_BATCH));
		/* The reserve is for allocations. */
		room->left = min_t(long, room->left, free);
	}
	done = free >= pages;
	if (done) {
		kpromoted_charge(p, target, pages);
		count_kmmscand_events(KMMSCAND_CANDIDATE, pages);
		done = kpromoted_move(p, first, end, work);
	}
	room->full = !done;
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
	unsigned long quota = kpromoted_quota(p, period_ms);
	unsigned long budget, hot, wanted, warm, over = 0, missing;
	struct kpromoted_work work = { .begun = jiffies };
	unsigned int round = kmmscand_rounds();
	struct hotness_histogram histogram;
	/* Of what was found, the window says something that the scanners had. */
	bool scanned = round != p->round && kmmscand_window_used(), found;

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
	kpromoted_groups_update(p);
	found = kpromoted_victims(p, quota);
	/* To walk over the table for nothing costs more than all else here. */
	if (!kpromoted_news(p)) {
		memset(&p->groups, 0, sizeof(p->groups));
		return;
	}
	kpromoted_groups_ask(p, quota);
	p->groups.warm = 0;
	p->groups.warm_score = least;
	p->groups.min_score = least;
	budget = min(quota, kpromoted_room(p));
	/* What is bound to a full node shall not raise the threshold for others. */
	p->groups.closed = kpromoted_closed(p);
	work.limits = kpromoted_limits_begin(&p->limits, &p->nodes.top);
	if (!hotness_count(p->nid, &histogram, &p->groups, work.limits))
		return;
	p->recounts -= !!p->recounts;

	missing = kmmscand_missing();
	warm = kpromoted_whole(p->groups.warm, p->groups.warm, missing);
	for (i = least; i <= HOTNESS_MAX_SCORE; i++)
		over += histogram.pages[i];
	WRITE_ONCE(budgets[p->nid], budget);
	threshold = kpromoted_pick(&histogram, least, budget, &hot);
	/* Scanners need not hurry for pages that wait for victims. */
	WRITE_ONCE(thresholds[p->nid],
		   p->exchanging && !hot ? HOTNESS_MAX_SCORE + 1 : threshold);
	wanted = hot + (threshold > least ? histogram.pages[threshold - 1] : 0);
	wanted = kpromoted_whole(wanted, p->groups.warm, missing);
	if (scanned && p->exchanging)
		kpromoted_jump(p, warm, kpromoted_window_ms(&p->nodes.slow));
	/*
	 * Only what the scanners have found since says something about the window, and nothing
	 * does while candidates wait for victims.
	 */
	if (scanned && (found || !p->exchanging))
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
	p->rest = kpromoted_hot(p) > work.moved;
	trace_kpromoted_epoch(p->nid, work.target, threshold, hot, budget, work.moved,
			      victim_known(work.target), p->window_ms);
}

static int kpromoted_thread(void *data)
{
	struct kpromoted *p = data;

	set_freezable();
	kmmscand_cpu_start(&p->cpu);
	p->refilled = jiffies;
	p->round = kmmscand_rounds();
	tier_promoted_pages(p->nid, p->promoted_seen, p->again_seen);

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
