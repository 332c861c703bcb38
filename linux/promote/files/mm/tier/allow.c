// SPDX-License-Identifier: GPL-2.0
/*
 * May a folio be promoted to a node?  What memory policies and cpusets say.
 *
 * Invariant: when a folio is promoted, every mapping of it allows the target node.  A mapping
 * is asked when it is about to be replaced by a migration entry (try_to_migrate_one()), so the
 * answer is as late as it can be: for one folio, not for a list, and for whoever maps the
 * folio by then.  A mapping that does not allow the node keeps the folio where it is.
 *
 * What a mapping allows is, in this order:
 *   the policy of the object   shmem has policies by index (mbind(2) of a shared mapping, the
 *                              mount option mpol=), which hold for all who map it
 *   the policy of the VMA      mbind(2)
 *   the policies of the tasks  set_mempolicy(2) holds for one thread, and no page says which
 *                              thread has touched it.  So all threads have to allow the node.
 * and besides that the cpuset of the owner of the address space, which is also the one by
 * which cpuset migrates memory.
 *
 * An interleaved policy allows nothing: a promotion would undo the spreading.
 *
 * Changes of a policy.  Whoever makes one first makes it visible, and then waits for the
 * promotions that are under way (tier_wait_promotions()).  So after the system call nothing
 * arrives that the new policy forbids, and pages that arrived before can be found and moved
 * (MPOL_MF_MOVE, cpuset.mems).  mbind(2) looks for such pages before it sets the policy, but
 * holds mmap_lock for writing; a mapping with the bit below is not asked without that lock.
 *
 * Cost.  Two bits in mm->flags say that a task of the address space has a policy, or a VMA.
 * Without them, without cpusets and without shmem, a mapping is asked by testing the bits.
 * The bits are set whether promotion is on or not, inherited by fork and exec, and never
 * cleared.  With policies of tasks, each thread is looked at, up to TIER_ALLOW_THREADS.
 *
 * Locking.  The caller holds the rmap lock (i_mmap_rwsem or anon_vma) for reading, which keeps
 * the VMA, and the page-table lock.  So everything else is only tried: mmap_lock for the
 * policy of a VMA, which is not freed by RCU; alloc_lock for that of a task.  What cannot be
 * taken is no permission.
 *
 * Known limits.  Without CONFIG_MEMCG an address space has no owner: one with task policies, or
 * any while there are cpusets, is left alone.  Threads of one process in different cpusets
 * (threaded control groups) have that of the owner.  Page cache that nobody maps has no policy
 * but the object's.
 */

#include <linux/cpuset.h>
#include <linux/list.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/shmem_fs.h>
#include <linux/spinlock.h>
#include <linux/tier.h>
#include <linux/tier_policy.h>

#include "allow.h"
#include "events.h"
#include "fault.h"

/* Threads of an address space that are asked for their policy; with more it is left alone */
#define TIER_ALLOW_THREADS	64

/* Batches that are being migrated, to find the one of the running task */
static LIST_HEAD(tier_flights);
static DEFINE_SPINLOCK(tier_flights_lock);

static bool tier_policy_allows(const struct mempolicy *pol, int nid)
{
	switch (pol->mode) {
	case MPOL_BIND:
	case MPOL_PREFERRED:
	case MPOL_PREFERRED_MANY:
		return node_isset(nid, pol->nodes);
	case MPOL_INTERLEAVE:
	case MPOL_WEIGHTED_INTERLEAVE:
		return false;
	default:
		return true;
	}
}

#ifdef CONFIG_MEMCG
/* A task that uses the address space; under RCU */
static bool tier_task_allows(struct task_struct *task, int nid)
{
	bool allowed;

	/* Its holder may wait for a page-table lock in a fault: only tried. */
	if (!spin_trylock(&task->alloc_lock))
		return false;
	allowed = (!task->mempolicy || tier_policy_allows(task->mempolicy, nid)) &&
		  (!cpusets_enabled() || node_isset(nid, task->mems_allowed));
	spin_unlock(&task->alloc_lock);
	return allowed;
}

