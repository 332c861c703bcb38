// SPDX-License-Identifier: GPL-2.0
/*
 * Page cache that is hot through read(2) is promoted: of a disk file system and of tmpfs,
 * also read by splice(2), while cold pages stay, and what is read only once, in small
 * pieces, not to be used again, under a memory policy, or past the page cache, and what is
 * mapped.  Nothing is promoted while page_cache is 0.  Files that are written, truncated,
 * removed and unmounted meanwhile keep their contents.
 *
 * Each test must fail while the switch in /sys/kernel/debug/tier/faults/ is set that breaks its
 * rule:
 *
 *   off		scan_cache_off
 *   stream		scan_cache_once
 *   parts		scan_cache_part
 *   mapped		scan_cache_mapped
 *   noreuse, reader_bound, reader_cpuset, tmpfs_bound	scan_policy
 *   opted_out	scan_opt_out
 *
 * The disk is zram, with ext2.  Where pages of a file are can be asked only if they are
 * mapped, so that is done after kmmscand has been disabled.
 */
#define _GNU_SOURCE
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "kmmscand_util.h"
#include "../tier/tier_disk.h"

#define MB		(1024UL * 1024)
#define PER_MB		(MB / PAGE)
#define DIR_DISK	"/tmp/kmmscand_cache_test"
#define DIR_TMPFS	"/tmp/kmmscand_cache_tmpfs"
#define VM		"/proc/sys/vm/"
#define CGROUPS		"/tmp/kmmscand_cache_cgroups"

/* Until hot pages must have arrived, and how long races are run */
#define ARRIVE_S	20
#define RACE_S		6

static long promoted(void)
{
	return event_count("tier_promote_success");
}

static long read_touched(void)
{
	return event_count("tier_scan_read");
}

/* Memory policy of this task: what it allocates comes from the node, or from any if < 0. */
static int bind_to(int nid)
{
	unsigned long mask = 1UL << nid;

	if (nid < 0)
		return syscall(__NR_set_mempolicy, MPOL_DEFAULT, NULL, 0UL);
	return syscall(__NR_set_mempolicy, MPOL_BIND, &mask, (unsigned long)MAX_NODES + 1);
}

/* Read pages, or their first @bytes.  False if that fails. */
static bool read_pages(int fd, off_t at, size_t len, size_t bytes)
{
	static char buf[PAGE];
	size_t i;

	for (i = 0; i < len; i += PAGE)
		if (pread(fd, buf, bytes, at + i) != (ssize_t)bytes)
			return false;
	return true;
}

static bool stamp_pages(int fd, size_t len, uint64_t salt)
{
	uint64_t page[PAGE / sizeof(uint64_t)] = {};
	size_t i;

	for (i = 0; i < len; i += PAGE) {
		page[0] = stamp(i) ^ salt;
		page[PAGE / sizeof(uint64_t) - 1] = ~page[0];
		if (pwrite(fd, page, PAGE, i) != PAGE)
			return false;
	}
	return true;
}

static bool stamps_intact(int fd, size_t len, uint64_t salt)
{
	uint64_t page[PAGE / sizeof(uint64_t)];
	size_t i;

	for (i = 0; i < len; i += PAGE) {
		if (pread(fd, page, PAGE, i) != PAGE || page[0] != (stamp(i) ^ salt) ||
		    page[PAGE / sizeof(uint64_t) - 1] != ~page[0]) {
			ksft_print_msg("page %zu of the file is damaged\n", i / PAGE);
			return false;
		}
	}
	return true;
}

/* How many pages of a file are on the node?  Maps it meanwhile. */
static unsigned long count_file(int fd, off_t at, size_t len, int nid)
{
	char *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, at);
	unsigned long n;

	if (p == MAP_FAILED)
		return 0;
	touch(p, len);
	n = count_on(p, len, nid);
	munmap(p, len);
	return n;
}

