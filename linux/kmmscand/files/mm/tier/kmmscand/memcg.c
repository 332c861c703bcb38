// SPDX-License-Identifier: GPL-2.0
/*
 * What memory control groups (v2) say about promotion, and the file for it.
 *
 *   memory.tier.max	nothing of the group is promoted that would make its pages on top-tier
 *			nodes more than that: bytes, or "max", which is the default.  With 0 the
 *			group has opted out: its processes are not scanned, either.
 *
 * It holds for all groups below as well.  Nobody is demoted for a limit, and allocations
 * do not know it: it only keeps promotion from taking more.
 *
 * Settings that are not the default are kept in an array by id of the css, so struct
 * mem_cgroup does not grow, and while there are none, a static key is off and nobody asks.
 * They go when the group goes offline, or loses its file because the controller is disabled:
 * nobody could take them back any more.  Pages that are still charged to it count for the
 * groups above.  An id is not used again before the group has been freed.
 *
 * What a page costs grows with the depth of its group.  So while there are settings, groups
 * deeper than TIER_MEMCG_LEVELS are treated like those with a limit of 0.
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
 * write to the file shall not have the kernel patched all the time.
 */
DEFINE_STATIC_KEY_DEFERRED_FALSE(tier_memcg_key, HZ);

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
		if (settings && !READ_ONCE(settings->max) && !kmmscand_fault(MAX))
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

/* Change the limit of a group; the default needs no entry. */
static int tier_memcg_write(struct mem_cgroup *memcg, unsigned long max)
{
	struct tier_memcg *old = tier_memcg_find(memcg), *new = NULL;
	int err;

	lockdep_assert_held(&tier_memcgs_mutex);

	if (max == PAGE_COUNTER_MAX) {
		if (!old)
			return 0;
		xa_erase(&tier_memcgs, memcg->css.id);
	} else if (old) {
		/* What has been promoted lately is not forgotten. */
		WRITE_ONCE(old->max, max);
		new = old;
	} else {
		new = kzalloc(sizeof(*new), GFP_KERNEL);
		if (!new)
			return -ENOMEM;
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

/**
 * __tier_memcg_offline - see tier_memcg_offline()
 * @memcg: group
 */
void __tier_memcg_offline(struct mem_cgroup *memcg)
{
	mutex_lock(&tier_memcgs_mutex);
	/* Erasing needs no memory. */
	tier_memcg_write(memcg, PAGE_COUNTER_MAX);
	mutex_unlock(&tier_memcgs_mutex);
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
	struct cgroup_subsys_state *css = of_css(of);
	unsigned long max;
	int err;

	err = page_counter_memparse(strstrip(buf), "max", &max);
	if (err)
		return err;
	mutex_lock(&tier_memcgs_mutex);
	/* Once it has gone offline there would be nobody to take it back. */
	err = css_is_dying(css) ? -ENODEV : tier_memcg_write(mem_cgroup_from_css(css), max);
	mutex_unlock(&tier_memcgs_mutex);
	return err ?: nbytes;
}

static struct cftype tier_memcg_files[] = {
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
