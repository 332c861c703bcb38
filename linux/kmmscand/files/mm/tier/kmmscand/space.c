// SPDX-License-Identifier: GPL-2.0
/*
 * Address spaces that run.
 *
 * Nothing is hooked into fork, exec or exit, and nothing is added to mm_struct.  Samples of running
 * threads (sample.c) find an address space; a process that sleeps is not found, and user Accessed
 * bits are set by running threads only.  An address space that was seen since its last visit is in
 * the queue of a fast node.  A worker takes the space from the queue, visits it, and gives it back.
 *
 * Order of a queue: by due time, and what is due already goes to the end, so that address spaces
 * that come new or wake up do not overtake others.
 *
 * Node: a space that is in no queue goes to the node on which its thread was seen.
 *
 * A reference to mm_count keeps the mm_struct, not the memory of the process, so a pointer in the
 * hash cannot be that of a new one.  What was not seen for SPACE_FORGET, or has no users, is
 * dropped.
 *
 * Memory: 256 bytes for each address space that has run in the last SPACE_FORGET, and the mm_struct
 * of processes that have exited, for at most 2 s and 1,024 processes.
 *
 * Locking: spaces_lock, a spinlock, for the hash, the queues and the first part of struct space.
 * The second part belongs to the worker that has taken the space.  Samples take the lock 16 times a
 * second for each CPU, workers at most three times a visit, and a reader of tier/spans for each
 * bucket of the hash.
 */

#include <linux/freezer.h>
#include <linux/hashtable.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/memcontrol.h>
#include <linux/mmu_age.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "control.h"
#include "flush.h"
#include "space.h"

#define SPACE_FORGET	(600 * HZ)
/* After so many new ones, what has exited is dropped */
#define SPACE_MANY	1024

static_assert(sizeof(struct space) <= 256);

static DEFINE_SPINLOCK(spaces_lock);
static DEFINE_HASHTABLE(spaces, SPACES_BITS);
static unsigned int spaces_new;	/* since the last spaces_clean() of a sample */
static struct timerqueue_head queues[MAX_NUMNODES];
/* Workers of a node wait here until an address space is due */
static wait_queue_head_t space_waits[MAX_NUMNODES];

/**
 * spaces_init - prepare the queues
 *
 * Context: once, at boot.
 */
void spaces_init(void)
{
	int nid;

	for_each_node(nid) {
		timerqueue_init_head(&queues[nid]);
		init_waitqueue_head(&space_waits[nid]);
	}
}

static struct space *space_find(struct mm_struct *mm)
{
	struct space *space;

	hash_for_each_possible(spaces, space, node, (unsigned long)mm) {
		if (space->mm == mm)
			return space;
	}
	return NULL;
}

/* Under the lock */
static void space_queue(struct space *space)
{
	if (space->busy || timerqueue_node_queued(&space->queue))
		return;
	space->queue.expires = max(space->due, ktime_get());
	timerqueue_add(&queues[space->home], &space->queue);
}

static void space_unqueue(struct space *space)
{
	if (timerqueue_node_queued(&space->queue))
		timerqueue_del(&queues[space->home], &space->queue);
}

static void space_free(struct space *space)
{
	mmdrop(space->mm);
	kfree(space);
}

/* Returns false if the address space is not known. */
static bool space_note(struct mm_struct *mm, int nid, int home)
{
	struct space *space = space_find(mm);

	if (!space)
		return false;
	space->last = jiffies;
	space->seen = true;
	target_vote(space->votes, nid);
	/* It moves while it is in no queue, so that each node's workers see it once. */
	if (!space->busy && !timerqueue_node_queued(&space->queue))
		space->home = home;
	space_queue(space);
	return true;
}

/**
 * space_seen - a thread of an address space was running
 * @mm:   address space; mm_count is held
 * @nid:  node of the CPU
 * @home: fast node whose workers should visit it
 *
 * Context: may sleep.
 */
