/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What memory policies and cpusets allow: see allow.c.
 */
#ifndef _MM_TIER_ALLOW_H
#define _MM_TIER_ALLOW_H

#include <linux/list.h>
#include <linux/types.h>

struct folio;
struct task_struct;

/**
 * struct tier_flight - a batch that is being migrated
 * @node:    in the list of them
 * @task:    that migrates it
 * @refused: base pages of which a mapping did not allow the node
 */
struct tier_flight {
	struct list_head node;
	struct task_struct *task;
	unsigned long refused;
};

void tier_flight_begin(struct tier_flight *flight);
unsigned long tier_flight_end(struct tier_flight *flight);
bool tier_unmapped_allows(struct folio *folio, int nid);

#endif /* _MM_TIER_ALLOW_H */
