/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which pages of a page table were accessed, as the CPUs and secondary MMUs know it.
 *
 * The Accessed bit of a PTE does not show what a secondary MMU has accessed: a virtual machine
 * uses KVM's page tables.  mmu_notifier_clear_young() answers for a range, but with one bit, so
 * whoever wants to know of pages has to call it for each.  Here a caller gathers the pages of
 * one page table that it wants to know of, and secondary MMUs that have registered for it are
 * asked once:
 *
 *	struct mmu_age age;
 *
 *	mmu_age_begin(&age, mm);
 *	...lock the page table...
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
 * Nobody forgets what was not asked about.  While nobody has registered, mmu_age_by_range() is
 * false, and mmu_age_clear_young() asks page by page.  If the last who had registered goes during
 * a walk, answers that the walk has not used yet are lost: a page may look idle once.
 */
#ifndef _LINUX_MMU_AGE_H
#define _LINUX_MMU_AGE_H

#include <linux/bitmap.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>

/**
 * struct mmu_age - what is known of the pages of a page table
 * @secondary: may a secondary MMU know of accesses that PTEs do not show?
 * @asked:     are @pages and @young valid?
 * @start:     address of the page for which bit 0 stands
 * @pages:     what is asked about
 * @young:     which of @pages a secondary MMU has accessed
 */
struct mmu_age {
	bool secondary;
#ifdef CONFIG_MMU_AGE
	bool asked;
	unsigned long start;
	DECLARE_BITMAP(pages, PTRS_PER_PTE);
	DECLARE_BITMAP(young, PTRS_PER_PTE);
#endif
};

#ifdef CONFIG_MMU_AGE
/**
 * struct mmu_age_ops - how to ask one kind of subscriber about a page table
 * @notifier_ops: of its subscriptions
 * @clear_young:  look at the pages in @pages, from @start on, set in @young those that were
 *                accessed and forget that they were.  Must leave all others alone.  Called with
 *                the lock of the page table; must not sleep, nor flush.
 */
struct mmu_age_ops {
	const struct mmu_notifier_ops *notifier_ops;
	void (*clear_young)(struct mmu_notifier *subscription, unsigned long start,
			    const unsigned long *pages, unsigned long *young);
};

DECLARE_STATIC_KEY_FALSE(mmu_age_key);

int mmu_age_register(const struct mmu_age_ops *ops);
void mmu_age_unregister(const struct mmu_age_ops *ops);
bool __mmu_age_secondary(struct mm_struct *mm);
void __mmu_age_ask(struct mmu_age *age, struct mm_struct *mm);
bool mmu_notifier_find(struct mm_struct *mm,
		       bool (*match)(struct mmu_notifier *subscription, void *arg), void *arg);

/**
 * mmu_age_secondary - may a secondary MMU know of accesses to an address space?
 * @mm: address space
 *
 * While nobody has registered, each subscriber to mmu_notifiers is suspected.  Else those are that
 * have Accessed bits of their own, and those that walk the same page tables as the CPUs (shared
 * virtual addressing): they may cache an entry that leads to a page table, and then set Accessed
 * bits below without setting the one of that entry.
 *
 * Context: any
 * Return: if not, what PTEs say is all that there is to know.
 */
static inline bool mmu_age_secondary(struct mm_struct *mm)
{
	return mm_has_notifiers(mm) &&
	       (!static_branch_unlikely(&mmu_age_key) || __mmu_age_secondary(mm));
}

/**
 * mmu_age_begin - before page tables are looked at
 * @age: for the walk
 * @mm:  address space; who comes to use it during the walk may be overlooked
 */
static inline void mmu_age_begin(struct mmu_age *age, struct mm_struct *mm)
{
	age->secondary = mmu_age_secondary(mm);
	age->asked = false;
}

/**
 * mmu_age_by_range - are secondary MMUs to be asked about a page table?
 * @age: of the walk
 *
 * Return: if not, mmu_age_clear_young() asks about each page.
 */
