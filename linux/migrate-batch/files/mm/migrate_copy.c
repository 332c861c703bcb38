// SPDX-License-Identifier: GPL-2.0
/*
 * Batched migration: a copy phase of its own.
 *
 * When all folios of a batch are unmapped and flushed, and before the first is restored, an engine
 * may copy them together (include/linux/migrate_copy.h).  What it does not take, or fails at, the
 * CPU copies when the folio is moved.  Without an engine nothing of this is done.
 *
 * Invariant: between the beginning of a copy and the moment when the copy takes the place of the
 * source, nobody can write to the source.  It is unmapped, and the TLBs and secondary MMUs have
 * been flushed, so that takes a reference.  To see that there is none before the copy, and again
 * after it, would not do: one could be taken, written through and dropped in between.  So the
 * reference count is frozen before a copy is submitted, and stays so until the copy has taken over
 * or the copy has failed.
 *
 * Who looks a folio up in the page cache or the swap cache retries as long as it is frozen.  For as
 * long as an engine may take that must not be, so only anonymous folios without swap cache are
 * copied by an engine.  Who finds one by its frame number takes it for a free page and passes
 * over it: compaction, offlining (which tries again), idle page tracking.  memory_failure() gives
 * up, as it does on any folio that is isolated.  Deferred splitting would drop it from its queue;
 * it is taken off before.
 *
 * A frozen reference count is the mark of a folio that was copied: no other folio of a batch has
 * none.  Locking: the folios are locked by who migrates them, and their counts are changed by no
 * other meanwhile.
 */

#include <linux/export.h>
#include <linux/migrate.h>
#include <linux/migrate_copy.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/srcu.h>

#include "internal.h"
#include "migrate_copy.h"

/* Jobs that an engine gets at a time */
#define MIGRATE_COPY_JOBS	512

/* What is in the unused src->private of a folio while it is frozen */
#define MIGRATE_COPY_QUEUED	BIT(0)	/* to be split some time */
#define MIGRATE_COPY_PARTIALLY	BIT(1)	/* because it is mapped partially */

/* Who copies at the moment: changed under the mutex, used under SRCU. */
static const struct migrate_copy_engine __rcu *migrate_copy_engine;
static DEFINE_MUTEX(migrate_copy_mutex);
DEFINE_STATIC_SRCU(migrate_copy_srcu);

/**
 * migrate_copy_register - an engine is there
 * @engine: that copies from now on where batched migration is on
 *
 * Context: may sleep.
 * Return: 0; -EBUSY if there is another engine.
 */
int migrate_copy_register(const struct migrate_copy_engine *engine)
{
	int err = 0;

	mutex_lock(&migrate_copy_mutex);
	if (rcu_access_pointer(migrate_copy_engine))
		err = -EBUSY;
	else
		rcu_assign_pointer(migrate_copy_engine, engine);
	mutex_unlock(&migrate_copy_mutex);
	return err;
}
EXPORT_SYMBOL_GPL(migrate_copy_register);

/**
 * migrate_copy_unregister - an engine goes
 * @engine: that was registered; nothing is done if it was not
 *
 * Context: may sleep: it waits for all batches that the engine has begun, and so must not be called
 * by what they wait for.
 */
void migrate_copy_unregister(const struct migrate_copy_engine *engine)
{
	mutex_lock(&migrate_copy_mutex);
	if (rcu_access_pointer(migrate_copy_engine) == engine) {
		RCU_INIT_POINTER(migrate_copy_engine, NULL);
		synchronize_srcu(&migrate_copy_srcu);
	}
	mutex_unlock(&migrate_copy_mutex);
}
EXPORT_SYMBOL_GPL(migrate_copy_unregister);

/* May an engine copy the folio, if it has no more references than it should have? */
static bool migrate_copy_takes(struct folio *src)
{
	return folio_test_anon(src) && !folio_test_ksm(src) && !folio_test_swapcache(src) &&
	       !folio_is_zone_device(src) && !folio_mapped(src) &&
	       !folio_contain_hwpoisoned_page(src);
}

/* Only who has isolated the folio has a reference; from now on nobody can get one. */
static bool migrate_copy_freeze(struct folio *src)
{
	unsigned long mark = 0;

	/* A race: whether it is queued is looked at again under the lock of the queue. */
	if (folio_order(src) > 1 && !data_race(list_empty(&src->_deferred_list))) {
		mark |= MIGRATE_COPY_QUEUED;
		if (folio_test_partially_mapped(src))
			mark |= MIGRATE_COPY_PARTIALLY;
	}
	if (!folio_ref_freeze(src, 1))
		return false;
	folio_unqueue_deferred_split(src);
	src->private = (void *)mark;
	return true;
}

/* Give the folio back as it was.  Returns the mark. */
static unsigned long migrate_copy_thaw(struct folio *src)
{
	unsigned long mark = (unsigned long)src->private;

	src->private = NULL;
	folio_ref_unfreeze(src, 1);
	return mark;
}

