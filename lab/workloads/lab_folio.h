/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Anonymous memory in folios of a given size.
 */
#ifndef LAB_FOLIO_H
#define LAB_FOLIO_H

#include <fcntl.h>

#include "common.h"

#define HUGE_KB		2048

static void put(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die("%s: %s", path, strerror(errno));
	close(fd);
}

static void use_folios(int kb)
{
	char path[96];
	int size;

	for (size = 16; size <= HUGE_KB; size *= 2) {
		snprintf(path, sizeof(path),
			 "/sys/kernel/mm/transparent_hugepage/hugepages-%dkB/enabled", size);
		put(path, size == kb ? "always" : "never");
	}
}

static char *map(size_t len, int flags)
{
	size_t huge = HUGE_KB << 10;
	char *p = mmap(NULL, len + huge, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	char *start;

	if (p == MAP_FAILED)
		die("%s: %s", "mmap", strerror(errno));
	/* Folios of each size fit from the beginning on, and nothing is left beside them. */
	start = (char *)(((unsigned long)p + huge - 1) & ~(huge - 1));
	if (start > p)
		munmap(p, start - p);
	munmap(start + len, p + huge - start);
	return start;
}

static void touch(char *p, size_t len)
{
	for (size_t i = 0; i < len; i += PAGE_SZ)
		p[i] = 1;
}

/* Map huge pages by PTEs. */
static void split(char *p, size_t len)
{
	for (size_t i = 0; i < len; i += HUGE_KB << 10) {
		if (mprotect(p + i, PAGE_SZ, PROT_READ) ||
		    mprotect(p + i, PAGE_SZ, PROT_READ | PROT_WRITE))
			die("%s: %s", "mprotect", strerror(errno));
	}
}

#endif
