/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Candidates of a slow node, on their way from workers to promoters: see ring.c.
 */
#ifndef _MM_TIER_KMMSCAND_RING_H
#define _MM_TIER_KMMSCAND_RING_H

#include <linux/tier.h>
#include <linux/types.h>
#include <linux/wait.h>

/**
 * struct candidate - a folio of a slow node that is hot
 * @pfn:    first frame
 * @stamp:  when it was found, in jiffies
 * @nid:    fast node that it should go to, or NUMA_NO_NODE
 * @order:  of the folio
 * @group:  number of the memory control group (tier_group())
 * @strict: it may not go to another node
 *
 * The frame has no reference.  tier_promote() looks again.
 */
struct candidate {
	unsigned long pfn;
	u32 stamp;
	s16 nid;
	u8 order;
	u8 group : 7;
	u8 strict : 1;
};

static_assert(TIER_GROUPS <= 128);

int ring_start(int nid);
void ring_stop(int nid);
void ring_push(int nid, const struct candidate *found, unsigned int nr);
unsigned int ring_pop(int nid, struct candidate *taken, unsigned int max, unsigned long pages);
void ring_drop(int nid);
bool ring_empty(int nid);
unsigned int ring_queued(int nid);
unsigned long ring_waiting(int nid, unsigned int group);
unsigned long ring_counts(int nid, unsigned long *gone, unsigned long *waiting);
unsigned long ring_hot(int nid);
void ring_wake(int nid);
wait_queue_head_t *ring_wait(int nid);

#endif /* _MM_TIER_KMMSCAND_RING_H */
