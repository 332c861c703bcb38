// SPDX-License-Identifier: GPL-2.0
/*
 * Batched zap: unmap and free order-0 pages with less work for each of them.
 *
 * Page tables are zapped in batches, and what they map is freed in batches (mmu_gather.c).  For
 * a large folio that makes most of the work one for the folio.  For an order-0 page it does not:
 * each one is taken from the counters of its group and node when it is unmapped, from the sizes
 * of its LRU list and zone when it is freed, and from its group's charge; its LRU flags are
 * changed twice; and each one is a decision of its own whether the per-CPU list has too much.
 * But neighbours in an address space mostly have the same group, node, zone, generation and
 * migrate type.  So here the work is done for a run of such pages:
 *
 *   page-table lock  NR_ANON_MAPPED and NR_FILE_MAPPED, by group and node (struct zap_stat)
 *   LRU lock         list and generation sizes, by group, node, zone and generation
 *   no lock          memory charge and references to the group, by group and node
 *   per-CPU lists    count and high mark, by zone and migrate type (page_alloc.c)
 *   zone lock        free frames that are neighbours, by pageblock (page_alloc.c)
 *
 * Invariant: gathered work is written when the run ends, and always before the lock drops under
 * which the work was gathered.  Counters are exact whenever the lock is free; a reader without
 * the lock sees list sizes that are at most 31 pages too large.
 *
 * All else is unchanged: large folios, device memory, charged kernel memory, classic LRU lists
 * and unevictable folios as far as their lists are concerned.  Reclaim and truncation gain only
 * by the joining of free frames.
 *
 * Bounded latency.  No more folios than without wait for their end, and no lock is held for more
 * of them (PAGEVEC_SIZE), each of which takes less; a per-CPU list that is too long gives back as
 * many more at a time as have come.  Nothing that is free is
 * still charged.  Between two points at which others may run are folios of ZAP_BATCH_PAGES pages
 * together (ZAP_BATCH_CLEARED where they are cleared) or one larger folio, however they were
 * mapped.  Without, it is 512 entries, of which each may be a huge page.
 *
 * Cost when off: a no-op for each folio or part of one that is unmapped, and a few instructions per
 * page table and per batch.
 */

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mm_types.h>
#include <linux/pagevec.h>
#include <linux/sched.h>
#include <linux/swap.h>
#include <linux/tier_parts.h>

#include "internal.h"
#include "swap.h"
#include "zap_batch.h"

#define CREATE_TRACE_POINTS
#include <trace/events/tier_zap.h>

/* Between two points at which others may run: entries, and base pages that are freed */
#define ZAP_BATCH_ENTRIES	512U
#define ZAP_BATCH_PAGES		4096U
#define ZAP_BATCH_CLEARED	512U	/* that are cleared or poisoned as well */

DEFINE_STATIC_KEY_FALSE(zap_batch_key);

/* Folios of order 0 that were freed, and runs of them that were uncharged at once */
enum zap_count {
	ZAP_PAGES,
	ZAP_RUNS,
	NR_ZAP_COUNTS
};

static DEFINE_PER_CPU(unsigned long [NR_ZAP_COUNTS], zap_counts);

/* What gathers */
enum zap_gatherer {
	ZAP_STAT,
	ZAP_LRU,
	ZAP_CHARGE,
	ZAP_FREE,
	NR_ZAP_GATHERERS
};

#ifdef CONFIG_ZAP_BATCH_DEBUG
/* What a gatherer has is not written, but thrown away */
static bool zap_lose[NR_ZAP_GATHERERS];
#endif

static bool zap_loses(enum zap_gatherer gatherer)
{
#ifdef CONFIG_ZAP_BATCH_DEBUG
	return READ_ONCE(zap_lose[gatherer]);
#else
	return false;
#endif
}

/**
 * __zap_stat_flush - see zap_stat_flush()
 * @stat: not empty
 */
void __zap_stat_flush(struct zap_stat *stat)
{
	static const enum node_stat_item item[2] = { NR_FILE_MAPPED, NR_ANON_MAPPED };
	int i;

	for (i = 0; i < 2; i++) {
		if (!stat->nr[i] || zap_loses(ZAP_STAT))
			continue;
		if (stat->memcg)
			__mod_lruvec_state(mem_cgroup_lruvec(stat->memcg, stat->pgdat), item[i],
					   -stat->nr[i]);
		else
			__mod_node_page_state(stat->pgdat, item[i], -stat->nr[i]);
	}
	zap_stat_begin(stat);
}

