// SPDX-License-Identifier: GPL-2.0
/*
 * What is kept is limited: in number, in age, and by who needs memory.
 *
 * Each test must fail while a switch in /sys/kernel/debug/migrc/ is set:
 *
 *   cap	fault_cap
 *   age	fault_age
 *   kswapd	fault_pressure
 *   alloc	fault_alloc
 *   oom	fault_oom, fault_spill
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <linux/mempolicy.h>

#include "../kselftest_harness.h"

#include "loop.h"
#include "scene.h"

/* migrate_pages() unmaps so many at once: NR_MAX_BATCHED_MIGRATION */
#define BATCH		512
#define NR_PAGES	4096UL
/* So few that there is room for them on the list of a CPU that has just been refilled */
#define NR_FEW		512UL

struct limit {
	struct scene scene;
	unsigned long nr;
	char *area;
	void **pages;
	int *nodes, *status;
};

/* On the slow node */
static bool limit_pages(struct limit *self, unsigned long nr)
{
	unsigned long i;

	self->nr = nr;
	self->area = map_area(nr * PAGE);
	self->pages = calloc(nr, sizeof(*self->pages));
	self->nodes = calloc(nr, sizeof(*self->nodes));
	self->status = calloc(nr, sizeof(*self->status));
	if (!self->area || !self->pages || !self->nodes || !self->status)
		return false;
	for (i = 0; i < nr; i++)
		self->pages[i] = self->area + i * PAGE;
	return place(self->area, nr * PAGE, slow);
}

FIXTURE(limit)
{
	struct limit data;
};

FIXTURE_SETUP(limit)
{
	/* No readers: a machine may do nothing else while a node fills up. */
	const char *lacks = scene_begin(&self->data.scene, 0);

	if (lacks)
		SKIP(return, "%s", lacks);
	ASSERT_TRUE(limit_pages(&self->data, NR_PAGES));
}

FIXTURE_TEARDOWN(limit)
{
	scene_end(&self->data.scene);
}

/* Nothing is deferred if nobody else could have TLB entries. */
static void somebody(void *arg)
{
	atomic_bool *stop = arg;

	while (!atomic_load(stop))
		relax();
}

/* All pages, in one system call: each begins with a drain. */
static void move_all(struct limit *self, int nid)
{
	unsigned long i;

	make_read_only(self->area, self->nr * PAGE, BY_UFFD);
	for (i = 0; i < self->nr; i++)
		self->nodes[i] = nid;
	memset(self->status, 0xff, self->nr * sizeof(*self->status));
	syscall(__NR_move_pages, 0, self->nr, self->pages, self->nodes, self->status,
		MPOL_MF_MOVE_ALL);
}

struct watch {
	atomic_bool stop;
	long most;
};

static void watch_pending(void *arg)
{
	struct watch *watch = arg;
	long pending;

	while (!atomic_load(&watch->stop)) {
		pending = counter("migrc_pending");
		if (pending > watch->most)
			watch->most = pending;
	}
}

TEST_F_TIMEOUT(limit, cap, scene_timeout())
{
	struct watch *watch = shared_alloc(sizeof(*watch));
	struct scene *scene = &self->data.scene;
	const long cap = 64;
	int nid = slow;

	ASSERT_NE(NULL, watch);
	ASSERT_EQ(0, set(MIGRC "max_pages", "64"));
	worker_run(scene->helper, watch_pending, watch);
	while (scene_goes_on(scene)) {
		long pending;

		nid = other_node(nid);
		move_all(&self->data, nid);
		pending = counter("migrc_pending");
		if (pending > watch->most)
			watch->most = pending;
	}
	atomic_store(&watch->stop, true);
	worker_wait(scene->helper);
	EXPECT_LE(watch->most, cap + BATCH)
		TH_LOG("too many: %ld pages were kept at once", watch->most);
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", NR_PAGES / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_cap", NR_PAGES / 4));
	shared_free(watch, sizeof(*watch));
}

