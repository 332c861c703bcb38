/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the memory tier tests share: settings, nodes, placement, page frame numbers.
 * No libnuma, so that the tests build anywhere.
 */
#ifndef _TIER_UTIL_H
#define _TIER_UTIL_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/kernel-page-flags.h>
#include <linux/mempolicy.h>

#include "../kselftest.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define THP	"/sys/kernel/mm/transparent_hugepage/"
#define PAGE_IDLE	"/sys/kernel/mm/page_idle/bitmap"
#define PROMOTE		"/sys/kernel/debug/tier/promote"
#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define MAX_NODES	64
#define PAGE		4096UL
#define HUGE		(2UL << 20)
#define PER_HUGE	(HUGE / PAGE)

/* Returns 0 or -errno of the write. */
static int write_file(const char *path, const char *text)
{
	ssize_t len = strlen(text), n;
	int fd = open(path, O_WRONLY);
	int err = 0;

	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	if (n != len)
		err = n < 0 ? -errno : -EIO;
	close(fd);
	return err;
}

static bool read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n < 0)
		return false;
	buf[n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return true;
}

/* A counter of /proc/vmstat, or -1. */
static inline long event_count(const char *name)
{
	char line[256], key[128];
	long val = -1, v;
	FILE *f = fopen("/proc/vmstat", "r");

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%127s %ld", key, &v) == 2 && !strcmp(key, name))
			val = v;
	fclose(f);
	return val;
}

/* Settings that have been changed, and what they were */
static struct {
	char path[96];
	char value[128];
} changed[64];
static unsigned int nr_changed;
/* How many of them stay when a test ends */
static unsigned int nr_kept;

/* Change a setting until the test ends, or all tests.  Returns 0 or -errno. */
static int change(const char *path, const char *value)
{
	char old[128], *word = old;

	if (nr_changed == ARRAY_SIZE(changed) || !read_file(path, old, sizeof(old)))
		return -ENOENT;
	/* "always [madvise] never" -> what is in brackets */
	if (strchr(old, '[')) {
		word = strchr(old, '[') + 1;
		word[strcspn(word, "]")] = '\0';
	}
	snprintf(changed[nr_changed].path, sizeof(changed[0].path), "%s", path);
	snprintf(changed[nr_changed].value, sizeof(changed[0].value), "%s", word);
	nr_changed++;
	return write_file(path, value);
}

static void restore_settings(void)
{
	while (nr_changed > nr_kept) {
		nr_changed--;
		write_file(changed[nr_changed].path, changed[nr_changed].value);
	}
}

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

/*
 * The kernel's rule: every tier down to the slowest one that has CPUs is top
 * tier.  Returns false if there is no slow node with memory.
 */
static bool find_tiers(int *fast, int *slow)
{
	uint64_t cpus = read_nodes("/sys/devices/system/node/has_cpu");
	uint64_t mem = read_nodes("/sys/devices/system/node/has_memory");
	int id, nid, top = -1;
	char path[128];

	*fast = -1;
	*slow = -1;
	for (id = 0; id < 1024; id++) {
		uint64_t nodes;

		snprintf(path, sizeof(path),
			 "/sys/devices/virtual/memory_tiering/memory_tier%d/nodelist", id);
		nodes = read_nodes(path);
		if (nodes & cpus)
			top = id;
	}
	for (id = 0; id < 1024; id++) {
		uint64_t nodes;

		snprintf(path, sizeof(path),
			 "/sys/devices/virtual/memory_tiering/memory_tier%d/nodelist", id);
		nodes = read_nodes(path) & mem;
		for (nid = 0; nid < MAX_NODES; nid++) {
			if (!(nodes & (1ULL << nid)))
				continue;
			if (id <= top && *fast < 0)
				*fast = nid;
			if (id > top && *slow < 0)
				*slow = nid;
		}
	}
	return *fast >= 0 && *slow >= 0;
}

