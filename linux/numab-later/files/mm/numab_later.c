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

#include <linux/init.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/numab_later.h>
#include <linux/percpu.h>
#include <linux/sched/sysctl.h>
#include <linux/tier_parts.h>

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

static int numab_later_start(const char **reason)
{
	static_branch_enable(&numab_later_key);
	return 0;
}

static void numab_later_stop(void)
{
	static_branch_disable(&numab_later_key);
}

static const char * const numab_later_names[] = { "tier_postpone_fault " };

static struct tier_counters numab_later_counters = {
	.names	= numab_later_names,
	.nr	= ARRAY_SIZE(numab_later_names),
	.counts	= &numab_postponed,
};

static struct tier_part numab_later_part = {
	.name	= "postpone",
	.start	= numab_later_start,
	.stop	= numab_later_stop,
};

static int __init numab_later_init(void)
{
	tier_counters_add(&numab_later_counters);
	return tier_part_add(&numab_later_part);
}
late_initcall(numab_later_init);
