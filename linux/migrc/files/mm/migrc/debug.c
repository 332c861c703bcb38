// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: tests break its rules here, and see what became of a source.
 *
 * A test of something that must never happen proves little until it has been seen to fail.  So
 * each rule has a fault defer_* (mm/tier_parts/faults.c) that leaves it out, and a count in
 * /sys/kernel/debug/tier/defer/, met_*, of how often it applied.  These faults do damage: other
 * processes' data may be read or lost.  Never set one on a machine that matters.
 *
 * The check: the contents of a source do not change while it waits; then it is overwritten, so
 * that a CPU that still reads it by a stale TLB entry reads rubbish.
 */

#include <linux/debugfs.h>
#include <linux/highmem.h>
#include <linux/jhash.h>
#include <linux/mm.h>
#include <linux/ratelimit.h>
#include <linux/tier_parts.h>

#include "migrc.h"

#define MIGRC_POISON	0x6d

u32 migrc_max_pages;		/* for each node; 0: by its size */
u32 migrc_age_ms = MIGRC_AGE_MS;
bool migrc_defer_syscalls;	/* move_pages(2) and the like defer, too */
bool migrc_one_set;		/* all address spaces use the same marks; only while MIGRC is off */
static bool migrc_check = true;
static bool migrc_faults[NR_MIGRC_RULES];
static atomic_t migrc_met[NR_MIGRC_RULES];

static const char * const migrc_rule_names[NR_MIGRC_RULES] = {
	[MIGRC_WP]		= "wp",
	[MIGRC_SWAP]		= "swap",
	[MIGRC_GUP]		= "gup",
	[MIGRC_UNMAP]		= "unmap",
	[MIGRC_WRITE]		= "write",
	[MIGRC_PENDING]		= "pending",
	[MIGRC_FORK]		= "fork",
	[MIGRC_FILE]		= "file",
	[MIGRC_RELEASE]		= "release",
	[MIGRC_UNMASKED]	= "unmasked",
	[MIGRC_EARLY]		= "early",
	[MIGRC_MERGE]		= "merge",
	[MIGRC_MARKS]		= "marks",
	[MIGRC_REASON]		= "reason",
	[MIGRC_ISOLATE]		= "isolate",
	[MIGRC_FAILURE]		= "failure",
	[MIGRC_OOM]		= "oom",
	[MIGRC_OFF]		= "off",
	[MIGRC_CAP]		= "cap",
	[MIGRC_AGE]		= "age",
	[MIGRC_BACKOFF]		= "backoff",
};

/**
 * migrc_obeyed - does a rule hold?  Counts that it has applied.
 * @rule: which
 *
 * Context: any.
 * Return: false if a test breaks it.
 */
bool migrc_obeyed(enum migrc_rule rule)
{
	atomic_inc(&migrc_met[rule]);
	return !READ_ONCE(migrc_faults[rule]);
}

static u32 migrc_checksum(struct folio *folio)
{
	void *addr = kmap_local_folio(folio, 0);
	u32 sum = jhash2(addr, PAGE_SIZE / sizeof(u32), 0);

	kunmap_local(addr);
	return sum | 1;
}

/**
 * migrc_check_queued - check that a source is off the LRU and unmapped, record a checksum
 * @src: about to be queued
 *
 * Context: process.
 */
void migrc_check_queued(struct folio *src)
{
	VM_WARN_ON_ONCE_FOLIO(folio_ref_count(src) < 1, src);
	VM_WARN_ON_ONCE_FOLIO(folio_test_lru(src), src);
	VM_WARN_ON_ONCE_FOLIO(folio_mapped(src), src);
	/* Free for use since the source has lost its swap entry, if it had one */
	if (READ_ONCE(migrc_check) && !folio_test_large(src))
		src->private = (void *)(unsigned long)migrc_checksum(src);
}

/**
 * migrc_check_freed - a source has not been written while it waited; spoil it
 * @src: about to be freed
 *
 * Context: process.
 */
void migrc_check_freed(struct folio *src)
{
	unsigned long sum = (unsigned long)src->private;

	if (!sum || folio_test_large(src))
		return;
	src->private = NULL;
	if (folio_test_hwpoison(src))
		return;
	WARN_RATELIMIT(migrc_checksum(src) != sum, "migrc: source written while it waited\n");
	memset_page(&src->page, 0, MIGRC_POISON, PAGE_SIZE);
}

static int migrc_drain_set(void *data, u64 val)
{
	if (migrc_on())
		migrc_flush_all();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(migrc_drain_fops, NULL, migrc_drain_set, "%llu\n");

static int __init migrc_debug_init(void)
{
	struct dentry *dir = tier_debug_dir("defer");
	char name[24];
	int i;

	tier_faults_add("defer", migrc_rule_names, migrc_faults, NR_MIGRC_RULES);
	for (i = 0; i < NR_MIGRC_RULES; i++) {
		snprintf(name, sizeof(name), "met_%s", migrc_rule_names[i]);
		debugfs_create_atomic_t(name, 0400, dir, &migrc_met[i]);
	}
	debugfs_create_u32("max_pages", 0600, dir, &migrc_max_pages);
	debugfs_create_u32("age_ms", 0600, dir, &migrc_age_ms);
	debugfs_create_bool("defer_syscalls", 0600, dir, &migrc_defer_syscalls);
	debugfs_create_bool("one_set", 0600, dir, &migrc_one_set);
	debugfs_create_bool("check", 0600, dir, &migrc_check);
	debugfs_create_file("drain", 0200, dir, NULL, &migrc_drain_fops);
	return 0;
}
late_initcall(migrc_debug_init);
