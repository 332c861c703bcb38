// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion of physical page ranges from a slow to a fast memory node.
 *
 * Whoever finds out that a page of the slow tier is hot describes it as a
 * struct tier_range (page frames and target node, no reference) and calls
 * tier_promote() from process context, with no mm lock held.  This file looks
 * up the folios again, decides which of them may move, and hands them to
 * migrate_pages() in lists that share target node and order.
 *
 * What a range names may have been freed, reused, split, collapsed or taken
 * offline since it was recorded.  That is expected and harmless: only a folio
 * that is on the LRU, on a slow node and begins at the recorded frame is moved,
 * and moving a folio that is no longer hot is a waste, not an error.
 *
 * Not promoted, each for a reason:
 *   unevictable, mlocked   mlock() users asked for no surprises; a migration
 *                          entry is a minor fault
 *   DMA-pinned             migration would fail after it has unmapped the folio
 *   under writeback        MIGRATE_ASYNC does not wait for it
 *   dirty file folios      many file systems cannot move them in MIGRATE_ASYNC
 *                          (NUMA balancing leaves them out as well)
 *   KSM                    where a merged page lives is KSM's decision
 *                          (merge_across_nodes), and it has many owners
 *   hugetlb                belongs to a pool of its node
 *   device memory          DAX, device-private and -coherent: its driver's to
 *                          migrate; pfn_to_online_page() returns none of it
 *   hwpoisoned             the copy would consume the poison
 *   partially mapped large folios: migrate_pages() splits them
 *
 * A large folio is moved whole or not at all: migrate_pages() is called with
 * MR_NUMA_MISPLACED, for which it never splits a folio that finds no room.  That
 * is what a promotion is to it: a folio on the wrong node, moved if it is easy.
 * A reason of its own would differ from it in name only, in a header
 * (migrate_mode.h) that most of the kernel includes.
 *
 * With NUMA balancing off there is nothing to do about the last_cpupid field:
 * folio_use_access_time() is false, and folio_migrate_flags() copies the field.
 * In NUMA balancing's tiering mode folio_migrate_flags() resets the access time
 * when the folio changes tier, whoever migrates it.
 */

#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/memcontrol.h>
#include <linux/memory-tiers.h>
#include <linux/memory_hotplug.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/page_idle.h>
#include <linux/swap.h>
#include <linux/tier.h>
#include <linux/tier_parts.h>
#include <linux/tier_policy.h>
#include <linux/uaccess.h>
#include <linux/vmstat.h>
/* Needs some of the above */
#include <linux/compaction.h>

#include <asm/tlbflush.h>

#include "../internal.h"
#include "demoted.h"
#include "events.h"
#include "fault.h"
#include "flight.h"

#define CREATE_TRACE_POINTS
#include <trace/events/tier.h>

/*
 * Base pages per migrate_pages() call.  By default migrate_pages() cuts its list
 * at this size; a longer list would only keep more folios off the LRU.
 */
#define TIER_BATCH_PAGES	512

/* Base pages to allocate at a time */
#define TIER_BULK		32

/* True while somebody may call tier_promote(); see tier_mover_get() */
DEFINE_STATIC_KEY_FALSE(tier_move_key);

/* Callers of tier_promote() */
static atomic_t tier_movers = ATOMIC_INIT(0);

/* True while at least one promoter is active; see tier_promoter_get() */
DEFINE_STATIC_KEY_FALSE(tier_promote_key);
static DEFINE_MUTEX(tier_promoters_mutex);
static unsigned int tier_promoters;	/* under the mutex */

/* Memory control groups of a list */
#define TIER_BATCH_MEMCGS	8

/* A list for migrate_pages(): one target node, one order, few memcgs */
struct tier_batch {
	struct list_head folios;
	struct tier_flight *flight;
	struct mem_cgroup *memcg[TIER_BATCH_MEMCGS];	/* references, or NULL */
	unsigned int nr_memcgs;
	int nid;
	unsigned int order;
	unsigned long nr_pages;		/* on @folios */
	/* Smallest order for which @nomem_nid had no memory in this call */
	int nomem_nid;
	unsigned int nomem_order;
};

