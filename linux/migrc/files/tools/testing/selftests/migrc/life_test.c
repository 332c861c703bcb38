// SPDX-License-Identifier: GPL-2.0
/*
 * The page frame that a page was migrated from must not be used again while a TLB still has
 * it.  So after each migration its frame is asked for, and filled with something else.
 *
 * Each test must fail while a switch in /sys/kernel/debug/migrc/ is set:
 *
 *   keep	fault_release
 *   drain	fault_unmasked
 *   mixed	fault_mixed
 *   along	fault_along
 */
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>

#include "../kselftest_harness.h"

#include "scene.h"

#define RUBBISH		0x5c5c5c5c5c5c5c5cULL
/* More than a per-CPU list of free pages gives back out of turn */
#define NR_RUBBISH	256UL

struct life {
	struct scene scene;
	char *area, *rubbish;
	unsigned long again;	/* so often the frame was found among the new ones */
};

FIXTURE(life)
{
	struct life data;
};

FIXTURE_SETUP(life)
{
	const char *lacks = scene_begin(&self->data.scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->data.area = map_area(HUGE);
	ASSERT_TRUE(self->data.area && place(self->data.area, PAGE, slow));
	spot_show(self->data.scene.crew, 0, self->data.area);
}

FIXTURE_TEARDOWN(life)
{
	scene_end(&self->data.scene);
}

/*
 * Take pages of the node, and fill them; drop_rubbish() gives them back, which flushes.  Was
 * the frame among them?
 */
static bool scribble(struct life *self, int nid, uint64_t pfn)
{
	unsigned long mask = 1UL << nid;
	bool found = false;
	size_t i, k;
	char *p;

	p = mmap(NULL, NR_RUBBISH * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0);
	self->rubbish = p == MAP_FAILED ? NULL : p;
	if (!self->rubbish || syscall(__NR_mbind, p, NR_RUBBISH * PAGE, MPOL_BIND, &mask, 65UL, 0))
		return false;
	for (i = 0; i < NR_RUBBISH; i++) {
		for (k = 0; k < PAGE; k += sizeof(uint64_t))
			*(uint64_t *)(p + i * PAGE + k) = RUBBISH;
		found |= pfn_of(p + i * PAGE) == pfn;
	}
	self->again += found;
	return found;
}

static void drop_rubbish(struct life *self)
{
	if (self->rubbish)
		munmap(self->rubbish, NR_RUBBISH * PAGE);
	self->rubbish = NULL;
}

/* Read-only, moved without a flush; where from? */
static int move_away(struct life *self, uint64_t *pfn)
{
	int nid = node_of(self->area);

	*pfn = pfn_of(self->area);
	if (nid < 0 || !make_read_only(self->area, PAGE, BY_UFFD) ||
	    !crew_settle(self->scene.crew) || !move_page(self->area, other_node(nid)))
		return -1;
	return nid;
}

/* Nobody asks for it back: it must stay away from the allocator. */
TEST_F_TIMEOUT(life, keep, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	uint64_t pfn;
	int nid;

	while (scene_goes_on(scene)) {
		nid = move_away(&self->data, &pfn);
		ASSERT_GE(nid, 0);
		EXPECT_FALSE(scribble(&self->data, nid, pfn))
			TH_LOG("frame %#llx is used again before it was flushed",
			       (unsigned long long)pfn);
		crew_settle(scene->crew);
		drop_rubbish(&self->data);
		scene_drain();
		spot_write(crew_spot(scene->crew, 0));
		if (_metadata->exit_code)
			break;
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_debug", scene->rounds / 2));
}

/* It is given back, but not before the flush. */
TEST_F_TIMEOUT(life, drain, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	uint64_t pfn;
	int nid;

	while (scene_goes_on(scene)) {
		nid = move_away(&self->data, &pfn);
		ASSERT_GE(nid, 0);
		scene_drain();
		scribble(&self->data, nid, pfn);
		crew_settle(scene->crew);
		drop_rubbish(&self->data);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_debug", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_flush", scene->rounds / 2));
	if (crew_clean(scene->crew))
		EXPECT_GE(self->data.again, 1)
			TH_LOG("no frame was used again: nothing was tested");
}

/*
 * A page of two processes, of which one flushes something all the time, so that its PTE is
 * flushed at once and that of the other is not.
 */
#define BUSY	(32UL << 20)

static void flush_always(atomic_bool *ready)
{
	char *area = map_area(BUSY);
	int fd = uffd_open();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(1);
	if (!area || madvise(area, BUSY, MADV_POPULATE_READ) || fd < 0 ||
	    !uffd_register(fd, area, BUSY, UFFDIO_REGISTER_MODE_WP))
		_exit(1);
	atomic_store(ready, true);
	while (uffd_protect(fd, area, BUSY))
		;
	_exit(2);
}

TEST_F_TIMEOUT(life, mixed, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	atomic_bool *ready = shared_alloc(sizeof(*ready));
	int nid = slow, status;
	uint64_t pfn;
	pid_t pid;

	ASSERT_NE(NULL, ready);
	pid = fork();
	if (!pid)
		flush_always(ready);
	ASSERT_GT(pid, 0);
	while (!atomic_load(ready) && !waitpid(pid, &status, WNOHANG))
		usleep(1000);
	ASSERT_TRUE(atomic_load(ready));
	while (scene_goes_on(scene)) {
		crew_settle(scene->crew);
		pfn = pfn_of(self->data.area);
		if (!move_page(self->data.area, other_node(nid)))
			continue;
		scribble(&self->data, nid, pfn);
		crew_settle(scene->crew);
		drop_rubbish(&self->data);
		nid = other_node(nid);
	}
	ASSERT_EQ(0, waitpid(pid, &status, WNOHANG));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_skip_pending", 1));
	shared_free(ready, sizeof(*ready));
}

/*
 * Flushes that another process owes for its own pages do not go to our CPUs: what is kept
 * here must not be given back by them.
 */
static void *on_first_cpu(void *unused)
{
	pin(0);
	for (;;)
		relax();
	return NULL;
}

/* In a process of its own, on two CPUs: a page on @slow */
static char *own_page(char *area)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(1);
	/* With one CPU only, migration would not owe a flush but do it for each page. */
	if (pthread_create(&thread, NULL, on_first_cpu, NULL))
		_exit(1);
	munmap(area, HUGE);
	area = map_area(HUGE);
	if (!area || !place(area, PAGE, slow))
		_exit(1);
	return area;
}

