// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand: find the hot pages of the slow memory tier from a kernel thread.
 *
 * The thread walks the page tables of all processes, round after round, reads
 * and clears the Accessed bits of pages on slow nodes, and keeps the outcome in
 * the hotness table (hotness.c).  What was accessed often enough is handed to
 * tier_promote().  The application sees no hint fault, and neither scanning nor
 * migration is done in its context.
 *
 * Finding address spaces: by a cursor over process ids, like readdir() of /proc.
 * Nothing is hooked into fork, exec or exit.  An address space that is shared by
 * processes (CLONE_VM without CLONE_THREAD) is visited once for each; the table
 * counts a page once per round all the same.
 *
 * Holding locks: an address space is scanned in slices of KMMSCAND_SLICE page
 * tables (and at most KMMSCAND_SLICE_HOLES empty entries above them).  mmap_lock is
 * taken for reading, by trylock only, for one slice.  Between slices only mm_count
 * is held.  A process that exits during a slice leaves exit_mmap() to a kworker, by
 * mmput_async(): its memory is freed a little later than waitpid() returns.
 * Promotion happens between slices, with no lock held.
 *
 * No huge mapping is ever split here: the walker has a pmd_entry and no pte_entry
 * (walk_pmd_range() splits only for the latter), and what could be mapped by PUDs
 * (DAX, PFN maps), which walk_pud_range() would split, is left out by test_walk.
 *
 * Accessed bits are a shared resource:
 *  - Those of top-tier pages are not touched at all.
 *  - When the bit of a slow page is cleared, PG_young is set instead, as DAMON and
 *    page_idle do.  folio_referenced() counts PG_young as a reference, so reclaim
 *    does not take the page for idle.  PG_idle is cleared, as by everybody who finds
 *    the bit set, and never set.
 *  - MGLRU's aging walk looks at page tables only.  It does not see PG_young, so
 *    it does not promote what is accessed solely between our visit and its own to
 *    the youngest generation; eviction then sees PG_young and keeps the page.
 *    Bits that the aging walk clears before our visit are lost to us.
 *  - An mm with a secondary MMU (KVM) costs a notifier call for every entry of a
 *    slow page, because only the notifier knows what the guest has accessed.
 *  - A processor sets the bit again only when it walks the page table, so what
 *    stays in the TLB would look idle, and the hottest pages, in particular huge
 *    ones, do stay there.  Therefore an address space in which bits were cleared is
 *    flushed, once per round and not once per entry.  That is the TLB of the host:
 *    what a KVM guest's vCPU has cached of the secondary MMU is not flushed.
 *
 * Left out, in test_walk: hugetlb and PFN maps (nothing to migrate), DAX (device
 * memory), mlocked (not promoted, see promote.c), executable file maps (shared
 * libraries: moving them disturbs every process), sequential readers (by their own
 * word the pages are not used again), and memory that mempolicy or cpuset keeps off
 * the fast nodes.  A range armed by userfaultfd is not left out: clearing an
 * Accessed bit raises no fault, and migration preserves the uffd-wp bit.
 *
 * The CPU time of the thread, for scanning and migration together, is held at
 * KMMSCAND_CPU_PERCENT of one CPU by sleeping after every slice and every batch of
 * promotions (but see KMMSCAND_MAX_DEBT_NS).
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/cpuset.h>
#include <linux/dax.h>
#include <linux/freezer.h>
#include <linux/hugetlb.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/memory-tiers.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/page_idle.h>
#include <linux/pagewalk.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/coredump.h>
#include <linux/sched/cputime.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/sysfs.h>
#include <linux/tier.h>
#include <linux/vmstat.h>
#include <linux/wait.h>

#include <asm/tlbflush.h>

#include "events.h"
#include "hotness.h"

#define CREATE_TRACE_POINTS
#include <trace/events/kmmscand.h>

