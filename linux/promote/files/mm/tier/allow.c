// SPDX-License-Identifier: GPL-2.0
/*
 * May a folio be promoted to a node?  What memory policies and cpusets say.
 *
 * Invariant: when a folio is promoted, its object and every mapping of it allow the target node.
 * The folio is locked while its object is asked (__tier_ask_folio()); a mapping is asked under the
 * page-table lock, when a migration entry is about to replace it (__tier_may_unmap()).  The answer
 * is a field of struct migrate_unmap, and a refusal stays one: migrate_folio_unmap() puts back a
 * folio that was refused, or that no object and no mapping has allowed, whether it is still mapped
 * or not.
 *
 * What is asked:
 *   the folio        One in the swap cache, or without a mapping field (readahead of swap), is
 *                    refused: a swap entry does not tell which address space will map the page.
 *                    Anonymous memory that no PTE maps is refused for the same reason.
 *   the object       shmem has policies by index: mbind(2) of a shared mapping, the mount option
 *                    mpol=.  They come before all others, also where no PTE maps the folio.
 *   the group        Page cache obeys the cpuset of the control group to which it is charged.
 *   the VMA          mbind(2)
 *   the threads      set_mempolicy(2) holds for one thread, and no page says which thread has
 *                    touched it.  So all threads have to allow the node.
 *   the cpusets      of all tasks that use the address space, since cpuset migrates the memory
 *                    of each.
 * A VMA's policy replaces those of threads, but not cpusets.  Page cache is asked only about
 * mappings by the group to which it is charged: else each reader could veto.  That of shmem is
 * asked, too, about its only mapping, and about all once the group is removed.
 *
 * A folio with several mappings is asked about all of them before the first is replaced
 * (__tier_ask_shared()), so that a refusal costs no TLB flush.
 *
 * Cost.  Without a bit of mm->flags (MMF_TIER_*) a mapping is asked by testing the bits and, where
 * there are cpusets, one word of the owner.  With one the threads are walked once for each address
 * space and batch; the flight keeps the answer.  That is sound because whatever changes the answer
 * later waits for the flight: see flight.c.
 *
 * Locking.  The caller holds the rmap lock (i_mmap_rwsem or anon_vma) for reading, which keeps
 * the VMA, and the page-table lock.  So everything else is only tried: the lock of the VMA for
 * its policy, which is not freed by RCU; alloc_lock for the policy of a task, some times, since
 * reading files of /proc takes it briefly.  If a lock is not free, the answer is no.
 *
 * Known limits.  Without CONFIG_PER_VMA_LOCK an address space with a policy of a VMA is left
 * alone.  Without CONFIG_MEMCG an address space has no owner: one with task policies, or
 * any while there are cpusets, is left alone.  So is one that processes share (CLONE_VM without
 * CLONE_THREAD) if it has a task policy or there are cpusets, while more use it than the threads
 * of its owner.  A child of vfork(2) counts as sharing from its first policy or cpuset of its own;
 * when only its parent gets another one, the child is not asked.
 * Page cache that no PTE maps does not know the policy of a task that reads it.
 */

#include <linux/cpuset.h>
#include <linux/demote.h>
#include <linux/memcontrol.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/shmem_fs.h>
#include <linux/spinlock.h>
#include <linux/tier_policy.h>

#include "../internal.h"
#include "events.h"
#include "fault.h"
#include "flight.h"

#include <trace/events/tier.h>

/* Threads of an address space that are asked for their policy; with more it is left alone */
#define TIER_ALLOW_THREADS	1024
/* How often a lock is tried */
#define TIER_ALLOW_TRIES	64

/**
 * tier_policy_allows - does a memory policy allow that pages move to a node?
 * @pol: NULL for the default; kept by the caller
 * @nid: node
 *
 * Context: any.
 */
