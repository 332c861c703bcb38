// SPDX-License-Identifier: GPL-2.0
/*
 * Batched migration: work that migrate_pages() does for each page.
 *
 * migrate_pages() unmaps up to 512 pages, flushes the TLBs once, and then copies and restores page
 * by page.  This file does the following work for many pages at a time:
 *
 *   secondary MMUs   told once about the addresses of many folios (struct migrate_run)
 *   small folios     found through one lock of their rmap and one of their page table, instead of
 *                    a walk for each (migrate_run_unmap(), migrate_run_restore())
 *   large folios     PTEs are replaced in runs: one change of the counters of the folio, its
 *                    mappings and its address space, and one flush (migrate_unmap_pte_batch())
 *   destinations     of order 0 are allocated some at a time (migrate_bulk_alloc())
 *   reclaim          isolates more at a time where it can demote (reclaim_batch.c)
 *
 * How many folios are unmapped at a time can be set (migrate_batch_full()).
 *
 * Runs.  migrate_pages_batch() locks all folios of a batch and allocates their destinations first.
 * Then it unmaps neighbours in the list that share an rmap lock, while that lock is held for
 * reading.  A run only tries for the lock; if the lock is contended, folios are unmapped one by
 * one.  The lock keeps VMAs from coming and going.  If one VMA alone can map a small folio, the
 * folio's PTE is at that VMA's address for the folio.  Most neighbours share the page table, too,
 * so a run holds the page-table lock until it needs another table.  (While mremap() moves page
 * tables, two VMAs can map the folio.  exec() moves the page tables of its temporary stack within
 * one VMA; runs leave such a VMA alone, as walks do.)
 *
 * Secondary MMUs.  A secondary MMU (KVM) that maps a page has to forget it before the page is
 * unmapped, and may not map it again before the migration entry is in place; faults then wait for
 * that.  For a virtual machine this costs a lock and an interrupt of all its CPUs.  As long as
 * folios of a run come from neighbouring addresses of one address space, the whole range (the
 * hull) is invalidated once, they are unmapped, and the invalidation ends - before anything is
 * copied.  The order of the list decides what neighbours are.  A hull lies within one VMA.  Gaps in
 * a hull have at most 8 pages, and pages of the run make up at least half of the hull, because
 * secondary MMUs forget the pages in a gap, too.
 *
 * Between beginning and end nothing is allocated and no lock is waited for but spinlocks, as
 * within the one invalidation for each folio that there is otherwise:
 *
 *  - The rmap lock keeps the address space.  It also keeps off a new subscriber, which would see an
 *    end without a beginning (mm_take_all_locks()).
 *  - A folio belongs to a hull only if exactly one mapping of it is seen by secondary MMUs.  So
 *    there is never an invalidation of another address space within.
 *  - A folio that could not be unmapped is restored after the end, because that takes the lock.
 *
 * vCPUs that touch a page of the hull retry until the end, and tasks that want the rmap lock for
 * writing wait.  So a run has at most MIGRATE_RUN_PAGES pages, and ends early if a task waits for
 * the lock or the CPU.  Gathering a hull ends for the same reasons: it walks over the VMAs of each
 * folio, at most MIGRATE_HULL_VMAS.  After a search without result the next ones are left out, at
 * most MIGRATE_RUN_SKIP.
 *
 * Copying.  An engine may copy a batch before the first folio is restored (migrate_copy.c).
 *
 * Restoring.  Copied folios are restored in the same way, twelve at a time: a task waits for at
 * most twelve copies.  Tasks may have changed mappings since, so each folio's rmap is walked again.
 *
 * Locking order: folio locks, rmap lock, page-table lock.  No task sleeps with a run's page-table
 * lock; the run drops that lock before it does more to a folio than replace the folio's entry.
 *
 * Invariants: each invalidation that begins also ends; each PTE of a folio is invalidated by the
 * hull or by the walk (migrate_hull_covers()); no task waits for a folio while it has several
 * folios locked.
 *
 * Cost when off: a test of a pointer for each folio; no-ops for PTEs.
 */

#define pr_fmt(fmt) "migrate_batch: " fmt

#include <linux/debugfs.h>
#include <linux/hugetlb.h>
#include <linux/kobject.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/swapops.h>
#include <linux/sysfs.h>
#include <linux/tier_parts.h>
#include <linux/userfaultfd_k.h>

#include <asm/tlbflush.h>

#include <trace/events/migrate.h>

#include "internal.h"
#include "migrate_batch.h"

/* Base pages of a run, at most; or one folio */
#define MIGRATE_RUN_PAGES	256

