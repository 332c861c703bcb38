// SPDX-License-Identifier: GPL-2.0
/*
 * What memory control groups (v2) say about promotion, and the files for it.
 *
 *   memory.tier.weight	share of the parent group's promotions, if there are more pages to
 *			promote than can be afforded: 1 to 10000, 100 by default.  0: nothing
 *			of the group is promoted, and its processes are not scanned.
 *   memory.tier.max	nothing of the group is promoted while its pages on top-tier nodes
 *			are that much: bytes, or "max", which is the default.
 *
 * Both hold for all groups below as well.  Nobody is demoted for a limit, and allocations
 * do not know it: it only keeps promotion from taking more.
 *
 * Settings that are not the default are kept in an array by id of the css, so struct
 * mem_cgroup does not grow, and while there are none, a static key is off and nobody asks.
 * An id is not used again before mem_cgroup_css_free() is over, so the entry of a group
 * can be found by everybody who has a reference to it, also when it is offline: its pages
 * keep its settings for as long as they are charged to it.
 */

#include <linux/cgroup.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/page_counter.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tier_control.h>
#include <linux/xarray.h>

#include "control.h"
#include "events.h"
#include "fault.h"

/*
 * Is there any group with settings of its own, or has there been one a second ago?  Who may
 * write to the files shall not have the kernel patched all the time.
 */
DEFINE_STATIC_KEY_DEFERRED_FALSE(tier_memcg_key, HZ);

struct tier_memcg {
	struct rcu_head rcu;
	unsigned int weight;
	unsigned long max;		/* base pages, or PAGE_COUNTER_MAX */
};

/* Id of the css -> struct tier_memcg; changes are under the mutex, and so is the number. */
static DEFINE_XARRAY(tier_memcgs);
static DEFINE_MUTEX(tier_memcgs_mutex);
/* Groups whose weight is neither the default nor 0 */
static unsigned int tier_memcgs_sharing;

static struct tier_memcg tier_memcg_read(struct mem_cgroup *memcg)
{
	struct tier_memcg settings = { .weight = TIER_WEIGHT_DEFAULT, .max = PAGE_COUNTER_MAX };
	struct tier_memcg *found;

	rcu_read_lock();
	found = xa_load(&tier_memcgs, memcg->css.id);
	if (found) {
		settings.weight = READ_ONCE(found->weight);
		settings.max = READ_ONCE(found->max);
	}
	rcu_read_unlock();
	return settings;
}

/**
 * tier_memcg_weight - memory.tier.weight
 * @memcg: group; the caller has a reference
 *
 * Context: any.
 * Return: 0 to TIER_WEIGHT_MAX.
 */
unsigned int tier_memcg_weight(struct mem_cgroup *memcg)
{
	return tier_fault(WEIGHT) ? TIER_WEIGHT_DEFAULT : tier_memcg_read(memcg).weight;
}

/**
 * tier_memcg_max - memory.tier.max
 * @memcg: group; the caller has a reference
 *
 * Context: any.
 * Return: base pages, or PAGE_COUNTER_MAX.
 */
unsigned long tier_memcg_max(struct mem_cgroup *memcg)
{
	return tier_fault(MAX) ? PAGE_COUNTER_MAX : tier_memcg_read(memcg).max;
}

/**
 * tier_memcg_shares - is anything to be shared by weight?
 *
 * Context: any.
 * Return: true if a group has another weight than the default and 0.
 */
bool tier_memcg_shares(void)
{
	return READ_ONCE(tier_memcgs_sharing);
}

/**
 * __tier_mm_off - has the group of a process, or one above, a weight of 0?
 * @mm: of the process; mm_count is enough
 *
 * Context: any; may not hold locks that are taken in interrupts.
 */
bool __tier_mm_off(struct mm_struct *mm)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(mm), *group;
	bool off = false;

	for (group = memcg; group && !off; group = parent_mem_cgroup(group))
		off = !tier_memcg_weight(group);
	mem_cgroup_put(memcg);
	return off;
}

/* With MGLRU pages are counted by generation, and else by list. */
static long tier_lrugen_pages(struct lruvec *lruvec, int zone)
{
	long pages = 0;
#ifdef CONFIG_LRU_GEN
	int gen, type;

	for (gen = 0; gen < MAX_NR_GENS; gen++) {
		for (type = 0; type < ANON_AND_FILE; type++)
			pages += READ_ONCE(lruvec->lrugen.nr_pages[gen][type][zone]);
	}
#endif
	return pages;
}

static unsigned long tier_lruvec_pages(struct lruvec *lruvec)
{
	long pages = 0;
	int zone, lru;

	for (zone = 0; zone < MAX_NR_ZONES; zone++) {
		for_each_lru(lru)
			pages += mem_cgroup_get_zone_lru_size(lruvec, lru, zone);
		pages += tier_lrugen_pages(lruvec, zone);
	}
	/* Others change the numbers while we add them up. */
	return max(pages, 0L);
}