bool tier_policy_allows(const struct mempolicy *pol, int nid)
{
	switch (pol ? pol->mode : MPOL_DEFAULT) {
	case MPOL_BIND:
	case MPOL_PREFERRED:
	case MPOL_PREFERRED_MANY:
		return node_isset(nid, pol->nodes) &&
		       (pol->home_node == NUMA_NO_NODE || pol->home_node == nid);
	case MPOL_INTERLEAVE:
	case MPOL_WEIGHTED_INTERLEAVE:
		return false;	/* It would undo the spreading. */
	default:
		return true;
	}
}

static enum tier_answer tier_worse(enum tier_answer a, enum tier_answer b)
{
	return max(a, b);
}

static enum tier_answer tier_thread_answer(struct task_struct *task, int nid)
{
	enum tier_answer answer = TIER_ALLOWS;
	int tries = TIER_ALLOW_TRIES;

	/* A thread that gets a policy just now waits for this flight afterwards. */
	if (!READ_ONCE(task->mempolicy))
		return TIER_ALLOWS;
	while (!spin_trylock(&task->alloc_lock)) {
		if (!--tries)
			return TIER_NOT_KNOWN;
		cpu_relax();
	}
	if (!tier_policy_allows(task->mempolicy, nid))
		answer = TIER_REFUSES;
	spin_unlock(&task->alloc_lock);
	return answer;
}

/*
 * All threads of the owner, under RCU.  A thread that was cloned meanwhile has the policy and the
 * cpuset of the thread that cloned it, which could change neither before the new one was listed.
 * The new thread comes behind it in the list.  Where processes share the address space, mm_users
 * tells whether the threads of the owner are all; mm_users counts a task before that is listed.
 * More threads than TIER_ALLOW_THREADS are not asked, and the answer is no.
 */
static struct tier_judgement tier_ask_threads(struct mm_struct *mm, struct task_struct *owner,
					      int nid)
{
	struct tier_judgement j = { TIER_ALLOWS, TIER_ALLOWS };
	enum tier_answer unasked = TIER_ALLOWS;
	const bool policies = test_bit(MMF_TIER_TASK_POLICY, &mm->flags);
	int users = atomic_read(&mm->mm_users), seen = 0;
	struct task_struct *t;

	for_each_thread(owner, t) {
		if (READ_ONCE(t->mm) != mm)
			continue;
		if (++seen > TIER_ALLOW_THREADS)
			break;
		if (cpusets_enabled() && !node_isset(nid, t->mems_allowed))
			j.cpuset = TIER_REFUSES;
		if (policies)
			j.tasks = tier_worse(j.tasks, tier_thread_answer(t, nid));
		/* The cpusets of the others are then not known either. */
		if (j.tasks == TIER_NOT_KNOWN)
			return (struct tier_judgement){ TIER_NOT_KNOWN, TIER_NOT_KNOWN };
		/* If this thread has another policy than it passed on, the other one is found. */
		smp_rmb();
	}
	if (seen > TIER_ALLOW_THREADS)
		unasked = TIER_REFUSES;
	else if (!seen)
		unasked = TIER_NOT_KNOWN;	/* The owner exits or calls exec. */
	else if (test_bit(MMF_TIER_SHARED, &mm->flags) && !tier_fault(SHARED) &&
		 (seen != users || seen != atomic_read(&mm->mm_users)))
		unasked = TIER_NOT_KNOWN;
	if (cpusets_enabled())
		j.cpuset = tier_worse(j.cpuset, unasked);
	if (policies)
		j.tasks = tier_worse(j.tasks, unasked);
	return j;
}

static struct tier_judgement tier_judge(struct mm_struct *mm, int nid)
{
	const unsigned long flags = READ_ONCE(mm->flags);
	const bool policies = flags & BIT(MMF_TIER_TASK_POLICY);
	struct tier_judgement j = { TIER_NOT_KNOWN, TIER_NOT_KNOWN };

