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
 * A window lasts TIER_BOUNCE_MIN_MSECS.  That of the fast tier is longer if fewer pages
 * than a quarter of it were promoted in it, up to TIER_BOUNCE_MAX_MSECS: on a large fast
 * tier it takes its time until reclaim gets to what was promoted.
 *
 * This is a measure, not an account.  A frame may have been freed and reused since, or a
 * demotion or promotion for which a frame was allocated may fail in the end: something
 * is taken for a bounce that is none.  If migration tries again with another frame, a
 * bounce is missed.  What DAMON moves is not told from reclaim's demotions.
 *
 * Lifetime: the bitmaps exist while a promoter is active (tier_promoter_get()), and are
 * freed a grace period later; readers use RCU.  Memory that comes online meanwhile,
 * beyond what its node spanned at the start, is not covered.  Without memory for the
 * bitmaps nothing is counted.
 */

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/jiffies.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/tier.h>

#include "bounce.h"
#include "events.h"

#define TIER_BOUNCE_MIN_MSECS	10000
#define TIER_BOUNCE_MAX_MSECS	60000

/* The frames that a node spans */
struct tier_bounce_node {
	unsigned long start_pfn;
	unsigned long nr_pfns;
	unsigned long *bits[2];
	bool fast;
};

/* Of a tier */
struct tier_bounce_window {
	int newest;			/* index of the bitmaps that are filled */
	/* Under tier_bounce_mutex */
	unsigned long since;		/* in jiffies */
	unsigned long promoted;		/* counter at its beginning */
};

struct tier_bounce_map {
	struct tier_bounce_window window[2];	/* slow, fast */
	unsigned long fast_pages;	/* in the fast tier */
	struct tier_bounce_node node[MAX_NUMNODES];
};

/* Serialises beginning a window with enabling and disabling */
static DEFINE_MUTEX(tier_bounce_mutex);
static struct tier_bounce_map __rcu *tier_bounce_map;

/* In base pages, since the machine was booted */
static atomic_long_t tier_promoted;
static atomic_long_t tier_bounced;

/* The node's bitmaps and the frame's bit, or NULL if the frame is not covered; under RCU */
static struct tier_bounce_node *tier_bounce_node(struct tier_bounce_map *map,
						 struct folio *folio, unsigned long *bit)
{
	struct tier_bounce_node *node;

	if (!map)
		return NULL;
	node = &map->node[folio_nid(folio)];
	*bit = folio_pfn(folio) - node->start_pfn;
	return *bit < node->nr_pfns ? node : NULL;
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
		set_bit(bit, node->bits[READ_ONCE(map->window[node->fast].newest)]);
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
	bounced = tier_bounce_take(map, src);
	tier_bounce_remember(map, dst);
	rcu_read_unlock();
	if (bounced) {
		atomic_long_add(folio_nr_pages(src), &tier_bounced);
		count_tier_events(TIER_PROMOTE_BOUNCE, folio_nr_pages(src));
	}
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
	struct tier_bounce_map *map;

	rcu_read_lock();
	map = rcu_dereference(tier_bounce_map);
	if (tier_bounce_take(map, src))
		tier_bounce_remember(map, dst);
	rcu_read_unlock();
}

static void tier_bounce_zero(struct tier_bounce_map *map, bool fast, int index)
{
	int nid;

	for (nid = 0; nid < MAX_NUMNODES; nid++) {
		if (map->node[nid].nr_pfns && map->node[nid].fast == fast)
			bitmap_zero(map->node[nid].bits[index], map->node[nid].nr_pfns);
	}
}

/* Begin a new window if it is time. */
static void tier_bounce_window(struct tier_bounce_map *map, bool fast, unsigned long promoted)
{
	struct tier_bounce_window *window = &map->window[fast];
	unsigned long age = jiffies - window->since;
	int oldest = !window->newest;

	if (age < msecs_to_jiffies(TIER_BOUNCE_MIN_MSECS))
		return;
	if (fast && age < msecs_to_jiffies(TIER_BOUNCE_MAX_MSECS) &&
	    promoted - window->promoted < map->fast_pages / 4)
		return;
	/* Nobody has asked for long: both are old. */
	if (age > 2 * msecs_to_jiffies(fast ? TIER_BOUNCE_MAX_MSECS : TIER_BOUNCE_MIN_MSECS))
		tier_bounce_zero(map, fast, window->newest);
	tier_bounce_zero(map, fast, oldest);
	WRITE_ONCE(window->newest, oldest);
	window->since = jiffies;
	window->promoted = promoted;
}

/**
 * tier_bounces - how many pages were promoted, and how many of them bounced
 * @promoted: base pages since boot
 * @bounced:  base pages since boot
 *
 * To be called every few seconds by whoever promotes, because it also sees to it that
 * old promotions are forgotten.
 *
 * Context: may sleep.
 */
void tier_bounces(unsigned long *promoted, unsigned long *bounced)
{
	struct tier_bounce_map *map;

	*promoted = atomic_long_read(&tier_promoted);
	*bounced = atomic_long_read(&tier_bounced);

	mutex_lock(&tier_bounce_mutex);
	map = rcu_dereference_protected(tier_bounce_map, lockdep_is_held(&tier_bounce_mutex));
	if (map) {
		tier_bounce_window(map, false, *promoted);
		tier_bounce_window(map, true, *promoted);
	}
	mutex_unlock(&tier_bounce_mutex);
}

static void tier_bounce_free(struct tier_bounce_map *map)
{
	int nid;

	for (nid = 0; nid < MAX_NUMNODES; nid++) {
		kvfree(map->node[nid].bits[0]);
		kvfree(map->node[nid].bits[1]);
	}
	kvfree(map);
}

static bool tier_bounce_add_node(struct tier_bounce_map *map, int nid)
{
	struct tier_bounce_node *node = &map->node[nid];
	unsigned long nr_pfns = node_spanned_pages(nid);
	int i;

	for (i = 0; i < 2; i++) {
		node->bits[i] = kvcalloc(BITS_TO_LONGS(nr_pfns), sizeof(long),
					 GFP_KERNEL | __GFP_NOWARN);
		if (!node->bits[i])
			return false;
	}
	node->start_pfn = node_start_pfn(nid);
	node->nr_pfns = nr_pfns;
	node->fast = node_is_toptier(nid);
	if (node->fast)
		map->fast_pages += node_present_pages(nid);
	return true;
}

/**
 * tier_bounce_enable - begin to remember
 *
 * Context: may sleep.
 */
void tier_bounce_enable(void)
{
	struct tier_bounce_map *map = kvzalloc(sizeof(*map), GFP_KERNEL | __GFP_NOWARN);
	int nid, i;

	if (!map)
		return;
	for (i = 0; i < 2; i++) {
		map->window[i].since = jiffies;
		map->window[i].promoted = atomic_long_read(&tier_promoted);
	}
	for_each_node_state(nid, N_MEMORY) {
		if (!tier_bounce_add_node(map, nid)) {
			tier_bounce_free(map);
			return;
		}
	}
	mutex_lock(&tier_bounce_mutex);
	rcu_assign_pointer(tier_bounce_map, map);
	mutex_unlock(&tier_bounce_mutex);
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
