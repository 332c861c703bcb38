/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kmmscand: what its files share.
 */
#ifndef _MM_TIER_KMMSCAND_H
#define _MM_TIER_KMMSCAND_H

#include <linux/compiler.h>
#include <linux/nodemask.h>
#include <linux/types.h>

#include <asm/page.h>

/**
 * struct kmmscand_nodes - nodes with memory, by tier
 * @slow: nodes to promote from
 * @top:  nodes to promote to
 * @home: of @top, those with workers
 * @span: sum of the first frames and sizes of @slow
 */
struct kmmscand_nodes {
	nodemask_t slow;
	nodemask_t top;
	nodemask_t home;
	unsigned long span;
};

/**
 * struct kmmscand_tunables - files in /sys/kernel/mm/tier/scan/ and promote/
 * @scan_period_ms:       from one visit of an address space to the next one; threads read
 *                        kmmscand_period_ms
 * @scan_cpu_permille:    share of all CPUs, for visits
 * @promote_rate_mbps:    limit for each slow node
 * @promote_cpu_permille: share of all CPUs, for promotion
 */
struct kmmscand_tunables {
	unsigned int scan_period_ms;
	unsigned int scan_cpu_permille;
	unsigned int promote_rate_mbps;
	unsigned int promote_cpu_permille;
};

extern struct kmmscand_tunables kmmscand_tunables;
extern bool kmmscand_promotes;	/* else candidates are only counted */
/* scan/period_ms when the threads started: it stays while a thread runs (kmmscand_check()) */
extern unsigned int kmmscand_period_ms;

/* In base pages a second */
static inline unsigned long kmmscand_rate(void)
{
	unsigned long mbps = READ_ONCE(kmmscand_tunables.promote_rate_mbps);

	return READ_ONCE(kmmscand_promotes) ? mbps << (20 - PAGE_SHIFT) : 0;
}

#endif /* _MM_TIER_KMMSCAND_H */
