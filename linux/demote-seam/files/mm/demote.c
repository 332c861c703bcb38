// SPDX-License-Identifier: GPL-2.0
/*
 * Where may memory be demoted to?
 *
 * Demotion goes by physical memory: reclaim has a folio and no task.  The cpuset is that of
 * the control group to which the folio is charged, if memory and cpuset controllers are in
 * one hierarchy (control groups v2).  In separate hierarchies (v1) every node is allowed.
 *
 * Not known here: the memory policies of those who map the folio.  What mbind(2) or
 * set_mempolicy(2) binds to a fast node may be demoted.
 */

#include <linux/cgroup.h>
#include <linux/demote.h>
#include <linux/memcontrol.h>
#include <linux/rcupdate.h>

#if defined(CONFIG_MEMCG) && defined(CONFIG_CPUSETS)
/**
 * __folio_may_demote - see folio_may_demote()
 * @folio: charge is stable
 * @nid:   demotion target
 */
bool __folio_may_demote(struct folio *folio, int nid)
{
	struct mem_cgroup *memcg;
	bool may = true;

	rcu_read_lock();
	memcg = folio_memcg(folio);
	if (memcg)
		may = cpuset_cgroup_allows_node(memcg->css.cgroup, nid);
	rcu_read_unlock();
	return may;
}
#endif
