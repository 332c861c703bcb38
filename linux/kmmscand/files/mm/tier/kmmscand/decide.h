/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decisions of kpromoted, and one each of close.c and scan.c, that depend on nothing but their
 * arguments, so that they can be tested alone (kmmscand_kunit.c).
 */
#ifndef _MM_TIER_KMMSCAND_DECIDE_H
#define _MM_TIER_KMMSCAND_DECIDE_H

#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "fault.h"
#include "hotness.h"

/**
 * kpromoted_pick - choose the threshold
 * @histogram: pages by score
 * @min_score: the least score that may be promoted; may be above the highest score
 * @budget:    base pages that can be afforded
 * @hot:       base pages that reach the threshold
 *
 * Return: the lowest score of at least @min_score such that all pages that reach it can
 * be afforded.  If already the pages of the highest score cannot, then that score:
 * as many of them are taken as fit.  Above HOTNESS_MAX_SCORE: none.
 */
static inline unsigned int kpromoted_pick(const struct hotness_histogram *histogram,
					  unsigned int min_score, unsigned long budget,
					  unsigned long *hot)
{
	unsigned int score;

	*hot = 0;
	for (score = HOTNESS_MAX_SCORE; score >= max(min_score, 1U); score--) {
		if (*hot && *hot + histogram->pages[score] > budget)
			break;
		*hot += histogram->pages[score];
	}
	return score + 1;
}

/* The shortest window of close visits, see close.c */
#define KPROMOTED_WINDOW_MS	16U
/* Steps by which the window follows, at most */
#define KPROMOTED_WINDOW_STEP	8

/* What is between this and the period is no close window. */
static inline unsigned int kpromoted_window_longest(unsigned int period_ms)
{
	return period_ms / 4;
}

static inline unsigned int kpromoted_window_least(unsigned int period_ms)
{
	return min(kpromoted_window_longest(period_ms), KPROMOTED_WINDOW_MS);
}

/**
 * kpromoted_window - choose the window in which pages have to be accessed
 * @window_ms: window until now
 * @period_ms: scan period, which is the longest window
 * @most:      the longest window that is of use just now
 * @warm:      base pages that could be promoted
 * @hot:       those of the scores that are promoted
 * @budget:    base pages that can be afforded
 *
 * The number of pages that are accessed in a window grows with its length, not faster
 * than in proportion.
 *
 * Return: a shorter one if those of a score are many more than can be promoted, so that
 * they cannot be told apart, a longer one if there are too few, in ms.
 */
static inline unsigned int kpromoted_window(unsigned int window_ms, unsigned int period_ms,
					    unsigned int most, unsigned long warm,
					    unsigned long hot, unsigned long budget)
{
	unsigned int least = kpromoted_window_least(period_ms);
	unsigned int longest = kpromoted_window_longest(period_ms);
	unsigned long next = min(window_ms, period_ms);

	if (hot > 2 * budget) {
		next = max(mult_frac(next, budget, hot), next / KPROMOTED_WINDOW_STEP);
		next = min_t(unsigned long, next, longest);
	} else if (warm < budget / 2) {
		next = min(mult_frac(next, budget, max(warm, 1UL)), next * KPROMOTED_WINDOW_STEP);
		next = window_ms < longest ? min_t(unsigned long, next, longest) : period_ms;
	} else if (next < period_ms) {
		next = min_t(unsigned long, next, longest);
	}
	return clamp(next, least, max(most, least));
}

/**
 * kmmscand_turn - when is it a page table's turn?
 * @table:  number of the page table, from its address
 * @number: of the pass
 *
 * In parts of 2^n page tables, when the result is a multiple of 2^n.  All digits of the number
 * (base 8) count, so that page tables at the same distance from each other, as heaps of
 * threads have them, are in different parts, and neighbours are as well.
 */
static inline unsigned long kmmscand_turn(unsigned long table, unsigned int number)
{
	return table + (table >> 3) + (table >> 6) + (table >> 9) + (table >> 12) + number;
}

/**
 * kpromoted_whole - for how many pages do those stand that were found in parts?
 * @pages:   some of @all
 * @all:     base pages that are warm in the hotness table
 * @missing: how many more would have been found by looking at everything
 *
 * Return: @pages with their share of what is missing, which is at most what parts can stand for.
 */
static inline unsigned long kpromoted_whole(unsigned long pages, unsigned long all,
					    unsigned long missing)
{
	missing = min(missing, (all << HOTNESS_MAX_SHIFT) - all);
	return missing ? mult_frac(pages, all + missing, all) : pages;
}

/* Looks of a burst at most, the shortest sleep, and looks in a row that make no difference */
#define KMMSCAND_BURST_LOOKS	16
#define KMMSCAND_BURST_USECS	50UL
#define KMMSCAND_BURST_QUIET	2
/* What is looked at in a us, at least */
#define KMMSCAND_BURST_SPEED	4

/* Looks at huge pages that have been found in both windows of a close visit, see close.c */
struct kmmscand_burst {
	unsigned long usecs;		/* to sleep before the next one; at first a window */
	unsigned long least;		/* shorter than that it does not become */
	unsigned int looks;		/* until now */
	unsigned int quiet;		/* how many of the shortest have made no difference */
};

/**
 * kmmscand_burst_begin - begin to look again
 * @burst:     result
 * @window_ms: in which they have been found
 * @found:     huge pages that have been
 *
 * Bits are cleared one after the other, and then the TLB is flushed, which is when an access sets
 * them again.  So from there to the next look it is less for the first pages than for the
 * last.  The sleep is not much shorter than this difference.
 */
static inline void kmmscand_burst_begin(struct kmmscand_burst *burst, unsigned int window_ms,
					unsigned long found)
{
	*burst = (struct kmmscand_burst) {
		.usecs = window_ms * USEC_PER_MSEC,
		.least = max(KMMSCAND_BURST_USECS, found / KMMSCAND_BURST_SPEED),
	};
}

/**
 * kmmscand_burst_next - look at the huge pages once more?
 * @burst:  updated
 * @before: huge pages that were left before the last look
 * @left:   that are left now
 * @enough: so many are not too many
 *
 * Of what is accessed equally often, those are left over that are found by chance.  If even
 * in the shortest time nothing can be told apart, they all are.
 */
static inline bool kmmscand_burst_next(struct kmmscand_burst *burst, unsigned long before,
				       unsigned long left, unsigned long enough)
{
	if (left <= enough || burst->looks == KMMSCAND_BURST_LOOKS)
		return false;
	if (burst->looks && burst->usecs <= burst->least) {
		burst->quiet = left == before ? burst->quiet + 1 : 0;
		if (burst->quiet == KMMSCAND_BURST_QUIET)
			return false;
	}
	burst->looks++;
	burst->usecs = max(burst->usecs / 2, burst->least);
	return true;
}

/* Base pages (or one larger folio) to promote before CPU time is looked at again */
#define KPROMOTED_BATCH		512UL

#endif /* _MM_TIER_KMMSCAND_DECIDE_H */
