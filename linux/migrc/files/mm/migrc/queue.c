// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: the sources of migrations, kept until no TLB points to them.
 *
 * A source whose flush was deferred (defer.c) is not freed when its contents have moved.  It
 * waits here, held by the reference that migration took when it isolated the page, off the
 * LRU, mapped nowhere.  Each drain flushes the CPUs that may have entries of any source,
 * and frees all sources, of all nodes.  A flush that reclaim or migration owes for other
 * pages serves as well, if it goes to all these CPUs anyway.  Who owes it has folios locked for
 * which others wait, so a worker frees the sources then.
 *
 * The rule: a source is freed after a flush that has *completed* on each CPU which had an
 * entry, and which began after the PTE was cleared.
 *
 * - migrc_publish() adds the CPUs of the address space when the PTE is cleared; the source
 *   is queued later, when it has moved.  So a drain that takes the CPUs in between does
 *   not free the source, and one that frees it has flushed its CPUs, itself or an earlier
 *   one, which has completed because of migrc_flush_mutex.
 * - Numbers of deferrals are given under migrc_lock together with the CPUs.  So a drain that
 *   takes the CPUs when the last number is n has flushed all deferrals up to n when it is
 *   done, and says so in migrc_done.  Drains do not overlap, so migrc_done only grows and
 *   never runs ahead of one that is still flushing.
 *
 * Memory that waits here is missing on the node that it is to relieve.  So it is bounded, by
 * age and by number, to which what is flushed and not yet freed counts (each migration may
 * exceed it by the batch that it is queueing, and as many again may be queued while a drain
 * is under way); it is not counted as free; kswapd, before it looks whether the node is
 * balanced, drains if that would balance it, if there is nearly nothing free, and before it
 * counts a failure; allocations that are not costly drain before they reclaim, and all before
 * somebody is killed; and everybody who wants certain page frames does so in
 * lru_add_drain_all(), alloc_contig_range(), memory_failure() and soft_offline_page().
 *
 * With plain folio_put() it does not matter who else holds a reference to a source (somebody
 * who walks page frames, say): it is freed when the last one is gone.
 */

#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/suspend.h>
#include <linux/swap.h>
#include <linux/workqueue.h>
#include <asm/tlbbatch.h>
#include <asm/tlbflush.h>

#include "debug.h"
#include "migrc.h"

#define CREATE_TRACE_POINTS
#include <trace/events/migrc.h>

DEFINE_SPINLOCK(migrc_lock);
u64 migrc_seq;
u64 migrc_done;

/* Limits, set in sysfs.c */
unsigned int migrc_max_pages = MIGRC_DEFAULT_MAX_PAGES;		/* per node */
unsigned int migrc_max_age_ms = MIGRC_DEFAULT_MAX_AGE_MS;

/* One drain at a time, from taking the CPUs until migrc_done is set.  Outside migrc_lock. */
static DEFINE_MUTEX(migrc_flush_mutex);

/*
 * Under migrc_lock: CPUs to be flushed, and sources, with their number by node, and the
 * number of those in all that are not freed yet
 */
static struct arch_tlbflush_unmap_batch migrc_cpus;
static LIST_HEAD(migrc_sources);
static LIST_HEAD(migrc_flushed);	/* sources that no TLB has any more */
static unsigned int migrc_nr[MAX_NUMNODES];		/* of migrc_sources */
static unsigned int migrc_nr_flushed[MAX_NUMNODES];	/* of migrc_flushed */
static unsigned int migrc_nr_all;

/* Under migrc_flush_mutex: the CPUs that are being flushed */
static struct arch_tlbflush_unmap_batch migrc_flushing;

static void migrc_age_fn(struct work_struct *work);
static DECLARE_DELAYED_WORK(migrc_age_work, migrc_age_fn);
static void migrc_release_flushed(void);
static void migrc_release_fn(struct work_struct *work);
static DECLARE_WORK(migrc_release_work, migrc_release_fn);

/**
 * migrc_publish - note whose TLBs have entries that are to be flushed
 * @mm: address space of a PTE that has been cleared
 *
 * Context: under migrc_lock and the page-table lock.
 * Return: number of the deferral.
 */
u64 migrc_publish(struct mm_struct *mm)
{
	lockdep_assert_held(&migrc_lock);

	if (!migrc_fault(UNMASKED))
		cpumask_or(&migrc_cpus.cpumask, &migrc_cpus.cpumask, mm_cpumask(mm));
	return ++migrc_seq;
}