/* Page tables (or VMAs without any) per hold of mmap_lock */
#define KMMSCAND_SLICE		64
/* What a page table costs if each entry may be asked of a secondary MMU */
#define KMMSCAND_NOTIFY_COST	8
/* Empty upper-level entries and gaps between VMAs per hold */
#define KMMSCAND_SLICE_HOLES	16384
/* Candidates that a slice may collect: two page tables full */
#define KMMSCAND_CANDIDATES	(2 * PTRS_PER_PTE)
/* Base pages to promote (or one larger folio) before CPU time is looked at again */
#define KMMSCAND_PROMOTE_PAGES	512
/* Of one CPU */
#define KMMSCAND_CPU_PERCENT	10
/* Sleep when this much is owed; shorter sleeps would be rounded up to a tick */
#define KMMSCAND_SLEEP_NS	(20 * NSEC_PER_MSEC)
/*
 * Debt beyond this is forgiven.  Normally it stays far below.  But a guest is
 * charged for the time in which it waits for the TLB flush of a CPU that the host
 * does not run, and that should not stop promotion for minutes.
 */
#define KMMSCAND_MAX_DEBT_NS	NSEC_PER_SEC
/* How often to try a contended mmap_lock in one round, and the pause between */
#define KMMSCAND_LOCK_TRIES	4
#define KMMSCAND_LOCK_MSECS	10
/* How long to let kswapd make room before giving up for the round */
#define KMMSCAND_ROOM_TRIES	8	/* in a row, without any progress */
#define KMMSCAND_ROOM_MSECS	50
/* Rounds with room for everything before the threshold is lowered again */
#define KMMSCAND_CALM_ROUNDS	4

/* Tunables; written by sysfs, read by the thread at any time */
static unsigned int scan_period_ms = 1000;
static unsigned int hot_threshold = 3;

/* Serialises enabling and disabling; the thread never takes it */
static DEFINE_MUTEX(kmmscand_mutex);
static struct kmmscand *kmmscand;	/* NULL: disabled */

/* Only for sleeping until kthread_stop() */
static DECLARE_WAIT_QUEUE_HEAD(kmmscand_wait);

/* State of the thread, and used by nothing else while that runs */
struct kmmscand {
	struct task_struct *task;

	/* Topology, as of the start of the round */
	nodemask_t slow;
	nodemask_t top;
	nodemask_t full;		/* targets without room, this round */

	/* Round */
	u8 round;
	unsigned int threshold;		/* hot_threshold + pressure */
	unsigned int pressure;
	unsigned int calm;		/* rounds since a target was full */
	unsigned long mms;
	unsigned long ptes;
	unsigned long young;
	unsigned long candidates;
	unsigned long promoted;

	/* Address space */
	nodemask_t mm_nodes;		/* cpuset of the process */
	nodemask_t task_nodes;		/* ... and its task mempolicy */
	nodemask_t vma_nodes;		/* where this VMA's pages may go */
	int target[MAX_NUMNODES];	/* of a slow node, or NUMA_NO_NODE */

	bool cleared;			/* Accessed bits, so flush the TLB */

	/* Slice */
	unsigned int budget;
	unsigned int holes;
	unsigned long next;		/* address to resume at */
	unsigned long slice_ptes;
	unsigned long slice_young;
	unsigned long slice_candidates;
	unsigned int nr_ranges;
	struct tier_range ranges[KMMSCAND_CANDIDATES];

	/* CPU time */
	u64 runtime;			/* accounted so far */
	u64 owed;			/* sleep that is due, in ns */
};

/* Freezable sleep; returns early when the thread is to stop. */
static void kmmscand_sleep(struct kmmscand *s, unsigned int msecs)
{
	unsigned long start = jiffies;
	u64 slept;

	wait_event_freezable_timeout(kmmscand_wait, kthread_should_stop(),
				     msecs_to_jiffies(msecs));
	slept = jiffies_to_nsecs(jiffies - start);
	s->owed -= min(s->owed, slept);
}

/* Pay for the CPU time used since the last call. */
static void kmmscand_throttle(struct kmmscand *s)
{
	u64 now = task_sched_runtime(current);

	s->owed += div_u64((now - s->runtime) * (100 - KMMSCAND_CPU_PERCENT),
			   KMMSCAND_CPU_PERCENT);
	s->runtime = now;
	s->owed = min_t(u64, s->owed, KMMSCAND_MAX_DEBT_NS);

	if (s->owed >= KMMSCAND_SLEEP_NS)
		kmmscand_sleep(s, div_u64(s->owed, NSEC_PER_MSEC));
	cond_resched();
}

