// SPDX-License-Identifier: GPL-2.0
/*
 * Walks of kmmscand over an address space: read and clear the Accessed bits of its slow
 * pages, tell the hotness table, and leave everything else as it was.
 *
 * What is asked in a walk (enum kmmscand_look) is one of two questions.  What has been
 * accessed since the last pass?  Or, where the answer would be everything: what is
 * accessed within a short window, and in the next one again?  For the latter a piece of
 * the address space is walked three times, by close.c: once to clear the bits, and
 * twice, a window later each, to read and clear them; huge pages a few times more.
 *
 * Holding locks: an address space is scanned in slices of KMMSCAND_SLICE page
 * tables (and at most KMMSCAND_SLICE_HOLES empty entries above them), or of
 * KMMSCAND_SLICE_NS, or until somebody waits for mmap_lock, whichever is first; but of
 * one page table at least.  mmap_lock is taken for reading, by trylock only, for one
 * slice.  A walk that finds it taken sleeps at most KMMSCAND_LOCK_TRIES times for a moment; then
 * the pass is left, is tried once more at the end of the round, and goes on in the next round
 * where it was.
 *
 * mm_users is never taken, only mm_count.  exit_mmap() unmaps with mmap_lock held for
 * reading, as we walk, and needs it for writing before it frees page tables.  So a process
 * that exits during a slice waits for the end of that at most, and frees its memory itself.
 *
 * No huge mapping is ever split here: the walker has a pmd_entry and no pte_entry
 * (walk_pmd_range() splits only for the latter), and what could be mapped by PUDs
 * (DAX, PFN maps), which walk_pud_range() would split, is left out by test_walk.
 *
 * Accessed bits are a shared resource:
 *  - Those of top-tier pages are not touched at all.
 *  - When the bit of a slow page is cleared, reclaim is told instead: PG_young is set
 *    (folio_referenced() counts it), and with MGLRU the folio moves to the youngest
 *    generation, as MGLRU's own walks do, which look at page tables and not at
 *    PG_young.  PG_idle is cleared, as by everybody who finds the bit set, and never
 *    set.  In the other direction MGLRU's walks report the slow pages whose bits they
 *    clear, and so does folio_referenced() (kmmscand_folio_accessed()), so they are not
 *    lost to us either.
 *  - The Accessed bit of an upper-level entry says whether the processor has walked to
 *    the page table below it.  If not, the page table is skipped, but for one pass
 *    in KMMSCAND_FULL_PASSES.  MGLRU skips it, too, so the bit is cleared only when no
 *    fast page below has an Accessed bit set, which MGLRU has yet to see; of the slow
 *    ones it has been told already.  Between reading the entries and the flush of the TLB an
 *    access may slip through, as it may in MGLRU's own walks; it is noticed when the processor
 *    next walks to any page of the table, by folio_referenced(), or in our next full pass.
 *    MGLRU for its part clears the bit without looking at pages of other nodes.  It tells
 *    that it did (kmmscand_page_table_aged()), and a pass that follows skips nothing.
 *  - An mm with a secondary MMU (KVM) costs a notifier call for every entry of a
 *    slow page, because only the notifier knows what the guest has accessed; or
 *    one for each page table, if it can be asked so (include/linux/mmu_age.h).
 *  - A processor sets the bit again only when it walks the page table, so what
 *    stays in the TLB would look idle, and the hottest pages, in particular huge
 *    ones, do stay there.  Therefore an address space in which bits were cleared is
 *    flushed, once per walk and not once per entry; in one that is not close also after half
 *    an epoch, or what was cleared at its beginning would have no time until the next
 *    pass, if that follows at once.  The host's TLB is flushed if a bit of the host's page
 *    tables was cleared, the TLBs of KVM's vCPUs if a bit of KVM's page tables was.
 *  - A bit that nobody has cleared is as old as the mapping.  So the first pass
 *    only clears; what a bit says is known from the second on.  Where a window is
 *    used, it is known from the first one on.
 *
 * Left out, in test_walk: hugetlb and PFN maps (nothing to migrate), DAX (a file's
 * blocks are where its file system has put them), mlocked (not promoted, see promote.c),
 * executable file maps (shared libraries: moving them disturbs every process), what MGLRU
 * looks at no accesses of (vma_has_recency(): sequential and random reads by their own word;
 * tier_demote() would take it at once), and memory that mempolicy or cpuset does not let go
 * to any fast node (what may go to some of them is up to target.c).  A range armed by
 * userfaultfd is not left out: clearing an Accessed bit raises no fault, and migration
 * preserves the uffd-wp bit.  Pages that tier_promote() would refuse are cleared, but not
 * counted.
 *
 * Other device memory is its driver's to migrate, and on no LRU.  Device-private pages are
 * not present: an access is a fault, by which they come back.  Device-coherent ones are
 * passed over one by one, as a VMA can have ordinary pages, too.
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/cpuset.h>
#include <linux/dax.h>
#include <linux/delay.h>
#include <linux/hugetlb.h>
#include <linux/kmmscand.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/memory-tiers.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_age.h>
#include <linux/page_idle.h>
#include <linux/pagewalk.h>
#include <linux/sched/clock.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/swap.h>
#include <linux/tier.h>
#include <linux/tier_policy.h>

#include <asm/tlbflush.h>

#include "../../internal.h"
#include "control.h"
#include "events.h"
#include "fault.h"
#include "hotness.h"
#include "kmmscand.h"
#include "decide.h"
#include "target.h"

/* Page tables (or VMAs without any) per hold of mmap_lock */
#define KMMSCAND_SLICE		64
/* And how long, but for one page table */
#define KMMSCAND_SLICE_NS	NSEC_PER_MSEC
/* What a page table costs if each entry may be asked of a secondary MMU */
#define KMMSCAND_NOTIFY_COST	8
/* What one costs that is skipped */
#define KMMSCAND_SKIPS		16
/* Empty upper-level entries and gaps between VMAs per hold */
#define KMMSCAND_SLICE_HOLES	16384
/* A page table that the processor has not walked is read in one turn of so many */
#define KMMSCAND_FULL_PASSES	64

