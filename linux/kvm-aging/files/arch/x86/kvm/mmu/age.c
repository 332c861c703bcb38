// SPDX-License-Identifier: GPL-2.0
/*
 * Aging of guest memory on x86: Accessed bits of the TDP MMU without mmu_lock.
 *
 * Invariant: an SPTE that is not present is never written, and of one that is present nothing
 * changes but that its Accessed bit is cleared.
 *
 * That is what a compare-and-exchange gives that expects the present value that was read and
 * writes the same value without its Accessed bit.  If it fails, somebody else has changed the
 * SPTE: the page counts as accessed, which it was, and is looked at again by the next walk.
 * Nothing else is good enough:
 *
 *  - A plain store could bring back an SPTE that was zapped meanwhile, that is, give the guest a
 *    page that the host has freed; and it could lose a Dirty bit.
 *  - An atomic AND could hit FROZEN_SPTE, which has the bit that is the Accessed bit of NPT.  It
 *    would not be recognized as frozen any more.
 *
 * Against each writer of SPTEs of the TDP MMU:
 *
 *  hardware			sets Accessed and Dirty with locked operations.
 *  fast_pf_fix_direct_spte()	compare-and-exchange; fails if we were first, and is tried
 *				again.
 *  tdp_mmu_set_spte_atomic()	the same, and tdp_mmu_zap_spte_atomic(), which only then
 *				stores over FROZEN_SPTE; we do not write that.
 *  handle_removed_pt()		exchanges, or stores FROZEN_SPTE if no bit of the SPTE is
 *				volatile.  We come before, and are overwritten, or after,
 *				and find it not present.  The table is freed by RCU.
 *  tdp_mmu_set_spte(),		with mmu_lock for write.  They exchange or, if no bit is
 *  tdp_mmu_clear_spte_bits()	volatile, store what they have made of the value that they
 *				had read.  Such a value has Accessed set, and Dirty if it is
 *				writable.  If we have cleared Accessed in between, the store
 *				sets it again, or takes the mapping away; Dirty and Writable
 *				are not ours, so they lose none.  A page may seem accessed
 *				once more.
 *  tdp_mmu_link_sp()		replaces an SPTE that is no leaf, or a huge one, by the above.
 *
 * Page tables and roots are freed after a grace period of RCU.  Roots that are invalid, and page
 * tables that were unlinked, may still be seen: to clear a bit there is of no consequence.
 *
 * SPTEs without Accessed bits are made inaccessible instead, which must not race.  In the TDP MMU
 * all are, or none: with EPT without A/D bits.  Shadow page tables (a guest without TDP, a nested
 * guest with page tables of its own) are found through rmaps.  Both need mmu_lock for write.
 */
#include <linux/kvm_age.h>
#include <linux/kvm_host.h>
#include <linux/rculist.h>

#include "mmu.h"
#include "mmu_internal.h"
#include "mmutrace.h"
#include "spte.h"
#include "tdp_iter.h"
#include "tdp_mmu.h"
#include "age.h"

/**
 * kvm_age_clear_accessed - clear the Accessed bit of an SPTE that may change any time
 * @sptep: of a leaf
 * @spte:  present, and accessed; as it was read
 *
 * There is no second attempt: that somebody has changed it is a reason to look again later.
 *
 * Context: RCU, so that the page table stays
 * Return: false if the SPTE has changed, and was left alone
 */
static bool kvm_age_clear_accessed(u64 *sptep, u64 spte)
{
	if (kvm_age_fault(STORE)) {
		kvm_age_store(sptep, spte & ~shadow_accessed_mask, spte);
		return true;
	}
	kvm_age_delay();
	return try_cmpxchg64(sptep, &spte, spte & ~shadow_accessed_mask);
}

/* Look at what maps pages of a guest.  Returns whether it was accessed. */
static __always_inline bool tdp_age_spte(struct kvm_mmu_page *root, tdp_ptep_t sptep, gfn_t gfn,
					 int level, const struct kvm_age_range *range)
{
	u64 spte = kvm_tdp_mmu_read_spte(sptep);

	if (!is_shadow_present_pte(spte) || !is_last_spte(spte, level))
		return false;
	if (!(spte & spte_shadow_accessed_mask(spte)))
		return false;
	if (range->test)
		return true;
	if (kvm_age_clear_accessed(rcu_dereference(sptep), spte))
		trace_kvm_tdp_mmu_spte_changed(kvm_mmu_page_as_id(root), gfn, level, spte,
					       spte & ~shadow_accessed_mask);
	return true;
}

/* Find what maps @gfn, or would: an entry of a last page table, or one that leads no further. */
static tdp_ptep_t tdp_age_walk(struct kvm_mmu_page *root, gfn_t gfn, int *level)
{
	tdp_ptep_t table = (tdp_ptep_t)root->spt, sptep;

	for (*level = root->role.level; ; --*level) {
		sptep = table + SPTE_INDEX(gfn << PAGE_SHIFT, *level);
		table = spte_to_child_pt(kvm_tdp_mmu_read_spte(sptep), *level);
		if (!table)
			return sptep;
	}
}

/* Is the page asked about for which a bit stands?  Bits mean something only if there are pages. */
static __always_inline bool kvm_age_asked(const struct kvm_age_range *range, unsigned long bit)
{
	return !range->pages || test_bit(bit, range->pages) || kvm_age_fault(PAGES);
}

