// SPDX-License-Identifier: GPL-2.0
/*
 * Promotions of NUMA balancing that would flush in a hint fault.
 *
 * NUMA balancing's scanner takes access away from a range of pages, and flushes at its end.  A
 * thread that touches such a page in between has a hint fault, while TLBs still have the page.  To
 * promote the page in this fault takes a TLB flush for one page.  The more threads a process has,
 * the more pages are met like this, and the hottest pages first.
 *
 * With this switched on, such a fault maps the page again.  The next scan takes access away again,
 * and a fault after the flush of that scan promotes the page without a flush.  The hint that a
 * flush is pending is mm->tlb_flush_pending, which munmap(), mprotect() and others raise, too: a
 * process that has a flush pending for the share s of its time loses this share of its promotions
 * in each scan.
 *
 * No rule of safety depends on this file.  Cost: a page is read from slow memory for about one scan
 * period longer.  Off: a static branch in do_numa_page().
 */

#include <linux/kobject.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/numab_later.h>
#include <linux/percpu.h>
#include <linux/sched/sysctl.h>
#include <linux/sysfs.h>

DEFINE_STATIC_KEY_FALSE(numab_later_key);

static DEFINE_PER_CPU(unsigned long, numab_postponed);

/**
 * __numab_later - see numab_later()
 * @mm:		address space of a hint fault
 * @folio:	that the fault is about to migrate
 *
 * Context: under the page-table lock.
 * Return: whether the fault is to map the folio again instead.
 */
bool __numab_later(struct mm_struct *mm, struct folio *folio)
{
	/* If no flush is pending, no TLB has the page: to promote it costs no flush. */
	if (!mm_tlb_flush_pending(mm) ||
	    !(sysctl_numa_balancing_mode & NUMA_BALANCING_MEMORY_TIERING) ||
	    node_is_toptier(folio_nid(folio)))
		return false;
	this_cpu_inc(numab_postponed);
	return true;
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", static_key_enabled(&numab_later_key));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			     size_t count)
{
	if (sysfs_streq(buf, "1"))
		static_branch_enable(&numab_later_key);
	else if (sysfs_streq(buf, "0"))
		static_branch_disable(&numab_later_key);
	else
		return -EINVAL;
	return count;
}

static ssize_t postponed_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(numab_postponed, cpu));
	return sysfs_emit(buf, "%lu\n", sum);
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);
static struct kobj_attribute postponed_attr = __ATTR_RO(postponed);

static struct attribute *numab_later_attrs[] = {
	&enabled_attr.attr,
	&postponed_attr.attr,
	NULL
};

static const struct attribute_group numab_later_group = {
	.attrs = numab_later_attrs,
};

static int __init numab_later_init(void)
{
	struct kobject *kobj = kobject_create_and_add("numab_later", mm_kobj);
	int err;

	if (!kobj)
		return -ENOMEM;
	err = sysfs_create_group(kobj, &numab_later_group);
	if (err)
		kobject_put(kobj);
	return err;
}
subsys_initcall(numab_later_init);
