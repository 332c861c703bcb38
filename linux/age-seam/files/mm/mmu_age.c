// SPDX-License-Identifier: GPL-2.0
/*
 * Ask secondary MMUs about all pages of a page table at once.
 *
 * Interface and an example: include/linux/mmu_age.h.
 *
 * Invariant: a page that is not in the question keeps its Accessed bits.
 *
 * Modules have struct mmu_notifier_ops, so it does not get another operation.  A kind of
 * subscriber registers its answer once for all its subscriptions, and mmu_age_one() recognizes a
 * subscription by its mmu_notifier_ops.  KVM is the only such kind, so there is one slot.  Other
 * subscribers are asked about each page.
 *
 * The SRCU of mmu_notifiers protects a subscription.  RCU protects the slot:
 * mmu_age_unregister() waits for the calls that use it, which do not sleep.
 *
 * Cost of a question: one walk over the subscriptions, and one call for each of the registered
 * kind; one call for each page for the other kinds.  Memory: 2 * PTRS_PER_PTE bits on the walker's
 * stack.
 */
#include <linux/export.h>
#include <linux/mmu_age.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>

DEFINE_STATIC_KEY_FALSE(mmu_age_key);
EXPORT_SYMBOL_GPL(mmu_age_key);

/* Serializes changes of the slot and of the key */
static DEFINE_MUTEX(mmu_age_lock);
static const struct mmu_age_ops __rcu *mmu_age_ops;

static const struct mmu_age_ops *mmu_age_registered(void)
{
	return rcu_dereference_protected(mmu_age_ops, lockdep_is_held(&mmu_age_lock));
}

static void mmu_age_set_key(bool on)
{
	if (on)
		static_branch_enable(&mmu_age_key);
	else
		static_branch_disable(&mmu_age_key);
}

/**
 * mmu_age_register - offer to answer for page tables
 * @ops: of a kind of subscriber; kept until mmu_age_unregister()
 * @on:  shall walkers ask about page tables?
 *
 * Context: may sleep
 */
void mmu_age_register(const struct mmu_age_ops *ops, bool on)
{
	mutex_lock(&mmu_age_lock);
	if (!WARN_ON_ONCE(mmu_age_registered())) {
		rcu_assign_pointer(mmu_age_ops, ops);
		mmu_age_set_key(on);
	}
	mutex_unlock(&mmu_age_lock);
}
EXPORT_SYMBOL_GPL(mmu_age_register);

/**
 * mmu_age_switch - choose between questions about page tables and about pages
 * @ops: of a kind of subscriber; if it is not registered, nothing changes
 * @on:  shall walkers ask about page tables?
 *
 * Context: may sleep
 */
void mmu_age_switch(const struct mmu_age_ops *ops, bool on)
{
	mutex_lock(&mmu_age_lock);
	if (mmu_age_registered() == ops)
		mmu_age_set_key(on);
	mutex_unlock(&mmu_age_lock);
}
EXPORT_SYMBOL_GPL(mmu_age_switch);

/**
 * mmu_age_unregister - take the offer back
 * @ops: as registered
 *
 * No call of @ops is under way when this returns.
 *
 * Context: may sleep
 */
void mmu_age_unregister(const struct mmu_age_ops *ops)
{
	mutex_lock(&mmu_age_lock);
	if (!WARN_ON_ONCE(mmu_age_registered() != ops)) {
		mmu_age_set_key(false);
		RCU_INIT_POINTER(mmu_age_ops, NULL);
		synchronize_rcu();
	}
	mutex_unlock(&mmu_age_lock);
}
EXPORT_SYMBOL_GPL(mmu_age_unregister);

static bool mmu_age_has_bits(struct mmu_notifier *subscription, void *arg)
{
	return subscription->ops->clear_young || subscription->ops->arch_invalidate_secondary_tlbs;
}

/**
 * __mmu_age_secondary - see mmu_age_secondary()
 * @mm: address space that has subscribers
 *
 * Context: any
 * Return: whether a subscriber has Accessed bits or uses those of the CPUs
 */
bool __mmu_age_secondary(struct mm_struct *mm)
{
	return mmu_notifier_until(mm, mmu_age_has_bits, NULL);
}

/* Ask one subscriber.  Returns false, so that mmu_notifier_until() goes on with the next one. */
static bool mmu_age_one(struct mmu_notifier *subscription, void *arg)
{
	const struct mmu_age_ops *ops;
	struct mmu_age *age = arg;
	bool answered = false;
	unsigned int i;

	rcu_read_lock();
	ops = rcu_dereference(mmu_age_ops);
	if (ops && subscription->ops == ops->notifier_ops) {
		ops->clear_young(subscription, age);
		answered = true;
	}
	rcu_read_unlock();

	if (answered || !subscription->ops->clear_young)
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
 * Context: the caller holds the lock of the page table.
 */
void __mmu_age_ask(struct mmu_age *age, struct mm_struct *mm)
{
	bitmap_zero(age->young, PTRS_PER_PTE);
	if (!bitmap_empty(age->pages, PTRS_PER_PTE))
		mmu_notifier_until(mm, mmu_age_one, age);
	age->asked = true;
}

/* Flush the TLBs of one subscriber. */
static bool mmu_age_flush_one(struct mmu_notifier *subscription, void *arg)
{
	const struct mmu_age_ops *ops;

	rcu_read_lock();
	ops = rcu_dereference(mmu_age_ops);
	if (ops && subscription->ops == ops->notifier_ops)
		ops->flush(subscription);
	rcu_read_unlock();
	return false;
}

/**
 * __mmu_age_flush - see mmu_age_flush()
 * @mm: address space that has subscribers
 *
 * Subscribers of other kinds have no operation that flushes without an invalidation.
 *
 * Context: any; the caller holds a reference of mm_count or mm_users.
 */
void __mmu_age_flush(struct mm_struct *mm)
{
	mmu_notifier_until(mm, mmu_age_flush_one, NULL);
}

#ifdef CONFIG_MMU_AGE_KUNIT_TEST
#include "mmu_age_kunit.h"
#endif
