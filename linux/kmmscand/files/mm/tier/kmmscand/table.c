// SPDX-License-Identifier: GPL-2.0
/*
 * Page tables of a walk (walk.c): read and clear the Accessed bits of slow pages.
 *
 * Accessed bits are a shared resource:
 *  - Those of pages on fast nodes are not touched.
 *  - When the bit of a slow page is cleared, reclaim is told instead: PG_young is set, and with
 *    MGLRU the folio moves to the youngest generation.  PG_idle is cleared, and never set.
 *  - The Accessed bit of an upper-level entry says whether the processor has walked to the page
 *    table below.  If not, the first walk skips the page table, but for one in WALK_FULL_TURNS
 *    turns.  MGLRU skips such a page table, too, so the bit is cleared only when no fast page below
 *    has an Accessed bit that MGLRU has yet to see.  The last look does not clear the bit, because
 *    no flush follows.
 *  - An address space with a secondary MMU (KVM) is asked by page table (include/linux/mmu_age.h),
 *    or page by page, where the notifier has no answer for a range.
 *  - A processor sets a bit again only when it walks the page table.  So the first two walks are
 *    followed by one flush of the TLB, and of KVM's if bits of KVM's page tables were cleared.
 *
 * Locking: the caller holds the lock of the page table, so mappings keep their folios, and is under
 * RCU.
 */

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_age.h>
#include <linux/page_idle.h>
#include <linux/swap.h>
#include <linux/tier.h>

#include "../../internal.h"
#include "fault.h"
#include "kmmscand.h"
#include "walk.h"

/* Entries whose Accessed bits are tested at once; a page table has a multiple of them */
#define WALK_AT_ONCE		8

/**
 * table_slow_range - find the frames that belong to slow nodes only
 * @w: walk; slow_start and slow_len are set
 */