void space_seen(struct mm_struct *mm, int nid, int home)
{
	bool known, clean = false;
	struct space *space;

	spin_lock(&spaces_lock);
	known = space_note(mm, nid, home);
	spin_unlock(&spaces_lock);
	if (known)
		return;
	space = kzalloc(sizeof(*space), GFP_KERNEL | __GFP_NOWARN);
	if (!space)
		return;
	space->mm = mm;
	space->home = home;
	timerqueue_init(&space->queue);
	spin_lock(&spaces_lock);
	known = space_find(mm);
	if (!known) {
		mmgrab(mm);
		hash_add(spaces, &space->node, (unsigned long)mm);
		clean = ++spaces_new == SPACE_MANY;
		if (clean)
			spaces_new = 0;
	}
	space_note(mm, nid, home);
	spin_unlock(&spaces_lock);
	if (known)
		kfree(space);
	if (clean)
		spaces_clean(false);
}

/**
 * space_take - take the address space that is due
 * @home: fast node
 *
 * Context: a worker.
 * Return: the space, or NULL if none is due.
 */
struct space *space_take(int home)
{
	struct timerqueue_node *node;
	struct space *space = NULL;

	spin_lock(&spaces_lock);
	node = timerqueue_getnext(&queues[home]);
	if (node && node->expires <= ktime_get()) {
		space = container_of(node, struct space, queue);
		timerqueue_del(&queues[home], node);
		space->busy = true;
		space->seen = false;
	}
	spin_unlock(&spaces_lock);
	return space;
}

/**
 * space_give - give an address space back after a visit
 * @space: from space_take()
 * @due:   when the next visit is due
 * @again: the next visit does not wait until a thread is seen
 *
 * Context: the worker that has taken it.
 */
void space_give(struct space *space, ktime_t due, bool again)
{
	spin_lock(&spaces_lock);
	space->busy = false;
	space->due = due;
	space->seen |= again;
	if (space->seen)
		space_queue(space);
	spin_unlock(&spaces_lock);
}

/**
 * space_found - remember what a visit has found
 * @space: from space_take()
 * @span:  of the visit
 *
 * Context: the worker that has taken it.
 */
void space_found(struct space *space, const struct span *span)
{
	spin_lock(&spaces_lock);
	space->span = *span;
	spin_unlock(&spaces_lock);
}

/**
 * space_owner - to which process and memory control group does an address space belong?
 * @mm:     address space; mm_count is held
 * @pid:    set to its process id in the first namespace, or to 0
 * @cgroup: set to the id of its group, or to 0
 *
 * Without CONFIG_MEMCG an address space has no owner.
 *
 * Context: any.
 */
void space_owner(struct mm_struct *mm, pid_t *pid, u64 *cgroup)
{
#ifdef CONFIG_MEMCG
	struct task_struct *owner;
	struct mem_cgroup *memcg;
#endif

	*pid = 0;
	*cgroup = 0;
#ifdef CONFIG_MEMCG
	rcu_read_lock();
	owner = rcu_dereference(mm->owner);
	if (owner) {
		*pid = task_tgid_nr(owner);
		memcg = mem_cgroup_from_task(owner);
		*cgroup = memcg ? cgroup_id(memcg->css.cgroup) : 0;
	}
	rcu_read_unlock();
#endif
}

/**
 * space_drop - forget an address space that has gone, or does not want to be visited
 * @space: from space_take()
 *
 * Context: the worker that has taken it.
 */
void space_drop(struct space *space)
{
	spin_lock(&spaces_lock);
	hash_del(&space->node);
	spin_unlock(&spaces_lock);
	space_free(space);
}

/**
 * spaces_due - is an address space due?
 * @home: fast node
 *
 * Context: no interrupt.
 */
bool spaces_due(int home)
{
	struct timerqueue_node *node;
	bool due;

	spin_lock(&spaces_lock);
	node = timerqueue_getnext(&queues[home]);
	due = node && node->expires <= ktime_get();
	spin_unlock(&spaces_lock);
	return due;
}

