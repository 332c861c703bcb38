// SPDX-License-Identifier: GPL-2.0
/*
 * Who allocates page frames in a row gets them, though pages were migrated from there without
 * a flush: what is kept looks like a page of the kernel that cannot be moved.
 *
 * It takes a gigantic page, and so a node that has one to give: a GiB of memory, aligned, in
 * which there is nothing of the kernel's.
 *
 * Must fail while fault_contig is set in /sys/kernel/debug/migrc/.
 */
#include "../kselftest_harness.h"

#include "scene.h"

#define BLOCKS		"/sys/devices/system/memory/"
#define GIGANTIC	"/sys/devices/system/node/node%d/hugepages/hugepages-1048576kB/nr_hugepages"
#define FRAMES		((1024UL << 20) / PAGE)
#define NR_PAGES	1024UL
#define LEN		(NR_PAGES * PAGE)
/* Memory blocks that are looked at, and what may be allocated to get pages there */
#define NR_BLOCKS	64UL
#define MOST_AREAS	64

FIXTURE(contig)
{
	struct scene scene;
	char *area;
};

FIXTURE_SETUP(contig)
{
	const char *lacks = scene_begin(&self->scene, 1);

	if (lacks)
		SKIP(return, "%s", lacks);
}

FIXTURE_TEARDOWN(contig)
{
	scene_end(&self->scene);
}

/* The first frame of a gigantic page that the slow node could have, or 0 */
static uint64_t gigantic_frames(void)
{
	unsigned long first, block, per_block, per_page;
	char buf[32], path[96];

	if (!read_file(BLOCKS "block_size_bytes", buf, sizeof(buf)))
		return 0;
	per_block = strtoul(buf, NULL, 16) / PAGE;
	per_page = per_block ? FRAMES / per_block : 0;
	if (!per_page)
		return 0;
	for (first = per_page; first < NR_BLOCKS; first += per_page) {
		for (block = first; block < first + per_page; block++) {
			snprintf(path, sizeof(path), BLOCKS "memory%lu/node%d", block, slow);
			if (!exists(path))
				break;
		}
		if (block == first + per_page)
			return first * per_block;
	}
	return 0;
}

/* So many gigantic pages of the slow node: could it be done? */
static bool gigantic(int nr)
{
	char path[112], number[8];

	snprintf(path, sizeof(path), GIGANTIC, slow);
	snprintf(number, sizeof(number), "%d", nr);
	return !write_file(path, number) && read_number(path) == nr;
}

/* Memory of which at least half lies there, NULL if there is none */
static char *area_in(uint64_t frames)
{
	char *areas[MOST_AREAS], *found = NULL;
	unsigned long i, inside, nr;

	for (nr = 0; nr < MOST_AREAS && !found; nr++) {
		areas[nr] = map_area(LEN);
		if (!areas[nr] || !place(areas[nr], LEN, slow))
			break;
		for (i = inside = 0; i < NR_PAGES; i++)
			inside += pfn_of(areas[nr] + i * PAGE) / FRAMES == frames / FRAMES;
		if (inside >= NR_PAGES / 2)
			found = areas[nr];
	}
	while (nr--)
		if (areas[nr] && areas[nr] != found)
			unmap_area(areas[nr], LEN);
	return found;
}

TEST_F_TIMEOUT(contig, alloc, scene_timeout())
{
	struct moves *moves = calloc(1, sizeof(*moves));
	uint64_t frames = gigantic_frames();
	bool got;

	ASSERT_NE(NULL, moves);
	if (!frames || !gigantic(1) || !gigantic(0))
		SKIP(return, "no gigantic page of the slow node, though nothing is kept");
	self->area = area_in(frames);
	ASSERT_NE(NULL, self->area);
	spot_show(self->scene.crew, 0, self->area);
	ASSERT_TRUE(make_read_only(self->area, LEN, BY_UFFD));
	crew_settle(self->scene.crew);
	moves_add(moves, self->area, NR_PAGES, fast);
	ASSERT_GE(moves_do(moves), NR_PAGES / 2);
	ASSERT_GT(counter("migrc_pending"), 0);
	counters_read(&self->scene.before);

	got = gigantic(1);
	if (!got) {
		scene_drain();
		ksft_print_msg("a gigantic page could %s\n",
			       gigantic(1) ? "be had only after a drain" : "not be had any more");
	}
	EXPECT_TRUE(got);
	EXPECT_TRUE(gigantic(0));
	EXPECT_TRUE(scene_rose(&self->scene, "migrc_drain_contig", 1));
	EXPECT_TRUE(scene_clean(&self->scene));
	free(moves);
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
