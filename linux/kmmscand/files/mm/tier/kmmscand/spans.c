// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/tier/spans: where workers have looked last, and what they have found.
 *
 * A line for each address space that was visited, in no order, after a line with the names of the
 * columns.  Addresses tell an attacker where memory is mapped, so only root may read the file.
 *
 * Cost: nothing before the file is read; then spaces_lock for each of 1,024 buckets.
 */

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/seq_file.h>
#include <linux/tier_parts.h>

#include "space.h"

static void spans_print(struct mm_struct *mm, const struct span *span, void *data)
{
	u64 cgroup;
	pid_t pid;

	space_owner(mm, &pid, &cgroup);
	seq_printf(data, "%d %llu %lx %lx %u %u %u %u %u %u ", pid, cgroup, span->begin, span->end,
		   span->window_us, span->first, span->last, span->pushed,
		   jiffies_to_msecs(jiffies - span->at), span->turn);
	if (span->turn_at)
		seq_printf(data, "%u %u\n", span->turn_pushed,
			   jiffies_to_msecs(jiffies - span->turn_at));
	else
		seq_puts(data, "- -\n");
}

/* The number of a bucket, and before these the names */
static void *spans_start(struct seq_file *m, loff_t *pos)
{
	if (!*pos)
		return SEQ_START_TOKEN;
	return *pos <= SPACES_BUCKETS ? pos : NULL;
}

static void *spans_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return spans_start(m, pos);
}

static void spans_stop(struct seq_file *m, void *v)
{
}

static int spans_show(struct seq_file *m, void *v)
{
	if (v == SEQ_START_TOKEN) {
		seq_puts(m, "pid cgroup begin end window_us first last pushed age_ms turn ");
		seq_puts(m, "turn_pushed turn_age_ms\n");
	} else {
		spaces_each_span(*(loff_t *)v - 1, spans_print, m);
	}
	return 0;
}

static const struct seq_operations spans_sops = {
	.start = spans_start,
	.next = spans_next,
	.stop = spans_stop,
	.show = spans_show,
};
DEFINE_SEQ_ATTRIBUTE(spans);

static int __init spans_init(void)
{
	debugfs_create_file("spans", 0400, tier_debug_dir(NULL), NULL, &spans_fops);
	return 0;
}
late_initcall(spans_init);
