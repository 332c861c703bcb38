// SPDX-License-Identifier: GPL-2.0
/*
 * refault: one thread reads pages of anonymous memory and of a mapped file, which
 * together do not fit into the machine, a fixed number of times.  What the kernel
 * reclaims too early has to come back: the result states its major faults, and how many
 * of them ("first") read a file page for the first time.
 *
 * Pages are chosen by Zipf rank.  Ranks are scattered over both mappings, in the
 * order that --seed gives; the same seed gives the same accesses.  Each anonymous
 * page carries its number, and each page that is read is checked.  One op is one page
 * read.
 */
#include "common.h"

#include <fcntl.h>
#include <sys/resource.h>

enum { BATCH = 1024 };

static struct {
	uint64_t anon_mb, file_mb, ops, seed;
	double theta;
	const char *file;
} cfg = {
	.anon_mb = 256, .file_mb = 128, .ops = 1000000, .seed = 1, .theta = 0.8, .file = "",
};

static const struct opt opts[] = {
	{ "anon-mb", OPT_U64, &cfg.anon_mb, "anonymous memory" },
	{ "file-mb", OPT_U64, &cfg.file_mb, "how much of the file to map" },
	{ "file", OPT_STR, &cfg.file, "a file or block device, all zero" },
	{ "ops", OPT_U64, &cfg.ops, "pages to read" },
	{ "theta", OPT_F64, &cfg.theta, "Zipf exponent" },
	{ "seed", OPT_U64, &cfg.seed, "random seed" },
	{ NULL, OPT_U64, NULL, NULL },
};

static char *anon, *file;
static size_t anon_pages;
static uint32_t npages, *page_of_rank;
static struct alias zipf;
static bool *known;		/* file pages that have been read */
static uint64_t first, majfaults;

static uint64_t majfaults_so_far(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (uint64_t)use.ru_majflt;
}

static void read_page(uint32_t page)
{
	size_t of_file = page - anon_pages;

	if (page < anon_pages) {
		if (*(volatile uint64_t *)(anon + page * PAGE_SZ) != mix64(page))
			die("CORRUPTION: anonymous page %u changed", page);
		return;
	}
	if (*(volatile uint64_t *)(file + of_file * PAGE_SZ))
		die("CORRUPTION: file page %zu is not zero", of_file);
	first += !known[of_file];
	known[of_file] = true;
}

static void work(struct team *t, unsigned int id)
{
	uint64_t ops = 0;
	struct rng r;

	majfaults = majfaults_so_far();
	rng_seed(&r, cfg.seed);
	while (ops < cfg.ops) {
		read_page(page_of_rank[zipf_draw(&zipf, &r)]);
		if (!(++ops % BATCH))
			team_count(t, id, ops);
	}
	majfaults = majfaults_so_far() - majfaults;
	team_count(t, id, ops);
}

int main(int argc, char **argv)
{
	static struct team team = { .work = work, .threads = 1 };
	int fd;

	opt_parse(argc - 1, argv + 1, opts);
	fd = open(cfg.file, O_RDONLY);
	if (fd < 0)
		die("--file %s: %s", cfg.file, strerror(errno));
	/*
	 * No madvise(MADV_RANDOM), which would tell reclaim that accesses mean nothing:
	 * readahead is for the caller to switch off.
	 */
	file = mmap(NULL, cfg.file_mb << 20, PROT_READ, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		die("mmap of %s: %s", cfg.file, strerror(errno));
	anon = region_map(cfg.anon_mb << 20, false);
	anon_pages = (cfg.anon_mb << 20) / PAGE_SZ;
	npages = (uint32_t)(anon_pages + (cfg.file_mb << 20) / PAGE_SZ);
	known = calloc(npages - anon_pages, sizeof(*known));
	if (!known)
		die("no memory for a map of the file");
	zipf_init(&zipf, npages, cfg.theta);
	page_of_rank = scatter(npages, cfg.seed);
	region_stamp(anon, cfg.anon_mb << 20);
	team_run(&team);
	printf("RESULT {\"ops\":%llu,\"seconds\":%.3f,\"majfaults\":%llu,\"first\":%llu,"
	       "\"verified\":true}\n",
	       (unsigned long long)team_ops(&team), team.seconds,
	       (unsigned long long)majfaults, (unsigned long long)first);
	return 0;
}
