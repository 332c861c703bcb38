// SPDX-License-Identifier: GPL-2.0
/*
 * Aging of guest memory on x86: Accessed bits without mmu_lock.
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
 * Shadow page tables (a guest without TDP, a nested guest with page tables of its own) are found
 * through rmaps, lists of SPTEs that age_rmap.h locks one by one.  Hardware and
 * fast_pf_fix_direct_spte() are the same there.  All others hold mmu_lock for write:
 *
 *  mmu_spte_set()		finds the SPTE not present.
 *  mmu_spte_update_no_track(),	exchange or store like tdp_mmu_set_spte().
 *  mmu_spte_clear_track_bits()
 *  spte_wrprot_for_clear_dirty(),	clear one bit by a locked operation.
 *  kvm_rmap_age_gfn_range()
 *
 * SPTEs without Accessed bits are made inaccessible instead, which must not race: with mmu_lock for
 * write.  In the TDP MMU all are, or none: with EPT without A/D bits.
 */
#include <linux/jump_label.h>
#include <linux/kvm_age.h>
#include <linux/kvm_host.h>
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

DEFINE_STATIC_KEY_FALSE(kvm_rmap_locking);
/* May rmaps be read without mmu_lock?  Readers look under RCU; changed by kvm_arch_age_switch() */
static bool kvm_age_reads_rmaps;

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

/*
 * Look at what maps pages of a guest, or nothing: @spte was read from @sptep.  Returns whether it
 * was accessed.
 */
static __always_inline bool tdp_age_spte(struct kvm_mmu_page *root, tdp_ptep_t sptep, u64 spte,
					 gfn_t gfn, int level, const struct kvm_age_range *range)
{
	if (!is_shadow_present_pte(spte) || !(spte & spte_shadow_accessed_mask(spte)))
		return false;
	if (range->test)
		return true;
	if (kvm_age_clear_accessed(rcu_dereference(sptep), spte))
		trace_kvm_tdp_mmu_spte_changed(kvm_mmu_page_as_id(root), gfn, level, spte,
					       spte & ~shadow_accessed_mask);
	return true;
}

/*
 * Find what maps @gfn, or would: an entry of a last page table, or one that leads no further.  It
 * is read once: a huge page that is split after that counts as what it was.
 */