TEST_F_TIMEOUT(limit, age, scene_timeout())
{
	atomic_bool *stop = shared_alloc(sizeof(*stop));
	struct scene *scene = &self->data.scene;
	double limit = 0, took, longest = 0;
	int nid = slow;

	ASSERT_NE(NULL, stop);
	ASSERT_EQ(0, set(MIGRC "max_age_ms", "50"));
	worker_run(scene->helper, somebody, stop);
	/* Emulated CPUs may be late, but not by seconds. */
	limit = 3;
	while (scene_goes_on(scene) && longest < limit) {
		double start;

		nid = other_node(nid);
		move_all(&self->data, nid);
		start = now();
		while (counter("migrc_pending") > 0 && now() - start < limit)
			usleep(1000);
		took = now() - start;
		longest = took > longest ? took : longest;
	}
	atomic_store(stop, true);
	worker_wait(scene->helper);
	ksft_print_msg("the oldest was kept for %.3f s\n", longest);
	EXPECT_LT(longest, limit)
		TH_LOG("too long: pages are still kept after %.0f s", limit);
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", NR_PAGES / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_age", NR_PAGES / 4));
	shared_free(stop, sizeof(*stop));
}

/* Sums over the zones of a node, in pages */
struct room {
	long free, min, low;
};

static struct room room_of(int nid)
{
	struct room room = {};
	bool here = false;
	char line[256];
	FILE *f = fopen("/proc/zoneinfo", "r");
	long value;
	int n;

	if (!f)
		return room;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Node %d, zone", &n) == 1)
			here = n == nid;
		else if (here && sscanf(line, " pages free %ld", &value) == 1)
			room.free += value;
		else if (here && sscanf(line, " min %ld", &value) == 1)
			room.min += value;
		else if (here && sscanf(line, " low %ld", &value) == 1)
			room.low += value;
	}
	fclose(f);
	return room;
}

static long above_low(int nid)
{
	struct room room = room_of(nid);

	return room.free - room.low;
}

static bool gave_up(int nid)
{
	FILE *f = fopen("/proc/zoneinfo", "r");
	int n, value, found = 0;
	bool here = false;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Node %d, zone", &n) == 1)
			here = n == nid;
		else if (here && sscanf(line, " node_unreclaimable: %d", &value) == 1)
			found |= value;
	}
	if (f)
		fclose(f);
	return found;
}

#define CACHE		(4UL << 20)
#define FILL_S		240	/* a debug kernel is slow to fill a node */
#define DRAIN_S		20	/* and kswapd may have to wait for a CPU */
#define MORE		16	/* pages, so few that there are not less than the min watermark */
#define PCP_FRACTION	"/proc/sys/vm/percpu_pagelist_high_fraction"

/*
 * kswapd that has found nothing to reclaim too often does not run any more, until somebody else
 * reclaims from its node: page cache, which is put there for that.
 */
static bool revive(int nid)
{
	unsigned long mask = 1UL << nid;
	struct loop loop;
	char buf[PAGE];
	int fd;

	if (!gave_up(nid))
		return true;
	if (!loop_create(&loop, CACHE, false))
		return false;
	fd = open(loop.path, O_RDONLY | O_CLOEXEC);
	syscall(__NR_set_mempolicy, MPOL_BIND, &mask, 65UL);
	while (read(fd, buf, sizeof(buf)) > 0)
		;
	syscall(__NR_set_mempolicy, MPOL_DEFAULT, NULL, 0UL);
	write_file("/sys/fs/cgroup/memory.reclaim", "4M");
	close(fd);
	loop_destroy(&loop);
	return !gave_up(nid);
}

/* Between a test and the process that fills a node for it */
struct filling {
	long spare;		/* pages above the low watermark, until it is to go on */
	long below;		/* pages below it that it takes in the end */
	bool alone;		/* kswapd is to give up before */
	atomic_bool waits, go_on, full;
	atomic_bool stop;	/* for the helper */
};

