// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: checks at run time, and switches that break its rules.
 *
 * A test of something that must never happen proves little until it has been seen to fail.
 * So most steps that keep MIGRC safe have a switch in /sys/kernel/debug/migrc/ that leaves
 * them out, and a test that must fail while it is set; Documentation/mm/migrc.rst tells which
 * have none, and why.  Unlike the switches of mm/tier these do damage: other processes' data
 * may be read or lost.  Never set one on a machine that matters.
 *
 * The checks: the contents of a source are the same as those of its destination after they
 * were copied, when it is queued, and when it is released; then it is overwritten, so that
 * whoever still reads it by a stale TLB entry gets rubbish.  A source that has a memory error
 * is read once more by that, before it is marked.  What generation.c checks is told there.
 */

#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/highmem.h>
#include <linux/jhash.h>
#include <linux/mm.h>
#include <linux/ratelimit.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <asm/tlbflush.h>

#include "debug.h"
#include "migrc.h"

#define MIGRC_POISON	0x6d

bool migrc_faults[NR_MIGRC_FAULTS];

static bool migrc_check = true;
static u32 migrc_scan_delay_ms;
static bool migrc_syscalls;
static bool migrc_single;

static const char * const migrc_fault_names[NR_MIGRC_FAULTS] = {
	[MIGRC_FAULT_WP]		= "fault_wp",
	[MIGRC_FAULT_SWAP]		= "fault_swap",
	[MIGRC_FAULT_GUP]		= "fault_gup",
	[MIGRC_FAULT_NUMA]		= "fault_numa",
	[MIGRC_FAULT_UNMAP]		= "fault_unmap",
	[MIGRC_FAULT_WRITE]		= "fault_write",
	[MIGRC_FAULT_PENDING]		= "fault_pending",
	[MIGRC_FAULT_FORK]		= "fault_fork",
	[MIGRC_FAULT_MIXED]		= "fault_mixed",
	[MIGRC_FAULT_RELEASE]		= "fault_release",
	[MIGRC_FAULT_EARLY]		= "fault_early",
	[MIGRC_FAULT_LATE]		= "fault_late",
	[MIGRC_FAULT_UNMASKED]		= "fault_unmasked",
	[MIGRC_FAULT_ISOLATE]		= "fault_isolate",
	[MIGRC_FAULT_FAILURE]		= "fault_failure",
	[MIGRC_FAULT_CONTIG]		= "fault_contig",
	[MIGRC_FAULT_REASON]		= "fault_reason",
	[MIGRC_FAULT_OFF]		= "fault_off",
	[MIGRC_FAULT_CAP]		= "fault_cap",
	[MIGRC_FAULT_AGE]		= "fault_age",
	[MIGRC_FAULT_PRESSURE]		= "fault_pressure",
	[MIGRC_FAULT_ALLOC]		= "fault_alloc",
	[MIGRC_FAULT_OOM]		= "fault_oom",
	[MIGRC_FAULT_SPILL]		= "fault_spill",
	[MIGRC_FAULT_FREEZE]		= "fault_freeze",
	[MIGRC_FAULT_FILE]		= "fault_file",
	[MIGRC_FAULT_AT_ONCE]		= "fault_at_once",
	[MIGRC_FAULT_FORGET]		= "fault_forget",
	[MIGRC_FAULT_TOUCH]		= "fault_touch",
	[MIGRC_FAULT_OTHERS]		= "fault_others",
	[MIGRC_FAULT_ALONG]		= "fault_along",
	[MIGRC_FAULT_POSTPONE]		= "fault_postpone",
	[MIGRC_FAULT_DIRECT]		= "fault_direct",
	[MIGRC_FAULT_LARGE]		= "fault_large",
	[MIGRC_FAULT_COLLISION]		= "fault_collision",
};

/**
 * migrc_defer_syscalls - may move_pages(2), migrate_pages(2) and mbind(2) defer?
 *
 * Context: any.
 * Return: whether a test asked for it.
 */
bool migrc_defer_syscalls(void)
{
	return READ_ONCE(migrc_syscalls);
}