/* Visits in a row after which an address space that could not be judged is left out */
#define KMMSCAND_UNJUDGED	3
/* Entries whose Accessed bits are tested at once; a page table has a multiple of them */
#define KMMSCAND_AT_ONCE	8
/* Sleeps for mmap_lock in a walk */
#define KMMSCAND_LOCK_TRIES	64
#define KMMSCAND_LOCK_USECS	50

/* Epoch in which MGLRU has cleared the bit of an upper-level entry the last time */
static unsigned int kmmscand_table_aged;

/* The youngest generation of the last folio's memcg and node.  Neighbours have the same. */
struct kmmscand_youngest {
	struct mem_cgroup *memcg;
	int nid;			/* or NUMA_NO_NODE */
	int gen;
};

struct kmmscand_walk {
	struct kmmscand_pass *pass;
	enum kmmscand_look look;
	unsigned long next;		/* address */
	bool skip;			/* page tables may be skipped */

	/*
	 * Frames of slow nodes and of no others lie in [slow_start, slow_start +
	 * slow_len), if the nodes do not overlap; else slow_len is 0.  So most
	 * entries need no look at the page.
	 */
	unsigned long slow_start;
	unsigned long slow_len;

	/* Of this page table: the epoch to which belongs what is found, and what is known */
	unsigned int epoch;
	struct hotness_look table;
	struct kmmscand_youngest youngest;

	unsigned int cleared;		/* whose Accessed bits, so whose TLBs to flush */

	u8 aim;				/* where pages of this VMA should go, see target.h */
	bool by_index;			/* the policy of this VMA depends on the address */

	/* Slice */
	bool walked;			/* a page table */
	unsigned int budget;
	u64 until;			/* local_clock() */
	unsigned int skips;
	unsigned int holes;
	unsigned int tries;		/* sleeps for mmap_lock that are left */

	unsigned long again;		/* entries looked at in a burst; no part of the pass */
	unsigned int warm;		/* score that may be promoted at all */
	int hot_nid;			/* last slow node that mattered */
	unsigned int hot;		/* score that is promoted from there */

	struct mmu_age age;		/* what secondary MMUs know of this page table */
};

/*
 * Find the frames that belong to slow nodes only.
 */
static void kmmscand_slow_range(struct kmmscand_walk *w)
{
	const struct kmmscand_nodes *nodes = w->pass->nodes;
	unsigned long start = ULONG_MAX, end = 0;
	int nid;

	w->slow_start = 0;
	w->slow_len = 0;
	for_each_node_mask(nid, nodes->slow) {
		start = min(start, node_start_pfn(nid));
		end = max(end, node_end_pfn(nid));
	}
	for_each_node_mask(nid, nodes->top) {
		if (node_start_pfn(nid) < end && start < node_end_pfn(nid))
			return;
	}
	if (start < end) {
		w->slow_start = start;
		w->slow_len = end - start;
	}
}

