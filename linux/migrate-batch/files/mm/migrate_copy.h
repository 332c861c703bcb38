/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copying the folios of a batch before the first of them is restored: see migrate_copy.c.
 */
#ifndef _MM_MIGRATE_COPY_H
#define _MM_MIGRATE_COPY_H

#include <linux/errno.h>
#include <linux/page_ref.h>

struct list_head;

#ifdef CONFIG_MIGRATE_BATCH

void migrate_copy_batch(struct list_head *srcs, struct list_head *dsts);
int migrate_copy_adopt(struct folio *dst, struct folio *src, bool *queued, bool *partially);

/**
 * migrate_copied - has an engine copied a folio?
 * @src: the folio; of a batch that was unmapped, and so has the reference of who isolated it
 *
 * Context: any.
 * Return: whether; then it is frozen until migrate_copy_adopt().
 */
static inline bool migrate_copied(struct folio *src)
{
	return unlikely(!folio_ref_count(src));
}

#else /* !CONFIG_MIGRATE_BATCH */

static inline void migrate_copy_batch(struct list_head *srcs, struct list_head *dsts) { }

static inline bool migrate_copied(struct folio *src)
{
	return false;
}

static inline int migrate_copy_adopt(struct folio *dst, struct folio *src, bool *queued,
				     bool *partially)
{
	return -EINVAL;
}

#endif /* CONFIG_MIGRATE_BATCH */

bool migrate_copy_test_late(void);
void migrate_copy_test_count(int nr, int good);

/* Does a test want references to be frozen too late? */
static inline bool migrate_copy_is_late(void)
{
	return IS_ENABLED(CONFIG_MIGRATE_BATCH_DEBUG) && migrate_copy_test_late();
}

/* Of the jobs that an engine took, so many were copied. */
static inline void migrate_copy_count(int nr, int good)
{
	if (IS_ENABLED(CONFIG_MIGRATE_BATCH_DEBUG))
		migrate_copy_test_count(nr, good);
}

#endif /* _MM_MIGRATE_COPY_H */
