/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A memory control group of the test's own, whose pages can be reclaimed.  MADV_PAGEOUT
 * reclaims, too, but flushes what has been deferred when it walks the page table; reclaim that
 * comes from the lists of pages, as kswapd's does, walks none.
 */
#ifndef _MIGRC_GROUP_H
#define _MIGRC_GROUP_H

#include <stdbool.h>

struct group {
	char root[32], dir[48];
};

/* What this process brings in belongs to the group until group_leave(), and stays with it. */
bool group_enter(struct group *group);
void group_leave(struct group *group);
/* Reclaim its anonymous pages, @size bytes if it can be done. */
void group_reclaim(struct group *group, unsigned long size);
void group_destroy(struct group *group);

#endif /* _MIGRC_GROUP_H */