/* vm_normal_folio(), for a present entry of what test_walk has not left out */
static __always_inline struct folio *kmmscand_folio(struct kmmscand_walk *w,
						    struct vm_area_struct *vma,
						    unsigned long addr, pte_t pte)
{
	/* Where entries say that they are special, all others of our frames have a page. */
	if (!IS_ENABLED(CONFIG_ARCH_HAS_PTE_SPECIAL) || pte_special(pte) || pte_devmap(pte) ||
	    pte_pfn(pte) - w->slow_start >= w->slow_len)
		return vm_normal_folio(vma, addr, pte);
	return pfn_folio(pte_pfn(pte));
}

static __always_inline bool kmmscand_folio_slow(struct kmmscand_walk *w, struct folio *folio)
{
	return folio && node_isset(folio_nid(folio), w->pass->nodes->slow) &&
	       !folio_is_zone_device(folio);
}

#ifdef CONFIG_LRU_GEN
/* Under RCU, which keeps the memcg. */
static __always_inline int kmmscand_youngest_gen(struct kmmscand_walk *w, struct folio *folio)
{
	struct mem_cgroup *memcg = folio_memcg(folio);
	int nid = folio_nid(folio);

	if (w->youngest.memcg != memcg || w->youngest.nid != nid) {
		const struct lruvec *lruvec = mem_cgroup_lruvec(memcg, folio_pgdat(folio));

		w->youngest.memcg = memcg;
		w->youngest.nid = nid;
		w->youngest.gen = lru_gen_from_seq(READ_ONCE(lruvec->lrugen.max_seq));
	}
	return w->youngest.gen;
}
#endif

/*
 * We took the Accessed bit away: leave word for reclaim, and for DAMON and page_idle,
 * which ask for the bit or the lack of PG_idle.
 */
static __always_inline void kmmscand_hand_back(struct kmmscand_walk *w, struct folio *folio)
{
	if (kmmscand_fault(YOUNG))
		return;
	if (!folio_test_young(folio))
		folio_set_young(folio);
	if (folio_test_idle(folio))
		folio_clear_idle(folio);

#ifdef CONFIG_LRU_GEN
	if (lru_gen_enabled()) {
		int gen = folio_lru_gen(folio);

		/* Isolated by somebody, who looks at PG_referenced */
		if (gen < 0) {
			if (!folio_test_referenced(folio))
				folio_set_referenced(folio);
			return;
		}
		/*
		 * The generation may change just now, and the folio may move to
		 * another memcg.  Then it is activated once too often, or not at all
		 * although a generation has just begun.
		 */
		if (gen != kmmscand_youngest_gen(w, folio)) {
			folio_clear_lru_refs(folio);
			folio_activate(folio);
		}
	}
#endif
}

/* The first walk over a part of the address space in a pass, that is */
static bool kmmscand_begins(enum kmmscand_look look)
{
	return look == KMMSCAND_SINCE || look == KMMSCAND_CLEAR;
}

/* As in tier_may_promote(), and as cheap as it must be here */
static __always_inline bool kmmscand_may_move(struct folio *folio)
{
	return !folio_test_unevictable(folio) && !folio_test_ksm(folio) &&
	       !(folio_is_file_lru(folio) && folio_test_dirty(folio)) &&
	       !folio_maybe_dma_pinned(folio);
}

/*
 * The caller is under RCU, and must not leave it before it has done with the page table.
 * An epoch that begins meanwhile begins with the next one.
 */
static void kmmscand_start_table(struct kmmscand_walk *w)
{
	const struct kmmscand_pass *pass = w->pass;
	const bool since = w->look == KMMSCAND_SINCE;

	w->epoch = since ? hotness_epoch() : pass->looked;
	hotness_look_start(&w->table, w->epoch, w->look != KMMSCAND_FIRST, !since, pass->shift);
	w->youngest.nid = NUMA_NO_NODE;
}

/* Is a score of a page on a slow node high enough to be promoted? */
static __always_inline bool kmmscand_is_hot(struct kmmscand_walk *w, int nid, unsigned int score)
{
	if (w->hot_nid != nid) {
		w->hot_nid = nid;
		w->hot = kpromoted_threshold(nid);
	}
	return score >= w->hot;
}

/*
 * A slow folio was found accessed.  Called under the page-table lock, so the
 * mapping keeps the folio alive, and under RCU.  True if it may be promoted soon.
 * Inlined, as are the small ones that it calls: most of what a scanner executes is here.
 */
