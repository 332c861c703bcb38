/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Idle pages of fast nodes that make room for promotions: see victim.c.
 */
#ifndef _MM_TIER_KMMSCAND_VICTIM_H
#define _MM_TIER_KMMSCAND_VICTIM_H

#include <linux/types.h>

struct hotness_groups;
struct policy_period;

void victim_start(void);
void victim_found(unsigned int group, unsigned long first, unsigned long last,
		  unsigned int window_ms);
void victim_period(void);
unsigned long victim_known(int nid);
bool victim_serves(int nid, unsigned int group);
bool victim_seek(int nid, const struct policy_period *period, const struct hotness_groups *groups,
		 u64 page_ns);
unsigned long victim_take(int nid, unsigned long nr);
void victim_begin(int nid);

#endif /* _MM_TIER_KMMSCAND_VICTIM_H */
