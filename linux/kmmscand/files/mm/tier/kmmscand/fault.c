// SPDX-License-Identifier: GPL-2.0
/*
 * Faults: rules of kmmscand that a debug kernel can break on purpose.
 *
 * The switches are beside those of the promoter, and the same holds for them: see
 * mm/tier/fault.c.  The code asks kmmscand_fault(NAME), which is the constant false without
 * CONFIG_KMMSCAND_DEBUG.
 */

#include <linux/debugfs.h>
#include <linux/init.h>

#include "../fault.h"
#include "fault.h"

bool kmmscand_faults[NR_KMMSCAND_FAULTS];

/* Files in /sys/kernel/debug/tier/ */
static const char * const kmmscand_fault_names[NR_KMMSCAND_FAULTS] = {
	[KMMSCAND_FAULT_YOUNG]		= "fault_young",
	[KMMSCAND_FAULT_OPT_OUT]	= "fault_opt_out",
	[KMMSCAND_FAULT_INHERIT]	= "fault_inherit",
	[KMMSCAND_FAULT_MAX]		= "fault_max",
	[KMMSCAND_FAULT_ONE_LOOK]	= "fault_one_look",
	[KMMSCAND_FAULT_HUGE]		= "fault_huge",
	[KMMSCAND_FAULT_SKIP]		= "fault_skip",
	[KMMSCAND_FAULT_POLICY]		= "fault_policy",
	[KMMSCAND_FAULT_TARGET]		= "fault_target",
	[KMMSCAND_FAULT_FALLBACK]	= "fault_fallback",
	[KMMSCAND_FAULT_CACHE_OFF]	= "fault_cache_off",
	[KMMSCAND_FAULT_CACHE_ONCE]	= "fault_cache_once",
	[KMMSCAND_FAULT_CACHE_PART]	= "fault_cache_part",
	[KMMSCAND_FAULT_CACHE_MAPPED]	= "fault_cache_mapped",
	[KMMSCAND_FAULT_VOTE]		= "fault_vote",
	[KMMSCAND_FAULT_CPU]		= "fault_cpu",
	[KMMSCAND_FAULT_RATE]		= "fault_rate",
	[KMMSCAND_FAULT_IDLE]		= "fault_idle",
	[KMMSCAND_FAULT_AGAIN]		= "fault_again",
};

static int __init kmmscand_faults_init(void)
{
	int i;

	for (i = 0; i < NR_KMMSCAND_FAULTS; i++)
		debugfs_create_bool(kmmscand_fault_names[i], 0600, tier_debug_dir(),
				    &kmmscand_faults[i]);
	return 0;
}
late_initcall(kmmscand_faults_init);
