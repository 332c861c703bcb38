// SPDX-License-Identifier: GPL-2.0
/*
 * lookup: threads look up random energies in large tables that nobody writes any more.
 *
 * The shape is that of XSBench, which stands for the costliest part of a reactor simulation.
 * There are --nuclides; each has a table of as many points, sorted by energy, with five
 * cross sections each.  The energies of all points together, sorted, are the union, and a
 * row of the index belongs to each of its energies: the place of that energy in the table
 * of each nuclide.  A lookup draws an energy and a material, finds the energy in the union
 * by binary search, and interpolates between the two points of each nuclide that the
 * material has.  Numbers are integers, so that the result does not depend on rounding.
 *
 * The tables are private anonymous memory, which the program fills by plain stores from
 * --threads threads, and which no system call but mmap() has touched: no policy, mprotect(),
 * fork() or madvise() (unless --read-only asks for it).  Whether they are huge pages is for
 * /sys/kernel/mm/transparent_hugepage/enabled to say; --pages states what is expected, and
 * anything else is an error.
 *
 * With --sweeps the energies come from a window of --window-pct of all energies, which moves
 * over all of them so many times, as the energies of a simulation in steps do: what a step
 * needs is hot, and what the steps before it needed is cold until the next sweep.  With
 * --sweep-ops it does so once in so many lookups, for as long as the program runs.
 *
 * With --write-pct so many of the lookups store what they have read, back to where it is.
 * That changes no value, but makes the page writable.
 *
 * With --read-only 1 they are write-protected by mprotect() once they are filled.  What is read
 * from swap is then mapped read-only; else the kernel maps what is one process's writable.
 *
 * The sum of all results ("hash") depends on --size-mb, --nuclides, --seed and --ops only,
 * not on the number of threads (but with a window).  SIGTERM ends the work early.  After STOP
 * the first lookups of each thread are done again without union and index, and the tables
 * are compared with what they were at READY.
 */
#include "common.h"

#define XS		5
#define ENERGY_BITS	52
#define FRACTION_BITS	12
#define MAX_NUCLIDES	512
#define MATERIALS	6

enum { BATCH = 64, AGAIN = 256 };

static struct {
	uint64_t size_mb, nuclides, threads, ops, write_pct, sweeps, sweep_ops, window_pct, seed,
		 read_only;
	double seconds;
	const char *pages;
} cfg = {
	.size_mb = 64, .nuclides = 64, .threads = 2, .window_pct = 25, .seed = 1, .pages = "4k",
};

static const struct opt opts[] = {
	{ "size-mb", OPT_U64, &cfg.size_mb, "all tables together" },
	{ "nuclides", OPT_U64, &cfg.nuclides, "8 to 512" },
	{ "threads", OPT_U64, &cfg.threads, "worker threads" },
	{ "ops", OPT_U64, &cfg.ops, "lookups of all threads (0: use --seconds)" },
	{ "seconds", OPT_F64, &cfg.seconds, "run time" },
	{ "write-pct", OPT_U64, &cfg.write_pct, "lookups that store what they read, in percent" },
	{ "read-only", OPT_U64, &cfg.read_only, "1: write-protect the tables" },
	{ "sweeps", OPT_U64, &cfg.sweeps, "times that the window moves over all energies" },
	{ "sweep-ops", OPT_U64, &cfg.sweep_ops, "lookups of all threads in each such time" },
	{ "window-pct", OPT_U64, &cfg.window_pct, "energies that are in it, in percent" },
	{ "pages", OPT_STR, &cfg.pages, "4k or thp: what the kernel is expected to give" },
	{ "seed", OPT_U64, &cfg.seed, "random seed" },
	{ NULL, OPT_U64, NULL, NULL },
};

struct point {
	uint64_t energy, xs[XS];
};

static struct {
	char *base;
	size_t bytes;
	uint64_t nuclides, points;	/* of each nuclide */
	uint64_t *energy;		/* the union */
	uint32_t *index;		/* a row of nuclides for each of them */
	struct point *point;		/* table after table */
} grid;

/* Each has half as many nuclides as the one before, and is drawn half as often. */
static struct material {
	uint32_t n, nuclide[MAX_NUCLIDES];
} material[MATERIALS];

static volatile sig_atomic_t told_to_stop;

static struct worker {
	_Alignas(64) uint64_t hash, early, nr_early, checksum;
} worker[64];

/* the tables */

static uint64_t stratum(void)
{
	return (1ULL << ENERGY_BITS) / grid.points;
}

