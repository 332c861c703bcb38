/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Limits for what is promoted of a memory control group: see limit.c.  The arithmetic depends
 * on nothing else, so that it can be tested alone (limit_kunit.c).
 */
#ifndef _MM_TIER_KMMSCAND_LIMIT_H
#define _MM_TIER_KMMSCAND_LIMIT_H

#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>

#include "hotness.h"
#include "decide.h"

/*
 * What was promoted so long ago is in the statistics.  They are brought up to date every two
 * seconds, and after four by the promoter, if that has not been done.
 */
#define TIER_LIMIT_HALF		(5UL * HZ)

/**
 * struct tier_limit - what is known of the memory of a group with a limit
 * @walk:    number of the walk over the hotness table for which it was looked up
 * @used:    base pages on fast nodes then, by the statistics
 * @recent:  base pages selected since @begun, and in the time before it
 * @begun:   in jiffies
 * @found:   base pages that this walk has found, by score; of those that may be promoted
 *	     as far as the groups below are concerned
 * @counted: of these, how many have been counted
 * @least:   score that a page needs, so that the hottest come first
 */
struct tier_limit {
	unsigned int walk;
	unsigned long used;
	unsigned long recent[2];
	unsigned long begun;
	struct hotness_histogram found;
	unsigned long counted;
	unsigned int least;
};

/**
 * tier_limit_init - a group has got a limit
 * @limit: all zero
 * @now:   in jiffies
 *
 * Nothing is promoted before it is known how hot its pages are.
 */
static inline void tier_limit_init(struct tier_limit *limit, unsigned long now)
{
	limit->begun = now;
	limit->least = HOTNESS_MAX_SCORE + 1;
}

/* How many base pages may still be selected? */
static inline unsigned long tier_limit_room(const struct tier_limit *limit, unsigned long max)
{
	return max - min(max, limit->used + limit->recent[0] + limit->recent[1]);
}

/**
 * tier_limit_measured - the memory of the group has been looked up
 * @limit: updated
 * @used:  base pages on fast nodes
 * @now:   in jiffies
 *
 * Only now may be forgotten what was selected long ago.  What is counted twice until then
 * delays what is promoted next.
 */
static inline void tier_limit_measured(struct tier_limit *limit, unsigned long used,
				       unsigned long now)
{
	limit->used = used;
	if (now - limit->begun < TIER_LIMIT_HALF)
		return;
	limit->recent[1] = limit->recent[0];
	limit->recent[0] = 0;
	limit->begun = now;
}

/**
 * tier_limit_next_walk - the table is walked over once more
 * @limit: updated; has just been measured
 * @max:   base pages that are allowed
 *
 * What the walk before has found tells which scores fit.
 */
static inline void tier_limit_next_walk(struct tier_limit *limit, unsigned long max)
{
	unsigned long hot;

	limit->least = kpromoted_pick(&limit->found, 1, tier_limit_room(limit, max), &hot);
	if (!hot)
		limit->least = HOTNESS_MAX_SCORE + 1;
	memset(&limit->found, 0, sizeof(limit->found));
	limit->counted = 0;
}

/* May a page be counted, or selected? */
static inline bool tier_limit_allows(const struct tier_limit *limit, unsigned long max,
				     unsigned long nr, unsigned int score, bool select)
{
	return score >= limit->least &&
	       tier_limit_room(limit, max) >= nr + (select ? 0 : limit->counted);
}

/* It is counted, or selected. */
static inline void tier_limit_charge(struct tier_limit *limit, unsigned long nr, bool select)
{
	if (select)
		limit->recent[0] += nr;
	else
		limit->counted += nr;
}

#endif /* _MM_TIER_KMMSCAND_LIMIT_H */
