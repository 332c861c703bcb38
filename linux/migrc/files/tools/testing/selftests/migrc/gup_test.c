// SPDX-License-Identifier: GPL-2.0
/*
 * Pages without write permission are migrated, and then written by the kernel, mostly with no
 * change of any PTE.
 *
 *   gup	for somebody who may (FOLL_FORCE): flushed before; must fail while fault_gup is
 *		set in /sys/kernel/debug/migrc/
 *   direct	for a file that is read with O_DIRECT: the page is made writable first; must fail
 *		while fault_wp is set
 *   file	a page of a file, by write(2): not deferred; must fail while fault_file is set
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"

#include "loop.h"
#include "scene.h"

FIXTURE(gup)
{
	struct scene scene;
	char *area;
};

FIXTURE_SETUP(gup)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->area = map_area(HUGE);
	ASSERT_NE(NULL, self->area);
	ASSERT_TRUE(place(self->area, PAGE, slow));
	spot_show(self->scene.crew, 0, self->area);
	ASSERT_TRUE(make_read_only(self->area, PAGE, BY_PROTECTION));
}

FIXTURE_TEARDOWN(gup)
{
	scene_end(&self->scene);
}

TEST_F_TIMEOUT(gup, mem, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct spot *spot = crew_spot(scene->crew, 0);
	int fd = open("/proc/self/mem", O_RDWR);
	uint64_t next;

	ASSERT_GE(fd, 0);
	while (scene_goes_on(scene)) {
		crew_settle(scene->crew);
		move_page(self->area, other_node(node_of(self->area)));
		next = spot_next(spot);
		ASSERT_EQ(sizeof(next), pwrite(fd, &next, sizeof(next), (uintptr_t)self->area));
		spot_has_next(spot);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_force_gup", scene->rounds / 2));
	EXPECT_TRUE(!crew_clean(scene->crew) || spot_intact(spot, self->area));
}

/* What the debugger and the test tell each other */
struct talk {
	atomic_int ask;		/* 1: write, 2: end */
	atomic_int done;
	atomic_int tid;
	atomic_bool end;
	struct spot *spot;
	char *page;
};

static void be_debugged(void *arg)
{
	struct talk *talk = arg;

	atomic_store(&talk->tid, syscall(__NR_gettid));
	while (!atomic_load(&talk->end))
		usleep(1000);
}

/* A process that writes the memory of another one's thread when it is told to */
static void debugger(struct talk *talk)
{
	int tid = atomic_load(&talk->tid);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ptrace(PTRACE_ATTACH, tid, 0, 0) || waitpid(tid, NULL, __WALL) != tid)
		_exit(1);
	for (;;) {
		int ask = atomic_exchange(&talk->ask, 0);

		if (ask == 2)
			break;
		if (!ask) {
			usleep(50);
			continue;
		}
		if (ptrace(PTRACE_POKEDATA, tid, talk->page, spot_next(talk->spot)))
			_exit(2);
		spot_has_next(talk->spot);
		atomic_store(&talk->done, 1);
	}
	ptrace(PTRACE_DETACH, tid, 0, 0);
	_exit(0);
}

TEST_F_TIMEOUT(gup, ptrace, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct talk *talk = shared_alloc(sizeof(*talk));
	int status;
	pid_t pid;

	ASSERT_NE(NULL, talk);
	talk->spot = crew_spot(scene->crew, 0);
	talk->page = self->area;
	/* If it had the page, too, the first write would copy it. */
	ASSERT_EQ(0, madvise(self->area, PAGE, MADV_DONTFORK));
	worker_run(scene->helper, be_debugged, talk);
	while (!atomic_load(&talk->tid))
		usleep(100);
	pid = fork();
	if (!pid)
		debugger(talk);
	ASSERT_GT(pid, 0);
	while (scene_goes_on(scene) && !waitpid(pid, &status, WNOHANG)) {
		crew_settle(scene->crew);
		move_page(self->area, other_node(node_of(self->area)));
		atomic_store(&talk->done, 0);
		atomic_store(&talk->ask, 1);
		while (!atomic_load(&talk->done) && !waitpid(pid, &status, WNOHANG))
			usleep(50);
		crew_settle(scene->crew);
	}
	atomic_store(&talk->ask, 2);
	waitpid(pid, &status, 0);
	atomic_store(&talk->end, true);
	worker_wait(scene->helper);
	EXPECT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_force_gup", scene->rounds / 2));
	shared_free(talk, sizeof(*talk));
}

