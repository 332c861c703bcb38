// SPDX-License-Identifier: GPL-2.0
/*
 * Part "demote" of memory tiering (mm/tier_parts/parts.c): reclaim demotes while the part is on, or
 * while /sys/kernel/mm/numa/demotion_enabled is set.  Neither file changes the other one.
 */

#include <linux/demote.h>
#include <linux/init.h>
#include <linux/memory-tiers.h>
#include <linux/nodemask.h>
#include <linux/tier_parts.h>

bool demotion_wished __read_mostly;

static bool demote_has_target(void)
{
	int nid;

	for_each_node_state(nid, N_MEMORY) {
		if (next_demotion_node(nid) != NUMA_NO_NODE)
			return true;
	}
	return false;
}

static int demote_start(const char **reason)
{
	if (!demote_has_target()) {
		*reason = "no memory node has a slower node to demote to";
		return -ENODEV;
	}
	WRITE_ONCE(demotion_wished, true);
	return 0;
}

static void demote_stop(void)
{
	WRITE_ONCE(demotion_wished, false);
}

static struct tier_part demote_part = {
	.name	= "demote",
	.wish	= true,
	.start	= demote_start,
	.stop	= demote_stop,
	.runs	= demote_has_target,
};

static int __init demote_init(void)
{
	return tier_part_add(&demote_part);
}
late_initcall(demote_init);
