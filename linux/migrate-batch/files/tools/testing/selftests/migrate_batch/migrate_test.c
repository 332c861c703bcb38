// SPDX-License-Identifier: GPL-2.0
/*
 * Batched migration: memory of all kinds and folio sizes moves to and fro, and stays what it is.
 *
 * Each page has a pattern of its own, which changes from round to round.  All system calls that
 * move pages are used.  What page tables know of a page (write protection by userfaultfd,
 * soft-dirty) has to survive, and large folios have to stay large.
 *
 * While a switch in /sys/kernel/debug/tier/faults/ is set these must fail: batch_dirty,
 * memory.large.soft_dirty; batch_flush, memory.large.written.
 *
 * migrate_pages() moves by single folios what a batch has not moved, and moves the same pages then.
 * So /sys/kernel/debug/tier/batch/counts says which way pages have taken.
 */
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "../kselftest_harness.h"

#include "../../../../mm/gup_test.h"
#include "pages.h"

#define COUNTS		"/sys/kernel/debug/tier/batch/counts"
/* Each of these lets reclaim demote. */
#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define DEMOTE_PART	TIER_PARTS "demote/enabled"
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
	ASSERT_EQ(0, batch(true));
	self->p = map_folios(variant->kb, variant->by_ptes);
	ASSERT_NE(NULL, self->p);
	ASSERT_EQ(0, move_to(self->p, 0, MOVE_PAGES));
	ASSERT_EQ(NR_PAGES, count_on(self->p, 0));
}

FIXTURE_TEARDOWN(memory)
{
	if (self->p)
		munmap(self->p, LEN);
	batch(false);
}

static long counted_in(const char *path, const char *name)
{
	FILE *f = fopen(path, "r");
	char word[32];
	long value, found = -1;

	while (f && fscanf(f, "%31s %ld", word, &value) == 2)
		if (!strcmp(word, name))
			found = value;
	if (f)
		fclose(f);
	return found;
}

static long counted(const char *name)
{
	return counted_in(COUNTS, name);
}

static long nr_demoted(void)
{
	return counted_in("/proc/vmstat", "pgdemote_direct");
}

/*
 * One process's own memory, by all system calls; and large folios stay large.  At least 90 % of the
 * pages take the way of batches, and their PTEs that of runs.
 */
TEST_F(memory, exclusive)
{
	static const char * const names[] = {
		"moved_by_batch", "unmapped_in_run", "restored_in_run",
	};
	/* A PMD is one entry. */
	int nr = variant->kb == 2048 && !variant->by_ptes ? 1 : ARRAY_SIZE(names);
	long bulk = counted("allocated_in_bulk");
	long before[ARRAY_SIZE(names)];

	for (int i = 0; i < nr; i++)
		before[i] = counted(names[i]);
	for (int round = 0; round < ROUNDS; round++) {
		int node = !(round & 1);

		fill(self->p, 1, round);
		ASSERT_LE(0, move_to(self->p, node, round % NR_WAYS));
		ASSERT_EQ(NR_PAGES, count_on(self->p, node));
		ASSERT_EQ(0, wrong(self->p, 1, round));
	}
	EXPECT_EQ(0, split_folios(self->p, variant->kb));
	for (int i = 0; i < nr && before[0] >= 0; i++) {
		EXPECT_LE(ROUNDS * NR_PAGES * 9 / 10, counted(names[i]) - before[i])
			TH_LOG("%s", names[i]);
	}
	/* mbind() asks for each destination. */
	if (variant->kb == 4 && bulk >= 0)
		EXPECT_LE(ROUNDS * NR_PAGES * 6 / 10, counted("allocated_in_bulk") - bulk);
}

/* No part of a folio that is pinned moves, and no part of it is lost; all other folios move. */
TEST_F(memory, pinned_by_half)
{
	unsigned long each = variant->kb / 4, half = each / 2 ? : 1, at = 512;
	struct pin_longterm_test args = {
		.addr = (unsigned long)self->p + at * PAGE,
		.size = half * PAGE,
		.flags = PIN_LONGTERM_TEST_FLAG_USE_WRITE,
	};
	int fd = open("/sys/kernel/debug/gup_test", O_RDWR);
	uint64_t *seen = malloc(half * PAGE);
	uint64_t to = (unsigned long)seen;

	if (fd < 0)
		SKIP(return, "no CONFIG_GUP_TEST");
	ASSERT_NE(NULL, seen);
	fill(self->p, 1, 3);
	ASSERT_EQ(0, ioctl(fd, PIN_LONGTERM_TEST_START, &args));
	for (int round = 0; round < 3; round++) {
		ASSERT_LE(0, move_to(self->p, 1, MIGRATE_PAGES));
		ASSERT_EQ(NR_PAGES - each, count_on(self->p, 1));
		ASSERT_EQ(0, wrong(self->p, 1, 3));
	}
	/* The pin and the process have the same pages. */
	fill(self->p, 1, 4);
	ASSERT_EQ(0, ioctl(fd, PIN_LONGTERM_TEST_READ, &to));
	for (unsigned long i = 0; i < half; i++)
		ASSERT_EQ(pattern(at + i, 4), seen[i * PAGE / 8 + (at + i) % 500]);
	ASSERT_EQ(0, ioctl(fd, PIN_LONGTERM_TEST_STOP));
	ASSERT_LE(0, move_to(self->p, 1, MIGRATE_PAGES));
	EXPECT_EQ(NR_PAGES, count_on(self->p, 1));
	EXPECT_EQ(0, wrong(self->p, 1, 4));
	free(seen);
	close(fd);
}

