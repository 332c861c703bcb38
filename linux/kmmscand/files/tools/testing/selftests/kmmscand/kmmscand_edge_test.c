// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand and the rest of the kernel: memory that must not move (mlocked, pinned,
 * hugetlb, merged, advised or bound otherwise) stays while it is hot; userfaultfd,
 * shared and copy-on-write memory, processes that come and go, mappings that change,
 * poison, and large folios of any size keep working while their pages are scanned and
 * promoted; nothing is swapped out for it; CPUs, memory and allocations may go away
 * meanwhile.
 *
 * KMMSCAND_SECONDS is how long "settings" goes on (default 5).
 *
 * That something stays proves nothing if nothing is promoted.  So wherever it must, a
 * second area, free to move and as hot, has to arrive on the fast node first.
 */
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/swap.h>
#include <sys/uio.h>

#include "kmmscand_hot.h"
#include "../tier/tier_fill.h"

#define DEBUGFS		"/sys/kernel/debug/"
#define KSM		"/sys/kernel/mm/ksm/"
#define POWER		"/sys/power/"
#define ZRAM		"/sys/block/zram0/"
#define MM_SLAB		"/sys/kernel/slab/mm_struct/"
#define BOOST		"/proc/sys/vm/watermark_boost_factor"
#define PROACTIVE	"/proc/sys/vm/compaction_proactiveness"
#define FAIL_PAGES	DEBUGFS "fail_page_alloc/probability"
#define UNPOISON	DEBUGFS "hwpoison/unpoison-pfn"

/* One page of so many is poisoned, and the one after it taken out of use. */
#define POISON_EVERY	32
#define NR_POISON	(NR_AREA / POISON_EVERY)
/* The least of the large folios that are smaller than a huge page, and how many sizes */
#define MTHP_MIN	(16UL << 10)
#define NR_MTHP		7
/* Of each size; more than what is left below the watermark of a fragmented node */
#define MTHP_AREA	(6 * AREA)

/* Seconds that races are run */
#define RACE_S		5

/* Argument with which the program is a short-lived process of test_exec() */
#define SHORT_LIVED	"--short-lived"

#ifndef MADV_COLD
#define MADV_COLD	20
#define MADV_PAGEOUT	21
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

/* Bits of a pagemap entry; the offset of a swap entry is above its type */
#define PM_SWAP_TYPE	5
#define PM_UFFD_WP	57

/* In the flags of /proc/PID/stat: include/linux/sched.h */
#define PF_NOFREEZE	0x00008000

/*
 * Keep pages hot until others that are as hot have been promoted, and a second longer.
 * Returns false if nothing is promoted.
 */
static bool heat(char *addr, size_t len)
{
	char *control = map_on(AREA, slow, false);
	double end = now() + ARRIVE_S;
	bool ok = false;

	if (!control)
		return false;
	fill(control, AREA);
	while (!ok && now() < end) {
		touch(addr, len);
		warm(control, AREA, 0.1);
		ok = count_on(control, AREA, fast) >= NR_AREA * 9 / 10;
	}
	warm(addr, len, 1);
	if (!ok)
		ksft_print_msg("nothing was promoted, so this proves nothing\n");
	ok &= intact(control, AREA);
	unmap_on(control, AREA);
	return ok;
}

/* Keep pages hot; they must not move. */
static bool stays(char *addr, size_t len)
{
	unsigned long moved;

	if (!heat(addr, len))
		return false;
	/* What is being tried just now is on neither node. */
	moved = count_on(addr, len, fast);
	if (moved)
		ksft_print_msg("%lu of %lu pages were promoted\n", moved, len / PAGE);
	return !moved;
}

/* An area with a pattern on the slow node, or NULL and the test has been skipped. */
static char *map_slow(size_t len, bool huge)
{
	char *p = map_on(len, slow, huge);

	if (p && count_on(p, len, slow) == len / PAGE &&
	    (!huge || huge_kb(p) == (long)(len / 1024))) {
		fill(p, len);
		return p;
	}
	if (p)
		unmap_on(p, len);
	ksft_test_result_skip("no %s memory on the slow node\n", huge ? "huge" : "free");
	return NULL;
}

/* Allocations of this thread come from the node, or from anywhere if negative. */
static bool allocate_on(int nid)
{
	unsigned long mask = 1UL << nid;

	if (nid < 0)
		return !syscall(__NR_set_mempolicy, MPOL_DEFAULT, NULL, 0UL);
	return !syscall(__NR_set_mempolicy, MPOL_BIND, &mask, (unsigned long)MAX_NODES + 1);
}

/* An unlinked file with the pattern, its page cache clean and on the slow node; or -1 */
static int slow_file(size_t len)
{
	char path[] = "/tmp/kmmscand_edge.XXXXXX", *p;
	int fd = mkstemp(path);

	if (fd < 0)
		return -1;
	unlink(path);
	p = MAP_FAILED;
	if (allocate_on(slow) && !ftruncate(fd, len))
		p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED) {
		fill(p, len);
		munmap(p, len);
		fsync(fd);
	}
	allocate_on(-1);
	if (p != MAP_FAILED)
		return fd;
	close(fd);
	return -1;
}

/* Shared memory with the pattern on the slow node, or NULL */
static char *map_shared(size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (allocate_on(slow))
		fill(p, len);
	allocate_on(-1);
	if (count_on(p, len, slow) == len / PAGE)
		return p;
	munmap(p, len);
	ksft_test_result_skip("no shared memory on the slow node\n");
	return NULL;
}

static void test_mlock(void)
{
	char *twin, *p = map_slow(AREA, false), *shared;
	bool ok;

	if (!p)
		return;
	shared = map_shared(AREA);
	if (!shared)
		goto unmap;
	/* The same pages a second time, where they are not locked */
	twin = mremap(shared, 0, AREA, MREMAP_MAYMOVE);
	if (twin == MAP_FAILED || mlock(p, AREA) || mlock(shared, AREA)) {
		ksft_test_result_skip("cannot lock: %s\n", strerror(errno));
		goto unmap_shared;
	}
	ok = !enable(true);
	touch(twin, AREA);
	ok &= stays(p, AREA);
	ok &= stays(twin, AREA);
	ok &= intact(p, AREA) && intact(twin, AREA);
	ok &= !munlock(p, AREA) && !munlock(shared, AREA);
	ok &= rises(p, AREA) && rises(twin, AREA);
	ok &= !enable(false);
	ok &= intact(p, AREA) && intact(shared, AREA);
	ksft_test_result(ok, "mlocked pages stay, unlocked ones are promoted\n");
unmap_shared:
	if (twin != MAP_FAILED)
		munmap(twin, AREA);
	munmap(shared, AREA);
unmap:
	unmap_on(p, AREA);
}

/*
 * Memory that by the word of its owner is used once, or is to be where it is, and
 * executable file mappings
 */
static void test_left_out(void)
{
	unsigned long mask = 1UL << slow, both = mask | 1UL << fast;
	unsigned long max = MAX_NODES + 1;
	char *p = map_slow(4 * AREA, false);
	int fd = slow_file(AREA);
	bool ok;

	if (!p)
		goto out;
	if (fd < 0) {
		ksft_test_result_skip("no file: %s\n", strerror(errno));
		goto unmap;
	}
	ok = !madvise(p, AREA, MADV_SEQUENTIAL);
	ok &= !syscall(__NR_mbind, p + AREA, AREA, MPOL_BIND, &mask, max, 0);
	ok &= !syscall(__NR_mbind, p + 2 * AREA, AREA, MPOL_INTERLEAVE, &both, max, 0);
	ok &= mmap(p + 3 * AREA, AREA, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
		   0) != MAP_FAILED;
	touch(p, 4 * AREA);
	ok &= !enable(true);
	ok &= stays(p, 4 * AREA);
	/* Its data is its own again. */
	ok &= !madvise(p, AREA, MADV_NORMAL);
	ok &= rises(p, AREA);
	ok &= !enable(false);
	ok &= intact(p, 3 * AREA) && intact(p + 3 * AREA, AREA);
	ksft_test_result(ok, "read-once, bound, interleaved and executable memory stays\n");
unmap:
	unmap_on(p, 4 * AREA);
out:
	if (fd >= 0)
		close(fd);
}