/* Nodes of present pages, or -errno each; returns 0 or -errno. */
static int nodes_of(char *addr, unsigned long nr, int *nodes)
{
	void *pages[256];
	unsigned long i, n;

	for (; nr; nr -= n, addr += n * PAGE, nodes += n) {
		n = nr < ARRAY_SIZE(pages) ? nr : ARRAY_SIZE(pages);
		for (i = 0; i < n; i++)
			pages[i] = addr + i * PAGE;
		if (syscall(__NR_move_pages, 0, n, pages, NULL, nodes, 0))
			return -errno;
	}
	return 0;
}

/* Node of a present page, or -errno. */
static inline int node_of(char *addr)
{
	int node = -EINVAL;

	return nodes_of(addr, 1, &node) ?: node;
}

/* The pagemap entries of pages; returns false if there are none. */
static bool read_pagemap(const char *addr, unsigned long nr, uint64_t *entries)
{
	ssize_t len = nr * sizeof(*entries), n;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	if (fd < 0)
		return false;
	n = pread(fd, entries, len, (uintptr_t)addr / PAGE * sizeof(*entries));
	close(fd);
	return n == len;
}

/* What is in the entry: the frame if present, else type and offset of a swap entry */
static uint64_t pagemap_value(uint64_t entry)
{
	return entry & ((1ULL << 55) - 1);
}

/* Frame of a present page, or 0. */
static inline uint64_t pfn_of(const char *addr)
{
	uint64_t entry = 0;

	return read_pagemap(addr, 1, &entry) && entry >> 63 ? pagemap_value(entry) : 0;
}

/* What /proc/kpageflags says of frames (bits KPF_*); returns false if it does not. */
static inline bool read_kpageflags(uint64_t pfn, unsigned long nr, uint64_t *flags)
{
	ssize_t len = nr * sizeof(*flags), n;
	int fd = open("/proc/kpageflags", O_RDONLY);

	if (fd < 0)
		return false;
	n = pread(fd, flags, len, pfn * sizeof(*flags));
	close(fd);
	return n == len;
}

/* Promote frames to a node now.  Returns 0 or -errno. */
static inline int promote(uint64_t pfn, unsigned long nr, int nid)
{
	char buf[64];

	snprintf(buf, sizeof(buf), "%llu %lu %d", (unsigned long long)pfn, nr, nid);
	return write_file(PROMOTE, buf);
}

/* How many of the pages are on the node? */
static inline unsigned long count_on(char *addr, size_t len, int nid)
{
	unsigned long i, nr = len / PAGE, n = 0;
	int *nodes = malloc(nr * sizeof(*nodes));

	if (nodes && !nodes_of(addr, nr, nodes))
		for (i = 0; i < nr; i++)
			n += nodes[i] == nid;
	free(nodes);
	return n;
}

/* Memory policy of a range of addresses.  Returns 0 or -errno. */
static inline int bind_range(void *addr, size_t len, int mode, uint64_t nodes, int flags)
{
	unsigned long mask = nodes;

	if (syscall(__NR_mbind, addr, len, mode, &mask, (unsigned long)MAX_NODES + 1, flags))
		return -errno;
	return 0;
}

/* Memory policy of this thread.  Returns 0 or -errno. */
static inline int bind_thread(int mode, uint64_t nodes)
{
	unsigned long mask = nodes;

	if (syscall(__NR_set_mempolicy, mode, &mask, (unsigned long)MAX_NODES + 1))
		return -errno;
	return 0;
}

/*
 * Map @len bytes, aligned to a huge page, and populate them on a node.  The
 * policy is reset afterwards, so that the pages are free to move.  A page on
 * either side, without the advice, keeps the VMA apart from its neighbours.
 * To be unmapped by unmap_on().
 */
