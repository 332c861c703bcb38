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
 * Nobody waits where no page would be moved anyway: for a cpuset without memory_migrate (control
 * groups v1) a batch that is under way may still arrive.
 *
 * Cost.  Two bits in mm->flags say that a task of the address space has a policy, or a VMA.
 * Without them, without cpusets and without shmem, a mapping is asked by testing the bits.
 * The bits are set whether promotion is on or not, inherited by fork and exec, and never
 * cleared.  With policies of tasks each thread is looked at, up to TIER_ALLOW_THREADS.  A VMA is
 * asked once for each folio, however many entries map it.
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
#define TIER_ALLOW_THREADS	1024

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

enum tier_answer {
	TIER_NO_POLICY,
	TIER_ALLOWS,
	TIER_REFUSES,
	TIER_NOT_KNOWN,
};

/* The cpuset of the owner of an address space */
static enum tier_answer tier_cpuset_answer(struct mm_struct *mm, int nid)
{
	enum tier_answer answer = TIER_NOT_KNOWN;

	if (!cpusets_enabled())
		return TIER_ALLOWS;
#ifdef CONFIG_MEMCG
	{
		struct task_struct *owner;

		rcu_read_lock();
		owner = rcu_dereference(mm->owner);
		/* Its holder may wait for a page-table lock in a fault: only tried. */
		if (owner && spin_trylock(&owner->alloc_lock)) {
			answer = node_isset(nid, owner->mems_allowed) ? TIER_ALLOWS :
									TIER_REFUSES;
			spin_unlock(&owner->alloc_lock);
		}
		rcu_read_unlock();
	}
#endif
	return answer;
}

#ifdef CONFIG_MEMCG
static enum tier_answer tier_thread_answer(struct task_struct *task, int nid)
{
	enum tier_answer answer = TIER_ALLOWS;

	/* Whoever gives it a policy just now waits for us afterwards. */
	if (!READ_ONCE(task->mempolicy))
		return TIER_ALLOWS;
	if (!spin_trylock(&task->alloc_lock))
		return TIER_NOT_KNOWN;
	if (task->mempolicy && !tier_policy_allows(task->mempolicy, nid))
		answer = TIER_REFUSES;
	spin_unlock(&task->alloc_lock);
	return answer;
}

/*
 * All threads of the owner.  A new one has a copy of the policy of the thread that clones it,
 * which cannot change its own meanwhile; but by the time it is in the list that one may have.
 * mm_users has it already, so in case of doubt the numbers differ.  They do, too, if others use
 * the address space than threads of the owner.
 */
static enum tier_answer tier_threads_answer(struct mm_struct *mm, int nid)
{
	int users = atomic_read(&mm->mm_users), seen = 0;
	enum tier_answer answer = TIER_NOT_KNOWN, one;
	struct task_struct *owner, *t;

	rcu_read_lock();
	owner = rcu_dereference(mm->owner);
	if (!owner)
		goto out;	/* it is exiting */
	for_each_thread(owner, t) {
		if (READ_ONCE(t->mm) != mm)
			continue;
		if (++seen > TIER_ALLOW_THREADS)
			goto out;
		one = tier_thread_answer(t, nid);
		if (one != TIER_ALLOWS) {
			answer = one;
			goto out;
		}
	}
	if (seen == users && seen == atomic_read(&mm->mm_users))
		answer = TIER_ALLOWS;
out:
	rcu_read_unlock();
	return answer;
}
#else
static enum tier_answer tier_threads_answer(struct mm_struct *mm, int nid)
{
	return TIER_NOT_KNOWN;
}
#endif

static enum tier_answer tier_mm_answer(struct mm_struct *mm, int nid)
{
	enum tier_answer answer = tier_cpuset_answer(mm, nid);

	if (answer != TIER_ALLOWS || !test_bit(MMF_TIER_TASK_POLICY, &mm->flags))
		return answer;
	return tier_threads_answer(mm, nid);
}

/**
 * tier_mm_refuses - is it known that nothing of an address space may go to a node?
 * @mm:       address space; mm_count is enough
 * @nid:      node
 * @policies: ask the policies of its tasks, too, and not only its cpuset
 *
 * For those who want to spare work; whether something may go is asked again when it does.
 * What VMAs say comes before the policies of tasks, but never before the cpuset.
 *
 * Context: any but hard interrupts.
 * Return: true if so.
 */
bool tier_mm_refuses(struct mm_struct *mm, int nid, bool policies)
{
	enum tier_answer answer;

	answer = policies ? tier_mm_answer(mm, nid) : tier_cpuset_answer(mm, nid);
	return answer == TIER_REFUSES;
}

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

/* The policy of an object whose pages are mapped.  Those of copies of them are its as well. */
static enum tier_answer tier_mapped_object_allows(struct vm_area_struct *vma, unsigned long addr,
						  struct folio *folio, int nid)
{
	enum tier_answer answer;
	struct mempolicy *pol;
	pgoff_t ilx;

	if (!folio_test_anon(folio))
		return tier_object_allows(folio, nid);
	pol = vma->vm_ops->get_policy(vma, addr, &ilx);
	answer = tier_answer(pol, nid);
	mpol_cond_put(pol);
	return answer;
}

/* The policy of a VMA, or of the object that it maps */
static enum tier_answer tier_vma_answer(struct vm_area_struct *vma, unsigned long addr,
					struct folio *folio, int nid)
{
	const bool object = vma->vm_ops && vma->vm_ops->get_policy;
	const bool bound = test_bit(MMF_TIER_VMA_POLICY, &vma->vm_mm->flags);
	enum tier_answer answer;

	/* Not the lock of the VMA: mbind() has looked for pages before it takes that. */
	if (bound && !mmap_read_trylock(vma->vm_mm))
		return TIER_NOT_KNOWN;
	if (object)
		answer = tier_mapped_object_allows(vma, addr, folio, nid);
	else
		answer = bound ? tier_answer(vma->vm_policy, nid) : TIER_NO_POLICY;
	if (bound)
		mmap_read_unlock(vma->vm_mm);
	return answer;
}

static bool tier_mapping_allows(struct vm_area_struct *vma, unsigned long addr,
				struct folio *folio, int nid)
{
	enum tier_answer answer = tier_vma_answer(vma, addr, folio, nid);

	if (answer == TIER_NO_POLICY)
		answer = tier_mm_answer(vma->vm_mm, nid);
	else if (answer == TIER_ALLOWS)
		answer = tier_cpuset_answer(vma->vm_mm, nid);
	return answer == TIER_ALLOWS;
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
