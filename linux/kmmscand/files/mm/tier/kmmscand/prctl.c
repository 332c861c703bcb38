// SPDX-License-Identifier: GPL-2.0
/*
 * How often the address space of a process is scanned: the process says it itself.
 *
 * prctl(PR_SET_TIER_SCAN, n, 0, 0, 0) with n = 0: never, so that nothing of it is found hot; n = 1:
 * as always; n = 2 to 10: n times as long from one visit to the next.  It is an attribute of the
 * address space, so of all threads.  A child inherits it, and exec keeps it, so that a wrapper can
 * set it for a program that knows nothing of it.  Everybody may do it to himself: it costs others
 * nothing, and what it changes can be seen in /proc/PID/status.
 *
 * It is kept in four bits of mm->flags, so mm_struct does not grow.  Other bits of that
 * word change at any time, so it is replaced by cmpxchg.
 */

#include <linux/bitops.h>
#include <linux/mm_types.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/tier_control.h>

#include "control.h"
#include "fault.h"

static_assert(PR_TIER_SCAN_MAX < 1 << MMF_TIER_SCAN_BITS);

/* A new address space has all bits zero, which must mean the default. */
static unsigned int tier_mm_get(const struct mm_struct *mm)
{
	unsigned long bits = READ_ONCE(mm->flags) & MMF_TIER_SCAN_MASK;

	return (bits >> MMF_TIER_SCAN) ^ PR_TIER_SCAN_DEFAULT;
}

static void tier_mm_set(struct mm_struct *mm, unsigned int val)
{
	unsigned long bits = (unsigned long)(val ^ PR_TIER_SCAN_DEFAULT) << MMF_TIER_SCAN;

	set_mask_bits(&mm->flags, MMF_TIER_SCAN_MASK, bits);
}

/**
 * tier_mm_scale - how many times as long as usual is it from one scan to the next?
 * @mm: address space; mm_count is enough
 *
 * Context: any.
 * Return: 1 to 10, or 0 if it must not be scanned.
 */
unsigned int tier_mm_scale(const struct mm_struct *mm)
{
	return kmmscand_fault(OPT_OUT) ? PR_TIER_SCAN_DEFAULT : tier_mm_get(mm);
}

/**
 * tier_mm_inherit - a new address space is scanned as often as the one it comes from
 * @mm:   new, and nobody else's yet
 * @from: of the process that forks or calls exec
 *
 * The mask of what is inherited, MMF_INIT_MASK, need not contain our bits.
 *
 * Context: any.
 */
void tier_mm_inherit(struct mm_struct *mm, const struct mm_struct *from)
{
	mm->flags &= ~MMF_TIER_SCAN_MASK;
	if (!kmmscand_fault(INHERIT))
		mm->flags |= READ_ONCE(from->flags) & MMF_TIER_SCAN_MASK;
}

/**
 * tier_prctl - PR_SET_TIER_SCAN and PR_GET_TIER_SCAN
 * @option: one of the two
 * @arg2:   to be set: 0 to 10; else 0
 * @arg3:   0
 * @arg4:   0
 * @arg5:   0
 *
 * A visit that goes on just now may read one more slice (walk.c); candidates that have been found
 * before can be promoted for two seconds.
 *
 * Context: a user process.
 * Return: 0, or what is set, or -EINVAL and nothing has changed.
 */
int tier_prctl(int option, unsigned long arg2, unsigned long arg3, unsigned long arg4,
	       unsigned long arg5)
{
	if (arg3 || arg4 || arg5)
		return -EINVAL;
	if (option == PR_GET_TIER_SCAN)
		return arg2 ? -EINVAL : tier_mm_get(current->mm);
	if (arg2 > PR_TIER_SCAN_MAX)
		return -EINVAL;
	tier_mm_set(current->mm, arg2);
	return 0;
}

/**
 * tier_task_status - line of /proc/PID/status
 * @m:  the file
 * @mm: of the process
 *
 * Context: any.
 */
void tier_task_status(struct seq_file *m, const struct mm_struct *mm)
{
	seq_printf(m, "TierScan:\t%u\n", tier_mm_get(mm));
}
