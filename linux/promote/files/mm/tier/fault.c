// SPDX-License-Identifier: GPL-2.0
/*
 * Faults of mm/tier/: see mm/tier_parts/faults.c.  The code asks tier_fault(NAME), which is the
 * constant false without CONFIG_TIER_DEBUG.
 *
 * Nothing that a fault does damages the kernel or data: pages are promoted that should
 * stay, or the other way round, or it costs too much.
 */

#include <linux/init.h>
#include <linux/tier_parts.h>

#include "fault.h"

bool tier_faults[NR_TIER_FAULTS];

/* Files in /sys/kernel/debug/tier/faults/, behind "promote_" */
static const char * const tier_fault_names[NR_TIER_FAULTS] = {
	[TIER_FAULT_SPLIT]		= "split",
	[TIER_FAULT_WATERMARK]		= "watermark",
	[TIER_FAULT_MLOCKED]		= "mlocked",
	[TIER_FAULT_ALLOW]		= "allow",
	[TIER_FAULT_SHARED]		= "shared",
	[TIER_FAULT_WAIT]		= "wait",
	[TIER_FAULT_KEEP]		= "keep",
	[TIER_FAULT_SPARE]		= "spare",
	[TIER_FAULT_MEMCG]		= "memcg",
};

static int __init tier_faults_init(void)
{
	tier_faults_add("promote", tier_fault_names, tier_faults, NR_TIER_FAULTS);
	return 0;
}
late_initcall(tier_faults_init);
