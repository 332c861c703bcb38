// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand<N>: workers of the fast nodes.
 *
 * A fast node with CPUs has KMMSCAND_THREADS workers.  The first one waits until an address space
 * is due, and visits what is due (visit.c).  A worker that leaves something in the queue wakes the
 * next one, as far as the share of CPU time allows (cpu.c).  One worker at a time visits an address
 * space.
 *
 * Locking: none but that of the queues (space.c).
 */

#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "cpu.h"
#include "kmmscand.h"
#include "space.h"
#include "visit.h"
#include "worker.h"

struct worker {
	struct task_struct *task;
	struct worker *next;		/* that this one wakes */
	wait_queue_head_t wait;		/* of all but the first one of a node */
	atomic_t wanted;
	unsigned int nr;		/* 0: the first one */
	struct visit visit;
};

/* Nodes of which a CPU has come online since their workers were bound */
static nodemask_t worker_rebind;

/* More is due than one worker can visit. */
static void worker_help(struct worker *w)
{
	struct worker *next = w->next;

	if (!next || next->nr >= kmmscand_share_threads(&kmmscand_scan_share,
							nodes_weight(w->visit.nodes->home)))
		return;
	if (spaces_due(w->visit.home) && !atomic_xchg(&next->wanted, 1))
		wake_up(&next->wait);
}

/* Sleep until there may be something to visit. */
static void worker_sleep(struct worker *w)
{
	if (!w->nr) {
		spaces_wait(w->visit.home);
		return;
	}
	wait_event_freezable(w->wait, kthread_should_stop() || atomic_read(&w->wanted));
	atomic_set(&w->wanted, 0);
}

static int worker_thread(void *data)
{
	struct worker *w = data;

	set_freezable();
	kmmscand_cpu_start(&w->visit.cpu, &kmmscand_scan_share);
	while (!kthread_should_stop()) {
		if (!w->nr && test_and_clear_bit(w->visit.home, worker_rebind.bits)) {
			struct worker *next;

			for (next = w; next; next = next->next)
				kmmscand_bind(next->task, w->visit.home);
		}
		if (visit_gather(&w->visit)) {
			worker_help(w);
			visit_finish(&w->visit);
		} else {
			kmmscand_cpu_charge(&w->visit.cpu);
			worker_sleep(w);
		}
		kmmscand_cpu_pay(&w->visit.cpu);
	}
	return 0;
}

static struct worker *worker_start_one(int home, unsigned int nr,
				       const struct kmmscand_nodes *nodes)
{
	struct task_struct *task;
	struct worker *w;

	w = kvzalloc_node(sizeof(*w), GFP_KERNEL, home);
	if (!w)
		return ERR_PTR(-ENOMEM);
	w->visit.home = home;
	w->nr = nr;
	w->visit.nodes = nodes;
	init_waitqueue_head(&w->wait);
	if (nr)
		task = kthread_create_on_node(worker_thread, w, home, "kmmscand%d:%u", home, nr);
	else
		task = kthread_create_on_node(worker_thread, w, home, "kmmscand%d", home);
	if (IS_ERR(task)) {
		kvfree(w);
		return ERR_CAST(task);
	}
	w->task = task;
	set_user_nice(task, 10);
	kmmscand_bind(task, home);
	return w;
}

/**
 * worker_start - start the workers of a fast node
 * @home:  fast node
 * @nodes: tiers
 *
 * Context: may sleep.
 * Return: the first worker or an ERR_PTR().
 */
struct worker *worker_start(int home, const struct kmmscand_nodes *nodes)
{
	struct worker *first = NULL, *w;
	int nr;

	for (nr = KMMSCAND_THREADS - 1; nr >= 0; nr--) {
		w = worker_start_one(home, nr, nodes);
		if (IS_ERR(w)) {
			worker_stop(first);
			return w;
		}
		w->next = first;
		first = w;
	}
	for (w = first; w; w = w->next)
		wake_up_process(w->task);
	return first;
}

/**
 * worker_cpu_came - a CPU of a node has come online: its workers go back
 * @home: node
 *
 * Context: any.
 */
void worker_cpu_came(int home)
{
	node_set(home, worker_rebind);
}

/**
 * worker_stop - wait for the end of the visits and free the workers of a node
 * @w: first worker, or NULL
 *
 * Context: may sleep.
 */
void worker_stop(struct worker *w)
{
	struct worker *next;

	/* Each may look at the next one. */
	for (next = w; next; next = next->next)
		kthread_stop(next->task);
	for (; w; w = next) {
		next = w->next;
		kvfree(w);
	}
}