/* A hull bridges a gap of at most so many pages: secondary MMUs forget the gap, too. */
#define MIGRATE_HULL_GAP	8

/* No hull has a folio that more VMAs than these map: each of them is walked under the rmap lock. */
#define MIGRATE_HULL_VMAS	8

/* After no run was found, the search is left out for at most so many folios. */
#define MIGRATE_RUN_SKIP	64

/* Pages that are allocated at a time */
#define MIGRATE_BULK		32

/* PTEs that are replaced at a time; their values are on the stack */
#define MIGRATE_RUN_PTES	32

#define MIGRATE_DEFAULT_FOLIOS	512
#define MIGRATE_DEFAULT_KB	(512U << (PAGE_SHIFT - 10))
#define MIGRATE_MAX_FOLIOS	16384
#define MIGRATE_MAX_KB		(SZ_1G >> 10)

DEFINE_STATIC_KEY_FALSE(migrate_batch_key);

DEFINE_PER_CPU(unsigned long [NR_MIGRATE_ROWS], migrate_batch_rows);

static unsigned int migrate_max_folios = MIGRATE_DEFAULT_FOLIOS;
static unsigned int migrate_max_kb = MIGRATE_DEFAULT_KB;

enum migrate_batch_fault {
	MIGRATE_FAULT_HULL,		/* a run is not invalidated */
	MIGRATE_FAULT_FLUSH,		/* PTEs of a run are not flushed */
	MIGRATE_FAULT_DIRTY,		/* a run loses its Dirty and soft-dirty bits */
	NR_MIGRATE_FAULTS
};

#ifdef CONFIG_MIGRATE_BATCH_DEBUG
static bool migrate_batch_faults[NR_MIGRATE_FAULTS];
atomic_long_t migrate_batch_counts[NR_MIGRATE_COUNTS];
#endif

static bool migrate_fault(enum migrate_batch_fault fault)
{
#ifdef CONFIG_MIGRATE_BATCH_DEBUG
	return READ_ONCE(migrate_batch_faults[fault]);
#else
	return false;
#endif
}

/**
 * migrate_batch_isolate - how many pages reclaim isolates at a time where it can demote them
 * @target:	pages that are due
 *
 * Context: any.
 * Return: @target, but at most 512 and max_folios.
 */
int migrate_batch_isolate(long target)
{
	return min_t(long, target, min(MIGRATE_DEMOTE_PAGES, READ_ONCE(migrate_max_folios)));
}

/**
 * migrate_batch_full - are there enough folios for one batch of migrate_pages()?
 * @nr_folios:	so far
 * @nr_pages:	base pages that they have
 *
 * Context: any.
 * Return: whether.
 */
bool migrate_batch_full(int nr_folios, long nr_pages)
{
	return nr_folios >= READ_ONCE(migrate_max_folios) ||
	       nr_pages >= READ_ONCE(migrate_max_kb) >> (PAGE_SHIFT - 10);
}

/**
 * migrate_bulk_alloc - get a destination for a small folio
 * @spares:	pages that were allocated before; migrate_bulk_free() frees the rest
 * @empty:	set if the target has no free pages; then it is not asked again for this batch
 * @from:	list of the folios that are going to be migrated
 * @src:	the next of them
 * @mtc:	what the caller of migrate_pages() wants for all of them
 * @this_node:	only from @mtc->nid, as alloc_migrate_folio() tries first
 *
 * Context: may sleep as far as @mtc allows.
 * Return: it, or NULL if it has to be allocated by itself.
 */
struct folio *migrate_bulk_alloc(struct list_head *spares, bool *empty, struct list_head *from,
				 struct folio *src, const struct migration_target_control *mtc,
				 bool this_node)
{
	gfp_t gfp = (mtc->gfp_mask & ~__GFP_DIRECT_RECLAIM) | __GFP_NOWARN;
	struct folio *folio = src;
	struct page *page;
	int wanted = 1;

	/* One node for all.  Without one, alloc_migration_target() takes the folio's. */
	if (*empty || folio_test_large(src) || mtc->nid == NUMA_NO_NODE ||
	    !(mtc->gfp_mask & __GFP_HIGHMEM))
		return NULL;
	if (list_empty(spares)) {
		list_for_each_entry_continue(folio, from, lru)
			if (folio_test_large(folio) || ++wanted == MIGRATE_BULK)
				break;
		if (wanted == 1)
			return NULL;
		/* If that takes reclaim, the caller allocates a single page. */
		__alloc_pages_bulk(this_node ? gfp | __GFP_THISNODE : gfp, mtc->nid,
				   this_node ? NULL : mtc->nmask, wanted, spares, NULL);
	}
	page = list_first_entry_or_null(spares, struct page, lru);
	*empty = !page;
	if (!page)
		return NULL;
	list_del(&page->lru);
	migrate_batch_count_pages(MIGRATE_ALLOCATED_IN_BULK, 1);
	return page_folio(page);
}

