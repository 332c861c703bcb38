// SPDX-License-Identifier: GPL-2.0
/*
 * What unmapping costs: populates memory, unmaps it in some way, and says how long that took.
 *
 *   munmap      one munmap(2) of all
 *   dontneed    one madvise(2) of all
 *   pieces      munmap(2) of 64 KiB at a time
 *   exit        a process with the memory exits
 *   nodes       munmap(2), pages on nodes 0 and 1 in turn
 *   groups      munmap(2) of shared pages that are charged to two groups in turn
 *   scattered   munmap(2) of neighbours whose page frames are no neighbours
 *   shell       fork(2) and exit of a small child, as a shell does
 *   threads     munmap(2) by --threads threads of one process at once, each its part
 *   reclaim     memory.reclaim of clean page cache, of --file
 *
 * --folio is the size of the folios, 4 to 2048 KiB; huge pages are mapped by PTEs with "2048pte",
 * smaller ones always.  A line is printed for each round.  The time is the guest's: under QEMU's
 * icount it is the number of instructions.  The markers are around what is timed.
 *
 * "groups" and "reclaim" need memory control groups, /sys/fs/cgroup/zap-a and -b.
 */
#include "common.h"
#include "lab_folio.h"

#define PIECE		(64UL << 10)
#define CHILDREN	64
#define MAX_THREADS	8
/* Before what is timed: others' RCU callbacks are over by then */
#define SETTLE_S	0.5

static void bind_pages(char *p, size_t len)
{
	for (size_t i = 0; i < len; i += PAGE_SZ) {
		unsigned long mask = 1UL << (i / PAGE_SZ % 2);

		if (syscall(SYS_set_mempolicy, 2 /* MPOL_BIND */, &mask, 64UL))
			die("%s: %s", "set_mempolicy", strerror(errno));
		p[i] = 1;
	}
	syscall(SYS_set_mempolicy, 0, NULL, 0UL);
}

static void charge_in_turn(char *p, size_t len)
{
	for (int i = 0; i < 2; i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			put(i ? "/sys/fs/cgroup/zap-b/cgroup.procs" :
				"/sys/fs/cgroup/zap-a/cgroup.procs", "0");
			for (size_t at = i * PAGE_SZ; at < len; at += 2 * PAGE_SZ)
				p[at] = 1;
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			die("%s: %s", "a child that touches shared memory", strerror(errno));
	}
	for (size_t at = 0; at < len; at += PAGE_SZ)
		*(volatile char *)(p + at);
}

/* Frames come in the order of touching. */
static void touch_scattered(char *p, size_t len)
{
	size_t nr = len / PAGE_SZ;

	if (nr & (nr - 1))
		die("%s: %s", "--size-mb", "is no power of two");
	for (size_t i = 0; i < nr; i++)
		p[i * 40503 % nr * PAGE_SZ] = 1;
}

