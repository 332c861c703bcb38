// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: the sources of migrations, kept until no TLB points to them.
 *
 * A source whose flush was deferred (defer.c) is not freed when its contents have moved.  It waits
 * here, off the LRU and mapped nowhere, held by the reference of migration.  A drain flushes all
 * CPUs that may have an entry of any source, and frees all sources.
 *
 * The rule: a source is freed after a flush that has *completed* on each CPU which had an entry,
 * and which began after the PTE was cleared.
 *
 * - migrc_publish() adds the CPUs of the address space when the PTE is cleared; the source is
 *   queued later, when it has moved.  A drain that takes the CPUs in between does not free the
 *   source; one that frees it has flushed its CPUs, itself or an earlier one, which has completed
 *   because of migrc_mutex.
 * - Deferrals are numbered under migrc_lock together with their CPUs.  So a drain that takes the
 *   CPUs when the last number is n has flushed all deferrals up to n when it says so in migrc_done.
 *   Drains do not overlap: migrc_done only grows, and never runs ahead of a flush.
 *
 * What waits is missing on the node that is to be relieved.  So a node holds at most 1/256 of its
 * pages (at least 512, at most 4,096; batches under way, of at most 512 each, may exceed that), for
 * at most 100 ms.  The batch that reaches the limit drains.  The kernel drains, too, where it
 * empties the LRU caches, takes a frame out of use, and is about to kill for lack of memory.
 *
 * A list that owes a flush takes along what the whole machine has deferred (migrc_flush_owed()):
 * the sources cost no flush of their own then.  The flush goes to more CPUs, each of which would
 * have been flushed later.
 *
 * Cost: per deferral one lock of the machine, held for some stores; per drain one flush and a mutex
 * that is held for that and for freeing.  Memory: the limit, and 40 KiB for marks.
 */

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/swap.h>
#include <linux/tier.h>
#include <linux/workqueue.h>
#include <asm/tlbbatch.h>
#include <asm/tlbflush.h>

#include "../internal.h"
#include "migrc.h"

#define CREATE_TRACE_POINTS
#include <trace/events/tier_defer.h>

DEFINE_SPINLOCK(migrc_lock);
u64 migrc_seq;
u64 migrc_done;

/* One drain at a time, from taking the CPUs until the sources are free.  Outside migrc_lock. */
static DEFINE_MUTEX(migrc_mutex);

/* Under migrc_lock: CPUs to be flushed, and sources */
static struct arch_tlbflush_unmap_batch migrc_cpus;
static LIST_HEAD(migrc_sources);

/* Pages that were queued and are not freed yet, by node and in all */
static atomic_t migrc_nr[MAX_NUMNODES];
static atomic_t migrc_nr_all;

/* Under migrc_mutex: the CPUs that are being flushed */
static struct arch_tlbflush_unmap_batch migrc_flushing;

static void migrc_age_fn(struct work_struct *work)
{
	migrc_flush_all();
}

static DECLARE_DELAYED_WORK(migrc_age_work, migrc_age_fn);

static bool migrc_full(int nid)
{
	unsigned int max = migrc_max_pages ? : clamp(node_present_pages(nid) / MIGRC_SHARE,
						     MIGRC_MIN_PAGES, MIGRC_MAX_PAGES);

	return atomic_read(&migrc_nr[nid]) >= max;
}

/**
 * migrc_publish - note whose TLBs have entries that are to be flushed
 * @mm:		address space of a PTE that has been cleared
 * @nid:	node of the page
 * @address:	of the PTE
 *
 * Context: under the page-table lock.
 * Return: whether the flush may wait; if not, nothing was noted.
 */
bool migrc_publish(struct mm_struct *mm, int nid, unsigned long address)
{
	u64 seq;

	if (migrc_rule(MIGRC_CAP, migrc_full(nid)))
		return false;
	spin_lock(&migrc_lock);
	seq = migrc_mark_set(mm);
	/*
	 * It has a full barrier (tlb_gen): the PTE is cleared before, and mm_cpumask is read
	 * after.  A CPU that is not in mm_cpumask yet sees both when it switches in.
	 */
	if (seq && migrc_obeyed(MIGRC_UNMASKED))
		arch_tlbbatch_add_pending(&migrc_cpus, mm, address);
	spin_unlock(&migrc_lock);
	return seq;
}

static void migrc_count(int nid, int nr)
{
	atomic_add(nr, &migrc_nr[nid]);
	atomic_add(nr, &migrc_nr_all);
}

static void migrc_free(struct list_head *sources)
{
	struct folio *src, *next;

	list_for_each_entry_safe(src, next, sources, lru) {
		int nr = folio_nr_pages(src), nid = folio_nid(src);

		list_del(&src->lru);
		migrc_check_freed(src);
		folio_put(src);
		migrc_count(nid, -nr);
	}
}

