/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that are kept hot, and whether they are promoted: what most of the tests of
 * kmmscand share.
 */
#ifndef _KMMSCAND_HOT_H
#define _KMMSCAND_HOT_H

#include "kmmscand_util.h"

#define AREA		(1024UL * 1024)
#define NR_AREA		(AREA / PAGE)

/* Seconds until hot pages must have arrived */
#define ARRIVE_S	20

/* Does it look? */
static inline bool is_enabled(void)
{
	return tier_part_on("scan");
}

static inline void warm(const char *addr, size_t len, double seconds)
{
	double end = now() + seconds;

	do
		touch_and_rest(addr, len);
	while (now() < end);
}

/* Keep pages hot for so long, or until the share of them is on the fast node, in percent. */
static unsigned long keep_hot(char *addr, size_t len, double seconds, unsigned int percent)
{
	double end = now() + seconds, next = now() + 0.3;
	unsigned long moved = 0;

	while (now() < end && moved * PAGE < len / 100 * percent) {
		touch_and_rest(addr, len);
		if (now() >= next || now() >= end) {
			moved = count_on(addr, len, fast);
			next = now() + 0.3;
		}
	}
	return moved;
}

/* Keep pages hot until most of them are on the fast node. */
static inline bool rises(char *addr, size_t len)
{
	double start = now();
	unsigned long moved = keep_hot(addr, len, ARRIVE_S, 90);

	ksft_print_msg("%lu of %lu hot pages were promoted in %.1f s\n", moved, len / PAGE,
		       now() - start);
	return moved >= len / PAGE * 9 / 10;
}

/* Both kinds of threads are there, and scan. */
static inline bool threads_work(void)
{
	long scanned = event_count("tier_scan_pte");
	char *p = map_on(AREA, slow, false);
	char comm[32];
	bool ok = p;

	snprintf(comm, sizeof(comm), "kmmscand%d", fast);
	ok &= thread_pid(comm) > 0;
	snprintf(comm, sizeof(comm), "kpromoted%d", slow);
	ok &= thread_pid(comm) > 0;
	ok = ok && rises(p, AREA);
	if (p)
		unmap_on(p, AREA);
	return ok && event_count("tier_scan_pte") > scanned;
}

#endif /* _KMMSCAND_HOT_H */
