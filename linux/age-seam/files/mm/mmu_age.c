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
#include <linux/init.h>
#include <linux/mmu_age.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/tier_parts.h>

#define CREATE_TRACE_POINTS
#include <trace/events/tier_age.h>

DEFINE_STATIC_KEY_FALSE(mmu_age_key);
EXPORT_SYMBOL_GPL(mmu_age_key);

/* Serializes changes of the slot and of the key */
static DEFINE_MUTEX(mmu_age_lock);
static const struct mmu_age_ops __rcu *mmu_age_ops;

/* Rows of /proc/vmstat */
enum mmu_age_row {
	MMU_AGE_PAGES,		/* that secondary MMUs were asked about */
	MMU_AGE_QUESTIONS,	/* each about some pages of a page table */
	MMU_AGE_FLUSH,		/* of the TLBs of secondary MMUs, for a walker */
	NR_MMU_AGE_ROWS
};

static DEFINE_PER_CPU(unsigned long [NR_MMU_AGE_ROWS], mmu_age_rows);

static const struct mmu_age_ops *mmu_age_registered(void)
{
	return rcu_dereference_protected(mmu_age_ops, lockdep_is_held(&mmu_age_lock));
}

/**
 * mmu_age_register - offer to answer for page tables
 * @ops: of a kind of subscriber; kept until mmu_age_unregister()
 *
 * Walkers ask about page tables as soon as the part "age" has started.
 *
 * Context: may sleep
 */
void mmu_age_register(const struct mmu_age_ops *ops)
{
	mutex_lock(&mmu_age_lock);
	if (!WARN_ON_ONCE(mmu_age_registered()))
		rcu_assign_pointer(mmu_age_ops, ops);
	mutex_unlock(&mmu_age_lock);
	tier_parts_changed();
}
EXPORT_SYMBOL_GPL(mmu_age_register);

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
		static_branch_disable(&mmu_age_key);
		RCU_INIT_POINTER(mmu_age_ops, NULL);
		synchronize_rcu();
	}
	mutex_unlock(&mmu_age_lock);
	tier_parts_changed();
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
	unsigned int pages = bitmap_weight(age->pages, PTRS_PER_PTE);

	bitmap_zero(age->young, PTRS_PER_PTE);
	if (pages) {
		mmu_notifier_until(mm, mmu_age_one, age);
		this_cpu_inc(mmu_age_rows[MMU_AGE_QUESTIONS]);
		this_cpu_add(mmu_age_rows[MMU_AGE_PAGES], pages);
		if (trace_tier_age_enabled())
			trace_tier_age(age->start, pages, bitmap_weight(age->young, PTRS_PER_PTE));
	}
	age->asked = true;
}

/* Flush the TLBs of one subscriber. */
static bool mmu_age_flush_one(struct mmu_notifier *subscription, void *arg)
{
	const struct mmu_age_ops *ops;

	rcu_read_lock();
	ops = rcu_dereference(mmu_age_ops);
	if (ops && subscription->ops == ops->notifier_ops) {
		ops->flush(subscription);
		this_cpu_inc(mmu_age_rows[MMU_AGE_FLUSH]);
	}
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

static int mmu_age_start(const char **reason)
{
	int err = 0;

	mutex_lock(&mmu_age_lock);
	if (mmu_age_registered()) {
		static_branch_enable(&mmu_age_key);
	} else {
		*reason = "no secondary MMU answers for page tables: kvm is not loaded";
		err = -ENODEV;
	}
	mutex_unlock(&mmu_age_lock);
	return err;
}

static void mmu_age_stop(void)
{
	mutex_lock(&mmu_age_lock);
	static_branch_disable(&mmu_age_key);
	mutex_unlock(&mmu_age_lock);
}

static bool mmu_age_runs(void)
{
	return static_key_enabled(&mmu_age_key);
}

static const char * const mmu_age_names[NR_MMU_AGE_ROWS] = {
	[MMU_AGE_PAGES]		= "tier_age_pages ",
	[MMU_AGE_QUESTIONS]	= "tier_age_questions ",
	[MMU_AGE_FLUSH]		= "tier_age_flush ",
};

static struct tier_counters mmu_age_counters = {
	.names	= mmu_age_names,
	.nr	= NR_MMU_AGE_ROWS,
	.counts	= mmu_age_rows,
};

static struct tier_part mmu_age_part = {
	.name		= "age",
	.wish		= true,
	.optional	= true,
	.start		= mmu_age_start,
	.stop		= mmu_age_stop,
	.runs		= mmu_age_runs,
};

static int __init mmu_age_init(void)
{
	tier_counters_add(&mmu_age_counters);
	return tier_part_add(&mmu_age_part);
}
late_initcall(mmu_age_init);

#ifdef CONFIG_MMU_AGE_KUNIT_TEST
#include "mmu_age_kunit.h"
#endif
