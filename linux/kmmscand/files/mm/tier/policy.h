/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decisions of kpromoted that depend on nothing but their arguments, so that they
 * can be tested alone (kmmscand_kunit.c).
 */
#ifndef _MM_TIER_POLICY_H
#define _MM_TIER_POLICY_H

#include <linux/minmax.h>

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

/* How migrations went lately */
struct kpromoted_backoff {
	unsigned int shift;		/* the budget is 2^shift times as small */
	unsigned int epochs;		/* since it changed */
	unsigned long moved;
	unsigned long failed;
};

#define KPROMOTED_BACKOFF_TRIES	1024
#define KPROMOTED_BACKOFF_MAX	3
/* Epochs after which a backoff is forgiven, whatever was tried in them */
#define KPROMOTED_BACKOFF_EPOCHS	8

/**
 * kpromoted_backoff_count - learn from a batch
 * @backoff: is updated after each KPROMOTED_BACKOFF_TRIES base pages
 * @moved:   base pages that were promoted
 * @failed:  that could not be
 */
static inline void kpromoted_backoff_count(struct kpromoted_backoff *backoff,
					   unsigned long moved, unsigned long failed)
{
	backoff->moved += moved;
	backoff->failed += failed;
	if (backoff->moved + backoff->failed < KPROMOTED_BACKOFF_TRIES)
		return;
	if (backoff->failed > backoff->moved)
		backoff->shift = min(backoff->shift + 1, (unsigned int)KPROMOTED_BACKOFF_MAX);
	else
		backoff->shift = 0;
	backoff->epochs = 0;
	backoff->moved = 0;
	backoff->failed = 0;
}

/**
 * kpromoted_backoff_decay - an epoch has passed
 * @backoff: becomes smaller when nothing was learned for long
 */
static inline void kpromoted_backoff_decay(struct kpromoted_backoff *backoff)
{
	if (!backoff->shift || ++backoff->epochs < KPROMOTED_BACKOFF_EPOCHS)
		return;
	backoff->shift--;
	backoff->epochs = 0;
}

/* Points that are asked for beyond the threshold, because more is hot than fits */
struct kpromoted_pressure {
	unsigned int score;
	unsigned int calm;		/* epochs without strain */
	unsigned long warm;		/* pages that could be promoted, at the last strains */
};

/* Epochs without strain before one point is taken back */
#define KPROMOTED_CALM		4
/* More pages than before: half as many again, and this many */
#define KPROMOTED_NEWS		512

/**
 * kpromoted_pressure_update - learn from an epoch
 * @pressure: at most HOTNESS_MAX_SCORE, which stops promotion altogether
 * @strained: the target ran out of room, or much of what is promoted bounces
 * @relent:   there is room
 * @warm:     base pages that reach hot_threshold
 */
static inline void kpromoted_pressure_update(struct kpromoted_pressure *pressure,
					     bool strained, bool relent, unsigned long warm)
{
	/* Something new is going on, another hot set perhaps: begin again. */
	if (pressure->score && warm > pressure->warm + pressure->warm / 2 + KPROMOTED_NEWS) {
		*pressure = (struct kpromoted_pressure) { .warm = warm };
		return;
	}
	if (strained) {
		pressure->score = min(pressure->score + 1, (unsigned int)HOTNESS_MAX_SCORE);
		pressure->calm = 0;
		pressure->warm = max(warm, pressure->warm - pressure->warm / 16);
		return;
	}
	/* Where nothing is warm, nothing is learned. */
	if (!pressure->score || !relent || !warm || ++pressure->calm < KPROMOTED_CALM)
		return;
	pressure->score--;
	pressure->calm = 0;
}

/* Averages over the last epochs, in base pages */
struct kpromoted_bounces {
	unsigned long promoted_seen, bounced_seen;	/* counters as of the last epoch */
	unsigned long promoted, bounced;
};

/* One page in so many may bounce, and so few are not worth a thought. */
#define KPROMOTED_BOUNCE_SHARE	10
#define KPROMOTED_BOUNCE_MIN	16

/**
 * kpromoted_bounces_update - learn from an epoch
 * @bounces:  averages
 * @promoted: counter of base pages promoted
 * @bounced:  counter of those that were demoted soon afterwards
 *
 * A bounce comes later than the promotion, so it is compared with an average over some
 * epochs, in which what is old counts half after five of them.  What has been answered
 * with true is not counted again.
 *
 * Return: true if too many bounce.
 */
static inline bool kpromoted_bounces_update(struct kpromoted_bounces *bounces,
					    unsigned long promoted, unsigned long bounced)
{
	unsigned long news = bounced - bounces->bounced_seen;

	bounces->promoted = bounces->promoted * 7 / 8 + (promoted - bounces->promoted_seen);
	bounces->bounced = bounces->bounced * 7 / 8 + news;
	bounces->promoted_seen = promoted;
	bounces->bounced_seen = bounced;
	if (!news || bounces->bounced < KPROMOTED_BOUNCE_MIN ||
	    bounces->bounced <= bounces->promoted / KPROMOTED_BOUNCE_SHARE)
		return false;
	bounces->promoted = 0;
	bounces->bounced = 0;
	return true;
}

#endif /* _MM_TIER_POLICY_H */
