/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MIGRC: no TLB flush when a read-only-mapped page moves.  See mm/migrc/.
 *
 * This is the interface for the rest of mm/.  Without CONFIG_MIGRC, and while no deferral
 * can exist, all of it does nothing.
 */
#ifndef _LINUX_MIGRC_H
#define _LINUX_MIGRC_H

#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/migrate_mode.h>
#include <linux/mm_types.h>
#include <linux/mmdebug.h>
#include <linux/mmzone.h>
#include <linux/page-flags.h>

struct arch_tlbflush_unmap_batch;
struct mmu_gather;
struct page_ext_operations;
struct seq_file;
struct vm_fault;

/**
 * enum migrc_site - where a whole address space had to be flushed at once
 * @MIGRC_FORCE_WP:	a read-only PTE becomes writable in a fault
 * @MIGRC_FORCE_SWAP:	a swapped-out page is mapped writable
 * @MIGRC_FORCE_GUP:	FOLL_FORCE writes to a page without a writable PTE
 * @MIGRC_FORCE_NUMA:	a PTE becomes writable after a hint fault
 * @MIGRC_FORCE_UNMAP:	munmap, mprotect, madvise, mremap: flush_tlb_batched_pending()
 * @NR_MIGRC_SITES:	number of sites
 */
enum migrc_site {
	MIGRC_FORCE_WP,
	MIGRC_FORCE_SWAP,
	MIGRC_FORCE_GUP,
	MIGRC_FORCE_NUMA,
	MIGRC_FORCE_UNMAP,
	NR_MIGRC_SITES
};

/**
 * enum migrc_reason - why sources are flushed and released
 * @MIGRC_DRAIN_CAP:		a node holds as many as it may
 * @MIGRC_DRAIN_AGE:		the oldest is as old as it may get
 * @MIGRC_DRAIN_PRESSURE:	a node has too little free memory: kswapd
 * @MIGRC_DRAIN_ALLOC:		an allocation has found none
 * @MIGRC_DRAIN_OOM:		reclaim has failed it, and it may fail or kill somebody
 * @MIGRC_DRAIN_ISOLATE:	somebody wants certain page frames
 * @MIGRC_DRAIN_FAILURE:	a page frame has failed, or is to be taken out of use
 * @MIGRC_DRAIN_CONTIG:		page frames in a row are wanted
 * @MIGRC_DRAIN_FREEZE:		the system goes to sleep
 * @MIGRC_DRAIN_OFF:		MIGRC is switched off
 * @MIGRC_DRAIN_MIXED:		another PTE of a folio could not be deferred
 * @MIGRC_DRAIN_ALONG:		a flush for other pages served them as well
 * @MIGRC_DRAIN_DEBUG:		asked for in debugfs
 * @NR_MIGRC_REASONS:		number of reasons
 */
enum migrc_reason {
	MIGRC_DRAIN_CAP,
	MIGRC_DRAIN_AGE,
	MIGRC_DRAIN_PRESSURE,
	MIGRC_DRAIN_ALLOC,
	MIGRC_DRAIN_OOM,
	MIGRC_DRAIN_ISOLATE,
	MIGRC_DRAIN_FAILURE,
	MIGRC_DRAIN_CONTIG,
	MIGRC_DRAIN_FREEZE,
	MIGRC_DRAIN_OFF,
	MIGRC_DRAIN_MIXED,
	MIGRC_DRAIN_ALONG,
	MIGRC_DRAIN_DEBUG,
	NR_MIGRC_REASONS
};

/**
 * struct migrc_unmap - which flushes of a folio that is unmapped for migration may be deferred
 * @deferred:	PTEs whose flush was deferred
 * @owed:	PTEs whose flush try_to_unmap_flush() will do
 * @may_defer:	flushes may be deferred
 * @may_fail:	nobody depends on it, so a flush that could be spared by waiting is not worth it
 * @postponed:	that was so, and it has been left mapped
 */
struct migrc_unmap {
	unsigned int deferred;
	unsigned int owed;
	bool may_defer;
	bool may_fail;
	bool postponed;
};

