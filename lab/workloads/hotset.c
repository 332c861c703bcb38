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
 * With --procs there are so many processes, each with --threads threads and a
 * region of its own.  Each runs on its own block of as many of the CPUs that the
 * program may use; with --swap-at, after that share of all picks, on the block of
 * the next one ("swap_s", since START).
 *
 * With --split each thread has a part of the region to itself, with a hot set of its own.
 *
 * The result states how much of the true hot set the fast node holds at the
 * end: for hot/cold the hot units, for Zipf the fewest units that draw
 * --hot-share of the picks.  "procs" tells it by node, and on which CPUs each
 * process was, or each thread with --split.
 */
#include "common.h"

enum { PICK_BATCH = 1024 };

static struct {
	uint64_t size_mb, unit_kb, threads, ops, touches, write_pct, seed;
	uint64_t fast_node, place_mb, procs, split;
	double theta, hot_frac, hot_share, seconds, shift_s, shift_at, swap_at;
	const char *pattern, *pages, *place, *place_hot;
} cfg = {
	.size_mb = 128, .unit_kb = 4, .threads = 1, .touches = 16,
	.seed = 1, .theta = 0.99, .hot_frac = 0.1, .hot_share = 0.9,
	.pattern = "zipf", .pages = "4k", .place = "",
	.place_hot = "", .procs = 1,
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
	{ "procs", OPT_U64, &cfg.procs, "processes" },
	{ "swap-at", OPT_F64, &cfg.swap_at, "they change CPUs after this share of the picks" },
	{ "split", OPT_U64, &cfg.split, "1: each thread has a part of the region to itself" },
	{ "threads", OPT_U64, &cfg.threads, "worker threads of each" },
	{ "ops", OPT_U64, &cfg.ops, "picks per thread (0: use --seconds)" },
	{ "seconds", OPT_F64, &cfg.seconds, "run time" },
	{ "touches", OPT_U64, &cfg.touches, "cache lines touched per pick" },
	{ "write-pct", OPT_U64, &cfg.write_pct, "picks that write, in percent" },
	{ "seed", OPT_U64, &cfg.seed, "random seed" },
	{ "place", OPT_STR, &cfg.place, "move the region to these nodes (N,N) first" },
	{ "place-hot", OPT_STR, &cfg.place_hot, "move what is hottest to this node" },
	{ "place-mb", OPT_U64, &cfg.place_mb, "--place-hot: how much, in MiB" },
	{ "fast-node", OPT_U64, &cfg.fast_node, "node counted as fast" },
	{ NULL, OPT_U64, NULL, NULL },
};

static char *base;
static size_t bytes, unit;
static uint32_t nunits, nhot, nparts = 1, *perm;	/* nunits and nhot of each part */
static struct alias zipf;
static bool is_zipf;
static _Atomic bool shifted;
static double shifted_s;
static cpu_set_t allowed;	/* before any pinning */

/* What processes share, with --procs. */
static struct shared {
	struct team team;
	_Atomic bool swapped;
	double swapped_s;
	struct proc {
		_Atomic unsigned int swapped;	/* threads */
		struct residency before, after, hot;
		uint64_t huge_before, huge_after;
	} proc[64];
} *shared;

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

/* The CPUs of block @nr, of those that the program may use. */
static cpu_set_t block(uint64_t nr)
{
	cpu_set_t set;
	uint64_t at = 0;

	CPU_ZERO(&set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && at++ / cfg.threads == nr)
			CPU_SET(cpu, &set);
	return set;
}

/* The CPU to which a thread of the only process is pinned: pin_nth() */
static cpu_set_t nth_cpu(uint64_t nr)
{
	cpu_set_t set;
	uint64_t at = 0;

	CPU_ZERO(&set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && at++ == nr % (uint64_t)CPU_COUNT(&allowed))
			CPU_SET(cpu, &set);
	return set;
}

static void run_on(pid_t tid, uint64_t nr)
{
	cpu_set_t set = block(nr);

	if (sched_setaffinity(tid, sizeof(set), &set))
		die("cannot run on CPUs of block %llu: %s", (unsigned long long)nr,
		    strerror(errno));
}

/* Each thread moves itself, and the first one the process's main thread as well. */
static void swap_now(struct team *t, unsigned int id)
{
	uint64_t next = (id / cfg.threads + 1) % cfg.procs;
	static _Thread_local bool there;

	if (!cfg.swap_at || there)
		return;
	if (!atomic_load(&shared->swapped)) {
		if ((double)team_ops(t) < cfg.swap_at * (double)(cfg.ops * team_workers(t)))
			return;
		if (!atomic_exchange(&shared->swapped, true))
			shared->swapped_s = now_s() - t->t0;
	}
	there = true;
	run_on(0, next);
	pin_nth(id % t->threads);
	if (!(id % t->threads))
		run_on(getpid(), next);
	atomic_fetch_add(&shared->proc[id / cfg.threads].swapped, 1);
}

