/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TLB flushes after Accessed bits were cleared: see flush.c.
 */
#ifndef _MM_TIER_KMMSCAND_FLUSH_H
#define _MM_TIER_KMMSCAND_FLUSH_H

struct mm_struct;

void flush_cleared(struct mm_struct *mm, unsigned int cleared);
void flush_later(struct mm_struct *mm);
void flush_now(void);

#endif /* _MM_TIER_KMMSCAND_FLUSH_H */