	if (!cpusets_enabled())
		j.cpuset = TIER_ALLOWS;
	if (!policies)
		j.tasks = TIER_ALLOWS;
#ifdef CONFIG_MEMCG
	if (policies || cpusets_enabled()) {
		struct task_struct *owner;

		rcu_read_lock();
		owner = rcu_dereference(mm->owner);
		/*
		 * The process is exiting, or fork has not made its task known.  Fork sets the
		 * cpuset last, and frees the list of threads at once if it fails.  The state is
		 * read before the cpuset: pairs with the locks that fork takes between the two.
		 */
		if (!owner || smp_load_acquire(&owner->__state) == TASK_NEW)
			;
		else if (policies || flags & (BIT(MMF_TIER_CPUSET) | BIT(MMF_TIER_SHARED)))
			j = tier_ask_threads(mm, owner, nid);
		else
			j.cpuset = node_isset(nid, owner->mems_allowed) ? TIER_ALLOWS :
									  TIER_REFUSES;
		rcu_read_unlock();
	}
#endif
	return j;
}

/**
 * tier_mm_answer - may memory of an address space without policies of VMAs go to a node?
 * @mm:       address space; mm_count is enough
 * @nid:      node
 * @policies: ask the policies of its tasks, too, and not only cpusets
 *
 * For sources of hotness, which spare work by it; each mapping is asked again when its page is
 * promoted.  What VMAs say comes before the policies of tasks, but never before a cpuset.
 *
 * Context: any but hard interrupts.
 * Return: TIER_ALLOWS, TIER_REFUSES or TIER_NOT_KNOWN.
 */
enum tier_answer tier_mm_answer(struct mm_struct *mm, int nid, bool policies)
{
	struct tier_judgement j = tier_judge(mm, nid);

	return policies ? tier_worse(j.cpuset, j.tasks) : j.cpuset;
}

/* Without an owner the answer does not matter: tier_judge() knows nothing then. */
static bool tier_is_owners(struct mm_struct *mm, struct task_struct *task)
{
	bool owners = false;

#ifdef CONFIG_MEMCG
	struct task_struct *owner;

	rcu_read_lock();
	owner = rcu_dereference(mm->owner);
	owners = owner && same_thread_group(owner, task);
	rcu_read_unlock();
#endif
	return owners;
}

/**
 * __tier_mm_shared - see tier_mm_shared()
 * @mm:          of current
 * @clone_flags: with CLONE_VM
 */
void __tier_mm_shared(struct mm_struct *mm, u64 clone_flags)
{
	if (!(clone_flags & (CLONE_THREAD | CLONE_VFORK)) || !tier_is_owners(mm, current))
		tier_mm_set(mm, MMF_TIER_SHARED);
}

/**
 * __tier_task_differs - see tier_task_differs()
 * @task: that uses an address space
 * @bit:  to set
 */
void __tier_task_differs(struct task_struct *task, int bit)
{
	if (!tier_is_owners(task->mm, task))
		tier_mm_set(task->mm, MMF_TIER_SHARED);
	tier_mm_set(task->mm, bit);
}

static enum tier_answer tier_answer(const struct mempolicy *pol, int nid)
{
	if (!pol)
		return TIER_NO_POLICY;
	return tier_policy_allows(pol, nid) ? TIER_ALLOWS : TIER_REFUSES;
}

/* The policies of an object for all pages of a folio, which is locked */
static enum tier_answer tier_object_answer(struct tier_flight *flight, struct folio *folio)
{
	pgoff_t index, end = folio->index + folio_nr_pages(folio);
	struct address_space *mapping = folio->mapping;
	enum tier_answer answer = TIER_ALLOWS;
	struct shared_policy *shared;

	if (!shmem_mapping(mapping))
		return TIER_NO_POLICY;
	if (!tier_flight_asks(flight, mapping))
		return TIER_REFUSES;
	shared = &SHMEM_I(mapping->host)->policy;
	if (!READ_ONCE(shared->root.rb_node))
		return TIER_NO_POLICY;
	/* Neighbours may have different policies, and some none. */
	for (index = folio->index; index < end && answer != TIER_REFUSES; index++) {
		struct mempolicy *pol = mpol_shared_policy_lookup(shared, index);

		if (!pol)
			answer = TIER_NO_POLICY;
		else if (!tier_policy_allows(pol, flight->nid))
			answer = TIER_REFUSES;
		mpol_cond_put(pol);
	}
	return answer;
}

