// SPDX-License-Identifier: GPL-2.0
/*
 * Aging of guest memory.
 *
 * Reclaim and promotion want to know which pages a guest has accessed since they asked last.  The
 * answer is in the Accessed bits of KVM's page tables.  The mmu_notifiers give it page by page:
 * find the memslot, take mmu_lock for write, walk from the root to the leaf.  Most of this is the
 * same for all pages of a page table, and the lock keeps vCPUs from mapping memory.  Two things
 * are better here, and each has its switch:
 *
 *  range_aging	all pages of a page table of the host are asked about at once
 *		(include/linux/mmu_age.h): one search for the memslot, one walk to the leaf, and
 *		mmu_lock, if at all, once for each memslot that has some of them, and again
 *		when others wait for it while rmaps are looked at;
 *  lockless_aging	KVM's page tables are read, and Accessed bits cleared, without mmu_lock, by
 *		questions about a page, too.
 *
 * What is needed without mmu_lock
 * -------------------------------
 *  - Memslots: kvm->srcu.  What of a memslot is read here does not change while a reader may see
 *    it.  (x86 reads more of it, see kvm_age_has_rmaps().)  While one moves, gfns may mean another
 *    hva already; then some page counts as accessed, or not, for another one, as it does with
 *    mmu_lock.
 *  - Page tables: see arch/x86/kvm/mmu/age.c.
 *  - kvm itself: callers are called by mmu_notifiers; unregistering a subscription waits for
 *    them.
 *
 * What the architecture cannot tell without mmu_lock is asked with it, once for all pages of a
 * memslot.
 *
 * No TLB is flushed: until an entry of a TLB goes for some other reason, accesses through it are
 * not seen.  mmu_notifiers of 6.12 do the same but for clear_flush_young(), which flushes if it
 * has found something, here as well.
 *
 * Locking: callers may hold locks of page tables; nothing here sleeps.  kvm_age_lock protects the
 * switches.
 */
#include <linux/bitmap.h>
#include <linux/kvm_age.h>
#include <linux/kvm_host.h>
#include <linux/mmu_age.h>
#include <linux/module.h>
#include <linux/mutex.h>

#include "kvm_mm.h"

#define CREATE_TRACE_POINTS
#include <trace/events/kvm_age.h>

DEFINE_STATIC_KEY_FALSE(kvm_lockless_aging);

static DEFINE_MUTEX(kvm_age_lock);
static bool lockless_aging, range_aging;

/* Returns whether mmu_lock was needed. */
static bool kvm_age(struct kvm *kvm, unsigned long start, unsigned long end,
		    struct kvm_age_range *range)
{
	bool locked = false;
	int i, idx;

	idx = srcu_read_lock(&kvm->srcu);
	for (i = 0; i < kvm_arch_nr_memslot_as_ids(kvm); i++) {
		struct kvm_memslots *slots = __kvm_memslots(kvm, i);
		struct interval_tree_node *node;

		for (node = interval_tree_iter_first(&slots->hva_tree, start, end - 1); node;
		     node = interval_tree_iter_next(node, start, end - 1)) {
			struct kvm_memory_slot *slot =
				container_of(node, struct kvm_memory_slot,
					     hva_node[slots->node_idx]);
			unsigned long first = max(start, slot->userspace_addr);
			unsigned long last = min(end - 1, slot->userspace_addr +
						 (slot->npages << PAGE_SHIFT) - 1);

			range->slot = slot;
			range->start = hva_to_gfn_memslot(first, slot);
			range->end = hva_to_gfn_memslot(last, slot) + 1;
			range->first = (first - start) >> PAGE_SHIFT;
			range->tdp_done = false;
			if (kvm_age_lockless() && kvm_arch_age_lockless(kvm, range))
				continue;
			locked = true;
			KVM_MMU_LOCK(kvm);
			kvm_arch_age_locked(kvm, range);
			KVM_MMU_UNLOCK(kvm);
		}
	}
	srcu_read_unlock(&kvm->srcu, idx);
	return locked;
}

static struct kvm *kvm_age_subscriber(struct mmu_notifier *mn)
{
	return container_of(mn, struct kvm, mmu_notifier);
}

