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
 *   no lock          memory charge and references to the group, by group
 *   per-CPU lists    count and high mark, by zone and migrate type (page_alloc.c)
 *
 * Invariant: what is gathered is written when the run ends, and always before the lock drops
 * under which it was gathered.  Nobody who holds the lock can see that there was a run.  The
 * counters come to the same values as without; only their per-CPU parts are updated in other
 * steps.
 *
 * Everything else takes the way that it takes without: large folios, device memory, charged
 * kernel memory, classic LRU lists and unevictable folios as far as their lists are concerned.
 * Of what others free in batches (reclaim, truncation) only the last step is batched, and not in
 * interrupts.
 *
 * Bounded latency.  No more folios than without wait for their end, and no lock is held for more
 * of them (PAGEVEC_SIZE), each of which takes less; a per-CPU list that is too long gives back as
 * many more at a time as have come.  A group is charged for MEMCG_CHARGE_BATCH pages at most that
 * are free.  Between two points at which others may run are folios of ZAP_BATCH_PAGES base pages
 * together (ZAP_BATCH_CLEARED where they are cleared) or one larger folio, however they were
 * mapped.  Without, it is 512 entries, of which each may be a huge page.
 *
 * Cost when off: a no-op for each folio or part of one that is unmapped, and a few instructions per
 * page table and per batch.
 */

#define pr_fmt(fmt) "zap_batch: " fmt

#include <linux/debugfs.h>
#include <linux/kobject.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/pagevec.h>
#include <linux/sched.h>
#include <linux/swap.h>
#include <linux/sysfs.h>

#include "internal.h"
#include "swap.h"
#include "zap_batch.h"

#define CREATE_TRACE_POINTS
#include <trace/events/zap_batch.h>

/* Between two points at which others may run: entries, and base pages that are freed */
#define ZAP_BATCH_ENTRIES	512U
#define ZAP_BATCH_PAGES		4096U
#define ZAP_BATCH_CLEARED	512U	/* that are cleared or poisoned as well */

DEFINE_STATIC_KEY_FALSE(zap_batch_key);

/* What gathers */
enum zap_gatherer {
	ZAP_STAT,
	ZAP_LRU,
	ZAP_CHARGE,
	ZAP_FREE,
	NR_ZAP_GATHERERS
};

#ifdef CONFIG_ZAP_BATCH_DEBUG
DEFINE_STATIC_KEY_FALSE(zap_single_ptes_key);

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

/* Folios that were taken from a list of MGLRU, and are still part of its size */
struct zap_lru {
	struct lruvec *lruvec;		/* locked, or NULL */
	unsigned long flags;		/* of interrupts */
	int gen;
	int type;
	int zone;
	long nr;			/* base pages */
};

/* Write the sizes of the run, under its lruvec's lock. */
static void zap_lru_flush(struct zap_lru *lru)
{
#ifdef CONFIG_LRU_GEN
	struct lru_gen_folio *lrugen;
	long *size;

	if (!lru->nr)
		return;
	lrugen = &lru->lruvec->lrugen;
	size = &lrugen->nr_pages[lru->gen][lru->type][lru->zone];
	if (!zap_loses(ZAP_LRU)) {
		WRITE_ONCE(*size, *size - lru->nr);
		__update_lru_size(lru->lruvec, lru->type * LRU_INACTIVE_FILE +
				  (lru_gen_is_active(lru->lruvec, lru->gen) ? LRU_ACTIVE : 0),
				  lru->zone, -lru->nr);
	}
	lru->nr = 0;
#endif
}

static void zap_lru_unlock(struct zap_lru *lru)
{
	if (!lru->lruvec)
		return;
	zap_lru_flush(lru);
	__acquire(&lru->lruvec->lru_lock);	/* for sparse; zap_lru_del() has */
	unlock_page_lruvec_irqrestore(lru->lruvec, lru->flags);
	lru->lruvec = NULL;
}

/*
 * Take a folio without references from its list.
 *
 * The flags of a folio that has no reference and is on an LRU list are changed by the holder of
 * the list's lock, by memory failure, and by a late wake-up of those who waited for the folio
 * (PG_waiters).  What the latter two change just now may get lost, as with
 * __folio_clear_lru_flags().  So an atomic exchange is not needed.
 */
static void zap_lru_del(struct zap_lru *lru, struct folio *folio)
{
#ifdef CONFIG_LRU_GEN
	int gen, type, zone;
#endif

	if (!folio_test_lru(folio))
		return;
	if (lru->lruvec && !folio_matches_lruvec(folio, lru->lruvec))
		zap_lru_unlock(lru);
	if (!lru->lruvec)
		lru->lruvec = folio_lruvec_lock_irqsave(folio, &lru->flags);

#ifdef CONFIG_LRU_GEN
	gen = folio_lru_gen(folio);
	if (gen >= 0) {
		type = folio_is_file_lru(folio);
		zone = folio_zonenum(folio);
		if (lru->gen != gen || lru->type != type || lru->zone != zone)
			zap_lru_flush(lru);
		lru->gen = gen;
		lru->type = type;
		lru->zone = zone;
		lru->nr++;
		list_del(&folio->lru);
		WRITE_ONCE(folio->flags, READ_ONCE(folio->flags) &
			   ~(LRU_GEN_MASK | BIT(PG_lru) | BIT(PG_active) | BIT(PG_unevictable)));
		return;
	}
#endif
	lruvec_del_folio(lru->lruvec, folio);
	__folio_clear_lru_flags(folio);
}

/* Folios that are charged to one group */
struct zap_charge {
	struct mem_cgroup *memcg;
	unsigned int nr;
	int nid;			/* of the last one */
	unsigned int runs;
};

