/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults: rules of mm/tier/ that a debug kernel can break on purpose; see mm/tier_parts/faults.c.
 */
#ifndef _MM_TIER_FAULT_H
#define _MM_TIER_FAULT_H

#include <linux/compiler.h>
#include <linux/types.h>

/**
 * enum tier_fault - rules that can be broken
 * @TIER_FAULT_SPLIT:		migrate_pages() splits large folios that find no room
 * @TIER_FAULT_WATERMARK:	nodes are promoted to that are below their watermark
 * @TIER_FAULT_MLOCKED:		mlocked pages are promoted
 * @TIER_FAULT_ALLOW:		mappings are not asked whether they allow a promotion
 * @TIER_FAULT_SHARED:		tasks that do not belong to the owner's process are not looked for
 * @TIER_FAULT_WAIT:		changes of policies do not wait for promotions under way
 * @TIER_FAULT_KEEP:		memory that may not be demoted is reclaimed for promotions
 * @TIER_FAULT_SPARE:		memory.min and memory.low are ignored for promotions
 * @TIER_FAULT_MEMCG:		a list counts for the group of its first folio
 */
enum tier_fault {
	TIER_FAULT_SPLIT,
	TIER_FAULT_WATERMARK,
	TIER_FAULT_MLOCKED,
	TIER_FAULT_ALLOW,
	TIER_FAULT_SHARED,
	TIER_FAULT_WAIT,
	TIER_FAULT_KEEP,
	TIER_FAULT_SPARE,
	TIER_FAULT_MEMCG,
	/* private: */
	NR_TIER_FAULTS
};

#ifdef CONFIG_TIER_DEBUG
extern bool tier_faults[NR_TIER_FAULTS];
#define tier_fault(name)	READ_ONCE(tier_faults[TIER_FAULT_##name])
#else
#define tier_fault(name)	((void)TIER_FAULT_##name, false)
#endif

#endif /* _MM_TIER_FAULT_H */
