/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Readers that never enter the kernel, and what they may read.
 *
 * A spot is a word in a page under test.  Only the test writes it: each time the next number,
 * marked as this spot's, and says so in ->written after it has.  A reader that has seen n
 * there, and then reads the word, must not get less than n (a stale TLB entry), nor anything
 * else that has never been there (the page has been freed, and is somebody else's).
 *
 * A reader is alone on its CPU and makes no system call, so nothing flushes its TLB but what
 * the kernel sends it on purpose.
 */
#ifndef _MIGRC_READERS_H
#define _MIGRC_READERS_H

#include "threads.h"

#define MAX_SPOTS	64

struct spot {
	atomic_uintptr_t word;	/* where; 0: leave it alone */
	atomic_ulong written;		/* this number has been written */
	atomic_ulong odd;		/* odd: read it, but anything may be there */
	uint64_t mark;			/* what is in the upper half of the word */
};

struct finding {
	int spot;
	int cpu;
	uint64_t got, mark;
	unsigned long before, after;	/* ->written, before and after it was read */
};

struct crew;

/* Some readers, on the last CPUs; no spots yet. */
struct crew *crew_start(int nr_readers);
void crew_stop(struct crew *crew);

struct spot *crew_spot(struct crew *crew, int nr);
/* Write the first number to a page and show it to the readers. */
void spot_show(struct crew *crew, int nr, void *page);
/* The page that has been hidden, or another one with its contents */
void spot_show_again(struct crew *crew, int nr, void *page);
/* Nobody reads it any more when it returns. */
void spot_hide(struct crew *crew, int nr);
/* What is to be written next, */
uint64_t spot_next(struct spot *spot);
/* somebody has written it, */
void spot_has_next(struct spot *spot);
/* or do both here. */
void spot_write(struct spot *spot);
/* The page is about to get new contents, and has got them. */
void spot_begin_change(struct spot *spot);
void spot_end_change(struct spot *spot);
/* Is what is there the number that was written last? */
bool spot_intact(struct spot *spot, const void *page);

/* Read it once, as a reader does; false and a finding if it must not be there. */
bool spot_judge(struct spot *spot, struct finding *finding);

/* All readers have read all spots since it was called; false if they have found something. */
bool crew_settle(struct crew *crew);
bool crew_clean(struct crew *crew);
/* What was found first, in words */
const char *crew_says(struct crew *crew);
/* A finding of somebody else */
void crew_report(struct crew *crew, const struct finding *finding);

#endif /* _MIGRC_READERS_H */
