/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Batched migration: see migrate_batch.c.
 */
#ifndef _MM_MIGRATE_BATCH_H
#define _MM_MIGRATE_BATCH_H

#include <linux/atomic.h>
#include <linux/jump_label.h>
#include <linux/percpu.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>

struct anon_vma;
struct migrate_unmap;
struct migration_target_control;
struct page_vma_mapped_walk;

/* Base pages that reclaim isolates at a time, at most, where it can demote them */
#define MIGRATE_DEMOTE_PAGES	512U

/* Rows of /proc/vmstat */
enum migrate_batch_row {
	MIGRATE_FOLIOS,			/* folios that were moved by steps that take many folios */
	MIGRATE_FALLBACK,		/* small folios that were unmapped by a walk of their own */
	MIGRATE_FLUSH,			/* batches that were flushed once */
	MIGRATE_NOTIFY,			/* runs of which secondary MMUs were told once */
	NR_MIGRATE_ROWS
};

/* Which way base pages have taken, for tests */
enum migrate_batch_way {
	MIGRATE_MOVED_BY_BATCH,		/* by steps that take many folios */
	MIGRATE_MOVED_SINGLY,		/* by migrate_folio_move() */
	MIGRATE_ALLOCATED_IN_BULK,
	MIGRATE_UNMAPPED_IN_RUN,
	MIGRATE_RESTORED_IN_RUN,
	NR_MIGRATE_COUNTS
};

#ifdef CONFIG_MIGRATE_BATCH

DECLARE_STATIC_KEY_FALSE(migrate_batch_key);

static inline bool migrate_batch_on(void)
{
	return static_branch_unlikely(&migrate_batch_key);
}

/**
 * struct migrate_run - folios that are unmapped or restored with one rmap lock held
 * @begun:	the lock is held
 * @anon_vma:	whose lock it is, or NULL
 * @mapping:	whose lock it is, or NULL
 * @ptep:	in a page table that is locked, or NULL
 * @ptl:	the lock of that
 * @vma:	that it is of
 * @address:	that @ptep is for
 * @range:	the hull, which secondary MMUs have been told about; none if its mm is NULL
 * @notified:	they have been; for debug switches
 * @end:	the first folio that is not of the hull, or the head of the list
 * @left:	base pages that it may still get
 * @backoff:	folios to be skipped after the last time that no run was found
 * @skip:	of these, how many are left
 *
 * Locking: on the stack of the task that has locked the folios.
 */
struct migrate_run {
	bool begun;
	struct anon_vma *anon_vma;
	struct address_space *mapping;
	pte_t *ptep;
	spinlock_t *ptl;	/* of @ptep */
	struct vm_area_struct *vma;
	unsigned long address;
	struct mmu_notifier_range range;
	bool notified;
	struct list_head *end;
	long left;
	int backoff;
	int skip;
};

void __migrate_run_next(struct migrate_run *run, struct list_head *folios, struct folio *folio);
void __migrate_run_end(struct migrate_run *run);
bool __migrate_run_unmap(struct migrate_unmap *unmap, struct folio *folio);
bool migrate_run_restore(struct migrate_run *run, struct folio *src, struct folio *dst);
struct folio *migrate_bulk_alloc(struct list_head *spares, bool *empty, struct list_head *from,
				 struct folio *src, const struct migration_target_control *mtc,
				 bool this_node);
void migrate_bulk_free(struct list_head *spares);
bool migrate_batch_full(int nr_folios, long nr_pages);
int migrate_batch_isolate(long target);
int migrate_unmap_pte_batch(struct migrate_unmap *unmap, struct folio *folio,
			    struct vm_area_struct *vma, struct page_vma_mapped_walk *pvmw);
int migrate_restore_pte_batch(struct folio *src, struct folio *dst, struct vm_area_struct *vma,
			      struct page_vma_mapped_walk *pvmw);

/* In rmap.c and migrate.c, which have what these need */
bool migrate_unmap_clear(struct migrate_unmap *unmap, struct folio *folio,
			 struct vm_area_struct *vma, unsigned long address, pte_t *ptep,
			 pte_t *old);
void migrate_restore_pte(struct folio *src, struct folio *dst, struct vm_area_struct *vma,
			 unsigned long address, pte_t *ptep, pte_t old);