/* Counts what migrate_pages() really did; see tier_flush() */
struct tier_dst {
	const struct tier_batch *batch;
	int nid;
	/* Base pages allocated and not put, by memcg of the source */
	unsigned long moved[TIER_BATCH_MEMCGS];
	unsigned long wanted;		/* base pages, still to be asked for */
	/* Base pages that are allocated already: from @spare on, up to @spares */
	unsigned int spare;
	unsigned int spares;
	struct page *page[TIER_BULK];	/* NULL but for these */
};

static struct folio *tier_alloc_base(struct tier_dst *dst, gfp_t gfp)
{
	struct page *page;

	/* Who is asked for once more, after a failure, may be beyond what was wanted. */
	if (dst->spare == dst->spares) {
		unsigned long nr = clamp(dst->wanted, 1UL, TIER_BULK);

		dst->spare = 0;
		dst->spares = alloc_pages_bulk_array_node(gfp, dst->nid, nr, dst->page);
		if (!dst->spares)
			return NULL;
		/* There is little left, or somebody else is at it: one by one. */
		if (dst->spares < nr)
			dst->wanted = 0;
	}
	dst->wanted -= !!dst->wanted;
	page = dst->page[dst->spare];
	dst->page[dst->spare++] = NULL;
	return page_folio(page);
}

/* Number of the memcg of an isolated folio, or TIER_BATCH_MEMCGS if the batch has none of it */
static unsigned int tier_memcg(const struct tier_batch *batch, struct folio *folio)
{
	unsigned int i;

	for (i = 0; i < batch->nr_memcgs; i++) {
		if (batch->memcg[i] == folio_memcg(folio))
			return i;
	}
	return TIER_BATCH_MEMCGS;
}

/* For migrate_pages(): a folio of the same order on the target node, or NULL */
static struct folio *tier_alloc_dst(struct folio *src, unsigned long private)
{
	struct tier_dst *dst = (struct tier_dst *)private;
	unsigned int order = folio_order(src), i;
	struct folio *folio;
	gfp_t gfp;

	/* Never reclaim for a promotion, neither directly nor by waking kswapd. */
	if (order) {
		gfp = GFP_TRANSHUGE_LIGHT | __GFP_THISNODE;
		folio = __folio_alloc_node(gfp, order, dst->nid);
	} else {
		gfp = (GFP_HIGHUSER_MOVABLE & ~__GFP_RECLAIM) | __GFP_THISNODE |
		      __GFP_NOMEMALLOC | __GFP_NORETRY | __GFP_NOWARN;
		folio = tier_alloc_base(dst, gfp);
	}
	if (folio) {
		i = tier_memcg(dst->batch, src);
		if (WARN_ON_ONCE(i == TIER_BATCH_MEMCGS) || tier_fault(MEMCG))
			i = 0;
		/* For tier_put_dst().  Migration writes the index when it cannot fail any more. */
		folio->index = i;
		dst->moved[i] += folio_nr_pages(folio);
		tier_demoted_promote(src);
	}
	return folio;
}

static void tier_put_dst(struct folio *folio, unsigned long private)
{
	struct tier_dst *dst = (struct tier_dst *)private;

	dst->moved[folio->index] -= folio_nr_pages(folio);
	folio_put(folio);
}

/* The charge moves with the folio. */
static unsigned long tier_count_moved(const struct tier_batch *batch, const struct tier_dst *dst)
{
	unsigned long moved = 0;
	unsigned int i;

	for (i = 0; i < batch->nr_memcgs; i++) {
		moved += dst->moved[i];
#ifdef CONFIG_NUMA_BALANCING	/* the item does not exist without */
		mod_lruvec_state(mem_cgroup_lruvec(batch->memcg[i], NODE_DATA(batch->nid)),
				 PGPROMOTE_SUCCESS, dst->moved[i]);
#endif
	}
	return moved;
}

