// SPDX-License-Identifier: GPL-2.0
/* Threads that stay on one CPU, see migrc.h. */
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#include "migrc.h"

struct worker {
	pthread_t thread;
	int cpu;
	sem_t wake;
	void (*fn)(void *arg);
	void *arg;
	atomic_bool begun, busy;
};

bool pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	return !sched_setaffinity(0, sizeof(cpus), &cpus);
}

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

void *shared_alloc(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

uint32_t random_number(void)
{
	static __thread uint64_t sequence;
	const char *seed = getenv("MIGRC_SEED");

	if (!sequence)
		sequence = ((seed ? strtoul(seed, NULL, 0) : 1) + 1) * 0x9e3779b97f4a7c15ULL;
	sequence ^= sequence << 13;
	sequence ^= sequence >> 7;
	sequence ^= sequence << 17;
	return sequence >> 16;
}

void random_delay(unsigned int max_us)
{
	double end = now() + random_number() % (max_us + 1) / 1e6;

	while (now() < end)
		relax();
}

/* When it returns, the access is tried again. */
static void on_fault(int sig)
{
}

void bear_faults(void)
{
	signal(SIGSEGV, on_fault);
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	pin(worker->cpu);
	for (;;) {
		while (sem_wait(&worker->wake))
			;
		if (!worker->fn)
			return NULL;
		atomic_store(&worker->begun, true);
		worker->fn(worker->arg);
		atomic_store(&worker->busy, false);
	}
}

struct worker *worker_start(int cpu)
{
	struct worker *worker = shared_alloc(sizeof(*worker));

	if (!worker)
		return NULL;
	worker->cpu = cpu;
	sem_init(&worker->wake, 0, 0);
	return pthread_create(&worker->thread, NULL, work, worker) ? NULL : worker;
}

void worker_stop(struct worker *worker)
{
	if (!worker)
		return;
	worker->fn = NULL;
	sem_post(&worker->wake);
	pthread_join(worker->thread, NULL);
}

void worker_run(struct worker *worker, void (*fn)(void *arg), void *arg)
{
	worker->fn = fn;
	worker->arg = arg;
	atomic_store(&worker->begun, false);
	atomic_store(&worker->busy, true);
	sem_post(&worker->wake);
	while (!atomic_load(&worker->begun))
		relax();
}

bool worker_busy(struct worker *worker)
{
	return atomic_load(&worker->busy);
}

void worker_wait(struct worker *worker)
{
	while (worker_busy(worker))
		usleep(50);
}
