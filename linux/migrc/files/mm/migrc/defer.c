// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: which flush may wait, and what may not before it.
 *
 * When page A is migrated to page B, all CPUs have to forget A before a task writes B, and before
 * the kernel frees A.  The base kernel flushes TLBs before it copies.  As long as no task
 * writes B, a CPU may go on reading A: the contents are the same.  So the flush is split into two
 * obligations:
 *
 *   coherence	(this file) to the address space, at once: it is flushed before a PTE that maps B
 *		becomes writable, before the kernel writes B by FOLL_FORCE, and before the PTE is
 *		removed by a task that does not flush its address itself;
 *   lifetime	(queue.c) to the page: A is freed after all CPUs have flushed.  That can wait.
 *
 * Invariants, for each address space and each user address x.  While a TLB may have an entry of x
 * whose flush was deferred:
 *
 *   I1	a CPU that has seen a flag set after a write reads what was written;
 *   I2	no page frame that such an entry points to is freed;
 *   I3	from the start of the copy no TLB holds the source writable;
 *   I4	when the PTE becomes writable, or FOLL_FORCE writes, no TLB of the address space maps an
 *	older frame;
 *   I5	after munmap, mremap, madvise and mprotect no old translation is left;
 *   I6	marks and migrc_done promise flushes that have completed, and no others;
 *   I7	the CPUs are published before the source is queued;
 *   I8	what is deferred can be written through page tables and FOLL_FORCE only: anonymous pages.
 *
 * One exception is the base kernel's, and not made wider: reclaim that has unmapped a clean page
 * and has not flushed yet leaves the PTE empty, where a new page can be mapped.
 *
 * Which tasks change the PTE while a flush is deferred?
 *
 * - munmap, mprotect, madvise, mremap of single entries and NUMA balancing's scanner call
 *   flush_tlb_batched_pending() under the page-table lock, which calls migrc_flush_mm().  A hint
 *   fault finds a PTE that was inaccessible since then.  mremap of page tables flushes their
 *   range.
 * - copy-on-write, KSM, uprobes, khugepaged, and userfaultfd that moves a page flush the address
 *   when they clear the PTE.
 * - wp_page_reuse() makes a PTE writable in place, and FOLL_FORCE writes without a writable one:
 *   these call migrc_flush_mm(), too.  do_swap_page() maps a page read-only while anything is
 *   pending; a write then comes to wp_page_reuse().
 * - fork, soft-dirty and userfaultfd take write permission away.  A child has no TLB entries.
 * - Another migration, from B to C: deferred again, or its flush meets entries of A, too.
 *
 * Only the writer's address space is flushed: an anonymous page is written in place by the
 * address space that maps it exclusively.  Others that had mapped it lost their PTEs by one of
 * the above, or by reclaim, whose reference forbids reuse until it has flushed.
 *
 * Which PTE may be deferred?  None through which the page could be written after it was copied.
 * That it is read-only is not enough, because a TLB may say otherwise:
 *
 * - E1: a flush that takes away write permission is under way: mm->tlb_flush_pending is raised
 *   before the page-table lock is taken and lowered after the flush.
 * - E2: fork() did not raise it; in dup_mmap() it does.
 * - E3: reclaim or another migration has unmapped the page without a flush, and it was mapped
 *   read-only again.  It cannot be this page: both isolate it from the LRU, and put it back after
 *   the flush, and this page is isolated by us.  Splitting a huge page holds the folio lock, as
 *   we do.
 *
 * The batch rule: a batch whose flush is owed anyway (one PTE was writable) defers nothing more,
 * and flushes what it has deferred with it.  So a batch sends one flush or none.  While another
 * drain is under way, such a batch keeps its sources, and its flush serves what is owed only.
 *
 * tlb_gen of the address space moves when the PTE is cleared.  A CPU that is lazy, or has left
 * the address space and kept its PCID, compares it when it comes back, and flushes.
 */

#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/srcu.h>
#include <linux/swap.h>
#include <linux/tier.h>
#include <asm/tlbflush.h>

#include "../internal.h"
#include "migrc.h"

DEFINE_STATIC_KEY_FALSE(migrc_key);
DEFINE_STATIC_SRCU(migrc_srcu);

/* Are flushes deferred?  Sampled by each batch inside of migrc_srcu. */
bool migrc_deferring;

/**
 * __migrc_begin - see migrc_begin()
 * @batch:	to be filled in
 * @reason:	of the migration
 * @may_wait:	the sources need not be free at once
 *
 * Context: process.
 */
void __migrc_begin(struct migrc_batch *batch, enum migrate_reason reason, bool may_wait)
{
	/* The last reference to what has failed is dropped elsewhere. */
	if (reason == MR_MEMORY_FAILURE)
		return;
	if (migrc_defer_syscalls && (reason == MR_SYSCALL || reason == MR_MEMPOLICY_MBIND))
		may_wait = true;
	if (migrc_rule(MIGRC_REASON, !may_wait))
		return;
	INIT_LIST_HEAD(&batch->sources);
	batch->deferred = false;
	batch->keep = false;
	batch->srcu_idx = srcu_read_lock(&migrc_srcu);
	batch->active = READ_ONCE(migrc_deferring);
	if (batch->active)
		__release(&migrc_srcu);		/* for sparse; held until __migrc_end() */
	else
		srcu_read_unlock(&migrc_srcu, batch->srcu_idx);
}

/**
 * __migrc_may_defer - see migrc_may_defer()
 * @src: folio to be unmapped; locked and isolated from the LRU
 *
 * Context: any.
 * Return: whether.
 */
