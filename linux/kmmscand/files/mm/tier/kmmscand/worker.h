/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Workers of the fast nodes: see worker.c.
 */
#ifndef _MM_TIER_KMMSCAND_WORKER_H
#define _MM_TIER_KMMSCAND_WORKER_H

struct kmmscand_nodes;
struct worker;

struct worker *worker_start(int home, const struct kmmscand_nodes *nodes);
void worker_stop(struct worker *worker);
void worker_cpu_came(int home);

#endif /* _MM_TIER_KMMSCAND_WORKER_H */
