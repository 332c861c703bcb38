/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which pages of a page table have the CPUs and secondary MMUs accessed?
 *
 * The Accessed bit of a PTE does not show accesses of a secondary MMU: a virtual machine uses KVM's
 * page tables.  mmu_notifier_clear_young() returns one bit for a range, so a walker
 * that needs an answer for each page calls it for each page.  With this interface a walker
 * gathers the pages of one page table and asks the secondary MMUs once:
 *
 *	struct mmu_age age;
 *
 *	...lock the page table...
 *	mmu_age_begin(&age, mm);
 *	if (mmu_age_by_range(&age)) {
 *		mmu_age_table(&age, addr);
 *		for each page that matters
 *			mmu_age_add(&age, addr);
 *		mmu_age_ask(&age, mm);
 *	}
 *	for each page
 *		if (!mmu_age_idle(&age, addr, ptep_get(pte)) &&
 *		    mmu_age_clear_young(&age, vma, addr, pte))
 *			it was accessed
 *
 * A page that the walker has not added keeps its Accessed bits.  While mmu_age_key is off,
 * mmu_age_by_range() returns false, and mmu_age_clear_young() asks about one page.  If the key
 * goes off during a walk, the walk drops the answers that it has not used yet: at most
 * PTRS_PER_PTE pages look idle once.
 *
 * A question costs at most MMU_AGE_BUDGET entries of secondary MMUs, 1 ms at 100 ns an entry.  All
 * questions of one walk of a page table share the budget.  A guest decides how many entries map
 * one of its pages.  Pages that remain when the budget is spent count as accessed.
 */
#ifndef _LINUX_MMU_AGE_H
#define _LINUX_MMU_AGE_H

#include <linux/bitmap.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>

#ifdef CONFIG_MMU

/* Entries of secondary MMUs that one walk of a page table may cost */
#define MMU_AGE_BUDGET	10000

/* Which Accessed bit was set? */
#define MMU_AGE_CPU		BIT(0)
#define MMU_AGE_SECONDARY	BIT(1)

/**
 * struct mmu_age - question about the pages of a page table, and its answer
 * @secondary: may a secondary MMU know of accesses that PTEs do not show?
 * @asked:     are @pages and @young valid?
 * @budget:    entries that secondary MMUs may still look at
 * @start:     address of the page for which bit 0 stands
 * @pages:     pages of the question
 * @young:     pages of the question that a secondary MMU has accessed
 */
struct mmu_age {
	bool secondary;
	bool asked;
	unsigned int budget;
	unsigned long start;
	DECLARE_BITMAP(pages, MAX_PTRS_PER_PTE);
	DECLARE_BITMAP(young, MAX_PTRS_PER_PTE);
};

/**
 * struct mmu_age_ops - how to ask one kind of subscriber about a page table
 * @notifier_ops: mmu_notifier_ops of its subscriptions
 * @clear_young:  set in @age->young those of @age->pages that were accessed, and clear their
 *                Accessed bits, but of no other page.  Takes from @age->budget one for each
 *                entry; the pages for which the budget does not suffice count as accessed.
 *                Called with the lock of the page table; must not sleep, nor flush.
 * @flush:        flush the TLBs that may hold translations with Accessed set.  Must not sleep.
 */
struct mmu_age_ops {
	const struct mmu_notifier_ops *notifier_ops;
	void (*clear_young)(struct mmu_notifier *subscription, struct mmu_age *age);
	void (*flush)(struct mmu_notifier *subscription);
};

void mmu_age_register(const struct mmu_age_ops *ops);
void mmu_age_unregister(const struct mmu_age_ops *ops);
bool __mmu_age_secondary(struct mm_struct *mm);
void __mmu_age_ask(struct mmu_age *age, struct mm_struct *mm);
void __mmu_age_flush(struct mm_struct *mm);
bool mmu_notifier_until(struct mm_struct *mm,
			bool (*fn)(struct mmu_notifier *subscription, void *arg), void *arg);

#ifdef CONFIG_MMU_AGE
DECLARE_STATIC_KEY_FALSE(mmu_age_key);
#define mmu_age_on()	static_branch_unlikely(&mmu_age_key)
#else
#define mmu_age_on()	false
#endif

/**
 * mmu_age_secondary - may a secondary MMU know of accesses to an address space?
 * @mm: address space
 *
 * Two kinds of subscribers to mmu_notifiers count.  One has Accessed bits of its own.  The other
 * walks the page tables of the CPUs (shared virtual addressing): it may cache an entry that leads
 * to a page table, and then set Accessed bits below without setting that of the entry.
 *
 * Context: any
 * Return: false if PTEs show all accesses.
 */
static inline bool mmu_age_secondary(struct mm_struct *mm)
{
	return mm_has_notifiers(mm) &&
	       (!IS_ENABLED(CONFIG_MMU_AGE) || __mmu_age_secondary(mm));
}

/**
 * mmu_age_begin - begin a hold of the lock of a page table
 * @age: for the walk
 * @mm:  address space; a subscriber that comes during the walk may be overlooked
 */
