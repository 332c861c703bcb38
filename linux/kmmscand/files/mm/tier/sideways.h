/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that are fast already, but on the wrong fast node: see sideways.c.
 */
#ifndef _MM_TIER_SIDEWAYS_H
#define _MM_TIER_SIDEWAYS_H

#include <linux/types.h>

struct tier_range;

void sideways_start(void);
void sideways_stop(void);
unsigned int sideways_add(unsigned long pfn, unsigned int nr, int nid);
int sideways_target(void);
unsigned int sideways_take(struct tier_range *ranges, unsigned int max_ranges,
			   unsigned long max_pages);

#endif /* _MM_TIER_SIDEWAYS_H */
