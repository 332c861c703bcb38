// SPDX-License-Identifier: GPL-2.0
/*
 * Batched migration: memory of all kinds and folio sizes moves to and fro, and stays what it is.
 *
 * Each page has a pattern of its own, which changes from round to round.  All system calls that
 * move pages are used.  What page tables know of a page (write protection by userfaultfd,
 * soft-dirty) has to survive, and large folios have to stay large.
 *
 * While a switch in /sys/kernel/debug/migrate_batch/ is set these must fail: fault_dirty,
 * memory.large.soft_dirty; fault_flush, memory.large.written.  While fault_freeze is set in
 * /sys/kernel/debug/migrate_copy/, memory.small.pinned_while_copied must.
 */
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "../kselftest_harness.h"

#include "pages.h"

#define COPY		"/sys/kernel/debug/migrate_copy/"
#define ROUNDS		6
#define WRITE_SECONDS	2
#define WRITTEN		64UL
#define SOFT_DIRTY	0x0080000000000000ULL
#define UFFD_WP		0x0200000000000000ULL

FIXTURE(memory)
{
	char *p;
};

FIXTURE_VARIANT(memory)
{
	int kb;
	bool by_ptes;
};

FIXTURE_VARIANT_ADD(memory, small) { .kb = 4 };
FIXTURE_VARIANT_ADD(memory, large) { .kb = 64 };
FIXTURE_VARIANT_ADD(memory, huge_by_ptes) { .kb = 2048, .by_ptes = true };
FIXTURE_VARIANT_ADD(memory, huge) { .kb = 2048 };

FIXTURE_SETUP(memory)
{
	if (access("/sys/devices/system/node/node1", F_OK))
		SKIP(return, "there is one node only");
	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	ASSERT_EQ(0, write_file(SYSFS "enabled", "1"));
	self->p = map_folios(variant->kb, variant->by_ptes);
	ASSERT_NE(NULL, self->p);
	ASSERT_EQ(0, move_to(self->p, 0, MOVE_PAGES));
	ASSERT_EQ(NR_PAGES, count_on(self->p, 0));
}

FIXTURE_TEARDOWN(memory)
{
	if (self->p)
		munmap(self->p, LEN);
	write_file(SYSFS "enabled", "0");
}

/* One process's own memory, by all system calls; and large folios stay large. */
TEST_F(memory, exclusive)
{
	for (int round = 0; round < ROUNDS; round++) {
		int node = !(round & 1);

		fill(self->p, 1, round);
		ASSERT_LE(0, move_to(self->p, node, round % NR_WAYS));
		ASSERT_EQ(NR_PAGES, count_on(self->p, node));
		ASSERT_EQ(0, wrong(self->p, 1, round));
	}
	EXPECT_EQ(0, split_folios(self->p, variant->kb));
}

/* An engine for tests copies, and each n-th time fails, refuses, or does not come to an end. */
static int set_engine(const char *name, int fail, int refuse, int stall, int pin)
{
	const struct {
		const char *file;
		int value;
	} files[] = { { "fail", fail }, { "refuse", refuse }, { "stall", stall }, { "pin", pin } };
	char path[64], value[16];

	for (unsigned long i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), COPY "%s", files[i].file);
		snprintf(value, sizeof(value), "%d", files[i].value);
		if (write_file(path, value))
			return -1;
	}
	return write_file(COPY "engine", name);
}

static long engine_count(const char *name)
{
	FILE *f = fopen(COPY "counts", "r");
	char word[32];
	long value, found = -1;

	while (f && fscanf(f, "%31s %ld", word, &value) == 2)
		if (!strcmp(word, name))
			found = value;
	if (f)
		fclose(f);
	return found;
}

