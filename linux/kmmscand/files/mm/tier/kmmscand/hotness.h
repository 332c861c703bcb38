/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hotness table of the slow memory tier: see hotness.c.
 */
#ifndef _MM_TIER_KMMSCAND_HOTNESS_H
#define _MM_TIER_KMMSCAND_HOTNESS_H

#include <linux/bitops.h>
#include <linux/minmax.h>
#include <linux/nodemask.h>
#include <linux/tier.h>
#include <linux/types.h>

struct kpromoted_limits;

/*
 * One record per slow page frame:
 *
 *   bits 0-7    history, one bit per look of the scanner, bit 0 the newest
 *   bits 8-15   tick (modulo 256) to which bit 0 belongs
 *
 * A record without history is empty.  Nobody shifts the histories of untouched
 * pages.  The stamp tells at the next touch by how much to shift; see
 * hotness_aged().
 *
 * An epoch has two ticks, one for each of the two looks of a close visit.  A visit
 * with one look uses the second.
 */
#define HOTNESS_HISTORY_BITS	8
#define HOTNESS_MAX_SCORE	(HOTNESS_HISTORY_BITS + 1)

/*
 * An address space is visited every 2^n epochs, n up to HOTNESS_MAX_SHIFT, and
 * one bit of history stands for 2^n epochs, or half as many if the visit was a close one.
 * So nothing can be learned from a record that is HOTNESS_HORIZON epochs old, and the
 * stamp is ambiguous only after 128.  In between every record is swept once: see
 * hotness_next_epoch().
 */
#define HOTNESS_MAX_SHIFT	3
#define HOTNESS_HORIZON		(HOTNESS_HISTORY_BITS << HOTNESS_MAX_SHIFT)
#define HOTNESS_SWEEP_EPOCHS	32

static_assert(2 * (HOTNESS_HORIZON + HOTNESS_SWEEP_EPOCHS) < 256);

/* Page frames by score: how many, in base pages, and that were touched since when */
struct hotness_histogram {
	unsigned long pages[HOTNESS_MAX_SCORE + 1];
	u8 since;
};

/**
 * struct hotness_group - pages of some memory control groups; see tier_group()
 * @left:	base pages that may still be selected
 * @counted:	base pages that count, which are about @left at most
 * @hot:	base pages that would count if there was room everywhere
 * @waiting:	of these, base pages that have not been promoted; for victim.c
 */
struct hotness_group {
	unsigned long left;
	unsigned long counted;
	unsigned long hot;
	unsigned long waiting;
};

/**
 * struct hotness_groups - what a promoter wants to know besides the histogram, and demands
 * @warm_score:		of pages that could be promoted if there was nothing better
 * @min_score:		of pages that count
 * @closed:		slots to which nothing can go; what is bound to them does not count
 * @warm:		base pages that reach @warm_score
 * @group:		by tier_group()
 */
struct hotness_groups {
	unsigned int warm_score;
	unsigned int min_score;
	u32 closed;
	unsigned long warm;
	struct hotness_group group[TIER_GROUPS];
};

/*
 * Where a selection goes on, among pages touched since a tick, and who else has a say; see
 * hotness_select()
 */
struct hotness_cursor {
	unsigned long section;
	unsigned int index;
	u8 since;
	u32 closed;		/* slots to which nothing can go; see target.h */
	struct hotness_groups *groups;
	struct kpromoted_limits *limits;	/* of memory control groups, or NULL */
};

/**
 * struct hotness_look - pages that a source finds accessed, one after the other
 * @tick:	of the look, see hotness_look_start()
 * @close:	it is one of the two of a close visit
 * @shift:	the source looks every 2^@shift epochs, or less often
 * @number:	of the section of the last page
 * @section:	its records, or NULL
 * @score:	of the last page for which it had to be computed; 0 if there was none
 * @old:	record of that page, as it was found
 * @new:	and what it becomes
 *
 * Neighbours are in one section, so it is looked up for the first of them only.  It may
 * go as soon as the read-side critical section of RCU ends in which the look was started.
 * Many of them have the same record, too, so what follows from it is kept.
 */
struct hotness_look {
	u8 tick;
	bool close;
	unsigned int shift;
	unsigned long number;
	struct hotness_section *section;
	unsigned int score;
	u16 old;
	u16 new;
};

/**
 * hotness_look_start - begin to tell what is found accessed
 * @look:   on the stack or in what the caller keeps
 * @epoch:  of the visit; may have ended meanwhile
 * @second: it is the second look of a close visit, or the only one of the epoch
 * @close:  the visit is a close one
 * @shift:  there is a visit every 2^@shift epochs, or less often
 *
 * Context: under RCU, which the caller must not leave before its last hotness_look_touch().
 */
static inline void hotness_look_start(struct hotness_look *look, unsigned int epoch, bool second,
				      bool close, unsigned int shift)
{
	*look = (struct hotness_look) {
		.tick = 2 * epoch + second,
		.close = close,
		.shift = shift,
	};
}

