// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of kmmscand: the table with its clock, scores, and the decisions that
 * depend on their arguments only.
 */

#include <kunit/test.h>

#include <linux/gfp.h>
#include <linux/kmmscand.h>
#include <linux/memcontrol.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/tier.h>

#include "../demoted.h"
#include "decide.h"
#include "fault.h"
#include "frames_kunit.h"
#include "hotness.h"
#include "kmmscand.h"
#include "target.h"

static void score_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, hotness_score(0x01), 1);
	/* Two visits, but not in a row */
	KUNIT_EXPECT_EQ(test, hotness_score(0x81), 2);
	KUNIT_EXPECT_EQ(test, hotness_score(0x03), 3);
	/* Momentum is about the last two only. */
	KUNIT_EXPECT_EQ(test, hotness_score(0x0c), 2);
	KUNIT_EXPECT_EQ(test, hotness_score(0xff), HOTNESS_MAX_SCORE);
}

static void aged_test(struct kunit *test)
{
	const unsigned int shift = HOTNESS_MAX_SHIFT + 1, horizon = 2 * HOTNESS_HORIZON;
	u16 record = 10 << 8 | 0x01;

	KUNIT_EXPECT_EQ(test, hotness_aged(record, 10, 0), 0x01);
	KUNIT_EXPECT_EQ(test, hotness_aged(record, 17, 0), 0x80);
	KUNIT_EXPECT_EQ(test, hotness_aged(record, 18, 0), 0x00);
	/* One bit for eight epochs: nothing is lost before the horizon. */
	KUNIT_EXPECT_EQ(test, hotness_aged(record, 25, shift), 0x01);
	KUNIT_EXPECT_EQ(test, hotness_aged(record, 26, shift), 0x02);
	KUNIT_EXPECT_EQ(test, hotness_aged(record, 10 + horizon - 1, shift), 0x80);
	KUNIT_EXPECT_EQ(test, hotness_aged(record, 10 + horizon, shift), 0x00);
	/* Two looks, and four epochs later the next two */
	KUNIT_EXPECT_EQ(test, hotness_aged_close(record, 10, 2), 0x01);
	KUNIT_EXPECT_EQ(test, hotness_aged_close(record, 11, 2), 0x02);
	KUNIT_EXPECT_EQ(test, hotness_aged_close(record, 12, 2), 0x02);
	KUNIT_EXPECT_EQ(test, hotness_aged_close(record, 17, 2), 0x02);
	KUNIT_EXPECT_EQ(test, hotness_aged_close(record, 18, 2), 0x04);
	/* The stamp wraps. */
	KUNIT_EXPECT_EQ(test, hotness_aged(255 << 8 | 0x01, 1, 0), 0x04);
	/* What the sweep is for: without it the page would look hot again. */
	KUNIT_EXPECT_EQ(test, hotness_aged(record, (10 + 256 + 1) & 0xff, 0), 0x02);
}

static void retracted_test(struct kunit *test)
{
	/* It is as if the page had been found before and not since. */
	KUNIT_EXPECT_EQ(test, hotness_retracted(0x210f, 0), 0x1f03);
	KUNIT_EXPECT_EQ(test, hotness_retracted(0x210f, 2), 0x1903);
	KUNIT_EXPECT_EQ(test, hotness_retracted(0x2143, 1), 0x1501);
	KUNIT_EXPECT_EQ(test, hotness_retracted(0x2103, 0), 0);
}

static void lanes_test(struct kunit *test)
{
	const unsigned int ticks[] = { 0, 1, 3, 127, 128, 200, 254, 255 };
	unsigned int i, stamp, lane, oldest, wrong = 0;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		for (stamp = 0; stamp < 256; stamp++) {
			for (lane = 0; lane < HOTNESS_LANES; lane++) {
				for (oldest = 0; oldest < 256; oldest += 3) {
					/* The others are one tick too old, or nearly so. */
					u8 other = ticks[i] - oldest - 1;
					u64 records = other * HOTNESS_ONES << 8 |
						      0xff * HOTNESS_ONES;
					bool fresh = (u8)(ticks[i] - stamp) <= oldest;

					records &= ~(0xffffULL << 16 * lane);
					records |= (u64)stamp << (16 * lane + 8);
					/* With 255 everything is fresh. */
					fresh |= oldest == 255;
					wrong += hotness_any_fresh(records, ticks[i], oldest,
								   0) != fresh;
				}
			}
		}
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
}