static double exits(size_t len, int kb, int pte)
{
	double *began = mmap(NULL, PAGE_SZ, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double s;
	pid_t pid = fork();

	if (!pid) {
		char *p = map(len, MAP_PRIVATE);

		madvise(p, len, kb == 4 ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
		touch(p, len);
		if (pte)
			split(p, len);
		sleep_s(SETTLE_S);
		*began = now_s();
		lab_start();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	lab_stop();
	s = now_s() - *began;
	munmap(began, PAGE_SZ);
	return s;
}

static double shell(void)
{
	double began;

	sleep_s(SETTLE_S);
	began = now_s();
	lab_start();
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	lab_stop();
	return now_s() - began;
}

struct part {
	pthread_barrier_t *barrier;
	char *p;
	size_t len;
};

static void *unmap_part(void *arg)
{
	struct part *part = arg;

	touch(part->p, part->len);
	pthread_barrier_wait(part->barrier);	/* all have touched theirs */
	pthread_barrier_wait(part->barrier);	/* the markers are set */
	munmap(part->p, part->len);
	return NULL;
}

static double threads(size_t len, unsigned int nr)
{
	pthread_barrier_t barrier;
	pthread_t thread[MAX_THREADS];
	struct part part[MAX_THREADS];
	double began;

	pthread_barrier_init(&barrier, NULL, nr + 1);
	for (unsigned int i = 0; i < nr; i++) {
		part[i] = (struct part){ &barrier, map(len / nr, MAP_PRIVATE), len / nr };
		madvise(part[i].p, part[i].len, MADV_NOHUGEPAGE);
		if (pthread_create(&thread[i], NULL, unmap_part, &part[i]))
			die("%s: %s", "pthread_create", strerror(errno));
	}
	pthread_barrier_wait(&barrier);
	sleep_s(SETTLE_S);
	began = now_s();
	lab_start();
	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
	lab_stop();
	return now_s() - began;
}

static double reclaim(size_t len, const char *file)
{
	char *buf = malloc(PIECE), amount[32];
	int fd = open(file, O_RDONLY);
	double began;

	if (!buf || fd < 0)
		die("%s: %s", file, strerror(errno));
	put("/sys/fs/cgroup/zap-a/cgroup.procs", "0");
	for (size_t at = 0; at < len; at += PIECE)
		if (read(fd, buf, PIECE) != PIECE)
			die("%s: %s", file, "is too short");
	snprintf(amount, sizeof(amount), "%zu", len / 2);
	sleep_s(SETTLE_S);
	began = now_s();
	lab_start();
	put("/sys/fs/cgroup/zap-a/memory.reclaim", amount);
	lab_stop();
	close(fd);
	free(buf);
	return now_s() - began;
}

static double unmaps(const char *how, size_t len, int kb, int pte)
{
	int groups = !strcmp(how, "groups");
	char *p = map(len, groups ? MAP_SHARED : MAP_PRIVATE);
	double began;

	madvise(p, len, kb == 4 ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	if (groups)
		charge_in_turn(p, len);
	else if (!strcmp(how, "nodes"))
		bind_pages(p, len);
	else if (!strcmp(how, "scattered"))
		touch_scattered(p, len);
	else
		touch(p, len);
	if (pte)
		split(p, len);
	sleep_s(SETTLE_S);
	began = now_s();
	lab_start();
	if (!strcmp(how, "dontneed")) {
		madvise(p, len, MADV_DONTNEED);
	} else if (!strcmp(how, "pieces")) {
		for (size_t i = 0; i < len; i += PIECE)
			munmap(p + i, PIECE);
	} else {
		munmap(p, len);
	}
	lab_stop();
	began = now_s() - began;
	munmap(p, len);
	return began;
}

int main(int argc, char **argv)
{
	uint64_t size_mb = 256, rounds = 1, nr_threads = 1;
	const char *how = "munmap", *folio = "4", *file = "/dev/vda";
	const struct opt opts[] = {
		{ "case", OPT_STR, &how, "munmap, dontneed, pieces, exit, nodes, groups, "
		  "scattered, shell, threads or reclaim" },
		{ "size-mb", OPT_U64, &size_mb, "how much is unmapped" },
		{ "folio", OPT_STR, &folio, "size in KiB; 2048pte: mapped by PTEs" },
		{ "rounds", OPT_U64, &rounds, "how often" },
		{ "threads", OPT_U64, &nr_threads, "of the case threads" },
		{ "file", OPT_STR, &file, "whose page cache is reclaimed" },
		{ NULL, OPT_U64, NULL, NULL },
	};
	size_t len;
	int kb, pte;

	opt_parse(argc - 1, argv + 1, opts);
	len = size_mb << 20;
	kb = atoi(folio);
	pte = !!strstr(folio, "pte");
	use_folios(kb);
	if (!nr_threads || nr_threads > MAX_THREADS)
		die("%s: %s", "--threads", "1 to 8");
	while (rounds--) {
		double each = (double)len / PAGE_SZ, s;

		if (!strcmp(how, "exit")) {
			s = exits(len, kb, pte);
		} else if (!strcmp(how, "shell")) {
			s = shell();
			each = CHILDREN;
		} else if (!strcmp(how, "threads")) {
			s = threads(len, nr_threads);
		} else if (!strcmp(how, "reclaim")) {
			s = reclaim(len, file);
			each /= 2;
		} else {
			s = unmaps(how, len, kb, pte);
		}
		printf("RESULT {\"case\": \"%s\", \"folio\": \"%s\", \"ms\": %.3f, "
		       "\"ns_each\": %.1f}\n", how, folio, s * 1e3, s * 1e9 / each);
	}
	return 0;
}
