// SPDX-License-Identifier: GPL-2.0
/*
 * Files of kmmscand in /sys/kernel/mm/kmmscand/.
 *
 * Bad values are refused and change nothing.  A new value counts from the next visit or period on.
 */

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "cache.h"
#include "kmmscand.h"
#include "main.h"

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", kmmscand_enabled());
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool enable = sysfs_streq(buf, "1");

	/* kstrtobool() would take "yes", "offer" and more. */
	if (!enable && !sysfs_streq(buf, "0"))
		return -EINVAL;
	return kmmscand_enable(enable) ?: count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

/* The file of a tunable, and what it may be */
struct kmmscand_attr {
	struct kobj_attribute attr;
	unsigned int *value;
	unsigned int min;
	unsigned int max;
};

static ssize_t kmmscand_attr_show(struct kobject *kobj, struct kobj_attribute *kattr,
				  char *buf)
{
	struct kmmscand_attr *attr = container_of(kattr, struct kmmscand_attr, attr);

	return sysfs_emit(buf, "%u\n", READ_ONCE(*attr->value));
}

static ssize_t kmmscand_attr_store(struct kobject *kobj, struct kobj_attribute *kattr,
				   const char *buf, size_t count)
{
	struct kmmscand_attr *attr = container_of(kattr, struct kmmscand_attr, attr);
	unsigned int val;

	if (kstrtouint(buf, 10, &val) || val < attr->min || val > attr->max)
		return -EINVAL;
	WRITE_ONCE(*attr->value, val);
	return count;
}

static struct kmmscand_attr scan_period_ms_attr = {
	__ATTR(scan_period_ms, 0644, kmmscand_attr_show, kmmscand_attr_store),
	&kmmscand_tunables.scan_period_ms, 100, 60000
};

static struct kmmscand_attr scan_cpu_permille_attr = {
	__ATTR(scan_cpu_permille, 0644, kmmscand_attr_show, kmmscand_attr_store),
	&kmmscand_tunables.scan_cpu_permille, 1, 1000
};

static struct kmmscand_attr promote_rate_mbps_attr = {
	__ATTR(promote_rate_mbps, 0644, kmmscand_attr_show, kmmscand_attr_store),
	&kmmscand_tunables.promote_rate_mbps, 0, 65536
};

static struct kmmscand_attr promote_cpu_permille_attr = {
	__ATTR(promote_cpu_permille, 0644, kmmscand_attr_show, kmmscand_attr_store),
	&kmmscand_tunables.promote_cpu_permille, 1, 1000
};

static struct attribute *kmmscand_attrs[] = {
	&enabled_attr.attr,
	&scan_period_ms_attr.attr.attr,
	&scan_cpu_permille_attr.attr.attr,
	&promote_rate_mbps_attr.attr.attr,
	&promote_cpu_permille_attr.attr.attr,
	&kmmscand_cache_attr.attr,
	NULL
};

static const struct attribute_group kmmscand_attr_group = {
	.name	= "kmmscand",
	.attrs	= kmmscand_attrs,
};

/* After kmmscand_init(), which the Makefile names first */
static int __init kmmscand_sysfs_init(void)
{
	return sysfs_create_group(mm_kobj, &kmmscand_attr_group);
}
late_initcall(kmmscand_sysfs_init);