static void lanes_bits_test(struct kunit *test)
{
	const u8 tick = 2, oldest = 3, fresh = tick - oldest, stale = fresh - 1;
	unsigned int history, bits, lane, wrong = 0;

	for (history = 0; history < 256; history++) {
		for (bits = 1; bits <= HOTNESS_HISTORY_BITS; bits++) {
			for (lane = 0; lane < HOTNESS_LANES; lane++) {
				const bool found = hweight8(history) >= bits;
				/* Of the neighbours, all are stale, or have one access too few. */
				u64 old = (stale << 8 | 0xff) * HOTNESS_ONES;
				u64 few = (fresh << 8 | ((1 << (bits - 1)) - 1)) * HOTNESS_ONES;
				const u64 mask = ~(0xffffULL << 16 * lane);
				u64 record = (u64)(fresh << 8 | history) << 16 * lane;

				wrong += hotness_any_fresh((old & mask) | record, tick, oldest,
							   bits) != found;
				wrong += hotness_any_fresh((few & mask) | record, tick, oldest,
							   bits) != found;
				record = (u64)(stale << 8 | history) << 16 * lane;
				wrong += hotness_any_fresh((few & mask) | record, tick, oldest,
							   bits);
			}
		}
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
}

static void score_bits_test(struct kunit *test)
{
	unsigned int history, score, least[HOTNESS_MAX_SCORE + 1];

	memset(least, 0xff, sizeof(least));
	for (history = 0; history < 256; history++) {
		for (score = 0; score <= hotness_score(history); score++)
			least[score] = min(least[score], hweight8(history));
	}
	for (score = 0; score <= HOTNESS_MAX_SCORE; score++)
		KUNIT_EXPECT_EQ(test, hotness_score_bits(score), least[score]);
}

static void pick_test(struct kunit *test)
{
	struct hotness_histogram histogram = {};
	unsigned long hot;

	/* Nothing is hot. */
	KUNIT_EXPECT_EQ(test, kpromoted_pick(&histogram, 3, 100, &hot), 3);
	KUNIT_EXPECT_EQ(test, hot, 0);

	histogram.pages[2] = 1000;
	histogram.pages[3] = 50;
	histogram.pages[5] = 30;
	histogram.pages[9] = 20;
	/* All can be afforded, but for what is below the least score. */
	KUNIT_EXPECT_EQ(test, kpromoted_pick(&histogram, 3, 100, &hot), 3);
	KUNIT_EXPECT_EQ(test, hot, 100);
	KUNIT_EXPECT_EQ(test, kpromoted_pick(&histogram, 0, 10000, &hot), 1);
	KUNIT_EXPECT_EQ(test, hot, 1100);
	/* The hottest first */
	KUNIT_EXPECT_EQ(test, kpromoted_pick(&histogram, 3, 99, &hot), 4);
	KUNIT_EXPECT_EQ(test, hot, 50);
	KUNIT_EXPECT_EQ(test, kpromoted_pick(&histogram, 3, 49, &hot), 6);
	KUNIT_EXPECT_EQ(test, hot, 20);
	/* Not even those: as many as fit, which is up to the caller. */
	KUNIT_EXPECT_EQ(test, kpromoted_pick(&histogram, 3, 1, &hot), HOTNESS_MAX_SCORE);
	KUNIT_EXPECT_EQ(test, hot, 20);
	/* Pressure asks for more than anything has. */
	KUNIT_EXPECT_EQ(test, kpromoted_pick(&histogram, 10, 100, &hot),
			HOTNESS_MAX_SCORE + 1);
	KUNIT_EXPECT_EQ(test, hot, 0);
}

static void window_test(struct kunit *test)
{
	const unsigned int period = 500, least = KPROMOTED_WINDOW_MS;

	/* About as many as can be afforded: as it is */
	KUNIT_EXPECT_EQ(test, kpromoted_window(64, period, period, 1000, 1000, 1000), 64);
	KUNIT_EXPECT_EQ(test, kpromoted_window(64, period, period, 5000, 2000, 1000), 64);
	KUNIT_EXPECT_EQ(test, kpromoted_window(64, period, period, 500, 500, 1000), 64);
	KUNIT_EXPECT_EQ(test, kpromoted_window(period, period, period, 500, 500, 1000),
			period);
	/* Far too many: in proportion, but not at once */
	KUNIT_EXPECT_EQ(test, kpromoted_window(100, period, period, 5000, 4000, 1000), 25);
	KUNIT_EXPECT_EQ(test, kpromoted_window(period, period, period, 1 << 20, 1 << 20,
					       1000), 62);
	KUNIT_EXPECT_EQ(test, kpromoted_window(period, period, period, 5000, 2500, 1000),
			period / 4);
	KUNIT_EXPECT_EQ(test, kpromoted_window(least, period, period, 5000, 5000, 1000),
			least);
	/* Too few */
	KUNIT_EXPECT_EQ(test, kpromoted_window(20, period, period, 250, 250, 1000), 80);
	KUNIT_EXPECT_EQ(test, kpromoted_window(least, period, period, 0, 0, 1000),
			period / 4);
	KUNIT_EXPECT_EQ(test, kpromoted_window(least, 4000, 4000, 0, 0, 1000), 8 * least);
	KUNIT_EXPECT_EQ(test, kpromoted_window(period / 4, period, period, 0, 0, 1000),
			period);
	/* While nothing can move, windows stay. */
	KUNIT_EXPECT_EQ(test, kpromoted_window(20, period, period, 0, 0, 0), 20);
	/* While pages are exchanged windows stay short. */
	KUNIT_EXPECT_EQ(test, kpromoted_window(least, period, period / 8, 0, 0, 1000),
			period / 8);
	KUNIT_EXPECT_EQ(test, kpromoted_window(period, period, period / 8, 1000, 1000, 1000),
			period / 8);
	KUNIT_EXPECT_EQ(test, kpromoted_window(32, period, period / 8, 1000, 1000, 1000),
			32);
	/* However short the period */
	KUNIT_EXPECT_EQ(test, kpromoted_window(25, 40, 40, 5000, 5000, 1000), 10);
	KUNIT_EXPECT_EQ(test, kpromoted_window(least, 40, 40, 0, 0, 1000), 40);
	/* Never in between */
	KUNIT_EXPECT_EQ(test, kpromoted_window(period / 2, period, period, 1000, 1000, 1000),
			period / 4);
}

/* The looks of a burst that begins with a window of 1 ms; @left goes down by @steps. */
static unsigned int burst_looks(struct kmmscand_burst *burst, unsigned long left,
				const unsigned long *steps, unsigned long enough)
{
	unsigned long before = left;

	kmmscand_burst_begin(burst, 1, left);
	while (kmmscand_burst_next(burst, before, left, enough)) {
		before = left;
		left -= steps[burst->looks - 1];
	}
	return burst->looks;
}

static void burst_test(struct kunit *test)
{
	const unsigned long none[KMMSCAND_BURST_LOOKS] = {};
	const unsigned long early[KMMSCAND_BURST_LOOKS] = { 0, 0, 5, 20, };
	const unsigned long late[KMMSCAND_BURST_LOOKS] = { [5] = 1, [7] = 1, [8] = 1, };
	unsigned long each[KMMSCAND_BURST_LOOKS];
	struct kmmscand_burst burst;
	unsigned int i;

	for (i = 0; i < KMMSCAND_BURST_LOOKS; i++)
		each[i] = 1;
	KUNIT_EXPECT_EQ_MSG(test, burst_looks(&burst, 30, none, 30), 0, "not too many");
	KUNIT_EXPECT_EQ(test, burst_looks(&burst, 30, early, 25), 3);
	KUNIT_EXPECT_EQ_MSG(test, burst.usecs, 125, "each time half as long");
	KUNIT_EXPECT_EQ(test, burst_looks(&burst, 30, early, 24), 4);
	/* 500, 250, 125, 62, and two of 50 us */
	KUNIT_EXPECT_EQ_MSG(test, burst_looks(&burst, 30, none, 10), 6, "all the same");
	KUNIT_EXPECT_EQ(test, burst.usecs, KMMSCAND_BURST_USECS);
	KUNIT_EXPECT_EQ_MSG(test, burst_looks(&burst, 30, late, 10), 11, "as long as one is");
	/* 500 and 400 us, as 1600 take so long; then the same */
	KUNIT_EXPECT_EQ_MSG(test, burst_looks(&burst, 1600, none, 10), 3, "many");
	KUNIT_EXPECT_EQ(test, burst.usecs, 400);
	KUNIT_EXPECT_EQ_MSG(test, burst_looks(&burst, 1000, each, 0), KMMSCAND_BURST_LOOKS,
			    "at most so many");
	/* Where the window is shorter than that, the first look counts as well. */
	KUNIT_EXPECT_EQ(test, burst_looks(&burst, 8000, none, 10), 2);
}

/* Each page table has its turn once, and what has a regular distance is in all parts. */
static void turn_test(struct kunit *test)
{
	static const unsigned int distance[] = { 1, 2, 8, 32, 64, 512 };
	unsigned int i, k, n, number, turns, parts;

	for (number = 5; number < 5 + 3; number++) {
		for (k = 0; k < 1000; k++) {
			for (n = 0, turns = 0; n < 8; n++)
				turns += !(kmmscand_turn(k, number + n) & 7);
			KUNIT_EXPECT_EQ(test, turns, 1);
		}
	}
	for (i = 0; i < ARRAY_SIZE(distance); i++) {
		for (k = 0, parts = 0; k < 16; k++)
			parts |= 1 << (kmmscand_turn(1000 + k * distance[i], 0) & 7);
		KUNIT_EXPECT_EQ_MSG(test, parts, 0xff, "every %u", distance[i]);
	}
	/* Eight in a row are in eight parts. */
	for (k = 0, parts = 0; k < 8; k++)
		parts |= 1 << (kmmscand_turn(800 + k, 0) & 7);
	KUNIT_EXPECT_EQ(test, parts, 0xff);
}

static void whole_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kpromoted_whole(0, 0, 1000), 0);
	KUNIT_EXPECT_EQ(test, kpromoted_whole(100, 100, 0), 100);
	KUNIT_EXPECT_EQ(test, kpromoted_whole(100, 100, 300), 400);
	/* Who has a quarter of what is found has a quarter of what is not. */
	KUNIT_EXPECT_EQ(test, kpromoted_whole(25, 100, 300), 100);
	/* Some of what was found has been promoted since. */
	KUNIT_EXPECT_EQ(test, kpromoted_whole(100, 100, 3000), 800);
}

