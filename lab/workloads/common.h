/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the guest workloads share: errors, clock, seeded random numbers, a Zipf
 * sampler, a scattering permutation, NUMA residency, and the READY/GO protocol
 * through which lab/agent.py drives them.
 *
 * Protocol.  A workload sets up its memory, prints "READY" and waits for one
 * line on stdin (end of file counts as GO, so that a workload also runs by
 * hand).  The agent places the memory in between, while nothing moves.  Then
 * the workload emits lab_start(), does its work, emits lab_stop(), prints "DONE",
 * and last a line "RESULT {json}".  While it works it prints
 * "PROGRESS {json}" about once a second.  A workload that has to prepare
 * something of its own after the placement does that after GO, prints "PLACED"
 * and waits for a second GO; its lab_start() comes after that one.
 *
 * No libnuma, no policy calls: memory is moved by move_pages(2) and
 * migrate_pages(2) under the default policy, because a binding would keep
 * every contender from moving it again.
 */
#ifndef LAB_COMMON_H
#define LAB_COMMON_H

#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lab_marker.h"

#define PAGE_SZ		4096UL
#define LINE_SZ		64UL
#define LAB_UNUSED	__attribute__((unused))
#define MAX_NODES	8

/* errors and clock */

LAB_UNUSED __attribute__((noreturn, format(printf, 1, 2)))
static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

LAB_UNUSED static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

LAB_UNUSED static void sleep_s(double s)
{
	struct timespec ts = { .tv_sec = (time_t)s };

	ts.tv_nsec = (long)((s - (double)ts.tv_sec) * 1e9);
	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

/* arguments: "--name value" pairs, every one known, every value checked */

struct opt {
	const char *name;
	enum { OPT_U64, OPT_F64, OPT_STR } kind;
	void *to;
	const char *help;
};

LAB_UNUSED __attribute__((noreturn))
static void opt_usage(const struct opt *opts, const char *why, const char *arg)
{
	fprintf(stderr, "%s: %s '%s'; options:\n",
		program_invocation_short_name, why, arg);
	for (; opts->name; opts++)
		fprintf(stderr, "  --%-12s %s\n", opts->name, opts->help);
	exit(2);
}

LAB_UNUSED static void opt_parse(int argc, char **argv, const struct opt *opts)
{
	for (int i = 0; i < argc; i += 2) {
		const struct opt *o = opts;
		const char *val;
		char *end = NULL;

		while (o->name && (strncmp(argv[i], "--", 2) ||
				   strcmp(argv[i] + 2, o->name)))
			o++;
		if (!o->name)
			opt_usage(opts, "unknown option", argv[i]);
		if (i + 1 >= argc)
			opt_usage(opts, "no value for", argv[i]);
		val = argv[i + 1];
		errno = 0;
		switch (o->kind) {
		case OPT_U64:
			*(uint64_t *)o->to = strtoull(val, &end, 0);
			if (*val == '-')
				errno = ERANGE;
			break;
		case OPT_F64:
			*(double *)o->to = strtod(val, &end);
			break;
		case OPT_STR:
			*(const char **)o->to = val;
			break;
		}
		if (end && (end == val || *end || errno))
			opt_usage(opts, "bad value for", argv[i]);
	}
}

/* random numbers: splitmix64 seeds and hashes, xorshift64* draws */

LAB_UNUSED static uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

struct rng {
	uint64_t s;
};

LAB_UNUSED static void rng_seed(struct rng *r, uint64_t seed)
{
	r->s = mix64(seed) | 1;
}

LAB_UNUSED static uint64_t rng_next(struct rng *r)
{
	r->s ^= r->s >> 12;
	r->s ^= r->s << 25;
	r->s ^= r->s >> 27;
	return r->s * 0x2545f4914f6cdd1dULL;
}

/* Uniform in [0, n); multiply-shift, whose bias is below n / 2^32. */
LAB_UNUSED static uint32_t rng_below(struct rng *r, uint32_t n)
{
	return (uint32_t)(((rng_next(r) >> 32) * n) >> 32);
}

/*
 * Zipf(theta) over ranks 0..n-1, rank 0 the most likely, by Walker's alias
 * method: exact up to 2^-32, one random number and one table entry per draw
 * and no floating point, which is slow under emulation.
 */
struct alias {
	uint32_t n;
	struct alias_slot {
		uint32_t keep;	/* stay in this slot below keep / 2^32 */
		uint32_t other;
	} *slot;
};

LAB_UNUSED static void zipf_init(struct alias *a, uint32_t n, double theta)
{
	double *p = malloc(n * sizeof(*p)), sum = 0;
	uint32_t *small = malloc(n * sizeof(*small));
	uint32_t *large = malloc(n * sizeof(*large));
	uint32_t ns = 0, nl = 0;

	a->n = n;
	a->slot = malloc(n * sizeof(*a->slot));
	if (!n || !p || !small || !large || !a->slot)
		die("no memory for a Zipf table of %u entries", n);
	for (uint32_t i = 0; i < n; i++)
		sum += p[i] = pow(i + 1.0, -theta);
	for (uint32_t i = 0; i < n; i++) {
		p[i] *= n / sum;
		if (p[i] < 1)
			small[ns++] = i;
		else
			large[nl++] = i;
	}
	while (ns && nl) {
		uint32_t s = small[--ns], l = large[nl - 1];

		a->slot[s].keep = (uint32_t)(p[s] * 4294967295.0);
		a->slot[s].other = l;
		p[l] -= 1 - p[s];
		if (p[l] < 1) {
			nl--;
			small[ns++] = l;
		}
	}
	while (ns + nl) {	/* what is left is 1 up to rounding */
		uint32_t i = ns ? small[--ns] : large[--nl];

		a->slot[i].keep = UINT32_MAX;
		a->slot[i].other = i;
	}
	free(p);
	free(small);
	free(large);
}

LAB_UNUSED static uint32_t zipf_draw(const struct alias *a, struct rng *r)
{
	uint64_t x = rng_next(r);
	uint32_t i = (uint32_t)(((x >> 32) * a->n) >> 32);

	/* The low half of xorshift64* is weaker than the high half, so mix. */
	return (uint32_t)(x ^ (x >> 29)) < a->slot[i].keep ? i : a->slot[i].other;
}

/*
 * Scatter ranks over units: a seeded Fisher-Yates shuffle, so that what is hot
 * is not contiguous.
 */
LAB_UNUSED static uint32_t *scatter(uint32_t n, uint64_t seed)
{
	uint32_t *perm = malloc(n * sizeof(*perm));
	struct rng r;

	if (!perm)
		die("no memory for a permutation of %u", n);
	rng_seed(&r, seed ^ 0x73636174746572ULL);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t j = rng_below(&r, i + 1);

		perm[i] = perm[j];
		perm[j] = i;
	}
	return perm;
}