/**
 * migrate_bulk_free - give back what no folio needed
 * @spares: of migrate_bulk_alloc()
 *
 * Context: any.
 */
void migrate_bulk_free(struct list_head *spares)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, spares, lru) {
		list_del(&page->lru);
		__free_page(page);
	}
}

/* The VMAs that may map a folio: how many; and how many that secondary MMUs may know */
struct migrate_vmas {
	int vmas;
	struct vm_area_struct *vma;
	unsigned long start;
	unsigned long end;
	int nr;
};

static bool migrate_count_vma(struct folio *folio, struct vm_area_struct *vma,
			      unsigned long address, void *arg)
{
	struct migrate_vmas *seen = arg;

	if (++seen->vmas > MIGRATE_HULL_VMAS)
		return false;
	if (!mm_has_notifiers(vma->vm_mm))
		return true;
	seen->vma = vma;
	seen->start = address;
	seen->end = min(address + folio_size(folio), vma->vm_end);
	/* With two, the folio has to be unmapped on its own. */
	return ++seen->nr < 2;
}

static void migrate_count_vmas(struct folio *folio, struct migrate_vmas *seen)
{
	struct rmap_walk_control rwc = {
		.rmap_one = migrate_count_vma,
		.arg = seen,
	};

	seen->nr = 0;
	seen->vmas = 0;
	rmap_walk_locked(folio, &rwc);
}

/* Can a folio be part of a hull? */
static bool migrate_hull_fits(const struct migrate_vmas *seen)
{
	return seen->nr == 1 && seen->vmas <= MIGRATE_HULL_VMAS;
}

/* Can a folio that is locked be part of a run? */
static bool migrate_run_allows(struct folio *folio)
{
	return !__folio_test_movable(folio) && folio_mapped(folio) && !folio_test_ksm(folio);
}

/* Does the run hold the rmap lock of @folio? */
static bool migrate_run_has_lock(const struct migrate_run *run, struct folio *folio)
{
	if (folio_test_ksm(folio))
		return false;
	if (folio_test_anon(folio))
		return run->anon_vma && folio_anon_vma(folio)->root == run->anon_vma->root;
	return run->mapping && folio_mapping(folio) == run->mapping;
}

static bool migrate_run_trylock(struct migrate_run *run, struct folio *folio)
{
	run->anon_vma = NULL;
	run->mapping = NULL;

	/* As long as it is locked, and mapped or about to be restored, its anon_vma stays. */
	if (folio_test_anon(folio)) {
		struct anon_vma *anon_vma = folio_anon_vma(folio);

		if (anon_vma_trylock_read(anon_vma))
			run->anon_vma = anon_vma;
	} else {
		struct address_space *mapping = folio_mapping(folio);

		if (mapping && i_mmap_trylock_read(mapping))
			run->mapping = mapping;
	}
	return run->anon_vma || run->mapping;
}

static void migrate_run_unlock(struct migrate_run *run)
{
	if (run->anon_vma)
		anon_vma_unlock_read(run->anon_vma);
	else
		i_mmap_unlock_read(run->mapping);
}

static void migrate_run_drop_ptl(struct migrate_run *run)
{
	if (run->ptep) {
		/* For sparse: migrate_run_find() has. */
		__acquire(run->ptl);
		__acquire(RCU);
		pte_unmap_unlock(run->ptep, run->ptl);
	}
	run->ptep = NULL;
}

/*
 * PTEs in such VMAs are left to walks.  exec() moves the page tables of its temporary stack within
 * one VMA, and relies on migration to leave them alone.
 */
static bool migrate_vma_is_special(struct vm_area_struct *vma)
{
	return (vma->vm_flags & VM_LOCKED) || userfaultfd_armed(vma) ||
	       vma_is_temporary_stack(vma);
}

/* The VMA that may map a small folio, if there is one only */
static struct vm_area_struct *migrate_only_vma(struct folio *folio, pgoff_t pgoff)
{
	struct vm_area_struct *vma;

