// SPDX-License-Identifier: GPL-2.0
/*
 * uniform: threads access random pages of a region, all equally likely, a
 * fixed number of times: no page is hotter than another, so this shows cost
 * and convergence, not choice.  Modelled on the access pattern described for
 * the kmmscand benchmark: each iteration makes as many random page accesses
 * as the region has pages (shared among the threads), then waits --delay-us.
 */
#include "common.h"

static struct {
	uint64_t size_mb, threads, iterations, delay_us, touches, seed;
	const char *pages, *place;
} cfg = {
	.size_mb = 128, .threads = 2, .iterations = 32, .delay_us = 1,
	.touches = 4, .seed = 1, .pages = "4k", .place = "",
};

static const struct opt opts[] = {
	{ "size-mb", OPT_U64, &cfg.size_mb, "region size" },
	{ "pages", OPT_STR, &cfg.pages, "4k or thp" },
	{ "threads", OPT_U64, &cfg.threads, "worker threads" },
	{ "iterations", OPT_U64, &cfg.iterations, "region-sized rounds" },
	{ "delay-us", OPT_U64, &cfg.delay_us, "pause between rounds" },
	{ "touches", OPT_U64, &cfg.touches, "cache lines touched per access" },
	{ "seed", OPT_U64, &cfg.seed, "random seed" },
	{ "place", OPT_STR, &cfg.place, "move the region to this node first" },
	{ NULL, OPT_U64, NULL, NULL },
};

static char *base;
static size_t npages;

static void work(struct team *t, unsigned int id)
{
	uint64_t share = npages / cfg.threads, ops = 0, sum = 0;
	struct rng r;

	rng_seed(&r, cfg.seed * 1000 + id);
	for (uint64_t it = 0; it < cfg.iterations; it++) {
		for (uint64_t i = 0; i < share; i++) {
			char *p = base + rng_below(&r, (uint32_t)npages) * PAGE_SZ;
			uint32_t line = rng_below(&r, PAGE_SZ / LINE_SZ);

			for (uint64_t j = 0; j < cfg.touches; j++) {
				sum += ((volatile uint64_t *)(p + line * LINE_SZ))[1];
				line = (line + 1) % (PAGE_SZ / LINE_SZ);
			}
		}
		ops += share;
		team_count(t, id, ops);
		sleep_s((double)cfg.delay_us * 1e-6);
	}
	if (sum == 0x6c6162)	/* keeps the loads alive */
		fputs("", stderr);
}

int main(int argc, char **argv)
{
	static struct team team = { .work = work };
	struct residency after;
	size_t bytes;

	opt_parse(argc - 1, argv + 1, opts);
	if (strcmp(cfg.pages, "4k") && strcmp(cfg.pages, "thp"))
		die("--pages must be 4k or thp");
	bytes = cfg.size_mb << 20;
	npages = bytes / PAGE_SZ;
	base = region_map(bytes, !strcmp(cfg.pages, "thp"));
	region_stamp(base, bytes);
	if (*cfg.place)
		region_place(base, npages, atoi(cfg.place));
	team.threads = (unsigned int)cfg.threads;
	team_run(&team);
	after = region_residency(base, npages);
	region_verify(base, bytes);
	printf("RESULT {\"ops\":%llu,\"accesses\":%llu,\"seconds\":%.3f,"
	       "\"pages_after\":%s,\"verified\":true}\n",
	       (unsigned long long)team_ops(&team),
	       (unsigned long long)(team_ops(&team) * cfg.touches), team.seconds,
	       residency_json(&after));
	return 0;
}