static void work(struct team *t, unsigned int id)
{
	uint32_t share = (uint32_t)(cfg.hot_share * 4294967295.0);
	uint32_t shift = 0, lines = (uint32_t)(unit / LINE_SZ);
	uint64_t sum = 0, n = 0;
	char *part = base + (cfg.split ? id : 0) * nunits * unit;
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
			p = part + u * unit;
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
		swap_now(t, id);
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

/* Where the hot units' pages of a part are. */
static struct residency hot_residency(double seconds, uint32_t part)
{
	size_t upages = unit / PAGE_SZ, n = 0;
	uint32_t shift = shifted ? nhot : 0;
	int *node = malloc(bytes / PAGE_SZ * sizeof(*node));
	int *hot = malloc(nhot * upages * sizeof(*hot));
	struct residency r;

	if (!node || !hot)
		die("no memory for page states");
	page_nodes(base, bytes / PAGE_SZ, node);
	if (cfg.shift_s)
		shift = (uint32_t)((uint64_t)(seconds / cfg.shift_s) * nhot % nunits);
	for (uint32_t i = 0; i < nhot; i++)
		for (size_t j = 0; j < upages; j++)
			hot[n++] = node[(part * nunits + perm[(i + shift) % nunits]) * upages + j];
	r = residency_count(hot, n);
	free(node);
	free(hot);
	return r;
}

static double hot_on_fast(const struct residency *hot, unsigned int n)
{
	uint64_t fast = 0;

	for (unsigned int i = 0; i < n && cfg.fast_node < MAX_NODES; i++)
		fast += hot[i].on[cfg.fast_node];
	return (double)fast / ((double)nhot * (double)(unit / PAGE_SZ) * n);
}

/* Move the region to the nodes of --place in turn; anything else is an error. */
static void place(void)
{
	int to[MAX_NODES];
	size_t nr = 0, n = bytes / PAGE_SZ;
	struct residency r;
	bool good = false;

	for (const char *s = cfg.place; s; s = strchr(s, ',')) {
		char *end;

		s += *s == ',';
		if (nr == MAX_NODES)
			die("--place: more than %d nodes", MAX_NODES);
		to[nr++] = (int)strtoul(s, &end, 10);
		if (end == s || (*end && *end != ',') || to[nr - 1] >= MAX_NODES)
			die("--place '%s' is no list of nodes", cfg.place);
	}
	/* A page that something else holds at the moment does not move: try again. */
	for (int i = 0; i < 3 && !good; i++) {
		region_spread(base, n, to, nr);
		r = region_residency(base, n);
		good = true;
		for (size_t j = 0; j < nr; j++)
			good = good && r.on[to[j]] >= n / nr / 100 * 99;
	}
	if (!good)
		die("only %s of %zu pages went to nodes %s", residency_json(&r), n, cfg.place);
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

/* The region, and what is hot in it. */
static void set_up(void)
{
	base = region_map(bytes, !strcmp(cfg.pages, "thp"));
	region_stamp(base, bytes);
	perm = scatter(nunits, cfg.seed);
	if (is_zipf)
		zipf_init(&zipf, nunits, cfg.theta);
	if (*cfg.place)
		place();
}

static void set_up_process(struct team *t, unsigned int nr)
{
	struct proc *proc = &shared->proc[nr];

	(void)t;
	run_on(0, nr);
	cfg.seed += nr;
	set_up();
	proc->before = region_residency(base, bytes / PAGE_SZ);
	proc->huge_before = region_anon_huge_kb(base, bytes);
}

static void finish_process(struct team *t, unsigned int nr)
{
	struct proc *proc = &shared->proc[nr];

	proc->huge_after = region_anon_huge_kb(base, bytes);
	proc->after = region_residency(base, bytes / PAGE_SZ);
	proc->hot = hot_residency(t->seconds, 0);
	if (cfg.swap_at && proc->swapped != cfg.threads)
		die("process %u did not change CPUs: --ops is less than a few thousand", nr);
	region_verify(base, bytes);
}

static struct residency residency_add(struct residency a, const struct residency *b)
{
	for (int i = 0; i < MAX_NODES; i++)
		a.on[i] += b->on[i];
	a.absent += b->absent;
	return a;
}

/* "procs":[{"cpus":[0],"hot":[pages on node 0, ...]}, ...], where they are at the end */
static void print_procs(const struct residency *hot, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		cpu_set_t set = cfg.split ? nth_cpu(i) :
				block((i + (shared && shared->swapped)) % n);
		const char *sep = "";

		printf("%s{\"cpus\":[", i ? "," : "\"procs\":[");
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (!CPU_ISSET(cpu, &set))
				continue;
			printf("%s%d", sep, cpu);
			sep = ",";
		}
		printf("],\"hot\":%s}", residency_json(&hot[i]));
	}
	printf("],");
}

