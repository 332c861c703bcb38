/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Workers of the fast nodes: see worker.c.
 */
#ifndef _MM_TIER_KMMSCAND_WORKER_H
#define _MM_TIER_KMMSCAND_WORKER_H

struct kmmscand_nodes;
struct kmmscand_thread;

struct kmmscand_thread *worker_start(int home, struct kmmscand_nodes *nodes);
void worker_cpu_came(int home);

#endif /* _MM_TIER_KMMSCAND_WORKER_H */
