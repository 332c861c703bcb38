/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where may memory be demoted to?  See mm/demote.c.
 */
#ifndef _LINUX_DEMOTE_H
#define _LINUX_DEMOTE_H

#include <linux/cpuset.h>

struct cgroup;
struct folio;

#if defined(CONFIG_MEMCG) && defined(CONFIG_CPUSETS)
bool cpuset_cgroup_allows_node(struct cgroup *cgrp, int nid);
bool __folio_may_demote(struct folio *folio, int nid);
#else
static inline bool __folio_may_demote(struct folio *folio, int nid)
{
	return true;
}
#endif

/**
 * folio_may_demote - does the cpuset of a folio's control group allow a node?
 * @folio: charge and node are stable, as of an isolated folio
 * @nid:   demotion target
 *
 * Without cpusets a static branch.
 *
 * Context: any.
 * Return: false if the cpuset of the memory control group excludes the node.
 */
static inline bool folio_may_demote(struct folio *folio, int nid)
{
	return !cpusets_enabled() || __folio_may_demote(folio, nid);
}

#endif /* _LINUX_DEMOTE_H */
