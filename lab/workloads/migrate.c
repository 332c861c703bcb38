// SPDX-License-Identifier: GPL-2.0
/*
 * What migration costs: migrate_pages(2) moves a process between nodes 0 and 1, to and fro, while
 * threads of it read and write random pages, or do not.
 *
 * With --watch 1 a thread reads random pages, and the longest time that one of them took is printed
 * for each move, in microseconds.
 *
 * --folio is the size of the folios, 4 to 2048 KiB; huge pages are mapped by PTEs with "2048pte",
 * smaller ones always.  The markers are around all moves.  The line that is printed has what the
 * counters in /proc/vmstat have grown by meanwhile.
 */
#include "common.h"
#include "lab_folio.h"

#define MAX_THREADS	16
#define MAX_ROUNDS	64
#define SETTLE_S	0.5

static const char *const counters[] = {
	"pgmigrate_success", "pgmigrate_fail", "nr_tlb_remote_flush",
	"nr_tlb_remote_flush_received", "nr_tlb_local_flush_one", "nr_tlb_local_flush_all",
};

#define NR_COUNTERS	(sizeof(counters) / sizeof(counters[0]))

struct worker {
	pthread_t thread;
	char *p;
	size_t pages;
	uint64_t seed;
	volatile int *stop;
	uint64_t done;
};

static uint64_t next_random(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	uint64_t x = worker->seed;

	while (!*worker->stop) {
		for (int i = 0; i < 256; i++) {
			volatile char *p;

			x = next_random(x);
			p = worker->p + x % worker->pages * PAGE_SZ;
			if (x & 1 << 30)
				*p += 1;
			else
				(void)*p;
		}
		worker->done += 256;
	}
	return NULL;
}

/* Who accesses pages in random order, and the longest time that one access took, in ns */
struct watcher {
	pthread_t thread;
	char *p;
	size_t pages;
	volatile int *stop;
	_Atomic uint64_t longest;
};

static void *watch(void *arg)
{
	struct watcher *watcher = arg;
	uint64_t x = 0x9e3779b97f4a7c15;

	while (!*watcher->stop) {
		uint64_t began, took;

		x = next_random(x);
		began = (uint64_t)(now_s() * 1e9);
		(void)*(volatile char *)(watcher->p + x % watcher->pages * PAGE_SZ);
		took = (uint64_t)(now_s() * 1e9) - began;
		if (took > watcher->longest)
			watcher->longest = took;
	}
	return NULL;
}

static void read_counters(long long *value)
{
	char name[64];
	long long v;
	FILE *f = fopen("/proc/vmstat", "r");

	if (!f)
		die("%s: %s", "/proc/vmstat", strerror(errno));
	while (fscanf(f, "%63s %lld", name, &v) == 2)
		for (unsigned int i = 0; i < NR_COUNTERS; i++)
			if (!strcmp(name, counters[i]))
				value[i] = v;
	fclose(f);
}

static void migrate(int from, int to)
{
	unsigned long old = 1UL << from, new = 1UL << to;

	if (syscall(SYS_migrate_pages, 0, 64UL, &old, &new) < 0)
		die("%s: %s", "migrate_pages", strerror(errno));
}

int main(int argc, char **argv)
{
	uint64_t size_mb = 64, rounds = 4, nr = 0, touch_kb = 0, watched = 0, children = 0;
	const char *folio = "4";
	const struct opt opts[] = {
		{ "size-mb", OPT_U64, &size_mb, "how much memory the process has" },
		{ "folio", OPT_STR, &folio, "size in KiB; 2048pte: mapped by PTEs" },
		{ "rounds", OPT_U64, &rounds, "how often it moves" },
		{ "threads", OPT_U64, &nr, "that read and write meanwhile" },
		{ "touch-kb", OPT_U64, &touch_kb, "of the memory by these; 0: all" },
		{ "children", OPT_U64, &children, "processes that have the same pages" },
		{ "watch", OPT_U64, &watched, "1: see how long an access may take" },
		{ NULL, OPT_U64, NULL, NULL },
	};
	long long before[NR_COUNTERS] = {}, after[NR_COUNTERS] = {};
	struct worker workers[MAX_THREADS];
	uint64_t waits[MAX_ROUNDS] = {};
	struct watcher watcher = {};
	volatile int stop = 0;
	uint64_t done = 0;
	double began;
	size_t len;
	char *p;

	opt_parse(argc - 1, argv + 1, opts);
	if (nr > MAX_THREADS)
		die("%s: %s", "--threads", "0 to 16");
	if (rounds > MAX_ROUNDS)
		die("%s: %s", "--rounds", "0 to 64");
	len = size_mb << 20;
	use_folios(atoi(folio));
	p = map(len, MAP_PRIVATE);
	madvise(p, len, atoi(folio) == 4 ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	touch(p, len);
	if (strstr(folio, "pte"))
		split(p, len);
	for (uint64_t i = 0; i < children; i++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
	migrate(1, 0);	/* What is not there yet: libraries */
	for (uint64_t i = 0; i < nr; i++) {
		workers[i] = (struct worker){
			.p = p, .stop = &stop, .seed = 0x9e3779b97f4a7c15 * (i + 1),
			.pages = touch_kb ? (touch_kb << 10) / PAGE_SZ : len / PAGE_SZ,
		};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("%s: %s", "pthread_create", strerror(errno));
	}
	watcher = (struct watcher){ .p = p, .pages = len / PAGE_SZ, .stop = &stop };
	if (watched && pthread_create(&watcher.thread, NULL, watch, &watcher))
		die("%s: %s", "pthread_create", strerror(errno));
	sleep_s(SETTLE_S);
	read_counters(before);
	began = now_s();
	lab_start();
	for (uint64_t i = 0; i < rounds; i++) {
		watcher.longest = 0;
		migrate(i & 1, !(i & 1));
		waits[i] = watcher.longest / 1000;
	}
	lab_stop();
	began = now_s() - began;
	read_counters(after);
	stop = 1;
	for (uint64_t i = 0; i < nr; i++) {
		pthread_join(workers[i].thread, NULL);
		done += workers[i].done;
	}
	if (watched)
		pthread_join(watcher.thread, NULL);
	printf("RESULT {\"folio\": \"%s\", \"ms\": %.3f, \"accesses\": %llu", folio, began * 1e3,
	       (unsigned long long)done);
	for (unsigned int i = 0; i < NR_COUNTERS; i++)
		printf(", \"%s\": %lld", counters[i], after[i] - before[i]);
	printf(", \"waits_us\": [");
	for (uint64_t i = 0; watched && i < rounds; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)waits[i]);
	printf("]}\n");
	return 0;
}