static __always_inline bool kmmscand_accessed(struct kmmscand_walk *w, struct folio *folio)
{
	struct kmmscand_pass *pass = w->pass;
	unsigned long pfn = folio_pfn(folio);
	unsigned int score;

	pass->young += w->look != KMMSCAND_AGAIN;
	kmmscand_hand_back(w, folio);
	if (w->look == KMMSCAND_CLEAR || w->look == KMMSCAND_AGAIN || !kmmscand_may_move(folio))
		return false;
	/* Where to?  Nothing is promoted before that is known. */
	if (pass->vote == TARGET_WAIT)
		return false;
	if (target_matters())
		hotness_aim(pfn, w->epoch, w->look != KMMSCAND_FIRST, w->aim,
			    folio_likely_mapped_shared(folio));
	score = hotness_look_touch(&w->table, pfn);
	if (!score)
		return false;
	/* A page is counted once in a pass. */
	if (w->look == KMMSCAND_FIRST) {
		pass->first++;
		return false;
	}
	pass->both += w->look == KMMSCAND_SECOND && hotness_look_again(&w->table);
	pass->touched++;
	pass->warm += score >= w->warm;
	pass->hot += kmmscand_is_hot(w, folio_nid(folio), score);
	return score >= w->warm;
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/* A huge page has not been accessed in a look of a burst: nothing was found in this visit. */
static void kmmscand_retract(struct kmmscand_walk *w, struct folio *folio)
{
	struct kmmscand_pass *pass = w->pass;
	unsigned int score;

	/* With other mappings it is not known by which one it was found. */
	if (folio_likely_mapped_shared(folio))
		return;
	score = hotness_retract(folio_pfn(folio), pass->looked, pass->shift);
	if (!score)
		return;
	/* Somebody else may have recorded it, or the threshold was another one. */
	pass->touched -= !!pass->touched;
	pass->warm -= pass->warm && score >= w->warm;
	pass->hot -= pass->hot && kmmscand_is_hot(w, folio_nid(folio), score);
}
#endif

static void kmmscand_huge_pmd(struct kmmscand_walk *w, struct vm_area_struct *vma,
			      pmd_t *pmdp, unsigned long addr)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	pmd_t pmd = pmdp_get(pmdp);
	struct folio *folio;
	unsigned int young;
	bool warm;

	/* A migration entry: somebody is moving it just now. */
	if (!pmd_present(pmd))
		return;
	w->pass->ptes += w->look != KMMSCAND_AGAIN;
	w->pass->mapped += kmmscand_begins(w->look);
	w->again += w->look == KMMSCAND_AGAIN;
	if (!pmd_young(pmd) && !mmu_age_secondary(vma->vm_mm) && w->look != KMMSCAND_AGAIN)
		return;

	/* NULL for the huge zero folio */
	folio = vm_normal_folio_pmd(vma, addr, pmd);
	if (!kmmscand_folio_slow(w, folio))
		return;

	rcu_read_lock();
	kmmscand_start_table(w);
	addr &= HPAGE_PMD_MASK;
	young = pmdp_test_and_clear_young(vma, addr, pmdp) ? MMU_AGE_CPU : 0;
	if (mmu_age_clear_secondary(vma->vm_mm, addr, addr + HPAGE_PMD_SIZE))
		young |= MMU_AGE_SECONDARY;
	w->cleared |= young;
	warm = young && kmmscand_accessed(w, folio);
	if (w->look == KMMSCAND_AGAIN) {
		if (!young && !kmmscand_fault(BURST))
			kmmscand_retract(w, folio);
		warm = hotness_found(folio_pfn(folio), w->pass->looked, true);
	}
	w->pass->huge += warm && !folio_likely_mapped_shared(folio);
	rcu_read_unlock();
#endif
}

/* Is a page table of another part than the one whose turn it is? */
static bool kmmscand_other_part(const struct kmmscand_pass *pass, unsigned long addr)
{
	return kmmscand_turn(addr >> PMD_SHIFT, pass->number) & (BIT(pass->part) - 1);
}

/* May this page table be skipped?  The entry is only read; it may change any time. */
static bool kmmscand_not_walked(struct kmmscand_walk *w, pmd_t *pmd, unsigned long addr)
{
	struct kmmscand_pass *pass = w->pass;
	bool begins = kmmscand_begins(w->look);
	pmd_t val;

	if (w->look == KMMSCAND_AGAIN)
		return !pmd_trans_huge(pmdp_get_lockless(pmd));
	/* Signed, because epochs wrap */
	if (!w->skip || (int)(READ_ONCE(kmmscand_table_aged) -
			      (begins ? pass->seen : pass->epoch)) >= 0)
		return false;
	if (begins && !((kmmscand_turn(addr >> PMD_SHIFT, pass->number) >> pass->part) %
			KMMSCAND_FULL_PASSES))
		return false;
	val = pmdp_get_lockless(pmd);
	return pmd_present(val) && !pmd_trans_huge(val) &&
	       (!pmd_young(val) || kmmscand_fault(SKIP));
}