/**
 * migrc_one_mark - do all address spaces share one mark?
 *
 * Context: any.
 * Return: whether a test asked for it.
 */
bool migrc_one_mark(void)
{
	return READ_ONCE(migrc_single);
}

/**
 * migrc_checking - are the checks on?
 *
 * Context: any.
 * Return: whether.
 */
bool migrc_checking(void)
{
	return READ_ONCE(migrc_check);
}

/**
 * migrc_fault_site - is the forced flush of a site to be left out?
 * @site: which
 *
 * Context: any.
 * Return: whether.
 */
bool migrc_fault_site(enum migrc_site site)
{
	static const enum migrc_fault fault[NR_MIGRC_SITES] = {
		[MIGRC_FORCE_WP]	= MIGRC_FAULT_WP,
		[MIGRC_FORCE_SWAP]	= MIGRC_FAULT_SWAP,
		[MIGRC_FORCE_GUP]	= MIGRC_FAULT_GUP,
		[MIGRC_FORCE_NUMA]	= MIGRC_FAULT_NUMA,
		[MIGRC_FORCE_UNMAP]	= MIGRC_FAULT_UNMAP,
	};

	return READ_ONCE(migrc_faults[fault[site]]);
}

/**
 * migrc_fault_drain - is a drain to be left out?
 * @reason: of the drain
 *
 * Context: any.
 * Return: whether.
 */
bool migrc_fault_drain(enum migrc_reason reason)
{
	switch (reason) {
	case MIGRC_DRAIN_ISOLATE:
		return migrc_fault(ISOLATE);
	case MIGRC_DRAIN_FAILURE:
		return migrc_fault(FAILURE);
	case MIGRC_DRAIN_CONTIG:
		return migrc_fault(CONTIG);
	case MIGRC_DRAIN_PRESSURE:
		return migrc_fault(PRESSURE);
	case MIGRC_DRAIN_ALLOC:
		return migrc_fault(ALLOC);
	case MIGRC_DRAIN_OOM:
		return migrc_fault(OOM);
	default:
		return false;
	}
}

/**
 * migrc_delay - make a window that is open too long by a fault wide enough to be hit
 *
 * Context: any.
 */
void migrc_delay(void)
{
	mdelay(5);
}

/**
 * migrc_delay_scan - let tests meet what NUMA balancing's scanner has not flushed yet
 *
 * Context: may sleep.
 */
void migrc_delay_scan(void)
{
	unsigned int ms = READ_ONCE(migrc_scan_delay_ms);

	if (ms)
		msleep(ms);
}

struct migrc_later {
	struct delayed_work work;
	struct mm_struct *mm;
};

static void migrc_later_fn(struct work_struct *work)
{
	struct migrc_later *later = container_of(to_delayed_work(work), struct migrc_later, work);

	flush_tlb_mm(later->mm);
	mmdrop(later->mm);
	kfree(later);
}

/**
 * migrc_flush_later - flush an address space when the write has long been possible
 * @mm: address space
 *
 * Context: under a page-table lock.
 * Return: false if there is no memory for it.
 */
bool migrc_flush_later(struct mm_struct *mm)
{
	struct migrc_later *later = kmalloc(sizeof(*later), GFP_ATOMIC);

	if (!later)
		return false;
	mmgrab(mm);
	later->mm = mm;
	INIT_DELAYED_WORK(&later->work, migrc_later_fn);
	schedule_delayed_work(&later->work, 1);
	return true;
}

static u32 migrc_checksum(struct folio *folio)
{
	void *addr = kmap_local_folio(folio, 0);
	u32 sum = jhash2(addr, PAGE_SIZE / sizeof(u32), 0);

	kunmap_local(addr);
	return sum;
}

/**
 * migrc_check_copy - the source must be what has been copied
 * @src:	source
 * @dst:	destination, which nobody can write yet
 *
 * Context: process; both locked.
 */