static void migrate_copy_failed(struct folio *src)
{
	unsigned long mark = migrate_copy_thaw(src);

	if (mark & MIGRATE_COPY_QUEUED)
		deferred_split_folio(src, mark & MIGRATE_COPY_PARTIALLY);
}

/* Submit a folio, if it can be frozen and the engine wants it. */
static void migrate_copy_submit(struct migrate_copy *copy, struct folio *dst, struct folio *src)
{
	struct migrate_copy_job *job = &copy->jobs[copy->nr];
	bool late = migrate_copy_is_late();

	if (late ? folio_ref_count(src) != 1 : !migrate_copy_freeze(src))
		return;
	job->src = src;
	job->dst = dst;
	job->err = -EINPROGRESS;
	job->private = NULL;
	if (!copy->engine->submit(copy, job))
		copy->nr++;
	else if (!late)
		migrate_copy_failed(src);
}

/* Wait for what was submitted; what was copied stays frozen.  Returns false if it took too long. */
static bool migrate_copy_complete(struct migrate_copy *copy)
{
	int err, i, good = 0;

	err = copy->engine->complete(copy);
	if (err)
		copy->engine->cancel(copy);
	for (i = 0; i < copy->nr; i++) {
		struct migrate_copy_job *job = &copy->jobs[i];

		WARN_ON_ONCE(!err && job->err == -EINPROGRESS);
		/* Late: only a test wants that. */
		if (folio_ref_count(job->src) && !migrate_copy_freeze(job->src))
			continue;
		if (job->err)
			migrate_copy_failed(job->src);
		else
			good++;
	}
	migrate_copy_count(copy->nr, good);
	copy->nr = 0;
	return !err;
}

static void migrate_copy_by(const struct migrate_copy_engine *engine, struct list_head *srcs,
			    struct list_head *dsts)
{
	struct migrate_copy copy = { .engine = engine, .nr_folios = list_count_nodes(srcs) };
	int max = min(copy.nr_folios, MIGRATE_COPY_JOBS);
	struct folio *src, *dst;
	bool begun = false;

	/* With folios locked nothing waits for memory. */
	copy.jobs = kmalloc_array(max, sizeof(*copy.jobs),
				  GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC);
	if (!copy.jobs)
		return;
	dst = list_first_entry(dsts, struct folio, lru);
	list_for_each_entry(src, srcs, lru) {
		cond_resched();
		if (migrate_copy_takes(src)) {
			if (!begun) {
				copy.private = NULL;
				if (engine->begin(&copy))
					break;
				begun = true;
			}
			migrate_copy_submit(&copy, dst, src);
			if (copy.nr == max) {
				begun = false;
				/* Who took too long is not asked again. */
				if (!migrate_copy_complete(&copy))
					break;
			}
		}
		dst = list_next_entry(dst, lru);
	}
	if (begun)
		migrate_copy_complete(&copy);
	kfree(copy.jobs);
}

/**
 * migrate_copy_batch - let the engine, if there is one, copy what it can
 * @srcs:	folios that are locked, unmapped and flushed
 * @dsts:	their destinations, locked, in the same order
 *
 * Context: may sleep as long as the engine takes.
 */
void migrate_copy_batch(struct list_head *srcs, struct list_head *dsts)
{
	const struct migrate_copy_engine *engine;
	int idx;

	if (!rcu_access_pointer(migrate_copy_engine) || list_empty(srcs))
		return;
	idx = srcu_read_lock(&migrate_copy_srcu);
	engine = srcu_dereference(migrate_copy_engine, &migrate_copy_srcu);
	if (engine)
		migrate_copy_by(engine, srcs, dsts);
	srcu_read_unlock(&migrate_copy_srcu, idx);
}

/**
 * migrate_copy_adopt - a copy takes the place of its source
 * @dst:	the copy
 * @src:	the source, which is migrate_copied(); it has its reference again afterwards
 * @queued:	set to whether the source was to be split some time; it is not any more
 * @partially:	set to whether that was because it is mapped partially
 *
 * Context: both are locked.
 * Return: 0; -EAGAIN if the source is not as it was when it was frozen, and the CPU has to copy.
 */
int migrate_copy_adopt(struct folio *dst, struct folio *src, bool *queued, bool *partially)
{
	unsigned long mark;

	/* One reference less than usual: none */
	if (WARN_ON_ONCE(folio_migrate_mapping(NULL, dst, src, -1))) {
		migrate_copy_failed(src);
		return -EAGAIN;
	}
	mark = migrate_copy_thaw(src);
	*queued = mark & MIGRATE_COPY_QUEUED;
	*partially = mark & MIGRATE_COPY_PARTIALLY;
	folio_migrate_flags(dst, src);
	flush_dcache_folio(dst);
	return 0;
}