	if (folio_test_anon(folio)) {
		struct rb_root_cached *root = &folio_anon_vma(folio)->rb_root;
		struct anon_vma_chain *avc;

		avc = anon_vma_interval_tree_iter_first(root, pgoff, pgoff);
		if (!avc || anon_vma_interval_tree_iter_next(avc, pgoff, pgoff))
			return NULL;
		return avc->vma;
	}
	vma = vma_interval_tree_iter_first(&folio_mapping(folio)->i_mmap, pgoff, pgoff);
	if (!vma || vma_interval_tree_iter_next(vma, pgoff, pgoff))
		return NULL;
	return vma;
}

/*
 * Where the only mapping of a small folio can be: sets the run's VMA and address, and locks the
 * page table until the run needs another one.  NULL if there may be more, or it is special.
 */
static pte_t *migrate_run_find(struct migrate_run *run, struct folio *folio)
{
	pgoff_t pgoff = folio_pgoff(folio);
	struct vm_area_struct *vma;
	unsigned long address;
	pmd_t *pmd;

	if (folio_test_large(folio) || folio_is_zone_device(folio))
		return NULL;
	vma = migrate_only_vma(folio, pgoff);
	if (!vma || migrate_vma_is_special(vma))
		return NULL;
	address = vma_address(vma, pgoff, 1);
	if (address == -EFAULT)
		return NULL;
	/* PREEMPT_RT cannot tell whether a task waits for the lock. */
	if (run->ptep && run->vma == vma && !((run->address ^ address) & PMD_MASK) &&
	    !IS_ENABLED(CONFIG_PREEMPT_RT) && !spin_is_contended(run->ptl)) {
		run->ptep += pte_index(address) - pte_index(run->address);
		run->address = address;
		return run->ptep;
	}
	migrate_run_drop_ptl(run);
	pmd = mm_find_pmd(vma->vm_mm, address);
	if (!pmd)
		return NULL;
	run->vma = vma;
	run->address = address;
	/* Not pte_offset_map_lock(), as sparse wants to have it unlocked here again. */
	run->ptep = __pte_offset_map_lock(vma->vm_mm, pmd, address, &run->ptl);
	return run->ptep;
}

static bool migrate_run_contended(struct migrate_run *run)
{
	return need_resched() || rwsem_is_contended(run->anon_vma ? &run->anon_vma->root->rwsem :
						    &run->mapping->i_mmap_rwsem);
}

/* Would the hull have no large gap, and be as dense as it must be, with one more folio? */
static bool migrate_hull_widen(unsigned long *start, unsigned long *end, long *pages,
			       const struct migrate_vmas *more)
{
	unsigned long new_start = min(*start, more->start);
	unsigned long new_end = max(*end, more->end);
	long new_pages = *pages + ((more->end - more->start) >> PAGE_SHIFT);

	if (more->start > *end + MIGRATE_HULL_GAP * PAGE_SIZE ||
	    more->end + MIGRATE_HULL_GAP * PAGE_SIZE < *start)
		return false;
	if (new_pages > MIGRATE_RUN_PAGES ||
	    2 * new_pages < (new_end - new_start) >> PAGE_SHIFT)
		return false;
	*start = new_start;
	*end = new_end;
	*pages = new_pages;
	return true;
}

/*
 * Invalidate the addresses of @first, which was @seen, and of what follows in the list.  Returns
 * false if nothing does, as for a single folio that is done while it is unmapped.
 */
static bool migrate_hull_begin(struct migrate_run *run, struct list_head *folios,
			       struct folio *first, struct migrate_vmas *seen)
{
	unsigned long start = seen->start, end = seen->end;
	struct vm_area_struct *vma = seen->vma;
	struct folio *folio = first;
	long pages = (end - start) >> PAGE_SHIFT;

	mmu_notifier_range_init(&run->range, MMU_NOTIFY_CLEAR, 0, vma->vm_mm, 0, 0);
	list_for_each_entry_continue(folio, folios, lru) {
		if (pages >= MIGRATE_RUN_PAGES || migrate_run_contended(run) ||
		    !migrate_run_allows(folio) || !migrate_run_has_lock(run, folio))
			break;
		migrate_count_vmas(folio, seen);
		if (!migrate_hull_fits(seen) || seen->vma != vma ||
		    !migrate_hull_widen(&start, &end, &pages, seen))
			break;
	}
	/* A hull of one folio saves nothing, unless that folio is as large as a run. */
	if (folio == list_next_entry(first, lru) && pages < MIGRATE_RUN_PAGES)
		return false;
	run->end = &folio->lru;
	run->range.start = start;
	run->range.end = end;
	run->notified = !migrate_fault(MIGRATE_FAULT_HULL);
	if (run->notified)
		mmu_notifier_invalidate_range_start(&run->range);
	return true;
}

