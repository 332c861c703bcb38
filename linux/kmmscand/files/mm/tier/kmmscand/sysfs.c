// SPDX-License-Identifier: GPL-2.0
/*
 * Parts "scan" and "promote" of memory tiering (mm/tier_parts/parts.c), and their knobs.
 *
 * Without "promote" workers visit address spaces and count candidates, and nothing moves.  Without
 * "scan" no candidate comes, so "promote" waits.
 */

#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/sysfs.h>
#include <linux/tier_parts.h>

#include "cache.h"
#include "kmmscand.h"
#include "main.h"
#include "ring.h"

static struct tier_knob scan_period_knob =
	TIER_KNOB(period_ms, &kmmscand_tunables.scan_period_ms, 100, 60000);
static struct tier_knob scan_cpu_knob =
	TIER_KNOB(cpu_permille, &kmmscand_tunables.scan_cpu_permille, 1, 1000);
static struct tier_knob promote_rate_knob =
	TIER_KNOB(rate_mbps, &kmmscand_tunables.promote_rate_mbps, 1, 65536);
static struct tier_knob promote_cpu_knob =
	TIER_KNOB(cpu_permille, &kmmscand_tunables.promote_cpu_permille, 1, 1000);

static struct attribute *scan_attrs[] = {
	&scan_period_knob.attr.attr,
	&scan_cpu_knob.attr.attr,
	&kmmscand_cache_attr.attr,
	NULL
};

static struct attribute *promote_attrs[] = {
	&promote_rate_knob.attr.attr,
	&promote_cpu_knob.attr.attr,
	NULL
};

static const struct attribute_group scan_group = { .attrs = scan_attrs };
static const struct attribute_group promote_group = { .attrs = promote_attrs };

static struct tier_part scan_part = {
	.name	= "scan",
	.wish	= true,
	.knobs	= &scan_group,
	.start	= kmmscand_start,
	.stop	= kmmscand_stop,
	.runs	= kmmscand_enabled,
};

static int promote_start(const char **reason)
{
	if (!kmmscand_enabled()) {
		*reason = "the part scan does not run: see scan/reason, or write 1 to scan/enabled";
		return -ENODEV;
	}
	WRITE_ONCE(kmmscand_promotes, true);
	return 0;
}

static void promote_stop(void)
{
	WRITE_ONCE(kmmscand_promotes, false);
}

static struct tier_part promote_part = {
	.name	= "promote",
	.wish	= true,
	.knobs	= &promote_group,
	.start	= promote_start,
	.stop	= promote_stop,
	.runs	= kmmscand_enabled,
};

/* After kmmscand_init(), which the Makefile names first */
static int __init kmmscand_sysfs_init(void)
{
	tier_nodes_hot(ring_hot);
	return tier_part_add(&scan_part) ?: tier_part_add(&promote_part);
}
late_initcall(kmmscand_sysfs_init);
