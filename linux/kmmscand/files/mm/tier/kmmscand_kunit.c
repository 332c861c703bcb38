// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of kmmscand: the table with its clock, scores, and the decisions that
 * depend on their arguments only.
 */

#include <kunit/test.h>

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/tier.h>

#include "fault.h"
#include "hotness.h"
#include "kmmscand.h"
#include "policy.h"

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
	KUNIT_EXPECT_EQ(test, hotness_aged_close(record, 17, 2), 0x02);
	KUNIT_EXPECT_EQ(test, hotness_aged_close(record, 18, 2), 0x04);
	/* The stamp wraps. */
	KUNIT_EXPECT_EQ(test, hotness_aged(255 << 8 | 0x01, 1, 0), 0x04);
	/* What the sweep is for: without it the page would look hot again. */
	KUNIT_EXPECT_EQ(test, hotness_aged(record, (10 + 256 + 1) & 0xff, 0), 0x02);
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
					wrong += hotness_any_fresh(records, ticks[i], oldest) !=
						 fresh;
				}
			}
		}
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
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
	KUNIT_EXPECT_EQ(test, kpromoted_window(period, period, period, 500, 500, 1000), period);
	/* Far too many: in proportion, but not at once */
	KUNIT_EXPECT_EQ(test, kpromoted_window(100, period, period, 5000, 4000, 1000), 25);
	KUNIT_EXPECT_EQ(test, kpromoted_window(period, period, period, 1 << 20, 1 << 20, 1000), 62);
	KUNIT_EXPECT_EQ(test, kpromoted_window(period, period, period, 5000, 2500, 1000),
			period / 4);
	KUNIT_EXPECT_EQ(test, kpromoted_window(least, period, period, 5000, 5000, 1000), least);
	/* Too few */
	KUNIT_EXPECT_EQ(test, kpromoted_window(20, period, period, 250, 250, 1000), 80);
	KUNIT_EXPECT_EQ(test, kpromoted_window(least, period, period, 0, 0, 1000), period / 4);
	KUNIT_EXPECT_EQ(test, kpromoted_window(period / 4, period, period, 0, 0, 1000), period);
	/* While pages are exchanged windows stay close, and short. */
	KUNIT_EXPECT_EQ(test, kpromoted_window_exchange(period), period / 8);
	KUNIT_EXPECT_EQ(test, kpromoted_window_exchange(40), 10);
	KUNIT_EXPECT_EQ(test, kpromoted_window(least, period, period / 8, 0, 0, 1000), period / 8);
	KUNIT_EXPECT_EQ(test, kpromoted_window(period, period, period / 8, 1000, 1000, 1000),
			period / 8);
	KUNIT_EXPECT_EQ(test, kpromoted_window(32, period, period / 8, 1000, 1000, 1000), 32);
	KUNIT_EXPECT_EQ(test, kpromoted_window_half(period, period), period / 8);
	KUNIT_EXPECT_EQ(test, kpromoted_window_half(least, period), least);
	/* However short the period */
	KUNIT_EXPECT_EQ(test, kpromoted_window(25, 40, 40, 5000, 5000, 1000), 10);
	KUNIT_EXPECT_EQ(test, kpromoted_window(least, 40, 40, 0, 0, 1000), 40);
}