/* Sources of a node that a drain would free, or a worker is going to */
static unsigned int migrc_nr_node(int nid)
{
	return READ_ONCE(migrc_nr[nid]) + READ_ONCE(migrc_nr_flushed[nid]);
}

/**
 * migrc_queue - keep the sources of a batch until they are flushed
 * @sources: linked by folio->lru; empty afterwards
 *
 * Context: may sleep.
 */
void migrc_queue(struct list_head *sources)
{
	struct folio *src, *next;
	unsigned int nr = 0;
	bool full = false, late = false;

	if (migrc_fault(RELEASE)) {
		list_for_each_entry_safe(src, next, sources, lru) {
			list_del(&src->lru);
			folio_put(src);
			count_migrc(deferred, 1);
		}
		return;
	}

	list_for_each_entry(src, sources, lru) {
		migrc_check_queued(src);
		nr++;
	}

	spin_lock(&migrc_lock);
	list_for_each_entry_safe(src, next, sources, lru) {
		int nid = folio_nid(src);

		list_move_tail(&src->lru, &migrc_sources);
		if (++migrc_nr[nid] >= READ_ONCE(migrc_max_pages))
			full = true;
		else if (migrc_nr_node(nid) >= READ_ONCE(migrc_max_pages))
			late = true;
	}
	WRITE_ONCE(migrc_nr_all, migrc_nr_all + nr);
	spin_unlock(&migrc_lock);

	count_migrc(deferred, nr);
	trace_migrc_queue(nr, READ_ONCE(migrc_nr_all));
	/*
	 * Who disables the LRU caches wants page frames, and drains afterwards.  Either the
	 * drain sees what was queued above, or this sees that they are disabled: a barrier
	 * here, and in lru_cache_disable() synchronize_rcu_expedited().
	 */
	smp_mb();
	if (lru_cache_disabled() && !migrc_defer_syscalls() && !migrc_fault(ISOLATE))
		migrc_flush_all(MIGRC_DRAIN_ISOLATE);
	else if (full && !migrc_fault(CAP))
		migrc_flush_all(MIGRC_DRAIN_CAP);
	else if (late)
		/* The worker's work: it costs no flush. */
		migrc_release_flushed();
}

/**
 * migrc_arm - see to it that what was deferred is flushed in time
 *
 * Does nothing if the timer runs: the age is that of the oldest.
 *
 * Context: any.
 */
void migrc_arm(void)
{
	if (READ_ONCE(migrc_seq) != READ_ONCE(migrc_done) || READ_ONCE(migrc_nr_all))
		queue_delayed_work(system_unbound_wq, &migrc_age_work,
				   msecs_to_jiffies(READ_ONCE(migrc_max_age_ms)));
}

/**
 * migrc_limits_changed - what is kept now is released, so that the new limits hold
 *
 * Context: any.
 */
void migrc_limits_changed(void)
{
	/* At once, and not when the old limit says so */
	mod_delayed_work(system_unbound_wq, &migrc_age_work, 0);
}

/*
 * The age counts from the next batch.  One that has armed in vain, as the timer was running,
 * has deferred before: that is looked at after the timer was stopped.
 */
static void migrc_restart_age(void)
{
	cancel_delayed_work(&migrc_age_work);
	migrc_arm();
}

static void migrc_release(struct list_head *sources, enum migrc_reason reason)
{
	struct folio *src, *next;
	unsigned int nr = 0;

	migrate_disable();
	list_for_each_entry_safe(src, next, sources, lru) {
		list_del(&src->lru);
		migrc_check_released(src);
		folio_put(src);
		nr++;
		if (!(nr % SWAP_CLUSTER_MAX))
			cond_resched();
	}
	/*
	 * So far they are on the free lists of this CPU, which do not count as free.  Allocations
	 * would fail, and find nothing here to wait for.  Who isolates page frames empties these
	 * lists himself, if it matters to him; for a few pages it is not worth it, as
	 * migrate_pages(2) comes here with each call.
	 */
	if ((nr > SWAP_CLUSTER_MAX || reason != MIGRC_DRAIN_ISOLATE) && !migrc_fault(SPILL))
		drain_local_pages(NULL);
	migrate_enable();
	spin_lock(&migrc_lock);
	WRITE_ONCE(migrc_nr_all, migrc_nr_all - nr);
	spin_unlock(&migrc_lock);
	count_migrc(drained[reason], nr);
	trace_migrc_drain(reason, nr);
	migrc_restart_age();
}