/* memory: a private anonymous region, 4 KiB pages or THP by madvise */

LAB_UNUSED static char *region_map(size_t bytes, bool thp)
{
	size_t align = 2UL << 20;
	char *p = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *q;

	if (p == MAP_FAILED)
		die("mmap of %zu bytes: %s", bytes, strerror(errno));
	q = (char *)(((uintptr_t)p + align - 1) & ~(align - 1));
	if (madvise(q, bytes, thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) &&
	    (thp || errno != EINVAL))
		die("madvise(%s): %s (kernel without THP?)",
		    thp ? "MADV_HUGEPAGE" : "MADV_NOHUGEPAGE", strerror(errno));
	return q;
}

/* Each page carries its number in its first word, to see that no page is lost. */
LAB_UNUSED static void region_stamp(char *base, size_t bytes)
{
	for (size_t i = 0; i < bytes / PAGE_SZ; i++)
		*(volatile uint64_t *)(base + i * PAGE_SZ) = mix64(i);
}

LAB_UNUSED static void region_verify(char *base, size_t bytes)
{
	for (size_t i = 0; i < bytes / PAGE_SZ; i++)
		if (*(volatile uint64_t *)(base + i * PAGE_SZ) != mix64(i))
			die("CORRUPTION: page %zu of the region changed", i);
}

/* Where pages are, by the query form of move_pages(2): it moves nothing. */
LAB_UNUSED static void page_nodes(char *base, size_t npages, int *node)
{
	enum { CHUNK = 2048 };
	void *addr[CHUNK];

	for (size_t i = 0; i < npages; i += CHUNK) {
		size_t n = npages - i < CHUNK ? npages - i : CHUNK;

		for (size_t j = 0; j < n; j++)
			addr[j] = base + (i + j) * PAGE_SZ;
		if (syscall(SYS_move_pages, 0, n, addr, NULL, node + i, 0))
			die("move_pages query: %s", strerror(errno));
	}
}