static void backoff_test(struct kunit *test)
{
	struct kpromoted_backoff backoff = {};
	int i;

	/* Too few to tell */
	kpromoted_backoff_count(&backoff, 0, KPROMOTED_BACKOFF_TRIES - 1);
	KUNIT_EXPECT_EQ(test, backoff.shift, 0);
	/* More than half have failed, of these and of each next lot. */
	kpromoted_backoff_count(&backoff, 1, 0);
	KUNIT_EXPECT_EQ(test, backoff.shift, 1);
	kpromoted_backoff_count(&backoff, KPROMOTED_BACKOFF_TRIES, 0);
	KUNIT_EXPECT_EQ(test, backoff.shift, 0);
	kpromoted_backoff_count(&backoff, 0, KPROMOTED_BACKOFF_TRIES);
	KUNIT_EXPECT_EQ(test, backoff.shift, 1);
	for (i = 0; i < 10; i++)
		kpromoted_backoff_count(&backoff, 0, KPROMOTED_BACKOFF_TRIES);
	KUNIT_EXPECT_EQ(test, backoff.shift, KPROMOTED_BACKOFF_MAX);
	/* Forgiven step by step, when nothing is tried any more */
	for (i = 0; i < KPROMOTED_BACKOFF_EPOCHS; i++)
		kpromoted_backoff_decay(&backoff);
	KUNIT_EXPECT_EQ(test, backoff.shift, KPROMOTED_BACKOFF_MAX - 1);
	for (i = 1; i < KPROMOTED_BACKOFF_EPOCHS; i++)
		kpromoted_backoff_decay(&backoff);
	KUNIT_EXPECT_EQ(test, backoff.shift, KPROMOTED_BACKOFF_MAX - 1);
	/* ... counted from when something was learned */
	kpromoted_backoff_count(&backoff, 0, KPROMOTED_BACKOFF_TRIES);
	kpromoted_backoff_decay(&backoff);
	KUNIT_EXPECT_EQ(test, backoff.shift, KPROMOTED_BACKOFF_MAX);
	/* ... or at once, by success */
	kpromoted_backoff_count(&backoff, KPROMOTED_BACKOFF_TRIES / 2,
				KPROMOTED_BACKOFF_TRIES / 2);
	KUNIT_EXPECT_EQ(test, backoff.shift, 0);
	for (i = 0; i < 2 * KPROMOTED_BACKOFF_EPOCHS; i++)
		kpromoted_backoff_decay(&backoff);
	KUNIT_EXPECT_EQ(test, backoff.shift, 0);
}

/* Epochs that are all the same */
static void pressure_epochs(struct kpromoted_pressure *pressure, int epochs, bool full,
			    enum kpromoted_bouncing bouncing, bool relent,
			    unsigned long warm, bool close)
{
	while (epochs--)
		kpromoted_pressure_update(pressure, full, bouncing, relent, warm, close);
}

static void pressure_test(struct kunit *test)
{
	struct kpromoted_pressure pressure = {};
	const int few = KPROMOTED_BOUNCES_FEW;

	pressure_epochs(&pressure, 20, true, few, true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, HOTNESS_MAX_SCORE);
	/* Strained so often that it takes long to relent, and not before there is room */
	KUNIT_EXPECT_EQ(test, pressure.left, KPROMOTED_HOLD_MAX);
	pressure_epochs(&pressure, KPROMOTED_HOLD_MAX, false, few, true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, HOTNESS_MAX_SCORE);
	pressure_epochs(&pressure, 2 * KPROMOTED_CALM, false, few, false, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, HOTNESS_MAX_SCORE);
	pressure_epochs(&pressure, 2 * KPROMOTED_CALM, false, few, true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, HOTNESS_MAX_SCORE - 2);
	/* Nothing warm: nothing learned, but in a short window */
	pressure_epochs(&pressure, 2 * KPROMOTED_CALM, false, few, true, 0, false);
	KUNIT_EXPECT_EQ(test, pressure.score, HOTNESS_MAX_SCORE - 2);
	pressure_epochs(&pressure, KPROMOTED_CALM, false, few, true, 0, true);
	KUNIT_EXPECT_EQ(test, pressure.score, HOTNESS_MAX_SCORE - 3);
	/* Another hot set */
	pressure_epochs(&pressure, 1, true, few, true, 1000 + 500 + KPROMOTED_NEWS + 1, false);
	KUNIT_EXPECT_EQ(test, pressure.score, 0);
	/* What was much once is forgotten. */
	pressure_epochs(&pressure, 1, false, KPROMOTED_BOUNCES_TOO_MANY, true, 100000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, 1);
	pressure_epochs(&pressure, 100, false, few, false, 1000, false);
	pressure_epochs(&pressure, 1, false, few, false, 1000 + 500 + KPROMOTED_NEWS + 1, false);
	KUNIT_EXPECT_EQ(test, pressure.score, 0);
	/* Not too many: no more points, but no longer windows for a while either */
	pressure_epochs(&pressure, 1, false, KPROMOTED_BOUNCES_MANY, true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, 0);
	KUNIT_EXPECT_EQ(test, pressure.left, KPROMOTED_HOLD_MIN);
}

