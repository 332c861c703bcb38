// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand<N>: workers of the fast nodes.
 *
 * A fast node with CPUs has several workers (thread.c).  The first one waits until an address space
 * is due, and visits what is due (visit.c).  A worker that leaves something in the queue wakes the
 * next one.  One worker at a time visits an address space.
 *
 * Locking: none but that of the queues (space.c).
 */

#include <linux/bitops.h>
#include <linux/nodemask.h>

#include "kmmscand.h"
#include "space.h"
#include "thread.h"
#include "visit.h"
#include "worker.h"

/* Nodes of which a CPU has come online since their workers were bound */
static nodemask_t worker_rebind;

static void *worker_alloc(struct kmmscand_thread *t)
{
	return visit_alloc(t->nid, t->arg, &t->cpu);
}

static bool worker_work(struct kmmscand_thread *t)
{
	struct visit *visit = t->data;

	if (!t->nr && test_and_clear_bit(t->nid, worker_rebind.bits))
		thread_bind(t);
	if (!visit_gather(visit))
		return false;
	/* More is due than one worker can visit. */
	if (spaces_due(t->nid))
		thread_help(t, nodes_weight(visit->nodes->home));
	visit_finish(visit);
	return true;
}

static void worker_sleep(struct kmmscand_thread *t)
{
	spaces_wait(t->nid);
}

static const struct thread_kind worker_kind = {
	.name	= "kmmscand%d",
	.share	= &kmmscand_scan_share,
	.bound	= true,
	.alloc	= worker_alloc,
	.work	= worker_work,
	.sleep	= worker_sleep,
};

/**
 * worker_start - start the workers of a fast node
 * @home:  fast node
 * @nodes: tiers
 *
 * Context: may sleep.
 * Return: the first worker or an ERR_PTR().
 */
struct kmmscand_thread *worker_start(int home, struct kmmscand_nodes *nodes)
{
	return thread_start(&worker_kind, home, nodes);
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
