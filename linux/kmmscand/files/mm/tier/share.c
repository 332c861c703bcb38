// SPDX-License-Identifier: GPL-2.0
/*
 * Shares: which group's pages does a promoter take, and how many?
 *
 * While a memory control group has settings (memcg.c), a promoter asks here for each page
 * that it counts or selects in the hotness table.  Pages count for the group that they are
 * charged to, whoever maps them.  The first page of a group in an epoch makes a struct
 * kpromoted_share for it and for each group above; they form the tree in which weights and
 * limits hold.
 *
 * Off: pages of a group with weight 0, or below one, are not counted, so nothing is planned
 * for them, and not selected.
 *
 * Limits: in counting, a group with a limit has no more pages than there is room, the
 * hottest ones; in selecting, its memory on the top-tier nodes is measured anew for each
 * batch.  Promoters of other slow nodes do not know of each other's batch, so each of
 * them may exceed a limit by one.  And what waits to be put on a list (31 pages for each CPU
 * on which a promoter has just run) is not seen.
 *
 * Weights: only if a group has another weight than 100 and 0.  Else the hottest pages come
 * first, whoever owns them.  It is deficit round robin over the tree: a round grants
 * KPROMOTED_ROUND pages or more, from the top down, and at each level by weight among those
 * that have something to promote.  A group's own pages compete with the groups below it,
 * with the default weight.  Of its grant a group takes the hottest pages.  When
 * nobody has anything left of his grant, or all that have it have been asked for every
 * page in the table, comes the next round, until what the promoter can afford is used.  So
 * nothing is left that somebody could use.  While a promoter waits for bandwidth, scores
 * change: who does not find the pages that it has been counting on is asked once more, and
 * takes any.
 * What is left of a grant at the end of an epoch, because time was over, and what a large
 * folio has taken too much, is kept for the next epoch, as long as the group has pages
 * that want to be promoted.  Therefore shares are right over some epochs, to the
 * size of a round or of a folio.
 *
 * What a group wants is what is fresh in the table.  A group whose pages the scanner has not
 * come to for two epochs wants nothing, so where scanners are slow, groups take turns
 * rather than shares.  Windows are kept long, to find the pages of all (kpromoted.c).
 *
 * Locking: all this belongs to the thread of the promoter.  References to groups are kept
 * until the end of the epoch, and longer only for groups that are online and have something
 * to be remembered.
 */

#include <linux/cgroup.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/page_counter.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "control.h"
#include "events.h"
#include "share.h"

/* Base pages in a round: a quarter of what can be afforded, and at least so many */
#define KPROMOTED_ROUND		64UL
#define KPROMOTED_ROUNDS	4
/* What is granted is counted in so many units per page, or small shares would be nothing. */
#define SHARE_UNIT		1048576L

/* A group, in one epoch */
struct kpromoted_share {
	struct list_head node;		/* in the list of all of the promoter */
	struct mem_cgroup *memcg;	/* a reference */
	struct kpromoted_share *parent;
	unsigned int children;
	bool off;
	bool limited;			/* itself or above */
	unsigned long max;		/* base pages */
	unsigned long room;		/* base pages below @max that are left, as of @batch */
	unsigned int batch;
	unsigned long own[HOTNESS_MAX_SCORE + 1];	/* pages not yet selected */
	unsigned long sum[HOTNESS_MAX_SCORE + 1];	/* the same of those below, too */
	unsigned int threshold;
	unsigned long hot;		/* pages to be taken that reach the threshold */
	unsigned long warm;		/* and of one point less */
	bool any;			/* score will do that may be promoted */
	long credit;			/* units granted and not used, or a debt */
	struct list_head claims;	/* of those below, and its own */
	struct share_claim self;
	struct share_claim child;	/* to what the parent is granted */
};

static struct kpromoted_share *share_find(struct kpromoted_shares *shares,
					  struct mem_cgroup *memcg)
{
	return xa_load(&shares->index, memcg->css.id);
}

/* Look at the settings again. */
static void share_refresh(struct kpromoted_share *share)
{
	struct kpromoted_share *parent = share->parent;
	unsigned int weight = tier_memcg_weight(share->memcg);

	share->max = tier_memcg_max(share->memcg);
	share->off = !weight || (parent && parent->off);
	share->limited = share->max != PAGE_COUNTER_MAX || (parent && parent->limited);
	share->child.weight = max(weight, 1U);
	share->room = ULONG_MAX;
	share->any = false;
	memset(share->own, 0, sizeof(share->own));
}

