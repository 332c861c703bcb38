// SPDX-License-Identifier: GPL-2.0
/*
 * Reclaim that flushes once for many pages: no store is lost while pages are swapped out, few
 * flushes are sent, and a request for few pages demotes few.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "../kselftest_harness.h"

#include "pages.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

#define WRITERS		4
#define SECONDS		6
#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define MET_TROUBLE	"/sys/kernel/debug/tier/batch/met_trouble"
#define CGROUPS		"/tmp/reclaim_test"
#define GROUP		CGROUPS "/group"
/* A list has at most a sixteenth of the pages of a group. */
#define GROUP_LEN	(64UL << 20)
/* A request, and what may be demoted for it, in pages */
#define ASKED		64
#define ASKED_BYTES	"256K"

static long counter(const char *name)
{
	char line[80], key[64];
	long value, found = -1;
	FILE *f = fopen("/proc/vmstat", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s %ld", key, &value) == 2 && !strcmp(key, name))
			found = value;
	if (f)
		fclose(f);
	return found;
}

/* Swap space, in KiB */
static long swap_kb(void)
{
	char line[80];
	long kb = 0;
	FILE *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "SwapTotal: %ld", &kb);
	if (f)
		fclose(f);
	return kb;
}

/* Each writer has a word of each page, and knows what the word must be. */
struct writer {
	pthread_t thread;
	char *p;
	int index;
	bool *stop;
	unsigned long lost, stores;
	uint64_t expected[NR_PAGES];
};

static void *write_all(void *arg)
{
	struct writer *w = arg;

	while (!__atomic_load_n(w->stop, __ATOMIC_RELAXED)) {
		for (unsigned long i = 0; i < NR_PAGES; i++) {
			uint64_t *word = (uint64_t *)(w->p + i * PAGE) + w->index * 16;

			if (__atomic_load_n(word, __ATOMIC_RELAXED) != w->expected[i])
				w->lost++;
			w->expected[i] += w->index + 1;
			__atomic_store_n(word, w->expected[i], __ATOMIC_RELAXED);
			w->stores++;
		}
	}
	return NULL;
}

FIXTURE(swapout)
{
	char *p;
};

FIXTURE_VARIANT(swapout)
{
	bool enabled;
	/* Of 1,000 pages that are swapped out */
	long least, most;
};

FIXTURE_VARIANT_ADD(swapout, off) { .enabled = false, .least = 200, .most = 2000 };
FIXTURE_VARIANT_ADD(swapout, on) { .enabled = true, .most = 100 };

FIXTURE_SETUP(swapout)
{
	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	if (swap_kb() < (long)LEN / 1024)
		SKIP(return, "too little swap space");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU flushes no other");
	ASSERT_EQ(0, batch(variant->enabled));
	self->p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->p);
	madvise(self->p, LEN, MADV_NOHUGEPAGE);
}

FIXTURE_TEARDOWN(swapout)
{
	if (self->p)
		munmap(self->p, LEN);
	batch(false);
}

struct spinner {
	pthread_t thread;
	bool runs, stop;
};

/* Keeps the address space in use on another CPU, which each flush then has to reach. */
static void *spin(void *arg)
{
	struct spinner *spinner = arg;

	__atomic_store_n(&spinner->runs, !run_on(1), __ATOMIC_RELAXED);
	while (!__atomic_load_n(&spinner->stop, __ATOMIC_RELAXED))
		;
	return NULL;
}

TEST_F(swapout, flushes)
{
	long out, flushes, swapout = 0, pages = 0;
	struct spinner spinner = {};

	ASSERT_EQ(0, run_on(0));
	ASSERT_EQ(0, pthread_create(&spinner.thread, NULL, spin, &spinner));
	for (int i = 0; i < 5000 && !__atomic_load_n(&spinner.runs, __ATOMIC_RELAXED); i++)
		usleep(1000);
	ASSERT_TRUE(spinner.runs);
	for (int i = 0; i < 2; i++) {
		fill(self->p, 1, i);
		out = counter("pswpout");
		flushes = counter("tier_flush_swapout");
		madvise(self->p, LEN, MADV_PAGEOUT);
		pages += counter("pswpout") - out;
		swapout += counter("tier_flush_swapout") - flushes;
		EXPECT_EQ(0, wrong(self->p, 1, i));
	}
	__atomic_store_n(&spinner.stop, true, __ATOMIC_RELAXED);
	pthread_join(spinner.thread, NULL);
	ksft_print_msg("%ld pages swapped out, %ld flushes\n", pages, swapout);
	ASSERT_LT(1000, pages);
	EXPECT_LE(variant->least, swapout * 1000 / pages);
	EXPECT_GE(variant->most, swapout * 1000 / pages);
}

TEST_F(swapout, written)
{
	static struct writer writers[WRITERS];
	unsigned long lost = 0, stores = 0;
	time_t end = time(NULL) + SECONDS;
	long out = counter("pswpout");
	bool stop = false;

	for (int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .p = self->p, .index = i, .stop = &stop };
		ASSERT_EQ(0, pthread_create(&writers[i].thread, NULL, write_all, &writers[i]));
	}
	while (time(NULL) < end)
		madvise(self->p, LEN, MADV_PAGEOUT);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		lost += writers[i].lost;
		stores += writers[i].stores;
	}
	out = counter("pswpout") - out;
	ksft_print_msg("%lu stores, %ld pages swapped out, %lu stores lost\n", stores, out, lost);
	ASSERT_LT(200, out);
	EXPECT_EQ(0, lost);
}

/* Pages of a group at its limit, and what its threads use, all the time */
#define PRESSED_LIMIT	"2M"
#define PRESSED_PAGES	1024UL
#define PRESSERS	8
/* In so small a group a job may be killed by bad luck, but not one after the other. */
#define PRESSED_TRIES	3