/* What the folios of a run have in common in their flags, and those that are in one list size */
#define ZAP_RUN_FLAGS	(BIT(PG_lru) | (ZONEID_MASK << ZONEID_PGSHIFT))
#define ZAP_SIZE_FLAGS	(LRU_GEN_MASK | BIT(PG_swapbacked))

/* Write the sizes for folios that have left a list of MGLRU; the lruvec's lock is held. */
static void zap_lru_size(struct lruvec *lruvec, unsigned long flags, int nr)
{
#ifdef CONFIG_LRU_GEN
	int gen = ((flags & LRU_GEN_MASK) >> LRU_GEN_PGOFF) - 1;
	int type = !(flags & BIT(PG_swapbacked)), zone = (flags >> ZONES_PGSHIFT) & ZONES_MASK;
	long *size = &lruvec->lrugen.nr_pages[gen][type][zone];

	if (zap_loses(ZAP_LRU))
		return;
	WRITE_ONCE(*size, *size - nr);
	__update_lru_size(lruvec, type * LRU_INACTIVE_FILE +
			  (lru_gen_is_active(lruvec, gen) ? LRU_ACTIVE : 0), zone, -nr);
#endif
}

/*
 * Take folios without references from their LRU list and their group: from the first one on as
 * many as have its node, zone and group.  Returns how many.
 *
 * The flags of a folio that has no reference and is on an LRU list are changed by the holder of
 * the list's lock, by memory failure, and by a late wake-up of the tasks that waited for the folio
 * (PG_waiters).  A change by the latter two may get lost, as with __folio_clear_lru_flags().
 * KVM writes flags without a reference, too.  It has ended its mappings before the zap
 * (invalidate_range_start(), mmu_notifier_release()), or ages a page under the lock of the page
 * table that maps the page.  So an atomic exchange is not needed.
 */
static unsigned int zap_take(struct folio **folios, unsigned int nr)
{
	unsigned long irq, flags, first = READ_ONCE(folios[0]->flags), sized = 0;
	struct mem_cgroup *memcg = folio_memcg(folios[0]);
	struct lruvec *lruvec = NULL;
	unsigned int i, from = 0;

	if (first & BIT(PG_lru))
		lruvec = folio_lruvec_lock_irqsave(folios[0], &irq);
	for (i = 0; i < nr; i++) {
		struct folio *folio = folios[i];

		flags = READ_ONCE(folio->flags);
		if (i && (((flags ^ first) & ZAP_RUN_FLAGS) || folio_memcg(folio) != memcg))
			break;
		if (lruvec && (flags & LRU_GEN_MASK)) {
			if ((flags ^ sized) & ZAP_SIZE_FLAGS) {
				if (sized)
					zap_lru_size(lruvec, sized, i - from);
				sized = flags;
				from = i;
			}
			/* bad_page() tells of these flags. */
			VM_WARN_ON_ONCE_FOLIO(folio_test_active(folio), folio);
			VM_WARN_ON_ONCE_FOLIO(folio_test_unevictable(folio), folio);
			list_del(&folio->lru);
			WRITE_ONCE(folio->flags, flags & ~(LRU_GEN_MASK | BIT(PG_lru)));
		} else if (lruvec) {
			if (sized)
				zap_lru_size(lruvec, sized, i - from);
			sized = 0;
			lruvec_del_folio(lruvec, folio);
			__folio_clear_lru_flags(folio);
		}
#ifdef CONFIG_MEMCG
		folio->memcg_data = 0;
#endif
	}
	if (sized)
		zap_lru_size(lruvec, sized, i - from);
	if (lruvec) {
		__acquire(&lruvec->lru_lock);	/* for sparse; folio_lruvec_lock_irqsave() has */
		unlock_page_lruvec_irqrestore(lruvec, irq);
	}
	return i;
}

/*
 * Free folios of order 0 without references, PAGEVEC_SIZE at most.  Returns the number of runs.
 */
static unsigned int zap_free(struct folio **folios, unsigned int nr)
{
	unsigned int length, runs;

	for (runs = 0; nr; folios += length, nr -= length, runs++) {
		struct mem_cgroup *memcg = folio_memcg(folios[0]);
		int nid = folio_nid(folios[0]);

		length = zap_take(folios, nr);
		if (memcg && !zap_loses(ZAP_CHARGE))
			mem_cgroup_uncharge_run(memcg, length, nid);
		/* Only a test can make one of them stay. */
		free_unref_run(folios, length - zap_loses(ZAP_FREE));
	}
	return runs;
}

/*
 * How many base pages an entry of a large folio adds to what is freed.  The folio counts by its
 * size, as often as it follows another one: how many of its pages an entry stands for does not
 * tell what is freed with the last reference.
 */
