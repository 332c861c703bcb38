// SPDX-License-Identifier: GPL-2.0
/*
 * Batched unmapping: nothing of what is gathered gets lost, and the switch takes what it should.
 *
 * Processes in control groups map memory of all kinds and unmap it in all ways.  When they have
 * gone, nothing may be left in the statistics of the groups and of MGLRU, nor in their charge,
 * and the nodes' counters are those from before.
 *
 * all_kinds must fail while zap_stat, zap_lru, zap_charge or zap_free is set in
 * /sys/kernel/debug/tier/faults/.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "../tier_parts/tier_parts.h"

#define ENABLED		TIER_PARTS "zap/enabled"
#define CGROUPS		"/tmp/zap_test"
#define PAGE		4096UL
#define NR_PAGES	2048UL
#define LEN		(NR_PAGES * PAGE)
/* More pages than other processes may add to the nodes' counters while a test runs */
#define NOISE		1024
/* And how many other parts of the kernel may have taken meanwhile */
#define FREE_NOISE	3072
/* Pages that are touched to see that a group's counter is not too low */
#define KNOWN		256UL
/* Statistics of groups are added up every other second. */
#define SETTLE_MS	2500

/* Before the harness starts the tests, in processes of their own */
static void __attribute__((constructor)) begin_parts(void)
{
	tier_parts_begin();
}

static int write_file(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

static bool read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t len = fd < 0 ? -1 : read(fd, buf, size - 1);

	if (fd >= 0)
		close(fd);
	buf[len < 0 ? 0 : len] = '\0';
	return len >= 0;
}

static const char *in(const char *group, const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), CGROUPS "/%s/%s", group, file);
	return path;
}

static void look(const char *p)
{
	asm volatile("" : : "r" (*p) : "memory");
}

/* The number behind a word that begins a line, or -1 */
static long value_of(const char *path, const char *word)
{
	FILE *f = fopen(path, "r");
	size_t len = strlen(word);
	char line[512];
	long val = -1;

	while (f && val < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, word, len) && strchr(" \t", line[len]))
			val = strtol(line + len, NULL, 10);
	if (f)
		fclose(f);
	return val;
}

/* Base pages that MGLRU has of a group, or -1 if it does not say */
static long lru_gen_pages(const char *group)
{
	FILE *f = fopen("/sys/kernel/debug/lru_gen", "r");
	long sum = -1, anon, file;
	bool ours = false;
	char line[512], path[256], end[64];

	snprintf(end, sizeof(end), "/%s", group);
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "memcg %*d %255s", path) == 1) {
			ours = !strcmp(path, end);
			if (ours)
				sum = 0;
		} else if (ours && sscanf(line, " %*u %*u %ld %ld", &anon, &file) == 2) {
			sum += anon + file;
		}
	}
	if (f)
		fclose(f);
	return sum;
}

enum kind {
	ANON, FORKED, SHMEM, FILE_PRIVATE, FILE_SHARED, LOCKED, KSM, SWAPPED, THP, MIXED, NR_KINDS
};

enum how { MUNMAP, DONTNEED, EXIT, KILL, PIECES, NR_HOWS };

static const char * const kind_name[] = {
	"anon", "forked", "shmem", "file_private", "file_shared", "locked", "ksm", "swapped",
	"thp", "mixed",
};

static const char * const how_name[] = { "munmap", "dontneed", "exit", "kill", "pieces" };

static size_t length_of(enum kind kind)
{
	return kind == THP || kind == MIXED ? 2 * LEN : LEN;
}