/**
 * kmmscand_policy_nodes - nodes that a policy lets us move pages to
 * @pol:   NULL for the default; kept by the caller
 * @nodes: result
 *
 * Context: any.
 */
void kmmscand_policy_nodes(struct mempolicy *pol, nodemask_t *nodes)
{
	int nid;

	nodes_clear(*nodes);
	for_each_node_state(nid, N_MEMORY)
		if (tier_policy_allows(pol, nid))
			node_set(nid, *nodes);
}

/**
 * kmmscand_task_policy - nodes that the tasks of a process let us move pages to
 * @pass: address space, and result
 *
 * What is decided here spares work.  Each mapping is asked again when its page is promoted.
 *
 * Context: its scanner.
 */
void kmmscand_task_policy(struct kmmscand_pass *pass)
{
	/* What cannot be judged is refused each time, at the cost of what may be promoted. */
	const bool left_out = pass->unjudged == KMMSCAND_UNJUDGED;
	enum tier_answer cpuset, tasks;
	bool judged = true;
	int nid;

	nodes_clear(pass->cpuset);
	nodes_clear(pass->policy);
	for_each_node_mask(nid, pass->nodes->top) {
		cpuset = tier_mm_answer(pass->mm, nid, false);
		tasks = tier_mm_answer(pass->mm, nid, true);
		judged &= tasks != TIER_NOT_KNOWN;
		if (cpuset == TIER_ALLOWS || (cpuset == TIER_NOT_KNOWN && !left_out))
			node_set(nid, pass->cpuset);
		if (tasks == TIER_ALLOWS || (tasks == TIER_NOT_KNOWN && !left_out))
			node_set(nid, pass->policy);
	}
	pass->unjudged = judged ? 0 : pass->unjudged + !left_out;
}

/* May anything at this address go to a fast node, and to which one first? */
static bool kmmscand_allowed(struct kmmscand_walk *w, struct vm_area_struct *vma,
			     unsigned long addr)
{
	nodemask_t nodes = w->pass->policy;
	struct mempolicy *pol;
	pgoff_t ilx;

	if (kmmscand_fault(POLICY)) {
		nodes = w->pass->nodes->top;
	} else {
		/* It comes before those of tasks, but never before the cpuset. */
		pol = __get_vma_policy(vma, addr, &ilx);
		if (pol) {
			kmmscand_policy_nodes(pol, &nodes);
			mpol_cond_put(pol);
		}
		nodes_and(nodes, nodes, w->pass->cpuset);
	}
	if (!target_matters())
		return nodes_subset(w->pass->nodes->top, nodes);
	w->aim = target_aim(w->pass->vote, &nodes);
	return w->aim;
}

/* Passed over; many of these cost as much as a page table. */
static int kmmscand_skip(struct kmmscand_walk *w)
{
	if (!w->skips--) {
		w->skips = KMMSCAND_SKIPS;
		w->budget--;
	}
	return 0;
}

/* Ask secondary MMUs at once about those pages of a page table that may be promoted. */
static void kmmscand_ask(struct kmmscand_walk *w, struct vm_area_struct *vma, pte_t *pte,
			 unsigned long addr, unsigned long end)
{
	const unsigned long slow_start = w->slow_start, slow_len = w->slow_len ?: ULONG_MAX;

	mmu_age_table(&w->age, addr);
	for (; addr != end; pte++, addr += PAGE_SIZE) {
		pte_t ptent = ptep_get(pte);

		if (pte_present(ptent) && pte_pfn(ptent) - slow_start < slow_len &&
		    kmmscand_folio_slow(w, kmmscand_folio(w, vma, addr, ptent)))
			mmu_age_add(&w->age, addr);
	}
	mmu_age_ask(&w->age, vma->vm_mm);
}

/*
 * Has none of the next entries an Accessed bit?  An entry that is not present may have the bit set,
 * so this is a filter.  Adds to @absent if all are empty.
 */