/*
 * Migrate what is on the list; afterwards the batch is empty.  @next: a folio that is isolated and
 * comes next, or NULL
 */
static void tier_flush(struct tier_batch *batch, const struct folio *next,
		       struct tier_promote_stats *stats)
{
	struct tier_dst dst = {
		.batch = batch,
		.nid = batch->nid,
		.wanted = batch->nr_pages,
	};
	unsigned long moved, refused, left = 0;
	struct folio *folio;
	unsigned int i;
	int rc;

	if (list_empty(&batch->folios))
		return;

	rc = migrate_pages_flight(&batch->folios, tier_alloc_dst, tier_put_dst,
				  (unsigned long)&dst, MIGRATE_ASYNC, MR_NUMA_MISPLACED, NULL,
				  batch->flight);
	refused = batch->flight->refused;

	/*
	 * migrate_pages() reports a folio whose last user went away while it
	 * was isolated as migrated.  Every other success has consumed a folio
	 * of ours and every failure has returned it, so this is exact.
	 */
	moved = tier_count_moved(batch, &dst);
	while (dst.spare < dst.spares)
		__free_page(dst.page[dst.spare++]);

	list_for_each_entry(folio, &batch->folios, lru)
		left += folio_nr_pages(folio);
	if (left)
		putback_movable_pages(&batch->folios);
	tier_flight_end(batch->flight, next);

	stats->moved += moved;
	/* A folio counts once, and is not tried again at once. */
	refused = min(refused, left);
	left -= refused;
	stats->refused += refused;
	if (rc == -ENOMEM) {
		/* What was left untried would have failed for the same reason */
		stats->nomem += left;
		/* There is room, but not in one piece. */
		if (batch->order)
			wakeup_kcompactd(NODE_DATA(batch->nid), batch->order, ZONE_MOVABLE);
		batch->nomem_nid = batch->nid;
		batch->nomem_order = batch->order;
	} else {
		stats->busy += left;
	}
	if (batch->nr_pages > moved + refused + left)
		stats->skipped += batch->nr_pages - moved - refused - left;

	trace_tier_promote_batch(batch->nid, batch->order, batch->nr_pages,
				 moved, rc == -ENOMEM ? 0 : left,
				 rc == -ENOMEM ? left : 0);

	for (i = 0; i < batch->nr_memcgs; i++)
		mem_cgroup_put(batch->memcg[i]);
	batch->nr_memcgs = 0;
	batch->nr_pages = 0;
}

/*
 * The folio that begins at @pfn, with a reference, or NULL.  The caller's memory
 * hotplug lock keeps the memmap of online sections in place.
 */
static struct folio *tier_get_folio(unsigned long pfn)
{
	struct folio *folio;
	struct page *page;

	page = pfn_to_online_page(pfn);
	if (!page)
		return NULL;

	folio = page_folio(page);
	if (!folio_try_get(folio))
		return NULL;

	/*
	 * Between page_folio() and folio_try_get() the folio may have been
	 * freed and its frames reused in another layout.  With the reference
	 * neither can happen any more: look again.  A frame that is not the
	 * head belongs to a folio that was formed after the recording.
	 */
	if (page_folio(page) != folio || &folio->page != page ||
	    !folio_test_lru(folio)) {
		folio_put(folio);
		return NULL;
	}
	return folio;
}

/* The reasons are in the header comment. */
static bool tier_may_promote(struct folio *folio)
{
	if (node_is_toptier(folio_nid(folio)) || !tier_folio_has_users(folio))
		return false;
	if (folio_test_hugetlb(folio) || folio_contain_hwpoisoned_page(folio))
		return false;
	if ((folio_test_unevictable(folio) || folio_test_mlocked(folio)) && !tier_fault(MLOCKED))
		return false;
	if (folio_test_ksm(folio) || folio_test_writeback(folio))
		return false;
	if (folio_is_file_lru(folio) && folio_test_dirty(folio))
		return false;
	if (folio_maybe_dma_pinned(folio))
		return false;
	/* migrate_pages() would split it whatever the reason. */
	if (folio_test_pmd_mappable(folio) && !thp_migration_supported())
		return false;
	/*
	 * Unlocked, as in migrate_pages_batch().  A folio that becomes
	 * partially mapped after this check can still be split by it.
	 */
	if (folio_nr_pages(folio) > 2 && !data_race(list_empty(&folio->_deferred_list)) &&
	    folio_test_partially_mapped(folio))
		return false;
	return true;
}