/* Had the look one tick before found the last page, too? */
static inline bool hotness_look_again(const struct hotness_look *look)
{
	return (look->old & 1) && look->old >> 8 == (u8)(look->tick - 1);
}

int hotness_enable(const nodemask_t *slow);
int hotness_populate(const nodemask_t *slow);
void hotness_disable(void);
unsigned int hotness_epoch(void);
void hotness_next_epoch(void);
unsigned int hotness_look_touch(struct hotness_look *look, unsigned long pfn);
unsigned int hotness_touch(unsigned long pfn, unsigned int epoch, bool second, bool close,
			   unsigned int shift);
void hotness_touch_known(unsigned long pfn);
bool hotness_found(unsigned long pfn, unsigned int epoch, bool second);
unsigned int hotness_retract(unsigned long pfn, unsigned int epoch, unsigned int shift);
void hotness_aim(unsigned long pfn, unsigned int epoch, bool second, u8 aim, bool shared);
void hotness_forget(unsigned long pfn, unsigned long nr);
int hotness_news(void);
void hotness_add_news(void);
bool hotness_count(int nid, struct hotness_histogram *histogram,
		   struct hotness_groups *groups, struct kpromoted_limits *limits);
unsigned int hotness_select(int nid, unsigned int min_score, struct hotness_cursor *cursor,
			    struct tier_range *ranges, unsigned int max_ranges,
			    unsigned long max_pages);

/* History of a record as of @tick, if one bit stands for 2^@shift ticks. */
static inline u8 hotness_aged(u16 record, u8 tick, unsigned int shift)
{
	unsigned int age = ((tick - (record >> 8)) & 0xff) >> shift;

	return age < HOTNESS_HISTORY_BITS ? record << age & 0xff : 0;
}

/* The same for a close visit, if there is one in 2^@shift epochs with two looks. */
static inline u8 hotness_aged_close(u16 record, u8 tick, unsigned int shift)
{
	unsigned int age = (tick - (record >> 8)) & 0xff;

	/* The two looks of one visit are one tick apart, whatever the interval. */
	if (age > 1)
		age = max(age >> shift, 1U);
	return age < HOTNESS_HISTORY_BITS ? record << age & 0xff : 0;
}

/*
 * A record as it was before the two looks of its last visit.  There was a visit every
 * 2^@shift epochs; those that have found nothing leave no trace.
 */
static inline u16 hotness_retracted(u16 record, unsigned int shift)
{
	u8 history = (u8)record >> 2, tick = (record >> 8) - (2 << shift);

	if (!history)
		return 0;
	for (; !(history & 3); history >>= 2)
		tick -= 2 << shift;
	return (u16)tick << 8 | history;
}

/* Records in 64 bits, and a one for each of them */
#define HOTNESS_LANES		4
#define HOTNESS_ONES		(U64_MAX / U16_MAX)

/*
 * Has one of some records at least @bits accesses (or any number, if 0), the last at most
 * @oldest ticks ago?  Asked of all of them at once, because most of what a promoter executes
 * is in walks over the table.
 */
static inline bool hotness_any_fresh(u64 records, u8 tick, u8 oldest, unsigned int bits)
{
	const u64 stamps = records >> 8 & 0xff * HOTNESS_ONES;
	/* Each lane borrows from its own bit 8, and never from its neighbour. */
	const u64 ages = ((0x100 + tick) * HOTNESS_ONES - stamps) & 0xff * HOTNESS_ONES;
	u64 fresh = ((0x100 + oldest) * HOTNESS_ONES - ages) & 0x100 * HOTNESS_ONES;
	u64 history = records & 0xff * HOTNESS_ONES;

	if (!fresh || !bits)
		return fresh;
	/* Take the lowest access of each away, until there should be one left. */
	while (--bits)
		history &= (history | 0x100 * HOTNESS_ONES) - HOTNESS_ONES;
	return fresh & (history + 0xff * HOTNESS_ONES);
}

/*
 * Frequency and momentum: looks that found an access, out of the last eight, and
 * one more if the last two both did.  1 to HOTNESS_MAX_SCORE for a page that has
 * just been touched.
 *
 * A page that is accessed in each of its visits is the less hot the longer the
 * intervals between them are.  So of 2^n epochs between visits only the last 8 - n bits
 * of history are kept, and the score is at most HOTNESS_MAX_SCORE - n.
 */
static inline unsigned int hotness_score(u8 history)
{
	return hweight8(history) + ((history & 3) == 3);
}

/* Accesses that a record needs, at least, for hotness_score() to reach @score */
static inline unsigned int hotness_score_bits(unsigned int score)
{
	/* One may have been the point for the last two. */
	return score > 2 ? score - 1 : score;
}

#endif /* _MM_TIER_KMMSCAND_HOTNESS_H */
