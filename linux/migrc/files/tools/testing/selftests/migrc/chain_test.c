// SPDX-License-Identifier: GPL-2.0
/*
 * From A to B, and from there to C, without a flush: one reader still has A, another one B,
 * and both A and B are kept.  Then C is written.
 *
 * Each move_pages(2) drains what is deferred when it begins, so all moves are those of one.
 *
 * Must fail while fault_wp is set in /sys/kernel/debug/migrc/.
 */
#include "../kselftest_harness.h"

#include "scene.h"

/* Moved besides, which gives the one that reads B the time to do so */
#define OTHERS	200UL
#define HOPS	3

FIXTURE(chain)
{
	struct scene scene;
	struct moves *moves;
	char *area;
};

FIXTURE_SETUP(chain)
{
	const char *lacks = scene_begin(&self->scene, 1);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->area = map_area(HUGE);
	self->moves = calloc(1, sizeof(*self->moves));
	ASSERT_TRUE(self->area && self->moves);
	ASSERT_TRUE(place(self->area, (1 + OTHERS) * PAGE, slow));
}

FIXTURE_TEARDOWN(chain)
{
	scene_end(&self->scene);
}

/* One that begins to read when the page has been migrated for the first time */
struct late {
	struct crew *crew;
	char *page;
	uint64_t pfn;
	atomic_ulong reads;
	atomic_bool stop;
	bool began;
};

static void read_late(void *arg)
{
	struct spot *spot = crew_spot(((struct late *)arg)->crew, 0);
	struct late *late = arg;
	struct finding finding;
	uint64_t pfn;

	do {
		pfn = pfn_of(late->page);
	} while ((!pfn || pfn == late->pfn) && !atomic_load(&late->stop));
	late->began = true;
	while (!atomic_load(&late->stop)) {
		if (!spot_judge(spot, &finding)) {
			finding.spot = 0;
			finding.cpu = 1;
			crew_report(late->crew, &finding);
		}
		atomic_fetch_add(&late->reads, 1);
	}
}

TEST_F_TIMEOUT(chain, write, scene_timeout())
{
	struct late *late = shared_alloc(sizeof(*late));
	struct scene *scene = &self->scene;
	unsigned long hit = 0, reads;
	int i, nid = slow;

	ASSERT_NE(NULL, late);
	late->crew = scene->crew;
	late->page = self->area;
	spot_show(scene->crew, 0, self->area);
	while (scene_goes_on(scene)) {
		ASSERT_TRUE(make_read_only(self->area, (1 + OTHERS) * PAGE, BY_UFFD));
		moves_clear(self->moves);
		for (i = 0; i < HOPS; i++) {
			nid = other_node(nid);
			moves_add(self->moves, self->area, 1 + OTHERS, nid);
		}
		crew_settle(scene->crew);
		late->pfn = pfn_of(self->area);
		atomic_store(&late->stop, false);
		late->began = false;
		worker_run(scene->helper, read_late, late);
		moves_do(self->moves);
		hit += late->began;
		spot_write(crew_spot(scene->crew, 0));
		crew_settle(scene->crew);
		reads = atomic_load(&late->reads);
		while (late->began && atomic_load(&late->reads) < reads + 2)
			usleep(20);
		atomic_store(&late->stop, true);
		worker_wait(scene->helper);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds * OTHERS));
	EXPECT_TRUE(scene_rose(scene, "migrc_force_wp", scene->rounds / 2));
	if (crew_clean(scene->crew))
		EXPECT_GE(hit, 1);
	shared_free(late, sizeof(*late));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