/**
 * tier_target_valid - can pages be promoted to this node?
 * @nid: node number, need not be a valid one
 *
 * Return: true for an online top-tier node with memory.
 */
bool tier_target_valid(int nid)
{
	return nid >= 0 && nid < MAX_NUMNODES && node_state(nid, N_MEMORY) &&
	       node_is_toptier(nid);
}

/**
 * tier_target_headroom - free memory of a node above its high watermarks
 * @nid: node with memory
 *
 * What lower zones keep for allocations that can use no others does not count, as in
 * tier_target_has_room().
 *
 * Return: a snapshot in base pages; a hint for pacing, not a permission.
 */
unsigned long tier_target_headroom(int nid)
{
	pg_data_t *pgdat = NODE_DATA(nid);
	unsigned long room = 0;
	int i;

	for (i = 0; i < pgdat->nr_zones; i++) {
		struct zone *zone = pgdat->node_zones + i;
		unsigned long free, high;

		if (!managed_zone(zone))
			continue;
		free = zone_page_state(zone, NR_FREE_PAGES);
		high = high_wmark_pages(zone) + zone->lowmem_reserve[ZONE_MOVABLE];
		if (free > high)
			room += free - high;
	}
	return room;
}

/**
 * tier_target_has_room - may a node take this many more pages?
 * @nid: node with memory
 * @nr:  base pages
 *
 * Promotion must not push a node below its high watermark: allocations of the application would
 * soon wake kswapd.  tier_demote() makes room.
 *
 * Return: true if a zone of the node stays above its high watermark.
 */
bool tier_target_has_room(int nid, unsigned long nr)
{
	pg_data_t *pgdat = NODE_DATA(nid);
	struct zone *zone;
	int i;

	if (tier_fault(WATERMARK))
		return true;

	for (i = pgdat->nr_zones - 1; i >= 0; i--) {
		zone = pgdat->node_zones + i;
		if (managed_zone(zone) && zone_watermark_ok(zone, 0,
							    high_wmark_pages(zone) + nr,
							    ZONE_MOVABLE, ALLOC_CMA))
			return true;
	}
	return false;
}

/*
 * Put one folio onto the batch, flushing first what it cannot share a list
 * with.  Consumes the caller's reference.  Returns false if the target has no
 * room.
 */
static bool tier_add_folio(struct tier_batch *batch, struct folio *folio, int nid,
			   struct tier_promote_stats *stats)
{
	unsigned long nr = folio_nr_pages(folio);
	unsigned int order = folio_order(folio);
	bool room = true;

	if (batch->nid != nid || batch->order != order ||
	    batch->nr_pages + nr > TIER_BATCH_PAGES) {
		tier_flush(batch, NULL, stats);
		batch->nid = nid;
		batch->order = order;
	}

	/*
	 * One order to a list and this check keep a fragmented node, which has
	 * no large folios to give, from holding up the small ones.
	 */
	if (nid == batch->nomem_nid && order >= batch->nomem_order) {
		stats->nomem += nr;
		trace_tier_promote_skip(folio_pfn(folio), nid, TIER_PROMOTE_FAIL_NOMEM);
		goto out;
	}

	/* What is on the list is not allocated yet, but will be. */
	if (!tier_target_has_room(nid, batch->nr_pages + nr)) {
		stats->watermark += nr;
		trace_tier_promote_skip(folio_pfn(folio), nid, TIER_PROMOTE_FAIL_WATERMARK);
		room = false;
		goto out;
	}