/* References without a pin: pages in a pipe */
static void test_held(void)
{
	char *p = map_slow(AREA, false);
	struct iovec iov = { .iov_base = p, .iov_len = AREA };
	static char buf[AREA];
	int pipes[2];
	size_t got;
	bool ok;

	if (!p)
		return;
	if (pipe(pipes)) {
		ksft_test_result_skip("no pipe: %s\n", strerror(errno));
		goto unmap;
	}
	if (fcntl(pipes[1], F_SETPIPE_SZ, AREA) < (int)AREA ||
	    vmsplice(pipes[1], &iov, 1, SPLICE_F_NONBLOCK) != (ssize_t)AREA) {
		ksft_test_result_skip("vmsplice: %s\n", strerror(errno));
		goto close;
	}
	ok = !enable(true);
	ok &= stays(p, AREA);
	for (got = 0; got < AREA; ) {
		ssize_t n = read(pipes[0], buf + got, AREA - got);

		if (n <= 0)
			break;
		got += n;
	}
	ok &= got == AREA && intact(buf, AREA);
	ok &= rises(p, AREA);
	ok &= !enable(false);
	ok &= intact(p, AREA);
	ksft_test_result(ok, "pages with other references stay until they are released\n");
close:
	close(pipes[0]);
	close(pipes[1]);
unmap:
	unmap_on(p, AREA);
}