/* Begin a run with @folio, which is about to be unmapped.  Returns whether it makes sense. */
static bool migrate_run_begin(struct migrate_run *run, struct list_head *folios,
			      struct folio *folio)
{
	struct migrate_vmas seen;

	if (list_is_last(&folio->lru, folios) || !migrate_run_allows(folio) ||
	    !migrate_run_trylock(run, folio))
		return false;
	migrate_count_vmas(folio, &seen);
	run->vma = NULL;
	run->left = MIGRATE_RUN_PAGES;
	run->end = NULL;
	run->range.mm = NULL;
	if (seen.nr)
		run->begun = migrate_hull_fits(&seen) &&
			     migrate_hull_begin(run, folios, folio, &seen);
	else
		run->begun = seen.vmas == 1;
	if (!run->begun)
		migrate_run_unlock(run);
	return run->begun;
}

/* Is a folio part of the run? */
static bool migrate_run_goes_on(struct migrate_run *run, struct folio *folio)
{
	if (!run->begun || migrate_run_contended(run))
		return false;
	if (run->end)
		return run->end != &folio->lru;
	run->left -= folio_nr_pages(folio);
	return run->left >= 0 && migrate_run_allows(folio) && migrate_run_has_lock(run, folio);
}

/**
 * __migrate_run_next - before a folio is unmapped: end the run, or begin one
 * @run:	that is being unmapped; zeroed before the first folio
 * @folios:	list of locked folios that are going to be unmapped in this order
 * @folio:	the next of them
 *
 * If the run is not begun afterwards, the folio has to be unmapped on its own.
 *
 * Context: may sleep as far as secondary MMUs do when they are told; all folios are locked.
 */
void __migrate_run_next(struct migrate_run *run, struct list_head *folios, struct folio *folio)
{
	if (migrate_run_goes_on(run, folio))
		return;
	if (run->begun) {
		__migrate_run_end(run);
		cond_resched();
	}
	if (run->skip) {
		run->skip--;
		return;
	}
	if (migrate_run_begin(run, folios, folio)) {
		run->backoff = 0;
	} else {
		run->backoff = clamp(2 * run->backoff, 1, MIGRATE_RUN_SKIP);
		run->skip = run->backoff;
	}
}

/**
 * __migrate_run_end - see migrate_run_end()
 * @run: that is begun
 */
void __migrate_run_end(struct migrate_run *run)
{
	migrate_run_drop_ptl(run);
	if (run->notified) {
		mmu_notifier_invalidate_range_end(&run->range);
		migrate_batch_count_row(MIGRATE_NOTIFY);
	}
	run->notified = false;
	run->begun = false;
	migrate_run_unlock(run);
}

/* PTEs of @folio from @ptep on that are alike for what the folio knows of them */
static int migrate_unmap_length(struct folio *folio, struct vm_area_struct *vma,
				unsigned long address, pte_t *ptep, pte_t pte)
{
	unsigned long end = min(pmd_addr_end(address, vma->vm_end), vma->vm_end);
	struct page *page = pfn_to_page(pte_pfn(pte));
	unsigned long mask = folio_test_anon(folio) ? BIT(PG_anon_exclusive) : 0;
	unsigned long flags = page->flags & mask;
	int i, nr;

	nr = folio_pte_batch(folio, address, ptep, pte, (end - address) >> PAGE_SHIFT,
			     FPB_IGNORE_DIRTY | FPB_IGNORE_SOFT_DIRTY, NULL, NULL, NULL);
#ifdef CONFIG_MEMORY_FAILURE
	mask |= BIT(PG_hwpoison);
#endif
	for (i = 0; i < nr; i++)
		if ((page[i].flags & mask) != flags)
			break;
	return i;
}

/* By how much the migration entries of two consecutive pages differ: by their offset */
static unsigned long migrate_entry_step(struct page *page)
{
	pte_t pte = swp_entry_to_pte(make_readable_migration_entry(page_to_pfn(page)));

	return pte_val(pte_next_swp_offset(pte)) - pte_val(pte);
}

/*
 * Replace some PTEs that are alike.  Each entry gets what its own PTE had, because hardware may set
 * Accessed and Dirty bits until that is cleared.  Returns -EBUSY if the folio is pinned or may not
 * be unmapped; then nothing was changed.
 */
