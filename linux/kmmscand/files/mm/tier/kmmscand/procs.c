// SPDX-License-Identifier: GPL-2.0
/*
 * Processes, one after the other, for a scanner that has to sleep in between.
 *
 * The list of processes is walked, not that of their threads, which may be many more.  It is
 * protected by RCU, so some of it is copied at a time, with references.  The last one that is
 * still in the list by then is where the next part begins.  If all of them have exited it is
 * begun anew; who was met before is known by its address space (mms.c).  After some of these
 * the round ends without having met everybody.
 */

#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#include "procs.h"

/* How often a round may begin anew */
#define KMMSCAND_PROCS_RESTARTS	8

static void procs_put(struct kmmscand_procs *procs)
{
	while (procs->nr)
		put_task_struct(procs->leader[--procs->nr]);
	procs->next = 0;
}

/* The process after which to go on; under RCU */
static struct task_struct *procs_last(struct kmmscand_procs *procs)
{
	unsigned int i = procs->nr;

	if (!i)
		return &init_task;
	while (i--) {
		/* When another thread calls exec() it takes the leader's place in the list. */
		if (pid_alive(procs->leader[i]) && thread_group_leader(procs->leader[i]))
			return procs->leader[i];
	}
	procs->restarts++;
	return procs->restarts > KMMSCAND_PROCS_RESTARTS ? NULL : &init_task;
}

/* Copy the next part of the list.  Returns false at its end. */
static bool procs_fill(struct kmmscand_procs *procs)
{
	struct task_struct *found[KMMSCAND_PROCS], *p;
	unsigned int nr = 0;

	rcu_read_lock();
	p = procs_last(procs);
	while (p && nr < KMMSCAND_PROCS) {
		p = next_task(p);
		if (p == &init_task)
			break;
		if (p->flags & PF_KTHREAD)
			continue;
		found[nr++] = get_task_struct(p);
	}
	rcu_read_unlock();
	procs_put(procs);
	memcpy(procs->leader, found, nr * sizeof(*found));
	procs->nr = nr;
	return nr;
}

/* A thread of a process that has its address space, with references to both, or NULL */
static struct task_struct *procs_thread(struct task_struct *leader, struct mm_struct **mm)
{
	struct task_struct *found = NULL, *t;

	rcu_read_lock();
	/* The leader may have exited before its other threads. */
	for_each_thread(leader, t) {
		task_lock(t);
		if (t->mm) {
			found = get_task_struct(t);
			*mm = t->mm;
			mmgrab(*mm);
		}
		task_unlock(t);
		if (found)
			break;
	}
	rcu_read_unlock();
	return found;
}

/**
 * kmmscand_procs_begin - begin to go through the processes
 * @procs: where; zero at first
 */
void kmmscand_procs_begin(struct kmmscand_procs *procs)
{
	procs_put(procs);
	procs->restarts = 0;
}

/**
 * kmmscand_procs_next - the next process that has an address space
 * @procs: where
 * @mm:    result; mm_count is raised
 *
 * Context: process context; no locks held.
 * Return: one of its threads, with a reference, or NULL at the end.
 */
struct task_struct *kmmscand_procs_next(struct kmmscand_procs *procs, struct mm_struct **mm)
{
	struct task_struct *task;

	for (;;) {
		if (procs->next == procs->nr && !procs_fill(procs))
			return NULL;
		task = procs_thread(procs->leader[procs->next++], mm);
		if (task)
			return task;
		cond_resched();
	}
}

/**
 * kmmscand_procs_end - give the references back
 * @procs: where
 *
 * Return: false if processes may have been passed over.
 */
bool kmmscand_procs_end(struct kmmscand_procs *procs)
{
	procs_put(procs);
	return procs->restarts <= KMMSCAND_PROCS_RESTARTS;
}
