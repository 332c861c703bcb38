/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of MIGRC share.  The test itself is on CPU 0, its helper on CPU 1, its crew of
 * readers or writers on the last CPUs.  MIGRC_SECONDS is how long each test goes on (default 2),
 * MIGRC_SEED what its random numbers begin with (default 1).
 */
#ifndef _MIGRC_H
#define _MIGRC_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>

#include "../tier_parts/tier_parts.h"

#define MIGRC		TIER_PARTS "defer/"
#define MIGRC_DEBUG	"/sys/kernel/debug/tier/defer/"
/* Switches that break a rule each */
#define FAULTS		"/sys/kernel/debug/tier/faults/"
#define PAGE		4096UL
#define HUGE		(2UL << 20)

/* --- knobs.c: files that hold one value: settings and counters --- */

int write_file(const char *path, const char *text);		/* 0 or -errno */
bool read_file(const char *path, char *buf, size_t size);	/* the first line */
#define exists(path)	(!access(path, F_OK))
/* What it changes, in any process, is put back when the program ends; or now, by unset(). */
int set(const char *path, const char *value);
bool unset(const char *path);
/* A row of /proc/vmstat, or how often a rule has applied (met_RULE); -1 if there is none */
long counter(const char *name);
/* Note all of these now; by how much has one risen since? */
void counters_begin(void);
long risen(const char *name);

/* --- threads.c: threads that stay on one CPU --- */

#define nr_cpus()		((int)sysconf(_SC_NPROCESSORS_ONLN))
#define relax()			__builtin_ia32_pause()
#define word_read(p)		__atomic_load_n((const uint64_t *)(p), __ATOMIC_RELAXED)
#define word_write(p, value)	__atomic_store_n((uint64_t *)(p), value, __ATOMIC_RELAXED)

bool pin(int cpu);
double now(void);
/* Zeroed, shared with child processes: fork() does not make it read-only. */
void *shared_alloc(size_t size);
uint32_t random_number(void);
void random_delay(unsigned int max_us);
/* From now on a thread that is refused access to memory tries again and again. */
void bear_faults(void);

/* Runs functions on another CPU, one after the other. */
struct worker;
struct worker *worker_start(int cpu);
void worker_stop(struct worker *worker);
/* Returns when the function has been begun; and when it has ended. */
void worker_run(struct worker *worker, void (*fn)(void *arg), void *arg);
void worker_wait(struct worker *worker);
bool worker_busy(struct worker *worker);

/* --- pages.c: on which node they are, their moves, how their PTEs become read-only --- */

/* Two nodes with memory; @fast has CPUs. */
extern int fast, slow;
#define other_node(nid)	((nid) == fast ? slow : fast)
bool find_nodes(void);
/*
 * Private memory, aligned to a huge page, without huge pages.  The neighbouring pages stay mapped,
 * so that its page tables are not freed with it, which would flush.
 */
char *map_area(size_t len);
void unmap_area(char *area, size_t len);
/* Bring pages in on a node, or move them there; the policy is the default one afterwards. */
bool place(char *p, size_t len, int nid);
/* map_area() of at least a huge page, with so much of it in */
char *new_area(size_t len, int nid);
/*
 * The same with a folio of 64 KiB at its beginning.  For one move: the base kernel takes a folio
 * whose PTEs it has removed one by one for partially mapped, and splits it when it moves again.
 */
#define LARGE		(16 * PAGE)
char *new_large(int nid);
/* The node, or negative if it is not present */
int node_of(const char *p);

/* The process's list of pages for move_pages(2), in the order in which they are to be moved */
void moves_add(char *p, unsigned long nr_pages, int nid);
/* How many are where they should be?  Also moves pages of other processes.  Empties the list. */
unsigned long moves_do(void);
/* One page: the list must be empty. */
bool move_page(char *p, int nid);
bool move_over(char *p);
/* Frame of a present page, or 0 */
uint64_t pfn_of(const char *p);
/* Is there a swap or a migration entry? */
bool is_swapped(const char *p);

/* Why a PTE is read-only though the page belongs to this process alone */
enum read_only {
	BY_FORK,	/* shared with a child that is gone: to be reused */
	BY_SOFT_DIRTY,	/* /proc/self/clear_refs */
	BY_UFFD,	/* userfaultfd, which lets writes go on by themselves */
	BY_PROTECTION,	/* no write permission: for FOLL_FORCE */
};

