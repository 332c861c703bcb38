// SPDX-License-Identifier: GPL-2.0
/*
 * Races that the kernel has once lost, with MIGRC in them.
 *
 * - A page table entry is cleared by one CPU, which has not flushed yet; another CPU finds
 *   nothing to flush, and returns from munmap(), mprotect() or mremap() while a third still
 *   uses the page (3ea277194daa "mm, mprotect: flush TLB if potentially racing with a parallel
 *   reclaim leaving stale TLB entries", eb66ae030829 "mremap: properly flush TLB before
 *   releasing the page", 60bae7370896 "mm/migrate_device.c: flush TLB while holding PTL").
 *   Here: who reads after the system call has returned must be refused.
 * - NUMA balancing makes a PTE inaccessible and has not flushed yet; a fault migrates the page
 *   while a third CPU goes on writing (20841405940e "mm: fix TLB flush races between
 *   migration, and change_protection_range").
 *
 * The tests of refuse, but poison, must fail in the variant in_flight while fault_unmap is
 * set in /sys/kernel/debug/migrc/, and hint while fault_touch is.
 */
#include "../kselftest_harness.h"

#include "probe.h"
#include "scan.h"
#include "scene.h"
#include "sharers.h"
#include "writers.h"

#define AREA	HUGE
/* So often the event has to be in the middle of a migration. */
#define NR_HITS	3

#ifndef MADV_HWPOISON
#define MADV_HWPOISON	100
#endif

struct refuse {
	struct scene scene;
	struct worker *reader;
	struct sharers sharers;
	struct moves *moves;
};

FIXTURE(refuse)
{
	struct refuse data;
};

FIXTURE_VARIANT(refuse)
{
	bool in_flight;
};

FIXTURE_VARIANT_ADD(refuse, in_flight) { .in_flight = true };
FIXTURE_VARIANT_ADD(refuse, at_rest) { .in_flight = false };

FIXTURE_SETUP(refuse)
{
	const char *lacks = scene_begin(&self->data.scene, 0);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->data.moves = calloc(1, sizeof(*self->data.moves));
	self->data.reader = worker_start(nr_cpus() - 1);
	ASSERT_TRUE(self->data.moves && self->data.reader);
	ASSERT_TRUE(sharers_start(&self->data.sharers));
}

FIXTURE_TEARDOWN(refuse)
{
	worker_stop(self->data.reader);
	scene_end(&self->data.scene);
	sharers_stop(&self->data.sharers);
}

static void move_all(void *arg)
{
	moves_do(arg);
}

/* False if the page could still be read after @event had returned. */
static bool is_refused(struct refuse *self, bool in_flight, bool (*event)(char *page))
{
	struct scene *scene = &self->scene;
	int nid = other_node(node_of(self->sharers.pages));
	char *area = map_area(AREA);
	struct probe *probe;
	bool refused;

	if (!area || !place(area, PAGE, other_node(nid)) || !make_read_only(area, PAGE, BY_UFFD))
		return false;
	moves_clear(self->moves);
	moves_add(self->moves, area, 1, nid);
	moves_add(self->moves, self->sharers.pages, NR_SHARED, nid);
	probe = probe_start(self->reader, area);
	if (!probe)
		return false;
	worker_run(scene->helper, move_all, self->moves);
	if (!in_flight)
		worker_wait(scene->helper);
	while (in_flight && worker_busy(scene->helper))
		if (is_swapped(area)) {
			scene->missing--;
			break;
		}
	if (!event(area))
		ksft_print_msg("this does not work here: errno %d\n", errno);
	refused = probe_refused(probe);
	worker_wait(scene->helper);
	unmap_area(area, AREA);
	return refused;
}

#define EXPECT_REFUSED(event) \
	do { \
		bool refused = true; \
		self->data.scene.missing = variant->in_flight ? NR_HITS : 0; \
		while (refused && scene_goes_on(&self->data.scene)) \
			refused = is_refused(&self->data, variant->in_flight, event); \
		EXPECT_TRUE(refused) \
			TH_LOG("stale access: the page was read after that (round %lu)", \
			       self->data.scene.rounds); \
		EXPECT_TRUE(!refused || scene_rose(&self->data.scene, "migrc_deferred", \
						   self->data.scene.rounds)); \
		EXPECT_TRUE(!refused || scene_met(&self->data.scene)); \
	} while (0)

