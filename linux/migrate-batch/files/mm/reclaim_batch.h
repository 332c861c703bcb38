/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One flush of the TLBs for many folios of reclaim: see reclaim_batch.c.
 */
#ifndef _MM_RECLAIM_BATCH_H
#define _MM_RECLAIM_BATCH_H

#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/tier.h>

#include "internal.h"
#include "migrate_batch.h"

#ifdef CONFIG_MIGRATE_BATCH
long reclaim_batch_pages(long target, long least);
bool __reclaim_batch_put_off(unsigned long *counted, struct folio *folio);
void reclaim_batch_flush(void);
#else
static inline long reclaim_batch_pages(long target, long least)
{
	return least;
}

static inline bool __reclaim_batch_put_off(unsigned long *counted, struct folio *folio)
{
	return false;
}

static inline void reclaim_batch_flush(void) { }
#endif

/*
 * What is put off may be mapped again before it is written.  Reclaim that finds little else goes
 * the base kernel's way, so that it does not fail where the base kernel would not.
 */
#define RECLAIM_BATCH_PRIORITY	(DEF_PRIORITY - 2)

#ifdef CONFIG_MIGRATE_BATCH_DEBUG
bool reclaim_batch_in_trouble(int priority);
#else
static inline bool reclaim_batch_in_trouble(int priority)
{
	return priority < RECLAIM_BATCH_PRIORITY;
}
#endif

/**
 * reclaim_batch_put_off - is a folio written in the second pass over its list?
 * @again:	this is the second pass
 * @priority:	of reclaim
 * @counted:	base pages that the first pass has counted; those of the folio are taken back
 * @folio:	dirty, unmapped and locked
 *
 * Always false, at the cost of a nop, while batched migration is off.
 *
 * Context: process.
 * Return: true if a flush is due that can serve the whole list; the caller unlocks the folio.
 */
static inline bool reclaim_batch_put_off(bool again, int priority, unsigned long *counted,
					 struct folio *folio)
{
	return migrate_batch_on() && !again && !reclaim_batch_in_trouble(priority) &&
	       folio_test_swapcache(folio) && __reclaim_batch_put_off(counted, folio);
}

/**
 * reclaim_batch_fits - does a list of folios that the caller has isolated take one more?
 * @nr:	folios that the list has; is counted
 *
 * Context: any.
 * Return: false for the 513th while batched migration is on: what is unmapped has to be written.
 */
static inline bool reclaim_batch_fits(unsigned int *nr)
{
	return !migrate_batch_on() || (*nr)++ < MIGRATE_DEMOTE_PAGES;
}

/* try_to_unmap_flush_dirty(), counted */
static inline void reclaim_flush_dirty(void)
{
#ifdef CONFIG_ARCH_WANT_BATCHED_UNMAP_TLB_FLUSH
	if (current->tlb_ubc.writable)
		tier_count_batch_flush(TIER_FLUSH_SWAPOUT);
#endif
	try_to_unmap_flush_dirty();
}

/* try_to_unmap_flush() before folios are freed, counted */
static inline void reclaim_flush_free(void)
{
#ifdef CONFIG_ARCH_WANT_BATCHED_UNMAP_TLB_FLUSH
	if (current->tlb_ubc.flush_required)
		tier_count_batch_flush(TIER_FLUSH_FREE);
#endif
	try_to_unmap_flush();
}

#endif /* _MM_RECLAIM_BATCH_H */
