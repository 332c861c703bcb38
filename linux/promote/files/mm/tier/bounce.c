// SPDX-License-Identifier: GPL-2.0
/*
 * Bounces: pages that are demoted soon after they have been promoted.
 *
 * Two migrations for nothing.  When there are many, more is being promoted than fits
 * into the fast tier, and a promoter that goes on only swaps pages that are equally
 * hot.  To notice it, two bitmaps with a bit for each frame of the fast tier remember
 * which frames were promoted to in this window and in the last one; reclaim asks for
 * each folio that it demotes.
 *
 * A window lasts at least TIER_BOUNCE_MIN_MSECS, and longer if fewer pages than a
 * quarter of the fast tier were promoted in it, up to TIER_BOUNCE_MAX_MSECS: on a large
 * fast tier it takes its time until reclaim gets to what was promoted.
 *
 * A frame may have been freed and reused since; what is demoted from it then is no
 * bounce, but is taken for one.
 *
 * Lifetime: the bitmaps exist while a promoter is active (tier_promoter_get()), and are
 * freed a grace period later; readers use RCU.  Frames of the fast tier that come
 * online meanwhile, outside of what was the fast tier at the start, are not covered.
 * Without memory for the bitmaps nothing is counted.
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

struct tier_bounce_map {
	unsigned long start_pfn;
	unsigned long nr_pfns;
	int newest;			/* index of the bitmap that is filled */
	unsigned long *bits[2];

	/* Window; under tier_bounce_mutex */
	unsigned long since;		/* in jiffies */
	unsigned long promoted;		/* counter at its beginning */
};

/* Serialises beginning a window with enabling and disabling */
static DEFINE_MUTEX(tier_bounce_mutex);
static struct tier_bounce_map __rcu *tier_bounce_map;

/* In base pages, since the machine was booted */
static atomic_long_t tier_promoted;
static atomic_long_t tier_bounced;

/**
 * tier_bounce_mark - remember a frame that a folio is promoted to, or take it back
 * @folio: on the fast node
 * @mark:  false if it is not promoted after all
 *
 * Context: any.
 */
void tier_bounce_mark(struct folio *folio, bool mark)
{
	struct tier_bounce_map *map;
	unsigned long bit, *bits;

	rcu_read_lock();
	map = rcu_dereference(tier_bounce_map);
	bit = map ? folio_pfn(folio) - map->start_pfn : 0;
	if (map && bit < map->nr_pfns) {
		bits = map->bits[READ_ONCE(map->newest)];
		if (mark)
			set_bit(bit, bits);
		else
			clear_bit(bit, bits);
	}
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
 * @folio: isolated
 */
void __tier_folio_demoted(struct folio *folio)
{
	struct tier_bounce_map *map;
	bool bounced = false;
	unsigned long bit;

	rcu_read_lock();
	map = rcu_dereference(tier_bounce_map);
	bit = map ? folio_pfn(folio) - map->start_pfn : 0;
	if (map && bit < map->nr_pfns) {
		/* Once: the demotion may fail and be tried again. */
		bounced = test_and_clear_bit(bit, map->bits[0]);
		bounced |= test_and_clear_bit(bit, map->bits[1]);
	}
	rcu_read_unlock();
	if (bounced) {
		atomic_long_add(folio_nr_pages(folio), &tier_bounced);
		count_tier_events(TIER_PROMOTE_BOUNCE, folio_nr_pages(folio));
	}
}

/* Begin a new window if it is time. */
static void tier_bounce_window(struct tier_bounce_map *map, unsigned long promoted)
{
	unsigned long age = jiffies - map->since;
	int oldest = !map->newest;

	if (age < msecs_to_jiffies(TIER_BOUNCE_MIN_MSECS))
		return;
	if (age < msecs_to_jiffies(TIER_BOUNCE_MAX_MSECS) &&
	    promoted - map->promoted < map->nr_pfns / 4)
		return;
	/* Nobody has asked for long: both are old. */
	if (age > 2 * msecs_to_jiffies(TIER_BOUNCE_MAX_MSECS))
		bitmap_zero(map->bits[map->newest], map->nr_pfns);
	bitmap_zero(map->bits[oldest], map->nr_pfns);
	WRITE_ONCE(map->newest, oldest);
	map->since = jiffies;
	map->promoted = promoted;
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
	if (map)
		tier_bounce_window(map, *promoted);
	mutex_unlock(&tier_bounce_mutex);
}

static void tier_bounce_free(struct tier_bounce_map *map)
{
	kvfree(map->bits[0]);
	kvfree(map->bits[1]);
	kfree(map);
}

/**
 * tier_bounce_enable - begin to remember
 *
 * Context: may sleep.
 */
void tier_bounce_enable(void)
{
	unsigned long start = ULONG_MAX, end = 0;
	struct tier_bounce_map *map;
	int nid, i;

	for_each_node_state(nid, N_MEMORY) {
		if (!node_is_toptier(nid))
			continue;
		start = min(start, node_start_pfn(nid));
		end = max(end, node_end_pfn(nid));
	}
	map = start < end ? kzalloc(sizeof(*map), GFP_KERNEL) : NULL;
	if (!map)
		return;
	map->start_pfn = start;
	map->nr_pfns = end - start;
	map->since = jiffies;
	map->promoted = atomic_long_read(&tier_promoted);
	for (i = 0; i < 2; i++) {
		map->bits[i] = kvcalloc(BITS_TO_LONGS(map->nr_pfns), sizeof(long), GFP_KERNEL);
		if (!map->bits[i]) {
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
