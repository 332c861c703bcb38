/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shares of CPU time of kmmscand's threads: see cpu.c.
 */
#ifndef _MM_TIER_KMMSCAND_CPU_H
#define _MM_TIER_KMMSCAND_CPU_H

#include <linux/types.h>

struct kmmscand_share;

/* Threads that a node has at most; all but the first one help it */
#define KMMSCAND_THREADS	4

/* Of scanning, and of promotion */
extern struct kmmscand_share kmmscand_scan_share, kmmscand_promote_share;

/**
 * struct kmmscand_cpu - CPU time of a thread
 * @share:   that pays for it
 * @runtime: until the last charge, in ns
 */
struct kmmscand_cpu {
	struct kmmscand_share *share;
	u64 runtime;
};

void kmmscand_share_defaults(void);
u64 kmmscand_share_ns(const struct kmmscand_share *share, u64 ns);
unsigned int kmmscand_share_threads(const struct kmmscand_share *share, unsigned int nodes);
void kmmscand_cpu_start(struct kmmscand_cpu *cpu, struct kmmscand_share *share);
void kmmscand_cpu_charge(struct kmmscand_cpu *cpu);
void kmmscand_cpu_pay(struct kmmscand_cpu *cpu);

#endif /* _MM_TIER_KMMSCAND_CPU_H */
