// SPDX-License-Identifier: GPL-2.0
/*
 * Promotes the pages of one process through debugfs, for the cost of asking its memory policies.
 *
 *   --policy none      the process has never had any
 *            vma       mbind(2) allows both nodes
 *            task      set_mempolicy(2) of the only thread allows both nodes
 *            threads   the same of eight threads
 *
 * The markers are around the writes to /sys/kernel/debug/tier/promote.  It prints how many pages
 * are on the fast node (0) afterwards; before, all are on the slow one (1).
 */
#include "common.h"

#include <fcntl.h>

#include "lab_numa.h"

#define PROMOTE		"/sys/kernel/debug/tier/promote"
#define PREFERRED_MANY	5
#define THREADS		8

static const unsigned long both = 3;

static void *allow_both(void *unused)
{
	if (syscall(SYS_set_mempolicy, PREFERRED_MANY, &both, 64UL))
		die("set_mempolicy: %s", strerror(errno));
	if (unused)
		pause();
	return NULL;
}

/* Memory on the slow node, without any policy */
static char *map_slow(size_t pages)
{
	char *p = mmap(NULL, pages * PAGE_SZ, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	int slow = 1, status;

	if (p == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	madvise(p, pages * PAGE_SZ, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < pages; i++) {
		void *at = p + i * PAGE_SZ;

		p[i * PAGE_SZ] = 1;
		if (syscall(SYS_move_pages, 0, 1UL, &at, &slow, &status, 2 /* MPOL_MF_MOVE */))
			die("move_pages: %s", strerror(errno));
	}
	return p;
}

static void promote(int file, uint64_t pfn, size_t nr)
{
	char line[64];
	int len = snprintf(line, sizeof(line), "%lu %zu 0", (unsigned long)pfn, nr);

	/* What is not there any more is seen in the end. */
	if (write(file, line, len) != len && errno != ENOENT && errno != EBUSY)
		die("%s: %s", PROMOTE, strerror(errno));
}

int main(int argc, char **argv)
{
	uint64_t size_mb = 16, *pfn;
	const char *policy = "none";
	const struct opt opts[] = {
		{ "policy", OPT_STR, &policy, "none, vma, task or threads" },
		{ "size-mb", OPT_U64, &size_mb, "how much is promoted" },
		{ NULL, OPT_U64, NULL, NULL },
	};
	int pagemap = open("/proc/self/pagemap", O_RDONLY), file = open(PROMOTE, O_WRONLY);
	size_t pages, i, first, moved = 0;
	pthread_t thread;
	char *p;

	opt_parse(argc - 1, argv + 1, opts);
	if (pagemap < 0 || file < 0)
		die("%s: %s", file < 0 ? PROMOTE : "pagemap", strerror(errno));
	pages = (size_mb << 20) / PAGE_SZ;
	p = map_slow(pages);
	pfn = calloc(pages, sizeof(*pfn));
	if (!pfn ||
	    pread(pagemap, pfn, pages * sizeof(*pfn), (uintptr_t)p / PAGE_SZ * sizeof(*pfn)) !=
		    (ssize_t)(pages * sizeof(*pfn)))
		die("cannot map, or see where it is");
	if (!strcmp(policy, "vma") &&
	    syscall(SYS_mbind, p, pages * PAGE_SZ, PREFERRED_MANY, &both, 64UL, 0))
		die("mbind: %s", strerror(errno));
	if (!strcmp(policy, "task") || !strcmp(policy, "threads"))
		allow_both(NULL);
	for (i = 1; i < THREADS && !strcmp(policy, "threads"); i++)
		pthread_create(&thread, NULL, allow_both, p);
	sleep_s(0.5);
	lab_start();
	for (first = 0, i = 1; i <= pages; i++) {
		uint64_t mask = (1UL << 55) - 1;

		if (i < pages && (pfn[i] & mask) == (pfn[i - 1] & mask) + 1 && i - first < 512)
			continue;
		promote(file, pfn[first] & mask, i - first);
		first = i;
	}
	lab_stop();
	for (i = 0; i < pages; i++)
		moved += lab_node_of(p + i * PAGE_SZ) == 0;
	printf("RESULT {\"policy\": \"%s\", \"pages\": %zu, \"moved\": %zu}\n", policy, pages,
	       moved);
	return 0;
}