static bool forbid(char *page)
{
	return !mprotect(page, PAGE, PROT_NONE);
}

TEST_F_TIMEOUT(refuse, mprotect, scene_timeout())
{
	EXPECT_REFUSED(forbid);
}

static bool take_away(char *page)
{
	return !munmap(page, PAGE);
}

TEST_F_TIMEOUT(refuse, munmap, scene_timeout())
{
	EXPECT_REFUSED(take_away);
}

static bool move_away(char *page)
{
	char *there = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (there == MAP_FAILED ||
	    mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) != there)
		return false;
	/* And the page is released. */
	return !munmap(there, PAGE);
}

TEST_F_TIMEOUT(refuse, mremap, scene_timeout())
{
	EXPECT_REFUSED(move_away);
}

static bool poison(char *page)
{
	char pfn[32];

	snprintf(pfn, sizeof(pfn), "%#llx", (unsigned long long)pfn_of(page));
	if (madvise(page, PAGE, MADV_HWPOISON))
		return false;
	write_file("/sys/kernel/debug/hwpoison/unpoison-pfn", pfn);
	return true;
}

/* Memory failure of what a page was migrated to */
TEST_F_TIMEOUT(refuse, poison, scene_timeout())
{
	if (!exists("/sys/kernel/debug/hwpoison/unpoison-pfn"))
		SKIP(return, "no CONFIG_HWPOISON_INJECT");
	if (variant->in_flight)
		SKIP(return, "there is no page to be poisoned");
	EXPECT_REFUSED(poison);
}

#define NR_PAGES	8
/* How long it has not flushed yet */
#define WINDOW_MS	40

FIXTURE(hint)
{
	struct scene scene;
	struct scanner *scanner;
};

FIXTURE_SETUP(hint)
{
	const char *lacks = scene_begin(&self->scene, 0);

	if (lacks)
		SKIP(return, "%s", lacks);
	lacks = scans_begin();
	if (lacks)
		SKIP(return, "%s", lacks);
	self->scanner = scanner_start(1, WINDOW_MS);
	if (!self->scanner)
		SKIP(return, "no scans on demand");
}

FIXTURE_TEARDOWN(hint)
{
	scanner_stop(self->scanner);
	scene_end(&self->scene);
}

/*
 * Written all the time, made inaccessible, brought near by hint faults or without, and taken away
 * again, at any time
 */
TEST_F_TIMEOUT(hint, write, scene_timeout())
{
	long faults = counter("numa_hint_faults");
	struct scene *scene = &self->scene;
	struct writers *writers;
	char *pages[NR_PAGES];
	struct moves *moves;
	int i, hits = 0;
	char *area;

	area = map_area(HUGE);
	moves = calloc(1, sizeof(*moves));
	ASSERT_TRUE(area && moves && place(area, NR_PAGES * PAGE, slow));
	for (i = 0; i < NR_PAGES; i++)
		pages[i] = area + i * PAGE;
	writers = writers_start(2, pages, NR_PAGES);
	ASSERT_NE(NULL, writers);
	scene->missing = 1;
	while (scene_goes_on(scene) && writers_clean(writers)) {
		long skipped = counter("migrc_skip_pending");

		if (random_number() % 4 == 0)
			make_read_only(area, NR_PAGES * PAGE, BY_SOFT_DIRTY);
		scan_begin(self->scanner, area);
		random_delay(WINDOW_MS * 500);
		moves_clear(moves);
		moves_add(moves, area, NR_PAGES, other_node(node_of(area)));
		moves_do(moves);
		scan_end(self->scanner);
		hits += counter("migrc_skip_pending") > skipped;
		scene->missing = hits < NR_HITS || counter("numa_hint_faults") == faults;
	}
	EXPECT_TRUE(writers_stop(writers))
		TH_LOG("%s", writers_say(writers));
	if (writers_clean(writers)) {
		EXPECT_GT(counter("numa_hint_faults"), faults);
		EXPECT_TRUE(scene_met(scene));
	}
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