static unsigned int next_shift(struct kmmscand_mm *state, unsigned long touched,
			       unsigned long warm, unsigned long hot)
{
	state->pass.touched = touched;
	state->pass.warm = warm;
	state->pass.hot = hot;
	return kmmscand_next_shift(state);
}

static void shift_test(struct kunit *test)
{
	struct kmmscand_mm *state = kunit_kzalloc(test, sizeof(*state), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, state);
	/* After the first pass, which has only cleared */
	state->pass.stale = true;
	KUNIT_EXPECT_EQ(test, next_shift(state, 0, 0, 0), 0);
	state->pass.stale = false;
	state->touched = 1000;
	/* A pass that costs as much as to promote 100 pages */
	state->pass.ptes = 39200;
	state->pass.young = 1000;
	/* Nothing hot: longer and longer */
	for (state->shift = 0; state->shift < HOTNESS_MAX_SHIFT; state->shift++)
		KUNIT_EXPECT_EQ(test, next_shift(state, 1000, 0, 0), state->shift + 1);
	KUNIT_EXPECT_EQ(test, next_shift(state, 1000, 0, 0), HOTNESS_MAX_SHIFT);
	/* Many hot ones, or a jump */
	KUNIT_EXPECT_EQ(test, next_shift(state, 1600, 100, 100), 0);
	KUNIT_EXPECT_EQ(test, next_shift(state, 2065, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, next_shift(state, 2064, 0, 0), HOTNESS_MAX_SHIFT);
	/* A few hot ones are not worth hurrying for, */
	KUNIT_EXPECT_EQ(test, next_shift(state, 1600, 99, 99), HOTNESS_MAX_SHIFT);
	/* unless they are few only among very many. */
	state->pass.ptes = 100000000;
	KUNIT_EXPECT_EQ(test, next_shift(state, 1600, 1023, 1023), HOTNESS_MAX_SHIFT);
	KUNIT_EXPECT_EQ(test, next_shift(state, 1600, 1024, 1024), 1);
	state->pass.ptes = 39200;
	/* Many that cannot be afforded: short enough to tell them apart */
	KUNIT_EXPECT_EQ(test, next_shift(state, 1600, 100, 0), 1);
	/* A window is shorter than what was counted before: no jump */
	state->pass.close = true;
	KUNIT_EXPECT_EQ(test, next_shift(state, 3000, 0, 0), HOTNESS_MAX_SHIFT - 1);
	/* unless many are accessed in window after window that were not before */
	state->warm = 1000;
	KUNIT_EXPECT_EQ(test, next_shift(state, 3000, 2065, 0), 0);
	KUNIT_EXPECT_EQ(test, next_shift(state, 3000, 2064, 0), HOTNESS_MAX_SHIFT - 1);
	/* Where nothing is accessed, they are of no use. */
	KUNIT_EXPECT_EQ(test, next_shift(state, 0, 0, 0), HOTNESS_MAX_SHIFT);
}

static void part_test(struct kunit *test)
{
	struct kmmscand_mm *state = kunit_kzalloc(test, sizeof(*state), GFP_KERNEL);
	unsigned int part;

	KUNIT_ASSERT_NOT_NULL(test, state);
	/* Three walks over 32 page tables, that cost as much as to promote 96 pages */
	state->pass.close = true;
	state->pass.mapped = 32 * PTRS_PER_PTE;
	state->pass.ptes = 3 * 32 * PTRS_PER_PTE;
	state->warm = 1000;
	state->shift = 2;
	KUNIT_EXPECT_EQ(test, kmmscand_next_part(state, 1), 2);
	KUNIT_EXPECT_EQ(test, kmmscand_next_part(state, 0), 2);
	/* Nor are they longer apart than histories allow, for who wants it to be seldom. */
	KUNIT_EXPECT_EQ(test, kmmscand_next_part(state, 3), 2);
	KUNIT_EXPECT_EQ(test, kmmscand_next_part(state, 4), 1);
	KUNIT_EXPECT_EQ(test, kmmscand_next_part(state, 10), 0);
	/* In parts it may take longer until all have had their turn. */
	KUNIT_EXPECT_EQ(test, next_shift(state, 3000, 0, 0), HOTNESS_MAX_SHIFT);
	/* Too small */
	state->pass.mapped--;
	KUNIT_EXPECT_EQ(test, kmmscand_next_part(state, 1), 0);
	KUNIT_EXPECT_EQ(test, next_shift(state, 3000, 0, 0), HOTNESS_MAX_SHIFT - 1);
	/* Not looked at closely */
	state->pass.mapped++;
	state->pass.close = false;
	KUNIT_EXPECT_EQ(test, kmmscand_next_part(state, 1), 0);
	state->pass.close = true;

	/* Parts differ: half as much is enough for who is looked at in parts already. */
	state->shift = 3;
	state->pass.part = 3;
	state->pass.mapped = 32 * PTRS_PER_PTE / 16;
	KUNIT_EXPECT_EQ(test, kmmscand_next_part(state, 1), 3);
	state->pass.mapped--;
	KUNIT_EXPECT_EQ(test, kmmscand_next_part(state, 1), 0);

	/* What has been found in a part stands for all: as large, and as hot. */
	for (part = 1; part <= HOTNESS_MAX_SHIFT; part++) {
		unsigned long most = 2 * (state->warm >> part) + PTRS_PER_PTE;

		state->pass.part = part;
		state->pass.mapped = 32 * PTRS_PER_PTE >> part;
		state->pass.ptes = 3 * 32 * PTRS_PER_PTE >> part;
		KUNIT_EXPECT_EQ(test, next_shift(state, 3000, 88 >> part, 88 >> part), 3);
		/* A larger part, or all if not only one page table may have become warm */
		KUNIT_EXPECT_EQ(test, next_shift(state, 3000, 96 >> part, 96 >> part), 2);
		KUNIT_EXPECT_EQ(test, next_shift(state, 3000, most, 0), 3);
		KUNIT_EXPECT_EQ(test, next_shift(state, 3000, most + 1, 0), 0);
		state->pass.ptes = 100000000;
		KUNIT_EXPECT_EQ(test, next_shift(state, 3000, 1016 >> part, 1016 >> part), 3);
		KUNIT_EXPECT_EQ(test, next_shift(state, 3000, 1024 >> part, 1024 >> part), 2);
	}
	/* Few of very many: never all of it */
	state->shift = 1;
	state->pass.part = 1;
	KUNIT_EXPECT_EQ(test, next_shift(state, 3000, 512, 512), 1);
}

/* The score of a frame's next touch, @epochs later */
static unsigned int touch_later(unsigned long pfn, unsigned int epochs, unsigned int shift)
{
	while (epochs--)
		hotness_next_epoch();
	return kunit_touch(pfn, shift);
}

static void table_test(struct kunit *test)
{
	nodemask_t nodes = nodemask_of_node(first_memory_node);
	unsigned long pfn = kunit_alloc_frames(test, 2);
	struct hotness_histogram histogram;
	struct hotness_cursor cursor = {};
	struct tier_range ranges[2];
	unsigned int epoch;
	int i;

	KUNIT_EXPECT_EQ_MSG(test, kunit_touch(pfn, 0), 0, "tracked while disabled");
	KUNIT_ASSERT_EQ(test, hotness_enable(&nodes), 0);

	KUNIT_EXPECT_EQ(test, kunit_touch(pfn, 0), 1);
	KUNIT_EXPECT_EQ_MSG(test, kunit_touch(pfn, 0), 0, "counted twice");
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 3);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 2, 0), 3);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 5);

	/* Neighbours are one range; what is below the score is not. */
	KUNIT_EXPECT_EQ(test, kunit_touch(pfn + 1, 0), 1);
	KUNIT_EXPECT_EQ(test, kunit_touch(pfn + 3, 0), 1);
	KUNIT_EXPECT_TRUE(test, hotness_count(first_memory_node, &histogram, NULL, NULL));
	KUNIT_EXPECT_EQ(test, histogram.pages[1], 2);
	KUNIT_EXPECT_EQ(test, histogram.pages[5], 1);
	cursor.since = histogram.since;
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 2, 100), 2);
	KUNIT_EXPECT_EQ(test, ranges[0].pfn, pfn);
	KUNIT_EXPECT_EQ(test, ranges[0].nr, 2);
	KUNIT_EXPECT_EQ(test, ranges[1].pfn, pfn + 3);
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 2, 100), 0);
	cursor = (struct hotness_cursor) { .since = histogram.since };
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 4, &cursor, ranges, 2, 100), 1);
	KUNIT_EXPECT_EQ(test, ranges[0].nr, 1);
	/* It goes on where it stopped. */
	cursor = (struct hotness_cursor) { .since = histogram.since };
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 2, 1), 1);
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 1, 100), 1);
	KUNIT_EXPECT_EQ(test, ranges[0].pfn, pfn + 1);
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 1, 100), 1);
	KUNIT_EXPECT_EQ(test, ranges[0].pfn, pfn + 3);

	hotness_forget(pfn, 1);
	KUNIT_EXPECT_EQ(test, kunit_touch(pfn, 0), 1);

	/* Not fresh any more, but what has been counted can be selected. */
	cursor = (struct hotness_cursor) { .since = histogram.since };
	hotness_next_epoch();
	hotness_next_epoch();
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 2, 100), 2);
	hotness_count(first_memory_node, &histogram, NULL, NULL);
	KUNIT_EXPECT_EQ(test, histogram.pages[1], 0);
	cursor = (struct hotness_cursor) { .since = histogram.since };
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 2, 100), 0);

	/* However long ago: an old touch never looks like a new one. */
	KUNIT_EXPECT_EQ(test, kunit_touch(pfn, 0), 2);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 256, 0), 1);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 257, 0), 1);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 512 + 8, 3), 1);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 255, 3), 1);

	/* Always accessed, but looked at ever more seldom: less hot */
	hotness_forget(pfn, 1);
	for (i = 0; i < 2 * HOTNESS_HISTORY_BITS; i++)
		touch_later(pfn, 1, 0);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), HOTNESS_MAX_SCORE);
	for (i = 0; i < 2 * HOTNESS_HISTORY_BITS; i++)
		touch_later(pfn, 1 << HOTNESS_MAX_SHIFT, HOTNESS_MAX_SHIFT);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1 << HOTNESS_MAX_SHIFT, HOTNESS_MAX_SHIFT),
			HOTNESS_MAX_SCORE - HOTNESS_MAX_SHIFT);

	/* Two looks in one epoch are worth as much as one each in two. */
	hotness_forget(pfn, 1);
	hotness_next_epoch();
	epoch = hotness_epoch();
	KUNIT_EXPECT_EQ(test, kunit_touch_close(pfn, epoch, false, 0), 1);
	KUNIT_EXPECT_EQ_MSG(test, kunit_touch_close(pfn, epoch, false, 0), 0, "counted twice");
	KUNIT_EXPECT_EQ(test, kunit_touch_close(pfn, epoch, true, 0), 3);
	KUNIT_EXPECT_EQ_MSG(test, kunit_touch(pfn, 0), 0, "counted twice");
	KUNIT_EXPECT_EQ_MSG(test, kunit_touch_close(pfn, epoch, false, 0), 0, "counted late");
	hotness_next_epoch();
	KUNIT_EXPECT_EQ(test, kunit_touch_close(pfn, epoch + 1, true, 0), 3);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 5);
	/* However long the interval, the looks of a visit are two. */
	hotness_forget(pfn, 1);
	for (i = 0; i < 4; i++) {
		epoch = hotness_epoch();
		kunit_touch_close(pfn, epoch, false, 2);
		KUNIT_EXPECT_EQ(test, kunit_touch_close(pfn, epoch, true, 2), 3 + 2 * i);
		touch_later(pfn + 1, 4, 0);
	}

	/* What is retracted are both looks of a visit, and of no other one. */
	hotness_forget(pfn, 1);
	epoch = hotness_epoch();
	kunit_touch_close(pfn, epoch, false, 0);
	kunit_touch_close(pfn, epoch, true, 0);
	hotness_next_epoch();
	kunit_touch_close(pfn, epoch + 1, false, 0);
	KUNIT_EXPECT_EQ(test, kunit_touch_close(pfn, epoch + 1, true, 0), 5);
	KUNIT_EXPECT_EQ_MSG(test, hotness_retract(pfn, epoch, 0), 0, "wrong visit");
	KUNIT_EXPECT_EQ(test, hotness_retract(pfn, epoch + 1, 0), 5);
	KUNIT_EXPECT_EQ_MSG(test, hotness_retract(pfn, epoch + 1, 0), 0, "retracted twice");
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 3);

	/* Others add to what the scanner has begun, and begin nothing. */
	hotness_forget(pfn, 1);
	hotness_touch_known(pfn);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 1);
	hotness_next_epoch();
	hotness_touch_known(pfn);
	hotness_touch_known(pfn);
	KUNIT_EXPECT_EQ_MSG(test, kunit_touch(pfn, 0), 0, "counted twice");
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 4);

	hotness_disable();
	KUNIT_EXPECT_EQ(test, kunit_touch(pfn, 0), 0);
	kunit_free_frames(pfn, 2);
}