/**
 * tier_memcg_pages - memory of a group and those below on some nodes
 * @memcg: group; the caller has a reference
 * @nodes: which
 *
 * Counts what could be promoted or demoted: pages on LRU lists, anonymous ones and page
 * cache.  The sizes of the lists are exact, unlike memory.numa_stat, but pages that wait in
 * per-CPU batches are on none.
 *
 * Context: may sleep; takes as long as there are groups below.
 * Return: base pages.
 */
unsigned long tier_memcg_pages(struct mem_cgroup *memcg, const nodemask_t *nodes)
{
	struct mem_cgroup *group;
	unsigned long pages = 0;
	int nid;

	for (group = mem_cgroup_iter(memcg, NULL, NULL); group;
	     group = mem_cgroup_iter(memcg, group, NULL)) {
		for_each_node_mask(nid, *nodes)
			pages += tier_lruvec_pages(mem_cgroup_lruvec(group, NODE_DATA(nid)));
		cond_resched();
	}
	return pages;
}

static bool tier_weight_shares(unsigned int weight)
{
	return weight && weight != TIER_WEIGHT_DEFAULT;
}

/* Replace the settings of a group; an entry with the defaults is none. */
static int tier_memcg_write(struct mem_cgroup *memcg, unsigned int weight, unsigned long max)
{
	struct tier_memcg *old, *new = NULL;
	int err;

	lockdep_assert_held(&tier_memcgs_mutex);

	if (weight != TIER_WEIGHT_DEFAULT || max != PAGE_COUNTER_MAX) {
		new = kmalloc(sizeof(*new), GFP_KERNEL);
		if (!new)
			return -ENOMEM;
		new->weight = weight;
		new->max = max;
	}
	/* Storing NULL erases. */
	old = xa_store(&tier_memcgs, memcg->css.id, new, GFP_KERNEL);
	err = xa_err(old);
	if (err) {
		kfree(new);
		return err;
	}
	if (new)
		WRITE_ONCE(tier_memcgs_sharing, tier_memcgs_sharing + tier_weight_shares(weight));
	if (old)
		WRITE_ONCE(tier_memcgs_sharing,
			   tier_memcgs_sharing - tier_weight_shares(old->weight));
	/* It counts the groups with settings; other settings change nothing. */
	if (new && !old)
		static_branch_deferred_inc(&tier_memcg_key);
	if (old && !new)
		static_branch_slow_dec_deferred(&tier_memcg_key);
	if (old)
		kfree_rcu(old, rcu);
	return 0;
}

/**
 * __tier_memcg_free - see tier_memcg_free()
 * @memcg: group
 */
void __tier_memcg_free(struct mem_cgroup *memcg)
{
	mutex_lock(&tier_memcgs_mutex);
	/* Erasing needs no memory. */
	tier_memcg_write(memcg, TIER_WEIGHT_DEFAULT, PAGE_COUNTER_MAX);
	mutex_unlock(&tier_memcgs_mutex);
}

static u64 tier_weight_read(struct cgroup_subsys_state *css, struct cftype *cft)
{
	return tier_memcg_read(mem_cgroup_from_css(css)).weight;
}

static int tier_weight_write(struct cgroup_subsys_state *css, struct cftype *cft, u64 val)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(css);
	int err;

	if (val > TIER_WEIGHT_MAX)
		return -EINVAL;
	mutex_lock(&tier_memcgs_mutex);
	err = tier_memcg_write(memcg, val, tier_memcg_read(memcg).max);
	mutex_unlock(&tier_memcgs_mutex);
	return err;
}

static int tier_max_show(struct seq_file *m, void *v)
{
	unsigned long max = tier_memcg_read(mem_cgroup_from_seq(m)).max;

	if (max == PAGE_COUNTER_MAX)
		seq_puts(m, "max\n");
	else
		seq_printf(m, "%llu\n", (u64)max * PAGE_SIZE);
	return 0;
}

static ssize_t tier_max_write(struct kernfs_open_file *of, char *buf, size_t nbytes, loff_t off)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(of_css(of));
	unsigned long max;
	int err;

	err = page_counter_memparse(strstrip(buf), "max", &max);
	if (err)
		return err;
	mutex_lock(&tier_memcgs_mutex);
	err = tier_memcg_write(memcg, tier_memcg_read(memcg).weight, max);
	mutex_unlock(&tier_memcgs_mutex);
	return err ?: nbytes;
}

static struct cftype tier_memcg_files[] = {
	{
		.name = "tier.weight",
		.flags = CFTYPE_NOT_ON_ROOT,
		.read_u64 = tier_weight_read,
		.write_u64 = tier_weight_write,
	},
	{
		.name = "tier.max",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = tier_max_show,
		.write = tier_max_write,
	},
	{ }	/* terminate */
};

static int __init tier_memcg_init(void)
{
	if (mem_cgroup_disabled())
		return 0;
	return cgroup_add_dfl_cftypes(&memory_cgrp_subsys, tier_memcg_files);
}
subsys_initcall(tier_memcg_init);