TEST_F(memory, copied_by_engines)
{
	static const struct {
		const char *name;
		int fail, refuse, stall;
	} engines[] = {
		{ "cpu", 0, 0, 0 }, { "async", 0, 0, 0 }, { "async", 3, 0, 0 },
		{ "async", 0, 3, 0 }, { "async", 0, 0, 2 }, { "async", 7, 5, 3 },
	};
	unsigned long each = variant->kb / 4, i;
	int round = 0;

	if (access(COPY "engine", W_OK))
		SKIP(return, "there are no engines for tests");
	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		long good = engine_count("good"), failed = engine_count("failed");
		long refused = engine_count("refused"), cancelled = engine_count("cancelled");

		ASSERT_EQ(0, set_engine(engines[i].name, engines[i].fail, engines[i].refuse,
					engines[i].stall, 0));
		for (int way = 0; way < ROUNDS; way++) {
			int node = ++round & 1;

			fill(self->p, 1, round);
			ASSERT_LE(0, move_to(self->p, node, way % NR_WAYS));
			ASSERT_EQ(NR_PAGES, count_on(self->p, node));
			ASSERT_EQ(0, wrong(self->p, 1, round));
		}
		ASSERT_EQ(0, set_engine("none", 0, 0, 0, 0));
		EXPECT_GE(engine_count("good") - good, NR_PAGES / each * ROUNDS / 4);
		EXPECT_EQ(!engines[i].fail, engine_count("failed") == failed);
		EXPECT_EQ(!engines[i].refuse, engine_count("refused") == refused);
		EXPECT_EQ(!engines[i].stall, engine_count("cancelled") == cancelled);
	}
	EXPECT_EQ(0, split_folios(self->p, variant->kb));
}

/* What is written through a reference that was got while a copy was made is not lost. */
TEST_F(memory, pinned_while_copied)
{
	unsigned long last = PAGE / 8 - 1;
	long written = 0, tried, pinned;

	if (access(COPY "engine", W_OK))
		SKIP(return, "there are no engines for tests");
	tried = engine_count("not_pinned");
	pinned = engine_count("pinned");
	for (unsigned long i = 0; i < NR_PAGES; i++)
		((uint64_t *)(self->p + i * PAGE))[last] = 0;
	ASSERT_EQ(0, set_engine("async", 0, 0, 0, 1));
	for (int round = 0; round < ROUNDS; round++)
		ASSERT_LE(0, move_to(self->p, !(round & 1), MOVE_PAGES));
	ASSERT_EQ(0, set_engine("none", 0, 0, 0, 0));
	for (unsigned long i = 0; i < NR_PAGES; i++)
		written += ((uint64_t *)(self->p + i * PAGE))[last];
	tried = engine_count("not_pinned") - tried;
	pinned = engine_count("pinned") - pinned;
	EXPECT_LT(0, tried + pinned);
	EXPECT_EQ(pinned, written)
		TH_LOG("%ld of %ld writes were lost", pinned - written, pinned);
}