/* Have the page cache of a file on the slow node.  Nobody may map it. */
static bool bring_in(int fd, size_t len)
{
	bool ok = !fsync(fd) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) && !bind_to(slow);

	ok = ok && read_pages(fd, 0, len, PAGE);
	bind_to(-1);
	return ok && count_file(fd, 0, len, slow) >= len / PAGE * 98 / 100;
}

/* A file on the slow node, or -1 and the test has been skipped. */
static int make_file(const char *path, size_t len)
{
	bool disk = !strncmp(path, DIR_DISK, strlen(DIR_DISK)), ok;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (!disk)
		bind_to(slow);
	ok = fd >= 0 && stamp_pages(fd, len, 0);
	bind_to(-1);
	if (ok && (disk ? bring_in(fd, len) : count_file(fd, 0, len, slow) == len / PAGE))
		return fd;
	ksft_test_result_skip("no page cache on the slow node\n");
	if (fd >= 0)
		close(fd);
	return -1;
}

static void drop_file(int fd, const char *path)
{
	close(fd);
	unlink(path);
}

/* Keep pages hot for so long, or until so many pages have been promoted. */
static void heat(int fd, off_t at, size_t len, double seconds, unsigned long enough)
{
	double end = now() + seconds, next = now() + 0.3;
	long before = promoted();

	while (now() < end) {
		if (!read_pages(fd, at, len, 512))
			return;
		/* Others need the CPU, too. */
		usleep(2000);
		if (now() < next)
			continue;
		next = now() + 0.3;
		if (enough && promoted() - before >= (long)enough) {
			/* Some of them may be of others. */
			end = end < now() + 1 ? end : now() + 1;
			enough = 0;
		}
	}
}

/* Are most of these pages on the fast node?  kmmscand must be off. */
static bool arrived(int fd, off_t at, size_t len, const char *what)
{
	unsigned long nr = count_file(fd, at, len, fast);

	ksft_print_msg("%lu of %lu %s were promoted\n", nr, len / PAGE, what);
	return nr >= len / PAGE * 9 / 10;
}

static bool stayed(int fd, off_t at, size_t len, const char *what)
{
	unsigned long nr = count_file(fd, at, len, fast);

	ksft_print_msg("%lu of %lu %s were promoted\n", nr, len / PAGE, what);
	return nr <= len / PAGE / 50;
}

/* Hot pages in the middle of a cold file */
static void hot_and_cold(const char *path, const char *what)
{
	const size_t len = 16 * MB, hot = MB, at = 5 * MB;
	int fd = make_file(path, len);
	long before;
	bool ok;

	if (fd < 0)
		return;
	before = read_touched();
	ok = !enable(true);
	heat(fd, at, hot, ARRIVE_S, hot / PAGE);
	ok &= read_touched() - before >= (long)(hot / PAGE);
	ok &= !enable(false);
	ok &= arrived(fd, at, hot, "hot pages");
	ok &= stayed(fd, 0, at, "cold pages in front of them");
	ok &= stayed(fd, at + hot, len - at - hot, "cold pages behind them");
	ok &= stamps_intact(fd, len, 0);
	ksft_test_result(ok, "%s\n", what);
	drop_file(fd, path);
}

static void test_read(void)
{
	hot_and_cold(DIR_DISK "/read", "pages are promoted that are hot through read(2) alone");
}

static void test_tmpfs(void)
{
	hot_and_cold(DIR_TMPFS "/read", "also of a tmpfs file");
}