static __always_inline bool kmmscand_all_old(pte_t *pte, unsigned long *absent)
{
	__typeof__(pte_val(*pte)) bits = 0;
	unsigned int i;

	for (i = 0; i < KMMSCAND_AT_ONCE; i++)
		bits |= pte_val(ptep_get(pte + i));
	if (!bits)
		*absent += KMMSCAND_AT_ONCE;
	return !pte_young(__pte(bits));
}

static int kmmscand_pmd_entry(pmd_t *pmd, unsigned long addr, unsigned long end,
			      struct mm_walk *walk)
{
	struct vm_area_struct *vma = walk->vma;
	struct kmmscand_walk *w = walk->private;
	const unsigned long slow_start = w->slow_start, slow_len = w->slow_len ?: ULONG_MAX;
	unsigned long start = addr, absent = 0;
	bool other, quiet = w->slow_len;
	pte_t *start_pte, *pte;
	spinlock_t *ptl;	/* of the PMD or of the page table */

	if (!w->budget || (w->walked && (mmap_lock_is_contended(vma->vm_mm) ||
					 local_clock() > w->until))) {
		w->next = addr;
		return 1;
	}
	/* Never descend, never split. */
	walk->action = ACTION_CONTINUE;

	other = kmmscand_other_part(w->pass, addr);
	if (other || kmmscand_not_walked(w, pmd, addr)) {
		w->pass->skipped += !other && w->look != KMMSCAND_AGAIN;
		return kmmscand_skip(w);
	}
	if (w->by_index && !kmmscand_allowed(w, vma, addr))
		return kmmscand_skip(w);
	w->budget--;
	w->walked = true;

	ptl = pmd_trans_huge_lock(pmd, vma);
	if (ptl) {
		__acquire(ptl);	/* for sparse; pmd_trans_huge_lock() lacks it */
		kmmscand_huge_pmd(w, vma, pmd, addr);
		spin_unlock(ptl);
		return 0;
	}

	/*
	 * Fails if the page table went away or became a huge mapping since we
	 * looked: come back at the next visit.
	 */
	start_pte = pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl);
	if (!start_pte)
		return 0;

	/*
	 * A secondary MMU may know of accesses that the PTE does not show.  It is asked once, or
	 * about each entry, which is expensive (KVM takes its mmu_lock for each).
	 */
	mmu_age_begin(&w->age, vma->vm_mm);
	if (mmu_age_by_range(&w->age))
		kmmscand_ask(w, vma, start_pte, addr, end);
	else if (w->age.secondary)
		w->budget -= min(w->budget, KMMSCAND_NOTIFY_COST - 1U);

	/*
	 * kmmscand_accessed() needs RCU: pte_offset_map_lock() has entered a
	 * read-side critical section, which pte_unmap_unlock() will leave.
	 */
	__acquire(RCU);		/* for sparse; the former lacks it */
	kmmscand_start_table(w);
	for (pte = start_pte; addr != end; pte++, addr += PAGE_SIZE) {
		struct folio *folio;
		unsigned int young;
		pte_t ptent;

		/* Most entries end here. */
		if (!w->age.secondary && !((addr >> PAGE_SHIFT) % KMMSCAND_AT_ONCE) &&
		    end - addr >= KMMSCAND_AT_ONCE * PAGE_SIZE && kmmscand_all_old(pte, &absent)) {
			pte += KMMSCAND_AT_ONCE - 1;
			addr += (KMMSCAND_AT_ONCE - 1) * PAGE_SIZE;
			continue;
		}
		ptent = ptep_get(pte);
		if (!pte_present(ptent)) {
			absent++;
			continue;
		}
		if (mmu_age_idle(&w->age, addr, ptent))
			continue;
		/* Certainly not on a slow node? */
		if (pte_pfn(ptent) - slow_start >= slow_len) {
			quiet = false;
			continue;
		}
		folio = kmmscand_folio(w, vma, addr, ptent);
		if (!kmmscand_folio_slow(w, folio))
			continue;
		young = mmu_age_clear_young(&w->age, vma, addr, pte);
		w->cleared |= young;
		if (young)
			kmmscand_accessed(w, folio);
	}
#ifdef CONFIG_ARCH_HAS_NONLEAF_PMD_YOUNG
	/*
	 * For all of the page table, or for none.  What would replace the page table
	 * by something else needs the lock that we hold.
	 */
	if (!w->age.secondary && arch_has_hw_nonleaf_pmd_young() &&
	    (quiet || !lru_gen_enabled()) && end - start == PMD_SIZE &&
	    pmdp_test_and_clear_young(vma, start, pmd))
		w->cleared |= MMU_AGE_CPU;
