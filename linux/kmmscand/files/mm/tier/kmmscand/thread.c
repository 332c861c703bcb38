// SPDX-License-Identifier: GPL-2.0
/*
 * Threads of a node: workers of the fast nodes, and promoters of the slow nodes.
 *
 * A node has KMMSCAND_THREADS threads of a kind.  The first one waits for work.  A thread that
 * leaves some wakes the next one, as far as the share of CPU time allows (cpu.c).  The woken
 * thread then allocates its memory.
 *
 * All threads are freezable, and freeze where they hold no lock.
 */

#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/numa.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "thread.h"

/* Sleep until there may be work. */
static void thread_sleep(struct kmmscand_thread *t)
{
	if (!t->nr) {
		t->kind->sleep(t);
		return;
	}
	wait_event_freezable(t->wait, kthread_should_stop() || atomic_read(&t->wanted));
	atomic_set(&t->wanted, 0);
}

static int thread_run(void *data)
{
	struct kmmscand_thread *t = data;

	set_freezable();
	kmmscand_cpu_start(&t->cpu, t->kind->share);
	if (t->nr)
		thread_sleep(t);
	while (!kthread_should_stop()) {
		if (!t->data)
			t->data = t->kind->alloc(t);
		if (!t->data || !t->kind->work(t)) {
			kmmscand_cpu_charge(&t->cpu);
			thread_sleep(t);
		}
		kmmscand_cpu_pay(&t->cpu);
	}
	return 0;
}

/**
 * thread_help - there is more than this thread can do: wake the next one
 * @t:     thread
 * @nodes: nodes with threads of this kind
 *
 * Context: the thread.
 */
void thread_help(struct kmmscand_thread *t, unsigned int nodes)
{
	struct kmmscand_thread *next = t->next;

	if (next && next->nr < kmmscand_share_threads(t->kind->share, nodes) &&
	    !atomic_xchg(&next->wanted, 1))
		wake_up(&next->wait);
}

/**
 * thread_bind - let threads run on the CPUs of their node
 * @first: of the node
 *
 * A preference, for the memory that the threads walk; user space may change it, until a CPU of the
 * node comes online.
 *
 * Context: may sleep.
 */
void thread_bind(struct kmmscand_thread *first)
{
	struct kmmscand_thread *t;
	cpumask_var_t cpus;

	if (!alloc_cpumask_var(&cpus, GFP_KERNEL))
		return;
	if (cpumask_and(cpus, cpumask_of_node(first->nid), housekeeping_cpumask(HK_TYPE_KTHREAD))) {
		for (t = first; t; t = t->next)
			set_cpus_allowed_ptr(t->task, cpus);
	}
	free_cpumask_var(cpus);
}

static struct kmmscand_thread *thread_create(const struct thread_kind *kind, int nid,
					     unsigned int nr, void *arg)
{
	const int node = kind->bound ? nid : NUMA_NO_NODE;
	struct kmmscand_thread *t = kzalloc_node(sizeof(*t), GFP_KERNEL, node);
	struct task_struct *task;
	char name[TASK_COMM_LEN];

	if (!t)
		return ERR_PTR(-ENOMEM);
	t->kind = kind;
	t->arg = arg;
	t->nid = nid;
	t->nr = nr;
	init_waitqueue_head(&t->wait);
	/* Most machines need one thread of a node only, and its memory is fast memory. */
	t->data = nr ? NULL : kind->alloc(t);
	if (!nr && !t->data) {
		kfree(t);
		return ERR_PTR(-ENOMEM);
	}
	snprintf(name, sizeof(name), kind->name, nid);
	task = kthread_create_on_node(thread_run, t, node, nr ? "%s:%u" : "%s", name, nr);
	if (IS_ERR(task)) {
		kvfree(t->data);
		kfree(t);
		return ERR_CAST(task);
	}
	t->task = task;
	set_user_nice(task, 10);
	return t;
}

/**
 * thread_start - start the threads of a node
 * @kind: what they do
 * @nid:  node
 * @arg:  for them
 *
 * Context: may sleep.
 * Return: the first thread or an ERR_PTR().
 */
struct kmmscand_thread *thread_start(const struct thread_kind *kind, int nid, void *arg)
{
	struct kmmscand_thread *first = NULL, *t;
	int nr;

	for (nr = KMMSCAND_THREADS - 1; nr >= 0; nr--) {
		t = thread_create(kind, nid, nr, arg);
		if (IS_ERR(t)) {
			thread_stop(first);
			return t;
		}
		t->next = first;
		first = t;
	}
	if (kind->bound)
		thread_bind(first);
	for (t = first; t; t = t->next)
		wake_up_process(t->task);
	return first;
}

/**
 * thread_stop - wait for the end of what the threads of a node do, and free them
 * @first: of the node, or NULL
 *
 * Context: may sleep.
 */
void thread_stop(struct kmmscand_thread *first)
{
	struct kmmscand_thread *t, *next;

	/* Each may look at the next one. */
	for (t = first; t; t = t->next)
		kthread_stop(t->task);
	for (t = first; t; t = next) {
		next = t->next;
		kvfree(t->data);
		kfree(t);
	}
}
