/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory policies and cpusets against promotion between memory tiers: what fork, the
 * system calls that set policies, migration and the rmap walks need of mm/tier/.
 * allow.c has the rules, flight.c the waits.
 */
#ifndef _LINUX_TIER_POLICY_H
#define _LINUX_TIER_POLICY_H

#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/jump_label.h>
#include <linux/mempolicy.h>
#include <linux/migrate_mode.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched/coredump.h>
#include <linux/sched/signal.h>
#include <linux/tier_question.h>

/* How often one system call waits for promotions that hold its pages */
#define TIER_WAITS	8

/**
 * struct tier_wait - promotions that a change of a policy has to wait for
 * @slots:   one bit for each flight
 * @seq:     a batch that began later has seen the change
 * @pol:     of mbind(2): the new policy
 * @forbids: of mbind(2): the new policy may forbid more
 * @set:     of mbind(2): the policy is set, and only pages are looked for
 */
struct tier_wait {
	unsigned long slots;
	u64 seq;
	struct mempolicy *pol;
	bool forbids;
	bool set;
};

/*
 * Bits of mm->flags, set whether promotion is on or not: a task of the address space has had a
 * policy, or a VMA; a cpuset has changed a task of it; processes share it.  The bits are above
 * all that sched/coredump.h gives away, and named here because nearly every file of the kernel
 * includes that header.
 */
#define MMF_TIER_TASK_POLICY	36
#define MMF_TIER_VMA_POLICY	37
#define MMF_TIER_CPUSET		38
#define MMF_TIER_SHARED		39
#define MMF_TIER_POLICY_MASK	(15UL << MMF_TIER_TASK_POLICY)

static_assert(MMF_TIER_TASK_POLICY > MMF_TOPDOWN);
/* Without the option nothing below is left: tier_moves() is false, and no bit is set. */
static_assert(!IS_ENABLED(CONFIG_TIER_PROMOTE) || MMF_TIER_SHARED < BITS_PER_LONG);

DECLARE_STATIC_KEY_FALSE(tier_move_key);

void __tier_mm_shared(struct mm_struct *mm, u64 clone_flags);
void __tier_task_differs(struct task_struct *task, int bit);
bool tier_policy_allows(const struct mempolicy *pol, int nid);
enum tier_answer tier_mm_answer(struct mm_struct *mm, int nid, bool policies);
bool __tier_ask_folio(struct tier_question *q, struct folio *folio);
bool __tier_ask_shared(struct tier_question *q, struct folio *folio);
bool __tier_may_unmap(struct tier_question *q, struct folio *folio, struct vm_area_struct *vma,
		      unsigned long addr);
void __tier_wait_add(struct tier_wait *wait, const void *key, bool asked);
void __tier_wait_add_entry(struct tier_wait *wait, swp_entry_t entry);
void __tier_wait_add_objects(struct tier_wait *wait, struct mm_struct *mm, unsigned long start,
			     unsigned long end);
bool __tier_wait(struct tier_wait *wait);
void __tier_mm_forked(struct mm_struct *mm, const struct mm_struct *from);
void __tier_task_policy_changed(const struct mempolicy *old);
int migrate_pages_flight(struct list_head *from,
			 struct folio *get_new_folio(struct folio *folio, unsigned long private),
			 void put_new_folio(struct folio *folio, unsigned long private),
			 unsigned long private, enum migrate_mode mode, int reason,
			 unsigned int *ret_succeeded, struct tier_flight *flight);

static inline bool tier_moves(void)
{
	return IS_ENABLED(CONFIG_TIER_PROMOTE) && static_branch_unlikely(&tier_move_key);
}

static inline bool tier_mm_test(const struct mm_struct *mm, int bit)
{
	return IS_ENABLED(CONFIG_TIER_PROMOTE) && test_bit(bit, &mm->flags);
}

static inline void tier_mm_set(struct mm_struct *mm, int bit)
{
	if (IS_ENABLED(CONFIG_TIER_PROMOTE) && !test_bit(bit, &mm->flags))
		set_bit(bit, &mm->flags);
}

/**
 * tier_mm_init - a new address space is that of one task, which has a policy or has none
 * @mm: new, of a process that current forks, or of current, which calls exec
 *
 * Context: before any other task can find @mm.
 */
static inline void tier_mm_init(struct mm_struct *mm)
{
#ifdef CONFIG_TIER_PROMOTE
	/* MMF_TOPDOWN_MASK is negative: MMF_INIT_MASK has all bits above, which are inherited. */
	mm->flags &= ~MMF_TIER_POLICY_MASK;
	if (current->mempolicy)
		tier_mm_set(mm, MMF_TIER_TASK_POLICY);
#endif
}

