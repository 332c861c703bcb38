// SPDX-License-Identifier: GPL-2.0
/*
 * A page is migrated without a flush.  A system call unmaps, remaps or protects the address before
 * the flush.  The system call flushes what a migration has deferred (flush_tlb_batched_pending()),
 * also where the system call finds a migration entry.
 *
 * race_*: lost once without MIGRC (3ea277194daa "mm, mprotect: flush TLB if potentially racing with
 * a parallel reclaim leaving stale TLB entries", eb66ae030829 "mremap: properly flush TLB before
 * releasing the page").  After the system call the page must not be accessible any more.
 *
 * Must fail while defer_unmap is set; protect and free only if defer_wp is, too: they give a
 * migration entry no write permission, so that the first write faults, and flushes.
 */
#include "../kselftest_harness.h"

#include "migrc.h"

/* So often the event has to be in the middle of a migration. */
#define NR_HITS	3

#define PAGE_FIXTURE unmap
#include "page_fixture.h"
FIXTURE_VARIANT(unmap)
{
	/* Has the page replaced, or at least to be written; false if it does not work here */
	bool (*event)(struct crew *crew, char *page);
	enum read_only how;
	bool race;	/* the page is not accessible afterwards */
};

static bool map_over(struct crew *crew, char *page)
{
	return mmap(page, PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page;
}

FIXTURE_VARIANT_ADD(unmap, fixed) { map_over, BY_UFFD };

static bool drop(struct crew *crew, char *page)
{
	return !madvise(page, PAGE, MADV_DONTNEED);
}

FIXTURE_VARIANT_ADD(unmap, dontneed) { drop, BY_UFFD };

static bool leave_hole(struct crew *crew, char *page)
{
	return !munmap(page, PAGE);
}

static bool fill_hole(struct crew *crew, char *page)
{
	return leave_hole(crew, page) && map_over(crew, page);
}

FIXTURE_VARIANT_ADD(unmap, munmap) { fill_hole, BY_UFFD };
FIXTURE_VARIANT_ADD(unmap, race_munmap) { leave_hole, BY_UFFD, true };

static bool forbid(struct crew *crew, char *page)
{
	return !mprotect(page, PAGE, PROT_NONE);
}

FIXTURE_VARIANT_ADD(unmap, race_mprotect) { forbid, BY_UFFD, true };

/* The page goes on at another address, */
static bool move_away(struct crew *crew, char *page)
{
	return mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL) != MAP_FAILED;
}

FIXTURE_VARIANT_ADD(unmap, mremap) { move_away, BY_UFFD };

/* or it is freed there. */
static bool move_and_free(struct crew *crew, char *page)
{
	char *there = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return there != MAP_FAILED &&
	       mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there &&
	       !munmap(there, PAGE);
}

FIXTURE_VARIANT_ADD(unmap, race_mremap) { move_and_free, BY_UFFD, true };

static bool allow_writes(struct crew *crew, char *page)
{
	return !mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

FIXTURE_VARIANT_ADD(unmap, protect) { allow_writes, BY_PROTECTION };

/* The contents may go, but only as long as the page is not written again. */
static bool lazy_free(struct crew *crew, char *page)
{
	return !madvise(page, PAGE, MADV_FREE);
}

FIXTURE_VARIANT_ADD(unmap, free) { lazy_free, BY_UFFD };

TEST_F_TIMEOUT(unmap, in_flight, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct crew *crew = scene->crew;

	ASSERT_TRUE(bulk_start());
	/* A reader that finds nothing there tries again. */
	bear_faults();
	scene->missing = NR_HITS;
	while (scene_goes_on(scene)) {
		/* A new page, read-only and in the readers' TLBs */
		spot_hide(crew, 0);
		unmap_area(self->area, HUGE);
		self->area = new_area(PAGE, node_of(bulk));
		ASSERT_NE(NULL, self->area);
		spot_show(crew, 0, self->area);
		ASSERT_TRUE(make_read_only(self->area, PAGE, variant->how));
		crew_settle(crew);
		scene->missing -= bulk_move(scene->helper, 0, self->area, self->area);
		spot_change(crew, 0);
		ASSERT_TRUE(variant->event(crew, self->area));
		if (variant->race)
			spot_has_next(crew, 0);
		else
			spot_write(crew, 0);
		spot_change(crew, 0);
		if (variant->race) {
			/* A read that succeeds now is stale. */
			usleep(2000);
			spot_change(crew, 0);
			ASSERT_TRUE(map_over(crew, self->area));
			word_write(self->area, spot_next(crew, 0) - 1);
			spot_change(crew, 0);
		}
		worker_wait(scene->helper);
		crew_settle(crew);
	}
	EXPECT_TRUE(scene_ends(scene, "met_unmap", 1));
}

TEST_HARNESS_MAIN
