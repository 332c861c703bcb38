/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What kmmscand wants to be told: which page cache is read.  See mm/tier/kmmscand/.  Its settings
 * by process and by memory control group are in tier_control.h.
 */
#ifndef _LINUX_KMMSCAND_H
#define _LINUX_KMMSCAND_H

#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/types.h>

struct file;
struct folio;

#ifdef CONFIG_KMMSCAND
DECLARE_STATIC_KEY_FALSE(kmmscand_cache_key);
extern nodemask_t kmmscand_slow_nodes;
extern unsigned long kmmscand_cache_until;

void __kmmscand_file_read(struct file *file, struct folio **folios, unsigned int nr, loff_t pos,
			  loff_t prev);

/**
 * kmmscand_looks_at_cache - may it matter what page cache is read?
 *
 * Always false, at the cost of a nop, while kmmscand is off or does not look at page cache.
 */
static inline bool kmmscand_looks_at_cache(void)
{
	return static_branch_unlikely(&kmmscand_cache_key);
}

/**
 * kmmscand_cache_pauses - is there no look at page cache just now?
 */
static inline bool kmmscand_cache_pauses(void)
{
	return time_after(jiffies, READ_ONCE(kmmscand_cache_until));
}

/**
 * kmmscand_folio_is_slow - does it matter that this folio is read?
 * @folio: page cache; only if kmmscand_looks_at_cache()
 */
static inline bool kmmscand_folio_is_slow(struct folio *folio)
{
	return node_isset(folio_nid(folio), kmmscand_slow_nodes);
}
#else
static inline bool kmmscand_looks_at_cache(void)
{
	return false;
}

static inline bool kmmscand_cache_pauses(void)
{
	return true;
}

static inline bool kmmscand_folio_is_slow(struct folio *folio)
{
	return false;
}

static inline void __kmmscand_file_read(struct file *file, struct folio **folios,
					unsigned int nr, loff_t pos, loff_t prev)
{
}
#endif /* CONFIG_KMMSCAND */

/**
 * kmmscand_folio_read - a folio of page cache is read by somebody who does not map it
 * @file:  that is read
 * @folio: that is about to be copied from; a reference is held
 * @pos:   where the read begins
 * @prev:  where the read before it has ended; anything else if that is not known
 *
 * If it is on a slow node it counts as accessed.
 *
 * Context: a process that reads; no locks needed.
 */
static inline void kmmscand_folio_read(struct file *file, struct folio *folio, loff_t pos,
				       loff_t prev)
{
	if (kmmscand_looks_at_cache() && !kmmscand_cache_pauses() && kmmscand_folio_is_slow(folio))
		__kmmscand_file_read(file, &folio, 1, pos, prev);
}

#endif /* _LINUX_KMMSCAND_H */