static inline char *map_on(size_t len, int nid, bool huge)
{
	unsigned long mask = 1UL << nid;
	char *raw, *addr;
	size_t i;

	raw = mmap(NULL, len + 2 * HUGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		return NULL;
	addr = (char *)(((uintptr_t)raw + PAGE + HUGE - 1) & ~(HUGE - 1));
	if (addr - PAGE > raw)
		munmap(raw, addr - PAGE - raw);
	if (raw + 2 * HUGE > addr + PAGE)
		munmap(addr + len + PAGE, raw + 2 * HUGE - addr - PAGE);

	madvise(addr, len, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	if (syscall(__NR_mbind, addr, len, MPOL_BIND, &mask,
		    (unsigned long)MAX_NODES + 1, 0))
		return NULL;
	for (i = 0; i < len; i += PAGE)
		addr[i] = 1;
	if (syscall(__NR_mbind, addr, len, MPOL_DEFAULT, NULL, 0UL, 0))
		return NULL;
	return addr;
}

static inline void unmap_on(char *addr, size_t len)
{
	munmap(addr - PAGE, len + 2 * PAGE);
}

static uint64_t stamp(size_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ULL;
}

static void fill(char *addr, size_t len)
{
	uint64_t *p = (uint64_t *)addr;
	size_t i;

	for (i = 0; i < len / sizeof(*p); i++)
		p[i] = stamp(i);
}

static bool intact(const char *addr, size_t len)
{
	const uint64_t *p = (const uint64_t *)addr;
	size_t i;

	for (i = 0; i < len / sizeof(*p); i++)
		if (p[i] != stamp(i))
			return false;
	return true;
}

/* A field of the mapping's smaps entry in kB, or -1. */
static inline long smaps_kb(const char *addr, const char *field)
{
	size_t len = strlen(field);
	unsigned long start, end;
	bool inside = false;
	char line[512];
	long kb = -1;
	FILE *f = fopen("/proc/self/smaps", "r");

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start <= (uintptr_t)addr && (uintptr_t)addr < end;
		else if (inside && !strncmp(line, field, len) && line[len] == ':')
			kb = strtol(line + len + 1, NULL, 10);
	}
	fclose(f);
	return kb;
}

static inline long huge_kb(const char *addr)
{
	return smaps_kb(addr, "AnonHugePages");
}

/* kB of the mapping that the kernel takes for recently used. */
static inline long referenced_kb(const char *addr)
{
	return smaps_kb(addr, "Referenced");
}

/* Ask page_idle to watch a frame; false if the kernel cannot (no page_idle). */
static inline bool set_idle(uint64_t pfn)
{
	uint64_t bits = 1ULL << pfn % 64;
	int fd = open(PAGE_IDLE, O_WRONLY);
	bool ok;

	if (fd < 0)
		return false;
	/* Returns 0 where memory ends within these 64 frames, but does it. */
	ok = pwrite(fd, &bits, sizeof(bits), pfn / 64 * sizeof(bits)) >= 0;
	close(fd);
	return ok;
}

struct tier_test {
	const char *name;
	void (*run)(void);
};

static bool chosen(const char *name, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(name, argv[i]))
			return true;
	return argc < 2;
}

/* Run the tests named on the command line, or all of them. */
static void run_tests(const struct tier_test *tests, int nr, int argc, char **argv)
{
	int i, j, plan = 0;

	for (j = 1; j < argc; j++) {
		for (i = 0; i < nr && strcmp(tests[i].name, argv[j]); i++)
			;
		if (i == nr)
			ksft_exit_fail_msg("there is no test \"%s\"\n", argv[j]);
	}
	for (i = 0; i < nr; i++)
		plan += chosen(tests[i].name, argc, argv);
	ksft_set_plan(plan);
	nr_kept = nr_changed;
	for (i = 0; i < nr; i++) {
		if (chosen(tests[i].name, argc, argv))
			tests[i].run();
		restore_settings();
	}
	nr_kept = 0;
	restore_settings();
}

#endif /* _TIER_UTIL_H */