/*
 * Do all threads allow it?  A new one has a copy of the policy of the thread that clones it,
 * which cannot change its own meanwhile; but by the time it is in the list that one may have.
 * mm_users has it already, so in case of doubt the numbers differ.
 */
static bool tier_threads_allow(struct mm_struct *mm, struct task_struct *owner, int nid)
{
	struct task_struct *t;
	int seen = 0;

	for_each_thread(owner, t) {
		if (READ_ONCE(t->mm) != mm)
			continue;
		if (++seen > TIER_ALLOW_THREADS || !tier_task_allows(t, nid))
			return false;
	}
	/* Others than threads of the owner use it: processes that share it, /proc, ... */
	return seen == atomic_read(&mm->mm_users);
}

static bool tier_owner_allows(struct mm_struct *mm, int nid)
{
	struct task_struct *owner;
	bool allowed = false;

	rcu_read_lock();
	owner = rcu_dereference(mm->owner);
	if (!owner)
		;	/* it is exiting */
	else if (test_bit(MMF_TIER_TASK_POLICY, &mm->flags))
		allowed = tier_threads_allow(mm, owner, nid);
	else
		allowed = tier_task_allows(owner, nid);
	rcu_read_unlock();
	return allowed;
}
#else
static bool tier_owner_allows(struct mm_struct *mm, int nid)
{
	return false;
}
#endif

/**
 * tier_mm_allows - do the tasks of an address space allow a node, by policy and cpuset?
 * @mm:  address space; mm_count is enough
 * @nid: node
 *
 * What its VMAs say comes before the policies of tasks, but never before the cpuset.
 *
 * Context: any but hard interrupts.
 * Return: true if they do.
 */
bool tier_mm_allows(struct mm_struct *mm, int nid)
{
	if (tier_fault(ALLOW))
		return true;
	if (!test_bit(MMF_TIER_TASK_POLICY, &mm->flags) && !cpusets_enabled())
		return true;
	return tier_owner_allows(mm, nid);
}

/**
 * tier_cpuset_allows - does the cpuset of an address space's owner allow a node?
 * @mm:  address space; mm_count is enough
 * @nid: node
 *
 * For a VMA that has a policy, which comes before those of tasks.
 *
 * Context: any but hard interrupts.
 * Return: true if it does.
 */
bool tier_cpuset_allows(struct mm_struct *mm, int nid)
{
#ifdef CONFIG_MEMCG
	struct task_struct *owner;
	bool allowed = false;

	if (!cpusets_enabled())
		return true;
	rcu_read_lock();
	owner = rcu_dereference(mm->owner);
	if (owner && spin_trylock(&owner->alloc_lock)) {
		allowed = node_isset(nid, owner->mems_allowed);
		spin_unlock(&owner->alloc_lock);
	}
	rcu_read_unlock();
	return allowed;
#else
	return !cpusets_enabled();
#endif
}

enum tier_answer {
	TIER_NO_POLICY,
	TIER_ALLOWS,
	TIER_REFUSES,
};

static enum tier_answer tier_answer(struct mempolicy *pol, int nid)
{
	if (!pol)
		return TIER_NO_POLICY;
	return tier_policy_allows(pol, nid) ? TIER_ALLOWS : TIER_REFUSES;
}

/* The policies of an object for all pages of a folio, which is locked */
static enum tier_answer tier_object_allows(struct folio *folio, int nid)
{
	enum tier_answer answer = TIER_ALLOWS;
#ifdef CONFIG_SHMEM
	struct address_space *mapping = folio_mapping(folio);
	pgoff_t index, end = folio->index + folio_nr_pages(folio);
	struct shared_policy *shared;

	if (!mapping || !shmem_mapping(mapping))
		return TIER_NO_POLICY;
	shared = &SHMEM_I(mapping->host)->policy;
	if (!READ_ONCE(shared->root.rb_node))
		return TIER_NO_POLICY;
	/* Neighbours may have different policies, and some none. */
	for (index = folio->index; index < end && answer != TIER_REFUSES; index++) {
		struct mempolicy *pol = mpol_shared_policy_lookup(shared, index);

		if (!pol)
			answer = TIER_NO_POLICY;
		else if (!tier_policy_allows(pol, nid))
			answer = TIER_REFUSES;
		mpol_cond_put(pol);
	}
#else
	answer = TIER_NO_POLICY;
#endif
	return answer;
}