/* What is kept from one page to the next is that of no other one. */
static void look_test(struct kunit *test)
{
	nodemask_t nodes = nodemask_of_node(first_memory_node);
	unsigned long pfn = kunit_alloc_frames(test, 2), other = pfn ^ PAGES_PER_SECTION;
	const unsigned long beyond = ULONG_MAX >> PAGE_SHIFT;	/* all memory */
	const struct {
		unsigned int look;
		unsigned long pfn;
		unsigned int score;
		const char *msg;
	} touches[] = {
		{ 0, pfn, 1, "the first" },
		{ 0, beyond, 0, "without a section" },
		{ 0, beyond, 0, "the same again" },
		{ 0, other, 1, "of another section" },
		{ 0, pfn, 0, "counted twice" },
		{ 1, pfn + 1, 1, "as the first, in a later look" },
		{ 1, pfn, 2, "with another history" },
		{ 1, pfn + 1, 0, "counted twice" },
		{ 1, other, 2, "of another section, with the same history" },
	};
	unsigned int i, score[ARRAY_SIZE(touches)];
	struct hotness_look look;
	struct page *page;

	KUNIT_ASSERT_EQ(test, hotness_enable(&nodes), 0);
	rcu_read_lock();
	for (i = 0; i < ARRAY_SIZE(touches); i++) {
		if (!i || touches[i].look != touches[i - 1].look)
			hotness_look_start(&look, hotness_epoch() + touches[i].look, true, true,
					   0);
		score[i] = hotness_look_touch(&look, touches[i].pfn);
	}
	rcu_read_unlock();
	hotness_disable();
	kunit_free_frames(pfn, 2);

	page = pfn_to_online_page(other);
	if (!page || page_to_nid(page) != first_memory_node)
		kunit_skip(test, "the neighbour of its section is not there");
	for (i = 0; i < ARRAY_SIZE(touches); i++)
		KUNIT_EXPECT_EQ_MSG(test, score[i], touches[i].score, "%s", touches[i].msg);
}

