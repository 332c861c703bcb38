/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Promoters: see kpromoted.c.
 */
#ifndef _MM_TIER_KMMSCAND_KPROMOTED_H
#define _MM_TIER_KMMSCAND_KPROMOTED_H

struct kpromoted;
struct period;

struct kpromoted *kpromoted_start(struct period *p);
void kpromoted_stop(struct kpromoted *k);

#endif /* _MM_TIER_KMMSCAND_KPROMOTED_H */