/* Nodes with memory, by tier.  Returns false if there is no slow one. */
static bool kmmscand_nodes(nodemask_t *slow, nodemask_t *top)
{
	int nid;

	nodes_clear(*slow);
	nodes_clear(*top);
	for_each_node_state(nid, N_MEMORY) {
		if (node_is_toptier(nid))
			node_set(nid, *top);
		else
			node_set(nid, *slow);
	}
	return !nodes_empty(*slow) && !nodes_empty(*top);
}

/* Nodes that a policy lets us move pages to. */
static void kmmscand_policy_nodes(struct mempolicy *pol, nodemask_t *nodes)
{
	switch (pol ? pol->mode : MPOL_DEFAULT) {
	case MPOL_BIND:
	case MPOL_PREFERRED:
	case MPOL_PREFERRED_MANY:
		*nodes = pol->nodes;
		break;
	case MPOL_INTERLEAVE:
	case MPOL_WEIGHTED_INTERLEAVE:
		/* Promotion would undo the spreading. */
		*nodes = NODE_MASK_NONE;
		break;
	default:
		*nodes = NODE_MASK_ALL;
	}
}

/*
 * For each slow node the nearest top-tier node that the process may use and that
 * is not full.  With demotion a node that is short of room is not full yet:
 * kswapd can make room, and kmmscand_promote() waits for that.
 */
static void kmmscand_pick_targets(struct kmmscand *s)
{
	int slow, nid;

	for_each_node_mask(nid, s->top) {
		if (!numa_demotion_enabled &&
		    !tier_target_has_room(nid, 0, SWAP_CLUSTER_MAX))
			node_set(nid, s->full);
	}

	for_each_node_mask(slow, s->slow) {
		int best = NUMA_NO_NODE;

		for_each_node_mask(nid, s->top) {
			if (!node_isset(nid, s->mm_nodes) || node_isset(nid, s->full))
				continue;
			if (best == NUMA_NO_NODE ||
			    node_distance(slow, nid) < node_distance(slow, best))
				best = nid;
		}
		s->target[slow] = best;
	}
}

/*
 * A slow folio was found accessed.  Called under the page-table lock, so the
 * mapping keeps the folio alive.
 */
static void kmmscand_accessed(struct kmmscand *s, struct hotness_cursor *cursor,
			      struct folio *folio)
{
	unsigned long pfn = folio_pfn(folio);
	unsigned int score;
	int nid;

	s->cleared = true;
	/*
	 * We took the Accessed bit away: leave word for reclaim (PG_young), and
	 * for DAMON and page_idle, which ask for the bit or the lack of PG_idle.
	 */
	if (!folio_test_young(folio))
		folio_set_young(folio);
	if (folio_test_idle(folio))
		folio_clear_idle(folio);
	s->slice_young++;

	score = hotness_touch(cursor, pfn, s->round);
	if (score < s->threshold)
		return;

	s->slice_candidates += folio_nr_pages(folio);
	nid = s->target[folio_nid(folio)];
	if (nid == NUMA_NO_NODE || !node_isset(nid, s->vma_nodes))
		return;

	/* pmd_entry() has made sure that there is room for a page table full. */
	s->ranges[s->nr_ranges++] = (struct tier_range) {
		.pfn = pfn,
		.nr = folio_nr_pages(folio),
		.nid = nid,
	};
}

static bool kmmscand_folio_slow(struct kmmscand *s, struct folio *folio)
{
	return folio && node_isset(folio_nid(folio), s->slow) &&
	       !folio_is_zone_device(folio);
}

static void kmmscand_huge_pmd(struct kmmscand *s, struct vm_area_struct *vma,
			      pmd_t *pmdp, unsigned long addr)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	struct hotness_cursor cursor = HOTNESS_CURSOR_INIT;
	pmd_t pmd = pmdp_get(pmdp);
	struct folio *folio;

	/* A migration entry: somebody is moving it just now. */
	if (!pmd_present(pmd))
		return;
	s->slice_ptes++;
	if (!pmd_young(pmd) && !mm_has_notifiers(vma->vm_mm))
		return;

	/* NULL for the huge zero folio */
	folio = vm_normal_folio_pmd(vma, addr, pmd);
	if (!kmmscand_folio_slow(s, folio))
		return;

	rcu_read_lock();
	if (pmdp_clear_young_notify(vma, addr & HPAGE_PMD_MASK, pmdp))
		kmmscand_accessed(s, &cursor, folio);
	rcu_read_unlock();
