// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that are made into one, or one that is made into many, before or after they were
 * migrated without a flush: KSM, khugepaged, splitting of huge pages.
 *
 * The test split must fail while fault_wp is set in /sys/kernel/debug/migrc/.  In the others
 * the base kernel flushes what is merged, or copied.
 */
#include "../kselftest_harness.h"

#include "scene.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define KSM		"/sys/kernel/mm/ksm/"
#define THP		"/sys/kernel/mm/transparent_hugepage/"
#define SPLIT		"/sys/kernel/debug/split_huge_pages"
#define PER_HUGE	(HUGE / PAGE)
/* Equal pages */
#define NR_EQUAL	4
#define MERGE_S		20

FIXTURE(merge)
{
	struct scene scene;
	struct moves *moves;
	char *area;
};

FIXTURE_SETUP(merge)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->moves = calloc(1, sizeof(*self->moves));
	self->area = map_area(HUGE);
	ASSERT_TRUE(self->moves && self->area);
}

FIXTURE_TEARDOWN(merge)
{
	write_file(KSM "run", "2");
	scene_end(&self->scene);
}

/* Pages with the contents of the first one, which get the same frame by and by */
static bool merged(char *area)
{
	double end = now() + MERGE_S;
	uint64_t pfn;
	int i;

	for (i = 1; i < NR_EQUAL; i++)
		memcpy(area + i * PAGE, area, PAGE);
	do {
		usleep(5000);
		pfn = pfn_of(area);
		for (i = 1; i < NR_EQUAL && pfn && pfn_of(area + i * PAGE) == pfn; i++)
			;
	} while (i < NR_EQUAL && now() < end);
	return i == NR_EQUAL;
}

static bool ksm_on(char *area)
{
	/*
	 * A page that could not be merged in some passes is looked at in every ninth only, and
	 * few pages may take turns for ever.
	 */
	if (exists(KSM "smart_scan") && set(KSM "smart_scan", "0"))
		return false;
	return !set(KSM "run", "1") && !set(KSM "sleep_millisecs", "5") &&
	       !set(KSM "pages_to_scan", "1000") &&
	       !madvise(area, NR_EQUAL * PAGE, MADV_MERGEABLE);
}

/* A page of KSM moves, and is written by one of those who have it. */
TEST_F_TIMEOUT(merge, ksm_moves, scene_timeout())
{
	struct scene *scene = &self->scene;
	int nid = slow;

	ASSERT_TRUE(place(self->area, NR_EQUAL * PAGE, slow));
	if (!ksm_on(self->area))
		SKIP(return, "no KSM");
	spot_show(scene->crew, 0, self->area);
	while (scene_goes_on(scene)) {
		ASSERT_TRUE(merged(self->area)) TH_LOG("ksmd did not merge");
		crew_settle(scene->crew);
		/* ksmd drains, too: at any time */
		nid = other_node(node_of(self->area));
		move_page(self->area, nid);
		spot_write(crew_spot(scene->crew, 0));
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", 1));
}

/* A page moves, and then KSM merges it. */
TEST_F_TIMEOUT(merge, ksm_merges, scene_timeout())
{
	struct scene *scene = &self->scene;

	ASSERT_TRUE(place(self->area, NR_EQUAL * PAGE, slow));
	if (!ksm_on(self->area))
		SKIP(return, "no KSM");
	spot_show(scene->crew, 0, self->area);
	while (scene_goes_on(scene)) {
		ASSERT_EQ(0, write_file(KSM "run", "0"));
		ASSERT_TRUE(make_read_only(self->area, PAGE, BY_FORK));
		crew_settle(scene->crew);
		move_page(self->area, other_node(node_of(self->area)));
		ASSERT_EQ(0, write_file(KSM "run", "1"));
		ASSERT_TRUE(merged(self->area)) TH_LOG("ksmd did not merge");
		spot_write(crew_spot(scene->crew, 0));
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", 1));
}

/* Small pages that have moved become a huge one, which is written. */
TEST_F_TIMEOUT(merge, collapse, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct spot *spot = crew_spot(scene->crew, 0);
	unsigned long collapsed = 0;

	if (set(THP "enabled", "madvise"))
		SKIP(return, "no huge pages");
	while (scene_goes_on(scene)) {
		spot_hide(scene->crew, 0);
		unmap_area(self->area, HUGE);
		self->area = map_area(HUGE);
		ASSERT_TRUE(self->area && place(self->area, HUGE, slow));
		spot_show(scene->crew, 0, self->area);
		ASSERT_TRUE(make_read_only(self->area, HUGE, BY_FORK));
		/* If none is writable they are left alone. */
		self->area[HUGE - PAGE] = 1;
		crew_settle(scene->crew);
		moves_clear(self->moves);
		moves_add(self->moves, self->area, PER_HUGE, fast);
		moves_do(self->moves);
		madvise(self->area, HUGE, MADV_HUGEPAGE);
		collapsed += !madvise(self->area, HUGE, MADV_COLLAPSE);
		spot_write(spot);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds * PER_HUGE / 2));
	EXPECT_GE(collapsed, 1);
}

static void move_all(void *arg)
{
	moves_do(arg);
}

/* A huge page becomes small ones, which move meanwhile and afterwards. */
TEST_F_TIMEOUT(merge, split, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct spot *spot = crew_spot(scene->crew, 0);
	char command[96];

	if (set(THP "enabled", "madvise") || !exists(SPLIT))
		SKIP(return, "no huge pages, or nothing to split them");
	while (scene_goes_on(scene)) {
		spot_hide(scene->crew, 0);
		unmap_area(self->area, HUGE);
		self->area = map_area(HUGE);
		ASSERT_NE(NULL, self->area);
		madvise(self->area, HUGE, MADV_HUGEPAGE);
		ASSERT_TRUE(place(self->area, HUGE, slow));
		spot_show(scene->crew, 0, self->area);
		ASSERT_TRUE(make_read_only(self->area, HUGE, BY_FORK));
		crew_settle(scene->crew);
		moves_clear(self->moves);
		moves_add(self->moves, self->area, PER_HUGE, fast);
		snprintf(command, sizeof(command), "%d,%#lx,%#lx,0", getpid(),
			 (unsigned long)self->area, (unsigned long)self->area + HUGE);
		worker_run(scene->helper, move_all, self->moves);
		random_delay(3000);
		write_file(SPLIT, command);
		worker_wait(scene->helper);
		write_file(SPLIT, command);
		crew_settle(scene->crew);
		moves_do(self->moves);
		moves_clear(self->moves);
		moves_add(self->moves, self->area, PER_HUGE, slow);
		moves_do(self->moves);
		spot_write(spot);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", 1));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