static void zap_charge_flush(struct zap_charge *charge)
{
#ifdef CONFIG_MEMCG
	if (!charge->nr)
		return;
	if (!zap_loses(ZAP_CHARGE))
		mem_cgroup_uncharge_run(charge->memcg, charge->nr, charge->nid);
	charge->nr = 0;
	charge->runs++;
#endif
}

/* A folio without references is not charged to its group any more. */
static void zap_uncharge(struct zap_charge *charge, struct folio *folio)
{
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg;

	memcg = folio_memcg(folio);
	if (!memcg)
		return;
	/* What is free already is not charged for long. */
	if (charge->memcg != memcg || charge->nr == MEMCG_CHARGE_BATCH) {
		zap_charge_flush(charge);
		charge->memcg = memcg;
	}
	charge->nr++;
	charge->nid = folio_nid(folio);
	folio->memcg_data = 0;
#endif
}

/* Free folios of order 0 without references, PAGEVEC_SIZE at most. */
static void zap_free(struct folio **folios, unsigned int nr, struct zap_charge *charge)
{
	struct zap_lru lru = {};
	unsigned int i;

	for (i = 0; i < nr; i++)
		zap_lru_del(&lru, folios[i]);
	zap_lru_unlock(&lru);
	for (i = 0; i < nr; i++)
		zap_uncharge(charge, folios[i]);
	/* Only a test can make one of them stay. */
	if (zap_loses(ZAP_FREE))
		nr--;
	free_unref_run(folios, nr);
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
	unsigned int refs[PAGEVEC_SIZE], i, n = 0, freed = 0, sum = 0;
	struct folio *free[PAGEVEC_SIZE], *last = NULL;
	struct zap_charge charge = {};
	struct folio_batch others;
	bool large;

	lru_add_drain();
	folio_batch_init(&others);
	nr = min(nr, ZAP_BATCH_ENTRIES);
	for (i = 0; i < nr && sum < most; i++) {
		struct folio *folio = page_folio(encoded_page_ptr(pages[i]));
		unsigned int nr_refs = 1;

		/* The number behind an entry belongs to it. */
		if (unlikely(encoded_page_flags(pages[i]) & ENCODED_PAGE_BIT_NR_PAGES_NEXT))
			nr_refs = encoded_nr_pages(pages[++i]);
		free_swap_cache(folio);
		large = folio_test_large(folio);
		sum += large ? zap_weight(folio, &last) : 1;
		/* Charged kernel memory: page tables, and what drivers map */
		if (large || folio_is_zone_device(folio) || folio_memcg_kmem(folio)) {
			refs[others.nr] = nr_refs;
			if (!folio_batch_add(&others, folio))
				folios_put_refs(&others, refs);
		} else if (folio_ref_sub_and_test(folio, nr_refs)) {
			free[n++] = folio;
			if (n == PAGEVEC_SIZE) {
				zap_free(free, n, &charge);
				freed += n;
				n = 0;
			}
		}
	}
	if (others.nr)
		folios_put_refs(&others, refs);
	if (n)
		zap_free(free, n, &charge);
	zap_charge_flush(&charge);
	if (freed + n)
		trace_zap_batch_free(i, freed + n, charge.runs);
	return i;
}

/**
 * zap_batch_free - drop the references of what was unmapped
 * @pages: entries of a struct mmu_gather_batch
 * @nr:    number of entries
 *
 * Context: process context, no locks held; may sleep.
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

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", static_key_enabled(&zap_batch_key));
}

/* Static keys do not like to be turned by two at a time. */
static DEFINE_MUTEX(zap_batch_mutex);

static void zap_batch_turn(struct static_key_false *key, bool on)
{
	mutex_lock(&zap_batch_mutex);
	if (on)
		static_branch_enable(key);
	else
		static_branch_disable(key);
	mutex_unlock(&zap_batch_mutex);
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			     size_t count)
{
	bool on = sysfs_streq(buf, "1");

	if (!on && !sysfs_streq(buf, "0"))
		return -EINVAL;
	zap_batch_turn(&zap_batch_key, on);
	return count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

static struct attribute *zap_batch_attrs[] = {
	&enabled_attr.attr,
	NULL
};

static const struct attribute_group zap_batch_attr_group = {
	.name	= "zap_batch",
	.attrs	= zap_batch_attrs,
};

#ifdef CONFIG_ZAP_BATCH_DEBUG
static int single_ptes_set(void *data, u64 val)
{
	if (val > 1)
		return -EINVAL;
	zap_batch_turn(&zap_single_ptes_key, val);
	return 0;
}

static int single_ptes_get(void *data, u64 *val)
{
	*val = static_key_enabled(&zap_single_ptes_key);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(single_ptes_fops, single_ptes_get, single_ptes_set, "%llu\n");

static void zap_batch_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("zap_batch", NULL);

	debugfs_create_bool("fault_stat", 0600, dir, &zap_lose[ZAP_STAT]);
	debugfs_create_bool("fault_lru", 0600, dir, &zap_lose[ZAP_LRU]);
	debugfs_create_bool("fault_charge", 0600, dir, &zap_lose[ZAP_CHARGE]);
	debugfs_create_bool("fault_free", 0600, dir, &zap_lose[ZAP_FREE]);
	debugfs_create_file_unsafe("single_ptes", 0600, dir, NULL, &single_ptes_fops);
}
#else
static void zap_batch_debug_init(void)
{
}
#endif

static int __init zap_batch_init(void)
{
	zap_batch_debug_init();
	return sysfs_create_group(mm_kobj, &zap_batch_attr_group);
}
late_initcall(zap_batch_init);

#ifdef CONFIG_ZAP_BATCH_KUNIT_TEST
#include "zap_batch_kunit.h"
#endif
