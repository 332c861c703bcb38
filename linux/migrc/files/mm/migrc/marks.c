// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: which address spaces have deferred flushes.
 *
 * A table of 128 sets of 8 marks, hashed by the address of the mm_struct, which is only compared.
 * A mark is pending while its last deferral is neither flushed for the address space (@flushed) nor
 * for all (migrc_done).  A pending mark is not given away: if all 8 are pending, the flush is not
 * deferred.  An address space that exits leaves its mark behind; a later one at the same address is
 * flushed once too often at worst, and is left alone for at most as long.
 *
 * Marks are written under migrc_lock.  A fault reads them without, under the page-table lock of a
 * PTE.  A deferral of that very PTE was made under the same lock, so its mark is seen, or a later
 * state of it.  If the mark belongs to another address space by then, or to this one elsewhere in
 * the set, what had been deferred was flushed.
 *
 * Back-off: writes that force more flushes than one for MIGRC_PER_FORCED deferrals make deferring
 * useless, and the faults pay.  Such an address space is left alone for MIGRC_BACKOFF_S seconds.
 */

#include <linux/hash.h>
#include <linux/jiffies.h>

#include "migrc.h"

#define MIGRC_SET_BITS		7
#define MIGRC_WAYS		8
#define MIGRC_WINDOW		256	/* deferrals that are judged together */
#define MIGRC_PER_FORCED	16
#define MIGRC_BACKOFF_S		10

struct migrc_mark {
	u64 seq;		/* last deferral of the address space */
	u64 flushed;		/* deferrals of it up to this one are flushed */
	unsigned long until;	/* no deferrals before, in jiffies; 0: none were refused */
	unsigned int deferred;	/* of this window: deferrals, */
	unsigned int forced;	/* and flushes that writes have forced */
};

/* What a fault compares is in one cache line. */
struct migrc_set {
	struct mm_struct *mm[MIGRC_WAYS];
	struct migrc_mark mark[MIGRC_WAYS];
} ____cacheline_aligned;

static struct migrc_set migrc_sets[1 << MIGRC_SET_BITS];

static struct migrc_set *migrc_set(struct mm_struct *mm)
{
	return &migrc_sets[migrc_one_set ? 0 : hash_ptr(mm, MIGRC_SET_BITS)];
}

static struct migrc_mark *migrc_mark_find(struct mm_struct *mm)
{
	struct migrc_set *set = migrc_set(mm);
	int i;

	for (i = 0; i < MIGRC_WAYS; i++)
		if (READ_ONCE(set->mm[i]) == mm)
			return &set->mark[i];
	return NULL;
}

static bool migrc_mark_is_pending(struct migrc_mark *mark, u64 seq)
{
	/*
	 * Acquire: a caller that sees the new number does what the entries forbade, after the flush
	 * (queue.c).  For @flushed it is the order of stores on x86, which Kconfig asks for.
	 */
	return seq > READ_ONCE(mark->flushed) && seq > smp_load_acquire(&migrc_done);
}

static bool migrc_mark_backs_off(struct migrc_mark *mark)
{
	return mark->until && time_before(jiffies, mark->until);
}

/* Take a mark that is not pending for @mm, if possible from an address space without back-off. */
static struct migrc_mark *migrc_mark_take(struct mm_struct *mm)
{
	struct migrc_set *set = migrc_set(mm);
	struct migrc_mark *mark;
	int i, found = -1;

	for (i = 0; i < MIGRC_WAYS; i++) {
		if (migrc_rule(MIGRC_MARKS,
			       migrc_mark_is_pending(&set->mark[i], set->mark[i].seq)))
			continue;
		if (found < 0 || !migrc_mark_backs_off(&set->mark[i]))
			found = i;
	}
	if (found < 0)
		return NULL;
	WRITE_ONCE(set->mm[found], mm);
	mark = &set->mark[found];
	/* What @mm may have deferred under another mark was flushed before it lost that. */
	WRITE_ONCE(mark->flushed, migrc_seq);
	WRITE_ONCE(mark->seq, 0);
	mark->until = 0;
	mark->deferred = 0;
	mark->forced = 0;
	return mark;
}

/**
 * migrc_mark_set - note a deferral
 * @mm: address space
 *
 * Context: under migrc_lock, and the page-table lock of the PTE that was cleared.
 * Return: its number, or 0 if it must not be deferred.
 */
u64 migrc_mark_set(struct mm_struct *mm)
{
	struct migrc_mark *mark = migrc_mark_find(mm) ? : migrc_mark_take(mm);

	lockdep_assert_held(&migrc_lock);
	if (!mark)
		return 0;
	if (migrc_rule(MIGRC_BACKOFF, migrc_mark_backs_off(mark))) {
		count_migrc(backoff, 1);
		return 0;
	}
	if (++mark->deferred == MIGRC_WINDOW) {
		if (mark->forced > MIGRC_WINDOW / MIGRC_PER_FORCED)
			mark->until = (jiffies + MIGRC_BACKOFF_S * HZ) | 1;
		mark->deferred = 0;
		mark->forced = 0;
	}
	WRITE_ONCE(mark->seq, ++migrc_seq);
	return migrc_seq;
}

/**
 * migrc_mark_pending - does an address space have deferrals that are not flushed?
 * @mm: address space
 *
 * Context: under the page-table lock of the PTE in question.
 * Return: number of the last one, for migrc_mark_flushed(), or 0.
 */
u64 migrc_mark_pending(struct mm_struct *mm)
{
	struct migrc_mark *mark = migrc_mark_find(mm);
	u64 seq = mark ? READ_ONCE(mark->seq) : 0;

	return mark && migrc_mark_is_pending(mark, seq) ? seq : 0;
}

/**
 * migrc_mark_flushed - an address space was flushed
 * @mm:		address space
 * @seq:	deferrals up to this one are flushed
 * @write:	because of a write
 *
 * Context: any; after the flush has completed.
 */
void migrc_mark_flushed(struct mm_struct *mm, u64 seq, bool write)
{
	struct migrc_mark *mark;

	spin_lock(&migrc_lock);
	mark = migrc_mark_find(mm);
	if (mark) {
		mark->forced += write;
		if (mark->flushed < seq)
			WRITE_ONCE(mark->flushed, seq);
	}
	spin_unlock(&migrc_lock);
}