#endif
}

static int kmmscand_pmd_entry(pmd_t *pmd, unsigned long addr, unsigned long end,
			      struct mm_walk *walk)
{
	struct hotness_cursor cursor = HOTNESS_CURSOR_INIT;
	struct vm_area_struct *vma = walk->vma;
	struct kmmscand *s = walk->private;
	pte_t *start_pte, *pte;
	bool notifiers;
	spinlock_t *ptl;	/* of the PMD or of the page table */

	if (!s->budget || s->nr_ranges + PTRS_PER_PTE > KMMSCAND_CANDIDATES) {
		s->next = addr;
		return 1;
	}
	s->budget--;
	/* Never descend, never split. */
	walk->action = ACTION_CONTINUE;

	ptl = pmd_trans_huge_lock(pmd, vma);
	if (ptl) {
		__acquire(ptl);	/* for sparse; pmd_trans_huge_lock() lacks it */
		kmmscand_huge_pmd(s, vma, pmd, addr);
		spin_unlock(ptl);
		return 0;
	}

	/*
	 * Fails if the page table went away or became a huge mapping since we
	 * looked: come back in the next round.
	 */
	start_pte = pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl);
	if (!start_pte)
		return 0;

	/*
	 * A secondary MMU may know of accesses that the PTE does not show.  To
	 * ask it is expensive (KVM takes its mmu_lock for each entry).
	 */
	notifiers = mm_has_notifiers(vma->vm_mm);
	if (notifiers)
		s->budget -= min(s->budget, KMMSCAND_NOTIFY_COST - 1U);

	/*
	 * The cursor needs RCU: pte_offset_map_lock() has entered a read-side
	 * critical section, which pte_unmap_unlock() will leave.
	 */
	__acquire(RCU);		/* for sparse; the former lacks it */
	for (pte = start_pte; addr != end; pte++, addr += PAGE_SIZE) {
		pte_t ptent = ptep_get(pte);
		struct folio *folio;

		if (!pte_present(ptent))
			continue;
		s->slice_ptes++;
		if (!pte_young(ptent) && !notifiers)
			continue;

		folio = vm_normal_folio(vma, addr, ptent);
		if (!kmmscand_folio_slow(s, folio))
			continue;
		if (ptep_clear_young_notify(vma, addr, pte))
			kmmscand_accessed(s, &cursor, folio);
	}
	pte_unmap_unlock(start_pte, ptl);
	return 0;
}

/* Returns 1 to leave a VMA out, -EAGAIN when the slice is over. */
static int kmmscand_test_walk(unsigned long start, unsigned long end,
			      struct mm_walk *walk)
{
	struct vm_area_struct *vma = walk->vma;
	struct kmmscand *s = walk->private;
	struct mempolicy *pol;
	pgoff_t ilx;

	/* A VMA costs, too, also when it has no page tables. */
	if (!s->budget) {
		s->next = start;
		return -EAGAIN;
	}
	s->budget--;

	/* The reasons are in the header comment. */
	if (vma->vm_flags & (VM_PFNMAP | VM_IO | VM_LOCKED | VM_SEQ_READ))
		return 1;
	if (is_vm_hugetlb_page(vma) || vma_is_dax(vma))
		return 1;
	if (vma->vm_file && (vma->vm_flags & VM_EXEC))
		return 1;

	/*
	 * A policy of the VMA overrides that of the task.  Shared policies can
	 * differ inside one VMA; the one at its start stands for all.
	 */
	pol = __get_vma_policy(vma, vma->vm_start, &ilx);
	if (pol) {
		kmmscand_policy_nodes(pol, &s->vma_nodes);
		mpol_cond_put(pol);
	} else {
		s->vma_nodes = s->task_nodes;
	}
	if (!nodes_intersects(s->vma_nodes, s->top))
		return 1;
	return 0;
}

/* Without this a sparse address space could be walked for long in one slice. */
static int kmmscand_pte_hole(unsigned long addr, unsigned long next, int depth,
			     struct mm_walk *walk)
{
	struct kmmscand *s = walk->private;

	if (!s->holes) {
		s->next = addr;
		return 1;
	}
	s->holes--;
	return 0;
}

