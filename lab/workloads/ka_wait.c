// SPDX-License-Identifier: GPL-2.0
/*
 * ka_wait CPUS TIMES: how long does it take until other CPUs have flushed their TLB?
 *
 * A thread spins on each of the first CPUS CPUs.  On the next one the protection of a
 * page is changed, TIMES times, for which all of them are interrupted and waited for.  Prints
 * the mean time of such a change, in us.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static volatile unsigned int running;

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static void *spin(void *cpu)
{
	if (pin((int)(long)cpu)) {
		perror("sched_setaffinity");
		exit(1);
	}
	__atomic_add_fetch(&running, 1, __ATOMIC_RELAXED);
	for (;;)
		;
}

int main(int argc, char **argv)
{
	struct timespec begun, ended;
	unsigned int cpus, times, i;
	pthread_t thread;
	volatile char *page;

	if (argc != 3) {
		fputs("usage: ka_wait CPUS TIMES\n", stderr);
		return 2;
	}
	cpus = atoi(argv[1]);
	times = atoi(argv[2]);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || pin((int)cpus)) {
		perror("ka_wait");
		return 1;
	}
	for (i = 0; i < cpus; i++)
		if (pthread_create(&thread, NULL, spin, (void *)(long)i))
			return 1;
	while (running < cpus)
		sched_yield();
	clock_gettime(CLOCK_MONOTONIC, &begun);
	for (i = 0; i < times; i++) {
		*page = 1;
		/* What may be written becomes read-only: a flush */
		if (mprotect((void *)page, 4096, PROT_READ) ||
		    mprotect((void *)page, 4096, PROT_READ | PROT_WRITE))
			return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("%.0f\n", ((double)(ended.tv_sec - begun.tv_sec) * 1e6 +
			  (double)(ended.tv_nsec - begun.tv_nsec) / 1e3) / times);
	return 0;
}