/* Under migrc_lock: what is flushed already is about to be freed */
static void migrc_take_flushed(struct list_head *sources)
{
	list_splice_init(&migrc_flushed, sources);
	memset(migrc_nr_flushed, 0, sizeof(migrc_nr_flushed));
}

/*
 * Under migrc_flush_mutex.  With @owed these CPUs are flushed, and serve if that leaves out
 * none that has to be; sources are left to migrc_release_fn().  Returns whether anything was
 * done.
 */
static bool migrc_flush_locked(enum migrc_reason reason, struct arch_tlbflush_unmap_batch *owed)
{
	LIST_HEAD(sources);
	u64 seq;

	spin_lock(&migrc_lock);
	seq = migrc_seq;
	if (owed) {
		/* One lot at a time waits for the worker. */
		if (seq == migrc_done || !list_empty(&migrc_flushed) ||
		    (!cpumask_subset(&migrc_cpus.cpumask, &owed->cpumask) &&
		     !migrc_fault(ALONG)))
			goto nothing;
		migrc_flushing = *owed;
		memcpy(migrc_nr_flushed, migrc_nr, sizeof(migrc_nr));
	} else {
		/* Somebody else may have been faster. */
		if (seq == migrc_done && list_empty(&migrc_sources) && list_empty(&migrc_flushed))
			goto nothing;
		migrc_flushing = migrc_cpus;
		migrc_take_flushed(&sources);
	}
	cpumask_clear(&migrc_cpus.cpumask);
	list_splice_init(&migrc_sources, &sources);
	memset(migrc_nr, 0, sizeof(migrc_nr));
	spin_unlock(&migrc_lock);

	if (seq != migrc_done) {
		/* Returns when all of them have flushed. */
		arch_tlbbatch_flush(&migrc_flushing);
		if (!owed)
			count_migrc(flushed, 1);

		/*
		 * Release: who sees the new number (migrc_mark_pending()) may do what the
		 * entries forbade, which must not be before the flush.
		 */
		smp_store_release(&migrc_done, seq);
	}
	if (!owed) {
		migrc_release(&sources, reason);
	} else if (list_empty(&sources)) {
		migrc_restart_age();
	} else {
		spin_lock(&migrc_lock);
		list_splice(&sources, &migrc_flushed);
		spin_unlock(&migrc_lock);
		queue_work(system_unbound_wq, &migrc_release_work);
	}
	return true;
nothing:
	spin_unlock(&migrc_lock);
	return false;
}

/* What was flushed along with other pages */
static void migrc_release_flushed(void)
{
	LIST_HEAD(sources);

	mutex_lock(&migrc_flush_mutex);
	spin_lock(&migrc_lock);
	migrc_take_flushed(&sources);
	spin_unlock(&migrc_lock);
	/* Somebody else may have been faster. */
	if (!list_empty(&sources))
		migrc_release(&sources, MIGRC_DRAIN_ALONG);
	mutex_unlock(&migrc_flush_mutex);
}

static void migrc_release_fn(struct work_struct *work)
{
	migrc_release_flushed();
}

/**
 * migrc_flush_all - flush all CPUs that may have entries of sources, and free these
 * @reason: for the statistics
 *
 * When it returns, everything that had been deferred or queued before is flushed, or freed.
 *
 * Context: may sleep, but does not allocate memory, so that reclaim may wait for it.
 */
void migrc_flush_all(enum migrc_reason reason)
{
	mutex_lock(&migrc_flush_mutex);
	migrc_flush_locked(reason, NULL);
	mutex_unlock(&migrc_flush_mutex);
}

/**
 * __migrc_flush_along - see migrc_flush_along()
 * @owed: CPUs that are to be flushed
 *
 * Waits for nobody: this is no more than a chance.  Who has the mutex may be about to decline
 * as well; the limits hold all the same.
 *
 * Context: process.
 * Return: whether @owed, and all that was deferred, has been flushed.
 */
