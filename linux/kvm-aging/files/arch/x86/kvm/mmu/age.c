// SPDX-License-Identifier: GPL-2.0
/*
 * Aging of guest memory on x86: Accessed bits without mmu_lock.
 *
 * Invariant: an SPTE that is not present is never written.  Of one that is present, aging clears
 * the Accessed bit.  If it has none (EPT without A/D bits), aging makes it inaccessible as
 * mark_spte_for_access_track() does, and nothing else.
 *
 * A compare-and-exchange from the present value that was read keeps the invariant.  It fails if
 * anything has changed the SPTE; then the page counts as accessed, which it was, and the next walk
 * looks at it again.  Two other ways would be wrong:
 *
 *  - A plain store could bring back an SPTE that was zapped meanwhile, and so give the guest a
 *    page that the host has freed; and it could lose a Dirty bit.
 *  - An atomic AND could hit FROZEN_SPTE, which has the bit that is the Accessed bit of NPT.
 *    is_frozen_spte() would not recognize the result.
 *
 * Documentation/virt/kvm/x86/aging.rst goes through each writer of SPTEs, for both kinds.
 *
 * Page tables and roots of the TDP MMU are freed after a grace period of RCU.  Aging may still see
 * a root that is invalid, or a page table that was unlinked; its SPTEs are zapped, or will be
 * before mmu_lock is released.
 *
 * Shadow page tables (a guest without TDP, a nested guest with nested page tables) are found by
 * rmaps, under the lock bit of age_rmap.h.
 *
 * Dirty state of an SPTE without Accessed bits: its Writable bit stands for Dirty, and goes.  So
 * the page is marked dirty after the exchange, outside of mmu_lock.  The page is not freed, nor
 * its dirty state looked at for the last time, before that: the caller holds the lock of the
 * host's page table that maps the page.  An SPTE maps the page that the host's PTE maps, because
 * a change of the PTE is announced by invalidate_range_start(), which zaps the SPTE, and made
 * under that lock.  Three things could break the second sentence:
 *
 *  - A memslot that moves: its gfns may belong to other hvas.  __kvm_handle_hva_range() skips the
 *    invalid copy of a memslot.  A copy that is valid was published before the invalid one, and
 *    synchronize_srcu() has waited for its readers before the new place is published.
 *  - Memory of a guest_memfd: its SPTE maps a page that the PTE does not.  Without Accessed bits
 *    kvm_mmu_age_lockless() leaves such a memslot alone.
 *  - An SPTE that is larger than the host's mapping: KVM never makes one, and the split of a huge
 *    mapping is announced, too.
 */
#include <linux/kvm_host.h>
#include <linux/mmu_age.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>

#include "mmu.h"
#include "mmu_internal.h"
#include "mmutrace.h"
#include "spte.h"
#include "tdp_iter.h"
#include "tdp_mmu.h"
#include "age.h"
#include "age_rmap.h"

static __always_inline bool kvm_age_is_young(u64 spte)
{
	return is_shadow_present_pte(spte) && is_accessed_spte(spte);
}

/*
 * Was an SPTE accessed?  It is not afterwards, except if @test is set.  @spte was read from
 * @sptep, which may change any time.  There is one attempt: an SPTE that another CPU has changed
 * is looked at again by the next walk.
 */
static __always_inline bool kvm_age_spte(u64 *sptep, u64 spte, bool test)
{
	u64 old = spte, new;

	if (!kvm_age_is_young(spte))
		return false;
	if (test)
		return true;
	new = mark_spte_for_access_track(spte);
	if (kvm_age_fault(STORE)) {
		kvm_age_store(sptep, new, spte);
		return true;
	}
	kvm_age_delay();
	if (try_cmpxchg64(sptep, &old, new) && !spte_ad_enabled(spte) && is_writable_pte(spte))
		kvm_set_pfn_dirty(spte_to_pfn(spte));
	return true;
}

/* Number of the bit that stands for a gfn */
static __always_inline unsigned long kvm_age_bit(const struct kvm_gfn_range *range, gfn_t gfn)
{
	return (__gfn_to_hva_memslot(range->slot, gfn) - range->arg.age->start) >> PAGE_SHIFT;
}

