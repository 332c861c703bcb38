/* SPDX-License-Identifier: GPL-2.0 */
/* Aging of guest memory without mmu_lock, and faults that tests inject. */
#ifndef __KVM_X86_MMU_AGE_H
#define __KVM_X86_MMU_AGE_H

#include <linux/compiler.h>
#include <linux/kconfig.h>
#include <linux/kvm_types.h>

struct kvm_gfn_range;

bool kvm_mmu_age_lockless(struct kvm *kvm, struct kvm_gfn_range *range, bool test);

enum kvm_age_fault {
	KVM_AGE_STORE,		/* Accessed bits are cleared by a plain store */
	KVM_AGE_PAGES,		/* pages outside of the question lose their Accessed bits */
	KVM_AGE_ROOTS,		/* only the first root is looked at */
	KVM_AGE_RMAPS,		/* shadow page tables are not looked at */
	KVM_AGE_LISTS,		/* rmaps are read without their lock */
	NR_KVM_AGE_FAULTS
};

extern bool kvm_age_faults[NR_KVM_AGE_FAULTS];

void __kvm_age_delay(void);
void kvm_age_store(u64 *sptep, u64 value, u64 read);

/* Give other CPUs time to change an SPTE between the look at it and the update. */
static inline void kvm_age_delay(void)
{
	if (IS_ENABLED(CONFIG_KVM_AGING_DEBUG))
		__kvm_age_delay();
}

#define kvm_age_fault(name) \
	(IS_ENABLED(CONFIG_KVM_AGING_DEBUG) && unlikely(READ_ONCE(kvm_age_faults[KVM_AGE_##name])))

#endif /* __KVM_X86_MMU_AGE_H */
