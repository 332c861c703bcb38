/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page cache that is hot through read(2): see cache.c.
 */
#ifndef _MM_TIER_KMMSCAND_CACHE_H
#define _MM_TIER_KMMSCAND_CACHE_H

#include <linux/types.h>

struct kmmscand_nodes;
struct kobj_attribute;

extern struct kobj_attribute kmmscand_cache_attr;

void kmmscand_cache_run(const struct kmmscand_nodes *nodes);
void kmmscand_cache_epoch(unsigned int window_ms);

/**
 * enum kmmscand_cache_look - what a read is part of
 * @KMMSCAND_CACHE_NONE:   nothing, it is not counted
 * @KMMSCAND_CACHE_WHOLE:  the one look of an epoch without windows
 * @KMMSCAND_CACHE_FIRST:  the first window of an epoch
 * @KMMSCAND_CACHE_SECOND: the second one
 */
enum kmmscand_cache_look {
	KMMSCAND_CACHE_NONE,
	KMMSCAND_CACHE_WHOLE,
	KMMSCAND_CACHE_FIRST,
	KMMSCAND_CACHE_SECOND,
};

/* The look of a read @since the epoch began; with a @window of 0 there are no windows. */
static inline enum kmmscand_cache_look kmmscand_cache_look(unsigned long since,
							   unsigned long window)
{
	if (!window)
		return KMMSCAND_CACHE_WHOLE;
	if (since < window)
		return KMMSCAND_CACHE_FIRST;
	return since < 2 * window ? KMMSCAND_CACHE_SECOND : KMMSCAND_CACHE_NONE;
}

/*
 * Does a read at @pos go on inside of a folio, which begins at @start, where the one
 * before it has ended (@prev)?
 */
static inline bool kmmscand_cache_goes_on(loff_t pos, loff_t prev, loff_t start)
{
	return pos == prev && pos > start;
}

#endif /* _MM_TIER_KMMSCAND_CACHE_H */
