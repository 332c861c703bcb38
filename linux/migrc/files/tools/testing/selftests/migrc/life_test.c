// SPDX-License-Identifier: GPL-2.0
/*
 * The page frame that a page was migrated from must not be used again while a TLB still has it.  So
 * after each migration its frame is asked for, and filled with something else.
 *
 *   life	keep must fail while defer_release is set, drain while defer_unmasked is, and merge
 *		while defer_merge is
 *   kept	frames that are wanted are given back: again must fail while defer_isolate is set,
 *		memory_failure while defer_failure is
 */
#include "../kselftest_harness.h"

#include "migrc.h"

/* More than a per-CPU list of free pages gives back out of turn */
#define NR_RUBBISH	256UL

/* Take pages of the node, and fill them until the readers have looked.  Was the frame there? */
static bool scribble(struct crew *crew, int nid, uint64_t pfn)
{
	unsigned long mask = 1UL << nid;
	bool found = false;
	size_t i;
	char *p;

	p = mmap(NULL, NR_RUBBISH * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0);
	if (p == MAP_FAILED || syscall(__NR_mbind, p, NR_RUBBISH * PAGE, MPOL_BIND, &mask, 65UL, 0))
		return false;
	memset(p, 0x5c, NR_RUBBISH * PAGE);
	for (i = 0; i < NR_RUBBISH; i++)
		found |= pfn_of(p + i * PAGE) == pfn;
	crew_settle(crew);
	munmap(p, NR_RUBBISH * PAGE);
	return found;
}

#define PAGE_FIXTURE life
#include "page_fixture.h"

/* The drain may come before the frame is asked for, or only then. */
static void keep(struct __test_metadata *_metadata, struct scene *scene, char *area, bool drained)
{
	bool again = false;

	scene->missing = drained;
	while (scene_goes_on(scene)) {
		uint64_t pfn = pfn_of(area);
		int nid = node_of(area);

		ASSERT_TRUE(make_read_only(area, PAGE, BY_UFFD));
		crew_settle(scene->crew);
		ASSERT_TRUE(move_over(area));
		if (drained)
			scene_drain();
		again = scribble(scene->crew, nid, pfn);
		if (again && !drained)
			break;
		scene->missing -= again;
		scene_drain();
		spot_write(scene->crew, 0);
	}
	EXPECT_TRUE(scene_ends(scene, "tier_defer_flush", scene->rounds / 2));
	EXPECT_TRUE(drained || !again)
		TH_LOG("a frame is used again before it was flushed");
}

/* No task asks for it back: it must stay away from the allocator. */
TEST_F_TIMEOUT(life, keep, scene_timeout())
{
	keep(_metadata, &self->scene, self->area, false);
}

/* It is given back, but not before the flush. */
TEST_F_TIMEOUT(life, drain, scene_timeout())
{
	keep(_metadata, &self->scene, self->area, true);
}

/* Moves the page that is shared, and then its own, which is writable, in one batch */
static bool move_both(void *shared)
{
	static char *own;
	int nid = other_node(node_of(shared));

	if (!own)
		own = new_area(PAGE, other_node(nid));
	if (!own)
		return false;
	word_write(own, 1);
	moves_add(shared, 1, nid);
	moves_add(own, 1, nid);
	return moves_do() == 2;
}

/*
 * A batch defers the flush of a page that the readers have, too, and then owes one for another
 * page, which goes to other CPUs.
 */
TEST_F_TIMEOUT(life, merge, scene_timeout())
{
	struct other *other = other_start(move_both, self->area);
	struct scene *scene = &self->scene;

	ASSERT_NE(NULL, other);
	scene->missing = 1;
	scene_own(scene);
	while (scene_goes_on(scene)) {
		uint64_t pfn = pfn_of(self->area);
		int nid = node_of(self->area);

		crew_settle(scene->crew);
		ASSERT_TRUE(other_does(other));
		scene->missing -= scribble(scene->crew, nid, pfn);
	}
	other_end(other);
	EXPECT_TRUE(scene_ends(scene, "tier_defer_merged", scene->rounds / 2));
}

#define HWPOISON	"/sys/kernel/debug/hwpoison/"

#define PAGE_FIXTURE kept
#include "page_fixture.h"

/* A system call that isolates pages first drains what the call before has left. */
TEST_F_TIMEOUT(kept, again, scene_timeout())
{
	ASSERT_TRUE(make_read_only(self->area, PAGE, BY_UFFD));
	crew_settle(self->scene.crew);
	ASSERT_TRUE(move_over(self->area) && move_over(self->area));
	EXPECT_EQ(1, counter("tier_defer_pending"))
		TH_LOG("a page is kept while the LRU caches are disabled");
	EXPECT_TRUE(scene_ends(&self->scene, "tier_defer_success", 2));
}

/* A frame that is kept is taken out of use: it is found free after the flush. */
TEST_F_TIMEOUT(kept, memory_failure, scene_timeout())
{
	struct scene *scene = &self->scene;
	char pfn[32];
	int err = 0;

	if (!exists(HWPOISON "corrupt-pfn"))
		SKIP(return, "no CONFIG_HWPOISON_INJECT");
	while (!err && scene_goes_on(scene)) {
		ASSERT_TRUE(place(self->area, PAGE, slow));
		crew_settle(scene->crew);
		snprintf(pfn, sizeof(pfn), "%#llx", (unsigned long long)pfn_of(self->area));
		ASSERT_TRUE(make_read_only(self->area, PAGE, BY_UFFD));
		if (!move_page(self->area, fast))
			continue;
		err = write_file(HWPOISON "corrupt-pfn", pfn);
		EXPECT_EQ(0, err) TH_LOG("memory failure of frame %s was not handled", pfn);
		/* A source has one reference, which this would drop. */
		if (err)
			scene_drain();
		write_file(HWPOISON "unpoison-pfn", pfn);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_ends(scene, "met_failure", err ? 0 : scene->rounds / 2));
}

TEST_HARNESS_MAIN
