/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address spaces that run: see space.c.
 */
#ifndef _MM_TIER_KMMSCAND_SPACE_H
#define _MM_TIER_KMMSCAND_SPACE_H

#include <linux/bits.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/timerqueue.h>

#include "policy.h"
#include "target.h"

#define SPACES_BITS	10
#define SPACES_BUCKETS	BIT(SPACES_BITS)

/**
 * struct span - what the last visit, and the last turn, have found
 * @begin:       address of the first page table
 * @end:         of the last one's end
 * @at:          when the last visit ended that missed no look, in jiffies; @first to @turn are its
 * @window_us:   between its looks; 0 while no visit has found slow pages to look at
 * @first:       entries of slow pages that may move, accessed before the first look
 * @last:        of these, entries accessed before the last look
 * @pushed:      candidates, in base pages
 * @turn:        the next turn begins after 2^@turn periods
 * @turn_at:     when the last turn ended whose visits have missed no look, in jiffies; 0: none yet
 * @turn_pushed: candidates of that turn, in base pages
 *
 * TLBs may hide accesses to [@begin, @end) while struct space has @owed bits.
 */
struct span {
	unsigned long begin, end;
	unsigned long at, turn_at;
	u32 window_us;
	u32 first, last;
	u32 pushed, turn_pushed;
	u8 turn;
};

/**
 * struct space - an address space that has run lately
 * @node:     of the hash, by @mm
 * @queue:    of the queue of @home
 * @mm:       mm_count is held
 * @home:     fast node whose workers visit the space
 * @busy:     a worker has taken the space from the queue
 * @seen:     a thread of the space was running since the last visit began
 * @last:     when it was seen last, in jiffies
 * @due:      when the next visit is due, from ktime_get()
 * @votes:    samples of running threads by fast node; workers read them without the lock
 * @flushed:  number of the last spaces_flush(), for a space with a secondary MMU
 * @span:     of the last visit that was not only for change; its worker reads it without the lock
 *
 * Of the worker that has taken the space:
 *
 * @group:    number of its memory control group
 * @number:   of the turn over its page tables
 * @next:     address at which the next visit goes on, 0 at the beginning
 * @turn:     a turn in one period of 2^@turn
 * @missed:   a visit of this turn has missed a look
 * @full:     when the next visit that is not only for change is due, from ktime_get()
 * @sampled:  address at which the next look for change goes on
 * @tables:   page tables read in the last turn
 * @read:     page tables read in this turn
 * @cost:     of the visits of this turn, in ns
 * @pushed:   candidates of this turn, in base pages
 * @young:    slow pages accessed before the visits since @told, by bits and owed flushes
 * @told:     when the turn began, or told of its parts last, in jiffies
 * @found:    candidates of the last visit
 * @found_of: page tables in which the last visit found them
 * @change:   how many pages looks for change find
 * @owed:     whose Accessed bits the last look has cleared; no flush has followed
 * @unjudged: visits in a row in which its tasks could not be asked for their policies
 */
struct space {
	struct hlist_node node;
	struct timerqueue_node queue;
	struct mm_struct *mm;
	int home;
	bool busy;
	bool seen;
	unsigned long last;
	ktime_t due;
	u16 votes[TARGET_NODES];
	unsigned int flushed;
	struct span span;

	unsigned int group;
	unsigned int number;
	unsigned long next;
	unsigned int turn;
	bool missed;
	ktime_t full;
	unsigned long sampled;
	unsigned int tables, read;
	u64 cost;
	unsigned long pushed;
	unsigned int young, told;
	unsigned int found, found_of;
	struct policy_change change;
	unsigned int owed;
	unsigned int unjudged;
};

void spaces_init(void);
void spaces_clean(bool all);
void space_seen(struct mm_struct *mm, int nid, int home);
struct space *space_take(int home);
void space_give(struct space *space, ktime_t due, bool again);
void space_found(struct space *space, const struct span *span);
void space_owner(struct mm_struct *mm, pid_t *pid, u64 *cgroup);
void space_drop(struct space *space);
bool spaces_due(int home);
void spaces_wake(int home);
void spaces_wait(int home);
void spaces_flush(void);
void spaces_each_span(unsigned int nr, void (*each)(struct mm_struct *mm, const struct span *span,
						    void *data),
		      void *data);

#endif /* _MM_TIER_KMMSCAND_SPACE_H */
