/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of mm/migrc/ share.  The interface for others is <linux/migrc.h>. */
#ifndef _MM_MIGRC_H
#define _MM_MIGRC_H

#include <linux/migrc.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#define MIGRC_MIN_PAGES		512	/* that a node may hold, */
#define MIGRC_MAX_PAGES		4096
#define MIGRC_SHARE		256	/* or this part of it */
#define MIGRC_AGE_MS		100

struct migrc_events {
	unsigned long deferred;		/* pages that were queued */
	unsigned long flush;		/* drains that flushed */
	unsigned long forced;		/* address spaces that were flushed at once */
	unsigned long merged;		/* batches that owed a flush, too */
	unsigned long backoff;		/* PTEs of address spaces that are left alone */
};

DECLARE_PER_CPU(struct migrc_events, migrc_events);
#define count_migrc(field, delta)	this_cpu_add(migrc_events.field, delta)

/*
 * migrc_lock protects the queue (queue.c) and the writing of marks (marks.c).  It is innermost:
 * taken under page-table locks, it takes no lock itself.
 */
extern spinlock_t migrc_lock;
extern u64 migrc_seq;	/* number of the last deferral; under migrc_lock */
extern u64 migrc_done;	/* deferrals up to this one are flushed everywhere; see queue.c */
extern bool migrc_deferring;

/* queue.c */
bool migrc_publish(struct mm_struct *mm, int nid, unsigned long address);
void migrc_queue(struct list_head *sources);
void migrc_flush_all(void);
bool migrc_flush_owed(void);
unsigned long migrc_nr_pending(void);

/* marks.c */
u64 migrc_mark_set(struct mm_struct *mm);
u64 migrc_mark_pending(struct mm_struct *mm);
void migrc_mark_flushed(struct mm_struct *mm, u64 seq, bool write);

/* defer.c */
void migrc_start(void);
void migrc_stop(void);

#ifdef CONFIG_MIGRC_DEBUG
extern u32 migrc_max_pages, migrc_age_ms;
extern bool migrc_defer_syscalls, migrc_one_set;

bool migrc_obeyed(enum migrc_rule rule);
void migrc_check_queued(struct folio *src);
void migrc_check_freed(struct folio *src);
#else
#define migrc_max_pages		0U
#define migrc_age_ms		MIGRC_AGE_MS
#define migrc_defer_syscalls	false
#define migrc_one_set		false

static inline bool migrc_obeyed(enum migrc_rule rule)
{
	return true;
}

static inline void migrc_check_queued(struct folio *src) { }
static inline void migrc_check_freed(struct folio *src) { }
#endif

/* Does a rule apply?  Not if a test breaks it. */
#define migrc_rule(rule, applies)	((applies) && migrc_obeyed(rule))

#endif /* _MM_MIGRC_H */
