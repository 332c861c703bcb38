/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads that stay on one CPU, and who gets which: the test itself is on the first one, its
 * helpers on the next ones, readers and writers on the last ones.
 *
 * What threads share is in memory that fork() does not make read-only: a page fault of a
 * reader, or a write of anybody else to a page that was shared by a fork, would flush the TLB
 * entries whose survival is the test.
 */
#ifndef _MIGRC_THREADS_H
#define _MIGRC_THREADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIN_CPUS	4
#define MAX_READERS	8

int nr_cpus(void);
bool pin(int cpu);
double now(void);

/* Zeroed, shared with child processes */
void *shared_alloc(size_t size);
void shared_free(void *p, size_t size);

/* From MIGRC_SEED; each call gives another number. */
uint32_t random_number(void);
/* Of the CPU for a time that depends on chance, at most @max_us */
void random_delay(unsigned int max_us);

/* Words that others write or read at the same time */
static inline uint64_t word_read(const void *word)
{
	return __atomic_load_n((const uint64_t *)word, __ATOMIC_RELAXED);
}

static inline void word_write(void *word, uint64_t value)
{
	__atomic_store_n((uint64_t *)word, value, __ATOMIC_RELAXED);
}

static inline void relax(void)
{
	__builtin_ia32_pause();
}

/* From now on a thread that is refused access to memory tries again and again. */
bool bear_faults(void);

/* Runs functions on another CPU, one after the other. */
struct worker;

struct worker *worker_start(int cpu);
void worker_stop(struct worker *worker);
/* Returns when the function has been begun, */
void worker_run(struct worker *worker, void (*fn)(void *arg), void *arg);
/* and when it has ended. */
void worker_wait(struct worker *worker);
bool worker_busy(struct worker *worker);

#endif /* _MIGRC_THREADS_H */