void table_slow_range(struct walk *w)
{
	const struct kmmscand_nodes *nodes = w->visit->nodes;
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

/* May the page of an entry be on a slow node, as far as the frame tells? */
static __always_inline bool table_maybe_slow(const struct walk *w, pte_t pte)
{
	return pte_pfn(pte) - w->slow_start < (w->slow_len ?: ULONG_MAX);
}

/* vm_normal_folio(), for a present entry of table_maybe_slow() */
static __always_inline struct folio *table_folio(struct walk *w, struct vm_area_struct *vma,
						 unsigned long addr, pte_t pte)
{
	/* Where entries say that they are special, all others of our frames have a page. */
	if (!IS_ENABLED(CONFIG_ARCH_HAS_PTE_SPECIAL) || pte_special(pte) || pte_devmap(pte) ||
	    !w->slow_len)
		return vm_normal_folio(vma, addr, pte);
	return pfn_folio(pte_pfn(pte));
}

static __always_inline bool table_folio_slow(struct walk *w, struct folio *folio)
{
	return folio && node_isset(folio_nid(folio), w->visit->nodes->slow) &&
	       !folio_is_zone_device(folio);
}

static __always_inline bool table_same(const struct walk *w, const struct folio *folio)
{
	return READ_ONCE(folio->flags) == w->same.flags &&
	       folio_memcg((struct folio *)folio) == w->same.memcg;
}

/* As in tier_may_promote(), and as cheap as it must be here */
static __always_inline bool table_may_move(struct folio *folio)
{
	return !folio_test_unevictable(folio) && !folio_test_ksm(folio) &&
	       !(folio_is_file_lru(folio) && folio_test_dirty(folio)) &&
	       !folio_maybe_dma_pinned(folio);
}

#ifdef CONFIG_LRU_GEN
/* Under RCU, which keeps the memcg. */
static __always_inline int table_youngest_gen(struct walk *w, struct folio *folio)
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
static __always_inline void table_hand_back(struct walk *w, struct folio *folio)
{
	struct mem_cgroup *memcg = folio_memcg(folio);
	unsigned long flags;
	int gen = 0;

	if (kmmscand_fault(YOUNG))
		return;
	if (!folio_test_young(folio))
		folio_set_young(folio);
	if (folio_test_idle(folio))
		folio_clear_idle(folio);

#ifdef CONFIG_LRU_GEN
	if (lru_gen_enabled()) {
		gen = folio_lru_gen(folio);
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
		if (gen != table_youngest_gen(w, folio)) {
			folio_clear_lru_refs(folio);
			folio_activate(folio);
			return;
		}
	}
#endif
	/* Another CPU may have made the folio idle, or isolated it: the flags must tell. */
	flags = READ_ONCE(folio->flags);
	if (folio_test_young(folio) && !folio_test_idle(folio) && table_may_move(folio) &&
	    (!lru_gen_enabled() || folio_lru_gen(folio) == gen) &&
	    READ_ONCE(folio->flags) == flags) {
		w->same.flags = flags;
		w->same.memcg = memcg;
	}
}

/* A folio was found in the last look: it is a candidate. */
static __always_inline void table_found(struct walk *w, struct folio *folio)
{
	struct visit *visit = w->visit;
	bool shared = !w->target.strict && folio_likely_mapped_shared(folio);

	/* Several entries map a large folio. */
	if (visit->nr_found && visit->found[visit->nr_found - 1].pfn == folio_pfn(folio))
		return;
	/* Users of a folio that they share may disagree. */
	visit->found_nid[visit->nr_found] = folio_nid(folio);
	visit->found[visit->nr_found++] = (struct candidate) {
		.pfn = folio_pfn(folio),
		.stamp = jiffies,
		.order = folio_order(folio),
		.group = tier_group(&folio->page),
		.nid = shared ? NUMA_NO_NODE : w->target.nid,
		.strict = w->target.strict,
	};
	w->piece->pushed += folio_nr_pages(folio);
}

/*
 * The Accessed bit of a slow folio was set, in entry @i of the page table.  Called under the
 * page-table lock, so the mapping keeps the folio, and under RCU.
 */
static __always_inline void table_accessed(struct walk *w, struct folio *folio, unsigned int i,
					   bool same)
{
	struct piece *piece = w->piece;

	w->young++;
	if (!same)
		table_hand_back(w, folio);
	switch (w->look) {
	case WALK_CLEAR:
	case WALK_SAMPLE:
		break;
	case WALK_CHANGE:
		piece->sampled += w->huge ? HPAGE_PMD_NR : 1;
		break;
	case WALK_FIRST:
		/* Of these checks, flags do not tell all. */
		if (same ? folio_test_ksm(folio) || folio_maybe_dma_pinned(folio) :
			   !table_may_move(folio))
			break;
		piece->first[w->huge]++;
		__set_bit(i, w->region->found);
		if (kmmscand_fault(ONE_LOOK))
			table_found(w, folio);
		break;
	case WALK_SECOND:
		piece->last[w->huge]++;
		table_found(w, folio);
		break;
	}
}

/* Choose a page table, or a huge mapping, for the looks that follow. */
static void table_choose(struct walk *w, unsigned long addr, bool huge,
			 const unsigned long *wanted)
{
	struct visit *visit = w->visit;
	struct piece *piece = w->piece;
	struct region *region = &visit->region[piece->end];

	addr &= PMD_MASK;
	/* There may be several VMAs in one. */
	if (piece->end > piece->begin && region[-1].addr == addr) {
		bitmap_or(region[-1].wanted, region[-1].wanted, wanted, PTRS_PER_PTE);
		return;
	}
	region->addr = addr;
	region->huge = huge;
	bitmap_copy(region->wanted, wanted, PTRS_PER_PTE);
	bitmap_zero(region->found, PTRS_PER_PTE);
	piece->huge += huge;
	visit->nr = ++piece->end;
}

/**
 * table_read_huge - read a huge mapping
 * @w:    walk
 * @vma:  of the mapping
 * @pmdp: entry
 * @addr: in the mapping
 *
 * Context: under the lock of the entry.
 */
void table_read_huge(struct walk *w, struct vm_area_struct *vma, pmd_t *pmdp, unsigned long addr)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	pmd_t pmd = pmdp_get(pmdp);
	DECLARE_BITMAP(none, PTRS_PER_PTE) = {};
	struct folio *folio;
	unsigned int young;

	/* A migration entry: it is being moved just now. */
	if (!pmd_present(pmd))
		return;
	w->ptes++;
	if (!pmd_young(pmd) && !mmu_age_secondary(vma->vm_mm) && !walk_owed(w, addr))
		return;
	/* NULL for the huge zero folio */
	folio = vm_normal_folio_pmd(vma, addr, pmd);
	if (!table_folio_slow(w, folio))
		return;
	addr &= HPAGE_PMD_MASK;
	if (walk_chooses(w))
		table_choose(w, addr, true, none);
	if (w->look == WALK_SAMPLE)
		w->piece->sampled_of += HPAGE_PMD_NR;
	if (w->look == WALK_SECOND && !test_bit(0, w->region->found))
		return;
	young = pmdp_test_and_clear_young(vma, addr, pmdp) ? MMU_AGE_CPU : 0;
	if (mmu_age_clear_secondary(vma->vm_mm, addr, addr + HPAGE_PMD_SIZE))
		young |= MMU_AGE_SECONDARY;
	w->cleared |= young;
	rcu_read_lock();
	w->youngest.nid = NUMA_NO_NODE;
	if (young)
		table_accessed(w, folio, 0, false);
	rcu_read_unlock();
#endif
}

