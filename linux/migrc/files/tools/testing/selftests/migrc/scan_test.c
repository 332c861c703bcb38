// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that NUMA balancing's scanner has made inaccessible, and has not flushed yet.
 *
 *   window	a hint fault: a worker promotes the page, and nothing is lost; must fail
 *		while fault_at_once is set in /sys/kernel/debug/migrc/
 *   postponed	promoted at once: it is not, but may be later; must fail while fault_postpone
 *		is set
 *   hint	what was deferred before is flushed when a hint fault makes the page writable;
 *		must fail while fault_numa is set
 *   touched	migrated meanwhile: not deferred; must fail while fault_touch is set
 *   spared	a page of another node than those that the scanner has touched: deferred
 *   others	a page of the fast node, which the scanner passes over, but userfaultfd is about
 *		to flush, too; must fail while fault_others is set
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kselftest_harness.h"

#include "scan.h"
#include "scene.h"
#include "writers.h"

#define NR_PAGES	8192UL
#define LEN		(NR_PAGES * PAGE)
#define NR_THREADS	3
/* So many pages have to be met like this. */
#define LEAST		20

FIXTURE(scan)
{
	struct scene scene;
	char *area;
	unsigned long wrong;
};

FIXTURE_SETUP(scan)
{
	const char *lacks = scene_begin(&self->scene, 0);
	size_t i;

	if (!lacks)
		lacks = scans_begin();
	if (lacks)
		SKIP(return, "%s", lacks);
	self->area = map_area(LEN);
	ASSERT_NE(NULL, self->area);
	for (i = 0; i < NR_PAGES; i++)
		word_write(self->area + i * PAGE, i);
}

FIXTURE_TEARDOWN(scan)
{
	scene_end(&self->scene);
}

struct reader {
	bool *stop;
	unsigned long *wrong;
	char *area;
	int cpu;
};

