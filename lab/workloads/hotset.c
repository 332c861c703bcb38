// SPDX-License-Identifier: GPL-2.0
/*
 * hotset: threads access a region in which some parts are hotter than others.
 *
 * The region is cut into units (4 KiB by default).  A pick chooses a unit, by
 * Zipf rank or hot/cold, and touches some of its cache lines.  Ranks are
 * scattered over the region, so hot units are not neighbours.  With --shift-s
 * the hot set moves to other units every so many seconds, with --shift-at once,
 * after that share of all picks; the result says when ("shift_s", since START).
 * The work is fixed (--ops picks per thread) or timed (--seconds).
 *
 * With --place-hot the program is its own oracle: between the lab's placement
 * and START it moves the --place-mb MiB that it is going to pick most to that
 * node, which no scheme could do better, and fails if they are not there.
 *
 * The result states how much of the true hot set the fast node holds at the
 * end: for hot/cold the hot units, for Zipf the fewest units that draw
 * --hot-share of the picks.
 */
#include "common.h"

enum { PICK_BATCH = 1024 };

static struct {
	uint64_t size_mb, unit_kb, threads, ops, touches, write_pct, seed;
	uint64_t fast_node, place_mb;
	double theta, hot_frac, hot_share, seconds, shift_s, shift_at;
	const char *pattern, *pages, *place, *place_hot;
} cfg = {
	.size_mb = 128, .unit_kb = 4, .threads = 1, .touches = 16,
	.seed = 1, .theta = 0.99, .hot_frac = 0.1, .hot_share = 0.9,
	.pattern = "zipf", .pages = "4k", .place = "",
	.place_hot = "",
};

static const struct opt opts[] = {
	{ "size-mb", OPT_U64, &cfg.size_mb, "region size" },
	{ "unit-kb", OPT_U64, &cfg.unit_kb, "what is hot or cold as a whole" },
	{ "pages", OPT_STR, &cfg.pages, "4k or thp" },
	{ "pattern", OPT_STR, &cfg.pattern, "zipf or hotcold" },
	{ "theta", OPT_F64, &cfg.theta, "Zipf exponent" },
	{ "hot-frac", OPT_F64, &cfg.hot_frac, "hotcold: share of hot units" },
	{ "hot-share", OPT_F64, &cfg.hot_share, "share of picks that are hot" },
	{ "shift-s", OPT_F64, &cfg.shift_s, "move the hot set every S seconds" },
	{ "shift-at", OPT_F64, &cfg.shift_at, "move it once, after this share of the picks" },
	{ "threads", OPT_U64, &cfg.threads, "worker threads" },
	{ "ops", OPT_U64, &cfg.ops, "picks per thread (0: use --seconds)" },
	{ "seconds", OPT_F64, &cfg.seconds, "run time" },
	{ "touches", OPT_U64, &cfg.touches, "cache lines touched per pick" },
	{ "write-pct", OPT_U64, &cfg.write_pct, "picks that write, in percent" },
	{ "seed", OPT_U64, &cfg.seed, "random seed" },
	{ "place", OPT_STR, &cfg.place, "move the region to this node first" },
	{ "place-hot", OPT_STR, &cfg.place_hot, "move what is hottest to this node" },
	{ "place-mb", OPT_U64, &cfg.place_mb, "--place-hot: how much, in MiB" },
	{ "fast-node", OPT_U64, &cfg.fast_node, "node counted as fast" },
	{ NULL, OPT_U64, NULL, NULL },
};

static char *base;
static size_t bytes, unit;
static uint32_t nunits, nhot, *perm;
static struct alias zipf;
static bool is_zipf;
static _Atomic bool shifted;
static double shifted_s;

/* By how many ranks the hot set has moved; nhot makes it a set of other units. */
static uint32_t shift_now(const struct team *t)
{
	if (cfg.shift_s)
		return (uint32_t)((uint64_t)((now_s() - t->t0) / cfg.shift_s) * nhot % nunits);
	if (!cfg.shift_at)
		return 0;
	/* By the picks of all threads, so that it moves for all at the same time. */
	if (!atomic_load(&shifted) &&
	    (double)team_ops(t) >= cfg.shift_at * (double)(cfg.ops * cfg.threads) &&
	    !atomic_exchange(&shifted, true))
		shifted_s = now_s() - t->t0;
	return atomic_load(&shifted) ? nhot : 0;
}