/**
 * struct migrc_batch - one run of migrate_pages_batch()
 * @sources:	moved, to be kept until they are flushed; linked by folio->lru
 * @srcu_idx:	read side that switching off waits for
 * @active:	deferring is allowed
 * @mixed:	a folio has both deferred and owed PTEs: flush all before it is copied
 */
struct migrc_batch {
	struct list_head sources;
	int srcu_idx;
	bool active;
	bool mixed;
};

#ifdef CONFIG_MIGRC

DECLARE_STATIC_KEY_FALSE(migrc_key);
extern bool migrc_restore_readonly;

void __migrc_begin(struct migrc_batch *batch, enum migrate_mode mode, int reason);
void __migrc_end(struct migrc_batch *batch);
void __migrc_settle(struct migrc_batch *batch);
bool __migrc_defer_pte(struct migrc_unmap *unmap, struct mm_struct *mm, pte_t pteval);
void __migrc_flush_mm(struct mm_struct *mm, enum migrc_site site);
bool __migrc_hint_fault_writable(struct vm_fault *vmf, struct folio *folio);
bool __migrc_flush_along(struct arch_tlbflush_unmap_batch *owed);
bool __migrc_drain(enum migrc_reason reason);
bool __migrc_drain_node(int nid);
void __migrc_relieve(pg_data_t *pgdat, int order, int highest_zoneidx, bool promo);
pte_t __migrc_restore_pte(pte_t pte, struct vm_area_struct *vma, struct folio *src,
			  struct folio *dst);
void __migrc_wrote(struct mm_struct *mm, struct folio *folio);
bool __migrc_may_defer(struct folio *src);
bool migrc_fork_begin(struct mm_struct *mm);
void migrc_fork_end(struct mm_struct *mm, bool begun);
void migrc_vmstat_show(struct seq_file *m);

static inline bool migrc_on(void)
{
	return static_branch_unlikely(&migrc_key);
}

/* While migrc_on(): is there anything to do for restore.c? */
static inline bool migrc_restoring(void)
{
	return migrc_on() && READ_ONCE(migrc_restore_readonly);
}

#else /* !CONFIG_MIGRC */

static inline bool migrc_on(void)
{
	return false;
}

static inline bool migrc_restoring(void)
{
	return false;
}

static inline void __migrc_begin(struct migrc_batch *batch, enum migrate_mode mode, int reason) { }
static inline void __migrc_end(struct migrc_batch *batch) { }
static inline void __migrc_settle(struct migrc_batch *batch) { }
static inline bool __migrc_defer_pte(struct migrc_unmap *unmap, struct mm_struct *mm,
				     pte_t pteval)
{
	return false;
}

static inline void __migrc_flush_mm(struct mm_struct *mm, enum migrc_site site) { }
static inline bool __migrc_hint_fault_writable(struct vm_fault *vmf, struct folio *folio)
{
	return true;
}

static inline bool __migrc_flush_along(struct arch_tlbflush_unmap_batch *owed)
{
	return false;
}

static inline bool __migrc_drain(enum migrc_reason reason)
{
	return false;
}

static inline bool __migrc_drain_node(int nid)
{
	return false;
}

static inline void __migrc_relieve(pg_data_t *pgdat, int order, int highest_zoneidx, bool promo)
{
}

static inline bool __migrc_may_defer(struct folio *src)
{
	return false;
}

static inline pte_t __migrc_restore_pte(pte_t pte, struct vm_area_struct *vma,
					struct folio *src, struct folio *dst)
{
	return pte;
}

static inline void __migrc_wrote(struct mm_struct *mm, struct folio *folio) { }
static inline bool migrc_fork_begin(struct mm_struct *mm)
{
	return false;
}

static inline void migrc_fork_end(struct mm_struct *mm, bool begun) { }
static inline void migrc_vmstat_show(struct seq_file *m) { }

#endif /* CONFIG_MIGRC */