	if (list_empty(&batch->folios))
		tier_flight_begin(batch->flight, nid);
	tier_flight_takes(batch->flight, folio);
	if (!folio_isolate_lru(folio)) {
		stats->isolate += nr;
		trace_tier_promote_skip(folio_pfn(folio), nid, TIER_PROMOTE_FAIL_ISOLATE);
		goto out;
	}
	/* Undone by migrate_pages() or putback_movable_pages() */
	node_stat_mod_folio(folio, NR_ISOLATED_ANON + folio_is_file_lru(folio), nr);

	if (tier_memcg(batch, folio) == TIER_BATCH_MEMCGS) {
		if (batch->nr_memcgs == TIER_BATCH_MEMCGS)
			tier_flush(batch, folio, stats);
		/* Its charge keeps the memcg. */
		batch->memcg[batch->nr_memcgs] = folio_memcg(folio);
		mem_cgroup_tryget(batch->memcg[batch->nr_memcgs++]);
	}

	/*
	 * An active folio comes to the youngest generation, which tells reclaim all that
	 * PG_young could.  MGLRU's walks leave that alone, so it would spare the folio once
	 * more at the time when it has become cold.
	 */
	if (lru_gen_enabled() && folio_test_active(folio) && folio_test_young(folio))
		folio_test_clear_young(folio);

	list_add_tail(&folio->lru, &batch->folios);
	batch->nr_pages += nr;
out:
	folio_put(folio);
	return room;
}

/* Returns false if the target has no room; the range is then what has been left. */
static bool tier_add_range(struct tier_batch *batch, struct tier_range *range,
			   struct tier_promote_stats *stats)
{
	unsigned long pfn = range->pfn;
	unsigned long left = range->nr;

	while (left) {
		struct folio *folio = tier_get_folio(pfn);
		unsigned long nr = 1;

		cond_resched();
		if (folio) {
			nr = folio_nr_pages(folio);
			/*
			 * Only part of a larger folio was asked for: it was
			 * collapsed since, and whether it is hot as a whole is
			 * not known.
			 */
			if (nr <= left && tier_may_promote(folio)) {
				if (!tier_add_folio(batch, folio, range->nid, stats)) {
					range->pfn = pfn;
					range->nr = left;
					return false;
				}
				goto next;
			}
			nr = min(nr, left);
			folio_put(folio);
		}
		stats->skipped += nr;
		trace_tier_promote_skip(pfn, range->nid, TIER_PROMOTE_SKIPPED);
next:
		pfn += nr;
		left -= nr;
	}
	return true;
}

/**
 * tier_promote - move ranges of page frames to the nodes they name
 * @ranges:    what to move; need not be sorted, but ranges with the same target
 *             next to each other share the cost of a batch
 * @nr_ranges: number of elements
 * @stats:     counts are added to it
 *
 * Stops at the first range whose target has no room, so that the caller can
 * wait for the room or give up.  That range is shortened to what has been left; frames
 * that were vacated must not be tried again, because somebody else will get them.
 * Ranges with an invalid target are skipped.
 *
 * While memory goes offline nothing is promoted, and all counts as busy; so it does where
 * TIER_FLIGHTS calls are under way.
 *
 * Context: process context, may sleep.  Takes the memory hotplug lock for reading.
 * No mmap_lock, page-table lock or folio lock may be held: migration takes folio
 * locks and the rmap locks.
 * Return: number of ranges dealt with.
 */
unsigned int tier_promote(struct tier_range *ranges, unsigned int nr_ranges,
			  struct tier_promote_stats *stats)
{
	const struct tier_promote_stats before = *stats;
	struct tier_batch batch = {
		.folios = LIST_HEAD_INIT(batch.folios),
		.nid = NUMA_NO_NODE,
		.nomem_nid = NUMA_NO_NODE,
	};
	unsigned int i = 0;

