/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decisions of kpromoted, and one each of close.c and scan.c, that depend on nothing but their
 * arguments, so that they can be tested alone (kmmscand_kunit.c).
 */
#ifndef _MM_TIER_KMMSCAND_POLICY_H
#define _MM_TIER_KMMSCAND_POLICY_H

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

/*
 * While pages are exchanged: it costs as much as dozens of accesses gain, so what is
 * accessed once in a period is not worth it.
 */
static inline unsigned int kpromoted_window_exchange(unsigned int period_ms)
{
	return max(kpromoted_window_longest(period_ms) / 2, kpromoted_window_least(period_ms));
}

/**
 * kpromoted_regret_score - the score that a page needs to be worth an exchange
 * @least: score that is needed where there is room
 *
 * Return: two points more, those of another visit: it has to be hot not only by chance.  What
 * is accessed in each window has them all the same; with one, what is in every fifth went to
 * and fro.
 */
static inline unsigned int kpromoted_regret_score(unsigned int least)
{
	return min(least + 2, (unsigned int)HOTNESS_MAX_SCORE);
}

/**
 * kpromoted_window_half - a shorter window
 * @window_ms: window until now
 * @period_ms: scan period
 */
static inline unsigned int kpromoted_window_half(unsigned int window_ms, unsigned int period_ms)
{
	return max(min(window_ms, kpromoted_window_longest(period_ms)) / 2,
		   kpromoted_window_least(period_ms));
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

/* Averages over the last epochs, in base pages */
struct kpromoted_regrets {
	unsigned long demoted_seen, regretted_seen;	/* counters as of the last epoch */
	unsigned long demoted, regretted;
};

enum kpromoted_regret {
	KPROMOTED_REGRETS_FEW,
	KPROMOTED_REGRETS_MANY,		/* promote more slowly, at first */
	KPROMOTED_REGRETS_TOO_MANY,	/* promote less */
};

/* One demotion in so many may be regretted, or in so many, and so few do not count. */
#define KPROMOTED_REGRET_SHARE	10
#define KPROMOTED_REGRET_LIMIT	4
#define KPROMOTED_REGRET_MIN	64

/**
 * kpromoted_regrets_update - learn from an epoch
 * @regrets:   averages
 * @demoted:   counter of base pages demoted
 * @regretted: counter of those that turned out to be as hot as what they were demoted for
 *
 * Both are averaged over some epochs; what is old counts half after five of them.
 * What has been complained about is not counted again.
 *
 * Return: are there too many?
 */
static inline enum kpromoted_regret
kpromoted_regrets_update(struct kpromoted_regrets *regrets, unsigned long demoted,
			 unsigned long regretted)
{
	enum kpromoted_regret ret = KPROMOTED_REGRETS_MANY;
	unsigned long news = regretted - regrets->regretted_seen;

	regrets->demoted = regrets->demoted * 7 / 8 + (demoted - regrets->demoted_seen);
	regrets->regretted = regrets->regretted * 7 / 8 + news;
	regrets->demoted_seen = demoted;
	regrets->regretted_seen = regretted;
	if (!news || regrets->regretted < KPROMOTED_REGRET_MIN ||
	    regrets->regretted <= regrets->demoted / KPROMOTED_REGRET_SHARE)
		return KPROMOTED_REGRETS_FEW;
	if (regrets->regretted > regrets->demoted / KPROMOTED_REGRET_LIMIT)
		ret = KPROMOTED_REGRETS_TOO_MANY;
	regrets->demoted = 0;
	regrets->regretted = 0;
	return ret;
}

/* Who has promoted one page in so many lately is to blame for what is regretted. */
#define KPROMOTED_BLAME_SHARE	4

/* Base pages (or one larger folio) to promote before CPU time is looked at again */
#define KPROMOTED_BATCH		512UL

/**
 * kpromoted_exchange_update - how much to exchange in the next epoch?
 * @exchange: base pages until now, by which more may be promoted than there is room for
 * @used:     base pages that were promoted
 * @most:     base pages that may be exchanged in an epoch
 * @full:     demotion could not keep up
 * @regret:   too much of what is demoted for it is as hot
 *
 * Return: four times as many if that much was wanted and went well, a quarter if it did
 * not; at least a batch.
 */
static inline unsigned long
kpromoted_exchange_update(unsigned long exchange, unsigned long used, unsigned long most,
			  bool full, enum kpromoted_regret regret)
{
	if (regret != KPROMOTED_REGRETS_FEW)
		exchange /= 4;
	else if (full)
		exchange = min(exchange, used);
	else if (used >= exchange)
		exchange = min(4 * exchange, most);
	return max(exchange, KPROMOTED_BATCH);
}

/**
 * kpromoted_regret_left - what remedy is left?
 * @regret:   too much of what is demoted is as hot
 * @exchange: base pages that are exchanged in an epoch
 *
 * Return: if it cannot be less, many are too many.
 */
static inline enum kpromoted_regret
kpromoted_regret_left(enum kpromoted_regret regret, unsigned long exchange)
{
	if (regret == KPROMOTED_REGRETS_MANY && exchange <= KPROMOTED_BATCH)
		return KPROMOTED_REGRETS_TOO_MANY;
	return regret;
}

/* Points that are asked for beyond the threshold, because more is hot than fits */
struct kpromoted_pressure {
	unsigned int score;
	unsigned int calm;		/* epochs without strain */
	unsigned int hold;		/* epochs to wait before asking for less again */
	unsigned int left;		/* of these, still to come */
	unsigned long warm;		/* pages that could be promoted, at the last strains */
};

/* Epochs without strain before one point is taken back */
#define KPROMOTED_CALM		4
/* Twice as long after each strain */
#define KPROMOTED_HOLD_MIN	4
#define KPROMOTED_HOLD_MAX	128
/* More pages than before: half as many again, and this many */
#define KPROMOTED_NEWS		512

/**
 * kpromoted_pressure_update - learn from an epoch
 * @pressure: at most HOTNESS_MAX_SCORE points, which stop promotion altogether
 * @full:     the target had no room at all
 * @regret:   too much of what is demoted is as hot
 * @relent:   there is room
 * @warm:     base pages that reach hot_threshold
 * @close:    they had to reach it within a short window
 */
static inline void kpromoted_pressure_update(struct kpromoted_pressure *pressure, bool full,
					     enum kpromoted_regret regret, bool relent,
					     unsigned long warm, bool close)
{
	/* Something new is going on, another hot set perhaps: begin again. */
	if ((pressure->score || pressure->left) &&
	    warm > pressure->warm + pressure->warm / 2 + KPROMOTED_NEWS) {
		*pressure = (struct kpromoted_pressure) { .warm = warm };
		return;
	}
	if (warm)
		pressure->warm = max(warm, pressure->warm - pressure->warm / 8);

	if (full || regret != KPROMOTED_REGRETS_FEW) {
		if (regret != KPROMOTED_REGRETS_MANY)
			pressure->score = min(pressure->score + 1,
					      (unsigned int)HOTNESS_MAX_SCORE);
		pressure->hold = clamp(2 * pressure->hold, KPROMOTED_HOLD_MIN,
				       KPROMOTED_HOLD_MAX);
		pressure->left = pressure->hold;
		pressure->calm = 0;
		return;
	}
	if (pressure->left) {
		pressure->left--;
		return;
	}
	if (!pressure->score) {
		pressure->hold -= !!pressure->hold;
		return;
	}
	/* Where nothing is warm, nothing is learned, unless the window is too short. */
	if (!relent || !(warm || close) || ++pressure->calm < KPROMOTED_CALM)
		return;
	pressure->score--;
	pressure->calm = 0;
}

/*
 * Some memory control groups; see tier_group().  If too much of what is demoted to make
 * room is as hot as what takes its place, pages of those groups have to be hotter for which
 * most was promoted.  Who owns what was demoted is not to blame, nor are others.
 */
struct kpromoted_owner {
	struct kpromoted_pressure pressure;
	unsigned long promoted_seen;	/* counter as of the last epoch */
	unsigned long promoted;		/* average over the last epochs */
};

/**
 * kpromoted_owners_update - learn from an epoch
 * @owner:    groups
 * @group:    what has been found of them, and result: points that are asked for
 * @promoted: counters of base pages promoted
 * @nr:       number of groups
 * @regret:   too much of what is demoted is as hot
 * @relent:   there is room
 * @close:    pages had to be warm within a short window
 */
static inline void kpromoted_owners_update(struct kpromoted_owner *owner,
					   struct hotness_group *group,
					   const unsigned long *promoted, unsigned int nr,
					   enum kpromoted_regret regret, bool relent, bool close)
{
	unsigned long all = 0;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		owner[i].promoted = owner[i].promoted * 7 / 8 +
				    (promoted[i] - owner[i].promoted_seen);
		owner[i].promoted_seen = promoted[i];
		all += owner[i].promoted;
	}
	for (i = 0; i < nr; i++) {
		bool blame = kmmscand_fault(BLAME) ||
			     (owner[i].promoted &&
			      owner[i].promoted >= all / KPROMOTED_BLAME_SHARE);

		kpromoted_pressure_update(&owner[i].pressure, false,
					  blame ? regret : KPROMOTED_REGRETS_FEW, relent,
					  group[i].warm, close);
		group[i].points = owner[i].pressure.score;
	}
}

#endif /* _MM_TIER_KMMSCAND_POLICY_H */