static unsigned int zap_weight(struct folio *folio, struct folio **last)
{
	if (folio == *last)
		return 0;
	*last = folio;
	return folio_nr_pages(folio);
}

/*
 * Entries of folios that have @most base pages together, or of one larger folio; and no more
 * than ZAP_BATCH_ENTRIES.  Returns how many.
 */
static unsigned int zap_put(struct encoded_page **pages, unsigned int nr, unsigned int most)
{
	unsigned int refs[PAGEVEC_SIZE], i, n = 0, freed = 0, runs = 0, sum = 0;
	struct folio *free[PAGEVEC_SIZE], *last = NULL;
	struct folio_batch others;
	bool large;

	/* As free_pages_and_swap_cache() */
	if (IS_ENABLED(CONFIG_SWAP))
		lru_add_drain();
	folio_batch_init(&others);
	nr = min(nr, ZAP_BATCH_ENTRIES);
	for (i = 0; i < nr && sum < most; i++) {
		struct folio *folio = page_folio(encoded_page_ptr(pages[i]));
		unsigned int nr_refs = 1;

		/* The number behind an entry belongs to it. */
		if (unlikely(encoded_page_flags(pages[i]) & ENCODED_PAGE_BIT_NR_PAGES_NEXT))
			nr_refs = encoded_nr_pages(pages[++i]);
		if (folio_test_swapcache(folio))
			free_swap_cache(folio);
		large = folio_test_large(folio);
		sum += large ? zap_weight(folio, &last) : 1;
		/* Charged kernel memory: page tables, and what drivers map */
		if (large || folio_is_zone_device(folio) || folio_memcg_kmem(folio)) {
			refs[others.nr] = nr_refs;
			if (folio_batch_add(&others, folio))
				continue;
		} else if (folio_ref_sub_and_test(folio, nr_refs)) {
			free[n++] = folio;
		}
		/* Small ones first: they do not stay on their lists while large ones are freed. */
		if (n == PAGEVEC_SIZE || others.nr == PAGEVEC_SIZE) {
			runs += zap_free(free, n);
			freed += n;
			n = 0;
		}
		if (others.nr == PAGEVEC_SIZE)
			folios_put_refs(&others, refs);
	}
	runs += zap_free(free, n);
	freed += n;
	if (others.nr)
		folios_put_refs(&others, refs);
	if (freed) {
		this_cpu_add(zap_counts[ZAP_PAGES], freed);
		this_cpu_add(zap_counts[ZAP_RUNS], runs);
		trace_tier_zap_run(i, freed, runs);
	}
	return i;
}

/**
 * zap_batch_free - drop the references of what was unmapped
 * @pages: entries of a struct mmu_gather_batch
 * @nr:    number of entries
 *
 * Context: process context, no spinlock held; may sleep.  mmap_lock and i_mmap_rwsem may be held.
 */
void zap_batch_free(struct encoded_page **pages, unsigned int nr)
{
	unsigned int some, most = ZAP_BATCH_PAGES;

	/* Where each base page takes its time */
	if (page_poisoning_enabled_static() || want_init_on_free())
		most = ZAP_BATCH_CLEARED;
	for (; nr; pages += some, nr -= some) {
		some = zap_put(pages, nr, most);
		cond_resched();
	}
}

static int zap_batch_start(const char **reason)
{
	static_branch_enable(&zap_batch_key);
	return 0;
}

static void zap_batch_stop(void)
{
	static_branch_disable(&zap_batch_key);
}

static struct tier_part zap_batch_part = {
	.name	= "zap",
	.wish	= true,
	.start	= zap_batch_start,
	.stop	= zap_batch_stop,
};

static const char * const zap_batch_names[] = { "tier_zap_pages ", "tier_zap_runs " };

static struct tier_counters zap_batch_counters = {
	.names	= zap_batch_names,
	.nr	= NR_ZAP_COUNTS,
	.counts	= zap_counts,
};

static int __init zap_batch_init(void)
{
#ifdef CONFIG_ZAP_BATCH_DEBUG
	static const char * const names[NR_ZAP_GATHERERS] = { "stat", "lru", "charge", "free" };

	tier_faults_add("zap", names, zap_lose, NR_ZAP_GATHERERS);
#endif
	tier_counters_add(&zap_batch_counters);
	return tier_part_add(&zap_batch_part);
}
late_initcall(zap_batch_init);

#ifdef CONFIG_ZAP_BATCH_KUNIT_TEST
#include "zap_batch_kunit.h"
#endif