/**
 * enum migrc_scan - what MIGRC knows of a scan of NUMA balancing
 * @MIGRC_SCAN_NONE:	nothing
 * @MIGRC_SCAN_BEGUN:	that it has begun
 * @MIGRC_SCAN_KNOWN:	also which nodes' pages it touches
 */
enum migrc_scan {
	MIGRC_SCAN_NONE,
	MIGRC_SCAN_BEGUN,
	MIGRC_SCAN_KNOWN,
};

#ifdef CONFIG_MIGRC_SCAN

enum migrc_scan __migrc_scan_begin(struct mm_struct *mm);
void __migrc_scan_flush(struct mmu_gather *tlb);
void __migrc_scan_end(struct mm_struct *mm);
void __migrc_scan_touch(struct mm_struct *mm, int nid);

#else

static inline enum migrc_scan __migrc_scan_begin(struct mm_struct *mm)
{
	return MIGRC_SCAN_NONE;
}

static inline void __migrc_scan_flush(struct mmu_gather *tlb) { }
static inline void __migrc_scan_end(struct mm_struct *mm) { }
static inline void __migrc_scan_touch(struct mm_struct *mm, int nid) { }

#endif /* CONFIG_MIGRC_SCAN */

#ifdef CONFIG_MIGRC_PROMOTE

bool __migrc_promote_later(struct vm_fault *vmf, struct folio *folio, int target, int *nid,
			   bool *writable);
bool __migrc_postpone(struct migrc_unmap *unmap, struct mm_struct *mm, pte_t *ptep);

#else

static inline bool __migrc_promote_later(struct vm_fault *vmf, struct folio *folio, int target,
					 int *nid, bool *writable)
{
	return false;
}

static inline bool __migrc_postpone(struct migrc_unmap *unmap, struct mm_struct *mm, pte_t *ptep)
{
	return false;
}

#endif /* CONFIG_MIGRC_PROMOTE */

#ifdef CONFIG_MIGRC_DEBUG
void migrc_check_copy(struct folio *src, struct folio *dst);
#else
static inline void migrc_check_copy(struct folio *src, struct folio *dst) { }
#endif

#ifdef CONFIG_MIGRC_GENERATION
extern struct page_ext_operations migrc_generation_ops;

void migrc_check_writable(struct mm_struct *mm, pte_t pte);
void migrc_check_cleared(struct mm_struct *mm, pte_t pte);
void migrc_generation_free(struct page *page, unsigned int order);
#else
static inline void migrc_check_writable(struct mm_struct *mm, pte_t pte) { }
static inline void migrc_check_cleared(struct mm_struct *mm, pte_t pte) { }
static inline void migrc_generation_free(struct page *page, unsigned int order) { }
#endif

/**
 * migrc_begin - ask whether a batch of migrate_pages() may defer flushes
 * @batch:	to be filled in; pass it to migrc_end()
 * @mode:	of the migration
 * @reason:	of the migration
 *
 * Context: may sleep later on, until migrc_end().
 */
static inline void migrc_begin(struct migrc_batch *batch, enum migrate_mode mode, int reason)
{
	batch->active = false;
	if (migrc_on())
		__migrc_begin(batch, mode, reason);
}

/**
 * migrc_may_defer - may the flushes of a folio be deferred, as far as the folio goes?
 * @batch:	from migrc_begin()
 * @src:	folio to be unmapped; locked and isolated from the LRU
 *
 * Context: any.
 * Return: whether.
 */
static inline bool migrc_may_defer(struct migrc_batch *batch, struct folio *src)
{
	if (!migrc_on() || !batch->active)
		return false;
	/* E3 in defer.c */
	VM_WARN_ON_ONCE_FOLIO(folio_test_lru(src), src);
	if (folio_is_zone_device(src) || PageHWPoison(&src->page))
		return false;
	return (folio_test_anon(src) && !folio_test_large(src)) || __migrc_may_defer(src);
}

/**
 * migrc_settle - after all folios of a batch are unmapped, before the first is copied
 * @batch: from migrc_begin()
 *
 * Context: may sleep.
 */
static inline void migrc_settle(struct migrc_batch *batch)
{
	if (batch->active && batch->mixed) {
		__migrc_settle(batch);
		batch->mixed = false;
	}
}