/* Of a folio that may be dropped, only the last page is dirty when the folio moves. */
TEST_F(memory, written_at_the_end)
{
	unsigned long each = variant->kb / 4, bad = 0;

	ASSERT_EQ(0, madvise(self->p, LEN, MADV_FREE));
	for (unsigned long i = each - 1; i < NR_PAGES; i += each)
		*(uint64_t *)(self->p + i * PAGE) = pattern(i, 9);
	ASSERT_LE(0, move_to(self->p, 1, MOVE_PAGES));
	ASSERT_EQ(0, madvise(self->p, LEN, MADV_PAGEOUT));
	for (unsigned long i = each - 1; i < NR_PAGES; i += each)
		bad += *(uint64_t *)(self->p + i * PAGE) != pattern(i, 9);
	EXPECT_EQ(0, bad);
}

/* After a move by one page, folios cross the ends of page tables. */
TEST_F(memory, remapped_by_a_page)
{
	char *space = mmap(NULL, LEN + 2 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *to = (char *)(((unsigned long)space + HUGE - 1) & ~(HUGE - 1)) + PAGE;

	ASSERT_NE(MAP_FAILED, space);
	ASSERT_EQ(to, mremap(self->p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	self->p = to;
	for (int round = 0; round < ROUNDS; round++) {
		int node = !(round & 1);

		fill(self->p, 1, round);
		ASSERT_LE(0, move_to(self->p, node, round % NR_WAYS));
		/* A page may be in use for a moment. */
		for (int again = 0; again < 3 && count_on(self->p, node) < NR_PAGES; again++)
			ASSERT_LE(0, move_to(self->p, node, round % NR_WAYS));
		ASSERT_EQ(NR_PAGES, count_on(self->p, node));
		ASSERT_EQ(0, wrong(self->p, 1, round));
	}
	/* One PTE table of the two is emptied first: the folio counts as partially mapped then. */
	EXPECT_GE(LEN / HUGE, split_folios(self->p, variant->kb));
}

/* The memory's owner forks, remaps and starts programs all the time while the memory moves. */
TEST_F(memory, remapped_and_forked_meanwhile)
{
	time_t until = time(NULL) + WRITE_SECONDS;
	unsigned long nodes[2] = { 1, 2 };
	int status, moves = 0;
	pid_t pid;

	fill(self->p, 1, 0);
	pid = fork();
	if (!pid) {
		char *p = self->p, *q;
		int bad = 0;

		fill(p, 1, 1);
		for (int round = 0; time(NULL) < until && !bad; round++) {
			pid_t child = fork();

			if (!child) {
				if (round % 3)
					_exit(!!wrong(p, 1, 1));
				execl("/bin/true", "true", NULL);
				_exit(1);
			}
			q = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, q) != q)
				_exit(2);
			p = q;
			bad += !!wrong(p, 1, 1);
			if (waitpid(child, &status, 0) != child || status)
				_exit(3);
		}
		_exit(bad);
	}
	while (waitpid(pid, &status, WNOHANG) != pid)
		if (syscall(SYS_migrate_pages, pid, 64UL, &nodes[moves & 1],
			    &nodes[!(moves & 1)]) >= 0)
			moves++;
	EXPECT_EQ(0, status);
	EXPECT_LT(0, moves);
	EXPECT_EQ(0, wrong(self->p, 1, 0));
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
	ASSERT_EQ(0, batch(true));
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
	batch(false);
}

/* "1" or "true" */
static bool is_set(const char *path)
{
	FILE *f = fopen(path, "r");
	int c = f ? fgetc(f) : EOF;

	if (f)
		fclose(f);
	return c == '1' || c == 't';
}

/* What lets reclaim demote */
FIXTURE(demotion)
{
};

FIXTURE_VARIANT(demotion)
{
	const char *file, *other;
};

FIXTURE_VARIANT_ADD(demotion, numa) { DEMOTION, DEMOTE_PART };
FIXTURE_VARIANT_ADD(demotion, part) { DEMOTE_PART, DEMOTION };

FIXTURE_SETUP(demotion)
{
	if (access(SYSFS "enabled", W_OK) || access(DEMOTION, W_OK) || access(DEMOTE_PART, W_OK))
		SKIP(return, "nothing to switch on");
	ASSERT_EQ(0, write_file(variant->file, "0"));
	ASSERT_EQ(0, write_file(variant->other, "0"));
}

FIXTURE_TEARDOWN(demotion)
{
	write_file(variant->file, "0");
	batch(false);
}

/*
 * Reclaim of a group demotes its memory if one file says so, and not before.  The memory stays what
 * it is.  At least 90 % of the pages go by batch, to destinations that are allocated together.
 */
TEST_F(demotion, demoted)
{
	static const char * const names[] = { "moved_by_batch", "allocated_in_bulk" };
	char root[] = "/tmp/migrate.XXXXXX", group[64], path[96];
	long before[ARRAY_SIZE(names)], first, moved = 0;
	char *p;

	ASSERT_NE(NULL, mkdtemp(root));
	ASSERT_EQ(0, mount("none", root, "cgroup2", 0, NULL));
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", root);
	ASSERT_EQ(0, write_file(path, "+memory"));
	snprintf(group, sizeof(group), "%s/demoted", root);
	ASSERT_EQ(0, mkdir(group, 0755));
	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	ASSERT_EQ(0, write_file(path, "0"));
	ASSERT_EQ(0, batch(true));
	p = map_folios(4, false);
	ASSERT_NE(NULL, p);
	ASSERT_LE(0, move_to(p, 0, MOVE_PAGES));
	fill(p, 1, 5);
	for (int i = 0; i < 2; i++)
		before[i] = counted(names[i]);
	first = nr_demoted();
	snprintf(path, sizeof(path), "%s/memory.reclaim", group);
	write_file("/proc/self/clear_refs", "1");
	write_file(path, "2M swappiness=200");
	EXPECT_EQ(first, nr_demoted());
	ASSERT_EQ(0, write_file(variant->file, "1"));
	EXPECT_FALSE(is_set(variant->other));
	for (int round = 0; round < 20 && moved < (long)NR_PAGES / 4; round++) {
		write_file("/proc/self/clear_refs", "1");
		write_file(path, "2M swappiness=200");
		moved = nr_demoted() - first;
	}
	EXPECT_LE((long)NR_PAGES / 4, moved);
	for (int i = 0; i < 2 && before[0] >= 0; i++) {
		EXPECT_LE(moved * 9 / 10, counted(names[i]) - before[i])
			TH_LOG("%s", names[i]);
	}
	EXPECT_EQ(0, wrong(p, 1, 5));
	munmap(p, LEN);
	snprintf(path, sizeof(path), "%s/cgroup.procs", root);
	write_file(path, "0");
	rmdir(group);
	umount(root);
	rmdir(root);
}

/* Compaction, while a process allocates and frees */
TEST(compaction)
{
	char *p;

	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	ASSERT_EQ(0, batch(true));
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
	batch(false);
}

/* Batches of one, of some, and larger than it was; what is too large or too small is refused. */
TEST(limits)
{
	static const char * const folios[] = { "1", "7", "4096" };
	static const char * const kb[] = { "4", "100", "65536" };
	static const char * const bad[] = { "0", "-1", "x", "1T", "64M", "0x10", "4 4", "9999999" };
	static const char * const no_switch[] = { "2", "-1", "on", "yes", "01", "1 0" };
	unsigned long before;
	char *p;

	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, write_file(SYSFS "max_folios", bad[i])) TH_LOG("%s", bad[i]);
		EXPECT_EQ(-EINVAL, write_file(SYSFS "max_kb", bad[i])) TH_LOG("%s", bad[i]);
	}
	EXPECT_EQ(-EINVAL, write_file(SYSFS "max_folios", "16385"));
	EXPECT_EQ(-EINVAL, write_file(SYSFS "max_kb", "3"));
	EXPECT_EQ(-EINVAL, write_file(SYSFS "max_kb", "1048577"));
	before = read_number(SYSFS "enabled");
	for (unsigned int i = 0; i < ARRAY_SIZE(no_switch); i++)
		EXPECT_EQ(-EINVAL, write_file(SYSFS "enabled", no_switch[i]));
	EXPECT_EQ(before, read_number(SYSFS "enabled"));
	EXPECT_EQ(512, read_number(SYSFS "max_folios"));
	EXPECT_EQ(512 * PAGE / 1024, read_number(SYSFS "max_kb"));
	ASSERT_EQ(0, batch(true));
	p = map_folios(4, false);
	ASSERT_NE(NULL, p);
	for (int round = 0; round < 9; round++) {
		ASSERT_EQ(0, write_file(SYSFS "max_folios", folios[round / 3]));
		ASSERT_EQ(0, write_file(SYSFS "max_kb", kb[round % 3]));
		fill(p, 1, round);
		ASSERT_LE(0, move_to(p, !(round & 1), MOVE_PAGES));
		ASSERT_EQ(NR_PAGES, count_on(p, !(round & 1)));
		ASSERT_EQ(0, wrong(p, 1, round));
	}
	EXPECT_EQ(0, write_file(SYSFS "max_folios", "512"));
	EXPECT_EQ(0, write_file(SYSFS "max_kb", "2048"));
	munmap(p, LEN);
	batch(false);
}

TEST_HARNESS_MAIN
