// SPDX-License-Identifier: GPL-2.0
/*
 * Rows of /proc/vmstat for memory tiering, behind the rows of the base kernel.
 *
 * A part registers its rows once, while the kernel boots.  Each row is a per-CPU counter that only
 * grows.  The counters are no vm_event_items: nearly every file of the kernel includes the header
 * of these, and modules see the enum.
 */

#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/rculist.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/tier_parts.h>

/* Entries stay for ever, so readers need no lock. */
static LIST_HEAD(tier_counters_list);
static DEFINE_SPINLOCK(tier_counters_lock);

/**
 * tier_counters_add - show rows in /proc/vmstat
 * @counters: stays for ever
 *
 * Context: init calls.
 */
void tier_counters_add(struct tier_counters *counters)
{
	spin_lock(&tier_counters_lock);
	list_add_tail_rcu(&counters->list, &tier_counters_list);
	spin_unlock(&tier_counters_lock);
}

static unsigned long tier_counter_sum(const struct tier_counters *counters, unsigned int row)
{
	unsigned long sum = 0;
	int cpu;

	if (counters->gauge && row == counters->nr - 1)
		return counters->gauge();
	/* A CPU that has gone offline keeps its share. */
	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(counters->counts, cpu)[row]);
	return sum;
}

/**
 * tier_counters_show - print all rows of memory tiering
 * @m: /proc/vmstat
 *
 * A sum is a snapshot: other CPUs go on counting.
 *
 * Context: any; rows times possible CPUs reads.
 */
void tier_counters_show(struct seq_file *m)
{
	struct tier_counters *counters;
	unsigned int row;

	rcu_read_lock();
	list_for_each_entry_rcu(counters, &tier_counters_list, list) {
		for (row = 0; row < counters->nr; row++) {
			seq_put_decimal_ull(m, counters->names[row],
					    tier_counter_sum(counters, row));
			seq_putc(m, '\n');
		}
	}
	rcu_read_unlock();
}
