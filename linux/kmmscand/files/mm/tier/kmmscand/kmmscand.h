/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of kmmscand share; kmmscand.c tells how they work together.
 */
#ifndef _MM_TIER_KMMSCAND_H
#define _MM_TIER_KMMSCAND_H

#include <linux/nodemask.h>
#include <linux/types.h>

struct mempolicy;
struct mm_struct;
struct target_vote;
struct task_struct;

/**
 * struct kmmscand_tunables - set through sysfs, read by the threads at any time
 * @scan_period_ms:	length of an epoch
 * @scan_cpu_pct:	share of one CPU that a scanner may use
 * @hot_threshold:	least score of what is promoted
 * @promote_rate_mbps:	limit for what goes to a fast node, if NUMA balancing is built in;
 *			or else for what a promoter moves
 * @promote_cpu_pct:	share of one CPU that a promoter may use
 */
struct kmmscand_tunables {
	unsigned int scan_period_ms;
	unsigned int scan_cpu_pct;
	unsigned int hot_threshold;
	unsigned int promote_rate_mbps;
	unsigned int promote_cpu_pct;
};

extern struct kmmscand_tunables kmmscand_tunables;

/* CPU time of a thread against its limit; used by that thread only */
struct kmmscand_cpu {
	u64 runtime;		/* accounted so far, in ns */
	u64 owed;		/* sleep that is due, in ns */
};

void kmmscand_cpu_start(struct kmmscand_cpu *cpu);
void kmmscand_cpu_charge(struct kmmscand_cpu *cpu, unsigned int percent);
void kmmscand_cpu_pay(struct kmmscand_cpu *cpu, unsigned int percent);
void kmmscand_sleep(struct kmmscand_cpu *cpu, unsigned int msecs);

/* Tiers as of the start; if they change, everything is started again. */
struct kmmscand_nodes {
	nodemask_t slow;
	nodemask_t top;
};

bool kmmscand_get_nodes(struct kmmscand_nodes *nodes);

/**
 * struct kmmscand_pass - one walk over an address space, in one or more visits
 * @mm:		to be scanned; mm_count is held
 * @nodes:	of the scanner
 * @cpuset:	nodes that the process may use
 * @policy:	nodes that its mempolicy allows; those of its VMAs come before it
 * @unjudged:	visits in a row in which its tasks could not be asked
 * @next:	address to go on at, 0 at the beginning
 * @number:	of the pass, to take turns with
 * @epoch:	of its beginning
 * @since:	epoch in which the pass before began
 * @seen:	epoch after which all that is looked at has been looked at before
 * @part:	only one page table in 2^@part is looked at, by turns
 * @shift:	bits of history stand for 2^@shift epochs
 * @stale:	the Accessed bits are of unknown age: clear, but do not count, unless
 *		they are cleared for a window
 * @close:	it is made of close visits, see close.c
 * @looked:	epoch of the last close visit
 * @vote:	slot of the fast node that its pages should go to, see target.h
 * @held_up:	a visit ended because mmap_lock was taken
 * @started:	in jiffies
 * @ptes:	entries looked at
 * @mapped:	of these, in the first walk
 * @skipped:	page tables skipped
 * @young:	of @ptes those of slow pages that had been accessed
 * @touched:	slow folios that had been accessed
 * @huge:	in the last look, huge pages that were warm and nobody else maps
 * @warm:	of @touched those that reach hot_threshold
 * @hot:	of @touched those that reach the threshold of the promoter
 * @first:	folios that first looks have found
 * @both:	of these, found in second looks
 */
struct kmmscand_pass {
	struct mm_struct *mm;
	const struct kmmscand_nodes *nodes;
	nodemask_t cpuset;
	nodemask_t policy;
	unsigned int unjudged;
	unsigned long next;
	unsigned int number;
	unsigned int epoch;
	unsigned int since;
	unsigned int seen;
	unsigned int part;
	unsigned int shift;
	bool stale;
	bool close;
	unsigned int looked;
	u8 vote;
	bool held_up;
	unsigned long started;
	unsigned long ptes;
	unsigned long mapped;
	unsigned long skipped;
	unsigned long young;
	unsigned long touched;
	unsigned long huge;
	unsigned long warm;
	unsigned long hot;
	unsigned long first;
	unsigned long both;
};

void kmmscand_policy_nodes(struct mempolicy *pol, nodemask_t *nodes);
void kmmscand_task_policy(struct kmmscand_pass *pass);