/* What table_test() expects of old touches is due to the sweep: without it, it is not so. */
static void sweep_test(struct kunit *test)
{
#ifdef CONFIG_KMMSCAND_DEBUG
	unsigned long pfn = kunit_alloc_table(test, 0);

	kmmscand_faults[KMMSCAND_FAULT_SWEEP] = true;
	KUNIT_EXPECT_EQ(test, kunit_touch(pfn, 0), 1);
	KUNIT_EXPECT_EQ_MSG(test, touch_later(pfn, 128, 0), 0, "not taken for one of this epoch");
	KUNIT_EXPECT_EQ_MSG(test, touch_later(pfn, 129, 0), 3, "not taken for one of the last");
	kmmscand_faults[KMMSCAND_FAULT_SWEEP] = false;
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 128, 0), 1);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 129, 0), 1);

	kunit_free_table(pfn, 0);
#else
	kunit_skip(test, "needs CONFIG_KMMSCAND_DEBUG");
#endif
}

/* How many ranges of a node have the score? */
static unsigned int selected(int nid, unsigned int min_score)
{
	struct hotness_histogram histogram;
	struct hotness_cursor cursor = {};
	struct tier_range range;

	hotness_count(nid, &histogram, NULL, NULL);
	cursor.since = histogram.since;
	return hotness_select(nid, min_score, &cursor, &range, 1, 1);
}