/**
 * kvm_age_hva - was any page of a range of addresses accessed?
 * @mn:    subscription of a virtual machine
 * @start: first address
 * @end:   address after the last one
 * @test:  only look; else no page counts as accessed afterwards
 *
 * Context: any; takes mmu_lock only if it has to.
 * Return: whether the guest has accessed one
 */
bool kvm_age_hva(struct mmu_notifier *mn, unsigned long start, unsigned long end, bool test)
{
	struct kvm_age_range range = { .test = test };

	kvm_age(kvm_age_subscriber(mn), start, end, &range);
	return range.found;
}

static void kvm_age_clear_young(struct mmu_notifier *mn, unsigned long start,
				const unsigned long *pages, unsigned long *young)
{
	struct kvm_age_range range = { .pages = pages, .young = young };
	unsigned long last = find_last_bit(pages, PTRS_PER_PTE);
	unsigned int before = 0;
	bool locked;

	if (trace_kvm_age_range_enabled())
		before = bitmap_weight(young, PTRS_PER_PTE);
	locked = kvm_age(kvm_age_subscriber(mn), start, start + (last + 1) * PAGE_SIZE, &range);
	if (trace_kvm_age_range_enabled())
		trace_kvm_age_range(start, bitmap_weight(pages, PTRS_PER_PTE),
				    bitmap_weight(young, PTRS_PER_PTE) - before, locked);
}

/* notifier_ops is NULL while no vendor module is there. */
static struct mmu_age_ops kvm_age_ops = {
	.clear_young = kvm_age_clear_young,
};

static bool kvm_age_registered;

static int kvm_age_offer(bool offer)
{
	int err = 0;

	if (offer == kvm_age_registered)
		return 0;
	if (offer)
		err = mmu_age_register(&kvm_age_ops);
	else
		mmu_age_unregister(&kvm_age_ops);
	if (!err)
		kvm_age_registered = offer;
	return err;
}

/* Do what the switches say. */
static int kvm_age_apply(void)
{
	int err;

	lockdep_assert_held(&kvm_age_lock);
	err = kvm_age_offer(kvm_age_ops.notifier_ops && range_aging);
	if (err)
		return err;
	kvm_arch_age_switch(lockless_aging);
	if (lockless_aging)
		static_branch_enable(&kvm_lockless_aging);
	else
		static_branch_disable(&kvm_lockless_aging);
	return 0;
}

static int kvm_age_set(const char *val, const struct kernel_param *kp)
{
	bool before;
	int err;

	mutex_lock(&kvm_age_lock);
	before = *(bool *)kp->arg;
	err = param_set_bool(val, kp);
	if (!err) {
		err = kvm_age_apply();
		if (err)
			*(bool *)kp->arg = before;
	}
	mutex_unlock(&kvm_age_lock);
	return err;
}

static const struct kernel_param_ops kvm_age_param_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = kvm_age_set,
	.get = param_get_bool,
};

module_param_cb(range_aging, &kvm_age_param_ops, &range_aging, 0644);
MODULE_PARM_DESC(range_aging, "Ask about the pages of a page table at once when memory is aged");
module_param_cb(lockless_aging, &kvm_age_param_ops, &lockless_aging, 0644);
MODULE_PARM_DESC(lockless_aging, "Read and clear Accessed bits of guest memory without mmu_lock");

/**
 * kvm_age_init - a vendor module has come
 * @ops: of the subscriptions of virtual machines
 *
 * Context: may sleep
 */
void kvm_age_init(const struct mmu_notifier_ops *ops)
{
	mutex_lock(&kvm_age_lock);
	kvm_age_ops.notifier_ops = ops;
	if (kvm_age_apply()) {
		range_aging = false;
		kvm_age_apply();
		pr_warn("kvm: range_aging is off: another kind of secondary MMU has registered\n");
	}
	mutex_unlock(&kvm_age_lock);
}

/**
 * kvm_age_exit - a vendor module goes; there are no virtual machines any more
 *
 * Context: may sleep
 */
void kvm_age_exit(void)
{
	mutex_lock(&kvm_age_lock);
	kvm_age_offer(false);
	kvm_age_ops.notifier_ops = NULL;
	mutex_unlock(&kvm_age_lock);
}
