// SPDX-License-Identifier: GPL-2.0
/*
 * Ask secondary MMUs about the pages of a page table at once.
 *
 * Interface and an example: include/linux/mmu_age.h.
 *
 * Invariant: pages that are not in the question keep their Accessed bits.
 *
 * A kind of subscriber registers once for all its subscriptions.  It is recognized by its
 * mmu_notifier_ops.  These do not grow, because modules have them.  There is one such kind, KVM,
 * so there is one slot.  Other subscribers are asked page by page as ever.
 *
 * Subscriptions are protected by mmu_notifier's SRCU.  The slot is read with it, too:
 * mmu_age_unregister() waits until nobody can be using what it held.
 *
 * Cost of a question: one walk over the subscriptions, and a call for each that has registered;
 * a call for each page for others.  Memory: 2 * PTRS_PER_PTE bits on the stack of the walker.
 */
#include <linux/export.h>
#include <linux/mmu_age.h>
#include <linux/mutex.h>

DEFINE_STATIC_KEY_FALSE(mmu_age_key);

/* For those who write the slot */
static DEFINE_MUTEX(mmu_age_lock);
static const struct mmu_age_ops *mmu_age_ops;

/**
 * mmu_age_register - offer to answer for page tables
 * @ops: of a kind of subscriber; kept until mmu_age_unregister()
 *
 * Context: may sleep
 * Return: 0, or -EBUSY if some kind has registered already
 */
int mmu_age_register(const struct mmu_age_ops *ops)
{
	int err = -EBUSY;

	mutex_lock(&mmu_age_lock);
	if (!mmu_age_ops) {
		/* Pairs with the smp_load_acquire() in mmu_age_one(). */
		smp_store_release(&mmu_age_ops, ops);
		static_branch_enable(&mmu_age_key);
		err = 0;
	}
	mutex_unlock(&mmu_age_lock);
	return err;
}
EXPORT_SYMBOL_GPL(mmu_age_register);

/**
 * mmu_age_unregister - take the offer back
 * @ops: as registered
 *
 * Nobody uses @ops when this returns.  Subscribers of that kind are asked page by page then.
 *
 * Context: may sleep
 */
void mmu_age_unregister(const struct mmu_age_ops *ops)
{
	mutex_lock(&mmu_age_lock);
	if (!WARN_ON_ONCE(mmu_age_ops != ops)) {
		static_branch_disable(&mmu_age_key);
		WRITE_ONCE(mmu_age_ops, NULL);
		mmu_notifier_synchronize();
	}
	mutex_unlock(&mmu_age_lock);
}
EXPORT_SYMBOL_GPL(mmu_age_unregister);

static bool mmu_age_is_secondary(struct mmu_notifier *subscription, void *arg)
{
	return subscription->ops->clear_young || subscription->ops->arch_invalidate_secondary_tlbs;
}

/**
 * __mmu_age_secondary - see mmu_age_secondary()
 * @mm: address space that has subscribers
 *
 * Context: any
 * Return: whether one of them has, or uses, Accessed bits
 */
bool __mmu_age_secondary(struct mm_struct *mm)
{
	return mmu_notifier_find(mm, mmu_age_is_secondary, NULL);
}

/* Ask one subscriber; returns false to go on with the next. */
static bool mmu_age_one(struct mmu_notifier *subscription, void *arg)
{
	/* Pairs with the smp_store_release() in mmu_age_register(). */
	const struct mmu_age_ops *ops = smp_load_acquire(&mmu_age_ops);
	struct mmu_age *age = arg;
	unsigned int i;

	if (ops && subscription->ops == ops->notifier_ops) {
		ops->clear_young(subscription, age->start, age->pages, age->young);
		return false;
	}
	if (!subscription->ops->clear_young)
		return false;
	for_each_set_bit(i, age->pages, PTRS_PER_PTE) {
		unsigned long addr = age->start + i * PAGE_SIZE;

		if (subscription->ops->clear_young(subscription, subscription->mm, addr,
						   addr + PAGE_SIZE))
			__set_bit(i, age->young);
	}
	return false;
}

/**
 * __mmu_age_ask - see mmu_age_ask()
 * @age: of the walk
 * @mm:  address space that has subscribers
 *
 * Context: the lock of the page table is held
 */
void __mmu_age_ask(struct mmu_age *age, struct mm_struct *mm)
{
	bitmap_zero(age->young, PTRS_PER_PTE);
	if (!bitmap_empty(age->pages, PTRS_PER_PTE))
		mmu_notifier_find(mm, mmu_age_one, age);
	age->asked = true;
}

#ifdef CONFIG_MMU_AGE_KUNIT_TEST
#include "mmu_age_kunit.h"
#endif