/* How long nothing less is asked for after a strain */
static void hold_test(struct kunit *test)
{
	struct kpromoted_pressure pressure = {};
	const int few = KPROMOTED_BOUNCES_FEW, many = KPROMOTED_BOUNCES_MANY;
	unsigned int hold, score;

	/* Each time twice as long as the last time */
	for (hold = KPROMOTED_HOLD_MIN; hold <= KPROMOTED_HOLD_MAX; hold *= 2) {
		pressure_epochs(&pressure, 1, true, few, true, 1000, false);
		KUNIT_EXPECT_EQ(test, pressure.left, hold);
	}
	pressure_epochs(&pressure, 1, true, few, true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.left, KPROMOTED_HOLD_MAX);
	/* That long, and until it has been calm afterwards */
	score = pressure.score;
	pressure_epochs(&pressure, KPROMOTED_HOLD_MAX + KPROMOTED_CALM - 1, false, few, true,
			1000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, score);
	pressure_epochs(&pressure, 1, false, few, true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, score - 1);
	/* A strain ends the calm. */
	pressure_epochs(&pressure, KPROMOTED_CALM - 1, false, few, true, 1000, false);
	pressure_epochs(&pressure, 1, false, many, true, 1000, false);
	pressure_epochs(&pressure, KPROMOTED_HOLD_MAX + KPROMOTED_CALM - 1, false, few, true,
			1000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, score - 1);

	/* Where no points are asked for, an epoch without strain makes the next hold shorter. */
	memset(&pressure, 0, sizeof(pressure));
	pressure_epochs(&pressure, 3, false, many, true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.left, 4 * KPROMOTED_HOLD_MIN);
	pressure_epochs(&pressure, 4 * KPROMOTED_HOLD_MIN + 2 * KPROMOTED_HOLD_MIN, false, few,
			true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, 0);
	pressure_epochs(&pressure, 1, false, many, true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.left, 4 * KPROMOTED_HOLD_MIN);
	pressure_epochs(&pressure, 100, false, few, true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.score, 0);
	pressure_epochs(&pressure, 1, false, many, true, 1000, false);
	KUNIT_EXPECT_EQ(test, pressure.left, KPROMOTED_HOLD_MIN);
}

/* How many warm pages are news, after which all begins again? */
static void news_test(struct kunit *test)
{
	struct kpromoted_pressure pressure = {}, strained = {};
	const int few = KPROMOTED_BOUNCES_FEW;

	pressure_epochs(&strained, 1, true, few, true, 1000, false);
	KUNIT_EXPECT_EQ(test, strained.score, 1);
	/* Half as many again, and some */
	pressure = strained;
	pressure_epochs(&pressure, 1, false, few, false, 1000 + 500 + KPROMOTED_NEWS, false);
	KUNIT_EXPECT_EQ(test, pressure.score, 1);
	pressure = strained;
	pressure_epochs(&pressure, 1, false, few, false, 1000 + 500 + KPROMOTED_NEWS + 1, false);
	KUNIT_EXPECT_EQ(test, pressure.score, 0);
	KUNIT_EXPECT_EQ(test, pressure.left, 0);
	KUNIT_EXPECT_EQ(test, pressure.hold, 0);
	/* What there was is forgotten slowly, and not while nothing is warm. */
	pressure = strained;
	pressure_epochs(&pressure, 1, false, few, false, 100, false);
	KUNIT_EXPECT_EQ(test, pressure.warm, 1000 - 1000 / 8);
	pressure_epochs(&pressure, 10, false, few, false, 0, false);
	KUNIT_EXPECT_EQ(test, pressure.warm, 1000 - 1000 / 8);
}

