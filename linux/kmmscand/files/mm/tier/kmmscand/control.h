/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Control of kmmscand by workload: by process (prctl.c) and by memory control group
 * (memcg.c, limit.c).
 */
#ifndef _MM_TIER_KMMSCAND_CONTROL_H
#define _MM_TIER_KMMSCAND_CONTROL_H

#include <linux/jump_label.h>
#include <linux/nodemask.h>
#include <linux/rcupdate.h>
#include <linux/tier_control.h>
#include <linux/types.h>

#include "limit.h"

unsigned int tier_mm_scale(const struct mm_struct *mm);

#ifdef CONFIG_MEMCG

/* Groups with settings that are not the default, see memcg.c */
struct tier_memcg {
	struct rcu_head rcu;
	unsigned long max;		/* base pages, or 0: nothing of it is even scanned */
	struct tier_limit limit;
};

/* Levels below the root that are asked */
#define TIER_MEMCG_LEVELS	64

struct tier_memcg *tier_memcg_find(struct mem_cgroup *memcg);
bool tier_memcg_off(struct mem_cgroup *memcg);
unsigned int tier_memcg_changes(void);
bool __tier_mm_off(struct mm_struct *mm);

/**
 * struct kpromoted_limits - what a promoter knows of the group of the last page
 * @top:     nodes that are promoted to
 * @serial:  number of the group, which no other has; 0 at first
 * @changes: tier_memcg_changes() then
 * @off:     nothing of the group is promoted
 * @nr:      groups with a limit, from this one up
 * @group:   these, and their settings; good while the numbers are the same
 */
struct kpromoted_limits {
	const nodemask_t *top;
	u64 serial;
	unsigned int changes;
	bool off;
	unsigned int nr;
	struct {
		struct mem_cgroup *memcg;
		struct tier_memcg *settings;
	} group[TIER_MEMCG_LEVELS];
};

struct kpromoted_limits *__kpromoted_limits_begin(struct kpromoted_limits *limits,
						  const nodemask_t *top);
bool kpromoted_limits_take(struct kpromoted_limits *limits, unsigned long pfn, unsigned long nr,
			   bool take);

/**
 * kpromoted_limits_begin - begin a batch
 * @limits: of the promoter
 * @top:    nodes that are promoted to; must stay
 *
 * Return: whom to ask for each page, or NULL while no group has settings.
 */
static inline struct kpromoted_limits *kpromoted_limits_begin(struct kpromoted_limits *limits,
							      const nodemask_t *top)
{
	if (!static_branch_unlikely(&tier_memcg_key.key))
		return NULL;
	return __kpromoted_limits_begin(limits, top);
}

static inline bool tier_mm_off(struct mm_struct *mm)
{
	return static_branch_unlikely(&tier_memcg_key.key) && __tier_mm_off(mm);
}

#else /* !CONFIG_MEMCG */

struct kpromoted_limits {
};

static inline struct kpromoted_limits *kpromoted_limits_begin(struct kpromoted_limits *limits,
							      const nodemask_t *top)
{
	return NULL;
}

static inline bool kpromoted_limits_take(struct kpromoted_limits *limits, unsigned long pfn,
					 unsigned long nr, bool take)
{
	return true;
}

static inline bool tier_mm_off(struct mm_struct *mm)
{
	return false;
}

#endif /* CONFIG_MEMCG */

/**
 * kmmscand_wants - may an address space be scanned?
 * @mm: address space; mm_count is enough
 *
 * Return: false if the process or its group has opted out.
 */
static inline bool kmmscand_wants(struct mm_struct *mm)
{
	return tier_mm_scale(mm) && !tier_mm_off(mm);
}

#endif /* _MM_TIER_KMMSCAND_CONTROL_H */