static bool tier_refuse(struct tier_question *q, struct folio *folio)
{
	if (q->asked != TIER_REFUSES) {
		q->flight->refused += folio_nr_pages(folio);
		count_tier_events(TIER_PROMOTE_FAIL_POLICY, folio_nr_pages(folio));
		trace_tier_promote_skip(folio_pfn(folio), q->flight->nid, TIER_PROMOTE_FAIL_POLICY);
	}
	q->asked = TIER_REFUSES;
	return false;
}

/**
 * __tier_ask_folio - see tier_ask_folio()
 * @q:     of a promotion
 * @folio: locked
 */
bool __tier_ask_folio(struct tier_question *q, struct folio *folio)
{
	bool allows;

	q->asked = TIER_NOT_KNOWN;
	q->object = TIER_NO_POLICY;
	q->sole = !folio_likely_mapped_shared(folio);
	q->flight->nr_each = 0;
	if (tier_fault(ALLOW)) {
		q->asked = TIER_ALLOWS;
		return true;
	}
	if (!tier_folio_has_users(folio))
		return tier_refuse(q, folio);
	if (folio_test_anon(folio))
		return true;
	q->object = tier_object_answer(q->flight, folio);
	/* The cpuset of the group to which page cache is charged */
	rcu_read_lock();
	allows = memcg_allows_node(folio_memcg(folio), q->flight->nid);
	rcu_read_unlock();
	if (q->object == TIER_REFUSES || !allows)
		return tier_refuse(q, folio);
	q->asked = TIER_ALLOWS;
	return true;
}

/* Must a mapping be asked?  See above for those of page cache. */
static bool tier_mapping_counts(struct tier_question *q, struct mm_struct *mm,
				struct folio *folio)
{
	bool counts = true;

#ifdef CONFIG_MEMCG
	if (!folio_test_anon(folio) && !mem_cgroup_disabled()) {
		struct task_struct *owner;
		struct mem_cgroup *memcg;

		rcu_read_lock();
		owner = rcu_dereference(mm->owner);
		memcg = folio_memcg(folio);
		/* Fork sets the group of a new task last: pairs with its locks, as above. */
		counts = !owner || smp_load_acquire(&owner->__state) == TASK_NEW ||
			 mem_cgroup_from_task(owner) == memcg ||
			 (folio_test_swapbacked(folio) &&
			  (q->sole || (memcg && !mem_cgroup_online(memcg))));
		rcu_read_unlock();
	}
#endif
	return counts;
}

/*
 * A mapping that does not count, and whose process may just bind the object: mbind() sees what
 * moves before it locks the VMA, or the answer is no.
 */
static bool tier_vma_is_settled(struct folio *folio, struct vm_area_struct *vma)
{
	if (!folio_test_swapbacked(folio) ||
	    !test_bit(MMF_TIER_VMA_POLICY, &vma->vm_mm->flags))
		return true;
	if (!vma_start_read(vma))
		return false;
	vma_end_read(vma);
	return true;
}

/* The policy of a VMA, or of the object that it maps */
static enum tier_answer tier_vma_answer(struct tier_question *q, struct folio *folio,
					struct vm_area_struct *vma, unsigned long addr)
{
	const bool bound = test_bit(MMF_TIER_VMA_POLICY, &vma->vm_mm->flags);
	enum tier_answer answer = q->object;
	struct mempolicy *pol;
	pgoff_t ilx;

