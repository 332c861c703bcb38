/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults: rules of kmmscand that a debug kernel can break on purpose; see mm/tier_parts/faults.c.
 */
#ifndef _MM_TIER_KMMSCAND_FAULT_H
#define _MM_TIER_KMMSCAND_FAULT_H

#include <linux/compiler.h>
#include <linux/types.h>

/**
 * enum kmmscand_fault - rules that can be broken
 * @KMMSCAND_FAULT_YOUNG:		Accessed bits are taken away, and reclaim is not told
 * @KMMSCAND_FAULT_OPT_OUT:		what a process has set by prctl() is ignored
 * @KMMSCAND_FAULT_INHERIT:		fork and exec forget what was set by prctl()
 * @KMMSCAND_FAULT_MAX:			memory.tier.max is ignored
 * @KMMSCAND_FAULT_ONE_LOOK:		one look of a visit is as good as two
 * @KMMSCAND_FAULT_HUGE:		huge mappings have the windows of small ones
 * @KMMSCAND_FAULT_SKIP:		page tables are skipped although they were walked
 * @KMMSCAND_FAULT_POLICY:		mempolicy, cpuset, advice and mlock() are ignored
 * @KMMSCAND_FAULT_TARGET:		pages go to the nearest fast node, whatever is wanted
 * @KMMSCAND_FAULT_FALLBACK:		where the target is full nothing goes elsewhere
 * @KMMSCAND_FAULT_CACHE_OFF:		page cache is looked at although page_cache is 0
 * @KMMSCAND_FAULT_CACHE_ONCE:		one read of page cache is as good as two looks
 * @KMMSCAND_FAULT_CACHE_PART:		each part of a page that is read counts
 * @KMMSCAND_FAULT_CACHE_MAPPED:	reads of mapped page cache count
 * @KMMSCAND_FAULT_VOTE:		threads are not asked where they run
 * @KMMSCAND_FAULT_CPU:			threads do not sleep for the CPU time that they use
 * @KMMSCAND_FAULT_RATE:		promote/rate_mbps is ignored
 * @KMMSCAND_FAULT_OWN_CPU:		the CPU on which the sampler itself runs has no sample
 * @KMMSCAND_FAULT_HELD:		first looks find the mmap_lock taken
 * @KMMSCAND_FAULT_MISSED:		a look that was missed counts as one that has found nothing
 */
enum kmmscand_fault {
	KMMSCAND_FAULT_YOUNG,
	KMMSCAND_FAULT_OPT_OUT,
	KMMSCAND_FAULT_INHERIT,
	KMMSCAND_FAULT_MAX,
	KMMSCAND_FAULT_ONE_LOOK,
	KMMSCAND_FAULT_HUGE,
	KMMSCAND_FAULT_SKIP,
	KMMSCAND_FAULT_POLICY,
	KMMSCAND_FAULT_TARGET,
	KMMSCAND_FAULT_FALLBACK,
	KMMSCAND_FAULT_CACHE_OFF,
	KMMSCAND_FAULT_CACHE_ONCE,
	KMMSCAND_FAULT_CACHE_PART,
	KMMSCAND_FAULT_CACHE_MAPPED,
	KMMSCAND_FAULT_VOTE,
	KMMSCAND_FAULT_CPU,
	KMMSCAND_FAULT_RATE,
	KMMSCAND_FAULT_OWN_CPU,
	KMMSCAND_FAULT_HELD,
	KMMSCAND_FAULT_MISSED,
	/* private: */
	NR_KMMSCAND_FAULTS
};

#ifdef CONFIG_KMMSCAND_DEBUG
extern bool kmmscand_faults[NR_KMMSCAND_FAULTS];
#define kmmscand_fault(name)	READ_ONCE(kmmscand_faults[KMMSCAND_FAULT_##name])
#else
#define kmmscand_fault(name)	((void)KMMSCAND_FAULT_##name, false)
#endif

#endif /* _MM_TIER_KMMSCAND_FAULT_H */
