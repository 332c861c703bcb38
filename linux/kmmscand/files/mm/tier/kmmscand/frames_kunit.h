/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page frames for KUnit tests of the hotness table.
 */
#ifndef _MM_TIER_KMMSCAND_FRAMES_KUNIT_H
#define _MM_TIER_KMMSCAND_FRAMES_KUNIT_H

#include <kunit/test.h>

#include <linux/gfp.h>
#include <linux/kmmscand.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/tier.h>

#include "hotness.h"

/*
 * 2^@order frames of the first node with memory, a folio each; to be freed by
 * kunit_free_frames().  Ends the test while kmmscand uses the table: before user space runs
 * nobody else does, but debugfs can run tests later.
 */
static inline unsigned long kunit_alloc_frames(struct kunit *test, unsigned int order)
{
	struct page *pages;

	if (static_key_enabled(&kmmscand_key))
		kunit_skip(test, "kmmscand is in use");
	pages = alloc_pages_node(first_memory_node, GFP_KERNEL | __GFP_THISNODE, order);
	KUNIT_ASSERT_NOT_NULL(test, pages);
	split_page(pages, order);
	return page_to_pfn(pages);
}

/* The same, and a table for them; kunit_free_table() undoes both. */
static inline unsigned long kunit_alloc_table(struct kunit *test, unsigned int order)
{
	nodemask_t nodes = nodemask_of_node(first_memory_node);
	unsigned long pfn = kunit_alloc_frames(test, order);

	KUNIT_ASSERT_EQ(test, hotness_enable(&nodes), 0);
	return pfn;
}

/* A page is touched by somebody who looks at it every 2^@shift epochs, */
static inline unsigned int kunit_touch(unsigned long pfn, unsigned int shift)
{
	return hotness_touch(pfn, hotness_epoch(), true, false, shift);
}

/* ... or in one of the looks of a close visit. */
static inline unsigned int kunit_touch_close(unsigned long pfn, unsigned int epoch, bool second,
					     unsigned int shift)
{
	return hotness_touch(pfn, epoch, second, true, shift);
}

static inline void kunit_free_frames(unsigned long pfn, unsigned int order)
{
	unsigned long end = pfn + (1UL << order);

	for (; pfn < end; pfn++)
		__free_page(pfn_to_page(pfn));
}

static inline void kunit_free_table(unsigned long pfn, unsigned int order)
{
	hotness_disable();
	kunit_free_frames(pfn, order);
}

#endif /* _MM_TIER_KMMSCAND_FRAMES_KUNIT_H */
