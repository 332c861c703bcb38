/* SPDX-License-Identifier: GPL-2.0 */
/* A memory control group of our own, whose memory MGLRU ages when it is told to. */
#ifndef SELFTEST_KVM_AGING_H
#define SELFTEST_KVM_AGING_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kselftest.h"

#define LRU_GEN		"/sys/kernel/debug/lru_gen"
#define GROUPS		"/tmp/aging_groups"
#define GROUP		GROUPS "/aging"
#define PAGE		4096UL
#define NODES		2

static inline void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		ksft_exit_fail_msg("%s: %s: %s\n", path, text, strerror(errno));
	close(fd);
}

/* Sizes of generations of our group, of anonymous memory */
struct generations {
	unsigned int id;
	unsigned long youngest[NODES];
	unsigned long before[NODES];		/* in the one before the youngest */
	unsigned long older[NODES];
};

static inline struct generations generations(void)
{
	struct generations g = {};
	char line[512], path[256];
	unsigned long seq, age, anon, size[NODES][16] = {};
	unsigned int id, node = 0, i;
	bool ours = false;
	FILE *f = fopen(LRU_GEN, "r");

	if (!f)
		ksft_exit_fail_msg("%s: %s\n", LRU_GEN, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "memcg %u %255s", &id, path) == 2) {
			ours = !strcmp(path, "/aging");
			if (ours)
				g.id = id;
		} else if (sscanf(line, " node %u", &node) == 1) {
			node = node < NODES ? node : NODES - 1;
		} else if (ours && sscanf(line, "%lu %lu %lu", &seq, &age, &anon) == 3) {
			/* They come from the oldest to the youngest. */
			memmove(size[node] + 1, size[node], 15 * sizeof(size[node][0]));
			size[node][0] = anon;
			g.youngest[node] = seq;
		}
	}
	fclose(f);
	for (node = 0; node < NODES; node++) {
		g.before[node] = size[node][1];
		for (i = 2; i < 16; i++)
			g.older[node] += size[node][i];
	}
	return g;
}

/* Age the memory of our group on a node. */
static inline void age(unsigned int node)
{
	struct generations g = generations();
	char text[128];

	/* There is no such node. */
	if (!g.youngest[node])
		return;
	sprintf(text, "+ %u %u %lu 1 1", g.id, node, g.youngest[node]);
	write_file(LRU_GEN, text);
}

static inline void age_all(void)
{
	unsigned int node;

	for (node = 0; node < NODES; node++)
		age(node);
}

static inline unsigned long young(void)
{
	struct generations g = generations();

	return g.before[0] + g.before[1];
}

static inline void join_group(void)
{
	if (access(LRU_GEN, W_OK))
		ksft_exit_skip("%s: %s\n", LRU_GEN, strerror(errno));
	mkdir(GROUPS, 0700);
	if (mount("none", GROUPS, "cgroup2", 0, NULL))
		ksft_exit_skip("cgroup2: %s\n", strerror(errno));
	write_file(GROUPS "/cgroup.subtree_control", "+memory");
	mkdir(GROUP, 0700);
	write_file(GROUP "/cgroup.procs", "0");
}

static inline void leave_group(void)
{
	write_file(GROUPS "/cgroup.procs", "0");
	rmdir(GROUP);
	umount(GROUPS);
}

#endif
