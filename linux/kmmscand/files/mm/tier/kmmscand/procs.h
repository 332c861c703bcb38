/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes, one after the other: see procs.c.
 */
#ifndef _MM_TIER_KMMSCAND_PROCS_H
#define _MM_TIER_KMMSCAND_PROCS_H

#include <linux/types.h>

struct mm_struct;
struct task_struct;

/* Processes that are copied from the list at a time */
#define KMMSCAND_PROCS		32

/**
 * struct kmmscand_procs - where a scanner is
 * @leader:   thread group leaders, with references
 * @nr:	      number of them
 * @next:     the next one
 * @restarts: how often all had exited in this round
 */
struct kmmscand_procs {
	struct task_struct *leader[KMMSCAND_PROCS];
	unsigned int nr;
	unsigned int next;
	unsigned int restarts;
};

void kmmscand_procs_begin(struct kmmscand_procs *procs);
struct task_struct *kmmscand_procs_next(struct kmmscand_procs *procs, struct mm_struct **mm);
bool kmmscand_procs_end(struct kmmscand_procs *procs);

#endif /* _MM_TIER_KMMSCAND_PROCS_H */