/* Of a page that is promoted, what was promoted again?  Counters of its group are updated. */
static unsigned long again(struct folio *src, unsigned long *promoted, unsigned long *again)
{
	tier_demoted_promote(src);
	tier_promoted_pages(folio_nid(src), promoted, again);
	return again[tier_group(&src->page)];
}

/* A promotion soon after the demotion is told once. */
static void again_test(struct kunit *test)
{
	unsigned long *counters = kunit_kcalloc(test, 2 * TIER_GROUPS, sizeof(long), GFP_KERNEL);
	unsigned int group;
	struct folio *src;
	int nid, slow = NUMA_NO_NODE;

	if (static_key_enabled(&kmmscand_key))
		kunit_skip(test, "kmmscand is in use");
	for_each_node_state(nid, N_MEMORY) {
		if (!node_is_toptier(nid))
			slow = nid;
	}
	if (slow == NUMA_NO_NODE)
		kunit_skip(test, "there is no slow node");
	KUNIT_ASSERT_NOT_NULL(test, counters);
	src = __folio_alloc_node(GFP_KERNEL | __GFP_THISNODE, 0, slow);
	KUNIT_ASSERT_NOT_NULL(test, src);
	group = tier_group(&src->page);
	KUNIT_ASSERT_EQ(test, tier_promoter_get(), 0);

	KUNIT_EXPECT_EQ(test, again(src, counters, counters + TIER_GROUPS), 0);
	tier_folio_demoted(src);
	KUNIT_EXPECT_EQ(test, again(src, counters, counters + TIER_GROUPS), 1);
	KUNIT_EXPECT_EQ_MSG(test, again(src, counters, counters + TIER_GROUPS), 1, "told twice");
	KUNIT_EXPECT_EQ(test, counters[group], 3);

	tier_promoter_put();
	tier_promoted_pages(slow, counters, counters + TIER_GROUPS);
	KUNIT_EXPECT_EQ_MSG(test, counters[group], 0, "not forgotten");
	folio_put(src);
}

