// SPDX-License-Identifier: GPL-2.0
/*
 * Memory nodes as memory tiering sees them: /sys/kernel/mm/tier/nodeN/.
 *
 * A node with memory has a directory.  "distance" is the abstract distance, by which
 * mm/memory-tiers.c chooses the tier; "source" says where the distance comes from; "targets" lists
 * the nodes that reclaim prefers to demote to; "hot" counts pages that were found hot and wait for
 * promotion.
 */

#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/memory-tiers.h>
#include <linux/nodemask.h>
#include <linux/notifier.h>
#include <linux/sysfs.h>
#include <linux/tier_parts.h>

#include "nodes.h"

/* What drivers/dax/kmem.c takes if no algorithm knows a node */
#define TIER_NODE_DAX	(5 * MEMTIER_ADISTANCE_DRAM)

/* Both are written under tier_parts_lock. */
static struct kobject *tier_node_kobj[MAX_NUMNODES];
static const char *tier_node_source[MAX_NUMNODES];

static unsigned long (*tier_node_hot)(int nid);

/**
 * tier_nodes_hot - say which function counts the hot pages of a node that wait
 * @hot: number of base pages of a node; must not wait: any user can call it
 *
 * Context: init calls.
 */
void tier_nodes_hot(unsigned long (*hot)(int nid))
{
	WRITE_ONCE(tier_node_hot, hot);
}

/* The directory's name is node and the number. */
static int tier_node_of(const struct kobject *kobj)
{
	int nid;

	return kstrtoint(kobject_name(kobj) + strlen("node"), 10, &nid) ? 0 : nid;
}

static ssize_t distance_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	nodemask_t targets;

	return sysfs_emit(buf, "%d\n", memory_tier_describe(tier_node_of(kobj), &targets));
}

static ssize_t source_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", READ_ONCE(tier_node_source[tier_node_of(kobj)]));
}

static ssize_t targets_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	nodemask_t targets;

	memory_tier_describe(tier_node_of(kobj), &targets);
	return sysfs_emit(buf, "%*pbl\n", nodemask_pr_args(&targets));
}

static ssize_t hot_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	unsigned long (*hot)(int nid) = READ_ONCE(tier_node_hot);

	return sysfs_emit(buf, "%lu\n", hot ? hot(tier_node_of(kobj)) : 0);
}

static struct kobj_attribute distance_attr = __ATTR_RO(distance);
static struct kobj_attribute source_attr = __ATTR_RO(source);
static struct kobj_attribute targets_attr = __ATTR_RO(targets);
static struct kobj_attribute hot_attr = __ATTR_RO(hot);

static const struct attribute *tier_node_attrs[] = {
	&distance_attr.attr,
	&source_attr.attr,
	&targets_attr.attr,
	&hot_attr.attr,
	NULL
};

/* HMAT and CDAT come as one: both answer mt_calc_adistance(). */
static const char *tier_node_find_source(int nid)
{
	int distance = 0, known;
	nodemask_t targets;

	if (mt_calc_adistance(nid, &distance) & NOTIFY_STOP_MASK)
		return "firmware";
	known = memory_tier_describe(nid, &targets);
	if (known == MEMTIER_ADISTANCE_DRAM)
		return "dram";
	return known == TIER_NODE_DAX ? "dax" : "unknown";
}

static bool tier_node_add(struct kobject *tier, int nid)
{
	char name[16];

	snprintf(name, sizeof(name), "node%d", nid);
	/* The files read the source. */
	WRITE_ONCE(tier_node_source[nid], tier_node_find_source(nid));
	tier_node_kobj[nid] = kobject_create_and_add(name, tier);
	if (tier_node_kobj[nid] && sysfs_create_files(tier_node_kobj[nid], tier_node_attrs)) {
		kobject_put(tier_node_kobj[nid]);
		tier_node_kobj[nid] = NULL;
	}
	return tier_node_kobj[nid];
}

/**
 * tier_nodes_update - create and remove directories, as nodes have memory
 * @tier: directory of memory tiering
 *
 * Context: tier_parts_lock is held; may sleep.
 * Return: false if no memory was free for a directory.
 */
bool tier_nodes_update(struct kobject *tier)
{
	bool complete = true;
	int nid;

	for_each_node(nid) {
		bool memory = node_state(nid, N_MEMORY);

		if (memory && !tier_node_kobj[nid]) {
			complete &= tier_node_add(tier, nid);
		} else if (!memory && tier_node_kobj[nid]) {
			kobject_del(tier_node_kobj[nid]);
			kobject_put(tier_node_kobj[nid]);
			tier_node_kobj[nid] = NULL;
		}
	}
	return complete;
}
