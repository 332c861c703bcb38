/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that take long to migrate: those that many processes map.  Migrated together with the
 * page under test, they keep it half-way for some milliseconds.
 */
#ifndef _MIGRC_SHARERS_H
#define _MIGRC_SHARERS_H

#include <stdbool.h>
#include <sys/types.h>

/* A batch of migrate_pages() is 512 pages; one place is for the page under test. */
#define NR_SHARED	500UL
#define NR_SHARERS	6

struct sharers {
	char *pages;
	pid_t pids[NR_SHARERS];
};

/* Pages on the slow node, and processes that have them, too */
bool sharers_start(struct sharers *sharers);
void sharers_stop(struct sharers *sharers);

#endif /* _MIGRC_SHARERS_H */
