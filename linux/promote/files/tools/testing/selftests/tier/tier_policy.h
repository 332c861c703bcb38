/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of memory policies share: pages on the slow node, promotion by hand, and
 * memory that is promoted all the time.
 */
#ifndef _TIER_POLICY_H
#define _TIER_POLICY_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "../tier_parts/tier_parts.h"
#include "tier_disk.h"
#include "tier_process.h"
#include "tier_util.h"

#define CGROUPS		"/tmp/policy_test_cgroups"
#define DIR_DISK	"/tmp/policy_test_disk"
#define DIR_HUGE	"/tmp/policy_test_huge"
#define NR		4UL
#define LEN		(NR * PAGE)

/* Until what is allowed has been promoted, if it is not at once */
#define ALLOWED_S	3

/* Memory that is promoted and brought back all the time */
#define NR_RACE		1024UL
#define RACE_LEN	(NR_RACE * PAGE)
#define RACE_S		6
/* How often a policy must have been changed, with pages to bring back on average */
#define TIMES		12
/* A slow kernel gets so many times as long for that. */
#define PATIENCE	8
#define BROUGHT_BACK	16
/* Frames that are promoted by one request */
#define WINDOW		1024UL
/* How long nothing must arrive after a policy was changed */
#define STAY_US		20000

static int fast, slow;

static inline uint64_t only(int nid)
{
	return 1ULL << nid;
}

static inline uint64_t both(void)
{
	return only(fast) | only(slow);
}

static inline double race_seconds(void)
{
	const char *value = getenv("POLICY_SECONDS");
	double seconds = value ? atof(value) : 0;

	return seconds > 0 ? seconds : RACE_S;
}

/* Fill each page with the same */
static inline void fill_pages(char *p, unsigned long nr)
{
	for (; nr--; p += PAGE)
		fill(p, PAGE);
}

/* Move pages to a node, in one call.  Returns how many were not, or all if it fails. */
static inline unsigned long move_to(char *p, unsigned long nr, int nid)
{
	int *nodes = malloc(nr * sizeof(*nodes)), *status = malloc(nr * sizeof(*status));
	void **pages = malloc(nr * sizeof(*pages));
	unsigned long i, failed = 0;

	for (i = 0; i < nr; i++) {
		pages[i] = p + i * PAGE;
		nodes[i] = nid;
		status[i] = -1000;
	}
	/* If it gives up it leaves the rest of them as they are. */
	syscall(__NR_move_pages, 0, nr, pages, nodes, status, MPOL_MF_MOVE);
	for (i = 0; i < nr; i++)
		failed += status[i] != nid;
	free(pages);
	free(status);
	free(nodes);
	return failed;
}

/*
 * Pages on the slow node, or NULL.  They come there by move_pages(), because a policy that the
 * process has had once is remembered.
 */
static inline char *map_pages(unsigned long nr, int flags)
{
	char *p = mmap(NULL, nr * PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, nr * PAGE, MADV_NOHUGEPAGE);
	fill_pages(p, nr);
	if (!move_to(p, nr, slow))
		return p;
	ksft_print_msg("no memory on the slow node\n");
	munmap(p, nr * PAGE);
	return NULL;
}

static inline char *map_slow(unsigned long nr)
{
	return map_pages(nr, MAP_PRIVATE);
}

/*
 * A process in a cpuset cannot allocate where that does not allow it, whoever asks for what.  So
 * it has another one promote, that is in none.
 */
struct request {
	uint64_t pfn;
	unsigned long nr;
};

static int servant = -1;

/* Begin to have frames promoted by another process.  It has a copy of nothing mapped later. */
static inline bool start_servant(void)
{
	struct request req;
	int ends[2], err;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		return false;
	pid = fork_child();
	if (!pid) {
		close(ends[0]);
		while (read(ends[1], &req, sizeof(req)) == sizeof(req)) {
			err = promote(req.pfn, req.nr, fast);
			if (write(ends[1], &err, sizeof(err)) != sizeof(err))
				break;
		}
		_exit(0);
	}
	close(ends[1]);
	servant = ends[0];
	return pid > 0;
}