/* Ask secondary MMUs at once about the pages of a page table that matter. */
static void table_ask(struct walk *w, struct vm_area_struct *vma, pte_t *table, unsigned long base,
		      const unsigned long *wanted)
{
	unsigned int i;

	mmu_age_table(w->age, base);
	for_each_set_bit(i, wanted, PTRS_PER_PTE) {
		unsigned long addr = base + i * PAGE_SIZE;
		pte_t ptent = ptep_get(table + i);

		if (pte_present(ptent) && table_maybe_slow(w, ptent) &&
		    table_folio_slow(w, table_folio(w, vma, addr, ptent)))
			mmu_age_add(w->age, addr);
	}
	mmu_age_ask(w->age, vma->vm_mm);
}

/*
 * Which of the next WALK_AT_ONCE entries have an Accessed bit?  An entry that is not present may
 * have the bit set, so this is a filter.  In most page tables none has, or many have.
 */
static __always_inline unsigned long table_young(pte_t *pte)
{
	/* As pte_young(), for which gcc needs three instructions more */
	const unsigned long accessed = pte_val(pte_mkyoung(__pte(0)));
	unsigned long bits = 0, young = 0;
	unsigned int i;

#pragma GCC unroll 8
	for (i = 0; i < WALK_AT_ONCE; i++)
		bits |= pte_val(ptep_get(pte + i));
	if (!(bits & accessed))
		return 0;
#pragma GCC unroll 8
	for (i = WALK_AT_ONCE; i; i--)
		young = 2 * young + !!(pte_val(ptep_get(pte + i - 1)) & accessed);
	return young;
}

/* Of some entries, those certainly not of slow pages.  What is not present is one of these. */
static __always_inline unsigned long table_fast(const struct walk *w, pte_t *pte,
						unsigned long bits)
{
	unsigned long fast = 0;

	for (; bits; bits &= bits - 1) {
		if (!table_maybe_slow(w, ptep_get(pte + __ffs(bits))))
			fast |= bits & -bits;
	}
	return fast;
}

/* Clear the Accessed bit of entry @i of a page table, if its page is on a slow node. */
static __always_inline void table_pte(struct walk *w, struct vm_area_struct *vma, pte_t *pte,
				      unsigned long addr, unsigned int i, pte_t ptent)
{
	struct folio *folio = table_folio(w, vma, addr, ptent);
	bool same = folio && table_same(w, folio);
	unsigned int young;

	if (!same && !table_folio_slow(w, folio))
		return;
	young = mmu_age_clear_young(w->age, vma, addr, pte);
	w->cleared |= young;
	if (young)
		table_accessed(w, folio, i, same);
}

/*
 * The entries of a page table that are wanted.  What is young and on a fast node is not wanted any
 * more.  Returns false if there was such an entry.
 */
static bool table_table(struct walk *w, struct vm_area_struct *vma, pte_t *table,
			unsigned long base, unsigned long *wanted)
{
	bool quiet = w->slow_len;
	unsigned long bits, fast;
	unsigned int at, i;
	pte_t ptent;

	for (at = 0; at < PTRS_PER_PTE; at += WALK_AT_ONCE) {
		bits = wanted[BIT_WORD(at)] >> at % BITS_PER_LONG & (BIT(WALK_AT_ONCE) - 1);
		/* Most entries end here. */
		if (bits)
			bits &= table_young(table + at);
		if (!bits)
			continue;
		fast = table_fast(w, table + at, bits);
		if (fast) {
			wanted[BIT_WORD(at)] &= ~(fast << at % BITS_PER_LONG);
			quiet = false;
		}
		for (bits &= ~fast; bits; bits &= bits - 1) {
			i = at + __ffs(bits);
			ptent = ptep_get(table + i);
			if (pte_present(ptent))
				table_pte(w, vma, table + i, base + i * PAGE_SIZE, i, ptent);
		}
	}
	return quiet;
}

