// SPDX-License-Identifier: GPL-2.0
/* Pages of the test's own memory, see pages.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>

#include "../kselftest.h"

#include "knobs.h"
#include "pages.h"

#define NODES		"/sys/devices/system/node/"
#define MAX_NODES	64

#define PM_SWAP		0x4000000000000000ULL
#define PM_UFFD_WP	0x0200000000000000ULL
#define PM_PRESENT	0x8000000000000000ULL
#define PM_PFN		0x007fffffffffffffULL

int fast = -1, slow = -1;

/* "0,2-3" -> bit mask */
static uint64_t read_nodes(const char *path)
{
	uint64_t mask = 0;
	char buf[256], *p = buf;

	if (!read_file(path, buf, sizeof(buf)))
		return 0;
	while (*p >= '0' && *p <= '9') {
		unsigned long lo = strtoul(p, &p, 10), hi = lo;

		if (*p == '-')
			hi = strtoul(p + 1, &p, 10);
		for (; lo <= hi && lo < MAX_NODES; lo++)
			mask |= 1ULL << lo;
		if (*p == ',')
			p++;
	}
	return mask;
}

bool find_nodes(void)
{
	uint64_t cpus = read_nodes(NODES "has_cpu");
	uint64_t mem = read_nodes(NODES "has_memory");
	uint64_t rest;

	if (!(cpus & mem))
		return false;
	fast = __builtin_ctzll(cpus & mem);
	rest = mem & ~(1ULL << fast);
	if (!rest)
		return false;
	slow = __builtin_ctzll(rest & ~cpus ? rest & ~cpus : rest);
	return true;
}

char *map_area(size_t len)
{
	char *raw, *area;

	raw = mmap(NULL, len + 3 * HUGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		return NULL;
	area = (char *)(((uintptr_t)raw + 2 * HUGE - 1) & ~(HUGE - 1));
	if (area - HUGE > raw)
		munmap(raw, area - HUGE - raw);
	munmap(area + len + HUGE, raw + 2 * HUGE - area);
	madvise(area - HUGE, len + 2 * HUGE, MADV_NOHUGEPAGE);
	/* With pages in them the neighbours' page tables exist, too. */
	area[-(long)PAGE] = 1;
	area[len] = 1;
	return area;
}

void unmap_area(char *area, size_t len)
{
	if (area)
		munmap(area - HUGE, len + 2 * HUGE);
}

bool bind_to(char *p, size_t len, int nid)
{
	unsigned long mask = 1UL << nid;

	return !syscall(__NR_mbind, p, len, MPOL_BIND, &mask, (unsigned long)MAX_NODES + 1, 0);
}

unsigned long count_on(char *p, unsigned long nr_pages, int nid)
{
	void *pages[256];
	int status[256];
	unsigned long i, n, on = 0;

	for (; nr_pages; nr_pages -= n, p += n * PAGE) {
		n = nr_pages < ARRAY_SIZE(pages) ? nr_pages : ARRAY_SIZE(pages);
		for (i = 0; i < n; i++)
			pages[i] = p + i * PAGE;
		if (syscall(__NR_move_pages, 0, n, pages, NULL, status, 0))
			return on;
		for (i = 0; i < n; i++)
			on += status[i] == nid;
	}
	return on;
}

static bool move_there(char *p, unsigned long nr_pages, int nid)
{
	struct moves *moves = calloc(1, sizeof(*moves));
	bool moved = moves;
	unsigned long n;

	for (; moved && nr_pages; nr_pages -= n, p += n * PAGE) {
		n = nr_pages < MAX_MOVES ? nr_pages : MAX_MOVES;
		moves_clear(moves);
		moves_add(moves, p, n, nid);
		moved = moves_do(moves) == n;
	}
	free(moves);
	return moved;
}

/* All at once: a page that is first read, and then written, costs a flush of all readers. */
bool place(char *p, size_t len, int nid)
{
	if (!bind_to(p, len, nid) || madvise(p, len, MADV_POPULATE_WRITE) ||
	    syscall(__NR_mbind, p, len, MPOL_DEFAULT, NULL, 0UL, 0))
		return false;
	return count_on(p, len / PAGE, nid) == len / PAGE || move_there(p, len / PAGE, nid);
}

int node_of(const char *p)
{
	void *page = (void *)p;
	int status = -1;

	if (syscall(__NR_move_pages, 0, 1UL, &page, NULL, &status, 0))
		return -errno;
	return status;
}

void moves_clear(struct moves *moves)
{
	moves->nr = 0;
}

void moves_add(struct moves *moves, char *p, unsigned long nr_pages, int nid)
{
	for (; nr_pages && moves->nr < MAX_MOVES; nr_pages--, p += PAGE) {
		moves->pages[moves->nr] = p;
		moves->nodes[moves->nr] = nid;
		moves->nr++;
	}
}

unsigned long moves_do(struct moves *moves)
{
	unsigned long i, moved = 0;

	/*
	 * Written now, and not by the kernel for the first time after a fork: the fault would
	 * flush what the migration has just deferred.
	 */
	memset(moves->status, 0xff, sizeof(moves->status));
	syscall(__NR_move_pages, 0, moves->nr, moves->pages, moves->nodes, moves->status,
		MPOL_MF_MOVE_ALL);
	for (i = 0; i < moves->nr; i++)
		moved += moves->status[i] == moves->nodes[i];
	return moved;
}

bool move_page(char *p, int nid)
{
	void *page = p;
	int status = -1;

	return !syscall(__NR_move_pages, 0, 1UL, &page, &nid, &status, MPOL_MF_MOVE_ALL) &&
	       status == nid;
}

uint64_t pagemap_entry(const char *p)
{
	static int fd = -1;
	static pid_t opened_by;
	uint64_t entry = 0;

	/* The file belongs to the address space that opened it. */
	if (opened_by != getpid()) {
		fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
		opened_by = getpid();
	}
	if (pread(fd, &entry, sizeof(entry), (uintptr_t)p / PAGE * sizeof(entry)) !=
	    sizeof(entry))
		return 0;
	return entry;
}

uint64_t pfn_of(const char *p)
{
	uint64_t entry = pagemap_entry(p);

	return entry & PM_PRESENT ? entry & PM_PFN : 0;
}

bool is_uffd_protected(const char *p)
{
	return pagemap_entry(p) & PM_UFFD_WP;
}

bool is_swapped(const char *p)
{
	return pagemap_entry(p) & PM_SWAP;
}

int uffd_open(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_PAGEFAULT_FLAG_WP |
			    UFFD_FEATURE_MOVE,
	};
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return -1;
	}
	return fd;
}

