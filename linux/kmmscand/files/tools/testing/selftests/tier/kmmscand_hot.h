/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that are kept hot, and whether they are promoted: what the tests of kmmscand at
 * the edge and under hotplug share.
 */
#ifndef _KMMSCAND_HOT_H
#define _KMMSCAND_HOT_H

#include "kmmscand_util.h"

#define AREA		(1024UL * 1024)
#define NR_AREA		(AREA / PAGE)

/* Seconds until hot pages must have arrived */
#define ARRIVE_S	10

static bool is_enabled(void)
{
	char buf[32] = "";

	read_file(KMMSCAND "enabled", buf, sizeof(buf));
	return !strcmp(buf, "1");
}

static void warm(const char *addr, size_t len, double seconds)
{
	double end = now() + seconds;

	do {
		touch(addr, len);
		/* Others need the CPU, too. */
		usleep(2000);
	} while (now() < end);
}

/* Keep pages hot until most of them are on the fast node. */
static bool rises(char *addr, size_t len)
{
	double end = now() + ARRIVE_S;
	unsigned long nr = len / PAGE, moved;

	do {
		warm(addr, len, 0.3);
		moved = count_on(addr, len, fast);
		if (moved >= nr * 9 / 10)
			return true;
	} while (now() < end);
	ksft_print_msg("only %lu of %lu hot pages were promoted\n", moved, nr);
	return false;
}

/* Both kinds of threads are there, and scan. */
static bool threads_work(void)
{
	long scanned = event_count("kmmscand_pte_scanned");
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
	return ok && event_count("kmmscand_pte_scanned") > scanned;
}

#endif /* _KMMSCAND_HOT_H */
