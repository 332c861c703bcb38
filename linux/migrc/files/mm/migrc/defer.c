// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: no TLB flush when a read-only-mapped page moves.
 *
 * When page A is migrated to page B, all CPUs have to forget what they know of A before B
 * may be written or A be used for something else.  The base kernel sees to both by flushing
 * TLBs before it copies.  As long as nobody writes B, however, it does no harm that a CPU
 * goes on reading A: the contents are the same.  So the one flush is split into two
 * obligations:
 *
 *   coherence	(this file) is owed to the address space, and must be met at once: the address
 *		space is flushed before a PTE that maps B becomes writable, before the kernel
 *		writes B by FOLL_FORCE, and before the PTE is removed by somebody who does not
 *		flush its address himself;
 *   lifetime	(queue.c) is owed to the page: A is freed after all CPUs have flushed.  That
 *		can wait, and one flush serves all pages that wait.
 *
 * The invariant, for each address space mm and user address x:
 *
 *   While a TLB may have an entry for (mm, x) whose flush was deferred, all such entries are
 *   read-only; whenever the page-table lock is free, the PTE is a migration or swap entry, or
 *   it maps the newest copy read-only or inaccessible; nobody writes the newest copy; and no
 *   page frame that such an entry points to is freed.
 *
 * With one exception, which is the base kernel's and not made wider: reclaim that has
 * unmapped a page, and has not flushed yet.  If the page may be discarded, or its swap entry
 * is moved away by userfaultfd, the PTE is empty, and a new page can be mapped there before
 * that flush, which then meets all older entries.
 *
 * Who changes the PTE meanwhile?
 *
 * - munmap, mprotect, madvise, and mremap of single entries: all of them call
 *   flush_tlb_batched_pending() under the page-table lock already, because reclaim leaves
 *   entries behind in the same way.  That calls migrc_flush_mm(), too.  mremap of whole page
 *   tables flushes their range.
 * - NUMA balancing's scanner makes entries inaccessible, and flushes all that it has changed
 *   when it is through.  Until then others go on reading, which they may.  A hint fault on a
 *   small anonymous page that is a write flushes as migrc_flush_mm() does before the entry
 *   becomes writable; one that is a read leaves it read-only while anything is pending.
 *   Whoever migrates or unmaps such a page meanwhile finds tlb_flush_pending, by which an
 *   inaccessible entry counts as accessible, and flushes; afterwards no TLB has it.  So the
 *   scanner need not flush what is deferred, of which there is always some while it runs.
 * - copy-on-write, KSM when it merges, uprobes, khugepaged, and userfaultfd when it moves a
 *   page: they flush the address when they clear the PTE (ptep_clear_flush(),
 *   pmdp_collapse_flush()).  userfaultfd that moves a swap entry does not; the page is
 *   written after do_swap_page(), in the same address space, or after wp_page_reuse().
 * - wp_page_reuse() and do_swap_page() make a PTE writable in place, and FOLL_FORCE writes
 *   without one.  These call migrc_flush_mm(), too.
 * - fork, soft-dirty and userfaultfd take write permission away.  A child of fork has no TLB
 *   entries, the parent's stay read-only.
 * - Another migration, from B to C: deferred again, or it flushes and meets entries of A, too.
 *
 * Only the writer's address space has to be flushed: an anonymous page is written in place
 * by the one address space that maps it exclusively.  All others that once mapped it lost
 * their PTEs by one of the operations above, or by reclaim, whose reference to the page
 * forbids reuse until it has flushed.
 *
 * Which entries may be deferred?  The page must not be written any more from when it is
 * copied.  That no PTE is writable is not enough, because a TLB may still say otherwise:
 *
 * - E1: a flush that takes away write permission is under way.  Whoever does so counts up
 *   mm->tlb_flush_pending before it takes the page-table lock and down after the flush.
 *   Scans of NUMA balancing that have not touched pages of this node do not count (scan.c).
 * - E2: fork did not; it does now, in dup_mmap().
 * - E3: reclaim, or another migration, unmapped the page without a flush so far, and it has
 *   been mapped read-only again.  It cannot be this page: both isolate a page from the LRU
 *   before and put it back after the flush, and this page is isolated by us.  Splitting a
 *   huge page batches its flush as well, and holds the folio lock until it is done, as we do.
 *
 * The tlb_gen of the address space moves when the PTE is cleared, as it does for reclaim.  A
 * CPU that is lazy, or has switched away from the address space and kept its PCID, compares
 * it when it comes back and flushes.  It is not counted among those to be flushed, and need
 * not be.
 */