/**
 * spaces_wake - wake the worker that waits for an address space, if one is due
 * @home: fast node
 *
 * Context: no interrupt.
 */
void spaces_wake(int home)
{
	if (wq_has_sleeper(&space_waits[home]) && spaces_due(home))
		wake_up(&space_waits[home]);
}

/**
 * spaces_wait - sleep until an address space is due
 * @home: fast node
 *
 * Samples wake the worker, 16 times a second.
 *
 * Context: a worker.
 */
void spaces_wait(int home)
{
	wait_event_freezable_timeout(space_waits[home], kthread_should_stop() || spaces_due(home),
				     HZ);
}

/**
 * spaces_clean - drop address spaces that have exited, or were not seen for long
 * @all: drop all that no worker has taken
 *
 * Context: may sleep.
 */
void spaces_clean(bool all)
{
	struct hlist_node *tmp;
	struct space *space;
	HLIST_HEAD(dropped);
	int i;

	for (i = 0; i < HASH_SIZE(spaces); i++) {
		spin_lock(&spaces_lock);
		hlist_for_each_entry_safe(space, tmp, &spaces[i], node) {
			if (space->busy ||
			    (!all && atomic_read(&space->mm->mm_users) &&
			     time_before(jiffies, space->last + SPACE_FORGET)))
				continue;
			space_unqueue(space);
			hash_del(&space->node);
			hlist_add_head(&space->node, &dropped);
		}
		spin_unlock(&spaces_lock);
		hlist_for_each_entry_safe(space, tmp, &dropped, node) {
			hlist_del(&space->node);
			space_free(space);
		}
		cond_resched();
	}
}

/* A space with a secondary MMU that is to be flushed; mm_count is held for the caller. */
static struct mm_struct *space_secondary(int i, unsigned int number)
{
	struct mm_struct *mm = NULL;
	struct space *space;

	spin_lock(&spaces_lock);
	hlist_for_each_entry(space, &spaces[i], node) {
		if (space->flushed == number || !mmu_age_secondary(space->mm))
			continue;
		space->flushed = number;
		mm = space->mm;
		mmgrab(mm);
		break;
	}
	spin_unlock(&spaces_lock);
	return mm;
}

/**
 * spaces_flush - flush the TLBs of all address spaces that are known
 *
 * A CPU that has run none of them lately is not interrupted, and the others are once.
 *
 * Context: may sleep.
 */
void spaces_flush(void)
{
	static atomic_t flushes;
	unsigned int number = atomic_inc_return(&flushes);
	struct space *space;
	struct mm_struct *mm;
	int i;

	for (i = 0; i < HASH_SIZE(spaces); i++) {
		spin_lock(&spaces_lock);
		hlist_for_each_entry(space, &spaces[i], node)
			flush_later(space->mm);
		spin_unlock(&spaces_lock);
		/* KVM waits for other CPUs, so not under the lock. */
		while ((mm = space_secondary(i, number))) {
			mmu_age_flush(mm);
			mmdrop(mm);
		}
		cond_resched();
	}
	flush_now();
}

/**
 * spaces_each_span - what have the last visits found?
 * @nr:   number of a bucket of the hash, less than SPACES_BUCKETS
 * @each: called with spaces_lock for each address space of the bucket that was visited, lives, and
 *        has not opted out
 * @data: for @each
 *
 * Context: may not be called with spaces_lock.
 */
void spaces_each_span(unsigned int nr, void (*each)(struct mm_struct *mm, const struct span *span,
						    void *data),
		      void *data)
{
	struct space *space;

	spin_lock(&spaces_lock);
	hlist_for_each_entry(space, &spaces[nr], node) {
		if (space->span.window_us && atomic_read(&space->mm->mm_users) &&
		    kmmscand_wants(space->mm))
			each(space->mm, &space->span, data);
	}
	spin_unlock(&spaces_lock);
}
