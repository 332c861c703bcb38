// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of control by workload: the arithmetic of shares and limits, and how long
 * from one scan to the next.
 */

#include <kunit/test.h>

#include <linux/kernel.h>
#include <linux/list.h>

#include "kmmscand.h"
#include "share.h"

#define NR_CLAIMS	4

/* Weights and demands, and what must be granted of a total */
struct split_case {
	unsigned int weight[NR_CLAIMS];
	unsigned long demand[NR_CLAIMS];
	unsigned long total;
	unsigned long granted[NR_CLAIMS];
};

static const struct split_case split_cases[] = {
	/* By weight, if all of them want more than there is */
	{ { 100, 400, 250, 250 }, { 1000, 1000, 1000, 1000 }, 1000, { 100, 400, 250, 250 } },
	/* Who wants less gets that, and the others the rest by weight. */
	{ { 100, 100, 100, 300 }, { 30, 1000, 1000, 1000 }, 530, { 30, 100, 100, 300 } },
	/* Also if somebody wants less only of what others have left over */
	{ { 100, 100, 100, 100 }, { 0, 50, 110, 1000 }, 300, { 0, 50, 110, 140 } },
	/* All that is wanted, if that is no more than there is */
	{ { 1, 10000, 100, 100 }, { 10, 20, 30, 40 }, 100, { 10, 20, 30, 40 } },
	{ { 1, 10000, 100, 100 }, { 10, 20, 30, 40 }, 1000000, { 10, 20, 30, 40 } },
	/* Nobody else wants it, then a weight of 1 does. */
	{ { 1, 10000, 100, 100 }, { 1000, 0, 0, 0 }, 700, { 700, 0, 0, 0 } },
	{ { 1, 10000, 100, 100 }, { 0, 0, 0, 0 }, 700, { 0, 0, 0, 0 } },
	{ { 1, 10000, 100, 100 }, { 9, 9, 9, 9 }, 0, { 0, 0, 0, 0 } },
	/* Rounded down, and nothing overflows */
	{ { 1, 1, 1, 10000 }, { 1UL << 50, 1UL << 50, 1UL << 50, 1UL << 50 }, 1UL << 40,
	  { 109918187, 109918187, 109918187, 1099181873214 } },
};

static void split_test(struct kunit *test)
{
	unsigned long given, sum;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(split_cases); i++) {
		const struct split_case *c = &split_cases[i];
		struct share_claim claim[NR_CLAIMS];
		LIST_HEAD(claims);

		for (j = 0; j < NR_CLAIMS; j++) {
			claim[j].weight = c->weight[j];
			claim[j].demand = c->demand[j];
			/* What is left of another time must not matter. */
			claim[j].granted = 12345;
			list_add_tail(&claim[j].node, &claims);
		}
		given = share_split(&claims, c->total);
		sum = 0;
		for (j = 0; j < NR_CLAIMS; j++) {
			KUNIT_EXPECT_EQ_MSG(test, claim[j].granted, c->granted[j],
					    "case %d, claim %d", i, j);
			sum += claim[j].granted;
		}
		KUNIT_EXPECT_EQ_MSG(test, given, sum, "case %d", i);
		KUNIT_EXPECT_LE_MSG(test, given, c->total, "case %d", i);
	}
}

static void split_none_test(struct kunit *test)
{
	LIST_HEAD(claims);

	KUNIT_EXPECT_EQ(test, share_split(&claims, 100), 0);
}

static void cut_test(struct kunit *test)
{
	unsigned long pages[] = { 7, 10, 20, 30 };

	KUNIT_EXPECT_EQ(test, share_cut(pages, ARRAY_SIZE(pages), 67), 0);
	KUNIT_EXPECT_EQ(test, pages[0], 7);
	/* The coldest first */
	KUNIT_EXPECT_EQ(test, share_cut(pages, ARRAY_SIZE(pages), 45), 22);
	KUNIT_EXPECT_EQ(test, pages[0], 0);
	KUNIT_EXPECT_EQ(test, pages[1], 0);
	KUNIT_EXPECT_EQ(test, pages[2], 15);
	KUNIT_EXPECT_EQ(test, pages[3], 30);
	KUNIT_EXPECT_EQ(test, share_cut(pages, ARRAY_SIZE(pages), 29), 16);
	KUNIT_EXPECT_EQ(test, pages[2], 0);
	KUNIT_EXPECT_EQ(test, pages[3], 29);
	KUNIT_EXPECT_EQ(test, share_cut(pages, ARRAY_SIZE(pages), 0), 29);
	KUNIT_EXPECT_EQ(test, pages[3], 0);
}

static void interval_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kmmscand_interval(0, 1), 1);
	KUNIT_EXPECT_EQ(test, kmmscand_interval(3, 1), 8);
	KUNIT_EXPECT_EQ(test, kmmscand_interval(0, 3), 3);
	KUNIT_EXPECT_EQ(test, kmmscand_interval(1, 3), 6);
	KUNIT_EXPECT_EQ(test, kmmscand_interval(0, 10), 10);
	/* No longer than history can tell */
	KUNIT_EXPECT_EQ(test, kmmscand_interval(1, 10), 12);
	KUNIT_EXPECT_EQ(test, kmmscand_interval(3, 10), 12);
	/* Switched off just now: it must be due some time. */
	KUNIT_EXPECT_EQ(test, kmmscand_interval(2, 0), 4);
}

static struct kunit_case share_test_cases[] = {
	KUNIT_CASE(split_test),
	KUNIT_CASE(split_none_test),
	KUNIT_CASE(cut_test),
	KUNIT_CASE(interval_test),
	{}
};

static struct kunit_suite share_test_suite = {
	.name = "kmmscand_share",
	.test_cases = share_test_cases,
};

kunit_test_suites(&share_test_suite);