static void touch(char *p, size_t *used, long pages)
{
	for (pages = pages > 16 ? pages : 16; pages > 0; pages--, *used += PAGE)
		p[*used] = 1;
}

/*
 * Takes memory of the node, and stays.  Most of it is taken before it is told to go on: a debug
 * kernel needs minutes, and nothing is kept for so long.  While kswapd runs next to nothing
 * stays on the lists of the CPUs.
 */
static void fill(int nid, struct filling *filling)
{
	size_t size = 1UL << 34, used = 0;
	unsigned long mask = 1UL << nid;
	int more;
	char *p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	write_file("/proc/self/oom_score_adj", "1000");
	p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED || syscall(__NR_mbind, p, size, MPOL_BIND, &mask, 65UL, 0))
		_exit(1);
	madvise(p, size, MADV_NOHUGEPAGE);
	while (used < size && above_low(nid) > filling->spare)
		touch(p, &used, (above_low(nid) - filling->spare) / 2);
	atomic_store(&filling->waits, true);
	while (!atomic_load(&filling->go_on))
		usleep(1000);
	while (used < size && above_low(nid) > -filling->below) {
		if (filling->alone && above_low(nid) < 0 && !gave_up(nid)) {
			/* Wakes it. */
			p[used] = 1;
			used += PAGE;
			usleep(10000);
			continue;
		}
		touch(p, &used, above_low(nid) / 2);
		/* What was kept has been found: no fuller than this. */
		if (counter("migrc_pending") == 0)
			break;
	}
	atomic_store(&filling->full, true);
	/* kswapd counts more exactly than who wakes it, and may need to be told again. */
	for (more = MORE; more > 0 && counter("migrc_pending") > 0; more--, used += PAGE) {
		usleep(100000);
		p[used] = 1;
	}
	for (;;)
		pause();
}

/* Who drains for lack of memory: kswapd, and if it does not, those who allocate. */
FIXTURE(pressure)
{
	struct limit data;
};

FIXTURE_VARIANT(pressure)
{
	const char *row;
	bool deep;			/* fill it to less than its min watermark */
	const char *without[2];		/* switches of drains that would come before */
	bool kills;			/* if it does not drain */
	bool lists;			/* CPUs have long lists of free pages */
};

FIXTURE_VARIANT_ADD(pressure, kswapd) { .row = "migrc_drain_pressure" };

FIXTURE_VARIANT_ADD(pressure, alloc)
{
	.row = "migrc_drain_alloc",
	.deep = true,
	.without = { MIGRC_DEBUG "fault_pressure" },
};

FIXTURE_VARIANT_ADD(pressure, oom)
{
	.row = "migrc_drain_oom",
	.deep = true,
	.without = { MIGRC_DEBUG "fault_pressure", MIGRC_DEBUG "fault_alloc" },
	.kills = true,
	.lists = true,
};

FIXTURE_SETUP(pressure)
{
	const char *lacks = scene_begin(&self->data.scene, 0);
	unsigned long i;

	if (lacks)
		SKIP(return, "%s", lacks);
	ASSERT_TRUE(limit_pages(&self->data, variant->lists ? NR_FEW : NR_PAGES));
	if (!revive(slow))
		SKIP(return, "kswapd has given up, and does not come back");
	for (i = 0; i < ARRAY_SIZE(variant->without); i++)
		if (variant->without[i])
			ASSERT_EQ(0, set(variant->without[i], "1"));
	/* As long as the kernel allows, so that all that is given back may stay on one */
	if (variant->lists)
		ASSERT_EQ(0, set(PCP_FRACTION, "8"));
}

