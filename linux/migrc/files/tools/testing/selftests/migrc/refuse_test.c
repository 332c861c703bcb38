// SPDX-License-Identifier: GPL-2.0
/*
 * Read-only pages that are flushed for all the same: because of who migrates them, of what they
 * are part of, or of what another process has deferred.
 *
 * Each test must fail while a switch in /sys/kernel/debug/migrc/ is set:
 *
 *   direct	fault_direct
 *   large	fault_large
 *   collision	fault_collision
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"

#include "group.h"
#include "scene.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define NR_PAGES	1024UL
#define LEN		(NR_PAGES * PAGE)

FIXTURE(direct)
{
	struct scene scene;
	struct group group;
	char *area;
};

FIXTURE_SETUP(direct)
{
	/* One that reads nothing: without it nobody else had to be flushed. */
	const char *lacks = scene_begin(&self->scene, 1);

	if (lacks)
		SKIP(return, "%s", lacks);
	ASSERT_EQ(0, set(MIGRC_DEBUG "defer_syscalls", "0"));
	if (set(DEMOTION, "1"))
		SKIP(return, "no demotion");
	if (!group_enter(&self->group))
		SKIP(return, "no memory control groups (v2)");
	self->area = map_area(LEN);
	ASSERT_TRUE(self->area && place(self->area, LEN, fast));
	group_leave(&self->group);
}

FIXTURE_TEARDOWN(direct)
{
	scene_end(&self->scene);
	unmap_area(self->area, LEN);
	group_destroy(&self->group);
}

/* Who writes to memory.reclaim demotes pages himself, as an allocation would. */
TEST_F_TIMEOUT(direct, demote, scene_timeout())
{
	struct scene *scene = &self->scene;
	long demoted = 0, deferred = 0;

	scene->missing = 1;
	while (!deferred && scene_goes_on(scene)) {
		long direct, kswapd, before;

		ASSERT_TRUE(place(self->area, LEN, fast));
		ASSERT_TRUE(make_read_only(self->area, LEN, BY_UFFD));
		/* Nobody has read it. */
		ASSERT_EQ(0, write_file("/proc/self/clear_refs", "1"));
		crew_settle(scene->crew);
		direct = counter("pgdemote_direct");
		kswapd = counter("pgdemote_kswapd");
		before = counter("migrc_deferred");
		group_reclaim(&self->group, LEN / 2);
		demoted += counter("pgdemote_direct") - direct;
		/* It may defer. */
		if (counter("pgdemote_kswapd") == kswapd)
			deferred = counter("migrc_deferred") - before;
		scene->missing = demoted <= 0;
	}
	EXPECT_EQ(0, deferred)
		TH_LOG("direct reclaim has deferred %ld of %ld pages", deferred, demoted);
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_met(scene));
	if (!deferred)
		EXPECT_TRUE(scene_rose(scene, "migrc_skip_limit", 1));
}

#define NR_LARGE	16UL
#define LARGE		(NR_LARGE * PAGE)
#define LARGE_ENABLED	"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"

FIXTURE(large)
{
	struct scene scene;
};

/* Frames in a row, the first of which is where a folio of this size begins */
static bool is_large(const char *p)
{
	uint64_t pfn = pfn_of(p);
	unsigned long i;

	for (i = 1; i < NR_LARGE; i++)
		if (pfn_of(p + i * PAGE) != pfn + i)
			return false;
	return pfn && pfn % NR_LARGE == 0;
}

/*
 * A new one each time: the base kernel takes a folio whose PTEs it has removed one by one for
 * partially mapped, also after it has moved as a whole, and splits it when it moves again.
 */
static char *large_on(int nid)
{
	char *area = map_area(HUGE);

	if (area && !madvise(area, LARGE, MADV_HUGEPAGE) && place(area, LARGE, nid) &&
	    is_large(area))
		return area;
	unmap_area(area, HUGE);
	return NULL;
}

FIXTURE_SETUP(large)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	if (set(LARGE_ENABLED, "madvise"))
		SKIP(return, "no folios of 64 KiB");
}

FIXTURE_TEARDOWN(large)
{
	scene_end(&self->scene);
}