int main(int argc, char **argv)
{
	static struct team alone = { .work = work };
	struct residency before = { 0 }, after = { 0 }, hot[64];
	uint64_t huge_before = 0, huge_after = 0;
	struct team *team = &alone;
	unsigned int nsets;
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
	if (cfg.split) {
		if (cfg.procs > 1 || *cfg.place_hot || cfg.threads < 2 || cfg.threads > 64 ||
		    nunits % cfg.threads || nunits / cfg.threads < 2)
			die("--split is for one process with --threads that divide the region");
		nparts = (uint32_t)cfg.threads;
		nunits /= nparts;
	}
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
	if (cfg.swap_at && (!cfg.ops || cfg.procs < 2 || cfg.swap_at < 0 || cfg.swap_at >= 1))
		die("--swap-at is a share below 1 of --ops, with --procs 2 or more");
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		die("sched_getaffinity: %s", strerror(errno));
	if (!cfg.procs)
		die("--procs must be 1 or more");
	if (cfg.procs > 1) {
		if (cfg.shift_s || cfg.shift_at || *cfg.place_hot)
			die("--procs is not for --shift-s, --shift-at and --place-hot");
		if (!cfg.threads || cfg.procs * cfg.threads > (uint64_t)CPU_COUNT(&allowed))
			die("--procs needs a CPU for each thread of each process");
		shared = shared_alloc(sizeof(*shared));
		team = &shared->team;
		*team = (struct team){ .work = work, .setup = set_up_process,
				       .finish = finish_process,
				       .procs = (unsigned int)cfg.procs };
	}

	team->threads = (unsigned int)cfg.threads;
	team->deadline = cfg.seconds;
	if (shared) {
		team_run_procs(team);
		for (unsigned int i = 0; i < cfg.procs; i++) {
			struct proc *proc = &shared->proc[i];

			before = residency_add(before, &proc->before);
			after = residency_add(after, &proc->after);
			huge_before += proc->huge_before;
			huge_after += proc->huge_after;
			hot[i] = proc->hot;
		}
	} else {
		if (*cfg.place_hot)
			team->prepare = place_hot;
		set_up();
		before = region_residency(base, bytes / PAGE_SZ);
		huge_before = region_anon_huge_kb(base, bytes);
		team_run(team);
		if (cfg.shift_at && !shifted)
			die("the hot set did not move: --ops is less than a few thousand");
		huge_after = region_anon_huge_kb(base, bytes);
		after = region_residency(base, bytes / PAGE_SZ);
		for (uint32_t i = 0; i < nparts; i++)
			hot[i] = hot_residency(team->seconds, i);
	}
	nsets = cfg.split ? nparts : (unsigned int)cfg.procs;
	printf("RESULT {\"ops\":%llu,\"accesses\":%llu,\"seconds\":%.3f,"
	       "\"hot_units\":%u,\"units\":%u,\"hot_on_fast\":%.4f,"
	       "\"huge_kb_before\":%llu,\"huge_kb_after\":%llu,\"pages_before\":%s,",
	       (unsigned long long)team_ops(team),
	       (unsigned long long)(team_ops(team) * cfg.touches), team->seconds,
	       nhot * nparts, nunits * nparts, hot_on_fast(hot, nsets),
	       (unsigned long long)huge_before, (unsigned long long)huge_after,
	       residency_json(&before));
	print_procs(hot, nsets);
	if (*cfg.place_hot)
		printf("\"placed_hot\":%llu,\"placed_hot_after\":%zu,",
		       (unsigned long long)(cfg.place_mb << 20) / PAGE_SZ, hot_pages(false));
	if (cfg.shift_at)
		printf("\"shift_s\":%.3f,", shifted_s);
	if (cfg.swap_at)
		printf("\"swap_s\":%.3f,", shared->swapped_s);
	if (!shared)
		region_verify(base, bytes);
	printf("\"pages_after\":%s,\"verified\":true}\n", residency_json(&after));
	return 0;
}