/* Huge pages of tmpfs: of some one page is read, others are cold. */
static void test_huge(void)
{
	const char *dir = DIR_TMPFS "/huge", *path = DIR_TMPFS "/huge/file";
	long nomem = event_count("tier_promote_fail_nomem");
	long busy = event_count("tier_promote_fail_busy");
	long before = promoted();
	const size_t hot = 2 * HUGE;
	int fd = -1;
	bool ok;

	mkdir(dir, 0700);
	if (mount("none", dir, "tmpfs", 0, "huge=always")) {
		ksft_test_result_skip("no huge pages in tmpfs: %s\n", strerror(errno));
		return;
	}
	fd = make_file(path, 4 * HUGE);
	if (fd < 0)
		goto out;
	ok = !enable(true);
	for (double end = now() + ARRIVE_S; ok && now() < end;) {
		ok = read_pages(fd, 5 * PAGE, PAGE, PAGE) &&
		     read_pages(fd, HUGE + 100 * PAGE, PAGE, PAGE);
		/* Who is being read just then cannot be migrated. */
		usleep(20000);
		if (promoted() - before >= (long)(hot / PAGE))
			break;
	}
	ok &= !enable(false);
	ksft_print_msg("no memory for %ld, busy %ld\n",
		       event_count("tier_promote_fail_nomem") - nomem,
		       event_count("tier_promote_fail_busy") - busy);
	ok &= arrived(fd, 0, hot, "pages of huge ones that are read");
	ok &= stayed(fd, hot, 2 * HUGE, "pages of cold ones");
	ok &= stamps_intact(fd, 4 * HUGE, 0);
	ksft_test_result(ok, "huge pages of tmpfs are promoted whole\n");
	close(fd);
out:
	umount(dir);
	rmdir(dir);
}

static void test_splice(void)
{
	const char *path = DIR_DISK "/splice";
	int fd = make_file(path, MB), null = open("/dev/null", O_WRONLY);
	double end = now() + ARRIVE_S / 2;
	bool ok;
	off_t at;

	if (fd < 0)
		return;
	ok = !enable(true);
	while (ok && now() < end) {
		at = 0;
		ok = sendfile(null, fd, &at, MB) > 0;
		usleep(2000);
	}
	ok &= !enable(false);
	ok &= arrived(fd, 0, MB, "hot pages");
	ksft_test_result(ok && stamps_intact(fd, MB, 0),
			 "pages are promoted that are hot through sendfile(2)\n");
	drop_file(fd, path);
	close(null);
}

static void test_bad_input(void)
{
	static const char * const bad[] = { "2", "-1", "x", " ", "on", "y", "0x1", "1 1", "01" };
	const char *path = TIER_PARTS "scan/page_cache";
	char before[32], after[32];
	unsigned int i;
	bool ok;

	ok = read_file(path, before, sizeof(before));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		ok &= write_file(path, bad[i]) == -EINVAL;
		ok &= read_file(path, after, sizeof(after)) && !strcmp(before, after);
	}
	for (i = 0; i < 4; i++) {
		ok &= !write_file(path, i & 1 ? "1\n" : "0");
		ok &= read_file(path, after, sizeof(after)) && !strcmp(after, i & 1 ? "1" : "0");
	}
	ok &= !write_file(path, before);
	ksft_test_result(ok, "page_cache is 0 or 1\n");
}

static void test_off(void)
{
	const char *path = DIR_DISK "/off";
	int fd = make_file(path, MB);
	long before = read_touched();
	bool ok;

	if (fd < 0)
		return;
	ok = !set("scan/page_cache", "0") && !enable(true);
	heat(fd, 0, MB, 4, 0);
	ok &= read_touched() == before;
	/* While it runs */
	ok &= !set("scan/page_cache", "1");
	heat(fd, 0, MB, 0.5, 0);
	ok &= !set("scan/page_cache", "0");
	usleep(100000);
	before = read_touched();
	heat(fd, 0, MB, 1, 0);
	ok &= read_touched() == before;
	ok &= !enable(false);
	heat(fd, 0, MB, 1, 0);
	ok &= read_touched() == before;
	ksft_test_result(ok, "with page_cache 0, and disabled, reads are not looked at\n");
	drop_file(fd, path);
}

/* What stays proves nothing if nothing is promoted: a file that is hot has to arrive. */
static int open_hot(void)
{
	return make_file(DIR_DISK "/hot", MB);
}

static bool hot_arrives(int hot)
{
	bool ok = arrived(hot, 0, MB, "hot pages");

	drop_file(hot, DIR_DISK "/hot");
	return ok;
}