bool __migrc_flush_along(struct arch_tlbflush_unmap_batch *owed)
{
	bool done;

	if (READ_ONCE(migrc_seq) == READ_ONCE(migrc_done) || !mutex_trylock(&migrc_flush_mutex))
		return false;
	done = migrc_flush_locked(MIGRC_DRAIN_ALONG, owed);
	mutex_unlock(&migrc_flush_mutex);
	if (done)
		cpumask_clear(&owed->cpumask);
	return done;
}

/**
 * __migrc_drain - see migrc_drain()
 * @reason: for the statistics
 *
 * Context: may sleep.
 * Return: whether there were any sources, also if somebody else released them meanwhile.
 */
bool __migrc_drain(enum migrc_reason reason)
{
	/*
	 * Not 0 until they count as free (or some of them wait on a CPU's free lists, see
	 * migrc_release()), so this waits for a drain that is under way.
	 */
	if (!READ_ONCE(migrc_nr_all) || migrc_fault_drain(reason))
		return false;
	/* kswapd need not: it has other things to do, and will look again. */
	if (!current_is_kswapd())
		mutex_lock(&migrc_flush_mutex);
	else if (!mutex_trylock(&migrc_flush_mutex))
		return false;
	migrc_flush_locked(reason, NULL);
	mutex_unlock(&migrc_flush_mutex);
	return true;
}

/**
 * __migrc_drain_node - see migrc_drain_node()
 * @nid: node
 *
 * Here kswapd waits: it has found nothing else to do.
 *
 * Context: may sleep.
 * Return: whether there were any sources of the node, but for those that somebody else was
 * releasing already.
 */
bool __migrc_drain_node(int nid)
{
	bool found;

	if (!READ_ONCE(migrc_nr_all) || migrc_fault_drain(MIGRC_DRAIN_PRESSURE))
		return false;
	mutex_lock(&migrc_flush_mutex);
	found = migrc_nr_node(nid);
	migrc_flush_locked(MIGRC_DRAIN_PRESSURE, NULL);
	mutex_unlock(&migrc_flush_mutex);
	return found;
}

/**
 * __migrc_relieve - see migrc_relieve()
 * @pgdat:		the node that kswapd works for
 * @order:		of the pages that are wanted
 * @highest_zoneidx:	of the zones that they may come from
 * @promo:		whether there is to be room for promotions
 *
 * While reclaim has more to do anyway, what waits may go on waiting; but not while those who
 * cannot wait find nothing.
 *
 * Context: may sleep.
 */
void __migrc_relieve(pg_data_t *pgdat, int order, int highest_zoneidx, bool promo)
{
	unsigned long nr = migrc_nr_node(pgdat->node_id);
	bool drain = false;
	int i;

	if (!nr)
		return;
	for (i = 0; i <= highest_zoneidx; i++) {
		struct zone *zone = pgdat->node_zones + i;
		unsigned long mark, free;

		if (!managed_zone(zone))
			continue;
		mark = promo ? promo_wmark_pages(zone) : high_wmark_pages(zone);
		free = zone_page_state_snapshot(zone, NR_FREE_PAGES);
		if (__zone_watermark_ok(zone, order, mark, highest_zoneidx, 0, free))
			return;
		/* Who lacks large pages has all that may become one. */
		drain |= __zone_watermark_ok(zone, 0, mark, highest_zoneidx, 0, free + nr) ||
			 !__zone_watermark_ok(zone, 0, min_wmark_pages(zone), highest_zoneidx, 0,
					      free);
	}
	if (drain)
		__migrc_drain(MIGRC_DRAIN_PRESSURE);
}

static void migrc_age_fn(struct work_struct *work)
{
	/* Also if nothing is kept: a mark of a migration that failed is in others' way. */
	if (!migrc_fault(AGE))
		migrc_flush_all(MIGRC_DRAIN_AGE);
}

/**
 * migrc_nr_pending - how many sources wait
 *
 * Context: any.
 * Return: number of pages.
 */
unsigned int migrc_nr_pending(void)
{
	return READ_ONCE(migrc_nr_all);
}

static int migrc_pm_notify(struct notifier_block *nb, unsigned long action, void *data)
{
	if ((action == PM_HIBERNATION_PREPARE || action == PM_SUSPEND_PREPARE) &&
	    !migrc_fault(FREEZE))
		migrc_drain(MIGRC_DRAIN_FREEZE);
	return NOTIFY_OK;
}

static int __init migrc_queue_init(void)
{
	pm_notifier(migrc_pm_notify, 0);
	return 0;
}
subsys_initcall(migrc_queue_init);
