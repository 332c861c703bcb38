/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that moves: each page has a pattern of its own.
 */
#ifndef MIGRATE_PAGES_H
#define MIGRATE_PAGES_H

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../tier_parts/tier_parts.h"

#define SYSFS		TIER_PARTS "batch/"
#define PAGE		4096UL
#define HUGE		(2UL << 20)
#define NR_PAGES	2048UL
#define LEN		(NR_PAGES * PAGE)
#define PFN_MASK	0x007fffffffffffffULL
#define PRESENT		0x8000000000000000ULL

/* Of the harness: its 30 seconds are too few for a debug kernel on a slow emulator. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	120

/* Before the harness starts the tests, in processes of their own */
static void __attribute__((constructor)) begin_parts(void)
{
	tier_parts_begin();
}

/* Returns 0 if batches are on, or off, as they should be. */
static inline int batch(bool on)
{
	return tier_part_turn("batch", on);
}

/* The calling thread runs on one CPU from now on.  Returns 0, or -1 where the CPU is not there. */
static inline int run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static inline int write_file(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

static inline long read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long val = -1;

	if (f && fscanf(f, "%ld", &val) != 1)
		val = -1;
	if (f)
		fclose(f);
	return val;
}

static inline uint64_t entry_of(const char *p)
{
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	if (pread(fd, &entry, 8, (unsigned long)p / PAGE * 8) != 8)
		entry = 0;
	close(fd);
	return entry;
}

static inline uint64_t pattern(unsigned long page, int round)
{
	return (page + 1) * 0x9e3779b97f4a7c15 + round;
}

static inline void fill(char *p, unsigned long stride, int round)
{
	for (unsigned long i = 0; i < NR_PAGES; i += stride)
		*(uint64_t *)(p + i * PAGE + i % 500 * 8) = pattern(i, round);
}

static inline unsigned long wrong(const char *p, unsigned long stride, int round)
{
	unsigned long n = 0;

	for (unsigned long i = 0; i < NR_PAGES; i += stride)
		n += *(uint64_t *)(p + i * PAGE + i % 500 * 8) != pattern(i, round);
	return n;
}

/* How many pages are on a node? */
static inline unsigned long count_on(char *p, int node)
{
	static void *pages[NR_PAGES];
	static int status[NR_PAGES];
	unsigned long n = 0;

	for (unsigned long i = 0; i < NR_PAGES; i++)
		pages[i] = p + i * PAGE;
	syscall(SYS_move_pages, 0, NR_PAGES, pages, NULL, status, 0);
	for (unsigned long i = 0; i < NR_PAGES; i++)
		n += status[i] == node;
	return n;
}

enum way { MOVE_PAGES, MBIND, MIGRATE_PAGES, NR_WAYS };

static inline int move_to(char *p, int node, enum way way)
{
	static void *pages[NR_PAGES];
	static int nodes[NR_PAGES], status[NR_PAGES];
	unsigned long new = 1UL << node, old = 1UL << !node;

	switch (way) {
	case MOVE_PAGES:
		for (unsigned long i = 0; i < NR_PAGES; i++) {
			pages[i] = p + i * PAGE;
			nodes[i] = node;
		}
		return syscall(SYS_move_pages, 0, NR_PAGES, pages, nodes, status, MPOL_MF_MOVE_ALL);
	case MBIND:
		if (syscall(SYS_mbind, p, LEN, MPOL_BIND, &new, 64UL, MPOL_MF_MOVE_ALL))
			return -1;
		return syscall(SYS_mbind, p, LEN, MPOL_DEFAULT, NULL, 0UL, 0);
	default:
		return syscall(SYS_migrate_pages, 0, 64UL, &old, &new);
	}
}

/* Memory whose folios are --kb each, or mapped by PTEs if they are huge and @by_ptes */
static inline char *map_folios(int kb, bool by_ptes)
{
	char path[96], *p, *start;

	for (int size = 16; size <= 2048; size *= 2) {
		snprintf(path, sizeof(path),
			 "/sys/kernel/mm/transparent_hugepage/hugepages-%dkB/enabled", size);
		write_file(path, size == kb ? "always" : "never");
	}
	p = mmap(NULL, LEN + 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	start = (char *)(((unsigned long)p + HUGE - 1) & ~(HUGE - 1));
	munmap(p, start - p);
	munmap(start + LEN, p + 2 * HUGE - start);
	madvise(start, LEN, kb == 4 ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	fill(start, 1, 0);
	/* khugepaged would map them by PMDs, and a PMD has one soft-dirty bit. */
	madvise(start, LEN, MADV_NOHUGEPAGE);
	for (unsigned long i = 0; by_ptes && i < LEN; i += HUGE)
		if (mprotect(start + i, PAGE, PROT_READ) ||
		    mprotect(start + i, PAGE, PROT_READ | PROT_WRITE))
			return NULL;
	return start;
}

/* Are all folios as large as they were? */
static inline unsigned long split_folios(const char *p, int kb)
{
	unsigned long each = kb / 4, n = 0;

	for (unsigned long i = 0; i < NR_PAGES; i += each) {
		uint64_t pfn = entry_of(p + i * PAGE) & PFN_MASK;

		if (pfn % each)
			n++;
		else if ((entry_of(p + (i + each - 1) * PAGE) & PFN_MASK) != pfn + each - 1)
			n++;
	}
	return n;
}

#endif /* MIGRATE_PAGES_H */