static inline void mmu_age_begin(struct mmu_age *age, struct mm_struct *mm)
{
	age->secondary = mmu_age_secondary(mm);
	age->asked = false;
	age->budget = MMU_AGE_BUDGET;
}

/**
 * mmu_age_by_range - shall the walker ask secondary MMUs about the whole page table?
 * @age: of the walk
 *
 * Return: false if mmu_age_clear_young() asks about each page.
 */
static inline bool mmu_age_by_range(struct mmu_age *age)
{
	/* Answers about one page table say nothing about the next one. */
	age->asked = false;
	return mmu_age_on() && age->secondary;
}

/**
 * mmu_age_table - begin to gather pages
 * @age:  of the walk
 * @addr: any address in the page table
 */
static inline void mmu_age_table(struct mmu_age *age, unsigned long addr)
{
	age->start = addr & PMD_MASK;
	bitmap_zero(age->pages, PTRS_PER_PTE);
}

/**
 * mmu_age_add - add a page to the question
 * @age:  of the walk
 * @addr: of the page, in the page table of mmu_age_table()
 */
static inline void mmu_age_add(struct mmu_age *age, unsigned long addr)
{
	__set_bit(pte_index(addr), age->pages);
}

/**
 * mmu_age_ask - ask secondary MMUs about the pages that were added
 * @age: of the walk
 * @mm:  address space
 *
 * Context: the caller holds the lock of the page table, so that pages stay where they are.
 */
static inline void mmu_age_ask(struct mmu_age *age, struct mm_struct *mm)
{
	if (IS_ENABLED(CONFIG_MMU_AGE))
		__mmu_age_ask(age, mm);
}

/**
 * mmu_age_any - has a secondary MMU accessed any page of the question?
 * @age: of the walk, after mmu_age_ask()
 *
 * Return: whether it has
 */
static inline bool mmu_age_any(const struct mmu_age *age)
{
	return !bitmap_empty(age->young, PTRS_PER_PTE);
}

/**
 * mmu_age_flush - flush the TLBs of secondary MMUs
 * @mm: address space
 *
 * A TLB that holds a translation does not set the Accessed bit again.  A walker that compares
 * two walks calls this once after the first one, if that has found %MMU_AGE_SECONDARY.
 *
 * Without CONFIG_KVM_AGING the TLBs of KVM are not flushed.
 *
 * Context: interrupts are on; the caller holds a reference of mm_count or mm_users.
 */
static inline void mmu_age_flush(struct mm_struct *mm)
{
	if (IS_ENABLED(CONFIG_MMU_AGE) && mm_has_notifiers(mm))
		__mmu_age_flush(mm);
}

/* Is there an answer?  A no-op while mmu_age_key is off. */
static inline bool mmu_age_asked(const struct mmu_age *age)
{
	return mmu_age_on() && age->asked;
}

/* Has a secondary MMU accessed this page of the question? */
static inline bool mmu_age_answer(const struct mmu_age *age, unsigned long addr)
{
	return test_bit(pte_index(addr), age->young);
}

/**
 * mmu_age_idle - is it known without a question that a page was not accessed?
 * @age:  of the walk
 * @addr: of the page
 * @pte:  that maps it
 *
 * Return: true if mmu_age_clear_young() would return 0.
 */
static inline bool mmu_age_idle(const struct mmu_age *age, unsigned long addr, pte_t pte)
{
	if (pte_young(pte))
		return false;
	if (mmu_age_asked(age))
		return !mmu_age_answer(age, addr);
	return !age->secondary;
}

/**
 * mmu_age_clear_secondary - test and clear the Accessed bits that secondary MMUs have for a range
 * @mm:    address space
 * @start: of the range
 * @end:   of the range
 *
 * Context: as mmu_notifier_clear_young(); false without CONFIG_MMU_NOTIFIER.
 */
static inline bool mmu_age_clear_secondary(struct mm_struct *mm, unsigned long start,
					   unsigned long end)
{
#ifdef CONFIG_MMU_NOTIFIER
	return mmu_notifier_clear_young(mm, start, end);
#else
	return false;
#endif
}

/**
 * mmu_age_clear_young - was a page accessed?  Clears its Accessed bits
 * @age:  of the walk
 * @vma:  of the page
 * @addr: of the page
 * @ptep: that maps it
 *
 * Context: the caller holds the lock of the page table.  If it has called mmu_age_ask() for this
 * page table, it has added the page before.
 * Return: the sum of %MMU_AGE_CPU and %MMU_AGE_SECONDARY; 0 if the page was not accessed
 */
static inline unsigned int mmu_age_clear_young(const struct mmu_age *age,
					       struct vm_area_struct *vma,
					       unsigned long addr, pte_t *ptep)
{
	unsigned int young = ptep_test_and_clear_young(vma, addr, ptep) ? MMU_AGE_CPU : 0;

	if (mmu_age_asked(age)) {
		if (mmu_age_answer(age, addr))
			young |= MMU_AGE_SECONDARY;
		return young;
	}
	if (mmu_age_clear_secondary(vma->vm_mm, addr, addr + PAGE_SIZE))
		young |= MMU_AGE_SECONDARY;
	return young;
}

#endif /* CONFIG_MMU */

#endif /* _LINUX_MMU_AGE_H */
