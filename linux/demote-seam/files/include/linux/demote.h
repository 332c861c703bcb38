/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where may the memory of a control group be?  Reclaim and the promoter go by physical memory:
 * they have a folio and no task.  The cpuset is that of the memory control group, if both
 * controllers are in one hierarchy (v2).  In separate hierarchies (v1) every node is allowed.
 */
#ifndef _LINUX_DEMOTE_H
#define _LINUX_DEMOTE_H

#include <linux/cpuset.h>
#include <linux/memcontrol.h>
#include <linux/memory-tiers.h>
#include <linux/mmzone.h>
#include <linux/rcupdate.h>

#if defined(CONFIG_MEMCG) && defined(CONFIG_CPUSETS)
bool cpuset_cgroup_allows_node(struct cgroup *cgrp, int nid);

/**
 * memcg_allows_node - does the cpuset of a memory control group allow a node?
 * @memcg: kept by the caller; NULL for none, which allows all
 * @nid:   node
 *
 * Without cpusets a static branch.
 *
 * Context: any.
 */
static inline bool memcg_allows_node(struct mem_cgroup *memcg, int nid)
{
	bool allows;

	if (!cpusets_enabled() || !memcg)
		return true;
	rcu_read_lock();
	allows = cpuset_cgroup_allows_node(memcg->css.cgroup, nid);
	rcu_read_unlock();
	return allows;
}
#else
static inline bool memcg_allows_node(struct mem_cgroup *memcg, int nid)
{
	return true;
}
#endif

extern bool demotion_wished;

/**
 * demotion_enabled - does reclaim demote?
 *
 * Context: any; a snapshot.
 */
static inline bool demotion_enabled(void)
{
	return numa_demotion_enabled ||
	       (IS_ENABLED(CONFIG_TIER_PARTS) && READ_ONCE(demotion_wished));
}

/**
 * memcg_demotion_target - where to demote memory of a control group
 * @memcg:   kept by the caller; NULL for none
 * @pgdat:   node that the memory is on
 * @targets: all nodes that the memory may be demoted to
 *
 * Context: any.
 * Return: the node to try first: that of the demotion order, or else the nearest; NUMA_NO_NODE if
 * there is none.
 */
static inline int memcg_demotion_target(struct mem_cgroup *memcg, pg_data_t *pgdat,
					nodemask_t *targets)
{
	int target = next_demotion_node(pgdat->node_id), best = NUMA_NO_NODE, nid;

	node_get_allowed_targets(pgdat, targets);
	if (!cpusets_enabled() || !memcg || target == NUMA_NO_NODE)
		return target;
	for_each_node_mask(nid, *targets) {
		if (!memcg_allows_node(memcg, nid))
			node_clear(nid, *targets);
		else if (nid == target || best == NUMA_NO_NODE ||
			 (best != target && node_distance(pgdat->node_id, nid) <
					    node_distance(pgdat->node_id, best)))
			best = nid;
	}
	return best;
}

#endif /* _LINUX_DEMOTE_H */