static void work(struct team *t, unsigned int id)
{
	uint32_t share = (uint32_t)(cfg.hot_share * 4294967295.0);
	uint32_t shift = 0, lines = (uint32_t)(unit / LINE_SZ);
	uint64_t sum = 0, n = 0;
	struct rng r;

	rng_seed(&r, cfg.seed * 1000 + id);
	while (!cfg.ops || n < cfg.ops) {
		uint64_t end = n + PICK_BATCH;

		if (cfg.ops && end > cfg.ops)
			end = cfg.ops;
		for (; n < end; n++) {
			uint32_t rank, u, line;
			char *p;
			bool wr;

			if (is_zipf)
				rank = zipf_draw(&zipf, &r);
			else if ((uint32_t)(rng_next(&r) >> 32) < share)
				rank = rng_below(&r, nhot);
			else
				rank = nhot + rng_below(&r, nunits - nhot);
			rank += shift;
			u = perm[rank >= nunits ? rank - nunits : rank];
			p = base + u * unit;
			line = rng_below(&r, lines);
			wr = cfg.write_pct && rng_below(&r, 100) < cfg.write_pct;
			for (uint64_t i = 0; i < cfg.touches; i++) {
				volatile uint64_t *w = (void *)(p + line * LINE_SZ);

				/* word 0 of a page is its stamp; writes use word 1 */
				if (wr)
					w[1] = n;
				else
					sum += w[1];
				if (++line == lines)
					line = 0;
			}
		}
		shift = shift_now(t);
		if (!team_count(t, id, n))
			break;
	}
	team_count(t, id, n);
	if (sum == 0x6c6162)	/* keeps the loads alive */
		fputs("", stderr);
}

static uint32_t zipf_hot(void)
{
	double all = 0, sum = 0;
	uint32_t i;

	for (i = 0; i < nunits; i++)
		all += pow(i + 1.0, -cfg.theta);
	for (i = 0; i < nunits && sum < cfg.hot_share * all; i++)
		sum += pow(i + 1.0, -cfg.theta);
	return i;
}

static double hot_on_fast(double seconds)
{
	size_t upages = unit / PAGE_SZ, all = 0, fast = 0;
	uint32_t shift = shifted ? nhot : 0;
	int *node = malloc(bytes / PAGE_SZ * sizeof(*node));

	if (!node)
		die("no memory for page states");
	page_nodes(base, bytes / PAGE_SZ, node);
	if (cfg.shift_s)
		shift = (uint32_t)((uint64_t)(seconds / cfg.shift_s) * nhot % nunits);
	for (uint32_t i = 0; i < nhot; i++)
		for (size_t j = 0; j < upages; j++, all++)
			fast += node[perm[(i + shift) % nunits] * upages + j] ==
				(int)cfg.fast_node;
	free(node);
	return (double)fast / (double)all;
}

/*
 * The pages of the first --place-mb MiB by rank: how many are on the node of
 * --place-hot, after they were moved there if @move.  Ranks are scattered, so
 * each chunk is a list; one call per page would drain all CPUs' LRU batches
 * once per page.
 */
static size_t hot_pages(bool move)
{
	enum { CHUNK = 2048, MOVE = 2 /* MPOL_MF_MOVE */ };
	size_t upages = unit / PAGE_SZ, n = (cfg.place_mb << 20) / unit * upages, there = 0;
	int to = atoi(cfg.place_hot), want[CHUNK], node[CHUNK];
	void *addr[CHUNK];

	for (size_t i = 0; i < n; i += CHUNK) {
		size_t m = n - i < CHUNK ? n - i : CHUNK;

		for (size_t j = 0; j < m; j++) {
			addr[j] = base + perm[(i + j) / upages] * unit + (i + j) % upages * PAGE_SZ;
			want[j] = to;
		}
		if (move && syscall(SYS_move_pages, 0, m, addr, want, node, MOVE) < 0)
			die("move_pages to node %d: %s", to, strerror(errno));
		if (syscall(SYS_move_pages, 0, m, addr, NULL, node, 0))
			die("move_pages query: %s", strerror(errno));
		for (size_t j = 0; j < m; j++)
			there += node[j] == to;
	}
	return there;
}