/* A file is read once, with large and with small buffers. */
static void test_stream(void)
{
	const char *path = DIR_DISK "/stream";
	const size_t len = 64 * MB;
	static char buf[32 * PAGE];
	double start, seconds = 6;
	int hot = open_hot(), fd;
	size_t done, size, due, i;
	bool ok;

	if (hot < 0)
		return;
	fd = make_file(path, len);
	if (fd < 0)
		return;
	ok = !set("promote/rate_mbps", "64") && !enable(true);
	for (start = now(), done = 0; ok && done < len; done += i) {
		due = (now() - start) / seconds * len;
		/* By 128 KiB, and by 512 bytes */
		size = done < len / 2 ? sizeof(buf) : 512;
		for (i = 0; ok && i < MB && done + i < len && done + i < due; i += size)
			ok = read(fd, buf, size) == (ssize_t)size;
		ok &= read_pages(hot, 0, MB, PAGE);
		usleep(2000);
	}
	heat(hot, 0, MB, 2, 0);
	ok &= !enable(false);
	ok &= stayed(fd, 0, len / 2, "pages that were read once");
	ok &= stayed(fd, len / 2, len / 2, "pages that were read once in small pieces");
	ok &= hot_arrives(hot);
	ksft_test_result(ok, "what is only read once stays\n");
	drop_file(fd, path);
}

/*
 * Pages that are read once, but so slowly that many looks find a read: each by a file
 * description of its own.
 */
static void test_parts(void)
{
	const char *path = DIR_DISK "/parts";
	enum { READERS = 64, PIECE = 32 };
	int fds[READERS], i, fd, hot = open_hot();
	bool ok = true;
	char buf[PIECE];
	size_t done;

	if (hot < 0)
		return;
	fd = make_file(path, READERS * PAGE);
	if (fd < 0)
		return;
	for (i = 0; i < READERS; i++) {
		fds[i] = open(path, O_RDONLY);
		ok &= fds[i] >= 0 && lseek(fds[i], i * PAGE, SEEK_SET) == (off_t)(i * PAGE);
	}
	ok &= !enable(true);
	for (done = 0; ok && done < PAGE; done += PIECE) {
		for (i = 0; ok && i < READERS; i++)
			ok = read(fds[i], buf, PIECE) == PIECE;
		heat(hot, 0, MB, 0.05, 0);
	}
	ok &= !enable(false);
	ok &= stayed(fd, 0, READERS * PAGE, "pages that were read in small pieces");
	ok &= hot_arrives(hot);
	ksft_test_result(ok, "parts of a page that are read in turn are one read\n");
	for (i = 0; i < READERS; i++)
		close(fds[i]);
	drop_file(fd, path);
}

/* Page cache that is mapped is the scanner's, which sees no access. */
static void test_mapped(void)
{
	const char *path = DIR_DISK "/mapped";
	int hot = open_hot(), fd;
	unsigned long moved;
	double end;
	char *p;
	bool ok;

	if (hot < 0)
		return;
	fd = make_file(path, MB);
	if (fd < 0)
		return;
	p = mmap(NULL, MB, PROT_READ, MAP_SHARED, fd, 0);
	ok = p != MAP_FAILED && !enable(true);
	if (ok)
		touch(p, MB);
	for (end = now() + 6; ok && now() < end;) {
		ok = read_pages(fd, 0, MB, PAGE) && read_pages(hot, 0, MB, PAGE);
		usleep(2000);
	}
	ok &= !enable(false);
	moved = p == MAP_FAILED ? 0 : count_on(p, MB, fast);
	ksft_print_msg("%lu of %lu mapped pages were promoted\n", moved, PER_MB);
	ok &= moved <= PER_MB / 50;
	ok &= hot_arrives(hot);
	ksft_test_result(ok, "mapped page cache is left to the scanners\n");
	if (p != MAP_FAILED)
		munmap(p, MB);
	drop_file(fd, path);
}

