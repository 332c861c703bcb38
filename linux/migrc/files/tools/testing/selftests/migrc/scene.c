// SPDX-License-Identifier: GPL-2.0
/* What most tests begin and end with, see migrc.h. */
#include "../kselftest.h"

#include "migrc.h"

/* How much longer a test may go on that has not met its event */
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

const char *scene_begin(struct scene *scene, int nr_crew)
{
	memset(scene, 0, sizeof(*scene));
	if (geteuid() || !exists(MIGRC_DEBUG "defer_syscalls"))
		return "no root, or no " MIGRC_DEBUG " (CONFIG_MIGRC_DEBUG, debugfs)";
	if (!find_nodes() || nr_cpus() < 4)
		return "needs two nodes and four CPUs";
	/*
	 * These tests write what was deferred, again and again.  An address space that does so is
	 * left alone soon, and then they would test nothing: the back-off has a test of its own.
	 */
	if (set(MIGRC_DEBUG "max_pages", "65536") || set(MIGRC_DEBUG "age_ms", "60000") ||
	    set(MIGRC_DEBUG "defer_syscalls", "1") || set(FAULTS "defer_backoff", "Y") ||
	    set(MIGRC "enabled", "1") || !tier_part_on("defer"))
		return "cannot switch MIGRC on";
	pin(0);
	scene->crew = crew_start(nr_crew);
	scene->helper = worker_start(1);
	if (!scene->crew || !scene->helper)
		return "no threads";
	scene_drain();
	counters_begin();
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
}

void scene_own(struct scene *scene)
{
	write_own_data();
	write_stack(NULL);
	worker_run(scene->helper, write_stack, NULL);
	worker_wait(scene->helper);
}

bool scene_ends(struct scene *scene, const char *row, long least)
{
	long by = risen(row);

	crew_stop(scene->crew);
	if (!crew_clean(scene->crew))
		ksft_print_msg("%s (after %.2f s, round %lu)\n", crew_says(scene->crew),
			       now() - scene->begin, scene->rounds);
	else if (by < least || scene->missing > 0)
		ksft_print_msg("nothing tested: %lu rounds, %s rose by %ld of %ld, %ld missed\n",
			       scene->rounds, row, by, least, scene->missing);
	else
		return true;
	return false;
}

void scene_drain(void)
{
	write_file(MIGRC_DEBUG "drain", "1");
}
