/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Batched migration: see migrate_batch.c.
 */
#ifndef _MM_MIGRATE_BATCH_H
#define _MM_MIGRATE_BATCH_H

#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>

struct anon_vma;
struct migrate_unmap;
struct page_vma_mapped_walk;

/* Base pages that kswapd isolates at a time if it can demote them; else MIN_LRU_BATCH */
#define MIGRATE_DEMOTE_PAGES	512

#ifdef CONFIG_MIGRATE_BATCH

DECLARE_STATIC_KEY_FALSE(migrate_batch_key);

static inline bool migrate_batch_on(void)
{
	return static_branch_unlikely(&migrate_batch_key);
}

/**
 * struct migrate_run - folios that are unmapped under one invalidation of secondary MMUs
 * @range:	that was invalidated; valid while @begun
 * @anon_vma:	whose lock is held for reading, or NULL
 * @mapping:	whose lock is held for reading, or NULL
 * @end:	the first folio that does not belong to the run, or the head of the list
 * @vain:	folios to be skipped after the last time that no run was found
 * @skip:	of these, how many are left
 * @begun:	the run is not empty
 * @told:	secondary MMUs know; always, but for a debug switch
 *
 * Locking: on the stack of who has locked the folios.
 */
struct migrate_run {
	struct mmu_notifier_range range;
	struct anon_vma *anon_vma;
	struct address_space *mapping;
	struct list_head *end;
	int vain;
	int skip;
	bool begun;
	bool told;
};

void __migrate_run_next(struct migrate_run *run, struct list_head *folios, struct folio *folio);
void __migrate_run_end(struct migrate_run *run);
bool migrate_batch_full(int nr_folios, long nr_pages);
void migrate_batch_flushing(int reason);
int migrate_unmap_run(struct migrate_unmap *unmap, struct folio *folio,
		      struct vm_area_struct *vma, struct page_vma_mapped_walk *pvmw);
int migrate_restore_run(struct folio *src, struct folio *dst, struct vm_area_struct *vma,
			struct page_vma_mapped_walk *pvmw);

/* In rmap.c, which has what it needs */
void migrate_unmap_flush(struct migrate_unmap *unmap, struct vm_area_struct *vma,
			 unsigned long start, unsigned long end, pte_t pteval);

/**
 * migrate_run_covers - have secondary MMUs been told about a range?
 * @run:	that is being unmapped, or NULL
 * @range:	of a folio in one address space
 *
 * Not by the static key: the answer has to be the same before and after the folio is unmapped.
 *
 * Context: any; under the rmap lock of the folio.
 * Return: whether; then they must not be told a second time.
 */
static inline bool migrate_run_covers(const struct migrate_run *run,
				      const struct mmu_notifier_range *range)
{
	return run && run->begun && run->range.mm == range->mm &&
	       run->range.start <= range->start && range->end <= run->range.end;
}

/**
 * migrate_run_locked - is the rmap lock of the folio that is unmapped held already?
 * @run:	that is being unmapped, or NULL
 *
 * Context: any.
 * Return: whether.
 */
static inline bool migrate_run_locked(const struct migrate_run *run)
{
	return run && run->begun;
}

/**
 * migrate_run_end - end a run, if there is one
 * @run:	that was unmapped, or NULL
 *
 * Not by the static key: that may have been switched off meanwhile.
 *
 * Context: may sleep.
 */
static inline void migrate_run_end(struct migrate_run *run)
{
	if (run && run->begun)
		__migrate_run_end(run);
}

/* Can PTEs of a folio be replaced in runs?  See migrate_unmap_run() and migrate_restore_run(). */
static inline bool migrate_batch_ptes(struct folio *folio)
{
	return migrate_batch_on() && folio_test_large(folio) && !folio_test_hugetlb(folio);
}

#else /* !CONFIG_MIGRATE_BATCH */

struct migrate_run {
};

static inline bool migrate_batch_on(void)
{
	return false;
}

static inline bool migrate_batch_ptes(struct folio *folio)
{
	return false;
}

static inline bool migrate_run_covers(const struct migrate_run *run,
				      const struct mmu_notifier_range *range)
{
	return false;
}

static inline bool migrate_run_locked(const struct migrate_run *run)
{
	return false;
}

static inline void migrate_run_end(struct migrate_run *run) { }
static inline void __migrate_run_next(struct migrate_run *run, struct list_head *folios,
				      struct folio *folio) { }

static inline bool migrate_batch_full(int nr_folios, long nr_pages)
{
	return false;
}

static inline void migrate_batch_flushing(int reason) { }

static inline int migrate_unmap_run(struct migrate_unmap *unmap, struct folio *folio,
				    struct vm_area_struct *vma, struct page_vma_mapped_walk *pvmw)
{
	return 0;
}

static inline int migrate_restore_run(struct folio *src, struct folio *dst,
				      struct vm_area_struct *vma,
				      struct page_vma_mapped_walk *pvmw)
{
	return 0;
}

#endif /* CONFIG_MIGRATE_BATCH */

#endif /* _MM_MIGRATE_BATCH_H */
