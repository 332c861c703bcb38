/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who uses a part of an address space?  Hint faults tell: see confirm.c.
 */
#ifndef _MM_TIER_CONFIRM_H
#define _MM_TIER_CONFIRM_H

#include <linux/minmax.h>
#include <linux/pgtable.h>
#include <linux/types.h>

#include "target.h"

struct folio;
struct mm_struct;
struct vm_area_struct;

/*
 * What is known of 2 MiB, or what a page table maps:
 *
 *   bits 0-4   slot that was seen last
 *   bits 5-7   faults that say so, less those that said otherwise
 *   bits 8-15  when the last one said so (CONFIRM_EPOCHS)
 *   bits 16-31 of what
 */
#define CONFIRM_VOTE		0x20
#define CONFIRM_VOTES		0xe0
#define CONFIRM_STAMP_SHIFT	8
#define CONFIRM_STAMP		(0xff << CONFIRM_STAMP_SHIFT)
#define CONFIRM_TAG_SHIFT	16

/* Time is counted in so many epochs, and for how many of these an answer is good */
#define CONFIRM_EPOCHS		8
#define CONFIRM_FRESH		8

/* Not too old?  Every 256 stamps what is not asked for meanwhile looks young again. */
static inline bool confirm_fresh(u32 known, u8 stamp)
{
	return known && (u8)(stamp - (known >> CONFIRM_STAMP_SHIFT)) < CONFIRM_FRESH;
}

/**
 * confirm_merge - a hint fault has told a node
 * @old:   what is known, perhaps of something else; 0 if nothing is
 * @tag:   of what the fault was in
 * @slot:  of the fast node that is nearest to the CPU
 * @stamp: now
 *
 * Return: what is to be known now.
 */
static inline u32 confirm_merge(u32 old, u32 tag, unsigned int slot, u8 stamp)
{
	u32 same = tag << CONFIRM_TAG_SHIFT | slot;
	u32 now = (u32)stamp << CONFIRM_STAMP_SHIFT;

	if (!confirm_fresh(old, stamp))
		return same | now | CONFIRM_VOTE;
	if ((old & ~(CONFIRM_VOTES | CONFIRM_STAMP)) == same) {
		if ((old & CONFIRM_VOTES) != CONFIRM_VOTES)
			old += CONFIRM_VOTE;
		return (old & ~CONFIRM_STAMP) | now;
	}
	/* Another slot, or another part of memory that wants this place */
	if ((old & CONFIRM_VOTES) > CONFIRM_VOTE)
		return old - CONFIRM_VOTE;
	return same | now | (old >> CONFIRM_TAG_SHIFT == tag ? 0 : CONFIRM_VOTE);
}

/**
 * confirm_slot - what hint faults have told
 * @known: by confirm_merge()
 * @tag:   of what is asked for
 * @stamp: now
 *
 * Return: slot, TARGET_ANY if it is used from several, 0 if nothing is known.
 */
static inline unsigned int confirm_slot(u32 known, u32 tag, u8 stamp)
{
	if (!confirm_fresh(known, stamp) || known >> CONFIRM_TAG_SHIFT != tag)
		return 0;
	return known & CONFIRM_VOTES ? known & TARGET_SLOT : TARGET_ANY;
}

extern unsigned int confirm_1in;

void confirm_reset(void);
void confirm_forget(const struct mm_struct *mm);
bool confirm_active(struct vm_area_struct *vma);
unsigned int confirm_region(struct mm_struct *mm, unsigned long addr);
bool confirm_arm(struct vm_area_struct *vma, unsigned long addr, pte_t *pte,
		 struct folio *folio);

#endif /* _MM_TIER_CONFIRM_H */
