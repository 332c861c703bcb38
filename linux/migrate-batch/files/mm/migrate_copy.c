// SPDX-License-Identifier: GPL-2.0
/*
 * Batched migration: a copy phase of its own.
 *
 * When all folios of a batch are unmapped and flushed, and before the first is restored, an engine
 * may copy them together (include/linux/migrate_copy.h).  If no engine does, the CPU copies each
 * folio when the folio is moved.
 *
 * Invariant: no task can write to a source between the beginning of the copy and the moment when
 * the copy takes the place of the source.  The reasons are those of __migrate_folio(), which also
 * copies before the reference count is frozen: the source is locked, unmapped and flushed; before
 * the copy the reference count must be the expected one, so no pin exists; and the count must be
 * the expected one again when it is frozen after the copy.  A reference in between could only be
 * used to write if its owner found the folio by other means than a mapping and did not lock the
 * folio.  Owners of buffer heads do: buffer_migrate_folio() locks the buffers for the copy.  So an
 * engine gets only folios that migrate_folio() or filemap_migrate_folio() move.
 *
 * Locking: the list of engines is changed under the mutex and read under SRCU.
 */

#include <linux/export.h>
#include <linux/migrate.h>
#include <linux/migrate_copy.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/srcu.h>

#include "internal.h"
#include "migrate_batch.h"
#include "migrate_copy.h"

#define CREATE_TRACE_POINTS
#include <trace/events/tier_batch.h>

/* An engine that was late so often in a row is not called again. */
#define MIGRATE_COPY_LATE	2

char migrate_copied[1];

static LIST_HEAD(migrate_copy_engines);
static DEFINE_MUTEX(migrate_copy_mutex);
DEFINE_STATIC_SRCU(migrate_copy_srcu);

/**
 * migrate_copy_register - an engine is there
 * @engine: that copies from now on, where batched migration is on; engines are asked in the order
 *	    in which they were registered
 *
 * Context: may sleep.
 */
void migrate_copy_register(struct migrate_copy_engine *engine)
{
	atomic_long_set(&engine->nr_pages, 0);
	atomic_set(&engine->nr_late, 0);
	mutex_lock(&migrate_copy_mutex);
	list_add_tail_rcu(&engine->list, &migrate_copy_engines);
	mutex_unlock(&migrate_copy_mutex);
}
EXPORT_SYMBOL_GPL(migrate_copy_register);

/**
 * migrate_copy_unregister - an engine goes
 * @engine: that was registered
 *
 * Context: may sleep: it waits until no task is in the engine.
 */
void migrate_copy_unregister(struct migrate_copy_engine *engine)
{
	mutex_lock(&migrate_copy_mutex);
	list_del_rcu(&engine->list);
	mutex_unlock(&migrate_copy_mutex);
	synchronize_srcu(&migrate_copy_srcu);
}
EXPORT_SYMBOL_GPL(migrate_copy_unregister);

/* May an engine copy the folio?  What movable_ops move is nothing for it. */
static bool migrate_copy_takes(struct folio *src)
{
	struct address_space *mapping;

	if (__folio_test_movable(src) || folio_is_zone_device(src) ||
	    folio_contain_hwpoisoned_page(src))
		return false;
	mapping = folio_mapping(src);
	if (mapping && mapping->a_ops->migrate_folio != migrate_folio &&
	    mapping->a_ops->migrate_folio != filemap_migrate_folio)
		return false;
	return folio_ref_count(src) == folio_expected_ref_count(src) + 1;
}

/* Let one engine copy.  Returns whether it has. */
static bool migrate_copy_by(struct migrate_copy_engine *engine, struct list_head *srcs,
			    struct list_head *dsts, int nr, size_t bytes, int reason)
{
	unsigned long until;
	int err;

	if (!(engine->reasons & BIT(reason)) ||
	    atomic_read(&engine->nr_late) >= MIGRATE_COPY_LATE || !try_module_get(engine->owner))
		return false;
	until = jiffies + migrate_copy_jiffies(bytes);
	err = engine->copy(srcs, dsts, nr, bytes, reason);
	if (err != -ETIMEDOUT && time_before_eq(jiffies, until))
		atomic_set(&engine->nr_late, 0);
	else if (atomic_inc_return(&engine->nr_late) == MIGRATE_COPY_LATE)
		pr_warn("migrate_copy: %s is too slow and not used any more\n", engine->name);
	if (!err)
		atomic_long_add(bytes >> PAGE_SHIFT, &engine->nr_pages);
	module_put(engine->owner);
	return !err;
}

static void migrate_batch_trace(struct list_head *srcs, int reason)
{
	unsigned int folios = 0;
	unsigned long pages = 0;
	struct folio *src;

	list_for_each_entry(src, srcs, lru) {
		folios++;
		pages += folio_nr_pages(src);
	}
	trace_tier_batch(folios, pages, reason);
}

/**
 * migrate_copy_batch - let an engine, if there is one, copy what it can
 * @srcs:	folios that are locked, unmapped and flushed
 * @dsts:	their destinations, locked, in the same order
 * @reason:	of the migration
 *
 * Context: may sleep as long as the engines may take.
 * Return: how many folios were copied; both lists begin with these then.
 */
int migrate_copy_batch(struct list_head *srcs, struct list_head *dsts, int reason)
{
	struct folio *src, *src2, *dst, *dst2;
	struct migrate_copy_engine *engine;
	bool copied = false;
	LIST_HEAD(own_srcs);
	LIST_HEAD(own_dsts);
	size_t bytes = 0;
	int nr = 0, idx;

	if (list_empty(srcs))
		return 0;
	migrate_batch_count_row(MIGRATE_FLUSH);
	if (trace_tier_batch_enabled())
		migrate_batch_trace(srcs, reason);
	if (list_empty(&migrate_copy_engines))
		return 0;
	dst = list_first_entry(dsts, struct folio, lru);
	list_for_each_entry_safe(src, src2, srcs, lru) {
		dst2 = list_next_entry(dst, lru);
		if (migrate_copy_takes(src)) {
			list_move_tail(&src->lru, &own_srcs);
			list_move_tail(&dst->lru, &own_dsts);
			bytes += folio_size(src);
			nr++;
		}
		dst = dst2;
	}
	idx = srcu_read_lock(&migrate_copy_srcu);
	list_for_each_entry_srcu(engine, &migrate_copy_engines, list,
				 srcu_read_lock_held(&migrate_copy_srcu)) {
		copied = nr && migrate_copy_by(engine, &own_srcs, &own_dsts, nr, bytes, reason);
		if (copied)
			break;
	}
	srcu_read_unlock(&migrate_copy_srcu, idx);
	list_splice(&own_srcs, srcs);
	list_splice(&own_dsts, dsts);
	return copied ? nr : 0;
}

#ifdef CONFIG_MIGRATE_BATCH_KUNIT_TEST
#include "migrate_copy_kunit.h"
#endif