/**
 * tier_mm_copied - fork copies the policies of VMAs
 * @mm:   new
 * @from: of the process that forks; mmap_lock is held for writing
 */
static inline void tier_mm_copied(struct mm_struct *mm, const struct mm_struct *from)
{
	if (tier_mm_test(from, MMF_TIER_VMA_POLICY))
		tier_mm_set(mm, MMF_TIER_VMA_POLICY);
}

/**
 * tier_mm_forked - fork has copied page tables, which may have migration entries
 * @mm:   new
 * @from: of the process that forks
 *
 * A promotion that has asked @from for a page is one that a change of a policy in @mm waits for.
 *
 * Context: before a task runs in @mm; mmap_lock of @from is held for writing.
 */
static inline void tier_mm_forked(struct mm_struct *mm, const struct mm_struct *from)
{
	if (tier_moves())
		__tier_mm_forked(mm, from);
}

/**
 * tier_mm_shared - clone(2) is about to let another task use an address space
 * @mm:          of current
 * @clone_flags: with CLONE_VM
 *
 * A child of vfork(2) has its parent's policy and cpuset, and its parent waits:
 * tier_task_differs() looks at the child.  If the child clones in turn, its parent may not wait.
 */
static inline void tier_mm_shared(struct mm_struct *mm, u64 clone_flags)
{
	if (IS_ENABLED(CONFIG_TIER_PROMOTE))
		__tier_mm_shared(mm, clone_flags);
}

/**
 * tier_mm_owner - the owner of an address space is about to change
 * @mm:   address space
 * @task: the next owner
 *
 * Where @task is no thread of the owner before, which is current, that may have others.
 *
 * Context: before @task is the owner.
 */
static inline void tier_mm_owner(struct mm_struct *mm, struct task_struct *task)
{
	if (IS_ENABLED(CONFIG_TIER_PROMOTE) && !same_thread_group(task, current)) {
		tier_mm_set(mm, MMF_TIER_SHARED);
		smp_wmb();	/* pairs with rcu_dereference() in tier_judge() */
	}
}

/**
 * tier_task_differs - a task gets another policy or cpuset than others of its address space
 * @task: current, or its alloc_lock is held
 * @bit:  of mm->flags to set
 *
 * Sets MMF_TIER_SHARED, too, if the task is no thread of the owner.  Kernel threads have no address
 * space of their own.
 *
 * Context: any.
 */
static inline void tier_task_differs(struct task_struct *task, int bit)
{
	if (IS_ENABLED(CONFIG_TIER_PROMOTE) && task->mm && !(task->flags & PF_KTHREAD))
		__tier_task_differs(task, bit);
}

/**
 * tier_task_policy - the calling thread is about to get a policy
 *
 * Context: before the policy is set.
 */
static inline void tier_task_policy(void)
{
	tier_task_differs(current, MMF_TIER_TASK_POLICY);
}

/**
 * tier_task_policy_changed - wait for the promotions that have asked for the old policy
 * @old: of the calling thread, which has another one now
 *
 * A nop while nothing can be promoted.  Context: may sleep; no locks held.
 */
static inline void tier_task_policy_changed(const struct mempolicy *old)
{
	if (tier_moves() && current->mm)
		__tier_task_policy_changed(old);
}

/**
 * tier_task_cpuset - a cpuset has changed the nodes of a task
 * @task: its alloc_lock is held
 */
static inline void tier_task_cpuset(struct task_struct *task)
{
	tier_task_differs(task, MMF_TIER_CPUSET);
}

/**
 * tier_vma_policy - the policy of a VMA is about to be changed
 * @mm: of current
 *
 * Context: before the VMA is locked for writing.
 */
static inline void tier_vma_policy(struct mm_struct *mm)
{
	tier_mm_set(mm, MMF_TIER_VMA_POLICY);
}

/**
 * tier_wait_add - add the promotions under way that have asked an address space
 * @wait: zeroed at first
 * @mm:   address space
 *
 * What the caller has changed before is seen by each promotion that asks later.
 *
 * Context: any.
 */
static inline void tier_wait_add(struct tier_wait *wait, struct mm_struct *mm)
{
	if (tier_moves())
		__tier_wait_add(wait, mm, true);
}

/**
 * tier_mbind_forbids - can a policy of VMAs forbid more than the one before?
 * @mm:   of current
 * @mode: of the new policy
 */
static inline bool tier_mbind_forbids(struct mm_struct *mm, int mode)
{
	/* Without a policy of the VMA that of the task holds. */
	return (mode != MPOL_DEFAULT && mode != MPOL_LOCAL) ||
	       tier_mm_test(mm, MMF_TIER_TASK_POLICY);
}