static const struct mm_walk_ops kmmscand_walk_ops = {
	.pmd_entry	= kmmscand_pmd_entry,
	.pte_hole	= kmmscand_pte_hole,
	.test_walk	= kmmscand_test_walk,
	.walk_lock	= PGWALK_RDLOCK,
};

/* Ranges, from @first on, that make up one batch. */
static unsigned int kmmscand_batch(struct kmmscand *s, unsigned int first)
{
	unsigned long pages = s->ranges[first].nr;
	unsigned int i;

	for (i = first + 1; i < s->nr_ranges; i++) {
		pages += s->ranges[i].nr;
		if (pages > KMMSCAND_PROMOTE_PAGES)
			break;
	}
	return i - first;
}

/*
 * Hand over the candidates of a slice.  No lock is held, and the candidates are
 * page frame numbers, so sleeping here holds up nobody.
 */
static void kmmscand_promote(struct kmmscand *s)
{
	unsigned int done = 0, tries = 0, batch, end, i;

	while (done < s->nr_ranges && !kthread_should_stop()) {
		struct tier_promote_stats stats = {};

		if (node_isset(s->ranges[done].nid, s->full)) {
			done++;
			continue;
		}
		batch = kmmscand_batch(s, done);
		end = done + tier_promote(s->ranges + done, batch, &stats);
		if (end > done)
			tries = 0;
		s->promoted += stats.moved;

		/*
		 * The frames that have been vacated will be reused, often for
		 * what is demoted next; it must not inherit the heat.  What
		 * failed for another reason than memory has to earn its score
		 * again, which keeps the thread from trying it every round.
		 */
		for (i = done; !stats.nomem && i < end; i++)
			hotness_forget(s->ranges[i].pfn);

		batch -= end - done;
		done = end;
		kmmscand_throttle(s);
		if (!batch)
			continue;

		/* No room.  If kswapd can demote, it has been woken: wait a bit. */
		if (numa_demotion_enabled && ++tries <= KMMSCAND_ROOM_TRIES)
			kmmscand_sleep(s, KMMSCAND_ROOM_MSECS);
		else
			node_set(s->ranges[done].nid, s->full);
	}
	s->nr_ranges = 0;
}

/* Scan one address space, of which we hold mm_count. */
static void kmmscand_scan_mm(struct kmmscand *s, struct mm_struct *mm)
{
	unsigned int misses = 0;
	int more;

	s->mms++;
	count_tier_events(KMMSCAND_MM_SCANNED, 1);
	s->next = 0;
	s->cleared = false;

	do {
		unsigned long addr = s->next;

		if (kthread_should_stop() || test_bit(MMF_UNSTABLE, &mm->flags))
			break;
		kmmscand_pick_targets(s);

		/* Fails when the last user has gone, and stays so. */
		if (!mmget_not_zero(mm))
			return;
		if (!mmap_read_trylock(mm)) {
			mmput_async(mm);
			if (++misses == KMMSCAND_LOCK_TRIES)
				break;
			kmmscand_sleep(s, KMMSCAND_LOCK_MSECS);
			more = 1;
			continue;
		}
		s->budget = KMMSCAND_SLICE;
		s->holes = KMMSCAND_SLICE_HOLES;
		s->slice_ptes = 0;
		s->slice_young = 0;
		s->slice_candidates = 0;
		/*
		 * Address space that was mapped or unmapped since the last slice
		 * does not matter: the walk looks up the VMA at addr.
		 */
		more = walk_page_range(mm, addr, ULONG_MAX, &kmmscand_walk_ops, s);
		mmap_read_unlock(mm);
		/* _async: if we are the last user, exit_mmap() is not ours to do */
		mmput_async(mm);

		count_tier_events(KMMSCAND_PTE_SCANNED, s->slice_ptes);
		count_tier_events(KMMSCAND_PTE_YOUNG, s->slice_young);
		count_tier_events(KMMSCAND_CANDIDATE, s->slice_candidates);
		s->ptes += s->slice_ptes;
		s->young += s->slice_young;
		s->candidates += s->slice_candidates;

		kmmscand_promote(s);
		kmmscand_throttle(s);
	} while (more);

	/*
	 * Nothing depends on this but the next round's view.  mm_count is enough:
	 * for an address space that has been torn down it is only superfluous.
	 */
	if (s->cleared)
		flush_tlb_mm(mm);
}

