/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Aging of guest memory: which pages has a guest accessed, a page table at a time and without
 * mmu_lock.  Theory, locking and cost: virt/kvm/age.c.
 */
#ifndef _LINUX_KVM_AGE_H
#define _LINUX_KVM_AGE_H

#include <linux/jump_label.h>
#include <linux/kvm_types.h>

struct kvm_memory_slot;
struct mmu_notifier;
struct mmu_notifier_ops;

/**
 * struct kvm_age_range - a question, and the part of it that lies in one memslot
 * @pages: bitmap of the pages that are meant; NULL for all
 * @young: bitmap of those that were accessed; NULL if one answer for all is enough
 * @test:  only look; else what was accessed counts as not accessed afterwards
 * @found: was any accessed?
 * @slot:  memslot
 * @start: first gfn
 * @end:   gfn after the last one
 * @first: bit that stands for @start
 * @tdp_done: has the TDP MMU answered already?
 */
struct kvm_age_range {
	const unsigned long *pages;
	unsigned long *young;
	bool test;
	bool found;

	struct kvm_memory_slot *slot;
	gfn_t start;
	gfn_t end;
	unsigned int first;
	bool tdp_done;
};

#ifdef CONFIG_KVM_AGING
DECLARE_STATIC_KEY_FALSE(kvm_lockless_aging);

static inline bool kvm_age_lockless(void)
{
	return static_branch_unlikely(&kvm_lockless_aging);
}

bool kvm_age_hva(struct mmu_notifier *mn, unsigned long start, unsigned long end, bool test);
void kvm_age_init(const struct mmu_notifier_ops *ops);
void kvm_age_exit(void);

bool kvm_arch_age_lockless(struct kvm *kvm, struct kvm_age_range *range);
void kvm_arch_age_locked(struct kvm *kvm, struct kvm_age_range *range);
void kvm_arch_age_switch(bool on);
#else
static inline bool kvm_age_lockless(void)
{
	return false;
}

static inline bool kvm_age_hva(struct mmu_notifier *mn, unsigned long start, unsigned long end,
			       bool test)
{
	return false;
}

static inline void kvm_age_init(const struct mmu_notifier_ops *ops)
{
}

static inline void kvm_age_exit(void)
{
}
#endif

#endif /* _LINUX_KVM_AGE_H */
