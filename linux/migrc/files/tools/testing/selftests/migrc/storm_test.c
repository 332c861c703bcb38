// SPDX-License-Identifier: GPL-2.0
/*
 * Everything at once: pages that are read, pages that are written by several, and two CPUs
 * that do to them whatever may happen to memory, in an order that depends on chance.
 *
 * Must fail while fault_wp is set in /sys/kernel/debug/migrc/.
 */
#include <sys/swap.h>

#include "../kselftest_harness.h"

#include "loop.h"
#include "scene.h"
#include "writers.h"

#define NR_SPOTS	8
#define NR_WRITTEN	4
#define NR_PAGES	32UL
#define LEN		(NR_PAGES * PAGE)
#define SWAP_SIZE	(32UL << 20)

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

struct storm {
	struct scene scene;
	struct writers *writers;
	struct moves moves[2];	/* of the two CPUs */
	struct loop swap;
	bool swap_on;
	int switched;
	char *area;
	char *spots;	/* the pages in the middle; those of the writers follow */
	atomic_bool stop;
};

FIXTURE(storm)
{
	struct storm *storm;
};

FIXTURE_SETUP(storm)
{
	struct storm *storm = shared_alloc(sizeof(*storm));
	char *pages[NR_WRITTEN];
	int i;

	ASSERT_NE(NULL, storm);
	self->storm = storm;
	const char *lacks = scene_begin(&storm->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	if (loop_create(&storm->swap, SWAP_SIZE, true))
		storm->swap_on = !swapon(storm->swap.path, SWAP_FLAG_PREFER | 32767);
	storm->area = map_area(HUGE);
	ASSERT_TRUE(storm->area && place(storm->area, LEN, slow));
	/* That is where ranges which depend on chance overlap most. */
	storm->spots = storm->area + (NR_PAGES - NR_SPOTS) / 2 * PAGE;
	for (i = 0; i < NR_SPOTS; i++)
		spot_show(storm->scene.crew, i, storm->spots + i * PAGE);
	for (i = 0; i < NR_WRITTEN; i++)
		pages[i] = storm->spots + (NR_SPOTS + i) * PAGE;
	/* On the readers' CPUs */
	storm->writers = writers_start(2, pages, NR_WRITTEN);
	ASSERT_NE(NULL, storm->writers);
}

FIXTURE_TEARDOWN(storm)
{
	struct storm *storm = self->storm;

	scene_end(&storm->scene);
	unmap_area(storm->area, HUGE);
	if (storm->swap_on)
		swapoff(storm->swap.path);
	loop_destroy(&storm->swap);
}

/* A range of pages that depends on chance */
static char *some(struct storm *storm, unsigned long *nr)
{
	unsigned long first = random_number() % NR_PAGES;

	*nr = 1 + random_number() % (NR_PAGES - first);
	return storm->area + first * PAGE;
}

static void move_range(struct moves *moves, char *p, unsigned long nr)
{
	moves_clear(moves);
	moves_add(moves, p, nr, random_number() % 2 ? fast : slow);
	/* To and fro in one system call: nothing is drained in between. */
	if (random_number() % 4 == 0)
		moves_add(moves, p, nr, random_number() % 2 ? fast : slow);
	moves_do(moves);
}

static void move_some(struct storm *storm)
{
	unsigned long nr;
	char *p = some(storm, &nr);

	move_range(&storm->moves[0], p, nr);
}

static void page_out_some(struct storm *storm)
{
	unsigned long nr;
	char *p = some(storm, &nr);

	if (storm->swap_on && random_number() % 4 == 0)
		madvise(p, nr * PAGE, MADV_PAGEOUT);
}

static void protect_some(struct storm *storm)
{
	unsigned long nr;
	char *p = some(storm, &nr);

	make_read_only(p, nr * PAGE, BY_UFFD);
}

static void protect_all(struct storm *storm)
{
	(void)storm;
	make_read_only(NULL, 0, BY_SOFT_DIRTY);
}

static void drain(struct storm *storm)
{
	(void)storm;
	if (random_number() % 4 == 0)
		scene_drain();
}

static void toggle(struct storm *storm)
{
	/* Not often, see reuse_test.c */
	if (random_number() % 64 || storm->switched == 10)
		return;
	storm->switched++;
	write_file(MIGRC "enabled", "0");
	random_delay(1000);
	write_file(MIGRC "enabled", "1");
}

static void compact(struct storm *storm)
{
	(void)storm;
	if (random_number() % 64 == 0)
		write_file("/proc/sys/vm/compact_memory", "1");
}

/* More often what makes work for MIGRC */
static void (* const disturbances[])(struct storm *storm) = {
	move_some, move_some, move_some, move_some, protect_some, protect_some, protect_all,
	page_out_some, drain, toggle, compact,
};

static void disturb(void *arg)
{
	struct storm *storm = arg;

	while (!atomic_load(&storm->stop)) {
		disturbances[random_number() % ARRAY_SIZE(disturbances)](storm);
		/* What is stale can be read until the next flush. */
		random_delay(5000);
	}
}

static void share(struct storm *storm)
{
	pid_t pid;

	(void)storm;
	if (random_number() % 4)
		return;
	pid = fork();
	if (!pid) {
		random_delay(2000);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void write_one(struct storm *storm)
{
	spot_write(crew_spot(storm->scene.crew, random_number() % NR_SPOTS));
}

/*
 * A move takes long here, and most spots would be written before they are unmapped: now none
 * is until they have moved.
 */
static void move_and_write(struct storm *storm)
{
	unsigned long nr;
	char *p = some(storm, &nr);
	int i;

	make_read_only(p, nr * PAGE, BY_UFFD);
	move_range(&storm->moves[1], p, nr);
	for (i = 0; i < NR_SPOTS; i++)
		if (random_number() % 2)
			spot_write(crew_spot(storm->scene.crew, i));
}

static void replace_one(struct storm *storm)
{
	int nr = random_number() % NR_SPOTS;
	struct spot *spot = crew_spot(storm->scene.crew, nr);
	char *page = storm->spots + nr * PAGE;

	spot_begin_change(spot);
	if (random_number() % 2)
		madvise(page, PAGE, MADV_DONTNEED);
	else if (mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
		      MAP_NORESERVE | MAP_FIXED, -1, 0) != page)
		abort();
	spot_write(spot);
	spot_end_change(spot);
}

static void protect_one(struct storm *storm)
{
	int nr = random_number() % NR_SPOTS;
	char *page = storm->spots + nr * PAGE;

	mprotect(page, PAGE, PROT_READ);
	random_delay(500);
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

static void (* const events[])(struct storm *storm) = {
	write_one, write_one, write_one, write_one, write_one, write_one, move_and_write,
	move_and_write, share, replace_one, protect_one,
};

TEST_F_TIMEOUT(storm, all, scene_timeout())
{
	struct storm *storm = self->storm;
	struct scene *scene = &storm->scene;
	unsigned long i;

	worker_run(scene->helper, disturb, storm);
	while (scene_goes_on(scene) && writers_clean(storm->writers)) {
		events[random_number() % ARRAY_SIZE(events)](storm);
		random_delay(1000);
	}
	atomic_store(&storm->stop, true);
	worker_wait(scene->helper);
	crew_settle(scene->crew);
	for (i = 0; i < NR_SPOTS && crew_clean(scene->crew); i++)
		EXPECT_TRUE(spot_intact(crew_spot(scene->crew, i), storm->spots + i * PAGE));
	EXPECT_TRUE(writers_stop(storm->writers))
		TH_LOG("%s", writers_say(storm->writers));
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", 1));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
