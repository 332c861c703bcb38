// SPDX-License-Identifier: GPL-2.0
/*
 * fileread: threads read a file by pread(2), of which some pages are hotter than others,
 * or read it from the beginning to the end.  Nobody maps it.
 *
 * The file lies on ext2 on a zram device: a disk that costs little memory, because its
 * pages are all zero but for their number.  Before READY all of it is brought in under a
 * memory policy, so that its page cache is on --node; the policy is dropped then.  The
 * program fails if less is there, by what /sys says of the node's page cache.
 *
 * A pick chooses a page, as in hotset: by Zipf rank or hot/cold, ranks scattered over the
 * file.  One op is one page read.  With --pattern seq each thread reads its part of
 * the file --passes times with a buffer of --buf bytes, and one op is one read(2).  Every
 * page that is read is checked.
 *
 * With --place-hot the program is its own oracle: the --place-mb MiB that it is going to
 * read most are brought in on that node instead.
 *
 * The result states how much of the true hot set the fast node holds at the end.  To ask
 * that, the file is mapped, after STOP.
 */
#include "common.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

enum { PICK_BATCH = 64, MAX_BUF = 1 << 20, MPOL_DEFAULT_ = 0, MPOL_BIND_ = 2 };

static struct {
	uint64_t size_mb, threads, ops, passes, buf, seed, node, fast_node, place_mb;
	double theta, hot_frac, hot_share;
	const char *pattern, *place_hot;
} cfg = {
	.size_mb = 128, .threads = 1, .passes = 1, .buf = 4096, .seed = 1, .node = 1,
	.theta = 0.99, .hot_frac = 0.1, .hot_share = 0.9, .pattern = "hotcold",
	.place_hot = "",
};

static const struct opt opts[] = {
	{ "size-mb", OPT_U64, &cfg.size_mb, "file size" },
	{ "node", OPT_U64, &cfg.node, "where its page cache is at first" },
	{ "pattern", OPT_STR, &cfg.pattern, "zipf, hotcold or seq" },
	{ "theta", OPT_F64, &cfg.theta, "Zipf exponent" },
	{ "hot-frac", OPT_F64, &cfg.hot_frac, "hotcold: share of hot pages" },
	{ "hot-share", OPT_F64, &cfg.hot_share, "share of picks that are hot" },
	{ "threads", OPT_U64, &cfg.threads, "worker threads" },
	{ "ops", OPT_U64, &cfg.ops, "zipf, hotcold: picks per thread" },
	{ "passes", OPT_U64, &cfg.passes, "seq: times to read the file" },
	{ "buf", OPT_U64, &cfg.buf, "seq: size of the reads, a power of two" },
	{ "seed", OPT_U64, &cfg.seed, "random seed" },
	{ "place-hot", OPT_STR, &cfg.place_hot, "bring what is hottest in on this node" },
	{ "place-mb", OPT_U64, &cfg.place_mb, "--place-hot: how much, in MiB" },
	{ "fast-node", OPT_U64, &cfg.fast_node, "node counted as fast" },
	{ NULL, OPT_U64, NULL, NULL },
};

static const char *path = "/tmp/lab-disk/file";
static uint32_t npages, nhot, *page_of_rank;
static struct alias zipf;
static bool is_zipf, is_seq;

static void write_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die("%s: %s", name, strerror(errno));
	close(fd);
}

/* A disk of enough room for the file, mounted */
static void make_disk(void)
{
	char size[32];

	snprintf(size, sizeof(size), "%lluM", (unsigned long long)cfg.size_mb * 9 / 8 + 16);
	write_file("/sys/block/zram0/disksize", size);
	if (system("PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F -b 4096 /dev/zram0"))
		die("cannot make a file system on /dev/zram0");
	mkdir("/tmp/lab-disk", 0700);
	if (mount("/dev/zram0", "/tmp/lab-disk", "ext2", 0, NULL))
		die("mount of /dev/zram0: %s", strerror(errno));
}

