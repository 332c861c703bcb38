/* SPDX-License-Identifier: GPL-2.0 */
/* Directories of memory nodes in /sys/kernel/mm/tier/: see nodes.c. */
#ifndef _MM_TIER_PARTS_NODES_H
#define _MM_TIER_PARTS_NODES_H

#include <linux/types.h>

struct kobject;

bool tier_nodes_update(struct kobject *tier);

#endif /* _MM_TIER_PARTS_NODES_H */
