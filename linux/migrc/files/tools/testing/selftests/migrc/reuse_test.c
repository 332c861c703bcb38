// SPDX-License-Identifier: GPL-2.0
/*
 * A read-only page is migrated without a flush, and then written in place: wp_page_reuse().
 * Nobody may go on reading what was there before.
 *
 * Each test must fail while a switch in /sys/kernel/debug/migrc/ is set:
 *
 *   write, both	fault_wp, fault_late
 *   drain	fault_wp
 *   two		fault_early
 *   copied	fault_wp
 *   switching	fault_off
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"

#include "scene.h"

FIXTURE(reuse)
{
	struct scene scene;
	char *area;
};

FIXTURE_VARIANT(reuse)
{
	enum read_only how;
};

FIXTURE_VARIANT_ADD(reuse, fork) { .how = BY_FORK };
FIXTURE_VARIANT_ADD(reuse, soft_dirty) { .how = BY_SOFT_DIRTY };
FIXTURE_VARIANT_ADD(reuse, uffd) { .how = BY_UFFD };
FIXTURE_VARIANT_ADD(reuse, restore) { .how = BY_RESTORE };

#define AREA	(3 * HUGE)

static char *area_on(int nid)
{
	char *area = map_area(AREA);

	return area && place(area, PAGE, nid) && place(area + HUGE, PAGE, nid) ? area : NULL;
}

FIXTURE_SETUP(reuse)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->area = area_on(slow);
	ASSERT_NE(NULL, self->area);
	ASSERT_EQ(0, set(MIGRC "restore_readonly", variant->how == BY_RESTORE ? "1" : "0"));
	/* The same pages are written again and again. */
	if (variant->how == BY_RESTORE)
		ASSERT_EQ(0, set(MIGRC_DEBUG "fault_forget", "1"));
}

FIXTURE_TEARDOWN(reuse)
{
	scene_end(&self->scene);
}

static void write_it(void *arg)
{
	spot_write(arg);
}

/* Read-only, in every reader's TLB, and then somewhere else */
static bool prepare(struct scene *scene, char *page, enum read_only how)
{
	if (!make_read_only(page, PAGE, how))
		return false;
	/* One that toggles is at work. */
	if (how == BY_FORK || how == BY_SOFT_DIRTY)
		scene_own(scene);
	return crew_settle(scene->crew) && move_page(page, other_node(node_of(page)));
}