static char *map_kind(enum kind kind, int fd)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, prot = PROT_READ | PROT_WRITE;
	size_t len = length_of(kind), i;
	char *p;

	if (kind == SHMEM)
		flags = MAP_SHARED | MAP_ANONYMOUS;
	if (kind == FILE_PRIVATE)
		flags = MAP_PRIVATE;
	if (kind == FILE_SHARED)
		flags = MAP_SHARED;
	p = mmap(NULL, len, prot, flags, flags & MAP_ANONYMOUS ? -1 : fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, len, kind == THP || kind == MIXED ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	/* Small pages in front of huge ones */
	if (kind == MIXED)
		madvise(p, LEN / 2 + 8 * PAGE, MADV_NOHUGEPAGE);
	for (i = 0; i < len; i += PAGE) {
		if (kind == FILE_PRIVATE && (i / PAGE) % 2)
			look(p + i);
		else
			p[i] = kind == KSM ? 1 : i / PAGE;
	}
	if (kind == LOCKED && mlock(p, LEN))
		return NULL;
	/* Some of it is merged by then. */
	if (kind == KSM && (madvise(p, len, MADV_MERGEABLE) || usleep(500000)))
		return NULL;
	/* The huge page that this is in the middle of is split, or mapped by PTEs. */
	if (kind == MIXED)
		madvise(p + 2 * LEN - 300 * PAGE, 8 * PAGE, MADV_DONTNEED);
	/* If there is swap, some of it goes there, or comes back from it. */
	if (kind == SWAPPED) {
		madvise(p, len, MADV_PAGEOUT);
		for (i = 0; i < len; i += 3 * PAGE)
			look(p + i);
	}
	return p;
}

static void unmap(char *p, size_t len, enum how how)
{
	size_t i, piece;

	switch (how) {
	case MUNMAP:
		munmap(p, len);
		break;
	case DONTNEED:
		madvise(p, len, MADV_DONTNEED);
		break;
	case PIECES:
		for (i = 0; i < len; i += piece) {
			piece = len - i < 7 * PAGE ? len - i : 7 * PAGE;
			munmap(p + i, piece);
		}
		break;
	case KILL:
		kill(getpid(), SIGKILL);
	default:
		_exit(0);
	}
}

static int temporary_file(void)
{
	char name[] = "/tmp/zap_test.XXXXXX";
	int fd = mkstemp(name);

	unlink(name);
	return fd < 0 || ftruncate(fd, 2 * LEN) ? -1 : fd;
}

/* A process that maps and unmaps, in a group */
static void work(const char *group, enum kind kind, enum how how)
{
	int fd = temporary_file(), i, status;
	pid_t pid = -1;
	char *p;

	if (write_file(in(group, "cgroup.procs"), "0"))
		_exit(2);
	for (i = 0; i < 2; i++) {
		p = map_kind(kind, fd);
		if (!p)
			_exit(3);
		if (kind == FORKED) {
			pid = fork();
			if (pid < 0)
				_exit(4);
			/* Half of the pages are copied. */
			if (!pid)
				memset(p, 2, LEN / 2);
		}
		unmap(p, length_of(kind), how);
		if (!pid)
			_exit(0);
		if (pid > 0 && (waitpid(pid, &status, 0) != pid || status))
			_exit(5);
	}
	_exit(0);
}

static bool run_one(const char *group, enum kind kind, enum how how)
{
	int status;
	pid_t pid;

	/* Children of what exits come here, and are waited for. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = fork();
	if (!pid)
		work(group, kind, how);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	while (waitpid(-1, NULL, 0) > 0)
		;
	return how == KILL ? WIFSIGNALED(status) : !status;
}

#define NR_ITEMS	9
/* Behind these the anonymous pages on the lists of each zone of each node */
#define NR_ZONES	8
#define NR_COUNTS	(NR_ITEMS + NR_ZONES)
/* Of one zone there is less noise. */
#define ZONE_NOISE	512

FIXTURE(zap)
{
	long node[NR_COUNTS];
	long dying;
	char before[8];
	char ksm[8];
	char ksm_sleep[16];
};

static const char * const node_item[] = {
	"nr_anon_pages", "nr_mapped", "nr_inactive_anon", "nr_active_anon", "nr_shmem",
	"nr_zone_inactive_anon", "nr_zone_active_anon", "nr_unevictable", "nr_free_pages",
};

/* What CPUs have on their lists is free, too, and not part of nr_free_pages. */
static long on_lists(void)
{
	FILE *f = fopen("/proc/zoneinfo", "r");
	long sum = 0, nr;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, " count: %ld", &nr) == 1)
			sum += nr;
	if (f)
		fclose(f);
	return sum;
}

