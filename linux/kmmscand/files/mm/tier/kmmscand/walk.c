// SPDX-License-Identifier: GPL-2.0
/*
 * Walks of a visit over an address space: read and clear the Accessed bits of its slow pages, and
 * leave everything else as it was.
 *
 * A visit has three walks, a window apart.  The first one clears bits and chooses regions: page
 * tables with slow pages that have been accessed.  The second one notes in a bitmap which pages of
 * these have been accessed since.  The third one looks at these pages only.  A page that has been
 * accessed again is a candidate, and goes to the ring of its node after the walk has dropped the
 * page-table lock.
 *
 * Locks: mmap_lock is held for at most WALK_SLICE page tables, WALK_SLICE_HOLES empty upper-level
 * entries or WALK_SLICE_NS, or until a task waits for the lock, whichever is first; but for one
 * page table at least.  The lock is taken for reading, by trylock.  A walk that finds the lock
 * taken sleeps for a moment, at most WALK_LOCK_TRIES times.  mm_users is never taken, only
 * mm_count: exit_mmap() unmaps with mmap_lock held for reading, and needs it for writing before it
 * frees page tables.  So a process that exits during a slice waits for the end of that at most, and
 * frees its memory itself.
 *
 * Regions are noted by address.  What has been mapped, unmapped or collapsed between two walks does
 * not matter: each walk looks up the VMA and the page table at the address.
 *
 * No huge mapping is split here: the walker has a pmd_entry and no pte_entry (walk_pmd_range()
 * splits only for the latter).  What could be mapped by PUDs (DAX, PFN maps) is left out by
 * test_walk.
 *
 * Left out, in test_walk: hugetlb and PFN maps (nothing to migrate), DAX (a file's blocks are where
 * its file system has put them), mlocked (not promoted), executable file maps (shared libraries),
 * what MGLRU looks at no accesses of (vma_has_recency()), and memory that mempolicy or cpuset does
 * not let go to any fast node.  A range armed by userfaultfd is not left out: clearing an Accessed
 * bit raises no fault, and migration preserves the uffd-wp bit.  Pages that tier_promote() would
 * refuse are cleared, but are no candidates.
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/dax.h>
#include <linux/delay.h>
#include <linux/hugetlb.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/memory-tiers.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_age.h>
#include <linux/pagewalk.h>
#include <linux/sched/clock.h>
#include <linux/sched/coredump.h>
#include <linux/sched/cputime.h>
#include <linux/sched/mm.h>
#include <linux/swap.h>
#include <linux/tier.h>
#include <linux/tier_policy.h>

#include "../../internal.h"
#include "control.h"
#include "events.h"
#include "fault.h"
#include "kmmscand.h"
#include "ring.h"
#include "space.h"
#include "target.h"
#include "walk.h"

/* Page tables (or VMAs without any) per hold of mmap_lock, and how long, but for one page table */
#define WALK_SLICE		64
#define WALK_SLICE_NS		NSEC_PER_MSEC
/* So many page tables that are skipped cost as much as one that is read */
#define WALK_SKIPS		16
/* Empty upper-level entries and gaps between VMAs per hold */
#define WALK_SLICE_HOLES	16384
/* A page table that the processor has not walked is read in one turn of so many */
#define WALK_FULL_TURNS		64
/* Sleeps for mmap_lock in a walk */
#define WALK_LOCK_TRIES		64
#define WALK_LOCK_USECS		50
/* Visits in a row after which an address space that could not be judged is left out */
#define WALK_UNJUDGED		3

static void walk_push(struct walk *w)
{
	struct visit *visit = w->visit;
	unsigned int i, end;

	for (i = 0; i < visit->nr_found; i = end) {
		int nid = visit->found_nid[i];

		for (end = i + 1; end < visit->nr_found && visit->found_nid[end] == nid; end++)
			;
		ring_push(nid, visit->found + i, end - i);
	}
	visit->nr_found = 0;
}

/* Is a region looked at? */
static bool walk_wants(const struct walk *w, const struct region *region)
{
	return region->huge == w->huge && (w->look != WALK_SECOND ||
					   !bitmap_empty(region->found, PTRS_PER_PTE));
}

/* The region of a page table in a look, or NULL */
static struct region *walk_region(struct walk *w, unsigned long addr)
{
	addr &= PMD_MASK;
	while (w->at < w->end && w->visit->region[w->at].addr < addr)
		w->at++;
	if (w->at == w->end || w->visit->region[w->at].addr != addr)
		return NULL;
	w->region = &w->visit->region[w->at];
	return walk_wants(w, w->region) ? w->region : NULL;
}

