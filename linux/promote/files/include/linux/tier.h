/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory tiers: promotion of physical ranges from a slow to a fast node.
 *
 * The only in-kernel interface of mm/tier/.  Sources of hotness (a page-table
 * scanner, a device, ...) decide what is hot and hand physical ranges to
 * tier_promote(); they never migrate anything themselves.
 */
#ifndef _LINUX_TIER_H
#define _LINUX_TIER_H

#include <linux/jump_label.h>
#include <linux/migrate_mode.h>
#include <linux/mm_types.h>
#include <linux/types.h>

struct folio;
struct mem_cgroup;
struct mm_struct;
struct page;

/**
 * struct tier_range - page frames that should move to a faster node
 * @pfn: first page frame; must be the head of its folio to be considered
 * @nr:  number of page frames
 * @nid: top-tier node to move them to
 *
 * A range names frames, not folios: it carries no reference, and what it names
 * may have been freed or reused since it was recorded.  tier_promote() looks
 * again.
 */
struct tier_range {
	unsigned long pfn;
	unsigned int nr;
	int nid;
};

/**
 * struct tier_promote_stats - what became of the frames, in base pages
 * @moved:     promoted
 * @skipped:   nothing there that may be promoted (freed, reused, pinned, ...)
 * @isolate:   somebody else had taken the folio off the LRU
 * @busy:      migration gave up (locked, unexpected references)
 * @refused:   a memory policy or cpuset does not allow the node
 * @nomem:     no free memory of that order on the target node
 * @watermark: the target node is too full; the folio was not tried
 */
struct tier_promote_stats {
	unsigned long moved;
	unsigned long skipped;
	unsigned long isolate;
	unsigned long busy;
	unsigned long refused;
	unsigned long nomem;
	unsigned long watermark;
};

/* For what the TLBs of other CPUs are flushed, as rows tier_flush_* of /proc/vmstat */
enum tier_flush {
	TIER_FLUSH_SCAN,	/* Accessed bits were cleared */
	TIER_FLUSH_PROMOTION,	/* by the promoter, or by NUMA balancing */
	TIER_FLUSH_DEMOTION,
	TIER_FLUSH_SWAPOUT,	/* reclaim writes dirty pages */
	TIER_FLUSH_FREE,	/* reclaim ends a list, or frees clean pages */
	TIER_FLUSH_DEFERRAL,	/* what migration has deferred is due */
	NR_TIER_FLUSHES
};

/* Memory control groups are told apart by so many numbers; see tier_group(). */
#define TIER_GROUPS	64

DECLARE_STATIC_KEY_FALSE(tier_promote_key);

unsigned int tier_promote(struct tier_range *ranges, unsigned int nr_ranges,
			  struct tier_promote_stats *stats);
bool tier_target_valid(int nid);
bool tier_target_has_room(int nid, unsigned long nr);
unsigned long tier_target_headroom(int nid);
void tier_mover_get(void);
void tier_mover_put(void);
int tier_promoter_get(void);
void tier_promoter_put(void);
unsigned int tier_group(const struct page *page);
unsigned int tier_mm_group(struct mm_struct *mm);
void tier_demoted_age(int nid);
void tier_promoted_pages(int nid, unsigned long *promoted, unsigned long *again);
void __tier_folio_demoted(struct folio *dst);
unsigned long tier_age(int nid);
unsigned long tier_demote(int nid, unsigned long nr, unsigned long since);

/**
 * tier_folio_demoted - reclaim or DAMON moves a folio to another node
 * @dst: what has been allocated for the folio there, or NULL
 *
 * A nop while no promoter is active.
 */
static inline void tier_folio_demoted(struct folio *dst)
{
	if (IS_ENABLED(CONFIG_TIER_PROMOTE) && static_branch_unlikely(&tier_promote_key) && dst)
		__tier_folio_demoted(dst);
}

#ifdef CONFIG_MEMORY_HOTPLUG
bool try_get_online_mems(void);
#else
static inline bool try_get_online_mems(void)
{
	return true;
}
#endif

#ifdef CONFIG_TIER_PROMOTE
bool tier_keeps(void);
bool tier_spares(struct mem_cgroup *memcg);
void tier_count_demoted(unsigned long nr);
void tier_count_cpus_flush(enum tier_flush cause, const struct cpumask *cpus);
void tier_count_batch_flush(enum tier_flush cause);
void tier_count_migrate_flush(enum migrate_reason reason);
#else
static inline void tier_count_cpus_flush(enum tier_flush cause, const struct cpumask *cpus)
{
}

static inline void tier_count_batch_flush(enum tier_flush cause)
{
}

static inline void tier_count_migrate_flush(enum migrate_reason reason)
{
}
#endif

/* As tier_count_cpus_flush(), of all of an address space */
static inline void tier_count_flush(enum tier_flush cause, struct mm_struct *mm)
{
	tier_count_cpus_flush(cause, mm_cpumask(mm));
}

#endif /* _LINUX_TIER_H */
