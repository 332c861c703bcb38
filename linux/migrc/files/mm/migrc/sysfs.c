// SPDX-License-Identifier: GPL-2.0
/* MIGRC: the switch in /sys/kernel/mm/migrc/, and the rows of /proc/vmstat. */

#define pr_fmt(fmt) "migrc: " fmt

#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "migrc.h"

DEFINE_PER_CPU(struct migrc_events, migrc_events);

/* Serialises switching on and off. */
static DEFINE_MUTEX(migrc_switch_mutex);

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(migrc_deferring));
}

/* "0" or "1": kstrtobool() would take "yes", "offer" and more. */
static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool on = sysfs_streq(buf, "1");

	if (!on && !sysfs_streq(buf, "0"))
		return -EINVAL;
	if (mutex_lock_interruptible(&migrc_switch_mutex))
		return -ERESTARTSYS;
	if (on && !migrc_deferring)
		migrc_start();
	else if (!on && migrc_deferring)
		migrc_stop();
	mutex_unlock(&migrc_switch_mutex);
	return count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

static int __init migrc_sysfs_init(void)
{
	struct kobject *kobj = kobject_create_and_add("migrc", mm_kobj);
	int err;

	if (!kobj)
		return -ENOMEM;
	err = sysfs_create_file(kobj, &enabled_attr.attr);
	if (err) {
		pr_err("no file in sysfs (%d): cannot be switched on\n", err);
		kobject_put(kobj);
	}
	return err;
}
subsys_initcall(migrc_sysfs_init);

/* In the order of struct migrc_events */
static const char * const migrc_event_names[] = {
	"migrc_deferred ",
	"migrc_flush ",
	"migrc_forced ",
	"migrc_merged ",
	"migrc_backoff ",
};

/**
 * __migrc_vmstat_show - print the rows of MIGRC
 * @m: /proc/vmstat
 *
 * Context: any.
 */
void __migrc_vmstat_show(struct seq_file *m)
{
	int item, cpu;

	BUILD_BUG_ON(sizeof(struct migrc_events) !=
		     ARRAY_SIZE(migrc_event_names) * sizeof(unsigned long));

	seq_put_decimal_ull(m, "migrc_pending ", migrc_nr_pending());
	seq_putc(m, '\n');
	for (item = 0; item < ARRAY_SIZE(migrc_event_names); item++) {
		unsigned long sum = 0;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(((unsigned long *)per_cpu_ptr(&migrc_events, cpu))[item]);
		seq_put_decimal_ull(m, migrc_event_names[item], sum);
		seq_putc(m, '\n');
	}
}
