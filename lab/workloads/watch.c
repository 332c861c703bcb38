// SPDX-License-Identifier: GPL-2.0
/*
 * watch: how often are the pages of a process promoted?
 *
 *   watch PID PERIOD_MS NODE[,NODE...]	(the nodes of the fast tier)
 *
 * Looks up the frames of all anonymous pages every so often (/proc/PID/pagemap) until its
 * standard input ends, and counts pages that went from a slow node to a fast one, and
 * those of them that had been promoted before.  No promoter is asked, so all are judged
 * the same way.
 *
 * What happens between two looks is seen by the frame: a page that is on another one, but in
 * the same tier, has left the tier and come back, which is one promotion, too.  More
 * promotions than one between two looks count as one, and a page that something else
 * has moved within its tier (compaction) counts as well.
 */
#include "common.h"

#include <fcntl.h>
#include <poll.h>

enum { MAX_RANGES = 256, MAX_ZONES = 64, CHUNK = 8192 };

static const uint64_t PRESENT = 1ULL << 63, FRAME = (1ULL << 55) - 1;

struct range {
	uint64_t first, pages;		/* in pages of the address space */
	uint64_t *frame;		/* 0: not seen yet */
	uint8_t *promoted;		/* how often */
};

struct zone {
	uint64_t start, end;		/* frames */
	bool fast;
};

static struct range ranges[MAX_RANGES];
static struct zone zones[MAX_ZONES];
static unsigned int nranges, nzones;
static uint64_t samples, pages, promotions, again, demotions;

static bool listed(const char *nodes, int node)
{
	for (const char *p = nodes; *p; p += strcspn(p, ","), p += *p == ',')
		if (atoi(p) == node)
			return true;
	return false;
}

static void read_zones(const char *fast)
{
	unsigned long long spanned = 0, value;
	char line[256];
	int node = -1;
	FILE *f = fopen("/proc/zoneinfo", "r");

	if (!f)
		die("/proc/zoneinfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "Node %d, zone", &node);
		if (sscanf(line, " spanned %llu", &value) == 1)
			spanned = value;
		/* The last line of a zone; one without memory has none. */
		if (sscanf(line, " start_pfn: %llu", &value) != 1 || !spanned)
			continue;
		if (nzones == MAX_ZONES)
			die("more than %d zones", MAX_ZONES);
		zones[nzones++] = (struct zone){ value, value + spanned, listed(fast, node) };
	}
	fclose(f);
}

static bool is_fast(uint64_t frame)
{
	for (unsigned int i = 0; i < nzones; i++)
		if (frame >= zones[i].start && frame < zones[i].end)
			return zones[i].fast;
	die("frame %#llx is in no zone", (unsigned long long)frame);
}

/* Private writable memory without a file, if it is more than a thread's odds and ends. */
static void read_maps(const char *pid)
{
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	f = fopen(path, "r");
	if (!f)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		unsigned long long start, end, inode;
		struct range *r = &ranges[nranges];

		if (sscanf(line, "%llx-%llx rw-p %*x %*s %llu", &start, &end, &inode) != 3 ||
		    inode || end - start < 1 << 20)
			continue;
		if (nranges == MAX_RANGES)
			die("more than %d mappings", MAX_RANGES);
		r->first = start / PAGE_SZ;
		r->pages = (end - start) / PAGE_SZ;
		r->frame = calloc(r->pages, sizeof(*r->frame));
		r->promoted = calloc(r->pages, sizeof(*r->promoted));
		if (!r->frame || !r->promoted)
			die("no memory");
		nranges++;
	}
	fclose(f);
}

static void look_at(struct range *r, uint64_t page, uint64_t entry)
{
	uint64_t frame = entry & FRAME, before = r->frame[page];
	bool fast;

	if (!(entry & PRESENT) || frame == before)
		return;
	if (!frame)
		die("/proc/PID/pagemap hides the frames: run it as root");
	fast = is_fast(frame);
	r->frame[page] = frame;
	if (!before) {
		pages++;
		return;
	}
	demotions += !fast || is_fast(before);
	if (!fast && is_fast(before))
		return;
	promotions++;
	again += r->promoted[page] > 0;
	r->promoted[page] = 1;
}

static void look(int pagemap)
{
	static uint64_t entry[CHUNK];

	for (struct range *r = ranges; r < ranges + nranges; r++) {
		for (uint64_t i = 0; i < r->pages; i += CHUNK) {
			size_t n = r->pages - i < CHUNK ? r->pages - i : CHUNK;
			ssize_t got = pread(pagemap, entry, n * 8, (off_t)(r->first + i) * 8);

			/* The process has ended, or unmapped it. */
			for (ssize_t j = 0; j < got / 8; j++)
				look_at(r, i + (uint64_t)j, entry[j]);
		}
	}
	samples++;
}

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	char path[64], word[64];
	int pagemap, period;

	if (argc != 4 || atoi(argv[1]) <= 0 || (period = atoi(argv[2])) <= 0)
		die("usage: watch PID PERIOD_MS NODE[,NODE...]");
	read_zones(argv[3]);
	read_maps(argv[1]);
	snprintf(path, sizeof(path), "/proc/%s/pagemap", argv[1]);
	pagemap = open(path, O_RDONLY);
	if (pagemap < 0)
		die("%s: %s", path, strerror(errno));
	look(pagemap);
	if (!pages)
		die("process %s has no anonymous memory to watch", argv[1]);
	puts("READY");
	fflush(stdout);
	do {
		int ready = poll(&input, 1, period);

		look(pagemap);
		if (ready && read(0, word, sizeof(word)) <= 0)
			break;
	} while (true);
	printf("RESULT {\"samples\":%llu,\"pages\":%llu,\"promotions\":%llu,"
	       "\"promoted_again\":%llu,\"demotions\":%llu}\n",
	       (unsigned long long)samples, (unsigned long long)pages,
	       (unsigned long long)promotions, (unsigned long long)again,
	       (unsigned long long)demotions);
	return 0;
}
