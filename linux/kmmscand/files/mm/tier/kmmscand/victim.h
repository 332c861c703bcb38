/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Idle pages of fast nodes that make room for promotions: see victim.c.
 */
#ifndef _MM_TIER_KMMSCAND_VICTIM_H
#define _MM_TIER_KMMSCAND_VICTIM_H

#include <linux/limits.h>
#include <linux/nodemask.h>
#include <linux/types.h>

struct policy_period;

/**
 * struct victim_need - candidates of a group in a period
 * @hot:     base pages
 * @waiting: of these, base pages that found no room
 */
struct victim_need {
	unsigned long hot;
	unsigned long waiting;
};

/* An attempt takes longer than a period may wait */
#define VICTIM_LATER	U32_MAX

int victim_start(const nodemask_t *top);
void victim_stop(void);
void victim_found(unsigned int group, unsigned long first, unsigned long last,
		  u32 window_us);
void victim_period(void);
unsigned long victim_known(int nid);
unsigned long victim_expected(int nid);
unsigned long victim_made(int nid);
void victim_used(int nid, unsigned long nr);
bool victim_serves(int nid, unsigned int group);
u32 victim_seek(int nid, const struct policy_period *period, const struct victim_need *need,
		u64 page_ns);
void victim_end(int nid);
bool victim_pending(int nid);
unsigned long victim_take(int nid, unsigned long nr);
void victim_begin(int nid, unsigned int group);

#endif /* _MM_TIER_KMMSCAND_VICTIM_H */
