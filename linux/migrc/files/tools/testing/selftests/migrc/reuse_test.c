// SPDX-License-Identifier: GPL-2.0
/*
 * A read-only page is migrated without a flush, and then written in place: wp_page_reuse().  No
 * reader may go on reading the contents from before.
 *
 * Must fail: two while defer_early is set, switching while defer_off is, gup while defer_gup
 * or, of a file, defer_file is, and all others while defer_wp is.
 */
#include "../kselftest_harness.h"

#include "migrc.h"

struct how {
	enum read_only how;
	int hops;	/* so often it moves before it is written */
	bool large;	/* a folio of 64 KiB */
};

/* A new one each time, see new_large() */
static char *another_large(struct scene *scene, char *area)
{
	spot_hide(scene->crew, 0);
	unmap_area(area, HUGE);
	area = new_large(scene->rounds % 2 ? fast : slow);
	if (area)
		spot_show(scene->crew, 0, area);
	return area;
}

/* Read-only, in every reader's TLB, and then somewhere else */
static bool prepare(struct scene *scene, char *area, const struct how *how)
{
	int i, nid;

	if (!make_read_only(area, how->large ? LARGE : PAGE, how->how))
		return false;
	if (how->how != BY_UFFD)
		scene_own(scene);
	crew_settle(scene->crew);
	nid = node_of(area);
	for (i = 0; i < how->hops; i++) {
		nid = other_node(nid);
		moves_add(area, 1, nid);
	}
	return moves_do() == how->hops;
}

static void write_it(void *crew)
{
	spot_write(crew, 0);
}

/* @both: two CPUs write the page when it has moved. */
static void run(struct __test_metadata *_metadata, struct scene *scene, char *area,
		const struct how *how, bool both)
{
	while (scene_goes_on(scene)) {
		if (how->large)
			area = another_large(scene, area);
		ASSERT_NE(NULL, area);
		prepare(scene, area, how);
		if (both) {
			worker_run(scene->helper, write_it, scene->crew);
			random_delay(200);
		}
		/* Another word, but the same PTE: the second CPU may find it writable. */
		if (both)
			word_write(area + 64, scene->rounds);
		else
			spot_write(scene->crew, 0);
		worker_wait(scene->helper);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_ends(scene, "met_wp", scene->rounds / 2));
}

#define PAGE_FIXTURE reuse
#include "page_fixture.h"
FIXTURE_VARIANT(reuse)
{
	struct how how;
};

FIXTURE_VARIANT_ADD(reuse, fork) { { BY_FORK, 1 } };
FIXTURE_VARIANT_ADD(reuse, soft_dirty) { { BY_SOFT_DIRTY, 1 } };
FIXTURE_VARIANT_ADD(reuse, uffd) { { BY_UFFD, 1 } };
FIXTURE_VARIANT_ADD(reuse, chain) { { BY_UFFD, 3 } };
FIXTURE_VARIANT_ADD(reuse, large) { { BY_UFFD, 1, true } };

TEST_F_TIMEOUT(reuse, write, scene_timeout())
{
	run(_metadata, &self->scene, self->area, &variant->how, false);
}

TEST_F_TIMEOUT(reuse, both, scene_timeout())
{
	run(_metadata, &self->scene, self->area, &variant->how, true);
}

#define PAGE_FIXTURE shared
#include "page_fixture.h"

/*
 * Two CPUs write two pages, whose PTEs have two locks.  The one that comes second must not take
 * the flush of the other for done while it is under way.
 */
TEST_F_TIMEOUT(shared, two, scene_timeout())
{
	char *second = new_area(PAGE, slow);
	struct scene *scene = &self->scene;

	ASSERT_NE(NULL, second);
	spot_show(scene->crew, 1, second);
	while (scene_goes_on(scene)) {
		int nid = other_node(node_of(second));

		ASSERT_TRUE(make_read_only(self->area, PAGE, BY_UFFD));
		ASSERT_TRUE(make_read_only(second, PAGE, BY_UFFD));
		crew_settle(scene->crew);
		/* At once, as each system call begins with a drain */
		moves_add(self->area, 1, nid);
		moves_add(second, 1, nid);
		moves_do();
		worker_run(scene->helper, write_it, scene->crew);
		random_delay(100);
		spot_write(scene->crew, 1);
		worker_wait(scene->helper);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_ends(scene, "met_wp", scene->rounds / 2));
}