bool uffd_register(int fd, char *p, size_t len, uint64_t mode)
{
	struct uffdio_register arg = {
		.range = { .start = (uintptr_t)p, .len = len },
		.mode = mode,
	};

	return !ioctl(fd, UFFDIO_REGISTER, &arg);
}

bool uffd_protect(int fd, char *p, size_t len)
{
	struct uffdio_writeprotect arg = {
		.range = { .start = (uintptr_t)p, .len = len },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	return !ioctl(fd, UFFDIO_WRITEPROTECT, &arg);
}

static bool fork_and_wait(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(0);
	return pid > 0 && waitpid(pid, &status, 0) == pid;
}

int read_only_uffd(void)
{
	static int fd = -1;
	static pid_t opened_by;

	if (opened_by != getpid()) {
		fd = uffd_open();
		opened_by = getpid();
	}
	return fd;
}

bool make_read_only(char *p, size_t len, enum read_only how)
{
	int uffd;

	switch (how) {
	case BY_FORK:
		return fork_and_wait();
	case BY_SOFT_DIRTY:
		return !write_file("/proc/self/clear_refs", "4");
	case BY_RESTORE:
		/* Its Dirty bit is cleared on the way down, and looked at on the way up. */
		for (; len; len -= PAGE, p += PAGE)
			if (!move_page(p, fast) || !move_page(p, slow) || !move_page(p, fast))
				return false;
		return true;
	case BY_PROTECTION:
		return !mprotect(p, len, PROT_READ);
	case BY_UFFD:
		uffd = read_only_uffd();
		return uffd >= 0 && uffd_register(uffd, p, len, UFFDIO_REGISTER_MODE_WP) &&
		       uffd_protect(uffd, p, len);
	}
	return false;
}
