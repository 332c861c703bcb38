// SPDX-License-Identifier: GPL-2.0
/* MIGRC: the part "defer" of memory tiering, and the rows of /proc/vmstat. */

#include <linux/mm.h>
#include <linux/tier_parts.h>

#include "migrc.h"

DEFINE_PER_CPU(struct migrc_events, migrc_events);

static int migrc_part_start(const char **reason)
{
	migrc_start();
	return 0;
}

static struct tier_part migrc_part = {
	.name	= "defer",
	.start	= migrc_part_start,
	.stop	= migrc_stop,
};

/* In the order of struct migrc_events; the last row is a gauge. */
static const char * const migrc_event_names[] = {
	"tier_defer_success ",
	"tier_defer_flush ",
	"tier_defer_forced ",
	"tier_defer_merged ",
	"tier_defer_backoff ",
	"tier_defer_pending ",
};

static struct tier_counters migrc_counters = {
	.names	= migrc_event_names,
	.nr	= ARRAY_SIZE(migrc_event_names),
	.counts	= (unsigned long __percpu *)&migrc_events,
	.gauge	= migrc_nr_pending,
};

static int __init migrc_sysfs_init(void)
{
	BUILD_BUG_ON(sizeof(struct migrc_events) !=
		     (ARRAY_SIZE(migrc_event_names) - 1) * sizeof(unsigned long));

	tier_counters_add(&migrc_counters);
	return tier_part_add(&migrc_part);
}
late_initcall(migrc_sysfs_init);
