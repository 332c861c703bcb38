// SPDX-License-Identifier: GPL-2.0
/*
 * Hint faults on pages that NUMA balancing's scanner has made inaccessible, and has not
 * flushed yet: a worker promotes them, and nothing is lost.
 */
#include <pthread.h>
#include <unistd.h>

#include "../kselftest_harness.h"

#include "scene.h"

#define NUMA		"/sys/kernel/debug/sched/numa_balancing/"
#define NR_PAGES	8192UL
#define LEN		(NR_PAGES * PAGE)
#define NR_THREADS	3
/* So many pages have to be met like this. */
#define LEAST		20

FIXTURE(scan)
{
	struct scene scene;
	char *area;
	pthread_t threads[NR_THREADS];
	bool stop;
	unsigned long wrong;
};

FIXTURE_SETUP(scan)
{
	static const char * const knobs[][2] = {
		{ "/proc/sys/kernel/numa_balancing", "2" },
		{ NUMA "scan_delay_ms", "1" },
		{ NUMA "scan_period_min_ms", "20" },
		{ NUMA "scan_period_max_ms", "100" },
		{ NUMA "hot_threshold_ms", "20000" },
	};
	const char *lacks = scene_begin(&self->scene, 0);
	size_t i;

	if (lacks)
		SKIP(return, "%s", lacks);
	for (i = 0; i < sizeof(knobs) / sizeof(*knobs); i++)
		if (set(knobs[i][0], knobs[i][1]))
			SKIP(return, "%s cannot be set", knobs[i][0]);
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

TEST_F_TIMEOUT(scan, window, scene_timeout())
{
	struct reader readers[NR_THREADS];
	struct scene *scene = &self->scene;
	unsigned long promoted = 0;
	int i;

	scene->missing = LEAST;
	ASSERT_TRUE(place(self->area, LEN, slow));
	for (i = 0; i < NR_THREADS; i++) {
		readers[i] = (struct reader) {
			.stop = &self->stop, .wrong = &self->wrong,
			.area = self->area, .cpu = 1 + i % (nr_cpus() - 1),
		};
		ASSERT_EQ(0, pthread_create(&self->threads[i], NULL, read_pages, &readers[i]));
	}
	while (scene_goes_on(scene)) {
		if (count_on(self->area, NR_PAGES, fast) > NR_PAGES / 2) {
			promoted += NR_PAGES / 2;
			/* Some come back at once. */
			place(self->area, LEN, slow);
		}
		usleep(20000);
		scene->missing = LEAST - counter_since(&scene->before, "migrc_promote_later");
	}
	__atomic_store_n(&self->stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < NR_THREADS; i++)
		pthread_join(self->threads[i], NULL);
	promoted += count_on(self->area, NR_PAGES, fast);
	EXPECT_EQ(0UL, self->wrong);
	EXPECT_GE(promoted, 1UL);
	EXPECT_TRUE(scene_rose(scene, "migrc_promote_later", LEAST));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