/* The same, if a secondary MMU knows of accesses that entries do not show */
static void table_secondary(struct walk *w, struct vm_area_struct *vma, pte_t *table,
			    unsigned long base, const unsigned long *wanted)
{
	unsigned int i;

	for_each_set_bit(i, wanted, PTRS_PER_PTE) {
		unsigned long addr = base + i * PAGE_SIZE;
		pte_t ptent = ptep_get(table + i);

		if (pte_present(ptent) && table_maybe_slow(w, ptent) &&
		    !mmu_age_idle(w->age, addr, ptent))
			table_pte(w, vma, table + i, addr, i, ptent);
	}
}

/* Slow pages of a page table, so many at most */
static unsigned int table_count_slow(struct walk *w, struct vm_area_struct *vma, pte_t *pte,
				     unsigned long addr, unsigned long end, unsigned int most)
{
	unsigned int nr = 0;
	pte_t ptent;

	for (; addr != end && nr < most; pte++, addr += PAGE_SIZE) {
		ptent = ptep_get(pte);
		if (!pte_present(ptent) || !table_maybe_slow(w, ptent))
			continue;
		/* If nodes do not overlap, the frame tells enough. */
		nr += w->slow_len || table_folio_slow(w, table_folio(w, vma, addr, ptent));
	}
	return nr;
}

/* Are there pages in a page table that the next look can find? */
static bool table_wants(struct walk *w, struct vm_area_struct *vma, pte_t *pte,
			unsigned long addr, unsigned long end, bool young)
{
	unsigned int slow;

	if (w->look == WALK_SAMPLE) {
		slow = table_count_slow(w, vma, pte, addr, end, PTRS_PER_PTE);
		w->piece->sampled_of += slow;
		return slow;
	}
	return young || (walk_owed(w, addr) && table_count_slow(w, vma, pte, addr, end, 1));
}

/**
 * table_read - read a page table, or a part
 * @w:         walk
 * @vma:       of the mapping
 * @pmd:       entry of the page table
 * @start_pte: entry of @addr in the page table
 * @addr:      begin
 * @end:       end
 *
 * Context: under the lock of the page table, and RCU.
 */
void table_read(struct walk *w, struct vm_area_struct *vma, pmd_t *pmd, pte_t *start_pte,
		unsigned long addr, unsigned long end)
{
	const unsigned int first = pte_index(addr), nr = (end - addr) >> PAGE_SHIFT;
	const unsigned long base = addr & PMD_MASK, young = w->young;
	DECLARE_BITMAP(wanted, PTRS_PER_PTE) = {};
	pte_t *table = start_pte - first;
	bool all = true, quiet = false;

	bitmap_set(wanted, first, nr);
	if (!walk_chooses(w)) {
		bitmap_and(wanted, wanted, w->look == WALK_SECOND ? w->region->found :
			   w->region->wanted, PTRS_PER_PTE);
		all = bitmap_weight(wanted, PTRS_PER_PTE) == nr;
	}
	w->ptes += bitmap_weight(wanted, PTRS_PER_PTE);
	/*
	 * A secondary MMU may know of accesses that the PTE does not show.  It is asked once, or
	 * about each entry, which is expensive (KVM takes its mmu_lock for each).
	 */
	mmu_age_begin(w->age, vma->vm_mm);
	if (mmu_age_by_range(w->age))
		table_ask(w, vma, table, base, wanted);
	else if (w->age->secondary)
		w->budget -= min(w->budget, WALK_NOTIFY_COST - 1U);
	w->youngest.nid = NUMA_NO_NODE;
	w->same.flags = 0;
	if (w->age->secondary)
		table_secondary(w, vma, table, base, wanted);
	else
		quiet = table_table(w, vma, table, base, wanted) && all;
	w->tables++;
	if (walk_chooses(w) && table_wants(w, vma, start_pte, addr, end, w->young != young))
		table_choose(w, addr, false, wanted);
#ifdef CONFIG_ARCH_HAS_NONLEAF_PMD_YOUNG
	/*
	 * For all of the page table, or for none.  What would replace the page table by something
	 * else needs the lock that is held.
	 */
	if (w->look != WALK_SECOND && w->look != WALK_CHANGE && !w->age->secondary &&
	    arch_has_hw_nonleaf_pmd_young() &&
	    (quiet || !lru_gen_enabled()) && end - addr == PMD_SIZE &&
	    pmdp_test_and_clear_young(vma, addr, pmd))
		w->cleared |= MMU_AGE_CPU;
#endif
}