/* A child reads the file as @prepare has it, this process another one. */
static void left_out(const char *path, bool (*prepare)(int fd), const char *what)
{
	int hot = open_hot(), fd, status;
	long refused;
	pid_t pid;
	bool ok;

	if (hot < 0)
		return;
	fd = make_file(path, MB);
	if (fd < 0)
		return;
	pid = fork_child();
	if (!pid) {
		fd = open(path, O_RDONLY);
		if (fd < 0 || (prepare && !prepare(fd)))
			_exit(1);
		heat(fd, 0, MB, 60, 0);
		_exit(2);
	}
	refused = event_count("tier_promote_fail_policy");
	ok = !enable(true);
	heat(hot, 0, MB, 6, 0);
	refused = event_count("tier_promote_fail_policy") - refused;
	ksft_print_msg("%ld pages were refused\n", refused);
	/* Not even tried.  Each visit tries the pages that this process shares with the child. */
	ok &= refused <= (long)PER_MB / 2;
	ok &= !waitpid(pid, &status, WNOHANG);
	ok &= !enable(false);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ok &= stayed(fd, 0, MB, what);
	ok &= hot_arrives(hot);
	ksft_test_result(ok, "page cache stays: %s\n", what);
	drop_file(fd, path);
}

static bool advise_noreuse(int fd)
{
	return !posix_fadvise(fd, 0, 0, POSIX_FADV_NOREUSE);
}

static void test_noreuse(void)
{
	left_out(DIR_DISK "/noreuse", advise_noreuse, "pages that are not to be used again");
}

static bool bind_reader(int fd)
{
	return fd >= 0 && !bind_to(slow);
}

static void test_reader_bound(void)
{
	left_out(DIR_DISK "/bound", bind_reader, "pages whose readers are bound");
}

static bool enter_slow_cpuset(int fd)
{
	char mems[16];

	snprintf(mems, sizeof(mems), "%d", slow);
	return fd >= 0 && enter_cpuset(CGROUPS, "slow", mems);
}

static void test_reader_cpuset(void)
{
	if (!mount_group(CGROUPS, "slow")) {
		ksft_test_result_skip("no control groups (v2)\n");
		return;
	}
	left_out(DIR_DISK "/cpuset", enter_slow_cpuset, "pages whose readers are in a cpuset");
	umount_group(CGROUPS, "slow");
}

static bool opt_out(int fd)
{
	return fd >= 0 && !prctl(PR_SET_TIER_SCAN, 0, 0, 0, 0);
}

static void test_opted_out(void)
{
	left_out(DIR_DISK "/opted_out", opt_out, "pages whose readers have opted out");
}

/* A tmpfs that is bound to the slow node */
static void test_tmpfs_bound(void)
{
	const char *dir = DIR_TMPFS "/bound";
	char options[32];

	snprintf(options, sizeof(options), "mpol=bind:%d", slow);
	mkdir(dir, 0700);
	if (mount("none", dir, "tmpfs", 0, options)) {
		ksft_test_result_skip("no tmpfs with a policy: %s\n", strerror(errno));
		return;
	}
	left_out(DIR_TMPFS "/bound/file", NULL, "pages of a bound tmpfs");
	umount(dir);
	rmdir(dir);
}

/* Reads that touch no page cache that could move */
static void test_past(void)
{
	const char *path = DIR_DISK "/past";
	int fd = make_file(path, MB), direct = open(path, O_RDONLY | O_DIRECT), huge = -1, i;
	char *buf = NULL, *p;
	long before;
	bool ok;

	if (fd < 0)
		return;
	ok = direct >= 0 && !posix_memalign((void **)&buf, PAGE, MB) && !enable(true);
	/* What is enabled lately may look at what we did before. */
	usleep(500000);
	before = read_touched();
	for (i = 0; ok && i < 200; i++)
		ok = pread(direct, buf, MB, 0) == (ssize_t)MB;
	/* Some are others', who read what they need. */
	ksft_print_msg("%ld touched by direct reads\n", read_touched() - before);
	ok &= read_touched() - before < (long)PER_MB / 4;

	change("/proc/sys/vm/nr_hugepages", "4");
	huge = syscall(__NR_memfd_create, "huge", 4 /* MFD_HUGETLB */);
	bind_to(slow);
	p = huge < 0 || ftruncate(huge, HUGE) ? MAP_FAILED :
	    mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, huge, 0);
	bind_to(-1);
	before = read_touched();
	if (p != MAP_FAILED) {
		munmap(p, HUGE);
		for (i = 0; ok && i < 50; i++)
			ok = pread(huge, buf, MB, 0) == (ssize_t)MB;
	} else {
		ksft_print_msg("no hugetlb pages: not looked at\n");
	}
	ok &= read_touched() - before < (long)PER_MB / 4;
	ok &= !enable(false);
	ok &= stayed(fd, 0, MB, "pages that were read directly");
	ksft_test_result(ok, "direct reads and hugetlbfs do not count\n");
	if (huge >= 0)
		close(huge);
	close(direct);
	drop_file(fd, path);
	free(buf);
}

