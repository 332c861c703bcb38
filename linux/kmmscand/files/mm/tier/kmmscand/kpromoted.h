/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Promoters: see kpromoted.c.
 */
#ifndef _MM_TIER_KMMSCAND_KPROMOTED_H
#define _MM_TIER_KMMSCAND_KPROMOTED_H

struct kmmscand_thread;
struct period;

struct kmmscand_thread *kpromoted_start(struct period *p);

#endif /* _MM_TIER_KMMSCAND_KPROMOTED_H */