static void *read_pages(void *arg)
{
	struct reader *reader = arg;
	uint32_t state = reader->cpu + 1;

	pin(reader->cpu);
	while (!__atomic_load_n(reader->stop, __ATOMIC_RELAXED)) {
		unsigned long page;

		state = state * 1664525 + 1013904223;
		page = (state >> 8) % NR_PAGES;
		if (word_read(reader->area + page * PAGE) != page)
			__atomic_fetch_add(reader->wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Readers on all pages, until a row has risen by LEAST; returns how many were promoted. */
static unsigned long promote_for_readers(struct scene *scene, char *area, unsigned long *wrong,
					 const char *row)
{
	struct reader readers[NR_THREADS];
	pthread_t threads[NR_THREADS];
	unsigned long promoted = 0;
	bool stop = false;
	int i, nr;

	scene->missing = LEAST;
	if (!place(area, LEN, slow))
		return 0;
	for (nr = 0; nr < NR_THREADS; nr++) {
		readers[nr] = (struct reader) {
			.stop = &stop, .wrong = wrong,
			.area = area, .cpu = 1 + nr % (nr_cpus() - 1),
		};
		if (pthread_create(&threads[nr], NULL, read_pages, &readers[nr]))
			break;
	}
	while (nr == NR_THREADS && scene_goes_on(scene)) {
		if (count_on(area, NR_PAGES, fast) > NR_PAGES / 2) {
			promoted += NR_PAGES / 2;
			/* Some come back at once. */
			place(area, LEN, slow);
		}
		usleep(20000);
		scene->missing = LEAST - counter_since(&scene->before, row);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	return promoted + count_on(area, NR_PAGES, fast);
}

TEST_F_TIMEOUT(scan, window, scene_timeout())
{
	EXPECT_GE(promote_for_readers(&self->scene, self->area, &self->wrong,
				      "migrc_promote_later"), 1UL);
	EXPECT_EQ(0UL, self->wrong);
	EXPECT_TRUE(scene_rose(&self->scene, "migrc_promote_later", LEAST));
}

TEST_F_TIMEOUT(scan, postponed, scene_timeout())
{
	/* As if each scan had begun after its pages were met */
	ASSERT_EQ(0, set(MIGRC_DEBUG "fault_at_once", "1"));
	EXPECT_GE(promote_for_readers(&self->scene, self->area, &self->wrong,
				      "migrc_promote_postponed"), 1UL);
	EXPECT_EQ(0, set(MIGRC_DEBUG "fault_at_once", "0"));
	EXPECT_EQ(0UL, self->wrong);
	EXPECT_TRUE(scene_rose(&self->scene, "migrc_promote_postponed", LEAST));
}

/* How long a scan waits before it flushes */
#define WINDOW_MS	20
/* So often it has to be met in that time. */
#define NR_HITS		3

FIXTURE(hint)
{
	struct scene scene;
	struct scanner *scanner;
	char *area;
};

FIXTURE_SETUP(hint)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->scanner = scanner_start(1, WINDOW_MS);
	if (!self->scanner)
		SKIP(return, "no scans on demand");
	ASSERT_EQ(0, set(MIGRC "restore_readonly", "1"));
	ASSERT_EQ(0, set(MIGRC_DEBUG "fault_forget", "1"));
	self->area = map_area(HUGE);
	ASSERT_TRUE(self->area && place(self->area, PAGE, slow));
	ASSERT_TRUE(bind_to(self->area, PAGE, slow));
}

FIXTURE_TEARDOWN(hint)
{
	scanner_stop(self->scanner);
	scene_end(&self->scene);
}

TEST_F_TIMEOUT(hint, write, scene_timeout())
{
	struct scene *scene = &self->scene;
	struct spot *spot = crew_spot(scene->crew, 0);

	scene->missing = NR_HITS;
	spot_show(scene->crew, 0, self->area);
	while (scene_goes_on(scene)) {
		long forced = counter("migrc_force_numa");

		spot_hide(scene->crew, 0);
		/* Nothing but the node it is on has to be as it should. */
		make_read_only(self->area, PAGE, BY_RESTORE);
		scene_drain();
		/* The last of these migrations was not deferred: this ends what it has left. */
		madvise(self->area + PAGE, PAGE, MADV_DONTNEED);
		spot_show_again(scene->crew, 0, self->area);
		crew_settle(scene->crew);
		move_page(self->area, slow);
		crew_settle(scene->crew);
		scan_begin(self->scanner, self->area);
		spot_write(spot);
		crew_settle(scene->crew);
		scan_end(self->scanner);
		scene->missing -= counter("migrc_force_numa") > forced;
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_met(scene));
}

#define NR_TOUCHED	4

FIXTURE(touched)
{
	struct scene scene;
	struct scanner *scanner;
	struct writers *writers;
	struct moves *moves;
	char *area;
};

FIXTURE_SETUP(touched)
{
	const char *lacks = scene_begin(&self->scene, 0);
	char *pages[NR_TOUCHED];
	int i;

	if (lacks)
		SKIP(return, "%s", lacks);
	self->scanner = scanner_start(1, WINDOW_MS);
	if (!self->scanner)
		SKIP(return, "no scans on demand");
	self->area = map_area(HUGE);
	self->moves = calloc(1, sizeof(*self->moves));
	ASSERT_TRUE(self->area && self->moves && place(self->area, NR_TOUCHED * PAGE, slow));
	for (i = 0; i < NR_TOUCHED; i++)
		pages[i] = self->area + i * PAGE;
	self->writers = writers_start(2, pages, NR_TOUCHED);
	ASSERT_NE(NULL, self->writers);
}

FIXTURE_TEARDOWN(touched)
{
	scanner_stop(self->scanner);
	scene_end(&self->scene);
}

TEST_F_TIMEOUT(touched, move, scene_timeout())
{
	struct scene *scene = &self->scene;

	scene->missing = NR_HITS;
	while (scene_goes_on(scene) && writers_clean(self->writers)) {
		long skipped;

		moves_clear(self->moves);
		moves_add(self->moves, self->area, NR_TOUCHED, slow);
		moves_do(self->moves);
		writers_settle(self->writers);
		scan_begin(self->scanner, self->area);
		skipped = counter("migrc_skip_pending");
		moves_clear(self->moves);
		moves_add(self->moves, self->area, NR_TOUCHED, fast);
		moves_do(self->moves);
		scan_end(self->scanner);
		scene->missing -= counter("migrc_skip_pending") > skipped;
	}
	EXPECT_TRUE(writers_stop(self->writers))
		TH_LOG("%s", writers_say(self->writers));
	if (writers_clean(self->writers))
		EXPECT_TRUE(scene_met(scene));
}

/* A scan of slow pages is under way, and a page of the fast node moves. */
FIXTURE(spared)
{
	struct scene scene;
	struct scanner *scanner;
	char *slow_page;	/* for the scanner */
	char *area;
};

FIXTURE_SETUP(spared)
{
	const char *lacks = scene_begin(&self->scene, 1);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->scanner = scanner_start(1, WINDOW_MS);
	if (!self->scanner)
		SKIP(return, "no scans on demand");
	self->slow_page = map_area(HUGE);
	ASSERT_TRUE(self->slow_page && place(self->slow_page, PAGE, slow));
	ASSERT_TRUE(bind_to(self->slow_page, PAGE, slow));
	self->area = map_area(HUGE);
	ASSERT_TRUE(self->area && place(self->area, PAGE, fast));
	spot_show(self->scene.crew, 0, self->area);
	ASSERT_TRUE(make_read_only(self->area, PAGE, BY_UFFD));
}

FIXTURE_TEARDOWN(spared)
{
	scanner_stop(self->scanner);
	scene_end(&self->scene);
}

TEST_F_TIMEOUT(spared, move, scene_timeout())
{
	struct scene *scene = &self->scene;

	scene->missing = NR_HITS;
	while (scene_goes_on(scene)) {
		long deferred, spared;

		move_page(self->area, fast);
		word_write(self->slow_page, scene->rounds);
		crew_settle(scene->crew);
		scan_begin(self->scanner, self->slow_page);
		deferred = counter("migrc_deferred");
		spared = counter("migrc_scan_spared");
		move_page(self->area, slow);
		scene->missing -= counter("migrc_deferred") > deferred &&
				  counter("migrc_scan_spared") > spared;
		scan_end(self->scanner);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_met(scene));
}

/* What userfaultfd goes on with after the page, before it flushes, and a scan that lasts longer */
#define TAIL		(512UL << 20)
#define LONG_WINDOW_MS	150

FIXTURE(others)
{
	struct scene scene;
	struct scanner *scanner;
	struct writers *writers;
	char *slow_page;	/* for the scanner */
	char *area;
};

FIXTURE_SETUP(others)
{
	const char *lacks = scene_begin(&self->scene, 0);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->scanner = scanner_start(1, LONG_WINDOW_MS);
	if (!self->scanner)
		SKIP(return, "no scans on demand");
	self->slow_page = map_area(HUGE);
	ASSERT_TRUE(self->slow_page && place(self->slow_page, PAGE, slow));
	ASSERT_TRUE(bind_to(self->slow_page, PAGE, slow));
	self->area = map_area(TAIL);
	ASSERT_TRUE(self->area && place(self->area, PAGE, fast));
	/* PTEs of the zero page cost no memory. */
	ASSERT_EQ(0, madvise(self->area, TAIL, MADV_POPULATE_READ));
	/* To change the mapping takes a lock that a scan holds. */
	ASSERT_TRUE(make_read_only(self->area, TAIL, BY_UFFD));
	self->writers = writers_start(1, &self->area, 1);
	ASSERT_NE(NULL, self->writers);
}

FIXTURE_TEARDOWN(others)
{
	scanner_stop(self->scanner);
	scene_end(&self->scene);
}

static void protect(void *arg)
{
	uffd_protect(read_only_uffd(), arg, TAIL);
}

TEST_F_TIMEOUT(others, move, scene_timeout())
{
	struct scene *scene = &self->scene;

	scene->missing = NR_HITS;
	while (scene_goes_on(scene) && writers_clean(self->writers)) {
		long skipped;

		move_page(self->area, fast);
		word_write(self->slow_page, scene->rounds);
		writers_settle(self->writers);
		skipped = counter("migrc_skip_pending");
		scan_begin(self->scanner, self->slow_page);
		worker_run(scene->helper, protect, self->area);
		while (worker_busy(scene->helper) && !is_uffd_protected(self->area))
			;
		move_page(self->area, slow);
		worker_wait(scene->helper);
		scan_end(self->scanner);
		scene->missing -= counter("migrc_skip_pending") > skipped;
	}
	EXPECT_TRUE(writers_stop(self->writers))
		TH_LOG("%s", writers_say(self->writers));
	if (writers_clean(self->writers))
		EXPECT_TRUE(scene_met(scene));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