/* A child has the same pages, then has written every third, then is gone. */
TEST_F(memory, forked)
{
	int pipe_to[2], pipe_from[2], status, round;
	char c = 0;
	pid_t pid;

	fill(self->p, 1, 0);
	ASSERT_EQ(0, pipe(pipe_to));
	ASSERT_EQ(0, pipe(pipe_from));
	pid = fork();
	if (!pid) {
		unsigned long bad = 0;

		while (read(pipe_to[0], &c, 1) == 1 && c != 'q') {
			bad += wrong(self->p, 1, 0);
			if (c == 'w')
				fill(self->p, 3, 0);
			if (write(pipe_from[1], &c, 1) != 1)
				break;
		}
		_exit(!!bad);
	}
	for (round = 0; round < ROUNDS; round++) {
		c = round == 2 ? 'w' : 'r';
		ASSERT_LE(0, move_to(self->p, !(round & 1), round % NR_WAYS));
		ASSERT_EQ(1, write(pipe_to[1], &c, 1));
		ASSERT_EQ(1, read(pipe_from[0], &c, 1));
		ASSERT_EQ(0, wrong(self->p, 1, 0));
	}
	/* What the parent writes is not the child's. */
	fill(self->p, 2, 7);
	ASSERT_LE(0, move_to(self->p, 1, MOVE_PAGES));
	c = 'r';
	ASSERT_EQ(1, write(pipe_to[1], &c, 1));
	ASSERT_EQ(1, read(pipe_from[0], &c, 1));
	c = 'q';
	ASSERT_EQ(1, write(pipe_to[1], &c, 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, wrong(self->p, 2, 7));
	EXPECT_LE(0, move_to(self->p, 0, MIGRATE_PAGES));
	EXPECT_EQ(0, wrong(self->p, 2, 7));
}

TEST_F(memory, mlocked)
{
	ASSERT_EQ(0, mlock(self->p, LEN));
	for (int round = 0; round < ROUNDS; round++) {
		int node = !(round & 1);

		fill(self->p, 1, round);
		ASSERT_LE(0, move_to(self->p, node, round % NR_WAYS));
		ASSERT_EQ(NR_PAGES, count_on(self->p, node));
		ASSERT_EQ(0, wrong(self->p, 1, round));
	}
	EXPECT_EQ(0, munlock(self->p, LEN));
}

/* Every other page was written; PTEs know which. */
TEST_F(memory, soft_dirty)
{
	unsigned long lost = 0, more = 0;

	for (int round = 0; round < 2; round++) {
		ASSERT_EQ(0, write_file("/proc/self/clear_refs", "4"));
		fill(self->p, 2, round);
		ASSERT_LE(0, move_to(self->p, !round, MOVE_PAGES));
		for (unsigned long i = 0; i < NR_PAGES; i++) {
			bool dirty = entry_of(self->p + i * PAGE) & SOFT_DIRTY;

			lost += !(i & 1) && !dirty;
			/* One PMD has one bit. */
			more += (i & 1) && dirty && (variant->kb < 2048 || variant->by_ptes);
		}
	}
	EXPECT_EQ(0, lost);
	EXPECT_EQ(0, more);
}

TEST_F(memory, uffd_wp)
{
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	struct uffdio_register reg = {
		.range = { (unsigned long)self->p, LEN },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	struct uffdio_writeprotect wp = {
		.range = { (unsigned long)self->p, LEN / 2 },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	unsigned long bad = 0;

	ASSERT_LE(0, uffd);
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_API, &api));
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_REGISTER, &reg));
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_WRITEPROTECT, &wp));
	for (int round = 0; round < ROUNDS; round++)
		ASSERT_LE(0, move_to(self->p, !(round & 1), MOVE_PAGES));
	for (unsigned long i = 0; i < NR_PAGES; i++)
		bad += !!(entry_of(self->p + i * PAGE) & UFFD_WP) != (i < NR_PAGES / 2);
	EXPECT_EQ(0, bad);
	EXPECT_EQ(0, wrong(self->p, 1, 0));
	close(uffd);
}

/* Pages come back from swap, and are still in the swap cache. */
TEST_F(memory, swap_cache)
{
	for (int round = 0; round < ROUNDS; round++) {
		int node = !(round & 1);

		fill(self->p, 1, round);
		if (madvise(self->p, LEN, MADV_PAGEOUT))
			SKIP(return, "MADV_PAGEOUT: %s", strerror(errno));
		ASSERT_EQ(0, wrong(self->p, 1, round));
		ASSERT_LE(0, move_to(self->p, node, round % NR_WAYS));
		ASSERT_EQ(NR_PAGES, count_on(self->p, node));
		ASSERT_EQ(0, wrong(self->p, 1, round));
	}
}