static int migrate_unmap_ptes(struct migrate_unmap *unmap, struct folio *folio,
			      struct vm_area_struct *vma, unsigned long address, pte_t *ptep,
			      int nr)
{
	struct mm_struct *mm = vma->vm_mm;
	pte_t old[MIGRATE_RUN_PTES] __uninitialized, new;
	pte_t any = ptep_get(ptep);
	struct page *page = pfn_to_page(pte_pfn(any));
	bool exclusive = folio_test_anon(folio) && PageAnonExclusive(page);
	unsigned long step = nr > 1 ? migrate_entry_step(page) : 0;
	int i;

	if (!folio_test_large(folio)) {
		if (!migrate_unmap_clear(unmap, folio, vma, address, ptep, &any))
			return -EBUSY;
		old[0] = any;
	} else {
		for (i = 0; i < nr; i++) {
			old[i] = ptep_get_and_clear(mm, address + i * PAGE_SIZE, ptep + i);
			if (pte_dirty(old[i]))
				any = pte_mkdirty(any);
			/* folio_pte_batch() takes writable PTEs and others for alike. */
			if (pte_write(old[i]))
				any = pte_mkwrite_novma(any);
		}
		if (!migrate_fault(MIGRATE_FAULT_FLUSH))
			migrate_unmap_flush(unmap, vma, address, address + nr * PAGE_SIZE, any);
	}

	/* As one PTE has it: clear, look for pins, no longer exclusive, set. */
	if (exclusive && folio_try_share_anon_rmap_pte(folio, page)) {
		for (i = 0; i < nr; i++)
			set_pte_at(mm, address + i * PAGE_SIZE, ptep + i, old[i]);
		return -EBUSY;
	}
	if (exclusive) {
		for (i = 1; i < nr; i++)
			ClearPageAnonExclusive(page + i);
		/* Pairs with smp_rmb() in gup_must_unshare(): before an entry can be seen. */
		smp_mb__after_atomic();
	}

	if (pte_dirty(any))
		folio_mark_dirty(folio);
	for (i = 0; i < nr; i++) {
		if (migrate_fault(MIGRATE_FAULT_DIRTY))
			old[i] = pte_clear_soft_dirty(pte_mkclean(old[i]));
		if (i && pte_same(old[i], pte_next_pfn(old[i - 1])))
			new = __pte(pte_val(new) + step);
		else
			new = pte_to_migration_entry(page + i, old[i], exclusive);
		VM_WARN_ON_ONCE_PAGE(pte_write(old[i]) && folio_test_anon(folio) && !exclusive,
				     page + i);
		set_pte_at(mm, address + i * PAGE_SIZE, ptep + i, new);
		trace_set_migration_pte(address + i * PAGE_SIZE, pte_val(new), folio_order(folio));
	}
	return 0;
}

/**
 * migrate_unmap_pte_batch - replace several PTEs of a large folio by migration entries
 * @unmap:	how the folio is unmapped
 * @folio:	that is unmapped; locked
 * @vma:	where
 * @pvmw:	at the first of the PTEs; it is moved to the last
 *
 * They are PTEs of consecutive pages, all of them exclusive or none.  The folio is told once for
 * all of them.  If it were told for a part, it would count as partially mapped, and be split when
 * it moves again.
 *
 * Context: under the page-table lock.
 * Return: how many were replaced, 0 if it has to be done one by one, or -EBUSY if the folio is
 * pinned and nothing was changed.
 */
int migrate_unmap_pte_batch(struct migrate_unmap *unmap, struct folio *folio,
			    struct vm_area_struct *vma, struct page_vma_mapped_walk *pvmw)
{
	unsigned long address = pvmw->address;
	pte_t *ptep = pvmw->pte;
	pte_t first = ptep_get(ptep);
	int done, nr, some, err = 0;

	/* Special PTEs are replaced one by one. */
	if (!pte_present(first) || migrate_vma_is_special(vma) || folio_is_zone_device(folio))
		return 0;
	nr = migrate_unmap_length(folio, vma, address, ptep, first);
	if (nr < 2)
		return 0;

	flush_cache_range(vma, address, address + nr * PAGE_SIZE);
	for (done = 0; done < nr && !err; done += some) {
		some = min(nr - done, MIGRATE_RUN_PTES);
		err = migrate_unmap_ptes(unmap, folio, vma, address + done * PAGE_SIZE,
					 ptep + done, some);
		if (err)
			some = 0;
	}
	if (!done)
		return err;
	folio_remove_rmap_ptes(folio, pfn_to_page(pte_pfn(first)), done, vma);
	folio_put_refs(folio, done);

	pvmw->address += (done - 1) * PAGE_SIZE;
	pvmw->pte += done - 1;
	migrate_batch_count_pages(MIGRATE_UNMAPPED_IN_RUN, done);
	return done;
}

