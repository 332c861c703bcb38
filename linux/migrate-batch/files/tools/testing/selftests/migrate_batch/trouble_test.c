// SPDX-License-Identifier: GPL-2.0
/*
 * Batched migration where something goes wrong, or is in the way: no memory for destinations,
 * hardware errors, memory that goes offline, and files that are written meanwhile.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "../kselftest_harness.h"

#include "pages.h"

#define FAIL		"/sys/kernel/debug/fail_page_alloc/"
#define POISON		"/sys/kernel/debug/hwpoison/"
#define BLOCKS		"/sys/devices/system/memory/"
#define NODE1		"/sys/devices/system/node/node1"
#define ROUNDS		8
#define FILE_SECONDS	4
#define POISONED	6

static void run(const char *command)
{
	if (system(command))
		ksft_print_msg("failed: %s\n", command);
}

/* Frames that were poisoned may keep a block from going offline, so they come last. */
FIXTURE(blocks)
{
	char *p;
};

FIXTURE_VARIANT(blocks)
{
	int kb;
};

FIXTURE_VARIANT_ADD(blocks, small) { .kb = 4 };
FIXTURE_VARIANT_ADD(blocks, large) { .kb = 64 };
FIXTURE_VARIANT_ADD(blocks, huge) { .kb = 2048 };

FIXTURE_SETUP(blocks)
{
	if (access(NODE1, F_OK))
		SKIP(return, "there is one node only");
	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	ASSERT_EQ(0, batch(true));
	self->p = map_folios(variant->kb, false);
	ASSERT_NE(NULL, self->p);
	ASSERT_EQ(0, move_to(self->p, 0, MOVE_PAGES));
}

FIXTURE_TEARDOWN(blocks)
{
	if (self->p)
		munmap(self->p, LEN);
	batch(false);
}

static bool is_block_of_node1(const char *name)
{
	char path[320];

	snprintf(path, sizeof(path), NODE1 "/%s", name);
	return !strncmp(name, "memory", 6) && !access(path, F_OK);
}

/* Blocks of the node that has the pages go offline, and come back. */
TEST_F(blocks, offline)
{
	unsigned long offline = 0;
	struct dirent *entry;
	char path[320];
	DIR *dir;

	ASSERT_LE(0, move_to(self->p, 1, MOVE_PAGES));
	for (int round = 0; round < 2; round++) {
		fill(self->p, 1, round);
		dir = opendir(BLOCKS);
		ASSERT_NE(NULL, dir);
		while ((entry = readdir(dir))) {
			if (!is_block_of_node1(entry->d_name))
				continue;
			snprintf(path, sizeof(path), BLOCKS "%s/state", entry->d_name);
			if (write_file(path, "offline"))
				continue;
			offline++;
			ASSERT_EQ(0, wrong(self->p, 1, round));
			ASSERT_EQ(0, write_file(path, "online_movable"));
		}
		closedir(dir);
		move_to(self->p, 1, MIGRATE_PAGES);
		ASSERT_EQ(0, wrong(self->p, 1, round));
	}
	if (!offline)
		SKIP(return, "no block of node 1 can be offline (boot with movablecore=)");
}

/*
 * A file system on a loop device whose file is on another one on a loop device: writing back one
 * page takes others, which may be locked by a migration.  Metadata have buffer heads.
 */
#define FILES		"/tmp/migrate_batch"

FIXTURE(files)
{
	char *p;
	int fd;
};

FIXTURE_SETUP(files)
{
	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	if (access(NODE1, F_OK))
		SKIP(return, "there is one node only");
	ASSERT_EQ(0, batch(true));
	mkdir(FILES, 0700);
	run("mount -t tmpfs none " FILES " && mkdir " FILES "/outer " FILES "/inner");
	run("mkfs.ext2 -q " FILES "/image 48M && mount -o loop " FILES "/image " FILES "/outer");
	run("mkfs.ext2 -q " FILES "/outer/image 32M");
	run("mount -o loop " FILES "/outer/image " FILES "/inner");
	self->fd = open(FILES "/inner/file", O_RDWR | O_CREAT, 0600);
	if (self->fd < 0)
		SKIP(return, "no file on a loop device (mkfs.ext2, CONFIG_BLK_DEV_LOOP)");
	ASSERT_EQ(0, ftruncate(self->fd, LEN));
	self->p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->p);
}

FIXTURE_TEARDOWN(files)
{
	if (self->p)
		munmap(self->p, LEN);
	close(self->fd);
	run("umount " FILES "/inner " FILES "/outer " FILES);
	rmdir(FILES);
	batch(false);
}

struct syncer {
	pthread_t thread;
	int fd;
	bool stop;
	unsigned long done;
	unsigned long made;
};

/* Data and metadata are written, as fast as that goes. */
static void *sync_on(void *arg)
{
	struct syncer *syncer = arg;
	char path[64];
	int fd;

	while (!__atomic_load_n(&syncer->stop, __ATOMIC_RELAXED)) {
		snprintf(path, sizeof(path), FILES "/inner/%lu", syncer->done % 64);
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		if (fd >= 0 && write(fd, path, sizeof(path)) == sizeof(path))
			syncer->made++;
		if (fd >= 0)
			close(fd);
		fsync(syncer->fd);
		if (!(syncer->done & 7))
			sync();
		syncer->done++;
	}
	return NULL;
}