FIXTURE_TEARDOWN(pressure)
{
	unsigned long i;

	for (i = 0; i < ARRAY_SIZE(variant->without); i++)
		if (variant->without[i])
			write_file(variant->without[i], "0");
	if (variant->lists)
		write_file(PCP_FRACTION, "0");
	scene_end(&self->data.scene);
}

/* What the node lacked was given back before by somebody who does not lack it. */
static long given_back_by_others(struct scene *scene)
{
	return counter_since(&scene->before, "migrc_drain_along") +
	       counter_since(&scene->before, "migrc_drain_isolate");
}

static pid_t start_fill(struct filling *filling)
{
	pid_t pid;

	atomic_store(&filling->waits, false);
	atomic_store(&filling->go_on, false);
	atomic_store(&filling->full, false);
	pid = fork();
	if (!pid)
		fill(slow, filling);
	return pid;
}

/* Has it come so far?  Not if it was killed, or takes too long. */
static bool filled(pid_t pid, atomic_bool *so_far, bool *gone)
{
	double end = now() + FILL_S;

	while (!atomic_load(so_far) && !*gone && now() < end) {
		usleep(10000);
		*gone = waitpid(pid, NULL, WNOHANG) == pid;
	}
	return atomic_load(so_far);
}

TEST_F_TIMEOUT(pressure, drain, 2 * FILL_S + scene_timeout())
{
	struct filling *filling = shared_alloc(sizeof(*filling));
	struct scene *scene = &self->data.scene;
	struct room room = room_of(slow);
	bool gone = false;
	char level[64];
	long others;
	double end;
	pid_t pid;
	int i;

	ASSERT_NE(NULL, filling);
	filling->spare = 4 * self->data.nr;
	filling->below = variant->deep ? LONG_MAX : (room.low - room.min) / 2;
	filling->alone = variant->lists;
	/* fill() may touch a few more than it is to, and then MORE. */
	ASSERT_GT(filling->below, 16 + MORE);
	ASSERT_TRUE(read_file("/proc/sys/kernel/printk", level, sizeof(level)));
	worker_run(scene->helper, somebody, &filling->stop);
	/* Somebody who is killed fails this test; the kernel's call trace is no news then. */
	if (variant->kills)
		ASSERT_EQ(0, set("/proc/sys/kernel/printk", "3"));
	for (i = 0; i < 3; i++) {
		others = given_back_by_others(scene);
		pid = start_fill(filling);
		ASSERT_GT(pid, 0);
		EXPECT_TRUE(filled(pid, &filling->waits, &gone)) TH_LOG("nothing is filled");
		move_all(&self->data, slow);
		move_all(&self->data, fast);
		EXPECT_GT(counter("migrc_pending"), self->data.nr / 2);
		atomic_store(&filling->go_on, true);
		EXPECT_TRUE(filled(pid, &filling->full, &gone))
			TH_LOG("the node could not be filled");
		EXPECT_FALSE(gone) TH_LOG("who needs memory was killed for it");
		for (end = now() + DRAIN_S; counter("migrc_pending") > 0 && now() < end;)
			usleep(10000);
		EXPECT_EQ(0, counter("migrc_pending"))
			TH_LOG("pages are kept though there are %ld fewer than the low watermark%s",
			       -above_low(slow), gave_up(slow) ? "; kswapd has given up" : "");
		if (!gone) {
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
		if (gone || given_back_by_others(scene) == others)
			break;
	}
	ksft_print_msg("given back: pressure %ld, alloc %ld, oom %ld, others %ld\n",
		       counter_since(&scene->before, "migrc_drain_pressure"),
		       counter_since(&scene->before, "migrc_drain_alloc"),
		       counter_since(&scene->before, "migrc_drain_oom"),
		       given_back_by_others(scene));
	EXPECT_TRUE(scene_rose(scene, variant->row, self->data.nr / 2));
	write_file("/proc/sys/kernel/printk", level);
	atomic_store(&filling->stop, true);
	worker_wait(scene->helper);
	shared_free(filling, sizeof(*filling));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
