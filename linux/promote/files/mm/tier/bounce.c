// SPDX-License-Identifier: GPL-2.0
/*
 * Bounces: pages that are promoted again soon after they have been demoted.
 *
 * Promoted, demoted and promoted again: two migrations for nothing.  When there are many,
 * more is being promoted than fits into the fast tier, and a promoter that goes on only
 * swaps pages that are equally hot.  A demotion alone is no bounce: when what is hot
 * changes, what was promoted before is rightly demoted.
 *
 * Each node has two bitmaps with a bit for each page frame, one for this window and one
 * for the last.  They remember of frames on the fast tier that they were promoted to,
 * and of frames on the slow tier that such a page was demoted to.  Reclaim tells when it
 * has allocated the frame to demote to, the promoter when it has allocated the one to
 * promote to.
 *
 * Besides, two bitmaps of the slow tier remember all frames that something was demoted to.
 * If many of these pages are hot enough soon after to be promoted, then what is demoted is
 * as hot as what it is demoted for.  A promoter can ask for that before it promotes them.
 *
 * A window for demotions lasts TIER_BOUNCE_MIN_MSECS: what becomes hot later has changed.
 * One for bounces is longer if fewer pages than a quarter of the fast tier were promoted
 * in it, up to TIER_BOUNCE_MAX_MSECS: on a large fast tier it takes its time until reclaim
 * gets to what was promoted, and a promoter that has been held up goes on with what it has
 * found before.
 *
 * This is a measure, not an account.  A frame may have been freed and reused since (its new
 * owner then needs more to be promoted, as long as the window is remembered), or a
 * demotion or promotion for which a frame was allocated may fail in the end: something
 * is taken for a bounce that is none.  If migration tries again with another frame, a
 * bounce is missed.  What DAMON moves is not told from reclaim's demotions.
 *
 * Lifetime: the bitmaps exist while a promoter is active (tier_promoter_get()), and are
 * freed a grace period later; readers use RCU.  Memory that comes online meanwhile,
 * beyond what its node spanned at the start, is not covered.
 */

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/jiffies.h>
#include <linux/memcontrol.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/tier.h>

#include "bounce.h"
#include "events.h"

/* Words of a bitmap that are cleared at a time */
#define TIER_BOUNCE_STEP	32768UL

/* The frames that a node spans */
struct tier_bounce_node {
	unsigned long start_pfn;
	unsigned long nr_pfns;
	unsigned long *bits[2];		/* promoted to, or demoted after that */
	/* Slow nodes only: */
	unsigned long *demoted[2];	/* demoted to */
	atomic_long_t nr_demoted;	/* base pages */
	atomic_long_t *nr_promoted;	/* base pages from here, by tier_group() */
	bool fast;
};

enum tier_bounce_kind {
	TIER_WINDOW_DEMOTED,
	TIER_WINDOW_BOUNCE,
	NR_TIER_WINDOWS
};

struct tier_bounce_window {
	int newest;			/* index of the bitmaps that are filled */
	/* Under tier_bounce_mutex */
	unsigned long since;		/* in jiffies */
	unsigned long promoted;		/* counter at its beginning */
};

struct tier_bounce_map {
	struct tier_bounce_window window[NR_TIER_WINDOWS];
	unsigned long fast_pages;	/* in the fast tier */
	struct tier_bounce_node node[MAX_NUMNODES];
};

/* Serialises beginning a window and forgetting with enabling and disabling */
static DEFINE_MUTEX(tier_bounce_mutex);
static struct tier_bounce_map __rcu *tier_bounce_map;

/* Base pages, since the machine was booted */
static atomic_long_t tier_promoted;

/* The node's bitmaps and the frame's bit, or NULL if the frame is not covered; under RCU */
static struct tier_bounce_node *tier_bounce_frame(struct tier_bounce_map *map, int nid,
						  unsigned long pfn, unsigned long *bit)
{
	struct tier_bounce_node *node;

	if (!map)
		return NULL;
	node = &map->node[nid];
	*bit = pfn - node->start_pfn;
	return *bit < node->nr_pfns ? node : NULL;
}

