// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of limits for memory control groups: room, and for how long it is counted what was
 * promoted.
 */

#include <kunit/test.h>

#include <linux/page_counter.h>

#include "limit.h"

/* Take pages one by one, as many as there is room for, and @most at most. */
static unsigned long take(struct tier_limit *limit, unsigned long max, unsigned long most)
{
	unsigned long nr = 0;

	for (; nr < most && tier_limit_room(limit, max); nr++)
		limit->recent[0]++;
	return nr;
}

static void room_test(struct kunit *test)
{
	struct tier_limit limit = {};

	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 0), 0);
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, PAGE_COUNTER_MAX), PAGE_COUNTER_MAX);
	limit.used = 60;
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 100), 40);
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 60), 0);
	/* The administrator has lowered the limit. */
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 59), 0);
	/* What was taken lately is missing in the statistics, now and in the time before. */
	limit.recent[0] = 10;
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 100), 30);
	limit.recent[1] = 5;
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 100), 25);
	KUNIT_EXPECT_EQ(test, take(&limit, 100, 1000), 25);
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 100), 0);
}

/* A new limit is measured at the first candidate, whenever that comes. */
static void init_test(struct kunit *test)
{
	const unsigned long nows[] = { 0, 1, TIER_LIMIT_HALF, -1UL };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nows); i++) {
		struct tier_limit limit = { .recent = { 7, 0 } };

		tier_limit_init(&limit, nows[i]);
		KUNIT_EXPECT_EQ(test, nows[i] - limit.begun, TIER_LIMIT_HALF);
		tier_limit_measured(&limit, 30, nows[i]);
		KUNIT_EXPECT_EQ(test, limit.used, 30);
		KUNIT_EXPECT_EQ(test, limit.recent[0], 0);
		KUNIT_EXPECT_EQ(test, limit.recent[1], 7);
		KUNIT_EXPECT_EQ(test, limit.begun, nows[i]);
	}
}

/* Pages are counted by themselves for as long as the statistics may miss them. */
static void measured_test(struct kunit *test)
{
	struct tier_limit limit = { .recent = { 7, 3 } };

	tier_limit_measured(&limit, 30, TIER_LIMIT_HALF - 1);
	KUNIT_EXPECT_EQ(test, limit.used, 30);
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 100), 60);
	KUNIT_EXPECT_EQ(test, limit.begun, 0);
	tier_limit_measured(&limit, 30, TIER_LIMIT_HALF);
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 100), 63);
	tier_limit_measured(&limit, 40, 2 * TIER_LIMIT_HALF);
	KUNIT_EXPECT_EQ(test, tier_limit_room(&limit, 100), 60);
}

/* With statistics that are as late as can be, the limit is never exceeded. */
static void late_test(struct kunit *test)
{
	const unsigned long start = -TIER_LIMIT_HALF, max = 100;
	unsigned long now, taken[64] = {}, seen = 0, sum = 0;
	struct tier_limit limit = {};
	unsigned int i;

	tier_limit_init(&limit, start);
	for (i = 0; i < ARRAY_SIZE(taken); i++) {
		/* Five times in half a window, and jiffies wrap */
		now = start + i * (TIER_LIMIT_HALF / 5);
		if (i >= 5)
			seen += taken[i - 5];
		tier_limit_measured(&limit, seen, now);
		/* Some in each, and then all that is possible */
		taken[i] = take(&limit, max, i < 20 ? 3 : 1000);
		sum += taken[i];
		KUNIT_EXPECT_LE(test, sum, max);
	}
	KUNIT_EXPECT_EQ(test, sum, max);
	/* Nothing is counted twice for ever. */
	KUNIT_EXPECT_EQ(test, limit.recent[0] + limit.recent[1], 0);
}

static struct kunit_case limit_test_cases[] = {
	KUNIT_CASE(room_test),
	KUNIT_CASE(init_test),
	KUNIT_CASE(measured_test),
	KUNIT_CASE(late_test),
	{}
};

static struct kunit_suite limit_test_suite = {
	.name = "kmmscand_limit",
	.test_cases = limit_test_cases,
};

kunit_test_suites(&limit_test_suite);
