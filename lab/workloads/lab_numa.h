/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NUMA system calls for the guest programs, which are static and do without
 * libnuma: place a buffer on a node, and ask where its pages are.
 */
#ifndef LAB_NUMA_H
#define LAB_NUMA_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LAB_PAGE	4096UL
#define LAB_MPOL_PREFERRED 1
#define LAB_MPOL_BIND	2

/*
 * Anonymous memory with @policy for @node, small pages, not touched yet.
 * Exits with a message on failure, as the programs could only do the same.
 */
static inline char *lab_map_on_node(size_t size, int policy, int node)
{
	unsigned long mask = 1UL << node;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	/* Fails where there are no huge pages, and is not needed there. */
	madvise(p, size, MADV_NOHUGEPAGE);
	if (syscall(SYS_mbind, p, size, policy, &mask, 8 * sizeof(mask), 0)) {
		perror("mbind");
		exit(1);
	}
	return p;
}

/* The node that @addr is on, or a negative errno. */
static inline int lab_node_of(void *addr)
{
	int status = -1;

	if (syscall(SYS_move_pages, 0, 1UL, &addr, NULL, &status, 0)) {
		perror("move_pages");
		exit(1);
	}
	return status;
}

#endif