FIXTURE(direct)
{
	struct scene scene;
	struct loop loop;
	char *area, *next;
};

FIXTURE_SETUP(direct)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	if (!loop_create(&self->loop, HUGE, false))
		SKIP(return, "no loop devices");
	self->area = map_area(HUGE);
	self->next = map_area(HUGE);
	ASSERT_TRUE(self->area && self->next && place(self->area, PAGE, slow));
	memset(self->next, 0, PAGE);
	spot_show(self->scene.crew, 0, self->area);
}

FIXTURE_TEARDOWN(direct)
{
	scene_end(&self->scene);
	loop_destroy(&self->loop);
}

TEST_F_TIMEOUT(direct, read, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct spot *spot = crew_spot(scene->crew, 0);

	while (scene_goes_on(scene)) {
		word_write(self->next, spot_next(spot));
		ASSERT_EQ((ssize_t)PAGE, pwrite(self->loop.fd, self->next, PAGE, 0));
		ASSERT_TRUE(make_read_only(self->area, PAGE, BY_UFFD));
		crew_settle(scene->crew);
		ASSERT_TRUE(move_page(self->area, other_node(node_of(self->area))));
		ASSERT_EQ((ssize_t)PAGE, pread(self->loop.fd, self->area, PAGE, 0));
		spot_has_next(spot);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_force_wp", scene->rounds / 2));
	EXPECT_TRUE(!crew_clean(scene->crew) || spot_intact(spot, self->area));
}

TEST_F_TIMEOUT(direct, write, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct spot *spot = crew_spot(scene->crew, 0);
	bool same = true;

	while (scene_goes_on(scene)) {
		ASSERT_TRUE(make_read_only(self->area, PAGE, BY_FORK));
		scene_own(scene);
		crew_settle(scene->crew);
		ASSERT_TRUE(move_page(self->area, other_node(node_of(self->area))));
		/* Readers have the source still, and the file gets its copy. */
		ASSERT_EQ((ssize_t)PAGE, pwrite(self->loop.fd, self->area, PAGE, 0));
		crew_settle(scene->crew);
		ASSERT_EQ((ssize_t)PAGE, pread(self->loop.fd, self->next, PAGE, 0));
		same &= !memcmp(self->next, self->area, PAGE);
		spot_write(spot);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(same);
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(!crew_clean(scene->crew) || spot_intact(spot, self->area));
}

FIXTURE(file)
{
	struct scene scene;
	char *area;
	int fd;
};

FIXTURE_SETUP(file)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->fd = memfd_create("page", 0);
	ASSERT_EQ(0, ftruncate(self->fd, PAGE));
	self->area = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->area);
	*self->area = 0;
	ASSERT_TRUE(move_page(self->area, slow));
	spot_show(self->scene.crew, 0, self->area);
	ASSERT_EQ(0, mprotect(self->area, PAGE, PROT_READ));
}

FIXTURE_TEARDOWN(file)
{
	scene_end(&self->scene);
}

TEST_F_TIMEOUT(file, write, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct spot *spot = crew_spot(scene->crew, 0);
	uint64_t next;

	while (scene_goes_on(scene)) {
		crew_settle(scene->crew);
		move_page(self->area, other_node(node_of(self->area)));
		next = spot_next(spot);
		ASSERT_EQ(sizeof(next), pwrite(self->fd, &next, sizeof(next), 0));
		spot_has_next(spot);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(!crew_clean(scene->crew) ||
		    scene_rose(scene, "migrc_skip_file", scene->rounds / 2));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