void migrate_unmap_flush(struct migrate_unmap *unmap, struct vm_area_struct *vma,
			 unsigned long start, unsigned long end, pte_t pteval);

/**
 * migrate_hull_covers - have secondary MMUs been told about a range?
 * @run:	that is being unmapped, or NULL
 * @range:	of a folio in one address space
 *
 * Not by the static key: the answer has to be the same before and after the folio is unmapped.
 *
 * Context: any; under the rmap lock of the folio.
 * Return: whether; then they must not be told a second time.
 */
static inline bool migrate_hull_covers(const struct migrate_run *run,
				       const struct mmu_notifier_range *range)
{
	return run && run->begun && run->range.mm == range->mm &&
	       run->range.start <= range->start && range->end <= run->range.end;
}

DECLARE_PER_CPU(unsigned long [NR_MIGRATE_ROWS], migrate_batch_rows);

static inline void migrate_batch_count_row(enum migrate_batch_row row)
{
	this_cpu_inc(migrate_batch_rows[row]);
}

/**
 * migrate_run_unmap - unmap a folio that follows others of a run
 * @run:	that is being unmapped, or NULL
 * @unmap:	how the folio is unmapped
 * @folio:	that is unmapped; locked
 *
 * Context: process; the page-table lock may be held afterwards, until migrate_run_end().
 * Return: true if the only PTE of the folio was found; the folio is still mapped if it is pinned.
 * Else the caller has to walk over all mappings.
 */
static inline bool migrate_run_unmap(const struct migrate_run *run, struct migrate_unmap *unmap,
				     struct folio *folio)
{
	if (run && run->begun && __migrate_run_unmap(unmap, folio))
		return true;
	if (run && !folio_test_large(folio))
		migrate_batch_count_row(MIGRATE_FALLBACK);
	return false;
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

/* Do migrate_unmap_pte_batch() and migrate_restore_pte_batch() take PTEs of a folio? */
static inline bool migrate_batch_ptes(struct folio *folio)
{
	return migrate_batch_on() && folio_test_large(folio) && !folio_test_hugetlb(folio);
}

extern atomic_long_t migrate_batch_counts[NR_MIGRATE_COUNTS];

/*
 * A folio of @nr base pages has moved, or, in debug kernels, base pages have gone another way:
 * /sys/kernel/debug/tier/batch/counts.
 */
static __always_inline void migrate_batch_count_pages(enum migrate_batch_way what, long nr)
{
	if (what == MIGRATE_MOVED_BY_BATCH)
		migrate_batch_count_row(MIGRATE_FOLIOS);
	if (IS_ENABLED(CONFIG_MIGRATE_BATCH_DEBUG))
		atomic_long_add(nr, &migrate_batch_counts[what]);
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

static inline bool migrate_hull_covers(const struct migrate_run *run,
				       const struct mmu_notifier_range *range)
{
	return false;
}

static inline bool migrate_run_unmap(const struct migrate_run *run, struct migrate_unmap *unmap,
				     struct folio *folio)
{
	return false;
}

static inline bool migrate_run_restore(struct migrate_run *run, struct folio *src,
				       struct folio *dst)
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

static inline struct folio *migrate_bulk_alloc(struct list_head *spares, bool *empty,
					       struct list_head *from, struct folio *src,
					       const struct migration_target_control *mtc,
					       bool this_node)
{
	return NULL;
}

static inline void migrate_bulk_free(struct list_head *spares) { }
static inline void migrate_batch_count_pages(enum migrate_batch_way what, long nr) { }

static inline int migrate_batch_isolate(long target)
{
	return 0;
}

static inline int migrate_unmap_pte_batch(struct migrate_unmap *unmap, struct folio *folio,
					  struct vm_area_struct *vma,
					  struct page_vma_mapped_walk *pvmw)
{
	return 0;
}

static inline int migrate_restore_pte_batch(struct folio *src, struct folio *dst,
					    struct vm_area_struct *vma,
					    struct page_vma_mapped_walk *pvmw)
{
	return 0;
}

#endif /* CONFIG_MIGRATE_BATCH */

#endif /* _MM_MIGRATE_BATCH_H */