static __always_inline void kvm_age_found(struct kvm_age_range *range, unsigned long bit)
{
	range->found = true;
	if (range->young)
		__set_bit(bit, range->young);
}

static void tdp_age_root(struct kvm_mmu_page *root, struct kvm_age_range *range)
{
	unsigned long bit = range->first;
	gfn_t gfn = range->start;

	while (gfn < range->end) {
		tdp_ptep_t sptep;
		bool young;
		int level;
		gfn_t end;

		if (!kvm_age_asked(range, bit)) {
			gfn++;
			bit++;
			continue;
		}
		sptep = tdp_age_walk(root, gfn, &level);
		if (level == PG_LEVEL_4K) {
			end = min(range->end, gfn_round_for_level(gfn, PG_LEVEL_2M) +
					      KVM_PAGES_PER_HPAGE(PG_LEVEL_2M));
			for (; gfn < end; gfn++, bit++, sptep++)
				if (kvm_age_asked(range, bit) &&
				    tdp_age_spte(root, sptep, gfn, level, range))
					kvm_age_found(range, bit);
			continue;
		}
		young = tdp_age_spte(root, sptep, gfn_round_for_level(gfn, level), level, range);
		end = min(range->end, gfn_round_for_level(gfn, level) +
				      KVM_PAGES_PER_HPAGE(level));
		for (; gfn < end && young && range->young; gfn++, bit++)
			if (kvm_age_asked(range, bit))
				kvm_age_found(range, bit);
		range->found |= young;
		bit += end - gfn;
		gfn = end;
	}
}

/* Returns false if mmu_lock is needed. */
static bool tdp_age(struct kvm *kvm, struct kvm_age_range *range)
{
	struct kvm_mmu_page *root;

	if (!kvm_ad_enabled())
		return false;

	rcu_read_lock();
	list_for_each_entry_rcu(root, &kvm->arch.tdp_mmu_roots, link) {
		if (kvm_mmu_page_as_id(root) == range->slot->as_id)
			tdp_age_root(root, range);
		if (kvm_age_fault(ROOTS))
			break;
	}
	rcu_read_unlock();
	return true;
}

/*
 * May shadow page tables map pages of a memslot?  Without mmu_lock this may be wrong about what
 * comes just now, and has not been used for long.  With mmu_lock it is right: shadow page tables
 * are counted with it, after the rmaps of all active memslots were allocated.  A version of a
 * memslot that is on its way out may have none.
 */
static bool kvm_age_has_rmaps(struct kvm *kvm, const struct kvm_memory_slot *slot)
{
	return (!tdp_mmu_enabled || READ_ONCE(kvm->arch.indirect_shadow_pages)) &&
	       READ_ONCE(slot->arch.rmap[0]) && !kvm_age_fault(RMAPS);
}

/**
 * kvm_arch_age_lockless - answer as far as possible without mmu_lock
 * @kvm:   virtual machine
 * @range: question; @range->tdp_done tells kvm_arch_age_locked() what it need not do again
 *
 * Context: kvm->srcu, any locks
 * Return: false if kvm_arch_age_locked() has to be called
 */
bool kvm_arch_age_lockless(struct kvm *kvm, struct kvm_age_range *range)
{
	range->tdp_done = tdp_mmu_enabled && tdp_age(kvm, range);
	return range->tdp_done && !kvm_age_has_rmaps(kvm, range->slot);
}

/**
 * kvm_arch_age_locked - answer
 * @kvm:   virtual machine
 * @range: question
 *
 * Context: kvm->srcu, and mmu_lock for write, which is dropped between pages if somebody waits
 * for it
 */
void kvm_arch_age_locked(struct kvm *kvm, struct kvm_age_range *range)
{
	unsigned long bit = range->first;
	gfn_t gfn, next;

	lockdep_assert_held_write(&kvm->mmu_lock);

	if (tdp_mmu_enabled && !range->tdp_done)
		range->tdp_done = tdp_age(kvm, range);

	for (gfn = range->start; gfn < range->end; bit += next - gfn, gfn = next) {
		struct kvm_gfn_range some = {
			.slot = range->slot,
			.start = gfn,
			.attr_filter = KVM_FILTER_SHARED,
		};
		bool rmaps = kvm_age_has_rmaps(kvm, range->slot), young = false;

		if (range->tdp_done && !rmaps)
			return;
		/* If there is one answer for all, look at all. */
		next = range->pages ? gfn + 1 : range->end;
		if (!kvm_age_asked(range, bit))
			continue;
		some.end = next;
		if (rmaps)
			young = kvm_rmap_age_gfn_range(kvm, &some, range->test);
		if (tdp_mmu_enabled && !range->tdp_done)
			young |= range->test ? kvm_tdp_mmu_test_age_gfn(kvm, &some) :
					       kvm_tdp_mmu_age_gfn_range(kvm, &some);
		if (young)
			kvm_age_found(range, bit);
		if (next < range->end && rwlock_is_contended(&kvm->mmu_lock)) {
			write_unlock(&kvm->mmu_lock);
			cpu_relax();
			write_lock(&kvm->mmu_lock);
		}
	}
}

#ifdef CONFIG_KVM_AGING_KUNIT_TEST
#include "age_kunit.h"
#endif