static void move_always(char *area, atomic_bool *ready)
{
	int nid = slow;

	area = own_page(area);
	atomic_store(ready, true);
	for (;;) {
		word_write(area, 1);
		nid = other_node(nid);
		if (!move_page(area, nid))
			nid = node_of(area);
	}
}

TEST_F_TIMEOUT(life, along, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	atomic_bool *ready = shared_alloc(sizeof(*ready));
	uint64_t pfn;
	int nid = slow, status;
	pid_t pid;

	ASSERT_NE(NULL, ready);
	/* What drains for move_pages(2) would do so for everybody. */
	ASSERT_EQ(0, set(MIGRC_DEBUG "fault_isolate", "1"));
	pid = fork();
	if (!pid)
		move_always(self->data.area, ready);
	ASSERT_GT(pid, 0);
	while (!atomic_load(ready) && !waitpid(pid, &status, WNOHANG))
		usleep(1000);
	ASSERT_TRUE(atomic_load(ready));
	scene_own(scene);
	while (scene_goes_on(scene)) {
		nid = move_away(&self->data, &pfn);
		if (nid < 0)
			break;
		/* What is given back is overwritten before: see mm/migrc/debug.c. */
		usleep(20000);
		crew_settle(scene->crew);
		scene_drain();
		spot_write(crew_spot(scene->crew, 0));
	}
	ASSERT_EQ(0, waitpid(pid, &status, WNOHANG));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, set(MIGRC_DEBUG "fault_isolate", "0"));
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_GE(nid, 0);
	EXPECT_TRUE(scene_rose(scene, "migrc_skip_write", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_debug", scene->rounds / 2));
	shared_free(ready, sizeof(*ready));
}

/* What the process itself owes goes to all its CPUs, so that nobody has to flush again. */
TEST_F_TIMEOUT(life, own, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	struct moves *moves = calloc(1, sizeof(*moves));
	char *area = self->data.area, *other = map_area(HUGE);
	int nid = slow;

	ASSERT_TRUE(moves && other && place(other, PAGE, fast));
	while (scene_goes_on(scene)) {
		word_write(other, 1);
		ASSERT_TRUE(make_read_only(area, PAGE, BY_UFFD));
		/* Two batches, as they go to two nodes, and no drain between */
		moves_clear(moves);
		moves_add(moves, area, 1, other_node(nid));
		moves_add(moves, other, 1, nid);
		ASSERT_EQ(2UL, moves_do(moves));
		nid = other_node(nid);
		crew_settle(scene->crew);
		scene_drain();
		spot_write(crew_spot(scene->crew, 0));
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_along", scene->rounds / 2));
	free(moves);
	unmap_area(other, HUGE);
}

/* A process that leaves a page behind and is gone: nobody flushes, and nobody need. */
static void leave_behind(char *area)
{
	area = own_page(area);
	if (!make_read_only(area, PAGE, BY_UFFD))
		_exit(2);
	_exit(move_page(area, fast) ? 0 : 3);
}

TEST_F_TIMEOUT(life, exit, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	int status;
	pid_t pid;

	while (scene_goes_on(scene)) {
		pid = fork();
		if (!pid)
			leave_behind(self->data.area);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFEXITED(status));
		ASSERT_EQ(0, WEXITSTATUS(status));
		scene_drain();
		ASSERT_EQ(0, counter("migrc_pending"));
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_debug", scene->rounds / 2));
}

/* A CPU that has the entry goes offline, and comes back after the frame was given away. */
#define CPU	"/sys/devices/system/cpu/cpu1/online"

struct look {
	struct scene *scene;
	bool ok;
};

static void look_on_cpu(void *arg)
{
	struct look *look = arg;
	struct crew *crew = look->scene->crew;
	struct finding finding = { .cpu = 1 };

	look->ok = false;
	if (!pin(1))
		return;
	look->ok = spot_judge(crew_spot(crew, 0), &finding);
	if (!look->ok)
		crew_report(crew, &finding);
}

static bool looks(struct look *look)
{
	worker_run(look->scene->helper, look_on_cpu, look);
	worker_wait(look->scene->helper);
	return look->ok;
}

TEST_F_TIMEOUT(life, cpu_offline, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	struct look look = { .scene = scene };
	uint64_t pfn;
	int nid;

	if (!exists(CPU))
		SKIP(return, "no " CPU " (CONFIG_HOTPLUG_CPU)");
	while (scene_goes_on(scene)) {
		ASSERT_TRUE(make_read_only(self->data.area, PAGE, BY_UFFD));
		ASSERT_TRUE(looks(&look));
		nid = move_away(&self->data, &pfn);
		ASSERT_GE(nid, 0);
		ASSERT_EQ(0, set(CPU, "0"));
		scene_drain();
		EXPECT_EQ(0, counter("migrc_pending"));
		scribble(&self->data, nid, pfn);
		ASSERT_EQ(0, set(CPU, "1"));
		EXPECT_TRUE(looks(&look));
		drop_rubbish(&self->data);
		spot_write(crew_spot(scene->crew, 0));
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_rose(scene, "migrc_drain_debug", scene->rounds / 2));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
