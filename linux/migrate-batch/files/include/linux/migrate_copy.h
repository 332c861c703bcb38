/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engines that copy folios for migrate_pages(): a DMA channel, say, or helper threads.
 */
#ifndef _LINUX_MIGRATE_COPY_H
#define _LINUX_MIGRATE_COPY_H

#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/migrate_mode.h>

struct module;

/**
 * struct migrate_copy_engine - an engine
 * @name:	for messages
 * @owner:	module that is kept while @copy runs
 * @reasons:	BIT(MR_...) of each migration that the engine takes
 * @copy:	Copy @nr folios, @bytes in all, from the list @srcs to the list @dsts.  Both are
 *		linked by folio->lru in the same order, and stay as they are.  Return 0 if all
 *		of @dsts are copies.  After an error the next engine or the CPU copies all of them.
 *		When @copy returns, the engine touches no folio any more and its writes are visible
 *		to the caller.
 * @nr_pages:	base pages that the engine has copied; kept by the core
 * @nr_late:	calls in a row that took longer than migrate_copy_jiffies(); kept by the core
 * @list:	of the core
 *
 * @copy ends within migrate_copy_jiffies(@bytes), with -ETIMEDOUT if the copy is not done by then.
 * After the second late return in a row the core does not call the engine again.  An engine that
 * cannot stop a copy waits for its end, however late: after the return the CPU writes to the
 * destinations, or they are freed.
 *
 * Context of @copy: process; compaction and reclaim, too; several tasks at a time.  All folios are
 * locked and unmapped, and tasks wait for them.  So the engine takes no lock of a folio, allocates
 * with GFP_NOWAIT | __GFP_NOMEMALLOC | __GFP_NOWARN only (the task may have PF_MEMALLOC), and any
 * workqueue that it needs has WQ_MEM_RECLAIM.
 */
struct migrate_copy_engine {
	const char *name;
	struct module *owner;
	unsigned long reasons;
	int (*copy)(struct list_head *srcs, struct list_head *dsts, int nr, size_t bytes,
		    enum migrate_reason reason);
	atomic_long_t nr_pages;
	atomic_t nr_late;
	struct list_head list;
};

/**
 * migrate_copy_jiffies - how long an engine may take
 * @bytes: to be copied
 *
 * Context: any.
 * Return: jiffies: 10 ms, and 1 ms for each MB.
 */
static inline unsigned long migrate_copy_jiffies(size_t bytes)
{
	return msecs_to_jiffies(10 + div_u64(bytes, 1000 * 1000)) + 1;
}

void migrate_copy_register(struct migrate_copy_engine *engine);
void migrate_copy_unregister(struct migrate_copy_engine *engine);

#endif /* _LINUX_MIGRATE_COPY_H */