#include <linux/hash.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/sched/sysctl.h>
#include <linux/srcu.h>
#include <linux/swap.h>
#include <linux/tier.h>
#include <asm/tlbflush.h>

#include <trace/events/migrc.h>

#include "../internal.h"
#include "debug.h"
#include "migrc.h"

#define MIGRC_MARK_BITS	10

static struct migrc_mark migrc_marks[1 << MIGRC_MARK_BITS];

DEFINE_STATIC_KEY_FALSE(migrc_key);
DEFINE_STATIC_SRCU(migrc_srcu);

/* Are flushes deferred?  Sampled by each batch inside of migrc_srcu. */
bool migrc_deferring;

/**
 * migrc_mark - where the deferrals of an address space are noted
 * @mm: address space
 *
 * Context: any.
 * Return: the mark, which may have another owner just now.
 */
struct migrc_mark *migrc_mark(struct mm_struct *mm)
{
	return &migrc_marks[migrc_one_mark() ? 0 : hash_ptr(mm, MIGRC_MARK_BITS)];
}

static bool migrc_mark_pending(struct migrc_mark *mark, u64 seq)
{
	/*
	 * Acquire: what is done after this sees TLBs without the entries (queue.c).  For
	 * @flushed it is the order of stores on x86, which Kconfig asks for.
	 */
	return seq > READ_ONCE(mark->flushed) && seq > smp_load_acquire(&migrc_done);
}

/*
 * Take the mark for one more deferral, unless another address space needs it.  Returns the
 * number of the deferral, or 0.
 */
static u64 migrc_set_mark(struct mm_struct *mm)
{
	struct migrc_mark *mark = migrc_mark(mm);
	u64 seq;

	lockdep_assert_held(&migrc_lock);

	if (mark->mm != mm) {
		if (migrc_mark_pending(mark, mark->seq) && !migrc_fault(COLLISION))
			return 0;
		WRITE_ONCE(mark->mm, mm);
		/* Of what it may have deferred before nothing is pending: it had lost the mark. */
		WRITE_ONCE(mark->flushed, migrc_seq);
	}
	seq = migrc_publish(mm);
	WRITE_ONCE(mark->seq, seq);
	return seq;
}

/* The flush of a PTE is not deferred, but will be done with others'. */
static inline bool migrc_owe(struct migrc_unmap *unmap, enum migrc_skip skip)
{
	count_migrc(skipped[skip], 1);
	unmap->owed++;
	return false;
}

/* The PTE is not writable.  Apart, so that refusing one that is saves no registers. */
static noinline bool migrc_defer_readonly(struct migrc_unmap *unmap, struct mm_struct *mm,
					  pte_t pteval)
{
	bool pending, spared;
	u64 seq;

	pending = mm_tlb_flush_pending(mm) && !migrc_fault(PENDING);
	spared = pending && migrc_scans_spare(mm, page_to_nid(pte_page(pteval)));
	if (pending && !spared)
		return migrc_owe(unmap, MIGRC_SKIP_PENDING);

	/*
	 * A full barrier: the PTE is cleared before tlb_gen moves, and mm_cpumask is
	 * read after.  A CPU that is not in it yet will see both when it switches in.
	 */
	inc_mm_tlb_gen(mm);
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);

	spin_lock(&migrc_lock);
	seq = migrc_set_mark(mm);
	spin_unlock(&migrc_lock);
	if (!seq)
		return migrc_owe(unmap, MIGRC_SKIP_COLLISION);
	count_migrc(spared, spared ? 1 : 0);
	migrc_generation_defer(pte_page(pteval), mm, seq);
	unmap->deferred++;
	return true;
}