	/* A full barrier; pairs with tier_mover_put(). */
	batch.flight = tier_flight_get();
	/* Without a mover, a change of a policy would not wait. */
	if (batch.flight && !atomic_read(&tier_movers))
		goto out;
	/*
	 * For tier_get_folio().  Taken before anything is isolated and not in
	 * between: offlining holds it for writing until the last folio of the
	 * section can be isolated, and would wait for ever for those that we
	 * hold while we wait for the lock.  And it holds it for as long as somebody
	 * keeps a folio from moving, so it is not waited for.
	 */
	if (!batch.flight || !try_get_online_mems()) {
		for (i = 0; i < nr_ranges; i++)
			stats->busy += ranges[i].nr;
		goto out;
	}
	for (i = 0; i < nr_ranges; i++) {
		if (!tier_target_valid(ranges[i].nid)) {
			stats->skipped += ranges[i].nr;
			continue;
		}
		if (!tier_add_range(&batch, &ranges[i], stats))
			break;
	}
	tier_flush(&batch, NULL, stats);
	put_online_mems();

out:
	if (batch.flight)
		tier_flight_put(batch.flight);
	count_tier_events(TIER_PROMOTE_SUCCESS, stats->moved - before.moved);
	count_tier_events(TIER_PROMOTE_SKIPPED, stats->skipped - before.skipped);
	count_tier_events(TIER_PROMOTE_FAIL_ISOLATE, stats->isolate - before.isolate);
	count_tier_events(TIER_PROMOTE_FAIL_BUSY, stats->busy - before.busy);
	count_tier_events(TIER_PROMOTE_FAIL_NOMEM, stats->nomem - before.nomem);
	count_tier_events(TIER_PROMOTE_FAIL_WATERMARK, stats->watermark - before.watermark);
	return i;
}

/**
 * tier_mover_get - somebody is going to call tier_promote()
 *
 * From now on migration asks mappings whether they allow a promotion, and changes of policies
 * wait for those under way.  Calls nest.  Context: may sleep.
 */
void tier_mover_get(void)
{
	static_branch_inc(&tier_move_key);
	atomic_inc(&tier_movers);
}

/**
 * tier_mover_put - it will not call tier_promote() any more
 *
 * Undoes one tier_mover_get().  A tier_promote() that is late does nothing.
 * Context: may sleep; the last one waits for those under way.
 */
void tier_mover_put(void)
{
	/* A call that has not seen this has to be waited for by changes of policies. */
	if (atomic_dec_and_test(&tier_movers))
		tier_flights_wait_idle();
	static_branch_dec(&tier_move_key);
}

/**
 * tier_promoter_get - a promoter starts to work
 *
 * From now on tier_promote() may be called, and what is demoted is remembered.  Calls nest.
 *
 * Context: may sleep.
 * Return: 0, or -ENOMEM: there is no memory to remember what is demoted, and a promoter would not
 * notice that pages go to and fro.
 */
int tier_promoter_get(void)
{
	int err = 0;

	mutex_lock(&tier_promoters_mutex);
	if (!tier_promoters)
		err = tier_demoted_enable();
	if (!err) {
		tier_promoters++;
		tier_mover_get();
		static_branch_inc(&tier_promote_key);
	}
	mutex_unlock(&tier_promoters_mutex);
	return err;
}

/**
 * tier_promoter_put - a promoter has stopped
 *
 * Undoes one tier_promoter_get().  Context: may sleep.
 */
void tier_promoter_put(void)
{
	mutex_lock(&tier_promoters_mutex);
	static_branch_dec(&tier_promote_key);
	tier_mover_put();
	if (!--tier_promoters)
		tier_demoted_disable();
	mutex_unlock(&tier_promoters_mutex);
}

/**
 * tier_keeps - is what may not be demoted left alone?
 *
 * Context: tier_age() and tier_demote().
 * Return: true, but for a fault.
 */
bool tier_keeps(void)
{
	return !tier_fault(KEEP);
}

/**
 * tier_spares - is a group left out that memory.min or memory.low protects?
 * @memcg: the groups above were asked before
 *
 * Reclaim takes from below memory.low where nothing else is left.  A promotion is not worth that.
 *
 * Context: tier_age() and tier_demote().
 */