/* Each nuclide has one point in each stratum of energies: sorted, and yet random. */
static struct point make_point(uint64_t nuclide, uint64_t nr)
{
	uint64_t r = mix64(cfg.seed ^ mix64(nuclide << 32 | nr));
	struct point p = { .energy = nr * stratum() + r % stratum() };

	for (unsigned int i = 0; i < XS; i++)
		p.xs[i] = mix64(r + i + 1) >> 40;
	return p;
}

static struct point *table(uint64_t nuclide)
{
	return grid.point + nuclide * grid.points;
}

/* The points of a stratum in the union, and their rows of the index. */
static void build_stratum(uint64_t nr)
{
	uint32_t order[MAX_NUCLIDES], at[MAX_NUCLIDES];
	uint64_t n = grid.nuclides, u = nr * n;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t j = i;

		table(i)[nr] = make_point(i, nr);
		for (; j && table(order[j - 1])[nr].energy > table(i)[nr].energy; j--)
			order[j] = order[j - 1];
		order[j] = (uint32_t)i;
		at[i] = nr ? (uint32_t)nr - 1 : 0;
	}
	for (uint64_t i = 0; i < n; i++, u++) {
		/* The last point is only the upper one of two. */
		at[order[i]] = (uint32_t)(nr < grid.points - 1 ? nr : nr - 1);
		grid.energy[u] = table(order[i])[nr].energy;
		memcpy(grid.index + u * n, at, n * sizeof(*at));
	}
}

/* What the words of a part of the memory add up to; the order counts. */
static uint64_t checksum(uint64_t part, uint64_t parts)
{
	const uint64_t *word = (const void *)grid.base;
	size_t n = grid.bytes / sizeof(*word);
	uint64_t sum = part;

	for (size_t i = n * part / parts; i < n * (part + 1) / parts; i++)
		sum = (sum << 7 | sum >> 57) + word[i];
	return sum;
}

static void build_part(uint64_t part)
{
	uint64_t end = grid.points * (part + 1) / cfg.threads;

	for (uint64_t nr = grid.points * part / cfg.threads; nr < end; nr++)
		build_stratum(nr);
}

static void sum_part(uint64_t part)
{
	worker[part].checksum = checksum(part, cfg.threads);
}

static void verify_part(uint64_t part)
{
	if (worker[part].checksum != checksum(part, cfg.threads))
		die("CORRUPTION: part %llu of the tables changed", (unsigned long long)part);
}

struct helper {
	void (*job)(uint64_t part);
	uint64_t part;
};

static void *helper_thread(void *p)
{
	struct helper *h = p;

	pin_nth((unsigned int)h->part);
	h->job(h->part);
	return NULL;
}

/* Do a job for each part, with a thread for each. */
static void in_parts(void (*job)(uint64_t part))
{
	struct helper h[64];
	pthread_t th[64];

	for (uint64_t i = 0; i < cfg.threads; i++) {
		h[i] = (struct helper){ job, i };
		if (pthread_create(&th[i], NULL, helper_thread, &h[i]))
			die("cannot start thread %llu", (unsigned long long)i);
	}
	for (uint64_t i = 0; i < cfg.threads; i++)
		pthread_join(th[i], NULL);
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE_SZ - 1) & ~(PAGE_SZ - 1);
}