/* What a promoter asks of all groups */
static void ask(struct hotness_groups *groups, unsigned int warm_score, unsigned int min_score)
{
	int i;

	memset(groups, 0, sizeof(*groups));
	groups->warm_score = warm_score;
	groups->min_score = min_score;
	for (i = 0; i < TIER_GROUPS; i++)
		groups->group[i].left = ULONG_MAX;
}

/* Where nothing was hot when it was counted, nothing is selected before it is counted again. */
static void counted_test(struct kunit *test)
{
	struct hotness_groups *groups = kunit_kzalloc(test, sizeof(*groups), GFP_KERNEL);
	unsigned long pfn = kunit_alloc_table(test, 0);
	struct hotness_histogram histogram;
	struct hotness_cursor cursor = {};
	struct tier_range range;

	KUNIT_ASSERT_NOT_NULL(test, groups);
	/* What is warm but does not count is known nevertheless, and what is less is not. */
	ask(groups, 1, 3);
	kunit_touch(pfn, 0);
	hotness_count(first_memory_node, &histogram, groups, NULL);
	KUNIT_EXPECT_EQ(test, groups->warm, 1);
	KUNIT_EXPECT_EQ(test, histogram.pages[1], 0);
	ask(groups, 2, 3);
	hotness_count(first_memory_node, &histogram, groups, NULL);
	KUNIT_EXPECT_EQ(test, groups->warm, 0);

	ask(groups, 1, 1);
	hotness_count(first_memory_node, &histogram, groups, NULL);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 3);
	cursor.since = histogram.since;
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 3, &cursor, &range, 1, 1), 0);
	cursor = (struct hotness_cursor) { .since = histogram.since };
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, &range, 1, 1), 1);
	/* Those who only want to see a histogram change nothing. */
	hotness_count(first_memory_node, &histogram, NULL, NULL);
	cursor = (struct hotness_cursor) { .since = histogram.since };
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 3, &cursor, &range, 1, 1), 0);
	hotness_count(first_memory_node, &histogram, groups, NULL);
	KUNIT_EXPECT_EQ(test, histogram.pages[3], 1);
	cursor = (struct hotness_cursor) { .since = histogram.since };
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 3, &cursor, &range, 1, 1), 1);
	kunit_free_table(pfn, 0);
}

