// SPDX-License-Identifier: GPL-2.0
/*
 * Writes that must not be lost: a page must not be moved without a flush while a TLB may still let
 * a CPU write it.
 *
 * Must fail: writable while defer_write is set, downgrade while defer_pending is, and fork while
 * defer_fork is.
 */
#include "../kselftest_harness.h"

#include "migrc.h"

#define NR_PAGES	4
/* So often a PTE has to be found read-only before its flush. */
#define NR_HITS		3
/* Behind the page, with PTEs that take long to change; those of the zero page cost no memory */
#define TAIL		(1024UL << 20)

#define PAGE_FIXTURE writable
#include "page_fixture.h"

/* Pages with writable PTEs go to and fro. */
TEST_F_TIMEOUT(writable, write, scene_timeout())
{
	struct scene *scene = &self->scene;
	unsigned long moved = 0;
	int nid = slow;

	ASSERT_TRUE(place(self->area, NR_PAGES * PAGE, slow));
	spot_hide(scene->crew, 0);
	crew_write(scene->crew, self->area, NR_PAGES);
	while (scene_goes_on(scene)) {
		crew_settle(scene->crew);
		nid = other_node(nid);
		moves_add(self->area, NR_PAGES, nid);
		/* Back at once: it may not have been written there. */
		if (random_number() % 2) {
			nid = other_node(nid);
			moves_add(self->area, NR_PAGES, nid);
		}
		moved += moves_do();
	}
	EXPECT_TRUE(scene_ends(scene, "met_write", 1));
	EXPECT_GE(moved, scene->rounds / 2);
}

#define BATCH		TIER_PARTS "batch/enabled"

/* A large folio whose first PTE is read-only, and some of the others are not */
TEST_F_TIMEOUT(writable, mixed, scene_timeout())
{
	struct scene *scene = &self->scene;
	unsigned long moved = 0;

	if (exists(BATCH)) {
		ASSERT_EQ(0, set(BATCH, "1"));
		ASSERT_TRUE(tier_part_on("batch"));
	}
	spot_hide(scene->crew, 0);
	while (scene_goes_on(scene)) {
		int nid = scene->rounds % 2 ? slow : fast;
		char *area = new_large(nid);

		ASSERT_NE(NULL, area);
		ASSERT_TRUE(make_read_only(area, LARGE, BY_SOFT_DIRTY));
		crew_write(scene->crew, area + PAGE, NR_PAGES);
		crew_settle(scene->crew);
		moved += move_page(area, other_node(nid));
		crew_settle(scene->crew);
		crew_write(scene->crew, NULL, 0);
		unmap_area(area, HUGE);
	}
	EXPECT_TRUE(scene_ends(scene, "met_write", 1));
	EXPECT_GE(moved, scene->rounds / 2);
}

/*
 * A system call takes write permission from a page and from a lot of memory behind it, and flushes
 * at its end.  A migration before that flush finds the PTE of the page read-only.
 */
#define PAGE_FIXTURE downgrade
#include "page_fixture.h"
FIXTURE_VARIANT(downgrade)
{
	enum read_only how;
};

FIXTURE_VARIANT_ADD(downgrade, uffd) { BY_UFFD };
FIXTURE_VARIANT_ADD(downgrade, mprotect) { BY_PROTECTION };
FIXTURE_VARIANT_ADD(downgrade, soft_dirty) { BY_SOFT_DIRTY };
FIXTURE_VARIANT_ADD(downgrade, fork) { BY_FORK };

TEST_F_TIMEOUT(downgrade, race, scene_timeout())
{
	struct scene *scene = &self->scene;
	char *area = map_area(TAIL);

	ASSERT_TRUE(bulk_start() && area && place(area, PAGE, slow));
	ASSERT_EQ(0, madvise(area, TAIL, MADV_POPULATE_READ));
	bear_faults();
	spot_hide(scene->crew, 0);
	crew_write(scene->crew, area, 1);
	scene->missing = NR_HITS;
	while (scene_goes_on(scene)) {
		/* Some are migrated before the page: the time that it has to become read-only */
		unsigned int nr = 8 + random_number() % (NR_BULK - 8);
		long met = counter("met_pending");

		crew_settle(scene->crew);
		/* Half-way it needs the locks no more that are to be taken here. */
		bulk_move(scene->helper, nr, area, bulk);
		ASSERT_TRUE(make_read_only(area, TAIL, variant->how));
		ASSERT_EQ(0, mprotect(area, TAIL, PROT_READ | PROT_WRITE));
		worker_wait(scene->helper);
		scene->missing -= counter("met_pending") > met;
	}
	EXPECT_TRUE(scene_ends(scene, "met_pending", NR_HITS));
}

TEST_HARNESS_MAIN
