/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who may be scanned and promoted by kmmscand: what fork, prctl(), /proc and memory
 * control groups need of it.  See mm/tier/kmmscand/prctl.c and mm/tier/kmmscand/memcg.c.
 */
#ifndef _LINUX_TIER_CONTROL_H
#define _LINUX_TIER_CONTROL_H

#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/mm_types.h>
#include <linux/sched/coredump.h>

struct mem_cgroup;
struct seq_file;

#ifdef CONFIG_KMMSCAND

/*
 * Bits of mm->flags that hold what PR_SET_TIER_SCAN has set, in a form in which zero is the
 * default (prctl.c).  They are above all that sched/coredump.h gives away; kmmscand depends
 * on 64-bit machines.  They are named here and not there because nearly every file of the
 * kernel includes that header.
 */
#define MMF_TIER_SCAN		32
#define MMF_TIER_SCAN_BITS	4
#define MMF_TIER_SCAN_MASK	(((1UL << MMF_TIER_SCAN_BITS) - 1) << MMF_TIER_SCAN)

static_assert(MMF_TIER_SCAN > MMF_TOPDOWN);
static_assert(MMF_TIER_SCAN + MMF_TIER_SCAN_BITS <= BITS_PER_LONG);

void tier_mm_inherit(struct mm_struct *mm, const struct mm_struct *from);
int tier_prctl(int option, unsigned long arg2, unsigned long arg3, unsigned long arg4,
	       unsigned long arg5);
void tier_task_status(struct seq_file *m, const struct mm_struct *mm);

#else

static inline void tier_mm_inherit(struct mm_struct *mm, const struct mm_struct *from)
{
}

static inline int tier_prctl(int option, unsigned long arg2, unsigned long arg3,
			     unsigned long arg4, unsigned long arg5)
{
	return -EINVAL;
}

static inline void tier_task_status(struct seq_file *m, const struct mm_struct *mm)
{
}

#endif /* CONFIG_KMMSCAND */

#if defined(CONFIG_KMMSCAND) && defined(CONFIG_MEMCG)

extern struct static_key_false_deferred tier_memcg_key;

void __tier_memcg_offline(struct mem_cgroup *memcg);

/**
 * tier_memcg_offline - a memory control group goes offline, or loses its files
 * @memcg: whose files nobody can write to any more
 *
 * Its settings go.  A nop while no group has any.
 *
 * Context: may sleep.
 */
static inline void tier_memcg_offline(struct mem_cgroup *memcg)
{
	if (static_branch_unlikely(&tier_memcg_key.key))
		__tier_memcg_offline(memcg);
}

#else

static inline void tier_memcg_offline(struct mem_cgroup *memcg)
{
}

#endif /* CONFIG_KMMSCAND && CONFIG_MEMCG */

#endif /* _LINUX_TIER_CONTROL_H */
