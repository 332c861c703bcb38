/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copying the folios of a batch before the first of them is restored: see migrate_copy.c.
 */
#ifndef _MM_MIGRATE_COPY_H
#define _MM_MIGRATE_COPY_H

#include <linux/list.h>
#include <linux/mm_types.h>

#include "migrate_batch.h"

#ifdef CONFIG_MIGRATE_BATCH

/* In the dst->private of a folio that an engine has copied, while migrate_folio_copy() runs */
extern char migrate_copied[];

int migrate_copy_batch(struct list_head *srcs, struct list_head *dsts, int reason);

/* migrate_folio() is going to move a folio that was copied, or was not. */
static inline void migrate_copy_begin(struct folio *dst, bool copied)
{
	if (copied)
		dst->private = migrate_copied;
}

/* Need migrate_folio() not copy? */
static inline bool migrate_copy_done(struct folio *dst)
{
	return migrate_batch_on() && dst->private == migrate_copied;
}

/* The folio was moved, or was not; dst->private may have the folio's own data by now. */
static inline void migrate_copy_end(struct folio *dst, bool copied)
{
	if (copied && dst->private == migrate_copied)
		dst->private = NULL;
}

#else /* !CONFIG_MIGRATE_BATCH */

static inline int migrate_copy_batch(struct list_head *srcs, struct list_head *dsts, int reason)
{
	return 0;
}

static inline void migrate_copy_begin(struct folio *dst, bool copied) { }
static inline void migrate_copy_end(struct folio *dst, bool copied) { }

static inline bool migrate_copy_done(struct folio *dst)
{
	return false;
}

#endif /* CONFIG_MIGRATE_BATCH */

#endif /* _MM_MIGRATE_COPY_H */