/* The same from the beginning, with so many in the first epoch */
static enum kpromoted_bouncing bounces_once(unsigned long promoted, unsigned long bounced)
{
	struct kpromoted_bounces bounces = {};

	return kpromoted_bounces_update(&bounces, promoted, bounced);
}

static void bounces_limits_test(struct kunit *test)
{
	const unsigned long min = KPROMOTED_BOUNCE_MIN;
	struct kpromoted_bounces bounces = {};

	KUNIT_EXPECT_EQ(test, bounces_once(1000, 1000 / KPROMOTED_BOUNCE_SHARE),
			KPROMOTED_BOUNCES_FEW);
	KUNIT_EXPECT_EQ(test, bounces_once(1000, 1000 / KPROMOTED_BOUNCE_SHARE + 1),
			KPROMOTED_BOUNCES_MANY);
	KUNIT_EXPECT_EQ(test, bounces_once(1000, 1000 / KPROMOTED_BOUNCE_LIMIT),
			KPROMOTED_BOUNCES_MANY);
	KUNIT_EXPECT_EQ(test, bounces_once(1000, 1000 / KPROMOTED_BOUNCE_LIMIT + 1),
			KPROMOTED_BOUNCES_TOO_MANY);
	/* So few say nothing, */
	KUNIT_EXPECT_EQ(test, bounces_once(min, min - 1), KPROMOTED_BOUNCES_FEW);
	KUNIT_EXPECT_EQ(test, bounces_once(min, min), KPROMOTED_BOUNCES_TOO_MANY);
	/* but those of some epochs do together. */
	KUNIT_EXPECT_EQ(test, kpromoted_bounces_update(&bounces, 100, min / 2 + 8),
			KPROMOTED_BOUNCES_FEW);
	KUNIT_EXPECT_EQ(test, kpromoted_bounces_update(&bounces, 200, min + 16),
			KPROMOTED_BOUNCES_TOO_MANY);
	/* What has been complained about does not count any more. */
	KUNIT_EXPECT_EQ(test, kpromoted_bounces_update(&bounces, 300, min + 17),
			KPROMOTED_BOUNCES_FEW);
}

static void bounces_test(struct kunit *test)
{
	struct kpromoted_bounces bounces = {};
	unsigned long promoted = 0, bounced = 0;
	int i;

	/* One in twenty is fine. */
	for (i = 0; i < 20; i++) {
		promoted += 1000;
		bounced += 50;
		KUNIT_EXPECT_EQ(test, kpromoted_bounces_update(&bounces, promoted, bounced),
				KPROMOTED_BOUNCES_FEW);
	}
	/* Many at once are not. */
	promoted += 1000;
	bounced += 1000;
	KUNIT_EXPECT_EQ(test, kpromoted_bounces_update(&bounces, promoted, bounced),
			KPROMOTED_BOUNCES_MANY);
	/* Said once; only more of them count again, but then at once. */
	for (i = 0; i < 20; i++)
		KUNIT_EXPECT_EQ(test, kpromoted_bounces_update(&bounces, promoted, bounced),
				KPROMOTED_BOUNCES_FEW);
	bounced += KPROMOTED_BOUNCE_MIN;
	KUNIT_EXPECT_EQ(test, kpromoted_bounces_update(&bounces, promoted, bounced),
			KPROMOTED_BOUNCES_TOO_MANY);
}

#define EXCHANGE_MOST	(16 * KPROMOTED_BATCH)

static unsigned long exchange_next(unsigned long exchange, unsigned long used, bool full,
				   enum kpromoted_bouncing bouncing)
{
	return kpromoted_exchange_update(exchange, used, EXCHANGE_MOST, full, bouncing);
}

