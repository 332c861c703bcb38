// SPDX-License-Identifier: GPL-2.0
/*
 * press: threads access random pages of memory that is taken away from them, a fixed number of
 * times.  The memory is anonymous, of which --write-pct of the accesses write, or with --file a
 * file that is mapped read-only.  Nine of ten accesses go to the first half.  With --pause-us, each
 * thread sleeps after 64 accesses, so most pages are cold.
 *
 * Another thread of the process touches a few locked pages all the time.  It takes note of its
 * longest pause in each of 1,000 windows of 10 ms: what the work of the others costs a thread that
 * lacks no memory.  The result has the median of the windows and the longest, in microseconds.
 *
 * Each anonymous page carries its number, and is checked at the end.  SIGTERM ends the work early.
 */
#include "common.h"

#include <fcntl.h>

enum { BATCH = 64, WINDOWS = 1000, WINDOW_MS = 10, LOCKED = 16 };

static struct {
	uint64_t size_mb, threads, ops, write_pct, pause_us, seed;
	const char *file;
} cfg = {
	.size_mb = 64, .threads = 8, .ops = 100000, .write_pct = 50, .seed = 1, .file = "",
};

static const struct opt opts[] = {
	{ "size-mb", OPT_U64, &cfg.size_mb, "anonymous memory, or how much of the file to map" },
	{ "threads", OPT_U64, &cfg.threads, "worker threads, at most 64" },
	{ "ops", OPT_U64, &cfg.ops, "accesses of each thread" },
	{ "write-pct", OPT_U64, &cfg.write_pct, "accesses that write, in percent" },
	{ "pause-us", OPT_U64, &cfg.pause_us, "a thread sleeps so long after 64 accesses" },
	{ "file", OPT_STR, &cfg.file, "map this file instead" },
	{ "seed", OPT_U64, &cfg.seed, "random seed" },
	{ NULL, OPT_U64, NULL, NULL },
};

static char *base;
static uint32_t npages;
static volatile sig_atomic_t ended;
static _Atomic int watching = 1;
static double pauses[WINDOWS];
static int nr_pauses;

static void end_early(int sig)
{
	(void)sig;
	ended = 1;
}

static void work(struct team *t, unsigned int id)
{
	uint64_t ops = 0, sum = 0;
	struct rng r;

	rng_seed(&r, cfg.seed * 64 + id);
	while (ops < cfg.ops && !ended) {
		for (int i = 0; i < BATCH; i++) {
			uint32_t half = rng_below(&r, 10) ? 0 : npages / 2;
			uint32_t page = half + rng_below(&r, npages / 2);
			volatile uint64_t *p = (volatile uint64_t *)(base + page * PAGE_SZ);

			if (rng_below(&r, 100) < cfg.write_pct)
				p[1 + id] += 1;
			else
				sum += p[0];
		}
		ops += BATCH;
		team_count(t, id, ops);
		if (cfg.pause_us)
			usleep(cfg.pause_us);
	}
	if (sum == 0x6c6162)	/* keeps the loads alive */
		fputs("", stderr);
}

static void *watch(void *unused)
{
	volatile char *p = region_map(LOCKED * PAGE_SZ, false);
	double began, last, now, longest;

	(void)unused;
	if (mlock((char *)p, LOCKED * PAGE_SZ))
		die("mlock: %s", strerror(errno));
	while (atomic_load(&watching) && nr_pauses < WINDOWS) {
		began = last = now_s();
		longest = 0;
		while (last - began < WINDOW_MS * 1e-3) {
			for (int i = 0; i < LOCKED; i++)
				p[i * PAGE_SZ] += 1;
			now = now_s();
			longest = now - last > longest ? now - last : longest;
			last = now;
		}
		pauses[nr_pauses++] = longest;
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void map_file(size_t bytes)
{
	int fd = open(cfg.file, O_RDONLY);

	base = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		die("%s: %s", cfg.file, strerror(errno));
}

int main(int argc, char **argv)
{
	static struct team team = { .work = work };
	pthread_t watcher;
	size_t bytes;

	opt_parse(argc - 1, argv + 1, opts);
	if (cfg.threads < 1 || cfg.threads > 64)
		die("--threads must be 1 to 64");
	bytes = cfg.size_mb << 20;
	npages = bytes / PAGE_SZ;
	if (*cfg.file) {
		cfg.write_pct = 0;
		map_file(bytes);
	} else {
		base = region_map(bytes, false);
		region_stamp(base, bytes);
	}
	signal(SIGTERM, end_early);
	team.threads = (unsigned int)cfg.threads;
	if (pthread_create(&watcher, NULL, watch, NULL))
		die("cannot start the thread that is watched");
	team_run(&team);
	atomic_store(&watching, 0);
	pthread_join(watcher, NULL);
	if (!*cfg.file)
		region_verify(base, bytes);
	qsort(pauses, nr_pauses, sizeof(pauses[0]), compare);
	printf("RESULT {\"ops\":%llu,\"seconds\":%.3f,\"windows\":%d,\"pause_us\":%.0f,"
	       "\"pause_most_us\":%.0f,\"verified\":true}\n",
	       (unsigned long long)team_ops(&team), team.seconds, nr_pauses,
	       nr_pauses ? pauses[nr_pauses / 2] * 1e6 : 0,
	       nr_pauses ? pauses[nr_pauses - 1] * 1e6 : 0);
	return 0;
}