/* Is any page of [start, end) in the question?  Without a bitmap all are. */
static __always_inline bool kvm_age_asked(const struct kvm_gfn_range *range, gfn_t start,
					  gfn_t end)
{
	unsigned long bit;

	if (!range->arg.age || kvm_age_fault(PAGES))
		return true;
	bit = kvm_age_bit(range, start);
	if (end == start + 1)
		return test_bit(bit, range->arg.age->pages);
	end = bit + (end - start);
	return find_next_bit(range->arg.age->pages, end, bit) < end;
}

/* Pages of [start, end) were accessed.  Answer for the ones that are in the question. */
static __always_inline void kvm_age_found(const struct kvm_gfn_range *range, gfn_t start,
					  gfn_t end)
{
	struct mmu_age *age = range->arg.age;
	unsigned long bit, last;

	if (!age)
		return;
	bit = kvm_age_bit(range, start);
	last = bit + (end - start);
	for_each_set_bit_from(bit, age->pages, last)
		__set_bit(bit, age->young);
}

/* Returns whether a page was accessed; stops at the first one if @test is set. */
static bool tdp_age_root(struct kvm_mmu_page *root, const struct kvm_gfn_range *range, bool test,
			 unsigned int *budget)
{
	struct tdp_iter iter;
	bool young = false;

	for_each_tdp_pte(iter, root, range->start, range->end) {
		u64 spte, *sptep = rcu_dereference(iter.sptep);
		gfn_t gfn = iter.gfn, last = gfn + 1, start, end;

		/* A step of the iterator costs twice the look at an idle SPTE. */
		if (iter.level == PG_LEVEL_4K)
			last = min(range->end, ALIGN(gfn + 1, SPTE_ENT_PER_PAGE));
		last = min(last, gfn + *budget);
		if (gfn == last)
			break;
		*budget -= last - gfn;
		iter.sptep += last - 1 - gfn;
		iter.gfn = last - 1;
		for (; gfn < last; gfn++, sptep++) {
			spte = READ_ONCE(*sptep);
			if (!kvm_age_is_young(spte) || !is_last_spte(spte, iter.level))
				continue;
			start = max(gfn, range->start);
			end = min(gfn + KVM_PAGES_PER_HPAGE(iter.level), range->end);
			if (!kvm_age_asked(range, start, end) || !kvm_age_spte(sptep, spte, test))
				continue;
			young = true;
			if (test)
				return true;
			kvm_age_found(range, start, end);
		}
	}
	return young;
}

static bool tdp_age(struct kvm *kvm, const struct kvm_gfn_range *range, bool test,
		    unsigned int *budget)
{
	struct kvm_mmu_page *root;
	bool young = false;

	rcu_read_lock();
	list_for_each_entry_rcu(root, &kvm->arch.tdp_mmu_roots, link) {
		if (kvm_mmu_page_as_id(root) == range->slot->as_id)
			young |= tdp_age_root(root, range, test, budget);
		if ((young && test) || kvm_age_fault(ROOTS))
			break;
	}
	rcu_read_unlock();
	return young;
}

/*
 * May shadow page tables map pages of a memslot?
 *
 * The counter of indirect shadow pages changes under mmu_lock.  This may miss one that comes or
 * goes now: the guest has not used the new one for long.  When the last indirect page goes, direct
 * pages may remain, which the guest cannot reach; their Accessed bits are not found any more.
 *
 * kvm_memslots_have_rmaps() acquires: rmaps of all active memslots were allocated before it became
 * true.  Rmaps of a memslot that comes later are allocated before it is published.  An old copy of
 * a memslot may have none.
 */
static bool kvm_age_has_rmaps(struct kvm *kvm, const struct kvm_memory_slot *slot)
{
	return kvm_memslots_have_rmaps(kvm) &&
	       (!tdp_mmu_enabled || READ_ONCE(kvm->arch.indirect_shadow_pages)) &&
	       READ_ONCE(slot->arch.rmap[0]) && !kvm_age_fault(RMAPS);
}