static void zone_counts(long count[NR_ZONES])
{
	FILE *f = fopen("/proc/zoneinfo", "r");
	char line[256];
	int zone = -1;
	long nr;

	memset(count, 0, NR_ZONES * sizeof(*count));
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "Node ", 5))
			zone++;
		else if (zone >= 0 && zone < NR_ZONES &&
			 (sscanf(line, " nr_zone_inactive_anon %ld", &nr) == 1 ||
			  sscanf(line, " nr_zone_active_anon %ld", &nr) == 1))
			count[zone] += nr;
	}
	if (f)
		fclose(f);
}

static void node_counts(long count[NR_COUNTS])
{
	int i;

	/* Fold what CPUs have not told yet. */
	write_file("/proc/sys/vm/stat_refresh", "1");
	for (i = 0; i < NR_ITEMS; i++)
		count[i] = value_of("/proc/vmstat", node_item[i]);
	count[NR_ITEMS - 1] += on_lists();
	zone_counts(count + NR_ITEMS);
}

#define KSM	"/sys/kernel/mm/ksm/"

/* What setup has changed, as far as it came */
static void restore(const char *before, const char *ksm, const char *ksm_sleep)
{
	if (*before)
		write_file(ENABLED, before);
	if (*ksm) {
		write_file(KSM "run", "2");
		write_file(KSM "sleep_millisecs", ksm_sleep);
		write_file(KSM "run", ksm);
	}
	rmdir(CGROUPS "/a");
	rmdir(CGROUPS "/b");
	rmdir(CGROUPS "/swap");
	rmdir(CGROUPS "/other");
	write_file(CGROUPS "/cgroup.subtree_control", "-memory");
	umount(CGROUPS);
	rmdir(CGROUPS);
}

FIXTURE_SETUP(zap)
{
	const char *problem = NULL;

	if (!read_file(ENABLED, self->before, sizeof(self->before)))
		SKIP(return, "no batched unmapping (CONFIG_ZAP_BATCH)");
	mkdir(CGROUPS, 0700);
	if (mount("none", CGROUPS, "cgroup2", 0, NULL) ||
	    write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		problem = "no memory control groups (v2)";
	else if (tier_part_turn("zap", true))
		problem = "it cannot be switched on";
	else if (mkdir(CGROUPS "/a", 0700) || mkdir(CGROUPS "/b", 0700))
		problem = "groups a and b exist already";
	if (problem) {
		restore(self->before, self->ksm, self->ksm_sleep);
		SKIP(return, "%s", problem);
	}
	self->dying = value_of(CGROUPS "/cgroup.stat", "nr_dying_descendants");
	if (read_file(KSM "run", self->ksm, sizeof(self->ksm))) {
		read_file(KSM "sleep_millisecs", self->ksm_sleep, sizeof(self->ksm_sleep));
		write_file(KSM "run", "1");
		write_file(KSM "sleep_millisecs", "0");
	}
	write_file("/proc/sys/vm/drop_caches", "3");
	node_counts(self->node);
}

FIXTURE_TEARDOWN(zap)
{
	restore(self->before, self->ksm, self->ksm_sleep);
}

static void run_on(int cpu, int fifo_priority)
{
	struct sched_param param = { .sched_priority = fifo_priority };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) ||
	    (fifo_priority && sched_setscheduler(0, SCHED_FIFO, &param)))
		_exit(5);
}

static char *fill(size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(6);
	madvise(p, len, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < len; at += PAGE)
		p[at] = 1;
	return p;
}

/*
 * A CPU keeps the group that it charged last, until it charges another one.  If that stock is empty
 * the kernel does not drain it when the group goes.
 */