static void exchange_test(struct kunit *test)
{
	const int few = KPROMOTED_BOUNCES_FEW, many = KPROMOTED_BOUNCES_MANY;
	const unsigned long batch = KPROMOTED_BATCH;

	/* Not asked for: nothing is learned. */
	KUNIT_EXPECT_EQ(test, exchange_next(batch, 0, false, few), batch);
	KUNIT_EXPECT_EQ(test, exchange_next(batch, batch, false, few), 4 * batch);
	/* As much as demotion could do */
	KUNIT_EXPECT_EQ(test, exchange_next(4 * batch, 3 * batch, true, few), 3 * batch);
	KUNIT_EXPECT_EQ(test, exchange_next(8 * batch, 8 * batch, false, many), 2 * batch);
	KUNIT_EXPECT_EQ(test, exchange_next(2 * batch, 0, true, KPROMOTED_BOUNCES_TOO_MANY),
			batch);
	/* Bouncing counts before all else, and then whether demotion could keep up. */
	KUNIT_EXPECT_EQ(test, exchange_next(8 * batch, 8 * batch, true, many), 2 * batch);
	KUNIT_EXPECT_EQ(test, exchange_next(8 * batch, 8 * batch, true, few), 8 * batch);
	/* Not without limit */
	KUNIT_EXPECT_EQ(test, exchange_next(8 * batch, 8 * batch, false, few), EXCHANGE_MOST);
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

/* The score of a frame's next touch, @epochs later */
static unsigned int touch_later(unsigned long pfn, unsigned int epochs, unsigned int shift)
{
	while (epochs--)
		hotness_next_epoch();
	return hotness_touch(pfn, shift);
}

static void table_test(struct kunit *test)
{
	nodemask_t nodes = nodemask_of_node(first_memory_node);
	struct hotness_histogram histogram;
	struct hotness_cursor cursor = {};
	struct tier_range ranges[2];
	struct page *pages;
	unsigned int epoch;
	unsigned long pfn;
	int i;

	/* Before user space runs nobody else uses the table; debugfs can run us later. */
	if (static_key_enabled(&kmmscand_key))
		kunit_skip(test, "kmmscand is in use");

	pages = alloc_pages_node(first_memory_node, GFP_KERNEL | __GFP_THISNODE, 2);
	KUNIT_ASSERT_NOT_NULL(test, pages);
	split_page(pages, 2);
	pfn = page_to_pfn(pages);

	KUNIT_EXPECT_EQ_MSG(test, hotness_touch(pfn, 0), 0, "tracked while disabled");
	KUNIT_ASSERT_EQ(test, hotness_enable(&nodes), 0);

	KUNIT_EXPECT_EQ(test, hotness_touch(pfn, 0), 1);
	KUNIT_EXPECT_EQ_MSG(test, hotness_touch(pfn, 0), 0, "counted twice");
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 3);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 2, 0), 3);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 5);

	/* Neighbours are one range; what is below the score is not. */
	KUNIT_EXPECT_EQ(test, hotness_touch(pfn + 1, 0), 1);
	KUNIT_EXPECT_EQ(test, hotness_touch(pfn + 3, 0), 1);
	KUNIT_EXPECT_TRUE(test, hotness_count(first_memory_node, &histogram));
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
	KUNIT_EXPECT_EQ(test, hotness_touch(pfn, 0), 1);

	/* Not fresh any more, but what has been counted can be selected. */
	cursor = (struct hotness_cursor) { .since = histogram.since };
	hotness_next_epoch();
	hotness_next_epoch();
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 2, 100), 2);
	hotness_count(first_memory_node, &histogram);
	KUNIT_EXPECT_EQ(test, histogram.pages[1], 0);
	cursor = (struct hotness_cursor) { .since = histogram.since };
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 2, 100), 0);

	/* However long ago: an old touch never looks like a new one. */
	KUNIT_EXPECT_EQ(test, hotness_touch(pfn, 0), 2);
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
	KUNIT_EXPECT_EQ(test, hotness_touch_close(pfn, epoch, false, 0), 1);
	KUNIT_EXPECT_EQ_MSG(test, hotness_touch_close(pfn, epoch, false, 0), 0, "counted twice");
	KUNIT_EXPECT_EQ(test, hotness_touch_close(pfn, epoch, true, 0), 3);
	KUNIT_EXPECT_EQ_MSG(test, hotness_touch(pfn, 0), 0, "counted twice");
	KUNIT_EXPECT_EQ_MSG(test, hotness_touch_close(pfn, epoch, false, 0), 0, "counted late");
	hotness_next_epoch();
	KUNIT_EXPECT_EQ(test, hotness_touch_close(pfn, epoch + 1, true, 0), 3);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 5);
	/* However long the interval, the looks of a visit are two. */
	hotness_forget(pfn, 1);
	for (i = 0; i < 4; i++) {
		epoch = hotness_epoch();
		hotness_touch_close(pfn, epoch, false, 2);
		KUNIT_EXPECT_EQ(test, hotness_touch_close(pfn, epoch, true, 2), 3 + 2 * i);
		touch_later(pfn + 1, 4, 0);
	}

	/* Others add to what the scanner has begun, and begin nothing. */
	hotness_forget(pfn, 1);
	hotness_touch_known(pfn);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 1);
	hotness_next_epoch();
	hotness_touch_known(pfn);
	hotness_touch_known(pfn);
	KUNIT_EXPECT_EQ_MSG(test, hotness_touch(pfn, 0), 0, "counted twice");
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 1, 0), 4);

	hotness_disable();
	KUNIT_EXPECT_EQ(test, hotness_touch(pfn, 0), 0);
	for (i = 0; i < 4; i++)
		__free_page(pages + i);
}

