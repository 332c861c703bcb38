// SPDX-License-Identifier: GPL-2.0
/*
 * Faults of kmmscand: see mm/tier_parts/faults.c.  The code asks kmmscand_fault(NAME), which is the
 * constant false without CONFIG_KMMSCAND_DEBUG.
 */

#include <linux/init.h>
#include <linux/tier_parts.h>

#include "fault.h"

bool kmmscand_faults[NR_KMMSCAND_FAULTS];

/* Files in /sys/kernel/debug/tier/faults/, behind "scan_" */
static const char * const kmmscand_fault_names[NR_KMMSCAND_FAULTS] = {
	[KMMSCAND_FAULT_YOUNG]		= "young",
	[KMMSCAND_FAULT_OPT_OUT]	= "opt_out",
	[KMMSCAND_FAULT_INHERIT]	= "inherit",
	[KMMSCAND_FAULT_MAX]		= "max",
	[KMMSCAND_FAULT_ONE_LOOK]	= "one_look",
	[KMMSCAND_FAULT_HUGE]		= "huge",
	[KMMSCAND_FAULT_SKIP]		= "skip",
	[KMMSCAND_FAULT_POLICY]		= "policy",
	[KMMSCAND_FAULT_TARGET]		= "target",
	[KMMSCAND_FAULT_FALLBACK]	= "fallback",
	[KMMSCAND_FAULT_CACHE_OFF]	= "cache_off",
	[KMMSCAND_FAULT_CACHE_ONCE]	= "cache_once",
	[KMMSCAND_FAULT_CACHE_PART]	= "cache_part",
	[KMMSCAND_FAULT_CACHE_MAPPED]	= "cache_mapped",
	[KMMSCAND_FAULT_VOTE]		= "vote",
	[KMMSCAND_FAULT_CPU]		= "cpu",
	[KMMSCAND_FAULT_RATE]		= "rate",
	[KMMSCAND_FAULT_OWN_CPU]	= "own_cpu",
	[KMMSCAND_FAULT_HELD]		= "held",
	[KMMSCAND_FAULT_MISSED]		= "missed",
};

static int __init kmmscand_faults_init(void)
{
	tier_faults_add("scan", kmmscand_fault_names, kmmscand_faults, NR_KMMSCAND_FAULTS);
	return 0;
}
late_initcall(kmmscand_faults_init);
