// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: the switch and the limits in /sys/kernel/mm/migrc/, and the rows of /proc/vmstat.
 */

#define pr_fmt(fmt) "migrc: " fmt

#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "migrc.h"

#define MIGRC_MAX_MAX_PAGES	65536
#define MIGRC_MAX_MAX_AGE_MS	60000

DEFINE_PER_CPU(struct migrc_events, migrc_events);

/* Serialises switching on and off. */
static DEFINE_MUTEX(migrc_switch_mutex);

/* As in kmmscand: "0" or "1"; kstrtobool() would take "yes", "offer" and more. */
static int migrc_parse_switch(const char *buf, bool *on)
{
	*on = sysfs_streq(buf, "1");
	return *on || sysfs_streq(buf, "0") ? 0 : -EINVAL;
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(migrc_deferring));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool on;

	if (migrc_parse_switch(buf, &on))
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

static ssize_t migrc_store_uint(const char *buf, size_t count, unsigned int *to,
				unsigned int max)
{
	unsigned int val;

	if (kstrtouint(buf, 10, &val) || !val || val > max)
		return -EINVAL;
	WRITE_ONCE(*to, val);
	migrc_limits_changed();
	return count;
}

static ssize_t max_pages_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(migrc_max_pages));
}

static ssize_t max_pages_store(struct kobject *kobj, struct kobj_attribute *attr,
			       const char *buf, size_t count)
{
	return migrc_store_uint(buf, count, &migrc_max_pages, MIGRC_MAX_MAX_PAGES);
}

static ssize_t max_age_ms_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(migrc_max_age_ms));
}

static ssize_t max_age_ms_store(struct kobject *kobj, struct kobj_attribute *attr,
				const char *buf, size_t count)
{
	return migrc_store_uint(buf, count, &migrc_max_age_ms, MIGRC_MAX_MAX_AGE_MS);
}

static ssize_t restore_readonly_show(struct kobject *kobj, struct kobj_attribute *attr,
				     char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(migrc_restore_readonly));
}

static ssize_t restore_readonly_store(struct kobject *kobj, struct kobj_attribute *attr,
				      const char *buf, size_t count)
{
	bool on;

	if (migrc_parse_switch(buf, &on))
		return -EINVAL;
	WRITE_ONCE(migrc_restore_readonly, on);
	return count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);
static struct kobj_attribute max_pages_attr = __ATTR_RW(max_pages);
static struct kobj_attribute max_age_ms_attr = __ATTR_RW(max_age_ms);
static struct kobj_attribute restore_readonly_attr = __ATTR_RW(restore_readonly);

static struct attribute *migrc_attrs[] = {
	&enabled_attr.attr,
	&max_pages_attr.attr,
	&max_age_ms_attr.attr,
	&restore_readonly_attr.attr,
	NULL
};

static const struct attribute_group migrc_group = {
	.attrs = migrc_attrs,
};

static int __init migrc_sysfs_init(void)
{
	struct kobject *kobj = kobject_create_and_add("migrc", mm_kobj);
	int err;

	if (!kobj)
		return -ENOMEM;
	err = sysfs_create_group(kobj, &migrc_group);
	if (err) {
		pr_err("no files in sysfs (%d): cannot be switched on\n", err);
		kobject_put(kobj);
	}
	return err;
}
subsys_initcall(migrc_sysfs_init);

/* In the order of struct migrc_events */
static const char * const migrc_event_names[] = {
	"migrc_deferred ",
	"migrc_flush ",
	"migrc_drain_cap ",
	"migrc_drain_age ",
	"migrc_drain_pressure ",
	"migrc_drain_alloc ",
	"migrc_drain_oom ",
	"migrc_drain_isolate ",
	"migrc_drain_failure ",
	"migrc_drain_contig ",
	"migrc_drain_freeze ",
	"migrc_drain_off ",
	"migrc_drain_mixed ",
	"migrc_drain_along ",
	"migrc_drain_debug ",
	"migrc_force_wp ",
	"migrc_force_swap ",
	"migrc_force_gup ",
	"migrc_force_numa ",
	"migrc_force_unmap ",
	"migrc_skip_write ",
	"migrc_skip_pending ",
	"migrc_skip_large ",
	"migrc_skip_file ",
	"migrc_skip_limit ",
	"migrc_skip_collision ",
	"migrc_readonly ",
	"migrc_readonly_written ",
	"migrc_promote_later ",
	"migrc_promote_postponed ",
	"migrc_scan_spared ",
};

/**
 * migrc_vmstat_show - print the rows of MIGRC
 * @m: /proc/vmstat
 *
 * Context: any.
 */
void migrc_vmstat_show(struct seq_file *m)
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