/**
 * __migrc_defer_pte - see migrc_defer_pte()
 * @unmap:	of the folio
 * @mm:		address space
 * @pteval:	the PTE, which has been cleared
 *
 * Context: under the page-table lock.
 * Return: whether the flush was deferred.
 */
bool __migrc_defer_pte(struct migrc_unmap *unmap, struct mm_struct *mm, pte_t pteval)
{
	/* A hint-fault PTE: nothing to flush, now or later. */
	if (!pte_accessible(mm, pteval))
		return false;
	if (pte_write(pteval) && !migrc_fault(WRITE))
		return migrc_owe(unmap, MIGRC_SKIP_WRITE);
	return migrc_defer_readonly(unmap, mm, pteval);
}

/**
 * __migrc_flush_mm - see migrc_flush_mm()
 * @mm:		address space
 * @site:	who asks
 *
 * Two that fault at the same time both flush: the mark is cleared after the flush of the one
 * has completed, and the other must not go on before.
 *
 * Context: under the page-table lock of the PTE in question.
 */
void __migrc_flush_mm(struct mm_struct *mm, enum migrc_site site)
{
	struct migrc_mark *mark = migrc_mark(mm);
	bool early = migrc_fault(EARLY);
	u64 seq;

	if (READ_ONCE(mark->mm) != mm)
		return;
	seq = READ_ONCE(mark->seq);
	if (!migrc_mark_pending(mark, seq))
		return;
	if (migrc_fault_site(site))
		return;
	if (migrc_fault(LATE) && migrc_flush_later(mm))
		return;

	/*
	 * Starts with a full barrier (tlb_gen), so that PTEs which were cleared before @seq
	 * was set are seen to be so by those who flush.  Returns when they have.
	 */
	if (!early)
		flush_tlb_mm(mm);

	spin_lock(&migrc_lock);
	if (mark->mm == mm && mark->flushed < seq)
		WRITE_ONCE(mark->flushed, seq);
	spin_unlock(&migrc_lock);
	count_migrc(forced[site], 1);
	trace_migrc_force(site);

	if (early) {
		migrc_delay();
		flush_tlb_mm(mm);
	}
}

/**
 * __migrc_hint_fault_writable - see migrc_hint_fault_writable()
 * @vmf:   the fault
 * @folio: that it maps
 *
 * A slow page that is only read stays read-only also if nothing is deferred: what is promoted
 * by the fault itself is mapped like that as well, and if it is promoted later, by the worker
 * (promote.c), then both that and its demotion can be deferred.
 *
 * Context: under the page-table lock.
 * Return: whether.
 */
bool __migrc_hint_fault_writable(struct vm_fault *vmf, struct folio *folio)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	struct migrc_mark *mark = migrc_mark(mm);

	if (!(vmf->flags & FAULT_FLAG_WRITE) && !migrc_fault(NUMA)) {
		if ((sysctl_numa_balancing_mode & NUMA_BALANCING_MEMORY_TIERING) &&
		    !node_is_toptier(folio_nid(folio)))
			return false;
		return READ_ONCE(mark->mm) != mm || !migrc_mark_pending(mark, READ_ONCE(mark->seq));
	}
	__migrc_flush_mm(mm, MIGRC_FORCE_NUMA);
	return true;
}

/* Whose migrations may leave TLB entries behind? */
static bool migrc_reason_may_defer(int reason)
{
	switch (reason) {
	case MR_MEMORY_FAILURE:
		/* Its sources are released elsewhere. */
		return false;
	case MR_DEMOTION:
	case MR_NUMA_MISPLACED:
		return true;
	case MR_SYSCALL:
	case MR_MEMPOLICY_MBIND:
		return migrc_defer_syscalls() || migrc_fault(REASON);
	default:
		/* Most want certain page frames, and want them free. */
		return migrc_fault(REASON);
	}
}

/**
 * __migrc_begin - see migrc_begin()
 * @batch:	to be filled in
 * @mode:	of the migration
 * @reason:	of the migration
 *
 * Context: process.
 */