static void place_hot(void)
{
	size_t want = (cfg.place_mb << 20) / unit * (unit / PAGE_SZ), got = 0;

	/* A page that something else holds at the moment does not move: try again. */
	for (int i = 0; i < 3 && got < want; i++)
		got = hot_pages(true);
	if (got < want)
		die("only %zu of %zu hot pages went to node %s: is --place-mb too much?",
		    got, want, cfg.place_hot);
}

int main(int argc, char **argv)
{
	static struct team team = { .work = work };
	uint64_t huge_before, huge_after;
	struct residency before, after;
	bool thp;

	opt_parse(argc - 1, argv + 1, opts);
	thp = !strcmp(cfg.pages, "thp");
	is_zipf = !strcmp(cfg.pattern, "zipf");
	if (!thp && strcmp(cfg.pages, "4k"))
		die("--pages must be 4k or thp");
	if (!is_zipf && strcmp(cfg.pattern, "hotcold"))
		die("--pattern must be zipf or hotcold");
	if (!cfg.ops == !cfg.seconds)
		die("give either --ops or --seconds");
	unit = cfg.unit_kb << 10;
	bytes = cfg.size_mb << 20;
	if (!unit || unit % PAGE_SZ || bytes % unit || bytes / unit < 2)
		die("--unit-kb must be a multiple of 4 and divide the region");
	if (cfg.hot_share <= 0 || cfg.hot_share >= 1 || cfg.hot_frac <= 0 || cfg.hot_frac >= 1)
		die("--hot-share and --hot-frac must lie between 0 and 1");
	nunits = (uint32_t)(bytes / unit);
	base = region_map(bytes, thp);
	region_stamp(base, bytes);
	perm = scatter(nunits, cfg.seed);
	if (is_zipf)
		zipf_init(&zipf, nunits, cfg.theta);
	nhot = is_zipf ? zipf_hot() : (uint32_t)(cfg.hot_frac * nunits);
	if (!nhot || nhot >= nunits)
		die("no hot or no cold unit: %u of %u", nhot, nunits);
	if (!*cfg.place_hot != !cfg.place_mb || cfg.place_mb > cfg.size_mb ||
	    (cfg.place_mb << 20) % unit)
		die("--place-hot NODE goes with --place-mb: whole units, at most the region");
	if (cfg.shift_at && (!cfg.ops || cfg.shift_s || cfg.shift_at < 0 || cfg.shift_at >= 1))
		die("--shift-at is a share below 1 of --ops, and not for --shift-s");
	if (cfg.shift_at && !is_zipf && nhot > nunits / 2)
		die("the hot set cannot move to units that were cold: --hot-frac is above 0.5");
	if (*cfg.place_hot)
		team.prepare = place_hot;
	if (*cfg.place)
		region_place(base, bytes / PAGE_SZ, atoi(cfg.place));

	team.threads = (unsigned int)cfg.threads;
	team.deadline = cfg.seconds;
	before = region_residency(base, bytes / PAGE_SZ);
	huge_before = region_anon_huge_kb(base, bytes);
	team_run(&team);
	if (cfg.shift_at && !shifted)
		die("the hot set did not move: --ops is less than a few thousand");
	huge_after = region_anon_huge_kb(base, bytes);
	after = region_residency(base, bytes / PAGE_SZ);
	printf("RESULT {\"ops\":%llu,\"accesses\":%llu,\"seconds\":%.3f,"
	       "\"hot_units\":%u,\"units\":%u,\"hot_on_fast\":%.4f,"
	       "\"huge_kb_before\":%llu,\"huge_kb_after\":%llu,\"pages_before\":%s,",
	       (unsigned long long)team_ops(&team),
	       (unsigned long long)(team_ops(&team) * cfg.touches), team.seconds,
	       nhot, nunits, hot_on_fast(team.seconds),
	       (unsigned long long)huge_before, (unsigned long long)huge_after,
	       residency_json(&before));
	if (*cfg.place_hot)
		printf("\"placed_hot\":%llu,\"placed_hot_after\":%zu,",
		       (unsigned long long)(cfg.place_mb << 20) / PAGE_SZ, hot_pages(false));
	if (cfg.shift_at)
		printf("\"shift_s\":%.3f,", shifted_s);
	region_verify(base, bytes);
	printf("\"pages_after\":%s,\"verified\":true}\n", residency_json(&after));
	return 0;
}