static struct tier_bounce_node *tier_bounce_node(struct tier_bounce_map *map,
						 struct folio *folio, unsigned long *bit)
{
	return tier_bounce_frame(map, folio_nid(folio), folio_pfn(folio), bit);
}

/* Was the frame remembered?  It is not any more. */
static bool tier_bounce_take(struct tier_bounce_map *map, struct folio *folio)
{
	unsigned long bit;
	struct tier_bounce_node *node = tier_bounce_node(map, folio, &bit);
	bool found;

	if (!node)
		return false;
	found = test_and_clear_bit(bit, node->bits[0]);
	found |= test_and_clear_bit(bit, node->bits[1]);
	return found;
}

static void tier_bounce_remember(struct tier_bounce_map *map, struct folio *folio)
{
	unsigned long bit;
	struct tier_bounce_node *node = tier_bounce_node(map, folio, &bit);

	if (node)
		set_bit(bit, node->bits[READ_ONCE(map->window[TIER_WINDOW_BOUNCE].newest)]);
}

/**
 * tier_group - number of a page's memory control group
 * @page: perhaps nobody has a reference to it, but it has a struct page
 *
 * Groups may have the same number, and are taken for one then.
 *
 * Context: any.
 * Return: less than TIER_GROUPS; 0 for pages without a group.
 */
unsigned int tier_group(const struct page *page)
{
	unsigned int group = 0;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg;

	rcu_read_lock();
	memcg = page_memcg_check((struct page *)page);
	if (memcg)
		group = (unsigned int)memcg->css.id % TIER_GROUPS;
	rcu_read_unlock();
#endif
	return group;
}

/**
 * tier_bounce_promote - a folio is about to be promoted
 * @src: on the slow node
 * @dst: on the fast node
 *
 * Context: any.
 */
void tier_bounce_promote(struct folio *src, struct folio *dst)
{
	struct tier_bounce_map *map;
	bool bounced;

	rcu_read_lock();
	map = rcu_dereference(tier_bounce_map);
	if (map && map->node[folio_nid(src)].nr_promoted)
		atomic_long_add(folio_nr_pages(src),
				&map->node[folio_nid(src)].nr_promoted[tier_group(&src->page)]);
	bounced = tier_bounce_take(map, src);
	tier_bounce_remember(map, dst);
	rcu_read_unlock();
	if (bounced)
		count_tier_events(TIER_PROMOTE_BOUNCE, folio_nr_pages(src));
}

/**
 * tier_bounce_forget - a folio was not promoted after all
 * @dst: on the fast node
 *
 * Context: any.
 */
void tier_bounce_forget(struct folio *dst)
{
	rcu_read_lock();
	tier_bounce_take(rcu_dereference(tier_bounce_map), dst);
	rcu_read_unlock();
}

/**
 * tier_bounce_promoted - count what has been promoted
 * @nr: base pages
 */
void tier_bounce_promoted(unsigned long nr)
{
	atomic_long_add(nr, &tier_promoted);
}

/**
 * __tier_folio_demoted - see tier_folio_demoted()
 * @src: isolated
 * @dst: allocated
 */
void __tier_folio_demoted(struct folio *src, struct folio *dst)
{
	struct tier_bounce_node *node;
	struct tier_bounce_map *map;
	unsigned long bit;

	rcu_read_lock();
	map = rcu_dereference(tier_bounce_map);
	if (tier_bounce_take(map, src))
		tier_bounce_remember(map, dst);
	node = tier_bounce_node(map, dst, &bit);
	if (node && !node->fast) {
		set_bit(bit, node->demoted[READ_ONCE(map->window[TIER_WINDOW_DEMOTED].newest)]);
		atomic_long_add(folio_nr_pages(dst), &node->nr_demoted);
	}
	rcu_read_unlock();
}

