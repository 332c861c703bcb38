// SPDX-License-Identifier: GPL-2.0
/*
 * What memory control groups (v2) say about promotion, and the files for it.
 *
 *   memory.tier.weight	100, the default, or 0: nothing of the group is promoted, and its
 *			processes are not scanned.  Other values are for later.
 *   memory.tier.max	nothing of the group is promoted that would make its pages on top-tier
 *			nodes more than that: bytes, or "max", which is the default.
 *
 * Both hold for all groups below as well.  Nobody is demoted for a limit, and allocations
 * do not know it: it only keeps promotion from taking more.
 *
 * Settings that are not the default are kept in an array by id of the css, so struct
 * mem_cgroup does not grow, and while there are none, a static key is off and nobody asks.
 * They go when the group goes offline, or loses its files because the controller is disabled:
 * nobody could take them back any more.  Pages that are still charged to it count for the
 * groups above.  An id is not used again before the group has been freed.
 *
 * What a page costs grows with the depth of its group.  So while there are settings, groups
 * deeper than TIER_MEMCG_LEVELS are treated like those with weight 0.
 */

#include <linux/cgroup.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
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

#define TIER_WEIGHT_DEFAULT	100

/* Id of the css -> struct tier_memcg; changes are under the mutex, and so is the number. */
static DEFINE_XARRAY(tier_memcgs);
static DEFINE_MUTEX(tier_memcgs_mutex);
static unsigned int tier_memcgs_changes;

/**
 * tier_memcg_find - the settings of a group
 * @memcg: group
 *
 * Context: under RCU, which keeps the settings, or under the mutex.
 * Return: NULL for the defaults.
 */
struct tier_memcg *tier_memcg_find(struct mem_cgroup *memcg)
{
	return xa_load(&tier_memcgs, memcg->css.id);
}

/**
 * tier_memcg_changes - have settings changed?
 *
 * Context: any.  What was found when it was the same can be used under RCU.
 * Return: a number that changes when they do.
 */
unsigned int tier_memcg_changes(void)
{
	/* Pairs with tier_memcg_write(). */
	return smp_load_acquire(&tier_memcgs_changes);
}

/**
 * tier_memcg_off - has a group opted out, or one above?
 * @memcg: group
 *
 * Context: under RCU, which keeps the groups above.
 * Return: true also for a group that is too deep.
 */
bool tier_memcg_off(struct mem_cgroup *memcg)
{
	struct tier_memcg *settings;

	if (memcg->css.cgroup->level > TIER_MEMCG_LEVELS)
		return true;
	for (; memcg; memcg = parent_mem_cgroup(memcg)) {
		settings = tier_memcg_find(memcg);
		if (settings && READ_ONCE(settings->off) && !tier_fault(WEIGHT))
			return true;
	}
	return false;
}

/**
 * __tier_mm_off - has the group of a process opted out, or one above?
 * @mm: of the process; mm_count is enough
 *
 * Context: any; may not hold locks that are taken in interrupts.
 */
bool __tier_mm_off(struct mm_struct *mm)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(mm);
	bool off;

	rcu_read_lock();
	off = memcg && tier_memcg_off(memcg);
	rcu_read_unlock();
	mem_cgroup_put(memcg);
	return off;
}

/* Change the settings of a group; an entry with the defaults is none. */
static int tier_memcg_write(struct mem_cgroup *memcg, bool off, unsigned long max)
{
	struct tier_memcg *old = tier_memcg_find(memcg), *new = NULL;
	int err;

	lockdep_assert_held(&tier_memcgs_mutex);

	if (!off && max == PAGE_COUNTER_MAX) {
		if (!old)
			return 0;
		xa_erase(&tier_memcgs, memcg->css.id);
	} else if (old) {
		/* What has been promoted lately is not forgotten. */
		WRITE_ONCE(old->off, off);
		WRITE_ONCE(old->max, max);
		new = old;
	} else {
		new = kzalloc(sizeof(*new), GFP_KERNEL);
		if (!new)
			return -ENOMEM;
		new->off = off;
		new->max = max;
		tier_limit_init(&new->limit, jiffies);
		err = xa_err(xa_store(&tier_memcgs, memcg->css.id, new, GFP_KERNEL));
		if (err) {
			kfree(new);
			return err;
		}
	}
	/*
	 * Who sees the new number sees the new settings.  Who does not has begun to read before
	 * the old ones are given to RCU.
	 */
	smp_store_release(&tier_memcgs_changes, tier_memcgs_changes + 1);
	/* It counts the groups with settings. */
	if (new && !old)
		static_branch_deferred_inc(&tier_memcg_key);
	if (old && !new) {
		static_branch_slow_dec_deferred(&tier_memcg_key);
		kfree_rcu(old, rcu);
	}
	return 0;
}

/* Change what is not NULL. */
static int tier_memcg_set(struct cgroup_subsys_state *css, const bool *off,
			  const unsigned long *max)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(css);
	struct tier_memcg *settings;
	int err = -ENODEV;

	mutex_lock(&tier_memcgs_mutex);
	settings = tier_memcg_find(memcg);
	/* Once it has gone offline there would be nobody to take them back. */
	if (!css_is_dying(css))
		err = tier_memcg_write(memcg, off ? *off : settings && settings->off,
				       max ? *max : settings ? settings->max : PAGE_COUNTER_MAX);
	mutex_unlock(&tier_memcgs_mutex);
	return err;
}

/**
 * __tier_memcg_offline - see tier_memcg_offline()
 * @memcg: group
 */
void __tier_memcg_offline(struct mem_cgroup *memcg)
{
	mutex_lock(&tier_memcgs_mutex);
	/* Erasing needs no memory. */
	tier_memcg_write(memcg, false, PAGE_COUNTER_MAX);
	mutex_unlock(&tier_memcgs_mutex);
}

static u64 tier_weight_read(struct cgroup_subsys_state *css, struct cftype *cft)
{
	struct tier_memcg *settings;
	bool off;

	rcu_read_lock();
	settings = tier_memcg_find(mem_cgroup_from_css(css));
	off = settings && READ_ONCE(settings->off);
	rcu_read_unlock();
	return off ? 0 : TIER_WEIGHT_DEFAULT;
}

static int tier_weight_write(struct cgroup_subsys_state *css, struct cftype *cft, u64 val)
{
	const bool off = !val;

	if (val && val != TIER_WEIGHT_DEFAULT)
		return -EINVAL;
	return tier_memcg_set(css, &off, NULL);
}

static int tier_max_show(struct seq_file *m, void *v)
{
	unsigned long max = PAGE_COUNTER_MAX;
	struct tier_memcg *settings;

	rcu_read_lock();
	settings = tier_memcg_find(mem_cgroup_from_seq(m));
	if (settings)
		max = READ_ONCE(settings->max);
	rcu_read_unlock();
	if (max == PAGE_COUNTER_MAX)
		seq_puts(m, "max\n");
	else
		seq_printf(m, "%llu\n", (u64)max * PAGE_SIZE);
	return 0;
}

static ssize_t tier_max_write(struct kernfs_open_file *of, char *buf, size_t nbytes, loff_t off)
{
	unsigned long max;
	int err;

	err = page_counter_memparse(strstrip(buf), "max", &max);
	if (err)
		return err;
	return tier_memcg_set(of_css(of), NULL, &max) ?: nbytes;
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