#endif
	pte_unmap_unlock(start_pte, ptl);
	absent = ((end - start) >> PAGE_SHIFT) - absent;
	w->pass->ptes += absent;
	if (kmmscand_begins(w->look))
		w->pass->mapped += absent;
	return 0;
}

/* Returns 1 to leave a VMA out, -EAGAIN when the slice is over. */
static int kmmscand_test_walk(unsigned long start, unsigned long end,
			      struct mm_walk *walk)
{
	struct vm_area_struct *vma = walk->vma;
	struct kmmscand_walk *w = walk->private;
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
	return !w->by_index && !kmmscand_allowed(w, vma, vma->vm_start);
}

/* Without this a sparse address space could be walked for long in one slice. */
static int kmmscand_pte_hole(unsigned long addr, unsigned long next, int depth,
			     struct mm_walk *walk)
{
	struct kmmscand_walk *w = walk->private;

	if (!w->holes) {
		w->next = addr;
		return 1;
	}
	w->holes--;
	return 0;
}

static const struct mm_walk_ops kmmscand_walk_ops = {
	.pmd_entry	= kmmscand_pmd_entry,
	.pte_hole	= kmmscand_pte_hole,
	.test_walk	= kmmscand_test_walk,
	.walk_lock	= PGWALK_RDLOCK,
};

/*
 * Threads that map and unmap all the time leave short gaps between the holds of mmap_lock.  Wait
 * for one, but not for a hold that lasts.
 */
static bool kmmscand_lock(struct kmmscand_walk *w)
{
	while (!mmap_read_trylock(w->pass->mm)) {
		if (!w->tries)
			return false;
		w->tries--;
		usleep_idle_range(KMMSCAND_LOCK_USECS, 2 * KMMSCAND_LOCK_USECS);
	}
	return true;
}

/* One slice.  Returns 0 at @end, 1 if there is more, or -EBUSY, or -ESRCH. */
static int kmmscand_slice(struct kmmscand_walk *w, unsigned long end)
{
	struct mm_struct *mm = w->pass->mm;
	int more;

	/* The process does not want it any more. */
	if (!tier_mm_scale(mm))
		return -ESRCH;
	if (!kmmscand_lock(w))
		return -EBUSY;
	/* With the lock, so that exit_mmap() cannot have got to the page tables. */
	if (test_bit(MMF_UNSTABLE, &mm->flags) || !atomic_read(&mm->mm_users)) {
		mmap_read_unlock(mm);
		return -ESRCH;
	}
	w->walked = false;
	w->budget = KMMSCAND_SLICE;
	w->until = local_clock() + KMMSCAND_SLICE_NS;
	w->skips = KMMSCAND_SKIPS;
	w->holes = KMMSCAND_SLICE_HOLES;
	/*
	 * Address space that was mapped or unmapped since the last slice does not
	 * matter: the walk looks up the VMA at the address.
	 */
	more = walk_page_range(mm, w->next, end, &kmmscand_walk_ops, w);
	/* From test_walk: the slice is over. */
	if (more == -EAGAIN)
		more = 1;
	mmap_read_unlock(mm);
	/*
	 * Folios that kmmscand_hand_back() has activated wait in a per-CPU batch,
	 * which has references to them, so they could not be migrated.
	 */
	lru_add_drain();
	return more;
}

/*
 * Flush the TLB entries of an address space.  No page table was freed, so no CPU is interrupted
 * that has the address space but runs none of its threads.
 */
static void kmmscand_flush_mm(struct mm_struct *mm)
{
#ifdef CONFIG_X86
	flush_tlb_mm_range(mm, 0, TLB_FLUSH_ALL, 0, false);
#else
	flush_tlb_mm(mm);
#endif
	tier_count_flush(TIER_FLUSH_SCAN, mm);
}

/**
 * kmmscand_flush_later - the next kmmscand_flush_now() also flushes an address space
 * @mm: mm_count is held
 *
 * Where TLBs are flushed by interrupts, one serves all address spaces that a CPU runs.
 *
 * Context: may sleep.
 */
void kmmscand_flush_later(struct mm_struct *mm)
{
	if (mmu_age_secondary(mm))
		mmu_age_flush(mm);
#ifdef CONFIG_X86
	arch_tlbbatch_add_pending(&current->tlb_ubc.arch, mm, 0);
	current->tlb_ubc.flush_required = true;
#else
	kmmscand_flush_mm(mm);
#endif
}

