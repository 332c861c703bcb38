/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of mm/migrc/ share.  The interface for others is <linux/migrc.h>; how it
 * works is told in defer.c (coherence) and queue.c (lifetime).
 */
#ifndef _MM_MIGRC_H
#define _MM_MIGRC_H

#include <linux/migrc.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#define MIGRC_DEFAULT_MAX_PAGES		1024
#define MIGRC_DEFAULT_MAX_AGE_MS	1000

/**
 * enum migrc_skip - why a flush was not deferred
 * @MIGRC_SKIP_WRITE:		the PTE is writable
 * @MIGRC_SKIP_PENDING:		a flush of the address space is under way (mprotect, fork, ...)
 * @MIGRC_SKIP_LARGE:		the folio is large
 * @MIGRC_SKIP_FILE:		the folio is not anonymous
 * @MIGRC_SKIP_LIMIT:		direct reclaim, or somebody wants certain page frames
 * @MIGRC_SKIP_COLLISION:	the mark is taken by another address space
 * @NR_MIGRC_SKIPS:		number of reasons
 */
enum migrc_skip {
	MIGRC_SKIP_WRITE,
	MIGRC_SKIP_PENDING,
	MIGRC_SKIP_LARGE,
	MIGRC_SKIP_FILE,
	MIGRC_SKIP_LIMIT,
	MIGRC_SKIP_COLLISION,
	NR_MIGRC_SKIPS
};

struct migrc_events {
	unsigned long deferred;			/* sources queued */
	unsigned long flushed;			/* drains that flushed */
	unsigned long drained[NR_MIGRC_REASONS];	/* sources released */
	unsigned long forced[NR_MIGRC_SITES];	/* address spaces flushed */
	unsigned long skipped[NR_MIGRC_SKIPS];	/* PTEs, or folios */
	unsigned long readonly;			/* writable PTEs restored read-only */
	unsigned long written;			/* write faults while that is switched on */
	unsigned long later;			/* promotions left to a worker */
	unsigned long postponed;		/* promotions left to the next scan */
	unsigned long spared;			/* PTEs that pending scans had not touched */
};

DECLARE_PER_CPU(struct migrc_events, migrc_events);

/* Scans of NUMA balancing are hashed by address space, into so many bits. */
#define MIGRC_SCAN_BITS		6

#define count_migrc(field, delta)	this_cpu_add(migrc_events.field, delta)

/*
 * migrc_lock protects migrc_seq, the pending CPUs and sources of queue.c, and the writing of
 * the marks of defer.c.  Innermost: taken under page-table locks, takes none itself.
 */
extern spinlock_t migrc_lock;

/*
 * Number of the last deferral; only grows.  Under migrc_lock.
 */
extern u64 migrc_seq;

/*
 * Deferrals up to this number have been flushed from the TLBs of all CPUs.  Written with
 * release after the flush has completed, to be read with acquire.
 */
extern u64 migrc_done;

extern bool migrc_deferring;
extern unsigned int migrc_max_pages;
extern unsigned int migrc_max_age_ms;

/**
 * struct migrc_mark - what is deferred for an address space
 * @mm:		the address space; only compared, never followed
 * @seq:	its last deferral
 * @flushed:	deferrals of @mm up to this one were flushed, by migrc_flush_mm() or before
 *		@mm took the mark
 *
 * The mark is pending while @seq is greater than both @flushed and migrc_done.  Only then
 * does it belong to @mm; after that another address space with the same hash may take it.
 * An address space that is freed just leaves its mark behind: whoever gets the same address
 * flushes once too often at worst.
 *
 * Written under migrc_lock.  Read without it under the page-table lock of a PTE: a deferral
 * of that very PTE was made under the same lock, so its mark is seen, or a later state of it.
 * If that is another owner's, then what was deferred has been flushed.
 */
struct migrc_mark {
	struct mm_struct *mm;
	u64 seq;
	u64 flushed;
};

struct migrc_mark *migrc_mark(struct mm_struct *mm);
u64 migrc_publish(struct mm_struct *mm);
void migrc_queue(struct list_head *sources);
void migrc_arm(void);
void migrc_limits_changed(void);
void migrc_flush_all(enum migrc_reason reason);
unsigned int migrc_nr_pending(void);
#ifdef CONFIG_MIGRC_SCAN
bool migrc_scans_spare(struct mm_struct *mm, int nid);
void migrc_scans_forget(void);
#else
static inline bool migrc_scans_spare(struct mm_struct *mm, int nid)
{
	return false;
}

static inline void migrc_scans_forget(void) { }
#endif

#ifdef CONFIG_MIGRC_PROMOTE
void migrc_promote_scan_begin(struct mm_struct *mm);
void migrc_promote_scan_end(struct mm_struct *mm);
#else
static inline void migrc_promote_scan_begin(struct mm_struct *mm) { }
static inline void migrc_promote_scan_end(struct mm_struct *mm) { }
#endif

void migrc_start(void);
void migrc_stop(void);

#endif /* _MM_MIGRC_H */
