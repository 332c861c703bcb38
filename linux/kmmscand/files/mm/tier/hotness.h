/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hotness table of the slow memory tier: see hotness.c.
 */
#ifndef _MM_TIER_HOTNESS_H
#define _MM_TIER_HOTNESS_H

#include <linux/bitops.h>
#include <linux/nodemask.h>
#include <linux/types.h>

/*
 * One record per slow page frame:
 *
 *   bits 0-7    history, one bit per scan round, bit 0 the newest
 *   bits 8-15   round (modulo 256) to which bit 0 belongs
 *
 * Nobody shifts the histories of untouched pages every round.  The stamp tells
 * at the next touch by how much to shift; see hotness_aged().
 */
#define HOTNESS_HISTORY_BITS	8
#define HOTNESS_MAX_SCORE	(HOTNESS_HISTORY_BITS + 1)

/*
 * A stamp of 8 bits is ambiguous after 256 rounds: a page that was hot 257
 * rounds ago would look as if it had been hot in the last one.  So records
 * whose history has run out are zeroed at least this often.
 */
#define HOTNESS_SWEEP_ROUNDS	128

/*
 * Remembers the section of the last lookup.  Valid only inside one RCU read-side
 * critical section; initialise at the start of each.
 */
struct hotness_cursor {
	unsigned long section;
	u16 *records;
};

#define HOTNESS_CURSOR_INIT	{ .section = -1UL }

int hotness_enable(const nodemask_t *slow);
int hotness_populate(const nodemask_t *slow);
void hotness_disable(void);
void hotness_sweep(u8 round);
unsigned int hotness_touch(struct hotness_cursor *cursor, unsigned long pfn, u8 round);
void hotness_forget(unsigned long pfn);

/* History of a record as of @round. */
static inline u8 hotness_aged(u16 record, u8 round)
{
	u8 age = round - (record >> 8);

	return age < HOTNESS_HISTORY_BITS ? record << age : 0;
}

/*
 * Frequency and momentum: rounds with an access out of the last eight, and one
 * more if the last two both had one.  1 to HOTNESS_MAX_SCORE for a page that has
 * just been touched.
 */
static inline unsigned int hotness_score(u8 history)
{
	return hweight8(history) + ((history & 3) == 3);
}

#endif /* _MM_TIER_HOTNESS_H */