/**
 * migrc_end - the batch is done: keep its sources until they are flushed
 * @batch: from migrc_begin()
 *
 * Context: may sleep.
 */
static inline void migrc_end(struct migrc_batch *batch)
{
	if (batch->active)
		__migrc_end(batch);
}

/**
 * migrc_deferred - was the flush of a folio deferred?
 * @batch:	from migrc_begin()
 * @unmap:	from try_to_migrate_how()
 *
 * If only some of its PTEs were, it is not: migrc_settle() makes up for them.
 *
 * Return: whether the folio has to be kept.
 */
static inline bool migrc_deferred(struct migrc_batch *batch, const struct migrc_unmap *unmap)
{
	if (!unmap->deferred)
		return false;
	if (unmap->owed)
		batch->mixed = true;
	return !unmap->owed;
}

/**
 * migrc_postpone - had a folio better not be migrated now?
 * @unmap:	of the folio
 * @mm:		address space
 * @ptep:	that maps the folio
 *
 * That is so for a promotion that would have to flush because NUMA balancing's scanner has
 * not flushed yet.
 *
 * Context: under the page-table lock.
 * Return: whether try_to_migrate() should leave it mapped.
 */
static inline bool migrc_postpone(struct migrc_unmap *unmap, struct mm_struct *mm, pte_t *ptep)
{
	return migrc_on() && unmap && unmap->may_defer && unmap->may_fail &&
	       __migrc_postpone(unmap, mm, ptep);
}

/**
 * migrc_defer_pte - defer the TLB flush of a PTE that is being replaced
 * @unmap:	of the folio
 * @mm:		address space
 * @pteval:	the PTE, which has been cleared
 *
 * Context: under the page-table lock of the PTE, which must be held until the migration
 * entry is in place.
 * Return: whether it was; if not, the caller has to see to the flush.
 */
static inline bool migrc_defer_pte(struct migrc_unmap *unmap, struct mm_struct *mm,
				   pte_t pteval)
{
	return migrc_on() && unmap && unmap->may_defer && __migrc_defer_pte(unmap, mm, pteval);
}

/**
 * migrc_flush_mm - flush what was deferred for an address space
 * @mm:		address space of which a page is about to become writable, or be written
 * @site:	who asks
 *
 * When it returns, no CPU has a deferred TLB entry of @mm.
 *
 * Context: under the page-table lock of the PTE in question, before it is changed.
 */
static inline void migrc_flush_mm(struct mm_struct *mm, enum migrc_site site)
{
	if (migrc_on())
		__migrc_flush_mm(mm, site);
}

/**
 * migrc_hint_fault_writable - may a hint fault map its page writable?
 * @vmf:	the fault
 * @folio:	that it maps
 *
 * If a write has to be let through, what was deferred is flushed.  A read may as well map the
 * page read-only.
 *
 * Context: under the page-table lock.
 * Return: whether.
 */
static inline bool migrc_hint_fault_writable(struct vm_fault *vmf, struct folio *folio)
{
	return !migrc_on() || __migrc_hint_fault_writable(vmf, folio);
}

/**
 * migrc_restore_pte - the last word on a writable PTE that maps a page where it has moved
 * @pte:	the PTE
 * @vma:	where
 * @src:	where the page was
 * @dst:	where the page is
 *
 * Context: under the page-table lock.
 * Return: @pte, or @pte without its Dirty bit or without write permission.
 */
static inline pte_t migrc_restore_pte(pte_t pte, struct vm_area_struct *vma, struct folio *src,
				      struct folio *dst)
{
	return migrc_restoring() ? __migrc_restore_pte(pte, vma, src, dst) : pte;
}

/**
 * migrc_wrote - a read-only page becomes writable in a fault: remember that it was written
 * @mm:		address space
 * @folio:	that is about to be written; anonymous
 *
 * Context: under the page-table lock.
 */
static inline void migrc_wrote(struct mm_struct *mm, struct folio *folio)
{
	if (migrc_restoring())
		__migrc_wrote(mm, folio);
}