TEST_F_TIMEOUT(reuse, write, scene_timeout())
{
	struct scene *scene = &self->scene;
	long moved = 0;

	spot_show(scene->crew, 0, self->area);
	while (scene_goes_on(scene)) {
		moved += prepare(scene, self->area, variant->how);
		spot_write(crew_spot(scene->crew, 0));
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_force_wp", scene->rounds / 2));
	EXPECT_GE(moved, scene->rounds / 2);
}

/* Two CPUs write the same page: the one that comes second may find it writable. */
TEST_F_TIMEOUT(reuse, both, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct spot *spot = crew_spot(scene->crew, 0);

	spot_show(scene->crew, 0, self->area);
	while (scene_goes_on(scene)) {
		prepare(scene, self->area, variant->how);
		worker_run(scene->helper, write_it, spot);
		random_delay(200);
		/* Another word, but the same PTE */
		word_write(self->area + 64, scene->rounds);
		worker_wait(scene->helper);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_force_wp", scene->rounds / 2));
}

/*
 * Two CPUs write two pages, whose PTEs have two locks.  The one that comes second must not
 * take the flush of the other for done while it is under way.
 */
TEST_F_TIMEOUT(reuse, two, scene_timeout())
{
	char *pages[2] = { self->area, self->area + HUGE };
	struct scene *scene = &self->scene;
	int i;

	for (i = 0; i < 2; i++)
		spot_show(scene->crew, i, pages[i]);
	while (scene_goes_on(scene)) {
		bool ok = true;

		for (i = 0; i < 2; i++)
			ok &= make_read_only(pages[i], PAGE, variant->how);
		scene_own(scene);
		crew_settle(scene->crew);
		for (i = 0; i < 2; i++)
			ok &= move_page(pages[i], other_node(node_of(pages[i])));
		if (!ok)
			continue;
		worker_run(scene->helper, write_it, crew_spot(scene->crew, 1));
		random_delay(100);
		spot_write(crew_spot(scene->crew, 0));
		worker_wait(scene->helper);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_force_wp", scene->rounds / 2));
}

static void drain_it(void *arg)
{
	(void)arg;
	scene_drain();
}

/* The write meets a drain, which flushes as well but not for this write. */
TEST_F_TIMEOUT(reuse, drain, scene_timeout())
{
	struct scene *scene = &self->scene;

	spot_show(scene->crew, 0, self->area);
	while (scene_goes_on(scene)) {
		prepare(scene, self->area, variant->how);
		worker_run(scene->helper, drain_it, NULL);
		random_delay(100);
		spot_write(crew_spot(scene->crew, 0));
		worker_wait(scene->helper);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_debug", 1));
}

FIXTURE(shared)
{
	struct scene scene;
	char *area;
};

FIXTURE_SETUP(shared)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->area = area_on(slow);
	ASSERT_NE(NULL, self->area);
}

FIXTURE_TEARDOWN(shared)
{
	scene_end(&self->scene);
}

/*
 * A child that writes the page once it may: it gets a copy, and stays.  It is on the helper's CPU,
 * so that it has a TLB that would have to be flushed, too.
 */
enum { FORKED, READS, WRITES, HAS_WRITTEN };

static pid_t copier(char *page, atomic_int *step)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(1);
	word_read(page);
	atomic_store(step, READS);
	while (atomic_load(step) != WRITES)
		usleep(100);
	word_write(page + 64, 1);
	atomic_store(step, HAS_WRITTEN);
	for (;;)
		pause();
}

static bool has_come_to(atomic_int *step, int which)
{
	double end = now() + 5;

	while (atomic_load(step) != which && now() < end)
		usleep(100);
	return atomic_load(step) == which;
}

/*
 * Two processes map the page while it moves.  One of them writes it first and gets a copy, for
 * which nobody but himself is flushed; the page is the other's own then, who must be flushed when
 * he writes it.
 */
TEST_F_TIMEOUT(shared, copied, scene_timeout())
{
	atomic_int *step = shared_alloc(sizeof(*step));
	struct scene *scene = &self->scene;
	long moved = 0;
	int status;

	ASSERT_NE(NULL, step);
	spot_show(scene->crew, 0, self->area);
	while (scene_goes_on(scene)) {
		unsigned long pfn;
		pid_t pid;

		atomic_store(step, FORKED);
		pid = copier(self->area, step);
		ASSERT_GT(pid, 0);
		EXPECT_TRUE(has_come_to(step, READS));
		scene_own(scene);
		crew_settle(scene->crew);
		if (move_page(self->area, other_node(node_of(self->area)))) {
			pfn = pfn_of(self->area);
			atomic_store(step, WRITES);
			EXPECT_TRUE(has_come_to(step, HAS_WRITTEN));
			spot_write(crew_spot(scene->crew, 0));
			crew_settle(scene->crew);
			/* Not a copy: that would have been flushed for anyway. */
			moved += pfn_of(self->area) == pfn;
		}
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_force_wp", scene->rounds / 2));
	EXPECT_GE(moved, scene->rounds / 2);
	shared_free(step, sizeof(*step));
}

/*
 * Each switching patches code that other CPUs run.  Emulators may get that wrong (QEMU's TCG
 * does now and then), and it is not what is tested here: not often.
 */
#define MAX_SWITCHED	10

FIXTURE(switching)
{
	struct scene scene;
	char *area;
};

FIXTURE_SETUP(switching)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->area = area_on(slow);
	ASSERT_NE(NULL, self->area);
	spot_show(self->scene.crew, 0, self->area);
}

FIXTURE_TEARDOWN(switching)
{
	scene_end(&self->scene);
}

/* After MIGRC has been switched off nobody looks for what was deferred. */
TEST_F_TIMEOUT(switching, off, scene_timeout())
{
	struct scene *scene = &self->scene;

	while (scene->rounds < MAX_SWITCHED && scene_goes_on(scene)) {
		ASSERT_EQ(0, write_file(MIGRC "enabled", "1"));
		prepare(scene, self->area, BY_UFFD);
		ASSERT_EQ(0, write_file(MIGRC "enabled", "0"));
		spot_write(crew_spot(scene->crew, 0));
		crew_settle(scene->crew);
		if (!crew_clean(scene->crew))
			break;
		ASSERT_EQ(0, counter("migrc_pending"));
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_off", scene->rounds / 2));
}

/* Long enough that it is often switched off before a write, and still is afterwards */
#define MAX_UNWRITTEN_US	200000
#define MAX_ON_US		300000
#define MAX_OFF_US		400000

static void toggle(void *arg)
{
	atomic_bool *stop = arg;
	int i;

	for (i = 0; i < MAX_SWITCHED && !atomic_load(stop); i++) {
		random_delay(MAX_ON_US);
		write_file(MIGRC "enabled", "0");
		random_delay(MAX_OFF_US);
		write_file(MIGRC "enabled", "1");
	}
}

/* Switched to and fro at any time */
TEST_F_TIMEOUT(switching, toggle, scene_timeout())
{
	struct scene *scene = &self->scene;
	atomic_bool *stop = shared_alloc(sizeof(*stop));

	ASSERT_NE(NULL, stop);
	worker_run(scene->helper, toggle, stop);
	scene->missing = 1;
	while (scene_goes_on(scene)) {
		prepare(scene, self->area, BY_UFFD);
		random_delay(MAX_UNWRITTEN_US);
		spot_write(crew_spot(scene->crew, 0));
		crew_settle(scene->crew);
		scene->missing = counter_since(&scene->before, "migrc_drain_off") <= 0;
	}
	atomic_store(stop, true);
	worker_wait(scene->helper);
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", 1));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_off", 1));
	shared_free(stop, sizeof(*stop));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
