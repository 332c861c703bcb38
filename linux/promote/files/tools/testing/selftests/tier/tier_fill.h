/* SPDX-License-Identifier: GPL-2.0 */
/*
 * To fill a node up to its high watermark, and to leave it without large free blocks.
 */
#ifndef _TIER_FILL_H
#define _TIER_FILL_H

#include "tier_util.h"

#define MIN_FREE "/proc/sys/vm/min_free_kbytes"
/* Per-CPU lists of free pages; 0 lets them grow to a thousand pages */
#define PCP_HIGH "/proc/sys/vm/percpu_pagelist_high_fraction"

/*
 * Pages that could still be taken from the node before its fullest zone reaches
 * the high watermark; what tier_target_has_room() looks at.
 */
static long room(int nid)
{
	long free = 0, high = 0, managed = 0, prot, best = -1000000;
	bool here = false;
	char line[512];
	int n;
	FILE *f = fopen("/proc/zoneinfo", "r");

	if (!f)
		return best;
	while (fgets(line, sizeof(line), f)) {
		char key[32], *p;
		long val;

		if (sscanf(line, "Node %d, zone", &n) == 1)
			here = n == nid;
		if (!here)
			continue;
		if (sscanf(line, " pages free %ld", &val) == 1) {
			free = val;
		} else if (sscanf(line, " %31s %ld", key, &val) == 2) {
			if (!strcmp(key, "high"))
				high = val;
			else if (!strcmp(key, "managed"))
				managed = val;
		}
		p = strstr(line, "protection: (");
		if (!p || !managed)
			continue;
		/* The last one is for allocations from the highest zone. */
		p = strrchr(p, ',');
		prot = p ? strtol(p + 1, NULL, 10) : 0;
		if (free - high - prot > best)
			best = free - high - prot;
	}
	fclose(f);
	return best;
}

/* For zone_value(): kswapd has given up */
#define UNRECLAIMABLE	"node_unreclaimable:"

/* The largest value of a key among the node's zones in /proc/zoneinfo, or -1. */
static inline long zone_value(int nid, const char *key)
{
	long val, best = -1;
	bool here = false;
	char line[512], k[32];
	int n;
	FILE *f = fopen("/proc/zoneinfo", "r");

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Node %d, zone", &n) == 1)
			here = n == nid;
		else if (here && sscanf(line, " %31s %ld", k, &val) == 2 && !strcmp(k, key) &&
			 val > best)
			best = val;
	}
	fclose(f);
	return best;
}

/* Address space whose pages will come from one node, and none yet; or NULL. */
static char *map_bound(size_t len, int nid)
{
	unsigned long mask = 1UL << nid;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (!syscall(__NR_mbind, p, len, MPOL_BIND, &mask, (unsigned long)MAX_NODES + 1, 0))
		return p;
	munmap(p, len);
	return NULL;
}

/*
 * Fill a node with small pages until hardly a huge page fits above its
 * high watermark.  What is left covers what the per-CPU lists may grab at once, so
 * that nobody is asked to reclaim.  With PCP_HIGH unset they grab more.
 */
static char *fill_node(int nid, size_t *len)
{
	size_t size = 1UL << 36, used = 0;
	int settled = 0;
	char *p = map_bound(size, nid);

	if (!p)
		return NULL;
	madvise(p, size, MADV_NOHUGEPAGE);
	while (used < size) {
		long left = room(nid) - 256, i;

		/*
		 * Others free memory late (per-CPU lists, RCU, the quarantine of
		 * KASAN): full is what stays full.
		 */
		if (left <= 0) {
			if (++settled == 5)
				break;
			usleep(100000);
			continue;
		}
		settled = 0;
		/* Per-CPU lists blur the counters: in small steps to the end. */
		left = left > 4096 ? left / 2 : left > 32 ? 32 : left;
		for (i = 0; i < left; i++, used += PAGE)
			p[used] = 1;
	}
	munmap(p + used, size - used);
	*len = used;
	return p;
}

/*
 * Take the huge blocks of a node, until no more than @keep pages are free above the high
 * watermark.  With fill_node() and punch_holes() afterwards there is free memory, but
 * hardly any in large blocks.  Changes settings.
 */
static inline char *use_up_blocks(int nid, long keep, size_t *len)
{
	size_t size = 1UL << 34, used;
	char *p = map_bound(size, nid);

	if (!p)
		return NULL;
	/*
	 * Nobody is to make huge blocks while we use them up, and only a handful
	 * may be left below the watermark (THP raises it a lot).  But enough that
	 * imprecise counters do not lead us into the OOM killer.
	 */
	change(MIN_FREE, "4096");
	change(THP "defrag", "never");
	change("/proc/sys/vm/compaction_proactiveness", "0");

	madvise(p, size, MADV_HUGEPAGE);
	used = -(uintptr_t)p & (HUGE - 1);
	while (used + HUGE <= size && room(nid) > keep + 1024) {
		p[used] = 1;
		used += HUGE;
	}
	*len = size;
	return p;
}

/* Free every other page of what fill_node() has mapped. */
static inline void punch_holes(char *p, size_t len)
{
	size_t hole;

	for (hole = 0; hole + PAGE < len; hole += 2 * PAGE)
		madvise(p + hole, PAGE, MADV_DONTNEED);
}

#endif /* _TIER_FILL_H */
