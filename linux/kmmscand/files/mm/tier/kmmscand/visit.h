/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Visits of address spaces: see visit.c and walk.c.
 */
#ifndef _MM_TIER_KMMSCAND_VISIT_H
#define _MM_TIER_KMMSCAND_VISIT_H

#include <linux/bitmap.h>
#include <linux/mmu_age.h>
#include <linux/nodemask.h>
#include <linux/pgtable.h>
#include <linux/types.h>

#include "cpu.h"
#include "kmmscand.h"
#include "ring.h"

struct space;

/* Address spaces whose regions share windows */
#define VISIT_PIECES	64

/**
 * enum walk_look - what a walk over regions does
 * @WALK_CLEAR:  it clears Accessed bits, and chooses regions
 * @WALK_FIRST:  it notes which pages have been accessed since
 * @WALK_SECOND: it looks for pages of the first look that have been accessed again
 * @WALK_SAMPLE: it clears Accessed bits of some regions, to look for change
 * @WALK_CHANGE: it counts pages of these that have been accessed since
 */
enum walk_look {
	WALK_CLEAR,
	WALK_FIRST,
	WALK_SECOND,
	WALK_SAMPLE,
	WALK_CHANGE,
};

/* A page table, or a huge mapping in its place, between two looks */
struct region {
	unsigned long addr;
	bool huge;
	DECLARE_BITMAP(wanted, PTRS_PER_PTE);	/* entries that the first look reads */
	DECLARE_BITMAP(found, PTRS_PER_PTE);	/* of these, accessed then */
};

/**
 * enum visit_kind - address spaces that share a visit
 * @VISIT_FULL:   looks for candidates
 * @VISIT_GUEST:  the same, of spaces with a secondary MMU, in longer windows
 * @VISIT_CHANGE: looks for change
 */
enum visit_kind {
	VISIT_FULL,
	VISIT_GUEST,
	VISIT_CHANGE,
};

/* Regions of an address space */
struct piece {
	struct space *space;
	unsigned int begin, end;	/* regions */
	unsigned int next;		/* where a look goes on that mmap_lock has held up */
	unsigned int huge;		/* of the regions */
	bool done;			/* the walk has come to the end of the address space */
	bool missed;			/* the last look has not come to the end of the piece */
	bool held;			/* a look has not */
	u64 looked;			/* when the first look has begun, by ktime_get_ns() */
	u32 first[2], last[2];		/* entries found in the looks, of page tables and huge */
	u32 between_us[2];		/* between the looks */
	bool late;			/* a look for change was, so that its count tells nothing */
	u32 pushed;			/* candidates, in base pages */
	u32 sampled, sampled_of;	/* in a look for change: pages found, and looked at */
	unsigned int tables;		/* page tables read by WALK_CLEAR */
	unsigned int young;		/* slow entries that it has found young */
	unsigned int flushes;		/* of TLBs of CPUs */
	unsigned int guest_flushes;	/* of TLBs of secondary MMUs */
	unsigned int cleared;		/* whose Accessed bits, since the last flush */
	u64 cost_ns;			/* of the walks */
};

/**
 * struct visit - what a worker looks at together
 * @home:      fast node whose address spaces are visited
 * @nodes:     tiers
 * @cpu:       CPU time of the worker
 * @kind:      of all its address spaces
 * @window_us: between looks
 * @huge_us:   between looks at huge mappings
 * @begun:     when, by ktime_get_ns()
 * @flushed:   when the first flushes have ended
 * @nr:        number of regions
 * @nr_pieces: number of address spaces
 * @bumped:    number of address spaces of another kind, which went back to the queue
 * @piece:     address spaces
 * @age:       what secondary MMUs know of a page table
 * @found:     folios that the walk has found in a page table
 * @found_nid: nodes of these
 * @nr_found:  number of these
 * @regions:   number of regions at most
 * @region:    regions, in the order of the walk
 */
struct visit {
	int home;
	const struct kmmscand_nodes *nodes;
	struct kmmscand_cpu *cpu;
	enum visit_kind kind;
	u32 window_us;
	u32 huge_us;
	u64 begun;
	u64 flushed;
	unsigned int nr;
	unsigned int nr_pieces;
	unsigned int bumped;
	struct piece piece[VISIT_PIECES];
	struct mmu_age age;
	struct candidate found[PTRS_PER_PTE];
	s16 found_nid[PTRS_PER_PTE];
	unsigned int nr_found;
	unsigned int regions;
	struct region region[] __counted_by(regions);
};

struct visit *visit_alloc(int home, const struct kmmscand_nodes *nodes, struct kmmscand_cpu *cpu);
bool visit_gather(struct visit *visit);
void visit_finish(struct visit *visit);

#endif /* _MM_TIER_KMMSCAND_VISIT_H */