/* Registers a range; returns the file or -1. */
static int uffd_open(char *addr, size_t len, unsigned long mode)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)addr, .len = len },
		.mode = mode,
	};
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (mode & UFFDIO_REGISTER_MODE_WP)
		api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
	if (fd >= 0 && (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Address of the next fault, or NULL if there is none for a while. */
static char *uffd_fault(int fd, int timeout_ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	struct uffd_msg msg;

	if (poll(&pollfd, 1, timeout_ms) != 1 ||
	    read(fd, &msg, sizeof(msg)) != sizeof(msg) || msg.event != UFFD_EVENT_PAGEFAULT)
		return NULL;
	return (char *)(uintptr_t)msg.arg.pagefault.address;
}

struct reader {
	const char *from;
	char *to;
	ssize_t len;
};

static void *reader_thread(void *data)
{
	struct reader *reader = data;
	struct iovec from = { .iov_base = (void *)reader->from, .iov_len = reader->len };
	struct iovec to = { .iov_base = reader->to, .iov_len = reader->len };

	reader->len = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	return NULL;
}

/*
 * process_vm_readv() pins the pages that it reads.  What it copies them to is guarded by
 * userfaultfd, so it has to wait, with all pages pinned, until that is resolved.
 */
static void test_pinned(void)
{
	char *p = map_slow(AREA, false), *sink = map_on(AREA, fast, false);
	struct uffdio_range range = { .start = (uintptr_t)sink, .len = AREA };
	struct reader reader = { .from = p, .to = sink, .len = AREA };
	pthread_t thread;
	bool ok;
	int fd;

	if (!p)
		goto unmap_sink;
	fd = sink ? uffd_open(sink, AREA, UFFDIO_REGISTER_MODE_MISSING) : -1;
	if (fd < 0 || madvise(sink, AREA, MADV_DONTNEED) ||
	    pthread_create(&thread, NULL, reader_thread, &reader)) {
		ksft_test_result_skip("no userfaultfd (CONFIG_USERFAULTFD)\n");
		goto close;
	}
	if (!uffd_fault(fd, 2000)) {
		pthread_join(thread, NULL);
		ksft_test_result_skip("no process_vm_readv() (CONFIG_CROSS_MEMORY_ATTACH)\n");
		goto close;
	}
	ok = !enable(true);
	ok &= stays(p, AREA);
	/* Wakes the thread. */
	ok &= !ioctl(fd, UFFDIO_UNREGISTER, &range);
	pthread_join(thread, NULL);
	ok &= reader.len == (ssize_t)AREA && intact(sink, AREA);
	ok &= rises(p, AREA);
	ok &= !enable(false);
	ok &= intact(p, AREA);
	ksft_test_result(ok, "pinned pages stay until they are unpinned\n");
close:
	if (fd >= 0)
		close(fd);
	unmap_on(p, AREA);
unmap_sink:
	if (sink)
		unmap_on(sink, AREA);
}

static void test_hugetlb(void)
{
	unsigned long mask = 1UL << slow;
	char path[128], *p;
	bool ok;

	snprintf(path, sizeof(path),
		 NODES "node%d/hugepages/hugepages-2048kB/nr_hugepages", slow);
	if (change(path, "2")) {
		ksft_test_result_skip("no hugetlb pages of 2 MiB (CONFIG_HUGETLBFS)\n");
		return;
	}
	p = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED ||
	    syscall(__NR_mbind, p, 2 * HUGE, MPOL_BIND, &mask, (unsigned long)MAX_NODES + 1, 0) ||
	    madvise(p, 2 * HUGE, MADV_POPULATE_WRITE)) {
		ksft_test_result_skip("no hugetlb pages on the slow node\n");
		goto unmap;
	}
	/* Nothing but hugetlb itself keeps them there. */
	ok = !syscall(__NR_mbind, p, 2 * HUGE, MPOL_DEFAULT, NULL, 0UL, 0);
	fill(p, 2 * HUGE);
	ok &= !enable(true);
	ok &= stays(p, 2 * HUGE);
	ok &= !enable(false);
	ok &= intact(p, 2 * HUGE);
	ksft_test_result(ok, "hugetlb pages stay\n");
unmap:
	if (p != MAP_FAILED)
		munmap(p, 2 * HUGE);
}

/* How many pages have the same frame as the first one? */
static unsigned long nr_merged(char *p, unsigned long nr)
{
	uint64_t pfn = pfn_of(p);
	unsigned long i, n = 0;

	for (i = 0; pfn && i < nr; i++)
		n += pfn_of(p + i * PAGE) == pfn;
	return n;
}

static void test_ksm(void)
{
	const unsigned long nr = 64;
	char *p = map_slow(nr * PAGE, false);
	double end = now() + ARRIVE_S;
	unsigned long i;
	uint64_t pfn;
	bool ok;

	if (!p)
		return;
	if (change(KSM "pages_to_scan", "1000") || change(KSM "sleep_millisecs", "10") ||
	    change(KSM "run", "1")) {
		ksft_test_result_skip("no KSM (CONFIG_KSM)\n");
		goto unmap;
	}
	for (i = 1; i < nr; i++)
		memcpy(p + i * PAGE, p, PAGE);
	ok = !madvise(p, nr * PAGE, MADV_MERGEABLE);
	while (nr_merged(p, nr) < nr && now() < end)
		usleep(100000);
	if (nr_merged(p, nr) < nr) {
		ksft_test_result_skip("KSM did not merge equal pages in time\n");
		goto restore;
	}
	pfn = pfn_of(p);
	ok &= !enable(true);
	ok &= stays(p, nr * PAGE);
	ok &= pfn_of(p) == pfn && nr_merged(p, nr) == nr;
	/* Every other page gets data of its own, and a frame. */
	for (i = 1; i < nr; i += 2)
		*(uint64_t *)(p + i * PAGE) = stamp(i);
	warm(p, nr * PAGE, 0.5);
	ok &= !enable(false);
	for (i = 0; i < nr; i++)
		ok &= *(uint64_t *)(p + i * PAGE) == stamp(i % 2 ? i : 0) &&
		      !memcmp(p + i * PAGE + 8, p + 8, PAGE - 8);
	ok &= intact(p, PAGE);
	ksft_test_result(ok, "merged pages stay, unmerged ones are intact\n");
restore:
	madvise(p, nr * PAGE, MADV_UNMERGEABLE);
unmap:
	unmap_on(p, nr * PAGE);
}

/* Resolves the faults of a range that userfaultfd guards. */
struct guard {
	int fd;
	char *addr;
	const char *data;	/* for missing pages */
	size_t step;		/* to be unprotected at once */
	atomic_bool stop;
	atomic_ulong faults;
	atomic_bool failed;
	pthread_t thread;
};

static void *guard_thread(void *arg)
{
	struct guard *guard = arg;

	while (!guard->stop) {
		char *addr = uffd_fault(guard->fd, 100);
		size_t offset = (addr - guard->addr) & ~(guard->step - 1);
		struct uffdio_writeprotect unprotect = {
			.range = { .start = (uintptr_t)guard->addr + offset, .len = guard->step },
		};
		struct uffdio_copy copy = {
			.dst = (uintptr_t)guard->addr + offset,
			.src = (uintptr_t)guard->data + offset,
			.len = guard->step,
		};

		if (!addr)
			continue;
		guard->faults++;
		/* Promotion asks the policies of all threads, so only as long as needed. */
		if (guard->data)
			allocate_on(slow);
		if (guard->data ? ioctl(guard->fd, UFFDIO_COPY, &copy) :
				  ioctl(guard->fd, UFFDIO_WRITEPROTECT, &unprotect))
			guard->failed = true;
		if (guard->data)
			allocate_on(-1);
	}
	return NULL;
}

/* Both for small and for huge pages; false if it could not be done */
static bool write_protected(size_t len, bool huge, bool *ok)
{
	struct guard guard = { .step = huge ? HUGE : PAGE };
	struct uffdio_writeprotect protect = { .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	unsigned long nr = len / guard.step, left = 0, i;
	char *p = map_slow(len, huge);
	uint64_t entry;

	if (!p)
		return false;
	protect.range.start = (uintptr_t)p;
	protect.range.len = len;
	guard.addr = p;
	guard.fd = uffd_open(p, len, UFFDIO_REGISTER_MODE_WP);
	if (guard.fd < 0 || ioctl(guard.fd, UFFDIO_WRITEPROTECT, &protect) ||
	    pthread_create(&guard.thread, NULL, guard_thread, &guard)) {
		ksft_test_result_skip("no userfaultfd with write protection\n");
		if (guard.fd >= 0)
			close(guard.fd);
		unmap_on(p, len);
		return false;
	}
	*ok &= !enable(true);
	*ok &= rises(p, len);
	*ok &= !enable(false);
	*ok &= !guard.faults && (!huge || huge_kb(p) == (long)(len / 1024));
	for (i = 0; i < len; i += PAGE)
		left += read_pagemap(p + i, 1, &entry) && entry >> PM_UFFD_WP & 1;
	for (i = 0; i < nr; i++)
		atomic_fetch_or((atomic_char *)p + i * guard.step, 0);
	ksft_print_msg("%s: %lu of %lu pages still protected, %lu of %lu writes noticed\n",
		       huge ? "huge" : "small", left, len / PAGE, guard.faults, nr);
	*ok &= left == len / PAGE && guard.faults == nr && !guard.failed && intact(p, len);
	guard.stop = true;
	pthread_join(guard.thread, NULL);
	close(guard.fd);
	unmap_on(p, len);
	return true;
}

static void test_uffd_wp(void)
{
	bool ok = true;

	if (write_protected(AREA, false, &ok) && write_protected(2 * HUGE, true, &ok))
		ksft_test_result(ok, "pages stay write-protected by userfaultfd\n");
}

static void test_uffd_missing(void)
{
	char *p = map_slow(AREA, false), *data = map_on(AREA, fast, false);
	struct guard guard = { .step = PAGE, .addr = p, .data = data };
	unsigned long rounds = 0, moved, i;
	double end = now() + RACE_S;
	bool ok;

	if (!p)
		goto unmap_data;
	guard.fd = data ? uffd_open(p, AREA, UFFDIO_REGISTER_MODE_MISSING) : -1;
	if (guard.fd < 0 || pthread_create(&guard.thread, NULL, guard_thread, &guard)) {
		ksft_test_result_skip("no userfaultfd\n");
		goto close;
	}
	fill(data, AREA);
	ok = !enable(true);
	while (now() < end) {
		/* Every other page goes missing and is served again. */
		for (i = 0; i < AREA; i += 2 * PAGE)
			ok &= !madvise(p + i, PAGE, MADV_DONTNEED);
		rounds++;
		warm(p, AREA, 0.4);
		ok &= intact(p, AREA);
	}
	moved = count_on(p, AREA, fast);
	ok &= !enable(false);
	guard.stop = true;
	pthread_join(guard.thread, NULL);
	ksft_print_msg("%lu faults for %lu missing pages, %lu of %lu pages promoted\n",
		       guard.faults, rounds * NR_AREA / 2, moved, NR_AREA);
	ok &= guard.faults == rounds * NR_AREA / 2 && !guard.failed && moved >= NR_AREA / 3;
	ksft_test_result(ok, "no fault of userfaultfd is lost, none comes twice\n");
close:
	if (guard.fd >= 0)
		close(guard.fd);
	unmap_on(p, AREA);
unmap_data:
	if (data)
		unmap_on(data, AREA);
}

/* What two processes tell each other, in memory that they share */
struct talk {
	atomic_bool stop;
	atomic_ulong said[2];
};

/* NULL if the test has been skipped */
static struct talk *map_talk(void)
{
	struct talk *talk = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (talk != MAP_FAILED)
		return talk;
	ksft_test_result_skip("no shared memory\n");
	return NULL;
}

/* The word of one of two processes in each page */
static atomic_ulong *word(char *p, unsigned long page, int who)
{
	return (atomic_ulong *)(p + page * PAGE) + who;
}

static void say(char *p, int who, uint64_t value)
{
	unsigned long i;

	for (i = 0; i < NR_AREA; i++)
		*word(p, i, who) = value;
}

static bool heard(char *p, int who, uint64_t value)
{
	unsigned long i;

	for (i = 0; i < NR_AREA; i++)
		if (*word(p, i, who) != value)
			return false;
	return true;
}

/* The exit code of a process that is about to end, or -1. */
static int ended(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static void test_shared(void)
{
	struct talk *talk = map_talk();
	char *p = talk ? map_shared(AREA) : NULL;
	uint64_t value = 0;
	unsigned long i, j;
	pid_t pid;
	bool ok;

	if (!p)
		return;
	ok = !enable(true);
	pid = fork_child();
	if (!pid) {
		for (value = 1; !talk->stop; value++) {
			say(p, 1, value);
			usleep(1000);
		}
		talk->said[1] = value - 1;
		_exit(!heard(p, 0, talk->said[0]));
	}
	ok &= rises(p, AREA);
	/* Both write, and what they write to moves. */
	for (i = 0; i < 20; i++) {
		say(p, 0, ++value);
		usleep(1000);
	}
	talk->said[0] = value;
	talk->stop = true;
	ok &= !ended(pid) && heard(p, 1, talk->said[1]) && heard(p, 0, value);
	ok &= !enable(false);
	for (i = 0; i < NR_AREA; i++)
		for (j = 2; j < PAGE / sizeof(value); j++)
			ok &= *word(p, i, j) == stamp(i * PAGE / sizeof(value) + j);
	ksft_test_result(ok, "shared memory is promoted, both see each other's writes\n");
	munmap(p, AREA);
	munmap(talk, PAGE);
}

static void test_file(void)
{
	int fd = slow_file(AREA);
	char *p = MAP_FAILED, *shared = MAP_FAILED;
	bool ok;

	if (fd >= 0) {
		p = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		shared = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	if (p == MAP_FAILED || shared == MAP_FAILED) {
		ksft_test_result_skip("cannot map a file: %s\n", strerror(errno));
		goto out;
	}
	touch(p, AREA);
	if (count_on(p, AREA, slow) < NR_AREA) {
		ksft_test_result_skip("no page cache on the slow node\n");
		goto out;
	}
	ok = !enable(true);
	ok &= rises(p, AREA);
	ok &= intact(p, AREA) && intact(shared, AREA);
	/* A copy of its own, while the page of the file is hot through the other mapping */
	memset(p, 0xa5, AREA / 2);
	warm(shared, AREA, 0.5);
	ok &= !enable(false);
	ok &= intact(shared, AREA);
	ok &= p[0] == (char)0xa5 && !memcmp(p, p + 1, AREA / 2 - 1);
	ok &= !memcmp(p + AREA / 2, shared + AREA / 2, AREA / 2);
	ksft_test_result(ok, "pages of a file are promoted, private copies stay apart\n");
out:
	if (p != MAP_FAILED)
		munmap(p, AREA);
	if (shared != MAP_FAILED)
		munmap(shared, AREA);
	if (fd >= 0)
		close(fd);
}

static void test_fork(void)
{
	struct talk *talk = map_talk();
	char *p = talk ? map_slow(AREA, false) : NULL;
	pid_t pid;
	bool ok;

	if (!p)
		return;
	ok = !enable(true);
	pid = fork_child();
	if (!pid) {
		while (!talk->stop)
			warm(p, AREA, 0.1);
		if (!intact(p, AREA))
			_exit(1);
		say(p, 0, 1);
		usleep(300000);
		_exit(!heard(p, 0, 1));
	}
	ok &= rises(p, AREA);
	talk->stop = true;
	warm(p, AREA, 0.2);
	ok &= !ended(pid);
	ok &= !enable(false);
	ok &= intact(p, AREA);
	ksft_test_result(ok, "pages shared with a child are promoted and copied on write\n");
	munmap(talk, PAGE);
	unmap_on(p, AREA);
}

/* Objects in use in the slab cache of address spaces, or -1 if it cannot be known. */
static long nr_mms(void)
{
	char buf[64];

	/* Also gives back what KASAN keeps in quarantine. */
	if (write_file(MM_SLAB "shrink", "1") ||
	    !read_file(MM_SLAB "objects", buf, sizeof(buf)))
		return -1;
	return atol(buf);
}

/* Uses slow memory for some milliseconds and goes in the middle of it. */
static int short_lived(int nid)
{
	char *p = map_on(AREA / 4, nid, false);
	double end = now() + 0.001 * (getpid() % 64);

	if (!p)
		_exit(2);
	fill(p, AREA / 4);
	do {
		if (!intact(p, AREA / 4))
			_exit(1);
	} while (now() < end);
	_exit(0);
}

static void test_exec(void)
{
	char nid[16];
	double end = now() + RACE_S;
	long before, after = -1, started = 0;
	pid_t pids[3];
	bool ok = true;
	unsigned int i;

	snprintf(nid, sizeof(nid), "%d", slow);
	ok &= !enable(true);
	usleep(500000);
	before = nr_mms();
	while (now() < end) {
		for (i = 0; i < ARRAY_SIZE(pids); i++) {
			pids[i] = fork_child();
			if (!pids[i]) {
				execl("/proc/self/exe", "edge", SHORT_LIVED, nid, NULL);
				_exit(3);
			}
		}
		/* One of them meets its end where it did not choose to. */
		usleep(started * 7919 % 50000);
		kill(pids[0], SIGKILL);
		waitpid(pids[0], NULL, 0);
		for (i = 1; i < ARRAY_SIZE(pids); i++)
			ok &= !ended(pids[i]);
		started += ARRAY_SIZE(pids);
	}
	end = now() + ARRIVE_S;
	do {
		usleep(200000);
		after = nr_mms();
	} while (before >= 0 && after > before + 4 && now() < end);
	ksft_print_msg("%ld processes, address spaces before %ld, afterwards %ld\n", started,
		       before, after);
	ok &= after <= before + 4;
	ok &= !enable(false);
	ksft_test_result(ok, "processes exec and exit while they are scanned%s\n",
			 before < 0 ? ", mms not counted" : " and are forgotten");
}

/* Each page has either its pattern or was dropped. */
static bool intact_or_zero(const char *p, size_t len)
{
	const uint64_t *words = (const uint64_t *)p;
	size_t i, page, per = PAGE / sizeof(*words);

	for (page = 0; page < len / PAGE; page++) {
		bool dropped = !words[page * per];

		for (i = page * per; i < (page + 1) * per; i++)
			if (words[i] != (dropped ? 0 : stamp(i)))
				return false;
	}
	return true;
}

/* One change of a mapping of two huge pages' size; false if data was lost. */
static bool churn_once(char **area)
{
	const size_t len = 2 * HUGE;
	char *p = *area, *to;

	switch (rand() % 7) {
	case 0:
		return !madvise(p, len, MADV_COLD) && intact(p, len);
	case 1:
		/* Without swap it does nothing. */
		return !madvise(p, len, MADV_PAGEOUT) && intact(p, len);
	case 2:
		if (madvise(p, len, MADV_FREE) || !intact_or_zero(p, len))
			return false;
		break;
	case 3:
		if (madvise(p + PAGE, HUGE, MADV_DONTNEED) || p[PAGE] || p[HUGE] ||
		    !intact_or_zero(p, len))
			return false;
		break;
	case 4:
		/* Moved, with whole page tables if both are aligned */
		to = map_on(len, slow, false);
		if (!to || mremap(p, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
			return false;
		unmap_on(p, len);
		*area = to;
		return intact(to, len);
	case 5:
		return !mprotect(p + HUGE / 2, HUGE, PROT_NONE) &&
		       !mprotect(p + HUGE / 2, HUGE, PROT_READ | PROT_WRITE) && intact(p, len);
	default:
		unmap_on(p, len);
		*area = map_on(len, slow, rand() & 1);
		if (!*area)
			return false;
	}
	fill(*area, len);
	return true;
}

static void load_churn(void)
{
	char *p = map_on(2 * HUGE, slow, false);

	srand(getpid());
	if (!p)
		_exit(2);
	fill(p, 2 * HUGE);
	for (;;) {
		warm(p, 2 * HUGE, 0.01 * (rand() % 16));
		if (!intact(p, 2 * HUGE) || !churn_once(&p))
			_exit(1);
	}
}

/* 64 MiB of swap in memory.  False if there is swap already, or no zram to be had. */
static bool add_swap(void)
{
	uint32_t header[3] = { 1, (64UL << 20) / PAGE - 1, 0 };
	static char page[PAGE];
	bool ok = false;
	char buf[64];
	int fd;

	if (!read_file(ZRAM "disksize", buf, sizeof(buf)) || strcmp(buf, "0") ||
	    write_file(ZRAM "disksize", "64M"))
		return false;
	memcpy(page + 1024, header, sizeof(header));
	memcpy(page + PAGE - 10, "SWAPSPACE2", 10);
	fd = open("/dev/zram0", O_RDWR);
	if (fd >= 0) {
		ok = write(fd, page, PAGE) == PAGE && !fsync(fd);
		close(fd);
	}
	ok = ok && !swapon("/dev/zram0", 0);
	if (!ok)
		write_file(ZRAM "reset", "1");
	return ok;
}

static void remove_swap(void)
{
	swapoff("/dev/zram0");
	write_file(ZRAM "reset", "1");
}

static void test_churn(void)
{
	bool swap = add_swap(), ok;
	long out = event_count("pswpout"), moved = event_count("tier_promote_success");
	pid_t pids[2];
	unsigned int i;

	ok = !enable(true);
	for (i = 0; i < ARRAY_SIZE(pids); i++)
		pids[i] = start_load(load_churn);
	sleep(RACE_S);
	for (i = 0; i < ARRAY_SIZE(pids); i++)
		ok &= stop_load(pids[i]);
	ok &= !enable(false);
	moved = event_count("tier_promote_success") - moved;
	ksft_print_msg("%ld pages promoted, %ld swapped out\n", moved,
		       event_count("pswpout") - out);
	ok &= moved > 0;
	ksft_test_result(ok, "mappings move, shrink and are dropped, data intact%s\n",
			 swap ? ", with swap" : "");
	if (swap)
		remove_swap();
}

/* The fast node has room for half of what is hot, and much that could be swapped out. */
static void test_swapout(void)
{
	char *p = map_slow(LOAD, false), *hog;
	unsigned long moved;
	size_t len = 0;
	long out;
	bool ok;

	if (!p)
		return;
	if (!add_swap()) {
		ksft_test_result_skip("no swap (CONFIG_SWAP, CONFIG_ZRAM)\n");
		goto unmap;
	}
	ok = !no_demotion();
	change(PCP_HIGH, "1000");
	hog = fill_node(fast, &len);
	if (!hog) {
		ksft_test_result_skip("cannot fill the fast node\n");
		goto remove;
	}
	ok &= !madvise(hog, LOAD / 2, MADV_DONTNEED);
	out = event_count("pswpout");
	ok &= !enable(true);
	warm(p, LOAD, 8);
	out = event_count("pswpout") - out;
	moved = count_on(p, LOAD, fast);
	ksft_print_msg("%lu of %lu pages promoted, %ld swapped out\n", moved, LOAD / PAGE, out);
	ok &= !out && moved >= LOAD / PAGE / 8 && moved < LOAD / PAGE;
	ok &= !enable(false);
	ok &= intact(p, LOAD);
	ksft_test_result(ok, "without demotion nothing is swapped out for a promotion\n");
	munmap(hog, len);
remove:
	remove_swap();
unmap:
	unmap_on(p, LOAD);
}

static sigjmp_buf fault_jump;

static void on_fault(int sig)
{
	siglongjmp(fault_jump, sig);
}

/*
 * Read a page, or give advice on it if that is not negative.  Returns the signal that
 * this raises, 0, or the negative error of madvise().
 */
static int fault_at(char *addr, int advice)
{
	static const int sigs[] = { SIGSEGV, SIGBUS };
	struct sigaction action = { .sa_handler = on_fault }, old[2];
	int ret, i;

	for (i = 0; i < 2; i++)
		sigaction(sigs[i], &action, &old[i]);
	ret = sigsetjmp(fault_jump, 1);
	if (!ret) {
		if (advice < 0)
			touch(addr, PAGE);
		else if (madvise(addr, PAGE, advice))
			ret = -errno;
	}
	for (i = 0; i < 2; i++)
		sigaction(sigs[i], &old[i], NULL);
	return ret;
}

static void test_mprotect(void)
{
	char *p = map_slow(AREA, false);
	double end = now() + ARRIVE_S;
	unsigned long moved = 0, i;
	bool ok;

	if (!p)
		return;
	ok = !enable(true);
	while (moved < NR_AREA * 9 / 10 && now() < end) {
		warm(p, AREA, 0.1);
		ok &= !mprotect(p, AREA, PROT_NONE);
		usleep(150000);
		for (i = 0; i < AREA; i += 16 * PAGE)
			ok &= fault_at(p + i, -1) == SIGSEGV;
		ok &= !mprotect(p, AREA, PROT_READ | PROT_WRITE);
		moved = count_on(p, AREA, fast);
	}
	ok &= !enable(false);
	ksft_print_msg("%lu of %lu pages promoted\n", moved, NR_AREA);
	ok &= moved >= NR_AREA * 9 / 10 && intact(p, AREA);
	ksft_test_result(ok, "hot memory that is taken away now and then is promoted\n");
	unmap_on(p, AREA);
}

/*
 * Tries again while the page is off the LRU, which sets @again.  The kernel may take the
 * advice for an access, and signal it.
 */
static int poison(char *addr, int advice, bool *again)
{
	int i, err = -EBUSY;

	*again = false;
	for (i = 0; i < 50 && (err == -EBUSY || err == -EAGAIN || err == -EIO); i++) {
		if (i) {
			*again = true;
			usleep(20000);
		}
		err = fault_at(addr, advice);
	}
	/* Poison that was noticed while the page was being moved */
	if (*again && advice == MADV_HWPOISON && (err == -EFAULT || err == -EHWPOISON))
		err = 0;
	return err == SIGBUS ? 0 : err;
}

/* The frame of a page that is poisoned; then there is a swap entry with the frame. */
static uint64_t poisoned_pfn(char *addr)
{
	uint64_t entry = 0;

	return pfn_of(addr) ?: read_pagemap(addr, 1, &entry) ?
	       pagemap_value(entry) >> PM_SWAP_TYPE : 0;
}

static void unpoison(uint64_t pfn)
{
	char buf[32];

	snprintf(buf, sizeof(buf), "%llu", (unsigned long long)pfn);
	write_file(UNPOISON, buf);
}

static void test_poison(void)
{
	const unsigned long every = POISON_EVERY;
	uint64_t hard[NR_POISON], soft[NR_POISON];
	bool again[NR_POISON], again_soft, ok;
	char *p = map_slow(AREA, false);
	unsigned long i, nr, moved;
	int err = 0;

	if (!p)
		return;
	if (access(UNPOISON, W_OK)) {
		ksft_test_result_skip("no " UNPOISON " (CONFIG_HWPOISON_INJECT)\n");
		unmap_on(p, AREA);
		return;
	}
	ok = !enable(true);
	for (nr = 0; nr < NR_POISON && !err; nr++) {
		char *page = p + nr * every * PAGE;

		/* Some before they are promoted, some in the middle, some afterwards */
		touch(page + 2 * PAGE, AREA - (nr * every + 2) * PAGE);
		usleep(100000);
		err = poison(page, MADV_HWPOISON, &again[nr]);
		hard[nr] = poisoned_pfn(page);
		soft[nr] = pfn_of(page + PAGE);
		err = err ?: poison(page + PAGE, MADV_SOFT_OFFLINE, &again_soft);
	}
	for (i = 0; i < NR_AREA && !err; i++) {
		char *page = p + i * PAGE;
		const uint64_t *words = (const uint64_t *)page;
		int sig = fault_at(page, -1);

		/* What the kernel finds off the LRU it only marks. */
		if (!sig && !(i % every) && again[i / every])
			continue;
		if (sig != (i % every ? 0 : SIGBUS)) {
			ksft_print_msg("page %lu: signal %d\n", i, sig);
			ok = false;
		} else if (!sig) {
			ok &= words[0] == stamp(i * PAGE / 8) &&
			      words[PAGE / 8 - 1] == stamp((i + 1) * PAGE / 8 - 1);
		}
	}
	/* The rest is still promoted. */
	for (i = 0; i < NR_POISON && !err; i++)
		ok &= rises(p + (i * every + 1) * PAGE, (every - 1) * PAGE);
	moved = count_on(p, AREA, fast);
	ok &= !enable(false);
	ksft_print_msg("%lu of %lu pages promoted, error %d\n", moved, NR_AREA, err);
	if (err == -EINVAL)
		ksft_test_result_skip("cannot poison (CONFIG_MEMORY_FAILURE)\n");
	else
		ksft_test_result(ok && !err,
				 "poisoned pages raise SIGBUS, their neighbours do not\n");
	unmap_on(p, AREA);
	for (i = 0; i < nr; i++) {
		unpoison(hard[i]);
		unpoison(soft[i]);
	}
}

static void test_cpus(void)
{
	int nr = sysconf(_SC_NPROCESSORS_CONF), off = 0, cpu;
	double end = now() + RACE_S;
	pid_t pid;
	bool ok;

	ok = !enable(true);
	pid = start_load(load_touch);
	while (now() < end) {
		/* All but one, then all again */
		for (cpu = 0; cpu < nr; cpu++)
			off += !set_cpu_online(cpu, false);
		usleep(300000);
		for (cpu = 0; cpu < nr; cpu++)
			set_cpu_online(cpu, true);
		if (!off)
			break;
	}
	ok &= stop_load(pid);
	if (!off) {
		ksft_test_result_skip("no CPU can be taken offline\n");
		enable(false);
		return;
	}
	ok &= threads_work();
	ok &= !enable(false);
	ksft_print_msg("%d times a CPU went offline\n", off);
	ksft_test_result(ok, "CPUs go and come back, scanning goes on\n");
}

/* A kernel thread that has not asked for it is left alone by the freezer. */
static bool freezable(const char *name, int nid)
{
	char path[64], comm[32], buf[512], *fields;
	unsigned int flags = PF_NOFREEZE;

	snprintf(comm, sizeof(comm), "%s%d", name, nid);
	snprintf(path, sizeof(path), "/proc/%d/stat", thread_pid(comm));
	if (!read_file(path, buf, sizeof(buf)))
		return false;
	fields = strrchr(buf, ')');
	return fields && sscanf(fields, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
	       !(flags & PF_NOFREEZE);
}

static void test_freezer(void)
{
	char states[64] = "";
	const char *state;
	int err = 0, i;
	pid_t pid;
	bool ok;

	read_file(POWER "state", states, sizeof(states));
	state = strstr(states, "freeze") ? "freeze" : "mem";
	if (!strstr(states, state) || change(POWER "pm_test", "freezer")) {
		ksft_test_result_skip("no " POWER "pm_test (CONFIG_SUSPEND, CONFIG_PM_DEBUG)\n");
		return;
	}
	change("/sys/module/suspend/parameters/pm_test_delay", "1");
	ok = !enable(true);
	ok &= threads_work();
	ok &= freezable("kmmscand", fast) && freezable("kpromoted", slow);
	pid = start_load(load_touch);
	for (i = 0; i < 3 && !err; i++) {
		err = write_file(POWER "state", state);
		usleep(500000);
	}
	ksft_print_msg("froze and thawed %d times, error %d\n", i, err);
	ok &= !err && stop_load(pid);
	ok &= threads_work();
	ok &= !enable(false);
	ksft_test_result(ok, "threads freeze, thaw and go on\n");
}

/* Memory of large folios of one size */
struct mthp {
	size_t size;
	char *addr;
	unsigned long nr;	/* so many were there at first */
};

/* Is a part of the memory one folio? */
static bool is_folio(char *p, unsigned long per)
{
	uint64_t entries[HUGE / 2 / PAGE], flags[ARRAY_SIZE(entries) + 1], pfn = pfn_of(p);
	unsigned long i;

	/* And the next frame, which must not belong to it */
	if (!pfn || !read_pagemap(p, per, entries) || !read_kpageflags(pfn, per + 1, flags))
		return false;
	for (i = 0; i < per; i++)
		if (pagemap_value(entries[i]) != pfn + i ||
		    !(flags[i] >> (i ? KPF_COMPOUND_TAIL : KPF_COMPOUND_HEAD) & 1))
			return false;
	return !(flags[per] >> KPF_COMPOUND_TAIL & 1);
}

/* Counts parts that are one folio.  @compacts: and parts that kcompactd may have split. */
static unsigned long nr_folios(const struct mthp *mthp, bool compacts)
{
	unsigned long per = mthp->size / PAGE, n = 0;
	char *p;

	for (p = mthp->addr; p < mthp->addr + MTHP_AREA; p += mthp->size)
		n += is_folio(p, per) || (compacts && count_on(p, mthp->size, fast) == per);
	return n;
}

/*
 * Map memory with the pattern on the slow node in folios of the size.  False if the kernel
 * does not offer that.
 */
static bool map_mthp(struct mthp *mthp, size_t size)
{
	char path[128];

	mthp->size = size;
	mthp->addr = NULL;
	mthp->nr = 0;
	snprintf(path, sizeof(path), THP "hugepages-%zukB/enabled", size >> 10);
	if (change(path, "madvise"))
		return false;
	mthp->addr = map_on(MTHP_AREA, slow, true);
	write_file(path, "never");
	if (mthp->addr) {
		mthp->nr = nr_folios(mthp, false);
		fill(mthp->addr, MTHP_AREA);
		/* khugepaged would make huge pages of them. */
		madvise(mthp->addr, MTHP_AREA, MADV_NOHUGEPAGE);
	}
	ksft_print_msg("%zu KiB: %lu folios\n", size >> 10, mthp->nr);
	return true;
}

static void warm_mthp(const struct mthp *mthp, int nr, double seconds)
{
	double end = now() + seconds;
	int i;

	while (now() < end)
		for (i = 0; i < nr; i++)
			warm(mthp[i].addr, MTHP_AREA, 0);
}

/*
 * Are there as many folios of each size as before?  Adds to the pages on the fast node.  Where
 * folios of the fast node find no room, promoters wake kcompactd (@compacts), which splits some.
 */
static bool mthp_whole(const struct mthp *mthp, int nr, const char *when, bool compacts,
		       unsigned long *moved)
{
	unsigned long folios, pages;
	bool ok = true;

	for (; nr--; mthp++) {
		folios = nr_folios(mthp, compacts);
		pages = count_on(mthp->addr, MTHP_AREA, fast);
		ksft_print_msg("%s: %zu KiB: %lu folios of %lu, %lu of %lu pages promoted\n", when,
			       mthp->size >> 10, folios, mthp->nr, pages, MTHP_AREA / PAGE);
		ok &= folios == mthp->nr;
		*moved += pages;
	}
	return ok;
}

/* Of each size that the kernel offers, on a fast node that is full, fragmented, or idle */
static void test_mthp(void)
{
	size_t len = 0, blocks_len = 0, size;
	struct mthp mthp[NR_MTHP];
	char *blocks, *hog = NULL;
	unsigned long moved = 0;
	bool ok = true;
	long nomem, compacted;
	int nr = 0, i;

	if (change(THP "hugepages-2048kB/enabled", "never")) {
		ksft_test_result_skip("no settings for sizes of large folios\n");
		return;
	}
	for (size = MTHP_MIN; nr < NR_MTHP && size < HUGE; size *= 2)
		nr += map_mthp(&mthp[nr], size);
	for (i = 0; i < nr; i++)
		ok &= mthp[i].nr >= MTHP_AREA / mthp[i].size / 2;
	if (!nr || !ok) {
		ksft_test_result_skip("no large folios on the slow node\n");
		goto unmap;
	}

	write_file(THP "hugepages-2048kB/enabled", "madvise");
	change(PCP_HIGH, "1000");
	/* kcompactd splits a folio for which it finds no room. */
	change(BOOST, "0");
	change(PROACTIVE, "0");
	/* Full: 16 MiB of small pages, the rest huge ones */
	blocks = use_up_blocks(fast, 4096, &blocks_len);
	if (blocks)
		hog = fill_node(fast, &len);
	if (!hog) {
		ksft_test_result_skip("cannot fill the fast node\n");
		goto unmap_blocks;
	}
	ok = !enable(true);
	warm_mthp(mthp, nr, 2);
	ok &= mthp_whole(mthp, nr, "full", false, &moved);

	/* Fragmented: there is room, but not for them */
	punch_holes(hog, len);
	nomem = event_count("tier_promote_fail_nomem");
	compacted = event_count("compact_daemon_migrate_scanned");
	warm_mthp(mthp, nr, 4);
	nomem = event_count("tier_promote_fail_nomem") - nomem;
	compacted = event_count("compact_daemon_migrate_scanned") - compacted;
	ksft_print_msg("fragmented: %ld pages found no room, kcompactd scanned %ld pages\n", nomem,
		       compacted);
	ok &= mthp_whole(mthp, nr, "fragmented", compacted > 0, &moved);
	ok &= nomem || moved;
	munmap(hog, len);
	munmap(blocks, blocks_len);
	blocks = NULL;

	for (i = 0; i < nr; i++)
		ok &= rises(mthp[i].addr, MTHP_AREA);
	ok &= mthp_whole(mthp, nr, "idle", compacted > 0, &moved);
	ok &= !enable(false);
	for (i = 0; i < nr; i++)
		ok &= intact(mthp[i].addr, MTHP_AREA);
	ksft_test_result(ok, "large folios of all sizes are promoted whole or not at all\n");
unmap_blocks:
	if (blocks)
		munmap(blocks, blocks_len);
unmap:
	for (i = 0; i < nr; i++)
		if (mthp[i].addr)
			unmap_on(mthp[i].addr, MTHP_AREA);
}

/*
 * A huge page in one of the memory blocks, which a pipe holds so that it cannot be
 * migrated.  Returns the block or -1.
 */
static int hold_block(const int *blocks, int nr, int pipe)
{
	struct iovec iov = { .iov_len = PAGE };
	unsigned long block_size, i;
	int j, found = -1;
	char buf[32], *p;

	if (!read_file(BLOCKS "block_size_bytes", buf, sizeof(buf)))
		return -1;
	block_size = strtoul(buf, NULL, 16);
	p = mmap(NULL, 512 * HUGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -1;
	madvise(p, 512 * HUGE, MADV_HUGEPAGE);
	allocate_on(slow);
	/* Not more than half of what is free */
	for (i = 1; found < 0 && i < 511 && room(slow) > 64 * (long)PER_HUGE; i++) {
		p[i * HUGE] = 1;
		for (j = 0; j < nr; j++)
			if (pfn_of(p + i * HUGE) / (block_size / PAGE) == (unsigned int)blocks[j])
				found = blocks[j];
	}
	allocate_on(-1);
	iov.iov_base = p + (i - 1) * HUGE;
	if (found >= 0 && vmsplice(pipe, &iov, 1, 0) != (ssize_t)PAGE)
		found = -1;
	munmap(p, 512 * HUGE);
	return found;
}

/*
 * Memory cannot go offline because somebody holds a page of it, and the kernel tries
 * until it is interrupted.  Nobody else may have to wait for that.
 */
static void test_offline_stuck(void)
{
	int blocks[64], nr, i, n, block, pipes[2] = { -1, -1 };
	double start, waited;
	pid_t pid = -1;
	bool ok;

	/* Which ones go offline at all? */
	nr = slow_blocks(blocks, ARRAY_SIZE(blocks));
	for (i = 0, n = 0; i < nr; i++) {
		if (set_block_offline(blocks[i]))
			continue;
		set_block(blocks[i], "online");
		blocks[n++] = blocks[i];
	}
	block = n && !pipe(pipes) ? hold_block(blocks, n, pipes[1]) : -1;
	if (block < 0) {
		ksft_test_result_skip("no block of the slow node can be held online\n");
		goto close;
	}
	ok = !enable(true);
	pid = fork_child();
	if (!pid)
		/* Gives up after some seconds. */
		_exit(set_block_offline(block) == -EINTR ? 0 : 1);
	sleep(1);
	if (waitpid(pid, NULL, WNOHANG)) {
		ksft_test_result_skip("the kernel gave up early\n");
		pid = -1;
		goto close;
	}
	start = now();
	ok &= !enable(false);
	waited = now() - start;
	ksft_print_msg("disabling took %.1f s\n", waited);
	ok &= waited < 3 && !ended(pid);
	ksft_test_result(ok, "nothing waits for memory that does not go offline\n");
close:
	enable(false);
	if (pipes[0] >= 0) {
		close(pipes[0]);
		close(pipes[1]);
	}
	if (block >= 0)
		set_block(block, "online");
}

/* Writes all settings, good and bad ones. */
static void load_settings(void)
{
	static const struct {
		const char *file, *good[3], *bad;
	} settings[] = {
		{ "scan/enabled", { "0", "1", "1" }, "2" },
		{ "scan/period_ms", { "100", "150", "200" }, "99" },
		{ "scan/cpu_permille", { "1", "50", "1000" }, "1001" },
		{ "promote/enabled", { "0", "1", "1" }, "2" },
		{ "promote/rate_mbps", { "1", "100", "65536" }, "65537" },
		{ "promote/cpu_permille", { "1", "50", "1000" }, "-1" },
	};
	char path[128];

	srand(getpid());
	for (;;) {
		int i = rand() % ARRAY_SIZE(settings);

		snprintf(path, sizeof(path), TIER_PARTS "%s", settings[i].file);
		if (write_file(path, settings[i].good[rand() % 3]))
			_exit(1);
		if (write_file(path, settings[i].bad) != -EINVAL)
			_exit(2);
	}
}

static void test_settings(void)
{
	static const char * const files[] = {
		"scan/period_ms", "scan/cpu_permille", "promote/rate_mbps", "promote/cpu_permille",
	};
	static void (* const load[])(void) = { load_touch, load_churn, load_settings };
	pid_t pids[ARRAY_SIZE(load)];
	double end = now() + test_seconds(RACE_S);
	unsigned int i, toggles = 0;
	char path[128], buf[32];
	bool ok = true;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), TIER_PARTS "%s", files[i]);
		ok &= read_file(path, buf, sizeof(buf)) && !change(path, buf);
	}
	for (i = 0; i < ARRAY_SIZE(load); i++)
		pids[i] = start_load(load[i]);
	while (now() < end) {
		ok &= !wish(toggles++ % 2);
		usleep(toggles % 7 * 20000);
	}
	for (i = 0; i < ARRAY_SIZE(load); i++)
		ok &= stop_load(pids[i]);
	restore_settings();
	/* It works as if nothing had been. */
	ok &= !enable(false) && !enable(true);
	ok &= threads_work();
	ok &= !enable(false);
	ksft_print_msg("%u times on or off\n", toggles);
	ksft_test_result(ok, "switched while all settings change, under load\n");
}

/* A shorter period does not wait for the end of a longer one: the threads start again. */
static void test_retune(void)
{
	char *p = map_slow(AREA, false);
	bool ok;

	if (!p)
		return;
	ok = !change(TIER_PARTS "scan/period_ms", "60000");
	ok &= !enable(true);
	warm(p, AREA, 1);
	ok &= !change(TIER_PARTS "scan/period_ms", "100");
	ok &= rises(p, AREA);
	ok &= !enable(false);
	ok &= intact(p, AREA);
	ksft_test_result(ok, "a shorter period begins within seconds\n");
	unmap_on(p, AREA);
}

/* Threads look for a change 2 s and 4 s after they have started; this one is in between. */
static void test_retune_and_back(void)
{
	char *p = map_slow(2 * AREA, false);
	bool ok;

	if (!p)
		return;
	ok = !change(TIER_PARTS "scan/period_ms", "100") && !enable(true);
	/* Visits of this process are due after the length of a period. */
	warm(p + AREA, AREA, 2.6);
	ok &= !change(TIER_PARTS "scan/period_ms", "60000");
	warm(p + AREA, AREA, 0.8);
	ok &= !change(TIER_PARTS "scan/period_ms", "100");
	ok &= rises(p, AREA);
	ok &= !enable(false);
	ok &= intact(p, 2 * AREA);
	ksft_test_result(ok, "a longer period for 800 ms delays nothing\n");
	unmap_on(p, 2 * AREA);
}

/* Faults are only injected where a task asks for it; false if they cannot be. */
static bool setup_faults(void)
{
	static const char * const files[] = { "failslab", "fail_page_alloc" };
	static const struct {
		const char *file, *value;
	} settings[] = {
		{ "task-filter", "Y" }, { "verbose", "0" }, { "interval", "1" },
		{ "space", "0" }, { "times", "-1" }, { "ignore-gfp-wait", "N" },
		{ "probability", "5" },
	};
	char path[128];
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		for (j = 0; j < ARRAY_SIZE(settings); j++) {
			snprintf(path, sizeof(path), DEBUGFS "%s/%s", files[i], settings[j].file);
			if (change(path, settings[j].value))
				return false;
		}
	}
	return !change(DEBUGFS "fail_page_alloc/ignore-gfp-highmem", "N") &&
	       !change(DEBUGFS "fail_page_alloc/min-order", "0");
}

/*
 * Switch "scan" with the @nth allocation of this task failing.  Returns what write()
 * does, or -errno; sets @nth to 0 if there were not so many.
 */
static int switch_failing(bool on, int nth_file, int *nth)
{
	int fd = tier_part_open("scan", "enabled", O_WRONLY), err = 0;
	char buf[16];
	ssize_t n;

	if (fd < 0)
		return -errno;
	snprintf(buf, sizeof(buf), "%d", *nth);
	if (pwrite(nth_file, buf, strlen(buf), 0) < 0)
		err = -errno;
	n = write(fd, on ? "1" : "0", 1);
	if (n < 0)
		err = -errno;
	/* What has not been used up */
	n = pread(nth_file, buf, sizeof(buf) - 1, 0);
	buf[n > 0 ? n : 0] = '\0';
	if (n > 0 && atoi(buf))
		*nth = 0;
	if (pwrite(nth_file, "0", 1, 0) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* There was no memory to start what is wished: it waits, and says so. */
static bool waits_for_memory(void)
{
	char reason[256];

	return tier_part_number("scan", "enabled") == 1 && tier_part_is("scan", "waiting") &&
	       tier_part_read("scan", "reason", reason, sizeof(reason)) &&
	       strstr(reason, "memory") && !strstr(reason, "slow memory");
}

/*
 * Each allocation on the way to being enabled or disabled fails once.  If the write fails nothing
 * changes; else the wish is kept.
 */
static bool switch_with_faults(bool on, int nth_file, double end)
{
	unsigned int tried = 0, refused_nr = 0;
	bool ok = true, wished, waits;
	int nth, left, err;

	for (nth = 1; nth < 1000 && now() < end; nth++) {
		ok &= !enable(!on);
		left = nth;
		err = switch_failing(on, nth_file, &left);
		if (!left)
			break;
		wished = err ? !on : on;
		waits = !err && on && waits_for_memory();
		tried++;
		refused_nr += err || waits;
		if ((err && err != -ENOMEM) || tier_part_number("scan", "enabled") != wished ||
		    (!waits && !tier_part_is("scan", wished ? "on" : "off"))) {
			ksft_print_msg("allocation %d: error %d, enabled %d\n", nth, err,
				       is_enabled());
			ok = false;
		}
	}
	ksft_print_msg("%s: %u allocations failed one by one, %u times it was not switched%s\n",
		       on ? "on" : "off", tried, refused_nr,
		       now() < end ? "" : ", no time for all");
	return ok && tried && (!on || refused_nr);
}

/* Let allocations of a kernel thread fail; false if there is no such thread. */
static bool fail_thread(const char *name, int nid, const char *file, const char *value)
{
	char comm[32], path[64];
	int pid;

	snprintf(comm, sizeof(comm), nid < 0 ? "%s" : "%s%d", name, nid);
	pid = thread_pid(comm);
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	return pid > 0 && !write_file(path, value);
}

static void test_no_memory(void)
{
	int nth_file = open("/proc/thread-self/fail-nth", O_RDWR), old;
	char *p = map_slow(AREA, false);
	bool ok, waits;
	long nomem;

	if (!p)
		goto out;
	if (nth_file < 0 || !setup_faults()) {
		ksft_test_result_skip("no CONFIG_FAILSLAB or no CONFIG_FAIL_PAGE_ALLOC\n");
		goto unmap;
	}
	ok = switch_with_faults(true, nth_file, now() + 5);
	ok &= switch_with_faults(false, nth_file, now() + 2);

	/* The first thread cannot be made, then it can: without another write it is tried again. */
	ok &= !enable(false);
	ok &= fail_thread("kthreadd", -1, "fail-nth", "1");
	old = tier_part_set("scan", true);
	waits = waits_for_memory();
	ok &= fail_thread("kthreadd", -1, "fail-nth", "0");
	if (old || !waits) {
		ksft_print_msg("no thread: error %d, enabled %d\n", old, is_enabled());
		ok = false;
	}
	ok &= tier_part_wait("scan", "on", START_MS);
	ok &= !enable(true);

	/* All allocations of scanner and promoter fail, then one in twenty. */
	ok &= fail_thread("kmmscand", fast, "make-it-fail", "1");
	ok &= fail_thread("kpromoted", slow, "make-it-fail", "1");
	ok &= !change(FAIL_PAGES, "100");
	nomem = event_count("tier_promote_fail_nomem");
	warm(p, AREA, 2);
	nomem = event_count("tier_promote_fail_nomem") - nomem;
	ksft_print_msg("%ld pages found no memory at first\n", nomem);
	ok &= nomem > 0;
	ok &= !change(FAIL_PAGES, "5");
	ok &= rises(p, AREA);
	restore_settings();
	ok &= threads_work();
	ok &= !enable(false);
	ok &= intact(p, AREA);
	ksft_test_result(ok, "allocations fail: it waits or comes a bit later, nothing is lost\n");
unmap:
	unmap_on(p, AREA);
out:
	if (nth_file >= 0)
		close(nth_file);
}

static const struct tier_test tests[] = {
	{ "mlock", test_mlock },
	{ "left_out", test_left_out },
	{ "held", test_held },
	{ "pinned", test_pinned },
	{ "hugetlb", test_hugetlb },
	{ "ksm", test_ksm },
	{ "uffd_wp", test_uffd_wp },
	{ "uffd_missing", test_uffd_missing },
	{ "shared", test_shared },
	{ "file", test_file },
	{ "fork", test_fork },
	{ "exec", test_exec },
	{ "churn", test_churn },
	{ "swapout", test_swapout },
	{ "mprotect", test_mprotect },
	{ "poison", test_poison },
	{ "cpus", test_cpus },
	{ "freezer", test_freezer },
	{ "mthp", test_mthp },
	{ "offline_stuck", test_offline_stuck },
	{ "settings", test_settings },
	{ "retune", test_retune },
	{ "retune_and_back", test_retune_and_back },
	{ "no_memory", test_no_memory },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], SHORT_LIVED))
		return short_lived(atoi(argv[2]));

	begin_kmmscand_tests();
	set("scan/period_ms", "100");
	set_share("scan/cpu_permille", 50);
	/* So that several promoters work on a machine of several CPUs */
	set("promote/cpu_permille", "1000");
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