/*
 * The address space of the first process with an id of *nr or above, with
 * mm_count raised, or NULL if the process has none to scan.  *nr becomes that
 * process's id, or 0 if there is no further one.
 */
static struct mm_struct *kmmscand_get_mm(struct kmmscand *s, int *nr)
{
	struct task_struct *leader = NULL, *task = NULL, *t;
	struct mm_struct *mm = NULL;
	struct pid *pid;

	rcu_read_lock();
	pid = find_ge_pid(*nr, &init_pid_ns);
	*nr = pid ? pid_nr(pid) : 0;
	/* Threads other than the group leader have no PIDTYPE_TGID. */
	if (pid)
		leader = pid_task(pid, PIDTYPE_TGID);
	if (leader) {
		/* The leader may have exited before its other threads. */
		for_each_thread(leader, t) {
			/* NULL for kernel threads, also those that borrow an mm */
			mm = get_task_mm(t);
			if (mm) {
				task = t;
				get_task_struct(task);
				break;
			}
		}
	}
	rcu_read_unlock();
	if (!mm)
		return NULL;
	mmgrab(mm);
	mmput_async(mm);

	/* task_lock() keeps the policy, which stands for all threads'. */
	task_lock(task);
	kmmscand_policy_nodes(task->mempolicy, &s->task_nodes);
	task_unlock(task);
	s->mm_nodes = cpuset_mems_allowed(task);
	put_task_struct(task);
	return mm;
}

/*
 * With a fixed threshold the fast nodes fill up with lukewarm pages.  So ask for
 * one point more after every round in which a target ran out of room.  Relent
 * after some rounds in which none did and there is room: with demotion it is kswapd
 * that keeps it, and never more than up to the promo watermark.
 */
static void kmmscand_adapt(struct kmmscand *s)
{
	int nid;

	if (!nodes_empty(s->full)) {
		s->pressure++;
		s->calm = 0;
		return;
	}
	if (!s->pressure || ++s->calm < KMMSCAND_CALM_ROUNDS)
		return;
	for_each_node_mask(nid, s->top) {
		if (numa_demotion_enabled ||
		    tier_target_headroom(nid) > node_present_pages(nid) / 64) {
			s->pressure--;
			s->calm = 0;
			return;
		}
	}
}

static void kmmscand_round(struct kmmscand *s)
{
	unsigned long start = jiffies;
	nodemask_t old_slow = s->slow;
	struct mm_struct *mm;
	unsigned int base;
	bool sweep;
	int nr;

	s->round++;
	s->mms = 0;
	s->ptes = 0;
	s->young = 0;
	s->candidates = 0;
	s->promoted = 0;
	nodes_clear(s->full);

	/* Also when there is nothing to scan, so that no stamp gets too old. */
	sweep = !(s->round % HOTNESS_SWEEP_ROUNDS);
	if (sweep)
		hotness_sweep(s->round);

	/* Tiers can change at run time, when nodes or their attributes do. */
	if (!kmmscand_nodes(&s->slow, &s->top))
		return;
	/* With the sweep, try again to add what could not be allocated before. */
	if ((sweep || !nodes_equal(s->slow, old_slow)) && hotness_populate(&s->slow))
		pr_warn_once("no memory for parts of the hotness table\n");

	/* The highest score must stay enough, or nothing could be promoted. */
	base = READ_ONCE(hot_threshold);
	s->pressure = min(s->pressure, HOTNESS_MAX_SCORE - base);
	s->threshold = base + s->pressure;

	for (nr = 1; !kthread_should_stop(); nr++) {
		mm = kmmscand_get_mm(s, &nr);
		if (!nr)
			break;
		if (mm) {
			kmmscand_scan_mm(s, mm);
			mmdrop(mm);
		}
		cond_resched();
	}

	kmmscand_adapt(s);
	trace_kmmscand_round(s->round, s->mms, s->ptes, s->young, s->candidates,
			     s->promoted, s->threshold, !nodes_empty(s->full),
			     jiffies_to_msecs(jiffies - start));
}