static inline bool mmu_age_by_range(struct mmu_age *age)
{
	/* What was answered about the table before says nothing of this one. */
	age->asked = false;
	return static_branch_unlikely(&mmu_age_key) && age->secondary;
}

/**
 * mmu_age_table - begin to gather pages
 * @age:  of the walk
 * @addr: any in the page table
 */
static inline void mmu_age_table(struct mmu_age *age, unsigned long addr)
{
	age->start = addr & PMD_MASK;
	bitmap_zero(age->pages, PTRS_PER_PTE);
}

/**
 * mmu_age_add - gather a page
 * @age:  of the walk
 * @addr: of the page, in the page table of mmu_age_table()
 */
static inline void mmu_age_add(struct mmu_age *age, unsigned long addr)
{
	__set_bit(pte_index(addr), age->pages);
}

/**
 * mmu_age_ask - ask about what has been gathered
 * @age: of the walk
 * @mm:  address space
 *
 * Context: the lock of the page table is held, so that pages stay where they are.
 */
static inline void mmu_age_ask(struct mmu_age *age, struct mm_struct *mm)
{
	__mmu_age_ask(age, mm);
}

/**
 * mmu_age_any - has a secondary MMU accessed any page that it was asked about?
 * @age: of the walk, after mmu_age_ask()
 *
 * Return: whether it has
 */
static inline bool mmu_age_any(const struct mmu_age *age)
{
	return !bitmap_empty(age->young, PTRS_PER_PTE);
}

/* Is there an answer?  Nothing but a no-op while nobody has registered. */
static inline bool mmu_age_asked(const struct mmu_age *age)
{
	return static_branch_unlikely(&mmu_age_key) && age->asked;
}

/**
 * mmu_age_idle - is it known that a page was not accessed?
 * @age:  of the walk
 * @addr: of the page
 * @pte:  that maps it
 *
 * Return: whether mmu_age_clear_young() would be false, as far as that can be told without asking
 */
static inline bool mmu_age_idle(const struct mmu_age *age, unsigned long addr, pte_t pte)
{
	if (pte_young(pte))
		return false;
	if (mmu_age_asked(age))
		return !test_bit(pte_index(addr), age->young);
	return !age->secondary;
}

/**
 * mmu_age_clear_young - was a page accessed?  It counts as not accessed afterwards
 * @age:  of the walk
 * @vma:  of the page
 * @addr: of the page
 * @ptep: that maps it
 *
 * Context: the lock of the page table is held; @addr was added before mmu_age_ask(), if that
 * was called for this page table.
 * Return: whether it was
 */
static inline bool mmu_age_clear_young(const struct mmu_age *age, struct vm_area_struct *vma,
				       unsigned long addr, pte_t *ptep)
{
	if (mmu_age_asked(age))
		return ptep_test_and_clear_young(vma, addr, ptep) |
		       test_bit(pte_index(addr), age->young);
	return ptep_clear_young_notify(vma, addr, ptep);
}
#else
static inline bool mmu_age_secondary(struct mm_struct *mm)
{
	return mm_has_notifiers(mm);
}

static inline void mmu_age_begin(struct mmu_age *age, struct mm_struct *mm)
{
	age->secondary = mm_has_notifiers(mm);
}

static inline bool mmu_age_by_range(struct mmu_age *age)
{
	return false;
}

static inline void mmu_age_table(struct mmu_age *age, unsigned long addr)
{
}

static inline void mmu_age_add(struct mmu_age *age, unsigned long addr)
{
}

static inline void mmu_age_ask(struct mmu_age *age, struct mm_struct *mm)
{
}

static inline bool mmu_age_any(const struct mmu_age *age)
{
	return false;
}

static inline bool mmu_age_idle(const struct mmu_age *age, unsigned long addr, pte_t pte)
{
	return !pte_young(pte) && !age->secondary;
}

static inline bool mmu_age_clear_young(const struct mmu_age *age, struct vm_area_struct *vma,
				       unsigned long addr, pte_t *ptep)
{
	return ptep_clear_young_notify(vma, addr, ptep);
}
#endif

#endif /* _LINUX_MMU_AGE_H */
