/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks: which entries of a page table had been accessed when their bits were cleared?
 *
 * The first walk of a close visit clears the Accessed bits of a group, and two more read what
 * has been accessed since (close.c).  Who is accessed in each of two short windows has been
 * accessed since the last visit as well, if that is longer ago.  So these two need not look at
 * entries that the first one has found clear.  Where little is accessed those are most of them.
 *
 * Marks say where to look, and nothing else depends on them.  When the mapping has changed
 * since (VMAs were merged, a huge page was formed), or somebody else has cleared the bit just
 * before the visit, accesses are missed in this visit and found in the next one.  For what
 * has no marks, because there are too many page tables or no memory, all entries are looked at.
 *
 * Pieces of a group are walked in the same order each time, and each in the order of addresses.
 * So marks are found by a cursor.
 */
#ifndef _MM_TIER_MARKS_H
#define _MM_TIER_MARKS_H

#include <linux/bitmap.h>
#include <linux/pgtable.h>
#include <linux/types.h>

/* Page tables of a group that can have marks; 8 GiB of base pages in 288 KiB */
#define KMMSCAND_MARKS		4096

/**
 * struct kmmscand_marks - of one page table, or of what one VMA has of it
 * @start: first address; bit 0 is its entry
 * @young: entries of slow pages that had been accessed
 */
struct kmmscand_marks {
	unsigned long start;
	DECLARE_BITMAP(young, PTRS_PER_PTE);
};

/**
 * struct kmmscand_marked - marks of a group
 * @marks: array, or NULL
 * @max:   that there is room for; 0 without memory
 * @nr:	   that are used
 * @next:  cursor, of the piece that is walked
 * @end:   of that piece
 */
struct kmmscand_marked {
	struct kmmscand_marks *marks;
	unsigned int max;
	unsigned int nr;
	unsigned int next;
	unsigned int end;
};

/**
 * kmmscand_marks_add - begin to mark
 * @marked: marks of the group
 * @start:  address, higher than that of the last one in this piece
 *
 * Context: the scanner, also with a page-table lock held.
 * Return: no marks yet, or NULL if there is no room.
 */
static inline struct kmmscand_marks *kmmscand_marks_add(struct kmmscand_marked *marked,
							unsigned long start)
{
	struct kmmscand_marks *marks;

	if (marked->nr == marked->max)
		return NULL;
	marks = &marked->marks[marked->nr++];
	marks->start = start;
	bitmap_zero(marks->young, PTRS_PER_PTE);
	return marks;
}

/**
 * kmmscand_marks_piece - begin to walk a piece
 * @marked: marks of the group
 * @first:  @marked->nr before its bits were cleared
 * @end:    and afterwards
 */
static inline void kmmscand_marks_piece(struct kmmscand_marked *marked, unsigned int first,
					unsigned int end)
{
	marked->next = first;
	marked->end = end;
}

/**
 * kmmscand_marks_find - what has been marked?
 * @marked: marks of the group
 * @start:  address, higher than that of the last call for this piece
 *
 * Context: as kmmscand_marks_add().
 * Return: marks, or NULL if there are none for what begins at this address.
 */
static inline struct kmmscand_marks *kmmscand_marks_find(struct kmmscand_marked *marked,
							 unsigned long start)
{
	while (marked->next < marked->end && marked->marks[marked->next].start < start)
		marked->next++;
	if (marked->next == marked->end || marked->marks[marked->next].start != start)
		return NULL;
	return &marked->marks[marked->next];
}

#endif /* _MM_TIER_MARKS_H */