void __migrc_begin(struct migrc_batch *batch, enum migrate_mode mode, int reason)
{
	if (mode != MIGRATE_ASYNC || !migrc_reason_may_defer(reason))
		return;

	/*
	 * Direct reclaim needs the memory now.  Offlining, contiguous allocation and the like
	 * disable the LRU caches while they work; sources would be in their way.
	 */
	if (((current->flags & PF_MEMALLOC) && !current_is_kswapd() && !migrc_fault(DIRECT)) ||
	    (lru_cache_disabled() && !migrc_defer_syscalls() && !migrc_fault(REASON))) {
		count_migrc(skipped[MIGRC_SKIP_LIMIT], 1);
		return;
	}

	INIT_LIST_HEAD(&batch->sources);
	batch->mixed = false;
	batch->srcu_idx = srcu_read_lock(&migrc_srcu);
	batch->active = READ_ONCE(migrc_deferring);
	if (batch->active)
		__release(&migrc_srcu);		/* for sparse; held until __migrc_end() */
	else
		srcu_read_unlock(&migrc_srcu, batch->srcu_idx);
}

/**
 * __migrc_may_defer - see migrc_may_defer()
 * @src: folio to be unmapped; large, or not anonymous
 *
 * Large folios and files are for later: a large folio has many PTEs, of which each would
 * have to be read-only, and a page of a file can be written without any PTE.
 *
 * Context: any.
 * Return: whether.
 */
bool __migrc_may_defer(struct folio *src)
{
	if (folio_test_large(src) && !migrc_fault(LARGE)) {
		count_migrc(skipped[MIGRC_SKIP_LARGE], 1);
		return false;
	}
	if (!folio_test_anon(src) && !migrc_fault(FILE)) {
		count_migrc(skipped[MIGRC_SKIP_FILE], 1);
		return false;
	}
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
	if (!migrc_fault(MIXED))
		migrc_flush_all(MIGRC_DRAIN_MIXED);
}

/**
 * __migrc_end - see migrc_end()
 * @batch: from migrc_begin()
 *
 * Context: may sleep.
 */
void __migrc_end(struct migrc_batch *batch)
{
	if (!list_empty(&batch->sources))
		migrc_queue(&batch->sources);
	migrc_arm();
	__acquire(&migrc_srcu);
	srcu_read_unlock(&migrc_srcu, batch->srcu_idx);
}

/**
 * migrc_fork_begin - before fork() takes away write permission (E2)
 * @mm: the parent
 *
 * Two atomic operations per fork are cheap enough to be done always: so switching MIGRC on
 * need not wait for forks.
 *
 * Context: mmap_lock of @mm held for writing.
 * Return: to be passed to migrc_fork_end().
 */
bool migrc_fork_begin(struct mm_struct *mm)
{
	if (migrc_fault(FORK))
		return false;
	inc_tlb_flush_pending(mm);
	return true;
}

/**
 * migrc_fork_end - after fork() has flushed the parent's TLB entries
 * @mm:		the parent
 * @begun:	from migrc_fork_begin()
 *
 * Context: as migrc_fork_begin().
 */
void migrc_fork_end(struct mm_struct *mm, bool begun)
{
	if (begun)
		dec_tlb_flush_pending(mm);
}

/**
 * migrc_start - start to defer
 *
 * The hooks work before anything is deferred.  One that had been looked at while the key was
 * off does no harm: it changes its PTE under the same hold of the page-table lock, and until
 * that is released nobody defers a flush for it.
 *
 * Context: process; calls are serialised by the caller.
 */
void migrc_start(void)
{
	/* For promotions that hint faults leave to us: promote.c */
	tier_mover_get();
	static_branch_enable(&migrc_key);
	migrc_scans_forget();
	WRITE_ONCE(migrc_deferring, true);
}

/**
 * migrc_stop - stop to defer, and flush and release what was
 *
 * Context: as migrc_start().
 */
void migrc_stop(void)
{
	WRITE_ONCE(migrc_deferring, false);
	/* Batches that still defer, and have not queued their sources yet */
	synchronize_srcu(&migrc_srcu);
	if (!migrc_fault(OFF))
		migrc_flush_all(MIGRC_DRAIN_OFF);
	static_branch_disable(&migrc_key);
	tier_mover_put();
}
