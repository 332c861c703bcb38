// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of limits for memory control groups: room, for how long it is counted what was
 * promoted, and the scores that fit.
 */

#include <kunit/test.h>

#include <linux/page_counter.h>
#include <linux/string.h>

#include "limit.h"

/* Select as many pages one by one as are allowed. */
static unsigned long take(struct tier_limit *limit, unsigned long max, unsigned int score,
			  bool select)
{
	unsigned long nr = 0;

	for (; tier_limit_allows(limit, max, 1, score, select) && nr < 1000; nr++)
		tier_limit_charge(limit, 1, select);
	return nr;
}

static void room_test(struct kunit *test)
{
	struct tier_limit limit = {};

	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 0), 0);
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, PAGE_COUNTER_MAX), PAGE_COUNTER_MAX);
	limit.used = 60;
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 59), 0);
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 100), 40);
	/* What is counted does not use up what may be selected. */
	KUNIT_EXPECT_EQ(test, take(&limit, 100, 1, false), 40);
	KUNIT_EXPECT_FALSE(test, tier_limit_allows(&limit, 100, 41, 1, true));
	KUNIT_EXPECT_EQ(test, take(&limit, 100, 1, true), 40);
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 100), 0);
}

/* With statistics that are as late as can be, the limit is never exceeded. */
static void late_test(struct kunit *test)
{
	const unsigned long start = -TIER_LIMIT_HALF, max = 100;
	unsigned long now, taken[64] = {}, seen = 0, sum = 0;
	struct tier_limit limit = {};
	unsigned int i;

	tier_limit_init(&limit, start);
	limit.least = 1;
	for (i = 0; i < ARRAY_SIZE(taken); i++) {
		/* Five times in half a window, and jiffies wrap */
		now = start + i * (TIER_LIMIT_HALF / 5);
		if (i >= 5)
			seen += taken[i - 5];
		tier_limit_measured(&limit, seen, now);
		/* Some in each, and then all that is possible */
		for (; taken[i] < (i < 20 ? 3 : 1000) &&
		     tier_limit_allows(&limit, max, 1, 1, true); taken[i]++)
			tier_limit_charge(&limit, 1, true);
		sum += taken[i];
		KUNIT_EXPECT_LE(test, sum, max);
	}
	KUNIT_EXPECT_EQ(test, sum, max);
	/* Nothing is counted twice for ever. */
	KUNIT_EXPECT_EQ(test, limit.recent[0] + limit.recent[1], 0);
}

static void hottest_test(struct kunit *test)
{
	struct tier_limit limit = {};

	/* Nothing before the first walk is over, */
	tier_limit_init(&limit, 0);
	KUNIT_EXPECT_FALSE(test, tier_limit_allows(&limit, 100, 1, HOTNESS_MAX_SCORE, true));
	/* ... nor if it has found nothing. */
	tier_limit_next_walk(&limit, 100);
	KUNIT_EXPECT_FALSE(test, tier_limit_allows(&limit, 100, 1, HOTNESS_MAX_SCORE, false));

	limit.found.pages[3] = 1000;
	limit.found.pages[5] = 60;
	limit.found.pages[9] = 30;
	tier_limit_next_walk(&limit, 100);
	KUNIT_EXPECT_EQ(test, limit.least, 4);
	KUNIT_EXPECT_EQ(test, limit.found.pages[3], 0);
	KUNIT_EXPECT_EQ(test, take(&limit, 100, 3, false), 0);
	KUNIT_EXPECT_EQ(test, take(&limit, 100, 5, false), 100);

	/* More of the highest score than there is room for */
	limit.found.pages[3] = 1000;
	limit.used = 90;
	tier_limit_next_walk(&limit, 100);
	KUNIT_EXPECT_EQ(test, limit.least, 3);
	KUNIT_EXPECT_EQ(test, take(&limit, 100, 3, false), 10);
	KUNIT_EXPECT_EQ(test, take(&limit, 100, 3, true), 10);
	/* No room at all */
	limit.found.pages[9] = 1000;
	tier_limit_next_walk(&limit, 100);
	KUNIT_EXPECT_EQ(test, take(&limit, 100, 9, false), 0);
}

static struct kunit_case limit_test_cases[] = {
	KUNIT_CASE(room_test),
	KUNIT_CASE(late_test),
	KUNIT_CASE(hottest_test),
	{}
};

static struct kunit_suite limit_test_suite = {
	.name = "kmmscand_limit",
	.test_cases = limit_test_cases,
};

kunit_test_suites(&limit_test_suite);