static void test_hole(void)
{
	const char *path = DIR_DISK "/hole";
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	uint64_t word = 1;
	bool ok;

	if (fd < 0 || ftruncate(fd, MB) || !bring_in(fd, MB)) {
		ksft_test_result_skip("no file with a hole\n");
		return;
	}
	ok = !enable(true);
	heat(fd, 0, MB, ARRIVE_S, PER_MB);
	ok &= !enable(false);
	ok &= arrived(fd, 0, MB, "hot pages");
	for (off_t at = 0; at < (off_t)MB; at += PAGE)
		ok &= pread(fd, &word, sizeof(word), at + 1000) == sizeof(word) && !word;
	ksft_test_result(ok, "holes are promoted as zeros\n");
	drop_file(fd, path);
}

/* Dirty pages stay until they have been written back; then they may move. */
static void test_dirty(void)
{
	const char *path = DIR_DISK "/dirty";
	int hot = open_hot(), fd;
	bool ok;

	if (hot < 0)
		return;
	fd = make_file(path, MB);
	if (fd < 0)
		return;
	change(VM "dirty_writeback_centisecs", "0");
	change(VM "dirty_expire_centisecs", "100000");
	ok = stamp_pages(fd, MB, 1) && !enable(true);
	for (double end = now() + 6; ok && now() < end;) {
		ok = read_pages(hot, 0, MB, 512) && read_pages(fd, 0, MB, 512);
		usleep(2000);
	}
	ok &= !enable(false);
	ok &= stayed(fd, 0, MB, "dirty pages");
	ok &= hot_arrives(hot);
	ok &= !fsync(fd) && !enable(true);
	heat(fd, 0, MB, ARRIVE_S, PER_MB);
	ok &= !enable(false);
	ok &= arrived(fd, 0, MB, "pages that have been written back");
	ok &= stamps_intact(fd, MB, 1);
	ksft_test_result(ok, "dirty pages stay, written ones do not, contents intact\n");
	drop_file(fd, path);
}

/* Reads a file while it is rewritten and written back. */
static void load_write(void)
{
	const char *path = DIR_DISK "/write";
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	uint64_t salt;

	for (salt = 1; fd >= 0; salt++) {
		bind_to(slow);
		if (!(salt % 8) && (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)))
			exit(1);
		if (!stamp_pages(fd, MB, salt))
			exit(1);
		bind_to(-1);
		for (int i = 0; i < 60; i++) {
			if (!stamps_intact(fd, MB, salt) || (i == 20 && fsync(fd)))
				exit(1);
			usleep(1000);
		}
	}
	exit(2);
}