static void charge_another_group(void)
{
	int cpu;

	mkdir(CGROUPS "/other", 0700);
	for (cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
		pid_t pid = fork();

		if (!pid) {
			if (!write_file(CGROUPS "/other/cgroup.procs", "0")) {
				run_on(cpu, 0);
				fill(256 * PAGE);
			}
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

/* Groups that have been removed are freed as soon as nothing refers to them. */
static bool groups_go(long before)
{
	int i;
	long now = -1;

	if (rmdir(CGROUPS "/a") || rmdir(CGROUPS "/b"))
		return false;
	for (i = 0; i < 100; i++) {
		now = value_of(CGROUPS "/cgroup.stat", "nr_dying_descendants");
		if (now <= before)
			return true;
		write_file("/proc/sys/vm/drop_caches", "3");
		charge_another_group();
		usleep(100000);
	}
	ksft_print_msg("%ld removed groups are left, %ld before\n", now, before);
	return false;
}

/* What is left of a group in whose memory nobody is any more, some time after it was used */
static bool nothing_left(const char *group)
{
	static const char * const item[] = {
		"anon", "file_mapped", "inactive_anon", "active_anon", "unevictable", "shmem",
		"anon_thp",
	};
	bool ok = true;
	long left;
	char buf[32];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(item); i++) {
		left = value_of(in(group, "memory.stat"), item[i]);
		if (left) {
			ksft_print_msg("%s: %ld bytes of %s\n", group, left, item[i]);
			ok = false;
		}
	}
	left = lru_gen_pages(group);
	if (left < 0 || left > 64) {
		ksft_print_msg("%s: %ld pages in generations\n", group, left);
		ok = false;
	}
	/* What CPUs have in stock, and what the kernel has for the group */
	left = read_file(in(group, "memory.current"), buf, sizeof(buf)) ? atol(buf) : -1;
	if (left < 0 || left > 2048 * 1024) {
		ksft_print_msg("%s: %ld bytes are charged\n", group, left);
		ok = false;
	}
	return ok;
}

static bool nodes_as_before(const long before[NR_COUNTS])
{
	long after[NR_COUNTS], more;
	bool ok = true;
	int i;

	node_counts(after);
	for (i = 0; i < NR_ITEMS; i++) {
		more = after[i] - before[i];
		if (i == NR_ITEMS - 1 ? -more > FREE_NOISE : labs(more) > NOISE) {
			ksft_print_msg("%s: %ld before, %ld after\n", node_item[i], before[i],
				       after[i]);
			ok = false;
		}
	}
	for (; i < NR_COUNTS; i++) {
		if (labs(after[i] - before[i]) > ZONE_NOISE) {
			ksft_print_msg("zone %d: %ld before, %ld after\n", i - NR_ITEMS,
				       before[i], after[i]);
			ok = false;
		}
	}
	return ok;
}

static bool told(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	char c;

	return poll(&poll_fd, 1, 20000) == 1 && read(fd, &c, 1) == 1;
}

/* A process in a group with a known number of pages, or -1 */
static pid_t known_pages(const char *group)
{
	int pipes[2];
	pid_t pid;

	if (pipe(pipes))
		return -1;
	pid = fork();
	if (!pid) {
		char *p = mmap(NULL, KNOWN * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED || write_file(in(group, "cgroup.procs"), "0"))
			_exit(2);
		madvise(p, KNOWN * PAGE, MADV_NOHUGEPAGE);
		for (size_t at = 0; at < KNOWN * PAGE; at += PAGE)
			p[at] = 1;
		if (write(pipes[1], "", 1) != 1)
			_exit(3);
		pause();
	}
	told(pipes[0]);
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

/* A counter below zero is shown as zero: is what known_pages() has touched counted? */
static bool known_is_counted(const char *group, pid_t pid)
{
	long anon = value_of(in(group, "memory.stat"), "anon");

	if (pid < 0 || kill(pid, SIGKILL) || waitpid(pid, NULL, 0) != pid)
		return false;
	/* The process has some more. */
	if (anon >= (long)(KNOWN * PAGE) && anon < (long)((KNOWN + 64) * PAGE))
		return true;
	ksft_print_msg("%s: %ld bytes of anon with %lu pages\n", group, anon, KNOWN);
	return false;
}

static void all_is_back(struct __test_metadata *_metadata, const long node[NR_COUNTS], long dying)
{
	pid_t a = known_pages("a"), b = known_pages("b");

	usleep(SETTLE_MS * 1000);
	EXPECT_TRUE(known_is_counted("a", a));
	EXPECT_TRUE(known_is_counted("b", b));
	/* Page cache goes, too. */
	write_file("/proc/sys/vm/drop_caches", "3");
	usleep(SETTLE_MS * 1000);
	EXPECT_TRUE(nothing_left("a"));
	EXPECT_TRUE(nothing_left("b"));
	EXPECT_TRUE(nodes_as_before(node));
	EXPECT_TRUE(groups_go(dying));
}

TEST_F_TIMEOUT(zap, all_kinds, 300)
{
	int kind, how;

	ASSERT_EQ(0, mkdir(CGROUPS "/swap", 0700));
	for (kind = 0; kind < NR_KINDS; kind++) {
		for (how = 0; how < NR_HOWS; how++) {
			/* The last swap entries of a group keep it until others are freed. */
			bool ok = run_one(kind == SWAPPED ? "swap" : how % 2 ? "a" : "b", kind,
					  how);

			if (!ok)
				ksft_print_msg("%s, %s\n", kind_name[kind], how_name[how]);
			EXPECT_TRUE(ok);
		}
	}
	all_is_back(_metadata, self->node, self->dying);
	EXPECT_TRUE(nothing_left("swap"));
}

/* Pages of two groups in turn, so that each run has one page. */
TEST_F_TIMEOUT(zap, in_turn, 120)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

		if (p == MAP_FAILED)
			_exit(2);
		madvise(p, LEN, MADV_NOHUGEPAGE);
		for (size_t at = 0; at < LEN; at += PAGE) {
			if (write_file(in(at / PAGE % 2 ? "a" : "b", "cgroup.procs"), "0"))
				_exit(3);
			p[at] = 1;
		}
		munmap(p, LEN);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	all_is_back(_metadata, self->node, self->dying);
}

/* In each of four processes all kinds of memory, some way each.  False if one has failed. */
static bool run_four(void (*meanwhile)(int i))
{
	bool ok = true;
	int i, status;
	pid_t pid[4];

	for (i = 0; i < 4; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			for (int k = 0; k < NR_KINDS; k++)
				if (k != SWAPPED &&
				    !run_one(i % 2 ? "a" : "b", k, (i + k) % NR_HOWS))
					_exit(1);
			_exit(0);
		}
	}
	for (i = 0; i < 4;) {
		meanwhile(i);
		if (waitpid(pid[i], &status, WNOHANG) == pid[i]) {
			ok &= !status;
			i++;
		}
	}
	return ok;
}

static void turn_switch(int i)
{
	static bool on;

	write_file(ENABLED, on ? "1" : "0");
	on = !on;
	usleep(50000);
}

/* The switch is turned all the time. */
TEST_F_TIMEOUT(zap, switching, 120)
{
	EXPECT_TRUE(run_four(turn_switch));
	EXPECT_EQ(0, tier_part_turn("zap", true));
	all_is_back(_metadata, self->node, self->dying);
}

#define CPU1	"/sys/devices/system/cpu/cpu1/online"

static void turn_cpu(int i)
{
	write_file(CPU1, "0");
	usleep(200000);
	write_file(CPU1, "1");
	usleep(200000);
}

/* A CPU with gathered statistics and lists of free pages of its own goes and comes. */
TEST_F_TIMEOUT(zap, cpu_hotplug, 300)
{
	if (access(CPU1, W_OK))
		SKIP(return, "CPU 1 cannot be switched off");
	EXPECT_TRUE(run_four(turn_cpu));
	all_is_back(_metadata, self->node, self->dying);
}

/* A group is removed, and what was charged to it is unmapped at the same time. */
TEST_F_TIMEOUT(zap, offline, 120)
{
	static const enum kind kinds[] = { ANON, SHMEM, LOCKED, THP };
	int i, status, to_parent[2];
	pid_t pid;
	char *p;

	ASSERT_EQ(0, pipe(to_parent));
	for (i = 0; i < 20; i++) {
		enum kind kind = kinds[i % ARRAY_SIZE(kinds)];

		ASSERT_EQ(0, mkdir(CGROUPS "/gone", 0700));
		pid = fork();
		if (!pid) {
			if (write_file(in("gone", "cgroup.procs"), "0"))
				_exit(2);
			p = map_kind(kind, -1);
			if (!p || write_file(in("a", "cgroup.procs"), "0"))
				_exit(3);
			if (write(to_parent[1], "", 1) != 1)
				_exit(4);
			unmap(p, length_of(kind), i / 4 % EXIT);
			_exit(0);
		}
		EXPECT_TRUE(told(to_parent[0]));
		EXPECT_EQ(0, rmdir(CGROUPS "/gone"));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
	}
	all_is_back(_metadata, self->node, self->dying);
}

/* Each page that is freed is counted as freed. */
TEST_F_TIMEOUT(zap, freed_pages_are_counted, 120)
{
	char *p = fill(LEN);
	long before, after;

	before = value_of("/proc/vmstat", "pgfree");
	munmap(p, LEN);
	after = value_of("/proc/vmstat", "pgfree");
	EXPECT_GE(after - before, (long)NR_PAGES);
}

#define V1	"/tmp/zap_v1"

FIXTURE(v1)
{
	char before[8];
};

/* The controller must not be in use by v2. */
FIXTURE_SETUP(v1)
{
	if (!read_file(ENABLED, self->before, sizeof(self->before)))
		SKIP(return, "no batched unmapping (CONFIG_ZAP_BATCH)");
	mkdir(V1, 0700);
	if (mount("none", V1, "cgroup", 0, "memory") || mkdir(V1 "/a", 0700) ||
	    tier_part_turn("zap", true))
		SKIP(return, "no memory control groups (v1)");
}

FIXTURE_TEARDOWN(v1)
{
	write_file(ENABLED, self->before);
	rmdir(V1 "/a");
	umount(V1);
	rmdir(V1);
}

/* A group of cgroup v1 counts the pages that leave it. */
TEST_F_TIMEOUT(v1, pages_that_leave_are_counted, 300)
{
	int status, tries = 50;
	pid_t pid = fork();

	if (!pid) {
		if (write_file(V1 "/a/tasks", "0"))
			_exit(2);
		/* No page waits in another CPU's batch of the LRU lists. */
		run_on(0, 0);
		munmap(fill(LEN), LEN);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	/* The kernel adds up all CPUs' events every two seconds. */
	while (value_of(V1 "/a/memory.stat", "pgpgout") < (long)NR_PAGES && tries--)
		usleep(100000);
	EXPECT_LE((long)NR_PAGES, value_of(V1 "/a/memory.stat", "pgpgout"));
}

#define REAPED_KB	(36 << 10)
#define RT_RUNTIME	"/proc/sys/kernel/sched_rt_runtime_us"

/*
 * The OOM reaper unmaps what a victim has that gets no CPU to exit; then the victim gets one, and
 * both may be at it.
 */
TEST_F_TIMEOUT(zap, oom_reaper, 120)
{
	bool victim_ready, hog_ready = false;
	pid_t victim, hog = -1, eater = -1;
	int status = -1, pipes[2], i;
	char path[64], rt[16];
	long rss = -1, kills;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU");
	ASSERT_TRUE(read_file(RT_RUNTIME, rt, sizeof(rt)));
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, write_file(in("a", "memory.max"), "67108864"));
	write_file(in("a", "memory.swap.max"), "0");
	victim = fork();
	if (!victim) {
		if (write_file(in("a", "cgroup.procs"), "0") ||
		    write_file("/proc/self/oom_score_adj", "1000"))
			_exit(2);
		fill(40UL << 20);
		run_on(1, 1);
		for (;;)
			if (write(pipes[1], "", 1) != 1 || pause())
				continue;
	}
	victim_ready = told(pipes[0]);
	/* From now on the victim does not run; nor does anything else on this CPU. */
	if (victim_ready && !write_file(RT_RUNTIME, "-1")) {
		hog = fork();
		if (!hog) {
			run_on(1, 50);
			alarm(20);
			if (write(pipes[1], "", 1) != 1)
				_exit(3);
			for (;;)
				;
		}
		hog_ready = told(pipes[0]);
	}
	if (hog_ready) {
		eater = fork();
		if (!eater) {
			run_on(0, 0);
			if (write_file(in("a", "cgroup.procs"), "0"))
				_exit(2);
			/* Too much beside the victim, and half of the limit without it */
			fill(32UL << 20);
			_exit(0);
		}
	}
	/* It has 40 MiB.  While the hog is there only the reaper can unmap what the victim has. */
	snprintf(path, sizeof(path), "/proc/%d/status", victim);
	for (i = 0; eater > 0 && i < 150; i++) {
		usleep(100000);
		rss = value_of(path, "RssAnon:");
		if (rss < REAPED_KB)
			break;
	}
	/* Whatever has happened, nothing is left as it is. */
	kills = value_of(in("a", "memory.events"), "oom_kill");
	if (hog > 0)
		kill(hog, SIGKILL);
	if (eater > 0)
		waitpid(eater, &status, 0);
	kill(victim, SIGKILL);
	write_file(RT_RUNTIME, rt);
	write_file(in("a", "memory.max"), "max");
	waitpid(victim, NULL, 0);
	if (hog > 0)
		waitpid(hog, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);

	EXPECT_TRUE(victim_ready);
	EXPECT_TRUE(hog_ready);
	EXPECT_EQ(0, status);
	EXPECT_EQ(1, kills);
	EXPECT_GE(rss, 0);
	EXPECT_LT(rss, REAPED_KB);
	all_is_back(_metadata, self->node, self->dying);
}

#define FAIL	"/sys/kernel/debug/fail_page_alloc/"

/* There is no page for what the gather has to keep. */
TEST_F_TIMEOUT(zap, no_memory, 120)
{
	static const char * const set[][2] = {
		{ FAIL "min-order", "0" }, { FAIL "ignore-gfp-wait", "N" },
		{ FAIL "task-filter", "Y" }, { FAIL "verbose", "0" },
		{ FAIL "times", "1000000" }, { FAIL "probability", "100" },
	};
	int status = -1, how, failed = 0;
	char left[16];
	pid_t pid;
	size_t i;

	if (access(FAIL, F_OK))
		SKIP(return, "no fault injection (CONFIG_FAIL_PAGE_ALLOC)");
	for (i = 0; i < ARRAY_SIZE(set); i++)
		ASSERT_EQ(0, write_file(set[i][0], set[i][1]));
	for (how = DONTNEED; how <= KILL; how++) {
		pid = fork();
		if (!pid) {
			char *p;

			if (write_file(in("a", "cgroup.procs"), "0"))
				_exit(2);
			p = map_kind(ANON, -1);
			if (!p || write_file("/proc/self/make-it-fail", "1"))
				_exit(3);
			unmap(p, LEN, how);
			_exit(0);
		}
		failed += waitpid(pid, &status, 0) != pid || status != (how == KILL ? SIGKILL : 0);
	}
	EXPECT_EQ(0, write_file(FAIL "probability", "0"));
	EXPECT_TRUE(read_file(FAIL "times", left, sizeof(left)));
	write_file(FAIL "times", "0");
	write_file(FAIL "task-filter", "N");
	EXPECT_EQ(0, failed);
	/* Each time one for some pages of 2048 must have failed. */
	EXPECT_LT(atol(left), 1000000 - 300);
	all_is_back(_metadata, self->node, self->dying);
}

TEST(bad_input)
{
	static const char * const bad[] = { "2", "-1", "on", "yes", "01", "1 0" };
	char before[8], after[8];
	size_t i;

	if (!read_file(ENABLED, before, sizeof(before)))
		SKIP(return, "no batched unmapping (CONFIG_ZAP_BATCH)");
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(-EINVAL, write_file(ENABLED, bad[i]));
	EXPECT_TRUE(read_file(ENABLED, after, sizeof(after)));
	EXPECT_STREQ(before, after);
	EXPECT_EQ(0, write_file(ENABLED, "1\n"));
	EXPECT_TRUE(read_file(ENABLED, after, sizeof(after)));
	EXPECT_STREQ("1\n", after);
	EXPECT_EQ(0, write_file(ENABLED, before));
}

TEST_HARNESS_MAIN
