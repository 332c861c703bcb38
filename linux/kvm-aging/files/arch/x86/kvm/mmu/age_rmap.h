/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A lock bit for each list of SPTEs that map a page: who ages memory without mmu_lock reads the
 * list under it.
 *
 * Invariant: while somebody holds the bit, nobody else changes the list, and the page tables of its
 * SPTEs stay.  Lists change with mmu_lock held for write only, so the bit is between one writer
 * and those who age.  Before a page table is freed, each of its SPTEs is taken off its list.  An
 * SPTE on the list may be zapped already, and is left alone then (kvm_age_clear_accessed()).
 *
 *  - Holders of mmu_lock for write read lists without the bit: they are the only ones to change
 *    them.  They have to ignore the bit, which readers set and clear.
 *  - An empty list is not locked.  It has nothing to protect, and nobody else puts something on it.
 *  - Lists of parents of shadow pages are nobody's business but mmu_lock's.
 *
 * Ordering: locking acquires, unlocking releases.  A reader sees the list as its last writer left
 * it, and the writer changes it after the last access of a reader.
 *
 * Writers take the bit only while readers may come: kvm_rmap_locking is enabled, and holders of
 * mmu_lock who have not seen that yet are waited for, before the first reader comes; it is
 * disabled after the last one has gone.
 *
 * Whoever holds the bit is not preempted: writers hold mmu_lock, whose waiters and holders are not
 * on kernels without PREEMPT_RT; on those with it there are no readers, thus no bit.
 */
#ifndef __KVM_X86_MMU_AGE_RMAP_H
#define __KVM_X86_MMU_AGE_RMAP_H

#include <linux/atomic.h>
#include <linux/jump_label.h>
#include <linux/kvm_host.h>

#define KVM_RMAP_LOCKED	BIT(1)

#ifdef CONFIG_KVM_AGING
DECLARE_STATIC_KEY_FALSE(kvm_rmap_locking);

static inline unsigned long __kvm_rmap_lock(struct kvm_rmap_head *rmap_head)
{
	unsigned long val = READ_ONCE(rmap_head->val) & ~KVM_RMAP_LOCKED;

	while (val && !try_cmpxchg_acquire(&rmap_head->val, &val, val | KVM_RMAP_LOCKED)) {
		cpu_relax();
		val &= ~KVM_RMAP_LOCKED;
	}
	return val;
}

static inline void __kvm_rmap_unlock(struct kvm_rmap_head *rmap_head, unsigned long val)
{
	/* Whoever locks it next sees the list as it is now: __kvm_rmap_lock() acquires. */
	smp_store_release(&rmap_head->val, val);
}

/* Lock a list that is going to change.  Returns a copy of its head, which is to be changed. */
static inline struct kvm_rmap_head kvm_rmap_lock(struct kvm_rmap_head *rmap_head)
{
	if (static_branch_unlikely(&kvm_rmap_locking))
		return (struct kvm_rmap_head) { __kvm_rmap_lock(rmap_head) };
	return *rmap_head;
}

static inline void kvm_rmap_unlock(struct kvm_rmap_head *rmap_head, struct kvm_rmap_head head)
{
	__kvm_rmap_unlock(rmap_head, head.val);
}

/* What a head says, for holders of mmu_lock */
static inline struct kvm_rmap_head kvm_rmap_read(const struct kvm_rmap_head *rmap_head)
{
	return (struct kvm_rmap_head) { READ_ONCE(rmap_head->val) & ~KVM_RMAP_LOCKED };
}
#else
static inline struct kvm_rmap_head kvm_rmap_lock(struct kvm_rmap_head *rmap_head)
{
	return *rmap_head;
}

static inline void kvm_rmap_unlock(struct kvm_rmap_head *rmap_head, struct kvm_rmap_head head)
{
	*rmap_head = head;
}

static inline struct kvm_rmap_head kvm_rmap_read(const struct kvm_rmap_head *rmap_head)
{
	return *rmap_head;
}
#endif

#endif /* __KVM_X86_MMU_AGE_RMAP_H */