/**
 * migrc_scan_begin - NUMA balancing is about to take away access to pages
 * @mm: address space, whose tlb_flush_pending has been raised
 *
 * Context: any.
 * Return: to be passed to migrc_scan_flush() and migrc_scan_end().
 */
static inline enum migrc_scan migrc_scan_begin(struct mm_struct *mm)
{
	return migrc_on() ? __migrc_scan_begin(mm) : MIGRC_SCAN_NONE;
}

/**
 * migrc_scan_touch - NUMA balancing takes away access to a page
 * @mm:		address space
 * @nid:	node of the page
 *
 * Context: under the page-table lock, before the PTE is changed.
 */
static inline void migrc_scan_touch(struct mm_struct *mm, int nid)
{
	if (migrc_on())
		__migrc_scan_touch(mm, nid);
}

/**
 * migrc_scan_flush - NUMA balancing is done, and about to lower tlb_flush_pending
 * @tlb:	what it has to flush
 * @scan:	from migrc_scan_begin()
 *
 * Context: may sleep.
 */
static inline void migrc_scan_flush(struct mmu_gather *tlb, enum migrc_scan scan)
{
	if (scan == MIGRC_SCAN_KNOWN)
		__migrc_scan_flush(tlb);
}

/**
 * migrc_scan_end - NUMA balancing has flushed
 * @mm:		address space
 * @scan:	from migrc_scan_begin()
 *
 * Context: any.
 */
static inline void migrc_scan_end(struct mm_struct *mm, enum migrc_scan scan)
{
	if (scan != MIGRC_SCAN_NONE)
		__migrc_scan_end(mm);
}

/**
 * migrc_promote_later - leave the promotion of a page to a worker
 * @vmf:	a hint fault
 * @folio:	that the faulting PTE maps
 * @target:	node that it should move to
 * @nid:	node that the fault is accounted to; may be changed
 * @writable:	whether the PTE will be writable; may be cleared
 *
 * Done if the page cannot be migrated now without a flush for it alone.
 *
 * Context: under the page-table lock.
 * Return: whether the fault is to map the page again instead of migrating it.
 */
static inline bool migrc_promote_later(struct vm_fault *vmf, struct folio *folio, int target,
				       int *nid, bool *writable)
{
	return migrc_on() && __migrc_promote_later(vmf, folio, target, nid, writable);
}

/**
 * migrc_flush_along - flush what was deferred with what is owed anyway
 * @owed: CPUs that reclaim or migration has to flush now
 *
 * Done if no further CPU has to be.
 *
 * Context: process; does not sleep.
 * Return: whether @owed has been flushed; if not, nothing was done.
 */
static inline bool migrc_flush_along(struct arch_tlbflush_unmap_batch *owed)
{
	return migrc_on() && __migrc_flush_along(owed);
}

/**
 * migrc_drain - flush and release all sources
 * @reason: for the statistics
 *
 * Context: may sleep.
 * Return: whether there were any, also if somebody else released them meanwhile.
 */
static inline bool migrc_drain(enum migrc_reason reason)
{
	return migrc_on() && __migrc_drain(reason);
}

/**
 * migrc_drain_node - before reclaim of a node counts as failed
 * @nid: node
 *
 * Flushes and releases all sources.
 *
 * Context: may sleep.
 * Return: whether there were any of the node, but for those that somebody else was releasing.
 */
static inline bool migrc_drain_node(int nid)
{
	return migrc_on() && __migrc_drain_node(nid);
}

/**
 * migrc_relieve - release the sources if that is what a node lacks
 * @pgdat:		the node that kswapd works for
 * @order:		of the pages that are wanted
 * @highest_zoneidx:	of the zones that they may come from
 * @promo:		whether there is to be room for promotions
 *
 * Context: may sleep.
 */
static inline void migrc_relieve(pg_data_t *pgdat, int order, int highest_zoneidx, bool promo)
{
	if (migrc_on())
		__migrc_relieve(pgdat, order, highest_zoneidx, promo);
}

#endif /* _LINUX_MIGRC_H */