/* Was an SPTE of an rmap accessed? */
static bool rmap_age(struct kvm_rmap_head *rmap_head, bool test, unsigned int *budget)
{
	bool unlocked = kvm_age_fault(LISTS), young = false;
	struct pte_list_desc *desc;
	unsigned long val;
	int i;

	if (!READ_ONCE(rmap_head->val))
		return false;
	preempt_disable();
	if (unlocked)
		val = READ_ONCE(rmap_head->val) & ~KVM_RMAP_LOCKED;
	else
		val = __kvm_rmap_lock(rmap_head);
	if (val & KVM_RMAP_MANY) {
		for (desc = (void *)(val & ~KVM_RMAP_MANY); desc; desc = desc->more) {
			for (i = 0; i < desc->spte_count && *budget; i++, --*budget)
				young |= kvm_age_spte(desc->sptes[i],
						      READ_ONCE(*desc->sptes[i]), test);
			if ((young && test) || !*budget)
				break;
		}
	} else if (val) {
		young = kvm_age_spte((u64 *)val, READ_ONCE(*(u64 *)val), test);
	}
	if (val && !unlocked)
		__kvm_rmap_unlock(rmap_head, val);
	preempt_enable();
	return young;
}

/* Returns whether a page was accessed; stops at the first one if @test is set. */
static bool rmap_age_range(const struct kvm_gfn_range *range, bool test, unsigned int *budget)
{
	const struct kvm_memory_slot *slot = range->slot;
	bool young = false;
	int level;

	for (level = PG_LEVEL_4K; level <= KVM_MAX_HUGEPAGE_LEVEL; level++) {
		struct kvm_rmap_head *rmap = slot->arch.rmap[level - PG_LEVEL_4K];
		gfn_t i = gfn_to_index(range->start, slot->base_gfn, level);
		gfn_t last = gfn_to_index(range->end - 1, slot->base_gfn, level);
		gfn_t start, end;

		for (; i <= last && *budget; i++) {
			/* Under a huge SPTE all are empty. */
			if (!READ_ONCE(rmap[i].val))
				continue;
			--*budget;
			start = gfn_round_for_level(slot->base_gfn, level) +
				i * KVM_PAGES_PER_HPAGE(level);
			end = min(start + KVM_PAGES_PER_HPAGE(level), range->end);
			start = max(start, range->start);
			if (!kvm_age_asked(range, start, end) || !rmap_age(&rmap[i], test, budget))
				continue;
			young = true;
			if (test)
				return true;
			kvm_age_found(range, start, end);
		}
	}
	return young;
}

/**
 * kvm_mmu_age_lockless - age pages of a memslot without mmu_lock
 * @kvm:   virtual machine
 * @range: pages; with @range->arg.age only those of its bitmap
 * @test:  look only; else the pages do not count as accessed afterwards
 *
 * Takes from the budget of the question one for each entry of a page table, each rmap that is not
 * empty, and each SPTE of a list; stops when it is spent.
 *
 * Context: the caller holds kvm->srcu, and if @test is not set, the lock of the page table of the
 * host that maps the pages.  Does not sleep.
 * Return: whether the guest has accessed any of the pages; true if the budget was spent
 */
bool kvm_mmu_age_lockless(struct kvm *kvm, struct kvm_gfn_range *range, bool test)
{
	unsigned int own = MMU_AGE_BUDGET;
	unsigned int *budget = range->arg.age ? &range->arg.age->budget : &own;
	bool young = false;

	/* The lock of the caller does not keep what an SPTE of a guest_memfd maps. */
	if (!kvm_ad_enabled() && kvm_slot_can_be_private(range->slot)) {
		if (!test)
			kvm_age_found(range, range->start, range->end);
		return true;
	}
	/* The memslot itself */
	*budget -= !!*budget;
	if (tdp_mmu_enabled)
		young = tdp_age(kvm, range, test, budget);
	if (!(young && test) && kvm_age_has_rmaps(kvm, range->slot))
		young |= rmap_age_range(range, test, budget);
	return young || !*budget;
}

#ifdef CONFIG_KVM_AGING_KUNIT_TEST
#include "age_kunit.h"
#endif