static int open_file(int flags)
{
	int fd = open(path, flags, 0600);

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

static void make_file(void)
{
	int fd = open_file(O_WRONLY | O_CREAT | O_TRUNC);
	static uint64_t page[PAGE_SZ / sizeof(uint64_t)];

	for (uint32_t i = 0; i < npages; i++) {
		page[0] = mix64(i);
		if (write(fd, page, PAGE_SZ) != (ssize_t)PAGE_SZ)
			die("%s: %s", path, strerror(errno));
	}
	if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		die("%s: %s", path, strerror(errno));
	close(fd);
}

/* Memory policy of this thread: what it brings in comes from the node. */
static void bind_to(int node)
{
	unsigned long mask = node < 0 ? 0 : 1UL << node;

	if (syscall(SYS_set_mempolicy, node < 0 ? MPOL_DEFAULT_ : MPOL_BIND_, &mask,
		    8 * sizeof(mask)))
		die("set_mempolicy: %s", strerror(errno));
}

/* Page cache of a node in pages */
static long file_pages(int node)
{
	char name[64], line[128];
	long kb = -1;
	FILE *f;

	snprintf(name, sizeof(name), "/sys/devices/system/node/node%d/meminfo", node);
	f = fopen(name, "r");
	while (f && fgets(line, sizeof(line), f) && kb < 0)
		sscanf(line, "Node %*d FilePages: %ld kB", &kb);
	if (kb < 0)
		die("%s does not tell FilePages", name);
	fclose(f);
	return kb / 4;
}

static void read_page(int fd, uint32_t page)
{
	uint64_t buf[PAGE_SZ / sizeof(uint64_t)];

	if (pread(fd, buf, PAGE_SZ, (off_t)page * (off_t)PAGE_SZ) != (ssize_t)PAGE_SZ)
		die("page %u: %s", page, strerror(errno));
	if (buf[0] != mix64(page))
		die("CORRUPTION: page %u of the file changed", page);
}

/* Bring the file in, what is hottest perhaps elsewhere. */
static void bring_in(void)
{
	long before = file_pages((int)cfg.node);
	uint32_t first = 0;
	int fd = open_file(O_RDONLY);

	if (!page_of_rank) {	/* in its order, with readahead */
		bind_to((int)cfg.node);
		for (uint32_t i = 0; i < npages; i++)
			read_page(fd, i);
	} else {
		if (posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM))
			die("posix_fadvise: %s", strerror(errno));
		if (*cfg.place_hot) {
			first = (uint32_t)((cfg.place_mb << 20) / PAGE_SZ);
			bind_to(atoi(cfg.place_hot));
		}
		for (uint32_t i = 0; i < npages; i++) {
			if (i == first)
				bind_to((int)cfg.node);
			read_page(fd, page_of_rank[i]);
		}
	}
	bind_to(-1);
	close(fd);
	if (file_pages((int)cfg.node) - before < (long)(npages - first) * 95 / 100)
		die("only %ld of %u pages are on node %llu", file_pages((int)cfg.node) - before,
		    npages - first, (unsigned long long)cfg.node);
}

static uint32_t pick(struct rng *r, uint32_t share)
{
	if (is_zipf)
		return zipf_draw(&zipf, r);
	if ((uint32_t)(rng_next(r) >> 32) < share)
		return rng_below(r, nhot);
	return nhot + rng_below(r, npages - nhot);
}

static void read_in_turn(struct team *t, unsigned int id, int fd)
{
	size_t size = cfg.buf, bytes = npages * PAGE_SZ / cfg.threads / size * size;
	char *buf = malloc(size);
	uint64_t ops = 0;

	if (!buf)
		die("no memory for a buffer");
	memset(buf, 1, size);
	for (uint64_t pass = 0; pass < cfg.passes; pass++) {
		if (lseek(fd, (off_t)(id * bytes), SEEK_SET) < 0)
			die("lseek: %s", strerror(errno));
		for (size_t at = id * bytes; at < (id + 1) * bytes; at += size) {
			if (read(fd, buf, size) != (ssize_t)size)
				die("read: %s", strerror(errno));
			if (*(uint64_t *)buf != mix64(at / PAGE_SZ) && !(at % PAGE_SZ))
				die("CORRUPTION: page %zu of the file changed", at / PAGE_SZ);
			if (!(++ops % PICK_BATCH))
				team_count(t, id, ops);
		}
	}
	team_count(t, id, ops);
	free(buf);
}

static void work(struct team *t, unsigned int id)
{
	uint32_t share = (uint32_t)(cfg.hot_share * 4294967295.0);
	int fd = open_file(O_RDONLY);
	uint64_t n = 0;
	struct rng r;

	if (is_seq) {
		read_in_turn(t, id, fd);
		close(fd);
		return;
	}
	rng_seed(&r, cfg.seed * 1000 + id);
	while (n < cfg.ops) {
		read_page(fd, page_of_rank[pick(&r, share)]);
		if (!(++n % PICK_BATCH))
			team_count(t, id, n);
	}
	team_count(t, id, n);
	close(fd);
}