bool tier_spares(struct mem_cgroup *memcg)
{
	mem_cgroup_calculate_protection(NULL, memcg);
	return (mem_cgroup_below_min(NULL, memcg) || mem_cgroup_below_low(NULL, memcg)) &&
	       !tier_fault(SPARE);
}

#ifdef CONFIG_TIER_DEBUG
/* Three numbers, with a space between */
static int tier_debug_numbers(unsigned long *val, const char __user *ubuf, size_t count, loff_t pos)
{
	char buf[64], *p;
	int i;

	if (pos || !count || count >= sizeof(buf))
		return -EINVAL;
	if (copy_from_user(buf, ubuf, count))
		return -EFAULT;
	buf[count] = '\0';

	p = strim(buf);
	for (i = 0; i < 3; i++) {
		char *word = strsep(&p, " ");

		if (!word || kstrtoul(word, 0, &val[i]))
			return -EINVAL;
	}
	return p ? -EINVAL : 0;
}

/*
 * "PFN NR NID": promote the frames now.  Succeeds if all of them have moved;
 * otherwise the error names the first of these reasons that applies:
 * EPERM a memory policy or cpuset forbids it, ENOSPC no room, ENOMEM no memory of
 * that order, EBUSY migration or isolation failed, ENOENT nothing there that may be
 * promoted, EINVAL malformed.
 */
static ssize_t tier_debug_promote(struct file *file, const char __user *ubuf,
				  size_t count, loff_t *ppos)
{
	struct tier_promote_stats stats = {};
	struct tier_range range;
	unsigned long val[3];
	int err;

	err = tier_debug_numbers(val, ubuf, count, *ppos);
	if (err)
		return err;
	if (!val[1] || val[1] > MAX_ORDER_NR_PAGES || val[2] >= MAX_NUMNODES ||
	    !tier_target_valid(val[2]))
		return -EINVAL;

	range.pfn = val[0];
	range.nr = val[1];
	range.nid = val[2];
	/* What this task and others have just faulted in is not on the LRU yet */
	lru_add_drain_all();
	tier_mover_get();
	tier_promote(&range, 1, &stats);
	tier_mover_put();

	if (stats.moved == val[1])
		return count;
	if (stats.refused)
		return -EPERM;
	if (stats.watermark)
		return -ENOSPC;
	if (stats.nomem)
		return -ENOMEM;
	if (stats.busy || stats.isolate)
		return -EBUSY;
	return -ENOENT;
}

static const struct file_operations tier_debug_promote_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.write	= tier_debug_promote,
};

/*
 * "NID NR MSECS": demote pages of a node now that are idle for some time.  ENOENT if there are
 * fewer, EINVAL if it is malformed.
 */
static ssize_t tier_debug_demote(struct file *file, const char __user *ubuf, size_t count,
				 loff_t *ppos)
{
	unsigned long val[3], since;
	int err;

	err = tier_debug_numbers(val, ubuf, count, *ppos);
	if (err)
		return err;
	if (!val[1] || val[0] >= MAX_NUMNODES || !tier_target_valid(val[0]) || val[2] > 60000)
		return -EINVAL;
	lru_add_drain_all();
	tier_age(val[0]);
	flush_tlb_all();
	since = jiffies;
	if (msleep_interruptible(val[2]))
		return -EINTR;
	tier_age(val[0]);
	return tier_demote(val[0], val[1], since) < val[1] ? -ENOENT : count;
}

static const struct file_operations tier_debug_demote_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.write	= tier_debug_demote,
};

static int __init tier_debug_init(void)
{
	debugfs_create_file("promote", 0200, tier_debug_dir(NULL), NULL, &tier_debug_promote_fops);
	debugfs_create_file("demote", 0200, tier_debug_dir(NULL), NULL, &tier_debug_demote_fops);
	return 0;
}
late_initcall(tier_debug_init);
#endif /* CONFIG_TIER_DEBUG */