/**
 * enum kmmscand_look - what a walk asks
 * @KMMSCAND_SINCE:  what has been accessed since the last pass?
 * @KMMSCAND_CLEAR:  nothing, it only clears the Accessed bits
 * @KMMSCAND_FIRST:  what has been accessed since the walk that cleared them?
 * @KMMSCAND_SECOND: and since the first look?
 * @KMMSCAND_AGAIN:  which huge pages have not been accessed since the look before?
 */
enum kmmscand_look {
	KMMSCAND_SINCE,
	KMMSCAND_CLEAR,
	KMMSCAND_FIRST,
	KMMSCAND_SECOND,
	KMMSCAND_AGAIN,
};

int kmmscand_scan(struct kmmscand_pass *pass, enum kmmscand_look look, unsigned long *next,
		  unsigned long end, struct kmmscand_cpu *cpu, unsigned long deadline);

/* What is remembered of an address space, see mms.c */
struct kmmscand_mm {
	struct hlist_node node;
	struct list_head again;		/* to be tried once more in this round */
	struct task_struct *task;	/* a reference, while it is in that list */
	struct kmmscand_pass pass;	/* and a reference to mm_count */
	struct target_vote *vote;	/* NULL without a choice of fast nodes */
	int home;			/* node of the scanner that visits it */
	unsigned int round;		/* of that scanner, in which it was met */
	unsigned int away;		/* rounds that its process was elsewhere */
	bool moved;			/* to a scanner that has not met it yet */
	unsigned int due;		/* epoch of the next pass */
	unsigned int shift;		/* a page is due again after 2^shift epochs */
	unsigned int part;		/* of the next pass, if that is a close one */
	unsigned int part_done;		/* of the last one that was completed */
	unsigned long touched;		/* in the last pass that was no close one, and */
	unsigned long warm;		/* in the last one that was, or for which its part stands */
};

struct kmmscand_mm *kmmscand_mm_get(struct mm_struct *mm, int nid, int home,
				    unsigned int round);
void kmmscand_mms_drop(int nid, unsigned int round, bool met_all);
void kmmscand_mms_drop_all(void);
void kmmscand_mms_flush(void);
void kmmscand_flush_later(struct mm_struct *mm);
void kmmscand_flush_now(void);
unsigned int kmmscand_next_shift(const struct kmmscand_mm *state);
unsigned int kmmscand_interval(unsigned int shift, unsigned int scale);
unsigned int kmmscand_next_part(const struct kmmscand_mm *state, unsigned int epochs);
void kmmscand_pass_done(struct kmmscand_mm *state);

/* Pieces of address spaces that are looked at together, see close.c */
#define KMMSCAND_PIECES		1024

struct kmmscand_piece {
	struct kmmscand_mm *state;
	unsigned long start;
	unsigned long end;
	bool last;			/* of its pass */
	unsigned long huge;		/* huge pages that have been found, and are left */
	unsigned long next;		/* where a look goes on that was held up */
	bool missed;			/* the last look has not come to the end */
};

struct kmmscand_close {
	unsigned int window_ms;		/* of this round; 0: no close visits */
	unsigned long enough;		/* so many huge pages are not too many */
	unsigned long huge;		/* that have been found in this group, and are left */
	unsigned long begun;		/* the last walk over the group, in jiffies */
	unsigned int nr;
	struct kmmscand_piece piece[KMMSCAND_PIECES];
};

int kmmscand_close_visit(struct kmmscand_close *close, struct kmmscand_mm *state,
			 struct kmmscand_cpu *cpu);
bool kmmscand_close_due(struct kmmscand_close *close);
void kmmscand_close_look(struct kmmscand_close *close, struct kmmscand_cpu *cpu);

/* Length of an epoch; longer than scan_period_ms if scanning takes so long */
unsigned int kmmscand_epoch_ms(void);

/* Rounds of the scanners, for those who wait for the end of one */
unsigned int kmmscand_rounds(void);
bool kmmscand_window_used(void);
unsigned long kmmscand_missing(void);
void kmmscand_wait_round(struct kmmscand_cpu *cpu, unsigned int round, unsigned int msecs);
void kmmscand_wake(void);

/* Promoters, see kpromoted.c */
struct kpromoted;

struct kpromoted *kpromoted_start(int nid, const struct kmmscand_nodes *nodes);
void kpromoted_stop(struct kpromoted *promoter);
unsigned int kpromoted_threshold(int nid);
unsigned int kpromoted_window_ms(const nodemask_t *slow);
unsigned long kpromoted_affords(const nodemask_t *slow);

#endif /* _MM_TIER_KMMSCAND_H */