/* A pipe has references: what it has stays where it is, and everything else moves. */
TEST_F(memory, referenced)
{
	struct iovec iov = { .iov_base = self->p + 64 * PAGE, .iov_len = 4 * PAGE };
	unsigned long each = variant->kb / 4, held = each < 4 ? 4 : each;
	uint64_t buf[4 * PAGE / 8];
	int fds[2];

	fill(self->p, 1, 3);
	ASSERT_EQ(0, pipe(fds));
	ASSERT_EQ(4 * PAGE, vmsplice(fds[1], &iov, 1, 0));
	/* move_pages(2) goes no further than to what does not move. */
	for (int round = 0; round < 3; round++) {
		ASSERT_LE(0, move_to(self->p, 1, MIGRATE_PAGES));
		ASSERT_EQ(NR_PAGES - held, count_on(self->p, 1));
		ASSERT_EQ(0, wrong(self->p, 1, 3));
	}
	/* What is written now is seen through the pipe, as both have the same page. */
	fill(self->p, 1, 4);
	ASSERT_EQ(4 * PAGE, read(fds[0], buf, 4 * PAGE));
	EXPECT_EQ(pattern(64, 4), buf[64 % 500]);
	ASSERT_LE(0, move_to(self->p, 1, MIGRATE_PAGES));
	EXPECT_EQ(NR_PAGES, count_on(self->p, 1));
	EXPECT_EQ(0, wrong(self->p, 1, 4));
	close(fds[0]);
	close(fds[1]);
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

struct writer {
	pthread_t thread;
	char *p;
	bool stop;
	uint64_t rounds;
	unsigned long lost;
};

/* Each page has a counter.  A write through an old TLB entry gets lost. */
static void *count_up(void *arg)
{
	struct writer *writer = arg;

	run_on(1);
	while (!__atomic_load_n(&writer->stop, __ATOMIC_RELAXED)) {
		/* So few, and neighbours, that an emulated TLB has them all */
		for (unsigned long i = 0; i < WRITTEN; i++) {
			uint64_t *p = (uint64_t *)(writer->p + i * PAGE + 4000);

			writer->lost += __atomic_load_n(p, __ATOMIC_RELAXED) != writer->rounds;
			__atomic_store_n(p, writer->rounds + 1, __ATOMIC_RELAXED);
		}
		__atomic_store_n(&writer->rounds, writer->rounds + 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static uint64_t rounds_of(struct writer *writer)
{
	return __atomic_load_n(&writer->rounds, __ATOMIC_RELAXED);
}

TEST_F(memory, written)
{
	struct writer writer = { .p = self->p };
	time_t until = time(NULL) + WRITE_SECONDS;
	int moves = 0;

	for (unsigned long i = 0; i < NR_PAGES; i++)
		*(uint64_t *)(self->p + i * PAGE + 4000) = 0;
	run_on(0);
	ASSERT_EQ(0, pthread_create(&writer.thread, NULL, count_up, &writer));
	/* For so long, and until both have had a turn on a slow machine */
	while (time(NULL) < until || moves < 2 || rounds_of(&writer) < 2) {
		ASSERT_LE(0, move_to(self->p, !(moves & 1), moves % NR_WAYS));
		moves++;
	}
	__atomic_store_n(&writer.stop, true, __ATOMIC_RELAXED);
	pthread_join(writer.thread, NULL);
	/* What the writer's CPU has seen all the time may have been the old pages. */
	for (unsigned long i = 0; i < WRITTEN; i++)
		writer.lost += *(uint64_t *)(self->p + i * PAGE + 4000) != writer.rounds;
	EXPECT_LT(1, moves);
	EXPECT_LT(1, writer.rounds);
	EXPECT_EQ(0, writer.lost);
}

/* Shared memory, mapped twice; then by half of it, and in a file that is cut off. */
TEST(shared)
{
	int fd = memfd_create("migrate", 0);
	char *p, *q;

	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	ASSERT_EQ(0, write_file(SYSFS "enabled", "1"));
	ASSERT_EQ(0, ftruncate(fd, LEN));
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	q = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_NE(MAP_FAILED, q);
	for (int round = 0; round < ROUNDS; round++) {
		int node = !(round & 1);

		fill(round & 1 ? q : p, 1, round);
		ASSERT_LE(0, move_to(p, node, round % NR_WAYS));
		ASSERT_EQ(NR_PAGES, count_on(p, node));
		ASSERT_EQ(0, wrong(p, 1, round));
		ASSERT_EQ(0, wrong(q, 1, round));
		if (round == 2)
			munmap(q + LEN / 2, LEN / 2);
		if (round == 2)
			q = p;
	}
	ASSERT_EQ(0, ftruncate(fd, LEN / 2));
	EXPECT_LE(0, move_to(p, 1, MIGRATE_PAGES));
	munmap(p, LEN);
	close(fd);
	write_file(SYSFS "enabled", "0");
}

/* Compaction, while a process allocates and frees */
TEST(compaction)
{
	char *p;

	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	ASSERT_EQ(0, write_file(SYSFS "enabled", "1"));
	p = map_folios(4, false);
	ASSERT_NE(NULL, p);
	for (int round = 0; round < 4; round++) {
		fill(p, 1, round);
		/* Holes, that compaction fills */
		for (unsigned long i = round; i < NR_PAGES; i += 4)
			madvise(p + i * PAGE, PAGE, MADV_DONTNEED);
		ASSERT_EQ(0, write_file("/proc/sys/vm/compact_memory", "1"));
		for (unsigned long i = 0; i < NR_PAGES; i++) {
			uint64_t *at = (uint64_t *)(p + i * PAGE + i % 500 * 8);

			ASSERT_EQ(i % 4 == round ? 0 : pattern(i, round), *at);
		}
	}
	munmap(p, LEN);
	write_file(SYSFS "enabled", "0");
}

/* Batches of one, of some, and larger than it was; what is too large or too small is refused. */
TEST(limits)
{
	static const char * const folios[] = { "1", "7", "4096" };
	static const char * const bytes[] = { "4096", "100K", "64M" };
	static const char * const bad[] = { "0", "-1", "x", "1T" };
	static const char * const no_switch[] = { "2", "-1", "on", "yes", "01", "1 0" };
	unsigned long before;
	char *p;

	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_NE(0, write_file(SYSFS "max_folios", bad[i])) TH_LOG("%s", bad[i]);
		EXPECT_NE(0, write_file(SYSFS "max_bytes", bad[i])) TH_LOG("%s", bad[i]);
	}
	before = read_number(SYSFS "enabled");
	for (unsigned int i = 0; i < ARRAY_SIZE(no_switch); i++)
		EXPECT_NE(0, write_file(SYSFS "enabled", no_switch[i]));
	EXPECT_EQ(before, read_number(SYSFS "enabled"));
	EXPECT_EQ(512, read_number(SYSFS "max_folios"));
	EXPECT_EQ(512 * PAGE, read_number(SYSFS "max_bytes"));
	ASSERT_EQ(0, write_file(SYSFS "enabled", "1"));
	p = map_folios(4, false);
	ASSERT_NE(NULL, p);
	for (int round = 0; round < 9; round++) {
		ASSERT_EQ(0, write_file(SYSFS "max_folios", folios[round / 3]));
		ASSERT_EQ(0, write_file(SYSFS "max_bytes", bytes[round % 3]));
		fill(p, 1, round);
		ASSERT_LE(0, move_to(p, !(round & 1), MOVE_PAGES));
		ASSERT_EQ(NR_PAGES, count_on(p, !(round & 1)));
		ASSERT_EQ(0, wrong(p, 1, round));
	}
	EXPECT_EQ(0, write_file(SYSFS "max_folios", "512"));
	EXPECT_EQ(0, write_file(SYSFS "max_bytes", "2M"));
	munmap(p, LEN);
	write_file(SYSFS "enabled", "0");
}

TEST_HARNESS_MAIN
