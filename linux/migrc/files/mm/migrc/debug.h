/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MIGRC: checks at run time, and switches that break its rules; see debug.c.
 */
#ifndef _MM_MIGRC_DEBUG_H
#define _MM_MIGRC_DEBUG_H

#include <linux/compiler.h>
#include <linux/migrc.h>
#include <linux/types.h>

/**
 * enum migrc_fault - safety steps that can be left out
 * @MIGRC_FAULT_WP:		flush in wp_page_reuse()
 * @MIGRC_FAULT_SWAP:		flush in do_swap_page()
 * @MIGRC_FAULT_GUP:		flush for FOLL_FORCE
 * @MIGRC_FAULT_NUMA:		flush in do_numa_page()
 * @MIGRC_FAULT_UNMAP:		flush for munmap, mprotect and the like
 * @MIGRC_FAULT_WRITE:		writable PTEs are not deferred
 * @MIGRC_FAULT_PENDING:	nothing is deferred while the address space is being flushed
 * @MIGRC_FAULT_FORK:		fork says that it flushes
 * @MIGRC_FAULT_MIXED:		flush before a folio with owed PTEs is copied
 * @MIGRC_FAULT_RELEASE:	sources wait for the flush
 * @MIGRC_FAULT_EARLY:		marks are cleared after the flush
 * @MIGRC_FAULT_LATE:		forced flushes come before the write
 * @MIGRC_FAULT_UNMASKED:	drains flush the CPUs of the address space
 * @MIGRC_FAULT_ISOLATE:	drain with the LRU caches, for those who want certain page frames
 * @MIGRC_FAULT_FAILURE:	drain for memory failure and soft offlining
 * @MIGRC_FAULT_CONTIG:		drain for alloc_contig_range()
 * @MIGRC_FAULT_REASON:		only some callers may defer
 * @MIGRC_FAULT_OFF:		flush when switched off
 * @MIGRC_FAULT_CAP:		limit by number
 * @MIGRC_FAULT_AGE:		limit by age
 * @MIGRC_FAULT_PRESSURE:	drain when kswapd needs memory
 * @MIGRC_FAULT_ALLOC:		drain before an allocation reclaims
 * @MIGRC_FAULT_OOM:		drain where reclaim has failed an allocation
 * @MIGRC_FAULT_SPILL:		what is released does not stay on the free lists of a CPU
 * @MIGRC_FAULT_FREEZE:		drain when the system goes to sleep
 * @MIGRC_FAULT_FILE:		only anonymous pages are deferred
 * @MIGRC_FAULT_AT_ONCE:	hint faults that would have to flush leave promotion to a worker
 * @MIGRC_FAULT_FORGET:		pages that were written are restored writable
 * @MIGRC_FAULT_TOUCH:		scans that have changed PTEs of a node's pages forbid to defer
 * @MIGRC_FAULT_OTHERS:		so does who else has raised tlb_flush_pending
 * @MIGRC_FAULT_ALONG:		a flush for others serves if it goes to all CPUs that matter
 * @MIGRC_FAULT_POSTPONE:	promotions wait for the end of a scan rather than flush
 * @MIGRC_FAULT_DIRECT:		direct reclaim does not defer
 * @MIGRC_FAULT_LARGE:		large folios are not deferred
 * @MIGRC_FAULT_COLLISION:	a mark that is pending is not given to another address space
 * @NR_MIGRC_FAULTS:		number of switches
 */
enum migrc_fault {
	MIGRC_FAULT_WP,
	MIGRC_FAULT_SWAP,
	MIGRC_FAULT_GUP,
	MIGRC_FAULT_NUMA,
	MIGRC_FAULT_UNMAP,
	MIGRC_FAULT_WRITE,
	MIGRC_FAULT_PENDING,
	MIGRC_FAULT_FORK,
	MIGRC_FAULT_MIXED,
	MIGRC_FAULT_RELEASE,
	MIGRC_FAULT_EARLY,
	MIGRC_FAULT_LATE,
	MIGRC_FAULT_UNMASKED,
	MIGRC_FAULT_ISOLATE,
	MIGRC_FAULT_FAILURE,
	MIGRC_FAULT_CONTIG,
	MIGRC_FAULT_REASON,
	MIGRC_FAULT_OFF,
	MIGRC_FAULT_CAP,
	MIGRC_FAULT_AGE,
	MIGRC_FAULT_PRESSURE,
	MIGRC_FAULT_ALLOC,
	MIGRC_FAULT_OOM,
	MIGRC_FAULT_SPILL,
	MIGRC_FAULT_FREEZE,
	MIGRC_FAULT_FILE,
	MIGRC_FAULT_AT_ONCE,
	MIGRC_FAULT_FORGET,
	MIGRC_FAULT_TOUCH,
	MIGRC_FAULT_OTHERS,
	MIGRC_FAULT_ALONG,
	MIGRC_FAULT_POSTPONE,
	MIGRC_FAULT_DIRECT,
	MIGRC_FAULT_LARGE,
	MIGRC_FAULT_COLLISION,
	NR_MIGRC_FAULTS
};

#ifdef CONFIG_MIGRC_DEBUG

extern bool migrc_faults[NR_MIGRC_FAULTS];
#define migrc_fault(name)	READ_ONCE(migrc_faults[MIGRC_FAULT_##name])

bool migrc_fault_site(enum migrc_site site);
bool migrc_fault_drain(enum migrc_reason reason);
bool migrc_defer_syscalls(void);
bool migrc_one_mark(void);
bool migrc_checking(void);
bool migrc_flush_later(struct mm_struct *mm);
void migrc_delay(void);
void migrc_delay_scan(void);
void migrc_check_queued(struct folio *src);
void migrc_check_released(struct folio *src);

#else

#define migrc_fault(name)	((void)MIGRC_FAULT_##name, false)

static inline bool migrc_fault_site(enum migrc_site site)
{
	return false;
}

static inline bool migrc_fault_drain(enum migrc_reason reason)
{
	return false;
}

static inline bool migrc_defer_syscalls(void)
{
	return false;
}

static inline bool migrc_one_mark(void)
{
	return false;
}

static inline bool migrc_flush_later(struct mm_struct *mm)
{
	return false;
}

static inline void migrc_delay(void) { }
static inline void migrc_delay_scan(void) { }
static inline void migrc_check_queued(struct folio *src) { }
static inline void migrc_check_released(struct folio *src) { }

#endif /* CONFIG_MIGRC_DEBUG */

#ifdef CONFIG_MIGRC_GENERATION
void migrc_generation_defer(struct page *page, struct mm_struct *mm, u64 seq);
void migrc_generation_move(struct page *src, struct page *dst);
#else
static inline void migrc_generation_defer(struct page *page, struct mm_struct *mm, u64 seq) { }
static inline void migrc_generation_move(struct page *src, struct page *dst) { }
#endif

#endif /* _MM_MIGRC_DEBUG_H */
