// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the rings of candidates: order, what is dropped, and the share of a group.
 *
 * The ring is that of a node which does not exist.  While kmmscand runs the tests skip themselves.
 */

#include <kunit/test.h>

#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/numa.h>
#include <linux/tier.h>

#include "main.h"
#include "ring.h"

#define RING_NID	(MAX_NUMNODES - 1)
#define BATCH		32U
/* More than a ring holds */
#define MANY		(1280 * BATCH)

static void begin(struct kunit *test)
{
	if (kmmscand_enabled())
		kunit_skip(test, "kmmscand is in use");
	KUNIT_ASSERT_EQ(test, ring_start(RING_NID), 0);
}

/* Push folios like @like, with the numbers from its own on, found so many jiffies ago. */
static void push(struct candidate like, unsigned int nr, unsigned long ago)
{
	struct candidate found[BATCH];
	unsigned int i, part;

	for (; nr; nr -= part) {
		part = min(nr, BATCH);
		like.stamp = jiffies - ago;
		for (i = 0; i < part; i++, like.pfn++)
			found[i] = like;
		ring_push(RING_NID, found, part);
	}
}

static void push_group(unsigned int group, unsigned long first, unsigned int nr)
{
	push((struct candidate) { .group = group, .pfn = first }, nr, 0);
}

/* Pop at most @most folios; returns how many have the numbers from @first on, 0 if one has not. */
static unsigned int pop(unsigned long first, unsigned int most)
{
	struct candidate taken[BATCH];
	unsigned int i, nr, all = 0, wrong = 0;

	while ((nr = ring_pop(RING_NID, taken, min(BATCH, most - all), ULONG_MAX))) {
		for (i = 0; i < nr; i++)
			wrong += taken[i].pfn != first + all + i;
		all += nr;
	}
	return wrong ? 0 : all;
}

/* Base pages of a group that were popped or dropped */
static unsigned long gone(unsigned int group)
{
	unsigned long groups[TIER_GROUPS], waiting[TIER_GROUPS];

	ring_counts(RING_NID, groups, waiting);
	return groups[group];
}

/* Base pages of a group that wait */
static unsigned long waiting(unsigned int group)
{
	unsigned long gone[TIER_GROUPS], groups[TIER_GROUPS];

	ring_counts(RING_NID, gone, groups);
	return groups[group];
}

/* Base pages that were pushed */
static unsigned long pushed(void)
{
	unsigned long groups[TIER_GROUPS], waiting[TIER_GROUPS];

	return ring_counts(RING_NID, groups, waiting);
}

/* A promoter gets what a worker has found, and nothing twice. */
static void entry_test(struct kunit *test)
{
	const struct candidate found = {
		.pfn = 1UL << 40, .nid = 3, .order = 9, .group = TIER_GROUPS - 1, .strict = 1,
		.stamp = jiffies,
	};
	struct candidate taken[2] = {};

	begin(test);
	KUNIT_EXPECT_TRUE(test, ring_empty(RING_NID));
	ring_push(RING_NID, &found, 1);
	KUNIT_EXPECT_FALSE(test, ring_empty(RING_NID));
	KUNIT_EXPECT_EQ(test, ring_queued(RING_NID), 1);
	KUNIT_EXPECT_EQ(test, ring_pop(RING_NID, taken, 2, 1024), 1);
	KUNIT_EXPECT_EQ(test, taken[0].pfn, found.pfn);
	KUNIT_EXPECT_EQ(test, taken[0].nid, 3);
	KUNIT_EXPECT_EQ(test, taken[0].order, 9);
	KUNIT_EXPECT_EQ(test, (int)taken[0].group, TIER_GROUPS - 1);
	KUNIT_EXPECT_EQ(test, (int)taken[0].strict, 1);
	KUNIT_EXPECT_TRUE(test, ring_empty(RING_NID));
	KUNIT_EXPECT_EQ(test, ring_pop(RING_NID, taken, 2, 1024), 0);
	ring_stop(RING_NID);
}