/* Its PTEs are all read-only when it moves, and then it is written. */
TEST_F_TIMEOUT(large, write, scene_timeout())
{
	struct scene *scene = &self->scene;
	unsigned long moved = 0;
	long deferred = 0;

	while (deferred <= 0 && scene_goes_on(scene)) {
		int nid = scene->rounds % 2 ? slow : fast;
		char *area = large_on(nid);

		ASSERT_NE(NULL, area);
		spot_show(scene->crew, 0, area);
		ASSERT_TRUE(make_read_only(area, LARGE, BY_UFFD));
		crew_settle(scene->crew);
		moved += move_page(area, other_node(nid));
		deferred = counter_since(&scene->before, "migrc_deferred");
		spot_write(crew_spot(scene->crew, 0));
		crew_settle(scene->crew);
		ASSERT_TRUE(is_large(area));
		spot_hide(scene->crew, 0);
		unmap_area(area, HUGE);
	}
	EXPECT_EQ(0, deferred) TH_LOG("%ld large folios were deferred", deferred);
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_GE(moved, scene->rounds / 2);
	if (!deferred)
		EXPECT_TRUE(scene_rose(scene, "migrc_skip_large", scene->rounds / 2));
}

FIXTURE(collision)
{
	struct scene scene;
	char *area;
};

FIXTURE_SETUP(collision)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	/* Only while nothing is deferred */
	ASSERT_EQ(0, write_file(MIGRC "enabled", "0"));
	ASSERT_EQ(0, set(MIGRC_DEBUG "one_mark", "1"));
	ASSERT_EQ(0, write_file(MIGRC "enabled", "1"));
	self->area = map_area(HUGE);
	ASSERT_TRUE(self->area && place(self->area, PAGE, slow));
	spot_show(self->scene.crew, 0, self->area);
}

FIXTURE_TEARDOWN(collision)
{
	scene_end(&self->scene);
	write_file(MIGRC_DEBUG "one_mark", "0");
}

/* What the test and the other process tell each other */
struct other {
	atomic_bool runs;	/* on a second CPU */
	atomic_bool ready;	/* to migrate, */
	atomic_bool go;		/* and may do so; */
	atomic_bool done;	/* has done it, */
	atomic_bool moved;	/* and it worked */
};

static void *run_on(void *arg)
{
	struct other *other = arg;

	pin(1);
	atomic_store(&other->runs, true);
	for (;;)
		relax();
	return NULL;
}

/*
 * Shares the page until it has moved, with a page of its own after it: whoever got the mark for
 * the first page, this process would have it in the end.  By one system call, as each drains
 * what there is.
 */
static void move_both(struct other *other, char *shared)
{
	struct moves *moves = calloc(1, sizeof(*moves));
	int from = node_of(shared);
	pthread_t thread;
	char *own;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	own = map_area(HUGE);
	/* With one CPU only, there would be nothing to defer. */
	if (!moves || !own || from < 0 || pthread_create(&thread, NULL, run_on, other) ||
	    !place(own, PAGE, from) || !make_read_only(own, PAGE, BY_UFFD))
		_exit(1);
	moves_add(moves, shared, 1, other_node(from));
	moves_add(moves, own, 1, other_node(from));
	while (!atomic_load(&other->runs))
		usleep(50);
	atomic_store(&other->ready, true);
	while (!atomic_load(&other->go))
		usleep(50);
	atomic_store(&other->moved, moves_do(moves) == 2);
	/* The test is to write it in place. */
	madvise(shared, PAGE, MADV_DONTNEED);
	atomic_store(&other->done, true);
	_exit(0);
}

static bool wait_for(atomic_bool *flag, pid_t pid)
{
	int status;

	while (!atomic_load(flag)) {
		if (waitpid(pid, &status, WNOHANG))
			return atomic_load(flag);
		usleep(50);
	}
	return true;
}

TEST_F_TIMEOUT(collision, write, scene_timeout())
{
	struct other *other = shared_alloc(sizeof(*other));
	struct scene *scene = &self->scene;
	unsigned long moved = 0;
	pid_t pid;

	ASSERT_NE(NULL, other);
	while (scene_goes_on(scene)) {
		memset(other, 0, sizeof(*other));
		pid = fork();
		if (!pid)
			move_both(other, self->area);
		ASSERT_GT(pid, 0);
		ASSERT_TRUE(wait_for(&other->ready, pid));
		scene_own(scene);
		crew_settle(scene->crew);
		atomic_store(&other->go, true);
		ASSERT_TRUE(wait_for(&other->done, pid));
		moved += atomic_load(&other->moved);
		spot_write(crew_spot(scene->crew, 0));
		crew_settle(scene->crew);
		waitpid(pid, NULL, 0);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_GE(moved, scene->rounds / 2);
	EXPECT_TRUE(scene_rose(scene, "migrc_skip_collision", scene->rounds / 2));
	shared_free(other, sizeof(*other));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
