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

/*
 * What was promoted so long ago is in the statistics.  They are brought up to date every two
 * seconds, and after four by the promoter, if that has not been done.
 */
#define TIER_LIMIT_HALF		(5UL * HZ)

/**
 * struct tier_limit - what is known of the memory of a group with a limit
 * @used:    base pages on fast nodes when they were last looked up, by the statistics
 * @recent:  base pages taken since @begun, and in the time before it
 * @begun:   in jiffies
 */
struct tier_limit {
	unsigned long used;
	unsigned long recent[2];
	unsigned long begun;
};

/**
 * tier_limit_init - a group has got a limit
 * @limit: all zero
 * @now:   in jiffies
 *
 * The first candidate has the group's memory looked up.
 */
static inline void tier_limit_init(struct tier_limit *limit, unsigned long now)
{
	limit->begun = now - TIER_LIMIT_HALF;
}

/* How many base pages may still be taken? */
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
 * Only now may be forgotten what was taken long ago.  What is counted twice until then
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

#endif /* _MM_TIER_KMMSCAND_LIMIT_H */