/* Promote frames of the slow node.  Returns 0 or -errno. */
static inline int promote_frames(uint64_t pfn, unsigned long nr)
{
	struct request req = { .pfn = pfn, .nr = nr };
	int err;

	if (servant < 0)
		return promote(pfn, nr, fast);
	if (write(servant, &req, sizeof(req)) != sizeof(req) ||
	    read(servant, &err, sizeof(err)) != sizeof(err))
		return -EIO;
	return err;
}

/* Nobody may promote the page, or the huge page. */
static inline bool refused_folio(char *p, unsigned long nr)
{
	uint64_t pfn = pfn_of(p);
	int err = promote_frames(pfn, nr);
	int node = node_of(p);
	bool right = intact(p, PAGE);

	if (err == -EPERM && node == slow && pfn_of(p) == pfn && right)
		return true;
	ksft_print_msg("should be refused: %s, is on node %d, contents %s\n",
		       err ? strerror(-err) : "promoted", node, right ? "right" : "wrong");
	return false;
}

static inline bool refused(char *p)
{
	return refused_folio(p, 1);
}

/*
 * The page may be promoted, or the huge page.  The kernel does not wait for locks, nor for
 * references that somebody holds for a moment, so not at once.
 */
static inline bool allowed_folio(char *p, unsigned long nr)
{
	int err, node, tries = 0;
	bool right;

	do {
		if (tries++)
			usleep(10000);
		err = promote_frames(pfn_of(p), nr);
	} while ((err == -EPERM || err == -EBUSY) && tries < ALLOWED_S * 100);
	if (tries > 1)
		ksft_print_msg("tried %d times\n", tries);
	node = node_of(p);
	right = intact(p, PAGE);
	if (!err && node == fast && right)
		return true;
	ksft_print_msg("should be promoted: %s, is on node %d, contents %s\n",
		       err ? strerror(-err) : "promoted", node, right ? "right" : "wrong");
	return false;
}

static inline bool allowed(char *p)
{
	return allowed_folio(p, 1);
}