/* Pages of two groups are as hot; one of these may have nothing promoted. */
static void groups_test(struct kunit *test)
{
#ifdef CONFIG_MEMCG
	struct hotness_groups *groups = kunit_kzalloc(test, sizeof(*groups), GFP_KERNEL);
	struct mem_cgroup *memcg[2];
	struct hotness_histogram histogram;
	struct hotness_cursor cursor = {};
	struct tier_range ranges[2];
	unsigned long pfn;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, groups);
	for (i = 0; i < 2; i++) {
		memcg[i] = kunit_kzalloc(test, sizeof(*memcg[i]), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, memcg[i]);
		memcg[i]->css.id = i + 1;
	}
	pfn = kunit_alloc_table(test, 1);
	for (i = 0; i < 2; i++) {
		/* Just for tier_group() */
		page_folio(pfn_to_page(pfn + i))->memcg_data = (unsigned long)memcg[i];
		kunit_touch(pfn + i, 0);
	}
	hotness_next_epoch();
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_EQ(test, kunit_touch(pfn + i, 0), 3);

	ask(groups, 3, 3);
	groups->group[1].left = 0;
	KUNIT_EXPECT_TRUE(test, hotness_count(first_memory_node, &histogram, groups, NULL));
	KUNIT_EXPECT_EQ(test, histogram.pages[3], 1);
	KUNIT_EXPECT_EQ(test, groups->warm, 2);
	KUNIT_EXPECT_EQ(test, groups->group[1].hot, 1);
	KUNIT_EXPECT_EQ(test, groups->group[2].hot, 1);
	cursor.since = histogram.since;
	cursor.groups = groups;
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 3, &cursor, ranges, 2, 2), 1);
	KUNIT_EXPECT_EQ(test, ranges[0].pfn, pfn + 1);
	KUNIT_EXPECT_EQ(test, ranges[0].nr, 1);
	KUNIT_EXPECT_EQ(test, groups->group[2].left, ULONG_MAX - 1);

	for (i = 0; i < 2; i++)
		page_folio(pfn_to_page(pfn + i))->memcg_data = 0;
	kunit_free_table(pfn, 1);
#else
	kunit_skip(test, "needs CONFIG_MEMCG");
#endif
}

static void merge_test(struct kunit *test)
{
	const u8 a = 1, b = 2, any = TARGET_ANY, strict = TARGET_STRICT;

	/* One user, who may change its mind, or be bound no more */
	KUNIT_EXPECT_EQ(test, target_merge(0, a, false), a);
	KUNIT_EXPECT_EQ(test, target_merge(0, a | strict, true), a | strict);
	KUNIT_EXPECT_EQ(test, target_merge(a, b, false), b);
	KUNIT_EXPECT_EQ(test, target_merge(any, b, false), b);
	KUNIT_EXPECT_EQ(test, target_merge(a | strict, a, false), a);
	/* Two users; that one of them finds the page again says nothing. */
	KUNIT_EXPECT_EQ(test, target_merge(a, a, true), a);
	KUNIT_EXPECT_EQ(test, target_merge(a, b, true), any);
	KUNIT_EXPECT_EQ(test, target_merge(any, a, true), any);

	/* Who is bound does not decide for others, */
	KUNIT_EXPECT_EQ(test, target_merge(a | strict, a, true), a);
	KUNIT_EXPECT_EQ(test, target_merge(a, a | strict, true), a);
	KUNIT_EXPECT_EQ(test, target_merge(a | strict, b, true), any);
	KUNIT_EXPECT_EQ(test, target_merge(a | strict, any, true), any);
	KUNIT_EXPECT_EQ(test, target_merge(any, a | strict, true), any);
	/* ... but all that agree do. */
	KUNIT_EXPECT_EQ(test, target_merge(a | strict, a | strict, true), a | strict);
	/* Two that are bound to different nodes: the nearest one, if it is allowed. */
	KUNIT_EXPECT_EQ(test, target_merge(a | strict, b | strict, true), any);
}

static void vote_test(struct kunit *test)
{
	u32 votes[TARGET_SLOTS + 1] = {};

	KUNIT_EXPECT_EQ(test, target_winner(votes), TARGET_ANY);
	votes[2] = 60;
	KUNIT_EXPECT_EQ(test, target_winner(votes), 2);
	votes[1] = 40;
	KUNIT_EXPECT_EQ(test, target_winner(votes), 2);
	votes[1] = 41;
	KUNIT_EXPECT_EQ(test, target_winner(votes), TARGET_ANY);
	/* Not even the sum overflows. */
	votes[1] = U32_MAX;
	votes[2] = U32_MAX / 4;
	KUNIT_EXPECT_EQ(test, target_winner(votes), 1);
	votes[2] = U32_MAX;
	KUNIT_EXPECT_EQ(test, target_winner(votes), TARGET_ANY);
}

static struct kunit_case kmmscand_test_cases[] = {
	KUNIT_CASE(score_test),
	KUNIT_CASE(aged_test),
	KUNIT_CASE(retracted_test),
	KUNIT_CASE(lanes_test),
	KUNIT_CASE(lanes_bits_test),
	KUNIT_CASE(score_bits_test),
	KUNIT_CASE(pick_test),
	KUNIT_CASE(window_test),
	KUNIT_CASE(burst_test),
	KUNIT_CASE(turn_test),
	KUNIT_CASE(whole_test),
	KUNIT_CASE(shift_test),
	KUNIT_CASE(part_test),
	KUNIT_CASE(table_test),
	KUNIT_CASE(counted_test),
	KUNIT_CASE(look_test),
	KUNIT_CASE(sweep_test),
	KUNIT_CASE(again_test),
	KUNIT_CASE(groups_test),
	KUNIT_CASE(merge_test),
	KUNIT_CASE(vote_test),
	{}
};

static struct kunit_suite kmmscand_test_suite = {
	.name = "kmmscand",
	.test_cases = kmmscand_test_cases,
};

kunit_test_suites(&kmmscand_test_suite);