/**
 * tier_vma_locked - mbind(2) has locked a VMA for writing, and looks for its pages next
 * @wait: zeroed at first; @pol, @forbids and @set are those of mbind(2)
 * @vma:  that no promotion asks until it is unlocked
 *
 * Adds the promotions that have asked before.
 *
 * Return: false if the VMA has to be left out: its policy was set, and has been changed since.
 */
static inline bool tier_vma_locked(struct tier_wait *wait, struct vm_area_struct *vma)
{
	if (wait->set)
		return mpol_equal(vma_policy(vma), wait->pol);
	/* A thread may have got a policy meanwhile. */
	if (wait->forbids || tier_mm_test(vma->vm_mm, MMF_TIER_TASK_POLICY))
		tier_wait_add(wait, vma->vm_mm);
	return true;
}

/**
 * tier_wait_add_folio - add the promotion that has taken a folio off the LRU
 * @wait:  zeroed at first
 * @folio: that the caller could not isolate
 *
 * Context: any.
 */
static inline void tier_wait_add_folio(struct tier_wait *wait, const struct folio *folio)
{
	if (tier_moves())
		__tier_wait_add(wait, folio, false);
}

/**
 * tier_wait_add_entry - add the promotion that has left a migration entry
 * @wait:  zeroed at first
 * @entry: a migration entry, in a page table that is locked
 *
 * Context: under the page-table lock.
 */
static inline void tier_wait_add_entry(struct tier_wait *wait, swp_entry_t entry)
{
	if (tier_moves())
		__tier_wait_add_entry(wait, entry);
}

/**
 * tier_wait_add_objects - add the promotions that have asked objects with policies of their own
 * @wait:  zeroed at first
 * @mm:    that maps them; mmap_lock is held
 * @start: of the mappings
 * @end:   of the mappings
 */
static inline void tier_wait_add_objects(struct tier_wait *wait, struct mm_struct *mm,
					 unsigned long start, unsigned long end)
{
	if (tier_moves())
		__tier_wait_add_objects(wait, mm, start, end);
}

/**
 * tier_wait - wait for the promotions that were added
 * @wait: is empty afterwards
 *
 * A promotion that is waited for migrates at most one batch of 512 base pages, or one folio.
 *
 * Context: may sleep.
 * Return: true if there were any; false also if a fatal signal has ended the wait.
 */
static inline bool tier_wait(struct tier_wait *wait)
{
	return IS_ENABLED(CONFIG_TIER_PROMOTE) && wait->slots && __tier_wait(wait);
}

/**
 * tier_ask_folio - ask the object of a folio that is about to be unmapped, and begin to ask
 * @q:     in struct migrate_unmap
 * @folio: locked
 *
 * A nop while nothing can be promoted.
 *
 * Return: false if the folio must not be promoted.
 */
static inline bool tier_ask_folio(struct tier_question *q, struct folio *folio)
{
	return !tier_moves() || !q->flight || __tier_ask_folio(q, folio);
}

/**
 * tier_ask_shared - ask all mappings of a folio with several, before any of them is replaced
 * @q:     in struct migrate_unmap
 * @folio: locked; no lock of its rmap is held
 *
 * Spares the work where one of them refuses; each is asked again when it is replaced.
 *
 * Return: false if the folio must not be promoted.
 */
static inline bool tier_ask_shared(struct tier_question *q, struct folio *folio)
{
	return !tier_moves() || !q->flight || __tier_ask_shared(q, folio);
}

/**
 * tier_may_unmap - does a mapping allow that its folio is promoted?
 * @q:     in struct migrate_unmap
 * @folio: locked
 * @vma:   that maps some of the folio
 * @addr:  one of these mappings
 *
 * A nop while nothing can be promoted.
 *
 * Context: an rmap walk, under the page-table lock.
 * Return: true if it does, or if this is no promotion.
 */
static inline bool tier_may_unmap(struct tier_question *q, struct folio *folio,
				  struct vm_area_struct *vma, unsigned long addr)
{
	return !tier_moves() || !q->flight || __tier_may_unmap(q, folio, vma, addr);
}

/**
 * tier_must_stay - has a folio that was unmapped to be put back?
 * @q: in struct migrate_unmap
 *
 * Return: true if this is a promotion, and one has refused or none could be asked.
 */
static inline bool tier_must_stay(const struct tier_question *q)
{
	return tier_moves() && q->flight && q->asked != TIER_ALLOWS;
}

#endif /* _LINUX_TIER_POLICY_H */