/* Is a page table in the sample?  Each part of one that several VMAs share is. */
static bool walk_samples(const struct walk *w, unsigned long addr)
{
	return addr >= w->from || (addr & PMD_MASK) == w->from - w->stride;
}

/* May this page table be skipped?  The entry is only read; it may change any time. */
static bool walk_not_walked(struct walk *w, pmd_t *pmd, unsigned long addr)
{
	pmd_t val;

	if (!w->skip)
		return false;
	if (walk_chooses(w) &&
	    !(((addr >> PMD_SHIFT) + w->piece->space->number) % WALK_FULL_TURNS))
		return false;
	val = pmdp_get_lockless(pmd);
	return pmd_present(val) && !pmd_trans_huge(val) &&
	       (!pmd_young(val) || kmmscand_fault(SKIP));
}

/* May anything at this address go to a fast node, and to which one first? */
static bool walk_allowed(struct walk *w, struct vm_area_struct *vma, unsigned long addr)
{
	nodemask_t nodes = w->policy;
	struct mempolicy *pol;
	pgoff_t ilx;

	if (kmmscand_fault(POLICY)) {
		nodes = w->visit->nodes->top;
	} else {
		/* It comes before those of tasks, but never before the cpuset. */
		pol = __get_vma_policy(vma, addr, &ilx);
		if (pol) {
			target_policy_nodes(pol, &nodes);
			mpol_cond_put(pol);
		}
		nodes_and(nodes, nodes, w->cpuset);
	}
	return target_choose(&w->target, w->vote, &nodes);
}

/* Passed over; many of these cost as much as a page table. */
static int walk_skip(struct walk *w)
{
	if (!w->skips--) {
		w->skips = WALK_SKIPS;
		w->budget--;
	}
	return 0;
}

static int walk_pmd_entry(pmd_t *pmd, unsigned long addr, unsigned long end, struct mm_walk *walk)
{
	struct vm_area_struct *vma = walk->vma;
	struct walk *w = walk->private;
	spinlock_t *ptl;	/* of the PMD or of the page table */
	pte_t *start_pte;

	if (!w->budget || (w->walked && (mmap_lock_is_contended(vma->vm_mm) ||
					 local_clock() > w->until)) ||
	    (walk_chooses(w) && w->piece->end == w->end)) {
		w->next = addr;
		return 1;
	}
	/* Never descend, never split. */
	walk->action = ACTION_CONTINUE;

	if (walk_chooses(w) ? !walk_samples(w, addr) : !walk_region(w, addr))
		return walk_skip(w);
	if (walk_not_walked(w, pmd, addr)) {
		w->skipped++;
		return walk_skip(w);
	}
	if (w->by_index && !walk_allowed(w, vma, addr))
		return walk_skip(w);
	w->budget--;
	w->walked = true;
	w->from = w->stride ? (addr & PMD_MASK) + w->stride : 0;

	ptl = pmd_trans_huge_lock(pmd, vma);
	if (ptl) {
		__acquire(ptl);	/* for sparse; pmd_trans_huge_lock() lacks it */
		table_read_huge(w, vma, pmd, addr);
		spin_unlock(ptl);
		walk_push(w);
		return 0;
	}
	if (w->huge)
		return 0;
	/* Fails if the page table went away or became a huge mapping meanwhile. */
	start_pte = pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl);
	if (!start_pte)
		return 0;
	/*
	 * table_read() needs RCU: pte_offset_map_lock() has entered a read-side critical section,
	 * which pte_unmap_unlock() will leave.
	 */
	__acquire(RCU);		/* for sparse; the former lacks it */
	table_read(w, vma, pmd, start_pte, addr, end);
	pte_unmap_unlock(start_pte, ptl);
	walk_push(w);
	return 0;
}