/**
 * tier_demoted_take - has something been demoted to a frame lately?
 * @nid: the frame's node
 * @pfn: first frame of a folio
 *
 * Context: any.
 * Return: true if so, and once only.
 */
bool tier_demoted_take(int nid, unsigned long pfn)
{
	struct tier_bounce_node *node;
	bool found = false;
	unsigned long bit;

	rcu_read_lock();
	node = tier_bounce_frame(rcu_dereference(tier_bounce_map), nid, pfn, &bit);
	/* Of those that are asked for few are set: look before writing. */
	if (node && !node->fast &&
	    (test_bit(bit, node->demoted[0]) || test_bit(bit, node->demoted[1]))) {
		clear_bit(bit, node->demoted[0]);
		clear_bit(bit, node->demoted[1]);
		found = true;
	}
	rcu_read_unlock();
	return found;
}

/**
 * tier_would_bounce - would it be a bounce to promote what is in a frame?
 * @nid: the frame's node
 * @pfn: first frame of a folio
 *
 * Context: any.
 */
bool tier_would_bounce(int nid, unsigned long pfn)
{
	struct tier_bounce_node *node;
	unsigned long bit;
	bool found;

	rcu_read_lock();
	node = tier_bounce_frame(rcu_dereference(tier_bounce_map), nid, pfn, &bit);
	found = node && (test_bit(bit, node->bits[0]) || test_bit(bit, node->bits[1]));
	rcu_read_unlock();
	return found;
}

/**
 * tier_moved_pages - how much has been promoted from a node, and demoted to it?
 * @nid:      slow node
 * @promoted: result: base pages by tier_group(), TIER_GROUPS numbers
 *
 * Neither number shrinks while a promoter is active.
 *
 * Context: any.
 * Return: base pages that have been demoted to the node.
 */
unsigned long tier_moved_pages(int nid, unsigned long *promoted)
{
	struct tier_bounce_node *node;
	struct tier_bounce_map *map;
	unsigned long demoted = 0;
	int i;

	memset(promoted, 0, TIER_GROUPS * sizeof(*promoted));
	rcu_read_lock();
	map = rcu_dereference(tier_bounce_map);
	if (map && map->node[nid].nr_promoted) {
		node = &map->node[nid];
		demoted = atomic_long_read(&node->nr_demoted);
		for (i = 0; i < TIER_GROUPS; i++)
			promoted[i] = atomic_long_read(&node->nr_promoted[i]);
	}
	rcu_read_unlock();
	return demoted;
}

static void tier_bounce_zero(struct tier_bounce_map *map, enum tier_bounce_kind kind, int index)
{
	int nid;

	for (nid = 0; nid < MAX_NUMNODES; nid++) {
		struct tier_bounce_node *node = &map->node[nid];
		unsigned long *bits = kind == TIER_WINDOW_BOUNCE ? node->bits[index] :
								   node->demoted[index];
		unsigned long words = bits ? BITS_TO_LONGS(node->nr_pfns) : 0, done, step;

		/* Larger than what bitmap_zero() takes, perhaps, or does without a pause */
		for (done = 0; done < words; done += step) {
			step = min(words - done, TIER_BOUNCE_STEP);
			memset(bits + done, 0, step * sizeof(long));
			cond_resched();
		}
	}
}

/* Begin a new window if it is time. */
static void tier_bounce_window(struct tier_bounce_map *map, enum tier_bounce_kind kind,
			       unsigned long promoted)
{
	struct tier_bounce_window *window = &map->window[kind];
	enum tier_bounce_due due = tier_bounce_due(kind == TIER_WINDOW_BOUNCE,
						   jiffies_to_msecs(jiffies - window->since),
						   promoted - window->promoted, map->fast_pages);
	int oldest = !window->newest;

	if (due == TIER_BOUNCE_GO_ON)
		return;
	if (due == TIER_BOUNCE_BOTH)
		tier_bounce_zero(map, kind, window->newest);
	tier_bounce_zero(map, kind, oldest);
	WRITE_ONCE(window->newest, oldest);
	window->since = jiffies;
	window->promoted = promoted;
}

