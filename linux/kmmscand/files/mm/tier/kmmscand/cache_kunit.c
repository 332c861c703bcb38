// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of what counts as an access to page cache.
 */

#include <kunit/test.h>

#include <linux/mm.h>

#include "cache.h"
#include "frames_kunit.h"
#include "hotness.h"

static void look_test(struct kunit *test)
{
	/* Without windows any time will do. */
	KUNIT_EXPECT_EQ(test, kmmscand_cache_look(0, 0), KMMSCAND_CACHE_WHOLE);
	KUNIT_EXPECT_EQ(test, kmmscand_cache_look(ULONG_MAX, 0), KMMSCAND_CACHE_WHOLE);

	KUNIT_EXPECT_EQ(test, kmmscand_cache_look(0, 4), KMMSCAND_CACHE_FIRST);
	KUNIT_EXPECT_EQ(test, kmmscand_cache_look(3, 4), KMMSCAND_CACHE_FIRST);
	KUNIT_EXPECT_EQ(test, kmmscand_cache_look(4, 4), KMMSCAND_CACHE_SECOND);
	KUNIT_EXPECT_EQ(test, kmmscand_cache_look(7, 4), KMMSCAND_CACHE_SECOND);
	KUNIT_EXPECT_EQ(test, kmmscand_cache_look(8, 4), KMMSCAND_CACHE_NONE);
	/* The clock was read before the epoch began. */
	KUNIT_EXPECT_EQ(test, kmmscand_cache_look(-1UL, 4), KMMSCAND_CACHE_NONE);
}

static void goes_on_test(struct kunit *test)
{
	/* In small pieces through a page at 4096 */
	KUNIT_EXPECT_FALSE(test, kmmscand_cache_goes_on(4096, 4096, 4096));
	KUNIT_EXPECT_TRUE(test, kmmscand_cache_goes_on(4608, 4608, 4096));
	KUNIT_EXPECT_TRUE(test, kmmscand_cache_goes_on(7680, 7680, 4096));
	/* The same piece again, another one, and nothing known */
	KUNIT_EXPECT_FALSE(test, kmmscand_cache_goes_on(4608, 5120, 4096));
	KUNIT_EXPECT_FALSE(test, kmmscand_cache_goes_on(4608, 8192, 4096));
	KUNIT_EXPECT_FALSE(test, kmmscand_cache_goes_on(4608, -1, 4096));
	KUNIT_EXPECT_FALSE(test, kmmscand_cache_goes_on(0, 0, 0));
}

/* Score of a page that is read at each of @nr looks of @look, epoch by epoch */
static unsigned int score_of(unsigned long pfn, enum kmmscand_cache_look first, unsigned int nr)
{
	unsigned int score = 0;

	for (; nr; nr--) {
		hotness_next_epoch();
		if (first == KMMSCAND_CACHE_WHOLE) {
			score = kunit_touch(pfn, 0);
			continue;
		}
		score = kunit_touch_close(pfn, hotness_epoch(), false, 0);
		if (first == KMMSCAND_CACHE_SECOND)
			score = kunit_touch_close(pfn, hotness_epoch(), true, 0);
	}
	return score;
}

/* What reads are worth in the table: as much as the looks of a scanner */
static void score_test(struct kunit *test)
{
	unsigned long pfn = kunit_alloc_table(test, 0);

	/* Once is not hot, however often in one look. */
	KUNIT_EXPECT_EQ(test, score_of(pfn, KMMSCAND_CACHE_WHOLE, 1), 1);
	KUNIT_EXPECT_EQ(test, kunit_touch(pfn, 0), 0);
	KUNIT_EXPECT_EQ(test, score_of(pfn, KMMSCAND_CACHE_WHOLE, 1), 3);
	hotness_forget(pfn, 1);
	/* In one of two windows; in both */
	KUNIT_EXPECT_EQ(test, score_of(pfn, KMMSCAND_CACHE_FIRST, 1), 1);
	hotness_forget(pfn, 1);
	KUNIT_EXPECT_EQ(test, score_of(pfn, KMMSCAND_CACHE_SECOND, 1), 3);
	KUNIT_EXPECT_EQ(test, kunit_touch_close(pfn, hotness_epoch(), true, 0), 0);
	KUNIT_EXPECT_EQ(test, score_of(pfn, KMMSCAND_CACHE_SECOND, 1), 5);
	hotness_forget(pfn, 1);
	/* One of two windows, again and again: less than both, but not nothing */
	KUNIT_EXPECT_EQ(test, score_of(pfn, KMMSCAND_CACHE_FIRST, 4), 4);

	kunit_free_table(pfn, 0);
}

static void found_test(struct kunit *test)
{
	unsigned long pfn = kunit_alloc_table(test, 0);
	unsigned int epoch;

	hotness_next_epoch();
	epoch = hotness_epoch();
	hotness_forget(pfn, 1);

	KUNIT_EXPECT_FALSE(test, hotness_found(ULONG_MAX >> PAGE_SHIFT, epoch, false));
	KUNIT_EXPECT_FALSE(test, hotness_found(pfn, epoch, false));
	kunit_touch_close(pfn, epoch, false, 0);
	KUNIT_EXPECT_TRUE(test, hotness_found(pfn, epoch, false));
	/* In the second window of the epoch it is to be recorded again. */
	KUNIT_EXPECT_FALSE(test, hotness_found(pfn, epoch, true));
	kunit_touch_close(pfn, epoch, true, 0);
	KUNIT_EXPECT_TRUE(test, hotness_found(pfn, epoch, true));
	KUNIT_EXPECT_FALSE(test, hotness_found(pfn, epoch, false));
	hotness_next_epoch();
	KUNIT_EXPECT_FALSE(test, hotness_found(pfn, epoch + 1, true));

	kunit_free_table(pfn, 0);
}

static struct kunit_case kmmscand_cache_test_cases[] = {
	KUNIT_CASE(look_test),
	KUNIT_CASE(goes_on_test),
	KUNIT_CASE(score_test),
	KUNIT_CASE(found_test),
	{}
};

static struct kunit_suite kmmscand_cache_test_suite = {
	.name = "kmmscand_cache",
	.test_cases = kmmscand_cache_test_cases,
};

kunit_test_suites(&kmmscand_cache_test_suite);