static uint32_t zipf_hot(void)
{
	double all = 0, sum = 0;
	uint32_t i;

	for (i = 0; i < npages; i++)
		all += pow(i + 1.0, -cfg.theta);
	for (i = 0; i < npages && sum < cfg.hot_share * all; i++)
		sum += pow(i + 1.0, -cfg.theta);
	return i;
}

/* Of the hot pages, and of the first @nr by rank: those on the fast node */
static double hot_on_fast(uint32_t nr, uint64_t *placed)
{
	int fd = open_file(O_RDONLY), *node = malloc(npages * sizeof(*node));
	char *p = mmap(NULL, npages * PAGE_SZ, PROT_READ, MAP_SHARED, fd, 0);
	uint32_t fast = 0;

	if (p == MAP_FAILED || !node)
		die("mmap of %s: %s", path, strerror(errno));
	for (size_t i = 0; i < npages; i++)
		(void)*(volatile char *)(p + i * PAGE_SZ);
	page_nodes(p, npages, node);
	for (uint32_t i = 0; i < nhot; i++)
		fast += node[page_of_rank[i]] == (int)cfg.fast_node;
	for (uint32_t i = 0; i < nr; i++)
		*placed += node[page_of_rank[i]] == (int)cfg.fast_node;
	munmap(p, npages * PAGE_SZ);
	free(node);
	close(fd);
	return (double)fast / nhot;
}

int main(int argc, char **argv)
{
	static struct team team = { .work = work };
	uint64_t placed, placed_after = 0;

	opt_parse(argc - 1, argv + 1, opts);
	is_zipf = !strcmp(cfg.pattern, "zipf");
	is_seq = !strcmp(cfg.pattern, "seq");
	if (!is_zipf && !is_seq && strcmp(cfg.pattern, "hotcold"))
		die("--pattern must be zipf, hotcold or seq");
	if (!is_seq && !cfg.ops)
		die("give --ops");
	if (!cfg.size_mb || !cfg.threads)
		die("--size-mb and --threads must not be 0");
	if (cfg.buf < 8 || cfg.buf > MAX_BUF || cfg.buf & (cfg.buf - 1))
		die("--buf must be a power of two, 8 to %d", MAX_BUF);
	if (cfg.hot_share <= 0 || cfg.hot_share >= 1 || cfg.hot_frac <= 0 || cfg.hot_frac >= 1)
		die("--hot-share and --hot-frac must lie between 0 and 1");
	if (!*cfg.place_hot != !cfg.place_mb || cfg.place_mb > cfg.size_mb ||
	    (is_seq && cfg.place_mb))
		die("--place-hot NODE goes with --place-mb, at most the file, and not with seq");
	npages = (uint32_t)((cfg.size_mb << 20) / PAGE_SZ);
	if (!is_seq)
		page_of_rank = scatter(npages, cfg.seed);
	if (is_zipf)
		zipf_init(&zipf, npages, cfg.theta);
	nhot = is_zipf ? zipf_hot() : (uint32_t)(cfg.hot_frac * npages);
	if (!is_seq && (!nhot || nhot >= npages))
		die("no hot or no cold page: %u of %u", nhot, npages);
	make_disk();
	make_file();
	/* An oracle is asked to after READY. */
	if (*cfg.place_hot)
		team.prepare = bring_in;
	else
		bring_in();

	team.threads = (unsigned int)cfg.threads;
	team_run(&team);
	placed = (cfg.place_mb << 20) / PAGE_SZ;
	printf("RESULT {\"ops\":%llu,\"seconds\":%.3f,\"file_pages\":%u,",
	       (unsigned long long)team_ops(&team), team.seconds, npages);
	if (!is_seq)
		printf("\"hot_units\":%u,\"units\":%u,\"hot_on_fast\":%.4f,", nhot, npages,
		       hot_on_fast((uint32_t)placed, &placed_after));
	if (placed)
		printf("\"placed_hot\":%llu,\"placed_hot_after\":%llu,",
		       (unsigned long long)placed, (unsigned long long)placed_after);
	printf("\"verified\":true}\n");
	return 0;
}
