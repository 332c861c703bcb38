// SPDX-License-Identifier: GPL-2.0
/* What most tests begin and end with, see scene.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kselftest.h"

#include "scene.h"

/* How much longer a test may go on that has not met what it is for */
#define MORE_S	30

static double seconds(void)
{
	const char *value = getenv("MIGRC_SECONDS");
	double s = value ? atof(value) : 0;

	return s > 0 ? s : 2;
}

int scene_timeout(void)
{
	return 120 + 4 * seconds();
}

const char *scene_lacks(void)
{
	if (geteuid())
		return "needs root";
	if (!exists(MIGRC "enabled"))
		return "no " MIGRC " (CONFIG_MIGRC)";
	if (!exists(MIGRC_DEBUG "defer_syscalls"))
		return "no " MIGRC_DEBUG " (CONFIG_MIGRC_DEBUG, debugfs)";
	if (!find_nodes())
		return "needs two nodes with memory";
	if (nr_cpus() < MIN_CPUS)
		return "needs four CPUs";
	return NULL;
}

const char *scene_begin(struct scene *scene, int nr_readers)
{
	const char *lacks = scene_lacks();

	memset(scene, 0, sizeof(*scene));
	if (lacks)
		return lacks;
	if (set(MIGRC "max_pages", "65536") || set(MIGRC "max_age_ms", "60000") ||
	    set(MIGRC_DEBUG "defer_syscalls", "1") ||
	    set(MIGRC "restore_readonly", "0") || set(MIGRC "enabled", "1"))
		return "cannot switch MIGRC on";
	pin(0);
	scene->crew = crew_start(nr_readers);
	scene->helper = worker_start(1);
	if (!scene->crew || !scene->helper)
		return "no threads";
	scene_drain();
	counters_read(&scene->before);
	scene->begin = now();
	scene->end = scene->begin + seconds();
	return NULL;
}

void scene_end(struct scene *scene)
{
	worker_stop(scene->helper);
	crew_stop(scene->crew);
	write_file(MIGRC "enabled", "0");
}

bool scene_goes_on(struct scene *scene)
{
	double late = now() - scene->end;

	if (!crew_clean(scene->crew) || late > MORE_S || (late > 0 && scene->missing <= 0))
		return false;
	scene->rounds++;
	return true;
}

static void write_stack(void *arg)
{
	char stack[2 * PAGE];

	memset(stack, 0, sizeof(stack));
	/* They are looked at, for all that the compiler knows. */
	asm volatile("" : : "r" (stack) : "memory");
	(void)arg;
}

/* The stack, the heap, and the data of the program and its libraries */
static void own_data(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long start, end, last = 0;
	char line[512], access[5], *name;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %4s", &start, &end, access) != 3)
			continue;
		name = strpbrk(line, "/[");
		/* What follows a file's pages is its .bss. */
		if ((name || start == last) && !strcmp(access, "rw-p"))
			madvise((void *)start, end - start, MADV_POPULATE_WRITE);
		last = name ? end : 0;
	}
	if (f)
		fclose(f);
}

void scene_own(struct scene *scene)
{
	own_data();
	write_stack(NULL);
	worker_run(scene->helper, write_stack, NULL);
	worker_wait(scene->helper);
}

bool scene_clean(struct scene *scene)
{
	if (crew_clean(scene->crew))
		return true;
	ksft_print_msg("%s (after %.2f s, round %lu)\n", crew_says(scene->crew),
		       now() - scene->begin, scene->rounds);
	return false;
}

/* What MIGRC has done meanwhile, from which to see why it was not what was wanted */
static void say_counters(const struct counters *before)
{
	char text[1024] = "";
	size_t length = 0;
	long by;
	int i;

	for (i = 0; i < before->nr; i++) {
		by = counter_since(before, before->rows[i].name);
		if (by && length < sizeof(text))
			length += snprintf(text + length, sizeof(text) - length, " %s %ld",
					   before->rows[i].name, by);
	}
	ksft_print_msg("risen since it began:%s\n", text);
}

bool scene_rose(struct scene *scene, const char *row, long least)
{
	long by = counter_since(&scene->before, row);

	if (by >= least || !crew_clean(scene->crew))
		return true;
	ksft_print_msg("%s has risen by %ld in %lu rounds, not by %ld: nothing was tested\n",
		       row, by, scene->rounds, least);
	say_counters(&scene->before);
	return false;
}

bool scene_met(struct scene *scene)
{
	if (scene->missing <= 0 || !crew_clean(scene->crew))
		return true;
	ksft_print_msg("in %lu rounds it was not met %ld times more: nothing was tested\n",
		       scene->rounds, scene->missing);
	say_counters(&scene->before);
	return false;
}

void scene_drain(void)
{
	write_file(MIGRC_DEBUG "drain", "1");
}