/* The pages must be present.  False and errno if it does not work here. */
bool make_read_only(char *p, size_t len, enum read_only how);

/* --- crew.c: readers that never enter the kernel, and writers that count --- */

/*
 * A spot is a word in a page under test.  Only the test writes it: each time the next number,
 * marked as this spot's, and says so afterwards.  A reader that has seen n there, and then reads
 * the word, must not get less than n (a stale TLB entry), nor anything else that has never been
 * there (the page has been freed, and is used again).  A reader is alone on its CPU and makes no
 * system call, so nothing flushes its TLB but what the kernel sends it on purpose.
 *
 * A writer has words of its own in pages under test, adds one to each again and again, and
 * remembers the sum.  It reads less than it wrote if a write went to a frame after its copy.
 */
struct crew;
struct crew *crew_start(int nr);
void crew_stop(struct crew *crew);
/* From now on they write these pages, which are zero, and no others. */
void crew_write(struct crew *crew, char *pages, int nr_pages);
/* Write the first number to a page and show it to the readers; or show it once more. */
void spot_show(struct crew *crew, int nr, void *page);
void spot_show_again(struct crew *crew, int nr, void *page);
/* No reader reads it any more when it returns. */
void spot_hide(struct crew *crew, int nr);
/* The number that is to be written next; it was written by other means; or write it here. */
uint64_t spot_next(struct crew *crew, int nr);
void spot_has_next(struct crew *crew, int nr);
void spot_write(struct crew *crew, int nr);
/* The page is about to get new contents; or has got them. */
void spot_change(struct crew *crew, int nr);
/* All of them have been at all pages since it was called; false if they have found something. */
bool crew_settle(struct crew *crew);
bool crew_clean(struct crew *crew);
/* What was found first, in words */
const char *crew_says(struct crew *crew);

/* --- props.c: a memory control group, many pages, other processes --- */

struct group {
	char root[32], dir[48];
};

/* What this process brings in belongs to the group until group_leave(), and stays with it. */
bool group_enter(struct group *group);
void group_leave(struct group *group);
void group_destroy(struct group *group);
/* Reclaim its anonymous pages, @size bytes if it can be done. */
void group_reclaim(struct group *group, unsigned long size);
/* Clear Accessed bits: a reader with a TLB entry does not set them again. */
void forget_accesses(void);

/*
 * Many read-only pages, on the slow node at first.  A page that is moved with them is half-way for
 * some time.  A batch of migrate_pages() is 512 pages.
 */
#define NR_BULK		500UL
extern char *bulk;
bool bulk_start(void);
/* Have the worker move @before of them, @page, and the others.  Returns when @seen is half-way: */
bool bulk_move(struct worker *worker, unsigned int before, char *page, char *seen);

/*
 * A process that shares this one's memory copy-on-write, on the first CPU.  It calls @fn when it is
 * told to, with a thread on the second CPU: were it on one only, its flushes would be local.
 */
struct other;
struct other *other_start(bool (*fn)(void *arg), void *arg);
/* What @fn has returned */
bool other_does(struct other *other);
void other_end(struct other *other);
/*
 * After a fork all memory is read-only.  Write the heap and the data of the program now: later, the
 * faults would flush what the test is about.
 */
void write_own_data(void);

/* --- scene.c: what tests begin and end with --- */

struct scene {
	struct crew *crew;
	struct worker *helper;
	double begin, end;
	unsigned long rounds;
	/* So often a test that depends on chance has still to meet its event; it goes on longer. */
	long missing;
};

/* MIGRC on, with limits that do not get in the way.  NULL, or why the test cannot be run */
const char *scene_begin(struct scene *scene, int nr_crew);
void scene_end(struct scene *scene);
/* Begins a round: false if the time is over, or the crew has found something. */
bool scene_goes_on(struct scene *scene);
/* After a fork: write_own_data(), and the helper's stack. */
void scene_own(struct scene *scene);
/*
 * It has ended: has the crew found nothing, has it met its event as often as it should, and has the
 * counter risen by at least @least?  Says so if not.  A run that finds nothing proves something
 * only if MIGRC had something to do; one that does find something ends at once.
 */
bool scene_ends(struct scene *scene, const char *row, long least);
/* Flush and free all sources. */
void scene_drain(void);
/* Until a test that hangs is killed, for TEST_F_TIMEOUT() */
int scene_timeout(void);

#endif /* _MIGRC_H */