/**
 * __migrate_run_unmap - see migrate_run_unmap()
 * @unmap:	how the folio is unmapped; has a run that is begun
 * @folio:	that is unmapped
 */
bool __migrate_run_unmap(struct migrate_unmap *unmap, struct folio *folio)
{
	struct migrate_run *run = unmap->run;
	struct page *page = &folio->page;
	pte_t *ptep, pte;

	ptep = PageHWPoison(page) ? NULL : migrate_run_find(run, folio);
	if (!ptep)
		goto alone;
	if (mm_has_notifiers(run->vma->vm_mm) &&
	    (run->range.mm != run->vma->vm_mm || run->address < run->range.start ||
	     run->address >= run->range.end))
		goto alone;
	pte = ptep_get(ptep);
	if (!pte_present(pte) || pte_pfn(pte) != folio_pfn(folio))
		goto alone;

	if (!migrate_unmap_ptes(unmap, folio, run->vma, run->address, ptep, 1)) {
		folio_remove_rmap_pte(folio, page, run->vma);
		folio_put(folio);
		migrate_batch_count_pages(MIGRATE_UNMAPPED_IN_RUN, 1);
	}
	return true;
alone:
	migrate_run_drop_ptl(run);
	return false;
}

/* Migration entries from @ptep on that differ in their pages only, which are consecutive */
static int migrate_restore_length(pte_t *ptep, pte_t pte, int max)
{
	unsigned long step = pte_val(pte_next_swp_offset(pte)) - pte_val(pte);
	int nr;

	for (nr = 1; nr < max; nr++) {
		pte = __pte(pte_val(pte) + step);
		if (!pte_same(ptep_get(ptep + nr), pte))
			break;
	}
	return nr;
}

/**
 * migrate_restore_pte_batch - replace several migration entries of a large folio by PTEs
 * @src:	folio that the entries are of
 * @dst:	folio that the PTEs are going to map, large; locked
 * @vma:	where
 * @pvmw:	at the first of the entries; it is moved to the last
 *
 * Context: under the page-table lock.
 * Return: how many were replaced, or 0 if it has to be done one by one.
 */
int migrate_restore_pte_batch(struct folio *src, struct folio *dst, struct vm_area_struct *vma,
			      struct page_vma_mapped_walk *pvmw)
{
	unsigned long address = pvmw->address;
	unsigned long end = min(pmd_addr_end(address, vma->vm_end), vma->vm_end);
	pte_t *ptep = pvmw->pte;
	pte_t old = ptep_get(ptep), pte;
	swp_entry_t entry = pte_to_swp_entry(old);
	rmap_t flags = RMAP_NONE;
	struct page *page;
	unsigned long idx;
	int i, nr;

	if (!is_migration_entry(entry) || migrate_vma_is_special(vma) ||
	    folio_is_zone_device(dst))
		return 0;
	idx = swp_offset_pfn(entry) - folio_pfn(src);
	page = folio_page(dst, idx);
	nr = min_t(unsigned long, (end - address) >> PAGE_SHIFT, folio_nr_pages(dst) - idx);
	nr = migrate_restore_length(ptep, old, nr);
	if (nr < 2)
		return 0;

	folio_ref_add(dst, nr);
	if (folio_test_anon(dst)) {
		if (!is_readable_migration_entry(entry))
			flags |= RMAP_EXCLUSIVE;
		folio_add_anon_rmap_ptes(dst, page, nr, vma, address, flags);
	} else {
		folio_add_file_rmap_ptes(dst, page, nr, vma);
	}
	pte = migration_entry_to_pte(dst, page, vma, old);
	set_ptes(vma->vm_mm, address, ptep, pte, nr);
	for (i = 0; i < nr && trace_remove_migration_pte_enabled(); i++) {
		trace_remove_migration_pte(address + i * PAGE_SIZE, pte_val(pte),
					   folio_order(dst));
		pte = pte_next_pfn(pte);
	}
	update_mmu_cache_range(NULL, vma, address, ptep, nr);

	pvmw->address += (nr - 1) * PAGE_SIZE;
	pvmw->pte += nr - 1;
	migrate_batch_count_pages(MIGRATE_RESTORED_IN_RUN, nr);
	return nr;
}

/**
 * migrate_run_restore - replace the migration entry of a small folio
 * @run:	that is being restored; zeroed before the first folio.  Its rmap lock is held
 *		afterwards if it is begun.
 * @src:	where the folio was
 * @dst:	where it is; locked
 *
 * Context: any.
 * Return: whether it is restored; if not, remove_migration_ptes() has to do it.
 */