/* Returns 1 to leave a VMA out, -EAGAIN when the slice is over. */
static int walk_test(unsigned long start, unsigned long end, struct mm_walk *walk)
{
	struct vm_area_struct *vma = walk->vma;
	struct walk *w = walk->private;
	vm_flags_t left_out = VM_PFNMAP | VM_IO;

	/* A VMA costs, too, also when it has no page tables. */
	if (!w->budget) {
		w->next = start;
		return -EAGAIN;
	}
	w->budget--;

	/* The reasons are in the header comment. */
	if (!kmmscand_fault(POLICY))
		left_out |= VM_LOCKED;
	if (vma->vm_flags & left_out)
		return 1;
	if (!vma_has_recency(vma) && !kmmscand_fault(POLICY))
		return 1;
	if (is_vm_hugetlb_page(vma) || vma_is_dax(vma))
		return 1;
	if (vma->vm_file && (vma->vm_flags & VM_EXEC) && !kmmscand_fault(POLICY))
		return 1;

	/* Policies of shared memory can differ inside one VMA. */
	w->by_index = vma->vm_ops && vma->vm_ops->get_policy;
	return !w->by_index && !walk_allowed(w, vma, vma->vm_start);
}

/* Without this a sparse address space could be walked for long in one slice. */
static int walk_hole(unsigned long addr, unsigned long next, int depth, struct mm_walk *walk)
{
	struct walk *w = walk->private;

	if (!w->holes) {
		w->next = addr;
		return 1;
	}
	w->holes--;
	return 0;
}

static const struct mm_walk_ops walk_ops = {
	.pmd_entry	= walk_pmd_entry,
	.pte_hole	= walk_hole,
	.test_walk	= walk_test,
	.walk_lock	= PGWALK_RDLOCK,
};

/*
 * Threads that map and unmap all the time leave short gaps between the holds of mmap_lock.  Wait
 * for one, but not for a hold that lasts.
 */
static bool walk_lock(struct walk *w)
{
	while (!mmap_read_trylock(w->mm)) {
		if (!w->tries)
			return false;
		w->tries--;
		usleep_idle_range(WALK_LOCK_USECS, 2 * WALK_LOCK_USECS);
	}
	return true;
}

/* One slice, from w->next to @end.  Returns 0 at @end, 1 if there is more, or -EBUSY, or -ESRCH. */
static int walk_slice(struct walk *w, unsigned long end)
{
	int more;

	/* The process does not want it any more. */
	if (!kmmscand_wants(w->mm))
		return -ESRCH;
	if (!walk_lock(w))
		return -EBUSY;
	/* With the lock, so that exit_mmap() cannot have got to the page tables. */
	if (test_bit(MMF_UNSTABLE, &w->mm->flags) || !atomic_read(&w->mm->mm_users)) {
		mmap_read_unlock(w->mm);
		return -ESRCH;
	}
	w->walked = false;
	w->budget = WALK_SLICE;
	w->until = local_clock() + WALK_SLICE_NS;
	w->skips = WALK_SKIPS;
	w->holes = WALK_SLICE_HOLES;
	more = walk_page_range(w->mm, w->next, end, &walk_ops, w);
	/* From test_walk: the slice is over. */
	if (more == -EAGAIN)
		more = 1;
	mmap_read_unlock(w->mm);
	/*
	 * Folios that table_read() has activated wait in a per-CPU batch, which has references to
	 * them, so they could not be migrated.
	 */
	lru_add_drain();
	cond_resched();
	return more;
}

/* Ask the tasks of an address space which fast nodes they allow.  It spares work; see allow.c. */
static void walk_ask_tasks(struct walk *w)
{
	struct space *space = w->piece->space;
	/* What cannot be judged is refused each time, at the cost of what may be promoted. */
	const bool left_out = space->unjudged == WALK_UNJUDGED;
	enum tier_answer cpuset, tasks;
	bool judged = true;
	int nid;

	for_each_node_mask(nid, w->visit->nodes->top) {
		cpuset = tier_mm_answer(w->mm, nid, false);
		tasks = tier_mm_answer(w->mm, nid, true);
		judged &= tasks != TIER_NOT_KNOWN;
		if (cpuset == TIER_ALLOWS || (cpuset == TIER_NOT_KNOWN && !left_out))
			node_set(nid, w->cpuset);
		if (tasks == TIER_ALLOWS || (tasks == TIER_NOT_KNOWN && !left_out))
			node_set(nid, w->policy);
	}
	if (walk_chooses(w))
		space->unjudged = judged ? 0 : space->unjudged + !left_out;
}

static void walk_begin(struct walk *w, struct visit *visit, struct piece *piece,
		       enum walk_look look)
{
	struct space *space = piece->space;

