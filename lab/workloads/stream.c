// SPDX-License-Identifier: GPL-2.0
/*
 * stream: sequential passes over a region larger than the fast tier.  Every
 * page is used for a moment once per pass and none is worth promoting, provided
 * that a pass takes longer than a scheme's memory: a good one moves next to
 * nothing here.  Reading each page several times (--repeat) makes a pass longer.
 * One op is one page read.
 */
#include "common.h"

static struct {
	uint64_t size_mb, passes, stride, repeat;
	const char *place;
} cfg = { .size_mb = 384, .passes = 4, .stride = 64, .repeat = 1, .place = "" };

static const struct opt opts[] = {
	{ "size-mb", OPT_U64, &cfg.size_mb, "region size" },
	{ "passes", OPT_U64, &cfg.passes, "sequential passes" },
	{ "stride", OPT_U64, &cfg.stride, "bytes between loads" },
	{ "repeat", OPT_U64, &cfg.repeat, "times to read a page before the next" },
	{ "place", OPT_STR, &cfg.place, "move the region to this node first" },
	{ NULL, OPT_U64, NULL, NULL },
};

static char *base;
static size_t npages;

static void work(struct team *t, unsigned int id)
{
	uint64_t sum = 0, ops = 0;

	for (uint64_t pass = 0; pass < cfg.passes; pass++)
		for (size_t i = 0; i < npages; i++) {
			for (uint64_t n = 0; n < cfg.repeat; n++)
				for (size_t at = 0; at < PAGE_SZ; at += cfg.stride)
					sum += *(volatile uint64_t *)(base + i * PAGE_SZ + at);
			if (!(++ops % 1024))
				team_count(t, id, ops);
		}
	team_count(t, id, ops);
	if (sum == 0x6c6162)	/* keeps the loads alive */
		fputs("", stderr);
}

int main(int argc, char **argv)
{
	static struct team team = { .work = work, .threads = 1 };
	struct residency after;
	size_t bytes;

	opt_parse(argc - 1, argv + 1, opts);
	if (!cfg.stride || cfg.stride % 8)
		die("--stride must be a multiple of 8");
	bytes = cfg.size_mb << 20;
	npages = bytes / PAGE_SZ;
	base = region_map(bytes, false);
	region_stamp(base, bytes);
	if (*cfg.place)
		region_place(base, npages, atoi(cfg.place));
	team_run(&team);
	after = region_residency(base, npages);
	region_verify(base, bytes);
	printf("RESULT {\"ops\":%llu,\"accesses\":%llu,\"seconds\":%.3f,"
	       "\"region_pages\":%zu,\"pages_after\":%s,\"verified\":true}\n",
	       (unsigned long long)team_ops(&team),
	       (unsigned long long)(team_ops(&team) * cfg.repeat *
				    ((PAGE_SZ + cfg.stride - 1) / cfg.stride)),
	       team.seconds, npages, residency_json(&after));
	return 0;
}
