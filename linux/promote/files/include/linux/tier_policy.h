/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory policies and cpusets against promotion between memory tiers: what fork, the
 * system calls that set policies, migration and the rmap walks need of mm/tier/allow.c,
 * which has the rules.
 */
#ifndef _LINUX_TIER_POLICY_H
#define _LINUX_TIER_POLICY_H

#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/jump_label.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/rmap.h>
#include <linux/sched/coredump.h>

#ifdef CONFIG_TIER_PROMOTE

/*
 * Bits of mm->flags: a task of the address space has had a policy, or a VMA.  They are above
 * all that sched/coredump.h gives away, and named here because nearly every file of the
 * kernel includes that header.
 */
#define MMF_TIER_TASK_POLICY	36
#define MMF_TIER_VMA_POLICY	37
#define MMF_TIER_POLICY_MASK	(BIT(MMF_TIER_TASK_POLICY) | BIT(MMF_TIER_VMA_POLICY))

static_assert(MMF_TIER_TASK_POLICY > MMF_TOPDOWN);
static_assert(MMF_TIER_VMA_POLICY < BITS_PER_LONG);

/* In the flags of try_to_migrate(): the target node of a promotion, plus one; else 0 */
#define TTU_TIER_SHIFT		16
#define TTU_TIER_MASK		(~0U << TTU_TIER_SHIFT)

/* How often a call of move_pages(2) waits for promotions */
#define TIER_MOVE_PAGES_WAITS	8

DECLARE_STATIC_KEY_FALSE(tier_move_key);

struct folio *tier_alloc_dst(struct folio *src, unsigned long private);
bool __tier_may_unmap(struct vm_area_struct *vma, unsigned long addr, struct folio *folio,
		      int nid);
bool __tier_wait_promotions(void);
bool tier_mm_refuses(struct mm_struct *mm, int nid, bool policies);

/**
 * tier_mm_inherit_policy - a new address space gets policies with what it is a copy of
 * @mm:   new
 * @from: of the process that forks or calls exec
 *
 * Context: before anybody can find a page by @mm; for policies of VMAs with mmap_lock of @from
 * held for writing.
 */
static inline void tier_mm_inherit_policy(struct mm_struct *mm, const struct mm_struct *from)
{
	unsigned long bits = READ_ONCE(from->flags) & MMF_TIER_POLICY_MASK;

	/* Others may change other bits of it. */
	if (bits & ~mm->flags)
		set_mask_bits(&mm->flags, 0, bits);
}

/**
 * tier_mm_has_policy - a task or a VMA of this process is about to get a policy
 * @bit: MMF_TIER_TASK_POLICY or MMF_TIER_VMA_POLICY
 *
 * Context: before the policy is set; for a VMA with mmap_lock held for writing.
 */
static inline void tier_mm_has_policy(int bit)
{
	/* Kernel threads have no address space. */
	if (current->mm && !test_bit(bit, &current->mm->flags))
		set_bit(bit, &current->mm->flags);
}

/**
 * tier_wait_promotions - wait for the promotions that are under way
 *
 * What the caller has changed before is seen by all that begin later.  Those that are under
 * way take a batch, some milliseconds.  A nop while nothing can be promoted.
 *
 * Context: may sleep; also with mmap_lock held, for which promotions do not wait.
 * Return: true if there may have been any.
 */
static inline bool tier_wait_promotions(void)
{
	return static_branch_unlikely(&tier_move_key) && __tier_wait_promotions();
}

/**
 * tier_unmap_flags - flags for try_to_migrate(), if it is a promotion
 * @alloc: how the caller of migrate_pages() allocates
 * @dst:   what it has allocated
 *
 * Return: 0 if it is none.  A nop while nothing can be promoted.
 */
static inline unsigned int tier_unmap_flags(new_folio_t *alloc, struct folio *dst)
{
	if (static_branch_unlikely(&tier_move_key) && alloc == tier_alloc_dst)
		return (folio_nid(dst) + 1U) << TTU_TIER_SHIFT;
	return 0;
}

/**
 * tier_may_unmap - does a VMA allow that a folio is promoted?
 * @vma:   that maps some of the folio
 * @addr:  one of these mappings
 * @folio: locked
 * @flags: of try_to_migrate()
 *
 * A nop while nothing can be promoted.
 *
 * Context: an rmap walk, under the page-table lock.
 * Return: true if it does, or if this is no promotion.
 */
static inline bool tier_may_unmap(struct vm_area_struct *vma, unsigned long addr,
				  struct folio *folio, unsigned int flags)
{
	if (!static_branch_unlikely(&tier_move_key) || !(flags & TTU_TIER_MASK))
		return true;
	return __tier_may_unmap(vma, addr, folio, (flags >> TTU_TIER_SHIFT) - 1);
}

#else

#define TTU_TIER_MASK		0U
#define TIER_MOVE_PAGES_WAITS	0

static inline void tier_mm_inherit_policy(struct mm_struct *mm, const struct mm_struct *from)
{
}

#define MMF_TIER_TASK_POLICY	0
#define MMF_TIER_VMA_POLICY	0

static inline void tier_mm_has_policy(int bit)
{
}

static inline bool tier_wait_promotions(void)
{
	return false;
}

static inline unsigned int tier_unmap_flags(new_folio_t *alloc, struct folio *dst)
{
	return 0;
}

static inline bool tier_may_unmap(struct vm_area_struct *vma, unsigned long addr,
				  struct folio *folio, unsigned int flags)
{
	return true;
}

#endif /* CONFIG_TIER_PROMOTE */

#endif /* _LINUX_TIER_POLICY_H */
