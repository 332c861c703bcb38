// SPDX-License-Identifier: GPL-2.0
/*
 * Writes that must not be lost: a page must not be moved without a flush while a TLB may still
 * let somebody write it.
 *
 * Each test must fail while a switch in /sys/kernel/debug/migrc/ is set:
 *
 *   writable	fault_write; fork_storm: none, it meets the window of fault_fork too seldom
 *   downgrade	fault_pending; of fork: fault_fork
 */
#include <linux/userfaultfd.h>
#include <sys/prctl.h>
#include <signal.h>

#include "../kselftest_harness.h"

#include "scene.h"
#include "sharers.h"
#include "writers.h"

#define NR_PAGES	4
/* What fork copies after these pages, before it flushes */
#define AREA	(16UL << 20)

FIXTURE(writable)
{
	struct scene scene;
	struct writers *writers;
	struct moves *moves;
	char *area;
};

FIXTURE_VARIANT(writable)
{
	const char *restore_readonly;
};

FIXTURE_VARIANT_ADD(writable, plain) { .restore_readonly = "0" };
FIXTURE_VARIANT_ADD(writable, restore) { .restore_readonly = "1" };

FIXTURE_SETUP(writable)
{
	char *pages[NR_PAGES];
	int i;

	const char *lacks = scene_begin(&self->scene, 0);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->area = map_area(AREA);
	self->moves = calloc(1, sizeof(*self->moves));
	ASSERT_TRUE(self->area && self->moves && place(self->area, NR_PAGES * PAGE, slow));
	/* PTEs of the zero page cost no memory. */
	ASSERT_EQ(0, madvise(self->area, AREA, MADV_POPULATE_READ));
	for (i = 0; i < NR_PAGES; i++)
		pages[i] = self->area + i * PAGE;
	ASSERT_EQ(0, set(MIGRC "restore_readonly", variant->restore_readonly));
	/* The same pages are written again and again. */
	if (*variant->restore_readonly == '1')
		ASSERT_EQ(0, set(MIGRC_DEBUG "fault_forget", "1"));
	self->writers = writers_start(2, pages, NR_PAGES);
	ASSERT_NE(NULL, self->writers);
}

FIXTURE_TEARDOWN(writable)
{
	scene_end(&self->scene);
}

/* Ends them; says what was lost. */
static bool none_lost(struct scene *scene, struct writers *writers)
{
	if (writers_stop(writers))
		return true;
	ksft_print_msg("%s (after %.2f s, round %lu)\n", writers_say(writers),
		       now() - scene->begin, scene->rounds);
	return false;
}

/* Pages with writable PTEs go to and fro. */
TEST_F_TIMEOUT(writable, write, scene_timeout())
{
	struct scene *scene = &self->scene;
	unsigned long moved = 0;
	int nid = slow;

	while (scene_goes_on(scene) && writers_clean(self->writers)) {
		writers_settle(self->writers);
		nid = other_node(nid);
		moves_clear(self->moves);
		moves_add(self->moves, self->area, NR_PAGES, nid);
		/* Back at once: it may not have been written there. */
		if (random_number() % 2) {
			nid = other_node(nid);
			moves_add(self->moves, self->area, NR_PAGES, nid);
		}
		moved += moves_do(self->moves);
	}
	EXPECT_TRUE(none_lost(scene, self->writers));
	EXPECT_GE(moved, scene->rounds / 2);
	if (writers_clean(self->writers))
		EXPECT_TRUE(scene_rose(scene, "migrc_skip_write", 1));
}

/*
 * Write permission is taken away from a page and from a lot of memory behind it, and only then
 * is there a flush.  Meanwhile the page is migrated, whose PTE is read-only already.
 */
#define TAIL	(1024UL << 20)
/* So often a PTE has to be found read-only before its flush. */
#define NR_HITS	3

FIXTURE(downgrade)
{
	struct scene scene;
	struct writers *writers;
	struct moves *moves;
	char *area;		/* the page, and behind it the rest */
	struct sharers sharers;
};

enum way { WAY_UFFD, WAY_MPROTECT, WAY_SOFT_DIRTY, WAY_FORK };

FIXTURE_VARIANT(downgrade)
{
	enum way way;
};