void migrc_check_copy(struct folio *src, struct folio *dst)
{
	u32 sum;

	migrc_generation_move(&src->page, &dst->page);
	if (!READ_ONCE(migrc_check))
		return;
	sum = migrc_checksum(src);
	WARN_RATELIMIT(sum != migrc_checksum(dst), "migrc: source written while it was copied\n");
	/* Free for use since the source has lost its swap entry, if it had one */
	src->private = (void *)(unsigned long)(sum | 1);
}

/**
 * migrc_check_queued - a source is nobody's but ours
 * @src: about to be queued
 *
 * Context: process.
 */
void migrc_check_queued(struct folio *src)
{
	unsigned long sum = (unsigned long)src->private;

	if (sum && !PageHWPoison(&src->page))
		WARN_RATELIMIT((migrc_checksum(src) | 1) != sum,
			       "migrc: source written before it was queued\n");
	VM_WARN_ON_ONCE_FOLIO(folio_ref_count(src) < 1, src);
	VM_WARN_ON_ONCE_FOLIO(folio_test_lru(src), src);
	VM_WARN_ON_ONCE_FOLIO(folio_mapped(src), src);
}

/**
 * migrc_check_released - a source has not been written while it waited; spoil it
 * @src: about to be released
 *
 * Context: process.
 */
void migrc_check_released(struct folio *src)
{
	unsigned long sum = (unsigned long)src->private;
	void *addr;

	if (!sum)
		return;
	src->private = NULL;
	if (PageHWPoison(&src->page))
		return;
	WARN_RATELIMIT((migrc_checksum(src) | 1) != sum, "migrc: source written while it waited\n");
	addr = kmap_local_folio(src, 0);
	memset(addr, MIGRC_POISON, PAGE_SIZE);
	kunmap_local(addr);
}

static int migrc_drain_set(void *data, u64 val)
{
	migrc_drain(MIGRC_DRAIN_DEBUG);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(migrc_drain_fops, NULL, migrc_drain_set, "%llu\n");

static int migrc_one_mark_get(void *data, u64 *val)
{
	*val = migrc_one_mark();
	return 0;
}

/*
 * What is pending is looked for where it was noted, so this can be changed only while MIGRC
 * is off.  Whoever asks sees to it that nobody switches it on meanwhile.
 */
static int migrc_one_mark_set(void *data, u64 val)
{
	if (val > 1)
		return -EINVAL;
	if (READ_ONCE(migrc_deferring) || READ_ONCE(migrc_seq) != READ_ONCE(migrc_done))
		return -EBUSY;
	WRITE_ONCE(migrc_single, val);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(migrc_one_mark_fops, migrc_one_mark_get, migrc_one_mark_set, "%llu\n");

#ifdef CONFIG_NUMA_BALANCING
/* What NUMA balancing's scanner would do with an address of the writing process, now */
static int migrc_scan_set(void *data, u64 addr)
{
	struct vm_area_struct *vma;

	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, addr);
	if (vma)
		change_prot_numa(vma, addr & PAGE_MASK, min(addr + PMD_SIZE, vma->vm_end));
	mmap_read_unlock(current->mm);
	return vma ? 0 : -EFAULT;
}
DEFINE_DEBUGFS_ATTRIBUTE(migrc_scan_fops, NULL, migrc_scan_set, "%llu\n");
#endif

static int __init migrc_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("migrc", NULL);
	int i;

	for (i = 0; i < NR_MIGRC_FAULTS; i++)
		debugfs_create_bool(migrc_fault_names[i], 0600, dir, &migrc_faults[i]);
	debugfs_create_bool("check", 0600, dir, &migrc_check);
	debugfs_create_bool("defer_syscalls", 0600, dir, &migrc_syscalls);
	debugfs_create_file("one_mark", 0600, dir, NULL, &migrc_one_mark_fops);
#ifdef CONFIG_NUMA_BALANCING
	debugfs_create_u32("scan_delay_ms", 0600, dir, &migrc_scan_delay_ms);
	debugfs_create_file("scan", 0200, dir, NULL, &migrc_scan_fops);
#endif
	debugfs_create_file("drain", 0200, dir, NULL, &migrc_drain_fops);
	return 0;
}
late_initcall(migrc_debug_init);
