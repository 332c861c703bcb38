// SPDX-License-Identifier: GPL-2.0
/*
 * labmark: markers for scripts.
 *
 *   labmark start | stop | phase N	see lab_marker.h
 *   labmark calibrate [MB]		for every node with memory: take MB (default
 *	16) there and tell access.so of pages spread over it which node they are
 *	on. To be run before anything migrates pages. Prints one line per node;
 *	fails if a node gave no page.
 *   labmark run PROGRAM [ARG...]	START, run the program, STOP; its exit status
 *
 * start and stop from a script include the exit and the start of labmark
 * itself in what is measured.
 */
#include <sys/wait.h>

#include "lab_marker.h"
#include "lab_numa.h"

#define PAGES_PER_LOAD 16

static int usage(void)
{
	fputs("usage: labmark start | stop | phase N | calibrate [MB] | run PROGRAM [ARG...]\n",
	      stderr);
	return 2;
}

/* MemTotal of @node in KiB; 0: no such node, or one without memory. */
static unsigned long node_memory_kb(int node)
{
	char path[64];
	unsigned long kb = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "Node %*d MemTotal: %lu kB", &kb) != 1)
		kb = 0;
	fclose(f);
	return kb;
}

/*
 * Preferred, not bound: when the node is full the pages come from elsewhere
 * instead of from the OOM killer, and are not used.
 */
static int calibrate_node(int node, size_t size)
{
	char *buf = lab_map_on_node(size, LAB_MPOL_PREFERRED, node);
	size_t loads = 0, off;

	memset(buf, 1, size);
	for (off = 0; off < size; off += PAGES_PER_LOAD * LAB_PAGE) {
		if (lab_node_of(buf + off) == node) {
			lab_cal(buf + off, node);
			loads++;
		}
	}
	munmap(buf, size);
	printf("labmark: node %d calibrated with %zu loads\n", node, loads);
	if (!loads)
		fprintf(stderr, "labmark: node %d gave no page: is it full?\n", node);
	return !loads;
}

static int calibrate(size_t size)
{
	int node, nodes = 0, failed = 0;

	for (node = 0; node < LAB_MAX_NODES; node++) {
		if (!node_memory_kb(node))
			continue;
		nodes++;
		failed |= calibrate_node(node, size);
	}
	if (!nodes)
		fputs("labmark: no NUMA nodes in sysfs\n", stderr);
	return failed || !nodes;
}

static int run(char **argv)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		lab_start();
		execvp(argv[0], argv);
		perror(argv[0]);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		perror("labmark run");
		return 1;
	}
	lab_stop();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	const char *cmd = argc > 1 ? argv[1] : "";

	if (!strcmp(cmd, "start") && argc == 2)
		lab_start();
	else if (!strcmp(cmd, "stop") && argc == 2)
		lab_stop();
	else if (!strcmp(cmd, "phase") && argc == 3 && atoi(argv[2]) >= 0 &&
		 atoi(argv[2]) < LAB_MAX_PHASES)
		lab_phase(atoi(argv[2]));
	else if (!strcmp(cmd, "calibrate") && argc == 2)
		return calibrate(16UL << 20);
	else if (!strcmp(cmd, "calibrate") && argc == 3 && atoi(argv[2]) > 0)
		return calibrate((size_t)atoi(argv[2]) << 20);
	else if (!strcmp(cmd, "run") && argc > 2)
		return run(argv + 2);
	else
		return usage();
	return 0;
}