static struct kpromoted_share *share_new(struct kpromoted_shares *shares,
					 struct mem_cgroup *memcg)
{
	struct mem_cgroup *above = parent_mem_cgroup(memcg);
	struct kpromoted_share *share;

	/* Memory hotplug waits for us: no time to reclaim.  Not tried again for each page. */
	if (shares->nomem)
		return NULL;
	share = kzalloc(sizeof(*share), GFP_NOWAIT);
	if (!share) {
		shares->nomem = true;
		return NULL;
	}
	if (xa_err(xa_store(&shares->index, memcg->css.id, share, GFP_NOWAIT))) {
		shares->nomem = true;
		kfree(share);
		return NULL;
	}
	css_get(&memcg->css);
	share->memcg = memcg;
	INIT_LIST_HEAD(&share->claims);
	share->self.weight = TIER_WEIGHT_DEFAULT;
	list_add_tail(&share->self.node, &share->claims);
	if (above) {
		share->parent = share_find(shares, above);
		share->parent->children++;
		list_add_tail(&share->child.node, &share->parent->claims);
	}
	share->batch = shares->batch - 1;
	list_add_tail(&share->node, &shares->list);
	share_refresh(share);
	return share;
}

static void share_free(struct kpromoted_shares *shares, struct kpromoted_share *share)
{
	if (shares->last == share)
		shares->last = NULL;
	if (share->parent) {
		share->parent->children--;
		list_del(&share->child.node);
	}
	list_del(&share->node);
	xa_erase(&shares->index, share->memcg->css.id);
	css_put(&share->memcg->css);
	kfree(share);
}

/* Add a group, and first those above it that are missing, from the top down. */
static struct kpromoted_share *share_add(struct kpromoted_shares *shares,
					 struct mem_cgroup *memcg)
{
	struct kpromoted_share *share;
	struct mem_cgroup *group, *above;

	do {
		group = memcg;
		while ((above = parent_mem_cgroup(group)) && !share_find(shares, above))
			group = above;
		share = share_new(shares, group);
	} while (share && group != memcg);
	return share;
}

/*
 * The group of the folio that begins at a frame.  NULL if there is no memory.  The caller
 * holds the memory hotplug lock and no reference: it is a guess, as in hotness_pages().
 * What the memory control group of a page is may change any time, but under RCU the
 * group stays.
 */
static struct kpromoted_share *share_of(struct kpromoted_shares *shares, unsigned long pfn)
{
	struct kpromoted_share *share = NULL;
	struct mem_cgroup *memcg;

	rcu_read_lock();
	memcg = page_memcg_check(pfn_to_page(pfn)) ?: root_mem_cgroup;
	if (shares->last && shares->last->memcg == memcg) {
		rcu_read_unlock();
		return shares->last;
	}
	share = share_find(shares, memcg);
	/* The id may have been somebody else's, but not while we have a reference to him. */
	if (!share && !css_tryget(&memcg->css)) {
		rcu_read_unlock();
		return NULL;
	}
	rcu_read_unlock();
	if (!share) {
		share = share_add(shares, memcg);
		css_put(&memcg->css);
	}
	shares->last = share;
	return share;
}

static struct kpromoted_shares *shares_of_filter(struct hotness_filter *filter)
{
	return container_of(filter, struct kpromoted_shares, filter);
}

static bool share_counts(struct hotness_filter *filter, unsigned long pfn, unsigned long nr,
			 unsigned int score)
{
	struct kpromoted_share *share = share_of(shares_of_filter(filter), pfn);

	if (!share)
		return false;
	if (share->off) {
		count_tier_events(KMMSCAND_MEMCG_OFF, nr);
		return false;
	}
	share->own[score] += nr;
	return true;
}

/*
 * How many pages the group may still get in this batch, without those above it.  In an epoch it
 * only becomes less: what has just been promoted need not be on a list yet.
 */
static unsigned long share_room(struct kpromoted_shares *shares, struct kpromoted_share *share)
{
	unsigned long used;

	if (share->batch != shares->batch) {
		used = tier_memcg_pages(share->memcg, shares->top);
		share->room = min(share->room, share->max - min(used, share->max));
		share->batch = shares->batch;
	}
	return share->room;
}

