/* SPDX-License-Identifier: GPL-2.0 */
/*
 * State of a walk of a visit: see walk.c and table.c.
 */
#ifndef _MM_TIER_KMMSCAND_WALK_H
#define _MM_TIER_KMMSCAND_WALK_H

#include <linux/mmu_age.h>
#include <linux/nodemask.h>
#include <linux/pgtable.h>

#include "space.h"
#include "target.h"
#include "visit.h"

/* What a page table costs if each entry may be asked of a secondary MMU */
#define WALK_NOTIFY_COST	8

/* The youngest generation of the last folio's memcg and node.  Neighbours have the same. */
struct walk_youngest {
	struct mem_cgroup *memcg;
	int nid;			/* or NUMA_NO_NODE */
	int gen;
};

/*
 * A folio that may move, and about which reclaim need not be told anything.  Most neighbours have
 * the same flags and memcg.
 */
struct walk_same {
	unsigned long flags;		/* 0: none */
	struct mem_cgroup *memcg;
};

struct walk {
	struct visit *visit;
	struct piece *piece;
	struct mm_struct *mm;
	enum walk_look look;
	struct region *region;		/* that the walk looks at */
	unsigned int at, end;		/* indices of these; WALK_CLEAR: of those that it chooses */
	bool huge;			/* only huge mappings, or no huge mapping */
	unsigned long next;		/* address */
	unsigned long stride;		/* a sample has a page table in so many bytes */
	unsigned long from;		/* page tables below are not in the sample */
	unsigned int tables;		/* that were read */
	bool skip;			/* page tables may be skipped */

	/*
	 * Frames of slow nodes and of no others lie in [slow_start, slow_start + slow_len), if the
	 * nodes do not overlap; else slow_len is 0.  So most entries need no look at the page.
	 */
	unsigned long slow_start;
	unsigned long slow_len;

	struct walk_youngest youngest;
	struct walk_same same;
	unsigned int cleared;		/* whose Accessed bits, so whose TLBs to flush */
	nodemask_t cpuset, policy;	/* fast nodes that the tasks of the space allow */
	int vote;
	struct target target;		/* of this VMA */
	bool by_index;			/* the policy of this VMA depends on the address */

	/* Slice */
	bool walked;			/* a page table */
	unsigned int budget;
	u64 until;			/* local_clock() */
	unsigned int skips;
	unsigned int holes;
	unsigned int tries;		/* sleeps for mmap_lock that are left */

	unsigned long ptes, young, skipped;
	struct mmu_age *age;		/* what secondary MMUs know of this page table */
};

/* May TLBs hide accesses to a page table, since no flush has followed the last look? */
static inline bool walk_owed(const struct walk *w, unsigned long addr)
{
	const struct space *space = w->piece->space;

	return addr >= space->span.begin && addr < space->span.end;
}

/* Does the walk choose regions, for the looks that follow? */
static inline bool walk_chooses(const struct walk *w)
{
	return w->look == WALK_CLEAR || w->look == WALK_SAMPLE;
}

int walk_space(struct visit *visit, struct piece *piece, enum walk_look look, u64 deadline,
	       unsigned int most, unsigned long stride);
bool walk_regions(struct visit *visit, struct piece *piece, enum walk_look look, bool huge);
void table_slow_range(struct walk *w);
void table_read(struct walk *w, struct vm_area_struct *vma, pmd_t *pmd, pte_t *start_pte,
		unsigned long addr, unsigned long end);
void table_read_huge(struct walk *w, struct vm_area_struct *vma, pmd_t *pmdp, unsigned long addr);

#endif /* _MM_TIER_KMMSCAND_WALK_H */
