// SPDX-License-Identifier: GPL-2.0
/* Pages of the test's own memory, see migrc.h. */
#include "../kselftest.h"

#include "migrc.h"

#define LARGE_ENABLED	"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"

#define NODES		"/sys/devices/system/node/"
#define MAX_NODES	64

#define PM_SWAP		0x4000000000000000ULL
#define PM_PRESENT	0x8000000000000000ULL
#define PM_PFN		0x007fffffffffffffULL

#define MAX_MOVES	4096

static struct {
	unsigned long nr;
	void *pages[MAX_MOVES];
	int nodes[MAX_MOVES];
	int status[MAX_MOVES];
} moves;

int fast = -1, slow = -1;

bool find_nodes(void)
{
	char path[64], cpus[64];
	int nid;

	for (nid = 0; nid < MAX_NODES; nid++) {
		snprintf(path, sizeof(path), NODES "node%d/cpulist", nid);
		if (!read_file(path, cpus, sizeof(cpus)))
			continue;
		if (*cpus && fast < 0)
			fast = nid;
		else
			slow = nid;
	}
	return fast >= 0 && slow >= 0;
}

char *map_area(size_t len)
{
	char *raw, *area;

	raw = mmap(NULL, len + 3 * HUGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		return NULL;
	area = (char *)(((uintptr_t)raw + 2 * HUGE - 1) & ~(HUGE - 1));
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

char *new_area(size_t len, int nid)
{
	char *area = map_area(len > HUGE ? len : HUGE);

	return area && place(area, len, nid) ? area : NULL;
}

char *new_large(int nid)
{
	char *area = map_area(HUGE);
	unsigned long i;

	if (set(LARGE_ENABLED, "madvise") || !area || madvise(area, LARGE, MADV_HUGEPAGE) ||
	    !place(area, LARGE, nid))
		return NULL;
	for (i = 1; i < LARGE / PAGE; i++)
		if (pfn_of(area + i * PAGE) != pfn_of(area) + i)
			return NULL;
	return area;
}

int node_of(const char *p)
{
	void *page = (void *)p;
	int status = -1;

	if (syscall(__NR_move_pages, 0, 1UL, &page, NULL, &status, 0))
		return -errno;
	return status;
}

bool place(char *p, size_t len, int nid)
{
	unsigned long mask = 1UL << nid;

	/* Written all at once: a page that is read first costs a flush of all readers later. */
	if (syscall(__NR_mbind, p, len, MPOL_BIND, &mask, MAX_NODES + 1UL, MPOL_MF_MOVE_ALL) ||
	    madvise(p, len, MADV_POPULATE_WRITE) ||
	    syscall(__NR_mbind, p, len, MPOL_DEFAULT, NULL, 0UL, 0))
		return false;
	for (; len && node_of(p) == nid; len -= PAGE)
		p += PAGE;
	return !len;
}

void moves_add(char *p, unsigned long nr_pages, int nid)
{
	for (; nr_pages && moves.nr < MAX_MOVES; nr_pages--, p += PAGE) {
		moves.pages[moves.nr] = p;
		moves.nodes[moves.nr] = nid;
		moves.nr++;
	}
}

unsigned long moves_do(void)
{
	unsigned long i, moved = 0, nr = moves.nr;

	/* Written by a fault of the kernel's, it would flush what has just been deferred. */
	memset(moves.status, 0xff, sizeof(moves.status));
	syscall(__NR_move_pages, 0, nr, moves.pages, moves.nodes, moves.status, MPOL_MF_MOVE_ALL);
	for (i = 0; i < nr; i++)
		moved += moves.status[i] == moves.nodes[i];
	moves.nr = 0;
	return moved;
}

bool move_page(char *p, int nid)
{
	moves_add(p, 1, nid);
	return moves_do() == 1;
}

bool move_over(char *p)
{
	return move_page(p, other_node(node_of(p)));
}

static uint64_t pagemap_entry(const char *p)
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

bool is_swapped(const char *p)
{
	return pagemap_entry(p) & PM_SWAP;
}

static int own_uffd(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	static pid_t opened_by;
	static int fd;

	if (opened_by != getpid()) {
		opened_by = getpid();
		fd = syscall(__NR_userfaultfd, O_CLOEXEC);
		ioctl(fd, UFFDIO_API, &api);
	}
	return fd;
}

static bool uffd_protect(char *p, size_t len)
{
	struct uffdio_range range = { (uintptr_t)p, len };
	struct uffdio_register area = { range, UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect protect = { range, UFFDIO_WRITEPROTECT_MODE_WP };

	return !ioctl(own_uffd(), UFFDIO_REGISTER, &area) &&
	       !ioctl(own_uffd(), UFFDIO_WRITEPROTECT, &protect);
}

static bool fork_and_wait(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return pid > 0 && waitpid(pid, NULL, 0) == pid;
}

bool make_read_only(char *p, size_t len, enum read_only how)
{
	switch (how) {
	case BY_FORK:
		return fork_and_wait();
	case BY_SOFT_DIRTY:
		return !write_file("/proc/self/clear_refs", "4");
	case BY_PROTECTION:
		return !mprotect(p, len, PROT_READ);
	case BY_UFFD:
		return uffd_protect(p, len);
	}
	return false;
}
