// SPDX-License-Identifier: GPL-2.0
/* Scans of NUMA balancing, see scan.h. */
#include <stdio.h>
#include <string.h>

#include "knobs.h"
#include "scan.h"
#include "threads.h"

#define NUMA	"/sys/kernel/debug/sched/numa_balancing/"
#define MODE	"/proc/sys/kernel/numa_balancing"

struct scanner {
	struct worker *worker;
	char *area;
};

const char *scans_begin(void)
{
	static const char * const knobs[][2] = {
		{ MODE, "2" },
		{ NUMA "scan_delay_ms", "1" },
		{ NUMA "scan_period_min_ms", "20" },
		{ NUMA "scan_period_max_ms", "100" },
		{ NUMA "hot_threshold_ms", "20000" },
	};
	size_t i;

	for (i = 0; i < sizeof(knobs) / sizeof(*knobs); i++)
		if (set(knobs[i][0], knobs[i][1]))
			return "no NUMA balancing that can be set";
	return NULL;
}

struct scanner *scanner_start(int cpu, unsigned int window_ms)
{
	struct scanner *scanner = shared_alloc(sizeof(*scanner));
	char window[16];

	snprintf(window, sizeof(window), "%u", window_ms);
	if (!scanner || set(MIGRC_DEBUG "scan_delay_ms", window))
		return NULL;
	scanner->worker = worker_start(cpu);
	return scanner->worker ? scanner : NULL;
}

void scanner_stop(struct scanner *scanner)
{
	worker_stop(scanner->worker);
	shared_free(scanner, sizeof(*scanner));
}

static void scan(void *arg)
{
	struct scanner *scanner = arg;
	char addr[32];

	snprintf(addr, sizeof(addr), "%#lx", (unsigned long)scanner->area);
	write_file(MIGRC_DEBUG "scan", addr);
}

bool scan_begin(struct scanner *scanner, char *p)
{
	long updates = counter("numa_pte_updates");

	scanner->area = p;
	worker_run(scanner->worker, scan, scanner);
	/* Counted before the flush */
	while (worker_busy(scanner->worker))
		if (counter("numa_pte_updates") != updates)
			return true;
	return false;
}

void scan_end(struct scanner *scanner)
{
	worker_wait(scanner->worker);
}
