// SPDX-License-Identifier: GPL-2.0
/*
 * One flush of the TLBs for many folios of reclaim.
 *
 * Longer lists.  Demotion flushes once for each list that reclaim has isolated: 64 pages, or 32 on
 * the classic LRU.  Where reclaim can demote, and kswapd or a request (memory.reclaim) tells how
 * many pages are due, that many are isolated, at most 512 (reclaim_batch_pages()).  A request takes
 * at most a sixteenth of a group at a time, so that it does not take all from the first group.  In
 * the base kernel memory.reclaim asks for a quarter of the pages that are left; here it asks for a
 * full list if that is more.  A list is at most as long as the request, or as the base kernel's
 * list.  Direct reclaim keeps the base kernel's lists, because a task waits for them.
 *
 * Swap-out in two passes.  shrink_folio_list() unmaps a dirty folio, flushes if a TLB may still
 * have an entry that can write to it, and writes it: a flush a folio.  With batched migration on,
 * the first pass puts off what is dirty and in the swap cache (reclaim_batch_put_off()), one flush
 * serves all of the list (reclaim_batch_flush()), and a second pass writes.
 *
 * Invariants:
 *
 *  - No I/O of a folio begins before the end of a flush that began after its PTEs were cleared: the
 *    second pass unmaps nothing.
 *  - The first pass unlocks a folio that it puts off.  The second pass locks the folio and repeats
 *    all tests.  A fault in between finds it in the swap cache, so the mapping is of the same
 *    frame, and what a stale entry writes is not lost.  What is mapped again is in use, and is
 *    activated.  A task that zaps the swap entry flushes first (flush_tlb_batched_pending()), so
 *    does UFFDIO_MOVE.  fork() flushes before the child runs.
 *  - Nothing is put off while reclaim is in trouble (RECLAIM_BATCH_PRIORITY): where tasks map again
 *    all that the first pass has unmapped, the second pass reclaims nothing, and a group at its
 *    limit would be killed.
 *  - Nothing is put off twice, nor beyond the list that shrink_folio_list() was given.  Lists have
 *    at most 512 folios, also those of DAMON (reclaim_batch_fits()).
 *  - The second pass does not write a folio that has left the swap cache.
 *  - What the second pass counts again, the first has taken back (sc->nr_scanned; dirty folios of
 *    the swap cache are in none of the other counters).
 *
 * The batch of folios to be freed stays at 31: a longer one would keep stale entries of clean
 * folios longer, while the same contents are read from disk elsewhere.
 *
 * Cost when off: nops, and the counters of flushes: one test a flush.
 */

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/demote.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/tier_parts.h>
#include <linux/tier.h>

#include "internal.h"
#include "migrate_batch.h"
#include "reclaim_batch.h"

enum reclaim_batch_fault {
	RECLAIM_FAULT_EARLY,		/* folios are written before the flush */
	RECLAIM_FAULT_LONG,		/* a request for few pages gets a long list */
	RECLAIM_FAULT_TROUBLE,		/* folios are put off although little is reclaimed */
	NR_RECLAIM_FAULTS
};

#ifdef CONFIG_MIGRATE_BATCH_DEBUG
static bool reclaim_batch_faults[NR_RECLAIM_FAULTS];
/* So often a folio was not put off because reclaim was in trouble */
static atomic_t reclaim_batch_met_trouble;

static bool reclaim_fault(enum reclaim_batch_fault fault)
{
	return READ_ONCE(reclaim_batch_faults[fault]);
}

static int __init reclaim_batch_debug_init(void)
{
	static const char * const names[NR_RECLAIM_FAULTS] = {
		[RECLAIM_FAULT_EARLY]	= "early",
		[RECLAIM_FAULT_LONG]	= "long",
		[RECLAIM_FAULT_TROUBLE]	= "trouble",
	};

	tier_faults_add("batch", names, reclaim_batch_faults, NR_RECLAIM_FAULTS);
	debugfs_create_atomic_t("met_trouble", 0400, tier_debug_dir("batch"),
				&reclaim_batch_met_trouble);
	return 0;
}
late_initcall(reclaim_batch_debug_init);

/* Is reclaim in trouble, so that nothing is put off? */
bool reclaim_batch_in_trouble(int priority)
{
	if (priority >= RECLAIM_BATCH_PRIORITY || reclaim_fault(RECLAIM_FAULT_TROUBLE))
		return false;
	atomic_inc(&reclaim_batch_met_trouble);
	return true;
}
#else
static bool reclaim_fault(enum reclaim_batch_fault fault)
{
	return false;
}
#endif

/**
 * reclaim_batch_pages - how many pages reclaim isolates at a time where it can demote them
 * @target:	pages that are due
 * @least:	the base kernel's number
 *
 * Context: any.
 * Return: @target, but at least @least, and at most 512 and max_folios of the part batch.
 */
long reclaim_batch_pages(long target, long least)
{
	if (reclaim_fault(RECLAIM_FAULT_LONG))
		target = LONG_MAX;
	return max_t(long, least, migrate_batch_isolate(target));
}

/**
 * reclaim_batch_request - how many pages memory.reclaim asks for at a time
 * @left:	base pages that the user has asked for and did not get yet
 *
 * Context: any.
 * Return: a quarter of @left, as the base kernel, or, while batched migration is on and there may
 * be demotion, what makes a full list if that is more.
 */
unsigned long reclaim_batch_request(unsigned long left)
{
	if (migrate_batch_on() && demotion_enabled())
		return reclaim_batch_pages(left, left / 4);
	return left / 4;
}

/**
 * __reclaim_batch_put_off - see reclaim_batch_put_off()
 * @counted:	base pages that the first pass has counted
 * @folio:	dirty and unmapped
 */
bool __reclaim_batch_put_off(unsigned long *counted, struct folio *folio)
{
#ifdef CONFIG_ARCH_WANT_BATCHED_UNMAP_TLB_FLUSH
	if (current->tlb_ubc.writable) {
		*counted -= folio_nr_pages(folio);
		return true;
	}
#endif
	return false;
}

/**
 * reclaim_batch_flush - flush between the two passes
 *
 * Afterwards no TLB has an entry that can write to what the first pass has put off.
 *
 * Context: process.
 */
void reclaim_batch_flush(void)
{
#ifdef CONFIG_ARCH_WANT_BATCHED_UNMAP_TLB_FLUSH
	if (reclaim_fault(RECLAIM_FAULT_EARLY))
		current->tlb_ubc.writable = false;
#endif
	reclaim_flush_dirty();
}