	/* mbind() has the VMA locked for writing while it looks for pages and sets the policy. */
	if (bound && !vma_start_read(vma))
		return TIER_NOT_KNOWN;
	if (!vma->vm_ops || !vma->vm_ops->get_policy) {
		if (bound)
			answer = tier_answer(vma->vm_policy, q->flight->nid);
	} else if (folio_test_anon(folio)) {
		/* A private copy follows the policy of the object. */
		answer = TIER_NOT_KNOWN;
		if (tier_flight_asks(q->flight, vma->vm_file->f_mapping)) {
			pol = vma->vm_ops->get_policy(vma, addr, &ilx);
			answer = tier_answer(pol, q->flight->nid);
			mpol_cond_put(pol);
		}
	}
	if (bound)
		vma_end_read(vma);
	return answer;
}

/*
 * The same as tier_judge(), once for each batch, after tier_flight_asks().  An answer that a busy
 * lock has prevented is not kept, nor a second one for one entry: the reference of the first is
 * given back at the end of the batch, outside of locks.
 */
static struct tier_judgement tier_judge_once(struct tier_flight *flight, struct mm_struct *mm)
{
	unsigned int i = hash_ptr(mm, TIER_JUDGED_BITS);
	struct tier_judgement j;

	if (flight->judged[i].mm == mm)
		return flight->judged[i].answer;
	j = tier_judge(mm, flight->nid);
	if (!flight->judged[i].mm && j.cpuset != TIER_NOT_KNOWN && j.tasks != TIER_NOT_KNOWN) {
		/* With the reference, no other address space can have the same address. */
		mmgrab(mm);
		flight->judged[i].mm = mm;
		flight->judged[i].answer = j;
	}
	return j;
}

static bool tier_mapping_allows(struct tier_question *q, struct folio *folio,
				struct vm_area_struct *vma, unsigned long addr)
{
	struct mm_struct *mm = vma->vm_mm;
	struct tier_judgement j;
	enum tier_answer answer;

	if (!tier_mapping_counts(q, mm, folio))
		return tier_vma_is_settled(folio, vma);
	if (!tier_flight_asks(q->flight, mm))
		return false;
	answer = tier_vma_answer(q, folio, vma, addr);
	if (answer > TIER_ALLOWS)
		return false;
	j = tier_judge_once(q->flight, mm);
	return j.cpuset == TIER_ALLOWS && (answer == TIER_ALLOWS || j.tasks == TIER_ALLOWS);
}

/**
 * __tier_may_unmap - see tier_may_unmap()
 * @q:     of a promotion
 * @folio: locked
 * @vma:   of the mapping
 * @addr:  of the mapping
 */
bool __tier_may_unmap(struct tier_question *q, struct folio *folio, struct vm_area_struct *vma,
		      unsigned long addr)
{
	if (!tier_fault(ALLOW) && !tier_mapping_allows(q, folio, vma, addr))
		return tier_refuse(q, folio);
	if (q->asked == TIER_NOT_KNOWN)
		q->asked = TIER_ALLOWS;
	return true;
}

static bool tier_ask_one(struct folio *folio, struct vm_area_struct *vma, unsigned long addr,
			 void *arg)
{
	DEFINE_FOLIO_VMA_WALK(pvmw, folio, vma, addr, 0);
	bool allows = true;

	if (page_vma_mapped_walk(&pvmw)) {
		allows = __tier_may_unmap(arg, folio, vma, pvmw.address);
		page_vma_mapped_walk_done(&pvmw);
	}
	return allows;
}

/**
 * __tier_ask_shared - see tier_ask_shared()
 * @q:     of a promotion
 * @folio: locked
 */
bool __tier_ask_shared(struct tier_question *q, struct folio *folio)
{
	struct rmap_walk_control rwc = {
		.rmap_one = tier_ask_one,
		.arg = q,
		.anon_lock = folio_lock_anon_vma_read,
	};

	if (!folio_likely_mapped_shared(folio))
		return true;
	if (!__tier_ask_folio(q, folio))
		return false;
	rmap_walk(folio, &rwc);
	return q->asked != TIER_REFUSES;
}