static void build(void)
{
	uint64_t n = grid.nuclides, per_energy;
	size_t energies, rows;

	per_energy = sizeof(*grid.energy) + n * sizeof(*grid.index) + sizeof(*grid.point);
	grid.points = (cfg.size_mb << 20) / (n * per_energy);
	if (grid.points < 4 || grid.points > UINT32_MAX)
		die("--size-mb does not fit %llu nuclides", (unsigned long long)n);
	energies = whole_pages(n * grid.points * sizeof(*grid.energy));
	rows = whole_pages(n * n * grid.points * sizeof(*grid.index));
	grid.bytes = energies + rows + whole_pages(n * grid.points * sizeof(*grid.point));
	grid.base = mmap(NULL, grid.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (grid.base == MAP_FAILED)
		die("mmap of %zu bytes: %s", grid.bytes, strerror(errno));
	grid.energy = (void *)grid.base;
	grid.index = (void *)(grid.base + energies);
	grid.point = (void *)(grid.base + energies + rows);
	in_parts(build_part);
	in_parts(sum_part);
}

static void choose_materials(void)
{
	for (unsigned int m = 0; m < MATERIALS; m++) {
		uint32_t *order = scatter((uint32_t)grid.nuclides, cfg.seed + m);
		uint32_t n = (uint32_t)grid.nuclides >> (m + 1);

		material[m].n = n > 2 ? n : 2;
		memcpy(material[m].nuclide, order, material[m].n * sizeof(*order));
		free(order);
	}
}

/* looking up */

static inline uint64_t see(uint64_t *word, bool write)
{
	uint64_t value = __atomic_load_n(word, __ATOMIC_RELAXED);

	/* Others can only store the same. */
	if (write)
		__atomic_store_n(word, value, __ATOMIC_RELAXED);
	return value;
}

static inline uint32_t see_place(uint32_t *word, bool write)
{
	uint32_t value = __atomic_load_n(word, __ATOMIC_RELAXED);

	if (write)
		__atomic_store_n(word, value, __ATOMIC_RELAXED);
	return value;
}

/* The last of @n energies, @stride bytes apart, that is not above @energy; else 0. */
static uint64_t find(char *first, size_t stride, uint64_t n, uint64_t energy, bool write)
{
	uint64_t low = 0, high = n;

	while (high - low > 1) {
		uint64_t mid = (low + high) / 2;

		if (see((uint64_t *)(first + mid * stride), write) <= energy)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* Without the index, to check it. */
static uint64_t find_in_table(uint64_t nuclide, uint64_t energy)
{
	return find((char *)table(nuclide), sizeof(struct point), grid.points - 1, energy, false);
}

static void interpolate(struct point *low, uint64_t energy, uint64_t amount, bool write,
			uint64_t *sum)
{
	uint64_t from = see(&low[0].energy, write), to = see(&low[1].energy, write);
	uint64_t part = 0;

	if (energy >= to)
		part = 1ULL << FRACTION_BITS;
	else if (energy > from)
		part = ((energy - from) << FRACTION_BITS) / (to - from);
	for (unsigned int i = 0; i < XS; i++) {
		uint64_t a = low[0].xs[i], b = low[1].xs[i];

		sum[i] += amount * ((a << FRACTION_BITS) + part * (b - a));
	}
}

/* The number of a thread's first lookup, and of the one after its last. */
static uint64_t first_of(uint64_t id)
{
	return cfg.ops ? cfg.ops * id / cfg.threads : id << 40;
}

/* The thread that does a lookup. */
static uint64_t thread_of(uint64_t nr)
{
	uint64_t id;

	if (!cfg.ops)
		return nr >> 40;
	id = nr * cfg.threads / cfg.ops;
	id -= first_of(id) > nr;
	return id + (first_of(id + 1) <= nr);
}

/* Draw an energy; where the window is depends on how far the lookup's thread has come. */
static uint64_t draw_energy(uint64_t nr, struct rng *r)
{
	uint64_t random = rng_next(r) >> (64 - ENERGY_BITS), from, id, length;

	if (!cfg.sweeps && !cfg.sweep_ops)
		return random;
	id = thread_of(nr);
	from = first_of(id);
	if (cfg.sweeps)
		length = (first_of(id + 1) - from) / cfg.sweeps;
	else
		length = cfg.sweep_ops / cfg.threads;
	random = random / 100 * cfg.window_pct;
	random += (1ULL << ENERGY_BITS) / length * ((nr - from) % length);
	return random & ((1ULL << ENERGY_BITS) - 1);
}

/* What is drawn depends on the number of the lookup only. */
static uint64_t lookup(uint64_t nr, bool plain)
{
	uint64_t energy, row = 0, sum[XS] = { 0 }, result = nr;
	const struct material *m;
	struct rng r;
	bool write;

	rng_seed(&r, cfg.seed ^ mix64(nr));
	energy = draw_energy(nr, &r);
	m = &material[__builtin_ctz((uint32_t)(rng_next(&r) >> 32) | 1U << (MATERIALS - 1))];
	write = !plain && cfg.write_pct && rng_below(&r, 100) < cfg.write_pct;
	if (!plain)
		row = grid.nuclides * find((char *)grid.energy, sizeof(*grid.energy),
					   grid.nuclides * grid.points, energy, write);
	for (uint32_t i = 0; i < m->n; i++) {
		uint64_t nuclide = m->nuclide[i];
		uint64_t at = plain ? find_in_table(nuclide, energy) :
				      see_place(&grid.index[row + nuclide], write);

		interpolate(table(nuclide) + at, energy, i + 1, write, sum);
	}
	for (unsigned int i = 0; i < XS; i++)
		result = mix64(result ^ sum[i]);
	return result;
}

static void work(struct team *t, unsigned int id)
{
	uint64_t nr = first_of(id), end = first_of(id + 1), n = 0, hash = 0;
	struct worker *w = &worker[id];

	do {
		uint64_t stop = nr + BATCH < end ? nr + BATCH : end;

		for (; nr < stop; nr++, n++) {
			hash += lookup(nr, false);
			if (n < AGAIN) {
				w->early = hash;
				w->nr_early = n + 1;
			}
		}
	} while (team_count(t, id, n) && nr < end && !told_to_stop);
	w->hash = hash;
}

static void on_term(int sig)
{
	(void)sig;
	told_to_stop = 1;
}

/* What each thread found first, found in another way. */
static uint64_t look_again(void)
{
	uint64_t all = 0;

	for (uint64_t id = 0; id < cfg.threads; id++) {
		uint64_t hash = 0, from = first_of(id);

		for (uint64_t i = 0; i < worker[id].nr_early; i++)
			hash += lookup(from + i, true);
		if (hash != worker[id].early)
			die("CORRUPTION: thread %llu found other values",
			    (unsigned long long)id);
		all += worker[id].nr_early;
	}
	return all;
}

/* Huge pages of the tables, in KiB; not what --pages says is an error. */
static uint64_t expect_pages(void)
{
	uint64_t kb = region_anon_huge_kb(grid.base, grid.bytes);
	bool thp = !strcmp(cfg.pages, "thp");

	/* Neighbouring mappings may be one to the kernel, so there may be some more. */
	if (thp ? kb < (grid.bytes >> 10) / 10 * 9 : kb)
		die("%llu of %zu KiB are huge pages, --pages is %s", (unsigned long long)kb,
		    grid.bytes >> 10, cfg.pages);
	return kb;
}

int main(int argc, char **argv)
{
	struct sigaction term = { .sa_handler = on_term, .sa_flags = SA_RESTART };
	static struct team team = { .work = work };
	struct residency before, after;
	uint64_t huge_before, hash = 0, again;
	size_t npages;

	opt_parse(argc - 1, argv + 1, opts);
	if (!cfg.ops == !(cfg.seconds > 0))
		die("give either --ops or --seconds");
	if (cfg.nuclides < 8 || cfg.nuclides > MAX_NUCLIDES)
		die("--nuclides must be 8..%d", MAX_NUCLIDES);
	if (!cfg.threads || cfg.threads > 64)
		die("--threads must be 1..64");
	if (cfg.write_pct > 100)
		die("--write-pct must be 0..100");
	if (cfg.read_only > 1 || (cfg.read_only && cfg.write_pct))
		die("--read-only must be 0 or 1, and 0 with --write-pct");
	if (cfg.sweeps && (cfg.ops / cfg.threads < cfg.sweeps || cfg.sweep_ops))
		die("--sweeps needs --ops, more than that for each thread, and no --sweep-ops");
	if (cfg.sweep_ops && cfg.sweep_ops < cfg.threads)
		die("--sweep-ops must be one for each thread at least");
	if (!cfg.window_pct || cfg.window_pct > 100)
		die("--window-pct must be 1..100");
	if (strcmp(cfg.pages, "4k") && strcmp(cfg.pages, "thp"))
		die("--pages must be 4k or thp");
	grid.nuclides = cfg.nuclides;
	build();
	if (cfg.read_only && mprotect(grid.base, grid.bytes, PROT_READ))
		die("mprotect: %s", strerror(errno));
	choose_materials();
	npages = grid.bytes / PAGE_SZ;
	huge_before = expect_pages();
	before = region_residency(grid.base, npages);

	team.threads = (unsigned int)cfg.threads;
	team.deadline = cfg.seconds;
	sigaction(SIGTERM, &term, NULL);
	team_run(&team);

	after = region_residency(grid.base, npages);
	for (uint64_t i = 0; i < cfg.threads; i++)
		hash += worker[i].hash;
	again = look_again();
	in_parts(verify_part);
	printf("RESULT {\"ops\":%llu,\"seconds\":%.3f,\"hash\":\"%016llx\",\"again\":%llu,"
	       "\"points\":%llu,\"huge_kb_before\":%llu,\"huge_kb_after\":%llu,"
	       "\"pages_before\":%s,", (unsigned long long)team_ops(&team), team.seconds,
	       (unsigned long long)hash, (unsigned long long)again,
	       (unsigned long long)(grid.nuclides * grid.points),
	       (unsigned long long)huge_before,
	       (unsigned long long)region_anon_huge_kb(grid.base, grid.bytes),
	       residency_json(&before));
	printf("\"pages_after\":%s,\"verified\":true}\n", residency_json(&after));
	return 0;
}
