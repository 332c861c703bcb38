// SPDX-License-Identifier: GPL-2.0
/*
 * What must not be deferred, and what the switch does not take.  Must fail: reason while
 * defer_reason is set, marks while defer_marks is, backoff while defer_backoff is.
 */
#include "../kselftest_harness.h"

#include "migrc.h"

FIXTURE(enabled) { };

FIXTURE_SETUP(enabled)
{
	if (geteuid() || set(MIGRC "enabled", "0"))
		SKIP(return, "no root, or no " MIGRC " (CONFIG_MIGRC)");
}

FIXTURE_TEARDOWN(enabled) { }

TEST_F(enabled, values)
{
	static const char * const values[] = {
		"\n", "2", "-1", "x", "y", "yes", "on", "N", "01", "1 1", "0x1", "11",
	};
	char text[32];
	unsigned long i;
	int on;

	for (on = 1; on >= 0; on--) {
		EXPECT_EQ(0, write_file(MIGRC "enabled", on ? "1" : "0"));
		for (i = 0; i < ARRAY_SIZE(values); i++) {
			EXPECT_EQ(-EINVAL, write_file(MIGRC "enabled", values[i]))
				TH_LOG("\"%s\"", values[i]);
			ASSERT_TRUE(read_file(MIGRC "enabled", text, sizeof(text)));
			EXPECT_STREQ(on ? "1" : "0", text);
		}
	}
}

#define PAGE_FIXTURE refuse
#include "page_fixture.h"

/* move_pages(2) wants page frames at once. */
TEST_F_TIMEOUT(refuse, reason, scene_timeout())
{
	struct scene *scene = &self->scene;

	ASSERT_EQ(0, set(MIGRC_DEBUG "defer_syscalls", "0"));
	while (scene_goes_on(scene)) {
		ASSERT_TRUE(make_read_only(self->area, PAGE, BY_UFFD));
		crew_settle(scene->crew);
		ASSERT_TRUE(move_over(self->area));
		ASSERT_EQ(0, risen("tier_defer_success"))
			TH_LOG("a system call has deferred a page");
		spot_write(scene->crew, 0);
	}
	EXPECT_TRUE(scene_ends(scene, "met_reason", scene->rounds));
}

/* So many address spaces share one set of marks, which has eight, with the test's own one. */
#define NR_OTHERS	8

static bool move_own(void *unused)
{
	static char *own;

	if (!own) {
		own = new_area(PAGE, slow);
		if (!own || !make_read_only(own, PAGE, BY_UFFD))
			return false;
	}
	return move_over(own);
}

static bool all_move(struct other *others[])
{
	int i;

	for (i = 0; i < NR_OTHERS && other_does(others[i]); i++)
		;
	return i == NR_OTHERS;
}

/*
 * The others take all marks.  After a drain the test takes one of these, and the other that has
 * lost it wants one again, while all are pending.
 */
TEST_F_TIMEOUT(refuse, marks, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct other *others[NR_OTHERS];
	int i;

	/* Each system call would drain what the others have deferred. */
	ASSERT_EQ(0, set(FAULTS "defer_isolate", "Y"));
	ASSERT_EQ(0, set(FAULTS "defer_marks", "N"));
	ASSERT_EQ(0, tier_part_turn("defer", false));
	ASSERT_EQ(0, set(MIGRC_DEBUG "one_set", "Y"));
	ASSERT_EQ(0, tier_part_turn("defer", true));
	for (i = 0; i < NR_OTHERS; i++) {
		others[i] = other_start(move_own, NULL);
		ASSERT_NE(NULL, others[i]);
	}
	scene_own(scene);
	while (scene_goes_on(scene)) {
		/* A broken rule would let them take one and the same mark. */
		ASSERT_EQ(0, write_file(FAULTS "defer_marks", "N"));
		scene_drain();
		ASSERT_TRUE(all_move(others));
		ASSERT_TRUE(unset(FAULTS "defer_marks"));
		scene_drain();
		ASSERT_TRUE(make_read_only(self->area, PAGE, BY_UFFD));
		crew_settle(scene->crew);
		ASSERT_TRUE(move_over(self->area));
		ASSERT_TRUE(all_move(others));
		spot_write(scene->crew, 0);
		crew_settle(scene->crew);
	}
	for (i = 0; i < NR_OTHERS; i++)
		other_end(others[i]);
	write_file(MIGRC "enabled", "0");
	unset(MIGRC_DEBUG "one_set");
	unset(FAULTS "defer_isolate");
	EXPECT_TRUE(scene_ends(scene, "met_marks", scene->rounds / 2));
}

/* A window is 256 deferrals, of which so many pages are moved for each write. */
#define WINDOW		256
#define NR_PER_WRITE	8

/* An address space that writes what was deferred is not deferred for ten seconds. */
TEST_F_TIMEOUT(refuse, backoff, scene_timeout())
{
	struct scene *scene = &self->scene;
	long deferred = 0;
	int i;

	ASSERT_TRUE(place(self->area, NR_PER_WRITE * PAGE, slow));
	ASSERT_TRUE(unset(FAULTS "defer_backoff"));
	scene->missing = 1;
	for (i = 0; i < 4 && scene_goes_on(scene);) {
		ASSERT_TRUE(make_read_only(self->area, NR_PER_WRITE * PAGE, BY_UFFD));
		crew_settle(scene->crew);
		deferred = risen("tier_defer_success");
		moves_add(self->area, NR_PER_WRITE, other_node(node_of(self->area)));
		moves_do();
		/* Left alone since the last round: nothing of this one was deferred. */
		if (i)
			EXPECT_EQ(deferred, risen("tier_defer_success"));
		spot_write(scene->crew, 0);
		i += risen("tier_defer_backoff") > 0;
		ASSERT_LT(deferred, 4 * WINDOW) TH_LOG("a process is deferred though it writes");
	}
	scene->missing -= i > 1;
	EXPECT_TRUE(scene_ends(scene, "tier_defer_backoff", 1));
}

TEST_HARNESS_MAIN