static bool share_has_room(struct kpromoted_shares *shares, struct kpromoted_share *share,
			   unsigned long nr)
{
	for (; share && share->limited; share = share->parent) {
		if (share->max != PAGE_COUNTER_MAX && share_room(shares, share) < nr)
			return false;
	}
	return true;
}

static bool share_competes(struct hotness_filter *filter, unsigned long pfn)
{
	struct kpromoted_shares *shares = shares_of_filter(filter);
	struct kpromoted_share *share = share_of(shares, pfn);

	return share && !share->off && share_has_room(shares, share, 1);
}

static bool share_wants(struct kpromoted_share *share, unsigned int score, unsigned long nr)
{
	unsigned long *left;

	if (share->credit <= 0 || score + 1 < share->threshold)
		return false;
	left = score < share->threshold ? &share->warm : &share->hot;
	if (!*left)
		return false;
	*left -= min(*left, nr);
	return true;
}

static bool share_selects(struct hotness_filter *filter, unsigned long pfn, unsigned long nr,
			  unsigned int score)
{
	struct kpromoted_shares *shares = shares_of_filter(filter);
	struct kpromoted_share *share = share_of(shares, pfn), *above;

	if (!share || share->off || !share_has_room(shares, share, nr))
		return false;
	if (shares->sharing) {
		if (!share_wants(share, score, nr))
			return false;
		share->credit -= nr * SHARE_UNIT;
	}
	share->own[score] -= min(share->own[score], nr);
	for (above = share; above && above->limited; above = above->parent) {
		if (above->max != PAGE_COUNTER_MAX)
			above->room -= nr;
	}
	return true;
}

/**
 * kpromoted_shares_init - a promoter begins to work
 * @shares: of the promoter
 * @top:    nodes that are promoted to; must stay
 */
void kpromoted_shares_init(struct kpromoted_shares *shares, const nodemask_t *top)
{
	*shares = (struct kpromoted_shares) {
		.filter = {
			.competes = share_competes,
			.counts = share_counts,
			.selects = share_selects,
		},
		.top = top,
	};
	xa_init(&shares->index);
	INIT_LIST_HEAD(&shares->list);
}

/**
 * __kpromoted_shares_begin - see kpromoted_shares_begin()
 * @shares: of the promoter
 */
struct hotness_filter *__kpromoted_shares_begin(struct kpromoted_shares *shares)
{
	struct kpromoted_share *share;

	shares->begun = true;
	shares->nomem = false;
	shares->round = 0;
	shares->sharing = tier_memcg_shares();
	kpromoted_shares_batch(shares);
	list_for_each_entry(share, &shares->list, node)
		share_refresh(share);
	return &shares->filter;
}

/*
 * Sum up from below, and leave out what is beyond the limits.  Returns how many of @own have
 * been left out.
 */
static unsigned long shares_sum(struct kpromoted_shares *shares)
{
	struct kpromoted_share *share;
	unsigned long cut = 0;
	int score;

	list_for_each_entry(share, &shares->list, node)
		memcpy(share->sum, share->own, sizeof(share->sum));
	list_for_each_entry_reverse(share, &shares->list, node) {
		if (share->max != PAGE_COUNTER_MAX)
			cut += share_cut(share->sum, ARRAY_SIZE(share->sum),
					 share_room(shares, share));
		for (score = 0; share->parent && score <= HOTNESS_MAX_SCORE; score++)
			share->parent->sum[score] += share->sum[score];
	}
	return cut;
}

/**
 * kpromoted_shares_counted - all pages have been counted
 * @shares:    of the promoter
 * @histogram: what is within the limits, when this returns
 *
 * Context: may sleep.
 */
void kpromoted_shares_counted(struct kpromoted_shares *shares,
			      struct hotness_histogram *histogram)
{
	struct kpromoted_share *root;

	count_tier_events(KMMSCAND_MEMCG_MAX, shares_sum(shares));
	root = list_first_entry_or_null(&shares->list, struct kpromoted_share, node);
	if (root)
		memcpy(histogram->pages, root->sum, sizeof(histogram->pages));
}

/**
 * kpromoted_shares_batch - the next pages are selected
 * @shares: of the promoter
 *
 * What was promoted before counts for the limits.
 *
 * Context: any.
 */
void kpromoted_shares_batch(struct kpromoted_shares *shares)
{
	shares->batch++;
}

static unsigned long share_hot(const unsigned long *pages, unsigned int least)
{
	unsigned long nr = 0;

	for (; least <= HOTNESS_MAX_SCORE; least++)
		nr += pages[least];
	return nr;
}