/**
 * tier_bounces_age - forget old promotions and demotions
 *
 * To be called every few seconds by whoever promotes.
 *
 * Context: may sleep.
 */
void tier_bounces_age(void)
{
	unsigned long promoted = atomic_long_read(&tier_promoted);
	struct tier_bounce_map *map;

	mutex_lock(&tier_bounce_mutex);
	map = rcu_dereference_protected(tier_bounce_map, lockdep_is_held(&tier_bounce_mutex));
	if (map) {
		tier_bounce_window(map, TIER_WINDOW_DEMOTED, promoted);
		tier_bounce_window(map, TIER_WINDOW_BOUNCE, promoted);
	}
	mutex_unlock(&tier_bounce_mutex);
}

static void tier_bounce_free(struct tier_bounce_map *map)
{
	int nid, i;

	for (nid = 0; nid < MAX_NUMNODES; nid++) {
		for (i = 0; i < 2; i++) {
			kvfree(map->node[nid].bits[i]);
			kvfree(map->node[nid].demoted[i]);
		}
		kfree(map->node[nid].nr_promoted);
	}
	kvfree(map);
}

static unsigned long *tier_bounce_bitmap(unsigned long nr_pfns)
{
	return kvcalloc(BITS_TO_LONGS(nr_pfns), sizeof(long), GFP_KERNEL | __GFP_NOWARN);
}

static bool tier_bounce_add_node(struct tier_bounce_map *map, int nid)
{
	struct tier_bounce_node *node = &map->node[nid];
	unsigned long nr_pfns = node_spanned_pages(nid);
	int i;

	node->fast = node_is_toptier(nid);
	for (i = 0; i < 2; i++) {
		node->bits[i] = tier_bounce_bitmap(nr_pfns);
		if (!node->bits[i])
			return false;
		if (node->fast)
			continue;
		node->demoted[i] = tier_bounce_bitmap(nr_pfns);
		if (!node->demoted[i])
			return false;
	}
	if (!node->fast) {
		node->nr_promoted = kcalloc(TIER_GROUPS, sizeof(*node->nr_promoted), GFP_KERNEL);
		if (!node->nr_promoted)
			return false;
	}
	node->start_pfn = node_start_pfn(nid);
	node->nr_pfns = nr_pfns;
	if (node->fast)
		map->fast_pages += node_present_pages(nid);
	return true;
}

/**
 * tier_bounce_enable - begin to remember
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int tier_bounce_enable(void)
{
	struct tier_bounce_map *map = kvzalloc(sizeof(*map), GFP_KERNEL | __GFP_NOWARN);
	int nid, i;

	if (!map)
		return -ENOMEM;
	for (i = 0; i < NR_TIER_WINDOWS; i++) {
		map->window[i].since = jiffies;
		map->window[i].promoted = atomic_long_read(&tier_promoted);
	}
	for_each_node_state(nid, N_MEMORY) {
		if (!tier_bounce_add_node(map, nid)) {
			tier_bounce_free(map);
			return -ENOMEM;
		}
	}
	mutex_lock(&tier_bounce_mutex);
	rcu_assign_pointer(tier_bounce_map, map);
	mutex_unlock(&tier_bounce_mutex);
	return 0;
}

/**
 * tier_bounce_disable - forget
 *
 * Context: may sleep; waits for a grace period.
 */
void tier_bounce_disable(void)
{
	struct tier_bounce_map *map;

	mutex_lock(&tier_bounce_mutex);
	map = rcu_replace_pointer(tier_bounce_map, NULL, lockdep_is_held(&tier_bounce_mutex));
	mutex_unlock(&tier_bounce_mutex);
	if (map) {
		synchronize_rcu();
		tier_bounce_free(map);
	}
}