static void *press(void *arg)
{
	char *p = arg;

	for (unsigned int i = (unsigned long)pthread_self() >> 12;; i = i * 1103515245 + 12345)
		p[(i >> 8) % PRESSED_PAGES * PAGE] += 1;
	return NULL;
}

static void press_in_group(void)
{
	unsigned long len = PRESSED_PAGES * PAGE;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	madvise(p, len, MADV_NOHUGEPAGE);
	if (write_file(GROUP "/cgroup.procs", "0") || p == MAP_FAILED)
		_exit(1);
	for (int i = 0; i < PRESSERS; i++)
		pthread_create(&thread, NULL, press, p);
	sleep(SECONDS);
	_exit(0);
}

static int group_begin(void)
{
	mkdir(CGROUPS, 0700);
	if (mount("none", CGROUPS, "cgroup2", 0, NULL))
		return -1;
	mkdir(GROUP, 0700);
	return write_file(CGROUPS "/cgroup.subtree_control", "+memory");
}

static void group_end(void)
{
	rmdir(GROUP);
	umount(CGROUPS);
	rmdir(CGROUPS);
}

/* So often reclaim that found little did not put off a folio, or 0 if the kernel does not tell */
static long not_put_off(void)
{
	FILE *f = fopen(MET_TROUBLE, "r");
	long met = 0;

	if (f && fscanf(f, "%ld", &met) != 1)
		met = 0;
	if (f)
		fclose(f);
	return met;
}

/* Threads use at once what the first pass has put off: reclaim goes the base kernel's way. */
TEST_F(swapout, pressed)
{
	long out = counter("pswpout"), met = not_put_off();
	int status = -1, tries;
	pid_t pid;

	ASSERT_EQ(0, group_begin());
	EXPECT_EQ(0, write_file(GROUP "/memory.max", PRESSED_LIMIT));
	for (tries = 0; tries < PRESSED_TRIES && status; tries++) {
		pid = fork();
		if (!pid)
			press_in_group();
		waitpid(pid, &status, 0);
	}
	group_end();
	out = counter("pswpout") - out;
	met = not_put_off() - met;
	ksft_print_msg("%ld pages swapped out, %ld not put off, %d jobs\n", out, met, tries);
	EXPECT_LT(200, out);
	EXPECT_EQ(0, status)
		TH_LOG("the job was killed, or has failed");
	if (!access(MET_TROUBLE, R_OK))
		EXPECT_EQ(variant->enabled, met > 0)
			TH_LOG("reclaim in trouble has put off folios");
}

/* A group of a process that has all of its memory on the fast node */
FIXTURE(request)
{
	pid_t pid;
};

static void fill_in_group(int ready)
{
	char *p = mmap(NULL, GROUP_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	madvise(p, GROUP_LEN, MADV_NOHUGEPAGE);
	if (write_file(GROUP "/cgroup.procs", "0") || p == MAP_FAILED)
		_exit(1);
	for (unsigned long i = 0; i < GROUP_LEN; i += PAGE)
		p[i] = 1;
	/* On a CPU all the time, so that flushes are sent */
	if (write(ready, "", 1) == 1)
		for (;;)
			;
	_exit(1);
}

static bool lru_gen_on(void)
{
	FILE *f = fopen("/sys/kernel/mm/lru_gen/enabled", "r");
	unsigned int caps = 0;

	if (f && fscanf(f, "%x", &caps) != 1)
		caps = 0;
	if (f)
		fclose(f);
	return caps & 1;
}

FIXTURE_SETUP(request)
{
	int ready[2];
	char c;

	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	if (!lru_gen_on())
		SKIP(return, "no multi-gen LRU");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU flushes no other");
	if (write_file(DEMOTION, "1"))
		SKIP(return, "no demotion");
	ASSERT_EQ(0, group_begin());
	ASSERT_EQ(0, write_file(GROUP "/memory.swap.max", "0"));
	ASSERT_EQ(0, batch(true));
	ASSERT_EQ(0, pipe(ready));
	self->pid = fork();
	if (!self->pid)
		fill_in_group(ready[1]);
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	close(ready[0]);
}

FIXTURE_TEARDOWN(request)
{
	if (self->pid > 0) {
		kill(self->pid, SIGKILL);
		waitpid(self->pid, NULL, 0);
	}
	group_end();
	batch(false);
	write_file(DEMOTION, "0");
}

static long demoted(void)
{
	return counter("pgdemote_direct") + counter("pgdemote_kswapd");
}

TEST_F(request, bound)
{
	long before, most = 0, all = 0;

	for (int i = 0; i < 8; i++) {
		before = demoted();
		write_file(GROUP "/memory.reclaim", ASKED_BYTES);
		before = demoted() - before;
		most = before > most ? before : most;
		all += before;
	}
	ksft_print_msg("%d pages asked, at most %ld demoted, %ld in all\n", ASKED, most, all);
	ASSERT_LE(ASKED, all);
	EXPECT_GE(2 * ASKED, most);
}

/* Of a request for many, the lists are long. */
TEST_F(request, lists)
{
	long before = demoted(), flushes = counter("tier_flush_demotion"), pages;

	write_file(GROUP "/memory.reclaim", "4M");
	pages = demoted() - before;
	flushes = counter("tier_flush_demotion") - flushes;
	ksft_print_msg("%ld pages demoted, %ld flushes\n", pages, flushes);
	ASSERT_LE(1024, pages);
	EXPECT_LE(1, flushes);
	EXPECT_GE(6, flushes);
}

TEST_HARNESS_MAIN