/* The policy of a VMA, or of the object that it maps, at an address */
static enum tier_answer tier_vma_allows(struct vm_area_struct *vma, unsigned long addr,
					struct folio *folio, int nid)
{
	enum tier_answer answer;
	struct mempolicy *pol;
	pgoff_t ilx;

	if (vma->vm_ops && vma->vm_ops->get_policy) {
		if (!folio_test_anon(folio))
			return tier_object_allows(folio, nid);
		/* Private: a copy of a page of the object */
		pol = vma->vm_ops->get_policy(vma, addr, &ilx);
		answer = tier_answer(pol, nid);
		mpol_cond_put(pol);
		return answer;
	}
	if (!test_bit(MMF_TIER_VMA_POLICY, &vma->vm_mm->flags))
		return TIER_NO_POLICY;
	/* Not the lock of the VMA: mbind() has looked for pages before it takes that. */
	if (!mmap_read_trylock(vma->vm_mm))
		return TIER_REFUSES;
	answer = tier_answer(vma->vm_policy, nid);
	mmap_read_unlock(vma->vm_mm);
	return answer;
}

static bool tier_mapping_allows(struct vm_area_struct *vma, unsigned long addr,
				struct folio *folio, int nid)
{
	switch (tier_vma_allows(vma, addr, folio, nid)) {
	case TIER_REFUSES:
		return false;
	case TIER_ALLOWS:
		return tier_cpuset_allows(vma->vm_mm, nid);
	default:
		return tier_mm_allows(vma->vm_mm, nid);
	}
}

/**
 * __tier_may_unmap - see tier_may_unmap()
 * @vma:   of the mapping
 * @addr:  of the mapping
 * @folio: to be promoted; locked
 * @nid:   target node
 */
bool __tier_may_unmap(struct vm_area_struct *vma, unsigned long addr, struct folio *folio,
		      int nid)
{
	struct tier_flight *flight;

	if (tier_fault(ALLOW) || tier_mapping_allows(vma, addr, folio, nid))
		return true;
	count_tier_events(TIER_PROMOTE_FAIL_POLICY, folio_nr_pages(folio));
	spin_lock(&tier_flights_lock);
	list_for_each_entry(flight, &tier_flights, node) {
		if (flight->task == current)
			flight->refused += folio_nr_pages(folio);
	}
	spin_unlock(&tier_flights_lock);
	return false;
}

/**
 * tier_unmapped_allows - may a folio be promoted that nobody maps?
 * @folio: a reference is held
 * @nid:   target node
 *
 * Anonymous memory without a mapping is on its way to swap or from there, and nobody knows
 * whose it is.  Page cache has the policy of the object, if that has one.
 *
 * Context: process context; no locks needed.
 * Return: true if so, also for a folio that is mapped: its mappings are asked later.
 */
bool tier_unmapped_allows(struct folio *folio, int nid)
{
	bool allowed;

	if (folio_mapped(folio) || tier_fault(ALLOW))
		return true;
	if (folio_test_anon(folio))
		return false;
	if (!folio_test_swapbacked(folio))
		return true;
	/* The lock keeps folio->mapping. */
	if (!folio_trylock(folio))
		return false;
	allowed = tier_object_allows(folio, nid) != TIER_REFUSES;
	folio_unlock(folio);
	return allowed;
}

/**
 * tier_flight_begin - this task is about to migrate a batch
 * @flight: on the stack
 *
 * Context: process context.
 */
void tier_flight_begin(struct tier_flight *flight)
{
	flight->task = current;
	flight->refused = 0;
	spin_lock(&tier_flights_lock);
	list_add(&flight->node, &tier_flights);
	spin_unlock(&tier_flights_lock);
}

/**
 * tier_flight_end - the batch has been migrated
 * @flight: that was begun
 *
 * Context: process context.
 * Return: base pages of it that were refused.
 */
unsigned long tier_flight_end(struct tier_flight *flight)
{
	spin_lock(&tier_flights_lock);
	list_del(&flight->node);
	spin_unlock(&tier_flights_lock);
	return flight->refused;
}