/*
 * Flush what was published, with what the task owes, and free what was queued.  Drops migrc_mutex,
 * and calls no function that sleeps before: other drains wait for the mutex.
 */
static void __migrc_flush_all(bool owed)
{
	struct arch_tlbflush_unmap_batch *ubc = &current->tlb_ubc.arch;
	LIST_HEAD(sources);
	u64 seq;

	/* The age counts from the next batch.  A batch that is not taken below arms after this. */
	cancel_delayed_work(&migrc_age_work);
	spin_lock(&migrc_lock);
	seq = migrc_seq;
	list_splice_init(&migrc_sources, &sources);
	migrc_flushing = migrc_cpus;
	cpumask_clear(&migrc_cpus.cpumask);
	spin_unlock(&migrc_lock);

	/* Both return when all CPUs have flushed. */
	if (owed) {
		cpumask_or(&ubc->cpumask, &ubc->cpumask, &migrc_flushing.cpumask);
		try_to_unmap_flush();
		count_migrc(merged, 1);
	} else if (seq != migrc_done) {
		tier_count_cpus_flush(TIER_FLUSH_DEFERRAL, &migrc_flushing.cpumask);
		arch_tlbbatch_flush(&migrc_flushing);
		count_migrc(flush, 1);
	}
	/*
	 * Release: a task that sees the new number (migrc_mark_pending()) does what the entries
	 * forbade, which must not be before the flush.
	 */
	smp_store_release(&migrc_done, seq);
	/* Here, so that the sources are free when another drain returns that has found none. */
	migrc_free(&sources);
	mutex_unlock(&migrc_mutex);
}

/**
 * migrc_flush_all - flush all CPUs that may have entries of sources, and free these
 *
 * When it returns, what had been deferred before is flushed, and what had been queued is free.
 *
 * Context: may sleep, but does not allocate memory.
 */
void migrc_flush_all(void)
{
	mutex_lock(&migrc_mutex);
	__migrc_flush_all(false);
}

/**
 * migrc_flush_owed - as migrc_flush_all(), with what the task owes (try_to_unmap_flush())
 *
 * Waits for no other drain: the task has folios locked, for which others wait.
 *
 * Context: process.
 * Return: whether it was done.
 */
bool migrc_flush_owed(void)
{
	if (!mutex_trylock(&migrc_mutex))
		return false;
	__migrc_flush_all(true);
	return true;
}

/**
 * __migrc_drain - see migrc_drain()
 * @rule: that asks for it
 *
 * Context: may sleep.
 * Return: whether there were any sources.
 */
bool __migrc_drain(enum migrc_rule rule)
{
	if (!migrc_rule(rule, atomic_read(&migrc_nr_all)))
		return false;
	migrc_flush_all();
	/* Watermarks do not count what is on the free lists of a CPU. */
	if (rule == MIGRC_OOM)
		drain_all_pages(NULL);
	return true;
}

/**
 * migrc_queue - keep the sources of a batch until they are flushed
 * @sources: linked by folio->lru; empty afterwards
 *
 * Also if there are none, what was deferred is flushed in time: the mark of a migration that has
 * failed is in others' way.
 *
 * Context: may sleep.
 */
void migrc_queue(struct list_head *sources)
{
	unsigned long pages = 0;
	struct folio *src;
	bool full = false;

	list_for_each_entry(src, sources, lru) {
		migrc_check_queued(src);
		migrc_count(folio_nid(src), folio_nr_pages(src));
		pages += folio_nr_pages(src);
		full |= migrc_full(folio_nid(src));
	}
	count_migrc(deferred, pages);
	trace_tier_defer(pages, migrc_nr_pending());
	if (!migrc_obeyed(MIGRC_RELEASE))
		migrc_free(sources);
	spin_lock(&migrc_lock);
	list_splice_tail_init(sources, &migrc_sources);
	spin_unlock(&migrc_lock);

	/* A work that is queued already is queued for an older batch. */
	if (migrc_obeyed(MIGRC_AGE))
		queue_delayed_work(mm_percpu_wq, &migrc_age_work, msecs_to_jiffies(migrc_age_ms));
	/*
	 * A task that disables the LRU caches wants page frames, and drains afterwards.  Either
	 * that drain sees what was queued above, or this sees that they are disabled: a barrier
	 * here, and in lru_cache_disable() synchronize_rcu_expedited().
	 */
	smp_mb();
	if (migrc_rule(MIGRC_CAP, full) ||
	    migrc_rule(MIGRC_ISOLATE, lru_cache_disabled() && !migrc_defer_syscalls))
		migrc_flush_all();
}

/**
 * migrc_nr_pending - how many pages are kept
 *
 * Context: any.
 * Return: number of pages.
 */
unsigned long migrc_nr_pending(void)
{
	return atomic_read(&migrc_nr_all);
}
