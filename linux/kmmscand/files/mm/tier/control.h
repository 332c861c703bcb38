/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Control of kmmscand by workload: by process (prctl.c) and by memory control group
 * (memcg.c, share.c).
 */
#ifndef _MM_TIER_CONTROL_H
#define _MM_TIER_CONTROL_H

#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/nodemask.h>
#include <linux/tier_control.h>
#include <linux/xarray.h>

#include "hotness.h"

struct kpromoted_share;

unsigned int tier_mm_scale(const struct mm_struct *mm);

#ifdef CONFIG_MEMCG

#define TIER_WEIGHT_DEFAULT	100
#define TIER_WEIGHT_MAX		10000

unsigned int tier_memcg_weight(struct mem_cgroup *memcg);
unsigned long tier_memcg_max(struct mem_cgroup *memcg);
bool tier_memcg_shares(void);
unsigned long tier_memcg_pages(struct mem_cgroup *memcg, const nodemask_t *nodes);
bool __tier_mm_off(struct mm_struct *mm);

/**
 * struct kpromoted_shares - the groups whose pages a promoter has met
 * @filter:  for the hotness table
 * @index:   struct kpromoted_share by id of the css
 * @list:    all of them, parents before their children
 * @last:    the one that was found last
 * @top:     nodes that are promoted to
 * @least:   least score that may be promoted
 * @round:   base pages that are granted at a time in this epoch; 0 until the first time
 * @batch:   number of the batch, to measure the groups' memory once for each
 * @begun:   an epoch has begun in which groups are asked
 * @sharing: what can be afforded is shared by weight
 * @nomem:   there was no memory for another group in this epoch
 */
struct kpromoted_shares {
	struct hotness_filter filter;
	struct xarray index;
	struct list_head list;
	struct kpromoted_share *last;
	const nodemask_t *top;
	unsigned int least;
	unsigned long round;
	unsigned int batch;
	bool begun;
	bool sharing;
	bool nomem;
};

void kpromoted_shares_init(struct kpromoted_shares *shares, const nodemask_t *top);
struct hotness_filter *__kpromoted_shares_begin(struct kpromoted_shares *shares);
void kpromoted_shares_counted(struct kpromoted_shares *shares,
			      struct hotness_histogram *histogram);
unsigned long kpromoted_shares_grant(struct kpromoted_shares *shares, unsigned int least,
				     unsigned long left);
void kpromoted_shares_batch(struct kpromoted_shares *shares);
void kpromoted_shares_walked(struct kpromoted_shares *shares);
void kpromoted_shares_end(struct kpromoted_shares *shares);

/**
 * kpromoted_shares_begin - begin an epoch
 * @shares: of the promoter
 *
 * Return: whom to ask for each page, or NULL while no group has settings.
 */
static inline struct hotness_filter *kpromoted_shares_begin(struct kpromoted_shares *shares)
{
	if (!static_branch_unlikely(&tier_memcg_key.key))
		return NULL;
	return __kpromoted_shares_begin(shares);
}

static inline bool kpromoted_shares_by_weight(const struct kpromoted_shares *shares)
{
	return shares->sharing;
}

static inline bool tier_mm_off(struct mm_struct *mm)
{
	return static_branch_unlikely(&tier_memcg_key.key) && __tier_mm_off(mm);
}

#else /* !CONFIG_MEMCG */

struct kpromoted_shares {
};

static inline void kpromoted_shares_init(struct kpromoted_shares *shares, const nodemask_t *top)
{
}

static inline struct hotness_filter *kpromoted_shares_begin(struct kpromoted_shares *shares)
{
	return NULL;
}

static inline void kpromoted_shares_counted(struct kpromoted_shares *shares,
					    struct hotness_histogram *histogram)
{
}

static inline bool kpromoted_shares_by_weight(const struct kpromoted_shares *shares)
{
	return false;
}

static inline unsigned long kpromoted_shares_grant(struct kpromoted_shares *shares,
						   unsigned int least, unsigned long left)
{
	return 0;
}

static inline void kpromoted_shares_batch(struct kpromoted_shares *shares)
{
}

static inline void kpromoted_shares_walked(struct kpromoted_shares *shares)
{
}

static inline void kpromoted_shares_end(struct kpromoted_shares *shares)
{
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

#endif /* _MM_TIER_CONTROL_H */