/* What table_test() expects of old touches is due to the sweep: without it, it is not so. */
static void sweep_test(struct kunit *test)
{
#ifdef CONFIG_TIER_DEBUG
	nodemask_t nodes = nodemask_of_node(first_memory_node);
	struct page *page;
	unsigned long pfn;

	if (static_key_enabled(&kmmscand_key))
		kunit_skip(test, "kmmscand is in use");

	page = alloc_pages_node(first_memory_node, GFP_KERNEL | __GFP_THISNODE, 0);
	KUNIT_ASSERT_NOT_NULL(test, page);
	pfn = page_to_pfn(page);
	KUNIT_ASSERT_EQ(test, hotness_enable(&nodes), 0);

	tier_faults[TIER_FAULT_SWEEP] = true;
	KUNIT_EXPECT_EQ(test, hotness_touch(pfn, 0), 1);
	KUNIT_EXPECT_EQ_MSG(test, touch_later(pfn, 128, 0), 0, "not taken for one of this epoch");
	KUNIT_EXPECT_EQ_MSG(test, touch_later(pfn, 129, 0), 3, "not taken for one of the last");
	tier_faults[TIER_FAULT_SWEEP] = false;
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 128, 0), 1);
	KUNIT_EXPECT_EQ(test, touch_later(pfn, 129, 0), 1);

	hotness_disable();
	__free_page(page);
#else
	kunit_skip(test, "needs CONFIG_TIER_DEBUG");
#endif
}

static struct kunit_case kmmscand_test_cases[] = {
	KUNIT_CASE(score_test),
	KUNIT_CASE(aged_test),
	KUNIT_CASE(lanes_test),
	KUNIT_CASE(pick_test),
	KUNIT_CASE(window_test),
	KUNIT_CASE(backoff_test),
	KUNIT_CASE(pressure_test),
	KUNIT_CASE(hold_test),
	KUNIT_CASE(news_test),
	KUNIT_CASE(bounces_test),
	KUNIT_CASE(bounces_limits_test),
	KUNIT_CASE(exchange_test),
	KUNIT_CASE(shift_test),
	KUNIT_CASE(table_test),
	KUNIT_CASE(sweep_test),
	{}
};

static struct kunit_suite kmmscand_test_suite = {
	.name = "kmmscand",
	.test_cases = kmmscand_test_cases,
};

kunit_test_suites(&kmmscand_test_suite);
