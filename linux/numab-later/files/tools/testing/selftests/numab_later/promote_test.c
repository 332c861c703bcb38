// SPDX-License-Identifier: GPL-2.0
/*
 * Threads write and read slow memory while NUMA balancing promotes it.  A further thread changes
 * the protection of other pages about half of the time, and so keeps a flush pending.  Needs two
 * nodes, of which the second has no CPU.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/mempolicy.h>

#include "../kselftest_harness.h"
#include "../tier_parts/tier_parts.h"

#define SWITCH		TIER_PARTS "postpone/enabled"
#define NUMAB		"/proc/sys/kernel/numa_balancing"
#define SCHED		"/sys/kernel/debug/sched/numa_balancing/"
#define THP		"/sys/kernel/mm/transparent_hugepage/enabled"
#define NR_THREADS	4
#define NR_PAGES	4096UL
#define PAGE		4096UL
#define LIMIT_S		60

/* Before the harness starts the tests, in processes of their own */
static void __attribute__((constructor)) begin_parts(void)
{
	tier_parts_begin();
}

static int set(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

static long get(const char *path)
{
	FILE *f = fopen(path, "r");
	long value = -1;

	if (f && fscanf(f, "%ld", &value) != 1)
		value = -1;
	if (f)
		fclose(f);
	return value;
}

/* A row of /proc/vmstat, or -1 */
static long event_count(const char *name)
{
	FILE *f = fopen("/proc/vmstat", "r");
	long value, found = -1;
	char row[64];

	while (f && fscanf(f, "%63s %ld", row, &value) == 2)
		if (!strcmp(row, name))
			found = value;
	if (f)
		fclose(f);
	return found;
}

static long promoted(void)
{
	return event_count("pgpromote_success");
}

FIXTURE(promote)
{
	uint64_t *area;
	char *other;		/* its protection changes */
	pthread_t threads[NR_THREADS + 1];
	atomic_bool stop;
	atomic_ulong sum;	/* of what was written */
};

/* Each thread adds to its own word of each page. */
struct writer {
	struct _test_data_promote *self;
	int nr;
};

static struct writer writers[NR_THREADS];

static void *write_all(void *arg)
{
	struct writer *writer = arg;
	unsigned long i, sum = 0;

	while (!atomic_load(&writer->self->stop))
		for (i = 0; i < NR_PAGES; i++, sum++)
			__atomic_fetch_add(&writer->self->area[i * PAGE / 8 + writer->nr], 1,
					   __ATOMIC_RELAXED);
	atomic_fetch_add(&writer->self->sum, sum);
	return NULL;
}

static void *change_protection(void *arg)
{
	struct _test_data_promote *self = arg;
	bool write = false;

	for (; !atomic_load(&self->stop); write = !write) {
		mprotect(self->other, NR_PAGES * PAGE, write ? PROT_READ | PROT_WRITE : PROT_READ);
		/* NUMA balancing's scanner gives up if mmap_lock is taken. */
		usleep(2000);
	}
	return NULL;
}

FIXTURE_SETUP(promote)
{
	unsigned long slow = 1UL << 1;
	int i;

	if (geteuid() || access(SWITCH, F_OK) || access(SCHED, F_OK))
		SKIP(return, "needs root, CONFIG_NUMAB_LATER and debugfs");
	ASSERT_EQ(0, set(THP, "never"));
	self->area = mmap(NULL, NR_PAGES * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->area);
	/* The pages are put on the slow node, and may leave it. */
	if (syscall(__NR_mbind, self->area, NR_PAGES * PAGE, MPOL_BIND, &slow, 3UL, 0))
		SKIP(return, "needs a second node");
	memset(self->area, 0, NR_PAGES * PAGE);
	ASSERT_EQ(0, syscall(__NR_mbind, self->area, NR_PAGES * PAGE, MPOL_DEFAULT, NULL, 0UL, 0));
	self->other = mmap(NULL, NR_PAGES * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	ASSERT_NE(MAP_FAILED, self->other);
	set(SCHED "hot_threshold_ms", "20000");
	set(SCHED "scan_period_min_ms", "100");
	set(SCHED "scan_period_max_ms", "100");
	ASSERT_EQ(0, set(NUMAB, "2"));
	for (i = 0; i < NR_THREADS; i++) {
		writers[i] = (struct writer){ self, i };
		ASSERT_EQ(0, pthread_create(&self->threads[i], NULL, write_all, &writers[i]));
	}
	ASSERT_EQ(0, pthread_create(&self->threads[NR_THREADS], NULL, change_protection, self));
}

FIXTURE_TEARDOWN(promote)
{
	set(NUMAB, "0");
	set(SWITCH, "0");
}

/* Ends the threads.  Return: the sum of what is in memory, less what was written */
static long lost(struct _test_data_promote *self)
{
	unsigned long i, found = 0;

	atomic_store(&self->stop, true);
	for (i = 0; i < NR_THREADS + 1; i++)
		pthread_join(self->threads[i], NULL);
	for (i = 0; i < NR_PAGES * NR_THREADS; i++)
		found += self->area[i / NR_THREADS * PAGE / 8 + i % NR_THREADS];
	return atomic_load(&self->sum) - found;
}

static bool rises(long (*value)(void), long from)
{
	time_t end = time(NULL) + LIMIT_S;

	while (value() <= from && time(NULL) < end)
		usleep(100000);
	return value() > from;
}

static long postponed(void)
{
	return event_count("tier_postpone_fault");
}

TEST_F_TIMEOUT(promote, on, 3 * LIMIT_S)
{
	long before = promoted();

	ASSERT_EQ(0, tier_part_turn("postpone", true));
	EXPECT_TRUE(rises(postponed, postponed())) TH_LOG("no promotion was postponed");
	EXPECT_TRUE(rises(promoted, before)) TH_LOG("no page was promoted");
	EXPECT_EQ(0, lost(self));
}

TEST_F_TIMEOUT(promote, off, 3 * LIMIT_S)
{
	long before;

	ASSERT_EQ(0, tier_part_turn("postpone", false));
	before = postponed();
	ASSERT_LE(0, before);
	EXPECT_TRUE(rises(promoted, promoted()));
	EXPECT_EQ(before, postponed());
	EXPECT_EQ(0, lost(self));
}

TEST(values)
{
	static const char * const bad[] = { "2", "-1", "yes", "01" };
	unsigned long i;

	if (geteuid() || access(SWITCH, F_OK))
		SKIP(return, "needs root and CONFIG_NUMAB_LATER");
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_NE(0, set(SWITCH, bad[i])) TH_LOG("%s was accepted", bad[i]);
		EXPECT_EQ(0, get(SWITCH));
	}
	EXPECT_EQ(0, tier_part_turn("postpone", true));
	EXPECT_EQ(1, get(SWITCH));
	EXPECT_EQ(0, tier_part_turn("postpone", false));
}

TEST_HARNESS_MAIN