static int kmmscand_thread(void *data)
{
	struct kmmscand *s = data;

	set_freezable();
	s->runtime = task_sched_runtime(current);

	while (!kthread_should_stop()) {
		unsigned long start = jiffies, period, spent;

		kmmscand_round(s);
		kmmscand_throttle(s);

		period = msecs_to_jiffies(READ_ONCE(scan_period_ms));
		spent = jiffies - start;
		if (spent < period)
			kmmscand_sleep(s, jiffies_to_msecs(period - spent));
	}
	return 0;
}

static int kmmscand_start(void)
{
	struct task_struct *task;
	struct kmmscand *s;
	int err;

	lockdep_assert_held(&kmmscand_mutex);

	if (kmmscand)
		return 0;

	/* Where software sets the bit, each one that we clear costs a fault. */
	if (!arch_has_hw_pte_young()) {
		pr_warn("the processor does not set Accessed bits by itself, scanning would cost page faults\n");
		return -EOPNOTSUPP;
	}

	s = kvzalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return -ENOMEM;

	if (!kmmscand_nodes(&s->slow, &s->top)) {
		pr_warn("no slow memory node, nothing to promote: check /sys/devices/virtual/memory_tiering/, and that firmware (HMAT) or a driver (kmem) tells how fast the nodes are\n");
		err = -ENODEV;
		goto free;
	}
	err = hotness_enable(&s->slow);
	if (err)
		goto free;

	task = kthread_create(kmmscand_thread, s, "kmmscand");
	if (IS_ERR(task)) {
		err = PTR_ERR(task);
		goto disable;
	}
	set_user_nice(task, 10);
	s->task = task;
	kmmscand = s;
	tier_promoter_get();
	wake_up_process(task);
	return 0;

disable:
	hotness_disable();
free:
	kvfree(s);
	return err;
}

static void kmmscand_stop(void)
{
	lockdep_assert_held(&kmmscand_mutex);

	if (!kmmscand)
		return;
	/* Waits for the end of the slice; nothing uses the state after that. */
	kthread_stop(kmmscand->task);
	tier_promoter_put();
	hotness_disable();
	kvfree(kmmscand);
	kmmscand = NULL;
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", !!READ_ONCE(kmmscand));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool enable = sysfs_streq(buf, "1");
	int err = 0;

	/* kstrtobool() would take "yes", "offer" and more. */
	if (!enable && !sysfs_streq(buf, "0"))
		return -EINVAL;

	mutex_lock(&kmmscand_mutex);
	if (enable)
		err = kmmscand_start();
	else
		kmmscand_stop();
	mutex_unlock(&kmmscand_mutex);
	return err ?: count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

static ssize_t kmmscand_store_uint(const char *buf, size_t count, unsigned int *var,
				   unsigned int min, unsigned int max)
{
	unsigned int val;

	if (kstrtouint(buf, 10, &val) || val < min || val > max)
		return -EINVAL;
	WRITE_ONCE(*var, val);
	return count;
}

static ssize_t scan_period_ms_show(struct kobject *kobj, struct kobj_attribute *attr,
				   char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(scan_period_ms));
}

static ssize_t scan_period_ms_store(struct kobject *kobj, struct kobj_attribute *attr,
				    const char *buf, size_t count)
{
	return kmmscand_store_uint(buf, count, &scan_period_ms, 100, 60000);
}

static struct kobj_attribute scan_period_ms_attr = __ATTR_RW(scan_period_ms);

static ssize_t hot_threshold_show(struct kobject *kobj, struct kobj_attribute *attr,
				  char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(hot_threshold));
}

static ssize_t hot_threshold_store(struct kobject *kobj, struct kobj_attribute *attr,
				   const char *buf, size_t count)
{
	return kmmscand_store_uint(buf, count, &hot_threshold, 1, HOTNESS_MAX_SCORE);
}

static struct kobj_attribute hot_threshold_attr = __ATTR_RW(hot_threshold);

static struct attribute *kmmscand_attrs[] = {
	&enabled_attr.attr,
	&scan_period_ms_attr.attr,
	&hot_threshold_attr.attr,
	NULL
};

static const struct attribute_group kmmscand_attr_group = {
	.name	= "kmmscand",
	.attrs	= kmmscand_attrs,
};

static int __init kmmscand_init(void)
{
	return sysfs_create_group(mm_kobj, &kmmscand_attr_group);
}
late_initcall(kmmscand_init);