/* Is it true in a child of ours? */
static inline bool in_child(bool (*check)(char *arg), char *arg)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork_child();
	if (!pid) {
		bool ok = check(arg);

		fflush(stdout);
		_exit(!ok);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

/* An object that can be mapped, or -1 */
static inline int make_memfd(size_t len)
{
	int fd = syscall(__NR_memfd_create, "policy_test", 0);

	if (fd >= 0 && ftruncate(fd, len)) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline char *map_shared(int fd, size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Map a page of a file for a moment.  Its frame and its node */
static inline uint64_t look_at(int fd, int *node)
{
	char *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	uint64_t pfn = 0;

	*node = -1;
	if (p == MAP_FAILED)
		return 0;
	if (intact(p, PAGE)) {
		pfn = pfn_of(p);
		*node = node_of(p);
	}
	munmap(p, PAGE);
	return pfn;
}

static inline bool set_mems(uint64_t nodes)
{
	char text[256] = "";
	int nid;

	for (nid = 0; nid < MAX_NODES; nid++)
		if (nodes & only(nid))
			sprintf(text + strlen(text), "%s%d", *text ? "," : "", nid);
	return !write_file(CGROUPS "/group/cpuset.mems", text);
}

/* Enter the group of the test, which may use all memory yet. */
static inline bool enter_group(void)
{
	char mems[64];

	return read_file("/sys/devices/system/node/has_memory", mems, sizeof(mems)) &&
	       enter_cpuset(CGROUPS, "group", mems);
}

/* Memory that a thread promotes as fast as it can */
struct race {
	char *p;
	pthread_t thread;
	atomic_bool stop;
	atomic_ulong begun;		/* requests */
	atomic_ulong usecs;		/* that the last one took */
	unsigned long pages;		/* that were asked for in all */
	long promoted;			/* counter of the kernel at the beginning */
	uint64_t entries[NR_RACE];
	int nodes[NR_RACE];
	uint64_t pfns[NR_RACE];
};

static inline int compare_pfns(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * The WINDOW frames of the slow node that hold the most pages of the memory; returns how many
 * pages.  A large batch takes long, so there is more to be missed.
 */
static inline unsigned long find_window(struct race *r, uint64_t *pfn)
{
	unsigned long first = 0, last, i, nr = 0, best = 0;

	if (!read_pagemap(r->p, NR_RACE, r->entries) || nodes_of(r->p, NR_RACE, r->nodes))
		return 0;
	for (i = 0; i < NR_RACE; i++)
		if (r->entries[i] >> 63 && r->nodes[i] == slow)
			r->pfns[nr++] = pagemap_value(r->entries[i]);
	qsort(r->pfns, nr, sizeof(*r->pfns), compare_pfns);
	for (last = 0; last < nr; last++) {
		while (r->pfns[last] - r->pfns[first] >= WINDOW)
			first++;
		if (last - first + 1 > best) {
			best = last - first + 1;
			*pfn = r->pfns[first];
		}
	}
	return best;
}

static inline void *promote_all(void *arg)
{
	struct race *r = arg;
	unsigned long nr;
	double start;
	uint64_t pfn;

	while (!r->stop) {
		nr = find_window(r, &pfn);
		if (!nr) {
			usleep(500);
			continue;
		}
		start = now();
		r->begun++;
		promote_frames(pfn, WINDOW);
		r->usecs = (now() - start) * 1e6;
		r->pages += nr;
	}
	return NULL;
}

/* Begin to promote @p all the time.  NULL if that cannot be done. */
static inline struct race *start_race(char *p)
{
	struct race *r = calloc(1, sizeof(*r));

	if (!p || !r)
		return NULL;
	r->p = p;
	r->promoted = event_count("tier_promote_success");
	return pthread_create(&r->thread, NULL, promote_all, r) ? NULL : r;
}

/* Returns how many pages were promoted. */
static inline unsigned long stop_race(struct race *r)
{
	long promoted;

	r->stop = true;
	pthread_join(r->thread, NULL);
	promoted = event_count("tier_promote_success") - r->promoted;
	ksft_print_msg("%lu requests for %lu pages on average, %ld pages were promoted\n", r->begun,
		       r->begun ? r->pages / r->begun : 0, promoted);
	free(r);
	return promoted;
}

/* Until a promotion is under way, and for a random part of it */
static inline void wait_for_promotion(struct race *r)
{
	unsigned long begun = r->begun;
	int i;

	for (i = 0; r->begun == begun && i < 1000; i++)
		usleep(100);
	usleep(rand() % (r->usecs + 1));
}

static inline char *map_race(int flags)
{
	char *p = map_pages(NR_RACE, flags);

	if (p)
		fill(p, RACE_LEN);
	return p;
}

/* Who else moves pages to and fro */
static inline void promote_by_hand_only(void)
{
	change("/proc/sys/kernel/numa_balancing", "0");
	tier_parts_begin();
	change(TIER_PARTS "promote/enabled", "0");
	change(TIER_PARTS "scan/period_ms", "60000");
	change(TIER_PARTS "scan/enabled", "1");
}

/* Skip all tests where they cannot run. */
static inline void begin_tests(void)
{
	bool tiers = find_tiers(&fast, &slow);

	ksft_print_header();
	if (geteuid())
		ksft_exit_skip("needs root\n");
	if (access(PROMOTE, W_OK))
		ksft_exit_skip("no " PROMOTE " (CONFIG_TIER_DEBUG, mounted debugfs)\n");
	if (!tiers)
		ksft_exit_skip("no slow memory tier\n");
	promote_by_hand_only();
}

#endif /* _TIER_POLICY_H */