/* What was found first goes first, also in batches of different sizes. */
static void order_test(struct kunit *test)
{
	struct candidate taken[3] = {};

	begin(test);
	push_group(0, 0, 3);
	push_group(1, 3, 2);
	KUNIT_EXPECT_EQ(test, ring_pop(RING_NID, taken, 2, 3), 2);
	KUNIT_EXPECT_EQ(test, taken[0].pfn, 0);
	KUNIT_EXPECT_EQ(test, taken[1].pfn, 1);
	KUNIT_EXPECT_EQ(test, taken[2].pfn, 0);
	push_group(0, 5, 1);
	KUNIT_EXPECT_EQ(test, ring_queued(RING_NID), 4);
	KUNIT_EXPECT_EQ(test, pop(2, 4), 4);
	ring_stop(RING_NID);
}

/* A promoter asks for base pages, and gets one folio at least.  The others wait. */
static void pages_test(struct kunit *test)
{
	struct candidate taken[4];

	begin(test);
	push((struct candidate) { .pfn = 0, .order = 9 }, 4, 0);
	KUNIT_EXPECT_EQ(test, ring_pop(RING_NID, taken, 4, 1023), 1);
	KUNIT_EXPECT_EQ(test, ring_pop(RING_NID, taken, 4, 1024), 2);
	KUNIT_EXPECT_EQ(test, taken[0].pfn, 1);
	KUNIT_EXPECT_EQ(test, ring_pop(RING_NID, taken, 4, 1), 1);
	KUNIT_EXPECT_EQ(test, taken[0].pfn, 3);
	KUNIT_EXPECT_TRUE(test, ring_empty(RING_NID));
	ring_stop(RING_NID);
}

/* A full ring drops what comes: it keeps what was hot first, and has place again after a pop. */
static void full_test(struct kunit *test)
{
	unsigned int half;

	begin(test);
	push_group(0, 0, MANY);
	half = pop(0, MANY);
	KUNIT_EXPECT_GE(test, half, BATCH);
	KUNIT_EXPECT_LE(test, half, MANY / 2);

	push_group(0, 0, half);
	push_group(1, half, half / 2);
	push_group(2, half + half / 2, half / 2);
	KUNIT_EXPECT_EQ(test, ring_queued(RING_NID), 2 * half);
	push_group(3, 0, 1);
	KUNIT_EXPECT_EQ(test, ring_queued(RING_NID), 2 * half);
	KUNIT_EXPECT_EQ(test, pop(0, 1), 1);
	push_group(3, 2 * half, 2);
	KUNIT_EXPECT_EQ(test, pop(1, MANY), 2 * half);
	ring_stop(RING_NID);
}

/* One group leaves place for others: half of the ring alone, and then a quarter of it. */
static void share_test(struct kunit *test)
{
	unsigned int half;

	begin(test);
	push_group(0, 0, MANY);
	half = ring_queued(RING_NID);
	push_group(1, half, MANY);
	KUNIT_EXPECT_EQ(test, ring_queued(RING_NID), half + half / 2);
	push_group(0, 0, 1);
	KUNIT_EXPECT_EQ(test, ring_queued(RING_NID), half + half / 2);

	/* What is popped counts no more: the first group has less than a quarter of the ring. */
	KUNIT_EXPECT_EQ(test, pop(0, half / 2 + 1), half / 2 + 1);
	push_group(2, half + half / 2, half / 4);
	push_group(0, half + half / 2 + half / 4, 2);
	KUNIT_EXPECT_EQ(test, ring_queued(RING_NID), half + half / 4);
	ring_stop(RING_NID);
}