bool __migrc_may_defer(struct folio *src)
{
	/* E3 */
	VM_WARN_ON_ONCE_FOLIO(folio_test_lru(src), src);
	if (migrc_rule(MIGRC_FILE, !folio_test_anon(src)))
		return false;
	if (folio_test_large(src) ? folio_test_has_hwpoisoned(src) : folio_test_hwpoison(src))
		return false;
	return !folio_test_ksm(src) && !folio_test_hugetlb(src) && !folio_is_zone_device(src);
}

/**
 * __migrc_defer_pte - see migrc_defer_pte()
 * @batch:	from migrc_may_defer()
 * @mm:		address space
 * @pteval:	the PTE, which has been cleared
 * @address:	of the PTE
 *
 * Context: under the page-table lock, which must be held until the migration entry is in place.
 * Return: whether the flush was deferred; if not, the caller has to see to it.
 */
bool __migrc_defer_pte(struct migrc_batch *batch, struct mm_struct *mm, pte_t pteval,
		       unsigned long address)
{
	/* Nothing to be flushed, or all at once */
	if (!pte_accessible(mm, pteval) || current->tlb_ubc.flush_required)
		return false;
	if (migrc_rule(MIGRC_WRITE, pte_write(pteval)))
		return false;
	/* After the PTE was cleared, by which fork() knows that its flush comes later. */
	if (migrc_rule(MIGRC_PENDING, mm_tlb_flush_pending(mm)))
		return false;
	if (mm_has_notifiers(mm))
		return false;
	if (!migrc_publish(mm, page_to_nid(pte_page(pteval)), address))
		return false;
	batch->deferred = true;
	return true;
}

/**
 * __migrc_settle - see migrc_settle()
 * @batch: from migrc_begin()
 *
 * Context: may sleep.
 */
void __migrc_settle(struct migrc_batch *batch)
{
	bool owed = current->tlb_ubc.flush_required;

	batch->keep = batch->deferred && !owed;
	/* If another drain is under way, what was deferred waits; the caller flushes the rest. */
	if (migrc_rule(MIGRC_MERGE, batch->deferred && owed))
		batch->keep = !migrc_flush_owed();
	batch->deferred = false;
}

/**
 * __migrc_end - see migrc_end()
 * @batch: from migrc_begin()
 *
 * Context: may sleep.
 */
void __migrc_end(struct migrc_batch *batch)
{
	if (READ_ONCE(migrc_seq) != READ_ONCE(migrc_done) || !list_empty(&batch->sources))
		migrc_queue(&batch->sources);
	__acquire(&migrc_srcu);
	srcu_read_unlock(&migrc_srcu, batch->srcu_idx);
}

/**
 * __migrc_flush_mm - see migrc_flush_mm()
 * @mm:		address space
 * @rule:	that asks for it
 *
 * Two tasks that fault at the same time both flush: the mark is changed after the flush of the one
 * has completed, and the other must not go on before.
 *
 * Context: under the page-table lock of the PTE in question.
 */
void __migrc_flush_mm(struct mm_struct *mm, enum migrc_rule rule)
{
	u64 seq = migrc_mark_pending(mm);

	if (!migrc_rule(rule, seq))
		return;
	if (!migrc_obeyed(MIGRC_EARLY)) {
		migrc_mark_flushed(mm, seq, true);
		mdelay(5);
	}
	/*
	 * Starts with a full barrier (tlb_gen), so that PTEs which were cleared before @seq was
	 * set are seen to be so by CPUs that flush.  Returns when they have.
	 */
	tier_count_flush(TIER_FLUSH_DEFERRAL, mm);
	flush_tlb_mm_range(mm, 0, TLB_FLUSH_ALL, 0, false);
	migrc_mark_flushed(mm, seq, rule != MIGRC_UNMAP);
	count_migrc(forced, 1);
}

/**
 * __migrc_swap_writable - see migrc_swap_writable()
 * @mm: address space of a fault on a swapped-out page
 *
 * Context: under the page-table lock.
 * Return: whether the page may be mapped writable.
 */
bool __migrc_swap_writable(struct mm_struct *mm)
{
	return !migrc_rule(MIGRC_SWAP, migrc_mark_pending(mm));
}

/**
 * __migrc_fork_begin - see migrc_fork_begin() (E2)
 * @mm: the parent
 *
 * Context: mmap_lock of @mm held for writing.
 * Return: whether dec_tlb_flush_pending() has to be called after the flush.
 */
bool __migrc_fork_begin(struct mm_struct *mm)
{
	bool begun = migrc_obeyed(MIGRC_FORK);

	if (begun)
		inc_tlb_flush_pending(mm);
	return begun;
}

/**
 * migrc_start - start to defer
 *
 * The hooks work before anything is deferred.  One that had been looked at while the key was off
 * does no harm: it changes its PTE under the same hold of the page-table lock, and until that is
 * released no flush is deferred for it.
 *
 * Context: process; calls are serialised by the caller.
 */
void migrc_start(void)
{
	static_branch_enable(&migrc_key);
	WRITE_ONCE(migrc_deferring, true);
}

/**
 * migrc_stop - stop to defer, and flush and free what was
 *
 * Context: as migrc_start().
 */
void migrc_stop(void)
{
	WRITE_ONCE(migrc_deferring, false);
	/* Batches that still defer, and have not queued their sources yet */
	synchronize_srcu(&migrc_srcu);
	if (migrc_obeyed(MIGRC_OFF))
		migrc_flush_all();
	static_branch_disable(&migrc_key);
}