	*w = (struct walk) {
		.visit = visit,
		.piece = piece,
		.mm = space->mm,
		.look = look,
		.at = piece->begin,
		.end = piece->end,
		.age = &visit->age,
		.skip = arch_has_hw_nonleaf_pmd_young() && !mmu_age_secondary(space->mm),
		.vote = target_winner(space->votes),
		.tries = WALK_LOCK_TRIES,
	};
	if (look == WALK_CLEAR && nodes_weight(visit->nodes->top) > 1 && w->vote == NUMA_NO_NODE)
		count_kmmscand_events(KMMSCAND_TARGET_SPLIT, 1);
	table_slow_range(w);
	walk_ask_tasks(w);
}

static void walk_end(struct walk *w, u64 start)
{
	struct piece *piece = w->piece;

	piece->cost_ns += task_sched_runtime(current) - start;
	piece->cleared |= w->cleared;
	if (w->look == WALK_CLEAR) {
		piece->tables += w->tables;
		piece->young += w->young;
	}
	count_kmmscand_events(KMMSCAND_PTE_SCANNED, w->ptes);
	count_kmmscand_events(KMMSCAND_PTE_YOUNG, w->young);
	count_kmmscand_events(KMMSCAND_PMD_SKIPPED, w->skipped);
}

/**
 * walk_space - clear Accessed bits of a part of an address space, and choose regions
 * @visit:    regions are added to it
 * @piece:    of the address space, the last one of the visit
 * @look:     WALK_CLEAR, from space->next on, which is updated; or WALK_SAMPLE
 * @deadline: ktime_get_ns(); one slice is tried at least
 * @most:     regions to choose at most
 * @stride:   with WALK_SAMPLE, the distance between page tables
 *
 * Context: a worker, may sleep; no locks held.
 * Return: 1 if the end of the address space was reached; 0 if there is more; -ESRCH if the address
 * space has gone or does not want it; -EBUSY if its mmap_lock is taken.
 */
int walk_space(struct visit *visit, struct piece *piece, enum walk_look look, u64 deadline,
	       unsigned int most, unsigned long stride)
{
	unsigned long *next = look == WALK_CLEAR ? &piece->space->next : &piece->space->sampled;
	u64 start = task_sched_runtime(current);
	struct walk w;
	int ret;

	walk_begin(&w, visit, piece, look);
	w.end = min(piece->begin + most, visit->regions);
	w.stride = stride;
	w.next = *next;
	do {
		ret = walk_slice(&w, ULONG_MAX);
		if (ret == 1)
			*next = w.next;
	} while (ret == 1 && piece->end < w.end && ktime_get_ns() < deadline &&
		 !kthread_should_stop());
	if (!ret)
		*next = 0;
	walk_end(&w, start);
	return ret < 0 ? ret : !ret;
}

/* Regions so near to each other are walked in one go. */
#define WALK_GAP	(16 * PMD_SIZE)

/**
 * walk_regions - look at the regions of a piece
 * @visit: regions
 * @piece: of the address space; piece->next is where a walk goes on that was held up
 * @look:  WALK_FIRST, WALK_SECOND or WALK_CHANGE
 * @huge:  huge mappings, or page tables
 *
 * Candidates are pushed to the rings of their nodes.
 *
 * Context: a worker, may sleep; no locks held.
 * Return: false if the mmap_lock is taken, or the address space has gone.
 */
bool walk_regions(struct visit *visit, struct piece *piece, enum walk_look look, bool huge)
{
	u64 start = task_sched_runtime(current);
	const struct region *region = visit->region;
	unsigned int i, last;
	struct walk w;
	int ret = 0;

	if (look == WALK_FIRST && kmmscand_fault(HELD))
		return false;
	walk_begin(&w, visit, piece, look);
	w.huge = huge;
	for (i = piece->next; i < piece->end && ret >= 0; i = last + 1) {
		last = i;
		if (!walk_wants(&w, &region[i]))
			continue;
		for (; last + 1 < piece->end && last - i < WALK_SLICE &&
		     region[last + 1].addr - region[last].addr <= WALK_GAP; last++)
			;
		w.at = i;
		w.next = region[i].addr;
		do {
			ret = walk_slice(&w, region[last].addr + PMD_SIZE);
		} while (ret == 1 && !kthread_should_stop());
		if (ret >= 0)
			piece->next = last + 1;
	}
	/* What was looked at is not looked at twice. */
	while (ret < 0 && piece->next < piece->end && region[piece->next].addr < w.next)
		piece->next++;
	walk_end(&w, start);
	return ret >= 0;
}