/**
 * kmmscand_flush_now - see kmmscand_flush_later()
 *
 * Context: may sleep.
 */
void kmmscand_flush_now(void)
{
#ifdef CONFIG_X86
	tier_count_batch_flush(TIER_FLUSH_SCAN);
	try_to_unmap_flush();
#endif
}

/*
 * Nothing depends on this but the next walk's view.  mm_count is enough: for an address space
 * that has been torn down it is only superfluous.
 */
static void kmmscand_flush(struct kmmscand_walk *w)
{
	if (w->cleared & MMU_AGE_CPU)
		kmmscand_flush_mm(w->pass->mm);
	if (w->cleared & MMU_AGE_SECONDARY)
		mmu_age_flush(w->pass->mm);
	w->cleared = 0;
}

/**
 * kmmscand_scan - walk over a part of an address space
 * @pass:     what; counts are added to it
 * @look:     what is asked
 * @next:     address to begin at, and afterwards where to go on
 * @end:      address to end at
 * @cpu:      of the scanner; pays at once for KMMSCAND_SINCE, else this is up to the
 *            caller, because windows must not become longer
 * @deadline: in jiffies; at least one slice is tried
 *
 * Context: a kthread, may sleep; no locks held.
 * Return: 1 if the end was reached; 0 if it can go on later; -ESRCH if the address space
 * has gone; -EBUSY if somebody else has its mmap_lock, or waits for it.
 */
int kmmscand_scan(struct kmmscand_pass *pass, enum kmmscand_look look, unsigned long *next,
		  unsigned long end, struct kmmscand_cpu *cpu, unsigned long deadline)
{
	unsigned long ptes = pass->ptes, young = pass->young, skipped = pass->skipped;
	unsigned long half = msecs_to_jiffies(kmmscand_epoch_ms() / 2), flush = jiffies + half;
	unsigned long touched = pass->touched;
	struct kmmscand_walk w = {
		.pass = pass,
		.look = pass->stale && look == KMMSCAND_SINCE ? KMMSCAND_CLEAR : look,
		.next = *next,
		.skip = arch_has_hw_nonleaf_pmd_young() && !mmu_age_secondary(pass->mm) &&
			!(pass->stale && kmmscand_begins(look)),
		.warm = READ_ONCE(kmmscand_tunables.hot_threshold),
		.hot_nid = NUMA_NO_NODE,
		.tries = KMMSCAND_LOCK_TRIES,
	};
	int ret;

	kmmscand_slow_range(&w);
	do {
		ret = kmmscand_slice(&w, end);
		if (ret < 0)
			break;
		/* At the end? */
		ret = !ret;
		if (look == KMMSCAND_SINCE) {
			if (!ret && time_after_eq(jiffies, flush)) {
				kmmscand_flush(&w);
				flush = jiffies + half;
			}
			kmmscand_cpu_pay(cpu, READ_ONCE(kmmscand_tunables.scan_cpu_pct));
		} else {
			cond_resched();
		}
	} while (!ret && time_before(jiffies, deadline) && !kthread_should_stop());

	kmmscand_flush(&w);
	*next = w.next;

	if (pass->touched != touched)
		hotness_add_news();
	count_kmmscand_events(KMMSCAND_PTE_SCANNED, pass->ptes - ptes + w.again);
	count_kmmscand_events(KMMSCAND_PTE_YOUNG, pass->young - young);
	count_kmmscand_events(KMMSCAND_PMD_SKIPPED, pass->skipped - skipped);
	return ret;
}

/**
 * __kmmscand_folio_accessed - see kmmscand_folio_accessed()
 * @vma:   of the mapping
 * @folio: on a slow node
 *
 * The frame may have had another owner when the scanner recorded it, so what can be
 * known of the policy is looked at here, too.  The policy of the task and its cpuset
 * cannot.
 */
void __kmmscand_folio_accessed(struct vm_area_struct *vma, struct folio *folio)
{
	if (vma_policy(vma) || (vma->vm_flags & VM_LOCKED) || !vma_has_recency(vma) ||
	    (vma->vm_file && (vma->vm_flags & VM_EXEC)) || !tier_mm_scale(vma->vm_mm))
		return;
	hotness_touch_known(folio_pfn(folio));
}

/**
 * __kmmscand_page_table_aged - see kmmscand_page_table_aged()
 */
void __kmmscand_page_table_aged(void)
{
	unsigned int epoch = hotness_epoch();

	if (READ_ONCE(kmmscand_table_aged) != epoch)
		WRITE_ONCE(kmmscand_table_aged, epoch);
}
