/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A lock bit for each rmap, the list of SPTEs that map a page.  Aging without mmu_lock reads the
 * list under the bit.
 *
 * Invariant: while a CPU holds the bit, no other CPU changes the list, and the page tables that
 * hold its SPTEs are not freed.  A writer of the list holds mmu_lock for write and the bit.  A
 * page table is freed after each of its SPTEs was taken off its list.  An SPTE on the list may be
 * zapped already; kvm_age_spte() leaves that alone.
 *
 *  - A holder of mmu_lock for write may read a list without the bit, because only such a holder
 *    changes lists.  It must ignore the bit, which agers set and clear (kvm_rmap_unlocked()).
 *  - An empty list is not locked: it protects nothing, and only the holder of mmu_lock can add to
 *    it.  Its unlock stores the value of the new list, without the bit.
 *  - Only mmu_lock protects the lists of parents of shadow pages, which agers do not read.
 *
 * Ordering: locking acquires, unlocking releases.  An ager sees the list as its last writer left
 * it, and a writer changes the list after the last access of an ager.
 *
 * The bit nests inside of mmu_lock.  A holder of the bit is not preempted: agers disable
 * preemption; writers hold mmu_lock, a spinning lock without PREEMPT_RT.  With PREEMPT_RT
 * KVM_LOCKLESS_AGING is off, and there is no bit.
 */
#ifndef __KVM_X86_MMU_AGE_RMAP_H
#define __KVM_X86_MMU_AGE_RMAP_H

#include <linux/atomic.h>
#include <linux/kvm_host.h>

#define KVM_RMAP_LOCKED	BIT(1)

#ifdef CONFIG_KVM_LOCKLESS_AGING
/* Returns the value of the head without the bit; 0, and does not lock, if the list is empty. */
static inline unsigned long __kvm_rmap_lock(struct kvm_rmap_head *rmap_head)
{
	unsigned long val;

	for (;;) {
		val = READ_ONCE(rmap_head->val);
		if (!val)
			return 0;
		if (!(val & KVM_RMAP_LOCKED) &&
		    try_cmpxchg_acquire(&rmap_head->val, &val, val | KVM_RMAP_LOCKED))
			return val;
		cpu_relax();
	}
}

static inline void __kvm_rmap_unlock(struct kvm_rmap_head *rmap_head, unsigned long val)
{
	/* The next __kvm_rmap_lock() acquires, so its caller sees the list as it is now. */
	smp_store_release(&rmap_head->val, val);
}
#else
static inline unsigned long __kvm_rmap_lock(struct kvm_rmap_head *rmap_head)
{
	return rmap_head->val;
}

static inline void __kvm_rmap_unlock(struct kvm_rmap_head *rmap_head, unsigned long val)
{
	rmap_head->val = val;
}
#endif

/* Lock a list to change it.  Returns a copy of its head for the changes. */
static inline struct kvm_rmap_head kvm_rmap_lock(struct kvm *kvm, struct kvm_rmap_head *rmap_head)
{
	lockdep_assert_held_write(&kvm->mmu_lock);
	return (struct kvm_rmap_head) { __kvm_rmap_lock(rmap_head) };
}

static inline void kvm_rmap_unlock(struct kvm_rmap_head *rmap_head, struct kvm_rmap_head head)
{
	__kvm_rmap_unlock(rmap_head, head.val);
}

/* The head without the bit, for holders of mmu_lock */
static inline struct kvm_rmap_head kvm_rmap_unlocked(const struct kvm_rmap_head *rmap_head)
{
	return (struct kvm_rmap_head) { READ_ONCE(rmap_head->val) & ~KVM_RMAP_LOCKED };
}

#endif /* __KVM_X86_MMU_AGE_RMAP_H */