/* Place a region on nodes, page by page in turn, whatever node it is on now. */
LAB_UNUSED static void region_spread(char *base, size_t npages, const int *to, size_t nr)
{
	enum { CHUNK = 2048 };
	void *addr[CHUNK];
	int want[CHUNK], got[CHUNK];

	for (size_t i = 0; i < npages; i += CHUNK) {
		size_t n = npages - i < CHUNK ? npages - i : CHUNK;

		for (size_t j = 0; j < n; j++) {
			addr[j] = base + (i + j) * PAGE_SZ;
			want[j] = to[(i + j) % nr];
		}
		if (syscall(SYS_move_pages, 0, n, addr, want, got, 2 /* MPOL_MF_MOVE */) < 0)
			die("move_pages to node %d: %s", want[0], strerror(errno));
	}
}

LAB_UNUSED static void region_place(char *base, size_t npages, int to)
{
	region_spread(base, npages, &to, 1);
}

struct residency {
	uint64_t on[MAX_NODES];
	uint64_t absent;
};

LAB_UNUSED static struct residency residency_count(const int *node, size_t n)
{
	struct residency r = { 0 };

	for (size_t i = 0; i < n; i++) {
		if (node[i] >= 0 && node[i] < MAX_NODES)
			r.on[node[i]]++;
		else
			r.absent++;
	}
	return r;
}

LAB_UNUSED static struct residency region_residency(char *base, size_t npages)
{
	int *node = malloc(npages * sizeof(*node));
	struct residency r;

	if (!node)
		die("no memory for %zu page states", npages);
	page_nodes(base, npages, node);
	r = residency_count(node, npages);
	free(node);
	return r;
}

/* "[pages on node 0, node 1, ...]" as JSON, up to the last node that has any */
LAB_UNUSED static const char *residency_json(const struct residency *r)
{
	static char buf[256];
	int last = 1, at = 0;

	for (int i = 0; i < MAX_NODES; i++)
		if (r->on[i] && i > last)
			last = i;
	for (int i = 0; i <= last; i++)
		at += snprintf(buf + at, sizeof(buf) - (size_t)at, "%s%llu",
			       i ? "," : "[", (unsigned long long)r->on[i]);
	snprintf(buf + at, sizeof(buf) - (size_t)at, "]");
	return buf;
}

/* AnonHugePages in KiB of the mappings that overlap [base, base + bytes). */
LAB_UNUSED static uint64_t region_anon_huge_kb(const char *base, size_t bytes)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long long lo, hi, kb, sum = 0;
	bool mine = false;
	char line[512];

	if (!f)
		die("/proc/self/smaps: %s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx-%llx ", &lo, &hi) == 2)
			mine = lo < (uintptr_t)base + bytes && hi > (uintptr_t)base;
		else if (mine && sscanf(line, "AnonHugePages: %llu kB", &kb) == 1)
			sum += kb;
	}
	fclose(f);
	return sum;
}

/* Pin the calling thread to the i-th CPU that the process may use. */
LAB_UNUSED static void pin_nth(unsigned int i)
{
	cpu_set_t all, one;
	unsigned int n, at = 0;

	if (sched_getaffinity(0, sizeof(all), &all))
		die("sched_getaffinity: %s", strerror(errno));
	n = (unsigned int)CPU_COUNT(&all) ?: 1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all) || at++ != i % n)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			die("sched_setaffinity(%d): %s", cpu, strerror(errno));
		return;
	}
}

/* the protocol with the agent */

LAB_UNUSED static void say_and_wait(const char *word)
{
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%s\n", word);
	if (!fgets(line, sizeof(line), stdin))
		return;		/* run by hand: end of file means go */
}

LAB_UNUSED static void ready_and_wait(void)
{
	say_and_wait("READY");
}

LAB_UNUSED static void progress(double t, uint64_t ops)
{
	printf("PROGRESS {\"t\":%.3f,\"ops\":%llu}\n", t, (unsigned long long)ops);
}

/*
 * A team of worker threads that do a share of the work each.  The caller is
 * the reporter: it starts the clock, prints progress once a second, and stops
 * the clock when the last worker is done.
 *
 * With team_run_procs() the workers belong to several processes.  Each has
 * memory of its own, which setup() makes before READY and finish() looks at
 * after STOP.  The team is in memory that they share then (team_alloc()), and
 * the caller has no part in the work.
 */
struct team {
	unsigned int threads;		/* of each process */
	unsigned int procs;		/* 0: threads of the caller */
	void (*work)(struct team *t, unsigned int id);
	void (*prepare)(void);		/* after the placement, before START */
	void (*setup)(struct team *t, unsigned int proc);
	void (*finish)(struct team *t, unsigned int proc);
	pthread_barrier_t gate;
	pthread_barrier_t step;		/* of the processes: set up; STOP */
	double deadline;		/* 0: until the work is done */
	double t0;
	double seconds;			/* out: the measured interval */
	struct team_count {
		_Alignas(64) _Atomic uint64_t ops;
	} done[64];
	_Atomic unsigned int running;
};