static tdp_ptep_t tdp_age_walk(struct kvm_mmu_page *root, gfn_t gfn, int *level, u64 *spte)
{
	tdp_ptep_t table = (tdp_ptep_t)root->spt, sptep;

	for (*level = root->role.level; ; --*level) {
		sptep = table + SPTE_INDEX(gfn << PAGE_SHIFT, *level);
		*spte = kvm_tdp_mmu_read_spte(sptep);
		table = spte_to_child_pt(*spte, *level);
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
		u64 spte;

		if (!kvm_age_asked(range, bit)) {
			gfn++;
			bit++;
			continue;
		}
		sptep = tdp_age_walk(root, gfn, &level, &spte);
		if (level == PG_LEVEL_4K) {
			end = min(range->end, gfn_round_for_level(gfn, PG_LEVEL_2M) +
					      KVM_PAGES_PER_HPAGE(PG_LEVEL_2M));
			for (; gfn < end; gfn++, bit++, sptep++)
				if (kvm_age_asked(range, bit) &&
				    tdp_age_spte(root, sptep, kvm_tdp_mmu_read_spte(sptep), gfn,
						 level, range))
					kvm_age_found(range, bit);
			continue;
		}
		young = tdp_age_spte(root, sptep, spte, gfn_round_for_level(gfn, level), level,
				     range);
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
 * comes just now, and has not been used for long.  With mmu_lock it is right about what a guest
 * can reach: shadow page tables are counted with it, after the rmaps of all active memslots were
 * allocated.  Direct ones are not counted: those that outlive the last that is are not reached, and
 * what was accessed through them is forgotten.  A version of a memslot that is on its way out may
 * have none.
 *
 * Rmaps are allocated before a memslot is published, or for all active memslots before
 * kvm_memslots_have_rmaps() says so, which acquires.  Other versions of memslots have all that
 * they will ever have, or none.
 */
static bool kvm_age_has_rmaps(struct kvm *kvm, const struct kvm_memory_slot *slot)
{
	return kvm_memslots_have_rmaps(kvm) &&
	       (!tdp_mmu_enabled || READ_ONCE(kvm->arch.indirect_shadow_pages)) &&
	       READ_ONCE(slot->arch.rmap[0]) && !kvm_age_fault(RMAPS);
}

/* Look at an SPTE of a locked rmap.  Returns false if mmu_lock is needed. */
static bool rmap_age_spte(u64 *sptep, bool test, bool *young)
{
	u64 spte = READ_ONCE(*sptep);

	if (!is_shadow_present_pte(spte) || !is_accessed_spte(spte))
		return true;
	if (!test) {
		if (!spte_ad_enabled(spte))
			return false;
		kvm_age_clear_accessed(sptep, spte);
	}
	*young = true;
	return true;
}

/* The same for all SPTEs of an rmap, which is not locked yet */
static bool rmap_age(struct kvm_rmap_head *rmap_head, bool test, bool *young)
{
	bool unlocked = kvm_age_fault(LISTS), done = true;
	struct pte_list_desc *desc;
	unsigned long val;
	int i;

	if (!READ_ONCE(rmap_head->val))
		return true;
	preempt_disable();
	if (unlocked)
		val = READ_ONCE(rmap_head->val) & ~KVM_RMAP_LOCKED;
	else
		val = __kvm_rmap_lock(rmap_head);
	if (val & KVM_RMAP_MANY) {
		for (desc = (void *)(val & ~KVM_RMAP_MANY); desc; desc = desc->more)
			for (i = 0; i < desc->spte_count; i++)
				done &= rmap_age_spte(desc->sptes[i], test, young);
	} else if (val) {
		done = rmap_age_spte((u64 *)val, test, young);
	}
	if (val && !unlocked)
		__kvm_rmap_unlock(rmap_head, val);
	preempt_enable();
	return done;
}

/* The same for pages of a memslot; they are mapped by SPTEs of any size. */
static bool rmap_age_gfns(const struct kvm_memory_slot *slot, gfn_t start, gfn_t end, bool test,
			  bool *young)
{
	unsigned long i, last;
	bool done = true;
	int level;

	for (level = PG_LEVEL_4K; level <= KVM_MAX_HUGEPAGE_LEVEL; level++) {
		struct kvm_rmap_head *rmap = slot->arch.rmap[level - PG_LEVEL_4K];

		last = gfn_to_index(end - 1, slot->base_gfn, level);
		for (i = gfn_to_index(start, slot->base_gfn, level); i <= last; i++)
			done &= rmap_age(&rmap[i], test, young);
	}
	return done;
}

/* Returns false if mmu_lock is needed, be it for some SPTEs only. */
static bool rmap_age_range(struct kvm_age_range *range)
{
	unsigned long bit = range->first;
	gfn_t gfn, next;
	bool done;

	rcu_read_lock();
	done = READ_ONCE(kvm_age_reads_rmaps);
	for (gfn = range->start; gfn < range->end && done; bit += next - gfn, gfn = next) {
		bool young = false;

		/* If there is one answer for all, look at all. */
		next = range->pages ? gfn + 1 : range->end;
		if (!kvm_age_asked(range, bit))
			continue;
		done = rmap_age_gfns(range->slot, gfn, next, range->test, &young);
		if (young)
			kvm_age_found(range, bit);
	}
	rcu_read_unlock();
	return done;
}

/**
 * kvm_arch_age_lockless - answer as far as possible without mmu_lock
 * @kvm:   virtual machine
 * @range: question; @range->tdp_done tells kvm_arch_age_locked() what it need not do again
 *
 * Context: kvm->srcu, any locks
 * Return: false if kvm_arch_age_locked() has to be called; what was found until then counts
 */
bool kvm_arch_age_lockless(struct kvm *kvm, struct kvm_age_range *range)
{
	if (tdp_mmu_enabled) {
		range->tdp_done = tdp_age(kvm, range);
		if (!range->tdp_done)
			return false;
	}
	return !kvm_age_has_rmaps(kvm, range->slot) || rmap_age_range(range);
}

/**
 * kvm_arch_age_switch - lockless aging is switched on or off
 * @on: is it wanted?
 *
 * RCU waits for holders of mmu_lock as well, who are not preempted.
 *
 * Context: may sleep; one caller at a time
 */
void kvm_arch_age_switch(bool on)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT) || on == kvm_age_reads_rmaps)
		return;
	if (on) {
		static_branch_enable(&kvm_rmap_locking);
		synchronize_rcu();
		WRITE_ONCE(kvm_age_reads_rmaps, true);
	} else {
		WRITE_ONCE(kvm_age_reads_rmaps, false);
		synchronize_rcu();
		static_branch_disable(&kvm_rmap_locking);
	}
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