TEST_F(files, written_back)
{
	struct syncer syncers[2] = { { .fd = self->fd }, { .fd = self->fd } };
	time_t until = time(NULL) + FILE_SECONDS;
	unsigned long moves = 0, i;

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&syncers[i].thread, NULL, sync_on, &syncers[i]));
	/* For so long, and both ways to and fro on a slow machine */
	for (; time(NULL) < until || moves < 4; moves++) {
		fill(self->p, 1, moves);
		/* All pages of this process; then whatever compaction finds: buffers, too. */
		move_to(self->p, !(moves & 1), moves & 2 ? MOVE_PAGES : MIGRATE_PAGES);
		write_file("/proc/sys/vm/compact_memory", "1");
		ASSERT_EQ(0, wrong(self->p, 1, moves));
	}
	for (i = 0; i < 2; i++) {
		__atomic_store_n(&syncers[i].stop, true, __ATOMIC_RELAXED);
		pthread_join(syncers[i].thread, NULL);
		EXPECT_LT(1, syncers[i].made);
	}
	/* What the disk has is what was written last. */
	ASSERT_EQ(0, fsync(self->fd));
	ASSERT_EQ(0, write_file("/proc/sys/vm/drop_caches", "3"));
	EXPECT_EQ(0, wrong(self->p, 1, moves - 1));
}

FIXTURE(trouble)
{
	char *p;
};

FIXTURE_VARIANT(trouble)
{
	int kb;
};

FIXTURE_VARIANT_ADD(trouble, small) { .kb = 4 };
FIXTURE_VARIANT_ADD(trouble, large) { .kb = 64 };
FIXTURE_VARIANT_ADD(trouble, huge) { .kb = 2048 };

FIXTURE_SETUP(trouble)
{
	if (access(NODE1, F_OK))
		SKIP(return, "there is one node only");
	if (access(SYSFS "enabled", W_OK))
		SKIP(return, SYSFS "enabled cannot be written");
	ASSERT_EQ(0, batch(true));
	self->p = map_folios(variant->kb, false);
	ASSERT_NE(NULL, self->p);
	ASSERT_EQ(0, move_to(self->p, 0, MOVE_PAGES));
}

FIXTURE_TEARDOWN(trouble)
{
	if (self->p)
		munmap(self->p, LEN);
	batch(false);
}

/* Many allocations fail while pages move. */
TEST_F(trouble, no_destination)
{
	unsigned long stayed = 0;

	if (write_file(FAIL "probability", variant->kb == 4 ? "30" : "60"))
		SKIP(return, "no " FAIL);
	write_file(FAIL "task-filter", "1");
	write_file(FAIL "min-order", "0");
	write_file(FAIL "ignore-gfp-wait", "0");
	write_file(FAIL "ignore-gfp-highmem", "0");
	write_file(FAIL "verbose", "0");
	write_file(FAIL "times", "-1");
	for (int round = 0; round < ROUNDS; round++) {
		int node = !(round & 1);

		fill(self->p, 1, round);
		ASSERT_EQ(0, write_file("/proc/self/make-it-fail", "1"));
		move_to(self->p, node, round & 2 ? MOVE_PAGES : MIGRATE_PAGES);
		ASSERT_EQ(0, write_file("/proc/self/make-it-fail", "0"));
		stayed += NR_PAGES - count_on(self->p, node);
		ASSERT_EQ(0, wrong(self->p, 1, round));
	}
	EXPECT_EQ(0, write_file(FAIL "probability", "0"));
	EXPECT_LT(0, stayed);
	ASSERT_LE(0, move_to(self->p, 1, MOVE_PAGES));
	EXPECT_EQ(NR_PAGES, count_on(self->p, 1));
	EXPECT_EQ(0, wrong(self->p, 1, ROUNDS - 1));
}

static sigjmp_buf poisoned;

static void on_bus_error(int sig)
{
	siglongjmp(poisoned, 1);
}

/* Some frames turn out to be bad while they are copied, or have just been. */
static void *poison(void *arg)
{
	char *p = arg, pfn[32];
	uint64_t entry;

	for (unsigned long i = 0; i < POISONED; i++) {
		usleep(3000);
		entry = entry_of(p + (97 * i + 5) * PAGE);
		/* Of a page that is just being moved this is no frame. */
		if (!(entry & PRESENT))
			continue;
		snprintf(pfn, sizeof(pfn), "%llu", (unsigned long long)(entry & PFN_MASK));
		write_file(POISON "corrupt-pfn", pfn);
	}
	return NULL;
}

TEST_F(trouble, poisoned)
{
	unsigned long gone = 0, bad = 0;
	static unsigned long i;	/* kept by siglongjmp() */
	pthread_t thread;

	if (access(POISON "corrupt-pfn", W_OK))
		SKIP(return, "no " POISON);
	fill(self->p, 1, 1);
	signal(SIGBUS, on_bus_error);
	ASSERT_EQ(0, pthread_create(&thread, NULL, poison, self->p));
	for (int round = 0; round < ROUNDS; round++)
		move_to(self->p, !(round & 1), MIGRATE_PAGES);
	pthread_join(thread, NULL);
	for (i = 0; i < NR_PAGES; i++) {
		if (sigsetjmp(poisoned, 1)) {
			gone++;
			continue;
		}
		bad += *(uint64_t *)(self->p + i * PAGE + i % 500 * 8) != pattern(i, 1);
	}
	signal(SIGBUS, SIG_DFL);
	ksft_print_msg("%lu of %lu pages are gone\n", gone, NR_PAGES);
	/* A huge page that cannot be split is gone as a whole. */
	EXPECT_GE(POISONED * (variant->kb / 4), gone);
	EXPECT_EQ(0, bad);
}

TEST_HARNESS_MAIN