/* Reads files that become shorter and longer, and that are removed. */
static void load_truncate(void)
{
	const char *path = DIR_DISK "/truncate";

	for (;;) {
		int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

		bind_to(slow);
		if (fd < 0 || !stamp_pages(fd, MB, 0) || fsync(fd) ||
		    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
			exit(1);
		if (!stamps_intact(fd, MB, 0))
			exit(1);
		bind_to(-1);
		heat(fd, 0, MB, 0.7, 0);
		if (ftruncate(fd, MB / 2) || !stamps_intact(fd, MB / 2, 0) ||
		    ftruncate(fd, MB) || !stamps_intact(fd, MB / 2, 0))
			exit(1);
		heat(fd, 0, MB / 2, 0.1, 0);
		unlink(path);
		if (!stamps_intact(fd, MB / 2, 0))
			exit(1);
		close(fd);
	}
}

static void test_race(void)
{
	void (*const loads[])(void) = { load_write, load_truncate };
	pid_t pids[ARRAY_SIZE(loads)];
	long before = promoted();
	unsigned int i;
	bool ok;

	set("scan/period_ms", "100");
	ok = !enable(true);
	for (i = 0; i < ARRAY_SIZE(loads); i++)
		pids[i] = start_load(loads[i]);
	for (i = 0; i < 2 * RACE_S; i++) {
		usleep(500000);
		/* Switched under those who read */
		ok &= !write_file(TIER_PARTS "scan/page_cache", i % 4 == 3 ? "0" : "1");
		if (i == RACE_S)
			ok &= !enable(false) && !enable(true);
	}
	for (i = 0; i < ARRAY_SIZE(loads); i++)
		ok &= stop_load(pids[i]);
	ok &= !enable(false);
	write_file(TIER_PARTS "scan/page_cache", "1");
	ksft_print_msg("%ld pages promoted\n", promoted() - before);
	ok &= promoted() > before;
	unlink(DIR_DISK "/write");
	unlink(DIR_DISK "/truncate");
	ksft_test_result(ok, "files that are written, truncated and removed are intact\n");
}

static void test_unmount(void)
{
	const char *path = DIR_DISK "/unmount";
	int fd = make_file(path, 4 * MB), i;
	long before = promoted();
	bool ok;

	if (fd < 0)
		return;
	set("scan/period_ms", "100");
	ok = !enable(true);
	for (i = 0; ok && i < 8; i++) {
		/* Unmounted when the promoter is about to take it */
		heat(fd, 0, 4 * MB, 0.3 + 0.05 * i, 0);
		close(fd);
		ok = !umount(DIR_DISK) && !mount(DISK, DIR_DISK, "ext2", 0, NULL);
		fd = open(path, O_RDWR);
		bind_to(slow);
		ok = ok && fd >= 0 && stamps_intact(fd, 4 * MB, 0);
		bind_to(-1);
	}
	ok &= !enable(false);
	ksft_print_msg("%ld pages promoted\n", promoted() - before);
	ok &= promoted() > before;
	ksft_test_result(ok, "a file system is unmounted while its files are promoted\n");
	drop_file(fd, path);
}

static const struct tier_test tests[] = {
	{ "bad_input", test_bad_input },
	{ "read", test_read },
	{ "tmpfs", test_tmpfs },
	{ "huge", test_huge },
	{ "splice", test_splice },
	{ "off", test_off },
	{ "stream", test_stream },
	{ "parts", test_parts },
	{ "mapped", test_mapped },
	{ "noreuse", test_noreuse },
	{ "reader_bound", test_reader_bound },
	{ "reader_cpuset", test_reader_cpuset },
	{ "opted_out", test_opted_out },
	{ "tmpfs_bound", test_tmpfs_bound },
	{ "past", test_past },
	{ "hole", test_hole },
	{ "dirty", test_dirty },
	{ "race", test_race },
	{ "unmount", test_unmount },
};

int main(int argc, char **argv)
{
	begin_kmmscand_tests();
	if (!make_disk(DIR_DISK))
		ksft_exit_skip("no ext2 on " DISK "\n");
	mkdir(DIR_TMPFS, 0700);
	mount("none", DIR_TMPFS, "tmpfs", 0, NULL);
	set("scan/page_cache", "1");
	/* Emulated machines are slow enough without waiting for rounds. */
	set("scan/period_ms", "200");
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	umount(DIR_TMPFS);
	rmdir(DIR_TMPFS);
	remove_disk(DIR_DISK);
	ksft_finished();
}
