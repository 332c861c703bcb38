/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Writers that count: each has words of its own in the pages under test, adds one to each of
 * them again and again, and remembers the sum.  A write that went to a page frame after it had
 * been copied is missing as soon as the stale TLB entry is gone: the writer reads less than
 * it wrote.
 */
#ifndef _MIGRC_WRITERS_H
#define _MIGRC_WRITERS_H

#include "threads.h"

#define MAX_WRITTEN	16

struct writers;

/* @nr_writers on the last CPUs, each with a word in each of the @nr_pages pages */
struct writers *writers_start(int nr_writers, char * const *pages, int nr_pages);
/* Ends them; false if a write was lost. */
bool writers_stop(struct writers *writers);
bool writers_clean(struct writers *writers);
/* What was lost first, in words */
const char *writers_say(struct writers *writers);
/* Every writer has written every page since it was called. */
void writers_settle(struct writers *writers);
void writers_free(struct writers *writers);

#endif /* _MIGRC_WRITERS_H */