/* Grant a round; returns false if nobody wants anything. */
static bool shares_round(struct kpromoted_shares *shares, unsigned long units)
{
	struct kpromoted_share *share;
	unsigned long granted, given = 0;

	list_for_each_entry(share, &shares->list, node) {
		/* In the list parents come before their children. */
		granted = share->parent ? share->child.granted : units;
		share_split(&share->claims, granted);
		share->credit += share->self.granted;
		given += share->self.granted;
	}
	return given;
}

/* Of its credit a group takes the hottest pages. */
static void share_plan(struct kpromoted_share *share, unsigned int least, unsigned long pages)
{
	unsigned int score;

	if (share->any) {
		share->threshold = least;
		share->hot = pages;
		share->warm = 0;
		return;
	}
	share->hot = 0;
	for (score = HOTNESS_MAX_SCORE; score >= max(least, 1U); score--) {
		if (share->hot + share->own[score] > pages)
			break;
		share->hot += share->own[score];
	}
	share->threshold = score + 1;
	share->warm = score >= max(least, 1U) ? pages - share->hot : 0;
}

/**
 * kpromoted_shares_grant - let the groups have more
 * @shares: of the promoter
 * @least:  least score that may be promoted
 * @left:   base pages that can be afforded
 *
 * What has been granted before is used first.
 *
 * Context: may sleep.
 * Return: base pages to be selected now, by all groups; 0 if nobody wants any.
 */
unsigned long kpromoted_shares_grant(struct kpromoted_shares *shares, unsigned int least,
				     unsigned long left)
{
	unsigned long pages, sum = 0;
	struct kpromoted_share *share;
	bool any = false;

	shares->least = least;
	if (!shares->round)
		shares->round = max(left / KPROMOTED_ROUNDS, KPROMOTED_ROUND);
	shares_sum(shares);
	list_for_each_entry(share, &shares->list, node) {
		share->self.demand = share_hot(share->own, least) * SHARE_UNIT;
		share->child.demand = share_hot(share->sum, least) * SHARE_UNIT;
		if (!share->self.demand)
			share->credit = min(share->credit, 0L);
		any |= share->credit > 0;
	}
	/* More than one round only if all who want something have debts. */
	while (!any && shares_round(shares, shares->round * SHARE_UNIT)) {
		list_for_each_entry(share, &shares->list, node)
			any |= share->credit > 0;
	}
	list_for_each_entry(share, &shares->list, node) {
		if (share->credit <= 0)
			continue;
		pages = DIV_ROUND_UP((unsigned long)share->credit, SHARE_UNIT);
		share_plan(share, least, pages);
		sum += share->hot + share->warm;
	}
	return min(sum, left);
}

/**
 * kpromoted_shares_walked - all groups have been asked for each page
 * @shares: of the promoter
 *
 * Who has something left has been looking for pages that were hotter when they were counted.
 * It gets another chance, to take what there is.  If it has had that, it does not want any
 * more, or is at its limit.
 *
 * Context: any.
 */
void kpromoted_shares_walked(struct kpromoted_shares *shares)
{
	struct kpromoted_share *share;

	list_for_each_entry(share, &shares->list, node) {
		if (share->credit <= 0)
			continue;
		if (!share->any) {
			share->any = true;
			continue;
		}
		share->credit = 0;
		memset(share->own, 0, sizeof(share->own));
	}
}

/**
 * kpromoted_shares_end - the epoch is over
 * @shares: of the promoter
 *
 * Only groups remain that have something left, or owe it.  If no epoch has begun since the
 * last call, none do.
 *
 * Context: may sleep.
 */
void kpromoted_shares_end(struct kpromoted_shares *shares)
{
	bool keep = shares->begun && shares->sharing;
	struct kpromoted_share *share, *tmp;
	unsigned long waiting = 0, left;

	/* Children come first. */
	list_for_each_entry_safe_reverse(share, tmp, &shares->list, node) {
		left = keep ? share_hot(share->own, shares->least) : 0;
		waiting += left;
		if (!share->children &&
		    !(left && share->credit && mem_cgroup_online(share->memcg)))
			share_free(shares, share);
	}
	if (waiting)
		count_tier_events(KMMSCAND_MEMCG_SHARE, waiting);
	shares->begun = false;
	shares->sharing = false;
}
