/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages of the test's own memory: on which node they are, where they are moved, and how their
 * PTEs become read-only.
 */
#ifndef _MIGRC_PAGES_H
#define _MIGRC_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE	4096UL
#define HUGE	(2UL << 20)

/* Two nodes with memory; @fast has CPUs, @slow has none if there is such a node. */
extern int fast, slow;

bool find_nodes(void);
static inline int other_node(int nid)
{
	return nid == fast ? slow : fast;
}

/*
 * Private memory, aligned to a huge page, without huge pages.  What is before and behind
 * stays mapped, so that its page tables are not freed with it, which would flush.  NULL if
 * there is none.
 */
char *map_area(size_t len);
void unmap_area(char *area, size_t len);

/* Bring pages in on a node, or move them there; the policy is the default one afterwards. */
bool place(char *p, size_t len, int nid);
/* Where they may be; hint faults leave them alone afterwards.  Moves none. */
bool bind_to(char *p, size_t len, int nid);
/* The node, or negative if it is not present */
int node_of(const char *p);
unsigned long count_on(char *p, unsigned long nr_pages, int nid);

/* A list of pages for move_pages(2), in the order in which they are to be moved */
#define MAX_MOVES	1024
struct moves {
	unsigned long nr;
	void *pages[MAX_MOVES];
	int nodes[MAX_MOVES];
	int status[MAX_MOVES];
};

void moves_clear(struct moves *moves);
void moves_add(struct moves *moves, char *p, unsigned long nr_pages, int nid);
/* How many are where they should be?  Also pages that other processes map. */
unsigned long moves_do(struct moves *moves);
/* One page */
bool move_page(char *p, int nid);

/* The pagemap entry of a page, 0 if there is none */
uint64_t pagemap_entry(const char *p);
/* Frame of a present page, or 0 */
uint64_t pfn_of(const char *p);
/* Has userfaultfd taken write permission from it? */
bool is_uffd_protected(const char *p);
/* Is there a swap or a migration entry? */
bool is_swapped(const char *p);

/* Why a PTE is read-only though the page belongs to this process alone */
enum read_only {
	BY_FORK,	/* shared with a child that is gone: to be reused */
	BY_SOFT_DIRTY,	/* /proc/self/clear_refs */
	BY_UFFD,	/* userfaultfd, which lets writes go on by themselves */
	BY_RESTORE,	/* restore_readonly, if it is set: not written while it was on @slow */
	BY_PROTECTION,	/* no write permission: for FOLL_FORCE */
};

/* The pages must be present.  False and errno if it does not work here. */
bool make_read_only(char *p, size_t len, enum read_only how);

/* The file that BY_UFFD uses, or -1 */
int read_only_uffd(void);

/* userfaultfd on an area: @mode as for UFFDIO_REGISTER.  Returns a file or -1. */
int uffd_open(void);
bool uffd_register(int fd, char *p, size_t len, uint64_t mode);
bool uffd_protect(int fd, char *p, size_t len);

#endif /* _MIGRC_PAGES_H */
