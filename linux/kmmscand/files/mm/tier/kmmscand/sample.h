/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which address spaces run?  See sample.c.
 */
#ifndef _MM_TIER_KMMSCAND_SAMPLE_H
#define _MM_TIER_KMMSCAND_SAMPLE_H

#include <linux/nodemask.h>

struct workqueue_struct;

void sample_init(struct workqueue_struct *wq);
void sample_start(const nodemask_t *homes);
void sample_stop(const nodemask_t *homes);

#endif /* _MM_TIER_KMMSCAND_SAMPLE_H */
