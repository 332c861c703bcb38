/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MIGRC: the TLB flush of a read-only-mapped page that is demoted can wait.  See mm/migrc/.
 *
 * This is the interface for the rest of mm/.  While MIGRC is off, each hook is a static branch.
 */
#ifndef _LINUX_MIGRC_H
#define _LINUX_MIGRC_H

#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/migrate_mode.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>

/* Rules that keep MIGRC safe or bounded; a debug kernel can leave each of them out (debug.c). */
enum migrc_rule {
	MIGRC_WP,		/* flush before wp_page_reuse() makes a PTE writable */
	MIGRC_SWAP,		/* do_swap_page() maps no page writable while anything is pending */
	MIGRC_GUP,		/* flush before FOLL_FORCE writes without a writable PTE */
	MIGRC_UNMAP,		/* flush in flush_tlb_batched_pending() */
	MIGRC_WRITE,		/* a writable PTE is not deferred */
	MIGRC_PENDING,		/* nothing is deferred while mm->tlb_flush_pending */
	MIGRC_FORK,		/* fork() raises mm->tlb_flush_pending */
	MIGRC_FILE,		/* only anonymous folios are deferred */
	MIGRC_RELEASE,		/* sources wait for a flush */
	MIGRC_UNMASKED,		/* a drain flushes the CPUs of the address space */
	MIGRC_EARLY,		/* a mark is flushed when the flush has completed */
	MIGRC_MERGE,		/* a batch that owes a flush flushes what it has deferred, too */
	MIGRC_MARKS,		/* a mark that is pending is not given to another address space */
	MIGRC_REASON,		/* only demotion that may wait defers */
	MIGRC_ISOLATE,		/* drain with the LRU caches */
	MIGRC_FAILURE,		/* drain before a page frame is taken out of use */
	MIGRC_OOM,		/* drain before the OOM killer is asked */
	MIGRC_OFF,		/* drain when switched off */
	MIGRC_CAP,		/* limit by number */
	MIGRC_AGE,		/* limit by age */
	MIGRC_BACKOFF,		/* leave an address space alone that writes what was deferred */
	NR_MIGRC_RULES
};

/**
 * struct migrc_batch - one run of migrate_pages_batch(), which settles once
 * @sources:	folios that were moved and have to be kept; linked by folio->lru
 * @srcu_idx:	read side that switching off waits for
 * @active:	flushes may be deferred
 * @deferred:	a flush was deferred since the last migrc_settle()
 * @keep:	the folios that are moved now have to be kept
 */
struct migrc_batch {
	struct list_head sources;
	int srcu_idx;
	bool active;
	bool deferred;
	bool keep;
};

#ifdef CONFIG_MIGRC
DECLARE_STATIC_KEY_FALSE(migrc_key);

static inline bool migrc_on(void)
{
	return static_branch_unlikely(&migrc_key);
}
#else
static inline bool migrc_on(void)
{
	return false;
}
#endif

/* Without CONFIG_MIGRC no call of these is left. */
void __migrc_begin(struct migrc_batch *batch, enum migrate_reason reason, bool may_wait);
void __migrc_settle(struct migrc_batch *batch);
void __migrc_end(struct migrc_batch *batch);
bool __migrc_may_defer(struct folio *src);
bool __migrc_defer_pte(struct migrc_batch *batch, struct mm_struct *mm, pte_t pteval,
		       unsigned long address);
void __migrc_flush_mm(struct mm_struct *mm, enum migrc_rule rule);
bool __migrc_swap_writable(struct mm_struct *mm);
bool __migrc_drain(enum migrc_rule rule);
bool __migrc_fork_begin(struct mm_struct *mm);

/* A batch, all zero, begins.  @may_wait: its sources need not be free at once */
static inline void migrc_begin(struct migrc_batch *batch, enum migrate_reason reason,
			       bool may_wait)
{
	if (migrc_on())
		__migrc_begin(batch, reason, may_wait);
}

/* May flushes of @src wait, as far as the folio goes?  @batch or NULL.  Under the folio lock */
static inline struct migrc_batch *migrc_may_defer(struct migrc_batch *batch, struct folio *src)
{
	return migrc_on() && batch->active && __migrc_may_defer(src) ? batch : NULL;
}

/* @pteval was cleared: may its flush wait?  Under the page-table lock.  @batch may be NULL. */
static inline bool migrc_defer_pte(struct migrc_batch *batch, struct mm_struct *mm, pte_t pteval,
				   unsigned long address)
{
	return migrc_on() && batch && __migrc_defer_pte(batch, mm, pteval, address);
}

/* All folios of a batch are unmapped, and none is copied.  try_to_unmap_flush() follows. */
static inline void migrc_settle(struct migrc_batch *batch)
{
	if (migrc_on() && batch->active)
		__migrc_settle(batch);
}

/* @src was moved: keep it if its flush is deferred.  The caller drops its own reference. */
static inline void migrc_keep(struct migrc_batch *batch, struct folio *src)
{
	if (migrc_on() && batch->keep) {
		folio_get(src);
		list_add_tail(&src->lru, &batch->sources);
	}
}

/* The batch is done: queue what it keeps.  May sleep. */
static inline void migrc_end(struct migrc_batch *batch)
{
	if (migrc_on() && batch->active)
		__migrc_end(batch);
}

/*
 * Under the page-table lock of a PTE that is about to be changed or written through: when this
 * returns, no TLB has an entry of that PTE whose flush was deferred.
 */
static inline void migrc_flush_mm(struct mm_struct *mm, enum migrc_rule rule)
{
	if (migrc_on())
		__migrc_flush_mm(mm, rule);
}

/* May a page that is swapped in be mapped writable?  Under the page-table lock. */
static inline bool migrc_swap_writable(struct mm_struct *mm)
{
	return !migrc_on() || __migrc_swap_writable(mm);
}

/* Flush and free all sources.  May sleep.  Return: whether there were any */
static inline bool migrc_drain(enum migrc_rule rule)
{
	return migrc_on() && __migrc_drain(rule);
}

/*
 * fork() is about to take write permission from the PTEs of its parent, and flushes at its end.
 * Two atomic operations are cheap enough to be done always, so switching on waits for no fork.
 */
static inline bool migrc_fork_begin(struct mm_struct *mm)
{
	return IS_ENABLED(CONFIG_MIGRC) && __migrc_fork_begin(mm);
}

/* fork() has flushed.  @begun: from migrc_fork_begin() */
static inline void migrc_fork_end(struct mm_struct *mm, bool begun)
{
	if (begun)
		dec_tlb_flush_pending(mm);
}

#endif /* _LINUX_MIGRC_H */