/* A second after a look the heat is no longer known. */
static void age_test(struct kunit *test)
{
	const struct candidate old = { .pfn = 0 }, fresh = { .pfn = BATCH };
	struct candidate taken[2];
	unsigned int half;

	begin(test);
	push(old, BATCH, 3 * HZ);
	KUNIT_EXPECT_FALSE(test, ring_empty(RING_NID));
	KUNIT_EXPECT_EQ(test, pop(0, MANY), 0);
	KUNIT_EXPECT_TRUE(test, ring_empty(RING_NID));

	/* Dropped entries are none of those that the promoter asks for. */
	push(old, BATCH, 3 * HZ);
	push(fresh, 3, HZ / 8);
	KUNIT_EXPECT_EQ(test, ring_pop(RING_NID, taken, 2, 2), 2);
	KUNIT_EXPECT_EQ(test, taken[0].pfn, BATCH);
	KUNIT_EXPECT_EQ(test, pop(BATCH + 2, MANY), 1);

	/* They do not count for the share of their group either. */
	push(old, MANY, 3 * HZ);
	half = ring_queued(RING_NID);
	KUNIT_EXPECT_EQ(test, pop(0, MANY), 0);
	push_group(1, 0, half);
	push_group(0, half, 1);
	KUNIT_EXPECT_EQ(test, ring_queued(RING_NID), half + 1);
	ring_stop(RING_NID);
}

/*
 * Windows follow what was found: base pages, whether or not there was place for them.  Turns follow
 * what became of the candidates that have left the ring.
 */
static void counts_test(struct kunit *test)
{
	const struct candidate huge = { .group = 2, .pfn = 2, .order = 9 };
	const struct candidate pair = { .group = 3, .order = 1 };

	begin(test);
	KUNIT_EXPECT_EQ(test, pushed(), 0);
	push_group(1, 0, 2);
	push(huge, 3, 0);
	KUNIT_EXPECT_EQ(test, pushed(), 2 + 3 * 512);
	KUNIT_EXPECT_EQ(test, gone(1), 0);
	KUNIT_EXPECT_EQ(test, gone(2), 0);
	KUNIT_EXPECT_EQ(test, waiting(2), 3 * 512);
	KUNIT_EXPECT_EQ(test, pop(0, MANY), 5);
	KUNIT_EXPECT_EQ(test, gone(1), 2);
	KUNIT_EXPECT_EQ(test, gone(2), 3 * 512);
	KUNIT_EXPECT_EQ(test, waiting(2), 0);
	KUNIT_EXPECT_EQ(test, pushed(), 2 + 3 * 512);
	/* Half of the ring has place for one group. */
	push(pair, MANY, 0);
	KUNIT_EXPECT_EQ(test, pushed(), 2 + 3 * 512 + 2 * MANY);
	KUNIT_EXPECT_EQ(test, gone(3), 2 * (MANY - ring_queued(RING_NID)));
	KUNIT_EXPECT_TRUE(test, gone(3) > 0);
	ring_drop(RING_NID);
	KUNIT_EXPECT_TRUE(test, ring_empty(RING_NID));
	KUNIT_EXPECT_EQ(test, gone(3), 2 * MANY);
	KUNIT_EXPECT_EQ(test, waiting(3), 0);
	ring_stop(RING_NID);

	/* The next ring begins at 0. */
	begin(test);
	KUNIT_EXPECT_EQ(test, pushed(), 0);
	KUNIT_EXPECT_TRUE(test, ring_empty(RING_NID));
	ring_stop(RING_NID);
}

static struct kunit_case ring_test_cases[] = {
	KUNIT_CASE(entry_test),
	KUNIT_CASE(order_test),
	KUNIT_CASE(pages_test),
	KUNIT_CASE(full_test),
	KUNIT_CASE(share_test),
	KUNIT_CASE(age_test),
	KUNIT_CASE(counts_test),
	{}
};

static struct kunit_suite ring_test_suite = {
	.name = "kmmscand_ring",
	.test_cases = ring_test_cases,
};

kunit_test_suites(&ring_test_suite);
