/* SPDX-License-Identifier: GPL-2.0 */
/*
 * To which fast node should a page go?  See target.c.
 */
#ifndef _MM_TIER_KMMSCAND_TARGET_H
#define _MM_TIER_KMMSCAND_TARGET_H

#include <linux/nodemask.h>
#include <linux/types.h>

/* Fast nodes that votes tell apart; what runs on others has no vote. */
#define TARGET_NODES	8

/**
 * struct target - where pages of a mapping should go
 * @nid:    fast node, or NUMA_NO_NODE: the nearest
 * @strict: they may not go to another one
 */
struct target {
	int nid;
	bool strict;
};

struct mempolicy;

void target_start(const nodemask_t *top);
void target_vote(u16 *votes, int nid);
int target_winner(const u16 *votes);
bool target_choose(struct target *target, int vote, const nodemask_t *allowed);
void target_policy_nodes(struct mempolicy *pol, nodemask_t *nodes);

#endif /* _MM_TIER_KMMSCAND_TARGET_H */
