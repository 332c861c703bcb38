// SPDX-License-Identifier: GPL-2.0
/*
 * pingpong: migrate_pages(2) moves this process back and forth between two
 * nodes while other threads read its memory: the path length of migration and
 * the TLB shootdowns it sends, without any policy in the way.  One op is one
 * page moved.  The content of every page is verified at the end.
 */
#include "common.h"

static struct {
	uint64_t size_mb, rounds, readers, node_a, node_b;
	const char *pages;
} cfg = { .size_mb = 64, .rounds = 4, .readers = 1, .node_b = 1, .pages = "4k" };

static const struct opt opts[] = {
	{ "size-mb", OPT_U64, &cfg.size_mb, "region size" },
	{ "rounds", OPT_U64, &cfg.rounds, "times there and back" },
	{ "readers", OPT_U64, &cfg.readers, "threads that read meanwhile" },
	{ "node-a", OPT_U64, &cfg.node_a, "first node" },
	{ "node-b", OPT_U64, &cfg.node_b, "second node" },
	{ "pages", OPT_STR, &cfg.pages, "4k or thp" },
	{ NULL, OPT_U64, NULL, NULL },
};

static char *base;
static size_t npages;
static atomic_bool stop;
static uint64_t left_behind;

static uint64_t migrated(void)
{
	FILE *f = fopen("/proc/vmstat", "r");
	unsigned long long n;
	char line[128];

	if (!f)
		die("/proc/vmstat: %s", strerror(errno));
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "pgmigrate_success %llu", &n) == 1) {
			fclose(f);
			return n;
		}
	die("/proc/vmstat has no pgmigrate_success");
}

static void work(struct team *t, unsigned int id)
{
	uint64_t first, sum = 0;

	if (id) {
		while (!atomic_load_explicit(&stop, memory_order_relaxed))
			for (size_t i = id; i < npages; i += 4)
				sum += *(volatile uint64_t *)(base + i * PAGE_SZ);
		if (sum == 0x6c6162)	/* keeps the loads alive */
			fputs("", stderr);
		return;
	}
	first = migrated();
	for (uint64_t i = 0; i < 2 * cfg.rounds; i++) {
		unsigned long from = 1UL << (i % 2 ? cfg.node_b : cfg.node_a);
		unsigned long to = 1UL << (i % 2 ? cfg.node_a : cfg.node_b);
		long rc = syscall(SYS_migrate_pages, 0, 64UL, &from, &to);

		if (rc < 0)
			die("migrate_pages: %s", strerror(errno));
		left_behind += (uint64_t)rc;
		team_count(t, id, migrated() - first);
	}
	atomic_store(&stop, true);
}

int main(int argc, char **argv)
{
	static struct team team = { .work = work };
	struct residency before, after;
	size_t bytes;

	opt_parse(argc - 1, argv + 1, opts);
	if (strcmp(cfg.pages, "4k") && strcmp(cfg.pages, "thp"))
		die("--pages must be 4k or thp");
	if (cfg.node_a >= MAX_NODES || cfg.node_b >= MAX_NODES)
		die("nodes must be below %d", MAX_NODES);
	bytes = cfg.size_mb << 20;
	npages = bytes / PAGE_SZ;
	base = region_map(bytes, !strcmp(cfg.pages, "thp"));
	region_stamp(base, bytes);
	region_place(base, npages, (int)cfg.node_a);
	before = region_residency(base, npages);
	team.threads = 1 + (unsigned int)cfg.readers;
	team_run(&team);
	after = region_residency(base, npages);
	region_verify(base, bytes);
	printf("RESULT {\"ops\":%llu,\"seconds\":%.3f,\"region_pages\":%zu,"
	       "\"left_behind\":%llu,\"pages_before\":%s,",
	       (unsigned long long)team_ops(&team), team.seconds, npages,
	       (unsigned long long)left_behind, residency_json(&before));
	printf("\"pages_after\":%s,\"verified\":true}\n", residency_json(&after));
	return 0;
}