bool migrate_run_restore(struct migrate_run *run, struct folio *src, struct folio *dst)
{
	swp_entry_t entry;
	pte_t *ptep, pte;

	/* A TLB may still have an entry of the source, so the source is not freed. */
	if (migrate_fault(MIGRATE_FAULT_HULL) || migrate_fault(MIGRATE_FAULT_FLUSH))
		folio_get(src);
	if (run->begun && (!migrate_run_has_lock(run, dst) || migrate_run_contended(run)))
		migrate_run_end(run);
	if (!run->begun) {
		if (folio_test_ksm(dst) || !migrate_run_trylock(run, dst))
			return false;
		run->begun = true;
	}
	ptep = migrate_run_find(run, dst);
	if (!ptep)
		goto alone;
	pte = ptep_get(ptep);
	if (!is_swap_pte(pte))
		goto alone;
	entry = pte_to_swp_entry(pte);
	if (!is_migration_entry(entry) || swp_offset_pfn(entry) != folio_pfn(src))
		goto alone;
	migrate_restore_pte(src, dst, run->vma, run->address, ptep, pte);
	migrate_batch_count_pages(MIGRATE_RESTORED_IN_RUN, 1);
	return true;
alone:
	migrate_run_drop_ptl(run);
	return false;
}

static int migrate_batch_start(const char **reason)
{
	static_branch_enable(&migrate_batch_key);
	return 0;
}

static void migrate_batch_stop(void)
{
	static_branch_disable(&migrate_batch_key);
}

static struct tier_knob max_folios_knob =
	TIER_KNOB(max_folios, &migrate_max_folios, 1, MIGRATE_MAX_FOLIOS);
static struct tier_knob max_kb_knob =
	TIER_KNOB(max_kb, &migrate_max_kb, PAGE_SIZE / SZ_1K, MIGRATE_MAX_KB);

static struct attribute *migrate_batch_attrs[] = {
	&max_folios_knob.attr.attr,
	&max_kb_knob.attr.attr,
	NULL
};

static const struct attribute_group migrate_batch_attr_group = {
	.attrs	= migrate_batch_attrs,
};

static struct tier_part migrate_batch_part = {
	.name	= "batch",
	.wish	= true,
	.knobs	= &migrate_batch_attr_group,
	.start	= migrate_batch_start,
	.stop	= migrate_batch_stop,
};

#ifdef CONFIG_MIGRATE_BATCH_DEBUG
static int counts_show(struct seq_file *m, void *unused)
{
	static const char * const names[NR_MIGRATE_COUNTS] = {
		[MIGRATE_MOVED_BY_BATCH] = "moved_by_batch",
		[MIGRATE_MOVED_SINGLY] = "moved_singly",
		[MIGRATE_ALLOCATED_IN_BULK] = "allocated_in_bulk",
		[MIGRATE_UNMAPPED_IN_RUN] = "unmapped_in_run",
		[MIGRATE_RESTORED_IN_RUN] = "restored_in_run",
	};
	int i;

	for (i = 0; i < NR_MIGRATE_COUNTS; i++)
		seq_printf(m, "%s %ld\n", names[i], atomic_long_read(&migrate_batch_counts[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counts);

static void migrate_batch_debug_init(void)
{
	static const char * const names[NR_MIGRATE_FAULTS] = { "hull", "flush", "dirty" };

	tier_faults_add("batch", names, migrate_batch_faults, NR_MIGRATE_FAULTS);
	debugfs_create_file("counts", 0400, tier_debug_dir("batch"), NULL, &counts_fops);
}
#else
static void migrate_batch_debug_init(void)
{
}
#endif

static const char * const migrate_batch_names[NR_MIGRATE_ROWS] = {
	[MIGRATE_FOLIOS]	= "tier_batch_folios ",
	[MIGRATE_FALLBACK]	= "tier_batch_fallback ",
	[MIGRATE_FLUSH]		= "tier_batch_flush ",
	[MIGRATE_NOTIFY]	= "tier_batch_notify ",
};

static struct tier_counters migrate_batch_counters = {
	.names	= migrate_batch_names,
	.nr	= NR_MIGRATE_ROWS,
	.counts	= migrate_batch_rows,
};

static int __init migrate_batch_init(void)
{
	migrate_batch_debug_init();
	tier_counters_add(&migrate_batch_counters);
	return tier_part_add(&migrate_batch_part);
}
late_initcall(migrate_batch_init);

#ifdef CONFIG_MIGRATE_BATCH_KUNIT_TEST
#include "migrate_batch_kunit.h"
#endif