/* Not often: it patches code, which QEMU's TCG gets wrong now and then. */
#define MAX_SWITCHED	10

#define PAGE_FIXTURE switching
#include "page_fixture.h"

static const struct how by_uffd = { BY_UFFD, 1 };

/* After MIGRC has been switched off no hook looks for deferrals. */
TEST_F_TIMEOUT(switching, off, scene_timeout())
{
	struct scene *scene = &self->scene;

	while (scene->rounds < MAX_SWITCHED && scene_goes_on(scene)) {
		ASSERT_EQ(0, tier_part_turn("defer", true));
		prepare(scene, self->area, &by_uffd);
		ASSERT_EQ(0, tier_part_turn("defer", false));
		spot_write(scene->crew, 0);
		if (!crew_settle(scene->crew))
			break;
		ASSERT_EQ(0, counter("tier_defer_pending"));
	}
	EXPECT_TRUE(scene_ends(scene, "tier_defer_success", scene->rounds / 2));
}

/* Written by the kernel, with no change of any PTE: by FOLL_FORCE, or a page of a file */
#define PAGE_FIXTURE gup
#include "page_fixture.h"
FIXTURE_VARIANT(gup)
{
	bool file;
};

FIXTURE_VARIANT_ADD(gup, mem) { false };
FIXTURE_VARIANT_ADD(gup, file) { true };

TEST_F_TIMEOUT(gup, write, scene_timeout())
{
	int fd = variant->file ? memfd_create("page", 0) : open("/proc/self/mem", O_RDWR);
	struct scene *scene = &self->scene;
	char *area = self->area;
	uint64_t next;

	ASSERT_GE(fd, 0);
	if (variant->file) {
		ASSERT_EQ(0, ftruncate(fd, PAGE));
		area = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, area);
		spot_hide(scene->crew, 0);
		spot_show(scene->crew, 0, area);
	}
	ASSERT_TRUE(make_read_only(area, PAGE, BY_PROTECTION));
	while (scene_goes_on(scene)) {
		crew_settle(scene->crew);
		move_over(area);
		next = spot_next(scene->crew, 0);
		ASSERT_EQ(sizeof(next), pwrite(fd, &next, sizeof(next),
					       variant->file ? 0 : (uintptr_t)area));
		spot_has_next(scene->crew, 0);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_ends(scene, variant->file ? "met_file" : "met_gup", scene->rounds / 2));
}

#define NR_PAGES	1024UL
#define LEN		(NR_PAGES * PAGE)

/* As it is meant to be used: a write to memory.reclaim demotes read-only pages, which are read. */
#define PAGE_FIXTURE demotion
#include "page_fixture.h"

TEST_F_TIMEOUT(demotion, write, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct group group;
	char *area;

	ASSERT_EQ(0, set(MIGRC_DEBUG "defer_syscalls", "0"));
	if (set("/sys/kernel/mm/numa/demotion_enabled", "1") || !group_enter(&group))
		SKIP(return, "no demotion, or no memory control groups (v2)");
	area = new_area(LEN, fast);
	group_leave(&group);
	spot_hide(scene->crew, 0);
	spot_show(scene->crew, 0, area);
	scene->missing = 1;
	while (scene_goes_on(scene)) {
		ASSERT_TRUE(place(area, LEN, fast));
		ASSERT_TRUE(make_read_only(area, LEN, BY_UFFD));
		crew_settle(scene->crew);
		forget_accesses();
		group_reclaim(&group, LEN / 2);
		scene->missing -= node_of(area) == slow;
		spot_write(scene->crew, 0);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_ends(scene, "met_wp", 1));
	EXPECT_GE(risen("tier_defer_success"), 1);
	unmap_area(area, LEN);
	group_destroy(&group);
}

TEST_HARNESS_MAIN
