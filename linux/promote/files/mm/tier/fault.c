// SPDX-License-Identifier: GPL-2.0
/*
 * Faults: rules of mm/tier/ that a debug kernel can break on purpose.
 *
 * A test that has never failed proves little.  So each rule that keeps tiering from doing
 * harm has a switch that breaks it, and a test that must fail while the switch is set.
 * The code asks tier_fault(NAME), which is the constant false without CONFIG_TIER_DEBUG.
 *
 * Nothing that a fault does damages the kernel or data: pages are promoted that should
 * stay, or the other way round, or it costs too much.
 */

#include <linux/debugfs.h>

#include "fault.h"

bool tier_faults[NR_TIER_FAULTS];

/* Files in /sys/kernel/debug/tier/ */
static const char * const tier_fault_names[NR_TIER_FAULTS] = {
	[TIER_FAULT_SPLIT]		= "fault_split",
	[TIER_FAULT_WATERMARK]		= "fault_watermark",
	[TIER_FAULT_MLOCKED]		= "fault_mlocked",
	[TIER_FAULT_ALLOW]		= "fault_allow",
	[TIER_FAULT_SHARED]		= "fault_shared",
	[TIER_FAULT_WAIT]		= "fault_wait",
	[TIER_FAULT_KEEP]		= "fault_keep",
	[TIER_FAULT_SPARE]		= "fault_spare",
	[TIER_FAULT_MEMCG]		= "fault_memcg",
};

/**
 * tier_debug_dir - directory of the tiers in debugfs
 *
 * It is created by the first call.  Sources of hotness put their switches beside ours.
 *
 * Context: initcalls.
 * Return: as debugfs_create_dir().
 */
struct dentry *tier_debug_dir(void)
{
	static struct dentry *dir;

	if (!dir)
		dir = debugfs_create_dir("tier", NULL);
	return dir;
}

/**
 * tier_create_faults - create the files of the switches
 */
void tier_create_faults(void)
{
	int i;

	for (i = 0; i < NR_TIER_FAULTS; i++)
		debugfs_create_bool(tier_fault_names[i], 0600, tier_debug_dir(),
				    &tier_faults[i]);
}
