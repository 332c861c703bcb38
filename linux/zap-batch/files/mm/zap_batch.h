/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Batched zap of order-0 pages: see zap_batch.c.
 */
#ifndef _MM_ZAP_BATCH_H
#define _MM_ZAP_BATCH_H

#include <linux/jump_label.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/rmap.h>

#include "internal.h"

struct encoded_page;

#ifdef CONFIG_ZAP_BATCH

DECLARE_STATIC_KEY_FALSE(zap_batch_key);

static inline bool zap_batch_enabled(void)
{
	return static_branch_unlikely(&zap_batch_key);
}

/**
 * struct zap_stat - pages that were unmapped, and are still counted as mapped
 * @pgdat: their node
 * @memcg: the group that they are charged to, or NULL
 * @nr:    base pages of page cache [0] and anonymous ones [1]
 *
 * Locking: on the stack of who holds the page-table lock.  It is written to the counters before
 * that is dropped, so that who takes the lock next, and who looks at the counters of a group
 * that has no pages any more, finds them right.  The lock implies RCU (pte_offset_map_lock()),
 * which keeps the group.
 */
struct zap_stat {
	struct pglist_data *pgdat;
	struct mem_cgroup *memcg;
	int nr[2];
};

void __zap_stat_flush(struct zap_stat *stat);

/**
 * zap_stat_begin - nothing was unmapped yet
 * @stat: on the stack
 */
static inline void zap_stat_begin(struct zap_stat *stat)
{
	*stat = (struct zap_stat) {};
}

/**
 * zap_stat_flush - count what was unmapped
 * @stat: can be used again
 *
 * Not by the static key: that may have been switched off meanwhile.
 *
 * Context: page-table lock held, not in interrupts.
 */
static inline void zap_stat_flush(struct zap_stat *stat)
{
	if (stat->nr[0] | stat->nr[1])
		__zap_stat_flush(stat);
}

/* folio_remove_rmap_ptes() of an order-0 folio, but for the statistics */
static __always_inline void zap_stat_unmap(struct zap_stat *stat, struct folio *folio,
					   struct vm_area_struct *vma)
{
	__folio_rmap_sanity_checks(folio, &folio->page, 1, RMAP_LEVEL_PTE);
	if (atomic_add_negative(-1, &folio->_mapcount)) {
		/* Not before: only what is still mapped can take its counters to another group. */
		struct mem_cgroup *memcg = folio_memcg(folio);
		struct pglist_data *pgdat = folio_pgdat(folio);

		if (stat->memcg != memcg || stat->pgdat != pgdat) {
			zap_stat_flush(stat);
			stat->memcg = memcg;
			stat->pgdat = pgdat;
		}
		stat->nr[folio_test_anon(folio)]++;
	}
	munlock_vma_folio(folio, vma);
}

/**
 * zap_remove_rmap_ptes - folio_remove_rmap_ptes(), perhaps counted later
 * @stat:  of this page table
 * @folio: as for folio_remove_rmap_ptes()
 * @page:  likewise
 * @nr:    likewise
 * @vma:   likewise
 *
 * Context: page-table lock held, and zap_stat_flush() before it is dropped.
 */
static __always_inline void zap_remove_rmap_ptes(struct zap_stat *stat, struct folio *folio,
						 struct page *page, unsigned int nr,
						 struct vm_area_struct *vma)
{
	if (zap_batch_enabled() && !folio_test_large(folio))
		zap_stat_unmap(stat, folio, vma);
	else
		folio_remove_rmap_ptes(folio, page, nr, vma);
}

void zap_batch_free(struct encoded_page **pages, unsigned int nr);

/* mm/memcontrol.c */
void mem_cgroup_uncharge_run(struct mem_cgroup *memcg, unsigned int nr, int nid);
/* mm/page_alloc.c */
void free_unref_run(struct folio **folios, unsigned int nr);

#else /* !CONFIG_ZAP_BATCH */

struct zap_stat {
};

static inline bool zap_batch_enabled(void)
{
	return false;
}

static inline void zap_stat_begin(struct zap_stat *stat)
{
}

static inline void zap_stat_flush(struct zap_stat *stat)
{
}

static __always_inline void zap_remove_rmap_ptes(struct zap_stat *stat, struct folio *folio,
						 struct page *page, unsigned int nr,
						 struct vm_area_struct *vma)
{
	folio_remove_rmap_ptes(folio, page, nr, vma);
}

static inline void zap_batch_free(struct encoded_page **pages, unsigned int nr)
{
}

#endif /* CONFIG_ZAP_BATCH */

#endif /* _MM_ZAP_BATCH_H */
