// SPDX-License-Identifier: GPL-2.0
/*
 * Ways through the kernel that every program takes, many times over:
 *
 *   fault   writes to each page of --size-mb for the first time
 *   fork    makes --count children that exit at once, and waits for each
 *   exec    executes itself --count times; its name has to be a path
 *   move    moves --size-mb between nodes 0 and 1 by move_pages(2), --count times
 *
 * The markers are around all of it.  The result has the number of pages written, of children, of
 * executions, or of moved pages.
 */
#include "common.h"

/* Before what is counted: others' RCU callbacks are over by then */
#define SETTLE_S	0.5
#define NOT_YET		UINT64_MAX

static uint64_t fault(size_t bytes)
{
	char *p = region_map(bytes, false);

	lab_start();
	for (size_t i = 0; i < bytes; i += PAGE_SZ)
		*(volatile char *)(p + i) = 1;
	lab_stop();
	return bytes / PAGE_SZ;
}

static uint64_t fork_all(uint64_t count)
{
	lab_start();
	for (uint64_t i = 0; i < count; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			die("child %llu: %s", (unsigned long long)i, strerror(errno));
	}
	lab_stop();
	return count;
}

/* The program that is executed last comes back from here, and no other one. */
static uint64_t exec_all(char *path, char *count, uint64_t left)
{
	uint64_t all = strtoull(count, NULL, 0);
	char text[24];
	char *next[] = { path, "--case", "exec", "--count", count, "--left", text, NULL };

	if (left == NOT_YET) {
		left = all;
		lab_start();
	}
	if (left) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)left - 1);
		execv(path, next);
		die("%s: %s", path, strerror(errno));
	}
	lab_stop();
	return all;
}

static uint64_t move(size_t bytes, uint64_t count)
{
	char *p = region_map(bytes, false);
	size_t pages = bytes / PAGE_SZ;
	struct residency r;

	region_stamp(p, bytes);
	region_place(p, pages, 0);
	sleep_s(SETTLE_S);
	lab_start();
	for (uint64_t i = 0; i < count; i++)
		region_place(p, pages, !(i & 1));
	lab_stop();
	r = region_residency(p, pages);
	if (r.on[count & 1] < pages - pages / 100)
		die("only %llu of %zu pages are on node %d", (unsigned long long)r.on[count & 1],
		    pages, (int)(count & 1));
	region_verify(p, bytes);
	return pages * count;
}

int main(int argc, char **argv)
{
	uint64_t size_mb = 64, left = NOT_YET, ops;
	const char *name = "fault";
	char *count = "100";
	const struct opt opts[] = {
		{ "case", OPT_STR, &name, "fault, fork, exec or move" },
		{ "size-mb", OPT_U64, &size_mb, "of fault and move: memory" },
		{ "count", OPT_STR, &count, "of fork, exec and move: how often" },
		{ "left", OPT_U64, &left, "of exec: how often from now on" },
		{ NULL, OPT_U64, NULL, NULL },
	};

	opt_parse(argc - 1, argv + 1, opts);
	if (left == NOT_YET)
		sleep_s(SETTLE_S);
	if (!strcmp(name, "fault"))
		ops = fault(size_mb << 20);
	else if (!strcmp(name, "fork"))
		ops = fork_all(strtoull(count, NULL, 0));
	else if (!strcmp(name, "exec"))
		ops = exec_all(argv[0], count, left);
	else if (!strcmp(name, "move"))
		ops = move(size_mb << 20, strtoull(count, NULL, 0));
	else
		die("--case %s: unknown; use fault, fork, exec or move", name);
	printf("RESULT {\"case\": \"%s\", \"ops\": %llu}\n", name, (unsigned long long)ops);
	return 0;
}
