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

int kmmscand_cache_run(const struct kmmscand_nodes *nodes);
void cache_period(int nid);

/*
 * Does a read at @pos go on inside of a folio, which begins at @start, where the one
 * before it has ended (@prev)?
 */
static inline bool kmmscand_cache_goes_on(loff_t pos, loff_t prev, loff_t start)
{
	return pos == prev && pos > start;
}

#endif /* _MM_TIER_KMMSCAND_CACHE_H */
