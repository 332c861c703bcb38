// SPDX-License-Identifier: GPL-2.0
/*
 * plant: hot memory on --node that stays there for a cause, which `tierctl explain` is to name.
 * tests/long/test_tierctl_causes.py runs it.
 *
 * A policy of the task puts all pages on the node, and is dropped afterwards.  The program then
 * reads each page in turn and rests for --rest-ms, again and again.  --cause is one of:
 *
 *   none	nothing of the program keeps the memory
 *   cold	only the first page of each page table is read
 *   mlock	mlock(2)
 *   mbind	mbind(2) to the node
 *   opt-out	prctl(PR_SET_TIER_SCAN, 0)
 *   ksm	two pages each have the same content, and may be merged
 *   dirty	the memory is --file, which was written
 *   fill	the node has --left-kb free at most: memory is added, locked, and never read
 */
#include "common.h"
#include "lab_numa.h"

#include <fcntl.h>

#define PR_SET_TIER_SCAN	0x53545343
#define MPOL_DEFAULT		0
#define TABLE_PAGES		512
#define RUN_S			0.001
#define STEP			(1UL << 20)

static struct {
	uint64_t size_mb, node, rest_ms, left_kb;
	const char *cause, *file;
} cfg = { .size_mb = 8, .node = 1, .rest_ms = 30, .left_kb = 4096, .cause = "none", .file = "" };

static const struct opt opts[] = {
	{ "cause", OPT_STR, &cfg.cause, "why the memory stays" },
	{ "size-mb", OPT_U64, &cfg.size_mb, "memory" },
	{ "node", OPT_U64, &cfg.node, "where it is" },
	{ "rest-ms", OPT_U64, &cfg.rest_ms, "pause after each round" },
	{ "left-kb", OPT_U64, &cfg.left_kb, "fill: what the node has free at the end" },
	{ "file", OPT_STR, &cfg.file, "dirty: this file" },
	{ NULL, OPT_U64, NULL, NULL },
};

static bool is(const char *cause)
{
	return !strcmp(cfg.cause, cause);
}

static void set_policy(int mode)
{
	unsigned long nodes = 1UL << cfg.node;

	if (syscall(SYS_set_mempolicy, mode, mode ? &nodes : NULL, 8 * sizeof(nodes)))
		die("set_mempolicy: %s", strerror(errno));
}

static char *map_file(size_t bytes)
{
	int fd = open(cfg.file, O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *base;

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		die("%s: %s", cfg.file, strerror(errno));
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		die("%s: %s", cfg.file, strerror(errno));
	close(fd);
	return base;
}

static uint64_t free_kb(void)
{
	unsigned long long kb;
	char path[64], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo",
		 (unsigned int)cfg.node);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Node %*u MemFree: %llu kB", &kb) == 1) {
			fclose(f);
			return kb;
		}
	}
	die("no MemFree in %s", path);
}

/* What others free is taken as well. */
__attribute__((noreturn))
static void fill(void)
{
	unsigned int full = 0;

	for (;;) {
		while (free_kb() > cfg.left_kb) {
			char *base = region_map(STEP, false);

			if (madvise(base, STEP, MADV_POPULATE_WRITE) || mlock(base, STEP))
				die("cannot lock memory: %s", strerror(errno));
		}
		if (!full++)
			printf("READY\n");
		sleep_s(0.05);
	}
}

static void keep(char *base, size_t bytes)
{
	unsigned long nodes = 1UL << cfg.node;
	int error = 0;

	if (is("mlock"))
		error = mlock(base, bytes);
	else if (is("mbind"))
		error = (int)syscall(SYS_mbind, base, bytes, LAB_MPOL_BIND, &nodes,
				     8 * sizeof(nodes), 0);
	else if (is("opt-out"))
		error = prctl(PR_SET_TIER_SCAN, 0L, 0L, 0L, 0L);
	else if (is("ksm"))
		error = madvise(base, bytes, MADV_MERGEABLE);
	else if (!is("none") && !is("cold") && !is("dirty"))
		die("--cause '%s' is unknown", cfg.cause);
	if (error)
		die("%s: %s", cfg.cause, strerror(errno));
}

int main(int argc, char **argv)
{
	size_t bytes, pages;
	char *base;

	opt_parse(argc - 1, argv + 1, opts);
	setvbuf(stdout, NULL, _IOLBF, 0);
	set_policy(LAB_MPOL_BIND);
	if (is("fill"))
		fill();
	bytes = cfg.size_mb << 20;
	pages = bytes / PAGE_SZ;
	base = is("dirty") ? map_file(bytes) : region_map(bytes, false);
	for (size_t i = 0; i < pages; i++)
		*(uint64_t *)(base + i * PAGE_SZ) = 1 + i / 2;
	keep(base, bytes);
	set_policy(MPOL_DEFAULT);
	printf("READY\n");
	for (;;) {
		double end = now_s() + RUN_S;

		for (size_t i = 0; i < pages; i += is("cold") ? TABLE_PAGES : 1)
			(void)*(volatile char *)(base + i * PAGE_SZ);
		while (now_s() < end)
			;
		sleep_s((double)cfg.rest_ms / 1e3);
	}
}