FIXTURE_VARIANT_ADD(downgrade, uffd) { .way = WAY_UFFD };
FIXTURE_VARIANT_ADD(downgrade, mprotect) { .way = WAY_MPROTECT };
FIXTURE_VARIANT_ADD(downgrade, soft_dirty) { .way = WAY_SOFT_DIRTY };
FIXTURE_VARIANT_ADD(downgrade, fork) { .way = WAY_FORK };

FIXTURE_SETUP(downgrade)
{
	const char *lacks = scene_begin(&self->scene, 0);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->moves = calloc(1, sizeof(*self->moves));
	self->area = map_area(TAIL);
	ASSERT_TRUE(self->moves && self->area && sharers_start(&self->sharers));
	ASSERT_TRUE(place(self->area, PAGE, slow));
	/* PTEs of the zero page cost no memory. */
	ASSERT_EQ(0, madvise(self->area, TAIL, MADV_POPULATE_READ));
	if (variant->way == WAY_UFFD)
		ASSERT_TRUE(uffd_register(read_only_uffd(), self->area, TAIL,
					  UFFDIO_REGISTER_MODE_WP));
	self->writers = writers_start(1, &self->area, 1);
	ASSERT_NE(NULL, self->writers);
	if (variant->way == WAY_MPROTECT)
		ASSERT_TRUE(bear_faults());
}

FIXTURE_TEARDOWN(downgrade)
{
	scene_end(&self->scene);
	sharers_stop(&self->sharers);
}

static bool take_away(char *area, enum way way)
{
	pid_t pid;

	switch (way) {
	case WAY_UFFD:
		return uffd_protect(read_only_uffd(), area, TAIL);
	case WAY_MPROTECT:
		return !mprotect(area, TAIL, PROT_READ) &&
		       !mprotect(area, TAIL, PROT_READ | PROT_WRITE);
	case WAY_SOFT_DIRTY:
		return make_read_only(area, TAIL, BY_SOFT_DIRTY);
	case WAY_FORK:
		pid = fork();
		if (!pid)
			_exit(0);
		return pid > 0 && waitpid(pid, NULL, 0) == pid;
	}
	return false;
}

static void move_all(void *arg)
{
	moves_do(arg);
}

TEST_F_TIMEOUT(downgrade, race, scene_timeout())
{
	struct scene *scene = &self->scene;
	char *others = self->sharers.pages;
	int nid = slow;

	scene->missing = NR_HITS;
	while (scene_goes_on(scene) && writers_clean(self->writers)) {
		/* Some are migrated before the page: the time that it has to become read-only */
		unsigned int nr = 8 + random_number() % (NR_SHARED - 8);
		long skipped = counter("migrc_skip_pending");

		nid = other_node(nid);
		moves_clear(self->moves);
		moves_add(self->moves, others, nr, nid);
		moves_add(self->moves, self->area, 1, nid);
		moves_add(self->moves, others + nr * PAGE, NR_SHARED - nr, nid);
		writers_settle(self->writers);
		worker_run(scene->helper, move_all, self->moves);
		/* When it begins to unmap it needs the locks no more that we are to take. */
		while (worker_busy(scene->helper) && !is_swapped(others))
			;
		ASSERT_TRUE(take_away(self->area, variant->way));
		worker_wait(scene->helper);
		scene->missing -= counter("migrc_skip_pending") > skipped;
	}
	EXPECT_TRUE(none_lost(scene, self->writers));
	if (writers_clean(self->writers))
		EXPECT_TRUE(scene_met(scene));
}

/* Nobody waits for anybody: forks, moves and writes at any time */
TEST_F_TIMEOUT(writable, fork_storm, scene_timeout())
{
	struct scene *scene = &self->scene;
	int nid = slow;
	pid_t pid;

	scene->missing = 1;
	while (scene_goes_on(scene) && writers_clean(self->writers)) {
		pid = fork();
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			random_delay(3000);
			_exit(0);
		}
		ASSERT_GT(pid, 0);
		if (random_number() % 4) {
			nid = other_node(nid);
			moves_clear(self->moves);
			moves_add(self->moves, self->area, NR_PAGES, nid);
			worker_wait(scene->helper);
			worker_run(scene->helper, move_all, self->moves);
			random_delay(500);
		}
		waitpid(pid, NULL, 0);
		scene->missing = counter_since(&scene->before, "migrc_deferred") <= 0;
	}
	worker_wait(scene->helper);
	EXPECT_TRUE(none_lost(scene, self->writers));
	if (writers_clean(self->writers))
		EXPECT_TRUE(scene_rose(scene, "migrc_deferred", 1));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