struct team_arg {
	struct team *t;
	unsigned int id;
};

/* Memory that processes share, with zeros in it. */
LAB_UNUSED static void *shared_alloc(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("no shared memory: %s", strerror(errno));
	return p;
}

LAB_UNUSED static unsigned int team_workers(const struct team *t)
{
	return t->threads * (t->procs ?: 1);
}

LAB_UNUSED static uint64_t team_ops(const struct team *t)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < team_workers(t); i++)
		n += atomic_load_explicit(&t->done[i].ops, memory_order_relaxed);
	return n;
}

/* A worker calls this now and then; false means: time is up. */
LAB_UNUSED static bool team_count(struct team *t, unsigned int id, uint64_t ops)
{
	atomic_store_explicit(&t->done[id].ops, ops, memory_order_relaxed);
	return !t->deadline || now_s() < t->t0 + t->deadline;
}

LAB_UNUSED static void *team_thread(void *p)
{
	struct team_arg *a = p;

	pin_nth(a->id % a->t->threads);
	pthread_barrier_wait(&a->t->gate);
	a->t->work(a->t, a->id);
	atomic_fetch_sub(&a->t->running, 1);
	return NULL;
}

LAB_UNUSED static void team_init(struct team *t)
{
	pthread_barrierattr_t attr;

	if (!team_workers(t) || t->threads > 64 || t->procs > 64 || team_workers(t) > 64)
		die("--threads must be 1..64");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&t->gate, &attr, team_workers(t) + 1);
	pthread_barrier_init(&t->step, &attr, t->procs + 1);
	atomic_store(&t->running, team_workers(t));
}

/* Start this process's workers, the first of which is number @first. */
LAB_UNUSED static void team_start(struct team *t, unsigned int first, pthread_t *th,
				  struct team_arg *arg)
{
	for (unsigned int i = 0; i < t->threads; i++) {
		arg[i] = (struct team_arg){ t, first + i };
		if (pthread_create(&th[i], NULL, team_thread, &arg[i]))
			die("cannot start thread %u", first + i);
	}
}

LAB_UNUSED static void team_join(struct team *t, pthread_t *th)
{
	for (unsigned int i = 0; i < t->threads; i++)
		pthread_join(th[i], NULL);
}

/* From READY to STOP. */
LAB_UNUSED static void team_report(struct team *t)
{
	double next;

	ready_and_wait();
	if (t->prepare) {
		t->prepare();
		say_and_wait("PLACED");
	}
	t->t0 = now_s();
	lab_start();
	pthread_barrier_wait(&t->gate);
	next = t->t0 + 1;
	while (atomic_load(&t->running)) {
		sleep_s(0.02);
		if (now_s() >= next) {
			progress(now_s() - t->t0, team_ops(t));
			next += 1;
		}
	}
	lab_stop();
	t->seconds = now_s() - t->t0;
}

LAB_UNUSED static void team_run(struct team *t)
{
	pthread_t th[64];
	struct team_arg arg[64];

	team_init(t);
	team_start(t, 0, th, arg);
	team_report(t);
	team_join(t, th);
	printf("DONE\n");
}

LAB_UNUSED __attribute__((noreturn))
static void team_process(struct team *t, unsigned int proc)
{
	pthread_t th[64];
	struct team_arg arg[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_DFL);
	t->setup(t, proc);
	team_start(t, proc * t->threads, th, arg);
	pthread_barrier_wait(&t->step);
	team_join(t, th);
	pthread_barrier_wait(&t->step);
	t->finish(t, proc);
	_exit(0);
}

/* Also while we wait for others, or they would wait for ever: then all end. */
LAB_UNUSED static void team_reap(int sig)
{
	int status;

	(void)sig;
	while (waitpid(-1, &status, WNOHANG) > 0)
		if (status)
			_exit(1);
}

LAB_UNUSED static void team_run_procs(struct team *t)
{
	struct sigaction reap = { .sa_handler = team_reap, .sa_flags = SA_RESTART };
	int status;

	team_init(t);
	sigaction(SIGCHLD, &reap, NULL);
	for (unsigned int i = 0; i < t->procs; i++) {
		pid_t pid = fork();

		if (!pid)
			team_process(t, i);
		if (pid < 0)
			die("cannot start process %u", i);
	}
	pthread_barrier_wait(&t->step);
	team_report(t);
	printf("DONE\n");
	pthread_barrier_wait(&t->step);
	while (wait(&status) > 0)
		if (status)
			_exit(1);
}

#endif /* LAB_COMMON_H */
